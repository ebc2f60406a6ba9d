"""Ltil: the largest ||Λ^{1/2} A_batch||^2 over the batches of an order.

All batches run a Lanczos recurrence side by side, one product over the data a step, and leave as soon as they cannot be
the largest. After k steps a batch has a tridiagonal T with top eigenvalue theta, a lower bound of its norm. What T does
not see is positive semidefinite with trace tr(batch) - tr(T), so bordering T with that trace gives an upper bound of the
norm; at k = 0 it is the trace itself. A batch leaves when its upper bound is below the best theta found, or when its own
residual says that it has converged.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reshuffle.rows import Arranged, batch_starts
from reshuffle.spectral.lanczos import MAX_PRODUCTS, steps_for_bound
from reshuffle.vectors import Vector

Chosen = NDArray[np.bool_]


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
    return _race(_Live(arranged, starts, start), traces[None], best, batch_size, tol, failure_probability)[0]


def largest_batches(
    batches: Any, traces: Vector, start: Any, *, batch_size: int, tol: float, failure_probability: float | None = None
) -> list[LargestBatch]:
    """`largest_batch` of several orders, whose batches are multiplied side by side. `traces` has a row for each order, `start` one
    for each batch; like all vectors it is the storage's own. The host looks once a product.
    """
    return _race(_LiveTogether(batches, start), traces, LargestBatch(0.0, 0.0), batch_size, tol, failure_probability)


class _Recurrences(Protocol):
    def keep(self, chosen: Chosen) -> None:
        """Of the batches that are left, only these."""

    def step(self) -> tuple[Vector, Vector]:
        """The next entries on and beside the diagonal of each batch's tridiagonal matrix."""


def _race(
    live: _Recurrences, traces: Vector, best: LargestBatch, batch_size: int, tol: float, failure_probability: float | None
) -> list[LargestBatch]:
    bound = failure_probability is not None
    steps = MAX_PRODUCTS if failure_probability is None else steps_for_bound(batch_size, tol, failure_probability)
    known = _Known(traces, best, tol=tol, settle=not bound)
    live.keep(known.keep(traces.ravel() > 0.0))
    for k in range(1, steps + 1):
        known.add(*live.step())
        if k > 8 and k % 4 and k < steps:  # late on, a product costs less than looking
            continue
        chosen = known.contenders()
        if not chosen.any():
            break
        if not chosen.all():
            live.keep(known.keep(chosen))
    return known.best


class _Known:
    """What is known of the batches that are still in the race, order after order: their traces and tridiagonal matrices."""

    def __init__(self, traces: Vector, best: LargestBatch, *, tol: float, settle: bool) -> None:
        self.best = [best] * len(traces)
        self._traces, self._order = traces.ravel(), np.repeat(np.arange(len(traces)), traces.shape[1])
        self._tol, self._settle = tol, settle
        self._alphas: list[Vector] = []
        self._betas: list[Vector] = []

    def keep(self, chosen: Chosen) -> Chosen:
        self._traces, self._order = self._traces[chosen], self._order[chosen]
        self._alphas = [alpha[chosen] for alpha in self._alphas]
        self._betas = [beta[chosen] for beta in self._betas]
        return chosen

    def add(self, alpha: Vector, beta: Vector) -> None:
        self._alphas.append(alpha)
        self._betas.append(beta)

    def contenders(self) -> Chosen:
        """Which batches may still be the largest of their order, after the best has been looked for."""
        theta, residual = self._ritz()
        upper = self._upper()
        error = np.minimum(residual, np.maximum(upper - theta, 0.0))
        for order, first in zip(*np.unique(self._order, return_index=True), strict=True):
            last = int(np.searchsorted(self._order, order, side="right"))
            leader = int(first) + int(np.argmax(theta[first:last]))
            if theta[leader] >= self.best[order].value:
                self.best[order] = LargestBatch(float(theta[leader]), float(error[leader] / theta[leader]))
        settled = (error <= self._tol * theta) & self._settle
        return ~settled & (upper > np.array([best.value for best in self.best])[self._order])

    def _tridiagonal(self, border: Vector | None = None) -> Vector:
        diagonal = self._alphas if border is None else [*self._alphas, border]
        k = len(diagonal)
        T = np.zeros((self._order.size, k, k))
        for i, alpha in enumerate(diagonal):
            T[:, i, i] = alpha
        for i, beta in enumerate(self._betas[: k - 1]):
            T[:, i, i + 1] = T[:, i + 1, i] = beta
        return T

    def _ritz(self) -> tuple[Vector, Vector]:
        if len(self._alphas) == 1:
            return self._alphas[0], self._betas[0]
        values, vectors = np.linalg.eigh(self._tridiagonal())
        return values[:, -1], self._betas[-1] * np.abs(vectors[:, -1, -1])

    def _upper(self) -> Vector:
        unseen = np.maximum(self._traces - np.sum(self._alphas, axis=0), 0.0)
        if len(self._alphas) == 1:  # every batch is there, and most leave: not one by one
            middle, half = 0.5 * (self._alphas[0] + unseen), 0.5 * (self._alphas[0] - unseen)
            upper: Vector = middle + np.hypot(half, self._betas[0])
            return upper
        return np.linalg.eigvalsh(self._tridiagonal(border=unseen))[:, -1].astype(np.float64, copy=False)


