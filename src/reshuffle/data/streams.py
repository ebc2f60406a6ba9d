"""Files of every format as pieces of rows, one after the other, for data that memory has no room for.

A stream begins at any place that it has named before, so that a build can go on: a byte of text, a row of all else. Where pieces
end depends on the file alone. Text is read by one thread and parsed by several.
"""

import io
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from reshuffle.data import _parse, arrays, tables
from reshuffle.data._files import holds_table, kind, streamed
from reshuffle.data.svmlight import parsed
from reshuffle.records import DAMAGE, in_short
from reshuffle.rows.memory import DenseRows, SparseRows
from reshuffle.rows.structure import as_csr
from reshuffle.tables.columns import labels_and_weights
from reshuffle.tables.frames import arrow
from reshuffle.tables.table import is_number, refuse_repeated, refuse_weights, row_number

TEXT = 1 << 24  # bytes of text in a piece
CELLS = 1 << 20  # numbers in a piece of any other format
ZARR, H5AD = ".zarr", ".h5ad"
_UNSURE = (".txt",)
_NUMBERS_ONLY = "a store takes numbers only: words, dates and gaps become numbers where memory has room for the table (rs.load)"

T = TypeVar("T")
R = TypeVar("R")


class Mark(NamedTuple):
    """How far a file was read."""

    place: int  #: byte of its text, else row
    line: int = 0  #: of its text


class Piece(NamedTuple):
    """Some rows."""

    X: Any  #: CSR, indices of svmlight text as they stand there; or dense
    y: Any  #: None without labels
    weights: Any  #: None without any
    end: Mark  #: behind them
    read: int  #: bytes of the file up to there


@dataclass(frozen=True)
class Asked:
    """What a user said of the files."""

    target: str | None = None
    weight: str | None = None
    workers: int = 2
    first: Path = Path()  #: of the files
    columns: tuple[str, ...] = ()  #: that it has, if it is a table: those of the others are found by these names
    label: str = ""  #: which of them
    counts: str | None = None  #: which of them holds the weights

    def places(self, path: Path, names: list[str]) -> tuple[list[int], int, int | None]:
        """Where a table with these names has its features, in the order of the first file, its labels, and its weights."""
        tables.same_columns(self.first, list(self.columns), path, names)
        features = [names.index(name) for name in self.columns if name not in (self.label, self.counts)]
        return features, names.index(self.label), None if self.counts is None else names.index(self.counts)


def reader(path: Path) -> "Stream":
    """How the rows of a file are read from a place on."""
    ending = kind(path)
    if ending in _UNSURE and holds_table(path):
        ending = ".csv"
    return STREAMS.get(ending, svmlight)


def asked_of(first: Path, target: str | None, weight: str | None, workers: int) -> tuple[Asked, str]:
    """What holds for all files, by a look at the first; and what there is to say of its columns or arrays."""
    if reader(first) is csv:
        form = tables.Form(first)
        names, note = form.names, form.note
    elif reader(first) is parquet:
        with _parquet_file(first) as file:
            names, note = tables.without_index(file.schema_arrow.names)
    else:
        return Asked(target, weight, workers), arrays.unused_weights(first) if weight is None else ""
    refuse_repeated(str(first), names)
    label, counts = labels_and_weights(str(first), names, target, weight)
    return Asked(target, weight, workers, first, tuple(names), names[label], None if counts is None else names[counts]), note


