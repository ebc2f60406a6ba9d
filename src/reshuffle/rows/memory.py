"""Rows in memory: CSR with 32 or 64 bit indices, and C-ordered dense matrices of any real type, all read where they lie.

`in_memory` is the door: what is not in one of these layouts is converted once, what is not finite is refused with its place, and so
are sparse arrays that do not fit together (`structure`).
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from os import PathLike
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.losses.base import compiled
from reshuffle.rows import kernels
from reshuffle.rows.base import DualState, DualStep, Integers, Positions, Rows, Step, Weighted
from reshuffle.rows.shared import Loan, lend
from reshuffle.rows.structure import as_csr
from reshuffle.vectors import Vector

DENSE_TYPES = (np.uint8, np.int8, np.uint16, np.int16, np.float16, np.float32, np.float64)

# Sparse data is copied into visiting order where the copy is small, or where two threads that make one keep all that is
# held within three times the CSR arrays. The number of threads must not enter: the layout decides how sums round.
_SMALL_COPY, _LARGEST_COPY = 8 << 20, 1 << 30
_BYTES_A_ROW_AND_THREAD = 44
_BYTES_A_ROW_SHARED = 48

_HESSIAN_CHUNK = 2048  # dense rows that are float64 at a time: BLAS is as fast as with all of them
_PICKED = 64  # columns of a Hessian that take as long as to pick a row out of others
_GRAM_CHUNK = _CHUNK = 1 << 20  # numbers likewise
SPARSE_BLAS_SPEED = 16.0  #: see `Rows.blas_speed`


def in_memory(X: Any, name: str = "X") -> "MemoryRows":
    """Rows of a sparse or dense matrix. `name` is what the user calls it."""
    rows = unchecked(X, name)
    if rows.n == 0 or rows.d == 0:
        raise ValueError(f"{name} has shape {rows.shape}; it needs at least one row and one column")
    rows.refuse_non_finite(name)
    return rows


def unchecked(X: Any, name: str = "X") -> "MemoryRows":
    """The same of a matrix whose numbers are known to be finite."""
    return SparseRows(as_csr(X, name)) if sp.issparse(X) else DenseRows(_as_dense(X, name))


def _as_dense(X: Any, name: str) -> Any:
    if isinstance(X, str | PathLike):
        raise ValueError(f"{name}={str(X)!r} is a path, not a matrix; read it first: rs.load({str(X)!r}).X")
    try:
        X = np.asarray(X)
    except ValueError as error:  # of lists that differ in length
        raise ValueError(f"{name} is no matrix: {error}; use rows of the same length") from None
    if X.ndim != 2:
        raise ValueError(f"{name} has {X.ndim} dimensions; use an n x d matrix (X.reshape(-1, 1) for a single feature)")
    if X.dtype == np.bool_:
        X = X.view(np.uint8)
    if X.dtype.kind not in "iuf":
        raise ValueError(f"{name} has dtype {X.dtype}; use real numbers")
    return np.ascontiguousarray(X, dtype=X.dtype if X.dtype in DENSE_TYPES else np.float64)


class MemoryRows(Rows):
    """What sparse and dense rows share: every loop over them."""

    matrix: Any  #: CSR or dense, as it lies
    A: Any  #: the same as `kernels` take it
    at_hand = True
    _behind = 0  # numbers that kernels hold behind the d entries of a vector

    @cached_property
    def shape(self) -> tuple[int, int]:  # asked for in every call
        n, d = self.matrix.shape
        return int(n), int(d)

    @cached_property
    def _everything(self) -> NDArray[np.int64]:
        return np.arange(self.n)

    @property
    def _kind(self) -> Callable[[Any], Self]:
        """Makes rows like these of another matrix, as it could in another process."""
        return type(self)

    def _like(self, matrix: Any) -> Self:
        return self._kind(matrix).with_intercept(self.intercept)

    def take(self, rows: Integers) -> Self:
        return self._kind(self.matrix[rows])

    @property
    def stored(self) -> tuple[Any, ...]:
        """The arrays that the matrix is made of."""
        return (self.matrix,)

    @property
    def _narrow(self) -> tuple[Any, ...]:
        """The types in which these travel, the smallest that hold them exactly where that is worth finding out."""
        return (self.matrix.dtype,)

    def packed(self, rows: Positions) -> tuple[Any, ...]:
        """What is `stored` of these rows alone, in types that travel well."""
        return (self.matrix[rows],)

    def lent(self) -> Loan | None:
        """What is `stored`, in types that travel well, for all processes of this host."""
        return lend(self, self.stored, self._narrow)

    def joined(self, pieces: list[tuple[Any, Positions]], places: list[Positions]) -> Self:
        """Rows like these, each at its place. A piece is other rows, or what others packed or lent, with the numbers of those that
        are wanted of it. Each is let go as soon as it has been laid out.
        """
        X = np.empty((sum(one.size for one in places), self.d), dtype=self.matrix.dtype)
        for here in reversed(places):
            source, rows = pieces.pop()
            X[here] = _stored(source)[0][rows]
        return self._kind(X)

    def reader(self, start: int, stop: int) -> Callable[[], Self]:
        return partial(self._kind, self.matrix[start:stop])

    def _held(self, x: Vector) -> Vector:
        """x, or several of them, as kernels hold it: itself, where they hold nothing else."""
        return x

    def _seen(self, held: Vector) -> Vector:
        """The vector that kernels hold so."""
        return held

    def _left(self, held: Vector, x: Vector) -> None:
        """Leave in x what a kernel made of it."""
        if held is not x:
            x[:] = self._seen(held)

    def _room(self) -> Vector:
        return np.empty(self.dimension + self._behind)

    def refuse_non_finite(self, name: str, first: int = 0) -> None:
        """NaN and infinity, with the row where the first of them stands; these are the rows from number `first` on."""
        values, block = self._values(), 1 << 20
        for start in range(0, values.size if values.dtype.kind == "f" else 0, block):
            finite = np.isfinite(values[start : start + block])
            if not finite.all():
                place = start + int(np.argmin(finite))
                where = f"row {first + self._row_of(place)} (counted from 0)"
                raise ValueError(f"{name} holds {values[place]} in {where}; remove or fill NaN and infinity first")

    def sums_about(self, centre: Vector, half: Vector) -> Vector:
        """The sums of (a_ij - centre_j) / (2 half_j) and of its square, of every feature."""
        raise NotImplementedError

    def stored_in_column(self) -> Integers:
        """How many rows have a number stored for each feature."""
        return np.full(self.d, self.n)

    def _values(self) -> Any:
        """Every stored number, one after the other."""
        raise NotImplementedError

    def _row_of(self, place: int) -> int:
        """The row of the number at this place."""
        raise NotImplementedError

    def widened(self, d: int) -> Any:
        """The matrix, with zeros for features that svmlight text leaves out where they do not occur; tables have all columns."""
        return self.matrix

    @cached_property
    def _squares(self) -> Vector:
        out = np.empty(self.n)
        kernels.squared_norms(self.A, out)
        return out

    def squared_norms(self) -> Vector:
        return self._squares + float(self.intercept)

    def margins(self, x: Vector, rows: Integers | None = None) -> Vector:
        out = np.empty(self.n if rows is None else rows.size)
        kernels.margins(self.A, _listed(rows), self._held(x), self.intercept, out)
        return out

    def transposed(self, u: Vector, rows: Integers | None = None) -> Vector:
        out = self._room()
        kernels.transposed(self.A, _listed(rows), u, self.intercept, out)
        return self._seen(out)

    def curved_product(self, curvatures: Vector, x: Vector, rows: Integers | None = None) -> tuple[Vector, Vector]:
        along, out = np.empty(curvatures.size), self._room()
        kernels.curved_product(self.A, _listed(rows), curvatures, self._held(x), self.intercept, along, out)
        return along, self._seen(out)

    def gram_step(self, scale: Vector, x: Vector, u: Vector) -> Vector:
        out = self._room()
        kernels.gram_step(self.A, scale, self._held(x), self.intercept, u, out)
        return self._seen(out)

    def curved_squares(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        out = np.empty(self.dimension)
        kernels.curved_squares(self.A, _listed(rows), curvatures, self.intercept, out)
        return out

    def column_ranges(self) -> tuple[Vector, Vector]:
        stored, low, high = np.zeros(self.d, dtype=np.int64), np.full(self.d, np.inf), np.full(self.d, -np.inf)
        kernels.column_ranges(self.A[:3], self.n, stored, low, high)
        full = stored == self.n
        return np.where(full, low, low.clip(max=0.0)), np.where(full, high, high.clip(min=0.0))

    def sgd_epoch(self, visit: Integers | None, labels: Vector, weights: Vector, step: Step, x: Vector, dual: Vector) -> None:
        order, scattered = (self._everything, False) if visit is None else (visit, True)
        held = self._held(x)
        kernels.sgd_epoch(self.A, labels, weights, order, scattered, *step, held, self.intercept, dual, None, None)
        self._left(held, x)

    def balanced_epoch(self, visit: Positions, labels: Vector, weights: Vector, step: Step, x: Vector, dual: Vector) -> Positions:
        following, held, walk = np.empty_like(visit), self._held(x), np.zeros_like(self._room())
        kernels.sgd_epoch(self.A, labels, weights, visit, True, *step, held, self.intercept, dual, walk, following)
        self._left(held, x)
        return following

    def balanced_pass(self, labels: Vector, weights: Vector, step: Step, x: Vector, dual: Vector, walk: Vector) -> Positions:
        """`balanced_epoch` over these rows as they lie, going on from x and the walk."""
        following, held, held_walk = np.empty_like(self._everything), self._held(x), self._held(walk)
        how = (self._everything, False, *step)
        kernels.sgd_epoch(self.A, labels, weights, *how, held, self.intercept, dual, held_walk, following)
        self._left(held, x)
        self._left(held_walk, walk)
        return following

    def sdca_epoch(
        self, visit: Integers, labels: Vector, weights: Vector, squares: Vector, step: DualStep, x: Vector, state: DualState
    ) -> None:
        held, loss = self._held(x), (compiled(step.loss, "prox"), step.loss.parameter)
        pulls = step.pull, step.intercept_pull
        kernels.sdca_epoch(self.A, labels, weights, squares, visit, *loss, *pulls, held, *state)
        self._left(held, x)

    def prefix_norms(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> Vector:
        S, sums, out = np.zeros(self.d + self._behind), np.array([0.0, 0.0, 0.0, 0.0, c_square]), np.empty(order.size)
        kernels.prefix_pass(self.A, float(self.intercept), order, True, u, along_c, S, sums, out)
        return out

    def prefix_pass(self, u: Vector, along_c: Vector, S: Vector, sums: Vector) -> Vector:
        """`prefix_norms` over these rows as they lie, going on from S and sums."""
        out, held = np.empty(self.n), self._held(S)
        kernels.prefix_pass(self.A, float(self.intercept), self._everything, False, u, along_c, held, sums, out)
        self._left(held, S)
        return out

    def balanced_signs(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> NDArray[np.bool_]:
        S, sums = np.zeros(self.d + self._behind), np.array([0.0, 0.0, 0.0, c_square])
        out = np.empty(order.size, dtype=np.bool_)
        kernels.sign_pass(self.A, float(self.intercept), order, True, u, along_c, S, sums, out)
        return out

    def sign_pass(self, u: Vector, along_c: Vector, S: Vector, sums: Vector) -> NDArray[np.bool_]:
        """`balanced_signs` over these rows as they lie, going on from S and sums."""
        out, held = np.empty(self.n, dtype=np.bool_), self._held(S)
        kernels.sign_pass(self.A, float(self.intercept), self._everything, False, u, along_c, held, sums, out)
        self._left(held, S)
        return out

    def ordered_pass(self, scale: Vector, v: Vector, first: int, batch_size: int, state: Vector) -> Vector:
        """The part of `Arranged.ordered` that belongs to these rows as they lie, from position `first` of the order on. `state`
        holds U and R of those before and after, and goes on.
        """
        own, ones = self.ordered_state(state)
        out = self.ordered_part(scale, v, first, batch_size, own, ones)
        state[:, : self.d] = self._seen(self._layout(own))
        state[:, self.d :] = ones[:, None]
        return out

    def ordered_state(self, state: Vector) -> tuple[Vector, Vector]:
        """U and R, and their parts that belong to the intercept, as `ordered_part` takes them."""
        own = self._layout(self._held(state[:, : self.d]))
        return own, np.array(state[:, -1] if self.intercept else [0.0, 0.0])

    def ordered_part(self, scale: Vector, v: Vector, first: int, batch_size: int, own: Vector, ones: Vector) -> Vector:
        """`ordered_pass` on a state that stays in the layout of these rows, for those of many blocks that share it."""
        out, where = np.empty(self.n), (self._everything, False, first, batch_size)
        kernels.ordered_pass(self.A, scale, float(self.intercept), *where, v, own, ones, out)
        return out

    def _layout(self, state: Vector) -> Vector:
        """U and R as `kernels` keep them for these rows, and back."""
        raise NotImplementedError

    def _weighted(self, scale: Vector, tol: float) -> "WeightedMemory":
        return WeightedMemory(self, scale)


class SparseRows(MemoryRows):
    """The rows of a CSR matrix without repeated entries. Indices are seen as unsigned, which spares kernels a check."""

    def __init__(self, X: Any) -> None:
        self.matrix = X
        self.A = self.stored

    @cached_property
    def stored(self) -> tuple[Any, ...]:
        X = self.matrix
        return X.indptr, X.indices.view(f"u{X.indices.itemsize}"), X.data

    def _visited(self, stored: Any, order: Integers) -> Any:
        """A of the rows in this order, which have been copied so into `stored`."""
        return stored

    def __str__(self) -> str:
        return f"{self.n} x {self.d}, sparse, {self.entries} entries"

    @property
    def entries(self) -> int:
        return int(self.matrix.nnz)

    @property
    def nonzeros(self) -> int:
        return int(self.matrix.nnz)

    def _values(self) -> Any:
        return self.matrix.data

    def _row_of(self, place: int) -> int:
        return int(np.searchsorted(self.matrix.indptr, place, side="right")) - 1

    def update_hash(self, digest: Any) -> None:
        for array in (self.matrix.indptr, self.matrix.indices, self.matrix.data):
            hash_array(digest, array)

    def scale_columns(self, factors: Vector) -> "SparseRows":
        return SparseRows(sp.csr_array(self.matrix @ sp.diags_array(factors))).with_intercept(self.intercept)

    def sums_about(self, centre: Vector, half: Vector) -> Vector:
        indices, values = self.matrix.indices, self.matrix.data
        stored = (0.5 * values.astype(np.float64) - 0.5 * centre[indices]) / half[indices]
        others, zero = self.n - self.stored_in_column(), -0.5 * centre / half
        return np.array([np.bincount(indices, stored**k, self.d) + others * zero**k for k in (1, 2)])

    @property
    def _row_of_each(self) -> Integers:
        return np.repeat(self._everything, np.diff(self.matrix.indptr))

    def row_lengths(self) -> Vector:
        rows, values = self._row_of_each, np.abs(self.matrix.data.astype(np.float64))
        largest = np.zeros(self.n)
        np.maximum.at(largest, rows, values)
        unit = np.where(largest > 0.0, largest, 1.0)
        return largest * np.sqrt(np.bincount(rows, np.square(values / unit[rows]), self.n))

    def stored_in_column(self) -> Integers:
        return np.bincount(self.matrix.indices, minlength=self.d)

    def standardised(self, centre: Vector | None, size: Vector, full: NDArray[np.bool_] | None = None) -> "SparseRows":
        """A column that is stored in full is centred where it lies. Of any other the mean is at most sqrt(n) standard deviations,
        so that products with a centre which is taken away later lose nothing that matters to rounding. Of rows that are part of
        others, `full` says which columns are stored in full in all of those.
        """
        indices, values = self.matrix.indices, self.matrix.data
        c = np.zeros(self.d) if centre is None else centre
        own = np.where(self.stored_in_column() == self.n if full is None else full, c, 0.0)
        scaled = (0.5 * values.astype(np.float64) - 0.5 * own[indices]) / (0.5 * size[indices])
        return self._filled(scaled, np.where(own == 0.0, c, 0.0) / size)

    def unit_rows(self) -> "SparseRows":
        lengths = self.row_lengths()
        return self._filled(self.matrix.data / np.where(lengths > 0.0, lengths, 1.0)[self._row_of_each])

    def _filled(self, values: Any, centre: Vector | None = None) -> "SparseRows":
        """Rows with these numbers in the places of their own, and a centre that is taken away from each."""
        X = sp.csr_array((values.astype(self.matrix.dtype), self.matrix.indices, self.matrix.indptr), shape=self.shape)
        if centre is None or not centre.any():
            return SparseRows(X).with_intercept(self.intercept)
        from reshuffle.rows.centred import CentredRows  # which is made of these

        return CentredRows(X, centre).with_intercept(self.intercept)

    def widened(self, d: int) -> Any:
        if d <= self.d:
            return self.matrix
        X = self.matrix.copy()
        X.resize((self.n, d))
        return X

    def csr(self) -> Any:
        X = sp.csr_array(self.matrix, dtype=np.float64)
        return sp.hstack([X, sp.csr_array(np.ones((self.n, 1)))], format="csr") if self.intercept else X

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        H = np.zeros((self.dimension, self.dimension))
        kernels.sparse_hessian(self.stored, _listed(rows), curvatures, self.intercept, H)
        return H

    def rough_hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self.hessian(curvatures, rows)

    def hessian_cost(self) -> float:
        return 0.5 * self._mean_length_of_entries

    def blas_speed(self) -> float:
        return SPARSE_BLAS_SPEED

    @cached_property
    def _mean_length_of_entries(self) -> float:
        lengths = np.diff(self.matrix.indptr).astype(np.float64)
        return float(lengths @ lengths) / max(float(lengths.sum()), 1.0)

    def in_order(self, order: Integers) -> "SparseRows | None":
        return (
            None
            if self.matrix.data.nbytes > _LARGEST_COPY
            else self._like(_csr(self._copied(order, (self.stored[1].dtype, self.stored[2].dtype)), self.shape))
        )

    def _copied(self, order: Integers, kinds: tuple[Any, Any]) -> Any:
        """`stored` in this order and in these types of indices and values."""
        indptr = self.stored[0]
        entries = int(np.diff(indptr)[order].sum())
        copy = np.empty(order.size + 1, indptr.dtype), np.empty(entries, kinds[0]), np.empty(entries, kinds[1])
        kernels.gather(self.stored, order, True, *copy)
        return copy

    @cached_property
    def _narrow(self) -> tuple[Any, ...]:
        """Pixels and counts are bytes."""
        indptr, indices, values = self.stored
        index = np.uint16 if self.d <= 2**16 else np.uint32 if self.d < 2**31 else indices.dtype
        value = np.uint8 if self._fits(np.uint8) else np.float32 if self.fits_single else values.dtype
        return indptr.dtype, np.dtype(index), np.dtype(value)

    def packed(self, rows: Positions) -> tuple[Any, ...]:
        return self._copied(rows, self._narrow[1:])  # type: ignore[no-any-return]

    def joined(self, pieces: list[tuple[Any, Positions]], places: list[Positions]) -> Self:
        indptr = np.zeros(sum(one.size for one in places) + 1, dtype=np.int64)
        for (source, rows), here in zip(pieces, places, strict=True):
            starts = _stored(source)[0]
            indptr[1 + here] = starts[rows + 1] - starts[rows]
        np.cumsum(indptr, out=indptr)
        kinds = [one._narrow if isinstance(one, SparseRows) else [array.dtype for array in one] for one, _ in pieces]
        _, index, value = (np.result_type(*some) for some in zip(*kinds, strict=True))
        index, value = np.result_type(index, np.uint32), np.result_type(value, np.float32)  # SciPy has no indices of 16 bits
        stored = indptr, np.empty(indptr[-1], index), np.empty(indptr[-1], value)
        for here in reversed(places):
            source, rows = pieces.pop()
            kernels.place(_stored(source), rows, here, *stored)
        return self._kind(_csr(stored, (indptr.size - 1, self.d)))

    @cached_property
    def fits_single(self) -> bool:
        """Whether float32 holds every entry exactly."""
        return self._fits(np.float32)

    def _fits(self, kind: Any) -> bool:
        values, block = self.matrix.data, 1 << 16
        blocks = (values[start : start + block] for start in range(0, values.size, block))
        with np.errstate(over="ignore", invalid="ignore"):  # what a type cannot hold is not equal to it
            return all(np.array_equal(part.astype(kind), part) for part in blocks)

    def _layout(self, state: Vector) -> Vector:
        return np.ascontiguousarray(state.T)

    def _weighted(self, scale: Vector, tol: float) -> "WeightedMemory":
        """Copied into visiting order, in the smallest types that hold the entries exactly, unless that takes too much memory."""
        indptr, indices, values = self.stored
        single = self.fits_single
        kinds = np.dtype(np.uint16) if self.d <= 2**16 else indices.dtype, np.dtype(np.float32 if single else np.float64)
        copy = indptr.nbytes + values.size * sum(kind.itemsize for kind in kinds)
        held = 2 * (copy + self.n * _BYTES_A_ROW_AND_THREAD) + self.n * _BYTES_A_ROW_SHARED
        room = 2 * (indptr.nbytes + indices.nbytes + values.nbytes)
        if copy > (_LARGEST_COPY if held <= room else _SMALL_COPY):
            return WeightedMemory(self, scale)
        # Copies are made from a compact one where there is room for it: half the bytes to fetch, and few enough to do without
        # asking for them ahead.
        compact = single and (held + copy <= room or copy <= _SMALL_COPY)
        source = (indptr, indices.astype(kinds[0]), values.astype(kinds[1])) if compact else self.stored
        return WeightedCopies(self, scale, source, kinds, ahead=not compact)


class DenseRows(MemoryRows):
    """The rows of a dense matrix of any real type, each converted in registers as it is read."""

    rough = True

    def __init__(self, X: Any) -> None:
        self.matrix = X
        self.A = (X.view(np.uint16), kernels.HALF) if X.dtype == np.float16 else (X,)

    def __str__(self) -> str:
        return f"{self.n} x {self.d}, dense, {self.matrix.dtype}"

    @property
    def entries(self) -> int:
        return int(self.matrix.size)

    @property
    def nonzeros(self) -> int:
        return int(np.count_nonzero(self.matrix))

    def _values(self) -> Any:
        return self.matrix.reshape(-1)

    def _row_of(self, place: int) -> int:
        return place // self.d

    def update_hash(self, digest: Any) -> None:
        hash_array(digest, self.matrix)

    def scale_columns(self, factors: Vector) -> "DenseRows":
        return DenseRows(self.matrix * factors).with_intercept(self.intercept)

    def sums_about(self, centre: Vector, half: Vector) -> Vector:
        parts = ((0.5 * part - 0.5 * centre) / half for _, part in self._chunks())
        return sum((np.array([part.sum(axis=0), np.square(part).sum(axis=0)]) for part in parts), np.zeros((2, self.d)))

    def row_lengths(self) -> Vector:
        out = np.empty(self.n)
        for place, part in self._chunks():
            largest = np.abs(part).max(axis=1)
            unit = np.where(largest > 0.0, largest, 1.0)
            out[place] = largest * np.sqrt(np.square(part / unit[:, None]).sum(axis=1))
        return out

    def standardised(self, centre: Vector | None, size: Vector, full: NDArray[np.bool_] | None = None) -> "DenseRows":
        c = np.zeros(self.d) if centre is None else centre
        return self._made(lambda part, place: (0.5 * part - 0.5 * c) / (0.5 * size))

    def unit_rows(self) -> "DenseRows":
        lengths = self.row_lengths()
        lengths[lengths == 0.0] = 1.0
        return self._made(lambda part, place: part / lengths[place, None])

    def _made(self, function: Any) -> "DenseRows":
        X = np.empty(self.shape, dtype=np.float64 if self.matrix.dtype == np.float64 else np.float32)
        for place, part in self._chunks():
            X[place] = function(part, place)
        return DenseRows(X).with_intercept(self.intercept)

    def _chunks(self) -> Iterator[tuple[Any, Any]]:
        """Some rows at a time, in float64."""
        size = max(1, _CHUNK // self.d)
        for start in range(0, self.n, size):
            place = slice(start, start + size)
            yield place, self.matrix[place].astype(np.float64)

    def csr(self) -> Any:
        return SparseRows(sp.csr_array(self.matrix.astype(np.float64))).with_intercept(self.intercept).csr()

    def gram(self) -> Vector:
        total = np.full((self.n, self.n), float(self.intercept))
        block = max(1, _GRAM_CHUNK // self.n)
        for start in range(0, self.d, block):
            part = self.matrix[:, start : start + block].astype(np.float64, copy=False)
            total += part @ part.T
        return total

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._hessian(curvatures, rows, np.float64)

    def rough_hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        with np.errstate(over="ignore", invalid="ignore"):  # what single precision cannot hold, no factor is found of
            return self._hessian(curvatures, rows, np.float32)

    def _hessian(self, curvatures: Vector, rows: Integers | None, kind: Any) -> Vector:
        """Products in this type, summed over chunks in float64. Rows that do not bend are not read, where that is faster."""
        H = np.zeros((self.dimension, self.dimension))
        if np.count_nonzero(curvatures) * (self.d + _PICKED) < curvatures.size * self.d:
            bent = np.flatnonzero(curvatures)
            rows, curvatures = bent if rows is None else rows[bent], curvatures[bent]
        largest = float(curvatures.max(initial=0.0)) or 1.0  # which keeps float32 from losing those of rows that hardly bend
        for start in range(0, curvatures.size, _HESSIAN_CHUNK):
            place = slice(start, start + _HESSIAN_CHUNK)
            scale = np.sqrt(curvatures[place] / largest).astype(kind)[:, None]
            chunk = np.empty((scale.size, self.dimension), dtype=kind)
            np.multiply(self.matrix[place if rows is None else rows[place]], scale, out=chunk[:, : self.d])
            chunk[:, self.d :] = scale
            H += chunk.T @ chunk
        return largest * H

    def _layout(self, state: Vector) -> Vector:
        return np.array(state)


def _stored(source: Any) -> tuple[Any, ...]:
    """Of rows, or of what they packed or lent."""
    return source.stored if isinstance(source, MemoryRows) else source


def _listed(rows: Integers | None) -> Integers:
    return _NONE if rows is None else rows


_NONE: Integers = np.empty(0, dtype=np.int64)


def _csr(stored: Any, shape: tuple[int, int]) -> Any:
    indptr, indices, values = stored
    return sp.csr_array((values, indices.view(f"i{indices.itemsize}"), indptr), shape=shape)


def hash_array(digest: Any, array: Any) -> None:
    """The type, the shape and the bytes of an array."""
    digest.update(f"{array.dtype} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data.cast("B"))


@dataclass(frozen=True)
class WeightedMemory(Weighted):
    """The rows scale_i a_i, read where they lie."""

    rows: MemoryRows
    scale: Vector

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedMemory":
        return ArrangedMemory(self.rows, self.rows.A, self.scale, order, batch_size)


@dataclass(frozen=True)
class WeightedCopies(WeightedMemory):
    """The same of sparse rows, copied into the order in which they are visited."""

    rows: "SparseRows"
    source: Any  #: what is copied, as `kernels` take it
    kinds: tuple[Any, Any]  #: types of the copy's indices and values
    ahead: bool  #: whether to ask for rows ahead while copying
    room: threading.local = field(default_factory=threading.local)  #: a copy for each thread, used again by its next permutation

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedMemory":
        if batch_size == self.rows.n:  # one batch has no order, so a copy would gain nothing
            return super().arrange(order, batch_size)
        if not hasattr(self.room, "copy"):
            self.room.copy = np.empty_like(self.source[0]), *(np.empty(self.rows.entries, kind) for kind in self.kinds)
        kernels.gather(self.source, order, self.ahead, *self.room.copy)
        scale = self.scale.take(order)  # which, unlike [], lets threads run
        return ArrangedMemory(self.rows, self.rows._visited(self.room.copy, order), scale, self.rows._everything, batch_size)


class ArrangedMemory:
    def __init__(self, rows: MemoryRows, A: Any, scale: Vector, visit: Integers, batch_size: int) -> None:
        self.visit = visit
        self._rows, self._batch_size = (A, scale, float(rows.intercept)), batch_size
        self._scattered = visit is not rows._everything
        self._state, self._state_ones = rows._layout(np.empty((2, rows.d + rows._behind))), np.empty(2)
        self._work = np.zeros(rows.d + rows._behind)

    def ordered(self, v: Vector, out: Vector) -> None:
        kernels.ordered(*self._rows, self.visit, self._scattered, self._batch_size, v, self._state, self._state_ones, out)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        kernels.batched(*self._rows, members, starts, v, self._work, out)
