"""What the choices inside the compiled loops are worth: the time of the other choice over that of the one taken, so that a figure
above 1 speaks for what is there. Prints one JSON object.

    python benchmarks/kernels.py

signed_count              A x over sparse rows with entries counted by signed integers
signed_indices            A x with indices that are signed
listed_over_as_they_lie   A x over a list of all rows, in their order, over A x over all rows
unasked_over_asked        an epoch of Algorithm 1 in a random order that does not ask for rows ahead
branches_over_vectors     putting rows of a dual pass to rest and listing the others by a loop with branches
one_by_one_over_vectors   a function of every sample, called for one at a time, over its loop in vectors: of losses, by name
library_over_series       the logistic loss of every sample by the C library's exp and log, over series that run in vectors
within_over_apart         an epoch over dense rows whose loops stand in the kernel that calls the loss
layout                    a product of the ordered matrix with U and R stored the other way: apart for sparse rows, side by side for
                          dense ones
each_over_four            A' diag(c) A x over dense rows one by one, over four at a time
loop_over_blas            the Hessian of a dense matrix by the loop for sparse ones
whole_over_chunks         the same product through BLAS at once, over that in chunks
double_over_native        A x of a float64 copy that is there already, over A x read in the type that is stored
convert_over_native       the same with the time to make that copy
many_over_one             a system with a Cholesky factor by LAPACK's routine for many right sides, over two triangles one by one
prices                    not of a choice: a Hessian and its factorisation over a product with all rows, and the same as
                          `Rows.hessian_cost` and `Rows.blas_speed` say it

Each figure is a ratio of the fastest of runs taken in turns, in one thread. The data are generated: short sparse rows (14 entries),
long ones (75 entries of 47000 features, as text has), and dense matrices.
"""

import json
import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack
from threadpoolctl import threadpool_limits

from reshuffle._compiled import of_sample
from reshuffle.losses import get_loss, loops
from reshuffle.losses.base import compiled, compiled_over
from reshuffle.rows import in_memory, kernels
from reshuffle.solver.certified.sdca import awake, rest

REPEATS = 31
SPARSE = {"short rows": (40_000, 120, 14), "text": (20_000, 47_000, 75)}
PRICED = {"short sparse rows": (40_000, 120, 14), "long sparse rows": (5_000, 780, 150)}
ROWS = 6_000
DENSE = {"d = 22": (100_000, 22), "d = 90": (5_000, 90), "d = 123": (20_000, 123), "d = 784": (5_000, 784)}
REASSOCIATE = {"contract", "reassoc", "nsz"}


