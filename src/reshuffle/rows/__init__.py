"""The only place that knows how A is stored: one protocol, `Rows`, and one file for each storage."""

from typing import Any

from reshuffle.rows.base import Arranged, DualStep, Rows, Step, Weighted, batch_starts
from reshuffle.rows.memory import MemoryRows, in_memory

__all__ = ["Arranged", "DualStep", "MemoryRows", "Rows", "Step", "Weighted", "as_rows", "batch_starts", "in_memory", "is_dask"]


def as_rows(X: Any, name: str = "X", device: Any = None) -> Rows:
    """`X` itself if it is a `Rows`, else the rows of a sparse or dense matrix, of a Dask array on the workers of the active client,
    or of a tensor of PyTorch's, where it lies or on the `device` that is named.
    """
    if device is None and isinstance(X, Rows):
        return X
    if device is None and is_dask(X):
        from reshuffle.rows.dask import of_array

        return of_array(X, name)
    if device is not None or type(X).__module__.partition(".")[0] == "torch":
        try:
            from reshuffle.rows.torch import on_device
        except ImportError:
            raise ImportError(f"device={device!r} needs PyTorch: pip install 'reshuffle[gpu]', or leave device out") from None
        return on_device(X.matrix if isinstance(X, Rows) and hasattr(X, "matrix") else X, device, name)
    return in_memory(X, name)


def is_dask(X: Any) -> bool:
    """Whether X is an array of Dask's, which is asked without loading Dask."""
    return type(X).__module__.partition(".")[0] == "dask"
