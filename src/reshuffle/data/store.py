"""Stores: data larger than memory, as a folder of row blocks on disk.

    criteo.store/
        store.json            what is inside: shape, types, rows and checksums of every block, the files it was made of
        000000/values.npy     numbers, in the smallest type that holds those of the block exactly; n x d where the data is dense
        000000/indices.npy    columns, 32 or 64 bit; sparse data only
        000000/indptr.npy     where each row begins; sparse data only
        000000/labels.npy     where there are labels
        000000/weights.npy    of rows, where these do not all count alike
        000001/...

Every array is a plain NumPy file that any program can map. `build.build_store` reads files of any size in one pass, with a bounded
memory, into a folder beside, `criteo.store.part`, whose `build.jsonl` gets a line for each block that is whole. A build that was
killed goes on after the last of them and makes the same store, byte for byte; when all is there the folder gets its name.

Where indices of svmlight text count from is known when the last line was read: blocks are written as if from 1 until an index 0
occurs, and those from before are then written anew.

`open` looks at the manifest and at the sizes of all files. The content of a block is compared with its checksum, and looked at for
what compiled code relies on, when it is read for the first time.
"""

import json
import os
import tempfile
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle import __version__
from reshuffle.data._files import JOURNAL, MANIFEST, partial_of
from reshuffle.data._memory import free_memory, in_words, size_of
from reshuffle.records import DAMAGE, checksum, in_short, read_json
from reshuffle.rows.blocks import Kind, sparse_rows
from reshuffle.rows.disk import SMALLEST_MEMORY, DiskRows
from reshuffle.rows.memory import DENSE_TYPES, DenseRows, MemoryRows, SparseRows
from reshuffle.rows.structure import as_csr

FORMAT = 1
VECTOR_TYPES = (np.int8, np.int16, np.int32, np.float32, np.float64)
_MOST = 1 << 60
_TYPES: dict[str, tuple[Any, ...]] = {  # that an array may have
    "values": DENSE_TYPES,
    "indices": (np.int32, np.int64),
    "indptr": (np.int32, np.int64),
    "labels": VECTOR_TYPES,
    "weights": VECTOR_TYPES,
}
_BESIDE = ("labels", "weights")  # which a store may have
_VECTORS = 10  # float64 that algorithms hold for each row or feature
_OTHERWISE = 1 << 30  # bytes of memory, where the system does not say what is free


@dataclass(frozen=True)
class Block:
    """What the manifest says of a block."""

    name: str
    rows: int
    entries: int
    width: int  #: features up to the last that occurs
    base: int | None  #: from where indices of svmlight text were taken to count
    arrays: dict[str, dict[str, Any]]  #: by name: dtype, bytes of the file, crc32 of the content
    source: int  #: number of the file in which it ends
    end: list[int]  #: where

    @property
    def kind(self) -> Kind:
        indices = self.arrays.get("indices")
        return Kind((None if indices is None else np.dtype(indices["dtype"]), np.dtype(self.arrays["values"]["dtype"])))


