"""One linear predictor: a Problem in, its coefficients, history and certificate out. The estimators train one for each class."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from reshuffle import theory
from reshuffle.auto import best_constant, solve
from reshuffle.certificate import duality_gap
from reshuffle.epoch import Epoch
from reshuffle.optimum import measure
from reshuffle.orders import Order
from reshuffle.problem import Problem
from reshuffle.solver.algorithm import Average, run_epochs
from reshuffle.solver.passes import Passes
from reshuffle.solver.steps import StepSize, choose_steps
from reshuffle.spectral import constants

Vector = NDArray[np.float64]
Report = Callable[[Epoch], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """A predictor, and what is known of it."""

    x: Vector  #: d coefficients, then the intercept if there is one
    history: list[Epoch]
    step: float | None = None  #: of the last epoch; None where the solver has none
    gap: float | None = None  #: certified: f(x) - min f is at most this; None without a certificate
    relative_gap: float | None = None  #: gap over the decrease from the best constant prediction
    converged: bool = True  #: False where there is a certificate and it did not reach the tolerance


def train_auto(problem: Problem, *, tol: float, max_iter: int, x0: Vector | None, seed: int, report: Report | None) -> Trained:
    """By the solver that needs no step size."""
    found = solve(problem, tol=tol, max_iter=max_iter, x0=x0, seed=seed, callback=report)
    return Trained(found.x, found.history, None, found.gap, found.relative_gap, found.converged)


def train_sgd(
    problem: Problem,
    rule: Order,
    steps: list[float],
    *,
    batch_size: int,
    tol: float,
    x0: Vector | None,
    report: Report | None,
) -> Trained:
    """By Algorithm 1, the same numbers as `minimize`, ended as soon as the certified relative gap is at most tol."""
    x = np.zeros(problem.dimension) if x0 is None else x0.copy()
    mean, dual, passes = Average("epoch", len(steps), x.size), np.zeros(problem.n), Passes(problem, rule, batch_size)
    history: list[Epoch] = []
    relative: float | None = None
    constant = best_constant(problem)

    def evaluate(epoch: int) -> tuple[float, float | None]:
        point = mean.point(x)
        return problem.objective(point), duality_gap(problem, point, dual)

    def finished(record: Epoch) -> None:
        nonlocal relative
        if report is not None:
            report(record)
        if record.f is not None and record.gap is not None:
            relative = constant.relative(record.f, record.gap)
            if relative <= tol:
                raise _Reached

    with suppress(_Reached):
        run_epochs(x, steps, mean, history, lambda epoch, step: passes.run(epoch, step, x, dual), evaluate, finished)
    last = history[-1]
    return Trained(mean.point(x), history, last.step, last.gap, relative, relative is None or relative <= tol)


def train_one_epoch(
    problem: Problem, rule: Order, step: float, *, batch_size: int, x0: Vector, history: list[Epoch], report: Report | None
) -> Trained:
    """One epoch of Algorithm 1 from x0, numbered after those in the history. Its f is that of the given rows."""
    x, longer = x0.copy(), list(history)
    dual, passes, last = np.zeros(problem.n), Passes(problem, rule, batch_size), Average("last", 1, x0.size)
    run_epochs(
        x,
        [0.0] * len(history) + [step],
        last,
        longer,
        lambda epoch, step: passes.run(epoch, step, x, dual),
        lambda epoch: (problem.objective(x), None),
        report or (lambda record: None),
    )
    return Trained(x, longer, step)


def plan(step_size: StepSize, problem: Problem, rule: Order, *, batch_size: int, epochs: int, x0: Vector | None) -> list[float]:
    """The step of every epoch, as `minimize` would choose it."""
    optimum = cache(lambda: measure(problem, x0))
    return choose_steps(step_size, problem, rule, batch_size=batch_size, epochs=epochs, safe=False, optimum=optimum)[0]


def step_for_one_epoch(problem: Problem, rule: Order, x: Vector) -> float:
    """The step for one epoch over these rows that needs no choice: Theorem 1's limit for a smooth loss; for a loss with kinks the
    step of Theorem 3 for one epoch, D being the distance to the optimum of these rows.
    """
    if not problem.squared_norms().any():
        return 0.0
    if problem.smoothness is not None:
        return plan("theory", problem, rule, batch_size=1, epochs=1, x0=x)[0]
    gbar = constants(problem, batch_size=1, order=rule, permutations=1, seed=rule.seed).gbar
    distance = float(np.linalg.norm(solve(problem, tol=1e-2, max_iter=100, seed=rule.seed).x - x))
    return theory.step_lipschitz(problem.n, 1, epochs=1, gbar=gbar, distance=distance)


class _Reached(Exception):
    """The certified relative gap is at most tol."""
