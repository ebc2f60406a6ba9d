"""Rows on disk: blocks of rows that are read one after the other, each mapped into memory while it is computed with.

Vectors with a number for each row or feature are in memory, and so are at most two blocks: the one at hand, and the next, which a
thread reads meanwhile. What is mapped belongs to the system's cache of files, not to the process.

Rows that take at most a quarter of `memory` are copied there once, when a problem is made of them. Others are read in sequence as
they lie, and an order of them is made to lie in sequence too (`_lying`), once for each order, in one of three ways, of which the
first that will do is taken:
    held        a few of the rows, which take at most a quarter of `memory`, are copied there
    gathered    it stays near to how the rows lie (sorted rows, blocks, buffers): some rows at a time are read where they are
    scattered   it is random: one pass over the blocks appends every row to the bucket of its position, and each bucket, which fits
                into memory, is put into its exact order as it is read. Files are read and written in sequence only, and have no
                name, so that the system takes their space back however the process ends.
Dual passes need no uniform order: they visit blocks in a random order, rows inside shuffled, and blocks are read where they lie.

A scaling of rows or columns is done to every block after it was read (`made`).
"""

import copy
import hashlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from reshuffle.rows.base import DualState, DualStep, Integers, Rows, Weighted
from reshuffle.rows.blocks import Block, Bucket, Files, Held, Kind, put
from reshuffle.rows.memory import SPARSE_BLAS_SPEED, MemoryRows, SparseRows, WeightedMemory, hash_array
from reshuffle.vectors import Vector

SMALLEST_MEMORY = 1 << 24
_HELD = 4  # part of the memory that rows in an order may take
_BUCKET = 16  # part of it that a bucket may take, of which three are held: the last, the one at hand, the next
_LARGEST_BUCKET = 1 << 24
_MOST_BUCKETS = 1 << 16
_SEGMENT = 1 << 16  # bytes that are read for one row that is needed
_READ_AGAIN = 3  # times that all rows may be read for an order to be gathered
_RUNS = 4  # visits to a block in one order up to which it is read where it lies

Make = Callable[[MemoryRows], MemoryRows]


@dataclass(frozen=True)
class _Gathered:
    """Rows that are read where they are."""

    source: "DiskRows"
    listed: Integers

    @property
    def rows(self) -> int:
        return self.listed.size

    def read(self) -> MemoryRows:
        return self.source._copied(self.listed)


