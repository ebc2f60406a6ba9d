"""Algorithm 2: shuffled SGD on any sum of convex smooth functions, given by a function that computes gradients of batches."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.epoch import Epoch
from reshuffle.orders import Permutations, make_order
from reshuffle.rows import batch_starts
from reshuffle.solver.run import Run
from reshuffle.solver.shuffled import Average, run_epochs
from reshuffle.solver.steps import StepSize, choose_steps
from reshuffle.theory import find_theorem
from reshuffle.validation import starting_point, whole_number

Vector = NDArray[np.float64]


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
    callback: Callable[[Epoch], None] | None = None,
) -> Run:
    """Minimise f(x) = (1/n) sum_i f_i(x), each f_i convex and L_i-smooth.

    grad : grad(x, indices) returns the sum of the gradients of these f_i at x.
    smoothness : L_1..L_n, or one number for all.
    objective : f, for the history, where it is at hand.
    The other arguments are those of `minimize`.
    """
    n = whole_number("n", n, 1)
    epochs = whole_number("epochs", epochs, 1)
    seed = whole_number("seed", seed, 0)
    batch_size = whole_number("batch_size", batch_size, 1, n, "functions of the sum")
    L = np.asarray(smoothness, dtype=np.float64)
    L = np.full(n, float(L)) if L.ndim == 0 else L
    if L.shape != (n,):
        raise ValueError(f"smoothness has shape {L.shape}; give one number, or one for each of the {n} functions")
    rule = make_order(order, n, seed)
    x = starting_point(x0, np.asarray(x0).size)
    mean = Average(average, epochs, x.size)
    steps, constants = choose_steps(
        step_size, None, rule, smoothness=L, batch_size=batch_size, epochs=epochs, safe=safe, optimum=None
    )
    starts = batch_starts(n, batch_size)
    history: list[Epoch] = []

    def advance(epoch: int, step: float) -> None:
        permutation = rule.permutation(epoch)
        for lo, hi in pairwise(starts):
            x[:] -= step / batch_size * np.asarray(grad(x, permutation[lo:hi]), dtype=np.float64)

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
        order=rule.name,
        batch_size=batch_size,
        n=n,
        seed=seed,
        average=average,
        rule=rule,
        theorem=find_theorem(None, rule),
        constants=constants,
    )
