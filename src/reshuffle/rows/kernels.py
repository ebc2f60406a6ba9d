"""Every compiled loop over rows, once. Storages differ in how an entry is read, not in how an algorithm goes.

`A` is how rows lie in memory: (indptr, indices, values) for CSR, (X,) for a dense matrix of any real type, (bits, HALF) for one of
float16, which numba knows as bits alone, (indptr, indices, values, along, square, d) for CSR from whose rows a centre is taken
away. The functions of one row are compiled for each rounding (`fastmath`) that a kernel asks for, and inlined by LLVM: numba's own
inlining makes the same code in three to six times the time. None of them may both loop and raise, or references are counted in
every call. Kernel and helpers share this file: numba's cache does not notice edits in another.

x holds the d coefficients and, with an intercept, one more entry for it. `rows` and `visit` list the rows to read, in that order;
where `rows` is empty all are read as they lie.

Where a body differs between storages, or from how one would write it first, `benchmarks/kernels.py` measures what that is worth;
the figures beside the code are what it prints, from run to run.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic, overload

from reshuffle._compiled import CHECKED, Kernel, jit, of_sample, prefetch, prefetch_range, prox_of_sample

HALF = np.float32(2.0**112)  #: what is left between the exponents of float16 and float32 once the bits have been moved
_CONTRACT = {"contract"}
_REASSOCIATE = {"contract", "reassoc", "nsz"}
_NEAR, _FAR = 4, 12  # rows ahead whose entries, and whose place, are asked for; without, an epoch takes 1.06 to 1.23 times as long
_WIDE = 20  # entries of dense rows from which on four are worked with at a time
_SMALLEST_SCALE = 1e-9  # of x inside an epoch, before it is multiplied in


@intrinsic  # type: ignore[untyped-decorator]
def _as_float32(typing_context: Any, bits: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.uint32), emit


# --- one row

_INLINED = {"forceinline": True, "no_cfunc_wrapper": True, "boundscheck": CHECKED}


def _by_storage(sparse: Any, dense: Any, half: Any = None, centred: Any = None) -> Any:
    """A function that kernels call, of the body that the storage asks for."""
    bodies = {3: sparse, 1: dense, 2: half or dense, 6: centred or sparse}

    def function(*arguments: Any) -> Any:
        raise NotImplementedError("compiled code alone can call this")

    overload(function, _INLINED, strict=False)(lambda A, *others: bodies[len(A)])
    return function


def _half(A: Any, i: Any, k: Any) -> Any:
    bits = np.uint32(A[0][i, k])
    moved = ((bits & np.uint32(0x7FFF)) << np.uint32(13)) | ((bits & np.uint32(0x8000)) << np.uint32(16))
    return np.float64(_as_float32(np.uint32(moved)) * A[1])


# The entries of row i are those with k in range(begin(A, i), end(A, i)). k is unsigned, which spares numba's check for negative
# ones: counted with signed integers, A x over sparse rows takes 1.5 to 2.1 times as long.
begin = _by_storage(lambda A, i: np.uint64(A[0][i]), lambda A, i: np.uint64(0))
end = _by_storage(lambda A, i: np.uint64(A[0][i + 1]), lambda A, i: np.uint64(A[0].shape[1]))
column = _by_storage(lambda A, k: A[1][k], lambda A, k: k)
entry = _by_storage(lambda A, i, k: np.float64(A[2][k]), lambda A, i, k: np.float64(A[0][i, k]), _half)


def inlined(body: Kernel) -> Kernel:
    """A body for all storages."""
    return _by_storage(body, body)  # type: ignore[no-any-return]


# Rows a_i - c, of which the centre c is taken away, are never formed. Instead of x a kernel then holds w, k and c'x, where
# x = w - k c: to add f (a_i - c) to x is to add f a_i to w, f to k and f (a_i'c - |c|^2) to c'x, and (a_i - c)'x is
# a_i'w - k a_i'c - c'x, so a step costs the entries of its row. k and c'x stand behind the d entries of w and before an intercept;
# `along` holds a_i'c of every row, `square` is |c|^2. This section is all that kernels know of it, and A[:3] is what is stored.


@inlined
def _centre_dot(A: Any, i: Any, x: Any) -> Any:
    """(a_i - c)'x - a_i'w."""
    return -x[A[5]] * A[3][i] - x[A[5] + np.uint64(1)]


@inlined
def _centre_add(A: Any, i: Any, factor: Any, x: Any) -> None:
    x[A[5]] += factor
    x[A[5] + np.uint64(1)] += factor * (A[3][i] - A[4])


@inlined
def _centre_square(A: Any, i: Any) -> Any:
    """|a_i - c|^2 - |a_i|^2."""
    return A[4] - 2.0 * A[3][i]


def _centred_dot(A: Any, i: Any, x: Any) -> Any:
    return row_dot(A[:3], i, x) + _centre_dot(A, i, x)


def _centred_dots(A: Any, i: Any, x: Any, s: Any) -> Any:
    along_x, along_s = row_dots(A[:3], i, x, s)
    return along_x + _centre_dot(A, i, x), along_s + _centre_dot(A, i, s)


def _centred_add(A: Any, i: Any, factor: Any, x: Any) -> None:
    row_add(A[:3], i, factor, x)
    _centre_add(A, i, factor, x)


def _centred_square(A: Any, i: Any) -> Any:
    return row_square(A[:3], i) + _centre_square(A, i)


def _centred_fold(A: Any, i: Any, factor: Any, x: Any) -> Any:
    total = _centre_dot(A, i, x) + 0.5 * factor * _centre_square(A, i)
    _centre_add(A, i, factor, x)
    return total + row_fold(A[:3], i, factor, x)


def _centred_move(A: Any, i: Any, t: Any, to_u: Any, to_r: Any, state: Any) -> Any:
    U, R = state[:, 0], state[:, 1]
    total = _centre_dot(A, i, U) + t * _centre_dot(A, i, R)
    _centre_add(A, i, to_u, U)
    _centre_add(A, i, to_r, R)
    return total + row_move(A[:3], i, t, to_u, to_r, state)


def _centred_ahead(A: Any, visit: Any, p: Any) -> None:
    row_ahead(A[:3], visit, p)
    prefetch(A[3], visit[p + _NEAR])


def _centred_clear(A: Any, members: Any, low: Any, high: Any, work: Any) -> None:
    clear(A[:3], members, low, high, work)
    work[A[5]] = work[A[5] + np.uint64(1)] = 0.0


def _unless(centred: Any) -> Callable[[Kernel], Kernel]:
    """A body for all storages but centred ones."""
    return lambda body: _by_storage(body, body, centred=centred)


@_unless(_centred_dot)
def row_dot(A: Any, i: Any, x: Any) -> Any:
    """a_i'x without the intercept."""
    total = 0.0
    for k in range(begin(A, i), end(A, i)):
        total += entry(A, i, k) * x[column(A, k)]
    return total


