"""x*, and what the theorems ask of it: D = |x_0 - x*|, sigma* and |y*|. Solved to high accuracy, and honest about how high.

Smooth losses: the certified solver where alpha > 0, else L-BFGS on columns scaled to unit norm, then Newton steps where the Hessian
is small enough to form. Losses made of straight pieces: a linear program; together with alpha > 0 they are refused, as no theorem
covers that.
"""

from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog
from scipy.optimize import minimize as scipy_minimize

from reshuffle.duality import duality_gap
from reshuffle.problem import Problem
from reshuffle.solver.certified import solve
from reshuffle.theory import uncovered

Vector = NDArray[np.float64]

_LARGEST_HESSIAN = 3000


@dataclass(frozen=True, eq=False)
class Optimum:
    """A minimiser, as close as it could be computed."""

    x: Vector
    f: float  #: f(x)
    distance: float  #: D = |x_0 - x*|
    sigma: float  #: sqrt((1/n) sum_i |grad f_i(x*)|^2); nan for a loss with kinks
    dual_norm: float  #: |y*|_{Λ^-1}; nan for a loss with kinks
    gradient_norm: float  #: |grad f(x)| relative to |grad f(x_0)|; nan for a loss with kinks
    error: float | None  #: an upper bound of f - min f, where one can be had (alpha > 0, or a linear program)

    def __str__(self) -> str:
        known = "" if self.error is None else f", f - min f <= {self.error:.1e}"
        reached = f"relative gradient {self.gradient_norm:.1e}" if self.gradient_norm == self.gradient_norm else "linear program"
        return f"f* = {self.f:.10g}, D = {self.distance:.4g}, sigma* = {self.sigma:.4g} ({reached}{known})"


def measure(problem: Problem, x0: ArrayLike | None = None) -> Optimum:
    """Solve the problem and measure what the bounds need, from the starting point x0 (zero if not given)."""
    start = np.zeros(problem.dimension) if x0 is None else np.asarray(x0, dtype=np.float64)
    if problem.smoothness is None:
        return _measure_pieces(problem, start)
    near = solve(problem, tol=1e-12, max_iter=5000).x if problem.alpha > 0.0 else _lbfgs(problem, start)
    x = _newton(problem, near)
    initial = float(np.linalg.norm(problem.gradient(start)))
    final = float(np.linalg.norm(problem.gradient(x)))
    duals = problem.sample_weight * problem.duals(problem.margins(x))
    return Optimum(
        x=x,
        f=problem.objective(x),
        distance=float(np.linalg.norm(x - start)),
        sigma=float(np.sqrt(problem.squared_sample_gradients(x).mean())),
        dual_norm=_dual_norm(problem, x, duals),
        gradient_norm=final / initial if initial > 0.0 else 0.0,
        error=duality_gap(problem, x),
    )


def _dual_norm(problem: Problem, x: Vector, duals: Vector) -> float:
    """sqrt(sum_i y_i^2 / L_i), and alpha|x|^2 for each sample's share of the regulariser."""
    smoothness = problem.smoothness
    if smoothness is None:
        return nan
    coefficients = x[: problem.d]
    return float(np.sqrt(np.sum(duals**2 / smoothness) + problem.n * problem.alpha * float(coefficients @ coefficients)))


def _lbfgs(problem: Problem, start: Vector) -> Vector:
    scale = np.ones(problem.dimension)
    scale[: problem.d] = np.sqrt(problem.rows.squared_column_norms() / problem.n + problem.alpha)
    scale[scale == 0.0] = 1.0

    def value_and_gradient(v: Vector) -> tuple[float, Vector]:
        x = v / scale
        return problem.objective(x), problem.gradient(x) / scale

    options = {"maxiter": 5000, "maxfun": 20000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-14}
    found = scipy_minimize(value_and_gradient, start * scale, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64) / scale


def _newton(problem: Problem, x: Vector) -> Vector:
    """Newton steps, as long as they make the gradient smaller."""
    if problem.dimension > _LARGEST_HESSIAN:
        return x
    ridge = np.r_[np.full(problem.d, problem.alpha), np.zeros(int(problem.fit_intercept))]
    gradient = problem.gradient(x)
    for _ in range(30):
        curvatures = problem.sample_weight * problem.curvatures(problem.margins(x)) / problem.n
        lower = np.tril(problem.rows.hessian(curvatures))
        H = lower + np.tril(lower, -1).T + np.diag(ridge)
        step = np.linalg.lstsq(H, gradient, rcond=1e-13)[0]
        better = _shorter_gradient(problem, x, gradient, step)
        if better is None:
            return x
        x, gradient = better
    return x


def _shorter_gradient(problem: Problem, x: Vector, gradient: Vector, step: Vector) -> tuple[Vector, Vector] | None:
    for length in (1.0, 0.5, 0.1):
        candidate = x - length * step
        new = problem.gradient(candidate)
        if np.linalg.norm(new) < 0.9 * np.linalg.norm(gradient):
            return candidate, new
    return None


def _measure_pieces(problem: Problem, start: Vector) -> Optimum:
    """min (1/n) sum w_i xi_i with xi_i above every straight piece u z_i - l*(u) of l_i: u = the ends of its domain, and 0."""
    if problem.alpha > 0.0:
        raise uncovered(problem)
    low, high = problem.dual_bounds
    slopes = [low, np.zeros(problem.n), high]
    heights = [-problem.conjugates(u) for u in slopes]
    _refuse_curved(problem, low, high, heights)
    A = problem.rows.csr()
    pieces = sp.vstack([sp.hstack([sp.diags_array(u) @ A, -sp.eye_array(problem.n)]) for u in slopes], format="csc")
    cost = np.r_[np.zeros(problem.dimension), problem.sample_weight / problem.n]
    found: Any = linprog(cost, A_ub=pieces, b_ub=-np.concatenate(heights), bounds=(None, None), method="highs")
    if not found.success:
        raise ValueError(f"the linear program for loss={str(problem.loss)!r} was not solved: {found.message}")
    x = np.asarray(found.x[: problem.dimension], dtype=np.float64)
    f = problem.objective(x)
    distance = float(np.linalg.norm(x - start))
    return Optimum(x=x, f=f, distance=distance, sigma=nan, dual_norm=nan, gradient_norm=nan, error=max(f - float(found.fun), 0.0))


def _refuse_curved(problem: Problem, low: Vector, high: Vector, heights: list[Vector]) -> None:
    straight = bool(np.isfinite(low).all() and np.isfinite(high).all())
    for end, height in ((low, heights[0]), (high, heights[2])):
        straight = straight and bool(np.allclose(-problem.conjugates(0.5 * end), 0.5 * (height + heights[1])))
    if not straight:
        raise ValueError(f"loss={str(problem.loss)!r} is neither smooth nor made of straight pieces; its optimum must be given")
