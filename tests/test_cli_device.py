"""`--device` of every command that has it."""

import json

import numpy as np
import pytest

from reshuffle.rows import devices

COMMANDS = {
    "constants": (),
    "plan": (),
    "order": (),
    "fit": (),
    "reproduce": ("table2",),
}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Few rows, by class."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "images.npy"
    y = np.repeat([0, 1], 60)
    np.save(path, rng.standard_normal((120, 4)) + y[:, None])
    np.save(path.with_name("labels.npy"), y)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_that_cannot_be_used_is_one_line_before_the_data_is_read(command, called, monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "find_spec", lambda name: None)
    monkeypatch.chdir(tmp_path)
    _, err = called(
        command, *COMMANDS[command], *(["no such file"] if command != "reproduce" else []), "--device", "cuda", status=2
    )
    assert err == "reshuffle: device='cuda' needs PyTorch: pip install 'reshuffle[gpu]', or leave device out\n"
    assert not list(tmp_path.iterdir())


def test_auto_says_in_a_line_what_it_chose(called, table, monkeypatch):
    pytest.importorskip("torch")
    told = "as about 9 s of work in memory are worth 4 s to go there"
    asked = []

    def choose(device, X, passes, cores=1):
        asked.append((device, X.shape, passes))
        return devices.Choice("cpu", told)

    monkeypatch.setattr(devices, "choose", choose)
    words = ["--target", table.with_name("labels.npy"), "--scale", "none", "--no-measure", "--scheme", "file"]
    out, err = called("order", table, *words)
    assert f"reshuffle: device cpu, {told}; --device says otherwise\n" in err
    assert asked[0] == ("auto", (120, 4), devices.PASSES_A_FIT + devices.PASSES_A_SCHEME)
    assert "discrepancy" in out


def test_commands_say_on_a_device_what_they_say_in_memory(called, table, tmp_path):
    pytest.importorskip("torch")
    words = [table, "--target", table.with_name("labels.npy")]
    printed = [
        json.loads(called("constants", *words, "--permutations", 3, "--batch-size", 8, "--json", "--device", device)[0])
        for device in ("cpu", "memory")
    ]
    assert [one["device"] for one in printed] == ["cpu", "memory"]
    assert printed[0]["lhat_mean"] == pytest.approx(printed[1]["lhat_mean"], rel=1e-4)
    assert printed[0]["ltil_mean"] == pytest.approx(printed[1]["ltil_mean"], rel=1e-4)
    assert "device       cpu\n" in called("constants", *words, "--permutations", 2, "--device", "cpu")[0]
    fits = []
    for device in ("cpu", "memory"):
        called("fit", *words, "--out", tmp_path / device, "--device", device)
        fits.append(json.loads((tmp_path / device).read_text()))
    np.testing.assert_allclose(fits[0]["coefficients"], fits[1]["coefficients"], rtol=1e-3)
    assert fits[0]["certified_relative_gap"] <= 1e-3
    plans = [json.loads(called("plan", *words, "--json", "--device", device)[0]) for device in ("cpu", "memory")]
    assert plans[0]["promised"]["epochs"] == pytest.approx(plans[1]["promised"]["epochs"], rel=1e-3)
    assert plans[0]["advice"]["reached"] == plans[1]["advice"]["reached"]