@_unless(_centred_dots)
def row_dots(A: Any, i: Any, x: Any, s: Any) -> Any:
    """a_i'x and a_i's without the intercept."""
    along_x = along_s = 0.0
    for k in range(begin(A, i), end(A, i)):
        j, a = column(A, k), entry(A, i, k)
        along_x += a * x[j]
        along_s += a * s[j]
    return along_x, along_s


@_unless(_centred_add)
def row_add(A: Any, i: Any, factor: Any, x: Any) -> None:
    """x += factor a_i without the intercept."""
    for k in range(begin(A, i), end(A, i)):
        x[column(A, k)] += factor * entry(A, i, k)


_apart = jit(fastmath=_REASSOCIATE, forceinline=False)  # which would else be that of the function it is called from


@_apart
def _dense_dot_apart(A: Any, i: Any, x: Any) -> Any:
    return row_dot(A, i, x)


@_apart
def _dense_dots_apart(A: Any, i: Any, x: Any, s: Any) -> Any:
    return row_dots(A, i, x, s)


@_apart
def _dense_add_apart(A: Any, i: Any, factor: Any, x: Any) -> None:
    row_add(A, i, factor, x)


# For kernels that call a function of a loss: in one with such a call LLVM leaves loops over dense rows scalar, so they get
# functions of their own (without, an epoch takes 2.4 to 3.2 times as long at d = 784, 0.8 to 1 at d = 22). Sparse ones stay.
row_dot_apart = _by_storage(lambda A, i, x: row_dot(A, i, x), lambda A, i, x: _dense_dot_apart(A, i, x))
row_dots_apart = _by_storage(lambda A, i, x, s: row_dots(A, i, x, s), lambda A, i, x, s: _dense_dots_apart(A, i, x, s))
row_add_apart = _by_storage(
    lambda A, i, factor, x: row_add(A, i, factor, x), lambda A, i, factor, x: _dense_add_apart(A, i, factor, x)
)


