"""svmlight (LIBSVM) text files, plain or compressed, into a CSR matrix and labels. Nothing is lost, sorted or rounded.

Nothing in a file says whether its indices count from 0 or from 1. Where an index 0 occurs it is plain; else it is a guess, of all
files that are read as one together, and the caller is told.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.data import _parse
from reshuffle.data._files import Place, read_bytes
from reshuffle.data._memory import refuse_too_large

_COMPLAINTS = {
    _parse.BAD_LABEL: "the label {token!r} is not a number",
    _parse.MANY_LABELS: "{token!r} is more than one label; a line takes one",
    _parse.NO_INDEX: "expected index:value, found {token!r}",
    _parse.BAD_VALUE: "the value in {token!r} is not a number",
    _parse.NOT_INCREASING: "the index in {token!r} is not larger than the one before it; indices must increase along a line",
    _parse.TOO_LARGE: "the index in {token!r} is too large",
    _parse.NOT_FINITE: "{token!r} is not finite; remove or fill such values first",
}
_SHOWN = 60  # characters of a token in a message


class Samples(NamedTuple):
    """What was read."""

    X: Any
    y: NDArray[np.float64]
    zero_based: bool | None  #: whether indices counted from 0; None where there are none
    guessed: bool  #: whether that is a guess


class Arrays(NamedTuple):
    """Those of CSR and the labels, indices as they stand in the file."""

    values: NDArray[np.float64]
    indices: Any
    indptr: Any
    y: NDArray[np.float64]


def read_svmlight(paths: list[Place], n_features: int | None = None, zero_based: bool | None = None) -> Samples:
    """The rows of all files, one after the other. Where `zero_based` is not said, indices count from 0 if any file holds one."""
    parts = [_read(path) for path in paths]
    least = min((int(part.indices.min()) for part in parts if part.indices.size), default=None)
    if zero_based is False and least == 0:
        path = next(path for path, part in zip(paths, parts, strict=True) if part.indices.size and part.indices.min() == 0)
        raise ValueError(
            f"{path} holds an index 0 and is to be read as counting from 1; zero_based=True (--zero-based) counts from 0, which is "
            "for a model to have been trained with as well"
        )
    known = zero_based if zero_based is not None else None if least is None else least == 0
    width = 0
    for part in parts:
        if known is False and part.indices.size:
            part.indices[:] -= 1
        width = max(width, int(part.indices.max()) + 1 if part.indices.size else 0)
    name = str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    if n_features is None:
        what = f"{name} uses {width} features: a vector of them"
        refuse_too_large(what, 8 * width, f"n_features={width} (--features {width}) if that is meant")
    elif n_features < width:
        raise ValueError(f"n_features={n_features}, but {name} uses {width} features; leave it out or use {width} or more")
    d = n_features or max(width, 1)
    matrices = [_matrix(part, d) for part in parts]
    X = matrices[0] if len(parts) == 1 else sp.vstack(matrices, format="csr")
    return Samples(X, np.concatenate([part.y for part in parts]), known, zero_based is None and least is not None and least > 0)


def _matrix(part: Arrays, d: int) -> Any:
    matrix = sp.csr_matrix((part.values, part.indices, part.indptr), shape=(part.y.size, d))
    matrix.has_canonical_format = True  # the reader refused anything else
    return matrix


def _read(path: Place) -> Arrays:
    text = read_bytes(path)
    lines, entries = _parse.count(text)
    refuse_too_large(f"{path} has up to {lines} lines and {entries} entries: they", 12 * lines + 12 * entries)
    part = parsed(path, text, lines, entries)
    if part.y.size == 0:
        raise ValueError(f"{path} holds no samples")
    return part


def parsed(path: Place, text: Any, lines: int, entries: int, before: int = 0) -> Arrays:
    """The samples of a text with at most so many lines and entries, which stands behind `before` lines of the file."""
    part, code, place = _parsed(text, lines, entries, np.int32)
    if code == _parse.TOO_LARGE:
        part, code, place = _parsed(text, lines, entries, np.int64)
    if code != _parse.OK:
        line = before + _line(text, place)
        raise ValueError(f"{path}, line {line}: " + _COMPLAINTS[code].format(token=_shown(_token(text, place))))
    _read_the_rest(path, text, part.y, before)
    _read_the_rest(path, text, part.values, before)
    return part


def _parsed(text: Any, lines: int, entries: int, index_type: Any) -> tuple[Arrays, int, int]:
    labels, values = np.empty(lines), np.empty(entries)
    indices = np.empty(entries, dtype=index_type)
    indptr = np.empty(lines + 1, dtype=index_type if entries < 2**31 else np.int64)
    largest = min(np.iinfo(index_type).max - 1, _parse.LARGEST_INDEX)
    rows, used, code, place = _parse.parse(text, labels, indptr, indices, values, largest)
    return Arrays(values[:used], indices[:used], indptr[: rows + 1], labels[:rows]), code, place


def _read_the_rest(path: Place, text: Any, numbers: NDArray[np.float64], before: int) -> None:
    """The few numbers that the compiled reader left to Python, each marked with the place of its text."""
    for k in np.flatnonzero(np.isnan(numbers)):
        place = int(numbers.view(np.int64)[k] & _parse.MARK_MASK)
        numbers[k] = float(_token(text, place))
        if not np.isfinite(numbers[k]):
            line = before + _line(text, place)
            raise ValueError(f"{path}, line {line}: {_shown(_token(text, place))!r} is too large for a double")


def _token(text: Any, place: int) -> str:
    """What stands there up to the next blank, however long it is."""
    size = 64
    while True:
        piece = bytes(text[place : place + size])
        token = (piece.split(b"\n", 1)[0].split(b"#", 1)[0].split() or [b""])[0]
        if len(token) < len(piece) or place + size >= text.size:
            return token.decode(errors="replace")
        size *= 8


def _shown(token: str) -> str:
    return token if len(token) <= _SHOWN else f"{token[:_SHOWN]}..."


def _line(text: Any, place: int) -> int:
    return int(np.count_nonzero(text[:place] == ord("\n"))) + 1
