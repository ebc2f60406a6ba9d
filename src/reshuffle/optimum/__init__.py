"""x*, and what the theorems ask of it: D = |x_0 - x*|, sigma* and |y*|. Solved to high accuracy, and honest about how high.

`solving` finds a minimiser, `existence` refuses problems that have none, and where there are many `nearest` goes on to the one that
is nearest to x_0. Every promise holds for each of them and grows with D^2, so the nearest makes the best.
"""

from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.duality import duality_gap
from reshuffle.optimum.existence import NoMinimiserError, require_minimiser
from reshuffle.optimum.nearest import nearest_minimiser, nearest_where_slopes_are
from reshuffle.optimum.solving import LARGEST_HESSIAN, minimise_pieces, minimise_smooth
from reshuffle.problem import Problem
from reshuffle.solver.certified.row_span import RowSpan
from reshuffle.validation import starting_point
from reshuffle.vectors import Vector

__all__ = ["NoMinimiserError", "Optimum", "measure"]


@dataclass(frozen=True, eq=False)
class Optimum:
    """A minimiser, as close as it could be computed: of many, the one nearest to the start."""

    x: Vector
    f: float  #: f(x)
    distance: float  #: D = |x_0 - x*|
    sigma: float  #: sqrt((1/n) sum_i |grad f_i(x*)|^2); nan for a loss with kinks
    dual_norm: float  #: |y*|_{Λ^-1}; nan for a loss with kinks
    gradient_norm: float  #: |grad f(x)| relative to |grad f(x_0)|; nan for a loss with kinks
    error: float | None  #: an upper bound of f - min f, where one can be had (alpha > 0, or a linear program)
    distance_error: float | None = None  #: an upper bound of the error of D, where one can be had (alpha > 0, no intercept)

    def __str__(self) -> str:
        known = "" if self.error is None else f", f - min f <= {self.error:.1e}"
        reached = f"relative gradient {self.gradient_norm:.1e}" if self.gradient_norm == self.gradient_norm else "linear program"
        return f"f* = {self.f:.10g}, D = {self.distance:.4g}, sigma* = {self.sigma:.4g} ({reached}{known})"


def measure(problem: Problem, x0: ArrayLike | None = None) -> Optimum:
    """Solve the problem and measure what the bounds need, from the starting point x0 (zero if not given)."""
    start = starting_point(x0, problem.dimension)
    if problem.smoothness is None:
        return _measure_pieces(problem, start)
    x = _nearest_of_smooth(problem, start)
    initial, final = (float(np.linalg.norm(problem.gradient(at))) for at in (start, x))
    return Optimum(
        x=x,
        f=problem.objective(x),
        distance=float(np.linalg.norm(x - start)),
        sigma=float(np.sqrt(problem.squared_sample_gradients(x).mean())),
        dual_norm=_dual_norm(problem, x, problem.smoothness),
        gradient_norm=final / initial if initial > 0.0 else 0.0,
        error=duality_gap(problem, x),
        distance_error=final / problem.alpha if problem.alpha > 0.0 and not problem.fit_intercept else None,
    )


def _dual_norm(problem: Problem, x: Vector, smoothness: Vector) -> float:
    """sqrt(sum_i y_i^2 / L_i), and alpha|x|^2 for each sample's share of the regulariser."""
    duals, coefficients = problem.sample_weight * problem.duals(problem.margins(x)), x[: problem.d]
    return float(np.sqrt(np.sum(duals**2 / smoothness) + problem.n * problem.alpha * float(coefficients @ coefficients)))


def _nearest_of_smooth(problem: Problem, start: Vector) -> Vector:
    """In the span of the rows where they are few: across it f does not change, and with alpha > 0 a minimiser has no part there."""
    if problem.n < problem.d and problem.n <= LARGEST_HESSIAN:
        span = RowSpan(problem)
        inside = span.inside(start)
        across = start - span.outside(inside) if problem.alpha == 0.0 else 0.0
        return span.outside(_nearest_of_smooth(span.problem, inside)) + across
    found = minimise_smooth(problem, start)
    require_minimiser(problem, found)
    return nearest_minimiser(problem, start, found)


def _measure_pieces(problem: Problem, start: Vector) -> Optimum:
    found, slopes, lower = minimise_pieces(problem)
    x = nearest_where_slopes_are(problem, start, found, slopes)
    f = problem.objective(x)
    distance = float(np.linalg.norm(x - start))
    return Optimum(x=x, f=f, distance=distance, sigma=nan, dual_norm=nan, gradient_norm=nan, error=max(f - lower, 0.0))
