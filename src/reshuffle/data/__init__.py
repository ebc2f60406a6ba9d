"""Files and named datasets in, a CSR or dense matrix and its labels out. `READERS` has an entry for each format."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from reshuffle.data import arrays, tables
from reshuffle.data._files import STANDARD_INPUT, Piped, Place, expand, holds_table, is_store, kind
from reshuffle.data.bundled import NAMES, read_bundled
from reshuffle.data.registry import DATASETS, check_shape, get_dataset, locate
from reshuffle.rows import Rows, in_memory
from reshuffle.rows.memory import unchecked
from reshuffle.tables import Columns, Table
from reshuffle.tables.columns import Name, labels_and_weights
from reshuffle.tables.table import missing, no_row_counts, refuse_weights, row_number
from reshuffle.validation import whole_number

__all__ = ["READERS", "Data", "Reader", "load", "load_named"]


@dataclass(frozen=True, eq=False)
class Data:
    """What was read."""

    X: Any  #: n x d, CSR or dense; a `Rows` where it is on disk
    y: Any  #: the labels as they stood; None where the file has none
    name: str  #: where it is from
    feature_names: list[str] | None = None  #: of the columns of X, where they have names
    columns: Columns | None = None  #: how a table became X
    notes: tuple[str, ...] = ()  #: what was made of its words, dates and gaps, or guessed, a line each
    zero_based: bool | None = None  #: svmlight: whether its indices counted from 0
    weights: Any = None  #: of rows, where it has them

    def __str__(self) -> str:
        rows = self.X if isinstance(self.X, Rows) else unchecked(self.X)
        about = f"{self.name}: {rows}" + ("" if self.y is not None else ", no labels")
        return "\n".join((about, *self.notes))

    __repr__ = __str__


@dataclass(frozen=True)
class Reader:
    """How one format is read."""

    #: path and `options` -> X, y (None without labels) and, where columns have names, those; of a table, paths -> a `Table`
    read: Callable[..., Any]
    options: tuple[str, ...] = ()  #: the arguments of `load` that it takes
    table: bool = False
    weights: Callable[[Path, str], Any] | None = None  #: path and a name -> weights of rows; a table has columns of them


def _read_svmlight(places: list[Place], n_features: int | None, zero_based: bool | None) -> Any:
    from reshuffle.data.svmlight import read_svmlight  # loads numba

    return read_svmlight(places, n_features, zero_based)


_CSV = Reader(tables.read_csv, ("target", "words"), table=True)
READERS: dict[str, Reader] = {  # by the ending of a file, without that of a compression
    ".csv": _CSV,
    ".tsv": _CSV,
    ".parquet": Reader(tables.read_parquet, ("target",), table=True),
    ".feather": Reader(tables.read_feather, ("target",), table=True),
    ".npy": Reader(arrays.read_npy, ("target",), weights=arrays.read_weights),
    ".npz": Reader(arrays.read_npz, ("target",), weights=arrays.read_weights),
    "": Reader(_read_svmlight, ("n_features", "zero_based")),  # and every ending that is not here
}
_UNSURE = (".txt",)  # a table if it looks like one


def load(
    source: str | Path | Sequence[str | Path],
    *,
    target: str | int | None = None,
    weight: str | int | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    strict: bool = False,
    columns: Columns | None = None,
    memory: str | int | None = None,
) -> Data:
    """Read a dataset; what cannot be computed with is refused with the place where it stands.

    source : a file, by its ending .csv, .tsv, .parquet, .feather, .npy, .npz, .txt (a table if its lines look like one), else
        svmlight text; text may be compressed (.gz, .bz2, .xz). Or a folder, a pattern (part-*.csv) or a list, of files that are
        read as one; or "-", text from standard input. Or a name: a dataset that ships inside scikit-learn (breast_cancer,
        diabetes, digits, iris, wine), or one of the paper's that is present (`reshuffle datasets` lists them). Or a store, which
        stays on disk: `open`.
    target : tables: the column with the labels, by name or number; the last if not given. npy, npz: the .npy file with the labels.
    weight : where a weight for each row stands, if any: tables: a column, by name or number; npz: an array; npy, npz: a .npy file.
        Without, all rows count alike; a store has its own.
    n_features : svmlight: d, where the file does not happen to use its last features.
    zero_based : svmlight: whether indices count from 0 or from 1. If not given, from 0 where an index 0 occurs and else from 1,
        which is a guess that `Data.notes` tells of.
    strict : refuse a table with words, dates or gaps instead of making numbers of them.
    columns : tables: those of other data (`Data.columns`), which this is to have in the same form.
    memory : stores: bytes that algorithms may take, or words such as "2GiB"; half of what is free if not given.
    """
    sources = [source] if isinstance(source, str | Path) else list(source)
    if not sources:
        raise ValueError(f"source={source!r} names nothing to read; name a file, a folder, a pattern or a dataset")
    if is_store(sources[0]):
        return _of_store(sources, memory, target=target, weight=weight, n_features=n_features, zero_based=zero_based)
    if memory is not None:
        raise ValueError(f"memory={memory!r}: only a store is read in parts; make one of the data: reshuffle store build")
    places = _files(sources)
    name = tables.names_of(sources if len(sources) == 1 and sources != [STANDARD_INPUT] else places)
    if not places and name in DATASETS:
        _refuse_columns(name, target=target, weight=weight)
        return load_named(name)
    reader = _reader_of(places, name)
    if "target" not in reader.options:
        _refuse_columns(name, target=target)
    if not reader.table and reader.weights is None:
        _refuse_columns(name, weight=weight)
    if n_features is not None and "n_features" not in reader.options:
        raise ValueError(f"n_features={n_features}: {name!r} says itself how many it has; only svmlight text does not")
    if zero_based is not None and "zero_based" not in reader.options and columns is None:
        raise ValueError(f"zero_based={zero_based}: {name!r} has no indices; only svmlight text does")
    if n_features is not None:
        n_features = whole_number("n_features", n_features, 1)
    if reader.table:
        return _of_table(_table(reader, places, name, target, weight, columns), name, target, weight, strict, columns)
    if columns is not None and not columns.numeric:
        raise ValueError(f"{name} is a matrix; the model was trained on a table with words, dates or gaps and needs one like it")
    if reader.read is _read_svmlight:
        return _of_svmlight(_read_svmlight(places, n_features, zero_based), name)
    given = {"target": target, "n_features": n_features, "zero_based": zero_based}
    options = {option: given[option] for option in reader.options}
    parts = [_checked(reader.read(place, **options), str(place)) for place in places]
    X, y, *names = parts[0] if len(parts) == 1 else _stacked(parts, places)
    data, files = Data(X, y, name, *names), [place for place in places if isinstance(place, Path)]
    if weight is None or reader.weights is None:
        return replace(data, notes=tuple(f"{file}: {note}" for file in files if (note := arrays.unused_weights(file))))
    own = [
        _checked_weights(reader.weights(file, str(weight)), part[0].shape[0], file) for file, part in zip(files, parts, strict=True)
    ]
    return _weighted(data, np.concatenate(own), weight)


def _of_store(sources: list[str | Path], memory: str | int | None, **options: Any) -> Data:
    if len(sources) > 1:
        raise ValueError(f"{str(sources[0])!r} is a store, and is read alone; build one of all files")
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}={value!r}: {str(sources[0])!r} is a store, which was built with its own; leave it out")
    from reshuffle.data import store  # loads numba

    rows = store.open(sources[0], memory=memory)
    data = Data(rows, rows.labels, str(sources[0]), zero_based=rows.manifest.zero_based)
    return data if rows.weights is None else _with_weights(data, rows.weights, "the store")


def _with_weights(data: Data, weights: Any, where: str) -> Data:
    note = f"{data.name}: rows count by their weights in {where}, {weights.min():g} to {weights.max():g}"
    return replace(data, weights=weights, notes=(*data.notes, note))


def _weighted(data: Data, weights: Any, weight: str | int) -> Data:
    if not weights.any():
        raise ValueError(no_row_counts(weight, data.name))
    return _with_weights(data, weights, repr(weight))


def _checked_weights(weights: Any, n: int, place: Path) -> Any:
    if weights.shape != (n,):
        raise ValueError(f"{place}: the weights have shape {weights.shape} where X has {n} rows; there must be one for each")
    refuse_weights(str(place), weights, row_number)
    return weights.astype(np.float64)


def _refuse_columns(name: str, **named: str | int | None) -> None:
    for argument, given in named.items():
        if given is not None:
            raise ValueError(
                f"{argument}={given!r}: {name!r} has no columns to choose from; only tables do (csv, tsv, parquet, feather)"
            )


def counted(data: Data) -> Data:
    """Without rows of weight zero, which are rows that are not there."""
    if data.weights is None or data.weights.all():
        return data
    kept = np.flatnonzero(data.weights)
    X = data.X.subset(kept) if isinstance(data.X, Rows) else data.X[kept]
    return replace(data, X=X, y=None if data.y is None else data.y[kept], weights=data.weights[kept])


def _of_svmlight(samples: Any, name: str) -> Data:
    guess = f"{name}: no index is 0, so they are taken to count from 1; zero_based=True (--zero-based) if they count from 0"
    X = in_memory(samples.X, name).matrix
    return Data(X, samples.y, name, notes=(guess,) if samples.guessed else (), zero_based=samples.zero_based)


def _checked(part: Any, name: str) -> Any:
    """What a reader found, before anything is made of it."""
    X, y, *names = part
    X = in_memory(X, name).matrix
    return X, None if y is None else _checked_labels(y, X.shape[0], name), *names


def files_of(sources: Sequence[str | Path], *beside: str | int | None) -> list[Path]:
    """Every file that `load` would read of these, that of a named dataset and those of labels and weights, `beside`, included."""
    named = [place for source in sources if str(source) in DATASETS and (place := locate(str(source))) is not None]
    found = [file for source in sources for file in expand(source)] + named
    names = [str(name) for name in beside if name is not None]
    places = [place for name in names for place in (Path(name).expanduser(), *(file.parent / name for file in found))]
    return found + [place for place in places if place.is_file()]


def _files(sources: list[str | Path]) -> list[Place]:
    """The files that are meant; [] for a name that no file has."""
    if len(sources) > 1 and STANDARD_INPUT in map(str, sources):
        raise ValueError("standard input (-) cannot be read together with files; pipe them all, or name them all")
    if [str(source) for source in sources] == [STANDARD_INPUT]:
        return [Piped()]
    found: list[Place] = []
    for source in sources:
        files = expand(source)
        if not files and (len(sources) > 1 or str(source) not in (*NAMES, *DATASETS)):
            named = ", ".join((*NAMES, *DATASETS))
            raise FileNotFoundError(f"there is no file {str(source)!r}, nor a dataset of that name; named are {named}")
        found += files
    return found


def _reader_of(places: list[Place], name: str) -> Reader:
    if not places:
        return Reader(lambda paths: read_bundled(name), ("target",), table=True)
    readers = [_reader(place) for place in places]
    for place, reader in zip(places, readers, strict=True):
        if reader is not readers[0]:
            raise ValueError(f"{places[0]} and {place} are files of different kinds; name those of one kind")
    return readers[0]


def _reader(place: Place) -> Reader:
    if isinstance(place, Piped) or kind(place) in _UNSURE:
        return _CSV if holds_table(place) else READERS[""]
    return READERS.get(kind(place), READERS[""])


def _table(reader: Reader, places: list[Any], name: str, target: Name, weight: Name, columns: Columns | None) -> Table:
    if columns is None or "words" not in reader.options:
        table = reader.read(places)
    else:
        table = reader.read(places, words=partial(columns.words_in, name, target=target, weight=weight))
    if len(table.names) < 2 and columns is None:
        between = " between commas, semicolons or tabs" if "words" in reader.options else ""
        raise ValueError(
            f"{name} has 1 column{between}, {table.names[0]!r}; it needs a target and at least one feature, and a first line that "
            "is their names or a row"
        )
    return table  # type: ignore[no-any-return]


def _of_table(table: Table, name: str, target: Name, weight: Name, strict: bool, columns: Columns | None) -> Data:
    fresh = columns is None
    if columns is None:
        label: int | None
        label, counts = labels_and_weights(name, table.names, target, weight)
        columns = Columns.fit(table, label, counts)
        X, _, _ = columns.transform(table, label, counts)
        notes: Sequence[str] = columns.notes
    else:
        X, (label, counts), notes = columns.transform(table, target, weight)
    if strict and notes:
        raise ValueError(f"{notes[0]}; strict refuses that: change the table first")
    if label is not None and not fresh and missing(table.columns[label]).any():  # such rows are what a model is for
        notes, label = [*notes, f"{name}: labels are missing in {table.names[label]!r}, so there is no score"], None
    y = None if label is None else table.labels(label)
    data = Data(in_memory(X, name).matrix, y, name, columns.names, columns, tuple(notes))
    return data if counts is None else _weighted(data, table.weights(counts), table.names[counts])


def _stacked(parts: list[Any], places: list[Any]) -> tuple[Any, Any]:
    """The rows of several matrices."""
    widths = [X.shape[1] for X, *_ in parts]
    for place, width, (_, y, *_) in zip(places, widths, parts, strict=True):
        if width != widths[0]:
            raise ValueError(f"{place} has {width} features where {places[0]} has {widths[0]}")
        if (y is None) != (parts[0][1] is None):
            raise ValueError(f"of {places[0]} and {place} one has labels and one has none")
    matrices, labels = [X for X, *_ in parts], [y for _, y, *_ in parts]
    sparse = any(sp.issparse(X) for X in matrices)
    return sp.vstack(matrices, format="csr") if sparse else np.vstack(matrices), None if labels[0] is None else np.concatenate(
        labels
    )


def _checked_labels(y: Any, n: int, name: str) -> Any:
    if y.shape != (n,):
        raise ValueError(f"{name}: the labels have shape {y.shape} where X has {n} rows; there must be one for each")
    if y.dtype.kind not in "biufUS":
        raise ValueError(f"{name}: the labels have dtype {y.dtype}; use real numbers or text")
    return y


def load_named(name: str, data: str | Path | None = None) -> Data:
    """A dataset of the paper, with the d it is known to have, from `data` or the other folders it is looked for in."""
    dataset = get_dataset(name)
    path = locate(name, data)
    if path is None:
        raise FileNotFoundError(f"the dataset {name!r} is not present; get it with: reshuffle datasets fetch {name}")
    svmlight = _reader(path).read is _read_svmlight
    found = load(path, n_features=dataset.d if svmlight else None, zero_based=False if svmlight else None)
    check_shape(dataset, found.X.shape, str(path))
    if found.X.shape[1] < dataset.d:
        found.X.resize((dataset.n, dataset.d))  # svmlight text does not say d where the last features do not occur
    return Data(found.X, found.y, name, zero_based=False if dataset.kind in ("svmlight", "multilabel") else None)
