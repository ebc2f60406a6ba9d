"""Formulas: where b divides n they are the paper's; bounds, steps and complexities agree with one another; theorems have their
numbers from facts, and the smallest promise counts.
"""

from dataclasses import replace
from itertools import permutations
from math import exp, inf, isnan, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle import theory
from reshuffle.evidence import constants_for, gather
from reshuffle.orders import make_order
from reshuffle.theory import Facts, Within

NUMBERS = {"lhat": 2.0, "ltil": 5.0, "distance": 3.0, "sigma": 0.7}
RAGGED = {"n": 23, "batch_size": 4}  # 6 batches, the last of 3
BETA = sqrt(4 * 23 / 6)
V = 6 * 5 / (23 * 22) * (23 / 2 - 4 * 11 / 6)
LIMIT = BETA / (23 * sqrt(2 * 2.0 * 5.0))


def facts(**changes):
    """Of 23 samples in batches of 4, with constants that differ from one another."""
    known = Facts(
        **RAGGED, smooth=Within(2.0, 5.0, "this order"), lipschitz=None, largest=9.0, lipschitz_squared=nan, full=3.0, mu=0.2,
        distance=3.0, sigma=0.7, dual_norm=4.0, discrepancy=0.3,
    )  # fmt: skip
    return replace(known, **changes)


# --- the paper's own statements


@given(b=st.integers(1, 30), m=st.integers(1, 30))
def test_where_b_divides_n_the_factors_are_the_papers(b, m):
    n = b * m
    assert theory.beta(n, b) == pytest.approx(b)
    if n > 1:
        assert theory.variance_factor(n, b) == pytest.approx((n - b) * (n + b) / (6 * b**2 * (n - 1)), abs=1e-12)


@given(n=st.integers(2, 9), b=st.integers(1, 9), seed=st.integers(0, 1000))
def test_the_variance_factor_is_the_mean_over_all_permutations(n, b, seed):
    """(1/(n b)) E sum_i |sum of the g_j that come in batch i or later|^2 = V sigma^2 for g_j that sum to zero."""
    n, b = min(n, 6), min(b, n)
    g = np.random.default_rng(seed).standard_normal((n, 2))
    g -= g.mean(axis=0)
    sums = [sum(np.sum(g[list(p[start:])].sum(axis=0) ** 2) for start in range(0, n, b)) for p in permutations(range(n))]
    sigma2 = np.mean(np.sum(g**2, axis=1))
    assert np.mean(sums) / (n * b) == pytest.approx(theory.variance_factor(n, b) * sigma2, rel=1e-9, abs=1e-12)


def test_the_papers_step_sizes():
    n, b, K = 100, 5, 10**9
    D, s, lhat, ltil = 3.0, 0.7, 2.0, 5.0
    rr = (3 * b**3 * (n - 1) * D**2 / (n * (n - b) * (n + b) * ltil * K * s**2)) ** (1 / 3)
    assert theory.step_smooth(n, b, epochs=K, **NUMBERS) == pytest.approx(rr)
    by_dual = (b**3 * D**2 / (2 * n**2 * lhat * ltil * K * 0.1**2)) ** (1 / 3)
    assert theory.step_ig(n, b, epochs=K, dual_norm=0.1, **NUMBERS) == pytest.approx(by_dual)
    by_sigma = (b**3 * D**2 / (2 * n * (n - b) ** 2 * ltil * K * s**2)) ** (1 / 3)
    assert theory.step_ig(n, b, epochs=K, dual_norm=1e3, **NUMBERS) == pytest.approx(by_sigma)
    assert theory.step_smooth(n, b, epochs=1, **NUMBERS) == theory.step_size_limit(n, b, lhat, ltil)
    assert theory.step_size_limit(n, b, lhat, ltil) == pytest.approx(b / (n * np.sqrt(2 * lhat * ltil)))
    assert theory.step_lipschitz(n, b, epochs=16, gbar=4.0, distance=D) == pytest.approx(b * D / (2 * n * 2.0 * 4.0))


def test_the_papers_bounds():
    n, b, steps = 100, 5, [1e-3, 2e-3]
    D, s, lhat, ltil = 3.0, 0.7, 2.0, 5.0
    travel, cubes, H = b * D**2 / (2 * n), 9e-9, 3e-3
    rr = (travel + cubes * ltil * s**2 * (n - b) * (n + b) / (6 * b**2 * (n - 1))) / H
    assert theory.bound_smooth(n, b, steps=steps, ltil=ltil, distance=D, sigma=s) == pytest.approx(rr)
    by_dual = (travel + cubes * n / b**2 * lhat * ltil * 0.1**2) / H
    assert theory.bound_ig(n, b, steps=steps, dual_norm=0.1, **NUMBERS) == pytest.approx(by_dual)
    by_sigma = (travel + cubes * (n - b) ** 2 / b**2 * ltil * s**2) / H
    assert theory.bound_ig(n, b, steps=steps, dual_norm=1e3, **NUMBERS) == pytest.approx(by_sigma)
    lipschitz = (travel + 5e-6 * 2 * n * 4.0 / b) / H
    assert theory.bound_lipschitz(n, b, steps=steps, gbar=4.0, distance=D) == pytest.approx(lipschitz)


