"""NumPy and SciPy files: .npy holds a dense X; .npz a sparse X as `scipy.sparse.save_npz` writes it, or arrays X and y.

Labels that lie in a file of their own are named as the target: X.npy with target="y.npy". So are weights, by weight="w.npy"
or, in an .npz file, by the name of their array.
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
    return _npy(path), _beside(path, "target", "labels", target)


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
    return X, y if target is None else _beside(path, "target", "labels", target)


def unused_weights(path: Path) -> str:
    """What there is to say of an .npz file with an array that is called as weights are, where none is named."""
    found = next((name for name in _arrays_of(path) if name in ("sample_weight", "weights", "weight")), None)
    return "" if found is None else f"the weights in its array {found!r} are not used; weight={found!r} (--weight {found}) does"


def read_weights(path: Path, weight: str) -> Any:
    """An array of an .npz file, or a file beside."""
    if weight not in _arrays_of(path):
        return _beside(path, "weight", "weights", weight)
    try:
        with np.load(path, allow_pickle=False) as archive:
            return archive[weight]
    except DAMAGE as error:
        raise ValueError(f"{path}: the array {weight!r} cannot be read: {in_short(error)}") from None


def _arrays_of(path: Path) -> list[str]:
    if path.suffix != ".npz":
        return []
    try:
        with zipfile.ZipFile(path) as members:
            return [name.removesuffix(".npy") for name in members.namelist()]
    except DAMAGE as error:
        raise ValueError(f"{path} is not a NumPy or SciPy archive, or not all of one: {in_short(error)}") from None


def _beside(path: Path, argument: str, what: str, name: str | int | None) -> Any:
    """Labels or weights in another file, from where the user stands or beside the data."""
    if name is None:
        return None
    places = [Path(str(name)).expanduser(), path.parent / str(name)]
    found = next((place for place in places if place.is_file()), None)
    if found is None or found.suffix != ".npy":
        inside = "no array of that name" if path.suffix == ".npz" and argument == "weight" else "no columns to choose from"
        raise ValueError(f"{argument}={name!r}: {path} has {inside}; name the .npy file that holds its {what}")
    return np.array(_npy(found))
