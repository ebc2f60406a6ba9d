"""One BLAS thread while small matrices are at work. A BLAS shares even a 300 x 300 Cholesky factor out, and its threads spin until
the others arrive: alone on a machine that gains nothing, and beside other programs a fit took thirty times as long.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_before: list[int] = []  # threads of the libraries that all share, while anybody asks for one
_asking = 0


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS runs in the thread that calls it. Where the number of its threads belongs to the process, the first of several who ask
    at once takes it down and the last puts it back.
    """
    global _asking
    shared, own = _libraries()
    own_before = _set(own, [1] * len(own))
    with _lock:
        if _asking == 0:
            _before[:] = _set(shared, [1] * len(shared))
        _asking += 1
    try:
        yield
    finally:
        with _lock:
            _asking -= 1
            if _asking == 0:
                _set(shared, _before)
        _set(own, own_before)


def _set(libraries: list[Any], threads: Iterable[int]) -> list[int]:
    """Returns what it was. Newer versions of threadpoolctl let no thread put back what another has taken down, unless asked to."""
    before = [library.get_num_threads() for library in libraries]
    for library, now, number in zip(libraries, before, threads, strict=True):
        if now == number:
            continue
        release = getattr(library, "clear_controlling_thread", lambda force: None)
        release(force=True)
        library.set_num_threads(number)
        release(force=True)
    return before


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """Those whose threads the process shares, and those that count for each thread. They are looked for once, since that takes
    milliseconds; NumPy's and SciPy's are loaded here.
    """
    import scipy.linalg  # noqa: F401

    found = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    own = [library for library in found if library.internal_api == "openblas" and library.threading_layer == "openmp"]
    return [library for library in found if library not in own], own
