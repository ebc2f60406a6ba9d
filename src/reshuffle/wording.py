"""Numbers in words, for people: how steps, counts and ratios are written on pages and in sentences."""

from math import floor, log10

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_WORDS = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def number(x: float | None) -> str:
    """Four digits that matter."""
    if x is None or x != x:
        return "–"
    if x == 0.0:
        return "0"
    if abs(x) == float("inf"):
        return "∞"
    if 1e-4 <= abs(x) < 1e6:
        return plain(float(f"{x:.4g}"))
    return _scientific(x, 3)


def count(x: float) -> str:
    """A whole number: in full below a million, in words above, as a power of ten where words end."""
    if x < 1e6:
        return f"{round(x):,}"
    if x >= 1e15:
        return _scientific(x, 2)
    size, word = next(entry for entry in _WORDS if x >= entry[0])
    return f"{float(f'{x / size:.3g}'):g} {word}"


def factor(ratio: float) -> str:
    """A ratio without false precision: 0.008, 1.35, 22, 1,590."""
    if ratio < 0.1:
        return plain(float(f"{ratio:.2g}"))
    if ratio < 10.0:
        return f"{float(f'{ratio:.2f}'):g}"
    return f"{round(ratio):,}" if ratio < 1000.0 else count(float(f"{ratio:.3g}"))


def counted(x: float, noun: str) -> str:
    return f"{count(x)} {noun}{'' if x == 1 else 's'}"


def percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g}\u00a0%"


def plain(x: float) -> str:
    """Without an exponent, and without zeros that say nothing."""
    text = f"{x:,.12f}".rstrip("0").rstrip(".")
    return text if x else "0"


def compared(one: float, other: float, more: str, less: str, same: str) -> str:
    """'3 times higher', '1.4 times lower' or 'as high': `one` against `other`, both positive."""
    ratio = one / other
    if 1 / 1.05 <= ratio <= 1.05:
        return same
    return f"{factor(ratio)} times {more}" if ratio > 1.0 else f"{factor(1.0 / ratio)} times {less}"


def _scientific(x: float, digits: int) -> str:
    exponent = floor(log10(abs(x)))
    mantissa = round(x / 10.0**exponent, digits)
    if abs(mantissa) >= 10.0:
        mantissa, exponent = mantissa / 10.0, exponent + 1
    return f"{mantissa:g}\u00a0×\u00a010{str(exponent).translate(_SUPERSCRIPT)}"
