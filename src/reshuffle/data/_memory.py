"""What a file would take in memory is known before it is allocated: a few bytes can ask for more than any machine has."""

import os
from pathlib import Path

_LIMIT = "RESHUFFLE_MEMORY"
_GROUP = Path("/sys/fs/cgroup")
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def free_memory() -> int | None:
    """Bytes that reading may take: what $RESHUFFLE_MEMORY says (64G), else what the system has free; None where it does not say."""
    given = os.environ.get(_LIMIT)
    if given:
        return size_of(_LIMIT, given)
    return _free_in_group(_free_in_system())


def size_of(name: str, given: str | int) -> int:
    """Bytes, from a number of them or from words such as 2GiB, 64G or 500M."""
    number, unit = str(given).strip().upper().removesuffix("B").removesuffix("I"), ""
    if number and number[-1] in _UNITS:
        number, unit = number[:-1], number[-1]
    if isinstance(given, bool) or not number.strip().isdecimal():
        raise ValueError(f"{name}={given!r} is not a size; write bytes, or a number with K, M, G or T")
    return int(number) * _UNITS[unit]


def _free_in_system() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pages = "SC_AVPHYS_PAGES"
        return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE") if pages in getattr(os, "sysconf_names", ()) else None


def _free_in_group(free: int | None) -> int | None:
    """The same inside a container that has a limit of its own."""
    try:
        limit, used, details = ((_GROUP / f"memory.{name}").read_text() for name in ("max", "current", "stat"))
        cached = next(int(line.split()[1]) for line in details.splitlines() if line.startswith("inactive_file "))
        own = max(int(limit) - int(used) + cached, 0)
    except (OSError, StopIteration, ValueError):  # no group, or one whose limit is "max"
        return free
    return own if free is None else min(own, free)


def refuse_too_large(what: str, size: int, remedy: str = "") -> None:
    """`what` takes `size` bytes; `remedy` is another way out than more memory."""
    free = free_memory() if size > 1 << 24 else None  # anybody has 16 MB
    if free is not None and size > free:
        other = f"{remedy}, or " if remedy else ""
        raise ValueError(f"{what} would take {in_words(size)} of memory, and {in_words(free)} are free; {other}{allow(size)}")


def allow(size: int) -> str:
    return f"set {_LIMIT}={-(-size // 2**30)}G to allow it"


def in_words(size: int) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size = size / 1000  # type: ignore[assignment]
    return f"{size:.3g} TB"
