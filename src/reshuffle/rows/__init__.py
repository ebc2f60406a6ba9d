"""The only place that knows how A is stored: one protocol, `Rows`, and one file for each storage."""

from typing import Any

from reshuffle.rows.base import Arranged, DualState, DualStep, Rows, Step, Weighted, batch_starts
from reshuffle.rows.devices import MEMORY, check, is_auto
from reshuffle.rows.memory import MemoryRows, in_memory

__all__ = [
    "Arranged",
    "DualState",
    "DualStep",
    "MemoryRows",
    "Rows",
    "Step",
    "Weighted",
    "as_rows",
    "batch_starts",
    "in_memory",
    "is_dask",
    "is_tensor",
]


def as_rows(X: Any, name: str = "X", device: Any = None) -> Rows:
    """`X` itself, or a copy of it in memory, if it is a `Rows`, else the rows of a sparse or dense matrix, of a Dask array on
    the workers of the active client, or of a tensor of PyTorch's, where it lies or on the `device` that is named.
    """
    if isinstance(device, str) and device == MEMORY:
        device = None
    if device is None and isinstance(X, Rows):
        return X.ready()
    if is_auto(device):
        raise ValueError(
            "device='auto' weighs data against the work to be done, which is not known here; name a device, or 'memory'"
        )
    if device is None and is_dask(X):
        from reshuffle.rows.dask import of_array

        return of_array(X, name)
    if device is not None or is_tensor(X):
        check(device)
        from reshuffle.rows.torch import on_device

        return on_device(X.matrix if isinstance(X, Rows) and hasattr(X, "matrix") else X, device, name)
    return in_memory(X, name)


def is_tensor(X: Any) -> bool:
    """Whether X is PyTorch's, which need not be installed to ask."""
    return type(X).__module__.partition(".")[0] == "torch"


def is_dask(X: Any) -> bool:
    """Whether X is an array of Dask's, which is asked without loading Dask."""
    return type(X).__module__.partition(".")[0] == "dask"
