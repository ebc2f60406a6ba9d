"""Commands that are killed with SIGKILL at random moments and started again; prints one JSON object. Needs Linux.

    python benchmarks/kills.py [--kills 30] [--seed 0] [--commands constants run table2 figure3 build fit]

kills        of each command, all while it ran
phases       what they hit it at: "reading" its input, "writing" (a file is open, or has changed in the last 2 ms), or "computing"
kept, all    permutations, epochs or blocks that were kept at the kill, on average, and those that the command makes in all
unreadable   what a kill left behind, and the same command could not go on from
lost         what was kept before the kill and made again: lines of a journal, epochs of a checkpoint, blocks of a store
torn         models, tables, figures or stores that were neither the earlier ones nor the new ones when the command was killed
different    results that are not those of a run that nobody killed, byte for byte but for the seconds in them
left_over    files beside the results, when the command was started again and has ended
touched      input files that changed

Two moments of five are uniform over the time between the first look at the input, which comes after the imports, and the end; two
come up to 2 ms after a file was made, changed or renamed, and one while the input is read, whose time is short. A seed draws them
again, and the clock decides what they hit.
"""

import argparse
import csv
import ctypes
import io
import json
import os
import random
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FAILURES = ("unreadable", "lost", "torn", "different", "left_over", "touched")
JUST_NOW = 2e-3  # seconds
MODIFY, CLOSED, CLOSED_UNREAD, OPEN, MOVED, CREATE, FOLDER = 0x2, 0x8, 0x10, 0x20, 0x80, 0x100, 0x40000000
EARLIER = "earlier.json"  # a model that a new one takes the place of
RECORDS = (".jsonl", ".npz", ".lock")  # that a command goes on from, or holds open while it runs


class Watch:
    """What happens to the files in some folders and in those that are made there, as the kernel tells it."""

    def __init__(self, *folders: Path) -> None:
        self._libc, self._folders = ctypes.CDLL(None), dict[int, Path]()
        self._queue = self._libc.inotify_init()
        for folder in folders:
            self._add(folder)

    def _add(self, folder: Path) -> None:
        mask = MODIFY | CLOSED | CLOSED_UNREAD | OPEN | MOVED | CREATE
        self._folders[self._libc.inotify_add_watch(self._queue, os.fsencode(folder), mask)] = folder
        for path in folder.iterdir():
            if path.is_dir():
                self._add(path)

    def wait(self, seconds: float) -> list[tuple[Path, int]]:
        """Files, and what befell them: as soon as there is anything, at the latest after so many seconds."""
        if not select.select([self._queue], [], [], max(seconds, 0.0))[0]:
            return []
        content, found = os.read(self._queue, 1 << 16), []
        while content:
            number, mask, _, size = struct.unpack("iIII", content[:16])
            path = self._folders.get(number, Path()) / os.fsdecode(content[16 : 16 + size].rstrip(b"\0"))
            content = content[16 + size :]
            if not mask & FOLDER:
                found.append((path, mask))
            elif mask & CREATE and path.is_dir():
                self._add(path)
        return found

    def close(self) -> None:
        os.close(self._queue)


@dataclass
class Seen:
    """What a command was seen to do so far."""

    inputs: Path
    began: float = 0.0  #: when it first looked at its input
    read: float = 0.0  #: when it last did so
    writes: int = 0  #: times that an output was made, changed or renamed
    last_write: float = 0.0
    reading: set[Path] = field(default_factory=set)
    writing: set[Path] = field(default_factory=set)

    def add(self, events: list[tuple[Path, int]]) -> None:
        now = time.monotonic()
        for path, mask in events:
            if self.inputs in path.parents:
                self.began, self.read = self.began or now, now
                (self.reading.add if mask & OPEN else self.reading.discard)(path)
            elif mask & (CREATE | MODIFY | CLOSED | MOVED):
                self.writes, self.last_write = self.writes + 1, now
                if mask & CREATE and path.suffix not in RECORDS:
                    self.writing.add(path)
                elif mask & CLOSED:
                    self.writing.discard(path)

    @property
    def phase(self) -> str:
        if self.writing or time.monotonic() - self.last_write < JUST_NOW:
            return "writing"
        return "reading" if self.reading else "computing"


