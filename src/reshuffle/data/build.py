"""`build_store`: files of any size into a store, in one pass, with a bounded memory; what was stopped goes on. `store` says how."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from reshuffle import __version__
from reshuffle.data import streams
from reshuffle.data._files import JOURNAL, MANIFEST, expand, is_store, partial_of
from reshuffle.data.store import FORMAT, VECTOR_TYPES, Block, Manifest, save
from reshuffle.data.streams import Asked, Mark, Piece
from reshuffle.records import checksum, held, read_json, write_file
from reshuffle.rows.blocks import sparse_rows
from reshuffle.rows.memory import DENSE_TYPES
from reshuffle.tables.table import no_row_counts
from reshuffle.validation import whole_number

BLOCK = 1 << 26  #: bytes from which on a block is full


def build_store(
    path: str | Path,
    sources: str | Path | Sequence[str | Path],
    *,
    target: str | None = None,
    weight: str | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    progress: Callable[[int, int], None] | None = None,
    say: Callable[[str], None] | None = None,
) -> "Manifest":
    """Make a store of files, in one pass. A build that was stopped goes on when it is called again with the same arguments.

    path : the folder to make.
    sources : files, folders or patterns: svmlight text (.gz, .bz2, .xz too), csv and tsv of numbers, .parquet, .npy, .npz, and
        AnnData's .h5ad and .zarr.
    target : csv, parquet: the column with the labels, by name or number; the last if not given. npy, npz: the .npy file with the
        labels. AnnData: the column of obs.
    weight : where a weight for each row stands, if any: csv, parquet: a column; npz: an array; npy, npz: a .npy file; AnnData: a
        column of obs. svmlight text has none. Without, all rows count alike.
    n_features : svmlight, sparse npz: d, where the files do not happen to use their last features.
    zero_based : svmlight: whether indices count from 0 or from 1. If not given, from 0 where an index 0 occurs.
    progress : called with bytes that were read, and all there are.
    say : called with a line for everything that was guessed or settled.
    """
    place, files = Path(path).expanduser(), _sources(sources)
    if n_features is not None:
        n_features = whole_number("n_features", n_features, 1)
    settings = {
        "store": FORMAT,
        "reshuffle": __version__,
        "sources": [{"name": str(file), "bytes": _size(file)} for file in files],
        "changed": [file.stat().st_mtime_ns for file in files],
        "target": target,
        "weight": weight,
        "n_features": n_features,
        "zero_based": zero_based,
    }
    with held("store", place):
        if not place.exists():
            _build(place, files, settings, progress or (lambda done, total: None), say or (lambda line: None))
        elif not (place / JOURNAL).exists():
            what = "is a store already" if is_store(place) else "exists"
            raise ValueError(f"{str(path)!r} {what}; choose another name, or remove it first")
        else:
            _begun(place, settings)  # a build that was killed at its very end
        (place / JOURNAL).unlink(missing_ok=True)  # the last that tells a store from one that is being made
    return Manifest.read(place)


def _build(place: Path, files: list[Path], settings: dict[str, Any], progress: Any, say: Any) -> None:
    folder = partial_of(place)
    try:
        asked, note = streams.asked_of(files[0], settings["target"], settings["weight"], _workers())
        if note:
            say(f"{files[0]}: {note}")
        build = _Build(folder, files, settings, asked)
        try:
            build.read(progress)
            build.finish(say)
        except ValueError:
            if not build.blocks:  # there is nothing to go on with
                shutil.rmtree(folder, ignore_errors=True)
            raise
        os.replace(folder, place)
    except OSError as error:
        if error.errno is None:
            raise
        remedy = "the same command goes on after the last whole block" if (folder / JOURNAL).exists() else "choose another place"
        raise OSError(f"{error.filename or folder}: {error.strerror}; {remedy}") from None


def _workers() -> int:
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, 8)


def _sources(sources: str | Path | Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for source in [sources] if isinstance(sources, str | Path) else sources:
        place = Path(source).expanduser()
        files = [place] if place.suffix == streams.ZARR and place.is_dir() else expand(place)
        if not files:
            raise FileNotFoundError(f"there is no file {str(source)!r}")
        found += files
    if not found:
        raise ValueError("sources is empty; name files to make a store of")
    for file in found:
        if streams.reader(file) is not streams.reader(found[0]):
            raise ValueError(f"{found[0]} and {file} are files of different kinds; name those of one kind")
    return found


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


class _Build:
    """A store that is being made: the folder beside, its journal, the blocks that are whole."""

    def __init__(self, folder: Path, files: list[Path], settings: dict[str, Any], asked: Asked) -> None:
        self.folder, self.files, self.settings, self.asked = folder, files, settings, asked
        self.blocks: list[Block] = []
        if self._begin_or_go_on() and self.settings["zero_based"] is None:
            self.zero = any(block.base == 0 for block in self.blocks)
        else:
            self.zero = bool(self.settings["zero_based"])

    def _begin_or_go_on(self) -> bool:
        lines = _begun(self.folder, self.settings)
        if len(lines) < 2 and lines != [self.settings]:  # no block was whole
            if self.folder.exists() and any(self.folder.iterdir()) and not (self.folder / JOURNAL).exists():
                raise ValueError(f"{str(self.folder)!r} is no store that was begun; move it, or choose another name for the store")
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            self._append(self.settings)
            return False
        for line in lines[1:]:
            block = Block(**line)
            at = int(block.name)
            self.blocks[at : at + 1] = [block]
        return True

    def _append(self, line: dict[str, Any]) -> None:
        with (self.folder / JOURNAL).open("ab") as file:
            file.write(_written(line))

    def read(self, progress: Callable[[int, int], None]) -> None:
        """The files, from behind the last whole block on."""
        sizes = [entry["bytes"] for entry in self.settings["sources"]]
        total, waiting, size = sum(sizes), list[Piece](), 0
        first, begin = (self.blocks[-1].source, Mark(*self.blocks[-1].end)) if self.blocks else (0, Mark(0))
        last = first
        for number in range(first, len(self.files)):
            any_rows = begin != Mark(0)
            for piece in streams.reader(self.files[number])(self.files[number], begin, self.asked):
                any_rows |= piece.X.shape[0] > 0
                if piece.X.shape[0]:
                    waiting.append(piece)
                    size += _bytes(piece.X)
                    last = number
                if size >= BLOCK:
                    self._write(waiting, last)
                    waiting, size = [], 0
                progress(sum(sizes[:number]) + min(piece.read, sizes[number]), total)
            if not any_rows:
                raise ValueError(f"{self.files[number]} holds no samples")
            begin = Mark(0)
        if waiting:
            self._write(waiting, last)

    def _write(self, pieces: list[Piece], source: int) -> None:
        name = f"{len(self.blocks):06d}"
        path = self.files[source]
        indexed = streams.reader(path) is streams.svmlight
        X = self._stacked([piece.X for piece in pieces], path)
        labels = [piece.y for piece in pieces]
        with_labels = labels[0] is not None
        before = self.blocks[0].arrays if self.blocks else None
        if any((y is not None) != with_labels for y in labels) or (before is not None and ("labels" in before) != with_labels):
            raise ValueError(f"{path}: some of the files have labels and some have none; name those of one kind")
        if before is not None and ("indices" in before) != sp.issparse(X):
            raise ValueError(f"{path}: some of the files are sparse and some are dense; name those of one kind")
        if before is not None and not sp.issparse(X) and X.shape[1] != self.blocks[0].width:
            raise ValueError(f"{path} has {X.shape[1]} features where {self.files[0]} has {self.blocks[0].width}")
        base = self._base(X, path) if indexed else None
        y = np.concatenate(labels) if with_labels else None
        weights = None if pieces[0].weights is None else np.concatenate([piece.weights for piece in pieces])
        arrays = _arrays(X, None if y is None else _checked_labels(y, path), weights)
        place = self.folder / name
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        facts = {array: save(place / f"{array}.npy", content) for array, content in arrays.items()}
        entries = int(X.nnz) if sp.issparse(X) else X.size
        width = int(X.indices.max()) + 1 if indexed and X.nnz else 0 if indexed else X.shape[1]
        block = Block(name, X.shape[0], entries, width, base, facts, source, list(pieces[-1].end))
        self._append(asdict(block))
        self.blocks.append(block)

    def _stacked(self, parts: list[Any], path: Path) -> Any:
        if not sp.issparse(parts[0]):
            widths = {part.shape[1] for part in parts}
            if len(widths) > 1 or any(sp.issparse(part) for part in parts):
                raise ValueError(f"{path}: files of different widths or kinds, {sorted(widths)} features; name those of one kind")
            X = parts[0] if len(parts) == 1 else np.concatenate(parts)
            return X.view(np.uint8) if X.dtype == np.bool_ else X
        width = max(part.shape[1] for part in parts)
        values = np.concatenate([part.data for part in parts])
        indices = np.concatenate([part.indices for part in parts])
        lengths = np.concatenate([np.diff(part.indptr) for part in parts])
        return sparse_rows(values, indices, np.append(0, np.cumsum(lengths, dtype=np.int64)), width).matrix

    def _base(self, X: Any, path: Path) -> int:
        """From where the indices count, as far as is known; they count from 0 afterwards."""
        asked = self.settings["zero_based"]
        least = int(X.indices.min()) if X.nnz else 1
        if least == 0 and asked is False:
            raise ValueError(
                f"{path} holds an index 0 and is to be read as counting from 1; zero_based=True (--zero-based) counts from 0"
            )
        self.zero = self.zero or (least == 0 and asked is None)
        if not self.zero:
            X.indices[:] -= 1
        return 0 if self.zero else 1

    def finish(self, say: Callable[[str], None]) -> None:
        if not self.blocks:
            raise ValueError(f"{self.files[0]} holds no samples")
        if "weights" in self.blocks[0].arrays and not any(self._counts(block) for block in self.blocks):
            raise ValueError(no_row_counts(self.settings["weight"], str(self.files[0])))
        zero = None if self.blocks[0].base is None else self.zero
        if zero:
            for number, block in enumerate(self.blocks):
                self._recount(number, block)
        d = max(block.width for block in self.blocks)
        asked = self.settings["n_features"]
        if asked is not None and asked < d:
            raise ValueError(f"n_features={asked}, but the files use {d} features; leave it out or use {d} or more")
        guessed = zero is False and self.settings["zero_based"] is None
        if guessed:
            say("no index is 0, so they are taken to count from 1; zero_based=True (--zero-based) if they count from 0")
        widths = self._widths()
        if len(set(widths.values())) > 1:
            narrow = min(widths, key=lambda number: widths[number])
            say(f"{self.files[narrow]} uses {widths[narrow]} features and others up to {d}; the store has {max(asked or d, 1)}")
        manifest = Manifest(
            n=sum(block.rows for block in self.blocks),
            d=max(asked or d, 1),
            entries=sum(block.entries for block in self.blocks),
            sparse=self.blocks[0].kind.sparse,
            zero_based=zero,
            guessed=guessed,
            sources=self.settings["sources"],
            blocks=self.blocks,
        )
        write_file(self.folder / MANIFEST, manifest.text())

    def _counts(self, block: Block) -> bool:
        """Whether one of its rows does."""
        return bool(np.load(self.folder / block.name / "weights.npy", mmap_mode="r").any())

    def _widths(self) -> dict[int, int]:
        """Features of each file, as far as blocks that end there tell."""
        widths: dict[int, int] = {}
        for block in self.blocks:
            widths[block.source] = max(widths.get(block.source, 0), block.width)
        return widths

    def _recount(self, number: int, block: Block) -> None:
        """A block whose indices were taken to count from 1, and count from 0."""
        place = self.folder / block.name
        fresh = place / "indices.new"
        if block.base == 1:
            indices = np.load(place / "indices.npy", mmap_mode="r") + 1
            facts = save(fresh, indices.astype(_index_type(block.width + 1), copy=False))
            block = Block(**asdict(block) | {"base": 0, "width": block.width + 1, "arrays": block.arrays | {"indices": facts}})
            self._append(asdict(block))
            self.blocks[number] = block
        if fresh.exists():  # its line is written, so that a build which is killed here takes it the next time
            os.replace(fresh, place / "indices.npy")


def _begun(folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The journal of a build up to the first line that is torn or damaged, which is cut off with all that follows it. One of other
    settings that has a block is refused.
    """
    journal = folder / JOURNAL
    content = journal.read_bytes() if journal.exists() else b""
    found, size = list[dict[str, Any]](), 0
    for text in content.splitlines(keepends=True):
        line = _line(text)
        if line is None:
            break
        found.append(line)
        size += len(text)
    for name in settings if len(found) > 1 else ():
        if name == "changed":
            times = zip(settings["sources"], found[0].get(name, ()), settings[name], strict=False)
            if stale := next((file["name"] for file, before, now in times if before != now), None):
                raise ValueError(f"{stale} has changed since {folder} was begun; remove {folder} to begin anew")
        elif found[0].get(name) != settings[name]:
            raise ValueError(
                f"{folder} was begun with other settings: {name} is {found[0].get(name)!r} there and {settings[name]!r} now; "
                "go on with the same, or remove it to begin anew"
            )
    if 0 < size < len(content):
        os.truncate(journal, size)  # never written anew: a build that is killed meanwhile would lose what is whole
    return found


