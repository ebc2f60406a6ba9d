"""How anything is kept: files that are whole or not there, and the two records that a stopped run goes on from.

A `Journal` grows by a line for each finished permutation; a `Checkpoint` is written anew after every epoch. Both hold the settings
that they were made with and refuse others, and both are one run's alone while it writes them. Every line of a journal, every
checkpoint and every model has a checksum, so that one digit that a disk or an editor changed is not taken for a result.
"""

import hashlib
import io
import json
import lzma
import os
import struct
import sys
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from glob import escape
from math import inf, isfinite
from pathlib import Path
from threading import get_ident
from typing import IO, Any, Self

import numpy as np

from reshuffle import __version__
from reshuffle.epoch import Epoch
from reshuffle.orders import Order
from reshuffle.problem import Problem
from reshuffle.rows import Rows
from reshuffle.rows.memory import hash_array

#: What NumPy and zipfile raise on an archive that was changed or torn.
DAMAGE: Any = (
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
    IndexError,
    OverflowError,
    MemoryError,
    SyntaxError,  # of the header of an array, which is a Python literal
    RuntimeError,  # an archive that says it is encrypted; NotImplementedError: compressed in an unknown way
    OSError,
    EOFError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    tokenize.TokenError,
)
_CHECK, _DIGITS = "checksum", 16
_SHOWN = 200  # characters of what another library says


def in_short(error: BaseException, most: int = _SHOWN) -> str:
    """What a library says of a damaged file, which may hold much of the file, as part of one line."""
    words = " ".join((f"{error} is missing" if isinstance(error, KeyError) else str(error)).split()) or type(error).__name__
    return words if len(words) <= most else f"{words[:most]}..."


def check_output(path: str | Path, name: str = "output") -> None:
    """Refuse, before any work, a place that cannot take a file. `name` is what the user calls it."""
    if Path(path).is_dir():
        raise ValueError(f"{name} {str(path)!r} is a folder; name a file in it")
    _check_parent(path, name)


def _check_parent(path: str | Path, name: str) -> None:
    place = Path(path)
    if not place.parent.is_dir():
        raise ValueError(f"{name} {str(path)!r}: the folder {str(place.parent)!r} does not exist; make it first")
    if not os.access(place.parent, os.W_OK):
        raise ValueError(f"{name} {str(path)!r}: the folder {str(place.parent)!r} cannot be written to; choose another")


def write_file(path: str | Path, content: str | bytes) -> None:
    """To a file beside, which then takes the place of an earlier one: whatever fails leaves that one as it was."""
    check_output(path)
    place = Path(path)
    _clear(place)
    beside = place.with_name(f".{place.name}.{os.getpid()}.{get_ident()}.part")
    try:
        with _locked(beside) as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            _close_on_windows(file)
            os.replace(beside, place)
    finally:
        beside.unlink(missing_ok=True)


def _clear(place: Path) -> None:
    """Remove what writers of this file that were killed have left beside it; one that lives has a lock on its own."""
    for left in place.parent.glob(f".{escape(place.name)}.[0-9]*.[0-9]*.part"):
        with suppress(OSError), open(left, "rb+") as file:
            _lock(file)
            _close_on_windows(file)
            left.unlink()


def _locked(path: Path) -> IO[bytes]:
    while True:
        file = open(path, "wb")  # noqa: SIM115 the caller closes it
        try:
            _lock(file)
        except (BlockingIOError, PermissionError):  # in this moment another writer has taken it for one that was left behind
            file.close()
            continue
        except OSError:
            pass  # this file system has no locks, so nothing is taken for that
        if _lies_at(file, path):
            return file
        file.close()  # or had, before it could be locked


