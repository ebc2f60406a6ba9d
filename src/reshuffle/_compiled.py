"""How this package compiles: nogil, and cached on disk where a cache folder can be written, without a cache elsewhere.

With RESHUFFLE_CHECKED=1 in the environment every index is compared with the bounds of its array, and one that lies outside is an
IndexError: several times slower, compiled anew in every process, and meant for tests of the kernels.
"""

import os
from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

Kernel = Callable[..., Any]

CHECKED = os.environ.get("RESHUFFLE_CHECKED") == "1"


def jit(**options: Any) -> Callable[[Kernel], Kernel]:
    """``numba.njit`` for a kernel: releases the GIL, keeps its machine code between processes."""

    def decorate(function: Kernel) -> Kernel:
        if CHECKED:  # no cache: it would not tell checked code from the other
            return numba.njit(function, nogil=True, boundscheck=True, **options)  # type: ignore[no-any-return]
        try:
            return numba.njit(function, nogil=True, cache=True, **options)  # type: ignore[no-any-return]
        except RuntimeError:  # numba found no folder to cache in
            return numba.njit(function, nogil=True, **options)  # type: ignore[no-any-return]

    return decorate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to bring array[index] into cache: rows in a random order are out of reach of its own guess."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        body = context.make_array(signature.args[0])(context, builder, arguments[0])
        address = builder.bitcast(builder.gep(body.data, [arguments[1]]), ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        signature_ir = ir.FunctionType(ir.VoidType(), [address.type, i32, i32, i32])
        function = cgutils.get_or_insert_function(builder.module, signature_ir, "llvm.prefetch.p0i8")
        builder.call(function, [address, i32(0), i32(3), i32(1)])
        return context.get_dummy_value()

    return types.void(array, index), emit


def function_at(signature: Any) -> Any:
    """Makes a C function of its address, inside a kernel. Kernels take functions by their addresses: numba sees at once that a
    number is one, and to see what a function is takes it longer than a kernel takes on small data.
    """
    kind = types.FunctionType(signature)

    @intrinsic  # type: ignore[untyped-decorator]
    def function(typing_context: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            empty = context.get_constant_null(kind)
            return builder.insert_value(empty, builder.inttoptr(arguments[0], empty.type.elements[0]), 0)

        return kind(address), emit

    return function


_NUMBER, _VECTOR = types.float64, types.float64[::1]
of_sample = function_at(_NUMBER(_NUMBER, _NUMBER, _NUMBER))  #: a function of a loss, f(z, y, parameter)
prox_of_sample = function_at(_NUMBER(*[_NUMBER] * 5))  #: its prox
of_samples = function_at(types.void(_VECTOR, _VECTOR, _NUMBER, _VECTOR))  #: f(z, y, parameter, out) of vectors
