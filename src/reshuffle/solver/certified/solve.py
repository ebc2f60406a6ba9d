"""Minimise f until its duality gap is small enough, without a step size.

Two methods, one measure of progress. With few features the Hessian is cheap, and subsampled Newton needs one to four passes over
all rows. With many, SDCA comes first: on text it gains a digit a pass; where it stalls (heavy rows, strong correlations), Newton
takes over from where it is. Where that takes long as well (long rows that can only just be told apart), both go on in turns, each
time for longer, so that neither can lose much. Newton steps on few rows with many features are made in the `row_span`. Rows that
cannot be visited one by one at the price of a pass, as they lie on a GPU, have Newton steps alone.

With few features too, SDCA is faster where rows hardly undo what others have gained, as where most of them are fitted well. A part
of its first pass says how many passes to expect, and it goes on where they cost less than Newton's Hessians would.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import cycle, repeat
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq

from reshuffle.blas import one_thread
from reshuffle.duality import lower_bound
from reshuffle.epoch import Epoch
from reshuffle.problem import Problem
from reshuffle.rows.devices import memory_in_words
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.batch import Batch, Losses, few_features, products_a_hessian, rows_for_hessian
from reshuffle.solver.certified.newton import from_nearby, newton
from reshuffle.solver.certified.progress import TINY, Baseline, Neighbour, Progress, Solution
from reshuffle.solver.certified.row_span import RowSpan
from reshuffle.solver.certified.sdca import fewest_passes, sdca
from reshuffle.validation import starting_point, whole_number
from reshuffle.vectors import Vector

_ROUNDED = 1e-10  # of f: a gain as small as this has lost most of its digits to rounding
_ROUNDED_LABELS = 1e-12  # of f at zero: the same where f is nearly zero because an intercept alone fits, but labels are large
_FARTHEST = 1e6  # an intercept beyond this belongs to a loss that falls for ever
_NEAR = {True: 1e-6, False: 1e-12}  # accuracy of the intercept, on which f depends by the square if the loss is smooth


def solve(
    problem: Problem,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    x0: Vector | None = None,
    dual0: Vector | None = None,
    seed: int = 0,
    callback: Callable[[Epoch], None] | None = None,
    start: Baseline | None = None,
    neighbour: Neighbour | None = None,
) -> Solution:
    """Minimise f until the certified gap is at most tol times what was gained over the best constant model, `start` where it is
    known. A fit that starts from x0 looks first whether that, or one step from it, is good enough; where dual passes would come
    first, it goes by dual0 if that is known. `neighbour` is what the last fit of a nearby problem left, and takes what this one
    leaves.
    """
    if problem.alpha == 0.0:
        raise ValueError("alpha=0: without a regulariser there is no certificate to stop by; use alpha > 0, or `minimize`")
    if not 0.0 < tol < float("inf"):
        raise ValueError(f"tol={tol!r} must be a positive number")
    max_iter = whole_number("max_iter", max_iter, 1)
    x = starting_point(x0, problem.dimension)
    if not _in_span(problem):
        problem = problem.on_device()
    start = start or baseline(problem)
    if x0 is None and problem.fit_intercept:
        x[-1] = start.intercept
    small = problem.rows.entries <= tuning.SMALL
    options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "small": small, "callback": callback}
    progress = Progress(problem, x, start, neighbour=neighbour, **options)
    with one_thread(), memory_in_words():
        if x0 is not None:
            _warm_start(problem, progress, x, dual0)
        if not progress.finished:
            _solve(problem, progress, warm=x0 is not None, seed=seed)
    return progress.solution()


def _solve(problem: Problem, progress: Progress, *, warm: bool, seed: int) -> None:
    """From where `progress` is to where it is finished; `warm` says that this is a place worth keeping."""
    squares, passes, products = np.empty(0), inf, inf
    if _dual_passes(problem) or (not warm and _may_try(problem)):
        squares = problem.squared_norms() - problem.fit_intercept  # asked for once: on disk, this is a pass
        worth = inf if _dual_passes(problem) else _newton_in_passes(problem, squares)
        if worth >= fewest_passes(progress):
            start, passes = _dual_start(problem, progress, squares, warm), _patience(problem, squares, worth)
            warm = sdca(problem, progress, squares, *start, seed=seed, patience=passes, worth=worth) or warm
        if worth == inf:
            products = tuning.TURN_PRODUCTS * passes
    width = _width(problem, progress.baseline)
    x, turns = progress.x, _turns(problem)
    while not progress.finished:
        for steps in next(turns):
            if not progress.finished:
                steps(problem, progress, x, seed=seed, grow=not warm, width=width, patience=products)
                x = progress.x
        if not progress.finished and products < inf:  # there are no dual passes elsewhere
            passes, products, seed = tuning.TURNS_GROW * passes, tuning.TURNS_GROW * products, seed + 1
            start = _dual_start(problem, progress, squares, True)
            sdca(problem, progress, squares, *start, seed=seed, patience=passes)
            x = _led_to(problem, progress, start[0])


def _turns(problem: Problem) -> Iterator[tuple[Callable[..., None], ...]]:
    """What makes the Newton steps of one turn after the other. The span of few rows comes first; that of a few more takes longer to
    see, and comes where steps without it were not enough. Later on they take turns: the span does not hold what features add
    whose numbers are a hundred million times smaller than those of others.
    """
    later = problem.d > problem.n and problem.n <= tuning.FEW_ROWS_LATER and problem.rows.device is None
    if later or _in_span(problem):
        within = partial(_newton_in_span, cache(lambda: RowSpan(problem)))
        if not _in_span(problem):
            yield newton, within
        yield from cycle(((within,), (newton,)))
    yield from repeat((newton,))


def _led_to(problem: Problem, progress: Progress, x: Vector) -> Vector:
    """Where Newton steps go on from after passes that led to x. Of a smooth loss, x may be much worse than the best that is known
    and yet near to the minimiser, as it is where dual values are nearly the best: few steps lead there from it. Where it is worse
    than to know nothing, it is not.
    """
    near = problem.loss.smoothness is not None and problem.objective(x) < progress.baseline.f
    return x if near else progress.x


def _newton_in_span(seen: Callable[[], RowSpan], problem: Problem, progress: Progress, x: Vector, **options: Any) -> None:
    """Newton steps on the same problem in the span of its rows."""
    span = seen()
    inner = progress.of(span.problem, span.inside(x))
    if isfinite(progress.bound):
        inner.adopt(inner.x, progress.dual, inner.history)
    newton(span.problem, inner, inner.x, **options)
    progress.adopt(span.outside(inner.x), inner.dual, inner.history)


def _in_span(problem: Problem) -> bool:
    """Whether Newton steps are made in the span of its rows."""
    return problem.n <= tuning.FEW_ROWS and problem.d > problem.n


def _dual_passes(problem: Problem) -> bool:
    """Whether SDCA comes first."""
    few = problem.dimension <= min(few_features(problem), problem.n)
    return problem.rows.one_by_one and (problem.smoothness is None or not few)


def _may_try(problem: Problem) -> bool:
    """Whether SDCA may be tried though features are few: on rows that lie here in memory, and not where Newton takes no time."""
    rows = problem.rows
    return not rows.elsewhere and rows.bounds is None and rows.entries > tuning.TRIAL_ENTRIES


def _warm_start(problem: Problem, progress: Progress, x: Vector, dual: Vector | None) -> None:
    """From x: a Newton step where the loss is smooth, else a look at it. Where dual passes would come first, and dual values are
    known, they lead to an x of their own, which is where those passes would go on.
    """
    known, passes = dual is not None and dual.size == problem.n, _dual_passes(problem)
    if problem.loss.smoothness is not None and not (known and passes):
        batch = Batch(problem, None, Losses(problem, None), rows_for_hessian(problem), progress.neighbour)
        from_nearby(batch, progress, x)
        if not progress.finished and (_in_span(problem) or not passes):
            progress.fall_back(x, batch.at(x).f)  # Newton goes on from there, and dual passes from dual values
        return
    if dual is not None and known:
        progress.bound_by(dual)
        if passes:
            x[: problem.d] = progress.pull / -problem.alpha
            progress.offer(x, None, None)
            return
    z = problem.margins(x)
    progress.offer(x, problem.objective_at(z, x), problem.duals(z))


def _newton_in_passes(problem: Problem, squares: Vector) -> float:
    """Passes of SDCA that take as long as Newton steps where features are few. The more rows there are for each of them, the more
    of the work is done by small batches; a few rows that outweigh all others make it more. With dense rows it is less: they are
    multiplied so fast that most of a visit is not.
    """
    hessian = products_a_hessian(problem, rows_for_hessian(problem), problem.n)
    passes = tuning.PASSES_A_HESSIAN * problem.rows.blas_speed() ** 2 * hessian
    return passes * sqrt(sqrt(problem.dimension / problem.n)) * _heavy(problem, squares)


def _heavy(problem: Problem, squares: Vector) -> float:
    """Times that passes may be more because a few rows outweigh all others: Newton's models of them hold for short steps alone."""
    uneven = float(np.linalg.norm(squares)) * sqrt(problem.n) / max(float(squares.sum()), TINY)
    return max(uneven / tuning.PATIENCE_UNEVEN, 1.0)


