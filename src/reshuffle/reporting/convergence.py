"""Shuffled SGD as it really runs on the data: RR, SO and IG at the step of the theory, with its bound and the one before it, and at
the practical step.

The practical step: the step of the theory is doubled for as long as `EPOCHS` epochs in random orders end lower; the step that
ends lowest is taken, and halved for as long as f rises above where it started on the way. It is measured, not proved.

Above `LARGEST` stored entries all of this happens on a sample of rows, with the constants and the optimum of that sample.
"""

from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite, isnan

import numpy as np

from reshuffle.evidence import constants_for, gather
from reshuffle.optimum import Optimum, measure
from reshuffle.orders import make_order
from reshuffle.orders.streams import Stream, permutation
from reshuffle.planning import Survey
from reshuffle.problem import Problem
from reshuffle.solver.run import DivergenceError, Run
from reshuffle.solver.shuffled import minimize
from reshuffle.theory import Facts, Theorem, best_step, prior_bound, smallest_bound, theorems_for

EPOCHS = 30
LARGEST = 2_000_000  #: stored entries of the data, up to which every row is used
_ORDERS = ("rr", "so", "ig")
_MOST_DOUBLINGS = 24


@dataclass(frozen=True)
class Curve:
    """One run: the gap after every epoch, None where f stands below the minimum as far as that is known, or where it left the
    finite numbers. The bounds belong to the same epochs."""

    order: str
    step_size: float
    gaps: tuple[float | None, ...]
    bounds: tuple[float, ...] | None  #: of this theory; None at the practical step, for which there is none
    prior: tuple[float, ...] | None  #: of earlier theory at batch size 1 and its own step; smooth losses
    diverged: bool


@dataclass(frozen=True)
class Trial:
    """How a multiple of the theory's step ended."""

    multiple: int
    gap: float | None  #: f - min f after the last epoch; None where the run diverged


@dataclass(frozen=True)
class Convergence:
    n: int
    rows: int  #: how many of the n rows the runs use
    batch_size: int
    epochs: int
    start_gap: float  #: f(0) - min f
    at_theory: tuple[Curve, ...]
    at_practical: tuple[Curve, ...]
    trials: tuple[Trial, ...]
    multiple: int  #: the practical step is this many times the theory's
    practical_step: float  #: on all rows
    optimum_error: float | None  #: how far the minimum that gaps are measured from may be off, where that is known
    seed: int

    @property
    def sampled(self) -> bool:
        return self.rows < self.n


class _Setting:
    """The problem that the runs use, its optimum, and what the theorems rest on in each order."""

    def __init__(self, problem: Problem, optimum: Optimum, batch_size: int, seed: int) -> None:
        self.problem, self.optimum, self.batch_size, self.seed = problem, optimum, batch_size, seed
        self.rules = {order: make_order(order, problem.n, seed) for order in _ORDERS}
        self._constants = {order: constants_for(problem, rule, batch_size) for order, rule in self.rules.items()}
        self.steps = {order: best_step(self.theorems(order), self.facts(order), EPOCHS) for order in _ORDERS}

    def theorems(self, order: str) -> list[Theorem]:
        return theorems_for(self.problem, self.rules[order])

    def facts(self, order: str, *, visited: int = 0) -> Facts:
        return gather(self.problem, self.rules[order], self._constants[order], self.optimum, epochs=EPOCHS, visited=visited)


