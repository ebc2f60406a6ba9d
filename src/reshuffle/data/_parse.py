"""Compiled reader of svmlight text: `label index:value index:value ...  # comment`, one sample a line.

Numbers are read to the last bit as Python's float reads them. Up to 19 digits are one 64 bit integer w and a power of ten.
Where both are exact doubles, one product or quotient is right. Otherwise w is multiplied by a 64 bit approximation of the
power of five: the product is known to two units of its 64th bit, which settles the rounding to 53 bits except in one case of
some five hundred. Those, and numbers outside the normal range, are left to Python: see `mark`.
"""

import math
from typing import Any

import numpy as np

from reshuffle._compiled import jit

OK, BAD_LABEL, MANY_LABELS, NO_INDEX, BAD_VALUE, NOT_INCREASING, TOO_LARGE, NOT_FINITE = range(8)

LARGEST_INDEX = 1 << 58

_EXACT_POWERS = 10.0 ** np.arange(23)
_SMALLEST_POWER, _LARGEST_POWER = -290, 270
_PLAIN, _LEFT_TO_PYTHON, _NO_NUMBER, _INFINITE_OR_NAN = range(4)

# A value left to Python is marked with a NaN that carries the place of its text; no other NaN can occur.
MARK = np.int64(0x7FF8 << 48)
MARK_MASK = np.int64((1 << 48) - 1)


