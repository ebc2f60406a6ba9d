"""Loops over samples in parts, by all cores where that is asked for. Parts are the same for any number of cores, and sums over them
are added up in order: what comes out does not depend on it.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_PART = 1 << 16  # samples: some tenths of a millisecond, many times what it takes to hand them over


def in_parts(run: Callable[[slice], T], size: int, by_all_cores: bool) -> list[T]:
    """`run` for each part of 0..size-1; for all of it at once where one thread is to do it."""
    if not by_all_cores or size <= _PART:
        return [run(slice(0, size))]
    places = [slice(start, start + _PART) for start in range(0, size, _PART)]
    with ThreadPoolExecutor(min(cores(), len(places))) as pool:
        return list(pool.map(run, places))


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
