"""How well the discrepancy of an order says how it trains. Prints one JSON object.

    python benchmarks/orders.py [--data DIR]

rank_correlation   Spearman's, over 18 ways to shuffle a file that is sorted by label, of the discrepancy with the gap f - min f
                   that training ends at: the mean of epochs 31 to 40 and three seeds, logistic, alpha = 1e-3, b = 32, at 64 times
                   the theory's step, which here is the limit of three sampled random orders; per dataset, and the `worst`

The data are the files a9a, mushrooms and ijcnn1 in --data (default: $RESHUFFLE_DATA, else shared/data beside the checkout).
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import reshuffle as rs
from reshuffle.assessment.study import Study
from reshuffle.solver.practice import Bench

SORTED = ("a9a", "mushrooms", "ijcnn1")
ALPHA, BATCH_SIZE, MULTIPLE, EPOCHS, LAST, SEEDS = 1e-3, 32, 64, 40, 10, 3


def find(folder: Path, name: str) -> Path:
    return next(path for path in (folder / name, folder / f"{name}.bz2") if path.exists())


def by_label(path: Path) -> rs.Problem:
    """The problem of a file that is sorted by its labels."""
    data = rs.load(path)
    order = np.argsort(data.y, kind="stable")
    return rs.Problem(data.X[order], data.y[order], alpha=ALPHA)


def shuffles(n: int) -> list[str]:
    """From the file as it is to a random order."""
    buffers = [f"buffer:{n // k}" for k in (1000, 300, 100, 30, 10, 3, 2)]
    blocks = [f"blocks:{max(1, n // k)}" for k in (2000, 1000, 300, 100, 30)]
    windows = [f"windows:{n // 30}", f"windows:{n // 3}", f"blocks:{n // 1000}/window:10", f"blocks:{n // 100}/window:10"]
    return ["rr", "file", *buffers, *blocks, *windows]


def gap_at_the_end(problem: rs.Problem, optimum: Any, scheme: str, step: float) -> float:
    benches = [Bench(problem, optimum, BATCH_SIZE, seed, average="last", epochs=EPOCHS) for seed in range(SEEDS)]
    return float(np.mean([bench.gaps(scheme, step)[-LAST:] for bench in benches]))


def rank_correlation(problem: rs.Problem) -> float:
    optimum, schemes = rs.theory.measure(problem), shuffles(problem.n)
    step = MULTIPLE * rs.constants(problem, batch_size=BATCH_SIZE, permutations=SEEDS).step_size_limit
    study = Study(problem, batch_size=BATCH_SIZE, eps=1e-3, optimum=optimum)
    noise = [study.discrepancies(scheme).mean() for scheme in schemes]
    gaps = [gap_at_the_end(problem, optimum, scheme, step) for scheme in schemes]
    return float(spearmanr(noise, gaps).statistic)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RESHUFFLE_DATA", beside)))
    folder = parser.parse_args().data
    correlations = {name: rank_correlation(by_label(find(folder, name))) for name in SORTED}
    print(json.dumps({"rank_correlation": {**correlations, "worst": min(correlations.values())}}, indent=1))


if __name__ == "__main__":
    main()
