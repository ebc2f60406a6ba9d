"""Tables with named columns: csv (plain or compressed) and parquet. One column is the target, by default the last."""

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.data._files import open_text


def read_csv(path: Path, target: str | int | None) -> tuple[Any, Any, list[str]]:
    """X, y and the names of the features. The first line is a header unless all of it are numbers."""
    with open_text(path) as file:
        first = next(csv.reader(file), None)
    if not first:
        raise ValueError(f"{path} holds no samples")
    has_header = not all(_is_number(cell) for cell in first)
    names = [cell.strip() for cell in first] if has_header else [str(k) for k in range(len(first))]
    column, features = _columns(path, names, target)
    try:
        table = _numbers(path, None, has_header).reshape(-1, len(names))
        X, y = table[:, features], table[:, column]
    except ValueError:  # the labels may be words; the features may not
        _refuse_words(path, names, features, has_header)  # NumPy is fast but does not name the cell
        X, y = _numbers(path, features, has_header), np.array([row[column].strip() for _, row in _rows(path, has_header)])
    if X.size == 0:
        raise ValueError(f"{path} holds no samples")
    return X, y, [names[k] for k in features]


def read_parquet(path: Path, target: str | int | None) -> tuple[Any, Any, list[str]]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ImportError('reading parquet needs pyarrow: pip install "reshuffle[parquet]"') from None
    try:
        table = pq.read_table(path)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a parquet file: {error}") from None
    names = table.column_names
    column, features = _columns(path, names, target)
    if table.num_rows == 0:
        raise ValueError(f"{path} holds no samples")
    X = np.empty((table.num_rows, len(features)))
    for j, k in enumerate(features):
        kind = table.schema.field(k).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise ValueError(f"{path}: column {names[k]!r} holds {kind}, not numbers; drop or encode it first")
        if table.column(k).null_count:
            row = table.column(k).is_null().to_pylist().index(True)
            raise ValueError(f"{path}: column {names[k]!r} is empty in row {row} (counted from 0); fill such cells first")
        X[:, j] = table.column(k).to_numpy()
    return X, table.column(column).to_numpy(), [names[k] for k in features]


def _columns(path: Path, names: list[str], target: str | int | None) -> tuple[int, list[int]]:
    """The column of the labels, and those of the features."""
    column = _target_column(path, names, target)
    return column, [k for k in range(len(names)) if k != column]


def _target_column(path: Path, names: list[str], target: str | int | None) -> int:
    if len(names) < 2:
        raise ValueError(f"{path} has {len(names)} column; it needs a target and at least one feature")
    if target is None:
        return len(names) - 1
    if target in names:
        return names.index(str(target))
    if str(target).lstrip("-").isdigit() and -len(names) <= int(target) < len(names):
        return int(target) % len(names)
    raise ValueError(f"target={target!r} is not a column of {path}; it has {', '.join(names[:20])}")


def _numbers(path: Path, columns: list[int] | None, has_header: bool) -> Any:
    with open_text(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        form: dict[str, Any] = {"delimiter": ",", "quotechar": '"', "comments": None, "ndmin": 2}
        return np.loadtxt(file, **form, skiprows=int(has_header), usecols=columns)


def _refuse_words(path: Path, names: list[str], features: list[int], has_header: bool) -> None:
    for line, row in _rows(path, has_header):
        if len(row) != len(names):
            raise ValueError(f"{path}, line {line}: {len(row)} columns where the first line has {len(names)}")
        for j in features:
            if not _is_number(row[j]):
                place = f"{path}, line {line}, column {names[j]!r}"
                raise ValueError(f"{place}: {row[j]!r} is not a number; encode or fill it first")


def _rows(path: Path, has_header: bool) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, each with the number of its line."""
    with open_text(path) as file:
        rows = csv.reader(file)
        if has_header:
            next(rows)
        yield from ((rows.line_num, row) for row in rows if row)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
