"""Lines 6 and 7 of Algorithm 1 as argmax and argmin, and Lemmas 1 and 2 on recorded iterates."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import reshuffle as rs
from reshuffle import theory
from tests.solver.test_epochs import LOSSES, some_problem


def one_epoch(problem, A, order, b, step, x):
    """Every x_{k-1,i} and every dual, in the order of the positions."""
    points, duals = [x], np.zeros(len(A))
    for start in range(0, len(A), b):
        batch = order[start : start + b]
        for j in batch:
            duals[j] = problem.loss.derivative(A[j] @ x, problem.y[j], problem.loss.parameter)
        x = x - step / b * A[batch].T @ duals[batch]
        points.append(x)
    return points, duals


@pytest.mark.parametrize("loss", LOSSES)
def test_line_6_is_the_argmax_over_the_dual_value(loss):
    problem, A = some_problem(np.random.default_rng(0), 12, 3, loss)
    x = np.random.default_rng(1).standard_normal(3)
    low, high = problem.dual_bounds
    for j, z in enumerate(A @ x):
        ours = problem.loss.derivative(z, problem.y[j], problem.loss.parameter)

        def negative(u, j=j, z=z):
            return problem.loss.conjugate(u, problem.y[j], problem.loss.parameter) - u * z

        edge = 50.0
        best = minimize_scalar(
            negative, bounds=(max(low[j], -edge), min(high[j], edge)), method="bounded", options={"xatol": 1e-12}
        )
        assert negative(ours) <= best.fun + 1e-9
        assert low[j] - 1e-12 <= ours <= high[j] + 1e-12


@pytest.mark.parametrize("b", [1, 3])
def test_line_7_is_the_argmin_over_the_primal_point(b):
    rng = np.random.default_rng(2)
    problem, A = some_problem(rng, 9, 4, "logistic")
    step, x = 0.3, rng.standard_normal(4)
    run = rs.minimize(problem, order="ig", batch_size=b, step_size=step, epochs=1, x0=x)
    points, duals = one_epoch(problem, A, np.arange(9), b, step, x)
    np.testing.assert_allclose(run.last, points[-1], rtol=1e-12)
    for i, start in enumerate(range(0, 9, b)):
        linear = duals[start : start + b] @ A[start : start + b]
        # d/dx { y'A x + b/(2 step) |x - x_i|^2 } = 0 at x_{i+1}
        np.testing.assert_allclose(linear + b / step * (points[i + 1] - points[i]), 0.0, atol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "logistic", "smoothed_hinge:0.5", "huber:0.7"])
@pytest.mark.parametrize("b", [1, 2, 6])
@pytest.mark.parametrize("seed", range(5))
def test_lemmas_1_and_2_hold_on_recorded_iterates(loss, b, seed):
    rng = np.random.default_rng(seed)
    n, d = 12, 3 if loss == "logistic" else 15  # more columns than rows can be separated, and f would have no minimiser
    problem, A = some_problem(rng, n, d, loss)
    problem = rs.Problem(A, problem.y, loss=loss)
    optimum = theory.measure(problem)
    assert optimum.gradient_norm <= 1e-9
    star = problem.duals(problem.margins(optimum.x))
    Lambda = problem.smoothness
    x = rng.standard_normal(d)
    for step in (0.01, 0.1):
        order = rng.permutation(n)
        points, y = one_epoch(problem, A, order, b, step, x)
        end = points[-1]
        v = problem.duals(problem.margins(end))  # then L(x_k, v) = f(x_k)
        moves = sum(np.sum((points[i + 1] - points[i]) ** 2) for i in range(len(points) - 1))
        batches = [order[s : s + b] for s in range(0, n, b)]
        first = step / n * sum(y[B] @ A[B] @ (end - points[i + 1]) for i, B in enumerate(batches))
        second = step / n * sum((v[B] - y[B]) @ A[B] @ (end - points[i]) for i, B in enumerate(batches))
        # Lemma 2 is an identity
        assert first == pytest.approx(b / (2 * n) * (moves - np.sum((x - end) ** 2)), abs=1e-10)
        left = step * (problem.objective(end) - optimum.f) + b / (2 * n) * (
            np.sum((optimum.x - end) ** 2) - np.sum((optimum.x - x) ** 2)
        )
        right = first + second - step / (2 * n) * (np.sum((y - v) ** 2 / Lambda) + np.sum((y - star) ** 2 / Lambda))
        assert left <= right - b / (2 * n) * moves + 1e-10
