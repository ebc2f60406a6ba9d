"""How this package compiles: nogil, and cached on disk where a cache folder can be written, without a cache elsewhere."""

from collections.abc import Callable
from typing import Any

import numba

Kernel = Callable[..., Any]


def jit(**options: Any) -> Callable[[Kernel], Kernel]:
    """``numba.njit`` for a kernel: releases the GIL, keeps its machine code between processes."""

    def decorate(function: Kernel) -> Kernel:
        try:
            return numba.njit(function, nogil=True, cache=True, **options)  # type: ignore[no-any-return]
        except RuntimeError:  # numba found no folder to cache in
            return numba.njit(function, nogil=True, **options)  # type: ignore[no-any-return]

    return decorate