@dataclass(frozen=True)
class Command:
    words: list[str]
    kept: Callable[[Path], dict[str, Any]] = lambda folder: {}  #: in its folder, by name: what it need not make again
    printed: Callable[[str], Any] = lambda text: None  #: what of its words is to be the same


@dataclass(frozen=True)
class Whole:
    """A run that nobody killed."""

    seconds: float  #: from the first look at the input to the end
    reading: float  #: to the last look at it
    writes: int
    printed: Any
    earlier: dict[str, Any]  #: files that were there before
    files: dict[str, Any]
    pieces: int


@dataclass
class Outcome:
    """What the kills of a trial hit, how much was kept at each of them, and what was wrong."""

    phases: list[str] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def lost(self, before: dict[str, Any], after: dict[str, Any]) -> None:
        self.wrong += [("lost", name) for name in before if after.get(name) != before[name]]


# --- what is kept, and what is compared


def lines(folder: Path) -> dict[str, Any]:
    """The whole lines of every journal."""
    found = {}
    for path in folder.rglob("*.jsonl"):
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True)):
            if line.endswith(b"\n") and number:  # the first has the settings
                found[f"{path.name}, line {number + 1}"] = line
    return found


def epochs(folder: Path) -> dict[str, Any]:
    """Those of the checkpoint, with their seconds, which no other run would have."""
    path = folder / "run.npz"
    if not path.exists():
        return {}
    with np.load(path) as stored:
        return {f"epoch {epoch['epoch']}": epoch for epoch in json.loads(str(stored["history"]))}


def blocks(folder: Path) -> dict[str, Any]:
    """The whole blocks of a store: which file on the disk, and when it was written."""
    found = {}
    for path in folder.glob("made.store*/build.jsonl"):
        written = [json.loads(line).get("name") for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
        found = {name: path.parent / name / "values.npy" for name in written if name is not None}
    for path in folder.glob("made.store/*/values.npy"):
        found[path.parent.name] = path
    return {f"block {name}": (path.stat().st_ino, path.stat().st_mtime_ns) for name, path in found.items()}


def without_seconds(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_seconds(value) for key, value in found.items() if key != "seconds"}
    return [without_seconds(value) for value in found] if isinstance(found, list) else found


def numbers(text: str) -> Any:
    return without_seconds(json.loads(text))


def files_in(folder: Path) -> dict[str, Any]:
    """What every file holds, but for times."""
    return {str(path.relative_to(folder)): content(path) for path in folder.rglob("*") if path.is_file()}


def content(path: Path) -> Any:
    if path.name == "run.npz":
        with np.load(path) as stored:
            arrays = {name: stored[name].tobytes() for name in stored.files if name not in ("history", "checksum")}
            return arrays, numbers(str(stored["history"]))
    if path.stem == "table2":
        return _without_column("seconds", path)
    return path.read_bytes()


def _without_column(name: str, path: Path) -> list[list[str]]:
    text = path.read_text()
    if path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text)))
    else:
        between = " & " if path.suffix == ".tex" else "  +"
        rows = [re.split(between, line) for line in text.splitlines() if not line.startswith("--")]
    at = next((row.index(name) for row in rows if name in row), 0)
    return [row if len(row) <= at else row[:at] + row[at + 1 :] for row in rows]


# --- the commands


