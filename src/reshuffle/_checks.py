"""Checks of what users pass in. Each message names the argument, its value and what to do."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray


def whole_number(name: str, value: Any, smallest: int, largest: int | None = None) -> int:
    allowed = f"{smallest}..{largest}" if largest is not None else f"{smallest} or more"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name}={value!r} is not a whole number; use {allowed}")
    number = int(value)
    if number > (largest if largest is not None else number):
        raise ValueError(f"{name}={number} is larger than the {largest} rows of the data; use {allowed}")
    if number < smallest:
        raise ValueError(f"{name}={number} is too small; use {allowed}")
    return number


def refuse_non_finite(name: str, X: Any) -> None:
    """Of a sparse or dense matrix; the message says where the first bad value stands."""
    values = X.data if sp.issparse(X) else X
    if values.dtype.kind != "f":
        return
    block = max(1, (1 << 20) // (1 if values.ndim == 1 else values.shape[1]))
    for start in range(0, values.shape[0], block):
        finite = np.isfinite(values[start : start + block])
        if finite.all():
            continue
        first = np.argwhere(~finite)[0]
        row = int(first[0]) + start
        bad = values[row] if values.ndim == 1 else values[row, first[1]]
        if sp.issparse(X):
            row = int(np.searchsorted(X.indptr, row, side="right")) - 1
        raise ValueError(f"{name} holds {bad} in row {row} (counted from 0); remove or fill NaN and infinity first")


def starting_point(x0: ArrayLike | None, dimension: int) -> NDArray[np.float64]:
    """A copy of x0, or zero where there is none."""
    if x0 is None:
        return np.zeros(dimension)
    x = np.array(x0, dtype=np.float64)
    if x.shape != (dimension,):
        raise ValueError(f"x0 has shape {x.shape}; this problem takes ({dimension},), the intercept last if there is one")
    if not np.isfinite(x).all():
        raise ValueError("x0 holds values that are not finite")
    return x
