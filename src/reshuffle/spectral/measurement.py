"""The constants of one permutation, and what all permutations of a problem share.

Shared, and computed once: the top left singular vector w of Λ^{1/2}A, which says where the top eigenvector of every ordered
matrix is to be looked for, and a guard q, which looks everywhere else. The start sin(pi t/(2m+1)) (w + guard q) makes a
permutation cost a handful of products, and q keeps Lanczos from settling on a lower eigenvalue where an order has pushed the
top one out of w's sight (clusters one after the other, heavy rows late). q gives each row the size of its norm, and the sign
that it has in (Λ^{1/2}AA'Λ^{1/2})g for a random g: rows that point the same way get the same sign, so q's part in a cluster is
the cluster's share of the data. A random n-vector would not do: its part in anything falls as 1/sqrt(n).
"""

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle import __version__, theory
from reshuffle.orders import Order, generator
from reshuffle.problem import Problem
from reshuffle.spectral import lanczos
from reshuffle.spectral.batches import largest_batch
from reshuffle.spectral.journal import data_hash
from reshuffle.spectral.rows import Arranged, batch_starts, make_rows

Vector = NDArray[np.float64]

# A random order of many rows mixes the data; a given one may not, and a few rows, or a few heavy ones among many, can fall
# in any order. There the guard is strong, at the price of a product or two.
_GUARD, _STRONG_GUARD, _MANY_ROWS = 0.01, 0.3, 2000
_BATCH_GUARD = 0.1


@dataclass(frozen=True)
class Sample:
    """The constants of one permutation."""

    permutation: int
    hat: float
    til: float
    products: int
    residual: float


class Measurement:
    """Measures Lhat_pi and Ltil_pi (or Ghat_pi and Gtil_pi) of permutation after permutation; safe to share by threads."""

    def __init__(
        self,
        problem: Problem,
        order: Order,
        *,
        batch_size: int,
        tol: float,
        failure_probability: float | None,
        permutations: int,
    ) -> None:
        self.problem, self.order, self.batch_size, self.tol = problem, order, batch_size, tol
        self.failure_probability = failure_probability
        # Each permutation needs two bounds and the whole matrix one: together they fail no more often than was asked.
        self._share = None if failure_probability is None else failure_probability / (2 * permutations + 1)
        n, self._m = problem.n, theory.batches(problem.n, batch_size)
        smoothness = problem.smoothness
        self.smooth = smoothness is not None
        self._scale = np.sqrt(smoothness) if smoothness is not None else _not_none(problem.lipschitz)
        self._l2 = problem.l2 if self.smooth else 0.0
        self._rows = make_rows(problem.X, self._scale, intercept=problem.fit_intercept)
        self._largest = float(self._rows.squared_norms.max())
        self._profile = np.sin(pi * (np.arange(n) // batch_size + 1.0) / (2 * self._m + 1))
        self._look_at_whole(generator(order.seed, 0, stream=3))

    def _look_at_whole(self, rng: np.random.Generator) -> None:
        n = self.problem.n
        self._batch_mix: Vector | None = None
        if self._largest == 0.0:
            self._norm, self.residual = 0.0, 0.0
            return
        apply, g = self._rows.whole().ordered, rng.standard_normal(n)
        if self._share is not None:
            top = lanczos.upper_bound(apply, g, slack=self.tol, failure_probability=self._share)
        else:
            top = lanczos.top_eigenvalue(apply, g.copy(), tol=self.tol)
            q = np.empty(n)
            apply(g, q)
            q = np.sign(q) * np.sqrt(self._rows.squared_norms)
            w = lanczos.ritz_vector(apply, g, top)
            norms = self._rows.squared_norms
            rows_that_count = norms.sum() ** 2 / (norms @ norms)
            guard = _GUARD if self.order.random and rows_that_count > _MANY_ROWS else _STRONG_GUARD
            self._mix = w + guard / np.linalg.norm(q) * q
            if self.batch_size > 1:
                self._batch_mix = np.sqrt(n) * w
        self._norm, self.residual = top.value, top.residual

    @property
    def largest_sample(self) -> float:
        return self._largest + self._l2

    @property
    def full_gradient_constant(self) -> float:
        return self._norm / self.problem.n + self._l2

    def measure(self, permutation: int) -> Sample:
        if self._largest == 0.0:
            return Sample(permutation, self._l2 * theory.ordered_norm_ratio(self._m), self._l2, 0, 0.0)
        order = self.order.permutation(permutation)
        arranged = self._rows.arrange(order, self.batch_size)
        hat = self._ordered_norm(arranged, order, permutation)
        til, til_residual = self._largest_batch(arranged, order, permutation)
        return Sample(
            permutation,
            hat.value / (self._m * self.problem.n) + self._l2 * theory.ordered_norm_ratio(self._m),
            til / self.batch_size + self._l2,
            hat.products,
            max(hat.residual, til_residual),
        )

    def _ordered_norm(self, arranged: Arranged, order: Any, permutation: int) -> lanczos.TopEigenvalue:
        if self._share is not None:
            start = generator(self.order.seed, permutation, stream=1).standard_normal(order.size)
            return lanczos.upper_bound(arranged.ordered, start, slack=self.tol, failure_probability=self._share)
        start = np.empty(order.size)
        start[arranged.visit] = self._profile * self._mix[order]
        return lanczos.top_eigenvalue(arranged.ordered, start, tol=self.tol)

    def _largest_batch(self, arranged: Arranged, order: Any, permutation: int) -> tuple[float, float]:
        if self.batch_size == 1:
            return self._largest, 0.0
        starts = batch_starts(order.size, self.batch_size)
        traces = np.add.reduceat(self._rows.squared_norms[order], starts[:-1])
        start = generator(self.order.seed, permutation, stream=2).standard_normal(order.size)
        if self._batch_mix is not None:
            start = self._batch_mix[order] + _BATCH_GUARD * start
        best = largest_batch(arranged, traces, start, batch_size=self.batch_size, tol=self.tol, failure_probability=self._share)
        return best.value, best.residual

    def header(self) -> dict[str, Any]:
        """Everything that a sample depends on, for the journal. How many samples and threads there are is not part of it."""
        problem, order = self.problem, self.order
        given = () if order.given is None else (order.given,)
        return {
            "reshuffle": __version__,
            "loss": str(problem.loss),
            "l2": problem.l2,
            "fit_intercept": problem.fit_intercept,
            "batch_size": self.batch_size,
            "order": order.name,
            "seed": order.seed,
            "tol": self.tol,
            "failure_probability_each": self._share,
            "data_sha256": data_hash(problem.X, self._scale, *given),
        }


def _not_none(values: Vector | None) -> Vector:
    if values is None:
        raise ValueError("the loss is neither smooth nor Lipschitz: no theorem covers it")
    return values
