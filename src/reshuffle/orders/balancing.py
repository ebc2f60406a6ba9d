"""An order better than random, from dual values that are known: herding by a balanced walk (Lu, Guo, De Sa 2022).

The gradient of a sample is w_j y_j a_j plus the share of the regulariser, so n dual values y are all that is needed of it. One pass
goes through the present order with a walk from s = 0 over the centred gradients c_j: where s'c_j <= 0 it adds c_j, and j goes to
the front of the new order; else it subtracts c_j, and j goes to the back, which is read in reverse. While prefixes are long against
the walk, a pass halves them, and quarters the discrepancy; docs/proofs.md has the lemmas.

`minimize(order="balanced")` does without known dual values: see `rows.kernels.sgd_epoch`.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.validation import whole_number
from reshuffle.vectors import dot

if TYPE_CHECKING:
    from reshuffle.orders import Order
    from reshuffle.problem import Problem


def balanced(
    problem: "Problem", dual: ArrayLike, *, order: "str | ArrayLike | Order" = "so", passes: int = 6, seed: int = 0
) -> NDArray[np.int64]:
    """A permutation whose gradients keep cancelling, to be used for all epochs, or stored.

    dual : the n dual values l'(a_i'x, y_i), such as `run.dual`, or `problem.duals(problem.margins(x))` at a point near the optimum.
    order : where to start: a name, a permutation array or an `Order`.
    passes : over the data.
    seed : of a random start.
    """
    from reshuffle.orders import make_order

    values = np.asarray(dual, dtype=np.float64)
    if values.shape != (problem.n,) or not np.isfinite(values).all():
        raise ValueError(f"dual must hold {problem.n} finite numbers, one for each sample; this has shape {values.shape}")
    passes = whole_number("passes", passes, 1)
    permutation = make_order(order, problem.n, seed).permutation(0)
    u = problem.sample_weight * values
    mean = problem.transposed(u) / problem.n  # without the regulariser's share, which all samples have alike
    along, square = -problem.margins(mean), float(dot(mean, mean))
    for _ in range(passes):
        front = problem.rows.balanced_signs(permutation, u, along, square)
        permutation = np.concatenate([permutation[front], permutation[~front][::-1]])
    return permutation
