"""The `step_size` argument: a number, one for each epoch, a function of the epoch, or a name that asks the theory."""

from collections.abc import Callable, Sequence

import numpy as np

from reshuffle.evidence import constants_for, gather
from reshuffle.finite_sum import FiniteSum
from reshuffle.optimum import Optimum
from reshuffle.orders import Order
from reshuffle.problem import Problem
from reshuffle.spectral import Constants
from reshuffle.theory import best_step, theorems_for, uncovered

StepSize = float | str | Sequence[float] | Callable[[int], float]


def choose_steps(
    step_size: StepSize,
    problem: Problem | FiniteSum,
    order: Order,
    *,
    batch_size: int,
    epochs: int,
    average: str,
    safe: bool,
    optimum: Callable[[], Optimum | None],
) -> tuple[list[float], Constants | None]:
    """A step for every epoch, and the constants if they were needed."""
    if isinstance(step_size, str):
        if step_size not in ("theory", "budget"):
            raise ValueError(f"step_size={step_size!r} is not known; use 'theory', 'budget', a number, a list or a function")
        theorems = theorems_for(None if isinstance(problem, FiniteSum) else problem, order)
        if not theorems:
            raise uncovered(problem if isinstance(problem, Problem) else None, order)
        found = constants_for(problem, order, batch_size)
        facts = gather(problem, order, found, None, epochs=epochs, safe=safe)
        limit = theorems[0].step_limit(facts)
        if limit == float("inf"):
            raise ValueError(f"step_size={step_size!r}: all samples are zero, so any step will do; give a number")
        if step_size == "theory" and limit is not None:
            return [limit] * epochs, found
        best = optimum()
        if best is None:
            raise ValueError(f"step_size={step_size!r} needs the minimiser; pass it as optimum, or give a number")
        known = gather(problem, order, found, best, epochs=epochs, safe=safe)
        output = average if any(theorem.output == average for theorem in theorems) else "epoch"
        return [best_step(theorems, known, epochs, output)] * epochs, found
    if callable(step_size):
        steps = [float(step_size(epoch)) for epoch in range(1, epochs + 1)]
    elif np.ndim(step_size) == 0:
        steps = [float(step_size)] * epochs  # type: ignore[arg-type]
    else:
        steps = [float(step) for step in step_size]  # type: ignore[union-attr]
        if len(steps) != epochs:
            raise ValueError(f"step_size has {len(steps)} entries for {epochs} epochs; give one for each epoch")
    check_steps(steps)
    return steps, None


def check_steps(steps: Sequence[float]) -> None:
    for epoch, step in enumerate(steps, 1):
        if not 0.0 < step < float("inf"):
            raise ValueError(f"step_size is {step} in epoch {epoch}; use positive numbers")
