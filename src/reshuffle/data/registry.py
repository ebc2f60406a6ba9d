"""The datasets of the paper's table by name: where each comes from, its size, and how its rows are made.

A dataset is looked for in the folder that the caller names, in $RESHUFFLE_DATA, and in the user's cache folder, in this order: as
the file that `fetch` makes (NAME.npz or NAME.npy), under the names that its source gives it, or where `add` said it is.
"""

import json
import os
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from reshuffle.records import read_json, write_file

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
_LIBSVM_NOTE = "LIBSVM data collection; see the page of each set for its source and terms"
_SUFFIXES = (".npz", ".npy", "", ".bz2", ".xz", ".gz", ".svm", ".libsvm", ".txt")


@dataclass(frozen=True)
class Dataset:
    """A named dataset. `kind` says how its rows are made: see `reshuffle.data.fetch`."""

    name: str
    n: int
    d: int
    url: str
    kind: str  #: "svmlight", "multilabel" (svmlight with several labels a line), "cifar" (binary batches) or "images" (a zip)
    note: str  #: license and origin
    aliases: tuple[str, ...] = ()  #: other names that its file goes by
    sha256: str | None = None  #: of the download, where its source publishes it


def _libsvm(name: str, n: int, d: int, path: str, *aliases: str, kind: str = "svmlight", sha256: str | None = None) -> Dataset:
    return Dataset(name, n, d, f"{LIBSVM}/{path}", kind, _LIBSVM_NOTE, aliases, sha256)


_CIFAR_NOTE = "Krizhevsky 2009; the training images, 3 x 32 x 32 pixels, one a row, flattened"
_BROAD = "https://data.broadinstitute.org/bbbc"
_BROAD_NOTE = "Broad Bioimage Benchmark Collection; images of 696 x 520 pixels, one a row, flattened"

DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        _libsvm("a1a", 1605, 123, "binary/a1a"),
        _libsvm("a9a", 32561, 123, "binary/a9a"),
        Dataset("BBBC005", 19201, 361920, f"{_BROAD}/BBBC005/BBBC005_v1_images.zip", "images", _BROAD_NOTE + "; public domain"),
        Dataset("BBBC010", 201, 361920, f"{_BROAD}/BBBC010/BBBC010_v2_images.zip", "images", _BROAD_NOTE + "; CC BY-NC-SA 3.0"),
        Dataset("cifar10", 50000, 3072, "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz", "cifar", _CIFAR_NOTE),
        _libsvm("duke", 44, 7129, "binary/duke.bz2"),
        _libsvm("e2006train", 16087, 150360, "regression/E2006.train.bz2", "E2006.train"),
        _libsvm("gisette", 6000, 5000, "binary/gisette_scale.bz2", "gisette_scale"),
        _libsvm("leu", 38, 7129, "binary/leu.bz2"),
        _libsvm("mnist", 60000, 780, "multiclass/mnist.bz2"),
        _libsvm("news20", 19996, 1355191, "binary/news20.binary.bz2", "news20.binary"),
        _libsvm("rcv1", 20242, 47236, "binary/rcv1_train.binary.bz2", "rcv1_train.binary"),
        _libsvm("real-sim", 72309, 20958, "binary/real-sim.bz2"),
        _libsvm("sonar", 208, 60, "binary/sonar_scale", "sonar_scale"),
        _libsvm("tmc2007", 21519, 30438, "multilabel/tmc2007_train.svm.bz2", "tmc2007_train", kind="multilabel"),
    )
}


def cache_folder() -> Path:
    """Where fetched datasets are kept: $RESHUFFLE_CACHE, else reshuffle in the user's cache folder."""
    chosen, users = os.environ.get("RESHUFFLE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    return Path(chosen) if chosen else Path(users or Path.home() / ".cache") / "reshuffle"


def folders(data: str | Path | None = None) -> list[Path]:
    """Where datasets are looked for, in order."""
    named = [data, os.environ.get("RESHUFFLE_DATA")]
    return [Path(folder).expanduser() for folder in named if folder] + [cache_folder()]


def locate(name: str, data: str | Path | None = None) -> Path | None:
    """The file of a named dataset, or None where it is not present."""
    dataset = get_dataset(name)
    for folder, stem, suffix in product(folders(data), (dataset.name, *dataset.aliases), _SUFFIXES):
        if (candidate := folder / f"{stem}{suffix}").is_file():
            return candidate
    added = _added().get(dataset.name)
    return Path(added) if added and Path(added).is_file() else None


def get_dataset(name: str) -> Dataset:
    if name not in DATASETS:
        raise ValueError(f"{name!r} is not a named dataset; named are {', '.join(DATASETS)}")
    return DATASETS[name]


def add(name: str, path: str | Path) -> Path:
    """Remember that a named dataset is this file, after a look at its n and d."""
    from reshuffle.data import load

    dataset, file = get_dataset(name), Path(path).expanduser().resolve()
    check_shape(dataset, load(file).X.shape, str(file))
    known = {**_added(), name: str(file)}
    index = cache_folder() / "added.json"
    index.parent.mkdir(parents=True, exist_ok=True)
    write_file(index, json.dumps(known, indent=1))
    return file


def check_shape(dataset: Dataset, shape: tuple[int, int], where: str) -> None:
    """n must agree; d may be smaller in svmlight text, which does not say it where the last features do not occur."""
    n, d = shape
    if n != dataset.n or d > dataset.d or (d < dataset.d and dataset.kind not in ("svmlight", "multilabel")):
        raise ValueError(f"{where} is {n} x {d}; {dataset.name} is {dataset.n} x {dataset.d}: this is another file or version")


def _added() -> dict[str, str]:
    index = cache_folder() / "added.json"
    if not index.is_file():
        return {}
    try:
        return {str(name): str(path) for name, path in read_json(index.read_bytes()).items()}
    except (ValueError, AttributeError):
        raise ValueError(f"{index} is damaged; delete it and add the datasets again") from None
