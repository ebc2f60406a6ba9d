"""Compiled passes over all samples: margins A x, the transposed product A' u, and a loss applied to every margin.

x and A' u hold the d coefficients and, with an intercept, one more entry for it. Data of any real type is read as it is.
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit

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
