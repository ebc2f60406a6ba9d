"""Shuffled SGD as it really runs on the data: RR, SO and IG at the step of the theory, with its bound and the one before it, and at
the practical step.

The practical step: the step of the theory is doubled for as long as `EPOCHS` epochs in random orders end lower; the step that
ends lowest is taken, and halved for as long as f rises above where it started on the way. It is measured, not proved.

Above `LARGEST` stored entries all of this happens on a sample of rows, with the constants and the optimum of that sample.
"""

from contextlib import suppress
from dataclasses import dataclass
from math import inf, isfinite, isnan
from typing import Any

import numpy as np

from reshuffle.optimum import Optimum, measure
from reshuffle.orders import make_order
from reshuffle.orders.streams import Stream, permutation
from reshuffle.planning import Survey
from reshuffle.problem import Problem
from reshuffle.solver.run import DivergenceError, Run
from reshuffle.solver.shuffled import minimize
from reshuffle.spectral import constants_by_batch_size
from reshuffle.theory import Theorem, theorem_for

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
    prior: tuple[float, ...] | None  #: of earlier theory at batch size 1 and its own step, as an order of magnitude; smooth losses
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


@dataclass(frozen=True, eq=False)
class _Setting:
    """The problem that the runs use, and its constants and optimum."""

    problem: Problem
    optimum: Optimum
    random: Any
    in_file: Any

    def theorem(self, order: str) -> tuple[Theorem, Any]:
        """The theorem for this order, and the constants that it asks for."""
        rule = make_order(order, self.problem.n, self.random.seed)
        return theorem_for(self.problem, rule), self.random if rule.uniform else self.in_file

    def step(self, order: str) -> float:
        """The best constant step for `EPOCHS` epochs by the theorem for this order."""
        theorem, c = self.theorem(order)
        return theorem.step(c, self.optimum, EPOCHS)


def converge(found: Survey, batch_size: int) -> Convergence:
    """Measure on the data of `found` at this batch size."""
    whole = _Setting(found.problem, found.optimum, found.random[batch_size], found.in_file[batch_size])
    setting = whole if found.problem.rows.entries <= LARGEST else _sampled(found, batch_size)
    problem = setting.problem
    start_gap = problem.objective(np.zeros(problem.dimension)) - setting.optimum.f
    trials = _double(setting)
    lowest = min(trials, key=lambda trial: inf if trial.gap is None else trial.gap)
    multiple = _calm(setting, lowest.multiple, start_gap)
    steps = {order: setting.step(order) for order in _ORDERS}
    return Convergence(
        n=found.problem.n,
        rows=problem.n,
        batch_size=setting.random.batch_size,
        epochs=EPOCHS,
        start_gap=start_gap,
        at_theory=tuple(_curve(setting, order, step, bounded=True) for order, step in steps.items()),
        at_practical=tuple(_curve(setting, order, multiple * steps["rr"], bounded=False) for order in _ORDERS),
        trials=tuple(trials),
        multiple=multiple,
        practical_step=multiple * whole.step("rr"),
        optimum_error=setting.optimum.error,
        seed=found.seed,
    )


def _sampled(found: Survey, batch_size: int) -> _Setting:
    problem, seed = found.problem, found.seed
    kept = max(1, int(problem.n * (LARGEST / problem.rows.entries)))
    sample = problem.take(np.sort(permutation(problem.n, seed, 0, Stream.SAMPLE_OF_ROWS)[:kept]))
    b = min(batch_size, sample.n)
    random = constants_by_batch_size(sample, [b], permutations=found.permutations, seed=seed)[b]
    in_file = constants_by_batch_size(sample, [b], order="ig", permutations=1, seed=seed)[b]
    return _Setting(sample, measure(sample), random, in_file)


def _double(setting: _Setting) -> list[Trial]:
    """1, 2, 4, ... times the theory's step, until two in a row ended no lower than the best before them."""
    trials: list[Trial] = []
    step, lowest, worse = setting.step("rr"), inf, 0
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
        _, gaps = _run(setting, "rr", multiple * setting.step("rr"))
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
            batch_size=setting.random.batch_size,
            step_size=step,
            epochs=EPOCHS,
            seed=setting.random.seed,
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
        (theorem, c), epochs = setting.theorem(order), range(1, EPOCHS + 1)
        bounds = tuple(theorem.bound(c, setting.optimum, run.steps[:k]) for k in epochs)
        prior = [gap for k in epochs if (gap := theorem.prior_bound(c, setting.optimum, k)) is not None]
    diverged = run is None or not all(map(isfinite, values))
    return Curve(order, step, (*gaps, *[None] * (EPOCHS - len(gaps))), bounds, tuple(prior) or None, diverged)
