"""Rows on the workers of a Dask cluster: each partition holds some of them, as rows in memory, for good.

What goes where
    rows        on the workers, about as many partitions as they have threads. A partition is the result of a task that reads it, or
                that has it as an argument, so Dask makes it again where a worker dies: that costs time, never the result.
    n-vectors   in the client's memory. A task is sent the slice that belongs to its partition, and sends one back.
    d-vectors   to every partition, and summed on the way back, a few at a time.

A product A x, A'u or A'CA x is a task for each partition. A product of the ordered matrix (Lhat) is two, with a scan between them:
as in `ordered_pass` of rows in memory a partition needs U, what the rows before it sum to with their batch numbers, and R, what all
other rows sum to. A first pass over each partition, from nothing, leaves exactly its own share of both; sums of these shares, a few
at a time, travel between workers and not through the client.

An order is an exchange: each partition sorts its rows by their place in the order and cuts them where the partitions of the order
begin, and each of those lays what it is sent at its place. Random orders are drawn on the client: they are those of rows in memory.
Partitions of an order hold whole batches wherever there are as many batches as partitions, so that the products of batches (Ltil)
stay inside of them; larger batches are multiplied one by one.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import getitem
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from dask.system import CPU_COUNT
from distributed import Client, KilledWorker, LocalCluster
from numpy.typing import NDArray

from reshuffle.blas import one_thread
from reshuffle.rows.base import Integers, Positions, Rows
from reshuffle.rows.memory import ArrangedMemory, MemoryRows, unchecked
from reshuffle.vectors import Vector

_FEW = 16  # vectors that are summed by one task
_LARGE = 1 << 20  # bytes of a vector for all partitions from which on workers hand it to each other
_SECONDS_TO_ANSWER = 5
_SHARE = 0.3  # of a worker's memory for the orders that are multiplied at once; an exchange holds rows twice for a moment
_NO_WARNING = {"distributed.admin.large-graph-warning-threshold": "1 PB"}  # slices of vectors are meant to travel with tasks


def active_client() -> Any:
    """Dask's client that is active."""
    try:
        return Client.current()
    except ValueError:
        raise ValueError(
            "no client of Dask's is active; start one around this: with dask.distributed.Client('tcp://scheduler:8786'): ..., "
            "or Client() for workers on this machine"
        ) from None


@contextmanager
def cluster(address: str) -> Iterator[Any]:
    """A client of the scheduler at this address or, with "local", of worker processes on the cores of this machine."""
    if address == "local":
        options = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
        try:
            workers = LocalCluster(n_workers=CPU_COUNT, **options)
        except RuntimeError as error:
            raise OSError(
                f"workers of Dask could not be started on this machine ({error}); where one is killed as it begins, memory is "
                "mostly short: close other programs, or leave out the cluster"
            ) from None
        with workers, Client(workers) as client:
            yield client
        return
    try:
        client = Client(address, timeout=_SECONDS_TO_ANSWER)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"no scheduler of Dask's answers at {address!r} within {_SECONDS_TO_ANSWER} s ({type(error).__name__}); start one with "
            "`dask scheduler`, and workers with `dask worker`, or use 'local' for the cores of this machine"
        ) from None
    with client:
        yield client


def place(rows: Rows) -> "DaskRows":
    """Rows of any storage on the workers of the active client."""
    client = active_client()
    count = min(sum(client.nthreads().values()), rows.n)
    if count == 0:
        raise ValueError("the cluster has no worker yet; start some with `dask worker`, and wait: client.wait_for_workers(1)")
    bounds = np.arange(count + 1) * rows.n // count
    # Tasks are free to run anywhere: Dask leaves them where their rows are, and one that is tied to a worker waits for ever if that
    # dies together with all others.
    with dask.config.set(_NO_WARNING):
        parts = client.map(_read, [rows.reader(int(low), int(high)) for low, high in pairwise(bounds)], pure=False)
    return DaskRows(client, parts, bounds, rows.d).with_intercept(rows.intercept)


