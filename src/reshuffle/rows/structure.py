"""Sparse matrices from outside, as CSR that compiled code can index with.

SciPy believes the arrays that it is given, in files and in Python alike, and neither its loops nor ours look whether an index lies
inside: one that does not reads or writes past the end. So every array is looked at here, before any conversion; of a CSR matrix,
in the one pass that says whether its entries are sorted.
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit

_SORTED, _UNSORTED, _OUTSIDE = range(3)
_COMPRESSED = ("csr", "csc", "bsr")


@jit()
def _entries(indptr: Any, indices: Any, width: Any) -> Any:
    """Whether indices, seen as unsigned, are below the width, and rise along each row; and the first place that is outside."""
    found = _SORTED
    for i in range(indptr.size - 1):
        low, high = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        if low == high:
            continue
        falls = 0
        for k in range(low + np.uint64(1), high):
            falls += indices[k] <= indices[k - np.uint64(1)]
        if falls == 0 and indices[high - np.uint64(1)] < width:  # the last is the largest
            continue
        for k in range(low, high):
            if indices[k] >= width:
                return _OUTSIDE, np.int64(k)
        found = _UNSORTED
    return found, 0


def as_csr(X: Any, name: str) -> Any:
    """A CSR matrix of float32 or float64 whose indices lie inside and rise along each row; `X` itself where it is one."""
    if X.ndim != 2:
        raise ValueError(f"{name} has {X.ndim} dimensions; use an n x d matrix")
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{name} has dtype {X.dtype}; use real numbers")
    if X.format == "dok":  # a dict, whose keys may be anything until they are arrays
        X = X.tocoo()
    if X.format in _COMPRESSED:
        rising = _checked(X, name)
    else:
        _look(X, name)
        X = X.tocsr()
        rising = _checked(X, name)
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if X.format != "csr":
        X, rising = X.tocsr(), False
    held, kinds = int(X.indptr[-1]), (np.int32, np.int64)
    if X.indices.size > held or X.data.size > held or not (X.indices.dtype in kinds and X.indptr.dtype in kinds):
        X = type(X)((X.data[:held], X.indices[:held].astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    if not rising:
        X = X.copy()
        X.has_canonical_format = X.has_sorted_indices = False  # whatever the matrix says of itself
        X.sum_duplicates()
    return X


def _checked(X: Any, name: str) -> bool:
    """Refuse a compressed matrix whose arrays do not fit together; whether the entries of each row rise."""
    (n, d), indptr, indices = X.shape, _whole(name, "indptr", X.indptr), _whole(name, "indices", X.indices)
    blocks = X.data.shape[1:] if X.format == "bsr" else (1, 1)
    rows, columns = blocks if len(blocks) == 2 else (0, 0)
    if rows < 1 or columns < 1 or n % rows or d % columns or X.data.ndim != (3 if X.format == "bsr" else 1):
        raise _broken(name, f"data of shape {X.data.shape} for a matrix of shape {X.shape}")
    lines, width = (d, n) if X.format == "csc" else (n // rows, d // columns)
    if indptr.size != lines + 1:
        raise _broken(name, f"indptr has {indptr.size} entries where a matrix of shape {X.shape} has {lines + 1}")
    held = min(indices.size, X.data.shape[0])
    if indptr[0] != 0 or indptr[-1] > held:
        raise _broken(name, f"indptr goes from {indptr[0]} to {indptr[-1]} where {held} entries are stored")
    falls = indptr[1:] < indptr[:-1]
    if falls.any():
        raise _broken(name, f"indptr falls after entry {int(np.argmax(falls))}")
    how, place = _entries(indptr, indices.view(f"u{indices.itemsize}"), np.uint64(width))
    if how == _OUTSIDE:
        raise _broken(name, f"index {indices[place]} at place {place} is outside of 0..{width - 1}")
    return bool(how == _SORTED and X.format == "csr")


def _look(X: Any, name: str) -> None:
    """The same of formats that are made of other arrays, as far as their conversion indexes with them."""
    if X.format == "coo":
        for axis, size in zip(("row", "col"), X.shape, strict=True):
            indices = _whole(name, axis, getattr(X, axis))
            if indices.shape != X.data.shape:
                raise _broken(name, f"{axis} has {indices.size} entries and data {X.data.size}")
            outside = (indices < 0) | (indices >= size)
            if outside.any():
                place = int(np.argmax(outside))
                raise _broken(name, f"{axis} is {indices[place]} at place {place}, outside of 0..{size - 1}")
    elif X.format == "lil":
        if not len(X.rows) == len(X.data) == X.shape[0] or [*map(len, X.rows)] != [*map(len, X.data)]:
            raise _broken(name, "its lists of indices and of values differ in length")
    elif X.format == "dia":
        offsets = _whole(name, "offsets", X.offsets)
        if X.data.ndim != 2 or offsets.size != X.data.shape[0] or np.unique(offsets).size != offsets.size:
            raise _broken(name, f"{offsets.size} offsets for diagonals of shape {X.data.shape}, or one of them twice")
    else:
        raise ValueError(f"{name} is a sparse matrix in the format {X.format!r}; use CSR")


def _whole(name: str, what: str, array: Any) -> Any:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu" or not array.dtype.isnative:
        kind = f"{array.ndim} dimensions of {array.dtype}" if isinstance(array, np.ndarray) else type(array).__name__
        raise _broken(name, f"{what} has {kind}, not one dimension of whole numbers")
    return array


def _broken(name: str, how: str) -> ValueError:
    return ValueError(
        f"{name} is a damaged sparse matrix: {how}; make it again from its entries, scipy.sparse.coo_array((v, (i, j)))"
    )
