"""How anything is kept: files that are whole or not there, and the two records that a stopped run goes on from.

A `Journal` grows by a line for each finished permutation; a `Checkpoint` is written anew after every epoch. Both hold the settings
that they were made with and refuse others, and both are one run's alone while it writes them.
"""

import hashlib
import io
import json
import os
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from reshuffle import __version__
from reshuffle.epoch import Epoch
from reshuffle.orders import Order
from reshuffle.problem import Problem
from reshuffle.rows import Rows
from reshuffle.rows.memory import hash_array


def check_output(path: str | Path, name: str = "output") -> None:
    """Refuse, before any work, a place that cannot take a file. `name` is what the user calls it."""
    place = Path(path)
    if place.is_dir():
        raise ValueError(f"{name} {str(path)!r} is a folder; name a file in it")
    if not place.parent.is_dir():
        raise ValueError(f"{name} {str(path)!r}: the folder {str(place.parent)!r} does not exist; make it first")
    if not os.access(place.parent, os.W_OK):
        raise ValueError(f"{name} {str(path)!r}: the folder {str(place.parent)!r} cannot be written to; choose another")


def write_file(path: str | Path, content: str | bytes) -> None:
    """To a file beside, which then takes the place of an earlier one: whatever fails leaves that one as it was."""
    check_output(path)
    place = Path(path)
    beside = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)
        os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)


def finite(value: Any) -> Any:
    """The same in types that JSON has, with None in place of every number that it has no word for."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def data_hash(rows: Rows, *arrays: Any) -> str:
    """SHA-256 of the rows, as they are stored, and of the arrays that go with them."""
    digest = hashlib.sha256()
    rows.update_hash(digest)
    for array in arrays:
        hash_array(digest, array)
    return digest.hexdigest()


def settings_of(problem: Problem, order: Order, batch_size: int, *arrays: Any) -> dict[str, Any]:
    """What every run on a problem depends on; `arrays` are whatever else it reads for each row or feature."""
    given = () if order.given is None else (order.given,)
    return {
        "reshuffle": __version__,
        "loss": repr(problem.loss),  # with every digit of its parameter
        "alpha": problem.alpha,
        "fit_intercept": problem.fit_intercept,
        "order": order.name,
        "seed": order.seed,
        "batch_size": batch_size,
        "data_sha256": data_hash(problem.rows, *arrays, *given),
    }


def refuse_other_settings(name: str, path: str | Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """`name` is the argument that `path` was given for."""
    for setting in {**wanted, **found}:
        if found.get(setting) != wanted.get(setting):
            raise ValueError(
                f"{name}={str(path)!r} was made with other settings: {setting} is {found.get(setting)!r} there and "
                f"{wanted.get(setting)!r} now; choose another file, or run with the same settings"
            )


@contextmanager
def _held(name: str, path: str | Path) -> Iterator[None]:
    """For one run at a time. The lock is the system's, on an empty file beside, so it goes with the process however that ends."""
    check_output(path, name)
    real = Path(path).resolve()
    beside = real.with_name(f".{real.name}.lock")
    with open(beside, "ab") as file:
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):
            raise ValueError(f"{name}={str(path)!r}: another run is writing this file; let it end or choose another") from None
        except OSError:
            pass  # this file system has no locks
        try:
            yield
        finally:
            if sys.platform == "win32":
                file.close()  # no open file can be removed there; elsewhere it must be, since once closed it may be another's
            with suppress(PermissionError):
                beside.unlink(missing_ok=True)


def _lock(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(file.fileno()).st_nlink == 0:  # its last holder has removed it meanwhile, and the next will make a new one
            raise BlockingIOError


class Journal:
    """A line of JSON with the settings, then one for each finished permutation: `done` holds those it has, `append` adds one.

    A line is written in one call and flushed, so that a run killed at any moment loses at most the permutations in flight.
    """

    def __init__(self, file: IO[bytes], done: list[dict[str, Any]]) -> None:
        self._file, self.done = file, done

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, settings: dict[str, Any]) -> Iterator[Self]:
        with _held("out", path), open(path, "a+b") as file:
            file.seek(0)
            content = file.read()
            if content and not content.startswith(b'{"reshuffle"'):
                raise ValueError(f"out={str(path)!r} exists and is no journal of reshuffle; choose another file")
            whole = content[: content.rfind(b"\n") + 1]  # without a torn last line
            lines = [_entry(path, number, line) for number, line in enumerate(whole.splitlines(), 1)]
            if lines:
                refuse_other_settings("out", path, lines[0], settings)
            file.truncate(len(whole))
            journal = cls(file, lines[1:])
            if not lines:
                journal.append(settings)
            yield journal

    def append(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()


def _entry(path: str | Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        entry: dict[str, Any] = json.loads(line)
        entry["reshuffle" if number == 1 else "permutation"]
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path}, line {number} is damaged: {line[:60]!r}; delete that line to go on") from None
    return entry


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the next epoch of a run depends on: arrays and the history."""

    path: Path
    settings: str  #: as JSON

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, settings: dict[str, Any]) -> Iterator[Self]:
        with _held("checkpoint", path):
            yield cls(Path(path), json.dumps(settings, sort_keys=True))

    def load(self) -> tuple[dict[str, Any], list[Epoch]] | None:
        """None where there is nothing to go on from."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            found, history = dict(json.loads(str(arrays.pop("settings")))), json.loads(str(arrays.pop("history")))
        except (ValueError, TypeError, OSError, EOFError, KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"checkpoint={str(self.path)!r} exists and is no checkpoint of reshuffle: {error}") from None
        refuse_other_settings("checkpoint", self.path, found, json.loads(self.settings))
        return arrays, [Epoch(**entry) for entry in history]

    def save(self, arrays: dict[str, Any], history: list[Epoch]) -> None:
        content, record = io.BytesIO(), json.dumps([asdict(epoch) for epoch in history])
        np.savez(content, settings=np.array(self.settings), history=np.array(record), **arrays)
        write_file(self.path, content.getvalue())
