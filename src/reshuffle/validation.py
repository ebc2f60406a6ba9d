"""The door: what users pass in comes out checked and in one form. Each message names the argument, its value and what to do."""

import warnings
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from reshuffle.losses import Loss
from reshuffle.rows import is_dask, is_tensor
from reshuffle.rows.structure import as_csr
from reshuffle.tables import Columns, is_frame, table_of_frame
from reshuffle.vectors import Vector

SMALLEST_GAP = 1e-100  #: that can be asked for


def whole_number(name: str, value: Any, smallest: int, largest: int | None = None, what: str = "allowed") -> int:
    """`what` says of what there are `largest`."""
    allowed = f"{smallest}..{largest}" if largest is not None else f"{smallest} or more"
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise ValueError(f"{name}={value!r} is not a whole number; use {allowed}")
    number = int(value)
    if number > (largest if largest is not None else number):
        raise ValueError(f"{name}={number} is larger than the {largest} {what}; use {allowed}")
    if number < smallest:
        raise ValueError(f"{name}={number} is too small; use {allowed}")
    return number


def threads(name: str, value: Any) -> None:
    """As joblib counts them: -1 are all cores, -2 all but one."""
    if value is not None and (value == 0 or not isinstance(value, Integral)):
        raise ValueError(f"{name}={value!r} is not a number of threads; use 1 or more, or -1 for all cores")


def weight(name: str, value: Any) -> float:
    """Zero or a positive number."""
    try:
        number = float("nan") if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0.0 <= number < float("inf"):
        raise ValueError(f"{name}={value!r} must be zero or a positive number")
    return number


def yes_or_no(name: str, value: Any) -> bool:
    """Words such as "no" are true to Python, and none of them is taken for an answer."""
    if not isinstance(value, bool | int | np.bool_) or value not in (0, 1):
        raise ValueError(f"{name}={value!r} must be True or False")
    return bool(value)


def gap_to_promise(eps: Any, name: str = "eps") -> float:
    """A gap as a number whose powers, which bounds divide by, are numbers too."""
    if isinstance(eps, bool) or not isinstance(eps, int | float | np.number) or not 0.0 < eps < float("inf"):
        raise ValueError(f"{name}={eps!r} must be a positive number")
    if not SMALLEST_GAP <= eps <= 1.0 / SMALLEST_GAP:
        raise ValueError(
            f"{name}={eps!r} is beyond what can be promised in numbers; use {SMALLEST_GAP:g} to {1.0 / SMALLEST_GAP:g}"
        )
    return float(eps)


def renamed(old: str, new: str, given: float | None, default: float) -> float:
    """The value of an argument that goes by its old name, if it does, with a line that says its new one."""
    if given is None:
        return default
    if default:
        raise ValueError(f"{old}={given!r} and {new}={default!r} are two names of one argument; leave out {old}")
    warnings.warn(f"{old} is called {new} now; write {new}={given!r}", FutureWarning, stacklevel=3)
    return given


def unmasked(name: str, values: Any) -> Any:
    """The same, unless it has a mask, which NumPy would lose without a word."""
    if np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        raise ValueError(f"{name} is a masked array with {count} masked entries; remove such rows or fill them first")
    return values


def in_host_memory(values: Any) -> Any:
    """The same, where a tensor that NumPy cannot read, or an array that lies on a cluster, becomes one of NumPy's."""
    if is_dask(values):
        return np.asarray(values)
    return values.detach().cpu().numpy() if is_tensor(values) else values


def sound(X: Any, name: str = "X") -> Any:
    """X for libraries that believe a sparse matrix: as CSR that was looked at before they index with it."""
    return as_csr(X, name) if sp.issparse(X) else unmasked(name, X)


def real(name: str, values: Any) -> Any:
    """The same, unless NumPy would lose a mask or imaginary parts of it without a word."""
    unmasked(name, values)
    if getattr(getattr(values, "dtype", None), "kind", "") == "c":
        raise ValueError(f"{name} has dtype {values.dtype}; use real numbers")
    return values


def matrix(X: Any, name: str = "X") -> tuple[Any, list[str] | None]:
    """X as a matrix, and the names of its columns where it is a data frame; what is made of words, dates and gaps is a warning."""
    if not is_frame(X):
        return real(name, X), None
    numbers = _numbers_of_frame(X)
    if numbers is not None:
        return numbers, [str(column) for column in X.columns]
    table = table_of_frame(X, name)
    columns = Columns.fit(table)
    for note in columns.notes:
        warnings.warn(note, UserWarning, stacklevel=3)
    return columns.transform(table)[0], columns.names


def _numbers_of_frame(X: Any) -> NDArray[Any] | None:
    """The frame as an array, where all of it are numbers as NumPy has them and none is missing."""
    for dtype in getattr(X, "dtypes", ["none"]):
        number = getattr(dtype, "is_numeric", None)  # as polars says it
        if not (number() if number is not None else getattr(dtype, "kind", "") in (*"biuf",)):
            return None
    array = np.asarray(X)
    usable = array.dtype.kind in "biu" or (array.dtype.kind == "f" and not np.isnan(array).any())
    return array if usable else None


