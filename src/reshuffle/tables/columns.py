"""From the columns of a table to those of a matrix, the same way for training and for prediction.

A number stays a number, and true and false are 1 and 0. Words become a column of zeros and ones for each, in sorted order; a
missing word is a word of its own, and rare ones share a column. A missing number becomes the mean, and a column of zeros and ones
says where. Dates become days since the first. `Columns` is all that has to be kept of this, in what JSON can hold.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.tables.table import Column, Table, Words, is_number, listed, missing
from reshuffle.vectors import Vector

# A word is rare in fewer than 10 rows, or than 1 row in 100 of a small table: what so few rows say of it would be chance.
_RARE_ROWS, _RARE_SHARE = 10, 0.01
_DATE = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}( .*)?")  # in an order of day, month and year that is not known

Name = str | int | None  #: of a column, or its number
Beside = tuple[int | None, int | None]
Place = Callable[[int], str]
Encoded = Iterator[tuple[int, NDArray[Any]]]


@dataclass(frozen=True)
class Numbers:
    """A column of numbers."""

    name: str
    mean: float  #: what stands for a missing one
    missing: bool  #: whether a column says where they are missing

    @property
    def names(self) -> list[str]:
        return [self.name, *([f"{self.name}=(missing)"] if self.missing else [])]

    @classmethod
    def fit(cls, name: str, column: Column, place: Place) -> "Numbers":
        values = _numbers(column, place)
        absent = np.isnan(values)
        known = values[~absent]
        with np.errstate(over="ignore"):
            mean = known.mean()
            if np.isinf(mean):  # their sum overflows; that of shares does by rounding at most
                mean = np.clip((known / known.size).sum(), known.min(), known.max())
        return cls(name, float(mean), bool(absent.any()))

    def encode(self, column: Column, place: Place) -> tuple[list[Vector], int]:
        """The columns of the matrix, and how many rows hold what training did not."""
        values = self._values(column, place)
        absent = np.isnan(values)
        filled = np.where(absent, self.mean, values)
        return [filled, *([absent.astype(np.float64)] if self.missing else [])], 0 if self.missing else int(absent.sum())

    def _values(self, column: Column, place: Place) -> Vector:
        return _numbers(column, place)


@dataclass(frozen=True)
class Dates(Numbers):
    """A column of dates, as days since the first."""

    first: str

    @classmethod
    def fit(cls, name: str, column: Column, place: Place) -> "Dates":
        assert not isinstance(column, Words)
        first = str(np.nanmin(column).astype("datetime64[us]"))
        days = _days(column, first, place)
        return cls(name, float(np.nanmean(days)), bool(np.isnan(days).any()), first)

    def _values(self, column: Column, place: Place) -> Vector:
        return _days(column, self.first, place)


@dataclass(frozen=True)
class Categories:
    """A column of words."""

    name: str
    values: tuple[str, ...]  #: those that have a column, sorted
    missing: bool  #: whether missing ones have a column
    other: bool  #: whether rare ones have one

    @property
    def names(self) -> list[str]:
        rest = [*(["(missing)"] if self.missing else []), *(["(other)"] if self.other else [])]
        return [f"{self.name}={value}" for value in (*self.values, *rest)]

    @classmethod
    def fit(cls, name: str, words: Words) -> "Categories | None":
        """None where every word is rare, so that nothing could be learnt of any."""
        counts = np.bincount(words.codes + 1, minlength=len(words.values) + 1)  # the first is that of missing ones
        rare = (counts > 0) & (counts < min(_RARE_ROWS, _RARE_SHARE * len(words)))
        kept = tuple(word for word, is_rare in zip(words.values, rare[1:], strict=True) if not is_rare)
        own = bool(counts[0] and not rare[0])
        return cls(name, kept, own, bool(rare.any())) if kept or own else None

    def encode(self, column: Column, place: Place) -> tuple[NDArray[np.int64], int]:
        """The number of the column that is 1 in each row, -1 where none is, and how many rows those are: what training did not
        know counts as rare where anything did.
        """
        words = column if isinstance(column, Words) else _as_words(column)
        numbers = {word: k for k, word in enumerate(self.values)}
        other = len(self.names) - 1 if self.other else -1
        absent = len(self.values) if self.missing else other
        codes = np.array([*(numbers.get(word, other) for word in words.values), absent], dtype=np.int64)[words.codes]
        return codes, int(np.count_nonzero(codes < 0))


Input = Numbers | Dates | Categories
_KINDS: dict[str, Any] = {"numbers": Numbers, "dates": Dates, "words": Categories}


@dataclass(frozen=True)
class Columns:
    """What was learnt of a table's columns: `fit` makes it, `transform` makes a matrix of any table that has them."""

    inputs: tuple[Input, ...]
    target: str | None = None  #: the column of the labels
    weight: str | None = None  #: that of the rows' weights
    dropped: tuple[str, ...] = ()  #: columns that nothing could be learnt from
    header: bool = True  #: whether the names are the table's own, or only the numbers of its columns
    notes: tuple[str, ...] = field(default=(), compare=False)  #: what was done, a line each; of the fit, not of the columns

    @classmethod
    def fit(cls, table: Table, target: int | None = None, weight: int | None = None) -> "Columns":
        """target : the column of the labels, by number.
        weight : that of the rows' weights.
        """
        inputs: list[Input] = []
        dropped: dict[str, list[str]] = {"that are empty": [], "in which all words differ": [], "in which every word is rare": []}
        for k, (name, column) in enumerate(zip(table.names, table.columns, strict=True)):
            if k in (target, weight):
                continue
            place = _place(table, name)
            absent = missing(column)
            if absent.all():
                dropped["that are empty"].append(name)
            elif not isinstance(column, Words):
                inputs.append((Dates if column.dtype.kind == "M" else Numbers).fit(name, column, place))
            elif len(column.values) == len(column) - absent.sum():
                dropped["in which all words differ"].append(name)
            elif (categories := Categories.fit(name, column)) is not None:
                inputs.append(categories)
            else:
                dropped["in which every word is rare"].append(name)
        notes = [*table.notes, *(f"dropped columns {why}: {listed(names)}" for why, names in dropped.items() if names)]
        strange = [name for k, name in enumerate(table.names) if k not in (target, weight)]
        notes += [*_strange(table, strange), *_told(inputs)]
        if not inputs:
            raise ValueError(f"{table.name} has no column to learn from" + "".join(f"; {note}" for note in notes))
        label, counts = (None if k is None else table.names[k] for k in (target, weight))
        lost = tuple(name for names in dropped.values() for name in names)
        return cls(tuple(inputs), label, counts, lost, table.header, tuple(f"{table.name}: {note}" for note in notes))

    @classmethod
    def plain(cls, names: Sequence[str] | None, d: int) -> "Columns":
        """Of d columns of numbers, by name or, without names, by place."""
        known = [str(k) for k in range(d)] if names is None else names
        return cls(tuple(Numbers(name, 0.0, False) for name in known), header=names is not None)

    @property
    def names(self) -> list[str]:
        """Of the columns of the matrix."""
        return [name for entry in self.inputs for name in entry.names]

    @property
    def numeric(self) -> bool:
        """Whether the columns of the matrix are those of the table."""
        return all(type(entry) is Numbers and not entry.missing for entry in self.inputs)

    def match(
        self, where: str, names: list[str], header: bool, target: Name, weight: Name
    ) -> tuple[list[int], int | None, int | None]:
        """Where a table with these names has our inputs, and where its labels and weights, if it has any."""
        label = None if target is None else column_number(where, names, target)
        counts = None if weight is None else column_number(where, names, weight, "weight")
        if self.header:
            label = names.index(self.target) if label is None and self.target in names else label
            counts = names.index(self.weight) if counts is None and self.weight in names else counts
            places = {name: k for k, name in enumerate(names) if k not in (label, counts)}
        else:
            own = sorted((*(entry.name for entry in self.inputs), *self.dropped), key=int)
            if counts is None and self.weight is not None and len(names) == len(own) + 2:
                counts = int(self.weight)
            # One more column may be labels or weights, where training had both: it has to be named.
            if label is None and len(names) == len(own) + 1 + (counts is not None or self.weight is not None):
                label = len(names) - 1 if self.target is None else int(self.target)
            rest = [k for k in range(len(names)) if k not in (label, counts)]
            if len(rest) != len(own):
                raise ValueError(f"{where} has {len(rest)} features; the model was trained on {len(own)}")
            places = dict(zip(own, rest, strict=True))
        lacking = [entry.name for entry in self.inputs if entry.name not in places]
        if lacking:
            new = self._unknown(places)
            more = f"; new here: {listed(new, 20)}" if new else ""
            hint = "" if header else "; its first line is not a header"
            raise ValueError(f"{where} lacks columns that the model was trained on: {listed(lacking, 20)}{more}{hint}")
        return [places[entry.name] for entry in self.inputs], label, counts

    def words_in(self, where: str, names: list[str], header: bool, target: Name, weight: Name) -> set[int]:
        """The columns of such a table that are words, whatever they look like."""
        places, _, _ = self.match(where, names, header, target, weight)
        return {k for entry, k in zip(self.inputs, places, strict=True) if isinstance(entry, Categories)}

    def _unknown(self, names: Iterable[str]) -> list[str]:
        known = {*(entry.name for entry in self.inputs), *self.dropped}
        return [name for name in names if name not in known]

    def transform(self, table: Table, target: Name = None, weight: Name = None) -> tuple[Any, Beside, list[str]]:
        """The matrix, the numbers of the columns of labels and of weights if there are any, and what there is to say of it."""
        places, *beside = self.match(table.name, table.names, table.header, target, weight)
        notes = [*table.notes]
        strange: list[str] = []
        new = self._unknown(name for k, name in enumerate(table.names) if k not in beside) if self.header else []
        if new:
            notes.append(f"left out columns that the model was not trained on: {listed(new)}")
        make = _sparse if any(isinstance(entry, Categories) for entry in self.inputs) else _dense
        X = make(table.n, len(self.names), self._encoded(table, places, strange))
        if strange:
            notes.append(f"words or gaps that the model has not seen, taken as none or as the mean: {listed(strange)}")
        return X, (beside[0], beside[1]), [f"{table.name}: {note}" for note in notes]

    def _encoded(self, table: Table, places: list[int], strange: list[str]) -> Encoded:
        """Every column of the matrix, by number, or the number of the first of several with which of them is 1; and to `strange`
        the inputs that hold what training did not.
        """
        at = 0
        for entry, k in zip(self.inputs, places, strict=True):
            place = _place(table, table.names[k])
            if isinstance(entry, Categories):
                codes, count = entry.encode(table.columns[k], place)
                yield at, codes
            else:
                vectors, count = entry.encode(table.columns[k], place)
                yield from enumerate(vectors, at)
            if count:
                strange.append(f"{entry.name} ({count} rows)")
            at += len(entry.names)

    def to_dict(self) -> dict[str, Any]:
        kinds = {kind: word for word, kind in _KINDS.items()}
        inputs = [{"kind": kinds[type(entry)], **asdict(entry)} for entry in self.inputs]
        inputs = [{**entry, "values": list(entry["values"])} if "values" in entry else entry for entry in inputs]
        beside = {"target": self.target, "weight": self.weight}
        return {**beside, "header": self.header, "dropped": list(self.dropped), "inputs": inputs}

    @classmethod
    def from_dict(cls, content: Any) -> "Columns":
        """What `to_dict` made; anything else is refused."""
        inputs = tuple(_input(entry) for entry in content["inputs"])
        beside, header, dropped = [content["target"], content.get("weight")], content["header"], content["dropped"]
        named = [name for name in beside if name is not None]
        if not _texts(named) or not isinstance(header, bool) or not _texts(dropped) or not inputs:
            raise ValueError("target, weight, header, dropped or inputs of columns are of another type")
        own = [*(entry.name for entry in inputs), *dropped, *named]
        if len(set(own)) < len(own) or not (header or all(name.isdigit() for name in own)):
            raise ValueError("columns have names that repeat or are no numbers")
        return cls(inputs, beside[0], beside[1], tuple(dropped), header)


