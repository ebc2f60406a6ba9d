"""Data larger than memory: a generated store, and what is done with it; prints one JSON object.

    python benchmarks/scale.py [--gib 6] [--folder FOLDER] [--memory 1400M] [--data FOLDER]

memory_gib             the most memory that a process held while it did what the key says, in GiB: anonymous memory (RssAnon of the
                       system), which leaves out files that are mapped, as these are the system's cache
build_over_parse       time to build a store of svmlight text over the time to parse the same text in memory, on as many threads
permutation_over_pair  one uniformly random permutation to 1e-4, its scatter included, over one A x and one A'v, all on the store
disk_over_memory       the same work on a store that is not allowed to be held in memory over that on the data in memory, the
                       system's cache being warm: a certified fit to 1e-3, and one permutation
quick                  of `quick_constants` on stores that are not allowed to be held in memory: what it measured and what it
                       promised over the norm as SciPy finds it in memory, how much was read, and its time over one A x and one
                       A'v. The stores are two of the data below, and files in --data (default $RESHUFFLE_DATA) that are there
dask_speedup, dask_over_threads  of `scale_dask.py`
growth_exponent        by which power of the entries the time of one permutation grows, from an eighth of the store to all of it

The data is sparse, 39 entries a row of one million features: features by Zipf's law, values and row norms heavy-tailed, labels of
a linear model with noise. Every figure is taken in a process of its own. A part of the result is a function of the options that
adds its keys: `PARTS`.

    python benchmarks/scale.py --model

prints the constants of the cost model in docs/scale.md instead: seconds and bytes for each entry, row and feature, fitted to stores
of three sizes and shapes, and at two others what the model says over what was measured; `busy` is the load of the machine at the
end over its cores.
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
QUICK_ROWS, QUICK_FILES = (200_000, 800_000), ("a9a", "mnist", "rcv1_like")
NOTHING = 2_000, 100, 5  # rows, features, entries a row: so few that nothing but the process itself takes time and memory
FITTED = (1_000_000, 20_000, 20), (200_000, 1_000_000, 39), (2_000_000, 100_000, 5)
CHECKED = (500_000, 300_000, 30), (1_500_000, 50_000, 12)


def rows_of(gib: float) -> int:
    return max(int(gib * 2**30 / ROW_BYTES), 1000)


def chunk(seed: int, n: int, features: int = FEATURES, entries: int = ENTRIES) -> tuple[Any, Any]:
    """Some rows and their labels."""
    rng = np.random.default_rng([7, seed])
    drawn = np.minimum(np.exp(rng.random((n, entries)) * math.log(features)), features - 1).astype(np.int32)  # Zipf's law
    drawn.sort(axis=1)
    drawn += np.arange(entries, dtype=np.int32)  # no feature twice
    size = (1.0 + rng.pareto(2.5, n)) / math.sqrt(entries)
    values = (size[:, None] * np.abs(rng.standard_normal((n, entries)))).astype(np.float32)
    model = np.sin(drawn * 0.7) / np.sqrt(1.0 + drawn % 97)
    labels = np.where((values * model).sum(axis=1) + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    indptr = np.arange(0, n * entries + 1, entries, dtype=np.int32)
    return sp.csr_array((values.reshape(-1), drawn.reshape(-1), indptr), shape=(n, features + entries)), labels


def generate(folder: Path, n: int, features: int = FEATURES, entries: int = ENTRIES) -> Path:
    """A store of n rows."""
    from reshuffle.data.build import build_store

    name = "-".join(map(str, (n, features, entries)))
    store, parts = folder / f"{name}.store", folder / f"{name}.parts"
    if store.exists():
        return store
    parts.mkdir(exist_ok=True)
    for seed, start in enumerate(range(0, n, CHUNK)):
        X, y = chunk(seed, min(CHUNK, n - start), features, entries)
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


def quick(store: str, memory: str) -> dict[str, float]:
    from scipy.sparse.linalg import svds

    import reshuffle as rs

    rows = rs.open(store, memory="1T")
    rows.memory = 2 * rows.nbytes  # too little to hold them
    x, u = np.ones(rows.d), np.ones(rows.n)
    rows.margins(x)
    pair = best(lambda: (rows.margins(x), rows.transposed(u)))
    rs.quick_constants(rows)  # compiles
    with Peak() as peak:
        found = rs.quick_constants(rows)
    norm = float(svds(rows.csr(), k=1, return_singular_vectors=False, tol=1e-6)[0]) ** 2 / rows.n
    ratios = {"measured": found.full_gradient_constant / norm, "promised": found.hat_bound / norm}
    return ratios | {"sweeps": found.sweeps, "over_pair": found.seconds / pair, "seconds": found.seconds, "bytes": peak.bytes}


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
    "quick": quick,
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


def tight(n: int, features: int = FEATURES, entries: int = ENTRIES) -> str:
    """Memory in which the rows cannot be held, with room for vectors."""
    return str(80 * (n + features + entries) + 2**25 + n * (8 * entries + 4))


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


def quick_constants(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from reshuffle.data.build import build_store

    stores = {f"{n} rows": generate(folder, n) for n in QUICK_ROWS}
    for file in sorted(asked.data.glob("*")) if asked.data else ():
        if (name := file.name.split(".")[0]) in QUICK_FILES:
            stores[name] = folder / f"{name}.store"
            if not stores[name].exists():
                build_store(stores[name], file, zero_based=False)
    runs = {name: measured("quick", str(store), "") for name, store in stores.items()}
    return {"quick": {name: {key: float(f"{value:.6g}") for key, value in run.items()} for name, run in runs.items()}}


def cluster(asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Workers of Dask's on this machine: see `scale_dask.py`."""
    words = [sys.executable, str(Path(__file__).with_name("scale_dask.py"))]
    found = json.loads(subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout)
    return {key: found[key] for key in ("dask_speedup", "dask_over_threads")} | {"cluster": found["datasets"]}


