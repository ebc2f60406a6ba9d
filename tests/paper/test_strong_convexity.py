"""Theorems 7 and 8 beyond single runs: the weighted average by its definition, means over random orders, and the linear rate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle import theory
from reshuffle.evidence import gather
from tests.oracle import shuffled_sgd
from tests.paper.test_theorems import assert_mean_is_below, gaps, real_problem
from tests.solver.test_epochs import some_problem


@given(seed=st.integers(0, 10**6), n=st.integers(1, 15), alpha=st.sampled_from([0.01, 1.0, 30.0]), data=st.data())
def test_the_weighted_average_is_that_of_its_definition(seed, n, alpha, data):
    """x_w = sum w_k eta_k x_k / sum w_k eta_k with w_k the product of 1 + n eta_j alpha / (2b) over the epochs j before k."""
    rng = np.random.default_rng(seed)
    b = data.draw(st.integers(1, n))
    problem, A = some_problem(rng, n, 3, "logistic", alpha=alpha)
    steps, x0 = rng.uniform(0.001, 0.3, 5).tolist(), rng.standard_normal(3)
    orders = [rng.permutation(n) for _ in range(5)]
    run = rs.minimize(problem, order=orders, batch_size=b, step_size=steps, epochs=5, x0=x0, average="weighted")
    ends, _ = shuffled_sgd(A, problem.y, problem.loss, orders, b, steps, x0, alpha=alpha)
    weights = [step * np.prod([1 + n * before * alpha / (2 * b) for before in steps[:k]]) for k, step in enumerate(steps)]
    np.testing.assert_allclose(run.x, np.average(ends, axis=0, weights=weights), rtol=1e-8, atol=1e-10)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6), loss=st.sampled_from(["squared", "logistic", "huber:0.7"]), alpha=st.sampled_from([0.03, 0.5]),
    n=st.integers(3, 20), average=st.sampled_from(["weighted", "last"]), data=st.data(),
)  # fmt: skip
def test_in_the_mean_over_random_orders(seed, loss, alpha, n, average, data):
    rng = np.random.default_rng(seed)
    b, epochs = data.draw(st.integers(1, n)), data.draw(st.integers(1, 12))
    problem, _ = some_problem(rng, n, 3, loss, alpha=alpha, sample_weight=rng.random(n) + 0.2)
    optimum = theory.measure(problem)
    c = rs.constants(problem, batch_size=b, order="ig", tol=1e-8)
    steps = (c.safe_step_size_limit * rng.uniform(0.3, 1.0, epochs)).tolist()
    noise = theory.noise_smooth(n, b, ltil=c.til_bound, sigma=optimum.sigma)
    numbers = {"steps": steps, "mu": alpha, "distance": optimum.distance, "noise": noise}
    if average == "weighted":
        bound = theory.bound_weighted(n, b, **numbers)
    else:
        bound = theory.bound_last(n, b, full=c.full_gradient_constant, **numbers)[0]
    measured = gaps(problem, optimum, 12, batch_size=b, step_size=steps, epochs=epochs, average=average)
    assert_mean_is_below(measured, bound)


@pytest.mark.parametrize("average", ["weighted", "last"])
@pytest.mark.parametrize("order", ["rr", "ig"])
def test_the_promised_epochs_keep_their_promise_on_real_data(order, average):
    problem = real_problem("breast_cancer", "logistic", alpha=0.1)
    optimum, b, eps = theory.measure(problem), 64, 1e-2
    c = rs.constants(problem, batch_size=b, order=order, permutations=1)
    facts = gather(problem, rs.orders.make_order(order, problem.n, 0), c, optimum, epochs=10**6)
    offered = theory.theorems_for(problem, rs.orders.make_order(order, problem.n, 0))
    best = theory.shortest([theorem for theorem in offered if theorem.output == average], facts, eps)
    run = rs.minimize(
        problem, order=order, batch_size=b, step_size=best.step, epochs=best.epochs, average=average, evaluate_every=best.epochs
    )
    assert run.f - optimum.f <= eps
    of_average = theory.shortest([theorem for theorem in offered if theorem.output == "epoch"], facts, eps)
    assert best.epochs < of_average.epochs
    assert rs.Guarantee.of(problem, run, optimum).bound <= eps * (1 + 1e-3)


def test_the_epochs_go_with_the_logarithm_of_eps():
    numbers = {"lhat": 2.0, "ltil": 5.0, "mu": 0.1, "distance": 3.0, "noise": 0.0}
    for tightest, extra in ((theory.tightest_weighted, {}), (theory.tightest_last, {"full": 3.0})):
        epochs = np.array([tightest(10.0**-k, 100, 4, **numbers, **extra)[0] for k in range(3, 12)])
        each_digit = np.diff(epochs)
        assert each_digit.max() - each_digit.min() <= 2
        rate = np.log1p(100 * 0.1 / 4 * theory.step_size_limit(100, 4, 2.0, 5.0) * (0.5 if not extra else 1.0))
        assert each_digit.mean() == pytest.approx(np.log(10) / rate, rel=0.02)
