"""The plan: its numbers are those of constants and theory, its recommendation follows from them, its warnings from the data."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer

import reshuffle as rs
from reshuffle import theory
from reshuffle.planning import batch_grid


@pytest.fixture(scope="module")
def scaled():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_every_choice_is_what_constants_and_theory_say(scaled):
    problem = rs.Problem(*scaled, alpha=1e-2)
    optimum = theory.measure(problem)
    plan = rs.plan(problem, eps=1e-2, permutations=4, seed=3, optimum=optimum)
    assert [choice.batch_size for choice in plan.choices] == batch_grid(569) == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 569]
    for choice in plan.choices[::3]:
        c = rs.constants(problem, batch_size=choice.batch_size, permutations=4, seed=3)
        assert (choice.hat, choice.til, choice.step_size_limit) == (c.lhat_max, c.ltil_max, c.step_size_limit)
        steps = [choice.step_size] * choice.epochs
        bound = theory.bound_smooth(569, c.batch_size, steps=steps, ltil=c.ltil_max, distance=optimum.distance, sigma=optimum.sigma)
        assert bound <= 1e-2 * (1 + 1e-9)
        assert choice.step_size <= choice.step_size_limit
        assert choice.evaluations == 569 * choice.epochs


def test_the_recommendation_is_the_smallest_batch_near_the_fewest_evaluations_and_keeps_its_promise(scaled):
    problem = rs.Problem(*scaled, alpha=1e-1)
    plan = rs.plan(problem, eps=0.05)
    fewest = min(choice.evaluations for choice in plan.choices)
    near = [choice for choice in plan.choices if choice.evaluations <= 1.1 * fewest]
    assert plan.recommended == near[0]
    best = plan.recommended
    run = rs.minimize(problem, batch_size=best.batch_size, step_size=best.step_size, epochs=best.epochs, evaluate_every=best.epochs)
    assert run.f - theory.measure(problem).f <= 0.05
    assert plan.full_gradient_evaluations == pytest.approx(
        569 * rs.constants(problem, order="ig").full_gradient_constant * plan.distance**2 / 0.1, rel=1e-3
    )


def test_a_lipschitz_loss_is_planned_by_theorem_3():
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.standard_normal((60, 3)), rng.standard_normal(60), loss="absolute")
    plan = rs.plan(problem, eps=0.1)
    best = plan.recommended
    assert best.step_size_limit is None
    c = rs.constants(problem, batch_size=best.batch_size, permutations=10)
    assert best.epochs == theory.epochs_for(0.1, 60, best.batch_size, gbar=c.gbar, distance=plan.distance)
    with pytest.raises(ValueError, match="no theorem covers"):
        rs.plan(rs.Problem(problem.X, problem.y, loss="absolute", alpha=0.1))


def test_it_is_ten_lines_and_json(scaled):
    plan = rs.plan(rs.Problem(*scaled, alpha=1e-2))
    assert len(str(plan).splitlines()) <= 10
    assert str(plan).startswith(f"train with   batch size {plan.recommended.batch_size}, step size")
    again = json.loads(json.dumps(plan.to_dict()))
    assert again["recommended"]["batch_size"] == plan.recommended.batch_size
    assert again["order"] == "rr"


def warnings_of(X, y, names=None):
    return " | ".join(rs.plan(rs.Problem(X, y, alpha=0.1), permutations=1, feature_names=names).warnings)


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
    assert "the labels are sorted in the file" in warnings_of(X, np.sort(y))


def test_mistakes_are_named(scaled):
    problem = rs.Problem(*scaled)
    for eps in (0.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="eps="):
            rs.plan(problem, eps=eps)
    with pytest.raises(ValueError, match="permutations=0"):
        rs.plan(problem, permutations=0)
    with pytest.raises(ValueError, match="has constants but no values"):
        rs.plan(rs.Problem(scaled[0], loss="unit"))
