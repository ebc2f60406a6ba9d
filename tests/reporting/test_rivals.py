"""The advice beside others, and the map of batch sizes and steps: each number is that of a run that anybody can make again."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier, SGDRegressor

import reshuffle as rs
from reshuffle import theory
from reshuffle.reporting import landscape as mapping
from reshuffle.reporting import sentences
from reshuffle.reporting.figures import figures
from reshuffle.solver.race import looks_of


def problem_of(n=90, d=4, *, loss="logistic", sparse=False, weights=None):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    z = X[:, 0] + 0.5 * rng.standard_normal(n) + 0.3
    y = np.where(z > 0, 1.0, -1.0) if loss == "logistic" else z
    return rs.Problem(sp.csr_array(X) if sparse else X, y, loss=loss, alpha=0.01, fit_intercept=True, sample_weight=weights)


@pytest.fixture(scope="module")
def made():
    problem = problem_of()
    return problem, theory.measure(problem), rs.report(problem, tol=1e-2)


def test_each_rival_can_be_run_again(made):
    problem, optimum, report = made
    advice, textbook, full, peer = report.rivals
    told = report.plan.advice
    assert [rival.name for rival in report.rivals][1:] == [
        "the textbook step",
        "full gradient descent",
        "SGDClassifier as it comes",
    ]
    np.testing.assert_allclose(advice.gaps, told.gaps, rtol=1e-12)
    at = {row.batch_size: row for row in report.batches}
    ways = {
        textbook: (told.batch_size, at[told.batch_size].textbook_step),
        full: (problem.n, at[problem.n].step_size),
    }
    for rival, (batch_size, step) in ways.items():
        run = rs.minimize(problem, batch_size=batch_size, step_size=step, epochs=told.epochs, average="last", seed=told.seed)
        np.testing.assert_allclose(rival.gaps[-1], problem.objective(run.x) - optimum.f, rtol=1e-9)
    x = np.zeros(problem.dimension)  # gradient descent, by hand
    for _ in range(told.epochs):
        x = x - at[problem.n].step_size * problem.gradient(x)
    np.testing.assert_allclose(full.gaps[-1], problem.objective(x) - optimum.f, rtol=1e-9)
    model = SGDClassifier(loss="log_loss", alpha=0.01, random_state=np.random.RandomState(told.seed))
    for gap in peer.gaps:
        model.partial_fit(problem.X, problem.labels, classes=[-1.0, 1.0])
        at_model = np.r_[model.coef_.ravel(), model.intercept_]
        np.testing.assert_allclose(gap, problem.objective(at_model) - optimum.f, rtol=1e-9)
    for rival in report.rivals:
        assert len(rival.gaps) == len(rival.seconds) == told.epochs
        assert np.all(np.diff((0.0, *rival.seconds)) > 0.0)


@pytest.mark.parametrize("scale", ["none", "std"])
def test_scikit_learn_gets_the_columns_scaled_and_not_centred_where_they_are_sparse(scale):
    problem = problem_of(loss="squared", sparse=True, weights=np.linspace(0.5, 1.5, 90))
    problem = rs.scale(problem, scale).apply(problem)
    optimum, report = theory.measure(problem), rs.report(problem, tol=1e-2)
    peer = report.rivals[-1]
    assert peer.name == "SGDRegressor as it comes"
    model = SGDRegressor(alpha=0.01, random_state=np.random.RandomState(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in peer.gaps:
            model.partial_fit(problem.X, problem.labels, sample_weight=problem.sample_weight)
    residual = problem.X @ model.coef_ + model.intercept_ - problem.labels
    f = 0.5 * np.mean(problem.sample_weight * residual**2) + 0.005 * model.coef_ @ model.coef_
    np.testing.assert_allclose(peer.gaps[-1], f - optimum.f, rtol=1e-6)


def test_indices_that_scikit_learn_does_not_take_are_made_smaller():
    problem = problem_of(sparse=True)
    wide = problem.X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    peers = [rs.report(problem.replace(X=X), tol=1e-2).rivals[-1] for X in (wide, problem.X)]
    assert peers[0].gaps == pytest.approx(peers[1].gaps, rel=1e-9)
    assert wide.indices.dtype == np.int64


def test_a_loss_that_scikit_learn_has_not_leaves_it_out():
    report = rs.report(problem_of(n=40).replace(loss="smoothed_hinge"), tol=0.05)
    assert [rival.name for rival in report.rivals] == ["the advice", "the textbook step", "full gradient descent"]


def test_every_cell_of_the_map_is_a_run(made):
    problem, optimum, report = made
    drawn, advice = report.landscape, report.plan.advice
    best = advice.in_random_order
    assert best.step_size in drawn.steps
    assert drawn.batch_sizes == (1, 2, 4, 8, 16, 32, 64, 90)
    assert drawn.rows == problem.n
    np.testing.assert_allclose(np.divide(drawn.steps[1:], drawn.steps[:-1]), 4.0)
    for i, j in ((0, 0), (3, 2), (7, 3)):
        way = {"batch_size": drawn.batch_sizes[i], "step_size": drawn.steps[j]}
        looks = looks_of(drawn.epochs)
        values = [
            problem.objective(rs.minimize(problem, **way, epochs=look, average="last", seed=advice.seed).x) - optimum.f
            for look in looks
        ]
        np.testing.assert_allclose(drawn.gaps[i][j], np.mean(values) / advice.gain, rtol=1e-9)


def test_large_data_is_mapped_by_fewer_epochs_and_then_by_a_sample(made, monkeypatch):
    problem, optimum, report = made
    advice, cells = report.plan.advice, len(report.landscape.batch_sizes) * len(report.landscape.steps)
    assert report.landscape.epochs == advice.epochs
    one = cells * mapping.cost(problem)
    monkeypatch.setattr(mapping, "WORK", 2.5 * one)
    assert mapping.landscape(problem, optimum, advice).epochs == 2
    monkeypatch.setattr(mapping, "WORK", 0.5 * one)
    small = mapping.landscape(problem, optimum, advice)
    assert (small.epochs, small.rows) == (1, problem.n // 2)
    assert max(small.batch_sizes) <= small.rows
    assert "sample of 45 of the 90 rows" in figures(replace(report, landscape=small))["landscape"].note


def test_what_diverges_is_said(made):
    *_, report = made
    mine, *others = report.rivals
    gone = [replace(rival, gaps=(None,) * len(rival.gaps)) for rival in others]
    said = sentences.rivals_by_epoch(replace(report, rivals=(mine, *gone)))
    assert said.endswith("the textbook step diverged, full gradient descent diverged and SGDClassifier as it comes diverged.")
    assert sentences.rivals_by_clock(replace(report, rivals=(mine, *gone))) == "All other runs diverged."
    never = replace(others[0], gaps=tuple(1e-30 for _ in mine.gaps), seconds=tuple(2.0 for _ in mine.gaps))
    said = sentences.rivals_by_clock(replace(report, rivals=(mine, never)))
    assert said.startswith("The advice does not come where the textbook step ends after 2 s.")
    drawn = replace(report.landscape, gaps=tuple((None, *row[1:]) for row in report.landscape.gaps))
    assert f"{len(drawn.gaps)} diverged" in sentences.landscape(replace(report, landscape=drawn))
