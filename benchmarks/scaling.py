"""Epochs on centred sparse data over epochs on the same data without a centre, in one run on one machine. Prints one JSON object.

    python benchmarks/scaling.py [--data DIR]

rr_over_plain, so_over_plain, balanced_over_plain   one epoch, b = 1, logistic with alpha and intercept, scale="std" over "maxabs"
auto_seconds   to choose a scaling, compiled code cached

Each per dataset and as `worst`. The data are a9a and rcv1-like files in --data (default: $RESHUFFLE_DATA, else shared/data beside
the checkout), or generated data of those shapes where the files are not there.
"""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import reshuffle as rs
from epochs import datasets
from reshuffle.orders import make_order
from reshuffle.solver.shuffled import Sweep

EPOCHS = 30


class Timed:
    """Epochs of one problem, each on this thread's own clock."""

    def __init__(self, problem: rs.Problem, order: str) -> None:
        self._sweep = Sweep(problem, make_order(order, problem.n, 0), 1)
        self._x, self._dual = np.zeros(problem.dimension), np.zeros(problem.n)
        self.seconds: list[float] = []

    def epoch(self, k: int) -> None:
        began = time.thread_time()
        self._sweep.run(k, 1e-6, self._x, self._dual)
        self.seconds.append(time.thread_time() - began)


def ratio(plain: rs.Problem, centred: rs.Problem, order: str) -> float:
    """Epochs of both in turn; the fastest of each is the one that was least disturbed."""
    runs = [Timed(problem, order) for problem in (plain, centred)]
    for k in range(EPOCHS):
        for run in runs:
            run.epoch(k)
    return min(runs[1].seconds) / min(runs[0].seconds)


def measured(X: Any, y: Any) -> dict[str, float]:
    problem = rs.Problem(X, y, alpha=1e-4, fit_intercept=True)
    plain, centred = (rs.scale(problem, kind).apply(problem) for kind in ("maxabs", "std"))
    found = {f"{order}_over_plain": ratio(plain, centred, order) for order in ("rr", "so", "balanced")}
    rs.scale(problem)
    began = time.perf_counter()
    rs.scale(problem)
    return {**found, "auto_seconds": time.perf_counter() - began}


def main() -> None:
    beside = Path(__file__).parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RESHUFFLE_DATA", beside)))
    results = {name: measured(*data) for name, data in datasets(parser.parse_args().data).items()}
    worst = {key: max(found[key] for found in results.values()) for key in next(iter(results.values()))}
    print(json.dumps({**results, "worst": worst}, indent=2))


if __name__ == "__main__":
    main()
