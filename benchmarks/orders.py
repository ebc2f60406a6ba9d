"""What an order is worth: balanced orders against random reshuffling, and how well the discrepancy says how an order trains, in one
run on one machine. Prints one JSON object.

    python benchmarks/orders.py [--data DIR] [--only NAME ...]

balanced_over_rr        f - min f after 20 epochs (last iterate, b = 32, alpha = 1e-3) of order="balanced" over that of "rr",
                        each at its best of the steps 4^k times the theory's: geometric mean over all files
balanced_over_rr_worst  the largest of these
balanced_over_rr_by_grid  mean and largest for the steps 4^k, 2 4^k and 2^k: where a grid falls moves single files by factors
balanced_epoch_over_rr  time of an epoch over that of an epoch of "rr", its order included: the worst of the files as they are
a9a_256_over_rr         f - min f of "balanced" over "rr" on a9a after 20 epochs, both at 256 times the theory's step
fixed_over_random       prefix discrepancy on a9a (b = 32, alpha = 1e-2) at the optimum, over the mean of random orders: of the
                        file, and after six passes of `rs.orders.balanced` from it
rank_correlation        Spearman's, over 18 ways to shuffle a file that is sorted by label, of the discrepancy with f - min f
                        after 40 epochs (the mean of the last ten and of three seeds, b = 32, alpha = 1e-3) at 64 times the
                        theory's step: the smallest of a9a, mushrooms and ijcnn1
rank_correlations       that of each of these files
files                   the figures of each file, as it is and with columns scaled to unit root mean square

The theory's step is the limit of Theorem 1 for the constants of three sampled random orders. The files are those with more than
1000 rows in --data (default: $RESHUFFLE_DATA, else shared/data beside the checkout). Two classes are the largest against the rest,
with the logistic loss; targets with more than 25 values are numbers, with the squared one. A gap is the geometric mean over seeds:
five, or two where the data are large.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import reshuffle as rs
from reshuffle.assessment.study import Study
from reshuffle.orders import make_order
from reshuffle.rows import in_memory
from reshuffle.solver.practice import Bench
from reshuffle.solver.shuffled import Sweep

ALPHA, BATCH_SIZE, EPOCHS = 1e-3, 32, 20
ROWS, LARGE = 1000, 5_000_000
ORDERS = ("balanced", "rr")
GRIDS = {"4^k": slice(0, None, 2), "2 4^k": slice(1, None, 2), "2^k": slice(None)}  # of the steps 2^k
SORTED = ("a9a", "mushrooms", "ijcnn1")
MULTIPLE, LONG, LAST, SEEDS = 64, 40, 10, 3


def files(folder: Path, only: list[str] | None) -> Iterator[tuple[str, rs.Problem]]:
    for path in sorted(folder.iterdir()):
        name = path.name.split(".")[0]
        if path.suffix == ".md" or path.is_dir() or (only and name not in only):
            continue
        data = rs.load(path)
        if data.X.shape[0] > ROWS:
            yield name, problem_of(data.X, data.y)


def problem_of(X: Any, y: Any) -> rs.Problem:
    values, counts = np.unique(y, return_counts=True)
    if len(values) > 25:
        return rs.Problem(X, y, loss="squared", alpha=ALPHA)
    return rs.Problem(X, y == values[np.argmax(counts)], loss="logistic", alpha=ALPHA)


def scaled(problem: rs.Problem) -> rs.Problem:
    size = np.sqrt(problem.squared_column_norms() / problem.n)
    return problem.replace(X=in_memory(problem.X).scale_columns(1.0 / np.where(size > 0.0, size, 1.0)))


# --- balanced orders against random ones


def theory_step(problem: rs.Problem) -> float:
    """The limit of Theorem 1 for the constants of three random orders."""
    return float(rs.constants(problem, batch_size=BATCH_SIZE, permutations=SEEDS).step_size_limit)


def gap(problem: rs.Problem, best: float, order: str, step: float, seed: int) -> float:
    options: dict[str, Any] = {"batch_size": BATCH_SIZE, "epochs": EPOCHS, "evaluate_every": EPOCHS, "average": "last"}
    try:
        run = rs.minimize(problem, order=order, step_size=step, seed=seed, **options)
    except ArithmeticError:
        return float("inf")
    return max((run.f or float("inf")) - best, 1e-16)


def gaps_by_step(problem: rs.Problem, best: float, order: str, step: float) -> list[float]:
    """At steps 2^k; once five in a row are worse than the best, none does better."""
    seeds, found = range(2 if problem.rows.entries > LARGE else 5), list[float]()
    for k in count():
        found.append(float(np.exp(np.mean([np.log(gap(problem, best, order, step * 2.0**k, seed)) for seed in seeds]))))
        if len(found) - 1 - int(np.argmin(found)) == 5 or found[-1] == float("inf"):
            break
    return found


def epoch_ratio(problem: rs.Problem, step: float) -> float:
    """The fastest epoch of each order, taken in turns, in seconds that the thread ran: what else the machine does counts less."""
    epochs = 12 if problem.rows.entries > LARGE else 100
    sweeps = [Sweep(problem, make_order(order, problem.n, 0), BATCH_SIZE) for order in ORDERS]
    points, times = [np.zeros(problem.dimension) for _ in ORDERS], np.empty((epochs, 2))
    for epoch in range(epochs):
        for k, (sweep, x) in enumerate(zip(sweeps, points, strict=True)):
            began = time.thread_time()
            sweep.run(epoch, step, x, np.empty(problem.n))
            times[epoch, k] = time.thread_time() - began
    return float(times[1:, 0].min() / times[1:, 1].min())


def balanced(folder: Path, only: list[str] | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    report: dict[str, Any] = {}
    for name, raw in files(folder, only):
        for key, problem in ((name, raw), (f"{name}, scaled", scaled(raw))):
            best, step = rs.theory.measure(problem).f, theory_step(problem)
            ours, theirs = (gaps_by_step(problem, best, order, step) for order in ORDERS)
            by_grid = {grid: min(ours[part]) / min(theirs[part]) for grid, part in GRIDS.items()}
            found[key] = {**by_grid, "balanced": ours, "rr": theirs}
            if key == name:
                found[key]["epoch_over_rr"] = epoch_ratio(problem, step)
            if key == "a9a":
                gaps = [np.log(gap(problem, best, order, 256.0 * step, seed)) for order in ORDERS for seed in range(5)]
                report["a9a_256_over_rr"] = float(np.exp(np.mean(gaps[:5]) - np.mean(gaps[5:])))
                report["fixed_over_random"] = fixed_orders(problem.replace(alpha=1e-2))
    ratios = {grid: [figures[grid] for figures in found.values()] for grid in GRIDS}
    means = {grid: float(np.exp(np.mean(np.log(each)))) for grid, each in ratios.items()}
    return {
        "balanced_over_rr": means["4^k"],
        "balanced_over_rr_worst": max(ratios["4^k"]),
        "balanced_over_rr_by_grid": {grid: [means[grid], max(ratios[grid])] for grid in GRIDS},
        "balanced_epoch_over_rr": max(figures.get("epoch_over_rr", 0.0) for figures in found.values()),
        **report,
        "files": found,
    }


def fixed_orders(problem: rs.Problem) -> dict[str, float]:
    optimum = rs.theory.measure(problem)
    random = optimum.sigma**2 * rs.theory.variance_factor(problem.n, BATCH_SIZE)
    better = rs.orders.balanced(problem, problem.duals(problem.margins(optimum.x)), order="ig")
    orders: dict[str, Any] = {"file": "ig", "balanced": better}
    return {name: rs.orders.discrepancy(problem, order, BATCH_SIZE, x=optimum.x) / random for name, order in orders.items()}


# --- the discrepancy of an order, and how it trains


def by_label(problem: rs.Problem) -> rs.Problem:
    """The problem of a file that is sorted by its labels."""
    return problem.take(np.argsort(problem.labels, kind="stable"))


def shuffles(n: int) -> list[str]:
    """From the file as it is to a random order."""
    buffers = [f"buffer:{n // k}" for k in (1000, 300, 100, 30, 10, 3, 2)]
    blocks = [f"blocks:{n // k}" for k in (2000, 1000, 300, 100, 30)]
    windows = [f"windows:{n // 30}", f"windows:{n // 3}", f"blocks:{n // 1000}/window:10", f"blocks:{n // 100}/window:10"]
    return ["rr", "file", *buffers, *blocks, *windows]


def gap_at_the_end(problem: rs.Problem, optimum: Any, scheme: str, step: float) -> float:
    benches = [Bench(problem, optimum, BATCH_SIZE, seed, average="last", epochs=LONG) for seed in range(SEEDS)]
    return float(np.mean([bench.gaps(scheme, step)[-LAST:] for bench in benches]))


def rank_correlation(problem: rs.Problem) -> float:
    optimum, schemes = rs.theory.measure(problem), shuffles(problem.n)
    step = MULTIPLE * theory_step(problem)
    study = Study(problem, batch_size=BATCH_SIZE, optimum=optimum)
    noise = [study.discrepancies(scheme).mean() for scheme in schemes]
    gaps = [gap_at_the_end(problem, optimum, scheme, step) for scheme in schemes]
    return float(spearmanr(noise, gaps).statistic)


def rank_correlations(folder: Path) -> dict[str, Any]:
    each = {name: rank_correlation(by_label(problem)) for name, problem in files(folder, list(SORTED))}
    return {"rank_correlation": min(each.values()), "rank_correlations": each} if each else {}


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RESHUFFLE_DATA", beside)))
    parser.add_argument("--only", nargs="*")
    words = parser.parse_args()
    print(json.dumps({**rank_correlations(words.data), **balanced(words.data, words.only)}, indent=1))


if __name__ == "__main__":
    main()
