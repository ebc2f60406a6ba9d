"""Rows on the workers of a Dask cluster: each partition holds some of them, as rows in memory, for good.

What goes where
    rows        on the workers, about as many partitions as they have threads. A partition is the result of a task that reads it, or
                that has it as an argument, so Dask makes it again where a worker dies: that costs time, never the result.
    n-vectors   in the client's memory. A partition is sent the slice that belongs to it, and sends one back.
    d-vectors   to every partition, and summed on the way back.

Rows are made by tasks; all else is a call (`calls`), which takes about two milliseconds. A product A x, A'u or A'CA x is one, and
so is a step of the recurrence for |A|^2, whose n-vectors stay on the workers (`FactoredDask`). A product of the ordered matrix
(Lhat) is two, a scan: as in `ordered_pass` of rows in memory a partition needs U, what the rows before it sum to with their batch
numbers, and R, what all other rows sum to. A first pass over each partition, from nothing, leaves exactly its own share of both.

An order is an exchange, kept beside the rows: each partition is told the rows that its places of the order belong to, and lays them
there. Those of its own process it copies from where they lie, those of its host from a copy in small types that partitions lend
each other (`shared`), and partitions of other hosts it asks for them. Random orders are drawn on the client: they are those of rows
in memory. Partitions of an order hold whole batches wherever there are as many batches as partitions, so that the products of
batches (Ltil) stay inside of them; larger batches are multiplied one by one.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import dask
import numpy as np
import scipy.sparse as sp
from dask.sizeof import sizeof
from dask.system import CPU_COUNT
from distributed import Client, LocalCluster
from numpy.typing import NDArray

from reshuffle.blas import one_thread
from reshuffle.rows import kernels
from reshuffle.rows.base import DualState, DualStep, Factored, Integers, Positions, Rows, Weighted, WeightedBlocks
from reshuffle.rows.calls import Exchange, Held, gathered
from reshuffle.rows.memory import ArrangedMemory, MemoryRows, unchecked
from reshuffle.vectors import Vector

_LARGE = 1 << 20  # bytes of a vector for all partitions from which on workers hand it to each other
_REPLAYED = 64  # steps of a recurrence at most that are made again where a worker is lost
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
    return DaskRows(Held(client, parts), bounds, rows.d).with_intercept(rows.intercept)


def of_array(X: Any, name: str = "X") -> "DaskRows":
    """The rows of a Dask array, of which every block holds whole rows, sparse or dense."""
    client = active_client()
    if X.ndim != 2:
        raise ValueError(f"{name} has {X.ndim} dimensions; use an n x d array")
    blocks = client.compute([*X.rechunk({1: -1}).to_delayed().ravel()])
    parts = client.map(_rows_of, blocks, [name] * len(blocks), pure=False)
    shapes = np.array(gathered(client, client.map(_shape, parts, pure=False)))
    full = np.flatnonzero(shapes[:, 0])
    if not full.size or not shapes[0, 1]:
        raise ValueError(f"{name} has shape {X.shape}; it needs at least one row and one column")
    rows = DaskRows(Held(client, [parts[k] for k in full]), np.append(0, np.cumsum(shapes[full, 0])), int(shapes[0, 1]))
    rows._asked("refuse_non_finite", name, each=[(int(first),) for first in rows.edges[:-1]])
    return rows


class DaskRows(Rows):
    """Rows in partitions: number k holds those from edges[k] to edges[k + 1]."""

    elsewhere = at_hand = True

    def __init__(self, held: Held, bounds: NDArray[np.int64], d: int) -> None:
        self.client, self._held, self.edges, self._width = held.client, held, bounds, d
        self._last: tuple[Any, Any] = (None, None)
        # Labels, weights, squares and intercept of the last pass of SDCA, and where they are kept.
        self._samples: tuple[Any, ...] = (None, None, None, None, None)

    @property
    def parts(self) -> list[Any]:
        """The partitions, as futures of the tasks that made them."""
        if self._held.origin is not None:
            raise NotImplementedError("no task has made rows that lie in another order; ask for those that they were made of")
        return self._held.futures

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.edges[-1]), self._width

    def __str__(self) -> str:
        return f"{self.n} x {self.d}, on Dask in {len(self._held)} partitions, {self.entries} entries"

    @cached_property
    def _facts(self) -> Vector:
        """Entries, those that are not zero, and bytes of each partition, and whether it is `rough`."""
        return np.array(self._held.ask(_facts)[0], dtype=np.float64)

    @property
    def entries(self) -> int:
        return int(self._facts[:, 0].sum())

    @property
    def nonzeros(self) -> int:
        return int(self._facts[:, 1].sum())

    @property
    def rough(self) -> bool:  # type: ignore[override]
        return bool(self._facts[:, 3].all())

    def hessian_cost(self) -> float:
        return float(self._facts[:, 0] @ self._asked("hessian_cost")) / max(self.entries, 1)

    def blas_speed(self) -> float:
        return self._blas_speed

    @cached_property
    def _blas_speed(self) -> float:  # asked for in every step of Newton's method
        return float(np.mean(self._asked("blas_speed")))

    # --- tasks

    def _map(self, function: Callable[..., Any], items: Sequence[Any], *columns: Any) -> list[Any]:
        """A task for each item, as futures. A column that is a list has an argument for each task, any other is one for all."""
        each = [column if isinstance(column, list) else [column] * len(items) for column in columns]
        with dask.config.set(_NO_WARNING):
            return self.client.map(function, items, *each, pure=False)  # type: ignore[no-any-return]

    def _methods(self, method: str, *columns: Any, parts: Any = None) -> list[Any]:
        """What a method makes of every partition, left there."""
        return self._map(_method, self.parts if parts is None else parts, self.intercept, method, *columns)

    # --- calls

    def _asked(self, method: str, *given: Any, each: Any = None, chosen: Any = None) -> Any:
        """What a method answers of every partition, or of those whose numbers are chosen."""
        return self._held.ask(_own_answer, self.intercept, method, *given, each=each, chosen=chosen)[0]

    def _summed(self, method: str, *given: Any, each: Any = None, chosen: Any = None) -> Any:
        return self._held.ask(_share, self.intercept, method, *given, each=each, chosen=chosen)[1]

    def _to_all(self, vector: Vector) -> Any:
        """A vector for a task of every partition: with them or, where that is much, in one place that workers fetch it from."""
        return vector if vector.nbytes < _LARGE else self._map(_same, [vector])[0]

    def _slices(self, values: Any) -> list[Any]:
        return [values[low:high] for low, high in pairwise(self.edges)]

    def _where(self, rows: Integers | None) -> tuple[Any, list[Any], list[Any]]:
        """The partitions that hold these rows, the places of them in `rows`, and the numbers that they have in the partition."""
        if rows is None:
            return None, [slice(low, high) for low, high in pairwise(self.edges)], [None] * len(self._held)
        last, found = self._last
        if last is not rows:  # a batch is asked about many times
            holder = np.searchsorted(self.edges, rows, side="right") - 1
            sort = np.argsort(holder, kind="stable")
            cuts = np.searchsorted(holder[sort], np.arange(len(self._held) + 1))
            chosen = [k for k in range(len(self._held)) if cuts[k] < cuts[k + 1]]
            places = [sort[cuts[k] : cuts[k + 1]] for k in chosen]
            inside = [np.asarray(rows[place], dtype=np.int64) - self.edges[k] for k, place in zip(chosen, places, strict=True)]
            found = chosen, places, inside
            self._last = rows, found
        return found  # type: ignore[no-any-return]

    # --- rows

    def take(self, rows: Integers) -> MemoryRows:
        chosen, places, inside = self._where(np.asarray(rows))
        kinds, matrices = zip(*self._held.ask(_taken, each=[(some,) for some in inside], chosen=chosen)[0], strict=True)
        return kinds[0](_stacked(matrices)[np.argsort(np.concatenate(places))])  # type: ignore[no-any-return]

    def subset(self, rows: Integers) -> Rows:
        """Selected in each partition, and left there."""
        if (np.diff(rows) <= 0).any():
            return self.take(rows)
        chosen, places, inside = self._where(rows)
        bounds = np.append(0, np.cumsum([place.size for place in places]))
        return self._made("take", bounds, inside, parts=[self.parts[k] for k in chosen])

    def _made(self, method: str, bounds: Any, *columns: Any, parts: Any = None) -> "DaskRows":
        """The rows that a method makes of those of each partition."""
        made = Held(self.client, self._methods(method, *columns, parts=parts))
        return DaskRows(made, bounds, self.d).with_intercept(self.intercept)

    def scale_columns(self, factors: Vector) -> "DaskRows":
        return self._made("scale_columns", self.edges, self._to_all(factors))

    def standardised(self, centre: Vector | None, size: Vector) -> "DaskRows":
        full = self._summed("stored_in_column") == self.n
        centre = centre if centre is None else self._to_all(centre)
        return self._made("standardised", self.edges, centre, self._to_all(size), full)

    def unit_rows(self) -> "DaskRows":
        return self._made("unit_rows", self.edges)

    # --- sums and products

    @cached_property
    def _holders(self) -> Integers:
        """The partition of every row."""
        count = len(self._held)
        return np.repeat(np.arange(count, dtype=np.min_scalar_type(count)), np.diff(self.edges))

    @cached_property
    def _squares(self) -> Vector:
        return np.concatenate(self._held.ask(_own_answer, False, "squared_norms")[0])

    def squared_norms(self) -> Vector:
        return self._squares + float(self.intercept)

    def row_lengths(self) -> Vector:
        return np.concatenate(self._asked("row_lengths"))

    def column_ranges(self) -> tuple[Vector, Vector]:
        low, high = zip(*self._asked("column_ranges"), strict=True)
        return np.min(low, axis=0), np.max(high, axis=0)

    def _sums_about(self, centre: Vector, half: Vector) -> Vector:
        return self._summed("sums_about", centre, half)  # type: ignore[no-any-return]

    def margins(self, x: Vector, rows: Integers | None = None) -> Vector:
        chosen, places, inside = self._where(rows)
        answers = self._asked("margins", x, each=[(some,) for some in inside], chosen=chosen)
        return _put(places, answers, np.empty(self.n if rows is None else rows.size))

    def transposed(self, u: Vector, rows: Integers | None = None) -> Vector:
        return self._summed_over("transposed", u, rows)

    def curved_product(self, curvatures: Vector, x: Vector, rows: Integers | None = None) -> tuple[Vector, Vector]:
        chosen, places, inside = self._where(rows)
        each = [(curvatures[place], some) for place, some in zip(places, inside, strict=True)]
        along, product = self._held.ask(_curved, self.intercept, x, each=each, chosen=chosen)
        return _put(places, along, np.empty(curvatures.size)), product

    def gram_step(self, scale: Vector, x: Vector, u: Vector) -> Vector:
        factored = FactoredDask(self, scale, u)
        _, product = factored.step(x, 1.0)
        u[:] = np.concatenate(factored._left.ask(_itself)[0])
        return product

    def curved_squares(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._summed_over("curved_squares", curvatures, rows)

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._summed_over("hessian", curvatures, rows)

    def rough_hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._summed_over("rough_hessian", curvatures, rows)

    def _summed_over(self, method: str, values: Vector, rows: Integers | None) -> Vector:
        """The sum of a method's answers, for a value of each row."""
        chosen, places, inside = self._where(rows)
        each = [(values[place], some) for place, some in zip(places, inside, strict=True)]
        return self._summed(method, each=each, chosen=chosen)  # type: ignore[no-any-return]

    def sdca_epoch(
        self, visit: Integers, labels: Vector, weights: Vector, squares: Vector, step: DualStep, x: Vector, state: DualState
    ) -> None:
        """Each partition visits its own of them, from the same x, as if the others moved it as far as it does (`_Visited`)."""
        count, slices = len(self._held), [slice(low, high) for low, high in pairwise(self.edges)]
        given: tuple[Any, ...] = labels, weights, squares, self.intercept
        if not all(one is before or np.array_equal(one, before) for one, before in zip(given, self._samples, strict=False)):
            samples = [(labels[place], weights[place], squares[place]) for place in slices]  # many passes share them
            self._samples = *given, self._held.keep(_Visited, self.intercept, each=samples)
        rows, ends = np.empty_like(visit), np.zeros(count + 1, dtype=np.int64)
        kernels.split(visit, self._holders, self.edges, ends, rows)
        held = [[part if part.any() else None for part in self._slices(values)] for values in state]  # at first, there is nothing
        each = [(rows[low:high], *both) for (low, high), *both in zip(pairwise(ends), *held, strict=True)]
        found, moved = self._samples[-1].ask(_visited, step, count, x, each=each)
        for place, here in zip(slices, found, strict=True):
            state.dual[place], state.gains[place] = here
        x += moved

    # --- orders

    def in_order(self, order: Integers) -> "DaskRows":
        return self._exchanged(order, np.arange(len(self._held) + 1) * self.n // len(self._held))

    def _exchanged(self, order: Integers, bounds: NDArray[np.int64]) -> "DaskRows":
        """The rows in this order, in as many partitions, between these bounds."""
        if np.array_equal(order, np.arange(self.n)) and np.array_equal(bounds, self.edges):
            return self
        each = [(self.edges, order[low:high]) for low, high in pairwise(bounds)]
        exchanged = self._held.exchange(Exchange(_wanted, _lent, _packed, _joined), each)
        return DaskRows(exchanged, bounds, self.d).with_intercept(self.intercept)

    def _weighted(self, scale: Vector, tol: float) -> "WeightedDask":
        return WeightedDask(self, scale)

    def prefix_norms(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> Vector:
        rows = self.in_order(order)
        each = zip(rows._slices(u[order]), rows._slices(along_c[order]), strict=True)
        pieces = rows._held.keep(_Prefixes, self.intercept, c_square, each=list(each))
        return np.concatenate(pieces.scan(_sums, None, np.zeros_like, _along))


@dataclass(frozen=True)
class WeightedDask(Weighted):
    """The rows scale_i a_i, copied into one order after another, on the workers."""

    rows: DaskRows
    scale: Vector

    @property
    def most_at_once(self) -> int:
        """Orders that workers have room for."""
        info = self.rows.client.scheduler_info(n_workers=-1)["workers"]
        memory = sum(worker["memory_limit"] or np.inf for worker in info.values())
        return int(max(1.0, min(_SHARE * memory // max(float(self.rows._facts[:, 2].sum()), 1.0), 1000.0)))

    def factored(self, u: Vector) -> "FactoredDask":
        return FactoredDask(self.rows, self.scale, u)

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedDask":
        n, count = self.rows.n, len(self.rows._held)
        batches = -(-n // batch_size)
        if batches == 1:  # in which no order matters: rows stay where they lie
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
        each = zip(rows._slices(scale), rows.edges[:-1].tolist(), strict=True)
        self._pieces = rows._held.keep(_Piece, rows.intercept, batch_size, each=list(each))

    def ordered(self, v: Vector, out: Vector) -> None:
        each = [(part,) for part in self._rows._slices(v)]
        np.concatenate(self._pieces.scan(_sums, each, _nothing_before, _along), out=out)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        if self._torn:
            for low, high in pairwise(starts):
                batch, scale = members[low:high], self._scale[members[low:high]]
                out[low:high] = scale * self._rows.margins(self._rows.transposed(scale * v[low:high], batch), batch)
            return
        cuts = np.searchsorted(members, self._rows.edges)  # of which each is where a batch begins
        live = [k for k in range(cuts.size - 1) if cuts[k] < cuts[k + 1]]
        places = [slice(cuts[k], cuts[k + 1]) for k in live]
        inside = [members[place] - self._rows.edges[k] for k, place in zip(live, places, strict=True)]
        own = [starts[slice(*np.searchsorted(starts, [place.start, place.stop + 1]))] - place.start for place in places]
        each = [(*both, v[place]) for *both, place in zip(inside, own, places, strict=True)]
        _put(places, self._pieces.ask(_batched, each=each, chosen=live)[0], out)


class FactoredDask(Factored):
    """The n-vector stays on the workers: d-vectors alone come and go, and of these the client makes it again where a worker is
    lost.
    """

    def __init__(self, rows: DaskRows, scale: Vector, u: Vector) -> None:
        self._rows, self._scale = rows, scale
        self._hold(rows._slices(u))

    def _hold(self, parts: list[Vector]) -> None:
        each = zip(self._rows._slices(self._scale), parts, strict=True)
        self._left = self._rows._held.keep(_left, self._rows.intercept, each=list(each))

    def image(self) -> Vector:
        return self._left.ask(_image)[1]  # type: ignore[no-any-return]

    def step(self, x: Vector, factor: float) -> tuple[float, Vector]:
        if len(self._left.changes) == _REPLAYED:
            self._hold(self._left.ask(_itself)[0])
        found: Vector = self._left.change(_stepped, x, factor)[1]
        return float(found[-1]), found[:-1]

    def along(self, *several: tuple[Vector, float]) -> list[Vector]:
        return [np.concatenate(parts) for parts in zip(*self._left.ask(_along_left, several)[0], strict=True)]


# --- what workers do


class _Piece:
    """Rows of an order from one position on, with their scale."""

    def __init__(self, rows: MemoryRows, intercept: bool, batch_size: int, scale: Vector, first: int) -> None:
        self.rows, self.scale, self.first, self.batch_size = rows.with_intercept(intercept), _own(scale), first, batch_size

    def sums(self, v: Vector) -> Vector:
        """What these rows add to U, and take from R; v is kept for what comes next."""
        self.v, state = _own(v), np.zeros((2, self.rows.dimension))
        self._pass(state)
        return state

    def along(self, before: Vector) -> Vector:
        return self._pass(before.copy())

    def _pass(self, state: Vector) -> Vector:
        """Leaves in `state` what it has become."""
        return self.rows.ordered_pass(self.scale, self.v, self.first, self.batch_size, state)

    def batched(self, members: Positions, starts: Positions, v: Vector) -> Vector:
        out = np.empty(members.size)
        arranged = ArrangedMemory(self.rows, self.rows.A, self.scale, self.rows._everything, self.batch_size)
        arranged.batched(_own(members), _own(starts), _own(v), out)
        return out


class _Prefixes:
    """Rows of an order, with what `prefix_norms` sums."""

    def __init__(self, rows: MemoryRows, intercept: bool, c_square: float, u: Vector, along_c: Vector) -> None:
        self.rows, self.u, self.along_c, self.c_square = rows.with_intercept(intercept), _own(u), _own(along_c), c_square

    def sums(self) -> Vector:
        """The sum of u_i a_i, then that of u_i a_i'c, then how many there are."""
        S = self.rows.transposed(self.u)
        return np.concatenate([S, [float(self.u @ self.along_c), float(self.u.size)]])

    def along(self, before: Vector) -> Vector:
        S, (S_c, k) = before[:-2].copy(), before[-2:]
        sums = np.array([float(S @ S), float(S[-1]) if self.rows.intercept else 0.0, S_c, k, self.c_square])
        return self.rows.prefix_pass(self.u, self.along_c, S, sums)


class _Visited:
    """Rows with their labels, weights and squared norms, for one pass of SDCA after another."""

    def __init__(self, rows: MemoryRows, intercept: bool, *samples: Vector) -> None:
        self.rows = rows.with_intercept(intercept)
        self.labels, self.weights, self.squares = map(_own, samples)

    def visited(self, step: DualStep, K: int, x: Vector, visit: Integers, state: DualState) -> tuple[DualState, Vector]:
        """The state after a pass, and by how much that moves x. All K partitions move x at once, so each pulls K times as hard
        while it passes over its rows: |sum_k d_k|^2 <= K sum_k |d_k|^2, so that moves which each raise the dual objective as far
        as a partition sees it raise it together (Ma, Smith, Jaggi, Jordan, Richtarik, Takac 2015, with gamma = 1).
        """
        own, step = x.copy(), step._replace(pull=K * step.pull, intercept_pull=K * step.intercept_pull)
        self.rows.sdca_epoch(_own(visit), self.labels, self.weights, self.squares, step, own, state)
        return state, (own - x) / K


def _sums(piece: _Piece | _Prefixes, *own: Vector) -> tuple[None, Vector]:
    return None, piece.sums(*own)


def _along(piece: _Piece | _Prefixes, before: Vector) -> tuple[Vector, None]:
    return piece.along(before), None


def _nothing_before(everything: Vector) -> Vector:
    """U and R at the first row: all rows are yet to come."""
    return np.array([np.zeros_like(everything[0]), -everything[1]])


def _left(rows: MemoryRows, intercept: bool, scale: Vector, u: Vector) -> Factored:
    return Factored(WeightedBlocks(rows.with_intercept(intercept), _own(scale)), u.copy())


def _image(left: Factored) -> tuple[None, Vector]:
    return None, left.image()


def _stepped(left: Factored, x: Vector, factor: float) -> tuple[None, Vector]:
    """The squared norm goes behind the product, as answers are summed."""
    square, product = left.step(_own(x), factor)
    return None, np.append(product, square)


def _itself(left: Factored) -> tuple[Vector, None]:
    return left.u, None


def _along_left(left: Factored, several: tuple[tuple[Vector, float], ...]) -> tuple[list[Vector], None]:
    return left.along(*((_own(x), factor) for x, factor in several)), None


def _batched(piece: _Piece, members: Positions, starts: Positions, v: Vector) -> tuple[Vector, None]:
    return piece.batched(members, starts, v), None


def _method(rows: MemoryRows, intercept: bool, method: str, *arguments: Any) -> Any:
    with one_thread():
        return getattr(rows.with_intercept(intercept), method)(*map(_own, arguments))


def _own_answer(rows: MemoryRows, intercept: bool, method: str, *arguments: Any) -> tuple[Any, None]:
    return _method(rows, intercept, method, *arguments), None


def _share(rows: MemoryRows, intercept: bool, method: str, *arguments: Any) -> tuple[None, Any]:
    return None, _method(rows, intercept, method, *arguments)


def _curved(rows: MemoryRows, intercept: bool, x: Vector, curvatures: Vector, chosen: Integers | None) -> tuple[Vector, Vector]:
    return _method(rows, intercept, "curved_product", curvatures, x, chosen)  # type: ignore[no-any-return]


def _visited(own: _Visited, step: DualStep, K: int, x: Vector, visit: Integers, *state: Vector | None) -> tuple[DualState, Vector]:
    return own.visited(step, K, x, visit, DualState(*(np.zeros(own.rows.n) if part is None else _own(part) for part in state)))


def _read(reader: Callable[[], MemoryRows]) -> MemoryRows:
    rows = reader()
    return rows._kind(_own_matrix(rows.matrix))


def _rows_of(block: Any, name: str) -> MemoryRows:
    return unchecked(block if sp.issparse(block) else np.asarray(block), name)


def _shape(rows: MemoryRows) -> tuple[int, int]:
    return rows.shape


def _facts(rows: MemoryRows) -> tuple[tuple[int, int, int, bool], None]:
    return (rows.entries, rows.nonzeros, sizeof(rows), rows.rough), None


def _taken(rows: MemoryRows, chosen: Positions) -> tuple[tuple[Any, Any], None]:
    return (rows._kind, rows.matrix[chosen]), None


def _wanted(rows: MemoryRows, edges: Positions, order: Positions) -> tuple[list[Positions], list[Positions]]:
    """Of each partition the rows, by their numbers there, that belong to these places of an order, and those places."""
    count = edges.size - 1
    holder = (np.searchsorted(edges, order, side="right") - 1).astype(np.min_scalar_type(count))
    places = np.split(np.argsort(holder, kind="stable"), np.cumsum(np.bincount(holder, minlength=count))[:-1])
    return [order[here] - first for here, first in zip(places, edges, strict=False)], places


def _lent(rows: MemoryRows) -> tuple[Any, None]:
    return rows.lent(), None


def _packed(rows: MemoryRows, chosen: Positions) -> tuple[Any, None]:
    return rows.packed(_own(chosen)), None


def _joined(rows: MemoryRows, pieces: list[Any], places: list[Positions]) -> MemoryRows:
    for k, (source, wanted) in enumerate(pieces):
        if wanted is None:  # all that was packed
            pieces[k] = tuple(map(_own, source)), np.arange(places[k].size)
    return rows.joined(pieces, places)


def _stacked(matrices: Sequence[Any]) -> Any:
    return sp.vstack(matrices, format="csr") if sp.issparse(matrices[0]) else np.concatenate(matrices)


def _same(value: Any) -> Any:
    return value


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


@sizeof.register(MemoryRows)  # type: ignore[untyped-decorator]
def _size_of_rows(rows: MemoryRows) -> int:
    """Dask leaves work where the largest of what it needs lies."""
    X = rows.matrix
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes)
