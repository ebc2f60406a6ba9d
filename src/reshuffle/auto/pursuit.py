"""The solver that needs no step size: reshuffled passes, dual or on growing batches, until the certified gap is small enough.

Two engines, one measure of progress. With few features the models' Hessian is cheap, and `newton` needs one to four passes over all
rows. With many, `dual_passes` come first: on text they gain a digit a pass; where they stall (heavy rows, strong correlations),
`newton` takes over from where they are. Few rows with many features are as good as few features: see `span`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from reshuffle.auto.dual import dual_passes
from reshuffle.auto.newton import FEW_FEATURES, newton
from reshuffle.auto.progress import Constant, Progress, Solution
from reshuffle.auto.span import FEW_ROWS, Span
from reshuffle.certificate import lower_bound
from reshuffle.epoch import Epoch
from reshuffle.problem import Problem
from reshuffle.validation import starting_point, whole_number

Vector = NDArray[np.float64]

_SMALL = 4096  # numbers in the data
_PATIENCE = {True: 3.0, False: 25.0}  # in dual passes: what newton would cost with few features, and with many


def solve(
    problem: Problem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    x0: Vector | None = None,
    seed: int = 0,
    callback: Callable[[Epoch], None] | None = None,
) -> Solution:
    """Minimise f until the certified gap is at most tol times what was gained over the best constant model."""
    if problem.l2 == 0.0:
        raise ValueError("l2=0: without a regulariser there is no certificate to stop by; use l2 > 0, or `minimize`")
    if not 0.0 < tol < float("inf"):
        raise ValueError(f"tol={tol!r} must be a positive number")
    max_iter = whole_number("max_iter", max_iter, 1)
    x = starting_point(x0, problem.dimension)
    constant = best_constant(problem)
    if x0 is None and problem.fit_intercept:
        x[-1] = constant.intercept
    progress = Progress(problem, x, constant, tol=tol, max_iter=max_iter, small=problem.X.size <= _SMALL, callback=callback)
    _pursue(problem, progress, warm=x0 is not None, seed=seed)
    return progress.solution()


def _pursue(problem: Problem, progress: Progress, *, warm: bool, seed: int) -> None:
    """From where `progress` is to where it is finished; `warm` says that this is a place worth keeping."""
    if problem.n <= FEW_ROWS and problem.d > problem.n:
        span = Span(problem)
        inner = progress.of(span.problem, span.inside(progress.x))
        _pursue(span.problem, inner, warm=warm, seed=seed)
        progress.adopt(span.outside(inner.x), inner.dual, inner.history)
        warm = True
    few = problem.dimension <= min(FEW_FEATURES, problem.n)
    if not progress.finished and (problem.smoothness is None or not few):
        dual_passes(problem, progress, *_dual_start(problem, progress.x, warm), seed=seed, patience=_PATIENCE[few])
        warm = True
    if not progress.finished:
        newton(problem, progress, progress.x, seed=seed, grow=not warm, width=_width(problem, progress.constant))


def _dual_start(problem: Problem, x: Vector, warm: bool) -> tuple[Vector, Vector]:
    """The point to start dual passes from and its dual values: those of knowing nothing or, if x is warm and they bound the minimum
    better, those of x.
    """
    slopes = problem.duals(problem.margins(x))
    nothing = np.where(problem.squared_norms() > 0.0, 0.0, slopes)
    dual = max((slopes, nothing), key=lambda u: lower_bound(problem, u, -np.inf)[0]) if warm else nothing
    start = problem.transposed(problem.sample_weight * dual) / (-problem.n * problem.l2)
    if problem.fit_intercept:
        start[-1] = x[-1]
    return start, dual.copy()


def best_constant(problem: Problem) -> Constant:
    """The intercept that is best alone, if there is one."""
    zero = problem.objective_at(np.zeros(problem.n), np.zeros(problem.dimension))
    if not problem.fit_intercept:
        return Constant(0.0, zero, 1e-10 * zero + 1e-300)
    labels, inverse = np.unique(problem.labels, return_inverse=True)
    weights = np.bincount(inverse, weights=problem.sample_weight)
    alone = Problem(np.zeros((labels.size, 1)), labels, loss=problem.loss)

    def slope(b: float) -> float:
        return float(weights @ alone.duals(np.full(labels.size, b)))

    low, high = -1.0 - float(np.abs(labels).max()), 1.0 + float(np.abs(labels).max())
    while slope(low) > 0.0 and low > -1e6:
        low *= 2.0
    while slope(high) < 0.0 and high < 1e6:
        high *= 2.0
    b = low if slope(low) >= 0.0 else high if slope(high) <= 0.0 else float(brentq(slope, low, high, xtol=1e-6, rtol=1e-6))
    f = float(weights @ alone.losses(np.full(labels.size, b))) / problem.n
    return Constant(b, f, 1e-10 * f + 1e-12 * zero + 1e-300)


def _width(problem: Problem, constant: Constant) -> float:
    """About the size of a residual: margins of classes are near one, and the best constant's loss says how far others are off."""
    return 1.0 if problem.loss.task == "classification" else max(constant.f, constant.floor)
