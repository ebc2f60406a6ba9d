"""The plan: its numbers are those of constants and theory, its recommendation follows from them, its warnings from the data."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer

import reshuffle as rs
from reshuffle import theory
from reshuffle.diagnostics import look_at
from reshuffle.evidence import gather
from reshuffle.orders import make_order
from reshuffle.planning import recommend, survey, useless
from reshuffle.solver.race import batch_grid
from reshuffle.wording import count, number


@pytest.fixture(scope="module")
def scaled():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def facts_of(problem, optimum, b, order="rr", **options):
    rule = make_order(order, problem.n, 3)
    c = rs.constants(problem, order=order, batch_size=b, permutations=4, seed=3)
    return gather(problem, rule, c, optimum, epochs=theory.EPOCHS, **options)


@pytest.mark.parametrize("alpha", [1e-2, 0.0])
def test_every_choice_is_what_constants_and_theory_say(scaled, alpha):
    problem = rs.Problem(*scaled, loss="squared", alpha=alpha)
    optimum = theory.measure(problem)
    plan = rs.plan(problem, eps=1e-2, permutations=4, seed=3, optimum=optimum)
    assert [choice.batch_size for choice in plan.choices] == batch_grid(569) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 569]
    rr, ig = (theory.theorems_for(problem, make_order(order, 569, 3)) for order in ("rr", "ig"))
    for choice in plan.choices[::3]:
        facts = facts_of(problem, optimum, choice.batch_size)
        assert (choice.hat, choice.til) == (facts.smooth.hat, facts.smooth.til)
        assert choice.step_size_limit == theory.step_size_limit(569, choice.batch_size, choice.hat, choice.til)
        by_theorem = {theorem: theorem.tightest(facts, 1e-2) for theorem in rr}
        assert choice.epochs == min(epochs for epochs, _ in by_theorem.values())
        [best] = [t for t in rr if (t.number, t.output) == (choice.theorem, choice.average) and by_theorem[t][0] == choice.epochs][
            :1
        ]
        assert best.bound(facts, [choice.step_size] * choice.epochs) <= 1e-2 * (1 + 1e-9)
        assert choice.holds == theory.in_words(best.in_expectation, facts.smooth.failure)
        assert choice.step_size <= choice.step_size_limit
        assert choice.evaluations == 569 * choice.epochs
        in_file = facts_of(problem, optimum, choice.batch_size, "ig")
        assert isinstance(in_file.discrepancy, float)
        assert choice.epochs_in_file_order == min(theorem.tightest(in_file, 1e-2)[0] for theorem in ig)
        assert choice.textbook_epochs == min(theorem.tightest(facts.textbook(), 1e-2)[0] for theorem in rr) >= choice.epochs
    assert {choice.average for choice in plan.choices} <= ({"epoch", "weighted", "last"} if alpha else {"epoch"})


def test_the_recommendation_is_the_smallest_batch_near_the_fewest_evaluations_and_keeps_its_promise(scaled):
    problem = rs.Problem(*scaled, alpha=1e-1)
    plan = rs.plan(problem, eps=0.05)
    fewest = min(choice.evaluations for choice in plan.choices)
    near = [choice for choice in plan.choices if choice.evaluations <= 1.1 * fewest]
    assert plan.promised == near[0]
    best, optimum = plan.promised, theory.measure(problem)
    run = rs.minimize(
        problem, batch_size=best.batch_size, step_size=best.step_size, epochs=best.epochs, evaluate_every=best.epochs,
        average=best.average,
    )  # fmt: skip
    assert run.f - optimum.f <= 0.05
    facts = facts_of(problem, optimum, 1)
    assert plan.full_gradient_evaluations == pytest.approx(theory.gradient_descent(facts, 0.05), rel=1e-3)
    prior, evaluations = theory.prior_work(facts, 0.05)[0]
    assert (plan.prior_work, plan.prior_evaluations, plan.prior_exact) == (prior.work, pytest.approx(evaluations), True)


def test_a_lipschitz_loss_is_planned_by_theorem_3():
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.standard_normal((60, 3)), rng.standard_normal(60), loss="absolute")
    plan = rs.plan(problem, eps=0.1)
    best = plan.promised
    assert best.step_size_limit is None
    c = rs.constants(problem, batch_size=best.batch_size, permutations=10)
    within = theory.within(c, make_order("rr", 60, 0))
    gbar = np.sqrt(within.hat * within.til)
    assert (best.hat, best.til, best.theorem) == (within.hat, within.til, 3)
    assert c.ghat_max <= within.hat * (1 + 1e-6)
    assert c.gtil_max <= within.til * (1 + 1e-6)
    assert best.epochs == theory.epochs_for(0.1, 60, best.batch_size, gbar=gbar, distance=plan.distance)
    assert best.holds == theory.in_words(False, within.failure)
    assert (plan.prior_evaluations, plan.prior_work, plan.prior_exact) == (None, None, False)  # 60 rows are too few for Shamir's
    with pytest.raises(ValueError, match="no theorem covers"):
        rs.plan(rs.Problem(problem.X, problem.y, loss="absolute", alpha=0.1))


def test_theorem_3_plans_for_a_smooth_loss_too_where_it_promises_less():
    """Epochs go with 4 G^2/eps^2 or with L/(sqrt2 eps), and G is 0.01 for this loss, L is 1: the slope is the better thing to know
    until eps is a small part of 1e-4.
    """
    rng = np.random.default_rng(1)
    problem = rs.Problem(rng.standard_normal((40, 2)), 3.0 * rng.standard_normal(40), loss="huber:0.01")
    found = survey(problem, permutations=1, seed=0)
    for eps, numbers in ((3e-3, {3}), (1e-6, {1, 6})):
        one = found.choices(eps)[0]
        assert one.theorem in numbers
        assert (one.step_size_limit is None) == (one.theorem == 3)
        facts = found.facts(1)
        assert one.epochs == min(theorem.tightest(facts, eps)[0] for theorem in found.theorems)
    assert theory.THEOREM_3 in found.theorems


def test_a_probability_is_for_so_many_epochs_and_more_need_what_holds_in_every_order():
    rng = np.random.default_rng(2)
    problem = rs.Problem(rng.standard_normal((30_000, 2)), rng.standard_normal(30_000), loss="squared")
    found = survey(problem, permutations=1, seed=0)
    for eps, sure in ((1e-3, False), (1e-18, True)):
        choice = next(choice for choice in found.choices(eps) if choice.batch_size == 64)
        facts = found.facts(64, safe=sure)
        assert (choice.epochs > theory.EPOCHS) == sure
        assert (choice.hat, choice.til) == (facts.smooth.hat, facts.smooth.til)
        assert ("probability 0.99" in choice.holds) != sure
    assert found.facts(64).smooth.til < found.facts(64, safe=True).smooth.til


def test_strong_convexity_is_used_where_it_is(scaled):
    """Epochs go with log(1/eps) and not with 1/eps, unless an intercept that is not regularised stands in the way."""
    problem = rs.Problem(*scaled, alpha=1e-1)
    found = survey(problem, permutations=1, seed=0)
    coarse, fine = (found.choices(eps)[-1] for eps in (1e-4, 1e-8))  # all rows at once: no noise
    assert fine.theorem in (7, 8)
    assert fine.average in ("weighted", "last")
    assert fine.epochs < 3 * coarse.epochs
    free = survey(problem.replace(fit_intercept=True), permutations=1, seed=0)
    coarse, fine = (free.choices(eps)[-1] for eps in (1e-4, 1e-8))
    assert fine.average == "epoch"
    assert fine.epochs > 5000 * coarse.epochs


def test_a_file_in_its_own_order_is_judged_by_that_order(real_file):
    """a9a as it lies is about as good as random orders; sorted by label it is not."""
    data = rs.load(real_file("a9a"))
    problem = rs.Problem(data.X, data.y, alpha=1e-3)
    optimum = theory.measure(problem)

    def ratio(problem):
        best = recommend(survey(problem, permutations=1, seed=0, optimum=optimum).choices(1e-4))
        return best.epochs_in_file_order / best.epochs

    assert ratio(problem) < 1.5
    assert ratio(problem.take(np.argsort(problem.y, kind="stable"))) > 20


def test_it_says_what_the_order_of_the_file_and_a_buffer_are_worth():
    rng = np.random.default_rng(0)
    X = 1.0 + 0.3 * rng.standard_normal((3000, 4))
    y = np.where(X[:, 0] + 0.3 * rng.standard_normal(3000) > 1.0, 1.0, -1.0)
    problem = rs.Problem(X, y, alpha=1e-1).take(np.argsort(y, kind="stable"))
    optimum = theory.measure(problem)
    plan = rs.plan(problem, eps=1e-2, permutations=1, optimum=optimum)
    for choice in plan.choices[:-1:3]:
        R = rs.orders.discrepancy(problem, "ig", choice.batch_size, x=optimum.x)
        mean = optimum.sigma**2 * theory.variance_factor(problem.n, choice.batch_size)
        assert choice.discrepancy_in_file_order == pytest.approx(R / mean)
    assert plan.choices[-1].discrepancy_in_file_order is None
    best = plan.promised
    assert best.batch_size < problem.n
    smallest = rs.orders.smallest(problem, "buffer", batch_size=best.batch_size, optimum=optimum, measure=False)
    assert plan.smallest_buffer == smallest.parameter > 1
    assert f"buffer       one of {smallest.parameter} rows is promised at most 10 % more epochs than a random order" in str(plan)
    gap = plan.advice.in_random_order.gap
    for file, none in ((1.5 * gap, True), (3.0 * gap, False)):  # what runs deny is not promised beside them
        here = replace(plan, smallest_buffer=1, advice=replace(plan.advice, gap_in_file_order=file))
        assert ("none is needed" in str(here)) == none
    assert plan.advice.gap_in_file_order > 5 * plan.advice.in_random_order.gap
    assert "times the gap of a random order: shuffle" in str(plan)
    kinked = rs.plan(problem.take(np.arange(0, 3000, 30)).replace(loss="hinge", alpha=0.0), eps=0.1, permutations=1)
    assert kinked.smallest_buffer is None
    assert {choice.discrepancy_in_file_order for choice in kinked.choices} == {None}
    assert "buffer" not in str(kinked)


def test_it_says_first_what_to_do_and_what_that_reached_then_what_is_promised(scaled):
    plan = rs.plan(rs.Problem(*scaled, alpha=1e-2), tol=1e-2)
    lines, advice, best = str(plan).splitlines(), plan.advice, plan.promised
    assert len(lines) <= 12
    assert lines[0].startswith("do           ")
    assert f"step size {number(advice.step_size)}, " in lines[0]
    assert lines[0].endswith(f"{advice.epochs} epochs; keep the last iterate")
    assert lines[1].startswith(f"reached      f - min f = {number(advice.gap)}, ")
    assert "of what there is to gain (asked for: " in lines[1]
    assert f"certified: at most {advice.certified_gap:.3g}" in lines[2]
    [promised] = [k for k, line in enumerate(lines) if line.startswith("promised")]
    assert lines[promised].startswith(f"promised     f - min f <= {plan.eps:.3g} after {best.epochs} epochs at batch size ")
    assert lines[promised + 1].strip() == f"{best.holds}, whatever data has these constants (Theorem {best.theorem})"
    again = json.loads(json.dumps(plan.to_dict()))
    assert again["promised"]["batch_size"] == best.batch_size
    assert again["advice"]["batch_size"] == advice.batch_size


def test_eps_is_relative_to_what_there_is_to_gain_unless_it_is_named(scaled):
    problem = rs.Problem(*scaled, alpha=1e-1)
    optimum = theory.measure(problem)
    gain = np.log(2) - optimum.f  # without an intercept the best constant prediction is zero
    plan = rs.plan(problem, tol=0.05, permutations=1, optimum=optimum)
    assert plan.gain == pytest.approx(gain, rel=1e-9)
    assert plan.eps == pytest.approx(0.05 * gain, rel=1e-9)
    assert plan.advice.gap <= plan.eps
    assert rs.plan(problem, permutations=1, optimum=optimum).eps == pytest.approx(1e-3 * gain, rel=1e-9)
    named = rs.plan(problem, eps=plan.eps, permutations=1, optimum=optimum)
    assert (named.eps, named.advice, named.promised) == (plan.eps, plan.advice, plan.promised)


def test_a_promise_of_more_than_a_million_epochs_is_no_promise_and_says_why(scaled):
    X, y = scaled
    rng = np.random.default_rng(0)
    conditioned = rs.Problem(X, y, alpha=1e-7, fit_intercept=True)
    wide = rs.Problem(X * np.logspace(0, 4, X.shape[1]), y, alpha=1e-2)
    noisy = rs.Problem(rng.standard_normal((400, 2)), 100.0 * rng.standard_normal(400), loss="squared", fit_intercept=True)
    for problem, eps, batch, why in (
        (conditioned, 1e-6, -1, "(conditioning)"),
        (wide, 1e-3, 0, "scale them"),
        (noisy, 1e-8, 0, "(noise)"),
    ):
        found = survey(problem, permutations=1, seed=0)
        choice = found.choices(eps)[batch]
        assert choice.epochs > 1_000_000
        assert useless(found, choice, eps).startswith(f"theorems ask for {count(choice.epochs)} epochs, as ")
        assert why in useless(found, choice, eps)
    assert found.choices(10.0)[0].epochs <= 1_000_000
    assert useless(found, found.choices(10.0)[0], 10.0) is None
    plan = rs.plan(rs.Problem(X[:60], y[:60], alpha=1e-7), eps=1e-7, permutations=1)
    assert f"promised     no useful promise: {plan.useless}\n" in f"{plan}\n"


def test_what_was_not_reached_is_said(scaled):
    plan = rs.plan(rs.Problem(scaled[0][:40], scaled[1][:40], alpha=1e-6), tol=1e-12, permutations=1)
    assert not plan.advice.reached
    assert str(plan).splitlines()[1].endswith("the least of all that was tried in 96 epochs")


def warnings_of(X, y, names=None):
    return " | ".join(look_at(rs.Problem(X, y, alpha=0.1), batch_size=1, epochs=10**6, eps=1e-3, feature_names=names))


def test_warnings_name_what_the_data_calls_for():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((400, 4)), np.where(rng.random(400) < 0.5, -1.0, 1.0)
    assert warnings_of(X, y) == ""
    heavy = X.copy()
    heavy[[17, 5]] *= 50.0
    assert "2 rows decide L (largest: " in warnings_of(heavy, y)
    assert "17" in warnings_of(heavy, y)
    wide = X * [1.0, 1.0, 100.0, 1.0]
    said = warnings_of(wide, y, ["age", "height", "income", "weight"])
    assert "feature 2 (income) carries 100 % of the data's squared norm" in said
    assert "times fewer evaluations" in said
    repeated = X.copy()
    repeated[100:200] = repeated[:100]
    assert "100 of the 400 rows repeat another row" in warnings_of(repeated, y)
    constant = np.column_stack([X, np.ones(400), np.zeros(400)])
    for data in (constant, sp.csr_array(constant)):
        assert "2 features are constant (4, 5, from 0)" in warnings_of(data, y)


def test_data_of_zeros_is_planned_at_once():
    plan = rs.plan(rs.Problem(np.zeros((4, 2)), [0, 1, 0, 1]))
    assert (plan.promised.epochs, plan.distance, plan.advice) == (1, 0.0, None)
    assert "already a minimum" in str(plan)


def test_mistakes_are_named(scaled):
    problem = rs.Problem(*scaled)
    for eps in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="eps="):
            rs.plan(problem, eps=eps)
        with pytest.raises(ValueError, match="tol="):
            rs.plan(problem, tol=eps)
    with pytest.raises(ValueError, match="permutations=0"):
        rs.plan(problem, permutations=0)
    with pytest.raises(ValueError, match="has constants but no values"):
        rs.plan(rs.Problem(scaled[0], loss="unit"))
