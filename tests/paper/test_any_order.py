"""Theorems 6, 7 and 8: the prefix discrepancy of an order by its definition, and bounds that no problem, order or steps break.

`RESHUFFLE_EXAMPLES=10000 pytest -s tests/paper/test_any_order.py` tries as many problems as that and prints the largest ratios of
what was measured to what was promised.
"""

import os
from itertools import permutations

import numpy as np
import pytest
from hypothesis import event, given, settings, target
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle import theory
from reshuffle.orders import make_order
from reshuffle.orders.prefixes import of_epochs as discrepancy
from tests.oracle import batch_constant, ordered_constant, shuffled_sgd
from tests.solver.test_epochs import some_problem

SMOOTH = ["squared", "logistic", "smoothed_hinge:0.5", "squared_hinge", "huber:0.7"]
EXAMPLES = int(os.environ.get("RESHUFFLE_EXAMPLES", "200"))


def sample_gradients(problem, A, x):
    """grad f_i(x), one row each, from the loss as it is written."""
    intercept = problem.fit_intercept
    rows = np.column_stack([A, np.ones(len(A))]) if intercept else A
    slopes = [problem.loss.derivative(z, y, problem.loss.parameter) for z, y in zip(rows @ x, problem.y, strict=True)]
    shrunk = np.r_[np.ones(A.shape[1]), np.zeros(int(intercept))]
    return (problem.sample_weight * np.array(slopes))[:, None] * rows + problem.alpha * shrunk * x


def by_definition(g, order, b):
    n = len(g)
    before = [g[order[:start]].sum(axis=0) for start in range(0, n, b)]
    return sum(P @ P for P in before) / (n * b)


# --- the discrepancy


@given(
    seed=st.integers(0, 10**6), loss=st.sampled_from(SMOOTH), kind=st.sampled_from(["dense", "csr", "float32", "csr32"]),
    alpha=st.sampled_from([0.0, 0.3]), intercept=st.booleans(), n=st.integers(1, 30), data=st.data(),
)  # fmt: skip
def test_the_discrepancy_is_that_of_the_definition_at_any_point(seed, loss, kind, alpha, intercept, n, data):
    rng = np.random.default_rng(seed)
    b = data.draw(st.integers(1, n))
    problem, A = some_problem(rng, n, 4, loss, kind, alpha=alpha, fit_intercept=intercept, sample_weight=rng.random(n) + 0.1)
    x = rng.standard_normal(problem.dimension)
    g = sample_gradients(problem, A, x)
    several = [rng.permutation(n) for _ in range(3)]
    close = {"rel": 1e-9, "abs": 1e-9 * float(np.sum(g**2))}
    one = discrepancy(problem, x, make_order(several[0], n, 0), b, epochs=5)
    assert one == pytest.approx(by_definition(g, several[0], b), **close)
    each = discrepancy(problem, x, make_order(several, n, 0), b, epochs=2)
    assert each == pytest.approx([by_definition(g, order, b) for order in several[:2]], **close)
    rr = make_order("rr", n, seed)
    drawn = discrepancy(problem, x, rr, b, epochs=3)
    assert drawn == pytest.approx([by_definition(g, rr.permutation(k), b) for k in range(3)], **close)
    total = rs.FiniteSum(lambda x, batch: sample_gradients(problem, A, x)[batch].sum(axis=0), 1.0, n)
    assert discrepancy(total, x, make_order(several[0], n, 0), b, epochs=5) == pytest.approx(one, **close)


@pytest.mark.parametrize("n", [2, 5, 6])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_its_mean_over_all_orders_and_its_largest(n, loss):
    rng = np.random.default_rng(n)
    problem, _ = some_problem(rng, n, 2, loss, alpha=0.2, sample_weight=rng.random(n) + 0.3)
    optimum = theory.measure(problem)
    every = list(permutations(range(n)))
    for b in range(1, n + 1):
        R = np.array([discrepancy(problem, optimum.x, make_order(np.array(p), n, 0), b, 1) for p in every])
        assert R.mean() == pytest.approx(optimum.sigma**2 * theory.variance_factor(n, b), rel=1e-7, abs=1e-15)
        assert R.max() <= theory.worst_discrepancy(n, b, optimum.sigma) * (1 + 1e-7) + 1e-15
    assert discrepancy(problem, optimum.x, make_order("ig", n, 0), n, 1) == 0.0


