"""Scaling as part of the problem: features (or rows) brought to a common size, and coefficients back into the units of the data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from reshuffle.problem import Problem
from reshuffle.rows import Rows, as_rows
from reshuffle.validation import matrix, whole_number
from reshuffle.vectors import Vector

__all__ = ["AUTO", "KINDS", "Scaling", "check_kind", "scale"]

#: Every kind, from the simplest on.
KINDS = {
    "none": "the data as it is",
    "maxabs": "every column divided by its largest absolute value",
    "std": "every column centred and divided by its standard deviation",
    "rows": "every row divided by its length",
}
AUTO = "auto"

_TINY = 2.0**-500  # a column of smaller numbers is left as it is: its coefficient would leave the range of numbers


@dataclass(frozen=True, eq=False)
class Scaling:
    """What is done to X, learnt from some data and applied to any. A column without a size of its own has size 1."""

    kind: str  #: "none", "maxabs", "std" or "rows"
    centre: Vector | None = None  #: of every column, in its own units, taken away before it is divided by its size
    size: Vector | None = None  #: of every column, in its own units; None where columns stay as they are
    reason: str = ""  #: why it was chosen, where "auto" chose

    @classmethod
    def learn(cls, rows: Rows, kind: str) -> Self:
        if kind in ("none", "rows"):
            return cls(kind)
        if kind == "maxabs":
            low, high = rows.column_ranges()
            return cls(kind, None, _usable(np.maximum(-low, high)))
        centre, spread = rows.column_moments()
        return cls(kind, centre, _usable(spread))

    def apply(self, X: Any) -> Any:
        """The rows of a matrix, scaled, or a `Problem` of such rows. Sparse data stays sparse."""
        if isinstance(X, Problem):
            problem = X.replace(X=self.apply(X.rows))
            problem.scaling = self
            return problem
        rows = as_rows(matrix(X)[0])
        if self.size is not None:
            if self.size.size != rows.d:
                raise ValueError(f"X has {rows.d} columns; this scaling was learnt from {self.size.size}")
            return rows.standardised(self.centre, self.size)
        return rows.unit_rows() if self.kind == "rows" else rows

    def in_units(self, coefficients: Any, intercept: Any) -> tuple[Any, Any]:
        """Coefficients and intercept that predict from the data as it is what these predict from scaled data. Of "rows" they are as
        they were: a row is divided by its length before it is predicted.
        """
        if self.size is None:
            return coefficients, intercept
        coefficients = np.asarray(coefficients) / self.size
        return coefficients, intercept if self.centre is None else intercept - coefficients @ self.centre

    def point_in_units(self, x: Vector) -> Vector:
        """The same of the x of a problem: d coefficients, then the intercept where there is one or a centre makes one."""
        if self.size is None:
            return x
        d = self.size.size
        coefficients, intercept = self.in_units(x[:d], x[d] if x.size > d else 0.0)
        return np.append(coefficients, intercept) if x.size > d or self.centre is not None else np.asarray(coefficients)

    @property
    def in_words(self) -> str:
        return f"{self.kind}: {KINDS[self.kind]}"

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        columns = {"centre": self.centre, "size": self.size}
        return {"kind": self.kind, **{name: v if v is None else v.tolist() for name, v in columns.items()}, "reason": self.reason}

    @classmethod
    def from_dict(cls, content: dict[str, Any], d: int) -> Self:
        """What `to_dict` gave, checked, for data with d columns."""
        kind, reason = check_kind(content["kind"], auto=False), content["reason"]
        centre, size = _column("centre", content["centre"], d), _column("size", content["size"], d)
        known = (centre is not None, size is not None) == (kind == "std", kind in ("std", "maxabs"))
        if not (known and isinstance(reason, str)):
            raise ValueError(f"the scaling {kind!r} is not described as one is")
        if size is not None and not (size > 0.0).all():
            raise ValueError("the sizes of columns are not all above zero")
        return cls(kind, centre, size, reason)

    @property
    def choice(self) -> dict[str, str]:
        """What was done and why, without the numbers of the columns."""
        return {"kind": self.kind, "reason": self.reason}

    def __str__(self) -> str:
        return self.kind


def scale(data: Any, how: str = AUTO, *, seed: int = 0) -> Scaling:
    """How to scale some data: `scale(X, "std").apply(X)`.

    data : a matrix, sparse or dense, a data frame, a `Rows`, or a `Problem`.
    how : "none"; "maxabs": every column divided by its largest absolute value; "std": every column centred and divided by its
        standard deviation; "rows": every row divided by its length; or "auto": what trains best in a short run on a sample of the
        rows, which needs a `Problem`. `reason` then says in a line why.
    seed : of that sample and that run.
    """
    check_kind(how)
    if how != AUTO:
        return Scaling.learn(data.rows if isinstance(data, Problem) else as_rows(matrix(data)[0]), how)
    if not isinstance(data, Problem):
        raise ValueError(f"how='auto' tries the kinds on a problem; pass an rs.Problem, or use one of {', '.join(KINDS)}")
    data.labels  # noqa: B018 refuse a loss without values
    from reshuffle.scaling.choice import choose

    return choose(data, whole_number("seed", seed, 0))


def check_kind(how: Any, name: str = "how", *, auto: bool = True) -> str:
    known: Sequence[str] = (*KINDS, AUTO) if auto else tuple(KINDS)
    if how not in known:
        raise ValueError(f"{name}={how!r} is not known; use one of {', '.join(known)}")
    return str(how)


def _usable(size: Vector) -> Vector:
    return np.where(size > _TINY, size, 1.0)


def _column(name: str, values: Any, d: int) -> Vector | None:
    if values is None:
        return None
    column = np.array(values, dtype=np.float64)
    if column.shape != (d,) or not np.isfinite(column).all():
        raise ValueError(f"{name} must be {d} numbers")
    return column