@inlined
def row_add_squares(A: Any, i: Any, factor: Any, x: Any) -> None:
    """x += factor times the squares of a_i."""
    for k in range(begin(A, i), end(A, i)):
        x[column(A, k)] += factor * entry(A, i, k) ** 2


@_unless(_centred_square)
def row_square(A: Any, i: Any) -> Any:
    """|a_i|^2 without the intercept; a row holds a column at most once."""
    total = 0.0
    for k in range(begin(A, i), end(A, i)):
        total += entry(A, i, k) ** 2
    return total


@_unless(_centred_fold)
def row_fold(A: Any, i: Any, factor: Any, x: Any) -> Any:
    """a_i'x + (factor / 2)|a_i|^2, half of what |x|^2 grows by over the factor, and x += factor a_i."""
    total = 0.0
    for k in range(begin(A, i), end(A, i)):
        j, a = column(A, k), entry(A, i, k)
        before = x[j]
        total += a * (before + 0.5 * factor * a)
        x[j] = before + factor * a
    return total


def _sparse_move(A: Any, i: Any, t: Any, to_u: Any, to_r: Any, state: Any) -> Any:
    along_u = along_r = 0.0
    for k in range(begin(A, i), end(A, i)):
        j, a = column(A, k), entry(A, i, k)
        u, r = state[j, 0], state[j, 1]
        along_u += a * u
        along_r += a * r
        state[j, 0] = u + to_u * a
        state[j, 1] = r + to_r * a
    return along_u + t * along_r


def _dense_move(A: Any, i: Any, t: Any, to_u: Any, to_r: Any, state: Any) -> Any:
    U, R = state[0], state[1]
    along = 0.0
    for j in range(begin(A, i), end(A, i)):
        a, u, r = entry(A, i, j), U[j], R[j]
        along += a * (u + t * r)
        U[j] = u + to_u * a
        R[j] = r + to_r * a
    return along


#: (A, i, t, to_u, to_r, state): a_i'(U + t R), and U += to_u a_i, R += to_r a_i while the row is at hand. Sparse rows keep U and R
#: of a feature in one cache line (apart, a product takes 1.2 to 1.7 times as long on text, the same on short rows), dense ones
#: apart, so that sums run in vectors (side by side, 1.8 to 4 times as long).
row_move = _by_storage(_sparse_move, _dense_move, centred=_centred_move)
later_rows = _by_storage(lambda A, state: state[:, 1], lambda A, state: state[1])  #: (A, state): R


def _sparse_ahead(A: Any, visit: Any, p: Any) -> None:
    prefetch(A[0], visit[p + _FAR])
    i = visit[p + _NEAR]
    prefetch_range(A[1], begin(A, i), end(A, i))
    prefetch_range(A[2], begin(A, i), end(A, i))


#: (A, visit, p): ask for rows that will be visited soon, which in a random order the processor cannot guess; dense ones it can
row_ahead = _by_storage(_sparse_ahead, lambda A, visit, p: None, centred=_centred_ahead)


