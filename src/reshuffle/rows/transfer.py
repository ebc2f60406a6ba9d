"""From the host's memory to a device of PyTorch's: which device is meant, what it holds, and how rows come there.

Rows travel through pinned memory, block after block on a stream of their own: while one block is worked on, the next is under way.
A matrix that does not fit into the device's memory is pinned as a whole and comes anew for each pass.
"""

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

from reshuffle.rows.base import Integers

BLOCK_ENTRIES = 1 << 24  #: numbers of a block: as float64, 128 MiB
_ROOM = 0.8  # of the free memory that a matrix may take, so that there is room to work with it
_KNOWN = "use 'cuda', 'cuda:1', 'cpu' or 'memory', or a list of devices"


def find(name: Any) -> tuple[torch.device, ...]:
    """The devices that a name stands for, or a list of names; "cuda" for all GPUs that torch sees, the current one first."""
    if isinstance(name, list | tuple):
        if not name:
            raise ValueError(f"device={name!r} names none; {_KNOWN}")
        return tuple(device for each in name for device in find(each)[:1])
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"device={name!r} is not known; {_KNOWN}") from None
    if device.type == "cpu":
        return (device,)
    if device.type != "cuda":
        raise ValueError(f"device={name!r} is not supported; {_KNOWN}")
    if not torch.cuda.is_available():
        built = "is built without CUDA" if torch.version.cuda is None and torch.version.hip is None else "sees no GPU or driver"
        raise ValueError(f"device={name!r} cannot be used: torch {torch.__version__} {built}; use device='cpu' or leave it out")
    count = torch.cuda.device_count()
    if device.index is None:
        first = torch.cuda.current_device()
        return tuple(torch.device("cuda", (first + k) % count) for k in range(count))
    if device.index >= count:
        raise ValueError(f"device={name!r} does not exist; torch sees {count} GPU(s), counted from 0")
    return (device,)


def tensor_of(array: Any) -> Any:
    """The same numbers as a tensor, where they lie. PyTorch has none that are read only and warns of arrays that are; nothing here
    writes to one.
    """
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))


class _Writable:
    def __init__(self, array: Any) -> None:
        self._array = array  # which owns the memory
        self.__array_interface__ = {**array.__array_interface__, "data": (array.__array_interface__["data"][0], False)}


def free(device: torch.device) -> float:
    """Bytes that are free on a device, with those that torch holds and does not use. A CPU has those of the host, where the data
    lies already.
    """
    if device.type != "cuda":
        return float("inf")
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + held)


def fits(size: float, device: torch.device) -> bool:
    """Whether there is room for so many bytes, and for the work with them."""
    return size <= _ROOM * free(device)


def moved(tensor: Any, device: torch.device) -> tuple[Any, bool]:
    """The matrix on the device, and True; or pinned in the host's memory, and False, where it is too large for it."""
    if tensor.device.type == "cuda" and tensor.device == device:
        return tensor, True
    if fits(tensor.nbytes, device):
        if tensor.device == device:
            return tensor, True
        if tensor.device.type != "cpu":
            return tensor.to(device), True
        try:
            target = torch.empty_like(tensor, device=device)
        except torch.OutOfMemoryError:  # free, but in pieces
            pass
        else:
            lane = _Lane(tensor, device)
            for place in _slices(*tensor.shape):
                sent = lane.send(place, target[place])
            lane.arrived(sent)  # and those before it, as a stream keeps its order
            return target, True
    host = tensor.cpu()
    if device.type != "cuda" or host.is_pinned():
        return host, False
    try:
        return host.pin_memory(), False
    except RuntimeError:
        size, room = host.nbytes / 2**30, free(device) / 2**30
        raise MemoryError(
            f"X takes {size:.1f} GiB, which neither {device} ({room:.1f} GiB free) nor the host's pinned memory has room for; "
            "leave device out"
        ) from None


