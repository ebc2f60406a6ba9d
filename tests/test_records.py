"""What is kept: whole files, numbers that JSON can hold, and journals and checkpoints that one run at a time writes."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import records
from reshuffle.records import Checkpoint, Journal, check_output, checksum, finite, write_file

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs the signals and locks of POSIX")
PROBLEM = rs.Problem(np.arange(60.0).reshape(20, 3) % 7, np.arange(20) % 2)
WRITERS = {
    "run.jsonl": lambda out, **settings: rs.constants(PROBLEM, **{"permutations": 8, **settings}, jobs=1, out=out),
    "run.npz": lambda out, **settings: rs.minimize(PROBLEM, step_size=0.01, epochs=8, **settings, checkpoint=out),
}
BUSY = "another run is writing this file"

each_record = pytest.mark.parametrize("name", WRITERS)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    out = tmp_path / "report.html"
    write_file(out, "earlier ±")
    assert out.read_text(encoding="utf-8") == "earlier ±"
    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            write_file(out, "later")
    assert out.read_text(encoding="utf-8") == "earlier ±"
    assert names_in(tmp_path) == ["report.html"]
    write_file(out, b"\x00later")
    assert out.read_bytes() == b"\x00later"


DIES = """
import os, signal, sys
from reshuffle import records
records.os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
records.write_file(sys.argv[1], "later")
"""


@POSIX
def test_what_a_killed_writer_leaves_is_removed_by_the_next(tmp_path):
    out = tmp_path / "model[1].json"
    write_file(out, "earlier")
    assert subprocess.run([sys.executable, "-c", DIES, str(out)], check=False).returncode == -signal.SIGKILL
    assert out.read_text() == "earlier"
    left = [path for path in tmp_path.iterdir() if path != out]
    assert [path.read_text() for path in left] == ["later"]
    with open(left[0], "rb+") as file:  # one that is being written has a lock on it, and stays
        records._lock(file)
        write_file(out, "by another")
        assert left[0].exists()
    write_file(out, "last")
    assert names_in(tmp_path) == [out.name]
    assert out.read_text() == "last"


@POSIX
def test_a_writer_whose_file_was_taken_for_one_left_behind_makes_another(tmp_path, monkeypatch):
    out, lock, seen = tmp_path / "model.json", records._lock, []

    def late(file):  # another writer comes between the making of the file and its lock
        if not seen:
            seen.append(file.name)
            os.unlink(file.name)
        lock(file)

    monkeypatch.setattr(records, "_lock", late)
    write_file(out, "whole")
    assert out.read_text() == "whole"
    assert len(seen) == 1
    assert names_in(tmp_path) == ["model.json"]


def test_many_writers_of_one_file_leave_one_of_theirs(tmp_path):
    out = tmp_path / "model.json"
    contents = [str(k) * 20000 for k in range(10)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda content: write_file(out, content), contents * 20))
    assert out.read_text() in contents
    assert names_in(tmp_path) == ["model.json"]


def test_a_file_that_another_writer_took_before_it_was_locked_is_written_again(tmp_path, monkeypatch):
    """As one that clears away what it takes for left behind does, between two calls of this one."""
    out, plain, taken = tmp_path / "model.json", records._lock, []

    def lock(file):
        if not taken:
            taken.extend(tmp_path.glob(".model.json.*.part"))
            taken[0].unlink()
        plain(file)

    monkeypatch.setattr(records, "_lock", lock)
    write_file(out, "whole")
    assert len(taken) == 1
    assert out.read_text() == "whole"
    assert names_in(tmp_path) == ["model.json"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(ValueError, match="cannot be written to"):
        check_output(tmp_path / "report.html")


def test_numbers_that_json_has_no_word_for_become_none():
    value = {"a": float("nan"), "b": [1, (np.float32("inf"), True)], "c": {"d": np.int64(3), "e": None, "f": "inf"}}
    kept = finite({**value, "g": np.array([[1.0, -np.inf]]), "h": np.float64(2.5)})
    assert kept == {"a": None, "b": [1, [None, True]], "c": {"d": 3, "e": None, "f": "inf"}, "g": [[1.0, None]], "h": 2.5}
    assert json.loads(json.dumps(kept, allow_nan=False)) == kept


def test_a_torn_last_line_is_dropped_even_if_nothing_follows(tmp_path):
    out = tmp_path / "run.jsonl"
    WRITERS["run.jsonl"](out, permutations=4)
    whole = b"".join(out.read_bytes().splitlines(keepends=True)[:3])
    out.write_bytes(whole + b'{"permutation": 3, "lh')
    WRITERS["run.jsonl"](out, permutations=2)
    assert out.read_bytes() == whole
    out.write_bytes(whole[:20])  # not even the settings
    WRITERS["run.jsonl"](out, permutations=2)
    assert out.read_bytes() == whole


@pytest.mark.parametrize(
    ("name", "change", "named"),
    [
        *((name, {"seed": 1}, "seed is 0 there and 1 now") for name in WRITERS),
        *((name, {"batch_size": 2}, "batch_size") for name in WRITERS),
        *((name, {"order": "ig"}, "order") for name in WRITERS),
        ("run.jsonl", {"tol": 1e-5}, "tol"),
        ("run.jsonl", {"failure_probability": 0.1, "tol": 1e-4}, "failure_probability_each"),
        ("run.npz", {"average": "last"}, "average"),
    ],
)
def test_a_record_of_other_settings_is_refused_and_left_alone(tmp_path, name, change, named):
    out = tmp_path / name
    WRITERS[name](out)
    before = out.read_bytes()
    with pytest.raises(ValueError, match=f"other settings: {named}"):
        WRITERS[name](out, **change)
    assert out.read_bytes() == before
    assert names_in(tmp_path) == [name]


def test_a_record_of_other_data_is_refused(tmp_path):
    other = rs.Problem(PROBLEM.X * 2.0, PROBLEM.y)
    for name, write in WRITERS.items():
        write(tmp_path / name)
    with pytest.raises(ValueError, match="data_sha256"):
        rs.constants(other, out=tmp_path / "run.jsonl")
    with pytest.raises(ValueError, match="data_sha256"):
        rs.minimize(other, step_size=0.01, epochs=8, checkpoint=tmp_path / "run.npz")


def npz(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        *(("run.jsonl", text, "is no journal") for text in (b"my notes\n", b"my notes", b'{"a": 1}\n', b"[1]\n")),
        *(("run.npz", content, "is no checkpoint") for content in (b"my notes", npz(a=1), npz(a=1)[:60])),
        ("run.npz", npz(settings="[1]", history="[]"), "is no checkpoint"),
    ],
    ids=range(8),
)
def test_another_file_is_refused_and_left_alone(tmp_path, name, content, complaint):
    out = tmp_path / name
    out.write_bytes(content)
    with pytest.raises(ValueError, match=complaint):
        WRITERS[name](out)
    assert out.read_bytes() == content


@each_record
def test_a_folder_that_is_missing_or_taken_for_a_file_is_named(tmp_path, name):
    with pytest.raises(ValueError, match="does not exist; make it first"):
        WRITERS[name](tmp_path / "nowhere" / name)
    with pytest.raises(ValueError, match="is a folder; name a file in it"):
        WRITERS[name](tmp_path)


def changed_digits(line):
    """The line with one digit changed, for every digit in it."""
    for k, character in enumerate(line):
        if character.isdigit():
            yield line[:k] + str((int(character) + 5) % 10) + line[k + 1 :]


def signed(**entry):
    return json.dumps({**entry, "checksum": checksum(entry)[:16]})


def test_a_damaged_line_of_a_journal_is_named_and_measured_again(tmp_path):
    out = tmp_path / "run.jsonl"
    whole = WRITERS["run.jsonl"](out, permutations=4)
    lines = out.read_text().splitlines()
    nonsense = ["", "[1]", '{"lhat": 1.0}', lines[2][:10], "[" * 10**5, lines[2].replace("lhat", "ltil")]
    first = json.loads(lines[2])
    del first["checksum"]
    wrong = [
        {"permutation": 2.5},
        {"permutation": -1},
        {"permutation": True},
        {"lhat": -1.0},
        {"lhat": float("nan")},
        {"ltil": "1"},
    ]
    for damaged in (*changed_digits(lines[2]), *nonsense, *(signed(**{**first, **change}) for change in wrong)):
        out.write_text("\n".join([*lines[:2], damaged, *lines[3:]]) + "\n")
        with pytest.warns(UserWarning, match=r"run\.jsonl, line 3 is damaged; what is lost is measured again"):
            again = WRITERS["run.jsonl"](out, permutations=4)
        assert again.hat.tobytes() == whole.hat.tobytes()
        assert sorted(out.read_text().splitlines()) == sorted(lines)  # the rest was kept, and the file is whole again


def test_a_journal_whose_settings_are_damaged_is_refused_and_left_alone(tmp_path):
    out = tmp_path / "run.jsonl"
    WRITERS["run.jsonl"](out, permutations=2)
    lines = out.read_text().splitlines()
    for damaged in list(changed_digits(lines[0]))[::7]:
        out.write_text("\n".join([damaged, *lines[1:]]) + "\n")
        before = out.read_bytes()
        with pytest.raises(ValueError, match=r"line 1 is damaged"):
            WRITERS["run.jsonl"](out, permutations=2)
        assert out.read_bytes() == before


def test_a_changed_number_in_a_checkpoint_is_noticed(tmp_path):
    out = tmp_path / "run.npz"
    WRITERS["run.npz"](out)
    with np.load(out) as stored:
        arrays = dict(stored)
    for name, array in arrays.items():
        text = array.dtype.kind == "U"
        other = np.array(str(array)[:-1] + "?") if text else array + (np.arange(array.size).reshape(array.shape) == 0)
        out.write_bytes(npz(**{**arrays, name: other}))
        with pytest.raises(ValueError, match=r"its content is not what its checksum says; choose another file, or delete it"):
            WRITERS["run.npz"](out)
        out.write_bytes(npz(**{key: value for key, value in arrays.items() if key != name}))
        with pytest.raises(ValueError, match="no checkpoint of reshuffle, or a damaged one"):
            WRITERS["run.npz"](out)


def test_every_byte_of_a_checkpoint_counts_or_is_padding(tmp_path):
    out = tmp_path / "run.npz"
    whole = WRITERS["run.npz"](out)
    content = out.read_bytes()
    for k in range(0, len(content), 17):
        out.write_bytes(content[:k] + bytes([content[k] ^ 0x55]) + content[k + 1 :])
        try:
            run = WRITERS["run.npz"](out)
        except ValueError as error:
            assert "or a damaged one" in str(error) or "other settings" in str(error)  # noqa: PT017 both are right
        else:
            assert run.x.tobytes() == whole.x.tobytes()
        out.write_bytes(content[:k])
        if k:
            with pytest.raises(ValueError, match="or a damaged one"):
                WRITERS["run.npz"](out)


@pytest.fixture
def start(tmp_path):
    """A process that writes a record and stands still after its first entry, until the file `go` is there."""
    code = (
        "import sys, time; from pathlib import Path; from tests.test_records import WRITERS\n"
        "def wait(entry):\n"
        "    print('written', flush=True)\n"
        "    while not Path(sys.argv[2]).exists(): time.sleep(0.01)\n"
        "WRITERS[Path(sys.argv[1]).name](sys.argv[1], callback=wait)"
    )
    processes = []

    def begin(out):
        words = [sys.executable, "-c", code, str(out), str(tmp_path / "go")]
        processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return processes[-1]

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


@each_record
def test_of_two_processes_exactly_one_is_refused(tmp_path, start, name):
    out = tmp_path / "here" / name
    out.parent.mkdir()
    both = [start(out), start(out)]
    deadline = time.monotonic() + 120
    while all(process.poll() is None for process in both) and time.monotonic() < deadline:
        time.sleep(0.01)
    refused, other = sorted(both, key=lambda process: process.poll() is None)
    assert refused.returncode == 1
    option = "out" if name == "run.jsonl" else "checkpoint"
    complaint = f"ValueError: {option}={str(out)!r}: {BUSY}; let it end or choose another"
    assert refused.stderr.read().splitlines()[-1] == complaint
    assert other.poll() is None
    (tmp_path / "go").touch()
    assert other.wait(timeout=120) == 0, other.stderr.read()
    assert names_in(out.parent) == [name]
    before = out.read_bytes()
    WRITERS[name](out)  # finished: nothing is left to do
    assert name == "run.npz" or out.read_bytes() == before
    WRITERS[name](tmp_path / name)
    assert name == "run.npz" or (tmp_path / name).read_bytes() == before


@POSIX
@pytest.mark.parametrize("end", ["SIGKILL", "SIGINT"])
@each_record
def test_a_process_that_is_gone_holds_nothing(tmp_path, start, name, end):
    out = tmp_path / name
    holder = start(out)
    assert holder.stdout.readline() == "written\n"
    before = out.read_bytes()
    with pytest.raises(ValueError, match=BUSY):
        WRITERS[name](out)
    assert out.read_bytes() == before
    holder.send_signal(getattr(signal, end))
    holder.wait(timeout=120)
    assert end == "SIGKILL" or names_in(tmp_path) == [name]
    WRITERS[name](out)
    assert names_in(tmp_path) == [name]


@each_record
def test_one_process_may_not_write_a_record_twice_at_once(tmp_path, name):
    out, link = tmp_path / name, tmp_path / "link"
    link.symlink_to(out)
    with ThreadPoolExecutor() as pool:
        refusals = []
        WRITERS[name](out, callback=lambda entry: refusals.append(pool.submit(WRITERS[name], link).exception(timeout=60)))
    assert [BUSY in str(refusal) for refusal in refusals] == [True] * 8
    assert names_in(tmp_path) == ["link", name]


def test_an_interrupted_run_frees_its_file_while_its_traceback_is_kept(tmp_path):
    def stop(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        WRITERS["run.npz"](tmp_path / "run.npz", callback=stop)
    assert len(WRITERS["run.npz"](tmp_path / "run.npz").history) == 8
    assert stopped.tb is not None


@POSIX
def test_a_fork_may_not_write_what_its_parent_writes(tmp_path):
    code = (
        "import os, sys; from reshuffle.records import Checkpoint\n"
        "with Checkpoint.open(sys.argv[1], {}):\n"
        "    if os.fork() == 0:\n"
        "        try:\n"
        "            Checkpoint.open(sys.argv[1], {}).__enter__()\n"
        "        except ValueError as error:\n"
        "            print(error, flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()"
    )
    words = [sys.executable, "-c", code, str(tmp_path / "run.npz")]
    assert BUSY in subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert names_in(tmp_path) == []


@POSIX
def test_a_lock_that_was_removed_meanwhile_is_not_taken_for_one(tmp_path, monkeypatch):
    import fcntl

    flock = fcntl.flock

    def flock_after_the_holder_ended(file, operation):
        os.unlink(file.name)
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_the_holder_ended)
    with pytest.raises(ValueError, match=BUSY), Checkpoint.open(tmp_path / "run.npz", {}):
        pass


@POSIX
def test_a_file_system_without_locks_refuses_nobody(tmp_path, monkeypatch):
    import fcntl

    def no_locks(file, operation):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with Journal.open(tmp_path / "run.jsonl", {"reshuffle": "1"}) as journal:
        journal.append({"permutation": 0})
    assert (tmp_path / "run.jsonl").read_text().splitlines() == [signed(reshuffle="1"), signed(permutation=0)]
    assert names_in(tmp_path) == ["run.jsonl"]


def test_every_digit_of_a_loss_counts(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    one, other = (rs.Problem(X, y, loss=f"huber:{delta}") for delta in ("0.1234561", "0.1234559"))
    rs.constants(one, permutations=1, out=tmp_path / "j.jsonl")
    rs.minimize(one, epochs=1, step_size=0.1, checkpoint=tmp_path / "c.npz")
    with pytest.raises(ValueError, match=r"made with other settings: loss is .*0\.1234561"):
        rs.constants(other, permutations=1, out=tmp_path / "j.jsonl")
    with pytest.raises(ValueError, match=r"made with other settings: loss is .*0\.1234561"):
        rs.minimize(other, epochs=1, step_size=0.1, checkpoint=tmp_path / "c.npz")
