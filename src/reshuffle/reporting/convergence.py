"""Shuffled SGD as it really runs on the data: RR, SO and IG at the step of the theory, with its bound and the one before it, and
these and the balanced order at the advised step.

Above `LARGEST` stored entries the runs at the step of the theory are on a sample of rows, with the constants and the optimum of
that sample; those at the advised step are always on all rows.
"""

from dataclasses import dataclass, replace
from math import inf, isfinite

from reshuffle.advising import Advice, sample_of
from reshuffle.evidence import constants_for, gather
from reshuffle.optimum import Optimum, measure
from reshuffle.orders import make_order
from reshuffle.planning import Survey
from reshuffle.problem import Problem
from reshuffle.solver.practice import EPOCHS, LARGEST, Bench
from reshuffle.theory import Facts, Theorem, best_step, prior_bound, smallest_bound, theorems_for

__all__ = ["EPOCHS", "LARGEST", "Convergence", "Curve", "converge"]

_ORDERS = ("rr", "so", "ig")
_IN_PRACTICE = (*_ORDERS, "balanced")  # nothing that a theorem could take a step from is known of this one beforehand


@dataclass(frozen=True)
class Curve:
    """One run: the gap after every epoch, None where f stands below the minimum as far as that is known, or where it left the
    finite numbers. The bounds belong to the same epochs."""

    order: str
    step_size: float
    gaps: tuple[float | None, ...]
    bounds: tuple[float, ...] | None  #: of this theory; None at the advised step, for which there is none
    prior: tuple[float, ...] | None  #: of earlier theory at batch size 1 and its own step; smooth losses
    diverged: bool


@dataclass(frozen=True)
class Convergence:
    n: int
    rows: int  #: how many of the n rows the runs at the step of the theory use
    batch_size: int
    epochs: int  #: at the step of the theory
    at_theory: tuple[Curve, ...]
    at_advised: tuple[Curve, ...]  #: the last iterate, on all rows, for the epochs of the advice
    multiple: float  #: the advised step is this many times the theory's for random orders
    optimum_error: float | None  #: how far the minimum that gaps are measured from may be off, where that is known
    seed: int

    @property
    def sampled(self) -> bool:
        return self.rows < self.n


class _Setting:
    """The problem that the runs use, its optimum, and what the theorems rest on in each order."""

    def __init__(self, problem: Problem, optimum: Optimum, batch_size: int, seed: int) -> None:
        self.problem, self.optimum, self.batch_size = problem, optimum, batch_size
        self.bench = Bench(problem, optimum, batch_size, seed)
        self.rules = {order: make_order(order, problem.n, seed) for order in _ORDERS}
        self._constants = {order: constants_for(problem, rule, batch_size) for order, rule in self.rules.items()}
        self.steps = {order: best_step(self.theorems(order), self.facts(order), EPOCHS) for order in _ORDERS}

    def theorems(self, order: str) -> list[Theorem]:
        return theorems_for(self.problem, self.rules[order])

    def facts(self, order: str, *, visited: int = 0) -> Facts:
        return gather(self.problem, self.rules[order], self._constants[order], self.optimum, epochs=EPOCHS, visited=visited)


def converge(found: Survey, advice: Advice) -> Convergence:
    """Measure on the data of `found` at the batch size of the advice."""
    problem, optimum = found.problem, found.optimum
    bench = Bench(problem, optimum, advice.batch_size, found.seed, average="last", epochs=advice.epochs)
    if problem.rows.entries > LARGEST:
        problem = _sampled(found)
        optimum = measure(problem)
    setting = _Setting(problem, optimum, min(advice.batch_size, problem.n), found.seed)
    return Convergence(
        n=found.problem.n,
        rows=problem.n,
        batch_size=setting.batch_size,
        epochs=EPOCHS,
        at_theory=tuple(_at_theory(setting, order, step) for order, step in setting.steps.items()),
        at_advised=tuple(_curve(bench, order, advice.step_size) for order in _IN_PRACTICE),
        multiple=advice.step_size / setting.steps["rr"],
        optimum_error=found.optimum.error,
        seed=found.seed,
    )


def _sampled(found: Survey) -> Problem:
    problem = found.problem
    return sample_of(problem, max(1, int(problem.n * (LARGEST / problem.rows.entries))), found.seed)


def _at_theory(setting: _Setting, order: str, step: float) -> Curve:
    curve = _curve(setting.bench, order, step)
    if curve.diverged:
        return curve
    facts, theorems, epochs = setting.facts(order, visited=EPOCHS), setting.theorems(order), range(1, EPOCHS + 1)
    promised = [smallest_bound(theorems, facts, [step] * k) for k in epochs]
    bounds = tuple(inf if promise is None else promise.bound for promise in promised)
    orders = "RR" if setting.rules[order].uniform else "IG"
    prior = tuple(found[1] for k in epochs if (found := prior_bound(facts, k, orders)) is not None)
    return replace(curve, bounds=bounds, prior=prior or None)


def _curve(bench: Bench, order: str, step: float) -> Curve:
    values = bench.gaps(order, step)
    gaps = [gap if gap > 0.0 and isfinite(gap) else None for gap in values]
    diverged = len(values) < bench.epochs or not all(map(isfinite, values))
    return Curve(order, step, (*gaps, *[None] * (bench.epochs - len(gaps))), None, None, diverged)
