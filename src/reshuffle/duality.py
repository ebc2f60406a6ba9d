"""How far f(x) can be from the minimum, by duality. With alpha > 0 every feasible dual point u gives a lower bound of min f, so
f(x) minus that bound is a certificate for x. Without alpha the dual asks A'u = 0, no such point comes for free, and there is no
certificate.

An intercept bears no alpha, so a feasible u must balance it: w'u = 0. The duals of the margins do once the intercept is moved to
its exact one-dimensional optimum, found by bracketing; where the sum of duals jumps over zero there (kinks), the duals of the
two ends of the bracket are mixed.

f and the dual objective are sums that a computer rounds, so their difference may be less than the true gap, or below zero. A gap is
therefore certified with the most that rounding can have taken from it: `rounding`.
"""

from collections.abc import Callable
from math import inf, isfinite, sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from reshuffle.problem import Problem
from reshuffle.validation import vector
from reshuffle.vectors import Vector

_EPS = 2.0**-52  # twice what one operation rounds by, which pays for terms of its square
_FEW = 16  # operations that a loss or its conjugate takes
_PART = 1 << 20  # samples


def duality_gap(problem: Problem, x: Vector, dual: Vector | None = None) -> float | None:
    """An upper bound of f(x) - min f, or None without alpha. `dual` offers one more dual point; the better one counts."""
    if problem.alpha == 0.0:
        return None
    z = problem.margins(x)
    if not np.isfinite(z).all():  # so far away that margins overflow
        return inf
    candidates = [balanced_duals(problem, z)]
    if dual is not None:
        candidates.append(nearest_feasible(problem, vector("dual", dual, problem.n, "one number for each sample")))
    best, u = max((_best_along(problem, u) for u in candidates), key=lambda pair: pair[0])
    f = problem.objective_at(z, x)
    return certified(problem, x, f, best, u)


def certified(problem: Problem, x: Vector, f: float, bound: float, dual: Vector) -> float:
    """An upper bound of f(x) - min f, where f(x) was computed as f and the dual objective at `dual` as `bound`."""
    with np.errstate(over="ignore", invalid="ignore"):
        apart = max(f - bound, 0.0)
        gap = apart + rounding(problem, x, f, apart, dual)
    return gap if isfinite(gap) else inf


def rounding(problem: Problem, x: Vector, f: float, gap: float, dual: Vector) -> float:
    """The most that rounding can have added to the dual objective and taken from f(x), by the textbook bounds of sums and products
    (Higham 2002, chapter 3): k terms, in any order, are off by at most k eps times the sum of their absolute values.

    A margin is off by delta_i, and with it f by |l'(z_i)| delta_i; |l'| is at most G, or sqrt(2 L l) for an L-smooth loss l >= 0.
    g = A'(w u) / n is off by at most eps times the sum of |w_i u_i| |a_i|, and |g| is at most alpha |x| + sqrt(2 alpha gap), as the
    gap holds (alpha/2)|x + g/alpha|^2. With an intercept the duals balance up to r = w'u alone, which
    lets the dual objective rise above min f by |b*| |r| / n; the best intercept b* is taken to be at most ten times as far as any
    margin or label lies.
    """
    n, d, loss, regulariser = problem.n, problem.d, problem.loss, problem.regulariser(x)
    *sums, farthest = problem.sums_for_rounding(x, dual)
    far, squares, conjugates, duals, rows = sums
    delta = _EPS * (d + _FEW)  # of a margin, over how far it can lie
    ways = [] if loss.lipschitz is None else [loss.lipschitz * delta * far]
    if loss.smoothness is not None:
        ways.append(delta * sqrt(2.0 * loss.smoothness * max(n * f, 0.0)) * sqrt(squares))
    of_f = _EPS * (n + _FEW) * abs(f) + min(ways) / n + _EPS * (d + _FEW) * regulariser
    off = _EPS * (n + _FEW) * rows / n
    pull = problem.alpha * float(np.linalg.norm(x[:d])) + sqrt(2.0 * problem.alpha * gap) + off
    of_dual = _EPS * (n + _FEW) * conjugates / n + off * (2.0 * pull + off) / problem.alpha + _EPS * (d + _FEW) * regulariser
    if problem.fit_intercept:
        imbalance = abs(problem.samples.imbalance(dual)) + 2.0 * _EPS * duals
        of_dual += imbalance / n * 10.0 * (1.0 + farthest)
    return of_f + of_dual


class Bound(NamedTuple):
    """A lower bound of min f, and the dual point that it belongs to."""

    value: float
    dual: Vector
    pull: Vector  #: A'(w dual) / n, without the intercept


def lower_bound(problem: Problem, dual: Vector, wanted: float, nothing: float, pull: Vector | None = None) -> Bound:
    """A lower bound of min f from any dual values: they are moved into their domain and, with an intercept, those of the heavier
    sign are scaled down until both sides balance. Where that bound is nearer to the one that all duals zero give, `nothing`, than
    to the one that is wanted, the best multiple of the duals is tried. `pull` is A'(w dual) / n, for duals in their domain of which
    it is known: without an intercept the bound then needs no product.
    """
    u = problem.in_dual_domain(dual)
    if problem.fit_intercept and not problem.samples.balance_signs(u):
        pull = None
    pull = problem.rows.transposed(problem.samples.weights * u)[: problem.d] / problem.n if pull is None else pull
    along = problem.dual_objective_along(u, pull)
    full = along(1.0)
    if full >= wanted or full >= 0.5 * (wanted + nothing):
        return Bound(full, u, pull)
    half = along(0.5)
    bend = full - 2.0 * half + nothing  # of the parabola through the three, which a concave function keeps below zero
    share = min(max(0.5 - 0.25 * (full - nothing) / bend, 0.0), 1.0) if bend < 0.0 else 0.5
    value, share = max((full, 1.0), (nothing, 0.0), (half, 0.5), (along(share), share))
    return Bound(value, share * u, share * pull)


def _best_along(problem: Problem, u: Vector) -> tuple[float, Vector]:
    """The dual objective at u or, where even the zero dual is better than that, at the best point between: far from the optimum the
    duals of x pull much too hard. Returns it with its point.
    """
    u = problem.in_dual_domain(u)
    along = problem.dual_objective_along(u)
    low, high = problem.loss.dual_domain
    full, none = along(1.0), along(0.0) if low <= 0.0 <= high else -np.inf
    if full >= none:
        return full, u
    between = minimize_scalar(lambda s: -along(s), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-4})
    best, share = max((none, 0.0), (-float(between.fun), float(between.x)))
    return best, share * u


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
    if not imbalance(low) < 0.0 < imbalance(high):  # rounding hides the sign of sums of huge numbers: zero always balances
        return np.zeros(weights.size)
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