def over(other: Callable[[], Any], ours: Callable[[], Any]) -> float:
    """The least time of `other` over that of `ours`, of runs taken in turns after one of each."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(REPEATS + 1):
        for action, mine in zip((other, ours), times, strict=True):
            began = time.perf_counter()
            action()
            mine.append(time.perf_counter() - began)
    return min(times[0][1:]) / min(times[1][1:])


def generated(n: int, d: int, row: int) -> Any:
    """n rows of `row` entries each, heavier towards the first columns, as counts and tf-idf are."""
    rng = np.random.default_rng(0)
    columns = (d * rng.random((n, row)) ** 2).astype(np.int32)
    X = sp.csr_matrix((rng.random(n * row), columns.ravel(), np.arange(0, n * row + 1, row, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    return X


# --- the loops with one thing changed


def margins(dot: Any) -> Any:
    @numba.njit(nogil=True, fastmath=REASSOCIATE)  # type: ignore[untyped-decorator]
    def kernel(A: Any, x: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = dot(A, i, x)

    return kernel


def signed_dot(A: Any, i: Any, x: Any) -> Any:
    indptr, indices, values = A
    total = 0.0
    for k in range(indptr[i], indptr[i + 1]):
        total += values[k] * x[indices[k]]
    return total


def epoch(dot: Any, add: Any) -> Any:
    @numba.njit(nogil=True, fastmath={"contract"})  # type: ignore[untyped-decorator]
    def kernel(A: Any, visit: Any, labels: Any, derivative: Any, step: float, x: Any) -> None:
        derivative = of_sample(derivative)
        for i in visit:
            add(A, i, -step * derivative(dot(A, i, x), labels[i], 0.0), x)

    return kernel


def product(move: Any) -> Any:
    @numba.njit(nogil=True, fastmath=REASSOCIATE)  # type: ignore[untyped-decorator]
    def kernel(A: Any, v: Any, state: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = move(A, i, i + 1.0, (i + 1.0) * v[i], -v[i], state)

    return kernel


def sparse_move_apart(A: Any, i: Any, t: Any, to_u: Any, to_r: Any, state: Any) -> Any:
    U, R = state[0], state[1]
    along_u = along_r = 0.0
    for k in range(kernels.begin(A, i), kernels.end(A, i)):
        j, a = kernels.column(A, k), kernels.entry(A, i, k)
        u, r = U[j], R[j]
        along_u += a * u
        along_r += a * r
        U[j] = u + to_u * a
        R[j] = r + to_r * a
    return along_u + t * along_r


def dense_move_beside(A: Any, i: Any, t: Any, to_u: Any, to_r: Any, state: Any) -> Any:
    along = 0.0
    for j in range(kernels.begin(A, i), kernels.end(A, i)):
        a, u, r = kernels.entry(A, i, j), state[j, 0], state[j, 1]
        along += a * (u + t * r)
        state[j, 0] = u + to_u * a
        state[j, 1] = r + to_r * a
    return along


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def rest_with_branches(gains: Any, below: float, longest: int, rests: Any, left: Any, awake: Any) -> int:
    gained, visited = 0.0, 0
    for i in range(gains.size):
        if left[i] == 0:
            gained += gains[i]
            visited += 1
    enough, count = below * gained / max(visited, 1), 0
    for i in range(gains.size):
        if left[i] > 0:
            left[i] -= 1
        elif gains[i] <= enough:
            rests[i] = min(rests[i] + 1, longest)
            left[i] = rests[i]
        else:
            rests[i] = 0
        if left[i] == 0:
            awake[count] = i
            count += 1
    return count


@numba.njit(nogil=True)  # type: ignore[untyped-decorator]
def one_by_one(function: Any, z: Any, labels: Any, out: Any) -> None:
    function = of_sample(function)
    for i in range(z.size):
        out[i] = function(z[i], labels[i], 0.0)


@numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})  # type: ignore[untyped-decorator]
def logistic_by_library(z: Any, labels: Any, out: Any) -> None:
    for i in range(z.size):
        margin = labels[i] * z[i]
        out[i] = np.log1p(np.exp(-abs(margin))) + max(-margin, 0.0)


# --- what is measured


def losses_of_samples() -> dict[str, Any]:
    rng, found = np.random.default_rng(0), {}
    z, out = 3.0 * rng.standard_normal(30_000), np.empty(30_000)
    y = np.where(rng.random(z.size) < 0.5, -1.0, 1.0)
    for name in ("logistic", "squared_hinge"):
        one, many = compiled(get_loss(name), "value"), compiled_over(get_loss(name), "value")
        found[name] = over(partial(one_by_one, one, z, y, out), partial(loops.apply_loss, many, z, y, 0.0, out))
    series = compiled_over(get_loss("logistic"), "value")
    by_library = over(lambda: logistic_by_library(z, y, out), lambda: loops.apply_loss(series, z, y, 0.0, out))
    return {"one_by_one_over_vectors": found, "library_over_series": by_library}


def dual_passes() -> dict[str, float]:
    n = ROWS
    drawn = iter(np.random.default_rng(1).exponential(size=(2 * (REPEATS + 1), n)) ** 3)  # new ones each time: none can be learnt
    rests, left, rows_awake = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8), np.empty(n, dtype=np.int32)
    own_rests, own_left = rests.copy(), left.copy()

    def in_vectors() -> None:
        rest(next(drawn), 0.3, 0.0, 7, own_rests, own_left)
        awake(own_left, rows_awake)

    return {
        "branches_over_vectors": over(lambda: rest_with_branches(next(drawn), 0.3, 7, rests, left, rows_awake), in_vectors),
    }


def one_sparse(X: Any) -> dict[str, float]:
    rows, (n, d) = in_memory(X), X.shape
    A, x, out = rows.A, np.ones(d), np.empty(n)
    ours, signed = margins(kernels.row_dot), margins(kernels._by_storage(signed_dot, None))
    signed_A = X.indptr, X.indices, X.data
    every, order = np.arange(n), np.random.default_rng(0).permutation(n)
    derivative, ones, dual = compiled(get_loss("logistic"), "derivative"), np.ones(n), np.empty(n)

    def sgd(ahead: bool) -> None:
        kernels.sgd_epoch(A, ones, ones, order, ahead, 1, 1e-4, 1e-4, derivative, 0.0, x, False, dual, None, None)

    beside, apart = product(kernels.row_move), product(kernels._by_storage(sparse_move_apart, None))
    v, together, separate = np.ones(n) / n, np.zeros((d, 2)), np.zeros((2, d))
    return {
        "signed_count": over(lambda: signed(A, x, out), lambda: ours(A, x, out)),
        "signed_indices": over(lambda: ours(signed_A, x, out), lambda: ours(A, x, out)),
        "listed_over_as_they_lie": over(lambda: rows.margins(x, every), lambda: rows.margins(x)),
        "unasked_over_asked": over(lambda: sgd(False), lambda: sgd(True)),
        "layout": over(lambda: apart(A, v, separate, out), lambda: beside(A, v, together, out)),
    }


def one_dense(n: int, d: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    X = rng.random((n, d))
    rows, sparse = in_memory(X), in_memory(sp.csr_array(X))
    A, x, out, every, ones = rows.A, np.zeros(d), np.empty(n), rng.permutation(n), np.ones(n)
    derivative = compiled(get_loss("logistic"), "derivative")
    within, set_apart = epoch(kernels.row_dot, kernels.row_add), epoch(kernels.row_dot_apart, kernels.row_add_apart)
    apart, beside = product(kernels.row_move), product(kernels._by_storage(None, dense_move_beside))
    v, separate, together = ones / n, np.zeros((2, d)), np.zeros((d, 2))
    each, none, total = numba.njit(nogil=True, fastmath=REASSOCIATE)(kernels._product_of_each), every[:0], np.zeros(d)

    def whole() -> Any:
        B = X * np.sqrt(ones)[:, None]
        return B.T @ B

    figures: dict[str, Any] = {
        "within_over_apart": over(
            lambda: within(A, every, ones, derivative, 1e-6, x), lambda: set_apart(A, every, ones, derivative, 1e-6, x)
        ),
        "layout": over(lambda: beside(A, v, together, out), lambda: apart(A, v, separate, out)),
        "each_over_four": over(lambda: each(A, none, ones, x, 0.0, out, total), lambda: rows.curved_product(ones, x)),
        "loop_over_blas": over(lambda: sparse.hessian(ones), lambda: rows.hessian(ones)),
        "whole_over_chunks": over(whole, lambda: rows.hessian(ones)),
        "double_over_native": {},
        "convert_over_native": {},
    }
    for kind in (np.uint8, np.float16, np.float32):
        stored = (255 * X).astype(kind)
        native, double, name = in_memory(stored), in_memory(stored.astype(np.float64)), np.dtype(kind).name
        figures["double_over_native"][name] = over(lambda: double.margins(x), lambda: native.margins(x))  # noqa: B023 called here
        figures["convert_over_native"][name] = over(
            lambda: in_memory(stored.astype(np.float64)).margins(x),  # noqa: B023
            lambda: native.margins(x),  # noqa: B023
        )
    return figures


def prices(rows: Any) -> dict[str, float]:
    n, d = rows.shape
    ones, x = np.ones(n), np.ones(d)
    H, ridge = rows.rough_hessian(ones), np.ones(d)
    factor, inverse = lapack.dpotrf(H.T / n + np.eye(d), lower=0)[0], rows.factorised(H, n, ridge)
    said = {"hessian": rows.hessian_cost(), "factor": d**3 / (3.0 * rows.blas_speed() * rows.entries)}
    return {
        "hessian": over(lambda: rows.rough_hessian(ones), lambda: rows.curved_product(ones, x)),
        "factor": over(lambda: rows.factorised(H, n, ridge), lambda: rows.curved_product(ones, x)),
        **{f"{name}_said": 0.5 * cost for name, cost in said.items()},
        "many_over_one": over(lambda: lapack.dpotrs(factor, x, lower=0), lambda: inverse(x)),
    }


def priced() -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(0)
    sparse = {name: prices(in_memory(generated(*shape))) for name, shape in PRICED.items()}
    return {**sparse, **{name: prices(in_memory(rng.random(shape))) for name, shape in DENSE.items()}}


def main() -> None:
    with threadpool_limits(1):
        report = {
            **{name: one_sparse(generated(*shape)) for name, shape in SPARSE.items()},
            **{name: one_dense(*shape) for name, shape in DENSE.items()},
            "losses": losses_of_samples(),
            "dual passes": dual_passes(),
            "prices": priced(),
        }
    print(json.dumps({**report, "cores": os.cpu_count()}, indent=1))


if __name__ == "__main__":
    main()