def make_inputs(folder: Path) -> None:
    """A file of 4,000 rows, and six that make a store; the last row has the first index 0, so that blocks are counted anew."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    (folder / "parts").mkdir()
    direction = rng.standard_normal(60)
    for name, n in {"data": 4000, **{f"parts/{k}": 15000 for k in range(6)}}.items():
        columns, values = (
            np.sort(rng.permuted(np.tile(np.arange(60), (n, 1)), axis=1)[:, :15]),
            rng.standard_normal((n, 15)).round(6),
        )
        labels = np.where(np.sum(values * direction[columns], axis=1) + rng.standard_normal(n) > 0, 1, -1)
        text = [
            f"{y} {' '.join(f'{j + 1}:{v}' for j, v in zip(row, found, strict=True))}"
            for y, row, found in zip(labels, columns.tolist(), values.tolist(), strict=True)
        ]
        last = ["1 0:0.5"] if name == "parts/5" else []
        (folder / f"{name}.svm").write_text("\n".join([*text, *last, ""]))


def commands(inputs: Path) -> dict[str, Command]:
    data, reshuffle = str(inputs / "data.svm"), ["-m", "reshuffle"]
    # Blocks of 1 MB, so that small files have many; all else is the entry point that users have.
    small = "from reshuffle.data import build; build.BLOCK = 1 << 20; from reshuffle.__main__ import main; main()"
    constants = ["constants", data, "--permutations", "400", "--batch-size", "4", "--jobs", "1", "--out", "run.jsonl", "--json"]
    run = ["run", data, "--epochs", "100", "--batch-size", "8", "--scale", "none", "--checkpoint", "run.npz", "--json"]
    drawn = [data, "--permutations", "200", "--jobs", "1", "--out", "made"]
    return {
        "constants": Command([*reshuffle, *constants], lines, numbers),
        "run": Command([*reshuffle, *run], epochs, numbers),
        "table2": Command([*reshuffle, "reproduce", "table2", *drawn], lines),
        "figure3": Command([*reshuffle, "reproduce", "figure3", *drawn], lines),
        "build": Command(["-c", small, "store", "build", "made.store", str(inputs / "parts")], blocks),
        "fit": Command([*reshuffle, "fit", data, "--alphas", "auto", "--out", "model.json"], printed=str),
    }


def start(command: Command, folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, *command.words]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def fresh(folder: Path, name: str) -> dict[str, Any]:
    """An empty folder; for `fit`, with an earlier model."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if name == "fit":
        shutil.copy(folder.parent / EARLIER, folder / "model.json")
    return files_in(folder)


def undisturbed(command: Command, folder: Path, inputs: Path, earlier: dict[str, Any]) -> Whole:
    seen = Seen(inputs)
    with closing(Watch(folder, inputs)) as watch:
        process = start(command, folder)
        while process.poll() is None:
            seen.add(watch.wait(0.01))
        seconds = time.monotonic() - seen.began
        printed, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{command.words}: {said}")
    return Whole(
        seconds, seen.read - seen.began, seen.writes, command.printed(printed), earlier, files_in(folder), len(command.kept(folder))
    )


def kill(command: Command, folder: Path, inputs: Path, whole: Whole, rng: random.Random) -> str | None:
    """Start a command and kill it; what it was at, or None if it ended before its moment came."""
    seen, kind = Seen(inputs), rng.choice(["any", "any", "write", "write", "read"])
    write, pause = rng.randrange(whole.writes), rng.uniform(0.0, JUST_NOW)
    moment = {"any": rng.uniform(0.0, whole.seconds), "read": rng.uniform(0.0, whole.reading), "write": float("inf")}[kind]
    with closing(Watch(folder, inputs)) as watch:
        process = start(command, folder)
        while process.poll() is None:
            left = seen.began + moment - time.monotonic() if seen.began else 0.01
            seen.add(watch.wait(min(left, 0.01)))
            if left <= 0.0:
                break
            if kind == "write" and seen.writes > write:
                time.sleep(pause)
                break
        phase = seen.phase
        process.kill()
        process.communicate()
    return phase if process.returncode < 0 else None


def go_on(command: Command, folder: Path) -> tuple[int, str, str, bool]:
    """Start it again and let it end: its status, what it printed and said, and whether journals were only ever added to."""
    sizes = {path: path.read_bytes().rfind(b"\n") + 1 for path in folder.rglob("*.jsonl")}
    only_added = True
    with closing(Watch(folder)) as watch:
        process = start(command, folder)
        while process.poll() is None:
            watch.wait(0.01)
            for path, size in sizes.items():
                with suppress(FileNotFoundError):  # the folder of a build has become the store
                    only_added &= path.stat().st_size >= size
        printed, said = process.communicate()
    return process.returncode, printed, said, only_added


