"""Several classes as one problem: its optimum is that of a slow oracle, and its certificate that of its own dual."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.utils.estimator_checks import parametrize_with_checks

import reshuffle as rs
from reshuffle.solver.certified import solve_multinomial
from reshuffle.solver.certified.multinomial import Joint, JointBatch


def posed(n=80, d=3, classes=4, intercept=True, weighted=True, alpha=0.02, seed=0, kind=np.asarray):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    numbers = (X @ rng.standard_normal((d, classes)) + rng.standard_normal((n, classes))).argmax(axis=1)
    weights = rng.exponential(size=n) if weighted else np.ones(n)
    weights *= n / weights.sum()
    problem = rs.Problem(kind(X), np.ones(n), loss="squared", alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    return problem, numbers, classes


def objective(problem, numbers, x):
    """By the definition, row after row."""
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    total = 0.0
    for i in range(problem.n):
        z = x[:, : problem.d] @ X[i] + (x[:, -1] if problem.fit_intercept else 0.0)
        total += problem.sample_weight[i] * (logsumexp(z) - z[numbers[i]])
    return total / problem.n + 0.5 * problem.alpha * np.sum(x[:, : problem.d] ** 2)


def lowest(problem, numbers, classes):
    shape = (classes, problem.dimension)
    start = np.zeros(classes * problem.dimension)
    return minimize(lambda x: objective(problem, numbers, x.reshape(shape)), start, options={"gtol": 1e-8}).fun


def test_damping_counts_in_products_and_in_their_inverse():
    problem, numbers, classes = posed()
    batch = JointBatch(Joint(problem, numbers, classes), None, problem.n)
    curvatures, p = batch.losses.models(batch.margins(np.zeros(batch.alpha.size)), False)[1], np.arange(1.0, batch.alpha.size + 1.0)
    plain = batch.product(curvatures, p)[1]
    batch.damp(0.5, -1e9, np.ones(p.size))
    units = np.tile(problem.squared_units, classes)
    added = 1e9 * units / units.sum()
    np.testing.assert_allclose(batch.product(curvatures, p)[1] - plain, added * p, rtol=1e-9)
    np.testing.assert_allclose(batch.preconditioner(curvatures)(p), p / added, rtol=1e-4)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-9])
def test_the_optimum_is_that_of_a_slow_oracle(tol, intercept, kind):
    problem, numbers, classes = posed(n=25, d=2, classes=3, intercept=intercept, kind=kind)
    least = lowest(problem, numbers, classes)
    found = solve_multinomial(problem, numbers, classes, tol=tol, max_iter=100)
    assert found.converged
    assert found.f == pytest.approx(objective(problem, numbers, found.x), rel=1e-12)
    assert -1e-9 <= found.f - least <= found.gap + 1e-9


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "d"), [(3000, 5), (300, 600), (1500, 550)])
def test_large_problems_reach_a_tight_certificate(n, d, intercept):
    """In batches that grow, and with the diagonal for a preconditioner."""
    problem, numbers, classes = posed(n=n, d=d, classes=3, intercept=intercept, alpha=0.1)
    rough, fine = (solve_multinomial(problem, numbers, classes, tol=tol, max_iter=200) for tol in (1e-2, 1e-8))
    assert rough.converged
    assert fine.converged
    assert fine.f - fine.gap - 1e-12 <= rough.f
    assert rough.f - rough.gap <= fine.f + 1e-12


@given(seed=st.integers(0, 10**6), intercept=st.booleans(), spread=st.floats(0.0, 3.0))
def test_a_lower_bound_holds_for_any_dual_values(seed, intercept, spread):
    problem, numbers, classes = posed(n=30, intercept=intercept)
    joint = Joint(problem, numbers, classes)
    best = solve_multinomial(problem, numbers, classes, tol=1e-10, max_iter=100)
    u = best.dual.ravel() + spread * np.random.default_rng(seed).standard_normal(best.dual.size)
    bound, feasible = joint.lower_bound(u)
    assert bound <= best.f + 1e-12
    p = feasible.reshape(classes, -1) + joint.hits
    assert (p >= -1e-12).all()
    np.testing.assert_allclose(p.sum(axis=0), 1.0, atol=1e-12)
    if intercept:
        np.testing.assert_allclose(feasible.reshape(classes, -1) @ problem.sample_weight, 0.0, atol=1e-10)


def test_the_bound_of_the_optimal_duals_is_the_minimum():
    """Strong duality: a wrong factor in the conjugate or in the norm would open a gap."""
    problem, numbers, classes = posed()
    best = solve_multinomial(problem, numbers, classes, tol=1e-12, max_iter=100)
    z = np.array([problem.margins(x) for x in best.x])
    p = np.exp(z - logsumexp(z, axis=0))
    joint = Joint(problem, numbers, classes)
    assert joint.lower_bound((p - joint.hits).ravel())[0] == pytest.approx(best.f, rel=1e-10)


def test_no_constant_is_better_than_the_baseline():
    problem, numbers, classes = posed()
    joint = Joint(problem, numbers, classes)
    x = joint.start().reshape(classes, -1)
    best = joint.baseline().f
    assert objective(problem, numbers, x) == pytest.approx(best, rel=1e-12)
    for k in range(classes):
        for shift in (-0.01, 0.01):
            moved = x.copy()
            moved[k, -1] += shift
            assert objective(problem, numbers, moved) > best


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([rs.CertifiedClassifier("multinomial")])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_an_estimator_has_one_gap_and_probabilities_of_its_own(tmp_path):
    problem, numbers, _ = posed(weighted=False)
    X, y = problem.X, np.array(["d", "a", "c", "b"])[numbers]
    weights = np.random.default_rng(0).integers(0, 3, y.size)
    model = rs.CertifiedClassifier("multinomial", alpha=0.02, tol=1e-9, random_state=0).fit(X, y, weights)
    assert isinstance(model.dual_gap_, float)
    assert model.coef_.shape == (4, 3)
    assert model.history_[-1].gap == model.dual_gap_
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X), np.exp(scores - logsumexp(scores, axis=1)[:, None]), rtol=1e-12)
    repeated = rs.CertifiedClassifier("multinomial", alpha=0.02, tol=1e-9).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(model.coef_, repeated.coef_, atol=1e-6)
    rs.models.save(model, tmp_path / "model.json")
    kept = rs.models.load(tmp_path / "model.json")
    assert kept.dual_gap_ == model.dual_gap_
    np.testing.assert_array_equal(kept.predict_proba(X), model.predict_proba(X))
    again = model.set_params(warm_start=True, tol=1e-6).fit(X, y, weights)
    assert again.n_iter_ == 1


def test_two_classes_are_the_logistic_loss():
    problem, numbers, _ = posed()
    joint, usual = (
        rs.CertifiedClassifier(loss, random_state=0).fit(problem.X, numbers > 1) for loss in ("multinomial", "logistic")
    )
    np.testing.assert_array_equal(joint.coef_, usual.coef_)
    np.testing.assert_array_equal(joint.predict_proba(problem.X), usual.predict_proba(problem.X))


def test_where_there_is_one_margin_the_loss_is_refused():
    problem, numbers, _ = posed()
    for model in (rs.ShuffledSGDClassifier("multinomial"),):
        with pytest.raises(ValueError, match=r"loss='multinomial'.*use CertifiedClassifier"):
            model.fit(problem.X, numbers)
    with pytest.raises(ValueError, match="use CertifiedClassifier"):
        rs.Problem(problem.X, numbers, loss="multinomial")


def test_a_certificate_holds_in_extended_precision():
    """At the optimum both sums agree to rounding, which may put either of them first."""
    for seed in range(20):
        problem, numbers, classes = posed(intercept=False, seed=seed)
        found = solve_multinomial(problem, numbers, classes, tol=1e-3, max_iter=1000)
        X, w, x, u = (np.asarray(a, dtype=np.longdouble) for a in (problem.X, problem.sample_weight, found.x, found.dual))
        hits, n, alpha = np.arange(classes)[:, None] == numbers, problem.n, np.longdouble(problem.alpha)
        z = x @ X.T
        f = (w * (np.log(np.exp(z).sum(axis=0)) - (z * hits).sum(axis=0))).sum() / n + alpha / 2 * (x**2).sum()
        p = np.maximum(u + hits, np.longdouble(1e-300))
        bound = -(w * (p * np.log(p))).sum() / n - (((w * u) @ X / n) ** 2).sum() / (2 * alpha)
        assert f - bound <= found.gap


def test_a_hessian_has_the_same_price_in_products_for_all_classes_as_for_one():
    problem, numbers, classes = posed(n=500, d=40)
    batch = JointBatch(Joint(problem, numbers, classes), None, problem.n)
    assert batch._price_of(np.ones(classes * problem.n), problem.n) == pytest.approx(batch.price)
    assert batch.price > 0.0
