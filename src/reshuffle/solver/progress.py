"""How far a solver has come: the best point, the best lower bound, and whether their difference is small enough."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.certificate import lower_bound
from reshuffle.problem import Problem
from reshuffle.solver.run import Epoch

Vector = NDArray[np.float64]

_SMALL, _ROUNDING = 4096, 1e-15  # numbers in the data; relative gap


def rows_of(problem: Problem) -> Any:
    """The rows as the kernels of `_rows` take them."""
    return problem.csr if sp.issparse(problem.X) else (problem.X,)


class Progress:
    """Takes points with dual values, keeps the best of both, and says when the certified relative gap is at most tol.

    The gap is relative to what has been gained over `reference`, the value of the best constant model. On data so small that a
    step costs next to nothing, steps go on until rounding ends them: nobody who repeats such a fit wants to see another answer.
    """

    def __init__(
        self, problem: Problem, x: Vector, reference: float, tol: float, max_iter: int, callback: Callable[[Epoch], None] | None
    ) -> None:
        self._problem, self._tol, self._max_iter, self._callback = problem, tol, max_iter, callback
        self._aim = min(tol, _ROUNDING) if problem.X.size <= _SMALL else tol
        self._began = time.perf_counter()
        self.reference = reference
        self.x, self.dual = x, np.zeros(problem.n)
        self.f, self.bound = np.inf, -np.inf
        self.history: list[Epoch] = []

    @property
    def gap(self) -> float:
        return max(self.f - self.bound, 0.0)

    @property
    def gain(self) -> float:
        """f(constant) - f(x), and not less than what rounding could make of it."""
        return max(self.reference - self.f, 1e-10 * abs(self.reference)) if np.isfinite(self.f) else abs(self.reference)

    @property
    def target(self) -> float:
        """The gap to aim for."""
        return self._aim * self.gain

    @property
    def relative_gap(self) -> float:
        return self.gap / self.gain if self.gain > 0.0 else (0.0 if self.gap == 0.0 else np.inf)

    @property
    def converged(self) -> bool:
        return self.gap <= self._tol * self.gain

    @property
    def finished(self) -> bool:
        stalled = len(self.history) > 20 and self.gap >= 0.5 * (self.history[-21].gap or np.inf)
        return self.gap <= self.target or len(self.history) >= self._max_iter or (self.converged and stalled)

    def certificate_can_bear(self, residual: Vector) -> bool:
        """Whether a gradient of this size at the dual point would cost the certificate no more than a tenth of the target."""
        coefficients = residual[: self._problem.d]
        return float(coefficients @ coefficients) <= 0.2 * self._problem.l2 * self.target

    def offer(self, x: Vector, z: Vector, dual: Callable[[], Vector], far: float = 0.0) -> bool:
        """x with its margins z, and dual values, which need not be feasible; returns `finished`.

        far : how much f was expected to fall on the way to x. As steps converge quadratically, f - min f is then about the square
            of it (relative to the gain); where that is hopeless, no lower bound is computed.
        """
        f = self._problem.objective_at(z, x)
        if f < self.f:
            self.x, self.f = x.copy(), f
        last = len(self.history) + 1 == self._max_iter
        if last or far * far <= 30.0 * self.target * self.gain:
            bound, feasible = lower_bound(self._problem, dual())
            if bound > self.bound:
                self.bound, self.dual = bound, feasible
        gap = self.gap if np.isfinite(self.bound) else None
        self.history.append(Epoch(len(self.history) + 1, None, self.f, gap, time.perf_counter() - self._began))
        if self._callback is not None:
            self._callback(self.history[-1])
        return self.finished