def trial(command: Command, folder: Path, inputs: Path, whole: Whole, rng: random.Random) -> Outcome:
    """One kill or a few, one after the other, and then an end."""
    outcome, kept = Outcome(), dict[str, Any]()
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in inputs.rglob("*") if path.is_file()}
    for _ in range(rng.choice([1, 1, 2, 3])):
        phase = kill(command, folder, inputs, whole, rng)
        if phase is None:
            break
        now = command.kept(folder)
        outcome.lost(kept, now)
        outcome.phases.append(phase)
        outcome.kept.append(len(now))
        kept = now
        for name, found in files_in(folder).items():
            if name in whole.files and not name.endswith(RECORDS) and found not in (whole.earlier.get(name), whole.files[name]):
                outcome.wrong.append(("torn", name))
    if not outcome.phases:
        return outcome
    ended = (folder / "made.store").exists() and not (folder / "made.store" / "build.jsonl").exists()
    code, printed, said, only_added = go_on(command, folder)
    if code and not (ended and "is a store already" in said):
        outcome.wrong.append(("unreadable", said[-300:]))
        return outcome
    outcome.lost(kept, command.kept(folder))
    outcome.wrong += [] if only_added else [("lost", "a journal became shorter")]
    files = files_in(folder)
    outcome.wrong += [("different", name) for name in whole.files if files.get(name) != whole.files[name]]
    outcome.wrong += [("different", "what is printed")] if not ended and command.printed(printed) != whole.printed else []
    outcome.wrong += [("left_over", name) for name in files if name not in whole.files]
    untouched = {path: (path.read_bytes(), path.stat().st_mtime_ns) == facts for path, facts in before.items()}
    outcome.wrong += [("touched", str(path)) for path, same in untouched.items() if not same]
    return outcome


def attack(
    name: str, command: Command, kills: int, seed: int, folder: Path, inputs: Path
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """So many kills of a command: what they hit, and what was wrong."""
    for _ in range(2):  # the first compiles
        whole = undisturbed(command, folder, inputs, fresh(folder, name))
    phases, kept, wrong = Counter[str](), list[int](), list[tuple[str, str]]()
    while len(kept) < kills:
        fresh(folder, name)
        outcome = trial(command, folder, inputs, whole, random.Random(f"{name} {seed}"))
        phases.update(outcome.phases)
        kept += outcome.kept
        wrong += [(kind, f"{name} {seed}, {', '.join(outcome.phases)}: {kind}: {words}") for kind, words in outcome.wrong]
        seed += 1
    facts = {"kills": len(kept), "phases": dict(phases), "kept": round(sum(kept) / len(kept), 1), "all": whole.pieces}
    return {**facts, "seconds": round(whole.seconds, 2)}, wrong


def main() -> None:
    names = list(commands(Path()))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=30, help="of each command, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", nargs="*", choices=names, default=names)
    asked = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    found, wrong = dict[str, Any](), list[tuple[str, str]]()
    with tempfile.TemporaryDirectory() as temporary:
        inputs, folder = Path(temporary) / "inputs", Path(temporary) / "folder"
        make_inputs(inputs)
        fit = ["fit", str(inputs / "data.svm"), "--alpha", "0.5", "--quiet", "--out", str(Path(temporary) / EARLIER)]
        subprocess.run([sys.executable, "-m", "reshuffle", *fit], check=True, stdout=subprocess.DEVNULL)
        for name in asked.commands:
            found[name], failures = attack(name, commands(inputs)[name], asked.kills, asked.seed, folder, inputs)
            wrong += failures
            print(json.dumps({name: found[name]}), *(words for _, words in failures), sep="\n", file=sys.stderr)
    counts = Counter(kind for kind, _ in wrong)
    totals = {"kills": sum(each["kills"] for each in found.values()), **{kind: counts[kind] for kind in FAILURES}}
    print(json.dumps({**totals, "by_command": found, "notes": [words for _, words in wrong][:50]}, indent=1))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
