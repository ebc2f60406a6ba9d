"""The paper's tables and figures from real data: `reproduce("all")`. Measurements first, journalled and resumable; then the tables
and figures that they allow. What is missing or fails is said and does not stop the rest.
"""

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reshuffle import plots
from reshuffle.data import Data, load, load_named
from reshuffle.data.registry import DATASETS
from reshuffle.experiments import paper_figures, table1, table2
from reshuffle.experiments.measurements import Task, measure_all
from reshuffle.experiments.typesetting import Table
from reshuffle.problem import Problem

Made = tuple[list[Path], list[str]]  #: files, and what there is to say about them
TARGETS = ("table1", "table2", "figure1", "figure2", "figure3")

__all__ = ["TARGETS", "Outcome", "reproduce"]


@dataclass
class Outcome:
    """What was made, what there is to say about it, and what went wrong."""

    files: list[Path] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    summary: list[list[str]] = field(default_factory=list)  #: target, what became of it, seconds

    def sum_up(self, target: str, result: str, began: float) -> None:
        self.summary.append([target, result, f"{time.perf_counter() - began:.1f}"])

    def table(self) -> str:
        return Table("summary", "Summary", ["target", "result", "seconds"], self.summary).text()


def reproduce(
    target: str,
    *,
    permutations: int = 1000,
    data: str | Path | None = None,
    out: str | Path = "reproduced",
    jobs: int | None = None,
    seed: int = 0,
    dataset: str = "breast_cancer",
    loss: str = "logistic",
    alpha: float = 1e-3,
    start: Callable[[float], None] = lambda total: None,
    advance: Callable[[float], None] = lambda cost: None,
) -> Outcome:
    """Make a table or figure of the paper, or "all", in the folder `out`.

    permutations : of each dataset in table2 and figure3.
    data : a folder with datasets, looked into before $RESHUFFLE_DATA and the cache folder.
    dataset, loss, alpha : of table1.
    start, advance : told the cost of the whole job and of each finished permutation, for a progress bar.
    """
    if target not in (*TARGETS, "all"):
        raise ValueError(f"target={target!r} is not known; use one of {', '.join(TARGETS)}, all")
    chosen = TARGETS if target == "all" else (target,)
    folder, source = Path(out), None if data is None else Path(data)
    if source is not None and not source.is_dir():
        raise ValueError(f"data={str(data)!r} is not a folder")
    folder.mkdir(parents=True, exist_ok=True)
    outcome, began = Outcome(), time.perf_counter()
    tasks = _tasks(chosen, source, permutations)
    start(sum(task.cost for task in tasks))
    options: dict[str, Any] = {"journals": folder / "journals", "data": source, "seed": seed, "jobs": jobs}
    results = measure_all(tasks, **options, advance=advance, failures=outcome.failures)
    if tasks:
        outcome.sum_up("measuring", f"{len(results)} of {len(tasks)} measurements", began)
    makers: dict[str, Callable[[], Made]] = {
        "table1": lambda: _typeset(folder, _table1(_load(dataset, source), loss, alpha, min(permutations, 100), seed)),
        "table2": lambda: _typeset(folder, *table2.build(results, source)),
        "figure1": lambda: paper_figures.figure1(results, folder),
        "figure2": lambda: paper_figures.figure2(results, folder),
        "figure3": lambda: paper_figures.figure3(results, folder, source),
    }
    for name in chosen:
        began = time.perf_counter()
        try:
            with plots.style() if name.startswith("figure") else nullcontext():
                files, said = makers[name]()
        except (ValueError, OSError, KeyError, ImportError) as error:
            outcome.failures.append(f"{name}: {error}")
            outcome.sum_up(name, "failed", began)
            continue
        outcome.files += files
        outcome.said += said
        made = ", ".join(sorted({path.suffix.lstrip(".") for path in files}))
        outcome.sum_up(name, f"made ({made})", began)
    return outcome


def _tasks(chosen: tuple[str, ...], data: Path | None, permutations: int) -> list[Task]:
    """What the chosen tables and figures need, each once."""
    parts: dict[str, Callable[[], list[Task]]] = {
        "table2": lambda: table2.tasks(data, permutations),
        "figure1": paper_figures.figure1_tasks,
        "figure2": paper_figures.figure2_tasks,
        "figure3": lambda: paper_figures.figure3_tasks(data, permutations),
    }
    return list({task.key: task for name in chosen if name in parts for task in parts[name]()}.values())


def _load(dataset: str, data: Path | None) -> Data:
    return load_named(dataset, data) if dataset in DATASETS else load(dataset)


def _table1(data: Data, loss: str, alpha: float, permutations: int, seed: int) -> Table:
    return table1.build(Problem(data.X, data.y, loss=loss, alpha=alpha), data.name, permutations=permutations, seed=seed)


def _typeset(folder: Path, *tables: Table) -> Made:
    return [path for table in tables for path in table.save(folder)], [table.text() for table in tables]
