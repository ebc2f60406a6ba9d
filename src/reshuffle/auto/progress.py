"""How far a solver has come: the best point, the best lower bound, and whether their difference is small enough."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.certificate import lower_bound
from reshuffle.epoch import Epoch
from reshuffle.problem import Problem

Vector = NDArray[np.float64]

_ROUNDING = 1e-15


def rows_of(problem: Problem) -> Any:
    """The rows as the kernels of `_rows` take them."""
    return problem.csr if sp.issparse(problem.X) else (problem.X,)


def gain(f: float, reference: float) -> float:
    """What f has gained on the best constant model, and not less than what rounding could make of it."""
    return max(reference - f, 1e-10 * abs(reference)) if np.isfinite(f) else abs(reference)


def relative_gap(f: float, gap: float, reference: float) -> float:
    """A certified gap over what there was to gain: an upper bound of (f - min f) / (reference - min f)."""
    return 0.0 if gap == 0.0 else gap / max(gain(f, reference), 1e-300)


@dataclass(frozen=True, eq=False)
class Solution:
    """What `solve` found, and how good it is for certain."""

    x: Vector  #: the d coefficients, then the intercept if there is one
    dual: Vector  #: a feasible dual point
    f: float  #: f(x)
    gap: float  #: f(x) - min f is at most this
    relative_gap: float  #: gap over what x gains on the best constant model
    history: list[Epoch]
    converged: bool  #: whether relative_gap <= tol


class Progress:
    """Takes points with dual values, keeps the best of both, and says when the certified relative gap is at most tol.

    The gap is relative to what has been gained over `reference`, the value of the best constant model. On `small` data, where a
    step costs next to nothing, steps go on until rounding ends them: nobody who repeats such a fit wants to see another answer.
    """

    def __init__(
        self,
        problem: Problem,
        x: Vector,
        reference: float,
        *,
        tol: float,
        max_iter: int,
        small: bool,
        callback: Callable[[Epoch], None] | None,
    ) -> None:
        self.problem, self.reference, self._tol, self._small = problem, reference, tol, small
        self._max_iter, self._callback, self._began = max_iter, callback, time.perf_counter()
        self.x, self.dual = x, np.zeros(problem.n)
        self.f, self.bound = np.inf, -np.inf
        self.history: list[Epoch] = []

    def of(self, problem: Problem, x: Vector) -> "Progress":
        """The same pursuit in another form of the problem."""
        options: dict[str, Any] = {"tol": self._tol, "max_iter": self._max_iter, "small": self._small, "callback": self._callback}
        return Progress(problem, x, self.reference, **options)

    @property
    def gap(self) -> float:
        return max(self.f - self.bound, 0.0)

    @property
    def target(self) -> float:
        """The gap to aim for."""
        return (min(self._tol, _ROUNDING) if self._small else self._tol) * self._gain

    @property
    def _gain(self) -> float:
        return gain(self.f, self.reference)

    @property
    def relative_gap(self) -> float:
        return relative_gap(self.f, self.gap, self.reference)

    @property
    def converged(self) -> bool:
        return self.gap <= self._tol * self._gain

    @property
    def finished(self) -> bool:
        stalled = len(self.history) > 20 and self.gap >= 0.5 * (self.history[-21].gap or np.inf)
        return self.gap <= self.target or len(self.history) >= self._max_iter or (self.converged and stalled)

    def certificate_can_bear(self, residual: Vector) -> bool:
        """Whether a gradient of this size at the dual point would cost the certificate no more than a tenth of the target."""
        coefficients = residual[: self.problem.d]
        return float(coefficients @ coefficients) <= 0.2 * self.problem.l2 * self.target

    def offer(self, x: Vector, f: float, dual: Callable[[], Vector], far: float = 0.0) -> bool:
        """x with f(x), and dual values, which need not be feasible; returns `finished`.

        far : how much f was expected to fall on the way to x. As steps converge quadratically, f - min f is then about the square
            of it (relative to the gain); where that is hopeless, no lower bound is computed.
        """
        if f < self.f:
            self.x, self.f = x.copy(), f
        last = len(self.history) + 1 == self._max_iter
        if last or far * far <= 30.0 * self.target * self._gain:
            bound, feasible = lower_bound(self.problem, dual())
            if bound > self.bound:
                self.bound, self.dual = bound, feasible
        gap = self.gap if np.isfinite(self.bound) else None
        self.history.append(Epoch(len(self.history) + 1, None, self.f, gap, time.perf_counter() - self._began))
        if self._callback is not None:
            self._callback(self.history[-1])
        return self.finished

    def adopt(self, x: Vector, dual: Vector, history: list[Epoch]) -> None:
        """What was found in another form of the problem; f and the bound are computed anew."""
        self.x, self.f = x, self.problem.objective(x)
        self.bound, self.dual = lower_bound(self.problem, dual)
        self.history = history

    def solution(self) -> Solution:
        return Solution(self.x, self.dual, self.f, self.gap, self.relative_gap, self.history, self.converged)
