"""What algorithms ask of the data, and nothing else: A, n rows of d entries, and with an intercept one more entry of each, a one,
which is not stored. Every algorithm of the library is written against `Rows`; how rows are stored is known to its children alone.

A new storage is one file: a child of `Rows` with `shape`, `entries` and `take`, which brings some of its rows into memory. All else
is then done here, block after block of rows, each by the compiled loops of `memory`. A storage that can do better overrides what it
can do better.

`arrange(order, b)` puts the rows into a visiting order and answers with an `Arranged`, which multiplies by
    ordered   [min(t_p, t_q) <a_p, a_q>]_{pq}           (Lhat, Ghat; t_p = p // b + 1 is the batch of position p)
    batched   [<a_p, a_q> if p, q share a batch]_{pq}   (Ltil, Gtil; with one batch, the whole Gram matrix)
Neither n x n matrix is formed, except where n is so small against the data that one Gram matrix serves every order.
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from reshuffle.losses.base import Loss
from reshuffle.vectors import Vector, dot

if TYPE_CHECKING:
    from reshuffle.rows.dask import DaskRows
    from reshuffle.rows.memory import MemoryRows

Integers = NDArray[np.integer[Any]]
Positions = NDArray[np.int64]

# Forming the Gram matrix costs about n products of level 3 speed, which permutations then share. How many there are must not
# enter: it would change how sums round.
_LARGEST_GRAM = 1024
_BLOCK_ENTRIES = 1 << 22  # numbers that a block brings into memory: 32 MiB, more than a cache and less than anybody's memory


class Step(NamedTuple):
    """What one epoch of Algorithm 1 does with the margin of a row."""

    batch_size: int
    size: float
    alpha: float
    derivative: int  #: of the loss, the address of a C function
    parameter: float


class DualStep(NamedTuple):
    """What one pass of SDCA does with the margin of a row: x = -pull A'(w dual)."""

    loss: Loss
    pull: float
    intercept_pull: float


class DualState(NamedTuple):
    """What SDCA keeps for each row."""

    dual: Vector
    gains: Vector  #: by how much the last visit raised the dual objective, but for a factor that is the same for all

    def of(self, rows: Any) -> "DualState":
        return DualState(self.dual[rows], self.gains[rows])


class Arranged(Protocol):
    """Rows scale_i a_i in a visiting order. Vectors have one entry a row, in a layout that is the body's own choice."""

    @property
    def visit(self) -> Integers:
        """The layout's row at each position of the order."""

    def ordered(self, v: Vector, out: Vector) -> None: ...

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        """Products with the Gram matrix of each batch members[starts[g]:starts[g + 1]]; v, out are aligned with members."""


class Weighted(ABC):
    """B, the rows scale_i a_i, ready to be put into any order, by several threads at once."""

    rows: "Rows"
    scale: Vector

    @abstractmethod
    def arrange(self, order: Integers, batch_size: int) -> Arranged: ...

    def transposed(self, u: Vector) -> Vector:
        """B'u."""
        return self.rows.transposed(self.scale * u)

    def margins(self, x: Vector) -> Vector:
        """B x."""
        product: Vector = self.scale * self.rows.margins(x)
        return product

    def factored(self, u: Vector) -> "Factored":
        """B with this vector beside it, which becomes its working space."""
        return Factored(self, u)

    @property
    def squared(self) -> Any:
        """B B', as a function that multiplies by it where it is known as a matrix; None elsewhere."""
        return None


class Factored:
    """B, with a vector u that has a number for each row: what the recurrence of B B' needs of rows."""

    def __init__(self, weighted: Weighted, u: Vector) -> None:
        self._weighted, self.u = weighted, u

    def image(self) -> Vector:
        """B'u."""
        return self._weighted.transposed(self.u)

    def step(self, x: Vector, factor: float) -> tuple[float, Vector]:
        """u <- B x - factor u, in one pass over the rows; then |u|^2 and B'u."""
        self.u *= factor
        product = self._weighted.rows.gram_step(self._weighted.scale, x, self.u)
        return dot(self.u, self.u), product

    def along(self, *several: tuple[Vector, float]) -> list[Vector]:
        """B x - factor u, for each x and factor."""
        return [self._weighted.margins(x) - factor * self.u if factor else self._weighted.margins(x) for x, factor in several]