# --- the cost model


def costs(folder: Path, n: int, features: int, entries: int) -> dict[str, float]:
    """Of one store: what the model prices, and what it says."""
    store, limit = generate(folder, n, features, entries), tight(n, features, entries)
    manifest = json.loads((store / "store.json").read_text())
    held = sum(facts["bytes"] for block in manifest["blocks"] for facts in block["arrays"].values())
    times = measured("pair_and_permutation", str(store), limit)
    d, blocks = manifest["d"], len(manifest["blocks"])
    priced = {
        "entries": manifest["entries"],
        "rows": n,
        "features": d,
        "visits": blocks * d,
        "bucket": min(int(limit) // 16, 1 << 24),
    }
    return priced | {
        "pair": times["pair"],
        "permutation": times["permutation"],
        "store": held,
        "quick": measured("quick", str(store), limit)["bytes"],
        "constants": measured("constants", str(store), limit, 1)["bytes"],
        "discrepancy": measured("discrepancy", str(store), limit)["bytes"],
        "fit": measured("fit", str(store), limit)["bytes"],
    }


PRICED = {  # by what each grows
    "pair": ("entries", "visits"),
    "permutation": ("entries", "rows"),
    "store": ("entries", "rows"),
    "quick": ("rows", "features"),
    "constants": ("rows", "features", "bucket"),
    "discrepancy": ("rows", "features", "bucket"),
    "fit": ("rows", "features"),
}


def model(folder: Path) -> dict[str, Any]:
    """What each takes of nothing, and for each entry, row, feature, feature of each block, or byte of a bucket in which scattered
    rows are put in order; relative errors count alike.
    """
    from scipy.optimize import nnls

    nothing = costs(folder, *NOTHING)
    fitted, checked = ([costs(folder, *size) for size in sizes] for sizes in (FITTED, CHECKED))
    found: dict[str, Any] = {}
    for what, terms in PRICED.items():
        taken = np.array([max(one[what] - nothing[what], 1e-9) for one in fitted])
        prices, _ = nnls(np.array([[one[term] for term in terms] for one in fitted]) / taken[:, None], np.ones(len(fitted)))
        said = [nothing[what] + float(prices @ [one[term] for term in terms]) for one in checked]
        found[what] = {"nothing": nothing[what], **{f"{term}": price for term, price in zip(terms, prices.tolist(), strict=True)}}
        found[what]["said_over_measured"] = [round(a / one[what], 3) for a, one in zip(said, checked, strict=True)]
    return {"model": found, "busy": round(os.getloadavg()[0] / (os.cpu_count() or 1), 2)}


PARTS = (on_disk, growth, against_memory, building, quick_constants, cluster)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--gib", type=float, default=6.0, help="of the store")
    parser.add_argument("--memory", help="for its rows  [default: what vectors need, and as much as the store]")
    parser.add_argument("--folder", type=Path, help="to keep stores in, for another run")
    parser.add_argument("--data", type=Path, default=os.environ.get("RESHUFFLE_DATA"), help="files of the paper")
    parser.add_argument("--parts", nargs="*", default=[part.__name__ for part in PARTS])
    parser.add_argument("--model", action="store_true", help="the constants of the cost model, and nothing else")
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
        for part in () if asked.model else PARTS:
            if part.__name__ in asked.parts:
                result |= part(asked, folder)
        if asked.model:
            result = model(folder)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
