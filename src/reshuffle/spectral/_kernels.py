"""Compiled products with the ordered and the batched Gram matrix of the rows of Λ^{1/2}A, sparse and dense.

A row i stands for scale[i] * [a_i, ones]; `ones` is 1.0 with an intercept and 0.0 without. Vectors have one entry a row
of the layout; `visit[p]` is the row at position p of the order, and t_p = p // b + 1 its batch number.
Entries are counted with unsigned integers, which spares numba's check for negative ones: a fifth of the time of short rows.
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit, prefetch

_CONTRACT = {"contract"}
_REASSOCIATE = {"contract", "reassoc", "nsz"}


@jit(fastmath=_CONTRACT)
def csr_ordered(
    indptr: Any,
    indices: Any,
    values: Any,
    scale: Any,
    ones: float,
    visit: Any,
    scattered: bool,
    b: int,
    v: Any,
    state: Any,
    out: Any,
) -> None:
    """out_p = a_p . (U + t_p R): U sums t_q v_q a_q over the rows gone by, R sums v_q a_q over those to come.

    A row moves from R to U as it is read; a . (U + t R) is the same before and after its own move.
    """
    n = visit.size
    state[:] = 0.0  # state[j] = (U_j, R_j): one cache line holds both
    u_ones = r_ones = 0.0
    for i in range(n):
        coefficient = scale[i] * v[i]
        r_ones += ones * coefficient
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            state[indices[k], 1] += coefficient * values[k]
    t, left_in_batch = 0.0, 0
    for p in range(n):
        if scattered and p + 12 < n:
            ahead = visit[p + 12]
            prefetch(indptr, ahead)
            prefetch(scale, ahead)
            prefetch(v, ahead)
            prefetch(out, ahead)
            ahead = visit[p + 4]
            for k in range(indptr[ahead], indptr[ahead + 1], 64 // indices.itemsize):
                prefetch(indices, k)
            for k in range(indptr[ahead], indptr[ahead + 1], 64 // values.itemsize):
                prefetch(values, k)
        if left_in_batch == 0:
            t += 1.0
            left_in_batch = b
        left_in_batch -= 1
        i = visit[p]
        to_r = -scale[i] * v[i]
        to_u = -t * to_r
        along_u, along_r = ones * u_ones, ones * r_ones
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            j, x = indices[k], np.float64(values[k])
            u, r = state[j, 0], state[j, 1]
            along_u += x * u
            along_r += x * r
            state[j, 0] = u + to_u * x
            state[j, 1] = r + to_r * x
        u_ones += ones * to_u
        r_ones += ones * to_r
        out[i] = scale[i] * (along_u + t * along_r)


@jit(fastmath=_CONTRACT)
def csr_batched(
    indptr: Any,
    indices: Any,
    values: Any,
    scale: Any,
    ones: float,
    members: Any,
    starts: Any,
    v: Any,
    work: Any,
    out: Any,
) -> None:
    """out_p = a_p . sum of v_q a_q over the q of p's own batch; batch g is members[starts[g]:starts[g + 1]]."""
    for g in range(starts.size - 1):
        total = 0.0
        for p in range(starts[g], starts[g + 1]):
            i = members[p]
            coefficient = scale[i] * v[p]
            total += ones * coefficient
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                work[indices[k]] += coefficient * values[k]
        for p in range(starts[g], starts[g + 1]):
            i = members[p]
            along = ones * total
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                along += values[k] * work[indices[k]]
            out[p] = scale[i] * along
        for p in range(starts[g], starts[g + 1]):
            i = members[p]
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                work[indices[k]] = 0.0


@jit(fastmath=_REASSOCIATE)
def dense_ordered(X: Any, scale: Any, ones: float, visit: Any, b: int, v: Any, state: Any, out: Any) -> None:
    """As `csr_ordered`, on a dense matrix of any real type: each row is converted in registers, never copied."""
    n, d = X.shape
    U, R = state[0], state[1]
    U[:] = 0.0
    R[:] = 0.0
    u_ones = r_ones = 0.0
    for i in range(n):
        coefficient = scale[i] * v[i]
        r_ones += ones * coefficient
        for j in range(d):
            R[j] += coefficient * X[i, j]
    t, left_in_batch = 0.0, 0
    for p in range(n):
        if left_in_batch == 0:
            t += 1.0
            left_in_batch = b
        left_in_batch -= 1
        i = visit[p]
        to_r = -scale[i] * v[i]
        to_u = -t * to_r
        along = ones * (u_ones + t * r_ones)
        for j in range(d):
            x, u, r = np.float64(X[i, j]), U[j], R[j]
            along += x * (u + t * r)
            U[j] = u + to_u * x
            R[j] = r + to_r * x
        u_ones += ones * to_u
        r_ones += ones * to_r
        out[i] = scale[i] * along


@jit(fastmath=_REASSOCIATE)
def dense_batched(X: Any, scale: Any, ones: float, members: Any, starts: Any, v: Any, work: Any, out: Any) -> None:
    """As `csr_batched`, on a dense matrix."""
    d = X.shape[1]
    for g in range(starts.size - 1):
        total = 0.0
        work[:] = 0.0
        for p in range(starts[g], starts[g + 1]):
            i = members[p]
            coefficient = scale[i] * v[p]
            total += ones * coefficient
            for j in range(d):
                work[j] += coefficient * X[i, j]
        for p in range(starts[g], starts[g + 1]):
            i = members[p]
            along = ones * total
            for j in range(d):
                along += X[i, j] * work[j]
            out[p] = scale[i] * along


@jit(fastmath=_REASSOCIATE)
def lanczos_step(w: Any, v: Any, previous: Any, beta: float) -> tuple[float, float]:
    """Three-term recurrence in place: w <- the unit vector next to v, and (alpha, beta) of the tridiagonal matrix."""
    alpha = 0.0
    for i in range(w.size):
        w[i] -= beta * previous[i]
        alpha += v[i] * w[i]
    square = 0.0
    for i in range(w.size):
        w[i] -= alpha * v[i]
        square += w[i] * w[i]
    norm = np.sqrt(square)
    if norm > 0.0:
        for i in range(w.size):
            w[i] /= norm
    return alpha, norm
