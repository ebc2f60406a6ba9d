"""Compiled loops over plain vectors, in one thread: a BLAS shares long ones out, and on a busy machine waits for the other threads
longer than it saves.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle._compiled import jit

Vector = NDArray[np.float64]

_REASSOCIATE = {"contract", "reassoc", "nsz"}


@jit(fastmath=_REASSOCIATE)
def dot(a: Any, b: Any) -> float:
    """a'b."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@jit()
def balance(a: Any, b: Any) -> float:
    """a'b of products that nearly cancel, off by at most eps times the sum of their absolute values: Neumaier's compensated sum."""
    total = lost = 0.0
    for i in range(a.size):
        term = a[i] * b[i]
        new = total + term
        lost += (total - new) + term if abs(total) >= abs(term) else (term - new) + total
        total = new
    return total + lost


@jit()
def balance_signs(weights: Any, u: Any) -> bool:
    """Scale down the entries of the heavier sign, in place, until the weighted sum is zero up to rounding; was it that before?
    Sums are compensated as in `balance`.
    """
    sums, lost = np.zeros(2), np.zeros(2)
    for i in range(u.size):
        side, term = (1 if u[i] > 0.0 else 0), abs(weights[i] * u[i])
        new = sums[side] + term
        lost[side] += (sums[side] - new) + term if sums[side] >= term else (term - new) + sums[side]
        sums[side] = new
    down, up = sums[0] + lost[0], sums[1] + lost[1]
    if up == down:
        return True
    share = min(up, down) / max(up, down)
    for i in range(u.size):
        if (u[i] > 0.0) == (up > down):
            u[i] *= share
    return False


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
