"""The solver file for benchopt, driven as benchopt drives it: set_objective once, run with falling tolerances, get_result."""

import importlib.util
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

FILE = Path(__file__).parents[1] / "benchmarks" / "benchopt" / "reshuffle_certified.py"


@pytest.fixture
def solver(monkeypatch):
    """The class in the file. benchopt is not among the packages that tests need, and of it a solver uses one name."""
    benchopt = types.ModuleType("benchopt")
    benchopt.BaseSolver = type("BaseSolver", (), {})
    monkeypatch.setitem(sys.modules, "benchopt", benchopt)
    spec = importlib.util.spec_from_file_location("benchopt_solver", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Solver()


def objective(X, y, lmbd, beta, intercept):
    """As the benchmark evaluates what a solver returns."""
    coefficients, c = (beta[:-1], beta[-1]) if intercept else (beta, 0.0)
    return np.log1p(np.exp(-y * (X @ coefficients + c))).sum() + lmbd * 0.5 * coefficients @ coefficients


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("intercept", [False, True])
def test_benchopt_sees_its_objective_fall_to_the_minimum(solver, intercept, kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 6))
    y = np.where(X @ rng.standard_normal(6) + rng.standard_normal(2000) > 0.3, 1, -1)
    assert solver.sampling_strategy == "tolerance"
    solver.set_objective(X=kind(X), y=y, lmbd=20.0, fit_intercept=intercept)
    values = []
    for tolerance in (1e38, 1.0, 1e-1, 1e-3, 1e-6, 1e-12):
        solver.run(tolerance)
        result = solver.get_result()
        assert set(result) == {"beta"}
        assert result["beta"].shape == (6 + intercept,)
        values.append(objective(X, y, 20.0, result["beta"], intercept))
    assert values[0] == pytest.approx(2000 * np.log(2.0))
    gain = values[0] - values[-1]
    for tolerance, value in zip((1e-1, 1e-3, 1e-6), values[2:], strict=False):
        assert value - values[-1] <= tolerance * gain
    beta, c = (solver.beta[:-1], solver.beta[-1]) if intercept else (solver.beta, 0.0)
    gradient = -X.T @ (y / (1.0 + np.exp(y * (X @ beta + c)))) + 20.0 * beta
    assert np.linalg.norm(gradient) < 1e-3  # a factor of two in alpha would leave 20 |beta| / 2
