"""How far a solver has come: the best point, the best lower bound, and whether their difference is small enough."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from reshuffle.duality import certified, lower_bound
from reshuffle.epoch import Epoch
from reshuffle.problem import Problem
from reshuffle.solver.certified import tuning
from reshuffle.vectors import Vector, dot

ROUNDING = 1e-15  #: of a sum of losses: differences below this say nothing
TINY = 1e-300  #: in place of a divisor that may be zero
_STILL = 1e-7  # of |x|: after a Newton step as short as this, x is exact to about its square


@dataclass(frozen=True)
class Baseline:
    """The best constant prediction: what a model gains is measured from it."""

    intercept: float  #: zero where there is none
    f: float
    floor: float  #: a gain below this could be rounding
    nothing: float  #: the lower bound of min f that all duals zero give

    def gain(self, f: float) -> float:
        return max((self.f - f) if isfinite(f) else self.f, self.floor)

    def relative(self, f: float, gap: float) -> float:
        """A certified gap over what there was to gain: an upper bound of (f - min f) / (f of the constant - min f)."""
        return gap / self.gain(f)


@dataclass
class Neighbour:
    """What a fit leaves to those that differ little from it, in alpha or in some rows. It may be anything: it decides how long they
    take, not what is certified.
    """

    f: float = np.inf  #: that it came to
    hessian: Any = None  #: of its losses, without alpha, where one was formed: the last


@dataclass(frozen=True, eq=False)
class Solution:
    """What `solve` found, and how good it is for certain."""

    x: Vector  #: the d coefficients, then the intercept if there is one
    dual: Vector  #: a feasible dual point
    f: float  #: f(x)
    gap: float  #: f(x) - min f is at most this
    relative_gap: float  #: gap over what x gains on the best constant model
    history: list[Epoch]
    converged: bool  #: whether relative_gap <= tol, but for what rounding may hide


class Progress:
    """Takes points with dual values, keeps the best of both, and says when the certified relative gap is at most tol.

    The gap is relative to what has been gained over the best constant model. On `small` data, where a
    step costs next to nothing, steps go on until rounding ends them: nobody who repeats such a fit wants to see another answer.
    """

    def __init__(
        self,
        problem: Problem,
        x: Vector,
        baseline: Baseline,
        *,
        tol: float,
        max_iter: int,
        small: bool,
        callback: Callable[[Epoch], None] | None,
        neighbour: Neighbour | None = None,
    ) -> None:
        self.neighbour = neighbour or Neighbour()
        self.problem, self.baseline, self._tol, self._small = problem, baseline, tol, small
        self._max_iter, self._callback, self._began, self._evaluating = max_iter, callback, time.perf_counter(), 0.0
        self.x, self.dual, self.pull = x, problem.samples.zeros(), np.zeros(problem.d)
        self.f, self.bound = np.inf, -np.inf
        self._moved = 0.0
        self._certified: tuple[Vector, Vector, float] | None = None  # the gap, and of which points it is
        self.history: list[Epoch] = []

    def of(self, problem: Problem, x: Vector) -> "Progress":
        """The same goal for another form of the problem."""
        options: dict[str, Any] = {"tol": self._tol, "max_iter": self._max_iter, "small": self._small, "callback": self._callback}
        other = Progress(problem, x, self.baseline, **options)
        other.history = list(self.history)
        return other

    @property
    def small(self) -> bool:
        """Data on which x is worked out to rounding, as that costs next to nothing."""
        return self._small

    @property
    def gap(self) -> float:
        """As computed, without what rounding may hide: steps go on until this is small enough."""
        return max(self.f - self.bound, 0.0)

    @property
    def certified_gap(self) -> float:
        if self._certified is None or self._certified[0] is not self.x or self._certified[1] is not self.dual:
            self._certified = self.x, self.dual, self._certify()  # which takes as long as a short pass
        return self._certified[2]

    def _certify(self) -> float:
        """The gap, with the most that rounding can hide."""
        return certified(self.problem, self.x, self.f, self.bound, self.dual)

    @property
    def target(self) -> float:
        """The gap to aim for."""
        return self.share * self._gain

    @property
    def aim(self) -> float:
        """The same as far as one can tell early on: what there is to gain is at most what the bound leaves of the baseline."""
        return max(self.target, 0.5 * self.share * (self.baseline.f - self.bound)) if isfinite(self.bound) else self.target

    @property
    def share(self) -> float:
        """Of what is gained, to aim for."""
        return min(self._tol, ROUNDING) if self._small else self._tol

    @property
    def _gain(self) -> float:
        return self.baseline.gain(self.f if isfinite(self.f) else self.neighbour.f)

    @property
    def relative_gap(self) -> float:
        return self.baseline.relative(self.f, self.certified_gap)

    @property
    def converged(self) -> bool:
        return self.gap <= self._tol * self._gain

    @property
    def finished(self) -> bool:
        back = tuning.STALL_RECORDS + 1
        stalled = len(self.history) >= back and self.gap >= tuning.STALL_SHARE * (self.history[-back].gap or np.inf)
        reached = self.gap <= self.target and not (self._small and self._moved > _STILL)
        return reached or len(self.history) >= self._max_iter or (self.converged and stalled)

    def near(self, gradient: Vector) -> bool:
        """Whether a point with gradient g is good enough: the bound that its own slopes give lies |g|^2 / (2 alpha) below f."""
        return float(dot(self.costs, gradient * gradient)) <= self.target

    @cached_property
    def costs(self) -> Vector:
        """What the squares of the entries of a gradient at the dual point take from the bound. What there is of an intercept's has
        to be balanced by the dual values, which takes about as much of the rows. On small data steps are solved to rounding anyway.
        """
        costs = np.full(self.problem.dimension, 0.5 / self.problem.alpha)
        if self.problem.fit_intercept:
            costs[-1] *= 0.0 if self._small else float(self.problem.squared_norms().mean()) - 1.0
        return costs

    def _square_of_coefficients(self, x: Vector) -> float:
        """|x|^2 without what bears no regulariser."""
        return float(dot(x[: self.problem.d], x[: self.problem.d]))

    def worth_certifying(self, expected: float) -> bool:
        """Whether a lower bound after a step that was expected to lower f by so much could be near enough. As steps converge
        quadratically, f - min f is then about the square of it, relative to the gain.
        """
        return self.at_last or expected * expected <= tuning.CERTIFY_WITHIN * self.target * self._gain

    def offer(self, x: Vector, f: float | None, dual: Vector | None, moved: float = 0.0, pull: Vector | None = None) -> bool:
        """x with f(x), where it is known, and dual values, which need not be feasible; returns `finished`. A gap at the level of
        rounding leaves x open to its square root, so small data is not finished before a step has `moved` x by next to nothing,
        relative to its size. `pull` is A'(w dual) / n where it is known.
        """
        began, self._moved = time.perf_counter(), moved
        f = self.problem.objective(x) if f is None else f
        if f <= self.f + ROUNDING * abs(f):  # of points that rounding cannot tell apart, the last is the most exact
            self.x, self.f = x.copy(), f
        if dual is not None:
            self.bound_by(dual, pull)
        gap = self.gap if isfinite(self.bound) else None
        now = time.perf_counter()
        self._evaluating += now - began
        self.history.append(Epoch(len(self.history) + 1, None, self.f, gap, now - self._began - self._evaluating))
        finished = self.finished
        if finished and gap is not None:  # before that, what rounding may hide does not matter
            self.history[-1] = replace(self.history[-1], gap=self.certified_gap)
        if self._callback is not None:
            self._callback(self.history[-1])
        return finished

    def bound_by(self, dual: Vector, pull: Vector | None = None) -> None:
        """Dual values that may prove a better bound."""
        found = lower_bound(self.problem, dual, self.f - self.target, self.baseline.nothing, pull)
        if found.value > self.bound:
            self.bound, self.dual, self.pull = found

    @property
    def at_last(self) -> bool:
        """Whether the next record is the last that there may be."""
        return len(self.history) + 1 >= self._max_iter

    def passed(self) -> None:
        """A pass after which nobody looks. What is known stays: f, which is the baseline's before the first look, and how far it is
        off at most.
        """
        now = time.perf_counter()
        f, gap = (self.f if isfinite(self.f) else self.baseline.f), (self.gap if isfinite(self.bound) else None)
        self.history.append(Epoch(len(self.history) + 1, None, f, gap, now - self._began - self._evaluating))
        if self._callback is not None:
            self._callback(self.history[-1])

    def fall_back(self, x: Vector, f: float) -> None:
        """To x, where what came after it is worse."""
        if not self.f <= f:
            self.x, self.f = x.copy(), f

    def adopt(self, x: Vector, dual: Vector, history: list[Epoch]) -> None:
        """What was found in another form of the problem, where it is better; f and the bound are computed anew."""
        self.fall_back(x, self.problem.objective(x))
        self.bound_by(dual)
        self.history = history

    def solution(self) -> Solution:
        self.neighbour.f = self.f
        dual = self.problem.samples.on_host(self.dual)
        return Solution(self.x, dual, self.f, self.certified_gap, self.relative_gap, self.history, self.converged)
