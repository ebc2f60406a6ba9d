"""Which theorems hold for a problem and an order, and which of them promises most."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from reshuffle.theory.facts import Facts
from reshuffle.theory.theorems import (
    THEOREM_1,
    THEOREM_2,
    THEOREM_3,
    THEOREM_4,
    THEOREM_5,
    THEOREM_6,
    THEOREM_6_GENERAL,
    THEOREM_7,
    THEOREM_7_RANDOM,
    THEOREM_8,
    THEOREM_8_RANDOM,
    Theorem,
)

if TYPE_CHECKING:
    from reshuffle.orders import Order
    from reshuffle.problem import Problem

#: Where two promise the same, one that holds for certain is named, then the first. An entry is all that a new theorem needs to be
#: used for plans, steps, guarantees and reports.
THEOREMS: list[Theorem] = [
    THEOREM_1,
    THEOREM_6,
    THEOREM_2,
    THEOREM_3,
    THEOREM_7_RANDOM,
    THEOREM_7,
    THEOREM_8_RANDOM,
    THEOREM_8,
    THEOREM_4,
    THEOREM_6_GENERAL,
    THEOREM_5,
]


@dataclass(frozen=True)
class Promise:
    """What a theorem says of f - min f."""

    theorem: Theorem
    bound: float  #: infinite where it promises nothing
    failure: float  #: the probability that an order in use has larger constants than it rests on

    @property
    def holds(self) -> str:
        """When f - min f is at most the bound, in words."""
        return in_words(self.theorem.in_expectation, self.failure)


@dataclass(frozen=True)
class Shortest:
    """The fewest epochs after which some theorem promises eps."""

    theorem: Theorem
    epochs: int
    step: float


def in_words(in_expectation: bool, failure: float) -> str:
    """For certain, on average, or with a probability."""
    likely = f"with probability {1.0 - failure:g}"
    if in_expectation:
        return f"on average over orders ({likely} all steps are within its limit)" if failure else "on average over orders"
    return likely if failure else "for certain"


def theorems_for(problem: "Problem | None", order: "Order") -> list[Theorem]:
    """All of `THEOREMS` that hold. Without a problem: for a sum of any convex smooth functions."""
    return [theorem for theorem in THEOREMS if theorem.assumes(problem, order)]


def theorem_for(problem: "Problem | None", order: "Order") -> Theorem:
    """The first of them, with an error where no theorem holds."""
    found = theorems_for(problem, order)
    if not found:
        raise uncovered(problem, order)
    return found[0]


def smallest_bound(theorems: Sequence[Theorem], facts: Facts, steps: Sequence[float], output: str = "epoch") -> Promise | None:
    """What the best of these theorems promises for this output after these steps; None where all promise nothing."""
    found = [(theorem.bound(facts, steps), theorem) for theorem in theorems if theorem.output == output]
    bound, theorem = min(found, key=lambda pair: (pair[0], pair[1].in_expectation), default=(float("inf"), None))
    if theorem is None or not isfinite(bound):
        return None
    within = theorem.within(facts)
    return Promise(theorem, bound, 0.0 if within is None else within.failure)


def best_step(theorems: Sequence[Theorem], facts: Facts, epochs: int, output: str = "epoch") -> float:
    """The constant step for these epochs that makes the promise for this output smallest."""
    offered = [theorem for theorem in theorems if theorem.output == output and theorem.within(facts) is not None]
    steps = [theorem.step(facts, epochs) for theorem in offered]
    return min(zip(offered, steps, strict=True), key=lambda pair: pair[0].bound(facts, [pair[1]] * epochs))[1]


def shortest(theorems: Sequence[Theorem], facts: Facts, eps: float) -> Shortest:
    """The fewest epochs after which one of these theorems promises eps."""
    found = [Shortest(theorem, *theorem.tightest(facts, eps)) for theorem in theorems if theorem.within(facts) is not None]
    return min(found, key=lambda plan: (plan.epochs, plan.theorem.in_expectation))


def uncovered(problem: "Problem | None", order: "Order | None" = None) -> ValueError:
    """What to tell a user whom no theorem helps."""
    if order is not None and not order.permutes:
        what = f"order={order.name!r}: theorems are about orders that visit each sample once an epoch, which this one does not"
        return ValueError(f"{what}; use one that does, or a step size of your own")
    if problem is not None and problem.alpha > 0.0:
        what = f"loss={str(problem.loss)!r} with alpha={problem.alpha:g}: no theorem covers a loss with kinks and a regulariser"
        return ValueError(f"{what}; use alpha=0, or a step size of your own")
    return ValueError(f"no theorem covers this problem and order; there are {', '.join(map(str, THEOREMS))}")
