"""Ltil: the largest ||Λ^{1/2} A_batch||^2 over the batches of an order.

All batches run a Lanczos recurrence side by side, one product over the data a step, and leave as soon as they cannot be
the largest. After k steps a batch has a tridiagonal T with top eigenvalue theta, a lower bound of its norm. What T does
not see is positive semidefinite with trace tr(batch) - tr(T), so bordering T with that trace gives an upper bound of the
norm; at k = 0 it is the trace itself. A batch leaves when its upper bound is below the best theta found, or when its own
residual says that it has converged.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reshuffle.rows import Arranged, batch_starts
from reshuffle.spectral.lanczos import MAX_PRODUCTS, steps_for_bound
from reshuffle.vectors import Vector


@dataclass(frozen=True)
class LargestBatch:
    value: float  #: the largest squared norm of a batch
    residual: float  #: relative, of the batch that has it, or what its upper bound leaves open if that is less


def largest_batch(
    arranged: Arranged,
    traces: Vector,
    start: Vector,
    best: LargestBatch,
    *,
    batch_size: int,
    tol: float,
    failure_probability: float | None = None,
) -> LargestBatch:
    """`traces` holds sum_i L_i|a_i|^2 of each batch; `start` has an entry a position; `best` is the largest of other batches.

    With a failure probability, that of each batch, `start` must be standard normal, and every batch that may be the largest takes
    the steps which it asks for: the norm is then at most the value over 1 - `tol`.
    """
    starts = batch_starts(arranged.visit.size, batch_size)
    live = _Live(arranged, starts, traces, start)
    bound = failure_probability is not None
    steps = MAX_PRODUCTS if failure_probability is None else steps_for_bound(batch_size, tol, failure_probability)
    for k in range(1, steps + 1):
        live.step()
        if k > 8 and k % 4 and k < steps:  # late on, a product costs less than looking
            continue
        theta, residual = live.ritz()
        upper = live.upper()
        error = np.minimum(residual, np.maximum(upper - theta, 0.0))
        leader = int(np.argmax(theta))
        if theta[leader] >= best.value:
            best = LargestBatch(float(theta[leader]), float(error[leader] / theta[leader]))
        settled = (error <= tol * theta) & (not bound)
        live.keep(~settled & (upper > best.value))
        if live.count == 0:
            break
    return best


class _Live:
    """The batches still in the race and their recurrences, stored batch after batch."""

    def __init__(self, arranged: Arranged, starts: NDArray[np.int64], traces: Vector, start: Vector) -> None:
        self._arranged = arranged
        self._members = arranged.visit
        self._sizes = np.diff(starts)
        self._traces = traces
        self._v = start
        self._previous = np.zeros_like(start)
        self._beta = np.zeros(traces.size)
        self._alphas: list[Vector] = []
        self._betas: list[Vector] = []
        self.keep(traces > 0.0)
        norms = np.sqrt(self._sum_by_batch(self._v**2))
        self._v = self._v / norms[self._batch]

    @property
    def count(self) -> int:
        return self._sizes.size

    def _sum_by_batch(self, values: Vector) -> Vector:
        return np.bincount(self._batch, weights=values, minlength=self.count).astype(np.float64, copy=False)

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        if not chosen.all() or not self._alphas:
            rows = np.repeat(chosen, self._sizes)
            self._members, self._v, self._previous = self._members[rows], self._v[rows], self._previous[rows]
            self._sizes, self._traces, self._beta = (self._sizes[chosen], self._traces[chosen], self._beta[chosen])
            self._alphas = [alpha[chosen] for alpha in self._alphas]
            self._betas = [beta[chosen] for beta in self._betas]
            self._batch = np.repeat(np.arange(self._sizes.size), self._sizes)
            self._starts = np.concatenate(([0], np.cumsum(self._sizes)))

    def step(self) -> None:
        w = np.empty_like(self._v)
        self._arranged.batched(self._members, self._starts, self._v, w)
        w -= self._beta[self._batch] * self._previous
        alpha = self._sum_by_batch(self._v * w)
        w -= alpha[self._batch] * self._v
        beta = np.sqrt(self._sum_by_batch(w**2))
        # A recurrence that has spanned its space goes on with the zero vector, which changes nothing.
        w /= np.where(beta > 0.0, beta, 1.0)[self._batch]
        self._previous, self._v, self._beta = self._v, w, beta
        self._alphas.append(alpha)
        self._betas.append(beta)

    def _tridiagonal(self, border: Vector | None = None) -> Vector:
        diagonal = self._alphas if border is None else [*self._alphas, border]
        k = len(diagonal)
        T = np.zeros((self.count, k, k))
        for i, alpha in enumerate(diagonal):
            T[:, i, i] = alpha
        for i, beta in enumerate(self._betas[: k - 1]):
            T[:, i, i + 1] = T[:, i + 1, i] = beta
        return T

    def ritz(self) -> tuple[Vector, Vector]:
        values, vectors = np.linalg.eigh(self._tridiagonal())
        return values[:, -1], self._beta * np.abs(vectors[:, -1, -1])

    def upper(self) -> Vector:
        unseen = np.maximum(self._traces - np.sum(self._alphas, axis=0), 0.0)
        return np.linalg.eigvalsh(self._tridiagonal(border=unseen))[:, -1].astype(np.float64, copy=False)