def _line(text: bytes) -> dict[str, Any] | None:
    """What a line of the journal says; None where it is torn or damaged."""
    try:
        line: dict[str, Any] = read_json(text)
        return line if text.endswith(b"\n") and line.pop("checksum") == checksum(line) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _written(line: dict[str, Any]) -> bytes:
    return json.dumps(line | {"checksum": checksum(line)}).encode() + b"\n"


def _bytes(X: Any) -> int:
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) if sp.issparse(X) else int(X.nbytes)


def _index_type(width: int) -> Any:
    return np.dtype(np.int32 if width < 2**31 else np.int64)


def _arrays(X: Any, y: Any, weights: Any) -> dict[str, Any]:
    """In the smallest types that hold them exactly."""
    if not sp.issparse(X):
        arrays = {"values": _smallest(X, DENSE_TYPES)}
    else:
        values = _smallest(X.data, (np.float32, np.float64))
        arrays = {"values": values, "indices": X.indices.astype(_index_type(X.shape[1]), copy=False)}
        arrays["indptr"] = X.indptr.astype(_index_type(int(X.indptr[-1])), copy=False)
    beside = {"labels": y, "weights": weights}
    return arrays | {name: _smallest(given, VECTOR_TYPES) for name, given in beside.items() if given is not None}


def _smallest(values: Any, types: Iterable[Any]) -> Any:
    """The same numbers in the first of these types that has all of them, or in float64."""
    sample = values[:1000]
    for kind in types:
        with np.errstate(all="ignore"):
            if np.array_equal(sample.astype(kind), sample):
                found = values.astype(kind, copy=False)
                if np.array_equal(found, values):
                    return np.ascontiguousarray(found)
    return np.ascontiguousarray(values, dtype=np.float64)


def _checked_labels(y: Any, path: Path) -> Any:
    if y.dtype.kind not in "biuf" or not np.isfinite(y).all():
        what = f"dtype {y.dtype}" if y.dtype.kind not in "biuf" else "NaN or infinity"
        raise ValueError(f"{path}: the labels have {what}; a store takes numbers")
    return y