def _patience(problem: Problem, squares: Vector, worth: float) -> float:
    """Passes of SDCA that may still be to go before Newton takes over, from where they have come to. The more rows there are for
    each feature, the more dual points belong to the same x, which slows SDCA down, and the fewer iterations a Newton step takes.
    With few features that is known better: a share of what Newton is `worth`.
    """
    if worth < inf:
        return max(tuning.TRIAL_PATIENCE * worth, tuning.PATIENCE_FEW)
    share = min(tuning.PATIENCE_ROWS * problem.d / problem.n, 1.0) * _heavy(problem, squares)
    return max(tuning.PATIENCE_MANY * share, tuning.PATIENCE_FEW)


def _dual_start(problem: Problem, progress: Progress, squares: Vector, warm: bool) -> tuple[Vector, Vector]:
    """The point to start SDCA from and its dual values: those of knowing nothing or, if `progress` is warm and has some that bound
    the minimum better, those.
    """
    dual, start, nothing = np.zeros(problem.n), np.zeros(problem.dimension), progress.baseline.nothing
    empty = squares + problem.fit_intercept == 0.0  # rows that no pass would move
    if empty.any():
        dual[empty] = problem.duals(problem.margins(progress.x))[empty]
        start = problem.transposed(problem.sample_weight * dual) / (-problem.n * problem.alpha)
        nothing = lower_bound(problem, dual, -inf, nothing, start[: problem.d] * -problem.alpha).value
    if warm and progress.bound > nothing:
        dual = progress.dual.copy()
        start[: problem.d] = progress.pull / -problem.alpha
    if problem.fit_intercept:
        start[-1] = progress.x[-1]
    return start, dual