@pytest.mark.parametrize("b", [1, 3, 4])
def test_the_largest_discrepancy_is_attained_by_none_but_nearly_by_two_camps(b):
    """Half of the gradients +1, half -1, the one half first: P_s = s up to n/2, and |P_s|^2 <= s (n - s) by half at worst."""
    n = 1200
    y = np.r_[np.ones(n // 2), -np.ones(n // 2)]
    problem = rs.Problem(np.ones((n, 1)), y, loss="squared")
    optimum = theory.measure(problem)
    worst = theory.worst_discrepancy(n, b, optimum.sigma)
    R = discrepancy(problem, optimum.x, make_order("ig", n, 0), b, 1)
    assert 0.49 * worst < R <= worst
    alternating = np.arange(n).reshape(2, -1).T.ravel()
    assert discrepancy(problem, optimum.x, make_order(alternating, n, 0), b, 1) < 1e-2 * worst


# --- what theorems rest on


@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), data=st.data())
def test_constants_and_epochs_are_those_of_the_definitions(seed, n, data):
    """The guarantee of a run rests on Lhat and Ltil of its order, on R and on Algorithm 1: all four by brute force, short last
    batches among them. Runs measure their constants to 1e-4.
    """
    rng = np.random.default_rng(seed)
    b = data.draw(st.integers(1, n))
    loss, alpha = data.draw(st.sampled_from(SMOOTH)), data.draw(st.sampled_from([0.01, 0.5]))
    weights = rng.random(n) + 0.2
    problem, A = some_problem(rng, n, 3, loss, alpha=alpha, sample_weight=weights)
    order, optimum = rng.permutation(n), theory.measure(problem)
    run = rs.minimize(problem, order=order, batch_size=b, epochs=3)
    L = problem.loss.smoothness * weights
    m = -(-n // b)
    hat = ordered_constant(A, L, order, b) + alpha * np.linalg.norm(np.minimum.outer(range(1, m + 1), range(1, m + 1)), 2) / m**2
    til = batch_constant(A, L, order, b) + alpha
    assert run.constants.lhat[0] == pytest.approx(hat, rel=1e-4)
    assert run.constants.ltil[0] == pytest.approx(til, rel=1e-4)
    step = np.sqrt(b / (m * n)) / np.sqrt(2 * hat * til)
    assert run.steps == pytest.approx([step] * 3, rel=1e-4)
    ends, _ = shuffled_sgd(A, problem.y, problem.loss, [order] * 3, b, run.steps, np.zeros(3), weights=weights, alpha=alpha)
    np.testing.assert_allclose(run.x, np.mean(ends, axis=0), rtol=1e-8, atol=1e-10)
    options = {"order": order, "batch_size": b, "step_size": run.steps, "epochs": 3}
    general = rs.minimize_sum(lambda x, batch: sample_gradients(problem, A, x)[batch].sum(axis=0), 1.0, n, np.zeros(3), **options)
    np.testing.assert_allclose(general.x, run.x, rtol=1e-8, atol=1e-10)
    R = by_definition(sample_gradients(problem, A, optimum.x), order, b)
    bound = b * optimum.distance**2 / (2 * n * step * 3) + step**2 * til * R
    guarantee = rs.Guarantee.of(problem, run, optimum)
    assert guarantee.bound <= bound * (1 + 1e-3)
    assert guarantee.theorem in (2, 6)
    if guarantee.theorem == 6:
        assert guarantee.bound == pytest.approx(bound, rel=1e-3)


# --- the bounds


class Ratios(dict):
    """The largest of what was measured over what was promised."""

    def note(self, name, gap, bound):
        ratio = float(max(gap, 0.0) / bound)
        self[name] = max(self.get(name, 0.0), ratio)
        return ratio


@pytest.fixture(scope="module")
def ratios():
    found = Ratios()
    yield found
    print(f"\nlargest ratios of {EXAMPLES} problems:", {name: round(value, 4) for name, value in sorted(found.items())})


def an_order(rng, kind, problem, g):
    n = problem.n
    if kind == "random":
        return rng.permutation(n)
    if kind == "sorted by label":
        return np.argsort(problem.y, kind="stable")
    along = g @ np.linalg.svd(g - g.mean(axis=0), full_matrices=False)[2][0]  # the longest sums, one way or the other
    return np.argsort(along if rng.random() < 0.5 else -along)


@settings(max_examples=EXAMPLES)
@given(
    seed=st.integers(0, 10**9), loss=st.sampled_from(SMOOTH), alpha=st.sampled_from([1e-3, 0.03, 1.0]), intercept=st.booleans(),
    orders=st.sampled_from(["random", "sorted by label", "adversarial", "mixed"]), n=st.integers(2, 24), d=st.integers(1, 5),
    epochs=st.integers(1, 10), equal=st.booleans(), at_the_limit=st.booleans(), data=st.data(),
)  # fmt: skip
def test_no_bound_is_broken(ratios, seed, loss, alpha, intercept, orders, n, d, epochs, equal, at_the_limit, data):
    rng = np.random.default_rng(seed)
    b = data.draw(st.integers(1, n), label="batch size")
    weights = np.ones(n) if equal else np.exp(rng.standard_normal(n))
    kind = data.draw(st.sampled_from(["dense", "csr"]), label="storage")
    problem, A = some_problem(rng, n, d, loss, kind, alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    x0 = data.draw(st.sampled_from([0.0, 0.1, 10.0]), label="start") * rng.standard_normal(problem.dimension)
    optimum = theory.measure(problem, x0)
    if optimum.error > 1e-10 * (1.0 + abs(optimum.f)):  # an intercept alone may leave the minimiser out of reach
        event("no optimum")
        return
    kinds = ["random", "sorted by label", "adversarial"]
    g = sample_gradients(problem, A, optimum.x)
    visited = [an_order(rng, rng.choice(kinds) if orders == "mixed" else orders, problem, g) for _ in range(epochs)]
    c = rs.constants(problem, order=visited, batch_size=b, tol=1e-10)
    limits = [theory.step_size_limit(n, b, hat, til) for hat, til in zip(c.hat, c.til, strict=True)]
    steps = [limit * (1.0 if at_the_limit else rng.uniform(0.05, 1.0)) for limit in limits]
    R = discrepancy(problem, optimum.x, make_order(visited, n, 0), b, epochs)
    numbers = {"steps": steps, "distance": optimum.distance, "noise": [til * r for til, r in zip(c.til, R, strict=True)]}
    slack = 1e-11 * (1.0 + abs(optimum.f))

    def check(name, measured, bound):
        target(ratios.note(name, measured - slack, bound + slack), label=name)
        assert measured <= bound * (1 + 1e-9) + slack

    def run(average):
        return rs.minimize(
            problem, order=visited, batch_size=b, step_size=steps, epochs=epochs, x0=x0, average=average, evaluate_every=epochs
        )

    check("Theorem 6", run("epoch").f - optimum.f, theory.bound_with_noise(n, b, **numbers))
    if not intercept:
        weighted = theory.bound_weighted(n, b, mu=alpha, **numbers)
        check("Theorem 7", run("weighted").f - optimum.f, weighted)
        last = run("last")
        gap, square = theory.bound_last(n, b, mu=alpha, full=c.full_gradient_constant * (1 + 1e-9), **numbers)
        check("Theorem 8", last.f - optimum.f, gap)
        check("Theorem 8, |x_K - x*|^2", float(np.sum((last.last - optimum.x) ** 2)), square)


@pytest.mark.parametrize(("n", "b"), [(1, 1), (7, 2), (6, 3)])
def test_the_part_from_the_distance_is_as_small_as_it_can_be(n, b):
    """A slope of one until the minimum: the average of the way there lies half-way, which is all that is promised."""
    problem = rs.Problem(np.ones((n, 1)), np.full(n, 3.0), loss="huber:1e-4")
    optimum = theory.measure(problem)
    slope = 1e-4  # of huber far from zero
    c = rs.constants(problem, order="ig", batch_size=b)
    step = min(c.step_size_limit, 3.0 / 400 * b / n / slope)
    epochs = round(3.0 / (n * step / b * slope))
    run = rs.minimize(problem, order="ig", batch_size=b, step_size=step, epochs=epochs, evaluate_every=epochs)
    guarantee = rs.Guarantee.of(problem, run, optimum)
    assert guarantee.theorem == 6
    assert 0.9 * guarantee.bound < run.f - optimum.f <= guarantee.bound
