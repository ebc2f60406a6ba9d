"""What a Dask cluster on one machine does against one worker, and against threads that share memory. Prints one JSON object.

    python benchmarks/scale_dask.py [--data FOLDER] [--repeats 10] [--only NAME ...] [--model]

dask_speedup       time with one single-threaded worker process over that with two: the smaller of the two datasets' means
dask_over_threads  time with two workers over that of rows in memory with two threads: the larger of the two
datasets           both for each: of one permutation's constants at b = 1, and of a certified fit to a relative gap of 1e-3;
                   machine_speedup is that of twenty products in a single call, of which messages are no part: what the cores of
                   this machine, which share its memory, leave to any two workers
busy               load of the machine at the end, over its cores: above one, others took time from the workers
model              with --model, the constants of the cost model in docs/cluster.md: seconds for each entry and number, fitted to
                   three sizes of generated data, and at two others what the model says over what was measured

Times are the best of some repeats, in turns, after one that is not counted, on rows that are placed already: they are read once and
used many times. The data are mnist (in --data, default $RESHUFFLE_DATA, else shared/data beside the checkout) and text-like rows,
generated and repeated 20 times. What has been measured so far goes to stderr.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster
from scipy.optimize import nnls

import reshuffle as rs
from reshuffle.orders import make_order
from reshuffle.rows import Rows, as_rows
from reshuffle.solver.certified import solve

TEXT = 20_000, 47_000, 75  # rows, features, entries a row
REPEATED = 20
FITTED = (50_000, 5_000, 20), (200_000, 5_000, 10), (100_000, 5_000, 80)  # rows, features, entries a row
CHECKED = (150_000, 10_000, 40), (300_000, 2_500, 20)
OFTEN = 2  # times the repeats, for what takes some milliseconds
PRODUCTS = 20  # in one call


def text_like(n: int, d: int, row: int, seed: int = 0) -> Any:
    """n rows of `row` entries each, most of them in the first columns."""
    rng = np.random.default_rng(seed)
    columns = (d * rng.random((n, row)) ** 3).astype(np.int32)
    X = sp.csr_array((rng.random(n * row), columns.ravel(), np.arange(0, n * row + 1, row, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    return X


def datasets(folder: Path) -> dict[str, Any]:
    found = {"text": sp.vstack([text_like(*TEXT)] * REPEATED, format="csr")}
    files = sorted(folder.glob("mnist*")) if folder.is_dir() else []
    return {"mnist": rs.load(files[0]).X, **found} if files else found


def workers(count: int) -> Any:
    return LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0", silence_logs=50)


def in_turns(works: list[Callable[[], Any]], repeats: int) -> list[float]:
    """The best time of each, one after the other again and again: what others do on the machine, they do to all of them."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(repeats + 1):  # the first compiles
        for work, taken in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
    return [min(taken[1:]) for taken in times]


def jobs_on(rows: Rows, y: Any) -> dict[str, Callable[[], Any]]:
    data = rs.Problem(rows, loss="unit")
    fitted = rs.Problem(rows, y, alpha=1e-3 * float(data.squared_norms().mean()))  # whatever the units of the data are
    return {"constants": lambda: rs.constants(data, permutations=1, jobs=2), "fit": lambda: solve(fitted, tol=1e-3)}


def products(rows: Any) -> tuple[None, None]:
    """What a worker does by itself."""
    x = np.ones(rows.dimension)
    for _ in range(PRODUCTS):
        rows.curved_product(np.ones(rows.n), x)
    return None, None


def one_dataset(X: Any, repeats: int) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    y = np.where(X @ rng.standard_normal(X.shape[1]) > 0.0, 1.0, -1.0)
    found: dict[str, Any] = {"n": X.shape[0], "nnz": X.nnz}
    with ExitStack() as stack:
        placed: list[Any] = [as_rows(X)]
        for count in (1, 2):
            stack.enter_context(Client(stack.enter_context(workers(count))))
            placed.append(as_rows(X).on_dask())
        jobs = [jobs_on(rows, y) for rows in placed]
        for job in jobs[0]:
            memory, one, two = in_turns([each[job] for each in jobs], repeats)
            found[job] = {"dask_speedup": one / two, "dask_over_threads": two / memory, "seconds": two}
        one, two = in_turns([partial(rows._held.ask, products) for rows in placed[1:]], repeats)
    found["machine_speedup"] = one / two
    print(found, file=sys.stderr, flush=True)
    return found


def costs(n: int, d: int, row: int, repeats: int) -> dict[str, Any]:
    """Of an exchange and of a product of the ordered matrix on two workers, with the numbers that the model prices."""
    X = text_like(n, d, row)
    with workers(2) as cluster, Client(cluster):
        rows = as_rows(X).on_dask()
        weighted, order = rows._weighted(np.ones(n), 1e-4), make_order("rr", n, 0).permutation(0)
        v, out = np.ones(n), np.empty(n)
        arranged = weighted.arrange(order, 1)
        works = [lambda: arranged.ordered(v, out), lambda: weighted.arrange(order, 1).ordered(v, out)]
        product, both = in_turns(works, OFTEN * repeats)
    found = {"n": n, "d": d, "entries": X.nnz // 2, "numbers": 2 * n, "product": product, "exchange": both - product}
    print(found, file=sys.stderr, flush=True)
    return found


def model(repeats: int) -> dict[str, Any]:
    """product = t_0 + p entries + c numbers and exchange = e_0 + e entries + r n, for the entries of a partition and the numbers
    that the client sends and receives.
    """
    none = costs(2_000, 10, 5, repeats)  # so few rows that nothing but messages takes time
    fitted, checked = ([costs(*size, repeats) for size in sizes] for sizes in (FITTED, CHECKED))
    found: dict[str, Any] = {"fitted": fitted, "checked": checked}
    for what, second in (("product", "numbers"), ("exchange", "n")):
        priced = np.array([[one["entries"], one[second]] for one in fitted], dtype=float)
        taken = np.array([max(one[what] - none[what], 1e-6) for one in fitted])
        prices, _ = nnls(priced / taken[:, None], np.ones(len(fitted)))  # relative errors count alike
        said = [none[what] + float(prices @ [one["entries"], one[second]]) for one in checked]
        found[what] = {"seconds": none[what], "seconds_an_entry": prices[0], f"seconds_of_{second}": prices[1]}
        found[what]["said_over_measured"] = [a / one[what] for a, one in zip(said, checked, strict=True)]
    return found


def main() -> None:
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RESHUFFLE_DATA", beside)))
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="mnist, text, or with no name at all neither")
    parser.add_argument("--model", action="store_true")
    options = parser.parse_args()
    chosen = {name: X for name, X in datasets(options.data).items() if options.only is None or name in options.only}
    found: dict[str, Any] = {"datasets": {name: one_dataset(X, options.repeats) for name, X in chosen.items()}}
    each = [[one["constants"], one["fit"]] for one in found["datasets"].values()]
    if each:
        found["dask_speedup"] = min(float(np.mean([job["dask_speedup"] for job in jobs])) for jobs in each)
        found["dask_over_threads"] = max(float(np.mean([job["dask_over_threads"] for job in jobs])) for jobs in each)
    if options.model:
        found["model"] = model(options.repeats)
    found["busy"] = os.getloadavg()[0] / (os.cpu_count() or 1)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