class DiskRows(Rows):
    """Rows in blocks on disk."""

    def __init__(
        self, blocks: Sequence[Block], shape: tuple[int, int], entries: int, kind: Kind, *, memory: int, scratch: Path, mark: str
    ) -> None:
        """`kind` is of rows that are copied, `memory` how many bytes may be taken, `scratch` the folder for orders that are
        scattered, and `mark` stands for all that the blocks hold.
        """
        self.blocks, self._shape, self._entries, self.kind = tuple(blocks), shape, entries, kind
        self.memory, self.scratch, self.mark = memory, scratch, mark
        self.bounds: Integers = np.append(0, np.cumsum([block.rows for block in self.blocks]))
        self._made: tuple[Make, ...] = ()
        self._listed: tuple[Integers, DiskRows] | None = None  # the rows that were asked for last, where a copy of them is held

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    @property
    def entries(self) -> int:
        return self._entries

    @property
    def nonzeros(self) -> int:
        return self._entries if self.kind.sparse else super().nonzeros

    @property
    def nbytes(self) -> int:
        """That the rows take, copied."""
        entry: int = self.kind[1].itemsize + (self.kind[0].itemsize if self.kind.sparse else 0)
        return max(self._entries * entry + 4 * self.n * self.kind.sparse, 1)

    def __str__(self) -> str:
        what = f"sparse, {self.entries} entries" if self.kind.sparse else f"dense, {self.kind[1]}"
        return f"{self.n} x {self.d}, {what}, on disk"

    def update_hash(self, digest: Any) -> None:
        digest.update(self.mark.encode())

    def ready(self) -> Rows:
        """In memory, where they take at most a quarter of it; a journal knows them as the same rows."""
        if self.nbytes > self.memory // _HELD:
            return self
        rows = self._part(np.arange(self.n))
        rows.update_hash = self.update_hash  # type: ignore[method-assign]
        return rows

    def reader(self, start: int, stop: int) -> Callable[[], MemoryRows]:
        """The other process reads them itself, from a disk that it must see too; how much memory it has is its own business."""
        there = copy.copy(self)
        there.memory, there._listed = sys.maxsize, None
        return partial(_between, there, start, stop)

    # --- in sequence

    def _sequence(self, chosen: Sequence[int] | None = None) -> Iterator[tuple[int, MemoryRows]]:
        """Blocks, as they lie or those chosen, with their numbers; the next is read while one is computed with."""
        numbers = range(len(self.blocks)) if chosen is None else chosen
        if len(numbers) < 2:
            yield from ((k, self._read(self.blocks[k])) for k in numbers)
            return
        with ThreadPoolExecutor(1, "read-ahead") as pool:
            coming = pool.submit(self._read, self.blocks[numbers[0]])
            for k, after in zip(numbers, [*numbers[1:], None], strict=True):
                block = coming.result()
                if after is not None:
                    coming = pool.submit(self._read, self.blocks[after])
                yield k, block

    def loosely(self) -> Iterator[tuple[Any, MemoryRows, Any]]:
        """`_blocks` for sums in which no order matters: rows as they come, and their places in the block where these are others."""
        for (low, high), block in zip(pairwise(self.bounds.tolist()), self.blocks, strict=True):
            rows, places = block.loose() if isinstance(block, Bucket) else (block.read(), None)
            yield slice(low, high), self._finished(rows), places

    def _read(self, block: Block) -> MemoryRows:
        return self._finished(block.read())

    def _finished(self, rows: MemoryRows) -> MemoryRows:
        for make in self._made:
            rows = make(rows)
        return rows.with_intercept(self.intercept)

    def _blocks(self, rows: Integers | None = None, multiple: int = 1) -> Iterator[tuple[Any, MemoryRows]]:
        lying = self if rows is None else self._again(rows, multiple)
        if multiple == 1:
            for k, block in lying._sequence():
                yield slice(int(lying.bounds[k]), int(lying.bounds[k + 1])), block
            return
        at = 0
        for block in lying._in_multiples(multiple):
            yield slice(at, at + block.n), block
            at += block.n

    def _again(self, rows: Integers, multiple: int) -> "DiskRows":
        """`_lying`, which keeps a copy of some of the rows, as steps on a batch ask for the same ones many times."""
        if rows.size == self.n:
            return self._lying(rows, multiple)
        if self._listed is None or not np.array_equal(self._listed[0], rows):
            self._listed = None  # whose memory is needed now
            lying = self._lying(rows, multiple)
            if not isinstance(lying.blocks[0], Held):
                return lying
            self._listed = rows.copy(), lying
        return self._listed[1]

    def _in_multiples(self, multiple: int) -> Iterator[MemoryRows]:
        """All rows, so many at a time that none of `multiple` rows are torn apart."""
        torn: list[MemoryRows] = []
        for _, block in self._sequence():
            low = min(-sum(part.n for part in torn) % multiple, block.n)
            if low:
                torn.append(_cut(block, 0, low))
                if sum(part.n for part in torn) < multiple:
                    continue
            if torn:
                yield self._joined(torn)
                torn = []
            high = low + (block.n - low) // multiple * multiple
            if high > low:
                yield _cut(block, low, high)
            if high < block.n:
                torn = [_cut(block, high, block.n)]
        if torn:
            yield self._joined(torn)

    def _joined(self, parts: list[MemoryRows]) -> MemoryRows:
        if len(parts) == 1:
            return parts[0]
        made, stack = parts[0], (partial(sp.vstack, format="csr") if self.kind.sparse else np.vstack)
        self._room_for(sum(part.n for part in parts), "one batch")
        if made._behind:  # centred, each with a centre of its own
            return SparseRows(sp.vstack([part.with_intercept(False).csr() for part in parts], format="csr")).with_intercept(
                self.intercept
            )
        return type(made)(stack([part.matrix for part in parts])).with_intercept(self.intercept)  # type: ignore[call-arg]

    def _room_for(self, count: int, what: str) -> None:
        size = self.nbytes * count // self.n
        if size > self.memory:
            raise ValueError(
                f"memory={self.memory}: {what}, {count} rows, would take {size} bytes in memory; use a larger memory or fewer rows"
            )

    # --- in an order

    def take(self, rows: Integers) -> MemoryRows:
        made = self._copied(np.asarray(rows))
        for make in self._made:
            made = make(made)
        return made

    def _copied(self, rows: Integers) -> MemoryRows:
        """These rows, in this order, before anything is made of them."""
        self._room_for(rows.size, "a copy of some rows")
        parts = list(self._by_block(rows))
        lengths = None
        if self.kind.sparse:
            lengths = np.empty(rows.size, dtype=np.int32)
            for k, local, targets in parts:
                lengths[targets] = np.diff(self.blocks[k].read().matrix.indptr)[local]
        room = self.kind.room(lengths, rows.size, self.d)
        plain = self._plain()
        for (_, local, targets), (_, block) in zip(parts, plain._sequence([k for k, _, _ in parts]), strict=True):
            put(block, _numbers(local), targets, room)
        return room

    def _by_block(self, rows: Integers) -> Iterator[tuple[int, Any, Any]]:
        """Block by block: its number, which of its rows are listed, an array or a slice, and their places in the list."""
        places = self._places(rows)
        if places is not None:
            for k, (low, high) in enumerate(pairwise(self.bounds)):
                yield k, slice(0, high - low), places[low:high]
            return
        rising = rows.size < 2 or bool((rows[1:] >= rows[:-1]).all())
        order = np.arange(rows.size) if rising else np.argsort(rows, kind="stable")
        listed = rows if rising else rows[order]
        cuts = np.searchsorted(listed, self.bounds)
        for k, (low, high) in enumerate(pairwise(cuts)):
            if high > low:
                yield k, listed[low:high] - self.bounds[k], order[low:high]

    def _places(self, rows: Integers) -> Any:
        """The place of each row in a permutation of all; None where it is none."""
        if rows.size != self.n:
            return None
        places = np.full(self.n, -1, dtype=np.int32 if self.n < 2**31 else np.int64)
        places[rows] = np.arange(self.n, dtype=places.dtype)
        return places if places.min() >= 0 else None

    def _plain(self) -> Self:
        """The rows without what is made of them."""
        plain = self.with_intercept(False)
        if not plain._made:
            return plain
        plain = plain if plain is not self else copy.copy(self)
        plain._made = ()
        return plain

    def _lying(self, order: Integers, multiple: int = 1) -> "DiskRows":
        """The rows of this order, in sequence: see above."""
        size = self.nbytes * order.size // self.n
        if size <= self.memory // _HELD:
            blocks: Sequence[Block] = [Held(self._copied(order))]
        else:
            share = max(min(self.memory // _BUCKET, _LARGEST_BUCKET), size // _MOST_BUCKETS)
            each = max(share * self.n // self.nbytes // multiple, 1) * multiple
            self._room_for(min(each, order.size), "one batch")
            starts = range(0, order.size, each)
            if self._near(order, each):
                plain = self._plain()
                blocks = [_Gathered(plain, order[start : start + each]) for start in starts]
            else:
                blocks = self._scattered(order, each)
        return self._like(blocks, order.size)

    def _like(self, blocks: Sequence[Block], n: int) -> "DiskRows":
        other = DiskRows(
            blocks,
            (n, self.d),
            self.entries * n // self.n,
            self.kind,
            memory=self.memory,
            scratch=self.scratch,
            mark=self.mark,
        )
        other._made, other.intercept = self._made, self.intercept
        return other

    def with_intercept(self, intercept: bool) -> Self:
        other = super().with_intercept(intercept)
        if other is not self:
            other._listed = None  # which has its own
        return other

    def _near(self, order: Integers, each: int) -> bool:
        """Whether to read so many rows at a time, where they are, is to read all of them few times."""
        segment = max(1, _SEGMENT * self.n // self.nbytes)
        most, read = _READ_AGAIN * (self.n // segment + 1), 0
        for start in range(0, order.size, each):
            seen = np.zeros(self.n // segment + 1, dtype=np.bool_)
            seen[order[start : start + each] // segment] = True
            read += int(np.count_nonzero(seen))
            if read > most:
                return False
        return True

    def _scattered(self, order: Integers, each: int) -> list[Bucket]:
        """Buckets of `each` positions."""
        self._look_for_scratch(order.size)
        count = -(-order.size // each)
        files, rows = Files(self.kind, self.d, self.scratch), np.minimum(each, order.size - each * np.arange(count))
        parts = list(self._by_block(order))
        entries = rows * self.d
        if self.kind.sparse:
            entries = np.zeros(count, dtype=np.int64)
            for k, local, targets in parts:
                lengths = np.diff(self.blocks[k].read().matrix.indptr)[local]
                entries += np.bincount(targets // each, lengths, count).astype(np.int64)
        firsts, starts = (np.append(0, np.cumsum(sizes)) for sizes in (rows, entries))
        row_at, entry_at = firsts[:-1].copy(), starts[:-1].copy()
        for (_, local, targets), (_, block) in zip(parts, self._plain()._sequence([k for k, _, _ in parts]), strict=True):
            bucket = (targets // each).astype(np.uint16)
            by_bucket = np.argsort(bucket, kind="stable")
            self._append(files, block, _numbers(local)[by_bucket], targets[by_bucket] % each, bucket[by_bucket], row_at, entry_at)
        return [Bucket(files, *map(int, where)) for where in zip(firsts, rows, starts, entries, strict=False)]

    def _append(self, files: Files, block: MemoryRows, local: Any, places: Any, bucket: Any, row_at: Any, entry_at: Any) -> None:
        """Rows of a block, sorted by bucket, to the ends of their buckets, which move on."""
        lengths = np.diff(block.matrix.indptr)[local] if self.kind.sparse else np.full(local.size, self.d)
        room = self.kind.room(lengths, local.size, self.d)
        put(block, local, np.arange(local.size), room)
        ends = np.append(0, np.cumsum(lengths, dtype=np.int64))
        present = np.flatnonzero(np.bincount(bucket, minlength=row_at.size))
        cuts = np.append(np.searchsorted(bucket, present), bucket.size)
        values = room.matrix.data if self.kind.sparse else room.matrix.reshape(-1)
        for k, low, high in zip(present, cuts[:-1], cuts[1:], strict=True):
            files.write("places", row_at[k], places[low:high])
            files.write("values", entry_at[k], values[ends[low] : ends[high]])
            if self.kind.sparse:
                files.write("lengths", row_at[k], lengths[low:high])
                files.write("indices", entry_at[k], room.matrix.indices[ends[low] : ends[high]])
            row_at[k] += high - low
            entry_at[k] += ends[high] - ends[low]

    def _look_for_scratch(self, count: int) -> None:
        size = self.nbytes * count // self.n + 8 * count
        try:
            free = shutil.disk_usage(self.scratch).free
        except OSError as error:
            raise ValueError(f"scratch={str(self.scratch)!r} cannot be used: {error}; name a folder that can") from None
        if size > free:
            raise ValueError(
                f"scratch={str(self.scratch)!r} has {free} bytes free, and this order needs {size}; name a folder on a larger "
                "disk, or use an order of blocks, which needs none"
            )

    def in_order(self, order: Integers) -> "DiskRows":
        return self._lying(order)

    def sdca_epoch(
        self, visit: Integers, labels: Vector, weights: Vector, squares: Vector, step: DualStep, x: Vector, state: DualState
    ) -> None:
        runs = self._runs(visit)
        if runs is None:
            super().sdca_epoch(visit, labels, weights, squares, step, x, state)
            return
        numbers, cuts = runs
        for (k, block), low, high in zip(self._sequence(numbers), cuts[:-1], cuts[1:], strict=True):
            own = slice(int(self.bounds[k]), int(self.bounds[k + 1]))
            block.sdca_epoch(visit[low:high] - own.start, labels[own], weights[own], squares[own], step, x, state.of(own))

    def _runs(self, visit: Integers) -> tuple[list[int], list[int]] | None:
        """The blocks that a visit goes through one after the other, and where it comes to each; None where it comes and goes."""
        numbers: list[int] = []
        cuts: list[int] = []
        for start in range(0, visit.size, 1 << 20):
            within = np.searchsorted(self.bounds, visit[start : start + (1 << 20)], side="right") - 1
            changes = np.flatnonzero(np.diff(within, prepend=numbers[-1] if numbers else -1))
            numbers += within[changes].tolist()
            cuts += (changes + start).tolist()
            if len(cuts) > _RUNS * len(self.blocks):
                return None
        return numbers, [*cuts, visit.size]

    # --- scaled

    def scale_columns(self, factors: Vector) -> "DiskRows":
        return self._making(lambda block: block.scale_columns(factors), factors)  # type: ignore[arg-type, return-value]

    def standardised(self, centre: Vector | None, size: Vector) -> "DiskRows":
        given = (size,) if centre is None else (centre, size)
        return self._making(lambda block: block.standardised(centre, size), *given)  # type: ignore[arg-type, return-value]

    def unit_rows(self) -> "DiskRows":
        return self._making(lambda block: block.unit_rows())  # type: ignore[arg-type, return-value]

    def _making(self, make: Make, *arrays: Vector) -> "DiskRows":
        digest = hashlib.sha256(f"{self.mark} {len(self._made)} {len(arrays)}".encode())
        for array in arrays:
            hash_array(digest, array)
        other = copy.copy(self)
        other._made, other.mark, other._listed = (*self._made, make), digest.hexdigest(), None
        return other

    # --- products in an order

    @property
    def rough(self) -> bool:  # type: ignore[override]
        return not self.kind.sparse

    def hessian_cost(self) -> float:
        if not self.kind.sparse:
            return super().hessian_cost()
        squares = total = 0.0
        for block in self.blocks:
            lengths = np.diff(block.read().matrix.indptr).astype(np.float64)
            squares, total = squares + float(lengths @ lengths), total + float(lengths.sum())
        return 0.5 * squares / max(total, 1.0)

    def blas_speed(self) -> float:
        return SPARSE_BLAS_SPEED if self.kind.sparse else super().blas_speed()

    def weighted(self, scale: Vector, tol: float = 0.0, *, plain: bool = True) -> Weighted:
        if self.nbytes > self.memory // _HELD:  # few rows may be long ones: a Gram matrix would want all of them at once
            return WeightedDisk(self, scale)
        return super().weighted(scale, tol, plain=plain)

    def _weighted(self, scale: Vector, tol: float) -> "WeightedDisk":
        return WeightedDisk(self, scale)


def _numbers(local: Any) -> Any:
    return np.arange(local.start, local.stop) if isinstance(local, slice) else local


def _cut(block: MemoryRows, low: int, high: int) -> MemoryRows:
    if (low, high) == (0, block.n):
        return block
    return block.take(slice(low, high)).with_intercept(block.intercept)  # type: ignore[arg-type]


@dataclass(frozen=True)
class WeightedDisk(Weighted):
    """The rows scale_i a_i."""

    rows: DiskRows
    scale: Vector

    @property
    def at_once(self) -> int:
        """Orders that are measured one after the other, by one thread, where not as many as there are cores fit into memory."""
        cores = os.cpu_count() or 1
        return 0 if cores * self.rows.nbytes <= self.rows.memory // _HELD else 1

    def arrange(self, order: Integers, batch_size: int) -> Any:
        rows = self.rows
        if batch_size >= rows.n:
            return ArrangedWhole(rows, self.scale, order)
        lying = rows._lying(order, batch_size)
        if isinstance(lying.blocks[0], Held):
            (_, block), *_ = lying._sequence()
            return WeightedMemory(block, self.scale[order]).arrange(block._everything, batch_size)
        return ArrangedDisk(lying, self.scale, order, batch_size)


class ArrangedWhole:
    """One batch, in which no order matters: rows stay where they lie."""

    def __init__(self, rows: DiskRows, scale: Vector, visit: Integers) -> None:
        self._rows, self._scale, self.visit = rows, scale, visit

    def ordered(self, v: Vector, out: Vector) -> None:
        pulled = np.zeros(self._rows.dimension)
        for place, block in self._rows._blocks():
            pulled += block.transposed(self._scale[place] * v[place])
        for place, block in self._rows._blocks():
            out[place] = self._scale[place] * block.margins(pulled)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        product, where_they_lie = np.empty_like(v), np.empty_like(v)
        where_they_lie[members] = v
        self.ordered(where_they_lie, product)
        out[:] = product[members]


class ArrangedDisk:
    """Rows that lie in their order. Vectors follow it too."""

    def __init__(self, lying: DiskRows, scale: Vector, order: Integers, batch_size: int) -> None:
        self._lying, self._scale, self._order, self._batch_size = lying, scale, order, batch_size

    @property
    def visit(self) -> Integers:
        return np.arange(self._order.size)

    def _blocks(self) -> Iterator[tuple[Any, Vector, MemoryRows]]:
        for place, block in self._lying._blocks():
            yield place, self._scale[self._order[place]], block

    def ordered(self, v: Vector, out: Vector) -> None:
        state = np.zeros((2, self._lying.dimension))
        for place, block, places in self._lying.loosely():
            u = self._scale[self._order[place]] * v[place]
            state[1] += block.transposed(u if places is None else u[places])
        shared: Any = None  # by blocks without a centre of their own
        for place, scale, block in self._blocks():
            where = (scale, v[place], place.start, self._batch_size)
            if block._behind:
                out[place] = block.ordered_pass(*where, state)
                continue
            shared = shared or block.ordered_state(state)
            out[place] = block.ordered_part(*where, *shared)

    def pieces(self) -> Iterator[tuple[Any, Any]]:
        """Whole batches in memory, some at a time: their positions, and their rows in that order."""
        for place, scale, block in self._blocks():
            yield place, WeightedMemory(block, scale).arrange(block._everything, self._batch_size)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        cuts = np.searchsorted(members[starts[:-1]], self._lying.bounds)
        for (place, piece), low, high in zip(self.pieces(), cuts[:-1], cuts[1:], strict=True):
            own = slice(starts[low], starts[high])
            piece.batched(members[own] - place.start, starts[low : high + 1] - starts[low], v[own], out[own])


def _between(rows: DiskRows, start: int, stop: int) -> MemoryRows:
    return rows.take(np.arange(start, stop))
