"""Formulas: where b divides n they are the paper's; bounds, steps and complexities agree with one another."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle import theory
from reshuffle.orders import make_order

NUMBERS = {"lhat": 2.0, "ltil": 5.0, "distance": 3.0, "sigma": 0.7}


@given(b=st.integers(1, 30), m=st.integers(1, 30))
def test_where_b_divides_n_the_factors_are_the_papers(b, m):
    n = b * m
    assert theory.beta(n, b) == pytest.approx(b)
    if n > 1:
        assert theory.variance_factor(n, b) == pytest.approx((n - b) * (n + b) / (6 * b**2 * (n - 1)), abs=1e-12)


@given(n=st.integers(2, 9), b=st.integers(1, 9), seed=st.integers(0, 1000))
def test_the_variance_factor_is_the_mean_over_all_permutations(n, b, seed):
    """(1/(n b)) E sum_i |sum of the g_j that come in batch i or later|^2 = V sigma^2 for g_j that sum to zero."""
    from itertools import permutations

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
    assert theory.step_lipschitz(n, b, epochs=16, gbar=4.0, distance=D) == pytest.approx(b * D / (2 * n * 2.0 * 4.0))


def test_the_papers_complexities():
    n, b, eps = 100, 5, 1e-3
    D, s, lhat, ltil = 3.0, 0.7, 2.0, 5.0
    few = n * np.sqrt(2 * lhat * ltil) * D**2 / eps
    many = np.sqrt((n - b) * (n + b) / (n - 1)) * np.sqrt(8 / 3) * np.sqrt(ltil) * s * D**2 / eps**1.5
    assert theory.evaluations_smooth(eps, n, b, **NUMBERS) == pytest.approx(max(few, many))
    by_dual, by_sigma = 4 * np.sqrt(n * lhat * ltil) * 0.4, 4 * (n - b) * np.sqrt(ltil) * s
    ig = few + min(by_dual, by_sigma) * D**2 / eps**1.5
    assert theory.evaluations_ig(eps, n, b, dual_norm=0.4, **NUMBERS) == pytest.approx(ig)
    assert theory.evaluations_lipschitz(eps, n, b, gbar=4.0, distance=D) == pytest.approx(4 * n * 4.0 * D**2 / eps**2)


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


def test_prior_work_is_labelled_as_orders():
    rows = theory.prior_work(1e-3, 100, L=10.0, distance=3.0, sigma=0.7)
    assert len(rows) == 3
    assert all("order only" in row.note for row in rows)
    assert rows[0].evaluations == pytest.approx(100 * 10 * 9 / 1e-3 + np.sqrt(1000) * 0.7 * 9 / 1e-3**1.5)
    assert "K = 1" in theory.prior_work(1e-3, 100, G=2.0, distance=3.0)[0].note
    with pytest.raises(ValueError, match="needs L and sigma"):
        theory.prior_work(1e-3, 100, distance=3.0)
    with pytest.raises(ValueError, match="eps=0 must be positive"):
        theory.epochs_for(0, 10, 1, **NUMBERS)


@pytest.mark.parametrize(
    ("loss", "alpha", "order", "theorem"),
    [
        ("logistic", 0.0, "rr", theory.THEOREM_1),
        ("squared", 0.1, "so", theory.THEOREM_1),
        ("huber", 0.1, "ig", theory.THEOREM_2),
        ("logistic", 0.0, [1, 0, 2, 3], theory.THEOREM_2),
        ("logistic", 0.0, iter([]), theory.THEOREM_2),
        ("absolute", 0.0, "rr", theory.THEOREM_3),
        ("hinge", 0.0, "ig", theory.THEOREM_3),
        (None, 0.0, "so", theory.THEOREM_4),
        (None, 0.0, "ig", theory.THEOREM_5),
    ],
)
def test_the_theorem_follows_from_the_problem_and_the_order(loss, alpha, order, theorem):
    problem = None if loss is None else rs.Problem(np.eye(4), [-1.0, 1.0, -1.0, 1.0], loss=loss, alpha=alpha)
    assert theory.theorem_for(problem, make_order(order, 4, 0)) is theorem


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


@pytest.mark.parametrize(("order", "theorem"), [("rr", theory.THEOREM_1), ("ig", theory.THEOREM_2)])
def test_a_theorem_has_the_numbers_of_its_formulas(order, theorem):
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.standard_normal((23, 3)), rng.standard_normal(23), loss="squared")
    c, optimum, ig = rs.constants(problem, order=order, batch_size=4, permutations=5), theory.measure(problem), order == "ig"
    numbers = {"lhat": c.lhat_max, "ltil": c.ltil_max, "distance": optimum.distance, "sigma": optimum.sigma}
    numbers |= {"dual_norm": optimum.dual_norm} if ig else {}
    names = ("step", "bound", "evaluations", "tightest")
    step, bound, evaluations, tightest = (getattr(theory, f"{name}_{'ig' if ig else 'smooth'}") for name in names)
    assert theorem.constants_used(c) == (c.lhat_max, c.ltil_max)
    assert theorem.step(c, optimum, 50) == step(23, 4, epochs=50, **numbers)
    assert theorem.evaluations(c, optimum, 0.01) == evaluations(0.01, 23, 4, **numbers)
    assert theorem.tightest(c, optimum, 0.01) == tightest(0.01, 23, 4, **numbers)
    steps, shown = [c.step_size_limit] * 3, {key: value for key, value in numbers.items() if ig or key != "lhat"}
    assert theorem.bound(c, optimum, steps) == bound(23, 4, steps=steps, **shown)
    assert theorem.bound(c, optimum, [1.01 * c.step_size_limit]) == np.inf
    assert theorem.step_limit(c, safe=True) == c.safe_step_size_limit <= theorem.step_limit(c) == c.step_size_limit
    assert theorem.step_limit(c.textbook()) == theory.step_size_limit(23, 4, c.L, c.L)
    assert theorem.in_expectation is not ig


def test_theorem_3_has_the_numbers_of_its_formulas():
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.standard_normal((23, 3)), rng.standard_normal(23), loss="absolute")
    c, optimum, theorem = rs.constants(problem, batch_size=4, permutations=5), theory.measure(problem), theory.THEOREM_3
    numbers = {"gbar": c.gbar, "distance": optimum.distance}
    epochs, step = theorem.tightest(c, optimum, 0.5)
    assert epochs == theory.epochs_for(0.5, 23, 4, **numbers)
    assert step == theorem.step(c, optimum, epochs) == theory.step_lipschitz(23, 4, epochs=epochs, **numbers)
    assert theorem.bound(c, optimum, [step] * epochs) <= 0.5
    assert theorem.step(c, optimum, epochs, safe=True) <= step
    assert theorem.constants_used(c) == (c.ghat_mean, c.gtil_mean)
    assert theorem.step_limit(c) is theorem.full_gradient_evaluations(c, optimum, 0.5) is theorem.prior_bound(c, optimum, 3) is None
    assert c.textbook().gbar == c.largest_sample