def _slices(n: int, d: int) -> Iterator[slice]:
    size = max(BLOCK_ENTRIES // d, 1)
    return (slice(start, start + size) for start in range(0, n, size))


def places(rows: Integers | None, n: int, d: int) -> list[slice]:
    """Where blocks of these rows, or of all n, begin and end."""
    return list(_slices(n if rows is None else len(rows), d))


def arriving(matrix: Any, listings: Iterable[Any], device: torch.device) -> Iterator[Any]:
    """Rows of a matrix in the host's memory, a slice or a tensor of numbers at a time, on the device; the next of them are on
    their way while these are worked on.
    """
    lane, ahead = _Lane(matrix, device), deque[tuple[Any, Any]]()
    for listed in listings:
        ahead.append(lane.send(listed))
        if len(ahead) == 2:
            yield lane.arrived(ahead.popleft())
    while ahead:
        yield lane.arrived(ahead.popleft())


class _Lane:
    """A stream for copies, and two pinned buffers for rows that do not lie in pinned memory one after the other. On a CPU there is
    no stream to wait for.
    """

    def __init__(self, matrix: Any, device: torch.device) -> None:
        self._matrix, self._device = matrix, device
        self._cuda = device.type == "cuda"
        self._pinned = self._cuda and matrix.is_pinned()
        self._stream = torch.cuda.Stream(device) if self._cuda else None
        self._buffers: list[Any] = [None, None]
        self._left: list[Any] = [None, None]  # when what a buffer held had left it

    def send(self, listed: Any, target: Any = None) -> tuple[Any, Any]:
        """Rows that are under way, to a place that is there for them or to a new one, and the event of their arrival."""
        straight = self._pinned and isinstance(listed, slice)
        source = self._matrix[listed] if straight else self._gathered(listed)
        with torch.cuda.stream(self._stream) if self._cuda else nullcontext():
            if target is None:
                part = source.to(self._device, non_blocking=True, copy=True)
            else:
                if self._stream is not None:  # what lay there before may still be in use
                    self._stream.wait_stream(torch.cuda.current_stream(self._device))
                part = target.copy_(source, non_blocking=True)
            event = self._stream.record_event() if self._stream is not None else None
        if not straight:
            self._left[0] = event
        return part, event

    def _gathered(self, listed: Any) -> Any:
        """Into the buffer that was filled longer ago, once what it held has left it."""
        self._buffers.reverse()
        self._left.reverse()
        if self._left[0] is not None:
            self._left[0].synchronize()
        rows = self._matrix[listed] if isinstance(listed, slice) else None
        count = len(listed) if rows is None else len(rows)
        if self._buffers[0] is None or len(self._buffers[0]) < count:
            shape = (count, self._matrix.shape[1])
            self._buffers[0] = torch.empty(shape, dtype=self._matrix.dtype, pin_memory=self._cuda)
        buffer = self._buffers[0][:count]
        return torch.index_select(self._matrix, 0, listed, out=buffer) if rows is None else buffer.copy_(rows)

    def arrived(self, sent: tuple[Any, Any]) -> Any:
        part, event = sent
        if event is not None:
            here = torch.cuda.current_stream(self._device)
            here.wait_event(event)
            part.record_stream(here)  # which keeps its memory until the work on it is done
        return part


_lock = threading.Lock()
_before: list[Any] = []
_asking = 0


@contextmanager
def exact_products() -> Iterator[None]:
    """Products of float32 in float32. A program may have allowed TF32, whose ten bits are too few here, for all of its own: the
    first of several threads that ask takes that away, and the last puts it back.
    """
    global _asking
    matmul = torch.backends.cuda.matmul
    name, exact = ("fp32_precision", "ieee") if hasattr(matmul, "fp32_precision") else ("allow_tf32", False)
    with _lock:
        if _asking == 0:
            _before[:] = [getattr(matmul, name)]
            setattr(matmul, name, exact)
        _asking += 1
    try:
        yield
    finally:
        with _lock:
            _asking -= 1
            if _asking == 0:
                setattr(matmul, name, _before[0])
