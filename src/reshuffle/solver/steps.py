"""The `step_size` argument: a number, one for each epoch, a function of the epoch, or a name that asks the theory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from reshuffle import theory
from reshuffle.optimum import Optimum
from reshuffle.orders import Order
from reshuffle.problem import Problem
from reshuffle.spectral import Constants, SmoothConstants, constants

StepSize = float | str | Sequence[float] | Callable[[int], float]

SAMPLED_PERMUTATIONS = 20


def plan_steps(
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
        found = constants(
            problem,
            smoothness=smoothness,
            batch_size=batch_size,
            order="rr" if order.iterator is not None else order,
            permutations=min(epochs, SAMPLED_PERMUTATIONS),
            seed=order.seed,
        )
        step = _step_of_theory(step_size, problem, found, order, epochs, safe or order.iterator is not None, optimum)
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
    name: str,
    problem: Problem | None,
    found: Constants,
    order: Order,
    epochs: int,
    safe: bool,
    optimum: Callable[[], Optimum] | None,
) -> float:
    n, b = found.n, found.batch_size
    if not isinstance(found, SmoothConstants):
        if problem is not None and problem.l2 > 0.0:
            raise ValueError(f"step_size={name!r}: no theorem covers a loss with kinks and l2={problem.l2:g}; give a number")
        gbar = found.full_gradient_constant**0.5 * found.largest_sample**0.5 if safe else found.gbar  # type: ignore[attr-defined]
        return theory.step_lipschitz(n, b, epochs=epochs, gbar=gbar, distance=_needed(optimum, name).distance)
    limit = found.safe_step_size_limit if safe else found.step_size_limit
    if limit == float("inf"):
        raise ValueError(f"step_size={name!r}: all samples are zero, so any step will do; give a number")
    if name == "theory":
        return limit
    best = _needed(optimum, name)
    numbers: dict[str, float] = {"lhat": found.lhat_max, "ltil": found.ltil_max, "distance": best.distance, "sigma": best.sigma}
    if order.name in ("rr", "so"):
        return min(limit, theory.step_smooth(n, b, epochs=epochs, **numbers))
    return min(limit, theory.step_ig(n, b, epochs=epochs, dual_norm=best.dual_norm, **numbers))


def _needed(optimum: Callable[[], Optimum] | None, name: str) -> Optimum:
    if optimum is None:
        raise ValueError(f"step_size={name!r} needs the optimum, which is not known here; give a number")
    return optimum()
