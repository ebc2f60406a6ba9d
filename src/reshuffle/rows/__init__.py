"""The only place that knows how A is stored: one protocol, `Rows`, and one file for each storage."""

from typing import Any

from reshuffle.rows.base import Arranged, DualStep, Rows, Step, Weighted, batch_starts
from reshuffle.rows.memory import MemoryRows, in_memory

__all__ = ["Arranged", "DualStep", "MemoryRows", "Rows", "Step", "Weighted", "as_rows", "batch_starts", "in_memory"]


def as_rows(X: Any, name: str = "X") -> Rows:
    """`X` itself if it is a `Rows`, else the rows of a sparse or dense matrix."""
    return X if isinstance(X, Rows) else in_memory(X, name)
