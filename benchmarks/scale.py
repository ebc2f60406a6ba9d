"""Data larger than memory: a generated store, and what is done with it; prints one JSON object.

    python benchmarks/scale.py [--gib 6] [--folder FOLDER] [--memory 1400M]

memory_gib             the most memory that a process held while it did what the key says, in GiB: anonymous memory (RssAnon of the
                       system), which leaves out files that are mapped, as these are the system's cache
build_over_parse       time to build a store of svmlight text over the time to parse the same text in memory, on as many threads
permutation_over_pair  one uniformly random permutation to 1e-4, its scatter included, over one A x and one A'v, all on the store
disk_over_memory       the same work on a store that is not allowed to be held in memory over that on the data in memory, the
                       system's cache being warm: a certified fit to 1e-3, and one permutation
dask_speedup, dask_over_threads  of `scale_dask.py`
growth_exponent        by which power of the entries the time of one permutation grows, from an eighth of the store to all of it

The data is sparse, 39 entries a row of one million features: features by Zipf's law, values and row norms heavy-tailed, labels of
a linear model with noise. Every figure is taken in a process of its own. A part of the result is a function of the options that
adds its keys: `PARTS`.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

ENTRIES, FEATURES = 39, 1_000_000
ROW_BYTES = 8 * ENTRIES + 4
CHUNK = 200_000


def rows_of(gib: float) -> int:
    return max(int(gib * 2**30 / ROW_BYTES), 1000)


def chunk(seed: int, n: int) -> tuple[Any, Any]:
    """Some rows and their labels."""
    rng = np.random.default_rng([7, seed])
    drawn = np.minimum(np.exp(rng.random((n, ENTRIES)) * math.log(FEATURES)), FEATURES - 1).astype(np.int32)  # Zipf's law
    drawn.sort(axis=1)
    drawn += np.arange(ENTRIES, dtype=np.int32)  # no feature twice
    size = (1.0 + rng.pareto(2.5, n)) / math.sqrt(ENTRIES)
    values = (size[:, None] * np.abs(rng.standard_normal((n, ENTRIES)))).astype(np.float32)
    model = np.sin(drawn * 0.7) / np.sqrt(1.0 + drawn % 97)
    labels = np.where((values * model).sum(axis=1) + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    indptr = np.arange(0, n * ENTRIES + 1, ENTRIES, dtype=np.int32)
    return sp.csr_array((values.reshape(-1), drawn.reshape(-1), indptr), shape=(n, FEATURES + ENTRIES)), labels


def generate(folder: Path, n: int) -> Path:
    """A store of n rows."""
    from reshuffle.data.build import build_store

    store, parts = folder / f"{n}.store", folder / f"{n}.parts"
    if store.exists():
        return store
    parts.mkdir(exist_ok=True)
    for seed, start in enumerate(range(0, n, CHUNK)):
        X, y = chunk(seed, min(CHUNK, n - start))
        np.savez(parts / f"{seed:05d}.npz", y=y, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, format=b"csr")
    build_store(store, sorted(parts.glob("*.npz")))
    shutil.rmtree(parts)
    return store


class Peak:
    """The most anonymous memory that this process holds, looked at every few milliseconds."""

    def __enter__(self) -> "Peak":
        self.bytes, self._stop = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            lines = Path("/proc/self/status").read_text().splitlines()
            held = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)
            self.bytes = max(self.bytes, held)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


# --- what is measured, each in a process of its own


def constants(store: str, memory: str, batch_size: int) -> dict[str, float]:
    import reshuffle as rs

    rows = rs.open(store, memory=memory)
    with Peak() as peak:
        began = time.perf_counter()
        c = rs.constants(rows, batch_size=batch_size, permutations=1)
        return {"seconds": time.perf_counter() - began, "bytes": peak.bytes, "lhat": c.lhat_mean, "products": c.products_median}


def discrepancy(store: str, memory: str) -> dict[str, float]:
    import reshuffle as rs

    rows = rs.open(store, memory=memory)
    with Peak() as peak:
        began = time.perf_counter()
        problem = rs.Problem(rows, rows.labels, alpha=1e-5)
        found = rs.orders.discrepancy(problem, "rr", x=np.zeros(problem.dimension))
        return {"seconds": time.perf_counter() - began, "bytes": peak.bytes, "value": found}


def fit(store: str, memory: str) -> dict[str, float]:
    import reshuffle as rs

    with Peak() as peak:
        rows = rs.open(store, memory=memory) if memory else rs.open(store, memory="1T")
        began = time.perf_counter()
        model = rs.CertifiedClassifier(alpha=1e-5, tol=1e-3, random_state=0).fit(rows, rows.labels)
        return {"seconds": time.perf_counter() - began, "bytes": peak.bytes, "relative_gap": float(model.relative_gap_)}


def pair_and_permutation(store: str, memory: str) -> dict[str, float]:
    """Of each the best of two, after a pass that brings the store into the system's cache as far as it goes there."""
    import reshuffle as rs
    from reshuffle.rows import as_rows
    from reshuffle.spectral.permutations import Permutations, Shared

    rows = as_rows(rs.open(store, memory=memory or "1T"))
    x, u = np.ones(rows.d), np.ones(rows.n)
    rows.margins(x)
    pair = best(lambda: (rows.margins(x), rows.transposed(u)))
    problem = rs.Problem(rows, loss="unit")
    orders = Permutations(Shared(problem, rs.orders.make_order("rr", rows.n, 0), tol=1e-4, share=None), 1)
    orders.constants_of(0)
    return {"pair": pair, "permutation": best(lambda: orders.constants_of(1)), "entries": rows.entries}


