"""Orders that are not known beforehand: bounds of their constants for every order there is, or for nearly all random ones."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle import theory
from reshuffle.evidence import constants_for, gather
from reshuffle.orders import make_order
from tests.oracle import batch_constant, ordered_constant


def heavy_rows(rng, n, d):
    A = rng.standard_normal((n, d))
    A[rng.choice(n, 1 + n // 40, replace=False)] *= 12.0
    return A


def clusters(rng, n, d):
    """Rows along one of d directions each, of unequal strength and number."""
    which = np.minimum(rng.geometric(0.4, n) - 1, d - 1)
    return np.eye(d)[which] * (1.0 + which[:, None]) * rng.uniform(0.9, 1.1, (n, 1))


def alike(rng, n, d):
    return 1.0 + 0.1 * rng.standard_normal((n, d))


DATA = {"heavy rows": heavy_rows, "clusters": clusters, "alike": alike}


@given(seed=st.integers(0, 10**6), n=st.integers(2, 6), data=st.data())
def test_every_order_of_a_few_rows_is_within_the_bounds(seed, n, data):
    rng = np.random.default_rng(seed)
    b, alpha = data.draw(st.integers(1, n)), data.draw(st.sampled_from([0.0, 0.3]))
    A, weights = DATA[data.draw(st.sampled_from(sorted(DATA)))](rng, n, 3), rng.random(n) + 0.2
    problem = rs.Problem(A, loss="unit", sample_weight=weights, alpha=alpha)
    c = rs.constants(problem, batch_size=b, order="ig", tol=1e-10)
    m = -(-n // b)
    every = [np.array(p) for p in permutations(range(n))]
    hat = max(ordered_constant(A, weights, p, b) for p in every)
    til = max(batch_constant(A, weights, p, b) for p in every)
    share = alpha * np.linalg.norm(np.minimum.outer(range(1, m + 1), range(1, m + 1)), 2) / m**2
    full = np.linalg.norm(np.sqrt(weights)[:, None] * A, 2) ** 2 / n
    largest = np.sort(weights * np.sum(A**2, axis=1))[n - b :].mean()
    assert c.hat_bound == pytest.approx(full + share, rel=1e-7)
    assert c.til_bound == pytest.approx(min(largest, n / b * full) + alpha, rel=1e-7)
    assert hat + share <= c.hat_bound * (1 + 1e-7)
    assert til + alpha <= c.til_bound * (1 + 1e-7)


@given(L=st.lists(st.floats(0.01, 100.0), min_size=2, max_size=6), data=st.data())
def test_of_general_sums_the_bound_of_til_is_attained(L, data):
    n = len(L)
    b = data.draw(st.integers(1, n))
    c = rs.constants(smoothness=L, batch_size=b, order="ig", tol=1e-10)
    by_size = np.argsort(L)[::-1].copy()
    assert rs.constants(smoothness=L, batch_size=b, order=by_size, tol=1e-10).til[0] == pytest.approx(c.til_bound, rel=1e-7)
    assert c.til_bound == pytest.approx(np.sort(L)[n - b :].mean(), rel=1e-7)
    assert c.hat_bound == pytest.approx(np.mean(L), rel=1e-7)


@pytest.mark.parametrize("data", sorted(DATA))
@pytest.mark.parametrize("b", [1, 7, 32, 150])
def test_likely_bounds_are_not_exceeded_by_random_orders(data, b):
    """Failure 0.5, so that they are as tight as they come: over 400 orders, those that exceed must be fewer than half."""
    rng = np.random.default_rng(0)
    n, d = 300, 4
    A = DATA[data](rng, n, d)
    c = rs.constants(A, batch_size=b, permutations=400, tol=1e-6)
    m = -(-n // b)
    hat = theory.likely_hat(c.full_gradient_constant, c.L, d, n, b, 0.5)
    til = theory.likely_til(c.full_gradient_constant, c.L, d, b, 0.5 / m)
    assert np.mean(c.lhat > hat) <= 0.5
    assert np.mean(c.ltil > til) <= 0.5
    if data != "alike":  # the estimate alone would not do
        assert theory.ordered_norm_ratio(m) * c.full_gradient_constant < c.lhat_max
    # what is said of a run of 400 epochs holds for all of these
    rule = make_order("rr", n, 0)
    within = theory.within(c, rule, epochs=400)
    assert c.lhat_max <= within.hat <= c.hat_bound
    assert c.ltil_max <= within.til <= c.til_bound


def test_with_many_rows_likely_bounds_are_far_below_those_of_every_order():
    n, b = 40_000, 256
    A = np.random.default_rng(1).standard_normal((n, 3))
    c = rs.constants(A, batch_size=b, permutations=20)
    within = theory.within(c, make_order("rr", n, 0), epochs=1000)
    assert within.failure == 0.01
    assert c.lhat_max < within.hat < 0.8 * c.hat_bound
    assert c.ltil_max < within.til < 0.5 * c.til_bound
    fewer = theory.within(c, make_order("rr", n, 0), epochs=10)
    assert fewer.hat < within.hat
    assert fewer.til < within.til


@pytest.mark.parametrize("data", sorted(DATA))
def test_no_epoch_of_a_long_run_breaks_the_condition_of_its_step(data):
    """n = 60, b = 8, 500 epochs, each with its own constants by the explicit matrices."""
    rng = np.random.default_rng(2)
    A = DATA[data](rng, 60, 3)
    problem = rs.Problem(A, rng.standard_normal(60), loss="squared")
    for safe in (False, True):
        run = rs.minimize(problem, batch_size=8, epochs=500, safe=safe, evaluate_every=500)
        orders = [run.rule.permutation(k) for k in range(500)]
        weights = np.ones(60)
        limits = [
            theory.step_size_limit(60, 8, ordered_constant(A, weights, p, 8), batch_constant(A, weights, p, 8)) for p in orders
        ]
        assert max(run.steps) <= min(limits)
        # five sampled orders have larger steps than the others allow: a sample is no bound
        sampled = rs.constants(problem, batch_size=8, permutations=5, seed=7)
        assert sampled.step_size_limit > min(limits)


def test_a_longer_run_has_a_smaller_limit_and_an_iterator_that_of_every_order():
    rng = np.random.default_rng(3)
    A = alike(rng, 20_000, 3)
    problem = rs.Problem(A, A[:, 0] + rng.standard_normal(20_000), loss="squared", alpha=0.1)

    def limit(order, epochs, safe=False):
        rule = make_order(order, problem.n, 0)
        facts = gather(problem, rule, constants_for(problem, rule, 64), None, epochs=epochs, safe=safe)
        return theory.theorem_for(problem, rule).step_limit(facts)

    assert limit("rr", 10**9) < limit("rr", 10)
    every = rs.constants(problem, batch_size=64, permutations=1).safe_step_size_limit
    assert limit(iter([]), 10) == limit("rr", 10, safe=True) == pytest.approx(every)
    assert every < limit("rr", 10**9)


def test_an_iterator_may_choose_its_orders_as_it_likes():
    """One that learns the labels and gives the worst it knows gets a step and a promise for every order."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((200, 3)) * np.exp(0.5 * rng.standard_normal((200, 1)))
    y = np.where(X[:, 0] + rng.standard_normal(200) > 0, 1.0, -1.0)
    problem = rs.Problem(X, y, alpha=0.05)
    optimum = theory.measure(problem)
    by_label, by_norm = np.argsort(y, kind="stable"), np.argsort(-np.linalg.norm(X, axis=1))
    orders = [by_label, by_label[::-1].copy(), by_norm, by_label]
    run = rs.minimize(problem, order=iter(orders), batch_size=9, epochs=4)
    c = rs.constants(problem, batch_size=9, order="ig")
    assert run.steps == pytest.approx([c.safe_step_size_limit] * 4)
    guarantee = rs.Guarantee.of(problem, run, optimum)
    worst = c.til_bound * min(
        theory.worst_discrepancy(200, 9, optimum.sigma), 23 / 9 * c.hat_bound * optimum.dual_norm**2, 22**2 * optimum.sigma**2
    )
    want = theory.bound_with_noise(200, 9, steps=run.steps, distance=optimum.distance, noise=worst)
    assert guarantee.bound == pytest.approx(want, rel=1e-6)
    assert (guarantee.theorem, guarantee.failure, guarantee.in_expectation) == (6, 0.0, False)
    listed = rs.minimize(problem, order=orders, batch_size=9, epochs=4)
    assert listed.steps[0] > run.steps[0]
    assert guarantee.gap <= rs.Guarantee.of(problem, listed, optimum).bound < guarantee.bound


