"""The prefix discrepancy of an order: how far the gradients at the optimum, summed in that order, stray from zero.

    R_pi = 1/(n b) sum over batches i = 1..m of |g_{pi_1} + ... + g_{pi_{b(i-1)}}|^2,      g_j = grad f_j(x*)

It is the noise of Theorems 6 to 8, it decides how well an order trains, and its mean over uniformly random orders is sigma*^2 V.
The sums up to each position hold those of all batch sizes, so one pass over the data serves all of them.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.validation import starting_point, whole_number
from reshuffle.vectors import Vector

if TYPE_CHECKING:
    from reshuffle.finite_sum import FiniteSum
    from reshuffle.orders import Order
    from reshuffle.problem import Problem


def discrepancy(
    gradients: "ArrayLike | Problem | FiniteSum",
    order: "str | ArrayLike | Order",
    batch_size: int = 1,
    *,
    x: ArrayLike | None = None,
    seed: int = 0,
) -> float:
    """R_pi of an order; where each epoch draws another, that of the first.

    gradients : n x d, the gradient of every sample; they should sum to zero. Or a problem, whose gradients at x are taken.
    order : a name, a permutation array or an `Order`.
    batch_size : 1..n; the last batch of an epoch may be short.
    x : the minimiser, for a problem.
    seed : of a random order.
    """
    if x is None:
        g = np.asarray(gradients, dtype=np.float64)
        if g.ndim != 2 or not len(g) or not np.isfinite(g).all():
            raise ValueError(f"gradients must be an n x d array of finite numbers, one row a sample; this has shape {g.shape}")
        permutation = _first(order, len(g), seed)
        squares = np.sum(np.cumsum(g[permutation], axis=0) ** 2, axis=1)
    else:
        problem: Any = gradients
        permutation = _first(order, problem.n, seed)
        squares = problem.prefix_norms(starting_point(x, getattr(problem, "dimension", np.size(x)), "x"), permutation)
    return from_prefixes(squares, whole_number("batch_size", batch_size, 1, squares.size, "samples"))


def _first(order: "str | ArrayLike | Order", n: int, seed: int) -> Any:
    from reshuffle.orders import make_order

    rule = make_order(order, n, seed)
    if rule.adaptive:
        raise ValueError(f"order={rule.name!r} is made while a run goes on; pass a permutation, such as the run's `following`")
    return rule.permutation(0)


def from_prefixes(squares: Vector, batch_size: int) -> float:
    """R_pi from |g_{pi_1} + ... + g_{pi_p}|^2 for p = 1..n: the sums before each batch but the first, which has none."""
    n = squares.size
    return float(squares[batch_size - 1 : n - 1 : batch_size].sum()) / (n * batch_size)


def of_epochs(problem: "Problem | FiniteSum", x: Vector, order: "Order", batch_size: int, epochs: int) -> float | tuple[float, ...]:
    """R_pi of a fixed order, or of the order of each epoch; x is the optimum."""
    if order.fixed:
        return from_prefixes(problem.prefix_norms(x, order.permutation(0)), batch_size)
    return tuple(from_prefixes(problem.prefix_norms(x, order.permutation(k)), batch_size) for k in range(epochs))
