"""SDCA, stochastic dual coordinate ascent (Shalev-Shwartz and Zhang 2013), in reshuffled order. Each dual value in turn moves to
where the dual objective is largest, by the prox of its loss, and x follows at once. There is no step size, and the dual point is
feasible all along.

Heavy rows are visited once more at the end of a pass: every move of the others changes their margins most, so f would depend on
where in the order they happen to stand.

An intercept bears no regulariser, which the dual sees as a constraint, w'v = 0. It gets a weak pull of its own towards a centre
that moves to where the intercept has come after every pass (the method of multipliers), so that the pull fades out.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.orders.schemes import by_blocks
from reshuffle.orders.streams import Stream, permutation
from reshuffle.problem import Problem
from reshuffle.rows import DualStep
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.progress import Progress
from reshuffle.vectors import Vector


def sdca(problem: Problem, progress: Progress, x: Vector, dual: Vector, *, seed: int, patience: float) -> None:
    """Passes until `progress` says that it is enough, or until so many more would be needed that `patience` (in passes) ends."""
    squares = problem.squared_norms() - problem.fit_intercept
    pull = 1.0 / (problem.n * problem.alpha)
    intercept_pull = pull * (float(np.median(squares)) or 1.0) if problem.fit_intercept else 0.0
    step, heavy = DualStep(problem.loss, pull, intercept_pull), tuning.HEAVY * float(squares.mean())
    gaps: list[tuple[int, float]] = []  # after so many passes
    share, look = 1.0, 1  # of a pass: the last one ends where the rate of the others says that it is enough; when to look next
    for epoch in range(10**9):
        visits = Visits(heavy, share, seed, epoch)
        problem.rows.sdca_pass(visits, problem.labels, problem.sample_weight, squares, step, x, dual)
        looking = epoch + 1 >= look or progress.at_last
        if not looking:
            progress.passed()
        elif progress.offer(x, None, dual, pull=-problem.alpha * x[: problem.d]):
            return
        if problem.fit_intercept:
            x[-1] -= intercept_pull * float(problem.sample_weight @ dual)
        if not looking:
            continue
        gaps.append((epoch + 1, progress.gap))
        look = epoch + 2
        if len(gaps) > tuning.RATE_PASSES:
            left = passes_to_go(gaps, progress.target, tuning.RATE_PASSES)
            if left > patience:
                return
            look += int(tuning.LOOK_AFTER * left)
        if len(gaps) > 1:
            share = min(max(tuning.LAST_PASS * passes_to_go(gaps, progress.target, 1), tuning.SHORTEST_PASS), 1.0)


@dataclass(frozen=True)
class Visits:
    """This share of all rows in a random order, then of the heavy ones. Rows that lie in blocks are visited block by block: a pass
    needs no uniform order, and reads them where they lie.
    """

    heavy: float  #: squared norm
    share: float
    seed: int
    epoch: int

    def __call__(self, squares: Vector, bounds: NDArray[Any] | None) -> Iterator[NDArray[np.integer[Any]]]:
        heavy = np.flatnonzero(squares > self.heavy)
        some, few, drawn = math.ceil(self.share * squares.size), math.ceil(self.share * heavy.size), (self.seed, self.epoch)
        if bounds is not None:
            yield by_blocks(np.arange(squares.size), bounds, *drawn, Stream.ORDER, Stream.WITHIN)[:some]
            yield by_blocks(heavy, bounds, *drawn, Stream.HEAVY_ROWS, Stream.RUN_WITHIN)[:few]
            return
        visit = permutation(squares.size, *drawn)[:some]
        if heavy.size:
            visit = np.concatenate([visit, heavy[permutation(heavy.size, *drawn, Stream.HEAVY_ROWS)][:few]])
        yield visit


def passes_to_go(gaps: list[tuple[int, float]], target: float, back: int) -> float:
    """At the rate since a few looks ago, so many passes."""
    (before, first), (now, last) = gaps[-1 - back], gaps[-1]
    rate = float(np.log(first / last)) / (now - before)
    return float(np.log(last / target)) / rate if rate > 0.0 else np.inf
