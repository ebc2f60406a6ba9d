"""Orders that a run makes for itself, and those made from known dual values."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.orders import make_order
from reshuffle.solver.shuffled import orders_of
from reshuffle.theory import formulas
from tests.oracle import balanced_sgd
from tests.solver.test_epochs import LOSSES, some_problem


@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(LOSSES),
    kind=st.sampled_from(["dense", "csr", "float32", "csr32", "int64"]),
    alpha=st.sampled_from([0.0, 0.01, 5.0]),
    intercept=st.booleans(),
    data=st.data(),
)
def test_a_run_is_the_slow_version_line_by_line(seed, loss, kind, alpha, intercept, data):
    rng = np.random.default_rng(seed)
    n, d = data.draw(st.integers(1, 25)), data.draw(st.integers(1, 6))
    b, weights = data.draw(st.integers(1, n)), np.exp(rng.standard_normal(n))
    problem, A = some_problem(rng, n, d, loss, kind, alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    steps, x0 = rng.uniform(0.001, 0.05, 5).tolist(), rng.standard_normal(d + intercept)
    run = rs.minimize(problem, order="balanced", batch_size=b, step_size=steps, epochs=5, x0=x0, seed=seed)
    first = make_order("rr", n, seed).permutation(0)  # a uniformly random one
    ends, duals, orders = balanced_sgd(
        A, problem.y, problem.loss, first, b, steps, x0, weights=weights, alpha=alpha, intercept=intercept
    )
    np.testing.assert_allclose(run.last, ends[-1], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(run.dual, duals, rtol=1e-11, atol=1e-12)
    assert [order.tolist() for order in orders_of(problem, run)] == orders[:-1]
    assert run.following.tolist() == orders[-1]


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 12)) * (rng.random((4000, 12)) < 0.5)
    y = np.where(X @ rng.standard_normal(12) + 2.0 * rng.logistic(size=4000) > 0, 1, 0)
    problem = rs.Problem(sp.csr_array(X), y, alpha=1e-2)
    return problem, rs.theory.measure(problem)


@pytest.mark.parametrize("b", [1, 7, 32])
def test_the_orders_of_a_run_are_far_better_than_random(noisy, b):
    problem, optimum = noisy
    random = optimum.sigma**2 * rs.theory.variance_factor(problem.n, b)
    run = rs.minimize(problem, order="balanced", batch_size=b, step_size=0.02 * b, epochs=12, average="last")
    assert np.array_equal(np.sort(run.following), np.arange(problem.n))
    measured = [rs.orders.discrepancy(problem, order, b, x=optimum.x) / random for order in orders_of(problem, run)]
    assert measured[0] > 0.2
    assert max(measured[6:]) < 0.02
    shuffled = rs.minimize(problem, order="rr", batch_size=b, step_size=0.02 * b, epochs=12, average="last")
    assert run.f - optimum.f < 0.1 * (shuffled.f - optimum.f)


@pytest.mark.parametrize("start", ["so", "ig", "given"])
def test_known_dual_values_make_a_fixed_order_that_is_far_better_than_random(noisy, start):
    problem, optimum = noisy
    order = np.random.default_rng(1).permutation(problem.n) if start == "given" else start
    dual, R = problem.duals(problem.margins(optimum.x)), {}
    for passes in (1, 6):
        found = rs.orders.balanced(problem, dual, order=order, passes=passes)
        assert np.array_equal(np.sort(found), np.arange(problem.n))
        R[passes] = rs.orders.discrepancy(problem, found, 8, x=optimum.x)
    assert R[1] == pytest.approx(rs.orders.discrepancy(problem, order, 8, x=optimum.x) / 4, rel=0.25)  # prefixes are halved
    assert R[6] < 0.01 * optimum.sigma**2 * rs.theory.variance_factor(problem.n, 8)


def test_the_fixed_order_is_that_of_the_balanced_walk_over_centred_gradients():
    rng = np.random.default_rng(5)
    problem, A = some_problem(rng, 41, 3, "logistic", "csr", alpha=0.3, fit_intercept=True, sample_weight=rng.random(41) + 0.5)
    dual, order = rng.standard_normal(41), rng.permutation(41)
    g = (problem.sample_weight * dual)[:, None] * np.column_stack([A, np.ones(41)])
    c = g - g.mean(axis=0)
    expected = order.tolist()
    for _ in range(3):
        walk, front, back = np.zeros(4), [], []
        for j in expected:
            (front if (adds := walk @ c[j] <= 0.0) else back).append(j)
            walk += c[j] if adds else -c[j]
        expected = front + back[::-1]
    assert rs.orders.balanced(problem, dual, order=order, passes=3).tolist() == expected


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(noisy, tmp_path):
    problem, _ = noisy
    options = {"order": "balanced", "batch_size": 5, "step_size": 0.1, "epochs": 6, "seed": 4}

    def stop(epoch):
        if epoch.epoch == 3:
            raise KeyboardInterrupt

    whole = rs.minimize(problem, **options)
    with pytest.raises(KeyboardInterrupt):
        rs.minimize(problem, **options, checkpoint=tmp_path / "run.npz", callback=stop)
    resumed = rs.minimize(problem, **options, checkpoint=tmp_path / "run.npz")
    finished = rs.minimize(problem, **options, checkpoint=tmp_path / "run.npz")
    for run in (resumed, finished):
        for name in ("x", "last", "dual", "following"):
            np.testing.assert_array_equal(getattr(run, name), getattr(whole, name))


@pytest.mark.parametrize("average", ["epoch", "last"])
def test_promises_are_for_every_order_and_of_a_run_by_the_orders_it_had(noisy, average):
    problem, optimum = noisy
    run = rs.minimize(problem, order="balanced", batch_size=8, epochs=5, average=average)
    assert run.steps == [run.constants.safe_step_size_limit] * 5
    guarantee = rs.Guarantee.of(problem, run, optimum)
    R = [rs.orders.discrepancy(problem, order, 8, x=optimum.x) for order in orders_of(problem, run)]
    c = run.constants
    numbers = {"steps": run.steps, "distance": optimum.distance, "noise": [c.til_bound * each for each in R]}
    if average == "epoch":
        expected = formulas.bound_with_noise(problem.n, 8, **numbers)
    else:
        expected = formulas.bound_last(problem.n, 8, mu=problem.alpha, full=c.full_gradient_constant, **numbers)[0]
    assert guarantee.bound == pytest.approx(expected)
    assert (guarantee.theorem, guarantee.in_expectation, guarantee.failure) == (6 if average == "epoch" else 8, False, 0.0)
    assert 0.0 <= guarantee.gap <= guarantee.bound
    beyond = rs.minimize(problem, order="balanced", batch_size=8, epochs=2, step_size=2 * run.steps[0], average=average)
    assert rs.Guarantee.of(problem, beyond, optimum).theorem is None


def test_kinks_are_trained_on_and_promised_what_any_order_is():
    rng = np.random.default_rng(6)
    problem, _ = some_problem(rng, 60, 3, "hinge")
    run = rs.minimize(problem, order="balanced", epochs=20)
    guarantee = rs.Guarantee.of(problem, run, rs.theory.measure(problem))
    assert guarantee.theorem == 3
    assert guarantee.gap <= guarantee.bound


def test_what_needs_orders_beforehand_refuses_one_that_is_made_while_running(noisy):
    problem, optimum = noisy
    with pytest.raises(ValueError, match="order 'balanced' is made while a run goes on; constants belong to known orders"):
        rs.constants(problem, order="balanced")
    with pytest.raises(ValueError, match="order='balanced' is made while a run goes on; pass a permutation"):
        rs.orders.discrepancy(problem, "balanced", x=optimum.x)
    with pytest.raises(ValueError, match="only its first permutation can be asked for"):
        make_order("balanced", 5, 0).permutation(1)
    with pytest.raises(ValueError, match="order='balanced' needs the gradient of every sample"):
        rs.minimize_sum(lambda x, rows: len(rows) * x, 1.0, 4, [1.0], order="balanced")
    with pytest.raises(ValueError, match=r"dual must hold 4000 finite numbers, one for each sample; this has shape \(3,\)"):
        rs.orders.balanced(problem, np.zeros(3))
    with pytest.raises(ValueError, match="passes=0 is too small"):
        rs.orders.balanced(problem, np.zeros(problem.n), passes=0)