def _dense(n: int, d: int, encoded: Encoded) -> Any:
    X = np.empty((n, d))
    for k, values in encoded:
        X[:, k] = values
    return X


def _sparse(n: int, d: int, encoded: Encoded) -> Any:
    entries = []
    for k, values in encoded:
        words = values.dtype.kind == "i"
        rows = np.flatnonzero(values >= 0 if words else values)
        entries.append((rows, k + (values[rows] if words else np.zeros_like(rows)), np.ones(rows.size) if words else values[rows]))
    rows, columns, values = (np.concatenate(part) for part in zip(*entries, strict=True))
    if max(n, d, rows.size) < 2**31:  # half as large, and all that some libraries take
        rows, columns = rows.astype(np.int32), columns.astype(np.int32)
    return sp.csr_array(sp.coo_array((values, (rows, columns)), shape=(n, d)))


def column_number(where: str, names: list[str], column: str | int, argument: str = "target") -> int:
    """A column by its name or, counted from 0 or back from the end, by its number; `argument` is what it was named as."""
    if column in names:
        return names.index(str(column))
    if str(column).removeprefix("-").isdecimal() and -len(names) <= int(column) < len(names):
        return int(column) % len(names)
    raise ValueError(f"{argument}={column!r} is not a column of {where}; it has {', '.join(names[:20])}")


