"""How good is my shuffle? Of an order: its discrepancy over that of random orders, what theorems promise in it, and how it trains.

Orders are compared, and not what happens to be known of them: promises for all of them rest on the constants that hold in every
order, and on the mean of the discrepancy over orders. That is sigma*^2 V for random ones, is measured for a fixed one, and for any
other scheme is estimated from orders that it draws. While eps is so large that the step is at its limit, all orders are promised
the same; as eps falls, an order with R times the discrepancy needs sqrt(R) times the epochs.

Runs are made at one step for all, the practical step of random orders (`solver.practice`), and the last iterate is looked at.
"""

from collections.abc import Callable
from typing import Any

from reshuffle.assessment.results import Assessment, Assessments, Measured, Promised, Smallest, Tried
from reshuffle.assessment.study import DRAWS, EPS, WITHIN, Study
from reshuffle.optimum import Optimum
from reshuffle.problem import Problem
from reshuffle.rows.devices import AUTO, PASSES_A_FIT, PASSES_A_SCHEME, choose
from reshuffle.solver.practice import EPOCHS

_TRIED = 10  # sizes that bisection looks at, about

__all__ = ["Assessment", "Assessments", "Measured", "Promised", "Smallest", "Tried", "assess", "smallest"]


def assess(
    problem: Problem,
    scheme: Any,
    *,
    batch_size: int = 1,
    eps: float = EPS,
    optimum: Optimum | None = None,
    measure: bool | None = None,
    epochs: int = EPOCHS,
    seeds: int = 3,
    draws: int = DRAWS,
    seed: int = 0,
    device: Any = AUTO,
    stage: Callable[[str], None] = lambda name: None,
) -> Any:  # Assessment or Assessments, as the scheme has it
    """How good is this order? `rs.orders.assess(problem, "buffer:10000", batch_size=32)`.

    scheme : a name, a permutation array or an `Order`, for one `Assessment`; a list or a tuple of them, for a table of them.
    batch_size : 1..n-1; with all rows in one batch there is no order.
    eps : the gap f - min f that promises are for.
    optimum : what `theory.measure(problem)` returns; measured if not given.
    measure : whether to train in these orders; if not said, up to two million stored entries.
    epochs : of each such run.
    seeds : runs in each order.
    draws : orders over which the mean of the discrepancy is taken.
    seed : of the first of the orders and runs; others have those that follow.
    device : where dense data is worked with, as in `constants`. Runs are made on the CPU, whatever it is.
    stage : told what is being done, for a progress display.
    """
    many = isinstance(scheme, list | tuple)
    named = list(scheme) if many else [scheme]
    if not named:
        raise ValueError("scheme is an empty list; name at least one, such as 'buffer:1000'")
    study = Study(
        placed(problem, device, len(named)),
        batch_size=batch_size,
        eps=eps,
        optimum=optimum,
        measure=measure,
        epochs=epochs,
        seeds=seeds,
        draws=draws,
        seed=seed,
    )
    for each in named:
        study.order(each)  # refuse what is not known before any work
    entries = []
    for each in named:
        stage(each if isinstance(each, str) else "given order")
        entries.append(study.assess(each))
    return Assessments(tuple(entries)) if many else entries[0]


def placed(problem: Problem, device: Any, schemes: int) -> Problem:
    """The problem where it is worked with: in a fit, the constants of a few orders, and passes over those that schemes draw."""
    chosen = choose(device, problem.rows, PASSES_A_FIT + schemes * PASSES_A_SCHEME)
    return problem if chosen.device is None else problem.replace(device=chosen.device)


def smallest(
    problem: Problem,
    family: str = "buffer",
    *,
    within: float = WITHIN,
    batch_size: int = 1,
    eps: float | None = None,
    optimum: Optimum | None = None,
    measure: bool | None = None,
    epochs: int = EPOCHS,
    seeds: int = 3,
    draws: int = DRAWS,
    seed: int = 0,
    device: Any = AUTO,
) -> Smallest:
    """The smallest buffer, or the largest block, in which at most `within` times the epochs of random orders are promised.

    family : "buffer" or "blocks".
    within : more than 1.
    eps : the gap that the promise is for; if not given, any: then it is the slowdown at small eps that counts.

    The others are those of `assess`; only what is found is measured.

    It is found by bisection, to 5 %. More shuffling is better on average, and a mean over `draws` orders is not quite that: `tried`
    holds what was seen.
    """
    study = Study(
        placed(problem, device, _TRIED),
        batch_size=batch_size,
        eps=EPS if eps is None else eps,
        optimum=optimum,
        measure=measure,
        epochs=epochs,
        seeds=seeds,
        draws=draws,
        seed=seed,
    )
    return study.smallest(family, within, eps)
