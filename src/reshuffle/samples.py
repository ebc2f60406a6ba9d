"""Labels, weights and losses of samples: what a solver and a certificate ask of vectors that have a number for each sample.

Such vectors are as long as the data, so they are made, kept and summed where rows are multiplied: a solver hands them on and looks
into none. In memory they are NumPy's, and loops over them are compiled. Where a device multiplies the rows and `losses.tensors` has
the loss, they are tensors there: `Problem.on_device` puts a `TensorSamples`, which answers to the same names, in the place of
`Samples`, and the host hears only what tensors sum to. Vectors with a number for each feature are NumPy's everywhere.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

import numpy as np

from reshuffle.losses import Loss, loops
from reshuffle.losses.base import compiled_over
from reshuffle.losses.parts import in_parts
from reshuffle.orders.streams import Stream, fractions
from reshuffle.vectors import Vector, balance, balance_signs

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Samples:
    """Samples whose vectors are NumPy's."""

    loss: Loss
    labels: Vector
    weights: Vector
    by_all_cores: bool  #: where rows are worked with elsewhere, one core would keep them waiting

    def take(self, rows: Any) -> Self:
        """These samples alone; None for all."""
        return self if rows is None else replace(self, labels=self.labels[rows], weights=self.weights[rows])

    def by_label(self) -> "Samples":
        """A sample for each label, with the weight of all that have it: as many as a constant prediction can tell apart."""
        if self.loss.task == "classification":  # which spares a sort
            labels, upper = np.array([-1.0, 1.0]), float((self.weights * (self.labels > 0.0)).sum())
            return Samples(self.loss, labels, np.array([float(self.weights.sum()) - upper, upper]), False)
        labels, inverse = np.unique(self.labels, return_inverse=True)
        weights = np.asarray(np.bincount(inverse, weights=self.weights), dtype=np.float64)
        return Samples(self.loss, labels, weights, False)

    # --- vectors

    def zeros(self) -> Vector:
        return np.zeros(self.labels.size)

    def here(self, values: Vector) -> Vector:
        """A vector of the host's where those of these samples are."""
        return values

    def on_host(self, values: Vector) -> Vector:
        """One of these, as the host has them."""
        return values

    def places(self, chosen: Any) -> Any:
        """Where a mask is true."""
        return np.flatnonzero(chosen)

    def fractions(self, seed: int, stream: Stream) -> Any:
        """See `streams.fractions`."""
        return fractions(self.labels.size, seed, 0, stream)

    # --- losses

    def in_parts(self, run: Callable[[slice], T]) -> list[T]:
        """A compiled loop over the samples."""
        return in_parts(run, self.labels.size, self.by_all_cores)

    def apply(self, function: str, arguments: Vector) -> Vector:
        """A function of the loss, of every sample, without its weight."""
        labels, out, of_loss = self.labels, np.empty(self.labels.size), compiled_over(self.loss, function)
        self.in_parts(lambda part: loops.apply_loss(of_loss, arguments[part], labels[part], self.loss.parameter, out[part]))
        return out

    def total(self, z: Vector, move: Vector, length: float) -> float:
        """The weighted sum of losses at z + length move."""
        value, y, w = (compiled_over(self.loss, "value"), self.loss.parameter), self.labels, self.weights
        return float(sum(self.in_parts(lambda part: loops.total_loss(*value, y[part], w[part], z[part], move[part], length))))

    def models(self, z: Vector, steep: bool) -> tuple[Vector, Vector]:
        """The weighted slope and curvature of each loss at its margin. Where losses are nearly straight, their curvature
        promises a way down without end; `steep` models are bent up to the parabola that has its least point at the label.
        """
        slopes, curvatures = np.empty(z.size), np.empty(z.size)
        of_loss = compiled_over(self.loss, "derivative"), compiled_over(self.loss, "curvature"), self.loss.parameter
        y, w = self.labels, self.weights
        self.in_parts(lambda part: loops.models(*of_loss, y[part], w[part], z[part], steep, slopes[part], curvatures[part]))
        return slopes, curvatures

    def unweighted(self, values: Vector) -> Vector:
        """Values over weights; zero where a weight is."""
        return np.divide(values, self.weights, out=np.zeros(values.size), where=self.weights > 0.0)

    # --- dual values

    @property
    def dual_domain(self) -> tuple[float, float, bool]:
        """Of u or, where the last is true, of u y."""
        low, high = self.loss.dual_domain
        return float(low), float(high), self.loss.task == "classification"

    def clipped(self, u: Vector) -> Vector:
        """Dual values, each moved to the nearest in its interval."""
        domain, labels, out = self.dual_domain, self.labels, np.empty(self.labels.size)
        self.in_parts(lambda part: loops.clip_duals(*domain, labels[part], u[part], out[part]))
        return out

    def total_conjugate(self, u: Vector, share: float) -> float:
        """The weighted sum of l*(share u); infinite where one lies outside its domain."""
        return float(sum(self.in_parts(lambda part: loops.total_conjugate(*self._conjugates(part), u[part], share))))

    def sums_for_rounding(self, u: Vector, reach: float, lengths: Vector) -> list[float]:
        """See `loops.sums_for_rounding`."""
        found = self.in_parts(lambda part: loops.sums_for_rounding(*self._conjugates(part), u[part], reach, lengths[part]))
        *sums, largest = zip(*found, strict=True)
        return [float(sum(one)) for one in sums] + [float(max(largest))]

    def _conjugates(self, part: slice) -> tuple[Any, ...]:
        """What compiled loops over conjugates begin with."""
        conjugate, parameter = compiled_over(self.loss, "conjugate"), self.loss.parameter
        return conjugate, parameter, self.labels[part], self.weights[part], *self.dual_domain

    def balance_signs(self, u: Vector) -> bool:
        """See `vectors.balance_signs`."""
        return bool(balance_signs(self.weights, u))

    def imbalance(self, u: Vector) -> float:
        """w'u, off by at most eps times the sum of |w_i u_i|."""
        return float(balance(self.weights, u))
