"""Plain and compressed files and standard input alike; and what a text is whose name does not say it."""

import bz2
import csv
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.data._memory import allow, free_memory, in_words
from reshuffle.tables.table import is_number

STANDARD_INPUT = "-"
MANIFEST, JOURNAL = "store.json", "build.jsonl"  #: of a store, and of one that is being built
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_SVMLIGHT = re.compile(r"[-+.\deE]+(\s+(qid|\d+):\S+)*\s*(#.*)?")
_SAMPLE = 1 << 16


class TooLargeError(ValueError):
    """A file that holds more than there is memory for."""


class Piped:
    """What came through a pipe: like a path, but read once and kept."""

    name, suffix = STANDARD_INPUT, ""

    def __init__(self) -> None:
        self.content = _Metered(sys.stdin.buffer, str(self)).whole()

    def __str__(self) -> str:
        return "standard input"


Place = Path | Piped


def kind(path: Path) -> str:
    """The ending that says what is inside: .csv for both table.csv and table.csv.gz."""
    return (path.with_suffix("") if path.suffix in _OPENERS else path).suffix.lower()


def expand(source: str | Path) -> list[Path]:
    """The files that a path stands for: itself, those of a folder, or those that a pattern fits; [] where there are none."""
    path = Path(source).expanduser()
    if path.is_dir():
        found = sorted(file for file in path.iterdir() if file.is_file() and file.name[0] not in "._")
        if not found:
            raise ValueError(f"the folder {str(source)!r} holds no files")
        return found
    return [path] if path.exists() else sorted(file for name in glob(str(path)) if (file := Path(name)).is_file())


def partial_of(store: Path) -> Path:
    """The folder in which a store is built."""
    return Path(f"{store}.part")


def is_store(path: str | Path) -> bool:
    """Whether it is a store, or is becoming one."""
    place = Path(path).expanduser()
    return any((place / name).is_file() for name in (MANIFEST, JOURNAL)) or (partial_of(place) / JOURNAL).is_file()


class _Metered(io.BufferedIOBase):
    """Bytes of which nobody knows how many will come, refused when there are more than memory has room for."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name, self._count, self._most = file, name, 0, free_memory()

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> Any:
        return self.whole() if size is None or size < 0 else self._metered(self._file.read(size))

    def read1(self, size: int = -1, /) -> bytes:
        return self._metered(self._file.read1(size))

    def tell(self) -> int:
        return self._count

    def whole(self) -> Any:
        """All that is left."""
        content = bytearray()
        while piece := self.read(1 << 22):
            content += piece
        return content

    def _metered(self, piece: bytes) -> bytes:
        self._count += len(piece)
        if self._most is not None and self._count > self._most:
            raise TooLargeError(
                f"{self._name} holds more than the {in_words(self._most)} of memory that are free; decompress it to a file first, "
                f"or {allow(2 * self._most)}"
            )
        return piece


@contextmanager
def opened(path: Place) -> Iterator[Any]:
    """The bytes as a file; damage to a compressed one is told with the name and with how far it could be read."""
    if isinstance(path, Piped):
        yield io.BytesIO(path.content)
        return
    if path.suffix not in _OPENERS:
        with open(path, "rb") as plain:
            yield plain
        return
    with _OPENERS[path.suffix](path, "rb") as file:
        metered = _Metered(file, str(path))
        try:
            yield metered
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, OSError) as error:
            if getattr(error, "errno", None) is not None:
                raise
            raise ValueError(f"{path} cannot be decompressed after byte {metered.tell()} of its content: {error}") from None


@contextmanager
def streamed(path: Path) -> Iterator[tuple[Any, Any]]:
    """The content as a file of any length, and the file itself, which knows how much of it was read."""
    with open(path, "rb") as raw:
        if path.suffix not in _OPENERS:
            yield raw, raw
            return
        with _OPENERS[path.suffix](raw, "rb") as file:
            try:
                yield file, raw
            except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile, OSError) as error:
                if getattr(error, "errno", None) is not None:
                    raise
                raise ValueError(f"{path} cannot be decompressed after byte {raw.tell()} of the file: {error}") from None


def read_bytes(path: Place) -> Any:
    """The content as an array of uint8; a plain file is mapped, not read."""
    if isinstance(path, Piped) or path.suffix in _OPENERS:
        with opened(path) as file:
            return np.frombuffer(file.read(), dtype=np.uint8)
    if path.stat().st_size == 0:
        return np.frombuffer(b"", dtype=np.uint8)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))


def text_sample(path: Place) -> list[str]:
    """The first lines, for a look at what they are."""
    with opened(path) as file:
        start: bytes = file.read(_SAMPLE)
    lines = list(io.StringIO(start.decode("utf-8-sig", errors="replace"), newline=""))
    return lines[: -1 if len(start) == _SAMPLE and len(lines) > 1 else None]


def holds_table(path: Place) -> bool:
    """Whether text without a telling name is a table: its first line is not svmlight, and in a file, which may be svmlight with a
    mistake in it, some delimiter cuts all lines alike.
    """
    lines = [line for line in text_sample(path) if line.strip()]
    if not lines or _SVMLIGHT.fullmatch(lines[0].strip()):
        return False
    return isinstance(path, Piped) or delimiter_of(lines) is not None


def delimiter_of(lines: list[str]) -> str | None:
    """The one that cuts all lines after the first into the same number of cells, two or more; of several, that which finds the
    most numbers; None without one.
    """
    found: list[tuple[int, int, str]] = []
    for delimiter in ",;\t":
        rows: list[list[str]] = []
        with suppress(csv.Error):  # the sample may end inside of quotes
            rows.extend(row for row in csv.reader(lines, delimiter=delimiter, strict=True) if row)
        body = rows[1:] or rows
        if body and len(body[0]) > 1 and len({len(row) for row in body}) == 1 and len(rows[0]) > 1:
            found.append((sum(is_number(with_point(cell, delimiter)) for row in body for cell in row), len(body[0]), delimiter))
    return max(found, key=lambda entry: entry[:2])[2] if found else None


def with_point(cell: str, delimiter: str) -> str:
    """Where semicolons stand between cells, a comma is the point in a number."""
    return cell.replace(",", ".") if delimiter == ";" else cell
