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

_CACHE_LINE = 64  # bytes

CHECKED = os.environ.get("RESHUFFLE_CHECKED") == "1"


def jit(**options: Any) -> Callable[[Kernel], Kernel]:
    """``numba.njit`` for a kernel: releases the GIL, keeps its machine code between processes."""
    options = {"nogil": True, "no_cfunc_wrapper": True, **options}  # nobody hands a kernel over as a C function

    def decorate(function: Kernel) -> Kernel:
        if CHECKED:  # no cache: it would not tell checked code from the other
            return numba.njit(function, boundscheck=True, **options)  # type: ignore[no-any-return]
        try:
            return numba.njit(function, cache=True, **options)  # type: ignore[no-any-return]
        except RuntimeError:  # numba found no folder to cache in
            return numba.njit(function, **options)  # type: ignore[no-any-return]

    return decorate


def _ask(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> None:
    data = context.make_array(kind)(context, builder, array).data
    address, i32 = builder.bitcast(builder.gep(data, [index]), ir.IntType(8).as_pointer()), ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [address.type, i32, i32, i32])
    function = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0i8")
    builder.call(function, [address, i32(0), i32(3), i32(1)])


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask the processor to bring array[index] into cache: rows in a random order are out of reach of its own guess."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _ask(context, builder, signature.args[0], *arguments)
        return context.get_dummy_value()

    return types.void(array, index), emit


@intrinsic  # type: ignore[untyped-decorator]
def prefetch_range(typing_context: Any, array: Any, begin: Any, end: Any) -> Any:
    """The same of array[begin:end], once for every line of the cache. A loop in Python's words would have to say that its step is
    not zero, and numba counts references around code that can raise.
    """

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        step = arguments[1].type(_CACHE_LINE // context.get_abi_sizeof(context.get_data_type(array.dtype)))
        with cgutils.for_range_slice(builder, arguments[1], arguments[2], step) as (index, _):
            _ask(context, builder, signature.args[0], arguments[0], index)
        return context.get_dummy_value()

    return types.void(array, begin, end), emit


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