@dataclass(frozen=True)
class Manifest:
    """What is in a store."""

    n: int
    d: int
    entries: int
    sparse: bool
    zero_based: bool | None
    guessed: bool  #: whether that is a guess
    sources: list[dict[str, Any]]
    blocks: list[Block] = field(repr=False)
    format: int = FORMAT
    version: str = __version__

    def text(self) -> str:
        content = asdict(self)
        return json.dumps(content | {"checksum": checksum(content)})

    @classmethod
    def read(cls, place: Path) -> "Manifest":
        partial = place if (place / JOURNAL).exists() else partial_of(place)
        if not (place / MANIFEST).exists() and (partial / JOURNAL).exists():
            raise ValueError(f"{partial} is a store whose build has not ended; the command that began it goes on")
        try:
            content = dict(read_json((place / MANIFEST).read_bytes()))
            form = content.get("format")
            if form != FORMAT:
                raise ValueError(f"it has format {form!r}, and this version of reshuffle reads format {FORMAT}; build it anew")
            if content.pop("checksum", None) != checksum(content):
                raise ValueError("its content is not what its checksum says")
            content["blocks"] = [Block(**block) for block in content["blocks"]]
            manifest = cls(**content)
            if not manifest.consistent:
                raise ValueError("what it says of blocks does not fit together")
            return manifest
        except FileNotFoundError:
            raise FileNotFoundError(f"{str(place)!r} is no store: it has no {MANIFEST}; reshuffle store build makes one") from None
        except DAMAGE as error:
            raise ValueError(f"{place / MANIFEST} cannot be used: {in_short(error)}") from None

    @property
    def consistent(self) -> bool:
        """Whether blocks are what they are taken for, and add up to the whole."""
        known = {"values", "indices", "indptr"} if self.sparse else {"values"}
        known |= self.blocks[0].arrays.keys() & _BESIDE
        for number, block in enumerate(self.blocks):
            sizes = (block.rows, block.entries, block.width)
            if block.name != f"{number:06d}" or not all(type(size) is int and 0 <= size < _MOST for size in sizes):
                return False
            if block.arrays.keys() != known or any(
                np.dtype(facts["dtype"]) not in _TYPES[array] or type(facts["bytes"]) is not int
                for array, facts in block.arrays.items()
            ):
                return False
        totals = [sum(getattr(block, name) for block in self.blocks) for name in ("rows", "entries")]
        return (
            all(type(size) is int and 0 < size < _MOST for size in (self.n, self.d))
            and totals == [self.n, self.entries]
            and self.d >= max(block.width for block in self.blocks)
            and all(type(flag) is bool for flag in (self.sparse, self.guessed))
            and self.zero_based in (None, False, True)
            and all(type(source["bytes"]) is int for source in self.sources)
        )

    def __str__(self) -> str:
        kinds = sorted({f"{array} {np.dtype(facts['dtype'])}" for block in self.blocks for array, facts in block.arrays.items()})
        size = sum(facts["bytes"] for block in self.blocks for facts in block.arrays.values())
        base = "" if self.zero_based is None else f", indices counted from {0 if self.zero_based else 1}"
        guess = " (a guess)" if self.guessed else ""
        rows = [block.rows for block in self.blocks]
        lines = [
            f"rows         {self.n}",
            f"features     {self.d}",
            f"entries      {self.entries}, {'sparse' if self.sparse else 'dense'}",
            *(f"{name:<13}{'yes' if name in self.blocks[0].arrays else 'none'}" for name in _BESIDE),
            f"blocks       {len(rows)}, of {min(rows)} to {max(rows)} rows",
            f"types        {', '.join(kinds)}",
            f"size         {in_words(size)}",
            f"made of      {len(self.sources)} files, {in_words(sum(entry['bytes'] for entry in self.sources))}{base}{guess}",
            f"checksum     {checksum([block.arrays for block in self.blocks])[:16]}",
            f"made by      reshuffle {self.version}, format {self.format}",
        ]
        return "\n".join(lines)


def save(path: Path, array: Any) -> dict[str, Any]:
    with path.open("wb") as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
        size = file.tell()
    return {"dtype": array.dtype.str, "bytes": size, "crc32": crc(array)}


def crc(array: Any) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data.cast("B")) if array.size else 0


def open(path: str | Path, *, memory: str | int | None = None, scratch: str | Path | None = None) -> "StoredRows":
    """The rows of a store, for `Problem`, `constants`, `minimize`, `plan`, orders and estimators, with `labels` and `weights`.

    memory : bytes that algorithms may take, or words such as "2GiB"; half of what is free if not given.
    scratch : the folder for random orders that memory has no room for; the store itself, or a temporary folder where that cannot be
        written to.
    """
    place = Path(path).expanduser()
    manifest = Manifest.read(place)
    limit = size_of("memory", memory) if memory is not None else (free_memory() or 2 * _OTHERWISE) // 2
    needed = 8 * _VECTORS * (manifest.n + manifest.d) + SMALLEST_MEMORY
    if limit < needed:
        raise ValueError(
            f"{place} in memory={limit}: vectors with a number for each of {manifest.n} rows and {manifest.d} features need about "
            f"{in_words(needed)}; use memory={needed} or more"
        )
    if scratch is None:
        scratch = place if os.access(place, os.W_OK) else tempfile.gettempdir()
    elif not Path(scratch).is_dir():
        raise ValueError(f"scratch={str(scratch)!r} is not a folder; name one with room for a copy of the data")
    return StoredRows(manifest, check_blocks(place, manifest), memory=limit, scratch=Path(scratch))