def test_a_list_of_orders_is_measured_as_it_is():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((40, 3)) * np.exp(rng.standard_normal((40, 1)))
    orders = [rng.permutation(40) for _ in range(3)]
    c = rs.constants(A, order=orders, batch_size=7, permutations=99, tol=1e-8)
    assert (c.permutations, c.order) == (3, "listed")
    for k, order in enumerate(orders):
        assert c.lhat[k] == pytest.approx(ordered_constant(A, np.ones(40), order, 7), rel=1e-6)
        assert c.ltil[k] == pytest.approx(batch_constant(A, np.ones(40), order, 7), rel=1e-6)
    np.testing.assert_array_equal(c.lhat, rs.constants(A, order=np.array(orders), batch_size=7, tol=1e-8).lhat)
    with pytest.raises(ValueError, match=r"order is an iterator of permutations; .* pass the permutation, a list of them, or 'rr'"):
        rs.constants(A, order=iter(orders))


@pytest.mark.parametrize("b", [1, 5])
def test_lipschitz_constants_of_a_smooth_loss_are_scaled_or_measured(b):
    """G_i^2 / L_i of the logistic loss is 4 w_i: one number for equal weights, and else each sample has its own."""
    rng = np.random.default_rng(6)
    A, y = rng.standard_normal((31, 3)), np.where(rng.random(31) < 0.5, -1.0, 1.0)
    for weights in (np.ones(31), np.full(31, 0.3), rng.random(31) + 0.1):
        problem = rs.Problem(A, y, sample_weight=weights)
        for order in ("ig", "rr"):
            options = {"batch_size": b, "order": order, "permutations": 3, "tol": 1e-8}
            smooth = rs.constants(problem, **options)
            found = rs.spectral.as_lipschitz(problem, smooth, make_order(order, 31, 0))
            direct = rs.constants(problem, lipschitz=True, **options)
            for k, (ghat, gtil) in enumerate(zip(found.ghat, found.gtil, strict=True)):
                visited = make_order(order, 31, 0).permutation(k)
                assert ghat == pytest.approx(ordered_constant(A, weights**2, visited, b), rel=1e-6)
                assert gtil == pytest.approx(batch_constant(A, weights**2, visited, b), rel=1e-6)
            for name in ("hat", "til", "largest_sample", "full_gradient_constant", "hat_bound", "til_bound"):
                np.testing.assert_allclose(getattr(found, name), getattr(direct, name), rtol=1e-6)
            assert (found.smooth, found.loss, found.n) == (direct.smooth, direct.loss, direct.n)
    with pytest.raises(ValueError, match="loss='squared' is not Lipschitz, so it has no Ghat and Gtil"):
        rs.constants(rs.Problem(A, y, loss="squared"), lipschitz=True)


def test_the_estimate_of_lhat_counts_the_regulariser():
    rng = np.random.default_rng(7)
    A = alike(rng, 3000, 5)
    plain, ridge = (rs.constants(rs.Problem(A, loss="unit", alpha=alpha), batch_size=7, permutations=5) for alpha in (0.0, 3.0))
    ratio = theory.ordered_norm_ratio(429)
    assert ridge.predicted_lhat - plain.predicted_lhat == pytest.approx(3.0 * ratio)
    assert ridge.predicted_lhat == pytest.approx(ratio * ridge.full_gradient_constant)
    for c in (plain, ridge):
        assert c.predicted_lhat == pytest.approx(c.lhat_mean, rel=0.01)