def test_the_papers_complexities():
    n, b, eps = 100, 5, 1e-3
    D, s, lhat, ltil = 3.0, 0.7, 2.0, 5.0
    few = n * np.sqrt(2 * lhat * ltil) * D**2 / eps
    many = np.sqrt((n - b) * (n + b) / (n - 1)) * np.sqrt(8 / 3) * np.sqrt(ltil) * s * D**2 / eps**1.5
    assert theory.evaluations_smooth(eps, n, b, **NUMBERS) == pytest.approx(max(few, many))
    by_dual, by_sigma = 4 * np.sqrt(n * lhat * ltil) * 0.4, 4 * (n - b) * np.sqrt(ltil) * s
    ig = few + min(by_dual, by_sigma) * D**2 / eps**1.5
    assert theory.evaluations_ig(eps, n, b, dual_norm=0.4, **NUMBERS) == pytest.approx(ig)
    assert theory.evaluations_ig(eps, n, b, dual_norm=1e3, **NUMBERS) == pytest.approx(few + by_sigma * D**2 / eps**1.5)
    assert theory.evaluations_lipschitz(eps, n, b, gbar=4.0, distance=D) == pytest.approx(4 * n * 4.0 * D**2 / eps**2)


def test_a_short_last_batch_by_hand():
    n, b = RAGGED.values()
    assert theory.beta(n, b) == pytest.approx(BETA)
    assert theory.variance_factor(n, b) == pytest.approx(V)
    assert theory.step_size_limit(n, b, 2.0, 5.0) == pytest.approx(LIMIT)
    assert theory.lipschitz_step_factor(n, b, 4.0) == pytest.approx(sqrt(4 * BETA) / (2 * 23 * 2))
    assert theory.noise_smooth(n, b, ltil=5.0, sigma=0.7) == pytest.approx(5 * 0.49 * V)
    by_dual, by_sigma = 6 / 4 * 2 * 5 * 0.01, 5**2 * 5 * 0.49
    assert theory.noise_ig(n, b, lhat=2.0, ltil=5.0, sigma=0.7, dual_norm=0.1) == pytest.approx(by_dual)
    assert theory.noise_ig(n, b, lhat=2.0, ltil=5.0, sigma=0.7, dual_norm=99.0) == pytest.approx(by_sigma)
    assert theory.worst_discrepancy(n, b, 0.7) == pytest.approx(22 * V * 0.49)
    assert theory.bound_lipschitz(n, b, steps=[0.1], gbar=4.0, distance=3.0) == pytest.approx(
        (4 * 9 / 46 + 0.01 * 2 * 23 * 4 / BETA) / 0.1
    )
    few, many = theory.evaluations_with_noise(0.01, n, b, lhat=2.0, ltil=5.0, distance=3.0, noise=0.5)
    assert few == pytest.approx(23 * 4 / BETA * sqrt(20) * 9 / 0.01)
    assert many == pytest.approx(sqrt(8) * 4 * 9 / 0.01**1.5)
    assert theory.evaluations_lipschitz(0.01, n, b, gbar=4.0, distance=3.0) == pytest.approx(4 * 23 * 4 / BETA * 4 * 9 / 1e-4)


@pytest.mark.parametrize(("n", "b"), [(1, 1), (7, 7)])
def test_with_one_batch_there_is_no_noise(n, b):
    assert theory.variance_factor(n, b) == theory.worst_discrepancy(n, b, 5.0) == 0.0
    assert theory.noise_ig(n, b, lhat=2.0, ltil=5.0, sigma=0.7, dual_norm=9.0) == 0.0
    assert theory.likely_hat(3.0, 4.0, 2, n, b, 0.1) == 3.0


@given(n=st.integers(2, 60), b=st.integers(1, 60))
def test_the_worst_discrepancy_is_never_above_the_papers(n, b):
    """(n-1) V <= (m-1)^2, and 5.6 times smaller at n = 30, b = 1."""
    b = min(b, n)
    assert theory.worst_discrepancy(n, b, 1.0) <= (theory.batches(n, b) - 1) ** 2 * (1 + 1e-12)
    assert 29**2 / theory.worst_discrepancy(30, 1, 1.0) == pytest.approx(5.6, abs=0.03)


