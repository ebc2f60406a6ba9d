"""Many permutations: threads, seeds, journals, interruptions."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.spectral import sampling


@pytest.fixture
def X():
    return sp.random_array((300, 40), density=0.2, rng=np.random.default_rng(0), format="csr")


@pytest.mark.parametrize("b", [1, 16])
@pytest.mark.parametrize("kind", ["csr", "dense", "gram"])
def test_the_number_of_threads_does_not_change_a_bit(X, kind, b):
    data = {"csr": X, "dense": X.toarray(), "gram": X.toarray()[:30]}[kind]
    results = [rs.constants(data, batch_size=b, permutations=12, jobs=jobs) for jobs in (1, 2, 5)]
    for c in results[1:]:
        assert c.lhat.tobytes() == results[0].lhat.tobytes()
        assert c.ltil.tobytes() == results[0].ltil.tobytes()


def test_a_permutation_depends_on_the_seed_and_its_number_alone(X):
    few, many = rs.constants(X, permutations=3), rs.constants(X, permutations=9)
    np.testing.assert_array_equal(few.lhat, many.lhat[:3])
    assert not np.array_equal(few.lhat, rs.constants(X, permutations=3, seed=1).lhat)
    shuffled_once = rs.constants(X, order="so")
    assert (shuffled_once.permutations, shuffled_once.lhat[0]) == (1, few.lhat[0])


def test_ig_is_the_order_of_the_data(X):
    in_order = rs.constants(X, order="ig", permutations=50)
    assert in_order.permutations == 1
    assert in_order.lhat[0] == rs.constants(X, order=np.arange(300)).lhat[0]
    assert in_order.lhat[0] != rs.constants(X, order=np.arange(300)[::-1]).lhat[0]


def test_the_journal_holds_every_permutation_and_is_resumed(X, tmp_path):
    out = tmp_path / "run.jsonl"
    whole = rs.constants(X, permutations=6, batch_size=7, out=out)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {"reshuffle", "seed", "tol", "batch_size", "order", "loss", "data_sha256"} <= set(lines[0])
    assert sorted(line["permutation"] for line in lines[1:]) == list(range(6))
    assert set(lines[1]) == {"checksum", "permutation", "lhat", "ltil", "products", "residual"}
    # drop one line, tear the last: both are measured again, and nothing else is
    kept = out.read_bytes().splitlines(keepends=True)
    torn = b"".join(kept[:3] + kept[4:-1]) + kept[-1][:9]
    out.write_bytes(torn)
    measured = []
    again = rs.constants(X, permutations=6, batch_size=7, out=out, callback=lambda s: measured.append(s.permutation))
    assert again.lhat.tobytes() == whole.lhat.tobytes()
    assert again.ltil.tobytes() == whole.ltil.tobytes()
    assert out.read_bytes().startswith(b"".join(kept[:3] + kept[4:-1]))
    assert len(out.read_text().splitlines()) == 7
    assert sorted(measured) == list(range(6))


def test_a_finished_journal_is_extended_but_never_shortened(X, tmp_path):
    out = tmp_path / "run.jsonl"
    rs.constants(X, permutations=3, out=out)
    more = rs.constants(X, permutations=5, out=out)
    assert len(out.read_text().splitlines()) == 6
    fewer = rs.constants(X, permutations=2, out=out)
    assert len(out.read_text().splitlines()) == 6
    np.testing.assert_array_equal(fewer.lhat, more.lhat[:2])


def test_a_list_of_orders_is_journalled_and_another_list_is_refused(X, tmp_path):
    rng = np.random.default_rng(0)
    orders, out = [rng.permutation(300) for _ in range(3)], tmp_path / "run.jsonl"
    first = rs.constants(X, order=orders, batch_size=7, out=out)
    assert [json.loads(line)["permutation"] for line in out.read_text().splitlines()[1:]] == [0, 1, 2]
    assert rs.constants(X, order=orders, batch_size=7, out=out).lhat.tobytes() == first.lhat.tobytes()
    assert first.lhat.tolist() == [rs.constants(X, order=order, batch_size=7).lhat[0] for order in orders]
    with pytest.raises(ValueError, match="was made with other settings: data_sha256"):
        rs.constants(X, order=orders[::-1], batch_size=7, out=out)


def test_ctrl_c_returns_what_is_done(X):
    def stop_after_three(sample):
        seen.append(sample)
        if len(seen) == 3:
            raise KeyboardInterrupt

    seen = []
    c = rs.constants(X, permutations=2000, jobs=1, callback=stop_after_three)
    assert 3 <= c.permutations < 2000
    assert c.requested == 2000
    assert "of 2000" in str(c)


def test_ctrl_c_before_anything_is_done_is_passed_on(X, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(sampling.Permutations, "constants_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rs.constants(X, permutations=5)


def test_ctrl_c_in_a_survey_of_batch_sizes_is_never_taken_for_a_result(X, monkeypatch):
    def interrupted(measurement, permutation):
        if permutation == 2:
            raise KeyboardInterrupt
        return measure(measurement, permutation)

    measure = sampling.Permutations.constants_of
    monkeypatch.setattr(sampling.Permutations, "constants_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sampling.constants_by_batch_size(rs.Problem(X, loss="unit"), [1, 2], permutations=5, seed=0)


def test_two_threads_of_the_caller_may_use_it_at_once(X):
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda seed: rs.constants(X, permutations=10, seed=seed), (0, 0))
    np.testing.assert_array_equal(first.lhat, second.lhat)


def _start(arguments):
    command = [sys.executable, "-m", "reshuffle.cli", "constants", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_for_lines(path, count, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.005)
    raise AssertionError(f"the run ended too early: {process.communicate()}")


@pytest.fixture
def big_file(tmp_path):
    path = tmp_path / "big.npz"
    sp.save_npz(path, sp.random_array((20000, 300), density=0.1, rng=np.random.default_rng(0), format="csr"))
    return str(path)


def test_a_killed_run_goes_on_where_it_was(big_file, tmp_path):
    out = tmp_path / "run.jsonl"
    process = _start([big_file, "--permutations", "300", "--out", str(out)])
    _wait_for_lines(out, 5, process)
    process.kill()
    process.communicate()
    done = out.read_bytes().count(b"\n") - 1
    assert 1 <= done < 300
    extra = done + 4
    resumed = rs.constants(rs.load(big_file).X, permutations=extra, out=out)
    fresh = rs.constants(rs.load(big_file).X, permutations=extra)
    assert resumed.lhat.tobytes() == fresh.lhat.tobytes()


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_the_command_prints_what_is_done_on_ctrl_c(big_file, tmp_path):
    out = tmp_path / "run.jsonl"
    process = _start([big_file, "--permutations", "3000", "--out", str(out), "--json"])
    _wait_for_lines(out, 5, process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted after" in stderr
    printed = json.loads(stdout)
    assert 4 <= printed["permutations"] < 3000
    assert out.read_bytes().count(b"\n") - 1 >= printed["permutations"]
