"""Arrays that other processes of the same host read where they lie.

A loan is a file in memory that has no name: those who borrow it open it by the descriptor that its owner has, and the system frees
it once no process has it open or mapped, however these ended. Nothing is left to clear away.
"""

import mmap
import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from io import FileIO
from threading import Lock
from typing import Any
from uuid import uuid4

import numpy as np

_BLOCK = 1 << 20  # numbers that are converted at a time
_ALIGNED = 64  # bytes


@dataclass(frozen=True)
class Loan:
    """Where a process finds arrays of another one."""

    process: int
    descriptor: int
    name: str  #: which no other file has, so that a stranger's descriptor of the same number is not taken for this one
    arrays: tuple[tuple[str, int, tuple[int, ...]], ...]  #: type, place in the file, and shape


_lock = Lock()
_loans: "weakref.WeakKeyDictionary[Any, Loan | None]" = weakref.WeakKeyDictionary()


def lend(owner: Any, arrays: Sequence[Any], kinds: Sequence[Any]) -> Loan | None:
    """Copies of arrays in these types, made once and kept for as long as their owner lives; None where the system has no such
    files, or no room for them.
    """
    with _lock:
        if owner not in _loans:
            try:
                _loans[owner] = _written(owner, arrays, kinds)
            except (OSError, AttributeError):
                _loans[owner] = None
        return _loans[owner]


def _written(owner: Any, arrays: Sequence[Any], kinds: Sequence[Any]) -> Loan:
    name = f"reshuffle-{uuid4().hex}"
    file = FileIO(os.memfd_create(name), "wb")
    weakref.finalize(owner, file.close)
    described = []
    for array, kind in zip(arrays, map(np.dtype, kinds), strict=True):
        place = file.seek(-(-file.tell() // _ALIGNED) * _ALIGNED)
        described.append((kind.str, place, array.shape))
        flat = array.reshape(-1)
        for start in range(0, flat.size, _BLOCK):
            left = flat[start : start + _BLOCK].astype(kind, copy=False).data.cast("B")
            while left:
                left = left[file.write(left) :]
    file.truncate(file.tell())  # which may be behind all that was written, where the last array is empty
    return Loan(os.getpid(), file.fileno(), name, tuple(described))


def borrow(loan: Loan) -> tuple[Any, ...]:
    """The arrays, mapped for as long as anybody has one of them. They look as if they could be written to, since kernels would be
    compiled once more for those that cannot; what is written there is seen by nobody else. An OSError where this process cannot see
    those of the other.
    """
    path = f"/proc/{loan.process}/fd/{loan.descriptor}"
    if not os.readlink(path).startswith(f"/memfd:{loan.name} "):
        raise FileNotFoundError(f"{path} is another file by now")
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    sizes = (int(np.prod(shape)) for _, _, shape in loan.arrays)
    return tuple(
        np.frombuffer(mapped, kind, size, place).reshape(shape)
        for (kind, place, shape), size in zip(loan.arrays, sizes, strict=True)
    )
