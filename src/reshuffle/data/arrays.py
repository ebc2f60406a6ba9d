"""NumPy and SciPy files: .npy holds a dense X; .npz a sparse X as `scipy.sparse.save_npz` writes it, or arrays X and y.

Labels that lie in a file of their own are named as the target: X.npy with target="y.npy".
"""

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from reshuffle.data._memory import refuse_too_large
from reshuffle.records import DAMAGE, in_short


def read_npy(path: Path, target: str | int | None) -> tuple[Any, Any]:
    return _npy(path), _labels(path, target)


def _npy(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Reading `.npy` or `.npz` file required additional header parsing")  # of Python 2
            return np.load(path, mmap_mode="r", allow_pickle=False)
    except DAMAGE as error:
        raise ValueError(f"{path} is not a NumPy array file, or not all of one: {in_short(error)}") from None


def read_npz(path: Path, target: str | int | None) -> tuple[Any, Any]:
    names: list[str] = []
    try:
        with zipfile.ZipFile(path) as members:
            size = sum(member.file_size for member in members.infolist())
    except DAMAGE as error:
        raise ValueError(f"{path} is not a NumPy or SciPy archive, or not all of one: {in_short(error)}") from None
    refuse_too_large(f"{path} holds arrays that", size)
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            names = [name if name.isprintable() else ascii(name) for name in archive.files]
            X = sp.load_npz(path) if "format" in names else archive["X"] if "X" in names else None
            y = archive["y"] if "y" in names and target is None else None
    except DAMAGE as error:
        inside = f" (of {', '.join(names)})" if names else ""
        raise ValueError(f"{path} is not a NumPy or SciPy archive, or not all of one{inside}: {in_short(error)}") from None
    if X is None:
        held = ", ".join(names) or "nothing"
        raise ValueError(f"{path} holds {held}; save a sparse matrix with scipy.sparse.save_npz, or arrays X and y")
    return X, y if target is None else _labels(path, target)


def _labels(path: Path, target: str | int | None) -> Any:
    """The labels in another file, from where the user stands or beside the data."""
    if target is None:
        return None
    places = [Path(str(target)).expanduser(), path.parent / str(target)]
    found = next((place for place in places if place.is_file()), None)
    if found is None or found.suffix != ".npy":
        raise ValueError(f"target={target!r}: {path} has no columns to choose from; name the .npy file that holds its labels")
    return np.array(_npy(found))
