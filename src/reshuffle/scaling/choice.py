"""scale="auto": which kind of scaling trains best, found out by trying.

Of a sample of rows most are trained on, for a few epochs, and the others are predicted. Their loss can be compared between kinds,
which gaps cannot: each kind has a minimum of its own. The simplest kind is taken whose loss is as good as the smallest, up to a
standard error or a small share of what the best constant would lose, so that nothing is done to the data that does not pay.
"""

from dataclasses import dataclass, replace
from math import inf, isfinite, nan

import numpy as np
from numpy.typing import NDArray

from reshuffle.optimum import Optimum
from reshuffle.orders.streams import Stream, permutation
from reshuffle.problem import Problem
from reshuffle.scaling import KINDS, Scaling
from reshuffle.solver.certified import baseline
from reshuffle.solver.practice import Bench
from reshuffle.solver.run import DivergenceError
from reshuffle.solver.shuffled import minimize
from reshuffle.spectral import constants
from reshuffle.vectors import Vector
from reshuffle.wording import count, number, percent

EPOCHS = 5
_ROWS, _ENTRIES = 4096, 400_000  # of the sample, at most
_PARTS = 4  # of the sample, of which one is predicted, or up to so few rows each in its turn
_FEW = 1024
_SMALL = 0.02  # of the loss of the best constant
_AVERAGE = "suffix"  # the last iterate is noisy, and noise differs between kinds
_FIRST = 1 / 256  # a step that moves no margin by more than this share of itself is surely small enough


@dataclass(frozen=True, eq=False)
class Tried:
    """What came of one kind."""

    scaling: Scaling
    losses: Vector  #: of the rows that were not trained on, each with its weight
    share: float  #: of the data's squared norm that lies along one direction, whose step the others must take; nan: not known

    @property
    def loss(self) -> float:
        return float(self.losses.mean())


def choose(problem: Problem, seed: int) -> Scaling:
    """Every kind is tried but, without an intercept, "std": a centre would give the problem one."""
    kinds = [kind for kind in KINDS if kind != "std" or problem.fit_intercept]
    rows = sample(problem, seed)
    parts = [np.arange(rows.size) % _PARTS == k for k in range(_PARTS if rows.size <= _FEW else 1)]
    folds = [(rows[~part] if part.any() and not part.all() else rows, rows[part]) for part in parts if part.any()]
    tried = [_try(Scaling.learn(problem.rows, kind), problem, folds, seed) for kind in kinds]
    best = min(tried, key=lambda one: one.loss)
    small = _SMALL * baseline(problem.take(rows)).f
    chosen = next(one for one in tried if one is best or _as_good(one.losses - best.losses, small))
    return replace(chosen.scaling, reason=_reason(chosen, tried, problem.n, folds[0][0].size))


def sample(problem: Problem, seed: int) -> NDArray[np.int64]:
    """The rows that are tried on, in a random order."""
    most = min(_ROWS, int(_ENTRIES * problem.n / max(problem.rows.entries, 1)) + 8)
    return permutation(problem.n, seed, 0, Stream.SAMPLE_OF_ROWS)[:most]


def _try(scaling: Scaling, problem: Problem, folds: list[tuple[NDArray[np.int64], NDArray[np.int64]]], seed: int) -> Tried:
    losses = []
    for rows in folds:
        some, others = (scaling.apply(problem.take(part)) for part in rows)
        with np.errstate(over="ignore", invalid="ignore"):
            x = trained_for_a_while(some, seed)
            losses.append(others.sample_weight * others.losses(others.margins(x)))
    found = np.concatenate(losses)
    return Tried(scaling, np.where(np.isfinite(found), found, inf), _share(some, seed))


def _share(problem: Problem, seed: int) -> float:
    if not 0.0 < problem.squared_norms().max() < inf:
        return nan
    found = constants(problem.rows, batch_size=problem.n, permutations=1, seed=seed)
    if found.mean_sample == 0.0:  # all but the intercept is zero
        return nan
    return float(found.full_gradient_constant / found.mean_sample)


def trained_for_a_while(problem: Problem, seed: int) -> Vector:
    """x after `EPOCHS` epochs of random reshuffling at the practical step."""
    curvature = problem.loss.smoothness or problem.loss.lipschitz or 1.0
    largest = curvature * float(np.max(problem.sample_weight * problem.squared_norms()))
    if not (isfinite(largest) and largest > 0.0):
        return np.zeros(problem.dimension)  # numbers too large to train on, or none
    step = _FIRST / largest
    bench = Bench(problem, _FLOOR, batch_size=1, seed=seed, average=_AVERAGE, epochs=EPOCHS)
    step *= bench.practical_multiple(step)
    try:
        return minimize(problem, step_size=step, epochs=EPOCHS, seed=seed, average=_AVERAGE, evaluate_every=EPOCHS).x
    except DivergenceError:
        return np.zeros(problem.dimension)


#: Steps of one problem are compared by where f ends, so any number will do for its minimum.
_FLOOR = Optimum(x=np.zeros(0), f=0.0, distance=nan, sigma=nan, dual_norm=nan, gradient_norm=nan, error=None)


def _as_good(difference: Vector, small: float) -> bool:
    """Whether losses that differ so from the best, row by row, are no worse."""
    mean = float(difference.mean())
    return isfinite(mean) and mean <= max(small, float(difference.std() / np.sqrt(difference.size)))


def _reason(chosen: Tried, tried: list[Tried], n: int, rows: int) -> str:
    others = ", ".join(f"{one.scaling.kind} {number(one.loss)}" for one in tried if one is not chosen)
    of, held = f"{count(rows)} of {count(n)} rows", chosen.losses.size
    out = f"{count(held)} held out" if rows + held <= n else "those held out, in turns,"  # of small data all are, once
    text = f"after {EPOCHS} epochs on {of} the loss on {out} is {number(chosen.loss)} ({others})"
    shares = [f"{percent(chosen.share)} of the data", *([f"{percent(tried[0].share)} unscaled"] if chosen is not tried[0] else [])]
    return f"{text}; one direction has {', '.join(shares)}" if isfinite(chosen.share + tried[0].share) else text