class _Live:
    """Recurrences of batches of an order, stored batch after batch."""

    def __init__(self, arranged: Arranged, starts: NDArray[np.int64], start: Vector) -> None:
        self._arranged = arranged
        self._members = arranged.visit
        self._sizes = np.diff(starts)
        self._v, self._previous, self._beta = start, np.zeros_like(start), np.zeros(self._sizes.size)
        self._begun = False

    def _sum_by_batch(self, values: Vector) -> Vector:
        return np.bincount(self._batch, weights=values, minlength=self._sizes.size).astype(np.float64, copy=False)

    def keep(self, chosen: Chosen) -> None:
        rows = np.repeat(chosen, self._sizes)
        self._members, self._v, self._previous = self._members[rows], self._v[rows], self._previous[rows]
        self._sizes, self._beta = self._sizes[chosen], self._beta[chosen]
        self._batch = np.repeat(np.arange(self._sizes.size), self._sizes)
        self._starts = np.concatenate(([0], np.cumsum(self._sizes)))
        if not self._begun:
            self._v, self._begun = self._v / np.sqrt(self._sum_by_batch(self._v**2))[self._batch], True

    def step(self) -> tuple[Vector, Vector]:
        w = np.empty_like(self._v)
        self._arranged.batched(self._members, self._starts, self._v, w)
        w -= self._beta[self._batch] * self._previous
        alpha = self._sum_by_batch(self._v * w)
        w -= alpha[self._batch] * self._v
        beta = np.sqrt(self._sum_by_batch(w**2))
        # A recurrence that has spanned its space goes on with the zero vector, which changes nothing.
        w /= np.where(beta > 0.0, beta, 1.0)[self._batch]
        self._previous, self._v, self._beta = self._v, w, beta
        return alpha, beta


class _LiveTogether:
    """Recurrences of batches of several orders, a row of vectors each."""

    def __init__(self, batches: Any, start: Any) -> None:
        self._batches, self._v = batches, start / batches.lengths(start)[:, None]
        self._previous, self._beta = 0.0 * self._v, 0.0 * batches.lengths(self._v)

    def keep(self, chosen: Chosen) -> None:
        if chosen.all():
            return
        places = np.flatnonzero(chosen)
        self._batches = self._batches.only(places)
        self._v, self._previous, self._beta = self._v[places], self._previous[places], self._beta[places]

    def step(self) -> tuple[Vector, Vector]:
        w = self._batches.product(self._v) - self._beta[:, None] * self._previous
        alpha = (self._v * w).sum(-1)
        w = w - alpha[:, None] * self._v
        beta = self._batches.lengths(w)
        self._previous, self._v, self._beta = self._v, w / (beta + (beta == 0.0))[:, None], beta
        found = self._batches.down(alpha, beta)
        return found[0], found[1]
