"""Files of every format, whole and damaged, what the library writes itself, and calls that do not fit: a few seconds of
`benchmarks/fuzz.py`. The cases run in child processes, so that a crash fails a test and does not end them all.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = {
    "matrices": {"svm": 150, "npy": 100, "npz": 100},
    "tables": {"csv": 100, "parquet": 80, "feather": 80},
    "records": {"journal": 30, "checkpoint": 30, "balanced": 30, "model": 60},
    "stores": {"store": 150},
    "calls": {"misuse": 200},
}
CHILD = """
import json, sys, tempfile
from benchmarks import fuzz
with tempfile.TemporaryDirectory() as folder:
    for kind, count in json.loads(sys.argv[1]).items():
        for seed in range(count):
            print(json.dumps([kind, seed, fuzz.one_case(kind, seed, folder)]), flush=True)
"""


@pytest.mark.parametrize("group", CASES)
def test_nothing_crashes_is_wrong_or_ends_without_words(group, monkeypatch):
    monkeypatch.setenv("RESHUFFLE_MEMORY", "2G")
    words = [sys.executable, "-X", "faulthandler", "-c", CHILD, json.dumps(CASES[group])]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    assert [case for case in cases if case[2] is not None] == []
    assert done.returncode == 0, f"after {cases[-1:]}: {done.stderr[-2000:]}"
    assert len(cases) == sum(CASES[group].values())
