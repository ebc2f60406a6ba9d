"""Attacks on everything that reads a file or takes an argument; prints one JSON object.

    python benchmarks/fuzz.py [--seconds 60] [--jobs 2] [--seed 0]

trials          cases tried, of each kind: files of every format (whole ones from a grammar, damaged ones), records that the library
                writes itself (journals, checkpoints, models, stores), calls of the public API with an argument that does not fit,
                fits whose certificate is compared with the true gap in extended precision, and runs that are killed and go on
crashes         processes that died, or stood still for a minute
tracebacks      failures that were not told in words, in one line that names the file
wrong           matrices that differ from what was written, records that gave other numbers, certificates below the true gap
refused_valid   whole files that were refused

Every case is run in a child process, which says what it is about to do; when it dies the parent counts that case and goes on with
the next. The cases themselves are those of `tests/fuzz`, and a seed makes each of them again.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FILES = ("svm", "csv", "parquet", "feather", "npy", "npz")
RECORDS = ("journal", "checkpoint", "balanced")
KINDS = (*FILES, *RECORDS, "model", "store", "misuse", "certificate", "kill", "build")
OUTCOMES = ("crashes", "tracebacks", "wrong", "refused_valid")
STANDS_STILL = 60.0
_WORDS = {"traceback": "tracebacks"}


def one_case(kind: str, seed: int, folder: str) -> tuple[str, str] | None:
    """What was wrong with it: an outcome and words."""
    if kind == "kill":
        return killed(seed, folder)
    if kind == "build":
        return build_killed(seed, folder)
    if kind == "certificate":
        import numpy as np

        words = import_module("tests.fuzz.certificates").trial(np.random.default_rng(seed))
        return None if words is None else ("wrong", words)
    if kind == "misuse":
        return import_module("tests.fuzz.misuse").trial(seed)  # type: ignore[no-any-return]
    files = import_module("tests.fuzz.files")
    if kind in ("model", "store"):
        return getattr(files, f"{kind}_trial")(folder, seed)  # type: ignore[no-any-return]
    trial = files.trial if kind in FILES else files.record_trial
    return trial(folder, kind, seed)  # type: ignore[no-any-return]


def killed(seed: int, folder: str) -> tuple[str, str] | None:
    """A command is killed at a random moment and started again: it must end as if nothing had happened."""
    rng = random.Random(seed)
    record = Path(folder) / f"record-{seed}"
    words = {
        "constants": [
            "constants",
            "digits",
            "--permutations",
            "40",
            "--jobs",
            "1",
            "--batch-size",
            "4",
            "--out",
            str(record),
            "--json",
        ],
        "run": ["run", "digits", "--loss", "squared", "--epochs", "40", "--no-bound", "--checkpoint", str(record), "--json"],
        "fit": ["fit", "digits", "--out", str(record)],
    }
    name = rng.choice(sorted(words))
    command = [sys.executable, "-m", "reshuffle", *words[name]]
    reference = _cached(name, command, record)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.2, 6.0))
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    again = _result(name, done.stdout, record)
    left = [path.name for path in Path(folder).glob(f".record-{seed}*.part")]
    record.unlink(missing_ok=True)
    if done.returncode:
        return "wrong", f"{name} could not go on: {done.stderr[-200:]}"
    return None if again == reference else ("wrong", f"{name} ended otherwise after it was killed ({left})")


def build_killed(seed: int, folder: str, kills: int = 20) -> tuple[str, str] | None:
    """A store whose build is killed at as many random moments must be the one of a build that nobody killed."""
    rng, parts, stored = random.Random(seed), Path(folder) / "parts", import_module("tests.fuzz.files").stored
    if not parts.exists():
        parts.mkdir()
        for k in range(4):
            line = " ".join(f"{j}:{rng.random():.6f}" for j in range(1, 200))
            (parts / f"{k}.svm").write_text("".join(f"{i % 2} {line} {200 + i % 1000}:{i % 7}.5\n" for i in range(20000)))
    build = [sys.executable, "-m", "reshuffle", "store", "build"]
    if "build" not in _REFERENCES:
        whole = Path(folder) / "whole.store"
        subprocess.run([*build, str(whole), str(parts)], capture_output=True, check=True)
        _REFERENCES["build"] = stored(whole)
    store = Path(folder) / f"killed-{seed}.store"
    for _ in range(kills):
        process = subprocess.Popen([*build, str(store), str(parts)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.3, 1.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    if not store.exists() or (store / "build.jsonl").exists():
        done = subprocess.run([*build, str(store), str(parts)], capture_output=True, text=True, check=False)
        if done.returncode:
            return "wrong", f"a build could not go on: {done.stderr[-200:]}"
    same = stored(store) == _REFERENCES["build"]
    shutil.rmtree(store)
    return None if same else ("wrong", "a build that was killed made another store")


_REFERENCES: dict[str, Any] = {}


def _cached(name: str, command: list[str], record: Path) -> Any:
    if name not in _REFERENCES:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        _REFERENCES[name] = _result(name, done.stdout, record)
        record.unlink()
    return _REFERENCES[name]


def _result(name: str, printed: str, record: Path) -> Any:
    """Everything but the time it took."""
    if name == "fit":
        return record.read_bytes() if record.exists() else None
    found = json.loads(printed) if printed else {}
    history = [{key: value for key, value in epoch.items() if key != "seconds"} for epoch in found.pop("history", [])]
    return {key: value for key, value in found.items() if key != "seconds"}, history


def child(kind: str, seed: int, seconds: float) -> None:
    """Case after case; a line before each, and one after it where something was wrong."""
    os.environ.setdefault("RESHUFFLE_MEMORY", "2G")
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        while time.monotonic() < until:
            print(json.dumps({"case": seed}), flush=True)
            outcome = one_case(kind, seed, folder)
            if outcome is not None:
                print(json.dumps({"case": seed, "outcome": _WORDS.get(outcome[0], outcome[0]), "words": outcome[1]}), flush=True)
            seed += 1
    print(json.dumps({"end": seed}), flush=True)


def attack(kind: str, seed: int, seconds: float) -> tuple[str, Counter[str], list[str]]:
    """All cases of a kind that fit into the time, in as many children as it takes."""
    counts: Counter[str] = Counter({"trials": 0, **dict.fromkeys(OUTCOMES, 0)})
    notes: list[str] = []
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0.0:
        words = [sys.executable, __file__, "--child", kind, "--seed", str(seed), "--seconds", str(left)]
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
        seed = 1 + max((line["case"] for line in lines if "case" in line), default=seed)
        counts["crashes"] += 1
        notes.append(f"{kind} {seed - 1}: the process ended with {process.returncode}")
    return kind, counts, notes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each kind of case")
    parser.add_argument("--jobs", type=int, default=2, help="kinds at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.path[:0] = paths
    if asked.child:
        child(asked.child, asked.seed, asked.seconds)
        return
    with ThreadPoolExecutor(asked.jobs) as pool:
        found = list(pool.map(lambda kind: attack(kind, asked.seed, asked.seconds), asked.kinds))
    total: Counter[str] = Counter()
    for _, counts, _ in found:
        total.update(counts)
    notes = [note for _, _, each in found for note in each]
    print(json.dumps({**total, "by_kind": {kind: dict(counts) for kind, counts, _ in found}, "notes": notes[:50]}, indent=1))
    sys.exit(1 if any(total[outcome] for outcome in OUTCOMES) else 0)


if __name__ == "__main__":
    main()
