"""Compiled passes of the tuned solver: dual coordinate steps, and sums over batches of rows.

Rows come as one tuple, (indptr, indices, values) or (X,): `row_dot` and its sisters know both, so every kernel is written once.
x holds the d coefficients and, with an intercept, one more entry for it.
"""

from typing import Any

import numpy as np
from numba.extending import overload

from reshuffle._compiled import jit, prefetch

_CONTRACT = {"contract"}
_REASSOCIATE = {"contract", "reassoc", "nsz"}


def row_dot(A: Any, i: int, x: Any) -> float:
    """a_i'x without the intercept."""
    raise NotImplementedError


def row_add(A: Any, i: int, factor: float, x: Any) -> None:
    """x += factor a_i without the intercept."""
    raise NotImplementedError


def row_add_squares(A: Any, i: int, factor: float, x: Any) -> None:
    """x += factor times the squares of a_i without the intercept."""
    raise NotImplementedError


def row_prefetch(A: Any, i: int) -> None:
    """Ask for a row that will be needed soon; rows of a dense matrix are long enough for the processor's own guess."""
    raise NotImplementedError


@overload(row_dot, jit_options={"fastmath": _REASSOCIATE})  # type: ignore[untyped-decorator]
def _row_dot(A: Any, i: Any, x: Any) -> Any:
    def sparse(A: Any, i: Any, x: Any) -> float:
        indptr, indices, values = A
        total = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            total += values[k] * x[indices[k]]
        return total

    def dense(A: Any, i: Any, x: Any) -> float:
        X = A[0]
        total = 0.0
        for j in range(X.shape[1]):
            total += X[i, j] * x[j]
        return total

    return sparse if len(A) == 3 else dense


@overload(row_add, jit_options={"fastmath": _CONTRACT})  # type: ignore[untyped-decorator]
def _row_add(A: Any, i: Any, factor: Any, x: Any) -> Any:
    def sparse(A: Any, i: Any, factor: Any, x: Any) -> None:
        indptr, indices, values = A
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            x[indices[k]] += factor * values[k]

    def dense(A: Any, i: Any, factor: Any, x: Any) -> None:
        X = A[0]
        for j in range(X.shape[1]):
            x[j] += factor * X[i, j]

    return sparse if len(A) == 3 else dense


@overload(row_add_squares, jit_options={"fastmath": _CONTRACT})  # type: ignore[untyped-decorator]
def _row_add_squares(A: Any, i: Any, factor: Any, x: Any) -> Any:
    def sparse(A: Any, i: Any, factor: Any, x: Any) -> None:
        indptr, indices, values = A
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            x[indices[k]] += factor * values[k] * values[k]

    def dense(A: Any, i: Any, factor: Any, x: Any) -> None:
        X = A[0]
        for j in range(X.shape[1]):
            x[j] += factor * X[i, j] * X[i, j]

    return sparse if len(A) == 3 else dense