@pytest.mark.parametrize("n", [100, 103])
@pytest.mark.parametrize("b", [1, 5, 40, 100])
@pytest.mark.parametrize("eps", [1.0, 1e-2, 1e-4])
def test_the_epochs_that_are_promised_suffice(n, b, eps):
    """The bound of K equal steps is its part from D, which falls as 1/K, and its part from noise, which one step shows."""

    def bound_after(K, step, bound, **numbers):
        return b * 3.0**2 / (2 * n * step * K) + bound(n, b, steps=[step], **{**numbers, "distance": 0.0})

    K = theory.epochs_for(eps, n, b, **NUMBERS)
    step = theory.step_smooth(n, b, epochs=K, **NUMBERS)
    assert bound_after(K, step, theory.bound_smooth, ltil=5.0, sigma=0.7) <= eps * (1 + 1e-9)
    K = theory.epochs_for(eps, n, b, order="ig", dual_norm=2.0, **NUMBERS)
    step = theory.step_ig(n, b, epochs=K, dual_norm=2.0, **NUMBERS)
    assert bound_after(K, step, theory.bound_ig, dual_norm=2.0, **NUMBERS) <= eps * (1 + 1e-9)
    K = theory.epochs_for(eps, n, b, gbar=4.0, distance=3.0)
    step = theory.step_lipschitz(n, b, epochs=K, gbar=4.0, distance=3.0)
    assert bound_after(K, step, theory.bound_lipschitz, gbar=4.0) <= eps * (1 + 1e-9)


@given(eps=st.sampled_from([1.0, 1e-2, 1e-4]), b=st.integers(1, 100), sigma=st.sampled_from([0.0, 0.1, 5.0]), ig=st.booleans())
def test_the_tightest_epochs_are_the_fewest_that_any_step_allows(eps, b, sigma, ig):
    n = 100
    numbers = {"lhat": 2.0, "ltil": 5.0, "distance": 3.0, "sigma": sigma, **({"dual_norm": 2.0} if ig else {})}
    K, step = (theory.tightest_ig if ig else theory.tightest_smooth)(eps, n, b, **numbers)
    shown = {key: value for key, value in numbers.items() if ig or key != "lhat"} | {"distance": 0.0}
    limit = theory.step_size_limit(n, b, 2.0, 5.0)

    def bound(K, step):
        noise = (theory.bound_ig if ig else theory.bound_smooth)(n, b, steps=[step], **shown)
        return b * 9.0 / (2 * n * step * K) + noise

    assert step <= limit
    assert bound(K, step) <= eps * (1 + 1e-9)
    if K > 1:
        assert min(bound(K - 1, s) for s in np.geomspace(limit * 1e-6, limit, 400)) > eps * (1 - 1e-9)
    assert theory.epochs_for(eps, n, b, order="ig" if ig else "rr", **numbers) >= K


def test_eps_must_be_positive():
    with pytest.raises(ValueError, match="eps=0 must be positive"):
        theory.epochs_for(0, 10, 1, **NUMBERS)


# --- strong convexity


@given(
    n=st.integers(2, 40), b=st.integers(1, 40), mu=st.sampled_from([0.0, 1e-3, 0.5, 20.0]), seed=st.integers(0, 10**6),
    K=st.integers(1, 9), one_noise=st.booleans(),
)  # fmt: skip
def test_the_bounds_of_strong_convexity_against_their_sums(n, b, mu, seed, K, one_noise):
    rng = np.random.default_rng(seed)
    b, D = min(b, n), 3.0
    steps, noise = rng.uniform(0.01, 2.0, K), rng.uniform(0.0, 2.0, K)
    noise = np.full(K, noise[0]) if one_noise else noise
    given_noise = float(noise[0]) if one_noise else noise.tolist()
    q = n * steps * mu / b
    weights = np.cumprod(np.r_[1.0, 1.0 + 0.5 * q[:-1]])
    want = (b * D**2 / (2 * n) + np.sum(weights * steps**3 * noise)) / (0.5 * np.sum(weights * steps))
    got = theory.bound_weighted(n, b, steps=steps.tolist(), mu=mu, distance=D, noise=given_noise)
    assert got == pytest.approx(want, rel=1e-12)
    assert theory.growth(n, b, 0.3, mu) == pytest.approx(0.5 * n * 0.3 * mu / b)

    # the last iterate: D^2 shrinks by all factors, the noise of epoch k by those from k on
    shrink = np.array([np.prod(1.0 + q[k:]) for k in range(K + 1)])
    square = D**2 / shrink[0] + np.sum(2 * n / b * steps**3 * noise / shrink[:K])
    full = 1.7
    gap, found = theory.bound_last(n, b, steps=steps.tolist(), mu=mu, distance=D, noise=given_noise, full=full)
    assert found == pytest.approx(square, rel=1e-12)
    before = square * (1 + q[-1]) - 2 * n / b * steps[-1] ** 3 * noise[-1]
    spent = b / (2 * n) * before + steps[-1] ** 3 * noise[-1]
    assert gap == pytest.approx(spent / (steps[-1] + b / (n * full)), rel=1e-9)
    assert gap <= min(full / 2 * square if mu <= full else np.inf, spent / steps[-1]) * (1 + 1e-12)


def test_many_epochs_of_strong_convexity_do_not_overflow():
    numbers = {"steps": [0.1] * 5000, "mu": 30.0, "distance": 3.0, "noise": 0.2}
    floor = 0.1**2 * 0.2 / 0.5  # all weight is on epochs whose part from D is gone
    assert theory.bound_weighted(10, 2, **numbers) == pytest.approx(floor)
    assert theory.bound_last(10, 2, **numbers, full=50.0)[1] == pytest.approx(2 * 0.1**2 * 0.2 / 30)


