"""The examples run, and a loss of the user's own goes through constants, solver and certificate."""

import runpy
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import reshuffle as rs
from tests.oracle import shuffled_sgd

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_the_example_runs(name, capsys, tmp_path, monkeypatch):
    if "import torch\n" in (EXAMPLES / name).read_text():
        pytest.importorskip("torch", reason="the example is for PyTorch, which is not installed")
    monkeypatch.chdir(tmp_path)  # where those that draw leave their picture
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    plt.close("all")
    assert len(capsys.readouterr().out.splitlines()) > 5


def test_a_loss_of_ones_own_works_everywhere():
    LogCosh = runpy.run_path(str(EXAMPLES / "custom_loss.py"))["LogCosh"]
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((40, 3)), rng.standard_normal(40)
    problem = rs.Problem(A, y, loss=LogCosh(), alpha=0.05, fit_intercept=True)
    c = rs.constants(problem, order="ig")
    assert c.loss == "log_cosh"
    assert pytest.approx(np.max(np.sum(A**2, axis=1) + 1) + 0.05) == c.L
    run = rs.minimize(problem, order="ig", epochs=500, average="last", evaluate_every=500)
    ends, _ = shuffled_sgd(A, y, problem.loss, [np.arange(40)] * 3, 1, run.steps[:3], np.zeros(4), alpha=0.05, intercept=True)
    np.testing.assert_allclose(rs.minimize(problem, order="ig", step_size=run.steps[0], epochs=3).last, ends[-1], rtol=1e-10)
    optimum = rs.theory.measure(problem)
    assert optimum.error < 1e-12
    assert 0 <= run.f - optimum.f <= run.gap <= 1e-3
