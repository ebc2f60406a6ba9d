"""Which theorem holds: a problem and an order in, the first theorem of the list whose assumptions hold out."""

from typing import TYPE_CHECKING

from reshuffle.theory.theorems import THEOREM_1, THEOREM_2, THEOREM_3, THEOREM_4, THEOREM_5, Theorem

if TYPE_CHECKING:
    from reshuffle.orders import Order
    from reshuffle.problem import Problem

#: Better promises come first. An entry is all that a new theorem needs to be used for plans, steps, guarantees and reports.
THEOREMS: list[Theorem] = [THEOREM_1, THEOREM_2, THEOREM_3, THEOREM_4, THEOREM_5]


def find_theorem(problem: "Problem | None", order: "Order") -> Theorem | None:
    """The first of `THEOREMS` that holds, or None. Without a problem: for a sum of any convex smooth functions."""
    return next((theorem for theorem in THEOREMS if theorem.assumes(problem, order)), None)


def theorem_for(problem: "Problem | None", order: "Order") -> Theorem:
    """The same, with an error where no theorem holds."""
    found = find_theorem(problem, order)
    if found is None:
        raise uncovered(problem)
    return found


def uncovered(problem: "Problem | None") -> ValueError:
    """What to tell a user whom no theorem helps."""
    if problem is not None and problem.alpha > 0.0:
        what = f"loss={str(problem.loss)!r} with alpha={problem.alpha:g}: no theorem covers a loss with kinks and a regulariser"
        return ValueError(f"{what}; use alpha=0, or a step size of your own")
    return ValueError(f"no theorem covers this problem and order; there are {', '.join(map(str, THEOREMS))}")
