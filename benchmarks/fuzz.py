"""Attacks on everything that reads a file or takes an argument; prints one JSON object.

    python benchmarks/fuzz.py [--seconds 60] [--jobs 2] [--seed 0]
    python benchmarks/fuzz.py --kinds certificate --processes 2 --until 100000 --seconds 36000

trials          cases tried, of each kind: files of every format (whole ones from a grammar, damaged ones), records that the library
                writes itself (journals, checkpoints, models, stores), calls of the public API with an argument that does not fit,
                and problems with two to six certificates each, which are compared with the true gap in extended precision
crashes         processes that died, or stood still for a minute
tracebacks      failures that were not told in words, in one line that names the file
wrong           matrices that differ from what was written, records that gave other numbers, certificates below the true gap
refused_valid   whole files that were refused

Every case is run in a child process, which says what it is about to do; when it dies the parent counts that case and goes on with
the next. The cases themselves are those of `tests/fuzz`, and a seed makes each of them again. `kills.py` kills commands.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("svm", "csv", "parquet", "feather", "npy", "npz")
RECORDS = ("journal", "checkpoint", "balanced")
KINDS = (*FILES, *RECORDS, "model", "store", "misuse", "certificate")
OUTCOMES = ("crashes", "tracebacks", "wrong", "refused_valid")
STANDS_STILL = 60.0
_WORDS = {"traceback": "tracebacks"}


def one_case(kind: str, seed: int, folder: str) -> tuple[str, str] | None:
    """What was wrong with it: an outcome and words."""
    if kind == "certificate":
        import numpy as np

        _, words = import_module("tests.fuzz.certificates").trial(np.random.default_rng(seed))
        return None if words is None else ("wrong", words)
    if kind == "misuse":
        return import_module("tests.fuzz.misuse").trial(seed)  # type: ignore[no-any-return]
    files = import_module("tests.fuzz.files")
    if kind in ("model", "store"):
        return getattr(files, f"{kind}_trial")(folder, seed)  # type: ignore[no-any-return]
    trial = files.trial if kind in FILES else files.record_trial
    return trial(folder, kind, seed)  # type: ignore[no-any-return]


def child(kind: str, asked: argparse.Namespace) -> None:
    """Case after case; a line before each, and one after it where something was wrong."""
    os.environ.setdefault("RESHUFFLE_MEMORY", "2G")
    seed, until = asked.seed, time.monotonic() + asked.seconds
    with tempfile.TemporaryDirectory() as folder:
        while seed < asked.until and time.monotonic() < until:
            print(json.dumps({"case": seed}), flush=True)
            outcome = one_case(kind, seed, folder)
            if outcome is not None:
                print(json.dumps({"case": seed, "outcome": _WORDS.get(outcome[0], outcome[0]), "words": outcome[1]}), flush=True)
            seed += asked.processes
    print(json.dumps({"end": seed}), flush=True)


def attack(kind: str, seed: int, asked: argparse.Namespace) -> tuple[str, Counter[str], list[str]]:
    """Cases of a kind from this seed on, every so-many-th, as fit into the time, in as many children as it takes."""
    counts: Counter[str] = Counter({"trials": 0, **dict.fromkeys(OUTCOMES, 0)})
    notes: list[str] = []
    until = time.monotonic() + asked.seconds
    while (left := until - time.monotonic()) > 0.0:
        words = [sys.executable, __file__, "--child", kind, "--seed", str(seed), "--seconds", str(left)]
        words += ["--until", str(asked.until), "--processes", str(asked.processes)]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
        try:
            printed = process.communicate(timeout=left + STANDS_STILL + 30.0)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            printed = process.communicate()[0]
        lines = [json.loads(line) for line in printed.splitlines() if line.endswith("}")]
        counts["trials"] += sum("outcome" not in line and "case" in line for line in lines)
        for line in lines:
            if "outcome" in line:
                counts[line["outcome"]] += 1
                notes.append(f"{kind} {line['case']}: {line['outcome']}: {line['words']}")
        if lines and "end" in lines[-1]:
            break
        last = max((line["case"] for line in lines if "case" in line), default=seed)
        seed = last + asked.processes
        counts["crashes"] += 1
        notes.append(f"{kind} {last}: the process ended with {process.returncode}")
    return kind, counts, notes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kind of case")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--until", type=int, default=sys.maxsize, help="the seed to leave off before, where time is left")
    parser.add_argument("--processes", type=int, default=1, help="for each kind, which take its seeds in turn")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    if asked.child:
        child(asked.child, asked)
        return
    tasks = [(kind, asked.seed + k) for kind in asked.kinds for k in range(asked.processes)]
    with ThreadPoolExecutor(asked.jobs) as pool:
        found = list(pool.map(lambda task: attack(task[0], task[1], asked), tasks))
    by_kind = {kind: Counter[str]() for kind in asked.kinds}
    for kind, counts, _ in found:
        by_kind[kind].update(counts)
    total = {name: sum(each[name] for each in by_kind.values()) for name in ("trials", *OUTCOMES)}
    notes = [note for _, _, each in found for note in each]
    print(json.dumps({**total, "by_kind": by_kind, "notes": notes[:50]}, indent=1))
    sys.exit(1 if any(total[outcome] for outcome in OUTCOMES) else 0)


if __name__ == "__main__":
    main()
