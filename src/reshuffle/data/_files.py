"""Plain and compressed files alike."""

import bz2
import gzip
import lzma
import zlib
from pathlib import Path
from typing import Any

import numpy as np

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def kind(path: Path) -> str:
    """The ending that says what is inside: .csv for both table.csv and table.csv.gz."""
    return (path.with_suffix("") if path.suffix in _OPENERS else path).suffix.lower()


def read_bytes(path: Path) -> Any:
    """The content as an array of uint8; a plain file is mapped, not read."""
    if path.suffix in _OPENERS:
        try:
            with _OPENERS[path.suffix](path, "rb") as file:
                return np.frombuffer(file.read(), dtype=np.uint8)
        except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
            raise ValueError(f"{path} cannot be decompressed: {error}") from None
    if path.stat().st_size == 0:
        return np.frombuffer(b"", dtype=np.uint8)
    return np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))


def open_text(path: Path) -> Any:
    opener = _OPENERS.get(path.suffix, open)
    return opener(path, "rt", newline="", encoding="utf-8-sig")
