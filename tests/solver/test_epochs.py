"""Compiled epochs against Algorithm 1 written line by line."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.losses import get_loss
from reshuffle.orders import make_order
from tests.oracle import shuffled_sgd

LOSSES = ["squared", "logistic", "smoothed_hinge:0.5", "squared_hinge", "huber:0.7", "hinge", "absolute",
          "epsilon_insensitive:0.1", "quantile:0.3"]  # fmt: skip


def some_problem(rng, n, d, loss, kind="dense", **options):
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0) if get_loss(loss).task == "classification" else rng.standard_normal(n)
    y[: 2 if n > 1 else 0] = [-1.0, 1.0][: 2 if n > 1 else 0]
    X = {"dense": A, "csr": sp.csr_array(A), "float32": A.astype(np.float32), "csr32": sp.csr_array(A.astype(np.float32))}.get(kind)
    if kind == "int64":
        X = sp.csr_array(A)
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    problem = rs.Problem(X, y, loss=loss, **options)
    return problem, X.toarray().astype(float) if sp.issparse(X) else X.astype(float)


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(LOSSES),
    kind=st.sampled_from(["dense", "csr", "float32", "csr32", "int64"]),
    order=st.sampled_from(["rr", "so", "ig"]),
    alpha=st.sampled_from([0.0, 0.01, 5.0]),
    intercept=st.booleans(),
    data=st.data(),
)
def test_a_run_is_algorithm_1_line_by_line(seed, loss, kind, order, alpha, intercept, data):
    rng = np.random.default_rng(seed)
    n, d = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 6))
    b = data.draw(st.integers(1, n))
    weights = np.exp(rng.standard_normal(n))
    problem, A = some_problem(rng, n, d, loss, kind, alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    steps = rng.uniform(0.001, 0.05, 4).tolist()
    x0 = rng.standard_normal(d + intercept)
    run = rs.minimize(problem, order=order, batch_size=b, step_size=steps, epochs=4, x0=x0, seed=seed)
    permutations = [make_order(order, n, seed).permutation(k) for k in range(4)]
    ends, duals = shuffled_sgd(
        A, problem.y, problem.loss, permutations, b, steps, x0, weights=weights, alpha=alpha, intercept=intercept
    )
    close = {"rtol": 1e-9, "atol": 1e-10}
    np.testing.assert_allclose(run.last, ends[-1], **close)
    np.testing.assert_allclose(run.x, sum(s * x for s, x in zip(steps, ends, strict=True)) / sum(steps), **close)
    np.testing.assert_allclose(run.dual, duals, **close)
    f = np.mean(weights * problem.losses(problem.margins(run.x))) + alpha / 2 * np.sum(run.x[:d] ** 2)
    assert run.f == pytest.approx(f)


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_full_batch_is_gradient_descent(kind, intercept):
    rng = np.random.default_rng(0)
    problem, _ = some_problem(rng, 40, 5, "logistic", kind, alpha=0.1, fit_intercept=intercept)
    x = np.zeros(problem.dimension)
    for _ in range(10):
        x = x - 0.7 * problem.gradient(x)
    run = rs.minimize(problem, batch_size=40, step_size=0.7, epochs=10)
    np.testing.assert_allclose(run.last, x, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", ["rr", "so", "ig"])
def test_a_weight_of_zero_equals_a_removed_row(order):
    rng = np.random.default_rng(1)
    A, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    kept = rng.random(30) < 0.6
    got = rs.minimize(rs.Problem(A, y, loss="squared", sample_weight=kept.astype(float)), order=order, batch_size=4, step_size=0.01)
    want = rs.minimize(rs.Problem(A[kept], y[kept], loss="squared"), order=order, batch_size=4, step_size=0.01)
    np.testing.assert_array_equal(got.x, want.x)


def test_a_shrinkage_that_reaches_or_passes_zero_is_followed():
    """1 - step alpha = 0 and below: the scaled vector must not lose itself."""
    rng = np.random.default_rng(2)
    for alpha in (10.0, 12.0, 1e4):
        problem, A = some_problem(rng, 12, 3, "squared", "csr", alpha=alpha)
        run = rs.minimize(problem, order="ig", step_size=0.1 if alpha < 100 else 1e-4, epochs=3, x0=np.ones(3))
        steps = run.steps
        ends, _ = shuffled_sgd(A, problem.y, problem.loss, [np.arange(12)] * 3, 1, steps, np.ones(3), alpha=alpha)
        np.testing.assert_allclose(run.last, ends[-1], rtol=1e-9, atol=1e-12)


def test_given_orders_and_iterators_of_orders():
    rng = np.random.default_rng(3)
    problem, A = some_problem(rng, 20, 3, "logistic", "csr")
    permutations = [rng.permutation(20) for _ in range(5)]
    run = rs.minimize(problem, order=iter(permutations), step_size=0.1, epochs=5, batch_size=3)
    ends, _ = shuffled_sgd(A, problem.y, problem.loss, permutations, 3, [0.1] * 5, np.zeros(3))
    np.testing.assert_allclose(run.last, ends[-1], rtol=1e-10)
    fixed = rs.minimize(problem, order=permutations[0], step_size=0.1, epochs=5, batch_size=3)
    ends, duals = shuffled_sgd(A, problem.y, problem.loss, [permutations[0]] * 5, 3, [0.1] * 5, np.zeros(3))
    np.testing.assert_allclose(fixed.last, ends[-1], rtol=1e-10)
    np.testing.assert_allclose(fixed.dual, duals, rtol=1e-10)
    with pytest.raises(ValueError, match="order gave 2 permutations; epoch 3 needs one more"):
        rs.minimize(problem, order=iter(permutations[:2]), step_size=0.1, epochs=5)
    with pytest.raises(ValueError, match="not a permutation"):
        rs.minimize(problem, order=iter([[0] * 20]), step_size=0.1, epochs=1)


def test_the_users_data_is_neither_changed_nor_kept_from_being_read_only():
    rng = np.random.default_rng(4)
    A, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    X = sp.csr_array(A)
    for array in (A, y, X.data, X.indices, X.indptr):
        array.flags.writeable = False
    x0 = np.ones(3)
    for data in (A, X):
        rs.minimize(rs.Problem(data, y, loss="squared"), order="so", step_size=0.01, epochs=2, x0=x0)
    np.testing.assert_array_equal(x0, 1.0)