def _powers_of_five() -> tuple[Any, Any]:
    """5^q = significand * 2^exponent with significand in [2^63, 2^64), rounded down, for every q in range."""
    significands, exponents = [], []
    for q in range(_SMALLEST_POWER, _LARGEST_POWER + 1):
        # an integer that holds 5^q to more bits than are kept, then cut to 64
        held, shift = (5**q << 64, -64) if q >= 0 else ((1 << (64 + 3 * -q)) // 5**-q, -(64 + 3 * -q))
        surplus = held.bit_length() - 64
        significands.append(held >> surplus)
        exponents.append(shift + surplus)
    return np.array(significands, dtype=np.uint64), np.array(exponents, dtype=np.int64)


_SIGNIFICANDS, _EXPONENTS = _powers_of_five()


@jit()
def _high_half(x: Any, y: Any) -> Any:
    """The upper 64 bits of the 128 bit product of two unsigned integers."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    return x1 * y1 + (middle >> half) + (((middle & low) + x0 * y1) >> half)


@jit()
def _scaled(w: Any, q: int) -> tuple[float, int]:
    """w * 10^q and whether it is right or must be left to Python."""
    if w <= np.uint64(1 << 53) and -22 <= q <= 22:
        x = np.float64(w)
        return (x / _EXACT_POWERS[-q] if q < 0 else x * _EXACT_POWERS[q]), _PLAIN
    if w == np.uint64(0):
        return 0.0, _PLAIN
    if q < _SMALLEST_POWER or q > _LARGEST_POWER:
        return 0.0, _LEFT_TO_PYTHON
    one = np.uint64(1)
    exponent = _EXPONENTS[q - _SMALLEST_POWER] + q + 64
    while w < np.uint64(1 << 63):
        w <<= one
        exponent -= 1
    high = _high_half(w, _SIGNIFICANDS[q - _SMALLEST_POWER])
    shift = np.uint64(11) if high >= np.uint64(1 << 63) else np.uint64(10)
    half = one << (shift - one)
    rest = high & ((half << one) - one)
    if rest == half or rest == half - one:
        return 0.0, _LEFT_TO_PYTHON
    significand = (high >> shift) + (one if rest > half else np.uint64(0))
    return math.ldexp(np.float64(significand), exponent + np.int64(shift)), _PLAIN


@jit()
def _is_blank(c: int) -> bool:
    return c == 32 or c == 9 or c == 13 or c == 11 or c == 12


@jit()
def _ends_token(text: Any, i: int) -> Any:
    return i >= text.size or _is_blank(text[i]) or text[i] == 10 or text[i] == 35


@jit()
def _after_query(text: Any, i: int) -> int:
    """Where `qid:` and a whole number end that start at i; -1 where something else stands there."""
    if i + 4 >= text.size or text[i + 1] != 105 or text[i + 2] != 100 or text[i + 3] != 58:
        return -1
    i += 4
    if text[i] == 43 or text[i] == 45:
        i += 1
    first = i
    while i < text.size and 48 <= text[i] <= 57:
        i += 1
    return i if i > first and _ends_token(text, i) else -1


@jit()
def _number(text: Any, i: int) -> tuple[float, int, int]:
    """The number that starts at i, where it ends, and how it went."""
    size = text.size
    negative = False
    if i < size and (text[i] == 43 or text[i] == 45):
        negative = text[i] == 45
        i += 1
    w, q = np.uint64(0), 0
    digits = significant = 0
    after_point = cut = False
    while i < size:
        c = text[i]
        if 48 <= c <= 57:
            digits += 1
            if significant > 0 or c != 48:
                significant += 1
            if significant <= 19:
                w = w * np.uint64(10) + np.uint64(c - 48)
                q -= 1 if after_point else 0
            else:
                cut = cut or c != 48
                q += 0 if after_point else 1
        elif c == 46 and not after_point:
            after_point = True
        else:
            break
        i += 1
    if digits == 0:
        special = i < size and (text[i] | 32 == 110 or text[i] | 32 == 105)  # nan, inf, infinity
        return 0.0, i, _INFINITE_OR_NAN if special else _NO_NUMBER
    if i < size and text[i] | 32 == 101:
        i += 1
        sign = 1
        if i < size and (text[i] == 43 or text[i] == 45):
            sign = -1 if text[i] == 45 else 1
            i += 1
        power, first = 0, i
        while i < size and 48 <= text[i] <= 57:
            power = min(power * 10 + (text[i] - 48), 100000)
            i += 1
        if i == first:
            return 0.0, i, _NO_NUMBER
        q += sign * power
    if cut:
        return 0.0, i, _LEFT_TO_PYTHON
    x, how = _scaled(w, q)
    return (-x if negative else x), i, how


@jit()
def count(text: Any) -> tuple[int, int]:
    """How many lines and how many entries there are at the most."""
    lines, colons = 1, 0
    for i in range(text.size):
        lines += text[i] == 10
        colons += text[i] == 58
    return lines, colons


@jit()
def parse(text: Any, labels: Any, indptr: Any, indices: Any, values: Any, largest: int) -> tuple[int, int, int, int]:
    """Fill the arrays of a CSR matrix and its labels: rows, entries, what went wrong (`OK` if nothing), and where."""
    size = text.size
    label_bits, value_bits = labels.view(np.int64), values.view(np.int64)
    i = row = entry = 0
    indptr[0] = 0
    while i < size:
        while i < size and _is_blank(text[i]):
            i += 1
        if i < size and text[i] != 10 and text[i] != 35:
            at = i
            labels[row], i, how = _number(text, i)
            if how == _LEFT_TO_PYTHON:
                label_bits[row] = MARK | at
            if i < size and text[i] == 44:
                return row, entry, MANY_LABELS, at
            if how == _INFINITE_OR_NAN:
                return row, entry, NOT_FINITE, at
            if how == _NO_NUMBER or not _ends_token(text, i):
                return row, entry, BAD_LABEL, at
            previous = -1
            while True:
                while i < size and _is_blank(text[i]):
                    i += 1
                if i >= size or text[i] == 10 or text[i] == 35:
                    break
                at = i
                if text[i] == 113:  # qid:7 says which query a sample belongs to; linear predictors have no use for it
                    i = _after_query(text, i)
                    if i < 0:
                        return row, entry, NO_INDEX, at
                    continue
                index = 0
                while i < size and 48 <= text[i] <= 57:
                    index = min(index * 10 + (text[i] - 48), 2 * LARGEST_INDEX)
                    i += 1
                if i == at or i >= size or text[i] != 58:
                    return row, entry, NO_INDEX, at
                if index > largest:
                    return row, entry, TOO_LARGE, at
                if index <= previous:
                    return row, entry, NOT_INCREASING, at
                start = i + 1
                values[entry], i, how = _number(text, start)
                if how == _LEFT_TO_PYTHON:
                    value_bits[entry] = MARK | start
                if how == _INFINITE_OR_NAN:
                    return row, entry, NOT_FINITE, at
                if how == _NO_NUMBER or not _ends_token(text, i):
                    return row, entry, BAD_VALUE, at
                indices[entry] = index
                previous = index
                entry += 1
            row += 1
            indptr[row] = entry
        while i < size and text[i] != 10:
            i += 1
        i += 1
    return row, entry, OK, i
