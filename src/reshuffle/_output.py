"""Files that the user asked for: refused early where they cannot be written, and whole or not at all."""

import os
from pathlib import Path


def check_output(path: str | Path, name: str = "output") -> None:
    """Refuse, before any work, a place that cannot take a file. `name` is what the user calls it."""
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"{name} {str(path)!r} is a folder; name a file in it")
    if not place.parent.is_dir():
        raise ValueError(f"{name} {str(path)!r}: the folder {str(place.parent)!r} does not exist; make it first")
    if not os.access(place.parent, os.W_OK):
        raise ValueError(f"{name} {str(path)!r}: the folder {str(place.parent)!r} cannot be written to; choose another")


def write_whole(path: str | Path, text: str) -> None:
    """To a file beside, which then takes the place of an earlier one; Ctrl-C leaves that one as it was."""
    check_output(path)
    place = Path(path)
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)