def _sparse_clear(A: Any, members: Any, low: Any, high: Any, work: Any) -> None:
    for p in range(low, high):
        for k in range(begin(A, members[p]), end(A, members[p])):
            work[column(A, k)] = 0.0


def _dense_clear(A: Any, members: Any, low: Any, high: Any, work: Any) -> None:
    work[:] = 0.0


#: (A, members, low, high, work): zero again what these rows have touched
clear = _by_storage(_sparse_clear, _dense_clear, centred=_centred_clear)


# --- sums over rows


@jit(fastmath=_REASSOCIATE)
def squared_norms(A: Any, out: Any) -> None:
    """|a_i|^2 of every row, without the intercept."""
    for i in range(out.size):
        out[i] = row_square(A, i)


@jit(fastmath=_REASSOCIATE)
def margins(A: Any, rows: Any, x: Any, has_intercept: bool, out: Any) -> None:
    """A x over these rows."""
    intercept = x[x.size - 1] if has_intercept else 0.0
    if rows.size == 0:
        for i in range(out.size):
            out[i] = row_dot(A, i, x) + intercept
    else:
        for p in range(out.size):
            out[p] = row_dot(A, rows[p], x) + intercept


@jit(fastmath=_CONTRACT)
def transposed(A: Any, rows: Any, u: Any, has_intercept: bool, out: Any) -> None:
    """A' u over these rows. Those whose part is zero are not read, as most are where a loss is flat."""
    out[:] = 0.0
    every, total = rows.size == 0, 0.0
    for p in range(u.size):
        if u[p] != 0.0:
            row_add(A, p if every else rows[p], u[p], out)
            total += u[p]
    if has_intercept:
        out[out.size - 1] = total


def _product_of_each(A: Any, rows: Any, curvatures: Any, x: Any, intercept: float, along: Any, out: Any) -> Any:
    every, total = rows.size == 0, 0.0
    for p in range(along.size):
        i = p if every else rows[p]
        if curvatures[p] == 0.0:
            along[p] = 0.0
            continue
        along[p] = row_dot(A, i, x) + intercept
        force = curvatures[p] * along[p]
        row_add(A, i, force, out)
        total += force
    return total


_product_row_by_row = inlined(_product_of_each)


def _product_of_four(A: Any, rows: Any, curvatures: Any, x: Any, intercept: float, along: Any, out: Any) -> Any:
    """Four rows at a time, which share what is read of x, and what is read and written of the sum."""
    if A[0].shape[1] < _WIDE:
        return _product_row_by_row(A, rows, curvatures, x, intercept, along, out)
    every, total, waiting, p, q, r = rows.size == 0, 0.0, 0, 0, 0, 0
    for s in range(along.size):
        if curvatures[s] == 0.0:
            along[s] = 0.0
        elif waiting < 3:
            p, q, r, waiting = q, r, s, waiting + 1
        else:
            i, j, k, m = (p, q, r, s) if every else (rows[p], rows[q], rows[r], rows[s])
            at_i = at_j = at_k = at_m = intercept
            for c in range(begin(A, i), end(A, i)):
                here = x[c]
                at_i += entry(A, i, c) * here
                at_j += entry(A, j, c) * here
                at_k += entry(A, k, c) * here
                at_m += entry(A, m, c) * here
            along[p], along[q], along[r], along[s] = at_i, at_j, at_k, at_m
            on_i, on_j, on_k, on_m = curvatures[p] * at_i, curvatures[q] * at_j, curvatures[r] * at_k, curvatures[s] * at_m
            for c in range(begin(A, i), end(A, i)):
                out[c] += on_i * entry(A, i, c) + on_j * entry(A, j, c) + on_k * entry(A, k, c) + on_m * entry(A, m, c)
            total += on_i + on_j + on_k + on_m
            waiting = 0
    for left in range(3 - waiting, 3):
        s = p if left == 0 else q if left == 1 else r
        i = s if every else rows[s]
        along[s] = row_dot(A, i, x) + intercept
        force = curvatures[s] * along[s]
        row_add(A, i, force, out)
        total += force
    return total