@overload(row_prefetch)  # type: ignore[untyped-decorator]
def _row_prefetch(A: Any, i: Any) -> Any:
    def sparse(A: Any, i: Any) -> None:
        indptr, indices, values = A
        for k in range(indptr[i], indptr[i + 1], 64 // indices.itemsize):
            prefetch(indices, k)
        for k in range(indptr[i], indptr[i + 1], 64 // values.itemsize):
            prefetch(values, k)

    def dense(A: Any, i: Any) -> None:
        pass

    return sparse if len(A) == 3 else dense


@jit(fastmath=_CONTRACT)
def dual_epoch(
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
) -> None:
    """Maximise the dual over one entry after the other, keeping x = -pull A'(w dual), and the intercept likewise with its own pull
    (zero: no intercept).
    """
    n, last = visit.size, x.size - 1
    has_intercept = intercept_pull > 0.0
    for p in range(n):
        if p + 12 < n:
            ahead = visit[p + 4]
            row_prefetch(A, ahead)
            prefetch(labels, ahead)
            prefetch(weights, ahead)
            prefetch(squares, ahead)
            prefetch(dual, ahead)
        i = visit[p]
        reach = weights[i] * (pull * squares[i] + intercept_pull)
        if reach == 0.0:  # a row of zeros moves nothing
            continue
        along = row_dot(A, i, x)
        if has_intercept:
            along += x[last]
        towards = along + reach * dual[i]
        new = (towards - prox(towards, labels[i], reach, parameter)) / reach
        move = weights[i] * (dual[i] - new)
        if move != 0.0:
            dual[i] = new
            row_add(A, i, pull * move, x)
            if has_intercept:
                x[last] += intercept_pull * move


@jit(fastmath=_CONTRACT)
def margins(A: Any, rows: Any, x: Any, has_intercept: bool, out: Any) -> None:
    intercept = x[x.size - 1] if has_intercept else 0.0
    for p in range(rows.size):
        out[p] = row_dot(A, rows[p], x) + intercept


@jit(fastmath=_CONTRACT)
def transposed(A: Any, rows: Any, u: Any, has_intercept: bool, out: Any) -> None:
    """A' u over these rows."""
    out[:] = 0.0
    total = 0.0
    for p in range(rows.size):
        row_add(A, rows[p], u[p], out)
        total += u[p]
    if has_intercept:
        out[out.size - 1] = total


@jit(fastmath=_CONTRACT)
def curved_product(A: Any, rows: Any, curvatures: Any, x: Any, has_intercept: bool, along: Any, out: Any) -> None:
    """along = A x and out = A' diag(curvatures) A x over these rows."""
    out[:] = 0.0
    last, total = x.size - 1, 0.0
    intercept = x[last] if has_intercept else 0.0
    for p in range(rows.size):
        along[p] = row_dot(A, rows[p], x) + intercept
        force = curvatures[p] * along[p]
        if force != 0.0:
            row_add(A, rows[p], force, out)
            total += force
    if has_intercept:
        out[last] = total


@jit(fastmath=_CONTRACT)
def curved_squares(A: Any, rows: Any, curvatures: Any, has_intercept: bool, out: Any) -> None:
    """The diagonal of A' diag(curvatures) A over these rows."""
    out[:] = 0.0
    total = 0.0
    for p in range(rows.size):
        total += curvatures[p]
        row_add_squares(A, rows[p], curvatures[p], out)
    if has_intercept:
        out[out.size - 1] = total


@jit(fastmath=_CONTRACT)
def sparse_hessian(A: Any, rows: Any, curvatures: Any, has_intercept: bool, H: Any) -> None:
    """The lower triangle of A' diag(curvatures) A over these rows, whose indices rise along each row."""
    indptr, indices, values = A
    H[:] = 0.0
    last = H.shape[0] - 1
    for p in range(rows.size):
        curvature = curvatures[p]
        if curvature == 0.0:
            continue
        start, end = np.uint64(indptr[rows[p]]), np.uint64(indptr[rows[p] + 1])
        for k in range(start, end):
            factor, row = curvature * values[k], H[indices[k]]
            for m in range(start, k + np.uint64(1)):
                row[indices[m]] += factor * values[m]
        if has_intercept:
            for k in range(start, end):
                H[last, indices[k]] += curvature * values[k]
            H[last, last] += curvature


@jit()
def careful(curvature: float, slope: float, off: float, care: float) -> float:
    """A curvature moved by `care` towards that of the parabola with this slope whose least point is `off` away."""
    return curvature + care * max(abs(slope) / off - curvature, 0.0) if care > 0.0 and off > 0.0 else curvature


@jit()
def models(
    derivative: Any,
    curvature: Any,
    parameter: float,
    labels: Any,
    weights: Any,
    z: Any,
    care: float,
    slopes: Any,
    curvatures: Any,
) -> None:
    """The weighted slope and curvature of each loss at its margin."""
    for i in range(z.size):
        slope = derivative(z[i], labels[i], parameter)
        bend = careful(curvature(z[i], labels[i], parameter), slope, abs(z[i] - labels[i]), care)
        slopes[i], curvatures[i] = weights[i] * slope, weights[i] * bend


@jit()
def rounded_models(
    prox: Any,
    parameter: float,
    width: float,
    labels: Any,
    weights: Any,
    multipliers: Any,
    z: Any,
    care: float,
    slopes: Any,
    curvatures: Any,
) -> None:
    """As `models`, of losses with their kinks rounded: see `newton.Rounded`."""
    h = 1e-6 * width
    for i in range(z.size):
        p = z[i] + width * multipliers[i]
        slope = (p - prox(p, labels[i], width, parameter)) / width
        rise = prox(p + h, labels[i], width, parameter) - prox(p - h, labels[i], width, parameter)
        bend = careful(max(1.0 - rise / (2.0 * h), 0.0) / width, slope, abs(z[i] - labels[i]), care)
        slopes[i], curvatures[i] = weights[i] * slope, weights[i] * bend


@jit()
def rounded_total(
    value: Any,
    prox: Any,
    parameter: float,
    width: float,
    labels: Any,
    weights: Any,
    multipliers: Any,
    z: Any,
    move: Any,
    length: float,
) -> float:
    total = 0.0
    for i in range(z.size):
        at = z[i] + length * move[i]
        t = prox(at + width * multipliers[i], labels[i], width, parameter)
        total += weights[i] * (value(t, labels[i], parameter) + (at - t) * (multipliers[i] + 0.5 * (at - t) / width))
    return total