def _lies_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def finite(value: Any) -> Any:
    """The same in types that JSON has, with None in place of every number that it has no word for."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def checksum(value: Any) -> str:
    """Of anything that JSON can hold: equal for what is equal after it was written and read again."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def read_json(text: str | bytes) -> Any:
    """What a file holds; whatever is wrong with it is a ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
def held(name: str, path: str | Path) -> Iterator[None]:
    """A file or a folder for one run at a time. The lock is the system's, on an empty file beside, so it goes with the process
    however that ends.
    """
    _check_parent(path, name)
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
            _close_on_windows(file)
            with suppress(PermissionError):
                beside.unlink(missing_ok=True)


def _close_on_windows(file: IO[bytes]) -> None:
    """Before its name changes or goes: no open file can be renamed or removed there; elsewhere it stays open, since once closed it
    may be another's.
    """
    if sys.platform == "win32":
        file.close()


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

    A line is written in one call and flushed, so that a run killed at any moment loses at most the permutations in flight. A line
    that is damaged is named in a warning and dropped, so that its permutation is measured again; the others are kept.
    """

    def __init__(self, file: IO[bytes], done: list[dict[str, Any]]) -> None:
        self._file, self.done = file, done

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, settings: dict[str, Any]) -> Iterator[Self]:
        check_output(path, "out")
        with held("out", path):
            content = Path(path).read_bytes() if Path(path).exists() else b""
            if content and not content.startswith(b'{"reshuffle"'):
                raise ValueError(f"out={str(path)!r} exists and is no journal of reshuffle; choose another file")
            whole = content[: content.rfind(b"\n") + 1]  # without a torn last line
            first, *rest = whole.splitlines(keepends=True) or [b""]
            if whole:
                made_with = _entry(first)
                if made_with is None:
                    raise ValueError(
                        f"{path}, line 1 is damaged: {first[:60]!r}; it says what the rest belongs to: choose another file"
                    )
                refuse_other_settings("out", path, made_with, settings)
            entries = [_entry(line) for line in rest]
            kept = [line for line, entry in zip(rest, entries, strict=True) if _is_sample(entry)]
            if len(kept) < len(rest):
                number = next(k for k, entry in enumerate(entries, 2) if not _is_sample(entry))
                more = len(rest) - len(kept) - 1
                also = f", and {more} more are" if more else ""
                warnings.warn(f"{path}, line {number} is damaged{also}; what is lost is measured again", UserWarning, stacklevel=4)
                write_file(path, b"".join([first, *kept]))
            elif len(whole) < len(content):
                os.truncate(path, len(whole))
            with open(path, "ab") as file:
                journal = cls(file, [entry for entry in entries if entry is not None and _is_sample(entry)])
                if not whole:
                    journal.append(settings)
                yield journal

    def append(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps({**entry, _CHECK: checksum(entry)[:_DIGITS]}).encode() + b"\n")
        self._file.flush()


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line of a journal holds; None where that is not what was written."""
    try:
        entry: dict[str, Any] = read_json(line)
        return entry if entry.pop(_CHECK) == checksum(entry)[:_DIGITS] else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _is_sample(entry: dict[str, Any] | None) -> bool:
    """Whether it can be the constants of a permutation."""
    return (
        entry is not None
        and type(entry.get("permutation")) is int
        and all(type(value) in (int, float) and 0.0 <= value < inf for value in entry.values())
    )


@dataclass(frozen=True)
class Checkpoint:
    """Everything that the next epoch of a run depends on: arrays and the history."""

    path: Path
    settings: str  #: as JSON

    @classmethod
    @contextmanager
    def open(cls, path: str | Path, settings: dict[str, Any]) -> Iterator[Self]:
        check_output(path, "checkpoint")
        with held("checkpoint", path):
            yield cls(Path(path), json.dumps(settings, sort_keys=True))

    def load(self) -> tuple[dict[str, Any], list[Epoch]] | None:
        """None where there is nothing to go on from."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            check = str(arrays.pop(_CHECK))
            if check != _of_arrays(arrays):
                raise ValueError("its content is not what its checksum says")
            found, history = dict(read_json(str(arrays.pop("settings")))), read_json(str(arrays.pop("history")))
            epochs = [Epoch(**entry) for entry in history]
        except DAMAGE as error:
            raise ValueError(
                f"checkpoint={str(self.path)!r} exists and is no checkpoint of reshuffle, or a damaged one: {in_short(error)}; "
                "choose another file, or delete it to begin anew"
            ) from None
        refuse_other_settings("checkpoint", self.path, found, json.loads(self.settings))
        return arrays, epochs

    def save(self, arrays: dict[str, Any], history: list[Epoch]) -> None:
        content, record = io.BytesIO(), json.dumps([asdict(epoch) for epoch in history])
        kept: dict[str, Any] = {"settings": np.array(self.settings), "history": np.array(record), **arrays}
        kept[_CHECK] = np.array(_of_arrays(kept))
        np.savez(content, **kept)
        write_file(self.path, content.getvalue())


def _of_arrays(arrays: dict[str, Any]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode())
        hash_array(digest, arrays[name])
    return digest.hexdigest()