#: row by row, a product with dense rows takes 1.1 to 1.6 times as long at d = 22 and more, and less at d < 20
_product = _by_storage(_product_of_each, _product_of_four)


@jit(fastmath=_REASSOCIATE)
def curved_product(A: Any, rows: Any, curvatures: Any, x: Any, has_intercept: bool, along: Any, out: Any) -> None:
    """along = A x where rows bend, and out = A' diag(curvatures) A x over these rows. Those that do not bend are not read."""
    out[:] = 0.0
    last = x.size - 1
    total = _product(A, rows, curvatures, x, x[last] if has_intercept else 0.0, along, out)
    if has_intercept:
        out[last] = total


@jit(fastmath=_REASSOCIATE)
def gram_step(A: Any, scale: Any, x: Any, has_intercept: bool, u: Any, out: Any) -> None:
    """u <- B x - u and then out = B'u, where row i of B is scale_i a_i: both products while a row is at hand."""
    out[:] = 0.0
    last, total = x.size - 1, 0.0
    intercept = x[last] if has_intercept else 0.0
    for i in range(u.size):
        u[i] = scale[i] * (row_dot(A, i, x) + intercept) - u[i]
        force = scale[i] * u[i]
        row_add(A, i, force, out)
        total += force
    if has_intercept:
        out[last] = total


@jit(fastmath=_REASSOCIATE)
def curved_squares(A: Any, rows: Any, curvatures: Any, has_intercept: bool, out: Any) -> None:
    """The diagonal of A' diag(curvatures) A over these rows. Those that do not bend are not read."""
    out[:] = 0.0
    every, total = rows.size == 0, 0.0
    for p in range(curvatures.size):
        if curvatures[p] != 0.0:
            total += curvatures[p]
            row_add_squares(A, p if every else rows[p], curvatures[p], out)
    if has_intercept:
        out[out.size - 1] = total


@jit()
def column_ranges(A: Any, n: Any, stored: Any, low: Any, high: Any) -> None:
    """Of the entries of every feature that are stored, how many there are, the smallest and the largest, from what the arrays hold
    on.
    """
    for i in range(n):
        for k in range(begin(A, i), end(A, i)):
            j, value = column(A, k), entry(A, i, k)
            stored[j] += 1
            low[j] = value if value < low[j] else low[j]
            high[j] = value if value > high[j] else high[j]


@jit(fastmath=_REASSOCIATE)
def sparse_hessian(A: Any, rows: Any, curvatures: Any, has_intercept: bool, H: Any) -> None:
    """The lower triangle of A' diag(curvatures) A over these rows, whose indices rise along each row. A dense matrix goes through
    BLAS in chunks instead, 16 to 17 times faster than this loop at d = 784.
    """
    _, indices, values = A
    every, last = rows.size == 0, H.shape[0] - 1
    for p in range(curvatures.size):
        i, curvature = p if every else rows[p], curvatures[p]
        if curvature == 0.0:
            continue
        for k in range(begin(A, i), end(A, i)):
            factor, row = curvature * values[k], H[indices[k]]
            for m in range(begin(A, i), k + np.uint64(1)):
                row[indices[m]] += factor * values[m]
        if has_intercept:
            row_add(A, i, curvature, H[last])
            H[last, last] += curvature


# --- rows in an order


@jit()
def multiply(x: Any, d: int, factor: float) -> None:
    """x[:d] *= factor, which numba takes two seconds to compile: it could be refused for its shape."""
    for j in range(d):
        x[j] *= factor