def labels_and_weights(where: str, names: list[str], target: Name, weight: Name) -> tuple[int, int | None]:
    """The column of the labels, which is the last that holds no weights where none is named, and that of the weights, if any."""
    counts = None if weight is None else column_number(where, names, weight, "weight")
    left = [k for k in range(len(names)) if k != counts]
    if not left:
        raise ValueError(f"weight={weight!r} is the only column of {where}; it needs a target and at least one feature")
    label = left[-1] if target is None else column_number(where, names, target)
    if label == counts:
        raise ValueError(f"target={target!r} and weight={weight!r} are one column of {where}; name two")
    return label, counts


def _place(table: Table, name: str) -> Place:
    return lambda row: f"{table.name}, {table.place(row)}, column {name!r}"


def _numbers(column: Column, place: Place) -> Vector:
    if isinstance(column, Words) and column.values:
        strange = np.array([not is_number(word) for word in column.values])
        row = int(np.argmax((strange if strange.any() else ~strange)[column.codes] & (column.codes >= 0)))
        raise ValueError(f"{place(row)}: {column.values[column.codes[row]]!r} is text, and the model was trained on numbers")
    if isinstance(column, Words):
        return np.full(len(column), np.nan)
    if column.dtype.kind == "M":
        row = int(np.argmin(missing(column)))
        raise ValueError(f"{place(row)}: {str(column[row])!r} is a date, and the model was trained on numbers")
    values = np.asarray(column, dtype=np.float64)
    infinite = np.isinf(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise ValueError(f"{place(row)}: {values[row]} is not a number to compute with; remove or replace it first")
    return values


def _days(column: Column, first: str, place: Place) -> Vector:
    absent = missing(column)
    if absent.all():
        return np.full(len(column), np.nan)
    if isinstance(column, Words) or column.dtype.kind != "M":
        row = int(np.argmin(absent))
        found: Any = column.values[column.codes[row]] if isinstance(column, Words) else column[row].item()
        raise ValueError(f"{place(row)}: {found!r} is no date, and the model was trained on dates, like 2024-01-31")
    days: Vector = (column - np.datetime64(first, "us")) / np.timedelta64(1, "D")
    return days


def _as_words(column: NDArray[Any]) -> Words:
    """Numbers, or true and false, in a column that training knew as words."""
    values, codes = np.unique(column, return_inverse=True)
    return Words.of(codes, [None if value != value else _text(value) for value in values.tolist()])


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _strange(table: Table, names: list[str]) -> Iterable[str]:
    """A line for each column of words that most likely was not meant to be one, with the first cell that made it one."""
    columns = dict(zip(table.names, table.columns, strict=True))
    for name in names:
        column = columns[name]
        if not isinstance(column, Words) or not column.values:
            continue
        words = [k for k, value in enumerate(column.values) if not is_number(value)]
        most, first = len(column.values) / 2, min(words, key=lambda k: int(np.argmax(column.codes == k)), default=0)
        where = f"{column.values[first]!r}, {table.place(int(np.argmax(column.codes == first)))}"
        if 0 < len(words) <= most:
            yield f"column {name!r} holds numbers and words ({where}): all of it is taken as words"
        elif sum(is_number(_plain(value)) for value in column.values) > most:
            yield f"column {name!r} holds numbers that are not written as such ({where}), and is taken as words; write 1234.5"
        elif sum(_DATE.fullmatch(value) is not None for value in column.values) > most:
            yield f"column {name!r} holds dates that are not written as such ({where}), and is taken as words; write 2024-01-31"


def _plain(value: str) -> str:
    """A number without what people and spreadsheet programs put around and into it: units of money, per cent, thousands."""
    return re.sub(r"[\s$€£¥%'’,]", "", value).replace("\u2212", "-")


def _told(inputs: list[Input]) -> Iterable[str]:
    """A line for each thing that was done."""
    words = [entry for entry in inputs if isinstance(entry, Categories)]
    if words:
        count = sum(len(entry.names) for entry in words)
        yield f"words become {count} columns of zeros and ones: {listed(entry.name for entry in words)}"
    if any(entry.other for entry in words):
        yield f"rare words share a column, (other): {listed(entry.name for entry in words if entry.other)}"
    dates = [entry.name for entry in inputs if isinstance(entry, Dates)]
    if dates:
        yield f"dates become days since the first: {listed(dates)}"
    gaps = [entry.name for entry in inputs if isinstance(entry, Numbers) and entry.missing]
    if gaps:
        yield f"missing numbers become the mean, and a column says where, (missing): {listed(gaps)}"


def _texts(values: Any) -> bool:
    return isinstance(values, list | tuple) and all(isinstance(value, str) for value in values)


def _input(content: Any) -> Input:
    given = dict(content)
    kind = _KINDS[given.pop("kind")]
    if kind is Categories:
        given["values"] = tuple(given["values"]) if _texts(given["values"]) else None
    entry: Input = kind(**given)
    right = isinstance(entry.name, str) and isinstance(entry.missing, bool)
    if isinstance(entry, Categories):
        right = right and entry.values is not None and isinstance(entry.other, bool)
        right = right and list(entry.values) == sorted(set(entry.values))
    else:
        right = right and type(entry.mean) is float and isfinite(entry.mean)
    if isinstance(entry, Dates):
        right = right and isinstance(entry.first, str) and not np.isnat(np.datetime64(entry.first, "us"))
    if not right:
        raise ValueError(f"the column {given.get('name')!r} is not described as a column is")
    return entry
