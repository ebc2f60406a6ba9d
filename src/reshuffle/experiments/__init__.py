"""The paper's tables and figures from real data: `reproduce("all")`. Measurements first, journalled and resumable; then the tables
and figures that they allow. What is missing or fails is said and does not stop the rest.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reshuffle import plots
from reshuffle.data.registry import locate
from reshuffle.experiments import chain, paper_figures, table1, table2
from reshuffle.experiments.measurements import Task, datasets, measure_all
from reshuffle.experiments.paper import TABLE_2
from reshuffle.experiments.typesetting import Table
from reshuffle.rows.devices import AUTO, check

Made = tuple[list[Path], list[str]]  #: files, and what there is to say about them
TARGETS = ("table1", "table2", "chain", "figure1", "figure2", "figure3")
_GAUSSIAN = ("figure1", "figure2")

__all__ = ["TARGETS", "Outcome", "reproduce"]


@dataclass
class Outcome:
    """What was made, what there is to say about it, and what went wrong."""

    files: list[Path] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)  #: by name; `to_frame` of one gives a data frame
    said: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    summary: list[list[str]] = field(default_factory=list)  #: target, what became of it, seconds

    def sum_up(self, target: str, result: str, began: float) -> None:
        self.summary.append([target, result, f"{time.perf_counter() - began:.1f}"])

    def table(self) -> str:
        return Table("summary", "Summary", dict.fromkeys(("target", "result", "seconds"), ""), self.summary).text()


def reproduce(
    target: str,
    sources: Sequence[str | Path] = (),
    *,
    permutations: int = 1000,
    data: str | Path | None = None,
    out: str | Path = "reproduced",
    jobs: int | None = None,
    seed: int = 0,
    loss: str = "logistic",
    alpha: float = 1e-3,
    batch_size: int = 1,
    device: Any = AUTO,
    start: Callable[[float], None] = lambda total: None,
    advance: Callable[[float], None] = lambda cost: None,
) -> Outcome:
    """Make a table or figure of the paper, or "all", in the folder `out`.

    sources : the datasets of table1, table2, chain and figure3: files, or names. If none are given, table1 takes breast_cancer and
        the others those of the paper that are present.
    permutations : of each dataset in table2 and figure3.
    data : a folder with datasets of the paper, looked into before $RESHUFFLE_DATA and the cache folder.
    loss, alpha, batch_size : of table1.
    device : of the constants in table2 and the figures, as `constants` takes it.
    start, advance : told the cost of the whole job and of each finished permutation, for a progress bar.
    """
    if target not in (*TARGETS, "all"):
        raise ValueError(f"target={target!r} is not known; use one of {', '.join(TARGETS)}, all")
    if isinstance(sources, str | Path):
        sources = [sources]
    if sources and target in _GAUSSIAN:
        raise ValueError(f"{target} is about Gaussian data and takes no datasets, not {', '.join(map(str, sources))}")
    check(device)
    folder, source = Path(out), None if data is None else Path(data)
    if source is not None and not source.is_dir():
        raise ValueError(f"data={str(data)!r} is not a folder")
    chosen = TARGETS if target == "all" else (target,)
    missing = [] if sources else [name for name in TABLE_2 if locate(name, source) is None]
    matrices = datasets(sources or [name for name in TABLE_2 if name not in missing], source)
    subjects = matrices if sources else datasets(["breast_cancer"], None)
    folder.mkdir(parents=True, exist_ok=True)

    parts: dict[str, Callable[[], list[Task]]] = {
        "table2": lambda: table2.tasks(matrices, permutations),
        "figure1": paper_figures.figure1_tasks,
        "figure2": paper_figures.figure2_tasks,
        "figure3": lambda: paper_figures.figure3_tasks(matrices, permutations),
    }
    tasks = list({task.key: task for name in chosen if name in parts for task in parts[name]()}.values())
    outcome, began = Outcome(), time.perf_counter()
    start(sum(task.cost for task in tasks))
    options: dict[str, Any] = {"journals": folder / "journals", "seed": seed, "jobs": jobs, "device": device}
    results = measure_all(tasks, **options, advance=advance, failures=outcome.failures)
    if tasks:
        outcome.sum_up("measuring", f"{len(results)} of {len(tasks)} measurements", began)

    def typeset(tables: Iterable[Table]) -> Made:
        made = {table.name: table for table in tables}
        outcome.tables |= made
        return [path for table in made.values() for path in table.save(folder)], [table.text() for table in made.values()]

    def complexity_tables() -> list[Table]:
        about: dict[str, Any] = {"loss": loss, "alpha": alpha, "batch_size": batch_size, "seed": seed}
        tables = [table1.build(subject, **about, permutations=min(permutations, 100)) for subject in subjects]
        for table, subject in zip(tables, subjects, strict=True):
            table.name += f"_{subject.name}" if len(subjects) > 1 else ""
        return tables

    makers: dict[str, Callable[[], Made]] = {
        "table1": lambda: typeset(complexity_tables()),
        "table2": lambda: typeset(table2.build(results, matrices)),
        "chain": lambda: typeset([chain.build(matrices, seed, outcome.failures)]),
        "figure1": lambda: paper_figures.figure1(results, folder),
        "figure2": lambda: paper_figures.figure2(results, folder),
        "figure3": lambda: paper_figures.figure3(results, folder, matrices),
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
    if missing and set(chosen) & {"table2", "chain", "figure3"}:
        outcome.said.append(f"not present: {', '.join(missing)}; get one with: reshuffle datasets fetch NAME")
    return outcome
