"""How far f(x) can be from the minimum, by duality. With alpha > 0 every feasible dual point u gives a lower bound of min f, so
f(x) minus that bound is a certificate for x. Without alpha the dual asks A'u = 0, no such point comes for free, and there is no
certificate.

An intercept bears no alpha, so a feasible u must balance it: w'u = 0. The duals of the margins do once the intercept is moved to
its exact one-dimensional optimum, found by bracketing; where the sum of duals jumps over zero there (kinks), the duals of the
two ends of the bracket are mixed.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from reshuffle.problem import Problem
from reshuffle.validation import vector
from reshuffle.vectors import Vector


def duality_gap(problem: Problem, x: Vector, dual: Vector | None = None) -> float | None:
    """An upper bound of f(x) - min f, or None without alpha. `dual` offers one more dual point; the better one counts."""
    if problem.alpha == 0.0:
        return None
    z = problem.margins(x)
    candidates = [balanced_duals(problem, z)]
    if dual is not None:
        candidates.append(nearest_feasible(problem, vector("dual", dual, problem.n, "one number for each sample")))
    best = max(_best_along(problem, u) for u in candidates)
    return max(problem.objective_at(z, x) - best, 0.0)


def lower_bound(problem: Problem, dual: Vector, wanted: float) -> tuple[float, Vector]:
    """A lower bound of min f from any dual values: they are moved into their domain and, with an intercept, those of the heavier
    sign are scaled down until both sides balance. Where that bound is nearer to the one of knowing nothing (all duals zero) than to
    the bound that is wanted, the best multiple of the duals is tried. Returns the bound and the dual point it belongs to.
    """
    u = np.clip(dual, *problem.dual_bounds)
    if problem.fit_intercept:
        pulls = problem.sample_weight * u
        positive = u > 0.0
        up, down = float(pulls[positive].sum()), -float(pulls[~positive].sum())
        if up != down:
            u[positive if up > down else ~positive] *= min(up, down) / max(up, down)
    along = problem.dual_objective_along(u)
    full = along(1.0)
    nothing = along(0.0) if full < wanted else -np.inf
    if full >= 0.5 * (wanted + nothing):
        return full, u
    half = along(0.5)
    bend = full - 2.0 * half + nothing  # of the parabola through the three, which a concave function keeps below zero
    share = min(max(0.5 - 0.25 * (full - nothing) / bend, 0.0), 1.0) if bend < 0.0 else 0.5
    best = max((full, 1.0), (nothing, 0.0), (half, 0.5), (along(share), share))
    return best[0], best[1] * u


def _best_along(problem: Problem, u: Vector) -> float:
    """The dual objective at u or, where even the zero dual is better than that, at the best point between: far from the optimum the
    duals of x pull much too hard.
    """
    along = problem.dual_objective_along(u)
    low, high = problem.loss.dual_domain
    full, none = along(1.0), along(0.0) if low <= 0.0 <= high else -np.inf
    if full >= none:
        return full
    between = minimize_scalar(lambda s: -along(s), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-4})
    return max(full, none, -float(between.fun))


def balanced_duals(problem: Problem, z: Vector) -> Vector:
    """The duals of margins z, after the intercept has been moved to its optimum if there is one."""
    if not problem.fit_intercept:
        return problem.duals(z)
    return _balance(lambda shift: problem.duals(z + shift), problem.sample_weight, float(np.abs(z).max()) + 1.0)


def nearest_feasible(problem: Problem, u: Vector) -> Vector:
    """u moved into the dual domain and, with an intercept, shifted there until it balances."""
    low, high = problem.dual_bounds
    if not problem.fit_intercept:
        return np.clip(u, low, high)
    return _balance(lambda shift: np.clip(u + shift, low, high), problem.sample_weight, 1.0)


def _balance(duals: Callable[[float], Vector], weights: Vector, width: float) -> Vector:
    """The dual point with the weighted sum zero on a path along which no entry falls."""

    def imbalance(shift: float) -> float:
        return float(weights @ duals(shift))

    low, high = _bracket(imbalance, width)
    if low == high:
        return duals(low)
    # The sum may jump over zero, at zero itself even: an absolute tolerance, or the search would never end.
    root = brentq(imbalance, low, high, xtol=1e-14, maxiter=1000)
    near = 1e-12 * (1.0 + abs(root))
    return _mixed(duals(root - near), duals(root + near), weights)


def _bracket(increasing: Callable[[float], float], width: float) -> tuple[float, float]:
    """A bracket of the zero of an increasing function; both ends the same where one of them is the zero."""
    low, high = -width, width
    for _ in range(60):
        if increasing(low) <= 0.0 <= increasing(high):
            break
        low, high = 2.0 * low, 2.0 * high
    if increasing(low) == 0.0:
        return low, low
    if increasing(high) == 0.0:
        return high, high
    return low, high


def _mixed(below: Vector, above: Vector, weights: Vector) -> Vector:
    """The mixture of two dual points whose sums lie on both sides of zero that has the sum zero."""
    deficit, excess = float(weights @ below), float(weights @ above)
    if excess <= deficit:
        return 0.5 * (below + above)
    share = min(max(-deficit / (excess - deficit), 0.0), 1.0)
    return (1.0 - share) * below + share * above
