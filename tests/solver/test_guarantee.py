"""What is promised of a run: by which theorem, when it holds, in which words, and that it was kept."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import reshuffle as rs
from reshuffle import theory
from reshuffle.evidence import constants_for, gather


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.fixture(scope="module")
def ridge(cancer):
    problem = rs.Problem(*cancer, alpha=0.1)
    return problem, theory.measure(problem)


BACKWARDS = np.arange(569)[::-1].copy()


def facts_of(problem, run, optimum):
    found = run.constants or constants_for(problem, run.rule, run.batch_size)
    return gather(problem, run.rule, found, optimum, epochs=run.allowed, visited=len(run.history))


@pytest.mark.parametrize("average", ["epoch", "weighted", "last"])
@pytest.mark.parametrize("order", ["rr", "so", "ig", BACKWARDS, [BACKWARDS, np.arange(569)] * 10])
def test_it_is_the_smallest_promise_for_the_point_that_was_returned(ridge, order, average):
    problem, optimum = ridge
    run = rs.minimize(problem, order=order, batch_size=8, epochs=20, average=average)
    guarantee = rs.Guarantee.of(problem, run, optimum)
    facts = facts_of(problem, run, optimum)
    bounds = {t.number: t.bound(facts, run.steps) for t in theory.theorems_for(problem, run.rule) if t.output == average}
    assert guarantee.bound == min(bounds.values()) == bounds[guarantee.theorem]
    assert guarantee.gap == run.f - optimum.f <= guarantee.bound < np.inf
    assert (guarantee.distance, guarantee.sigma, guarantee.optimum_f) == (optimum.distance, optimum.sigma, optimum.f)
    assert f"(Theorem {guarantee.theorem}, D = " in str(guarantee)
    if average == "epoch":
        assert guarantee.bound < guarantee.prior
    theorem = next(
        t for t in theory.theorems_for(problem, run.rule) if (t.number, t.output) == (guarantee.theorem, average)
        and t.in_expectation == guarantee.in_expectation
    )  # fmt: skip
    known = facts.textbook()
    assert guarantee.textbook == theorem.bound(known, [theorem.step(known, 20)] * 20)


def test_the_discrepancy_of_every_order_that_was_visited_counts(ridge):
    """The same constants, steps and distance: only R tells a bad list of orders from a good one."""
    problem, optimum = ridge
    by_label = np.argsort(problem.y, kind="stable")
    rng = np.random.default_rng(0)
    good = rng.permutation(569)
    c = rs.constants(problem, order=[by_label, good], batch_size=8)
    step = 0.9 * c.step_size_limit

    def promised(orders):
        run = rs.minimize(problem, order=orders, batch_size=8, epochs=4, step_size=step)
        return rs.Guarantee.of(problem, run, optimum, c).bound

    bad, half, fine = promised([by_label] * 4), promised([by_label, good] * 2), promised([good] * 4)
    assert fine < half < bad
    assert half == pytest.approx((fine + bad) / 2, rel=1e-9)
    squares = {name: problem.prefix_norms(optimum.x, order) for name, order in (("bad", by_label), ("good", good))}
    R = {name: values[7:568:8].sum() / (569 * 8) for name, values in squares.items()}
    assert bad - fine == pytest.approx(step**2 * c.til.max() * (R["bad"] - R["good"]), rel=1e-6)


def test_steps_of_ones_own_are_covered_up_to_the_limit(ridge):
    problem, optimum = ridge
    limit = rs.minimize(problem, batch_size=8, epochs=20).steps[0]
    for factor, covered in ((1 / 3, True), (1.0, True), (1.01, False)):
        run = rs.minimize(problem, batch_size=8, epochs=20, step_size=factor * limit)
        assert np.isfinite(rs.Guarantee.of(problem, run, optimum).bound) == covered
    for arguments in ({"step_size": 1.0}, {"average": "suffix"}):
        nothing = rs.Guarantee.of(problem, rs.minimize(problem, epochs=2, **arguments), optimum)
        assert (nothing.bound, nothing.theorem, nothing.textbook) == (np.inf, None, None)
        assert nothing.to_dict()["bound"] is None
        assert "promised     nothing" in str(nothing)


def test_constants_may_be_given_and_an_iterator_needs_none(ridge):
    problem, optimum = ridge
    own = rs.minimize(problem, order=BACKWARDS, step_size=1e-5, epochs=2)
    with_constants = rs.Guarantee.of(problem, own, optimum, rs.constants(problem, order=BACKWARDS))
    assert rs.Guarantee.of(problem, own, optimum) == with_constants
    assert with_constants.bound < np.inf
    own = rs.minimize(problem, order=iter([BACKWARDS] * 2), step_size=1e-5, epochs=2)
    of_any = rs.Guarantee.of(problem, own, optimum)
    assert with_constants.bound < of_any.bound < np.inf
    assert rs.Guarantee.of(problem, own, optimum, rs.constants(problem, order=BACKWARDS)) == of_any  # it may go on otherwise
    assert (of_any.failure, of_any.in_expectation) == (0.0, False)


def test_the_words_say_when_it_holds(ridge):
    problem, optimum = ridge
    in_file = rs.Guarantee.of(problem, rs.minimize(problem, order="ig", epochs=5), optimum)
    assert f"promised     f - min f <= {in_file.bound:.4g} for certain (Theorem" in str(in_file)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 2))
    many = rs.Problem(X, np.where(X[:, 0] + 0.1 * rng.standard_normal(5000) > 0, 1.0, -1.0), alpha=0.1)
    best = theory.measure(many)
    run = rs.minimize(many, batch_size=100, epochs=3)
    likely = rs.Guarantee.of(many, run, best)
    assert likely.failure == 0.01
    said = "on average over orders (with probability 0.99" if likely.in_expectation else "with probability 0.99 (Theorem"
    assert said in str(likely)
    safe = rs.minimize(many, batch_size=100, epochs=3, safe=True)
    assert safe.steps[0] < run.steps[0]
    # one theorem at a time: the mean of random orders, and the orders that were visited
    facts = facts_of(many, run, best)
    for theorem, words in ((theory.THEOREM_1, "on average over orders (with"), (theory.THEOREM_6, "with probability 0.99")):
        assert theory.smallest_bound([theorem], facts, run.steps).holds.startswith(words)
    exact = [rs.Guarantee.of(problem, rs.minimize(problem, order=o, epochs=3), optimum) for o in ("so", [BACKWARDS] * 3)]
    assert all("for certain" in str(guarantee) for guarantee in exact)


def test_earlier_work_is_named_and_labelled(ridge):
    problem, optimum = ridge
    random = rs.Guarantee.of(problem, rs.minimize(problem, batch_size=8, epochs=20), optimum)
    assert random.prior_exact
    assert f"before       f - min f <= {random.prior:.4g} by Mishchenko, Khaled, Richtárik 2020" in str(random)
    in_file = rs.Guarantee.of(problem, rs.minimize(problem, batch_size=8, epochs=20, order="ig"), optimum)
    assert not in_file.prior_exact
    assert f"about {in_file.prior:.4g}, as an order of magnitude, by" in str(in_file)


def test_a_mean_over_orders_says_nothing_of_a_run_that_they_stopped(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 4))
    problem = rs.Problem(X, X[:, 0] + 0.5 * rng.standard_normal(60) > 0, alpha=0.1)
    optimum = theory.measure(problem)
    options = {"batch_size": 8, "epochs": 4000}
    whole, stopped = rs.minimize(problem, **options), rs.minimize(problem, tol=0.3, **options)
    assert stopped.stopped
    guarantee = rs.Guarantee.of(problem, stopped, optimum)
    assert (guarantee.in_expectation, guarantee.theorem) == (False, 6)
    assert guarantee.gap <= guarantee.bound < np.inf
    monkeypatch.setattr(theory.catalogue, "THEOREMS", [theory.THEOREM_1])
    assert rs.Guarantee.of(problem, whole, optimum).in_expectation
    assert rs.Guarantee.of(problem, stopped, optimum).bound == np.inf


def test_the_probability_of_a_run_that_its_orders_stopped_is_that_of_all_epochs_allowed():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 2))
    problem = rs.Problem(X, np.where(X[:, 0] + 0.1 * rng.standard_normal(5000) > 0, 1.0, -1.0), alpha=0.5)
    optimum, options = theory.measure(problem), {"batch_size": 100, "evaluate_every": 10}
    run = rs.minimize(problem, epochs=1000, tol=0.5, **options)
    assert run.stopped
    assert 0 < len(run.history) < run.allowed == 1000
    bound = rs.Guarantee.of(problem, run, optimum).bound
    assert bound < np.inf
    few = rs.minimize(problem, epochs=len(run.history), **options)
    assert few.steps[0] > run.steps[0]  # what so few orders would have allowed, had their number been known
    too_large = rs.minimize(problem, epochs=1000, tol=0.5, step_size=few.steps[0], **options)
    assert too_large.stopped
    assert rs.Guarantee.of(problem, too_large, optimum).bound == np.inf


def test_where_no_theorem_holds_nothing_is_promised(cancer):
    problem = rs.Problem(*cancer, loss="hinge", alpha=0.1)
    run = rs.minimize(problem, step_size=1e-3, epochs=2)
    optimum = theory.measure(rs.Problem(*cancer, alpha=0.1))
    guarantee = rs.Guarantee.of(problem, run, optimum)
    assert (guarantee.bound, guarantee.theorem, guarantee.failure) == (np.inf, None, 0.0)
    assert "promised     nothing" in str(guarantee)


@pytest.mark.parametrize("weights", ["equal", "unequal"])
def test_theorem_3_serves_a_smooth_loss_where_it_promises_less(weights):
    """Steps above the limit of the smooth theorems, which the Lipschitz one allows."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((50, 3))
    y = np.where(X[:, 0] + rng.standard_normal(50) > 0, 1.0, -1.0)
    problem = rs.Problem(X, y, sample_weight=np.ones(50) if weights == "equal" else rng.random(50) + 0.1)
    optimum = theory.measure(problem)
    limit = rs.minimize(problem, order="ig", batch_size=5, epochs=10).steps[0]
    for factor, numbers in ((1.0, (2, 6)), (3.0, (3,))):
        run = rs.minimize(problem, order="ig", batch_size=5, epochs=10, step_size=factor * limit)
        guarantee = rs.Guarantee.of(problem, run, optimum)
        assert guarantee.theorem in numbers
        assert guarantee.gap <= guarantee.bound < np.inf
    c = rs.constants(problem, order="ig", batch_size=5, lipschitz=True)
    want = theory.bound_lipschitz(50, 5, steps=run.steps, gbar=np.sqrt(c.ghat[0] * c.gtil[0]), distance=optimum.distance)
    assert guarantee.bound == pytest.approx(want, rel=1e-6)
    regularised = problem.replace(alpha=1e-3)
    nothing = rs.Guarantee.of(
        regularised, rs.minimize(regularised, order="ig", batch_size=5, epochs=3, step_size=3 * limit), theory.measure(regularised)
    )
    assert nothing.theorem is None


