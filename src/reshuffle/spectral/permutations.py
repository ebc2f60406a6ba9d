"""The constants of one permutation, and what all permutations of a problem share.

Shared, and computed once: the top left singular vector w of Λ^{1/2}A, which says where the top eigenvector of every ordered
matrix is to be looked for, and a guard q, which looks everywhere else. The start sin(pi t/(2m+1)) (w + guard q) makes a
permutation cost a handful of products, and q keeps Lanczos from settling on a lower eigenvalue where an order has pushed the
top one out of w's sight (clusters one after the other, heavy rows late). q gives each row the size of its norm, and the sign
that it has in (Λ^{1/2}AA'Λ^{1/2})g for a random g: rows that point the same way get the same sign, so q's part in a cluster is
the cluster's share of the data. A random n-vector would not do: its part in anything falls as 1/sqrt(n).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import pi
from typing import Any

import numpy as np

from reshuffle import theory
from reshuffle.orders import Order
from reshuffle.orders.streams import Stream, generator
from reshuffle.problem import Problem
from reshuffle.records import settings_of
from reshuffle.rows import Arranged, Rows, batch_starts
from reshuffle.spectral import lanczos
from reshuffle.spectral.batches import LargestBatch, largest_batch, largest_batches
from reshuffle.spectral.together import top_eigenvalues, upper_bounds
from reshuffle.vectors import Vector

# A random order of many rows mixes the data; a given one may not, and a few rows, or a few heavy ones among many, can fall
# in any order. There the guard is strong, at the price of a product or two.
_GUARD, _STRONG_GUARD, _MANY_ROWS = 0.01, 0.3, 2000
_BATCH_GUARD = 0.1
_KEPT_ROWS = 1 << 22  # up to which the sines are kept for all permutations: of more rows, memory is dearer than they are
PLAIN = 1e-60, 1e60  # of the largest squared norm: outside, squares of products of rows come too near to what a number can hold


@dataclass(frozen=True)
class Sample:
    """The constants of one permutation."""

    permutation: int  #: its number, from 0
    hat: float  #: Lhat_pi or Ghat_pi
    til: float  #: Ltil_pi or Gtil_pi
    products: int  #: products of the operator that it took
    residual: float  #: relative residual that was reached


class Shared:
    """What all permutations and batch sizes of a problem share: its rows, the norm of all of them, and where to look first."""

    mix: Vector  #: where to look first

    def __init__(self, problem: Problem, order: Order, *, tol: float, share: float | None, lipschitz: bool = False) -> None:
        """`share` is the failure probability of each bound, or None for eigenvalues to the tolerance; `lipschitz` asks for the
        constants of a Lipschitz loss even where it is smooth.
        """
        if not order.permutes:
            raise ValueError(
                f"order={order.name!r} does not visit each of the {problem.n} rows once an epoch, and constants belong to orders "
                "that do; use one of them, or for training a step size of your own"
            )
        self.problem, self.order, self.tol, self.share = problem, order, tol, share
        self.smooth = problem.smoothness is not None and not lipschitz
        self.scale = scale_of(problem, lipschitz)
        self.alpha = problem.alpha if self.smooth else 0.0
        self.exponent, self.squared_norms = measured(problem.rows, self.scale)
        scale = np.ldexp(self.scale, -self.exponent) if self.exponent else self.scale
        self.rows = problem.rows.weighted(scale, tol, plain=self.exponent == 0)
        self.largest = float(self.squared_norms.max())
        self.norm, self.residual, self.products = 0.0, 0.0, 0
        if self.largest > 0.0:
            self._look(generator(order.seed, 0, Stream.LOOK).standard_normal(problem.n))

    def _look(self, g: Vector) -> None:
        norms, rows = self.squared_norms, self.problem.rows
        # What the recurrence keeps takes no more memory than the rows, or where these are on disk than a vector of theirs.
        room = (rows.entries if rows.bounds is None else rows.n) // rows.dimension if self.share is None else 0
        squared = self.rows.squared or lanczos.GolubKahan(self.rows.factored, keep=room)
        if self.share is not None:
            top = lanczos.upper_bound(squared, g, slack=self.tol, failure_probability=self.share)
        else:
            top = lanczos.top_eigenvalue(squared, g.copy(), tol=self.tol)
            rows_that_count = norms.sum() ** 2 / (norms @ norms)
            mixed = self.order.uniform and not self.order.fixed and rows_that_count > _MANY_ROWS
            guard = _GUARD if mixed else _STRONG_GUARD

            def guarded(q: Vector) -> Vector:
                np.sign(q, out=q)
                q *= np.sqrt(norms)
                q *= guard / np.linalg.norm(q)
                return q

            self.mix = lanczos.ritz_vector(squared, g, top, guarded)
        self.norm, self.residual, self.products = top.value, top.residual, top.products

    @cached_property
    def batch_mix(self) -> Vector:
        """Where the recurrences of batches start, an entry a row."""
        noise = generator(self.order.seed, 0, Stream.BATCH_START).standard_normal(self.mix.size)
        noise *= _BATCH_GUARD
        noise += np.sqrt(self.mix.size) * self.mix
        return noise

    def true(self, value: float) -> float:
        """A squared norm of the rows as they are, from one of the rows as they are computed with, 2^exponent times smaller."""
        return float(np.ldexp(value, 2 * self.exponent))

    @property
    def largest_sample(self) -> float:
        return self.true(self.largest) + self.alpha

    @property
    def mean_sample(self) -> float:
        return self.true(float(self.squared_norms.mean())) + self.alpha

    @property
    def full_gradient_constant(self) -> float:
        return self.true(self.norm / self.problem.n) + self.alpha

    def bounds(self, batch_size: int) -> tuple[float, float]:
        """What hat and til are at most in every order. A batch has at most the trace of its largest rows, and no more than all rows
        together; at b = n both are the norm itself.
        """
        n, norms = self.problem.n, self.squared_norms
        largest = self.largest if batch_size == 1 else float(np.partition(norms, n - batch_size)[n - batch_size :].mean())
        hat = self.true(self.norm / n) + self.alpha * theory.ordered_norm_ratio(theory.batches(n, batch_size))
        return hat, self.true(min(largest, self.norm / batch_size)) + self.alpha


class Permutations:
    """Lhat_pi and Ltil_pi (or Ghat_pi and Gtil_pi) of one permutation after another; safe to share by threads."""

    def __init__(self, shared: Shared, batch_size: int) -> None:
        self.shared, self.batch_size = shared, batch_size
        self._n, self._m = shared.problem.n, theory.batches(shared.problem.n, batch_size)

    @cached_property
    def _profile(self) -> Vector:
        """sin(pi t/(2m+1)) at each position."""
        return self._sines(0, self._n)

    def _sines(self, low: int, high: int) -> Vector:
        return np.sin(pi * (np.arange(low, high) // self.batch_size + 1.0) / (2 * self._m + 1))

    def constants_of(self, permutation: int) -> Sample:
        shared = self.shared
        if shared.largest == 0.0:
            return self._sample(permutation, lanczos.TopEigenvalue(0.0, 0.0, 0, np.empty(0)), 0.0, 0.0)
        order = shared.order.permutation(permutation)
        arranged = shared.rows.arrange(order, self.batch_size)
        hat = self._ordered_norm(arranged, order, permutation)
        return self._sample(permutation, hat, *self._largest_batch(arranged, order, permutation))

    def constants_of_all(self, permutations: Sequence[int]) -> Iterator[Sample]:
        """Those of several permutations, side by side where the rows are multiplied so."""
        together = getattr(self.shared.rows, "together", None)
        if together is None or self.shared.largest == 0.0:
            yield from map(self.constants_of, permutations)
            return
        orders = self.shared.rows.orders(self.shared.order, permutations)  # type: ignore[attr-defined]
        hats, tils = self._ordered_norms(permutations, orders), self._largest_batches(permutations, orders)
        for permutation, hat, til in zip(permutations, hats, tils, strict=True):
            yield self._sample(permutation, hat, til.value, til.residual)

    def _ordered_norms(self, permutations: Sequence[int], orders: Any) -> list[lanczos.TopEigenvalue]:
        shared, rows = self.shared, self.shared.rows
        together = rows.together(orders, self.batch_size)  # type: ignore[attr-defined]
        if shared.share is None:
            profile, mix, _ = self._on_device
            return top_eigenvalues(together, profile * mix[orders], tol=shared.tol)
        start = self._normal(permutations, Stream.START)
        return upper_bounds(together, start, slack=shared.tol, failure_probability=shared.share)

    def _largest_batches(self, permutations: Sequence[int], orders: Any) -> list[LargestBatch]:
        shared = self.shared
        if self.batch_size == 1:
            return [LargestBatch(shared.largest, 0.0)] * len(permutations)
        batches = shared.rows.batches(orders, self.batch_size)  # type: ignore[attr-defined]
        traces = batches.sums(shared.squared_norms).reshape(len(permutations), -1)
        start = self._on_device[2][orders] if shared.share is None else self._normal(permutations, Stream.BATCH_START)
        found = largest_batches(batches, traces, batches.spread(start), **self._of_batches)
        return [LargestBatch(self._bounded(best), best.residual) for best in found]

    @property
    def _of_batches(self) -> dict[str, Any]:
        """How the largest batch is looked for; the batches of an order share its failure probability."""
        share = self.shared.share
        return {
            "batch_size": self.batch_size,
            "tol": self.shared.tol,
            "failure_probability": None if share is None else share / self._m,
        }

    def _bounded(self, best: LargestBatch) -> float:
        """What was found or, where a bound is asked for, what no batch exceeds."""
        return best.value if self.shared.share is None else best.value / (1.0 - self.shared.tol)

    def _normal(self, permutations: Sequence[int], stream: Stream) -> Any:
        """Random starts, a row for each permutation, where the rows are."""
        seed = self.shared.order.seed
        drawn = np.stack([generator(seed, k, stream).standard_normal(self._n) for k in permutations])
        return self.shared.rows.up(drawn)  # type: ignore[attr-defined]

    @cached_property
    def _on_device(self) -> tuple[Any, Any, Any]:
        """The profile and both mixes, where the rows are."""
        up = self.shared.rows.up  # type: ignore[attr-defined]
        return up(self._profile), up(self.shared.mix), up(self.shared.batch_mix)

    def _sample(self, permutation: int, hat: lanczos.TopEigenvalue, til: float, til_residual: float) -> Sample:
        shared = self.shared
        return Sample(
            permutation,
            shared.true(hat.value / (self._m * self._n)) + shared.alpha * theory.ordered_norm_ratio(self._m),
            shared.true(til / self.batch_size) + shared.alpha,
            hat.products,
            max(hat.residual, til_residual),
        )

    def _ordered_norm(self, arranged: Arranged, order: Any, permutation: int) -> lanczos.TopEigenvalue:
        shared = self.shared
        if shared.share is not None:
            start = generator(shared.order.seed, permutation, Stream.START).standard_normal(order.size)
            return lanczos.upper_bound(arranged.ordered, start, slack=shared.tol, failure_probability=shared.share)
        start, visit = np.empty(order.size), arranged.visit
        if order.size <= _KEPT_ROWS:
            start[visit] = self._profile * shared.mix.take(order)
        else:
            for low in range(0, order.size, _KEPT_ROWS):
                part = slice(low, min(low + _KEPT_ROWS, order.size))
                start[visit[part]] = self._sines(part.start, part.stop) * shared.mix.take(order[part])
        del visit  # which may be as large as the start
        return lanczos.top_eigenvalue(arranged.ordered, start, tol=shared.tol)

    def _largest_batch(self, arranged: Arranged, order: Any, permutation: int) -> tuple[float, float]:
        shared = self.shared
        if self.batch_size == 1:
            return shared.largest, 0.0
        pieces = getattr(arranged, "pieces", None)  # of rows that memory has no room for: whole batches, some at a time
        random = generator(shared.order.seed, permutation, Stream.BATCH_START)
        best = LargestBatch(0.0, 0.0)
        for place, part in [(slice(0, order.size), arranged)] if pieces is None else pieces():
            rows = order[place]
            traces = np.add.reduceat(shared.squared_norms[rows], batch_starts(rows.size, self.batch_size)[:-1])
            start = shared.batch_mix[rows] if shared.share is None else random.standard_normal(rows.size)
            best = largest_batch(part, traces, start, best, **self._of_batches)
        return self._bounded(best), best.residual

    def settings(self) -> dict[str, Any]:
        """Everything that a sample depends on, for the journal. How many samples and threads there are is not part of it."""
        shared = self.shared
        return {
            **settings_of(shared.problem, shared.order, self.batch_size, shared.scale),
            "tol": shared.tol,
            "failure_probability_each": shared.share,
        }


def measured(rows: Rows, scale: Vector) -> tuple[int, Vector]:
    """An exponent e, and the squared norms of the rows 2^-e scale_i a_i. e is zero unless these, or products of them, would
    overflow or vanish; scaling by a power of two is exact.
    """
    with np.errstate(over="ignore", under="ignore"):
        plain = scale**2 * rows.squared_norms()
    if PLAIN[0] <= plain.max() <= PLAIN[1]:
        return 0, plain
    largest = max(float(np.abs(rows.column_ranges()).max()), float(rows.intercept))
    if largest == 0.0:
        return 0, plain
    inner, outer = int(np.frexp(largest)[1]), int(np.frexp(scale.max())[1])
    unit, bare = np.full(rows.d, np.ldexp(1.0, -inner)), rows.with_intercept(False)
    squares = np.concatenate([block.scale_columns(unit).squared_norms() for _, block in bare._blocks()])
    squares = np.ldexp(scale, -outer) ** 2 * (squares + (np.ldexp(1.0, -2 * inner) if rows.intercept else 0.0))
    if not -1021 < 2 * (inner + outer) + int(np.frexp(squares.max())[1]) < 1023:
        raise ValueError(
            f"X holds entries up to {largest:.1e}, and no number holds the squares of its rows; multiply X by a constant c such as "
            f"{1.0 / largest:.0e} first: L, Lhat and Ltil then are c^2 times as large"
        )
    return inner + outer, squares


def scale_of(problem: Problem, lipschitz: bool = False) -> Vector:
    """sqrt(L_i) of every row; G_i where the loss has a kink, or where it is asked for."""
    if problem.smoothness is not None and not lipschitz:
        return np.sqrt(problem.smoothness)
    if problem.lipschitz is None:
        what = (
            "is not Lipschitz, so it has no Ghat and Gtil" if lipschitz else "is neither smooth nor Lipschitz: no theorem covers it"
        )
        raise ValueError(f"loss={str(problem.loss)!r} {what}")
    return problem.lipschitz
