"""Compiled passes over all samples: margins A x, the transposed product A' u, a loss applied to every margin and summed, row
norms, and sparse rows laid out in another order.

x and A' u hold the d coefficients and, with an intercept, one more entry for it. Data of any real type is read as it is.
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit, prefetch

_CONTRACT = {"contract"}
_REASSOCIATE = {"contract", "reassoc", "nsz"}


@jit(fastmath=_CONTRACT)
def csr_margins(indptr: Any, indices: Any, values: Any, x: Any, has_intercept: bool, out: Any) -> None:
    d = x.size - has_intercept
    for i in range(out.size):
        along = x[d] if has_intercept else 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            along += values[k] * x[indices[k]]
        out[i] = along


@jit(fastmath=_REASSOCIATE)
def dense_margins(X: Any, x: Any, has_intercept: bool, out: Any) -> None:
    d = X.shape[1]
    for i in range(out.size):
        along = 0.0
        for j in range(d):
            along += X[i, j] * x[j]
        out[i] = along + (x[d] if has_intercept else 0.0)


@jit(fastmath=_CONTRACT)
def csr_transposed(indptr: Any, indices: Any, values: Any, u: Any, has_intercept: bool, out: Any) -> None:
    out[:] = 0.0
    for i in range(u.size):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            out[indices[k]] += u[i] * values[k]
        if has_intercept:
            out[out.size - 1] += u[i]


@jit(fastmath=_REASSOCIATE)
def dense_transposed(X: Any, u: Any, has_intercept: bool, out: Any) -> None:
    d = X.shape[1]
    out[:] = 0.0
    for i in range(u.size):
        for j in range(d):
            out[j] += u[i] * X[i, j]
        if has_intercept:
            out[d] += u[i]


@jit()
def apply_loss(function: Any, z: Any, labels: Any, parameter: float, out: Any) -> None:
    for i in range(z.size):
        out[i] = function(z[i], labels[i], parameter)


@jit(fastmath=_REASSOCIATE)
def dot(a: Any, b: Any) -> float:
    """a'b in one thread: a BLAS shares long ones out, and on a busy machine waits for the other threads longer than it saves."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@jit()
def total_loss(value: Any, parameter: float, labels: Any, weights: Any, z: Any, move: Any, length: float) -> float:
    """The sum of w_i l(z_i + length move_i, y_i)."""
    total = 0.0
    for i in range(z.size):
        total += weights[i] * value(z[i] + length * move[i], labels[i], parameter)
    return total


@jit(fastmath=_REASSOCIATE)
def csr_squared_norms(indptr: Any, values: Any, out: Any) -> None:
    """|a_i|^2 of each row; a row holds a column at most once (`Problem` sees to that)."""
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += np.float64(values[k]) * values[k]
        out[i] = total


@jit(fastmath=_REASSOCIATE)
def dense_squared_norms(X: Any, out: Any) -> None:
    for i in range(out.size):
        total = 0.0
        for j in range(X.shape[1]):
            total += np.float64(X[i, j]) * X[i, j]
        out[i] = total


@jit()
def csr_gather(indptr: Any, indices: Any, values: Any, order: Any, new_indptr: Any, new_indices: Any, new_values: Any) -> None:
    """Lay the rows out in the order they are visited, so that every later pass reads memory front to back."""
    n = order.size
    end = 0
    for p in range(n):
        if p + 12 < n:
            prefetch(indptr, order[p + 12])
            lo, hi = indptr[order[p + 6]], indptr[order[p + 6] + 1]
            for k in range(lo, hi, 64 // indices.itemsize):
                prefetch(indices, k)
            for k in range(lo, hi, 64 // values.itemsize):
                prefetch(values, k)
        lo, hi = indptr[order[p]], indptr[order[p] + 1]
        size = hi - lo
        new_indptr[p] = end
        from_indices, from_values = indices[lo:hi], values[lo:hi]
        to_indices, to_values = new_indices[end : end + size], new_values[end : end + size]
        for k in range(size):
            to_indices[k] = from_indices[k]
        for k in range(size):
            to_values[k] = from_values[k]
        end += size
    new_indptr[n] = end