def vector(name: str, values: Any, size: int, meaning: str, *, infinite: bool = False) -> Vector:
    """`size` numbers, as compiled loops take them; `meaning` says what they are."""
    try:
        given: NDArray[Any] = np.asarray(real(name, values))
        if given.dtype.kind not in "biufO":
            raise TypeError(f"it has dtype {given.dtype}")
        found = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not a list of numbers: {error}") from None
    if given.shape != (size,):
        raise ValueError(f"{name} has shape {given.shape}; this problem takes ({size},), {meaning}")
    usable = ~np.isnan(found) if infinite else np.isfinite(found)
    if not usable.all():
        place = int(np.argmin(usable))
        raise ValueError(f"{name} holds values that are not finite: {found[place]} at place {place} (counted from 0)")
    return found


def point(name: str, x: Any, dimension: int) -> Vector:
    """Coefficients of a problem."""
    return vector(name, x, dimension, "the intercept last if there is one")


def starting_point(x0: ArrayLike | None, dimension: int, name: str = "x0") -> Vector:
    """A copy of x0, or zero where there is none; `name` is that of the argument."""
    return np.zeros(dimension) if x0 is None else np.array(point(name, x0, dimension))


def row_numbers(name: str, rows: Any, n: int) -> NDArray[np.int64]:
    """Some of the rows 0..n-1, in any order."""
    given: NDArray[Any] = np.asarray(rows)
    if given.ndim != 1 or not given.size or given.dtype.kind not in "iu" or given.min() < 0 or given.max() >= n:
        raise ValueError(f"{name} is no list of rows: it must hold some of the integers 0..{n - 1}")
    return np.ascontiguousarray(given, dtype=np.int64)


def labels_for(loss: Loss, y: ArrayLike | None, n: int) -> Vector | None:
    """y as the loss takes it: -1 and +1, numbers, or None where it takes any."""
    if y is None:
        if loss.task == "any":
            return None
        raise ValueError(f"loss={str(loss)!r} needs labels y; pass them, or use loss='unit' for constants of the data alone")
    labels: NDArray[Any] = real("y", np.asarray(real("y", in_host_memory(y))))
    if labels.shape != (n,):
        raise ValueError(f"y has shape {labels.shape}; X has {n} rows, so it must have shape ({n},)")
    if loss.task == "any":
        return None
    if labels.dtype.kind == "O":
        absent = [value is None or str(value) in ("nan", "<NA>", "NaT") for value in labels]
        if any(absent):
            raise ValueError(f"y is missing in row {absent.index(True)} (counted from 0); remove such rows first")
    if loss.task == "regression":
        if labels.dtype.kind in "mM":  # as numbers they would be days or nanoseconds, as it happens
            raise ValueError(f"y has dtype {labels.dtype}; loss={str(loss)!r} predicts numbers: make days or seconds of it first")
        try:
            labels = labels.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"y holds {labels.tolist()[0]!r}, which is no number; loss={str(loss)!r} predicts numbers") from None
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.argmin(np.isfinite(labels)))
        raise ValueError(f"y holds {labels[row]} in row {row} (counted from 0); remove such rows first")
    return labels if loss.task == "regression" else signs_for(loss, labels)


def refuse_merged(labels: NDArray[Any], name: str = "y") -> None:
    """Classes that are numbers which float64 may have rounded to one another."""
    if labels.dtype.kind == "f" and (np.abs(labels) >= 2.0**53).any():
        row = int(np.argmax(np.abs(labels)))
        raise ValueError(
            f"{name} holds {labels[row]:.0f} in row {row} (counted from 0), too large a class to be told from the next"
        )


def signs_for(loss: Loss, labels: NDArray[Any]) -> Vector:
    """-1 for the smaller of two classes, +1 for the larger."""
    if labels.dtype.kind in "if" and (np.abs(labels) == 1).all():
        return labels.astype(np.float64)
    refuse_merged(labels)
    classes = np.unique(labels)
    if len(classes) == 2:
        return np.where(labels == classes[1], 1.0, -1.0)
    remedy = "pass y == c for the class c of interest" if len(classes) > 2 else "a single class cannot be told apart"
    raise ValueError(f"y has {len(classes)} classes; loss={str(loss)!r} takes two: {remedy}")


def row_weights(sample_weight: ArrayLike | None, n: int) -> Vector:
    """A weight for each of n rows; one where none are given."""
    if sample_weight is None:
        return np.ones(n)
    weights = np.asarray(real("sample_weight", sample_weight), dtype=np.float64)
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}; X has {n} rows, so it must have shape ({n},)")
    bad = ~(np.isfinite(weights) & (weights >= 0.0))
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(f"sample_weight holds {weights[row]} in row {row} (counted from 0); use zero or positive numbers")
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one row must count")
    return weights


def mean_one(weights: NDArray[Any]) -> Vector:
    """Weights of rows that count; divided by a power of two first, for their sum may overflow. None may become zero, as a row of
    weight zero is one that is not there.
    """
    numbers = np.asarray(weights, dtype=np.float64)
    scaled = np.ldexp(numbers, -np.frexp(numbers.max())[1])
    normalised: Vector = np.maximum(scaled * (weights.size / scaled.sum()), np.finfo(np.float64).tiny)
    return normalised