def of_array(X: Any, name: str = "X") -> "DaskRows":
    """The rows of a Dask array, of which every block holds whole rows, sparse or dense."""
    client = active_client()
    if X.ndim != 2:
        raise ValueError(f"{name} has {X.ndim} dimensions; use an n x d array")
    blocks = client.compute([*X.rechunk({1: -1}).to_delayed().ravel()])
    parts = client.map(_rows_of, blocks, [name] * len(blocks), pure=False)
    shapes = np.array(_gathered(client, client.map(_shape, parts, pure=False)))
    full = np.flatnonzero(shapes[:, 0])
    if not full.size or not shapes[0, 1]:
        raise ValueError(f"{name} has shape {X.shape}; it needs at least one row and one column")
    rows = DaskRows(client, [parts[k] for k in full], np.append(0, np.cumsum(shapes[full, 0])), int(shapes[0, 1]))
    rows._asked("refuse_non_finite", name, rows.edges[:-1].tolist())
    return rows


class DaskRows(Rows):
    """Rows in partitions: number k holds those from edges[k] to edges[k + 1]."""

    one_by_one = False  # a visit would be a message

    def __init__(self, client: Any, parts: list[Any], bounds: NDArray[np.int64], d: int) -> None:
        self.client, self.parts, self.edges, self._width = client, parts, bounds, d
        self._last: tuple[Any, Any] = (None, None)

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.edges[-1]), self._width

    def __str__(self) -> str:
        return f"{self.n} x {self.d}, on Dask in {len(self.parts)} partitions, {self.entries} entries"

    @cached_property
    def _facts(self) -> Vector:
        """Entries, those that are not zero, and bytes of each partition."""
        return np.array(self._answers(self._map(_facts, self.parts)), dtype=np.float64)

    @property
    def entries(self) -> int:
        return int(self._facts[:, 0].sum())

    @property
    def nonzeros(self) -> int:
        return int(self._facts[:, 1].sum())

    def hessian_cost(self) -> float:
        return float(self._facts[:, 0] @ self._asked("hessian_cost")) / max(self.entries, 1)

    # --- tasks

    def _map(self, function: Callable[..., Any], items: Sequence[Any], *columns: Any) -> list[Any]:
        """A task for each item, as futures. A column that is a list has an argument for each task, any other is one for all."""
        each = [column if isinstance(column, list) else [column] * len(items) for column in columns]
        with dask.config.set(_NO_WARNING):
            return self.client.map(function, items, *each, pure=False)  # type: ignore[no-any-return]

    def _answers(self, futures: Any) -> Any:
        return _gathered(self.client, futures)

    def _methods(self, method: str, *columns: Any, parts: Any = None) -> list[Any]:
        return self._map(_method, self.parts if parts is None else parts, self.intercept, method, *columns)

    def _asked(self, method: str, *columns: Any, parts: Any = None) -> Any:
        """What every partition answers."""
        return self._answers(self._methods(method, *columns, parts=parts))

    def _summed(self, method: str, *columns: Any, parts: Any = None) -> Any:
        futures = self._methods(method, *columns, parts=parts)
        while len(futures) > _FEW:
            futures = self._map(_sum, [futures[k : k + _FEW] for k in range(0, len(futures), _FEW)])
        return _sum(self._answers(futures))

    def _before(self, items: list[Any]) -> tuple[list[list[Any]], list[Any]]:
        """For each item those that sum to what comes before it, and those that sum to everything: a few in both cases."""
        if len(items) <= _FEW:
            return [items[:k] for k in range(len(items))], items
        groups = [items[k : k + _FEW] for k in range(0, len(items), _FEW)]
        before, everything = self._before(self._map(_sum, groups))
        earlier = [self._map(_sum, [some]) if some else [] for some in before]
        whole = self._map(_sum, [everything])
        return [[*earlier[g], *group[:k]] for g, group in enumerate(groups) for k in range(len(group))], whole

    def _to_all(self, vector: Vector) -> Any:
        """A vector that every partition needs: with the tasks, or where that is much, in one place that workers fetch it from."""
        return vector if vector.nbytes < _LARGE else self._map(_same, [vector])[0]

    def _slices(self, values: Any) -> list[Any]:
        return [values[low:high] for low, high in pairwise(self.edges)]

    def _where(self, rows: Integers | None) -> tuple[list[Any], list[Any], list[Any]]:
        """The partitions that hold these rows, the places of them in `rows`, and the numbers that they have in the partition."""
        if rows is None:
            return self.parts, [slice(low, high) for low, high in pairwise(self.edges)], [None] * len(self.parts)
        last, found = self._last
        if last is not rows:  # a batch is asked about many times
            holder = np.searchsorted(self.edges, rows, side="right") - 1
            sort = np.argsort(holder, kind="stable")
            cuts = np.searchsorted(holder[sort], np.arange(len(self.parts) + 1))
            chosen = [k for k in range(len(self.parts)) if cuts[k] < cuts[k + 1]]
            places = [sort[cuts[k] : cuts[k + 1]] for k in chosen]
            inside = [np.asarray(rows[place], dtype=np.int64) - self.edges[k] for k, place in zip(chosen, places, strict=True)]
            found = [self.parts[k] for k in chosen], places, inside
            self._last = rows, found
        return found  # type: ignore[no-any-return]

    # --- rows

    def take(self, rows: Integers) -> MemoryRows:
        parts, places, inside = self._where(np.asarray(rows))
        kinds, matrices = zip(*self._answers(self._map(_taken, parts, inside)), strict=True)
        return kinds[0](_stacked(matrices)[np.argsort(np.concatenate(places))])  # type: ignore[no-any-return]

    def subset(self, rows: Integers) -> Rows:
        """Selected in each partition, and left there."""
        if (np.diff(rows) <= 0).any():
            return self.take(rows)
        parts, places, inside = self._where(rows)
        bounds = np.append(0, np.cumsum([place.size for place in places]))
        return self._made("take", bounds, inside, parts=parts)

    def _made(self, method: str, bounds: Any, *columns: Any, parts: Any = None) -> "DaskRows":
        """The rows that a method makes of those of each partition."""
        return DaskRows(self.client, self._methods(method, *columns, parts=parts), bounds, self.d).with_intercept(self.intercept)

    def scale_columns(self, factors: Vector) -> "DaskRows":
        return self._made("scale_columns", self.edges, self._to_all(factors))

    def standardised(self, centre: Vector | None, size: Vector) -> "DaskRows":
        full = self._summed("stored_in_column") == self.n
        centre = centre if centre is None else self._to_all(centre)
        return self._made("standardised", self.edges, centre, self._to_all(size), full)

    def unit_rows(self) -> "DaskRows":
        return self._made("unit_rows", self.edges)

    # --- sums and products

    def squared_norms(self) -> Vector:
        return np.concatenate(self._asked("squared_norms"))

    def row_lengths(self) -> Vector:
        return np.concatenate(self._asked("row_lengths"))

    def column_ranges(self) -> tuple[Vector, Vector]:
        low, high = zip(*self._asked("column_ranges"), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def _sums_about(self, centre: Vector, half: Vector) -> Vector:
        return self._summed("sums_about", self._to_all(centre), self._to_all(half))  # type: ignore[no-any-return]

    def margins(self, x: Vector, rows: Integers | None = None) -> Vector:
        parts, places, inside = self._where(rows)
        answers = self._asked("margins", self._to_all(x), inside, parts=parts)
        return _put(places, answers, np.empty(self.n if rows is None else rows.size))

    def transposed(self, u: Vector, rows: Integers | None = None) -> Vector:
        parts, places, inside = self._where(rows)
        return self._summed("transposed", [u[place] for place in places], inside, parts=parts)  # type: ignore[no-any-return]

    def curved_product(self, curvatures: Vector, x: Vector, rows: Integers | None = None) -> tuple[Vector, Vector]:
        parts, places, inside = self._where(rows)
        columns = [curvatures[place] for place in places], self._to_all(x), inside
        along, products = zip(*self._asked("curved_product", *columns, parts=parts), strict=True)
        return _put(places, along, np.empty(curvatures.size)), _sum(products)

    def curved_squares(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        parts, places, inside = self._where(rows)
        return self._summed("curved_squares", [curvatures[place] for place in places], inside, parts=parts)  # type: ignore[no-any-return]

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        parts, places, inside = self._where(rows)
        return self._summed("hessian", [curvatures[place] for place in places], inside, parts=parts)  # type: ignore[no-any-return]

    def rough_hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        parts, places, inside = self._where(rows)
        return self._summed("rough_hessian", [curvatures[place] for place in places], inside, parts=parts)  # type: ignore[no-any-return]

    # --- orders

    def in_order(self, order: Integers) -> "DaskRows":
        return self._exchanged(order, np.arange(len(self.parts) + 1) * self.n // len(self.parts))

    def _exchanged(self, order: Integers, bounds: NDArray[np.int64]) -> "DaskRows":
        """The rows in this order, in as many partitions, between these bounds."""
        if np.array_equal(order, np.arange(self.n)) and np.array_equal(bounds, self.edges):
            return self
        place_of = np.empty(self.n, dtype=np.int64)
        place_of[order] = np.arange(self.n)
        count = len(self.parts)
        cut = self._map(_cut, self.parts, self._slices(place_of), bounds)
        pieces = self._map(getitem, cut * count, np.repeat(np.arange(count), count).tolist())
        sent = [pieces[k * count : (k + 1) * count] for k in range(count)]
        joined = self._map(_joined, self.parts, sent, bounds[:-1].tolist())
        return DaskRows(self.client, joined, bounds, self.d).with_intercept(self.intercept)

    def _weighted(self, scale: Vector, tol: float) -> "WeightedDask":
        return WeightedDask(self, scale)

    def prefix_norms(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> Vector:
        rows = self.in_order(order)
        slices = rows._slices(u[order]), rows._slices(along_c[order])
        before, _ = rows._before(rows._map(_prefix_sum, rows.parts, self.intercept, *slices))
        return np.concatenate(rows._answers(rows._map(_prefix_norms, rows.parts, self.intercept, *slices, before, c_square)))


@dataclass(frozen=True)
class WeightedDask:
    """The rows scale_i a_i, copied into one order after another, on the workers."""

    rows: DaskRows
    scale: Vector

    @property
    def most_at_once(self) -> int:
        """Orders that workers have room for."""
        info = self.rows.client.scheduler_info(n_workers=-1)["workers"]
        memory = sum(worker["memory_limit"] or np.inf for worker in info.values())
        return int(max(1.0, min(_SHARE * memory // max(float(self.rows._facts[:, 2].sum()), 1.0), 1000.0)))

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedDask":
        n, count = self.rows.n, len(self.rows.parts)
        batches = -(-n // batch_size)
        if batches == 1:  # which has no order
            return ArrangedDask(self.rows, self.scale, order, batch_size)
        if batches >= count:
            bounds = np.minimum(batch_size * (np.arange(count + 1) * batches // count), n)
        else:  # torn apart, or a few workers would have to hold all rows
            bounds = np.arange(count + 1) * n // count
        return ArrangedDask(self.rows._exchanged(order, bounds), self.scale[order], np.arange(n), batch_size)


class ArrangedDask:
    """Vectors are laid out as the rows are, so that each partition has a slice of them."""

    def __init__(self, rows: DaskRows, scale: Vector, visit: Integers, batch_size: int) -> None:
        self.visit, self._rows, self._scale, self._batch_size = visit, rows, scale, batch_size
        self._torn = bool((rows.edges[1:-1] % batch_size).any())
        self._pieces = rows._map(_Piece, rows.parts, rows.intercept, rows._slices(scale), rows.edges[:-1].tolist(), batch_size)

    def ordered(self, v: Vector, out: Vector) -> None:
        rows, slices = self._rows, self._rows._slices(v)
        if self._batch_size == rows.n:  # the Gram matrix itself
            sums = rows._map(_sum_of_all, self._pieces, slices)
            np.concatenate(rows._answers(rows._map(_along_all, self._pieces, [rows._before(sums)[1]] * len(sums))), out=out)
            return
        before, everything = rows._before(rows._map(_sums, self._pieces, slices))
        answers = rows._answers(rows._map(_ordered, self._pieces, slices, before, [everything] * len(before)))
        np.concatenate(answers, out=out)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        if self._torn:
            for low, high in pairwise(starts):
                batch, scale = members[low:high], self._scale[members[low:high]]
                out[low:high] = scale * self._rows.margins(self._rows.transposed(scale * v[low:high], batch), batch)
            return
        cuts = np.searchsorted(members, self._rows.edges)  # of which each is where a batch begins
        live = [k for k in range(len(self._pieces)) if cuts[k] < cuts[k + 1]]
        places = [slice(cuts[k], cuts[k + 1]) for k in live]
        inside = [members[place] - self._rows.edges[k] for k, place in zip(live, places, strict=True)]
        own = [starts[slice(*np.searchsorted(starts, [place.start, place.stop + 1]))] - place.start for place in places]
        answers = self._rows._map(_batched, [self._pieces[k] for k in live], inside, own, [v[place] for place in places])
        _put(places, self._rows._answers(answers), out)


# --- what workers do


class _Piece:
    """Rows of an order from one position on, with their scale."""

    def __init__(self, rows: MemoryRows, intercept: bool, scale: Vector, first: int, batch_size: int) -> None:
        self.rows, self.scale, self.first, self.batch_size = rows.with_intercept(intercept), _own(scale), first, batch_size

    def ordered(self, v: Vector, state: Vector) -> Vector:
        """Leaves in `state` what it has become."""
        return self.rows.ordered_pass(self.scale, _own(v), self.first, self.batch_size, state)

    def batched(self, members: Positions, starts: Positions, v: Vector) -> Vector:
        out = np.empty(members.size)
        arranged = ArrangedMemory(self.rows, self.rows.A, self.scale, self.rows._everything, self.batch_size)
        arranged.batched(_own(members), _own(starts), _own(v), out)
        return out


def _sum_of_all(piece: _Piece, v: Vector) -> Vector:
    total: Vector = piece.rows.transposed(piece.scale * v)
    return total


def _along_all(piece: _Piece, everything: list[Vector]) -> Vector:
    along: Vector = piece.scale * piece.rows.margins(_own(_sum(everything)))
    return along


def _sums(piece: _Piece, v: Vector) -> Vector:
    """What these rows add to U, and take from R."""
    state = np.zeros((2, piece.rows.dimension))
    piece.ordered(v, state)
    return state


def _ordered(piece: _Piece, v: Vector, before: list[Vector], everything: list[Vector]) -> Vector:
    state = _sum(before) + np.zeros((2, piece.rows.dimension))
    state[1] -= _sum(everything)[1]
    return piece.ordered(v, state)


def _batched(piece: _Piece, members: Positions, starts: Positions, v: Vector) -> Vector:
    return piece.batched(members, starts, v)


def _prefix_sum(rows: MemoryRows, intercept: bool, u: Vector, along_c: Vector) -> Vector:
    """The sum of u_i a_i, then that of u_i a_i'c, then how many there are."""
    S = rows.with_intercept(intercept).transposed(_own(u))
    return np.concatenate([S, [float(u @ along_c), float(u.size)]])


def _prefix_norms(rows: MemoryRows, intercept: bool, u: Vector, along_c: Vector, before: list[Vector], c_square: float) -> Vector:
    rows = rows.with_intercept(intercept)
    *S, S_c, k = _sum(before) + np.zeros(rows.dimension + 2)
    S = np.array(S)
    sums = np.array([float(S @ S), float(S[-1]) if intercept else 0.0, S_c, k, c_square])
    return rows.prefix_pass(_own(u), _own(along_c), S, sums)


def _method(rows: MemoryRows, intercept: bool, method: str, *arguments: Any) -> Any:
    with one_thread():
        return getattr(rows.with_intercept(intercept), method)(*map(_own, arguments))


def _read(reader: Callable[[], MemoryRows]) -> MemoryRows:
    rows = reader()
    return rows._kind(_own_matrix(rows.matrix))


def _rows_of(block: Any, name: str) -> MemoryRows:
    return unchecked(block if sp.issparse(block) else np.asarray(block), name)


def _shape(rows: MemoryRows) -> tuple[int, int]:
    return rows.shape


def _facts(rows: MemoryRows) -> tuple[int, int, int]:
    return rows.entries, rows.nonzeros, sizeof(rows)


def _taken(rows: MemoryRows, chosen: Positions) -> tuple[Any, Any]:
    return rows._kind, rows.matrix[chosen]


def _cut(rows: MemoryRows, place_of: Positions, bounds: Positions) -> list[tuple[Any, Positions]]:
    """The rows that each partition of an order gets, and their places there."""
    sort = np.argsort(place_of)
    places = place_of[sort]
    cuts = np.searchsorted(places, bounds)
    return list(zip(rows.cut(sort, cuts), [places[low:high] for low, high in pairwise(cuts)], strict=True))


def _joined(rows: MemoryRows, pieces: list[tuple[Any, Positions]], first: int) -> MemoryRows:
    """What all partitions sent, each row at its place, where place `first` is the first here; `rows` are any, for their kind."""
    arrays, places = zip(*pieces, strict=True)
    return rows.joined([tuple(map(_own, piece)) for piece in arrays], [here - first for here in places])


def _stacked(matrices: Sequence[Any]) -> Any:
    return sp.vstack(matrices, format="csr") if sp.issparse(matrices[0]) else np.concatenate(matrices)


def _same(value: Any) -> Any:
    return value


def _sum(arrays: Sequence[Any]) -> Any:
    return sum(arrays[1:], arrays[0]) if arrays else 0.0


def _own(value: Any) -> Any:
    """Arrays that arrive may be read only, for which kernels would be compiled once more."""
    return value.copy() if isinstance(value, np.ndarray) and not value.flags.writeable else value


def _own_matrix(matrix: Any) -> Any:
    if not sp.issparse(matrix):
        return _own(matrix)
    arrays = tuple(map(_own, (matrix.data, matrix.indices, matrix.indptr)))
    return sp.csr_array(arrays, shape=matrix.shape)


def _put(places: Sequence[Any], values: Sequence[Vector], out: Vector) -> Vector:
    for place, value in zip(places, values, strict=True):
        out[place] = value
    return out


def _gathered(client: Any, futures: Any) -> Any:
    try:
        return client.gather(futures)
    except KilledWorker as error:
        raise MemoryError(
            f"workers of Dask were killed again and again in the same task, mostly a sign that they lack memory ({error}); "
            "use more workers, or give them more"
        ) from None


@sizeof.register(MemoryRows)  # type: ignore[untyped-decorator]
def _size_of_rows(rows: MemoryRows) -> int:
    """Dask leaves work where the largest of what it needs lies."""
    X = rows.matrix
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes)


@sizeof.register(_Piece)  # type: ignore[untyped-decorator]
def _size_of_piece(piece: _Piece) -> int:
    return int(sizeof(piece.rows) + piece.scale.nbytes)
