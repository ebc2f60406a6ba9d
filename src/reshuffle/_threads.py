"""BLAS held to one thread while anything here asks for it. That limit belongs to the whole process: the first to ask sets it, and
the last to leave puts back what was there, however many threads of the caller's come and go in between.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_before: list[tuple[Any, int]] = []  # libraries, and how many threads each had


@contextmanager
def one_blas_thread() -> Iterator[None]:
    global _inside, _before
    with _lock:
        if _inside == 0:
            libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            _before = [(library, library.get_num_threads()) for library in libraries]
            for library, _ in _before:
                _set(library, 1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                for library, threads in _before:
                    _set(library, threads)


def _set(library: Any, threads: int) -> None:
    # From 3.8 on, threadpoolctl lets only the thread that was first to ask set the limit of OpenBLAS, and ignores all others.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)
