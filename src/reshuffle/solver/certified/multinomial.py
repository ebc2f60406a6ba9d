"""Multinomial logistic regression, certified by its own dual: several classes, a predictor for each, and one loss of all margins of
a sample, ln sum_k exp(z_k) - z_y.

Only the places where a margin meets its loss differ from a loss of one margin: `JointLosses` and `JointBatch` stand in for those of
`batch`, with x and z the coefficients and the margins of one class after the other. All else is as it is there.

The dual values of a sample are p - e_y for a p with entries that are not negative and add up to one, and
l*(p - e_y) = sum_k p_k ln p_k. An intercept asks of the classes that sum_i w_i p_ik is the weight of class k.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp, softmax

from reshuffle.blas import one_thread
from reshuffle.epoch import Epoch
from reshuffle.problem import Problem
from reshuffle.rows.devices import memory_in_words
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.batch import Batch, Chosen, Losses, rows_for_hessian
from reshuffle.solver.certified.newton import from_nearby, growing, on_batches
from reshuffle.solver.certified.progress import TINY, Baseline, Progress, Solution
from reshuffle.vectors import Vector, dot

_ROUNDED = 1e-10  # of f: a gain as small as this has lost most of its digits to rounding


class Joint:
    """A problem of K classes: `rows` lends its data, weights, alpha and intercept, whatever its loss and labels."""

    def __init__(self, rows: Problem, numbers: NDArray[np.intp], classes: int) -> None:
        self.one, self.numbers, self.classes = rows, numbers, classes
        self.hits = numbers == np.arange(classes)[:, None]  #: K x n: the class of each sample

    def split(self, x: Vector) -> Vector:
        """K rows, of flat coefficients or margins."""
        return x.reshape(self.classes, -1)

    def margins(self, x: Vector, rows: Chosen = None) -> Vector:
        return np.concatenate([self.one.rows.margins(own, rows) for own in self.split(x)])

    def transposed(self, u: Vector, rows: Chosen = None) -> Vector:
        return np.concatenate([self.one.rows.transposed(own, rows) for own in self.split(u)])

    def coefficients(self, x: Vector) -> Vector:
        return self.split(x)[:, : self.one.d]

    def lower_bound(self, dual: Vector) -> tuple[float, Vector]:
        """A lower bound of min f from any dual values, and the feasible ones that it belongs to: p is moved to where it may be and,
        with an intercept, classes that have too much of it give to those that have too little, in the share that these lack.
        """
        p = np.maximum(self.split(dual) + self.hits, 0.0)
        p[:, ~p.any(axis=0)] = 1.0  # nothing is left of such a sample, so its classes get the same
        p /= p.sum(axis=0)
        if self.one.fit_intercept:
            weights = self.one.sample_weight
            wanted, there = self.hits @ weights, p @ weights
            lacking = np.maximum(wanted - there, 0.0)
            if lacking.any():
                kept = np.minimum(wanted / np.maximum(there, TINY), 1.0)[:, None]
                given = ((1.0 - kept) * p).sum(axis=0)
                p = kept * p + (lacking / lacking.sum())[:, None] * given
        u = (p - self.hits).ravel()
        pull = self.coefficients(self.transposed((self.split(u) * self.one.sample_weight).ravel())).ravel() / self.one.n
        entropy = float(dot(self.one.sample_weight, entr(p).sum(axis=0))) / self.one.n
        return entropy - float(dot(pull, pull)) / (2.0 * self.one.alpha), u

    def baseline(self) -> Baseline:
        """The best constant prediction: the shares of the classes with an intercept, else none."""
        shares = self.hits @ self.one.sample_weight / self.one.n
        f = float(entr(shares).sum()) if self.one.fit_intercept else float(np.log(self.classes)) * float(shares.sum())
        return Baseline(0.0, f, _ROUNDED * f + TINY, 0.0)

    def start(self) -> Vector:
        """Zero, with the intercepts of the best constant prediction."""
        x = np.zeros((self.classes, self.one.dimension))
        if self.one.fit_intercept:
            x[:, -1] = np.log(np.maximum(self.hits @ self.one.sample_weight, TINY) / self.one.n)
        return x.ravel()


class JointLosses(Losses):
    """The losses of a batch, each of all margins of its sample. The curvatures are weighted probabilities, w p, of which `bent`
    makes the change of the slopes, w (p z - p p'z) entry by entry.
    """

    def __init__(self, joint: Joint, rows: Chosen) -> None:
        chosen = slice(None) if rows is None else rows
        self._joint, self.hits = joint, joint.hits[:, chosen]
        self.weights = joint.one.sample_weight[chosen]

    def models(self, z: Vector, steep: bool) -> tuple[Vector, Vector]:
        p = softmax(self._joint.split(z), axis=0)
        return (self.weights * (p - self.hits)).ravel(), (self.weights * p).ravel()

    def farthest(self, z: Vector) -> float:
        return 0.0  # no model is steeper than another

    def total(self, z: Vector, move: Vector, length: float) -> float:
        at = self._joint.split(z + length * move)
        return float(dot(self.weights, logsumexp(at, axis=0) - (at * self.hits).sum(axis=0)))

    def duals(self, slopes: Vector) -> Vector:
        flat = self._joint.split(slopes)
        unweighted: Vector = np.divide(flat, self.weights, out=np.zeros(flat.shape), where=self.weights > 0.0)
        return unweighted.ravel()

    def bent(self, curvatures: Vector, along: Vector) -> Vector:
        weighted, z = self._joint.split(curvatures), self._joint.split(along)
        mean = np.divide((weighted * z).sum(axis=0), self.weights, out=np.zeros(z.shape[1]), where=self.weights > 0.0)
        change: Vector = weighted * (z - mean)
        return change.ravel()


class JointBatch(Batch):
    """A set of rows with the sums over them that a step needs, preconditioned class by class."""

    def __init__(self, joint: Joint, rows: Chosen, limit: int) -> None:
        losses = JointLosses(joint, rows)
        super().__init__(joint.one, rows, losses, limit)
        self._joint, self._single = joint, Batch(joint.one, rows, Losses(joint.one, rows), limit)
        self.alpha = self.ridge = np.tile(self._single.alpha, joint.classes)

    def margins(self, x: Vector) -> Vector:
        return self._joint.margins(x, self.rows)

    def gradient(self, slopes: Vector, x: Vector) -> Vector:
        return self._joint.transposed(slopes, self.rows) / self.size + self.alpha * x

    def product(self, curvatures: Vector, p: Vector) -> tuple[Vector, Vector]:
        along = self.margins(p)
        return along, self.gradient(self.losses.bent(curvatures, along), p) + (self.ridge - self.alpha) * p

    @property
    def squared_units(self) -> Vector:
        return np.tile(super().squared_units, self._joint.classes)

    def _price_of(self, curvatures: Vector, limit: int) -> float:
        """The same as for one class: both products and Hessians are as many times as much."""
        return super()._price_of(self._joint.split(curvatures)[0], limit)

    def preconditioner(self, curvatures: Vector) -> Callable[[Vector], Vector]:
        single, weights = self._single, np.maximum(self.losses.weights, TINY)
        single.factored, single.limit, single.ridge = self.factored, self.limit, self.ridge[: self.problem.dimension]
        single._rough, single._blurred = self._rough, self._blurred
        own = [single.preconditioner(weighted * (1.0 - weighted / weights)) for weighted in self._joint.split(curvatures)]
        self._rough, self._blurred = single._rough, single._blurred
        return lambda r: np.concatenate([part(one) for part, one in zip(own, self._joint.split(r), strict=True)])


class JointProgress(Progress):
    """`Progress` with the dual of several classes."""

    def __init__(self, joint: Joint, x: Vector, *, tol: float, max_iter: int, callback: Callable[[Epoch], None] | None) -> None:
        small = joint.one.rows.entries <= tuning.SMALL
        super().__init__(joint.one, x, joint.baseline(), tol=tol, max_iter=max_iter, small=small, callback=callback)
        self._joint = joint

    @cached_property
    def costs(self) -> Vector:
        return np.tile(super().costs, self._joint.classes)

    def _certify(self) -> float:
        """With what rounding may hide, as `duality.rounding` counts it: a loss changes by at most twice the largest change of a
        margin, and the entropies of a sample by at most log K.
        """
        one, u = self._joint.one, np.abs(self._joint.split(self.dual))
        n, w, alpha = one.n, one.sample_weight, one.alpha
        terms = 2.0**-52 * (max(n, one.d) + 16)
        square = self._square_of_coefficients(self.x)
        reach = one.lengths * float(np.linalg.norm(self._joint.split(self.x), axis=1).max(initial=0.0))
        of_f = terms * (abs(self.f) + 2.0 * float(w @ reach) / n + alpha * square)
        off = terms * float(((w * one.lengths) * u).sum()) / n
        pull = alpha * float(np.sqrt(square)) + float(np.sqrt(2.0 * alpha * self.gap)) + off
        of_dual = terms * float(w.sum()) / n * np.log(len(u)) + off * (2.0 * pull + off) / alpha
        if one.fit_intercept:
            imbalance = float(np.abs(self._joint.split(self.dual) @ w).sum()) + 2.0 * terms * float((w * u).sum())
            of_dual += imbalance / n * 10.0 * (1.0 + float(reach.max()))
        return self.gap + of_f + float(of_dual)

    def _square_of_coefficients(self, x: Vector) -> float:
        coefficients = self._joint.coefficients(x).ravel()
        return float(dot(coefficients, coefficients))

    def bound_by(self, dual: Vector, pull: Vector | None = None) -> None:
        bound, feasible = self._joint.lower_bound(dual)
        if bound > self.bound:
            self.bound, self.dual = bound, feasible


def solve_multinomial(
    rows: Problem,
    numbers: NDArray[np.intp],
    classes: int,
    *,
    tol: float,
    max_iter: int,
    x0: Vector | None = None,
    seed: int = 0,
    callback: Callable[[Epoch], None] | None = None,
) -> Solution:
    """`solve` for the multinomial loss: `numbers` are the classes of the samples, 0 to K - 1. x has a row for each class."""
    joint = Joint(rows, numbers, classes)
    x = joint.start() if x0 is None else x0.ravel().copy()
    progress = JointProgress(joint, x, tol=tol, max_iter=max_iter, callback=callback)
    limit = rows_for_hessian(rows)
    with one_thread(), memory_in_words():
        if x0 is not None:  # which may be good enough
            whole = JointBatch(joint, None, limit)
            from_nearby(whole, progress, x)
            if not progress.finished:
                progress.fall_back(x, whole.at(x).f)
                x = progress.x
        batches: Iterable[Chosen] = [] if progress.finished else growing(rows, seed) if x0 is None else [None]
        on_batches((JointBatch(joint, chosen, limit) for chosen in batches), progress, x)
    found = progress.solution()
    return replace(found, x=joint.split(found.x), dual=joint.split(found.dual))
