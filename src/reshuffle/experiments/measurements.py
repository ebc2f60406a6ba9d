"""The measurements that tables and figures are made from. Each is one call of `constants` with a journal of its own, so that an
interrupted job goes on where it was and a table and a figure that need the same permutations share them.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.data import load_named
from reshuffle.data.registry import get_dataset
from reshuffle.spectral import Sample, SmoothConstants, constants


@dataclass(frozen=True)
class Matrix:
    """A dataset by name, or Gaussian data of a size and number (`gaussian` is then n, d, number)."""

    name: str
    gaussian: tuple[int, int, int] | None = None

    @property
    def entries(self) -> int:
        """For the estimate of the time left; n d is far too much for sparse data, but data is alike within a job."""
        if self.gaussian is not None:
            return self.gaussian[0] * self.gaussian[1]
        dataset = get_dataset(self.name)
        return dataset.n * min(dataset.d, 200)

    def load(self, data: Path | None) -> Any:
        if self.gaussian is None:
            return load_named(self.name, data).X
        n, d, number = self.gaussian
        return np.random.default_rng([n, d, number]).standard_normal((n, d))


@dataclass(frozen=True)
class Task:
    """Constants of a matrix at a batch size, over `permutations` random orders or in the order of the file."""

    matrix: Matrix
    batch_size: int = 1
    order: str = "rr"
    permutations: int = 1000

    @property
    def key(self) -> str:
        return f"{self.matrix.name}-b{self.batch_size}-{self.order}"

    @property
    def cost(self) -> float:
        return self.permutations * self.matrix.entries * (1.0 if self.batch_size == 1 else 3.0)


Results = dict[str, SmoothConstants]


def gaussian(n: int, d: int, number: int) -> Matrix:
    return Matrix(f"gaussian-{n}x{d}-{number}", (n, d, number))


def measure_all(
    tasks: Iterable[Task],
    *,
    journals: Path,
    data: Path | None,
    seed: int,
    jobs: int | None,
    advance: Callable[[float], None],
    failures: list[str],
) -> Results:
    """Constants by the key of their task. A task that fails is told in `failures` and left out; the others go on."""
    journals.mkdir(parents=True, exist_ok=True)
    results: Results = {}
    loaded: tuple[str, Any] = ("", None)
    for task in sorted(tasks, key=lambda t: (t.matrix.name, t.batch_size, t.order)):

        def count(sample: Sample, each: float = task.cost / task.permutations) -> None:
            advance(each)

        try:
            if loaded[0] != task.matrix.name:
                loaded = (task.matrix.name, task.matrix.load(data))
            results[task.key] = constants(
                loaded[1],
                batch_size=task.batch_size,
                order=task.order,
                permutations=task.permutations,
                seed=seed,
                jobs=jobs,
                out=journals / f"{task.key}.jsonl",
                callback=count,
            )
        except (ValueError, OSError, MemoryError) as error:
            failures.append(f"{task.key}: {error}")
            continue
        if results[task.key].permutations < results[task.key].requested:
            raise KeyboardInterrupt
    return results
