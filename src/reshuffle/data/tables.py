"""Tables with named columns: csv and tsv, plain or compressed, with no other library; parquet and feather, with pyarrow."""

import csv
import io
import re
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.data._files import Place, TooLargeError, delimiter_of, kind, opened, text_sample, with_point
from reshuffle.data._memory import refuse_too_large
from reshuffle.records import DAMAGE, in_short
from reshuffle.tables import Column, Table, Words
from reshuffle.tables.frames import arrow, table_of_arrow
from reshuffle.tables.table import is_number, listed

#: What stands for nothing in text.
MISSING = frozenset({"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "?"})

_GAPS: dict[str, Any] = dict.fromkeys(MISSING, np.nan)
_CELLS = 1 << 20  # that are text at a time
_FEW_COLUMNS = 2  # of which 0, 1 may well be a row
_SAMPLE = 25  # rows that tell a header from data
_LARGEST_EXACT = 2.0**53  # whole numbers above may be equal as float64 and differ in the file
_INDEX = re.compile(r"Unnamed: 0|__index_level_\d+__|")
_THOUSANDS = re.compile(r"\s*[-+]?\d{1,3}(\.\d{3})*\s*")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([ T].*)?")

#: From names, and whether they stand in the file, to the columns that are to be read as words.
ChooseWords = Callable[[list[str], bool], set[int]]


def read_csv(paths: list[Place], words: ChooseWords | None = None) -> Table:
    """The rows of all files. The first line is a header unless it looks like the others."""
    text = _Text(paths, words)
    again = text.read()
    if again:  # a column of numbers that had words further down
        text.words |= again
        text.read()
    return text.table()


class _Numbered(dict[str, int]):
    """Words to numbers, each new word to the next."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _Text:
    """The columns of text files, a block of rows at a time: numbers as long as they are numbers, else words."""

    def __init__(self, paths: list[Place], words: ChooseWords | None) -> None:
        self.paths, self.name = paths, names_of(paths)
        self.forms = [Form(path) for path in paths]
        first = self.forms[0]
        self.names = first.names
        for form in self.forms[1:]:
            same_columns(first.path, self.names, form.path, form.names)
        self.certain = words(self.names, first.header) if words is not None else set()
        self.words = set(self.certain)

    def read(self) -> set[int]:
        """Everything; and the columns that turned out to be words too late."""
        width = len(self.names)
        self.blocks: list[NDArray[np.float64]] = []
        self.codes: dict[int, list[NDArray[np.int64]]] = {k: [] for k in self.words}
        self.index = {k: _Numbered() for k in self.words}
        self.starts, late = [0], set()
        self.dotted: dict[int, tuple[str, int] | None] = {}  # columns whose points may stand between thousands: a cell, its row
        for form in self.forms:
            numbered = {name: k for k, name in enumerate(form.names, form.skipped)}
            order = [numbered[name] for name in self.names]
            numbers = None if self.codes else form.all_numbers()
            if numbers is not None:
                self.blocks.append(numbers[:, order])
            else:
                for rows in form.blocks(max(1, _CELLS // width)):
                    late |= self._take(rows, order)
            self.starts.append(sum(map(len, self.blocks)))
        return late

    def _take(self, rows: list[list[str]], order: list[int]) -> set[int]:
        late = set()
        numbers = np.full((len(rows), len(order)), np.nan)
        columns = list(zip(*rows, strict=True))
        for k, place in enumerate(order):
            cells = columns[place]
            found = None if k in self.codes else _numbers(cells)
            if found is not None:
                numbers[:, k] = found
                self._look_for_thousands(k, cells)
                continue
            if k not in self.codes:
                if self.blocks:
                    late.add(k)
                self.codes[k], self.index[k] = [], _Numbered()
            self.codes[k].append(np.fromiter(map(self.index[k].__getitem__, cells), np.int64, len(cells)))
        self.blocks.append(numbers)
        return late

    def _look_for_thousands(self, k: int, cells: tuple[str, ...]) -> None:
        """Whether the points in a column may all stand between thousands, where a comma can be the point in a number."""
        if self.forms[0].delimiter != ";" or self.dotted.get(k, "") is None:
            return
        if not all(_THOUSANDS.fullmatch(cell) or cell.strip() in MISSING for cell in cells):
            self.dotted[k] = None
        elif dotted := next((cell for cell in cells if "." in cell), None):
            self.dotted.setdefault(k, (dotted, sum(map(len, self.blocks)) + cells.index(dotted)))

    def _refuse_thousands(self, names: list[str]) -> None:
        """In the columns `names` a comma is the point."""
        found = next(((k, place) for k, place in self.dotted.items() if place is not None), None)
        if found is not None and names:
            k, (cell, row) = found
            raise ValueError(
                f"{self.name}, {self.place(row)}, column {self.names[k]!r}: {cell!r} may have a point between thousands, as "
                f"{names[0]!r} has a comma for a point; write all numbers with a point for a point and without thousands"
            )

    def table(self) -> Table:
        numbers = np.concatenate(self.blocks) if self.blocks else np.empty((0, len(self.names)))
        columns: list[Column] = [numbers[:, k] for k in range(len(self.names))]
        delimiter, commas = self.forms[0].delimiter, []
        for k, codes in self.codes.items():
            cells = [None if (word := cell.strip()) in MISSING else word for cell in self.index[k]]
            column = Words.of(np.concatenate(codes), cells)
            columns[k] = column if k in self.certain else _typed(column, delimiter)
            if not isinstance(columns[k], Words) and any("," in value for value in column.values):
                commas.append(self.names[k])
        self._refuse_thousands(commas)
        notes = [note for note in {form.note for form in self.forms} if note]
        return Table(self.name, self.names, columns, self.forms[0].header, self.place, notes)

    def place(self, row: int) -> str:
        file = int(np.searchsorted(self.starts, row, side="right")) - 1
        line = f"line {self.forms[file].line(row - self.starts[file])}"
        return line if len(self.paths) == 1 else f"{line} of {self.paths[file]}"


class Form:
    """How one file is laid out: delimiter, header, a column of row names to skip."""

    def __init__(self, path: Place) -> None:
        self.path, self.note, self.skipped = path, "", 0
        tabs = isinstance(path, Path) and kind(path) == ".tsv"
        self.delimiter = "\t" if tabs else delimiter_of(text_sample(path)) or ","
        with opened(path) as file, _text(file) as text:
            rows = [row for _, row in islice(self.cells(text), _SAMPLE)]
        if not rows:
            raise ValueError(f"{path} holds no samples")
        first, *body = rows
        if re.fullmatch(r"(?i)sep=.?", self.delimiter.join(first)):
            raise ValueError(f"{path}, line 1: {self.delimiter.join(first)!r} is for spreadsheet programs; remove that line first")
        self.header = _is_header(first, body, self.delimiter)
        self.names = [cell.strip() for cell in first] if self.header else [str(k) for k in range(len(first))]
        self.width = len(first)
        if self.header and body and all(len(row) == len(first) + 1 and row[-1].strip() for row in body):
            self.width, self.skipped, self.note = len(first) + 1, 1, "left out the names of the rows, which the header has none for"
        elif self.header and len(first) > 1 and _INDEX.fullmatch(self.names[0]):
            self.names, self.skipped, self.note = self.names[1:], 1, "left out the first column, which is an index"
        self.names = [name or str(k) for k, name in enumerate(self.names)]
        if len(self.names) > _FEW_COLUMNS and _counts([cell.strip() for cell in first][self.skipped :]):
            counted = f"its first line, 0, 1, 2 and so on, is taken for {'the names of columns' if self.header else 'a row'}"
            self.note = f"{self.note}; {counted}" if self.note else counted

    def all_numbers(self) -> NDArray[np.float64] | None:
        """The whole file by NumPy, which is many times faster but names no place: None where it meets anything but numbers."""
        try:
            with opened(self.path) as file, _text(file) as text, warnings.catch_warnings():
                warnings.filterwarnings("ignore", "loadtxt: input contained no data")
                form: dict[str, Any] = {"delimiter": self.delimiter, "quotechar": '"', "comments": None, "ndmin": 2}
                found = np.loadtxt(text, **form, skiprows=int(self.header))
        except TooLargeError:
            raise
        except ValueError:
            return None
        return found if found.shape[1] == self.width and not (np.abs(found) >= _LARGEST_EXACT).any() else None

    def blocks(self, size: int) -> Iterator[list[list[str]]]:
        """The rows, so many at a time."""
        with closing(self._body()) as body:
            while pairs := list(islice(body, size)):
                for line, row in pairs:
                    if len(row) != self.width:
                        raise ValueError(f"{self.path}, line {line}: {len(row)} columns where the first line has {self.width}")
                yield [row for _, row in pairs]

    def line(self, row: int) -> int:
        """The number of its last line."""
        with closing(self._body()) as body:
            return next(islice(body, row, None))[0]

    def _body(self) -> Generator[tuple[int, list[str]]]:
        with opened(self.path) as file, _text(file) as text:
            yield from islice(self.cells(text), int(self.header), None)

    def cells(self, text: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        """The rows that are not blank, each with the number of its last line."""
        reader = csv.reader(self._whole(text), delimiter=self.delimiter, strict=True)
        try:
            yield from ((reader.line_num, row) for row in reader if row)
        except csv.Error as error:
            raise ValueError(f"{self.path}, line {reader.line_num}: {error}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{self.path}, {self._undecoded()} is not UTF-8; save the file as UTF-8 first") from None

    def _whole(self, text: Iterable[str]) -> Iterator[str]:
        for number, line in enumerate(text, 1):
            if "\0" in line:
                raise ValueError(f"{self.path}, line {number}: holds a NUL byte, so it is not text or was torn in writing")
            yield line

    def _undecoded(self) -> str:
        with opened(self.path) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    return f"line {number}: {line[error.start : error.start + 8]!r}"
        return "its end"


def _text(file: Any) -> io.TextIOWrapper:
    return io.TextIOWrapper(file, encoding="utf-8-sig", newline="")


def _is_header(first: list[str], body: list[list[str]], delimiter: str) -> bool:
    """Names stand over columns of numbers; a line without any number is one of names too."""
    cells, *below = [[with_point(cell.strip(), delimiter) for cell in row] for row in (first, *body)]
    if not any(is_number(cell) for cell in cells):
        return any(cells)
    if cells[:1] == [""] and below and _counts(cells[1:]):
        return all(row[:1] != [""] for row in below)  # over the index of a frame whose columns have no names
    if _counts(cells) and len(cells) > _FEW_COLUMNS:
        return any("." in cell for row in below for cell in row)
    return any(
        cell not in MISSING and not is_number(cell) and all(other in MISSING or is_number(other) for other in column)
        for cell, column in zip(cells, zip(*below, strict=False), strict=False)
    )


def _counts(cells: list[str]) -> bool:
    """Whether these are 0, 1, 2 and so on, as frames name columns that nobody has named."""
    return bool(cells) and cells == [str(k) for k in range(len(cells))]


def _numbers(cells: tuple[str, ...]) -> NDArray[np.float64] | None:
    """The numbers in a column, NaN where they are missing; None where not all are numbers that float64 tells apart."""
    try:
        found = np.fromiter(map(float, map(_GAPS.get, cells, cells)), np.float64, len(cells))
    except ValueError:
        return None
    exact = not (np.abs(found) >= _LARGEST_EXACT).any()
    return found if exact and "_" not in "".join(cells) else None


def _typed(column: Words, delimiter: str) -> Column:
    """What the words of a column are, if all are of one kind: whole numbers, numbers, true and false, dates."""
    values = column.values
    if not values:
        return np.full(len(column), np.nan)
    if all(re.fullmatch(r"[-+]?\d+", value) for value in values):
        whole = [int(value) for value in values]
        for kind in (np.iinfo(np.int64), np.iinfo(np.uint64)):
            if kind.min <= min(whole) and max(whole) <= kind.max:
                return _filled(column, np.array(whole, dtype=kind.dtype))
        return column
    points = [with_point(value, delimiter) for value in values]
    if all(map(is_number, points)):
        return _filled(column, np.array([float(value) for value in points]))
    if {value.lower() for value in values} <= {"true", "false"}:
        return _filled(column, np.array([value.lower() == "true" for value in values]))
    dates = [_date(value) for value in values]
    if all(date is not None for date in dates):
        return _filled(column, np.array(dates, dtype="datetime64[us]"))
    return column


def _filled(column: Words, values: NDArray[Any]) -> NDArray[Any]:
    """The values of the words, with gaps where these are missing."""
    if column.codes.min() >= 0:
        return values[column.codes]
    if values.dtype.kind == "M":
        return np.append(values, np.datetime64("NaT"))[column.codes]
    return np.append(values.astype(np.float64), np.nan)[column.codes]


def _date(value: str) -> datetime | None:
    """A date as ISO 8601 writes it, in UTC where it names a zone."""
    try:
        found = datetime.fromisoformat(value) if _DATE.fullmatch(value) else None
    except ValueError:
        return None
    return found if found is None or found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)


def read_parquet(paths: list[Place]) -> Table:
    return _read_arrow(paths, "parquet", partitioning=None)  # the name of a folder is no column


def read_feather(paths: list[Place]) -> Table:
    return _read_arrow(paths, "feather")


def _read_arrow(paths: list[Place], what: str, **options: Any) -> Table:
    pa = arrow(f"reading {what}")
    read = import_module(f"pyarrow.{what}").read_table
    tables: list[Any] = []
    notes: list[str] = []
    for path in paths:
        if what == "parquet":  # whose columns may repeat one value a thousand million times in a few bytes
            held = _whole(path, what, lambda: import_module("pyarrow.parquet").read_metadata(path))  # noqa: B023 called at once
            rows, columns = held.num_rows, held.num_columns
            refuse_too_large(f"{path} holds {rows} x {columns} cells, which", 8 * rows * columns)
        table = _whole(path, what, lambda: _named(read(path, **options)))  # noqa: B023 called at once
        own, note = without_index(table.column_names)
        notes = [note] if note else notes
        table = table.select([k for k, name in enumerate(table.column_names) if name in own])  # names may repeat
        if tables:
            same_columns(paths[0], tables[0].column_names, path, table.column_names)
            table = table.select(tables[0].column_names)
        tables.append(table)
    try:
        whole = pa.concat_tables(tables, promote_options="permissive") if len(tables) > 1 else tables[0]
    except pa.ArrowException as error:
        raise ValueError(f"{names_of(paths)} hold columns of different types: {str(error).splitlines()[0]}") from None
    if not whole.num_rows or not whole.num_columns:
        raise ValueError(f"{names_of(paths)} holds no samples")
    return table_of_arrow(whole, names_of(paths), notes)


def without_index(names: list[str]) -> tuple[list[str], str]:
    """The names of the columns of a frame without those of its index, and what was left out."""
    index = [name for name in names if _INDEX.fullmatch(name)]
    return [
        name for name in names if name not in index
    ], f"left out {listed(index)}, which is the index of a frame" if index else ""


def _named(table: Any) -> Any:
    """The same, after a look at its names, which may be no text."""
    table.column_names  # noqa: B018
    return table


def _whole(path: Place, what: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (arrow(f"reading {what}").ArrowException, *DAMAGE) as error:
        raise ValueError(f"{path} is not a {what} file, or not all of one: {in_short(error)}") from None


def names_of(paths: Iterable[Any]) -> str:
    first, *rest = map(str, paths)
    return f"{first} and {len(rest)} more" if rest else first


def same_columns(first: Place, names: list[str], other: Place, found: list[str]) -> None:
    known, seen = set(names), set(found)
    lacking, new = [name for name in names if name not in seen], [name for name in found if name not in known]
    if lacking or new or len(names) != len(found):
        parts = [f"lacks {listed(lacking)}"] if lacking else []
        parts += [f"has {listed(new)} besides"] if new else []
        raise ValueError(f"{other} has other columns than {first}: it {' and '.join(parts) or 'repeats some'}")
