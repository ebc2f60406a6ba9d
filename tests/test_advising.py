"""Advice is what was run: its numbers are those of `minimize` on all rows, relative to what there is to gain, and certified."""

import json

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.datasets import load_breast_cancer

import reshuffle as rs
from reshuffle import advising, theory
from reshuffle.advising import advise, gain_of


@pytest.fixture(scope="module")
def problem():
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return rs.Problem(X, y, alpha=1e-2, fit_intercept=True)


@pytest.fixture(scope="module")
def optimum(problem):
    return theory.measure(problem)


@pytest.fixture(scope="module")
def advice(problem, optimum):
    return advise(problem, optimum, 1e-2 * gain_of(problem, optimum), seed=1)


def test_what_there_is_to_gain_is_measured_from_the_best_constant(problem, optimum):
    def constant(b):
        return problem.objective(np.r_[np.zeros(problem.d), b])

    best = minimize_scalar(constant, bounds=(-5, 5), method="bounded", options={"xatol": 1e-10})
    assert gain_of(problem, optimum) == pytest.approx(best.fun - optimum.f, rel=1e-9)
    without = problem.replace(fit_intercept=False)
    assert gain_of(without, theory.measure(without)) == pytest.approx(np.log(2) - theory.measure(without).f, rel=1e-9)


def test_following_it_is_what_was_run(problem, optimum, advice):
    run = rs.minimize(problem, **advice.arguments)
    assert run.f - optimum.f == pytest.approx(advice.gap, rel=1e-9)
    assert advice.gaps == pytest.approx([epoch.f - optimum.f for epoch in run.history], rel=1e-9)
    assert advice.relative_gap == advice.gap / advice.gain
    assert advice.gap <= advice.certified_gap <= advice.gap + 1e-9
    assert run.gap >= advice.gap * (1 - 1e-9)
    assert advice.rows == advice.n == problem.n


def test_it_reaches_what_was_asked_with_seeds_that_it_has_not_seen(problem, optimum, advice):
    assert advice.reached
    later = [rs.minimize(problem, **{**advice.arguments, "seed": seed}).f - optimum.f for seed in range(100, 110)]
    assert np.median(later) <= 1e-2 * advice.gain


def test_fewer_epochs_would_not_have_done(advice):
    """On no rung before the last but one had every run of any setting arrived."""
    rungs = sorted({setting.epochs for setting in advice.ladder})
    assert advice.epochs == rungs[-1]
    assert not any(setting.worst <= 1e-2 * advice.gain for setting in advice.ladder if setting.epochs in rungs[:-2])


def test_rougher_answers_for_every_batch_size_come_from_the_ladder(advice):
    for b in (1, 32, 569):
        epochs = []
        for tol in (0.3, 0.1, 0.03, 0.01):
            found = advice.of_batch_size(b, tol * advice.gain)
            tried = [s for s in advice.ladder if s.batch_size == b]
            there = [s.epochs for s in tried if s.worst <= tol * advice.gain]
            assert found.epochs == (min(there) if there else max(s.epochs for s in tried))
            assert (found.worst <= tol * advice.gain) == bool(there)
            epochs.append(found.epochs)
        assert epochs == sorted(epochs)
    mine = advice.of_batch_size(advice.batch_size, 1e-2 * advice.gain)
    assert (mine.order, mine.step_size, mine.epochs) == (advice.order, advice.step_size, advice.epochs)
    assert advice.of_batch_size(3, 0.1) is None


def test_every_batch_size_was_measured_and_the_best_random_one_is_among_them(problem, advice):
    random = [setting for setting in advice.settings if setting.order == "rr"]
    assert [setting.batch_size for setting in random] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 569]
    best = advice.in_random_order
    assert best in random
    assert best.gap == min(setting.gap for setting in random if setting.epochs == advice.epochs)
    assert all(setting.relative_gap == pytest.approx(setting.gap / advice.gain) and setting.seconds > 0 for setting in random)
    assert all(setting.rows == problem.n for setting in random)


def test_it_is_json_without_the_ladder(advice):
    told = json.loads(json.dumps(advice.to_dict()))
    assert told["batch_size"] == advice.batch_size
    assert len(told["settings"]) == len(advice.settings)
    assert "ladder" not in told


def test_without_alpha_there_is_no_certificate():
    rng = np.random.default_rng(0)
    problem = rs.Problem(rng.standard_normal((60, 3)), rng.standard_normal(60), loss="squared")
    optimum = theory.measure(problem)
    assert advise(problem, optimum, 0.1, seed=0).certified_gap is None


def test_nothing_is_advised_where_there_is_nothing_to_train():
    problem = rs.Problem(np.zeros((4, 2)), [0, 1, 0, 1])
    assert advise(problem, theory.measure(problem), 1e-3, seed=0) is None


def test_the_order_of_the_file_costs_what_a_run_in_it_says():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 3)) + 1.0
    y = np.where(X @ [1.0, -1.0, 0.5] + rng.standard_normal(600) > 0.5, 1.0, -1.0)
    shuffled = rs.Problem(X, y, alpha=1e-2, fit_intercept=True)
    optimum = theory.measure(shuffled)
    costs = []
    for problem in (shuffled, shuffled.take(np.argsort(y, kind="stable"))):
        advice = advise(problem, optimum, 1e-2 * gain_of(problem, optimum), seed=0)
        costs.append(advice.gap_in_file_order / advice.in_random_order.gap)
        best = advice.in_random_order
        run = rs.minimize(
            problem, order="ig", batch_size=best.batch_size, step_size=best.step_size, epochs=best.epochs, average="last"
        )
        looks = advising.looks_of(best.epochs)
        assert advice.gap_in_file_order == pytest.approx(np.mean([run.history[k - 1].f - optimum.f for k in looks]))
    assert costs[0] < 5.0 < 20.0 < costs[1]


def test_large_data_is_raced_on_a_sample_and_then_on_all_rows(problem, optimum, monkeypatch):
    monkeypatch.setattr(advising, "LARGEST", advising.cost(problem) / 3)
    advice = advise(problem, optimum, 1e-2 * gain_of(problem, optimum), seed=1)
    assert advice.rows == 569 // 3
    assert rs.minimize(problem, **advice.arguments).f - optimum.f == pytest.approx(advice.gap, rel=1e-9)
    whole = [setting for setting in advice.settings if setting.rows == problem.n]
    part = [setting for setting in advice.settings if setting.rows == advice.rows]
    assert {setting.batch_size for setting in part if setting.order == "rr"} <= {1, 2, 4, 8, 16, 32, 64, 128}
    assert len({setting.batch_size for setting in whole}) == 3
    assert advice.in_random_order in whole
