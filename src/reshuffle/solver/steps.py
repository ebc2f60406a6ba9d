"""The `step_size` argument: a number, one for each epoch, a function of the epoch, or a name that asks the theory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reshuffle.optimum import Optimum
from reshuffle.orders import Order
from reshuffle.problem import Problem
from reshuffle.spectral import Constants, constants
from reshuffle.theory import Theorem, theorem_for

StepSize = float | str | Sequence[float] | Callable[[int], float]

SAMPLED_PERMUTATIONS = 20


def choose_steps(
    step_size: StepSize,
    problem: Problem | None,
    order: Order,
    *,
    smoothness: Any = None,
    batch_size: int,
    epochs: int,
    safe: bool,
    optimum: Callable[[], Optimum] | None,
) -> tuple[list[float], Constants | None]:
    """A step for every epoch, and the constants if they were needed."""
    if isinstance(step_size, str):
        if step_size not in ("theory", "budget"):
            raise ValueError(f"step_size={step_size!r} is not known; use 'theory', 'budget', a number, a list or a function")
        theorem = theorem_for(problem, order)
        found = constants(
            problem,
            smoothness=smoothness,
            batch_size=batch_size,
            order=order if order.repeatable else "rr",
            permutations=min(epochs, SAMPLED_PERMUTATIONS),
            seed=order.seed,
        )
        step = _step_of_theory(step_size, theorem, found, epochs, safe or not order.repeatable, optimum)
        return [step] * epochs, found
    if callable(step_size):
        steps = [float(step_size(epoch)) for epoch in range(1, epochs + 1)]
    elif np.ndim(step_size) == 0:
        steps = [float(step_size)] * epochs  # type: ignore[arg-type]
    else:
        steps = [float(step) for step in step_size]  # type: ignore[union-attr]
        if len(steps) != epochs:
            raise ValueError(f"step_size has {len(steps)} entries for {epochs} epochs; give one for each epoch")
    for epoch, step in enumerate(steps, 1):
        if not 0.0 < step < float("inf"):
            raise ValueError(f"step_size is {step} in epoch {epoch}; use positive numbers")
    return steps, None


def _step_of_theory(
    name: str, theorem: Theorem, found: Constants, epochs: int, safe: bool, optimum: Callable[[], Optimum] | None
) -> float:
    limit = theorem.step_limit(found, safe=safe)
    if limit == float("inf"):
        raise ValueError(f"step_size={name!r}: all samples are zero, so any step will do; give a number")
    if name == "theory" and limit is not None:
        return limit
    if optimum is None:
        raise ValueError(f"step_size={name!r} needs the optimum, which is not known here; give a number")
    return theorem.step(found, optimum(), epochs, safe=safe)
