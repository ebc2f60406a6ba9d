"""Algorithm 2: shuffled SGD on any sum of convex smooth functions, given by a function that computes gradients of batches."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.epoch import Epoch
from reshuffle.finite_sum import FiniteSum
from reshuffle.orders import Permutations, make_order
from reshuffle.rows import batch_starts
from reshuffle.solver.run import Run
from reshuffle.solver.shuffled import Average, run_epochs
from reshuffle.solver.steps import StepSize, choose_steps
from reshuffle.validation import starting_point, whole_number
from reshuffle.vectors import Vector


def minimize_sum(
    grad: Callable[[Vector, NDArray[np.int64]], Vector],
    smoothness: ArrayLike,
    n: int,
    x0: ArrayLike,
    *,
    objective: Callable[[Vector], float] | None = None,
    order: str | ArrayLike | Permutations = "rr",
    batch_size: int = 1,
    step_size: StepSize = "theory",
    epochs: int = 50,
    seed: int = 0,
    average: str = "epoch",
    safe: bool = False,
    optimum: ArrayLike | None = None,
    callback: Callable[[Epoch], None] | None = None,
) -> Run:
    """Minimise f(x) = (1/n) sum_i f_i(x), each f_i convex and L_i-smooth.

    grad : grad(x, indices) returns the sum of the gradients of these f_i at x.
    smoothness : L_1..L_n, or one number for all.
    objective : f, for the history, where it is at hand.
    optimum : the minimiser, where it is known; step_size="budget" needs it. `Guarantee.of(FiniteSum(...), run, ...)` compares then.
    The other arguments are those of `minimize`.
    """
    total = FiniteSum(grad, smoothness, n, objective)  # type: ignore[arg-type]
    epochs = whole_number("epochs", epochs, 1)
    seed = whole_number("seed", seed, 0)
    batch_size = whole_number("batch_size", batch_size, 1, total.n, "functions of the sum")
    rule = make_order(order, total.n, seed)
    if rule.adaptive:
        raise ValueError(
            f"order={rule.name!r} needs the gradient of every sample, and grad is asked for the sum over a batch; use 'rr', or "
            "minimize for a linear predictor"
        )
    x = starting_point(x0, np.asarray(x0).size)
    mean = Average(average, epochs, x.size)
    known = None if optimum is None else total.optimum(optimum, x)
    steps, constants = choose_steps(
        step_size, total, rule, batch_size=batch_size, epochs=epochs, average=average, safe=safe, optimum=lambda: known
    )
    history: list[Epoch] = []

    def advance(epoch: int, step: float) -> None:
        permutation = rule.permutation(epoch)
        for lo, hi in pairwise(batch_starts(permutation.size, batch_size)):
            x[:] -= step / batch_size * total.gradient(x, permutation[lo:hi])

    def evaluate(epoch: int) -> tuple[float | None, None]:
        return (None if objective is None else float(objective(mean.point(x)))), None

    def finished(record: Epoch) -> bool:
        if callback is not None:
            callback(record)
        return False

    run_epochs(x, steps, mean, history, advance, evaluate, finished)
    return Run(
        x=mean.point(x),
        last=x,
        dual=None,
        history=history,
        batch_size=batch_size,
        average=average,
        allowed=epochs,
        rule=rule,
        constants=constants,
    )
