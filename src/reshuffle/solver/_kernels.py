"""Compiled epochs of Algorithm 1, sparse and dense.

x holds the d coefficients and, with an intercept, one more entry for it. A loss comes in as C functions (see
`losses.base.compiled`), so that one compiled kernel serves all of them. Inside an epoch the coefficients are kept as
scale * x, which makes the shrinkage of an l2 term one multiplication a batch instead of d.
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit, prefetch

_CONTRACT = {"contract"}
_REASSOCIATE = {"contract", "reassoc", "nsz"}
_SMALLEST_SCALE = 1e-9


@jit(fastmath=_CONTRACT)
def csr_epoch(
    indptr: Any,
    indices: Any,
    values: Any,
    labels: Any,
    weights: Any,
    visit: Any,
    scattered: bool,
    batch_size: int,
    step: float,
    l2: float,
    derivative: Any,
    parameter: float,
    x: Any,
    has_intercept: bool,
    dual: Any,
) -> None:
    """For each batch B: dual_j = l'(a_j'x, y_j) for j in B, then x <- (1 - step l2 |B|/b) x - (step/b) sum_B w_j dual_j a_j."""
    n, d = visit.size, x.size - has_intercept
    intercept = x[d] if has_intercept else 0.0
    scale, rate = 1.0, step / batch_size
    for start in range(0, n, batch_size):
        end = min(start + batch_size, n)
        for p in range(start, end):
            if scattered and p + 12 < n:
                prefetch(indptr, visit[p + 12])
                ahead = visit[p + 4]
                prefetch(labels, ahead)
                prefetch(weights, ahead)
                prefetch(dual, ahead)
                for k in range(indptr[ahead], indptr[ahead + 1], 64 // indices.itemsize):
                    prefetch(indices, k)
                for k in range(indptr[ahead], indptr[ahead + 1], 64 // values.itemsize):
                    prefetch(values, k)
            i = visit[p]
            along = 0.0
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                along += values[k] * x[indices[k]]
            dual[i] = derivative(scale * along + intercept, labels[i], parameter)
        scale *= 1.0 - rate * l2 * (end - start)
        if abs(scale) < _SMALLEST_SCALE:
            for j in range(d):
                x[j] *= scale
            scale = 1.0
        for p in range(start, end):
            i = visit[p]
            move = rate * weights[i] * dual[i]
            if move != 0.0:
                intercept -= has_intercept * move
                move /= scale
                for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                    x[indices[k]] -= move * values[k]
    for j in range(d):
        x[j] *= scale
    if has_intercept:
        x[d] = intercept


@jit(fastmath=_REASSOCIATE)
def dense_epoch(
    X: Any,
    labels: Any,
    weights: Any,
    visit: Any,
    batch_size: int,
    step: float,
    l2: float,
    derivative: Any,
    parameter: float,
    x: Any,
    has_intercept: bool,
    dual: Any,
) -> None:
    """As `csr_epoch`, on a dense matrix of any real type."""
    n, d = X.shape
    intercept = x[d] if has_intercept else 0.0
    scale, rate = 1.0, step / batch_size
    for start in range(0, n, batch_size):
        end = min(start + batch_size, n)
        for p in range(start, end):
            i = visit[p]
            along = 0.0
            for j in range(d):
                along += X[i, j] * x[j]
            dual[i] = derivative(scale * along + intercept, labels[i], parameter)
        scale *= 1.0 - rate * l2 * (end - start)
        if abs(scale) < _SMALLEST_SCALE:
            for j in range(d):
                x[j] *= scale
            scale = 1.0
        for p in range(start, end):
            i = visit[p]
            move = rate * weights[i] * dual[i]
            if move != 0.0:
                intercept -= has_intercept * move
                move /= scale
                for j in range(d):
                    x[j] -= move * X[i, j]
    for j in range(d):
        x[j] *= scale
    if has_intercept:
        x[d] = intercept
