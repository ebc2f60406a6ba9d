"""Download a named dataset, verify it, and make its rows: NAME.npz (sparse) or NAME.npy (dense) in the cache folder.

The download goes to a file of its own and the result is written beside and renamed, so what carries the dataset's name is always
whole; whatever fails leaves nothing that could be taken for it.

A download is compared with the SHA-256 that its source publishes. Where none is published it is not verified, which is said; its
own sum is kept in `sums.json` beside the data, and what the same address gives later must have it too.
"""

import hashlib
import json
import os
import re
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.data._files import read_bytes
from reshuffle.data._memory import refuse_too_large
from reshuffle.data.registry import Dataset, cache_folder, check_shape
from reshuffle.records import DAMAGE, held, in_short, read_json, write_file

_SUMS = "sums.json"


def fetch(dataset: Dataset, *, progress: bool = False, say: Callable[[str], None] = lambda text: None) -> Path:
    """The path of the dataset in the cache folder, downloaded and converted if it is not there yet. `say` is told what there is to
    say of where it comes from.
    """
    folder = cache_folder()
    final = folder / f"{dataset.name}{'.npy' if dataset.kind in ('cifar', 'images') else '.npz'}"
    if final.is_file():
        return final
    folder.mkdir(parents=True, exist_ok=True)
    with held("dataset", final), _emptied(folder / f".{final.name}.part") as work:
        try:
            download = _download(dataset, work, progress)
            found = _sum_of(download)
            told = _verified(dataset, found)
            made = _MAKERS[dataset.kind](download, work / final.name)
        except (*DAMAGE, tarfile.TarError) as error:
            raise OSError(
                f"{dataset.name} could not be fetched from {dataset.url}: {in_short(error, 1000)}; nothing was kept"
            ) from error
        check_shape(dataset, made, f"what {dataset.url} holds")
        write_file(folder / _SUMS, json.dumps({**_sums(), dataset.url: found}, indent=1))
        os.replace(work / final.name, final)  # the last, so that what is there has its sum
    say(f"{dataset.name}: {told}")
    return final


@contextmanager
def _emptied(work: Path) -> Iterator[Path]:
    """A folder for one use, without what one that was killed has left in it."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _sum_of(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _sums() -> dict[str, str]:
    """The SHA-256 of every download so far, by its address."""
    place = cache_folder() / _SUMS
    try:
        return dict(read_json(place.read_bytes())) if place.is_file() else {}
    except (ValueError, TypeError):
        raise ValueError(f"{place} is damaged; delete it, and nothing is known of earlier downloads") from None


def _verified(dataset: Dataset, found: str) -> str:
    """Refuse a download with another sum than it should have; how it was verified, in words."""
    before = _sums().get(dataset.url)
    for known, whose in ((dataset.sha256, "that is published"), (before, "of an earlier download from the same address")):
        if known is not None and found != known:
            raise OSError(
                f"the download has the SHA-256 {found}, not {known} {whose}; if the source was changed on purpose, delete its line "
                f"in {cache_folder() / _SUMS}"
            )
    if dataset.sha256 is not None:
        return "verified by its published SHA-256"
    if before is not None:
        return "not verified by its source, which publishes no SHA-256; the same as at the first download"
    return f"not verified: its source publishes no SHA-256. {found} is kept and compared from now on"


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
    plain.write_bytes(re.sub(rb"(?m)^[0-9,.+-]*(?=[ \t])", b"0", bytes(read_bytes(download))))
    return _make_svmlight(plain, final)


def _make_cifar(download: Path, final: Path) -> tuple[int, int]:
    """Batches of records of one label byte and 3072 pixels."""
    with tarfile.open(download) as archive:
        members = sorted((m for m in archive if re.search(r"data_batch_\d+\.bin$", m.name)), key=lambda m: m.name)
        for member in members:
            if not member.isfile():
                raise ValueError(f"{member.name} in {download.name} is a link or a folder, not a file")
        refuse_too_large(f"{download.name} holds batches that", sum(member.size for member in members))
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
        largest = max((archive.getinfo(name).file_size for name in names), default=0)
        refuse_too_large(f"{download.name} holds an image that", largest)
        for i, name in enumerate(names):
            try:
                with archive.open(name) as file, Image.open(file) as image:
                    pixels = np.asarray(image).ravel()
            except Image.DecompressionBombError as error:
                raise ValueError(f"{name} in {download.name}: {error}") from None
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
