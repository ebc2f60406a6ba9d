"""A plain table: names, and for each a column of numbers, dates or words. No library is needed for it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Words:
    """A column of words: the number of the word in each row, -1 where it is missing, and the words, each once and sorted."""

    codes: NDArray[np.int64]
    values: list[str]

    @staticmethod
    def of(codes: NDArray[Any], values: Iterable[str | None]) -> "Words":
        """From numbers of `values` that may be None, repeat, or not occur."""
        found = list(values)
        used = np.zeros(len(found) + 1, dtype=bool)  # the last is that of -1
        used[codes] = True
        kept = sorted({word for word, is_used in zip(found, used, strict=False) if is_used and word is not None})
        places = {word: k for k, word in enumerate(kept)}
        numbers = np.array([*(-1 if word is None else places.get(word, -1) for word in found), -1], dtype=np.int64)
        return Words(numbers[codes], kept)

    def __len__(self) -> int:
        return len(self.codes)

    def array(self) -> NDArray[Any]:
        """The words themselves; none may be missing."""
        return np.array(self.values)[self.codes]


#: Numbers (bool, int64, uint64 or float, NaN where missing), datetime64[us] (NaT where missing), or words.
Column = Words | NDArray[Any]


def missing(column: Column) -> NDArray[np.bool_]:
    """The rows in which nothing stands."""
    if isinstance(column, Words):
        return column.codes < 0
    if column.dtype.kind == "M":
        return np.isnat(column)
    return np.isnan(column) if column.dtype.kind == "f" else np.zeros(len(column), dtype=bool)


def row_number(row: int) -> str:
    return f"row {row} (counted from 0)"


@dataclass(frozen=True, eq=False)
class Table:
    """What a file or a frame holds, before anything is made of it."""

    name: str  #: where it is from, as messages say it
    names: list[str]
    columns: list[Column]
    header: bool = True  #: whether the names are its own, or only the numbers of the columns
    place: Callable[[int], str] = row_number  #: what to call a row in a message
    notes: list[str] = field(default_factory=list)  #: what was left out on reading

    def __post_init__(self) -> None:
        if not self.names or not len(self.columns[0]):
            raise ValueError(f"{self.name} holds no samples")
        refuse_repeated(self.name, self.names)

    @property
    def n(self) -> int:
        return len(self.columns[0])

    def weights(self, k: int) -> NDArray[np.float64]:
        """Column k as weights of the rows."""
        column, name = self.columns[k], self.names[k]
        row, found = 0, ""
        if isinstance(column, Words):
            strange = np.array([*(not is_number(word) for word in column.values), True])  # the last is that of a missing one
            row = int(np.argmax(strange[column.codes]))
            found = [*column.values, ""][column.codes[row]]
        elif column.dtype.kind == "M":
            found = str(column[row])
        else:
            refuse_weights(self.name, column, self.place)
            return np.ascontiguousarray(column, dtype=np.float64)
        raise ValueError(f"{self.name}, {self.place(row)}, column {name!r}: {found!r} is no number, and a weight is one")

    def labels(self, k: int) -> NDArray[Any]:
        """Column k as labels: numbers, words or true and false; a row without one is refused."""
        column, name = self.columns[k], self.names[k]
        empty = missing(column)
        if empty.all():
            raise ValueError(
                f"{self.name}: column {name!r} is to hold the labels and is empty; choose another with target=, or take away the "
                "delimiter at the end of every line"
            )
        if empty.any():
            where = f"{self.name}, {self.place(int(np.argmax(empty)))}, column {name!r}"
            raise ValueError(f"{where}: the label is missing, in {int(empty.sum())} of the rows; remove such rows first")
        if isinstance(column, Words):
            return column.array()
        if column.dtype.kind == "f" and np.isinf(column).any():
            where = f"{self.name}, {self.place(int(np.argmax(np.isinf(column))))}, column {name!r}"
            raise ValueError(f"{where}: the label is infinite; remove such rows first")
        if column.dtype.kind == "M":
            raise ValueError(f"{self.name}: column {name!r} holds dates, which are no labels; choose another with target=")
        return np.ascontiguousarray(column)


def refuse_weights(where: str, weights: NDArray[Any], place: Callable[[int], str]) -> None:
    """Weights that no row can have, with the place of the first."""
    if weights.dtype.kind not in "biuf":
        raise ValueError(f"{where}: the weights have dtype {weights.dtype}; use numbers")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"{where} holds the weight {weights[row]} in {place(row)}; use zero or positive numbers")


def no_row_counts(weight: str | int, where: str) -> str:
    return f"weight={weight!r} is zero in every row of {where}; at least one must count"


def refuse_repeated(where: str, names: list[str]) -> None:
    """Columns are found by their names."""
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{where} has {names.count(name)} columns that are called {name!r}; give each its own name")


def listed(names: Iterable[str], most: int = 5) -> str:
    """Some names, and how many more there are."""
    known = list(names)
    return ", ".join(known[:most]) + (f" and {len(known) - most} more" if len(known) > most else "")


def is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell  # which Python allows between digits
