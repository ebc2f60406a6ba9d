"""The journal of a run: a header line with every setting, then one line of JSON for each finished permutation.

A line is written in one call and flushed, so a run killed at any moment loses at most the permutations in flight; a torn
last line is dropped when the file is opened again. A journal made with other settings is refused, never mixed.
"""

import hashlib
import json
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from reshuffle.rows import Rows
from reshuffle.rows.memory import hash_array


class Journal:
    """Open `path` for the run that `header` describes: `done` holds the entries it has, `append` adds one."""

    def __init__(self, path: str | Path, header: dict[str, Any]) -> None:
        self.path = Path(path)
        self.done: list[dict[str, Any]] = []
        if not self.path.parent.is_dir():
            raise ValueError(f"out={str(path)!r}: the folder {self.path.parent} does not exist; make it first")
        lines, size = self._complete_lines()
        if lines:
            self._check(lines[0], header)
            self.done = [self._entry(number, line) for number, line in enumerate(lines[1:], 2)]
        self._file = open(self.path, "r+b" if self.path.exists() else "w+b")  # noqa: SIM115 closed in __exit__
        self._file.truncate(size)
        self._file.seek(size)
        if not lines:
            self.append(header)

    def _complete_lines(self) -> tuple[list[bytes], int]:
        if not self.path.exists():
            return [], 0
        content = self.path.read_bytes()
        if content and b"\n" not in content and not content.startswith(b'{"reshuffle"'):
            raise ValueError(f"out={str(self.path)!r} exists and is no journal of reshuffle; choose another file")
        size = content.rfind(b"\n") + 1
        return content[:size].splitlines(), size

    def _entry(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            return {"permutation": int(entry["permutation"]), **entry}
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{self.path}, line {number} is damaged: {line[:60]!r}; delete that line to go on") from None

    def _check(self, first: bytes, header: dict[str, Any]) -> None:
        try:
            found = json.loads(first)
            found["reshuffle"]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"out={str(self.path)!r} exists and is no journal of reshuffle; choose another file") from None
        for name in {**header, **found}:
            if found.get(name) != header.get(name):
                raise ValueError(
                    f"out={str(self.path)!r} was made with other settings: {name} is {found.get(name)!r} there and "
                    f"{header.get(name)!r} now; choose another file, or run with the same settings"
                )

    def append(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def data_hash(rows: Rows, *arrays: Any) -> str:
    """SHA-256 of the rows, as they are stored, and of the arrays that go with them."""
    digest = hashlib.sha256()
    rows.update_hash(digest)
    for array in arrays:
        hash_array(digest, array)
    return digest.hexdigest()
