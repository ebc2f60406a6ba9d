"""What is measured at the optimum, against the definitions; alpha is part of each."""

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle import theory
from tests.solver.test_epochs import some_problem


@pytest.mark.parametrize("alpha", [0.05, 2.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared", "huber:0.7"])
def test_sigma_and_the_dual_norm_are_those_of_the_regularised_samples(loss, intercept, alpha):
    rng = np.random.default_rng(0)
    n, d = 30, 4
    weights = rng.random(n) + 0.2
    problem, A = some_problem(rng, n, d, loss, "csr", alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    x0 = rng.standard_normal(problem.dimension)
    optimum = theory.measure(problem, x0)
    x = optimum.x
    rows = np.column_stack([A, np.ones(n)]) if intercept else A
    pull = np.r_[alpha * x[:d], np.zeros(int(intercept))]
    slopes = np.array([problem.loss.derivative(row @ x, y, problem.loss.parameter) for row, y in zip(rows, problem.y, strict=True)])
    gradients = (weights * slopes)[:, None] * rows + pull
    assert optimum.sigma == pytest.approx(np.sqrt(np.mean(np.sum(gradients**2, axis=1))))
    np.testing.assert_allclose(gradients.mean(axis=0), 0.0, atol=1e-10)
    # a sample is the block row [a_i; sqrt(alpha) I]: its dual is (w_i l', sqrt(alpha) x), its smoothness (w_i L, 1, ..., 1)
    blocks = (weights * slopes) ** 2 / (weights * problem.loss.smoothness) + alpha * np.sum(x[:d] ** 2)
    assert optimum.dual_norm == pytest.approx(np.sqrt(blocks.sum()))
    assert optimum.distance == pytest.approx(np.linalg.norm(x - x0))
    assert optimum.error <= 1e-12
    assert "f - min f <=" in str(optimum)


@pytest.mark.parametrize("loss", ["hinge", "absolute", "epsilon_insensitive:0.2", "quantile:0.3"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_loss_of_straight_pieces_is_minimised_by_a_linear_program(loss, kind):
    rng = np.random.default_rng(1)
    problem, A = some_problem(rng, 25, 3, loss, fit_intercept=True)
    problem = rs.Problem(kind(A), problem.y, loss=loss, fit_intercept=True)
    optimum = theory.measure(problem)
    assert optimum.error < 1e-8
    nearby = [problem.objective(optimum.x + scale * rng.standard_normal(4)) for scale in (1e-4, 1e-2, 1.0) for _ in range(200)]
    assert optimum.f <= min(nearby) + 1e-9


def test_the_optimum_of_badly_scaled_features_is_found():
    data = rs.load("breast_cancer")  # columns from 1e-3 to 1e3
    optimum = theory.measure(rs.Problem(data.X, data.y, alpha=1e-3))
    assert optimum.gradient_norm < 1e-12
    assert optimum.error < 1e-8