def converge(found: Survey, batch_size: int) -> Convergence:
    """Measure on the data of `found` at this batch size."""
    setting = whole = _Setting(found.problem, found.optimum, batch_size, found.seed)
    if found.problem.rows.entries > LARGEST:
        sample = _sampled(found)
        setting = _Setting(sample, measure(sample), min(batch_size, sample.n), found.seed)
    problem = setting.problem
    start_gap = problem.objective(np.zeros(problem.dimension)) - setting.optimum.f
    trials = _double(setting)
    lowest = min(trials, key=lambda trial: inf if trial.gap is None else trial.gap)
    multiple = _calm(setting, lowest.multiple, start_gap)
    practical = multiple * setting.steps["rr"]
    return Convergence(
        n=found.problem.n,
        rows=problem.n,
        batch_size=setting.batch_size,
        epochs=EPOCHS,
        start_gap=start_gap,
        at_theory=tuple(_curve(setting, order, step, bounded=True) for order, step in setting.steps.items()),
        at_practical=tuple(_curve(setting, order, practical, bounded=False) for order in _ORDERS),
        trials=tuple(trials),
        multiple=multiple,
        practical_step=multiple * whole.steps["rr"],
        optimum_error=setting.optimum.error,
        seed=found.seed,
    )


def _sampled(found: Survey) -> Problem:
    problem = found.problem
    kept = max(1, int(problem.n * (LARGEST / problem.rows.entries)))
    return problem.take(np.sort(permutation(problem.n, found.seed, 0, Stream.SAMPLE_OF_ROWS)[:kept]))


def _double(setting: _Setting) -> list[Trial]:
    """1, 2, 4, ... times the theory's step, until two in a row ended no lower than the best before them."""
    trials: list[Trial] = []
    step, lowest, worse = setting.steps["rr"], inf, 0
    for doublings in range(_MOST_DOUBLINGS):
        _, gaps = _run(setting, "rr", 2**doublings * step, evaluate_every=EPOCHS)
        final = gaps[-1] if len(gaps) == EPOCHS else inf
        trials.append(Trial(2**doublings, final if isfinite(final) else None))
        lowest, worse = (final, 0) if final < lowest else (lowest, worse + 1)
        if worse == 2:
            break
    return trials


def _calm(setting: _Setting, multiple: int, start_gap: float) -> int:
    """This multiple of the theory's step, or the first half of it, half of that, ... at which f never rises above its start."""
    while multiple > 1:
        _, gaps = _run(setting, "rr", multiple * setting.steps["rr"])
        if len(gaps) == EPOCHS and max(gaps) <= start_gap:
            break
        multiple //= 2
    return multiple


def _run(setting: _Setting, order: str, step: float, evaluate_every: int = 1) -> tuple[Run | None, list[float]]:
    """A run, None if it diverged, and the gap after each of its epochs, infinite where it is not known."""
    gaps: list[float] = []
    with suppress(DivergenceError), np.errstate(over="ignore", invalid="ignore"):  # a step that is too large is no surprise here
        run = minimize(
            setting.problem,
            order=order,
            batch_size=setting.batch_size,
            step_size=step,
            epochs=EPOCHS,
            seed=setting.seed,
            evaluate_every=evaluate_every,
            callback=lambda epoch: gaps.append(inf if epoch.f is None or isnan(epoch.f) else epoch.f - setting.optimum.f),
        )
        return run, gaps
    return None, gaps


def _curve(setting: _Setting, order: str, step: float, *, bounded: bool) -> Curve:
    run, values = _run(setting, order, step)
    gaps = [gap if gap > 0.0 and isfinite(gap) else None for gap in values]
    bounds: tuple[float, ...] | None = None
    prior: list[float] = []
    if bounded and run is not None:
        facts, theorems, epochs = setting.facts(order, visited=EPOCHS), setting.theorems(order), range(1, EPOCHS + 1)
        promised = [smallest_bound(theorems, facts, run.steps[:k]) for k in epochs]
        bounds = tuple(inf if promise is None else promise.bound for promise in promised)
        orders = "RR" if setting.rules[order].uniform else "IG"
        prior = [found[1] for k in epochs if (found := prior_bound(facts, k, orders)) is not None]
    diverged = run is None or not all(map(isfinite, values))
    return Curve(order, step, (*gaps, *[None] * (EPOCHS - len(gaps))), bounds, tuple(prior) or None, diverged)
