"""device="auto": whether a GPU is worth going to. Nothing here imports torch before the work is large enough to ask.

The cost of work is counted in passes over the data: in memory, cores share them, each at so many numbers a second. On a GPU they
take next to no time, but torch has to be loaded, kernels to be compiled and the data to be brought there, over a link that may be
slow. A GPU is taken where memory would need more than twice as long as that.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

AUTO, MEMORY = "auto", "memory"
CORE = 2e9  #: numbers that a core reads in a pass, a second
LINK = 6e9  #: bytes a second from the host's memory
START = 4.0  #: seconds until a GPU is ready
PASSES_A_PERMUTATION = 8.0  #: of constants: some four products, of two passes each
PASSES_A_SCHEME = 112.0  #: of an assessment of orders: 32 of them are summed along, and the constants of three measured
PASSES_A_PLAN = 500.0  #: of a plan, in the optimum and in constants of some twenty batch sizes; its race runs on the CPU
PASSES_A_FIT = 100.0  #: of a certified fit and of each of its classes, with the Hessians
_MARGIN = 2.0  # times that work in memory must take longer


class Choice(NamedTuple):
    device: Any  #: as `Problem` takes it: None for memory
    why: str  #: in words, where "auto" chose a GPU; else empty


def choose(device: Any, X: Any, passes: float, cores: int = 1) -> Choice:
    """What a `device` argument means for data and so many passes over it. Data that lies on a device stays there."""
    if not is_auto(device):
        return Choice(device, "")
    matrix = getattr(X, "matrix", X)
    if type(matrix) is not np.ndarray or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        return Choice(None, "")
    here, there = passes * matrix.size / (CORE * cores), START + matrix.nbytes / LINK
    if here <= _MARGIN * there or find_spec("torch") is None:
        return Choice(None, "")
    import torch

    if not torch.cuda.is_available():
        return Choice(None, "")
    return Choice("cuda", f"as about {here:.0f} s of work in memory are worth {there:.0f} s to go there")


def is_auto(device: Any) -> bool:
    return isinstance(device, str) and device == AUTO


def check(device: Any) -> None:
    """Refuse a device that cannot be used."""
    if device is None or (isinstance(device, str) and device in (AUTO, MEMORY)):
        return
    if find_spec("torch") is None:
        raise ImportError(f"device={device!r} needs PyTorch: pip install 'reshuffle[gpu]', or leave device out")
    from reshuffle.rows.transfer import find

    find(device)


@contextmanager
def memory_in_words() -> Iterator[None]:
    """Want of a device's memory as a `MemoryError` that says what to do."""
    try:
        yield
    except RuntimeError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        said = str(error).split(". ")[0]
        raise MemoryError(f"the device has not enough memory ({said}); free some of it, or leave device out") from error
