"""Epochs of shuffled SGD against scikit-learn and PyTorch, in one run on one machine. Prints one JSON object.

    python benchmarks/epochs.py [--data DIR]

rr_over_sklearn   one RR epoch, b = 1, logistic with alpha, over one epoch of SGDClassifier on the same data, shuffled
so_over_sklearn   the same with shuffle-once
over_torch        one RR epoch, b = 64, over a PyTorch loop on the CPU over the same batches (null where torch is not installed)
memory_over_rows  bytes a run takes beside the data, over 8 (n + d)
first_call        seconds of a new process that imports, builds a problem and runs 5 epochs, compiled code cached

Each per dataset and as `worst`. The data are a9a and rcv1-like files in --data (default: $RESHUFFLE_DATA, else shared/data beside
the checkout), or generated data of those shapes where the files are not there.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier

import reshuffle as rs
from reshuffle.orders import make_order
from reshuffle.solver.shuffled import Sweep

SHAPES = {"a9a": (32_561, 123, 14), "rcv1_like": (20_242, 47_236, 75)}
STEP = 1e-4


def generated(n: int, d: int, row: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    columns = (d * rng.random((n, row)) ** 2).astype(np.int32)
    X = sp.csr_matrix((rng.random(n * row), columns.ravel(), np.arange(0, n * row + 1, row, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    return X, np.where(rng.random(n) < 0.5, -1.0, 1.0)


def datasets(folder: Path) -> dict[str, tuple[Any, Any]]:
    found = {}
    for name, shape in SHAPES.items():
        files = [path for path in (folder / name, folder / f"{name}.bz2") if path.exists()]
        data = rs.load(files[0]) if files else None
        found[name] = (data.X, data.y) if data is not None else generated(*shape)
    return found


def epoch_seconds(problem: rs.Problem, order: str, batch_size: int, epochs: int = 15) -> float:
    sweep = Sweep(problem, make_order(order, problem.n, 0), batch_size)
    x, dual, times = np.zeros(problem.dimension), np.zeros(problem.n), []
    for epoch in range(epochs + 1):
        began = time.perf_counter()
        sweep.run(epoch, STEP, x, dual)
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:]))


def sklearn_seconds(problem: rs.Problem) -> float:
    """Of one epoch: the difference between 21 epochs and 1, so that validation and set-up do not count."""

    def fit(epochs: int) -> float:
        model = SGDClassifier(
            loss="log_loss",
            alpha=problem.alpha,
            learning_rate="constant",
            eta0=STEP,
            max_iter=epochs,
            tol=None,
            fit_intercept=False,
        )
        began = time.perf_counter()
        model.fit(problem.X, problem.y)
        return time.perf_counter() - began

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit(2)
        return min((fit(21) - fit(1)) / 20 for _ in range(3))


def torch_seconds(problem: rs.Problem, batch_size: int) -> float | None:
    """Plain PyTorch: a linear layer, SGD with weight decay, batches of the CSR rows made dense or, where d is large, sparse."""
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(os.cpu_count() or 1)
    n, d = problem.X.shape
    y = torch.from_numpy((problem.labels + 1.0) / 2.0)
    dense = n * d <= 10**8
    X: Any = torch.from_numpy(problem.X.toarray()) if dense else problem.X
    weight = torch.zeros(d, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([weight], lr=STEP, weight_decay=problem.alpha)
    loss = torch.nn.BCEWithLogitsLoss()
    batches = np.random.default_rng(0).permutation(n)
    limit = batch_size * min(300, n // batch_size)  # a part of an epoch, to keep the run short
    began = time.perf_counter()
    for start in range(0, limit, batch_size):
        rows = batches[start : start + batch_size]
        if dense:
            margins = X[torch.from_numpy(rows)] @ weight
        else:
            part = X[rows]
            part = torch.sparse_csr_tensor(
                torch.from_numpy(part.indptr), torch.from_numpy(part.indices), torch.from_numpy(part.data), size=part.shape
            )
            margins = torch.mv(part, weight)
        optimiser.zero_grad()
        loss(margins, y[torch.from_numpy(rows)]).backward()
        optimiser.step()
    return float((time.perf_counter() - began) * n / limit)


def memory_over_rows(problem: rs.Problem) -> float:
    rs.minimize(problem, step_size=STEP, epochs=1)
    tracemalloc.start()
    rs.minimize(problem, step_size=STEP, epochs=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8 * (problem.n + problem.d))


FIRST = """
import time; began = time.perf_counter()
import numpy as np, scipy.sparse as sp, reshuffle as rs
rng = np.random.default_rng(0)
X = sp.random_array((2000, 100), density=0.1, format='csr', rng=rng)
rs.minimize(rs.Problem(X, rng.integers(0, 2, 2000), alpha=1e-3), batch_size=8, epochs=5)
print(time.perf_counter() - began)
"""


def first_call() -> float:
    command = [sys.executable, "-c", FIRST]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(4))


def main() -> None:
    warnings.filterwarnings("ignore", message="Sparse")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RESHUFFLE_DATA", beside)))
    report: dict[str, Any] = {"rr_over_sklearn": {}, "so_over_sklearn": {}, "over_torch": {}, "memory_over_rows": {}}
    for name, (X, y) in datasets(parser.parse_args().data).items():
        problem = rs.Problem(X, y, loss="logistic", alpha=1.0 / X.shape[0])
        peer, torch = sklearn_seconds(problem), torch_seconds(problem, 64)
        report["rr_over_sklearn"][name] = epoch_seconds(problem, "rr", 1) / peer
        report["so_over_sklearn"][name] = epoch_seconds(problem, "so", 1) / peer
        report["over_torch"][name] = None if torch is None else epoch_seconds(problem, "rr", 64) / torch
        report["memory_over_rows"][name] = memory_over_rows(problem)
    for figures in report.values():
        figures["worst"] = None if None in figures.values() else max(figures.values())
    report["first_call"] = first_call()
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