def check_blocks(store: Path, manifest: Manifest, *, content: bool = False) -> list["StoredBlock"]:
    """The blocks of a store, all of which are there, each as large as it was written; and of that content, where asked."""
    seen: set[str] = set()
    blocks = [StoredBlock(store, block, manifest.d, seen) for block in manifest.blocks]
    for block in blocks:
        block.look()
        if content:
            block.read()
            for name in block.facts.arrays.keys() & _BESIDE:
                block.array(name)
    return blocks


@dataclass(frozen=True)
class StoredBlock:
    """A block of a store."""

    store: Path
    facts: Block
    d: int
    seen: set[str]  #: names of blocks whose content was compared with its checksum, shared by all

    @property
    def rows(self) -> int:
        return self.facts.rows

    def _path(self, array: str) -> Path:
        return self.store / self.facts.name / f"{array}.npy"

    def look(self) -> None:
        """Refuse files that are not there, or not whole."""
        for array, facts in self.facts.arrays.items():
            path = self._path(array)
            if not path.is_file():
                raise FileNotFoundError(f"{path} is missing; the store is not whole: build it anew")
            if path.stat().st_size != facts["bytes"]:
                raise ValueError(
                    f"{path} has {path.stat().st_size} bytes where {facts['bytes']} were written; build the store anew"
                )

    def array(self, name: str) -> Any:
        path, facts = self._path(name), self.facts.arrays[name]
        try:
            if hasattr(os, "posix_fadvise"):
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_WILLNEED)
            found = np.asarray(np.lib.format.open_memmap(path, mode="r"))
        except DAMAGE as error:
            raise ValueError(f"{path} cannot be read: {in_short(error)}; build the store anew") from None
        if f"{self.facts.name}/{name}" not in self.seen:
            if found.dtype.str != facts["dtype"] or crc(found) != facts["crc32"]:
                raise ValueError(f"{path} is damaged: its content is not what its checksum says; build the store anew")
            self.seen.add(f"{self.facts.name}/{name}")
        return found

    def read(self) -> MemoryRows:
        fresh = self.facts.name not in self.seen
        values = self.array("values")
        if not self.facts.kind.sparse:
            if values.shape != (self.rows, self.d):
                raise ValueError(f"{self._path('values')} has shape {values.shape} where {(self.rows, self.d)} is meant")
            rows: MemoryRows = DenseRows(values)
        else:
            indices, indptr = self.array("indices"), self.array("indptr")
            if not values.ndim == indices.ndim == indptr.ndim == 1 or values.size != indices.size or indptr.size != self.rows + 1:
                raise ValueError(f"{self.store / self.facts.name} holds arrays that do not fit together; build the store anew")
            X = sparse_rows(values, indices, indptr, self.d).matrix
            rows = SparseRows(as_csr(X, str(self.store / self.facts.name)) if fresh else X)
        if fresh:
            rows.refuse_non_finite(str(self.store / self.facts.name))
            self.seen.add(self.facts.name)
        return rows


class StoredRows(DiskRows):
    """The rows of a store."""

    def __init__(self, manifest: Manifest, blocks: list[StoredBlock], *, memory: int, scratch: Path) -> None:
        self.manifest = manifest
        super().__init__(
            blocks,
            (manifest.n, manifest.d),
            manifest.entries,
            Kind.common([block.facts.kind for block in blocks]),
            memory=memory,
            scratch=scratch,
            mark=checksum([[block.facts.arrays for block in blocks], manifest.n, manifest.d]),
        )

    @property
    def labels(self) -> Any:
        """Of every row; None where the files had none."""
        return self._beside("labels")

    @property
    def weights(self) -> Any:
        """Of every row, for `sample_weight` of a problem or a fit; None where all count alike."""
        return self._beside("weights")

    def _beside(self, name: str) -> Any:
        stored: Any = self.blocks
        if name not in stored[0].facts.arrays:
            return None
        parts = [block.array(name) for block in stored]
        for block, found in zip(stored, parts, strict=True):
            if found.shape != (block.rows,):
                raise ValueError(f"{block._path(name)} has shape {found.shape} where {(block.rows,)} is meant")
        return np.concatenate(parts)

    def widened(self, d: int) -> "StoredRows":
        """With features that do not occur behind the others."""
        stored: Any = self.blocks
        blocks = [replace(block, d=d) for block in stored]
        return StoredRows(replace(self.manifest, d=d), blocks, memory=self.memory, scratch=self.scratch)
