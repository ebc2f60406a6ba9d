"""Constants against their peers, all in one run on one machine. Prints one JSON object; every figure is a ratio.

    python benchmarks/constants.py [--data DIR]

takes about two minutes on two cores for ten files of 21 million entries in all; stderr says what is measured meanwhile.

explicit_over_ours      explicit n x n matrix (formed) and ARPACK, over one permutation of ours, n about 8000
product_over_scipy      one product of the ordered matrix over SciPy's A @ x and A.T @ v, worst dataset
permutation_over_scipy  one whole permutation at tol 1e-4 over the same two products, worst dataset
discrepancy_over_scipy  the prefix discrepancy of an order, over the same two products, worst dataset
products_median         median over the datasets of the products that a permutation takes
threads_speedup         one thread over two, worst dataset among those where a permutation takes a millisecond or more; the best of
                        three runs taken in turns, of 20 permutations or more. It is less than can be had where a core is not idle
memory_over_csr         peak memory of a run with two threads, the CSR arrays included, over the CSR arrays
growth_exponent         of the time of a permutation against nnz, over two decades
reader_over_sklearn     our MB/s over scikit-learn's on plain svmlight text, worst file
dense_over_blas         the dense row kernel over the same product in chunks through BLAS, worst type and shape

`datasets` holds the figures of each file. The data are svmlight files of at least 100000 entries in --data (default:
$RESHUFFLE_DATA, else shared/data beside the checkout), or generated ones where there are none.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import eigsh
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from threadpoolctl import threadpool_limits

import reshuffle as rs
from reshuffle.orders import make_order
from reshuffle.spectral.permutations import Permutations, Shared

LARGE = 100_000
SLOW = 1e-3  # seconds of a permutation from which on threads are worth asking for


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def best(action: Callable[[], Any], repeats: int = 7) -> float:
    """Seconds of the fastest run: what the machine can do when nothing disturbs it."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def side_by_side(*actions: Callable[[int], Any], repeats: int, statistic: Callable[[list[float]], Any] = np.median) -> list[float]:
    """Seconds of the typical run of each, taken in turns: what disturbs the machine disturbs all of them."""
    times: list[list[float]] = [[] for _ in actions]
    for k in range(repeats):
        for action, mine in zip(actions, times, strict=True):
            began = time.perf_counter()
            action(k)
            mine.append(time.perf_counter() - began)
    return [float(statistic(mine)) for mine in times]


def generated(n: int, d: int, row: int, seed: int = 0) -> Any:
    """n rows of `row` entries each, heavier towards the first columns, as counts and tf-idf are."""
    rng = np.random.default_rng(seed)
    columns = (d * rng.random((n, row)) ** 2).astype(np.int32)
    X = sp.csr_matrix((rng.random(n * row), columns.ravel(), np.arange(0, n * row + 1, row, dtype=np.int32)), shape=(n, d))
    X.sum_duplicates()
    return X


def datasets(folder: Path) -> dict[str, Any]:
    files = sorted(f for f in folder.iterdir() if f.suffix != ".md") if folder.is_dir() else []
    say(f"reading {folder}")
    found = {f.name.split(".")[0]: rs.load(f).X for f in files}
    found = {name: X for name, X in found.items() if X.nnz >= LARGE}
    return found or {"short rows": generated(40_000, 120, 14), "text": generated(20_000, 47_000, 75)}


def permutations(X: Any) -> Permutations:
    problem = rs.Problem(X, loss="unit")
    order = make_order("rr", problem.n, 0)
    return Permutations(Shared(problem, order, tol=1e-4, share=None), 1)


def one_dataset(name: str, X: Any) -> dict[str, Any]:
    say(f"{name}, {X.nnz} entries")
    n, d = X.shape
    x, v, out = np.ones(d), np.ones(n), np.empty(n)
    transposed = X.T
    measured = permutations(X)
    samples = [measured.constants_of(k) for k in range(5)]
    arranged = measured.shared.rows.arrange(measured.shared.order.permutation(0), 1)
    trained = rs.Problem(X, np.resize([1.0, -1.0], n), alpha=1e-3)
    orders = [make_order(measured.shared.order.permutation(k), n, 0) for k in range(5)]
    pair, product, permutation, discrepancy = side_by_side(
        lambda k: (X @ x, transposed @ v),
        lambda k: arranged.ordered(v, out),
        measured.constants_of,
        lambda k: rs.orders.discrepancy(trained, orders[k % 5], x=x / d),
        repeats=15 if X.nnz > 5e6 else 41,
    )
    speedup = None
    if permutation >= SLOW:
        count = max(20, int(0.5 / permutation))  # so many that the norm, which they share, is a small part
        runs = [lambda k, jobs=jobs: rs.constants(X, permutations=count, jobs=jobs) for jobs in (1, 2)]
        one, two = side_by_side(*runs, repeats=3, statistic=min)
        speedup = one / two
    return {
        "n": n,
        "nnz": X.nnz,
        "product_over_scipy": product / pair,
        "permutation_over_scipy": permutation / pair,
        "discrepancy_over_scipy": discrepancy / pair,
        "products": float(np.median([s.products for s in samples])),
        "threads_speedup": speedup,
        "seconds_a_permutation": permutation,
    }


def explicit_over_ours(X: Any) -> dict[str, float]:
    say("an explicit matrix")
    n = X.shape[0]
    measured = permutations(X)
    measured.constants_of(0)
    (ours,) = side_by_side(measured.constants_of, repeats=31)
    rows = X[measured.shared.order.permutation(0)]
    began = time.perf_counter()
    t = np.arange(1.0, n + 1.0)
    matrix = (rows @ rows.T).toarray()
    matrix *= np.minimum.outer(t, t)
    formed = time.perf_counter()
    value = eigsh(matrix, k=1, return_eigenvectors=False, v0=np.ones(n))[0] / n**2
    done = time.perf_counter()
    return {
        "n": n,
        "form_seconds": formed - began,
        "arpack_seconds": done - formed,
        "our_seconds": ours,
        "relative_difference": abs(measured.constants_of(0).hat / value - 1.0),
        "ratio": (done - began) / ours,
    }