def in_turn(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """function(item) of each, in their order, by threads that are a few items ahead."""
    coming: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for item in items:
            coming.append(pool.submit(function, item))
            if len(coming) > workers:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()


# --- text


class _Text(NamedTuple):
    """Some lines."""

    content: bytes
    line: int  #: lines before them
    end: Mark
    read: int


def _texts(path: Path, begin: Mark) -> Iterator[_Text]:
    with streamed(path) as (file, raw):
        if file is raw:
            file.seek(begin.place)
        else:
            left = begin.place
            while left and (skipped := file.read(min(left, TEXT))):
                left -= len(skipped)
        place, line = begin
        while content := file.read(TEXT):
            if content[-1:] != b"\n":
                content += file.readline()
            end = Mark(place + len(content), line + content.count(b"\n"))
            yield _Text(content, line, end, raw.tell())
            place, line = end


def svmlight(path: Path, begin: Mark, asked: Asked) -> Iterator[Piece]:
    for name, given in (("target", asked.target), ("weight", asked.weight)):
        if given is not None:
            raise ValueError(f"{name}={given!r}: {path} has no columns to choose from; only tables do (csv, tsv, parquet)")

    def parse(text: _Text) -> Piece:
        content = np.frombuffer(text.content, dtype=np.uint8)
        lines, entries = _parse.count(content)
        part = parsed(path, content, lines, entries, text.line)
        with np.errstate(over="ignore"):
            single = part.values.astype(np.float32)
        values = single if np.array_equal(single, part.values) else part.values
        width = int(part.indices.max()) + 1 if part.indices.size else 1
        X = sp.csr_array((values, part.indices, part.indptr), shape=(part.y.size, width))
        return Piece(X, part.y, None, text.end, text.read)

    return in_turn(parse, _texts(path, begin), asked.workers)


def csv(path: Path, begin: Mark, asked: Asked) -> Iterator[Piece]:
    form = tables.Form(path)
    features, target, weight = asked.places(path, form.names)
    for text in _texts(path, begin):
        rows = int(form.header and text.line == 0)
        try:
            lines = io.StringIO(text.content.decode("utf-8-sig"))
            table = np.loadtxt(lines, delimiter=form.delimiter, quotechar='"', comments=None, ndmin=2, skiprows=rows)
        except ValueError as error:
            raise ValueError(f"{path}, {_stray(form, text, rows) or in_short(error)}; {_NUMBERS_ONLY}") from None
        if table.shape[1] != form.width or not np.isfinite(table).all():
            raise ValueError(f"{path}, {_stray(form, text, rows)}; {_NUMBERS_ONLY}")
        table = table[:, form.skipped :]
        weights = None if weight is None else table[:, weight]
        _refuse_weights(path, weights, partial(_line_of, form, text, rows))
        yield Piece(table[:, features], table[:, target], weights, text.end, text.read)


def _line_of(form: tables.Form, text: _Text, header: int, row: int) -> str:
    lines = io.StringIO(text.content.decode("utf-8-sig"), newline="")
    number, _ = next(islice(form.cells(lines), header + row, None))
    return f"line {text.line + number}"


def _stray(form: tables.Form, text: _Text, header: int) -> str | None:
    """The first of these lines that is not as many finite numbers as the first line of the file has, and what is wrong with it."""
    try:
        lines = io.StringIO(text.content.decode("utf-8-sig"), newline="")
    except UnicodeDecodeError as error:
        before = text.content.count(b"\n", 0, error.start)
        stray = text.content[error.start : error.start + 8]
        return f"line {text.line + before + 1}: {stray!r} is not UTF-8; save the file as UTF-8 first"
    for number, row in islice(form.cells(lines), header, None):
        where = f"line {text.line + number}"
        if len(row) != form.width:
            return f"{where}: {len(row)} columns where the first line has {form.width}"
        for name, cell in zip(form.names, row[form.skipped :], strict=True):
            if not is_number(cell) or not isfinite(float(cell)):
                return f"{where}, column {name!r}: {cell!r} is no number to compute with"
    return None


# --- arrays and tables


def _finite(path: Path, X: Any, first: int) -> Any:
    """The same, which are the rows of the file from number `first` on; NaN and infinity are refused with their row."""
    (SparseRows(X) if sp.issparse(X) else DenseRows(X)).refuse_non_finite(str(path), first)
    return X


def _refuse_weights(path: Path, weights: Any, place: Callable[[int], str]) -> None:
    if weights is not None:
        refuse_weights(str(path), weights, place)


def _row(first: int, row: int) -> str:
    return row_number(first + row)


def _rows_a_piece(width: int) -> int:
    return max(1, CELLS // max(width, 1))


def parquet(path: Path, begin: Mark, asked: Asked) -> Iterator[Piece]:
    with _parquet_file(path) as file:
        names, _ = tables.without_index(file.schema_arrow.names)
        features, target, weight = asked.places(path, names)
        place, total = 0, max(file.metadata.num_rows, 1)
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if place + rows <= begin.place:
                place += rows
                continue
            for batch in file.iter_batches(_rows_a_piece(len(names)), row_groups=[group], columns=names):
                place += batch.num_rows
                if place <= begin.place:
                    continue
                columns = [_column(path, name, batch.column(name)) for name in names]
                first, weights = place - batch.num_rows, None if weight is None else columns[weight]
                X = _finite(path, np.column_stack([columns[k] for k in features]), first)
                _refuse_weights(path, weights, partial(_row, first))
                yield Piece(X, columns[target], weights, Mark(place), path.stat().st_size * place // total)


@contextmanager
def _parquet_file(path: Path) -> Iterator[Any]:
    pa = arrow("reading parquet")
    try:
        with import_module("pyarrow.parquet").ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, *DAMAGE) as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        raise ValueError(f"{path} is not a parquet file, or not all of one: {in_short(error)}") from None


def _column(path: Path, name: str, column: Any) -> Any:
    numbers = column.to_numpy(zero_copy_only=False)
    if column.null_count or numbers.dtype.kind not in "biuf":
        what = "has gaps" if column.null_count else f"holds {column.type}"
        raise ValueError(f"{path}: column {name!r} {what}; {_NUMBERS_ONLY}")
    return numbers


def npy(path: Path, begin: Mark, asked: Asked) -> Iterator[Piece]:
    return _of_matrix(path, *arrays.read_npy(path, asked.target), asked, begin)


def npz(path: Path, begin: Mark, asked: Asked) -> Iterator[Piece]:
    X, y = arrays.read_npz(path, asked.target)
    return _of_matrix(path, as_csr(X, str(path)) if sp.issparse(X) else X, y, asked, begin)


def _of_matrix(path: Path, X: Any, y: Any, asked: Asked, begin: Mark) -> Iterator[Piece]:
    if X.ndim != 2 or X.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds {X.ndim} dimensions of {X.dtype}; a store takes an n x d matrix of real numbers")
    n = X.shape[0]
    weights = None if asked.weight is None else arrays.read_weights(path, asked.weight)
    for what, given in (("labels", y), ("weights", weights)):
        if given is not None and given.shape != (n,):
            raise ValueError(f"{path}: the {what} have shape {given.shape} where X has {n} rows; there must be one for each")
    each = _rows_a_piece(X.nnz // max(n, 1) if sp.issparse(X) else X.shape[1])
    size = path.stat().st_size
    for start in range(begin.place, n, each):
        stop = min(start + each, n)
        yield _rows_of(path, X[start:stop], y, weights, start, size * stop // n)


def _rows_of(path: Path, part: Any, y: Any, weights: Any, first: int, read: int) -> Piece:
    """Rows of a file from number `first` on, with their share of its labels and weights."""
    rows = slice(first, first + part.shape[0])
    labels, own = (None if all_of is None else all_of[rows] for all_of in (y, weights))
    _refuse_weights(path, own, partial(_row, first))
    return Piece(_finite(path, part, first), labels, own, Mark(rows.stop), read)


def h5ad(path: Path, begin: Mark, asked: Asked) -> Iterator[Piece]:
    with _library("h5py", path).File(path, "r") as group:
        yield from _anndata(path, group, begin, asked)


def zarr(path: Path, begin: Mark, asked: Asked) -> Iterator[Piece]:
    yield from _anndata(path, _library("zarr", path).open_group(str(path), mode="r"), begin, asked)


def _library(name: str, path: Path) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"reading {path} needs {name}: pip install 'reshuffle[anndata]'") from None


def _anndata(path: Path, group: Any, begin: Mark, asked: Asked) -> Iterator[Piece]:
    """X of AnnData, CSR or dense, and the columns of obs that hold labels and weights."""
    try:
        X, obs = group["X"], group["obs"] if asked.target is not None or asked.weight is not None else {}
        y = None if asked.target is None else _column_of(path, obs, "target", asked.target)
        weights = None if asked.weight is None else _column_of(path, obs, "weight", asked.weight)
        sparse = not hasattr(X, "shape")
        if sparse and "csr" not in str(X.attrs.get("encoding-type", "")):
            raise ValueError(f"{path}: X is stored as {X.attrs.get('encoding-type')}, by columns; write it as CSR first")
        n, d = map(int, X.attrs["shape"] if sparse else X.shape)
        indptr = np.asarray(X["indptr"][:]) if sparse else None
        each = _rows_a_piece(int(indptr[-1]) // max(n, 1) if indptr is not None else d)
        size = max(path.stat().st_size, 1)
        for start in range(begin.place, n, each):
            stop = min(start + each, n)
            if indptr is None:
                part = np.asarray(X[start:stop])
            else:
                low, high = int(indptr[start]), int(indptr[stop])
                held = (np.asarray(X["data"][low:high]), np.asarray(X["indices"][low:high]), indptr[start : stop + 1] - low)
                part = as_csr(sp.csr_array(held, shape=(stop - start, d)), str(path))
            yield _rows_of(path, part, y, weights, start, size * stop // n)
    except DAMAGE as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        raise ValueError(f"{path} is not a file of AnnData, or not all of one: {in_short(error)}") from None


def _column_of(path: Path, obs: Any, argument: str, name: str) -> Any:
    if name not in obs:
        known = ", ".join(sorted(name for name in obs if name[0] != "_"))
        raise ValueError(f"{path}: {argument}={name!r} is no column of obs; it has {known}")
    column = obs[name]
    if hasattr(column, "shape"):
        return np.asarray(column[:])
    if argument == "weight":
        raise ValueError(f"{path}: weight={name!r} holds categories; name a column of numbers")
    return np.asarray(column["codes"][:])  # of a categorical column: which category


Stream = Callable[[Path, Mark, Asked], Iterator[Piece]]
STREAMS: dict[str, Stream] = {
    ".csv": csv,
    ".tsv": csv,
    ".parquet": parquet,
    ".npy": npy,
    ".npz": npz,
    H5AD: h5ad,
    ZARR: zarr,
}
