"""Download a named dataset, verify it, and make its rows: NAME.npz (sparse) or NAME.npy (dense) in the cache folder.

The download goes to a file of its own and the result is written beside and renamed, so what carries the dataset's name is always
whole; whatever fails leaves nothing that could be taken for it.
"""

import bz2
import hashlib
import os
import re
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.data.registry import Dataset, cache_folder, check_shape


def fetch(dataset: Dataset, *, progress: bool = False) -> Path:
    """The path of the dataset in the cache folder, downloaded and converted if it is not there yet."""
    folder = cache_folder()
    final = folder / f"{dataset.name}{'.npy' if dataset.kind in ('cifar', 'images') else '.npz'}"
    if final.is_file():
        return final
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"{dataset.name}-", dir=folder) as work:
        try:
            download = _download(dataset, Path(work), progress)
            made = _MAKERS[dataset.kind](download, Path(work) / final.name)
            check_shape(dataset, made, f"what {dataset.url} holds")
        except OSError as error:
            raise OSError(f"{dataset.name} could not be fetched from {dataset.url}: {error}; nothing was kept") from error
        os.replace(Path(work) / final.name, final)
    return final


def _download(dataset: Dataset, work: Path, progress: bool) -> Path:
    try:
        import pooch
    except ImportError:
        raise ImportError('fetching datasets needs pooch: pip install "reshuffle[fetch]"') from None
    path = work / dataset.url.rsplit("/", 1)[-1]
    try:
        pooch.HTTPDownloader(progressbar=progress, timeout=60)(dataset.url, str(path), None)
    except OSError:
        raise
    except Exception as error:  # what the HTTP client raises on a cut connection is not always an OSError
        raise OSError(f"the download broke off: {error}") from error
    if dataset.sha256 is not None:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != dataset.sha256:
            raise OSError(f"the download has the SHA-256 {found}, not {dataset.sha256}")
    return path


def _make_svmlight(download: Path, final: Path) -> tuple[int, int]:
    from reshuffle.data.svmlight import read_svmlight

    X, y, *_ = read_svmlight([download], zero_based=False)
    arrays = {"format": b"csr", "shape": np.array(X.shape), "data": X.data, "indices": X.indices, "indptr": X.indptr, "y": y}
    np.savez(final, **arrays)
    return (X.shape[0], X.shape[1])


def _make_multilabel(download: Path, final: Path) -> tuple[int, int]:
    """The rows as they are; the lists of labels, which linear predictors of one target cannot use, give way to a zero."""
    plain = download.with_suffix(".plain")
    text = bz2.decompress(download.read_bytes()) if download.suffix == ".bz2" else download.read_bytes()
    plain.write_bytes(re.sub(rb"(?m)^[0-9,.+-]*(?=[ \t])", b"0", text))
    return _make_svmlight(plain, final)


def _make_cifar(download: Path, final: Path) -> tuple[int, int]:
    """Batches of records of one label byte and 3072 pixels."""
    with tarfile.open(download) as archive:
        members = sorted((m for m in archive if re.search(r"data_batch_\d+\.bin$", m.name)), key=lambda m: m.name)
        files = [archive.extractfile(member) for member in members]
        batches = [np.frombuffer(file.read(), dtype=np.uint8).reshape(-1, 3073)[:, 1:] for file in files if file is not None]
    if not batches:
        raise ValueError(f"{download.name} holds no data_batch files")
    X = np.concatenate(batches)
    np.save(final, X)
    return X.shape


def _make_images(download: Path, final: Path) -> tuple[int, int]:
    """One image a row, in the order of their names, written row by row: the whole may be larger than memory."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError('making rows of images needs pillow: pip install "reshuffle[fetch]"') from None
    with zipfile.ZipFile(download) as archive:
        names = sorted(n for n in archive.namelist() if n.lower().endswith((".tif", ".tiff", ".png")) and "__MACOSX" not in n)
        rows: Any = None
        for i, name in enumerate(names):
            with archive.open(name) as file, Image.open(file) as image:
                pixels = np.asarray(image).ravel()
            if rows is None:
                kind = np.uint8 if pixels.dtype == np.uint8 else np.float32
                rows = np.lib.format.open_memmap(final, mode="w+", dtype=kind, shape=(len(names), pixels.size))
            rows[i] = pixels
    if rows is None:
        raise ValueError(f"{download.name} holds no images")
    rows.flush()
    return (rows.shape[0], rows.shape[1])


_MAKERS: dict[str, Callable[[Path, Path], tuple[int, int]]] = {
    "svmlight": _make_svmlight,
    "multilabel": _make_multilabel,
    "cifar": _make_cifar,
    "images": _make_images,
}
