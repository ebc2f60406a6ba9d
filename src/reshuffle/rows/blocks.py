"""What rows on disk are made of: blocks of rows, one after the other, and the buckets into which a random order is scattered."""

import tempfile
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from reshuffle.rows import kernels
from reshuffle.rows.memory import DenseRows, MemoryRows, SparseRows


class Block(Protocol):
    """Some rows, one after the other."""

    @property
    def rows(self) -> int: ...

    def read(self) -> MemoryRows:
        """In memory or mapped; called by a thread."""


class Kind(tuple[Any, Any]):
    """Types of indices (None of dense rows) and values."""

    @property
    def sparse(self) -> bool:
        return self[0] is not None

    @classmethod
    def common(cls, kinds: Sequence["Kind"]) -> "Kind":
        """One that holds the numbers of all exactly."""
        values = {kind[1] for kind in kinds}
        value = values.pop() if len(values) == 1 else np.dtype(np.float64 if np.dtype(np.float64) in values else np.float32)
        return cls((np.result_type(*(kind[0] for kind in kinds)) if kinds[0].sparse else None, value))

    def room(self, lengths: Any, n: int, d: int) -> MemoryRows:
        """Rows of these lengths with nothing in them yet."""
        if not self.sparse:
            return DenseRows(np.empty((n, d), self[1]))
        indptr = np.zeros(n + 1, dtype=np.int64)
        np.cumsum(lengths, out=indptr[1:])
        held = int(indptr[-1])
        return sparse_rows(np.empty(held, self[1]), np.empty(held, self[0]), indptr, d)


def sparse_rows(values: Any, indices: Any, indptr: Any, d: int) -> SparseRows:
    """Of arrays that are known to fit together; SciPy would copy indices of another type than indptr."""
    if indptr.dtype != indices.dtype and int(indptr[-1]) <= np.iinfo(indices.dtype).max:
        indptr = indptr.astype(indices.dtype)
    X = sp.csr_array((values, indices, indptr), shape=(indptr.size - 1, d))
    X.has_canonical_format = True
    return SparseRows(X)


def put(block: MemoryRows, rows: Any, targets: Any, room: MemoryRows) -> None:
    """Copy these rows of a block to their places."""
    if isinstance(block, SparseRows):
        kernels.place(block.stored, rows, targets, *room.stored)
    else:
        room.matrix[targets] = block.matrix[rows]


@dataclass(frozen=True)
class Held:
    """Rows that are in memory."""

    part: MemoryRows

    @property
    def rows(self) -> int:
        return self.part.n

    def read(self) -> MemoryRows:
        return self.part


@dataclass(frozen=True)
class Bucket:
    """Rows as they were appended, in files without a name, and the place of each."""

    files: "Files"
    first: int  #: row of the files
    rows: int
    start: int  #: entry of the files
    entries: int

    def loose(self) -> tuple[MemoryRows, Any]:
        """The rows as they were appended, mapped, and the place of each."""
        files, row, entry = self.files, (self.first, self.rows), (self.start, self.entries)
        values, places = files.mapped("values", *entry), files.mapped("places", *row)
        if not files.kind.sparse:
            return DenseRows(values.reshape(self.rows, files.d)), places
        indptr = np.append(0, np.cumsum(files.mapped("lengths", *row), dtype=np.int64))
        return sparse_rows(values, files.mapped("indices", *entry), indptr, files.d), places

    def read(self) -> MemoryRows:
        found, places = self.loose()
        lengths = None
        if isinstance(found, SparseRows):
            lengths = np.empty(self.rows, dtype=np.int32)
            lengths[places] = np.diff(found.matrix.indptr)
        room = self.files.kind.room(lengths, self.rows, self.files.d)
        put(found, np.arange(self.rows), places, room)
        return room


class Files:
    """A file without a name for each array of the buckets."""

    def __init__(self, kind: Kind, d: int, folder: Path) -> None:
        self.kind, self.d = kind, d
        types = {"values": kind[1], "places": np.dtype(np.int32)}
        self.types = types | ({"indices": kind[0], "lengths": np.dtype(np.int32)} if kind.sparse else {})
        self._files: dict[str, Any] = {}
        with ExitStack() as stack:
            for name in self.types:
                self._files[name] = stack.enter_context(tempfile.TemporaryFile(dir=folder, buffering=0))
            weakref.finalize(self, stack.pop_all().close)

    def mapped(self, name: str, start: int, count: int) -> Any:
        if count == 0:
            return np.empty(0, self.types[name])
        kind = self.types[name]
        return np.asarray(np.memmap(self._files[name], kind, mode="r", offset=start * kind.itemsize, shape=(count,)))

    def write(self, name: str, start: int, part: Any) -> None:
        file, kind = self._files[name], self.types[name]
        file.seek(start * kind.itemsize)
        left = np.ascontiguousarray(part, dtype=kind).data.cast("B")
        while left:
            left = left[file.write(left) :]