@pytest.mark.parametrize("order", ["rr", "so", "ig"])
def test_a_sum_of_any_functions_has_a_guarantee_too(order):
    """f_i(x) = L_i |x - c_i|^2 / 2, whose minimiser is known."""
    rng = np.random.default_rng(2)
    n, d, b, epochs = 30, 3, 4, 40
    L, centres = rng.random(n) + 0.5, rng.standard_normal((n, d))
    best, x0 = L @ centres / L.sum(), np.full(d, 5.0)

    def grad(x, batch):
        return L[batch] @ (x - centres[batch])

    def f(x):
        return float(np.mean(L / 2 * np.sum((x - centres) ** 2, axis=1)))

    total = rs.FiniteSum(grad, L, n, f)
    optimum = total.optimum(best, x0)
    at_best = L[:, None] * (best - centres)
    assert optimum.distance == pytest.approx(np.linalg.norm(x0 - best))
    assert optimum.sigma == pytest.approx(np.sqrt(np.mean(np.sum(at_best**2, axis=1))))
    assert optimum.dual_norm == pytest.approx(np.sqrt(np.sum(np.sum(at_best**2, axis=1) / L)))
    assert optimum.f == pytest.approx(f(best))
    assert optimum.gradient_norm < 1e-12
    options = {"order": order, "batch_size": b, "epochs": epochs, "objective": f}
    budget = rs.minimize_sum(grad, L, n, x0, step_size="budget", optimum=best, **options)
    facts = facts_of(total, budget, optimum)
    limit = theory.THEOREM_6_GENERAL.step_limit(facts)
    assert budget.steps[0] <= limit * (1 + 1e-12)
    for run in (budget, rs.minimize_sum(grad, L, n, x0, **options)):
        guarantee = rs.Guarantee.of(total, run, optimum)
        assert guarantee.theorem in ((4, 5, 6) if order == "rr" else (5, 6))
        assert guarantee.gap == pytest.approx(f(run.x) - f(best))
        assert guarantee.gap <= guarantee.bound < np.inf
    by_theory = rs.Guarantee.of(total, rs.minimize_sum(grad, L, n, x0, **options), optimum)
    assert rs.Guarantee.of(total, budget, optimum).bound <= by_theory.bound * (1 + 1e-9)
    if order == "ig":
        before = [at_best[:start].sum(axis=0) for start in range(0, n, b)]
        c = rs.constants(smoothness=L, batch_size=b, order="ig")
        R = sum(P @ P for P in before) / (n * b)
        want = theory.bound_with_noise(n, b, steps=budget.steps, distance=optimum.distance, noise=c.til[0] * R)
        assert rs.Guarantee.of(total, budget, optimum).bound == pytest.approx(want)
    silent = rs.FiniteSum(grad, 1.5, n)  # one number for all, no objective
    run = rs.minimize_sum(grad, 1.5, n, x0, order=order, batch_size=b, epochs=3)
    guarantee = rs.Guarantee.of(silent, run, silent.optimum(best, x0))
    assert guarantee.gap is None
    assert "measured" not in str(guarantee)
    assert guarantee.bound < np.inf
