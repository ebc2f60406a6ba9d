"""Files and named datasets in, a CSR or dense matrix and its labels out. `READERS` has an entry for each format."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reshuffle.data import arrays, tables
from reshuffle.data._files import kind
from reshuffle.data.bundled import NAMES, read_bundled
from reshuffle.data.registry import DATASETS, check_shape, get_dataset, locate
from reshuffle.rows import in_memory
from reshuffle.rows.memory import unchecked

__all__ = ["READERS", "Data", "Reader", "load", "load_named"]


@dataclass(frozen=True, eq=False)
class Data:
    """What was read."""

    X: Any  #: n x d, CSR or dense
    y: Any  #: the labels as they stood; None where the file has none
    name: str  #: where it is from
    feature_names: list[str] | None = None  #: of the columns, where they have names

    def __str__(self) -> str:
        return f"{self.name}: {unchecked(self.X)}" + ("" if self.y is not None else ", no labels")

    __repr__ = __str__


@dataclass(frozen=True)
class Reader:
    """How one format is read."""

    read: Callable[..., tuple[Any, ...]]  #: path and `options` -> X, y (None without labels) and, where columns have names, those
    options: tuple[str, ...] = ()  #: the arguments of `load` that it takes


def _read_svmlight(path: Path, n_features: int | None) -> tuple[Any, Any]:
    from reshuffle.data.svmlight import read_svmlight  # loads numba

    return read_svmlight(path, n_features)


READERS: dict[str, Reader] = {  # by the ending of a file, without that of a compression
    ".csv": Reader(tables.read_csv, ("target",)),
    ".parquet": Reader(tables.read_parquet, ("target",)),
    ".npy": Reader(arrays.read_npy),
    ".npz": Reader(arrays.read_npz),
    "": Reader(_read_svmlight, ("n_features",)),  # and every ending that is not here
}
_BUNDLED = Reader(lambda path: read_bundled(str(path)))


def load(source: str | Path, *, target: str | int | None = None, n_features: int | None = None) -> Data:
    """Read a dataset, and refuse NaN and infinity with the place where they stand.

    source : a file, by its ending .csv, .parquet, .npy, .npz, else svmlight text; .gz, .bz2 and .xz are read as they are.
        Or a name: a dataset that ships inside scikit-learn (breast_cancer, diabetes, digits, iris, wine), or one of the paper's
        that is present (`reshuffle datasets` lists them).
    target : csv and parquet: the column with the labels, by name or number; the last if not given.
    n_features : svmlight: d, where the file does not happen to use its last features.
    """
    path = Path(source).expanduser()
    name = str(source)
    if path.is_dir():
        raise ValueError(f"{name!r} is a folder; name a file in it")
    if not path.exists() and name in DATASETS:
        return load_named(name)
    if not path.exists() and name not in NAMES:
        named = ", ".join((*NAMES, *DATASETS))
        raise FileNotFoundError(f"there is no file {name!r}, nor a dataset of that name; named are {named}")
    reader = _reader(path) if path.exists() else _BUNDLED
    if target is not None and "target" not in reader.options:
        tabular = " and ".join(ending[1:] for ending, entry in READERS.items() if "target" in entry.options)
        raise ValueError(f"target={target!r}: {name!r} has no columns to choose from; only {tabular} files do")
    if n_features is not None and "n_features" not in reader.options:
        raise ValueError(f"n_features={n_features}: {name!r} says itself how many it has; only svmlight text does not")
    given = {"target": target, "n_features": n_features}
    X, y, *names = reader.read(path, **{option: given[option] for option in reader.options})
    return Data(in_memory(X, name).matrix, y, name, *names)


def _reader(path: Path) -> Reader:
    return READERS.get(kind(path), READERS[""])


def load_named(name: str, data: str | Path | None = None) -> Data:
    """A dataset of the paper, with the d it is known to have, from `data` or the other folders it is looked for in."""
    dataset = get_dataset(name)
    path = locate(name, data)
    if path is None:
        raise FileNotFoundError(f"the dataset {name!r} is not present; get it with: reshuffle datasets fetch {name}")
    found = load(path, n_features=dataset.d if "n_features" in _reader(path).options else None)
    check_shape(dataset, found.X.shape, str(path))
    if found.X.shape[1] < dataset.d:
        found.X.resize((dataset.n, dataset.d))  # svmlight text does not say d where the last features do not occur
    return Data(found.X, found.y, name)
