"""When a GPU is chosen, and what is said where there is no torch or not enough memory: all of it without torch."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows import as_rows, devices
from reshuffle.spectral import sampling

LARGE = 3000, 4000


class Gpu:
    """A torch that sees a GPU, as far as `choose` asks it."""

    class cuda:
        is_available = staticmethod(lambda: True)


class NoGpu:
    class cuda:
        is_available = staticmethod(lambda: False)


@pytest.fixture
def seen(monkeypatch):
    """torch is installed, and sees a GPU."""
    monkeypatch.setattr(devices, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "torch", Gpu)


def test_auto_takes_a_gpu_where_memory_would_take_twice_as_long_as_going_there(seen):
    X = np.empty(LARGE, dtype=np.float32)
    there = devices.START + X.nbytes / devices.LINK
    enough = 2.0 * there * devices.CORE / X.size
    assert devices.choose("auto", X, 1.01 * enough).device == "cuda"
    assert devices.choose("auto", X, 0.99 * enough) == (None, "")
    assert devices.choose("auto", X, 1.01 * enough, cores=2).device is None  # which share the work
    assert devices.choose("auto", as_rows(X), 4.0 * enough).why == (
        f"as about {8.0 * there:.0f} s of work in memory are worth {there:.0f} s to go there"
    )


@pytest.mark.parametrize(
    "X",
    [sp.csr_array((3, 4)), np.memmap, [[1.0, 2.0]], np.empty(3), np.array([["a"]])],
    ids=["sparse", "on disk", "list", "vector", "words"],
)
def test_auto_leaves_all_but_dense_arrays_in_memory(X, seen, tmp_path):
    if X is np.memmap:
        X = np.memmap(tmp_path / "X", dtype=np.uint8, mode="w+", shape=(5, 2))
    assert devices.choose("auto", X, 1e30) == (None, "")


def test_auto_needs_torch_and_a_gpu_and_asks_for_neither_before_the_work_is_large(monkeypatch):
    X = np.empty(LARGE, dtype=np.uint8)
    monkeypatch.setitem(sys.modules, "torch", NoGpu)
    monkeypatch.setattr(devices, "find_spec", lambda name: object())
    assert devices.choose("auto", X, 1e9) == (None, "")
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    assert devices.choose("auto", X, 1e9) == (None, "")

    def asked(name):
        raise AssertionError("work as small as this is not worth asking for torch")

    monkeypatch.setattr(devices, "find_spec", asked)
    assert devices.choose("auto", X, 1.0) == (None, "")


WORK = {
    "1000 permutations": (1000 * devices.PASSES_A_PERMUTATION, 8),
    "100 permutations": (100 * devices.PASSES_A_PERMUTATION, 8),
    "a fit of two classes": (rs.CertifiedClassifier()._passes(), 1),
    "a fit with alpha by cross-validation": (rs.CertifiedRegressorCV()._passes(), 1),
}


@pytest.mark.parametrize("work", WORK)
def test_the_guide_states_the_sizes_from_which_on_a_gpu_is_taken(work, seen):
    page = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text()
    (million,) = re.findall(rf"^\| {work} \| ([\d.]+) million \|", page, re.MULTILINE)

    def taken(entries):
        X = np.broadcast_to(np.float32(0.0), (int(entries) // 784, 784))
        return devices.choose("auto", X, *WORK[work]).device == "cuda"

    assert not taken(0.95e6 * float(million))
    assert taken(1.05e6 * float(million))


def test_what_auto_chose_is_said_in_one_line(monkeypatch, capsys):
    pytest.importorskip("torch")
    X, why = np.random.default_rng(0).standard_normal((40, 3)), "as about 9 s of work in memory are worth 4 s to go there"
    for module in (devices, sampling):
        monkeypatch.setattr(module, "choose", lambda device, X, passes, cores=1: devices.Choice("cpu", why))
    assert f"\ndevice       cpu, {why}\n" in str(rs.constants(X, permutations=2))
    model = rs.CertifiedRegressor(alpha=0.1, verbose=1).fit(X, X[:, 0])
    assert model.device_ == "cpu"
    assert capsys.readouterr().out.startswith(f"device cpu, {why}\n")


@pytest.mark.parametrize("device", [None, "memory", "cpu", "cuda:1", ["cpu", "cpu"]])
def test_what_is_asked_for_is_not_chosen(device):
    assert devices.choose(device, np.empty((2, 2)), 1e30) == (device, "")


def test_a_device_without_torch_is_refused_in_one_line_before_any_work(monkeypatch):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    calls = [
        lambda: rs.constants(np.ones((3, 2)), device="cuda"),
        lambda: rs.Problem(np.ones((3, 2)), loss="unit", device="cuda"),
        lambda: rs.CertifiedClassifier(device="cuda").fit(np.ones((3, 2)), [0, 1, 1]),
        lambda: rs.ShuffledSGDRegressor(device="cuda").fit(np.ones((3, 2)), [0.0, 1.0, 1.0]),
        lambda: rs.orders.assess(rs.Problem(np.eye(3), [0, 1, 1], alpha=0.1), "rr", device="cuda"),
    ]
    for call in calls:
        with pytest.raises(ImportError, match=r"device='cuda' needs PyTorch: pip install 'reshuffle\[gpu\]', or leave device out"):
            call()


class OutOfMemoryError(RuntimeError):
    """As torch calls it."""


def test_want_of_memory_is_said_in_one_line_with_a_remedy():
    words = r"not enough memory \(Tried to allocate 2 GiB\); free some of it, or leave device out"
    with pytest.raises(MemoryError, match=words), devices.memory_in_words():
        raise OutOfMemoryError("Tried to allocate 2 GiB. GPU 0 has a total capacity of 1 GiB.")
    with pytest.raises(RuntimeError, match="something else"), devices.memory_in_words():
        raise RuntimeError("something else")