def baseline(problem: Problem) -> Baseline:
    """The intercept that is best alone, if there is one."""
    alone = problem.samples
    if problem.fit_intercept or problem.loss.task == "classification":  # else to sort labels would be for nothing
        alone = alone.by_label()
    zero = alone.total(alone.zeros(), alone.zeros(), 0.0) / problem.n
    nothing = -alone.total_conjugate(alone.zeros(), 1.0) / problem.n
    if not problem.fit_intercept:
        return Baseline(0.0, zero, _ROUNDED * zero + TINY, nothing)

    def slope(b: float) -> float:
        return float(alone.weights @ alone.apply("derivative", alone.zeros() + b))

    farthest = float(abs(alone.labels).max())
    low, high = -1.0 - farthest, 1.0 + farthest
    while slope(low) > 0.0 and low > -_FARTHEST:
        low *= 2.0
    while slope(high) < 0.0 and high < _FARTHEST:
        high *= 2.0
    near = _NEAR[problem.loss.smoothness is not None]
    b = low if slope(low) >= 0.0 else high if slope(high) <= 0.0 else float(brentq(slope, low, high, xtol=near, rtol=near))
    f = float(alone.weights @ alone.apply("value", alone.zeros() + b)) / problem.n
    return Baseline(b, f, _ROUNDED * f + _ROUNDED_LABELS * zero + TINY, nothing)


def _width(problem: Problem, reference: Baseline) -> float:
    """About the size of a residual: margins of classes are near one, and the baseline's loss says how far others are off."""
    return tuning.FIRST_WIDTH * (1.0 if problem.loss.task == "classification" else max(reference.f, reference.floor))
