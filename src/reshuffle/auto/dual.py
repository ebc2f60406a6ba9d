"""Dual coordinate passes in reshuffled order: the proximal sibling of Algorithm 1's dual step. Each dual value in turn moves to
where the dual objective is largest, x follows at once, no step size is asked for, and the dual point is feasible all along.

Heavy rows are visited once more at the end of a pass: they feel every move of the others most, and without that f would be thrown
about by where in the order they happen to stand.

An intercept bears no l2, which the dual sees as a constraint, w'v = 0. It gets a weak pull of its own towards a centre that moves
to where the intercept has come after every pass (the method of multipliers), so that the pull fades out.
"""

import numpy as np
from numpy.typing import NDArray

from reshuffle.auto import _rows
from reshuffle.auto.progress import Progress, rows_of
from reshuffle.losses.base import compiled
from reshuffle.orders import make_order
from reshuffle.orders.streams import Stream, permutation
from reshuffle.problem import Problem

Vector = NDArray[np.float64]


def dual_passes(problem: Problem, progress: Progress, x: Vector, dual: Vector, *, seed: int, patience: float) -> None:
    """Passes until `progress` says that it is enough, or until so many more would be needed that `patience` (in passes) ends."""
    order = make_order("rr", problem.n, seed)
    prox, loss = compiled(problem.loss, "prox"), problem.loss
    squares = problem.squared_norms() - problem.fit_intercept
    pull = 1.0 / (problem.n * problem.l2)
    intercept_pull = pull * (float(np.median(squares)) or 1.0) if problem.fit_intercept else 0.0
    heavy = np.flatnonzero(squares > 2.0 * squares.mean())
    data = (rows_of(problem), problem.labels, problem.sample_weight, squares)
    gaps: list[float] = []
    for epoch in range(10**9):
        again = heavy[permutation(heavy.size, seed, epoch, Stream.HEAVY_ROWS)]
        for visit in (order.permutation(epoch), again):
            _rows.dual_epoch(*data, visit, prox, loss.parameter, pull, intercept_pull, x, dual)
        if progress.offer(x, problem.objective(x), dual):
            return
        if problem.fit_intercept:
            x[-1] -= intercept_pull * float(problem.sample_weight @ dual)
        gaps.append(progress.gap)
        if len(gaps) >= 3 and passes_to_go(gaps, progress.target) > patience:
            return


def passes_to_go(gaps: list[float], target: float) -> float:
    """At the rate of the last two passes."""
    rate = 0.5 * float(np.log(gaps[-3] / gaps[-1]))
    return float(np.log(gaps[-1] / target)) / rate if rate > 0.0 else np.inf
