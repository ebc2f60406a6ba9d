"""Theorems 1 to 5: the measured (mean of) f(x_hat_K) - min f against the bound, on random problems and on real data."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_diabetes

import reshuffle as rs
from reshuffle import theory
from reshuffle.evidence import gather
from tests.solver.test_epochs import some_problem

SMOOTH = ["squared", "logistic", "smoothed_hinge:0.5", "squared_hinge", "huber:0.7"]
LIPSCHITZ = ["hinge", "absolute", "epsilon_insensitive:0.1", "quantile:0.3"]


def real_problem(name, loss, **options):
    X, y = {"breast_cancer": load_breast_cancer, "diabetes": load_diabetes}[name](return_X_y=True)
    y = (y - y.mean()) / y.std() if name == "diabetes" else y
    return rs.Problem((X - X.mean(axis=0)) / X.std(axis=0), y, loss=loss, **options)


def bound_of_every_permutation(problem, b):
    """Lhat and Ltil are at most these for all permutations; so steps within their limit are within that of each epoch."""
    c = rs.constants(problem, batch_size=b, order="ig", tol=1e-8)
    return c.hat_bound, c.til_bound


def facts_of(problem, run, optimum, **options):
    return gather(problem, run.rule, run.constants, optimum, epochs=len(run.history), **options)


def gaps(problem, optimum, seeds, **arguments):
    return np.array([rs.minimize(problem, seed=seed, evaluate_every=10**6, **arguments).f - optimum.f for seed in range(seeds)])


def assert_mean_is_below(measured, bound):
    """With a margin of three standard errors for the sample."""
    error = measured.std(ddof=1) / np.sqrt(len(measured))
    assert measured.mean() - 3 * error <= bound * (1 + 1e-9)
    assert (measured >= -1e-9).all()


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6), loss=st.sampled_from(SMOOTH), alpha=st.sampled_from([0.01, 0.5]),
    order=st.sampled_from(["rr", "so"]), n=st.integers(3, 20), data=st.data(),
)  # fmt: skip
def test_theorem_1_random_orders_of_random_problems(seed, loss, alpha, order, n, data):
    rng = np.random.default_rng(seed)
    b, epochs = data.draw(st.integers(1, n)), data.draw(st.integers(1, 8))
    problem, _ = some_problem(rng, n, 3, loss, alpha=alpha, sample_weight=rng.random(n) + 0.2)
    optimum = theory.measure(problem)
    lhat, ltil = bound_of_every_permutation(problem, b)
    limit = theory.step_size_limit(n, b, lhat, ltil)
    steps = (limit * rng.uniform(0.3, 1.0, epochs)).tolist()
    bound = theory.bound_smooth(n, b, steps=steps, ltil=ltil, distance=optimum.distance, sigma=optimum.sigma)
    measured = gaps(problem, optimum, 12, order=order, batch_size=b, step_size=steps, epochs=epochs)
    assert_mean_is_below(measured, bound)


@pytest.mark.parametrize(("name", "loss"), [("breast_cancer", "logistic"), ("diabetes", "squared"), ("diabetes", "huber:0.5")])
@pytest.mark.parametrize("b", [1, 10, 64])
def test_theorem_1_on_real_data(name, loss, b):
    problem = real_problem(name, loss, alpha=1e-2)
    optimum = theory.measure(problem)
    run = rs.minimize(problem, order="rr", batch_size=b, epochs=10, safe=True)
    facts = facts_of(problem, run, optimum, safe=True)
    bound = theory.THEOREM_1.bound(facts, run.steps)
    c = run.constants
    assert bound == theory.bound_smooth(
        problem.n, b, steps=run.steps, ltil=c.til_bound, distance=optimum.distance, sigma=optimum.sigma
    )
    for order in ("rr", "so"):  # the step is within the limit of every order, so it owes nothing to the one that SO drew
        assert_mean_is_below(gaps(problem, optimum, 8, order=order, batch_size=b, epochs=10, step_size=run.steps[0]), bound)
    assert bound < theory.bound_smooth(problem.n, b, steps=[1.0 / (problem.n * c.L)] * 10, ltil=c.L,
                                       distance=optimum.distance, sigma=optimum.sigma)  # fmt: skip


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    loss=st.sampled_from(SMOOTH),
    alpha=st.sampled_from([0.01, 0.5]),
    n=st.integers(2, 20),
    data=st.data(),
)
def test_theorem_2_any_given_order(seed, loss, alpha, n, data):
    rng = np.random.default_rng(seed)
    b, epochs = data.draw(st.integers(1, n)), data.draw(st.integers(1, 8))
    problem, _ = some_problem(rng, n, 3, loss, alpha=alpha, sample_weight=rng.random(n) + 0.2)
    order = rng.permutation(n)
    optimum = theory.measure(problem)
    c = rs.constants(problem, batch_size=b, order=order, tol=1e-8)
    steps = (c.step_size_limit * rng.uniform(0.3, 1.0, epochs)).tolist()
    run = rs.minimize(problem, order=order, batch_size=b, step_size=steps, epochs=epochs)
    bound = theory.THEOREM_2.bound(gather(problem, run.rule, c, optimum, epochs=epochs), steps)
    assert -1e-9 <= run.f - optimum.f <= bound * (1 + 1e-9)
    assert rs.Guarantee.of(problem, run, optimum, c).bound <= bound


@pytest.mark.parametrize(("name", "loss"), [("breast_cancer", "logistic"), ("diabetes", "squared")])
@pytest.mark.parametrize("b", [1, 10, 64])
def test_theorem_2_on_real_data_even_sorted_by_label(name, loss, b):
    problem = real_problem(name, loss, alpha=1e-2)
    optimum = theory.measure(problem)
    for order in ("ig", np.argsort(problem.y, kind="stable")):
        run = rs.minimize(problem, order=order, batch_size=b, epochs=10)
        guarantee = rs.Guarantee.of(problem, run, optimum)
        of_2 = theory.THEOREM_2.bound(facts_of(problem, run, optimum), run.steps)
        assert run.f - optimum.f <= guarantee.bound <= of_2 < np.inf


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6), loss=st.sampled_from(LIPSCHITZ), order=st.sampled_from(["rr", "so", "ig"]), n=st.integers(2, 15),
    data=st.data(),
)  # fmt: skip
def test_theorem_3_lipschitz_losses_in_any_order_at_any_step(seed, loss, order, n, data):
    rng = np.random.default_rng(seed)
    b, epochs = data.draw(st.integers(1, n)), data.draw(st.integers(1, 8))
    problem, _ = some_problem(rng, n, 3, loss, sample_weight=rng.random(n) + 0.2)
    optimum = theory.measure(problem)
    c = rs.constants(problem, batch_size=b, order="rr" if order != "ig" else "ig", permutations=200, tol=1e-6)
    steps = (10.0 ** rng.uniform(-3, 0) * rng.uniform(0.3, 1.0, epochs)).tolist()
    bound = theory.bound_lipschitz(n, b, steps=steps, gbar=c.gbar * 1.02, distance=optimum.distance)  # 2 % for the sample of gbar
    run = rs.minimize(problem, order=order, batch_size=b, step_size=steps, epochs=epochs, seed=seed)
    promised = rs.Guarantee.of(problem, run, optimum)  # which is for this run, and not for the mean
    assert (promised.theorem, promised.in_expectation) == (3, False)
    assert run.f - optimum.f <= promised.bound + 1e-6
    seeds = 1 if order == "ig" else 12
    measured = gaps(problem, optimum, seeds, order=order, batch_size=b, step_size=steps, epochs=epochs)
    if seeds == 1:
        assert -1e-6 <= measured[0] <= bound + 1e-6
    else:
        assert measured.mean() - 3 * measured.std(ddof=1) / np.sqrt(seeds) <= bound + 1e-6


@pytest.mark.parametrize("order", ["rr", "so", "ig"])
def test_theorem_3_on_real_data(order):
    problem = real_problem("diabetes", "absolute")
    optimum = theory.measure(problem)
    for b in (1, 20):
        run = rs.minimize(problem, order=order, batch_size=b, epochs=10, optimum=optimum)
        within = facts_of(problem, run, optimum).lipschitz
        bound = rs.Guarantee.of(problem, run, optimum).bound
        best = 2 * np.sqrt(b / theory.beta(442, b)) * (within.hat * within.til) ** 0.25 * optimum.distance / np.sqrt(10)
        assert bound == pytest.approx(best)
        measured = gaps(problem, optimum, 5, order=order, batch_size=b, epochs=10, step_size=run.steps[0])
        assert measured.mean() <= bound


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), n=st.integers(2, 12), order=st.sampled_from(["rr", "so", "ig"]), data=st.data())
def test_theorems_4_and_5_general_sums_of_quadratics(seed, n, order, data):
    """f_i(x) = (x - c_i)' Q_i (x - c_i) / 2 is ||Q_i||-smooth and no linear predictor."""
    rng = np.random.default_rng(seed)
    b, d, epochs = data.draw(st.integers(1, n)), 3, 5
    roots = rng.standard_normal((n, d, d))
    Q = roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(d)
    centres = rng.standard_normal((n, d))
    L = np.linalg.norm(Q, 2, axis=(1, 2))
    best = np.linalg.solve(Q.sum(axis=0), np.einsum("nij,nj->i", Q, centres))

    def f(x):
        return float(np.mean([0.5 * (x - c) @ q @ (x - c) for q, c in zip(Q, centres, strict=True)]))

    def grad(x, batch):
        return np.einsum("nij,nj->i", Q[batch], x - centres[batch])

    at_best = np.einsum("nij,nj->ni", Q, best - centres)
    sigma, distance = np.sqrt(np.mean(np.sum(at_best**2, axis=1))), float(np.linalg.norm(best))
    dual_norm = np.sqrt(np.sum(np.sum(at_best**2, axis=1) / L))
    c = rs.constants(smoothness=L, batch_size=b, order="ig", tol=1e-8)
    lhat, ltil = (c.lhat_max, c.ltil_max) if order == "ig" else (c.hat_bound, c.til_bound)
    step = theory.step_size_limit(n, b, lhat, ltil)
    runs = [
        rs.minimize_sum(grad, L, n, np.zeros(d), order=order, batch_size=b, step_size=step, epochs=epochs, seed=s)
        for s in range(1 if order == "ig" else 12)
    ]
    measured = np.array([f(run.x) - f(best) for run in runs])
    if order == "ig":
        bound = theory.bound_ig(
            n, b, steps=runs[0].steps, lhat=lhat, ltil=ltil, distance=distance, sigma=sigma, dual_norm=dual_norm
        )
        assert measured[0] <= bound * (1 + 1e-9)
    else:
        bound = theory.bound_smooth(n, b, steps=runs[0].steps, ltil=ltil, distance=distance, sigma=sigma)
        assert_mean_is_below(measured, bound)


def test_the_larger_step_needs_fewer_epochs_on_real_data():
    """Steps sqrt(L/Lhat) times larger than 1/(nL) ones (up to sqrt 2), and fewer epochs to a fixed gap."""
    problem = real_problem("breast_cancer", "logistic", alpha=1e-2)
    optimum = theory.measure(problem)
    c = rs.constants(problem, permutations=20)
    textbook = 1.0 / (problem.n * c.L)
    assert c.step_size_limit / textbook == pytest.approx(np.sqrt(c.L / c.lhat_max / 2), rel=1e-6)
    assert c.step_size_limit > 5 * textbook
    target = 0.3 * (problem.objective(np.zeros(30)) - optimum.f)

    def epochs_needed(step):
        run = rs.minimize(problem, step_size=step, epochs=2000)
        return next(e.epoch for e in run.history if e.f - optimum.f <= target)

    assert epochs_needed(c.step_size_limit) < epochs_needed(textbook) / 4