def best(work: Callable[[], Any], times: int = 2) -> float:
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        taken.append(time.perf_counter() - began)
    return min(taken)


def text(folder: str, memory: str) -> dict[str, float]:
    """Building a store of text, and parsing that text."""
    from reshuffle.data.build import build_store
    from reshuffle.data.streams import Asked, Mark, svmlight

    path, store = Path(folder) / "text.svm", Path(folder) / "text.store"
    X, y = chunk(0, CHUNK)
    with path.open("w") as file:
        for i in range(X.shape[0]):
            low, high = X.indptr[i], X.indptr[i + 1]
            cells = " ".join(f"{j + 1}:{v:.6g}" for j, v in zip(X.indices[low:high], X.data[low:high], strict=True))
            file.write(f"{y[i]:g} {cells}\n")

    def build() -> None:
        shutil.rmtree(store, ignore_errors=True)
        build_store(store, path)

    workers = len(os.sched_getaffinity(0))
    for piece in svmlight(path, Mark(0), Asked(workers=workers)):  # compiles, and reads the file into the cache
        del piece
    parse = best(lambda: [None for _ in svmlight(path, Mark(0), Asked(workers=workers))], 3)
    return {"parse": parse, "build": best(build, 3)}


MEASURES: dict[str, Callable[..., dict[str, float]]] = {
    "constants": constants,
    "discrepancy": discrepancy,
    "fit": fit,
    "pair_and_permutation": pair_and_permutation,
    "text": text,
}


def measured(name: str, *arguments: Any) -> dict[str, float]:
    """A measure in a process of its own."""
    words = [sys.executable, __file__, "--measure", json.dumps([name, *arguments])]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{name} {arguments}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{name} {arguments[1:]}: {found}", file=sys.stderr)
    return found


# --- parts of the result


def on_disk(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    n = rows_of(asked.gib)
    store = str(generate(folder, n))
    runs = {
        "constants_b1": measured("constants", store, asked.memory, 1),
        "constants_b1024": measured("constants", store, asked.memory, 1024),
        "discrepancy": measured("discrepancy", store, asked.memory),
        "fit": measured("fit", store, asked.memory),
    }
    large = measured("pair_and_permutation", store, asked.memory)
    return {
        "gib": asked.gib,
        "rows": n,
        "entries": large["entries"],
        "memory_gib": {name: round(run["bytes"] / 2**30, 3) for name, run in runs.items()},
        "seconds": {name: round(run["seconds"], 1) for name, run in runs.items()},
        "permutation_over_pair": round(large["permutation"] / large["pair"], 2),
        "pair_seconds": round(large["pair"], 2),
    }


def growth(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Three sizes, each with the memory that is in proportion to it, so that all are scattered."""
    sizes = [rows_of(asked.gib / share) for share in (8, 3, 1)]
    runs = [measured("pair_and_permutation", str(generate(folder, n)), tight(n)) for n in sizes]
    logs = np.log([[run["entries"], run["permutation"]] for run in runs])
    return {"growth_exponent": round(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 3), "largest_entries": runs[-1]["entries"]}


def tight(n: int) -> str:
    """Memory in which the rows cannot be held, with room for vectors."""
    return str(80 * (n + FEATURES + ENTRIES) + 2**25 + n * ROW_BYTES)


def against_memory(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    n = rows_of(min(asked.gib, 1.0))
    store = str(generate(folder, n))
    disk, memory = (measured("pair_and_permutation", store, limit) for limit in (tight(n), ""))
    fits = [measured("fit", store, limit)["seconds"] for limit in (tight(n), "")]
    return {
        "disk_over_memory": {
            "permutation": round(disk["permutation"] / memory["permutation"], 2),
            "fit": round(fits[0] / fits[1], 2),
        }
    }


def building(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    found = measured("text", str(folder), "")
    return {"build_over_parse": round(found["build"] / found["parse"], 3)}


def cluster(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Workers of Dask's on this machine: see `scale_dask.py`."""
    words = [sys.executable, str(Path(__file__).with_name("scale_dask.py"))]
    found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return {key: found[key] for key in ("dask_speedup", "dask_over_threads")} | {"cluster": found["datasets"]}


PARTS = (on_disk, growth, against_memory, building, cluster)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gib", type=float, default=6.0, help="of the store")
    parser.add_argument("--memory", help="for its rows  [default: what vectors need, and as much as the store]")
    parser.add_argument("--folder", type=Path, help="to keep stores in, for another run")
    parser.add_argument("--parts", nargs="*", default=[part.__name__ for part in PARTS])
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        name, *arguments = json.loads(asked.measure)
        print(json.dumps(MEASURES[name](*arguments)))
        return
    source = str(Path(__file__).resolve().parents[1] / "src")
    sys.path.insert(0, source)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    asked.memory = asked.memory or str(80 * (rows_of(asked.gib) + FEATURES + ENTRIES) + 2**28)
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        for part in PARTS:
            if part.__name__ in asked.parts:
                result |= part(asked, folder)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