CONVEX = {"lhat": 2.0, "ltil": 5.0, "distance": 3.0}
GRID = [(eps, mu, noise) for eps in (1e-1, 1e-4) for mu in (1e-3, 0.3) for noise in (0.0, 0.02, 4.0)]


def weighted(n, b, K, step, mu, noise):
    c = n * step * mu / (2 * b)
    return 2 * (b * 9 / (2 * n) * c / (step * np.expm1(np.minimum(K * np.log1p(c), 700))) + step**2 * noise)


def last(n, b, K, step, mu, noise, full):
    q, floor = n * step * mu / b, 2 * step**2 * noise / mu
    before = floor + (9 - floor) * np.exp(-(K - 1) * np.log1p(q))
    return (b / (2 * n) * before + step**3 * noise) / (step + b / (n * full))


@pytest.mark.parametrize(("n", "b"), [(100, 1), (23, 4), (50, 50)])
@pytest.mark.parametrize(("eps", "mu", "noise"), GRID)
def test_the_tightest_epochs_of_strong_convexity_suffice_and_fewer_do_not(n, b, eps, mu, noise):
    limit = b / (n * sqrt(20)) if n % b == 0 else LIMIT
    steps = limit * np.geomspace(1e-8, 1.0, 20_001)
    numbers = {"mu": mu, "noise": noise, **CONVEX}
    K, step = theory.tightest_weighted(eps, n, b, **numbers)
    assert step <= limit * (1 + 1e-12)
    assert weighted(n, b, K, step, mu, noise) <= eps * (1 + 1e-9)
    fewer = int(0.97 * K) - 1
    assert fewer < 1 or weighted(n, b, fewer, steps, mu, noise).min() > eps
    chosen = theory.step_weighted(n, b, epochs=K, **numbers)
    assert weighted(n, b, K, chosen, mu, noise) <= 1.03 * weighted(n, b, K, steps, mu, noise).min()
    for full in (mu, 3.0, 100.0):
        K, step = theory.tightest_last(eps, n, b, full=full, **numbers)
        assert step <= limit * (1 + 1e-12)
        assert last(n, b, K, step, mu, noise, full) <= eps * (1 + 1e-9)
        fewer = int(0.97 * K) - 1
        assert fewer < 1 or last(n, b, fewer, steps, mu, noise, full).min() > eps
        chosen = theory.step_last(n, b, epochs=K, full=full, **numbers)
        assert last(n, b, K, chosen, mu, noise, full) <= 1.03 * last(n, b, K, steps, mu, noise, full).min()
        if K <= 5000:
            bound = theory.bound_last(n, b, steps=[step] * K, mu=mu, noise=noise, distance=3.0, full=full)[0]
            assert bound == pytest.approx(last(n, b, K, step, mu, noise, full), rel=1e-9)


def test_from_near_the_optimum_the_first_epoch_may_only_add_noise():
    """D^2 full/2 is below eps at once, but after one epoch at a large step |x - x*|^2 is above it: that step is no answer."""
    numbers = {"lhat": 0.5, "ltil": 0.5, "mu": 1.0, "distance": 1e-3, "noise": 50.0, "full": 1.0}
    K, step = theory.tightest_last(1e-3, 10, 1, **numbers)
    shown = {name: numbers[name] for name in ("mu", "distance", "noise", "full")}
    assert theory.bound_last(10, 1, steps=[step] * K, **shown)[0] <= 1e-3 * (1 + 1e-9)


# --- orders that are random


