"""svmlight (LIBSVM) text files, plain or compressed, into a CSR matrix and labels. Nothing is lost, sorted or rounded."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.data import _parse
from reshuffle.data._files import Place, read_bytes

_COMPLAINTS = {
    _parse.BAD_LABEL: "the label {token!r} is not a number",
    _parse.MANY_LABELS: "{token!r} is more than one label; a line takes one",
    _parse.NO_INDEX: "expected index:value, found {token!r}",
    _parse.BAD_VALUE: "the value in {token!r} is not a number",
    _parse.NOT_INCREASING: "the index in {token!r} is not larger than the one before it; indices must increase along a line",
    _parse.TOO_LARGE: "the index in {token!r} is too large",
    _parse.NOT_FINITE: "{token!r} is not finite; remove or fill such values first",
}


def read_svmlight(path: Place, n_features: int | None) -> tuple[Any, NDArray[np.float64]]:
    """X and y. Indices count from 0 if the file holds an index 0, else from 1."""
    text = read_bytes(path)
    lines, entries = _parse.count(text)
    X, y, code, place = _parsed(text, lines, entries, np.int32)
    if code == _parse.TOO_LARGE:
        X, y, code, place = _parsed(text, lines, entries, np.int64)
    if code != _parse.OK:
        raise ValueError(f"{path}, line {_line(text, place)}: " + _COMPLAINTS[code].format(token=_token(text, place)))
    values, indices, indptr = X
    if y.size == 0:
        raise ValueError(f"{path} holds no samples")
    _read_the_rest(path, text, y)
    _read_the_rest(path, text, values)
    if indices.size and indices.min() > 0:
        indices -= 1
    width = int(indices.max()) + 1 if indices.size else 0
    if n_features is not None and n_features < width:
        raise ValueError(f"n_features={n_features}, but {path} uses {width} features; leave it out or use {width} or more")
    matrix = sp.csr_matrix((values, indices, indptr), shape=(y.size, n_features or max(width, 1)))
    matrix.has_canonical_format = True  # the reader refused anything else
    return matrix, y


def _parsed(text: Any, lines: int, entries: int, index_type: Any) -> tuple[Any, NDArray[np.float64], int, int]:
    labels, values = np.empty(lines), np.empty(entries)
    indices = np.empty(entries, dtype=index_type)
    indptr = np.empty(lines + 1, dtype=index_type if entries < 2**31 else np.int64)
    largest = min(np.iinfo(index_type).max - 1, _parse.LARGEST_INDEX)
    rows, used, code, place = _parse.parse(text, labels, indptr, indices, values, largest)
    return (values[:used], indices[:used], indptr[: rows + 1]), labels[:rows], code, place


def _read_the_rest(path: Place, text: Any, numbers: NDArray[np.float64]) -> None:
    """The few numbers that the compiled reader left to Python, each marked with the place of its text."""
    for k in np.flatnonzero(np.isnan(numbers)):
        place = int(numbers.view(np.int64)[k] & _parse.MARK_MASK)
        numbers[k] = float(_token(text, place))
        if not np.isfinite(numbers[k]):
            raise ValueError(f"{path}, line {_line(text, place)}: {_token(text, place)!r} is too large for a double")


def _token(text: Any, place: int) -> str:
    piece = bytes(text[place : place + 4096]).split(b"\n", 1)[0].split(b"#", 1)[0].split()
    return piece[0].decode(errors="replace") if piece else ""


def _line(text: Any, place: int) -> int:
    return int(np.count_nonzero(text[:place] == ord("\n"))) + 1
