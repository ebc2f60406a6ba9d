"""The prefix discrepancy of an order: how far the gradients at the optimum, summed in that order, stray from zero.

    R_pi = 1/(n b) sum over batches i = 1..m of |g_{pi_1} + ... + g_{pi_{b(i-1)}}|^2,      g_j = grad f_j(x*)

It is the noise of Theorems 6 to 8, it decides how well an order trains, and its mean over uniformly random orders is sigma*^2 V.
The sums up to each position hold those of all batch sizes, so one pass over the data serves all of them.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.orders import kernels
from reshuffle.orders.streams import Stream, start
from reshuffle.validation import starting_point, whole_number
from reshuffle.vectors import Vector

if TYPE_CHECKING:
    from reshuffle.finite_sum import FiniteSum
    from reshuffle.orders import Order
    from reshuffle.problem import Problem

_SIGNS = 1 << 20  # of the projection in memory at a time


def discrepancy(
    gradients: "ArrayLike | Iterator[ArrayLike] | Problem | FiniteSum",
    order: "str | ArrayLike | Order",
    batch_size: int = 1,
    *,
    x: ArrayLike | None = None,
    seed: int = 0,
    columns: int | None = None,
    centre: bool = False,
) -> float:
    """R_pi of an order; where each epoch draws another, that of the first.

    gradients : n x d, the gradient of every sample, or an iterator of chunks of its rows from the first to the last; they should
        sum to zero. Or a problem, whose gradients at x are taken.
    order : a name, a permutation array or an `Order`.
    batch_size : 1..n; the last batch of an epoch may be short.
    x : the minimiser, for a problem.
    seed : of a random order and of the projection.
    columns : project the gradients to so many random columns first, as `sketch` does, for d too large to keep n x d numbers. R_pi
        is then estimated, without bias and with a relative standard error of at most sqrt(2 / columns).
    centre : take the mean off the gradients first, where x is no minimiser and they do not sum to zero.
    """
    if x is None:
        g = _stacked(gradients) if columns is None else sketch(gradients, columns, seed=seed)  # type: ignore[arg-type]
        if centre:
            g = g - g.mean(axis=0)
        permutation = _first(order, len(g), seed)
        squares = np.sum(np.cumsum(g[permutation], axis=0) ** 2, axis=1)
    else:
        if columns is not None or centre:
            raise ValueError(f"columns={columns} and centre={centre} are for gradients; those of a problem at x are all at hand")
        problem: Any = gradients
        permutation = _first(order, problem.n, seed)
        squares = problem.prefix_norms(starting_point(x, getattr(problem, "dimension", np.size(x)), "x"), permutation)
    return from_prefixes(squares, whole_number("batch_size", batch_size, 1, squares.size, "samples"))


def sketch(gradients: "ArrayLike | Iterator[ArrayLike]", columns: int, *, seed: int = 0) -> Vector:
    """Gradients projected to a few columns by a d x columns matrix of random signs over sqrt(columns). The squared norm of any sum
    of them keeps its mean, with a relative standard error of at most sqrt(2 / columns). One sketch serves all orders.

    gradients : n x d, or an iterator of chunks of its rows from the first to the last, of which one at a time is in memory.
    columns : how many; n x columns numbers are kept.
    seed : of the signs.
    """
    columns, begin = whole_number("columns", columns, 1), start(seed, 0, Stream.SKETCH)
    each = max(_SIGNS // columns, 1)

    def project(chunk: Vector) -> Vector:
        out: Vector = np.zeros((len(chunk), columns))
        for low in range(0, chunk.shape[1], each):
            here = chunk[:, low : low + each]
            signs = np.empty((here.shape[1], columns))
            kernels.signs(begin, low, signs)
            out += here @ signs
        out /= np.sqrt(columns)
        return out

    return np.concatenate([project(chunk) for chunk in _chunks(gradients)])


def _stacked(gradients: "ArrayLike | Iterator[ArrayLike]") -> Vector:
    return np.concatenate(list(_chunks(gradients)))


def _chunks(gradients: "ArrayLike | Iterator[ArrayLike]") -> Iterator[Vector]:
    """Each chunk, checked."""
    chunks: Iterable[Any] = gradients if isinstance(gradients, Iterator) else [gradients]
    width = None
    for chunk in chunks:
        g = np.asarray(chunk, dtype=np.float64)
        if g.ndim != 2 or not len(g) or not np.isfinite(g).all():
            raise ValueError(f"gradients must be an n x d array of finite numbers, one row a sample; this has shape {g.shape}")
        if g.shape[1] != (width or g.shape[1]):
            raise ValueError(f"gradients come in chunks of {width} and of {g.shape[1]} columns; a row is the gradient of a sample")
        width = g.shape[1]
        yield g
    if width is None:
        raise ValueError("gradients is an iterator that gave nothing; it must give chunks of rows, one row a sample")


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