PEAK = """
import sys, numpy as np, scipy.sparse as sp, reshuffle as rs
def status(name):
    return next(int(line.split()[1]) * 1024 for line in open('/proc/self/status') if line.startswith(name))
X = sp.load_npz(sys.argv[1])
small = X[:2000]
rs.constants(small, permutations=2, jobs=2)          # compile, and start the threads' own memory
before = status('VmRSS')
open('/proc/self/clear_refs', 'w').write('5')        # the peak counts from here
rs.constants(X, permutations=8, jobs=2)
csr = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print((status('VmHWM') - before + csr) / csr)
"""


def memory_over_csr(X: Any) -> float | None:
    if not Path("/proc/self/clear_refs").exists():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "X.npz")
        sp.save_npz(path, X, compressed=False)
        return float(subprocess.run([sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True).stdout)


def growth() -> dict[str, Any]:
    say("growth")
    sizes = [4_000, 12_650, 40_000, 126_500, 400_000]
    seconds, nnz = [], []
    for n in sizes:
        X = generated(n, 5_000, 50)
        measured = permutations(X)
        measured.constants_of(0)
        seconds += side_by_side(measured.constants_of, repeats=31 if n < 100_000 else 7)
        nnz.append(X.nnz)
    slope = np.polyfit(np.log(nnz), np.log(seconds), 1)[0]
    return {"nnz": nnz, "seconds": seconds, "exponent": float(slope)}


def reader(found: dict[str, Any]) -> dict[str, float]:
    say("reading")
    ratios = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, X in found.items():
            part = X[: max(1, int(X.shape[0] * min(1.0, 1e6 / X.nnz)))]
            path = str(Path(folder) / "text")
            dump_svmlight_file(part, np.ones(part.shape[0]), path, zero_based=False)
            rs.load(path)
            ratios[name] = best(partial(load_svmlight_file, path), 2) / best(partial(rs.load, path), 5)
    return ratios


def in_chunks_through_blas(X: Any, order: Any, v: Any, c: int, grams: dict[int, Any]) -> Any:
    """The dense product in chunks: two products a chunk, and the small matrices inside chunks, formed once."""
    n, d = X.shape
    t, out = np.arange(1.0, n + 1.0), np.empty(n)
    U, R = np.zeros(d), np.zeros(d)
    for start in range(0, n, 4096):
        R += v[start : start + 4096] @ X[start : start + 4096].astype(np.float64, copy=False)
    for start in range(0, n, c):
        rows = order[start : start + c]
        B, t_here, v_here = X[rows].astype(np.float64, copy=False), t[start : start + c], v[rows]
        if start not in grams:
            grams[start] = np.minimum.outer(t_here, t_here) * (B @ B.T)
        R -= v_here @ B
        out[rows] = grams[start] @ v_here + B @ U + t_here * (B @ R)
        U += (t_here * v_here) @ B
    return out


def dense_over_blas() -> dict[str, float]:
    """Our time over BLAS at its best chunk, the small matrices taken as formed."""
    say("dense rows")
    rng, ratios = np.random.default_rng(0), {}
    for n, d in ((20_000, 22), (10_000, 784), (1_000, 7_129)):
        for kind in (np.uint8, np.float32, np.float64):
            X = (255 * rng.random((n, d))).astype(kind)
            order, v, out = rng.permutation(n), rng.standard_normal(n), np.empty(n)
            arranged = rs.Problem(X, loss="unit").rows._weighted(np.ones(n), 1e-4).arrange(order, 1)
            ours = partial(arranged.ordered, v, out)
            ours()
            peers = []
            for c in (16, 64, 256):
                blas = partial(in_chunks_through_blas, X, order, v, c, {})
                np.testing.assert_allclose(blas(), out, rtol=1e-8, atol=1e-6 * abs(out).max())
                peers.append(best(blas, 3))
            ratios[f"{n} x {d} {np.dtype(kind).name}"] = best(ours, 5) / min(peers)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RESHUFFLE_DATA", beside)))
    found = datasets(parser.parse_args().data)
    with threadpool_limits(1):
        figures = {name: one_dataset(name, X) for name, X in found.items()}
        middle = found.get("mushrooms", generated(8_000, 112, 21))
        explicit = explicit_over_ours(middle)
        grown, read, dense = growth(), reader(found), dense_over_blas()
    largest = max(found.values(), key=lambda X: X.nnz)
    report = {
        "explicit_over_ours": explicit["ratio"],
        "product_over_scipy": max(f["product_over_scipy"] for f in figures.values()),
        "permutation_over_scipy": max(f["permutation_over_scipy"] for f in figures.values()),
        "discrepancy_over_scipy": max(f["discrepancy_over_scipy"] for f in figures.values()),
        "products_median": float(np.median([f["products"] for f in figures.values()])),
        "threads_speedup": min((f["threads_speedup"] for f in figures.values() if f["threads_speedup"] is not None), default=None),
        "memory_over_csr": memory_over_csr(largest),
        "growth_exponent": grown["exponent"],
        "reader_over_sklearn": min(read.values()),
        "dense_over_blas": max(dense.values()),
        "datasets": figures,
        "explicit": explicit,
        "growth": grown,
        "reader": read,
        "dense": dense,
        "cores": os.cpu_count(),
    }
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
