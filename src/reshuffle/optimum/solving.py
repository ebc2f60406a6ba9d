"""Some minimiser, whichever comes first.

Smooth losses: the certified solver where alpha > 0, else L-BFGS on columns scaled to unit norm, then Newton steps where the Hessian
is small enough to form. Losses made of straight pieces: a linear program; together with alpha > 0 they are refused, as no theorem
covers that.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.optimize import minimize as scipy_minimize

from reshuffle.blas import one_thread
from reshuffle.problem import Problem
from reshuffle.solver.certified import solve
from reshuffle.theory import uncovered
from reshuffle.vectors import Vector

LARGEST_HESSIAN = 3000


def minimise_smooth(problem: Problem, start: Vector) -> Vector:
    near = solve(problem, tol=1e-12, max_iter=5000).x if problem.alpha > 0.0 else _lbfgs(problem, start)
    return _newton(problem, near)


def weighted_gram(problem: Problem, weights: Vector) -> Vector:
    """A' diag(weights) A, both triangles of it."""
    lower = np.tril(problem.rows.hessian(weights))
    return lower + np.tril(lower, -1).T


def hessian(problem: Problem, x: Vector) -> Vector:
    """Of f, at x."""
    ridge = np.r_[np.full(problem.d, problem.alpha), np.zeros(int(problem.fit_intercept))]
    curvatures = problem.sample_weight * problem.curvatures(problem.margins(x)) / problem.n
    H = weighted_gram(problem, curvatures)
    H[np.diag_indices_from(H)] += ridge
    return H


def _lbfgs(problem: Problem, start: Vector) -> Vector:
    scale = np.ones(problem.dimension)
    scale[: problem.d] = np.sqrt(problem.rows.squared_column_norms() / problem.n + problem.alpha)
    scale[scale == 0.0] = 1.0

    def value_and_gradient(v: Vector) -> tuple[float, Vector]:
        x = v / scale
        return problem.objective(x), problem.gradient(x) / scale

    options = {"maxiter": 5000, "maxfun": 20000, "maxcor": 30, "ftol": 0.0, "gtol": 1e-14}
    with one_thread():  # its matrices are tiny: threads only wait for each other
        found = scipy_minimize(value_and_gradient, start * scale, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x, dtype=np.float64) / scale


def _newton(problem: Problem, x: Vector) -> Vector:
    """Newton steps, as long as they make the gradient smaller."""
    if problem.dimension > LARGEST_HESSIAN:
        return x
    gradient = problem.gradient(x)
    for _ in range(30):
        step = np.asarray(np.linalg.lstsq(hessian(problem, x), gradient, rcond=1e-13)[0], dtype=np.float64)
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


def minimise_pieces(problem: Problem) -> tuple[Vector, Vector, float]:
    """min (1/n) sum w_i xi_i with xi_i above every straight piece u z_i - l*(u) of l_i: u = the ends of its domain, and 0.

    Returns a minimiser, the slope of each loss that belongs to it, and a lower bound of min f.
    """
    if problem.alpha > 0.0:
        raise uncovered(problem)
    low, high = problem.dual_bounds
    slopes = [low, np.zeros(problem.n), high]
    heights = [-problem.conjugates(u) for u in slopes]
    _refuse_curved(problem, low, high, heights)
    A, tied = problem.rows.factored()
    pieces = sp.vstack([sp.hstack([sp.diags_array(u) @ A, -sp.eye_array(problem.n)]) for u in slopes], format="csc")
    cost = np.r_[np.zeros(A.shape[1]), problem.sample_weight / problem.n]
    tied = sp.hstack([tied, sp.csr_array((tied.shape[0], problem.n))], format="csc")
    fixed = {"A_eq": tied, "b_eq": np.zeros(tied.shape[0])} if tied.shape[0] else {}
    found: Any = linprog(cost, A_ub=pieces, b_ub=-np.concatenate(heights), **fixed, bounds=(None, None), method="highs")
    if not found.success:
        raise ValueError(f"the linear program for loss={str(problem.loss)!r} was not solved: {found.message}")
    shares = -found.ineqlin.marginals.reshape(3, problem.n) * problem.n / problem.sample_weight  # of each piece; their sum is 1
    return np.asarray(found.x[: problem.dimension], dtype=np.float64), np.sum(shares * slopes, axis=0), float(found.fun)


def _refuse_curved(problem: Problem, low: Vector, high: Vector, heights: list[Vector]) -> None:
    straight = bool(np.isfinite(low).all() and np.isfinite(high).all())
    for end, height in ((low, heights[0]), (high, heights[2])):
        straight = straight and bool(np.allclose(-problem.conjugates(0.5 * end), 0.5 * (height + heights[1])))
    if not straight:
        raise ValueError(f"loss={str(problem.loss)!r} is neither smooth nor made of straight pieces; its optimum must be given")
