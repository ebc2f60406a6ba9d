"""Table 2: L/Lhat of every dataset of the paper, with the paper's value beside it, and further columns that the paper lacks."""

from math import floor, isqrt, log, log10, sqrt
from pathlib import Path

from reshuffle.data.registry import DATASETS, locate
from reshuffle.experiments.measurements import Matrix, Results, Task
from reshuffle.experiments.paper import TABLE_2
from reshuffle.experiments.typesetting import Table
from reshuffle.spectral import SmoothConstants

_SWEEP_PERMUTATIONS = 100  # of the columns for b > 1, where the spread is small


def present(data: Path | None) -> list[str]:
    return [name for name in TABLE_2 if locate(name, data) is not None]


def batch_sizes(name: str) -> dict[str, int]:
    n = DATASETS[name].n
    return {"1": 1, "8": min(8, n), "64": min(64, n), "√n": isqrt(n)}


def tasks(data: Path | None, permutations: int) -> list[Task]:
    found, few = [], min(permutations, _SWEEP_PERMUTATIONS)
    for name in present(data):
        matrix = Matrix(name)
        found += [Task(matrix, permutations=permutations), Task(matrix, order="ig", permutations=1)]
        found += [Task(matrix, b, permutations=few) for b in set(batch_sizes(name).values()) - {1}]
    return found


def standard_error(c: SmoothConstants, name: str) -> float:
    """Of the difference between our L / mean(Lhat) and the paper's: both are sample means, theirs rounded to three digits."""
    spread = c.l_over_lhat * c.lhat_std / c.lhat_mean
    digit = 10.0 ** (floor(log10(TABLE_2[name].ratio)) - 2)
    return sqrt(spread**2 * (1.0 / c.permutations + 1.0 / TABLE_2[name].permutations) + digit**2 / 12.0)


def agrees(c: SmoothConstants, name: str) -> bool:
    """Within three standard errors or 1 %, whichever is larger."""
    return abs(c.l_over_lhat - TABLE_2[name].ratio) <= max(3.0 * standard_error(c, name), 0.01 * TABLE_2[name].ratio)


def build(results: Results, data: Path | None) -> tuple[Table, Table]:
    measured = ["dataset", "n", "d", "L/Lhat", "std", "log_n", "log_min(n,d)", "permutations", "seconds"]
    caption = "L/Lhat over random permutations (b = 1, all L_i = 1), and the paper's value"
    main = Table("table2", caption, [*measured, "paper", "difference", "in s.e."])
    sweeps = [f"{ratio} b={b}" for b in batch_sizes("a9a") for ratio in ("L/Lhat", "L/Ltil")]
    caption = "Beyond the paper: the 4/pi^2 estimate and its error, mini-batches, and the order that the file came in"
    beyond = Table("table2_beyond", caption, ["dataset", "estimate", "error %", *sweeps, "L/Lhat in file order"])
    for name, reported in TABLE_2.items():
        dataset = DATASETS[name]
        c = results.get(Task(Matrix(name)).key)
        if c is None:
            status = "failed" if locate(name, data) is not None else "missing"
            main.rows.append([name, dataset.n, dataset.d, status, *[None] * 5, reported.ratio, None, None])
            if status == "missing":
                main.notes.append(f"{name} is missing; get it with: reshuffle datasets fetch {name}")
            continue
        error = standard_error(c, name)
        ratio, difference = c.l_over_lhat, c.l_over_lhat - reported.ratio
        logs = [log(ratio) / log(dataset.n), log(ratio) / log(min(dataset.n, dataset.d))]
        spread = ratio * c.lhat_std / c.lhat_mean
        row = [name, dataset.n, dataset.d, ratio, spread, *logs, c.permutations, round(c.seconds, 2), reported.ratio, difference]
        main.rows.append([*row, difference / error if error > 0.0 else None])
        if not agrees(c, name):
            main.notes.append(f"{name} differs from the paper by more than three standard errors and 1 %")
        if reported.caveat:
            main.notes.append(f"{name}: {reported.caveat}")
        estimate = c.L / c.predicted_lhat
        sweep: list[float | None] = []
        for b in batch_sizes(name).values():
            found = results.get(Task(Matrix(name), b).key)
            sweep += [None, None] if found is None else [found.l_over_lhat, found.l_over_ltil]
        file_order = results.get(Task(Matrix(name), order="ig").key)
        in_file = None if file_order is None else file_order.l_over_lhat
        beyond.rows.append([name, estimate, 100.0 * (estimate / ratio - 1.0), *sweep, in_file])
    return main, beyond
