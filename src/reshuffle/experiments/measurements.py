"""The measurements that tables and figures are made from. Each is one call of `constants` with a journal of its own, so that an
interrupted job goes on where it was and a table and a figure that need the same permutations share them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.data import Data, load, load_named
from reshuffle.data.bundled import NAMES
from reshuffle.data.registry import DATASETS, locate
from reshuffle.rows.devices import MEMORY
from reshuffle.spectral import Sample, SmoothConstants, constants

ROOT = "sqrt"  #: stands for the batch size √n, which is not known before the data is read
_ENDINGS = (".gz", ".bz2", ".xz", ".npz", ".npy", ".csv", ".parquet", ".svm", ".libsvm", ".txt")  # that are no part of a name


@dataclass(frozen=True)
class Matrix:
    """Data that is read when its turn comes."""

    name: str
    entries: float  #: about how many, for the estimate of the time left
    load: Callable[[], Data]


def gaussian(n: int, d: int, number: int) -> Matrix:
    name = f"gaussian-{n}x{d}-{number}"
    return Matrix(name, n * d, lambda: Data(np.random.default_rng([n, d, number]).standard_normal((n, d)), None, name))


def datasets(sources: Sequence[str | Path], folder: Path | None) -> list[Matrix]:
    """Files, datasets of the paper that are present, and datasets of scikit-learn."""
    found = [_dataset(source, folder) for source in sources]
    for name, times in Counter(matrix.name for matrix in found).items():
        if times > 1:
            raise ValueError(f"{times} of the datasets are called {name!r}; their rows need names of their own: rename a file")
    return found


def _dataset(source: str | Path, folder: Path | None) -> Matrix:
    name, path = str(source), Path(source).expanduser()
    if path.is_file():
        return Matrix(_stem(path), _entries(path), lambda: load(path))
    if name in DATASETS and (place := locate(name, folder)) is not None:
        return Matrix(name, _entries(place), lambda: load_named(name, folder))
    if name in NAMES:
        return Matrix(name, 1e4, lambda: load(name))
    remedy = f"get it with: reshuffle datasets fetch {name}" if name in DATASETS else f"name a file, or one of {', '.join(NAMES)}"
    raise FileNotFoundError(f"there is no dataset {name!r}; {remedy}")


def _stem(path: Path) -> str:
    """The name of a file without its endings; that of the dataset where the paper has one whose file is called so."""
    while path.suffix in _ENDINGS:
        path = path.with_suffix("")
    return next((dataset.name for dataset in DATASETS.values() if path.name in dataset.aliases), path.name)


def _entries(path: Path) -> float:
    return path.stat().st_size / 4


@dataclass(frozen=True)
class Task:
    """Constants of a matrix at a batch size (at most n), over `permutations` random orders or in the order of the file."""

    matrix: Matrix
    batch_size: int | str = 1
    order: str = "rr"
    permutations: int = 1000

    @property
    def key(self) -> str:
        return f"{self.matrix.name}-b{self.batch_size}-{self.order}"

    @property
    def cost(self) -> float:
        return self.permutations * self.matrix.entries * (1.0 if self.batch_size == 1 else 3.0)

    def batch_size_of(self, n: int) -> int:
        return min(self.batch_size, n) if isinstance(self.batch_size, int) else isqrt(n)


Results = dict[str, SmoothConstants]


def measure_all(
    tasks: Iterable[Task],
    *,
    journals: Path,
    seed: int,
    jobs: int | None,
    device: Any,
    advance: Callable[[float], None],
    failures: list[str],
) -> Results:
    """Constants by the key of their task. A task that fails is told in `failures` and left out; the others go on."""
    journals.mkdir(parents=True, exist_ok=True)
    results: Results = {}
    name, X = "", np.empty((0, 0))
    for task in sorted(tasks, key=lambda t: (t.matrix.name, str(t.batch_size), t.order)):

        def count(sample: Sample, each: float = task.cost / task.permutations) -> None:
            advance(each)

        try:
            if name != task.matrix.name:
                X, name = task.matrix.load().X, task.matrix.name
            results[task.key] = constants(
                X,
                batch_size=task.batch_size_of(X.shape[0]),
                order=task.order,
                permutations=task.permutations,
                seed=seed,
                jobs=jobs,
                device=device if isinstance(X, np.ndarray) else MEMORY,  # sparse data gains nothing there
                out=journals / f"{task.key}.jsonl",
                callback=count,
            )
        except (ValueError, OSError, MemoryError) as error:
            failures.append(f"{task.key}: {error}")
            continue
        if results[task.key].permutations < results[task.key].requested:
            raise KeyboardInterrupt
    return results