class Rows(ABC):
    """The rows of A, wherever they are. Where `rows` or `visit` lists rows, None stands for all of them as they lie."""

    intercept: bool = False  #: whether every row has one more entry, a one
    place: str = "memory"  #: where the rows are worked with
    in_blocks: bool = False  #: whether many rows at once are worked with far faster than one row after the other
    elsewhere: bool = False  #: whether rows are worked with by others, which wait while one core goes through vectors
    rough: bool = False  #: whether Hessians are formed faster in single precision
    one_by_one: bool = True  #: whether a pass that visits rows one after the other costs about what any pass over them does
    at_hand: bool = False  #: whether rows need not be read again, from a disk say, to be gone over again
    device: Any = None  #: of PyTorch's, which multiplies the rows; such rows have `with_tensors` and `up`, see `torch`
    bounds: Integers | None = None  #: where blocks of rows begin, n last; None where rows far apart are as near as neighbours

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """n and d, without the intercept."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """Numbers that are stored: what a pass over the data costs."""

    @abstractmethod
    def take(self, rows: Integers) -> "MemoryRows":
        """These rows, in this order, in memory; `in_memory` makes them of a matrix. An intercept is not this method's business."""

    # --- what follows from that

    @property
    def n(self) -> int:
        return self.shape[0]

    @property
    def d(self) -> int:
        return self.shape[1]

    @property
    def dimension(self) -> int:
        """Length of x: the d coefficients, then the intercept if there is one."""
        return self.d + self.intercept

    @property
    def nonzeros(self) -> int:
        """Entries that are not zero."""
        return sum(block.nonzeros for _, block in self._blocks())

    def __str__(self) -> str:
        return f"{self.n} x {self.d}, {type(self).__name__}"

    def ready(self) -> "Rows":
        """The same rows as algorithms are served best: a storage with room for them in memory may answer with a copy there."""
        return self

    def with_intercept(self, intercept: bool) -> Self:
        """The same rows, with or without the entry that is not stored."""
        if intercept == self.intercept:
            return self
        other = copy.copy(self)
        other.intercept = intercept
        return other

    def subset(self, rows: Integers) -> "Rows":
        """These rows, in this order, in the same kind of storage where it can; else in memory."""
        return self._part(rows)

    def replicas(self) -> list["Rows"]:
        """The same rows on every device that is to work on them at once: these alone, where there is one."""
        return [self]

    def _blocks(self, rows: Integers | None = None, multiple: int = 1) -> Iterator[tuple[Any, "MemoryRows"]]:
        """Rows in memory, so many at a time, and their places in `rows`; how many is a multiple of `multiple`."""
        visit = np.arange(self.n) if rows is None else rows
        each = _BLOCK_ENTRIES * self.n // max(self.entries, 1)
        size = max(each // multiple, 1) * multiple
        for start in range(0, visit.size, size):
            yield slice(start, start + size), self._part(visit[start : start + size])

    def _part(self, rows: Integers) -> "MemoryRows":
        return self.take(rows).with_intercept(self.intercept)

    def reader(self, start: int, stop: int) -> "Callable[[], MemoryRows]":
        """A function that another process can be sent, and that makes these rows there: they travel with it. A storage that all
        processes can read overrides this by one that reads.
        """
        return self.take(np.arange(start, stop)).reader(0, stop - start)

    def on_dask(self) -> "DaskRows":
        """The same rows on the workers of Dask's active client: each holds some of them, and products are computed there."""
        try:
            from reshuffle.rows.dask import place
        except ImportError:
            raise ImportError("on_dask() needs Dask: pip install 'reshuffle[dask]'") from None
        return place(self)

    def update_hash(self, digest: Any) -> None:
        """Feed the rows, as they are stored, into a hash."""
        for _, block in self._blocks():
            block.update_hash(digest)

    def squared_norms(self) -> Vector:
        """|a_i|^2 of every row."""
        return np.concatenate([block.squared_norms() for _, block in self._blocks()])

    def squared_column_norms(self) -> Vector:
        """The sum of the squares of every feature."""
        return self.curved_squares(np.ones(self.n))[: self.d]

    def column_ranges(self) -> tuple[Vector, Vector]:
        """The smallest and the largest entry of every feature."""
        low, high = np.full(self.d, np.inf), np.full(self.d, -np.inf)
        for _, block in self._blocks():
            for ends, extreme, end in zip((low, high), (np.minimum, np.maximum), block.column_ranges(), strict=True):
                extreme(ends, end, out=ends)
        return low, high

    def scale_columns(self, factors: Vector) -> "Rows":
        """Every feature multiplied by its factor, in memory."""
        return self._part(np.arange(self.n)).scale_columns(factors)

    def column_moments(self) -> tuple[Vector, Vector]:
        """The mean and the standard deviation of every feature, however large its numbers are, and exact where it is constant."""
        low, high = self.column_ranges()
        about = self.with_intercept(False).transposed(np.full(self.n, 1.0 / self.n))  # nearly the mean: rounding adds up
        about = np.where(low == high, low, about)
        half = np.maximum(0.5 * high - 0.5 * about, 0.5 * about - 0.5 * low)  # of the largest distance, which may overflow
        half[half == 0.0] = 1.0
        off, square = self._sums_about(about, half) / self.n
        return about + half * (2.0 * off), half * (2.0 * np.sqrt(np.maximum(square - off**2, 0.0)))

    def _sums_about(self, centre: Vector, half: Vector) -> Vector:
        """The sums of (a_ij - centre_j) / (2 half_j) and of its square, of every feature."""
        return sum((block.sums_about(centre, half) for _, block in self._blocks()), np.zeros((2, self.d)))

    def row_lengths(self) -> Vector:
        """|a_i| of every row without an intercept, however large its numbers are."""
        return np.concatenate([block.row_lengths() for _, block in self._blocks()])

    def standardised(self, centre: Vector | None, size: Vector) -> "Rows":
        """(a_ij - centre_j) / size_j, in memory: in double precision if the data is, else in single. Sparse rows stay sparse."""
        return self._part(np.arange(self.n)).standardised(centre, size)

    def unit_rows(self) -> "Rows":
        """Every row divided by its length, in memory and as precise; one of zeros stays."""
        return self._part(np.arange(self.n)).unit_rows()

    def csr(self) -> Any:
        """SciPy's CSR matrix of the rows in float64, the intercept a column, for libraries that want one."""
        return self._part(np.arange(self.n)).csr()

    def factored(self) -> tuple[Any, Any]:
        """Sparse C and E such that A x = C z for every z that begins with x and has E z = 0, for linear programs."""
        A = self.csr()
        return A, A[:0]

    def gram(self) -> Vector:
        """A A'."""
        X = self.csr()
        return (X @ X.T).toarray()  # type: ignore[no-any-return]

    def margins(self, x: Vector, rows: Integers | None = None) -> Vector:
        """A x, of all rows or of these."""
        return np.concatenate([block.margins(x) for _, block in self._blocks(rows)])

    def transposed(self, u: Vector, rows: Integers | None = None) -> Vector:
        """A'u, over all rows or over these."""
        return sum((block.transposed(u[place]) for place, block in self._blocks(rows)), np.zeros(self.dimension))

    def curved_product(self, curvatures: Vector, x: Vector, rows: Integers | None = None) -> tuple[Vector, Vector]:
        """A x, of the rows that bend, and A' diag(curvatures) A x, over all rows or over these."""
        parts = [block.curved_product(curvatures[place], x) for place, block in self._blocks(rows)]
        return np.concatenate([along for along, _ in parts]), sum((out for _, out in parts), np.zeros(self.dimension))

    def gram_step(self, scale: Vector, x: Vector, u: Vector) -> Vector:
        """Leaves p = B x - u in u, and returns B'p, where B has the rows scale_i a_i: both in one pass over them."""
        return sum((block.gram_step(scale[place], x, u[place]) for place, block in self._blocks()), np.zeros(self.dimension))

    def curved_squares(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        """The diagonal of A' diag(curvatures) A, over all rows or over these."""
        return sum((block.curved_squares(curvatures[place]) for place, block in self._blocks(rows)), np.zeros(self.dimension))

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        """A' diag(curvatures) A, over all rows or over these; what stands above the diagonal may be anything."""
        parts = (block.hessian(curvatures[place]) for place, block in self._blocks(rows))
        return sum(parts, np.zeros((self.dimension, self.dimension)))

    def rough_hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        """`hessian` for a preconditioner, in single precision where `rough` says that it is faster so."""
        parts = (block.rough_hessian(curvatures[place]) for place, block in self._blocks(rows))
        return sum(parts, np.zeros((self.dimension, self.dimension)))

    def factorised(
        self, H: Vector, divisor: float, ridge: Vector, least: float = 0.0, blur: float = 0.0
    ) -> Callable[[Vector], Vector] | None:
        """The inverse of H / divisor + diag(ridge) as a function, for an H of these rows, its diagonal raised by `blur` of itself;
        None where there is no Cholesky factor, or where a pivot is a smaller share than `least` of the entry on the diagonal: that
        many of its digits were lost.
        """
        H = H / divisor
        H.reshape(-1)[:: H.shape[0] + 1] += ridge + (blur * H.diagonal() if blur > 0.0 else 0.0)
        factor, failed = lapack.dpotrf(H.T, lower=0, clean=0)
        if failed:
            return None
        pivots, needed = np.square(factor.diagonal()), least * H.diagonal() if least > 0.0 else 0.0
        if not ((needed <= pivots) & (pivots < math.inf)).all():
            return None
        # by two triangles: LAPACK's own routine for that is made for many right sides (`benchmarks/kernels.py`)
        return lambda r: blas.dtrsv(factor, blas.dtrsv(factor, r, trans=1), overwrite_x=1)

    def hessian_cost(self) -> float:
        """Of `rough_hessian` over all rows, in operations of `curved_product`, which makes two, for each entry. BLAS is twice as
        fast in single precision; what it takes besides is as long as 9 of them.
        """
        return 9.0 + self.dimension / (2.0 * self.blas_speed())

    def blas_speed(self) -> float:
        """Multiplications of matrices that BLAS makes in the time of one such operation: about 5 with dense rows, twice as many
        where they do not fit the cache, and 16 with sparse ones, which are read here and there (`benchmarks/kernels.py`, "prices").
        """
        return 5.0

    def sgd_epoch(self, visit: Integers | None, labels: Vector, weights: Vector, step: Step, x: Vector, dual: Vector) -> None:
        """An epoch of Algorithm 1 in this order: changes x, and leaves in `dual` the n dual values that it saw."""
        for place, block in self._blocks(visit, step.batch_size):
            here, seen = place if visit is None else visit[place], np.empty(block.n)
            block.sgd_epoch(None, labels[here], weights[here], step, x, seen)
            dual[here] = seen

    def balanced_epoch(self, visit: Positions, labels: Vector, weights: Vector, step: Step, x: Vector, dual: Vector) -> Positions:
        """`sgd_epoch`, which also makes the order of the next epoch: see `kernels.sgd_epoch`."""
        walk, following = np.zeros(self.dimension), np.empty_like(visit)
        for place, block in self._blocks(visit, math.lcm(2, step.batch_size)):  # no pair is torn apart
            here, seen = visit[place], np.empty(block.n)
            own = here[block.balanced_pass(labels[here], weights[here], step, x, seen, walk)]
            dual[here] = seen
            first, last = place.start // 2, visit.size - place.start // 2  # blocks fill the next order from both ends
            front = (block.n + 1) // 2
            following[first : first + front] = own[:front]
            following[last - own[front:].size : last] = own[front:]
        return following

    def sdca_epoch(
        self, visit: Integers, labels: Vector, weights: Vector, squares: Vector, step: DualStep, x: Vector, state: DualState
    ) -> None:
        """A pass of stochastic dual coordinate ascent over these rows: changes x and the state. `squares` is |a_i|^2, without an
        intercept.
        """
        for place, block in self._blocks(visit):
            here = visit[place]
            own = state.of(here)
            block.sdca_epoch(np.arange(block.n), labels[here], weights[here], squares[here], step, x, own)
            state.dual[here], state.gains[here] = own

    def in_order(self, order: Integers) -> "Rows | None":
        """A copy of the rows that lies in this order, for epochs that all visit it so; None where that gains nothing."""
        return None

    def weighted(self, scale: Vector, tol: float = 0.0, *, plain: bool = True) -> Weighted:
        """The rows scale_i a_i, for products in one order after another. Eigenvalues to a relative `tol` will rest on them: where
        that is enough, a storage that is faster in less than float64 may use it. Where entries are not `plain`, products of rows
        that are yet to be scaled could overflow or vanish.
        """
        few = plain and self.n**2 <= self.entries and self.n <= _LARGEST_GRAM
        return WeightedGram(self, scale) if few else self._weighted(scale, tol if plain else 0.0)

    def _weighted(self, scale: Vector, tol: float) -> Weighted:
        return WeightedBlocks(self, scale)

    def prefix_norms(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> Vector:
        """|P_p|^2 after each position p of the order, where P_p sums u_i a_i + c over the rows up to there; `along_c` holds a_i'c
        of each row, `c_square` is |c|^2, and c itself is not asked for.
        """
        S, sums = np.zeros(self.dimension), np.array([0.0, 0.0, 0.0, 0.0, c_square])
        out = np.empty(order.size)
        for place, block in self._blocks(order):
            out[place] = block.prefix_pass(u[order[place]], along_c[order[place]], S, sums)
        return out

    def balanced_signs(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> NDArray[np.bool_]:
        """For each position of the order, whether the balanced walk over u_i a_i + c adds there or takes away: see
        `kernels.sign_pass`. c is given as in `prefix_norms`.
        """
        S, sums = np.zeros(self.dimension), np.array([0.0, 0.0, 0.0, c_square])
        out = np.empty(order.size, dtype=np.bool_)
        for place, block in self._blocks(order):
            out[place] = block.sign_pass(u[order[place]], along_c[order[place]], S, sums)
        return out


def batch_starts(n: int, batch_size: int) -> NDArray[np.int64]:
    """Where each batch begins, then n. The last batch may be short."""
    return np.append(np.arange(0, n, batch_size), n)


class WeightedGram(Weighted):
    """Few long rows: one Gram matrix, formed once; an order is a reweighting of its entries."""

    def __init__(self, rows: Rows, scale: Vector) -> None:
        self.rows, self.scale = rows, scale
        self.gram = scale[:, None] * rows.gram() * scale

    @property
    def squared(self) -> Any:
        return partial(np.dot, self.gram)

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedGram":
        return ArrangedGram(self.gram, order, batch_size)


class ArrangedGram:
    def __init__(self, gram: Vector, visit: Integers, batch_size: int) -> None:
        self.visit, self._gram = visit, gram
        t = np.empty(visit.size)
        t[visit] = np.arange(visit.size) // batch_size + 1.0
        self._weighted = np.minimum(t, t[:, None]) * gram

    def ordered(self, v: Vector, out: Vector) -> None:
        np.dot(self._weighted, v, out=out)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        for low, high in pairwise(starts):
            batch = members[low:high]
            out[low:high] = self._gram[np.ix_(batch, batch)] @ v[low:high]


@dataclass(frozen=True)
class WeightedBlocks(Weighted):
    """Rows of any storage, brought into memory block after block."""

    rows: Rows
    scale: Vector

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedBlocks":
        return ArrangedBlocks(self.rows, self.scale, order, batch_size)


@dataclass(frozen=True)
class ArrangedBlocks:
    """A product is a sum over blocks, then a scan over them."""

    rows: Rows
    scale: Vector
    visit: Integers
    batch_size: int

    def ordered(self, v: Vector, out: Vector) -> None:
        state = np.vstack([np.zeros(self.rows.dimension), self.rows.transposed(self.scale * v)])
        for place, block in self.rows._blocks(self.visit):
            here = self.visit[place]
            out[here] = block.ordered_pass(self.scale[here], v[here], place.start, self.batch_size, state)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        for low, high in pairwise(starts):
            block, scale = self.rows._part(members[low:high]), self.scale[members[low:high]]
            out[low:high] = scale * block.margins(block.transposed(scale * v[low:high]))