@jit(fastmath=_CONTRACT)
def sgd_epoch(
    A: Any,
    labels: Any,
    weights: Any,
    visit: Any,
    scattered: bool,
    batch_size: int,
    step: float,
    alpha: float,
    derivative: Any,
    parameter: float,
    x: Any,
    has_intercept: bool,
    dual: Any,
    walk: Any,
    following: Any,
) -> None:
    """Algorithm 1. For each batch B: dual_j = l'(a_j'x, y_j) for j in B, then
    x <- (1 - step alpha |B|/b) x - (step/b) sum_B w_j dual_j a_j.

    The derivative comes in as the address of a C function, so that one compiled kernel serves all losses. The coefficients are
    kept as scale * x, which makes the shrinkage by the regulariser one multiplication a batch instead of d.

    With a `walk` (numba compiles the kernel once more without one) the epoch balances the next: of the rows h, i at positions
    2q and 2q + 1, with gradients g = w dual a, one goes to place q of `following` and the other to place q from its end, such that
    the walk, to which the first adds its gradient and the second takes its own away, grows least. What the two share drops out:
    the regulariser's part, and the mean of all gradients.
    """
    derivative = of_sample(derivative)
    n, d = visit.size, x.size - has_intercept
    intercept = x[d] if has_intercept else 0.0
    towards_h = 0.0
    scale, rate = 1.0, step / batch_size
    for start in range(0, n, batch_size):
        stop = min(start + batch_size, n)
        for p in range(start, stop):
            if scattered and p + _FAR < n:
                row_ahead(A, visit, p)
                ahead = visit[p + _NEAR]
                prefetch(labels, ahead)
                prefetch(weights, ahead)
                prefetch(dual, ahead)
            i = visit[p]
            if walk is None:
                dual[i] = derivative(scale * row_dot_apart(A, i, x) + intercept, labels[i], parameter)
                continue
            along, along_walk = row_dots_apart(A, i, x, walk)
            if has_intercept:
                along_walk += walk[d]
            dual[i] = derivative(scale * along + intercept, labels[i], parameter)
            towards = weights[i] * dual[i] * along_walk
            if p % 2 == 0:
                towards_h = towards
                following[p // 2] = i  # stays there if n is odd and it is the last, without a partner
                continue
            h, sign = visit[p - 1], 1.0 if towards_h <= towards else -1.0
            following[p // 2], following[n - 1 - p // 2] = (h, i) if sign > 0.0 else (i, h)
            g_h, g_i = sign * weights[h] * dual[h], sign * weights[i] * dual[i]
            row_add_apart(A, h, g_h, walk)
            row_add_apart(A, i, -g_i, walk)
            if has_intercept:
                walk[d] += g_h - g_i
        scale *= 1.0 - rate * alpha * (stop - start)
        if abs(scale) < _SMALLEST_SCALE:
            multiply(x, d, scale)
            scale = 1.0
        for p in range(start, stop):
            i = visit[p]
            move = rate * weights[i] * dual[i]
            if move != 0.0:
                intercept -= has_intercept * move
                row_add_apart(A, i, -move / scale, x)
    multiply(x, d, scale)
    if has_intercept:
        x[d] = intercept


@jit(fastmath=_REASSOCIATE)
def sdca_epoch(
    A: Any,
    labels: Any,
    weights: Any,
    squares: Any,
    visit: Any,
    prox: Any,
    parameter: float,
    pull: float,
    intercept_pull: float,
    x: Any,
    dual: Any,
    gains: Any,
) -> None:
    """Stochastic dual coordinate ascent: maximise the dual over one entry after the other, keeping x = -pull A'(w dual), and the
    intercept likewise with its own pull (zero: no intercept). gains_i says how much entry i gained: w_i reach_i move_i^2.
    """
    prox = prox_of_sample(prox)
    n, last = visit.size, x.size - 1
    has_intercept = intercept_pull > 0.0
    for p in range(n):
        if p + _FAR < n:
            row_ahead(A, visit, p)
            ahead = visit[p + _NEAR]
            prefetch(labels, ahead)
            prefetch(weights, ahead)
            prefetch(squares, ahead)
            prefetch(dual, ahead)
            prefetch(gains, ahead)
        i = visit[p]
        reach = weights[i] * (pull * squares[i] + intercept_pull)
        if reach == 0.0:  # a row of zeros moves nothing
            continue
        along = row_dot_apart(A, i, x)
        if has_intercept:
            along += x[last]
        towards = along + reach * dual[i]
        new = (towards - prox(towards, labels[i], reach, parameter, along)) / reach
        move = weights[i] * (dual[i] - new)
        gains[i] = reach * move * (dual[i] - new)
        if move != 0.0:
            dual[i] = new
            row_add_apart(A, i, pull * move, x)
            if has_intercept:
                x[last] += intercept_pull * move


@jit(fastmath=_REASSOCIATE)
def later_sum(A: Any, scale: Any, ones: float, v: Any, state: Any, state_ones: Any) -> None:
    """R += sum_i scale_i v_i a_i over all rows as they lie: the first of the two passes of a product with the ordered matrix."""
    R = later_rows(A, state)
    for i in range(v.size):
        coefficient = scale[i] * v[i]
        state_ones[1] += ones * coefficient
        row_add(A, i, coefficient, R)


@jit(fastmath=_REASSOCIATE)
def ordered_pass(
    A: Any, scale: Any, ones: float, visit: Any, scattered: bool, first: int, b: int, v: Any, state: Any, state_ones: Any, out: Any
) -> None:
    """out_p = a_p . (U + t_p R): U sums t_q v_q a_q over the rows gone by, R sums v_q a_q over those to come. The second pass.

    A row moves from R to U as it is read; a . (U + t R) is the same before and after its own move. `first` is the position of
    visit[0] in the whole order, and the state goes on from one call to the next. With ones = 1 every row has one more entry, a one.
    """
    n = visit.size
    t, left_in_batch = float((first + b - 1) // b), (b - first % b) % b  # a call may begin inside a batch
    u_ones, r_ones = state_ones
    for p in range(n):
        if scattered and p + _FAR < n:
            row_ahead(A, visit, p)
            ahead = visit[p + _FAR]
            prefetch(scale, ahead)
            prefetch(v, ahead)
            prefetch(out, ahead)
        if left_in_batch == 0:
            t += 1.0
            left_in_batch = b
        left_in_batch -= 1
        i = visit[p]
        to_r = -scale[i] * v[i]
        to_u = -t * to_r
        out[i] = scale[i] * (row_move(A, i, t, to_u, to_r, state) + ones * (u_ones + t * r_ones))
        u_ones += ones * to_u
        r_ones += ones * to_r
    state_ones[0], state_ones[1] = u_ones, r_ones


@jit(fastmath=_REASSOCIATE)
def ordered(
    A: Any, scale: Any, ones: float, visit: Any, scattered: bool, b: int, v: Any, state: Any, state_ones: Any, out: Any
) -> None:
    """Both passes in one call: threads that come back to Python wait for each other there."""
    state[:] = 0.0
    state_ones[:] = 0.0
    later_sum(A, scale, ones, v, state, state_ones)
    ordered_pass(A, scale, ones, visit, scattered, np.int64(0), b, v, state, state_ones, out)


@jit(fastmath=_REASSOCIATE)
def batched(A: Any, scale: Any, ones: float, members: Any, starts: Any, v: Any, work: Any, out: Any) -> None:
    """out_p = a_p . sum of v_q a_q over the q of p's own batch; batch g is members[starts[g]:starts[g + 1]]. `work` is zero before
    and after.
    """
    for g in range(starts.size - 1):
        low, high, total = starts[g], starts[g + 1], 0.0
        for p in range(low, high):
            coefficient = scale[members[p]] * v[p]
            total += ones * coefficient
            row_add(A, members[p], coefficient, work)
        for p in range(low, high):
            out[p] = scale[members[p]] * (row_dot(A, members[p], work) + ones * total)
        clear(A, members, low, high, work)


@jit(fastmath=_REASSOCIATE)
def prefix_pass(A: Any, ones: float, visit: Any, scattered: bool, u: Any, along_c: Any, S: Any, sums: Any, out: Any) -> None:
    """out_p = |P_p|^2, where P_p sums u_i a_i + c over the rows up to and with position p.

    c is never added: P = S + k c with S = sum u_i a_i, and |P|^2 = |S|^2 + 2 k S'c + k^2 |c|^2; `along_c` holds a_i'c of each row.
    S and `sums` go on from one call to the next: |S|^2, the sum of u_i, S'c, k, |c|^2.
    """
    n = visit.size
    square, total, S_c, k, c_square = sums
    for p in range(n):
        if scattered and p + _FAR < n:
            row_ahead(A, visit, p)
            prefetch(u, visit[p + _FAR])
            prefetch(along_c, visit[p + _FAR])
        i = visit[p]
        square += 2.0 * u[i] * (row_fold(A, i, u[i], S) + ones * (total + 0.5 * u[i]))
        total += u[i]
        S_c += u[i] * along_c[i]
        k += 1.0
        out[p] = max(square, 0.0) + k * (2.0 * S_c + k * c_square)
    sums[0], sums[1], sums[2], sums[3] = square, total, S_c, k


@jit(fastmath=_REASSOCIATE)
def sign_pass(A: Any, ones: float, visit: Any, scattered: bool, u: Any, along_c: Any, S: Any, sums: Any, front: Any) -> None:
    """The signs of a balanced walk: with v = u_i a_i + c of the row at position p, W += v where W'v <= 0, else W -= v.

    c is never added, as in `prefix_pass`: W = S + k c. S and `sums` go on from one call to the next: the sum of signed u, S'c, k,
    |c|^2.
    """
    n = visit.size
    total, S_c, k, c_square = sums
    for p in range(n):
        if scattered and p + _FAR < n:
            row_ahead(A, visit, p)
            prefetch(u, visit[p + _FAR])
            prefetch(along_c, visit[p + _FAR])
        i = visit[p]
        along = u[i] * (row_dot(A, i, S) + ones * total + k * along_c[i]) + S_c + k * c_square
        front[p] = along <= 0.0
        sign = 1.0 if along <= 0.0 else -1.0
        row_add(A, i, sign * u[i], S)
        total += sign * u[i]
        S_c += sign * u[i] * along_c[i]
        k += sign
    sums[0], sums[1], sums[2] = total, S_c, k


@jit()
def gather(A: Any, order: Any, ahead: bool, new_indptr: Any, new_indices: Any, new_values: Any) -> None:
    """Lay sparse rows out in the order they are visited, so that every later pass reads memory front to back."""
    _, indices, values = A
    n, place = order.size, np.uint64(0)
    for p in range(n):
        if ahead and p + _FAR < n:
            row_ahead(A, order, p)
        new_indptr[p] = place
        for k in range(begin(A, order[p]), end(A, order[p])):
            new_indices[place], new_values[place] = indices[k], values[k]
            place += np.uint64(1)
    new_indptr[n] = place


@jit()
def place(A: Any, rows: Any, targets: Any, new_indptr: Any, new_indices: Any, new_values: Any) -> None:
    """Copy sparse rows to where `new_indptr` has room for them: rows[p] becomes row targets[p]."""
    _, indices, values = A
    for p in range(rows.size):
        if p + _FAR < rows.size:
            row_ahead(A, rows, p)
        at = np.uint64(new_indptr[targets[p]])
        for k in range(begin(A, rows[p]), end(A, rows[p])):
            new_indices[at], new_values[at] = indices[k], values[k]
            at += np.uint64(1)


@jit()
def split(visit: Any, holders: Any, edges: Any, ends: Any, out: Any) -> None:
    """Rows by their holders, of which number k has those from edges[k] on: out[ends[k]:ends[k + 1]] are its own as they come in
    `visit`, counted from its first. `ends` is zero before.
    """
    for p in range(visit.size):
        ends[holders[visit[p]] + 1] += 1
    for k in range(1, ends.size):
        ends[k] += ends[k - 1]
    places = ends.copy()
    for p in range(visit.size):
        k = holders[visit[p]]
        out[places[k]] = visit[p] - edges[k]
        places[k] += 1
