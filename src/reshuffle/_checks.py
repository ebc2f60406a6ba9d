"""Checks of what users pass in. Each message names the argument, its value and what to do."""

from typing import Any

import numpy as np
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
