"""What has to be measured before a theorem can promise anything: the constants of the orders in use, and their discrepancy."""

from typing import Any

from reshuffle.finite_sum import FiniteSum
from reshuffle.optimum import Optimum
from reshuffle.orders import Order
from reshuffle.orders.prefixes import of_epochs
from reshuffle.problem import Problem
from reshuffle.spectral import as_lipschitz, constants
from reshuffle.theory import THEOREM_3, Facts


def constants_for(problem: Problem | FiniteSum, order: Order, batch_size: int) -> Any:
    """The constants of a fixed order or of a list of them. Orders that are drawn or come from an iterator are not known beforehand:
    what is promised of those are bounds, which any order brings along. Nothing is promised of orders that do not permute.
    """
    of: Any = {"smoothness": problem.smoothness} if isinstance(problem, FiniteSum) else {"problem": problem}
    return constants(**of, batch_size=batch_size, order=_known(order), permutations=1, seed=order.seed)


def gather(
    problem: Problem | FiniteSum,
    order: Order,
    c: Any,
    optimum: Optimum | None,
    *,
    epochs: int,
    visited: int = 0,
    safe: bool = False,
) -> Facts:
    """The facts that theorems rest on, for a run of so many epochs at most. `visited` asks for the discrepancy of the orders of the
    first so many; that of a fixed order is always there where the optimum is.
    """
    known = optimum is not None and c.smooth and _known(order) is order and (visited > 0 or order.fixed)
    intercept, lipschitz = False, None
    if isinstance(problem, Problem):
        intercept = problem.fit_intercept
        if c.smooth and THEOREM_3.assumes(problem, order):
            lipschitz = as_lipschitz(problem, c, _known(order))
    return Facts.of(
        c,
        optimum,
        order,
        intercept=intercept,
        discrepancy=of_epochs(problem, optimum.x, order, c.batch_size, visited) if known and optimum is not None else None,
        lipschitz=lipschitz,
        safe=safe,
        epochs=epochs,
    )


def _known(order: Order) -> Order | str:
    """The order, where it can be measured; else that of the file."""
    return order if order.repeatable and order.permutes else "ig"