@given(n=st.integers(2, 10**6), b=st.integers(1, 1000), ratio=st.floats(1.0, 1e4), failure=st.sampled_from([0.1, 1e-3, 1e-17]))
def test_likely_constants_are_where_the_tail_bounds_are_the_failure(n, b, ratio, failure):
    """Matrix Bernstein for the sum of at most n/2 rows (a prefix or the rest of it), matrix Chernoff for a batch."""
    full, dimension, m = 0.7, 12, -(-n // min(b, n))
    b, largest = min(b, n), 0.7 * ratio
    if m > 1:
        excess = n * (theory.likely_hat(full, largest, dimension, n, b, failure) - theory.ordered_norm_ratio(m) * full)
        variance = n / 2 * largest * full
        exponent = -(excess**2) / 2 / (variance + largest * excess / 3)
        assert exponent + log(2 * dimension * (m - 1)) == pytest.approx(log(failure), rel=1e-6)
    til = theory.likely_til(full, largest, dimension, b, failure)
    u = til / full - 1
    exponent = b * full / largest * (u - (1 + u) * np.log1p(u))
    assert exponent + log(dimension) == pytest.approx(log(failure), rel=1e-4)


def measured(problem, order, b=4, epochs=50, **options):
    rule = make_order(order, problem.n, 0)
    return rule, gather(problem, rule, constants_for(problem, rule, b), options.pop("optimum", None), epochs=epochs, **options)


@pytest.fixture(scope="module")
def ridge():
    rng = np.random.default_rng(0)
    return rs.Problem(rng.standard_normal((23, 3)), rng.standard_normal(23), loss="squared", alpha=0.1)


def test_the_constants_of_a_fixed_order_are_its_own(ridge):
    backwards = np.arange(23)[::-1].copy()
    for order in ("so", "ig", backwards):
        _, known = measured(ridge, order)
        c = rs.constants(ridge, order=order, batch_size=4)
        assert known.smooth == Within(c.hat[0], c.til[0], "this order")
        assert (known.full, known.largest, known.mu) == (c.full_gradient_constant, c.L, 0.1)
    _, known = measured(ridge, [backwards, np.arange(23)])
    c = rs.constants(ridge, order=[backwards, np.arange(23)], batch_size=4)
    assert known.smooth == Within(c.hat.max(), c.til.max(), "these orders")


def test_the_constants_of_orders_to_come_are_bounds(ridge):
    c = rs.constants(ridge, batch_size=4, permutations=1)
    every = Within(c.hat_bound, c.til_bound, "every order")
    assert measured(ridge, iter([]))[1].smooth == every
    assert measured(ridge, "rr", safe=True)[1].smooth == every
    assert measured(ridge, "rr")[1].smooth == every  # so few rows that likely bounds are no better
    rng = np.random.default_rng(1)
    many = rs.Problem(rng.standard_normal((4000, 3)), rng.standard_normal(4000), loss="squared", alpha=0.1)
    _, known = measured(many, "rr", b=64, epochs=100)
    c = rs.constants(many, batch_size=64, permutations=1)
    m, share = 63, 0.01 / (2 * 100)
    full, largest = c.full_gradient_constant - 0.1, c.L - 0.1
    hat = theory.likely_hat(full, largest, 4, 4000, 64, share) + 0.1 * theory.ordered_norm_ratio(m)
    til = theory.likely_til(full, largest, (c.mean_sample - 0.1) / full, 64, share / m) + 0.1
    assert known.smooth == Within(pytest.approx(hat), pytest.approx(til), "100 random orders", 0.01)
    assert c.lhat[0] < hat < c.hat_bound
    assert c.ltil[0] < til < c.til_bound
    assert measured(many, "rr", b=64, safe=True)[1].smooth == Within(c.hat_bound, c.til_bound, "every order")


def test_the_textbook_knows_the_largest_sample_alone():
    known = facts(lipschitz=Within(1.0, 2.0, "this order"), lipschitz_squared=7.0).textbook()
    assert known == facts(smooth=Within(9.0, 9.0, "every order"), lipschitz=Within(7.0, 7.0, "every order"), lipschitz_squared=7.0)
    assert facts(smooth=None).textbook().smooth is facts().textbook().lipschitz is None


# --- theorems and their catalogue


SMOOTH_ANY, STRONG_ANY = [theory.THEOREM_6, theory.THEOREM_2], [theory.THEOREM_7, theory.THEOREM_8]
STRONG_RANDOM = [theory.THEOREM_7_RANDOM, theory.THEOREM_7, theory.THEOREM_8_RANDOM, theory.THEOREM_8]


@pytest.mark.parametrize(
    ("loss", "alpha", "order", "theorems"),
    [
        ("squared", 0.0, "rr", [theory.THEOREM_1, *SMOOTH_ANY]),
        ("squared", 0.0, "so", SMOOTH_ANY),
        ("squared", 0.1, "rr", [theory.THEOREM_1, *SMOOTH_ANY, *STRONG_RANDOM]),
        ("squared", 0.1, "so", [*SMOOTH_ANY, *STRONG_ANY]),
        ("huber", 0.1, "ig", [*SMOOTH_ANY, *STRONG_ANY]),
        ("logistic", 0.0, "rr", [theory.THEOREM_1, *SMOOTH_ANY, theory.THEOREM_3]),
        ("logistic", 0.0, [1, 0, 2, 3], [*SMOOTH_ANY, theory.THEOREM_3]),
        ("logistic", 0.0, [[1, 0, 2, 3]], [*SMOOTH_ANY, theory.THEOREM_3]),
        ("logistic", 0.0, iter([]), [*SMOOTH_ANY, theory.THEOREM_3]),
        ("absolute", 0.0, "rr", [theory.THEOREM_3]),
        ("hinge", 0.0, "ig", [theory.THEOREM_3]),
        (None, 0.0, "rr", [theory.THEOREM_4, theory.THEOREM_6_GENERAL, theory.THEOREM_5]),
        (None, 0.0, "so", [theory.THEOREM_6_GENERAL, theory.THEOREM_5]),
        (None, 0.0, "ig", [theory.THEOREM_6_GENERAL, theory.THEOREM_5]),
    ],
)
def test_the_theorems_follow_from_the_problem_and_the_order(loss, alpha, order, theorems):
    problem = None if loss is None else rs.Problem(np.eye(4), [-1.0, 1.0, -1.0, 1.0], loss=loss, alpha=alpha)
    rule = make_order(order, 4, 0)
    assert theory.theorems_for(problem, rule) == theorems
    assert theory.theorem_for(problem, rule) is theorems[0]
    if problem is not None and alpha:  # an intercept that is not regularised takes the strong convexity away
        free = theory.theorems_for(problem.replace(fit_intercept=True), rule)
        assert free == [theorem for theorem in theorems if theorem.number < 7]


def test_where_no_theorem_holds_the_error_says_why(monkeypatch):
    rr = make_order("rr", 2, 0)
    with pytest.raises(
        ValueError, match=r"loss='hinge' with alpha=0.1: no theorem covers a loss with kinks and a regulariser; use alpha=0"
    ):
        theory.theorem_for(rs.Problem(np.eye(2), [-1.0, 1.0], loss="hinge", alpha=0.1), rr)
    monkeypatch.setattr(theory.catalogue, "THEOREMS", [theory.THEOREM_4])
    with pytest.raises(
        ValueError, match=r"no theorem covers this problem and order; there are Theorem 4 \(a smooth loss, each order"
    ):
        theory.theorem_for(rs.Problem(np.eye(2), [-1.0, 1.0]), rr)


NOISE = {
    theory.THEOREM_1: 5 * 0.49 * V,
    theory.THEOREM_2: min(6 / 4 * 2 * 5 * 16, 25 * 5 * 0.49),
    theory.THEOREM_6: 5 * 0.3,
}


@pytest.mark.parametrize("theorem", NOISE)
def test_a_theorem_of_the_average_has_the_numbers_of_its_formulas(theorem):
    known, noise, steps = facts(), NOISE[theorem], [0.5 * LIMIT, LIMIT]
    numbers = {"lhat": 2.0, "ltil": 5.0, "distance": 3.0, "noise": noise}
    assert theorem.step_limit(known) == pytest.approx(LIMIT)
    assert theorem.bound(known, steps) == pytest.approx(
        (4 * 9 / 46 + sum(step**3 for step in steps) * noise) / sum(steps), rel=1e-12
    )
    assert theorem.bound(known, [1.01 * LIMIT]) == inf
    for K in (1, 10**6):
        assert theorem.step(known, K) == pytest.approx(min(LIMIT, (4 * 9 / (2 * 23 * K * noise)) ** (1 / 3)))
    assert theorem.tightest(known, 0.01) == theory.tightest_with_noise(0.01, 23, 4, **numbers)
    few, many = 23 * 4 / BETA * sqrt(20) * 9 / 0.01, sqrt(8) * 4 * sqrt(2 * noise) * 9 / 0.01**1.5
    assert theorem.evaluations(known, 0.01) == pytest.approx(max(few, many) if theorem.number == 1 else few + many)
    assert theorem.in_expectation is (theorem.number == 1)


@pytest.mark.parametrize("theorem", [theory.THEOREM_7, theory.THEOREM_7_RANDOM, theory.THEOREM_8, theory.THEOREM_8_RANDOM])
def test_a_theorem_of_strong_convexity_has_the_numbers_of_its_formulas(theorem):
    known, steps = facts(), [0.5 * LIMIT, LIMIT]
    noise = 5 * 0.49 * V if theorem.in_expectation else 5 * 0.3
    numbers = {"mu": 0.2, "distance": 3.0, "noise": noise}
    limits = {"lhat": 2.0, "ltil": 5.0}
    if theorem.number == 7:
        assert theorem.output == "weighted"
        want = theory.bound_weighted(23, 4, steps=steps, **numbers)
        step, tightest = theory.step_weighted, theory.tightest_weighted
    else:
        assert theorem.output == "last"
        numbers["full"] = 3.0
        want = theory.bound_last(23, 4, steps=steps, **numbers)[0]
        step, tightest = theory.step_last, theory.tightest_last
    assert theorem.bound(known, steps) == pytest.approx(want, rel=1e-12)
    assert theorem.bound(known, [1.01 * LIMIT]) == inf
    assert theorem.step(known, 30) == step(23, 4, epochs=30, **limits, **numbers)
    epochs, chosen = theorem.tightest(known, 0.01)
    assert (epochs, chosen) == tightest(0.01, 23, 4, **limits, **numbers)
    assert theorem.evaluations(known, 0.01) == 23 * epochs
    assert theorem.bound(known, [chosen] * epochs) <= 0.01 * (1 + 1e-9)


def test_the_noise_of_any_order_is_its_own_of_each_epoch_or_the_worst():
    steps = [LIMIT, 0.5 * LIMIT, LIMIT]
    each = facts(discrepancy=(0.3, 0.1, 0.7))
    noise = 5 * sum(step**3 * R for step, R in zip(steps, (0.3, 0.1, 0.7), strict=True))
    assert theory.THEOREM_6.bound(each, steps) == pytest.approx((4 * 9 / 46 + noise) / sum(steps))
    assert theory.THEOREM_6.bound(each, steps[:2]) < theory.THEOREM_6.bound(facts(discrepancy=0.31), steps[:2])
    assert theory.THEOREM_6.step(each, 10**6) == theory.THEOREM_6.step(facts(discrepancy=0.7), 10**6)
    for dual_norm, worst in ((9.0, 5 * 22 * V * 0.49), (0.1, 6 / 4 * 2 * 5 * 0.01)):
        unknown = facts(discrepancy=None, dual_norm=dual_norm)
        assert theory.THEOREM_6.bound(unknown, [LIMIT]) == pytest.approx(4 * 9 / 46 / LIMIT + LIMIT**2 * worst)
        assert theory.THEOREM_6.bound(unknown, [LIMIT]) <= theory.THEOREM_2.bound(unknown, [LIMIT])


def test_theorem_3_has_the_numbers_of_its_formulas():
    known, theorem = facts(lipschitz=Within(8.0, 2.0, "this order")), theory.THEOREM_3
    numbers = {"gbar": 4.0, "distance": 3.0}
    epochs, step = theorem.tightest(known, 0.5)
    assert epochs == theory.epochs_for(0.5, 23, 4, **numbers)
    assert step == theorem.step(known, epochs) == theory.step_lipschitz(23, 4, epochs=epochs, **numbers)
    assert step == pytest.approx(sqrt(4 * BETA) * 3 / (2 * 23 * 2 * sqrt(epochs)))
    assert theorem.bound(known, [step] * epochs) == pytest.approx(2 * sqrt(4 / BETA) * 2 * 3 / sqrt(epochs))
    assert 0.45 < theorem.bound(known, [step] * epochs) <= 0.5
    assert theorem.step_limit(known) is None
    assert theorem.within(facts()) is None
    assert theorem.bound(facts(), [0.1]) == inf
    assert not theorem.in_expectation


def test_the_smallest_promise_counts():
    known, steps = facts(lipschitz=Within(1e-6, 1e-6, "this order")), [LIMIT] * 4
    smooth = [theory.THEOREM_1, theory.THEOREM_6, theory.THEOREM_2]
    quiet = replace(known, discrepancy=0.01)
    assert theory.smallest_bound(smooth, quiet, steps).theorem is theory.THEOREM_6
    assert theory.smallest_bound(smooth, replace(known, discrepancy=4.0), steps).theorem is theory.THEOREM_1
    promise = theory.smallest_bound([*smooth, theory.THEOREM_3], known, steps)
    assert (promise.theorem, promise.bound) == (theory.THEOREM_3, theory.THEOREM_3.bound(known, steps))
    assert theory.smallest_bound(smooth, known, [2 * LIMIT]) is None
    assert theory.smallest_bound(smooth, known, steps, "last") is None
    strong = [*smooth, theory.THEOREM_7, theory.THEOREM_8]
    for output, theorem in (("weighted", theory.THEOREM_7), ("last", theory.THEOREM_8)):
        assert theory.smallest_bound(strong, known, steps, output).theorem is theorem
    likely = facts(smooth=Within(2.0, 5.0, "4 random orders", 0.01))
    assert theory.smallest_bound(smooth, likely, steps).failure == 0.01
    for output, theorem in (("epoch", theory.THEOREM_6), ("last", theory.THEOREM_8)):
        assert theory.best_step(strong, quiet, 10**5, output) == theorem.step(quiet, 10**5)
    found = theory.shortest(strong, quiet, 1e-4)
    assert found.epochs == min(theorem.tightest(quiet, 1e-4)[0] for theorem in strong)
    assert theory.shortest(smooth, quiet, 1e-4).theorem is theory.THEOREM_6
    assert (found.epochs, found.step) == found.theorem.tightest(quiet, 1e-4)


def test_promises_in_words():
    said = theory.in_words
    assert said(False, 0.0) == "for certain"
    assert said(True, 0.0) == "on average over orders"
    assert said(False, 0.01) == "with probability 0.99"
    assert said(True, 0.01) == "on average over orders (with probability 0.99 all steps are within its limit)"
    assert theory.Promise(theory.THEOREM_1, 0.1, 0.0).holds == said(True, 0.0)
    assert theory.Promise(theory.THEOREM_6, 0.1, 0.01).holds == said(False, 0.01)


# --- earlier and newer work


def works(found):
    return [prior.work for prior, _ in found]


def test_mishchenko_by_hand():
    """D^2/(2 eta n K) + eta^2 L n sigma^2/4 at eta <= 1/(sqrt2 n L), with n = 23, L = 9, D = 3, sigma = 0.7."""
    n, L, D, sigma = 23, 9.0, 3.0, 0.7
    prior, evaluations = theory.prior_work(facts(), 1e-3)[0]
    assert (prior.work, prior.kind) == ("Mishchenko, Khaled, Richtárik 2020", "exact")

    def bound(K, eta):
        return D**2 / (2 * eta * n * K) + eta**2 * L * n * sigma**2 / 4

    steps = np.geomspace(1e-9, 1.0, 200_001) / (sqrt(2) * n * L)
    K = evaluations / n
    assert bound(K, steps).min() <= 1e-3 * (1 + 1e-6)
    assert bound(K - 1, steps).min() > 1e-3 * (1 - 1e-6)
    for K in (1, 1000, 10**5):
        work, found = theory.prior_bound(facts(), K)
        assert work is prior
        step = min(1 / (sqrt(2) * n * L), (D**2 / (2 * n * K) / (L * n * sigma**2 / 4)) ** (1 / 3))
        assert found == pytest.approx(bound(K, step))


def test_what_is_only_an_order_of_magnitude_is_labelled_so():
    n, L, D, sigma, eps, mu = 23, 9.0, 3.0, 0.7, 1e-3, 0.2
    found = theory.prior_work(facts(), eps)
    assert [prior.exact for prior, _ in found] == [True] + [False] * (len(found) - 1)
    assert all(prior.kind == "order only" for prior, _ in found[1:])
    by_work = {(prior.work, prior.orders): value for prior, value in found}
    first, rest = n * L * D**2 / eps, sqrt(n * L) * sigma * D**2 / eps**1.5
    nguyen = "Nguyen, Tran-Dinh, Phan, Nguyen, van Dijk 2021"
    assert by_work[nguyen, "RR"] == by_work["Cha, Lee, Yun 2023", "RR"] == pytest.approx(first + rest)
    assert by_work["Cha, Lee, Yun 2023, lower bound", "RR"] == pytest.approx(rest)
    mishchenko = by_work["Mishchenko, Khaled, Richtárik 2020", "IG"]
    assert mishchenko == pytest.approx(first + n * sqrt(L) * sigma * D**2 / eps**1.5)
    last = max(n * L / mu, sqrt(n * L**2 * sigma**2 / (mu**3 * eps)))
    assert by_work["Cha, Lee, Yun 2023, Prop. 3.2", "RR"] == pytest.approx(last)
    tail = max(n * L / mu, sqrt(n * L * sigma**2 / (mu**2 * eps)))
    assert by_work["Cha, Lee, Yun 2023, Prop. 3.4", "RR"] == pytest.approx(tail)
    steps = np.geomspace(1e-9, 1, 200_001) / (16 * L)
    noise = np.minimum(1, steps * n * L) * steps * sigma**2
    for to in (eps, 1.0):  # where noise decides, and where the largest step does
        fine = (D**2 / (steps * (to - noise)))[noise < to].min()
        liu = next(value for prior, value in theory.prior_work(facts(), to) if prior.work == "Liu 2026")
        assert fine * (1 - 1e-6) <= liu <= 1.03 * fine
    K = 1000
    work, bound = theory.prior_bound(facts(), K, "IG")
    assert (work.work, work.exact) == ("Mishchenko, Khaled, Richtárik 2020", False)
    steps = np.geomspace(1e-9, 1, 200_001) / (n * L)
    fine = (D**2 / (steps * n * K) + steps**2 * L * n**2 * sigma**2).min()
    assert fine * (1 - 1e-6) <= bound <= 1.2 * fine


def test_a_result_whose_conditions_fail_is_not_shown():
    assert not any("Prop." in work for work in works(theory.prior_work(facts(mu=0.0), 1e-3)))
    assert theory.prior_work(facts(largest=0.0), 1e-3) == []  # data of zeros has nothing to learn
    assert theory.prior_bound(facts(largest=0.0), 10) is None
    kinks = facts(smooth=None, lipschitz=Within(1.0, 1.0, "this order"), lipschitz_squared=2.0, n=10**4, sigma=nan)
    # D^2 G^2 / eps^2 = 18 / eps^2 <= 10^4 asks for eps >= 0.0424
    assert theory.prior_work(kinks, 0.042) == []
    [(prior, evaluations)] = theory.prior_work(kinks, 0.043)
    assert (prior.work, prior.exact) == ("Shamir 2016", False)
    assert evaluations == pytest.approx(18 / 0.043**2)
    assert theory.prior_bound(kinks, 10) is None


def test_full_gradients_by_their_own_guarantee():
    assert theory.gradient_descent(facts(mu=0.0), 1e-3) == pytest.approx(23 * 3 * 9 / 2e-3)
    linear = 23 * 3 / 0.2 * log(3 * 9 / 2e-3)  # (1 - mu/full)^K full D^2/2 <= eps
    assert theory.gradient_descent(facts(), 1e-3) == pytest.approx(linear)
    K = linear / 23
    assert 3 * 9 / 2 * exp(-K * 0.2 / 3) == pytest.approx(1e-3)
    assert theory.gradient_descent(facts(smooth=None), 1e-2) == pytest.approx(23 * 3 * 9 / 1e-4)
    assert theory.gradient_descent(facts(distance=0.0), 1e-3) == 23


def test_without_an_optimum_there_are_steps_but_no_promises(ridge):
    rule, known = measured(ridge, "ig")
    theorem = theory.theorem_for(ridge, rule)
    assert theorem.step_limit(known) == rs.constants(ridge, order="ig", batch_size=4).step_size_limit
    assert isnan(theorem.bound(known, [theorem.step_limit(known)]))
    assert theory.smallest_bound([theorem], known, [1e-3]) is None
