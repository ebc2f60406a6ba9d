"""Many alphas along a path: the solutions of single fits, certified one by one, in whatever order the alphas come."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.losses import LOSSES
from reshuffle.rows.memory import DenseRows
from reshuffle.solver.certified import alpha_max, baseline, solve
from reshuffle.solver.certified.progress import Neighbour
from tests.solver.certified.test_solve import KINKED, NAMES, problem


@pytest.fixture
def hessians(monkeypatch):
    """Of how many rows each Hessian was formed."""
    formed, form = [], DenseRows._hessian
    monkeypatch.setattr(DenseRows, "_hessian", lambda self, c, *a: formed.append(c.size) or form(self, c, *a))
    return formed


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_alpha_reaches_the_minimum_of_a_fit_of_its_own(name, intercept):
    p = problem(name, n=900, d=6, intercept=intercept, weighted=True)
    alphas = [0.3, 0.01, 0.1, 0.03]
    found = rs.path(p, alphas, tol=1e-6)
    assert found.converged
    np.testing.assert_array_equal(found.alphas, alphas)
    for alpha, one in zip(alphas, found.solutions, strict=True):
        here = p.replace(alpha=alpha)
        alone = solve(here, tol=1e-9, max_iter=3000)
        assert one.f == pytest.approx(here.objective(one.x), rel=1e-12)
        assert one.f - alone.f + alone.gap >= -1e-12
        assert one.f - alone.f <= one.gap + 1e-12
        assert one.gap <= 1e-6 * (baseline(here).f - one.f) + 1e-15


def test_a_path_takes_fewer_passes_than_its_fits():
    p = problem("logistic", n=3000, d=400, alpha=1.0)
    alphas = np.logspace(-1, -2, 10)
    along = sum(len(one.history) for one in rs.path(p, alphas, tol=1e-5).solutions)
    alone = sum(len(solve(p.replace(alpha=alpha), tol=1e-5).history) for alpha in alphas)
    assert along < 0.9 * alone


def test_every_alpha_of_a_path_takes_one_step_and_hardly_any_a_hessian(hessians):
    p = problem("logistic", n=3000, d=30)
    alphas = np.logspace(-1, -3, 20)
    found = rs.path(p, alphas)
    assert [len(one.history) for one in found.solutions[1:]] == [1] * 19
    assert hessians.count(3000) <= 3
    along = len(hessians)
    for alpha in alphas:
        solve(p.replace(alpha=alpha))
    assert len(hessians) - along >= 20


@pytest.mark.parametrize("name", [name for name in NAMES if name not in KINKED])
@pytest.mark.parametrize(("n", "d"), [(900, 6), (230, 300), (40, 90)])
def test_whatever_a_neighbour_leaves_the_fits_after_it_are_certified(name, n, d):
    """A Hessian of other data, much too large or nothing at all, and an f that is nowhere near; with Newton's method, dual passes
    and the span of few rows to fall back on.
    """
    p = problem(name, n=n, d=d, alpha=0.01, intercept=True, weighted=True)
    alone, start = solve(p, tol=1e-9), baseline(p)
    other = np.cov(np.random.default_rng(1).standard_normal((p.dimension, 2 * p.dimension)))
    nearby = alone.x + 0.1 * np.random.default_rng(2).standard_normal(p.dimension)
    for x0 in (nearby, 100.0 * nearby):
        for H in (n * other, 1e8 * other, 0.0 * other):
            for f in (np.inf, -1e6, 1e6):
                found = solve(p, tol=1e-4, x0=x0, neighbour=Neighbour(f, H))
                assert found.converged
                assert found.f == pytest.approx(p.objective(found.x), rel=1e-12)
                assert found.gap <= 1e-4 * (start.f - found.f) * (1.0 + 1e-9) + 1e-12
                assert found.f - alone.f + alone.gap >= -1e-12
                assert found.f - alone.f <= found.gap + 1e-12


def test_a_step_with_the_hessian_of_another_alpha_is_that_of_its_own(hessians):
    """Only alpha I differs, and that is put right: one iteration solves for the minimum of a quadratic, however far alpha moved."""
    p = problem("squared", n=2000, d=20, intercept=True)
    left = Neighbour()
    solve(p.replace(alpha=10.0), tol=1e-3, x0=np.zeros(p.dimension), neighbour=left)
    products, times = [], DenseRows.curved_product
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DenseRows, "curved_product", lambda self, *a: products.append(1) or times(self, *a))
        found = solve(p.replace(alpha=1e-4), tol=1e-9, x0=np.zeros(p.dimension), neighbour=left)
    assert found.relative_gap <= 1e-9
    assert (len(found.history), len(hessians), len(products)) == (1, 1, 1)


@pytest.mark.parametrize("name", ["logistic", "hinge", "squared"])
def test_a_path_near_another_finds_its_own_minima_and_smooth_ones_without_a_hessian(name, hessians):
    p = problem(name, n=2000, d=30, alpha=1.0, intercept=True)
    alphas = np.logspace(-1, -4, 8)
    weights = np.ones(p.n)
    weights[:200] = 0.0
    fold, whole = p.reweighted(weights * p.n / weights.sum()), rs.path(p, alphas, tol=1e-5)
    hessians.clear()
    near = rs.path(fold, 8, tol=1e-5, near=whole)
    assert name == "hinge" or not hessians
    alone = rs.path(fold, alphas, tol=1e-5)
    assert name == "hinge" or hessians
    np.testing.assert_array_equal(near.alphas, alphas)
    assert near.converged
    assert np.all(near.f - near.gap <= alone.f)
    assert np.all(alone.f - alone.gap <= near.f)
    passes = [sum(len(one.history) for one in path.solutions) for path in (near, alone)]
    assert name == "hinge" or passes[0] <= passes[1]


@pytest.mark.parametrize(("n", "d"), [(230, 300), (300, 550), (700, 550), (40, 90)])
def test_a_fold_of_any_shape_is_certified_and_has_its_own_minimum(n, d):
    """By dual values, by Newton steps with a Hessian, with its diagonal, and from the span of few rows."""
    p = problem("logistic", n=n, d=d, intercept=True)
    alphas, kept = [0.1, 0.03, 0.01], np.arange(n) % 5 > 0
    fold = p.reweighted(np.where(kept, n / kept.sum(), 0.0))
    near, alone = rs.path(fold, alphas, tol=1e-5, near=rs.path(p, alphas, tol=1e-5)), rs.path(fold, alphas, tol=1e-8)
    assert near.converged
    assert np.all(near.f - alone.f + alone.gap >= -1e-12)
    assert np.all(near.f - alone.f <= near.gap + 1e-12)


def test_a_path_leaves_that_of_which_it_is_near_as_it_was():
    p = problem("logistic", n=400, d=5)
    whole = rs.path(p, [0.1, 0.01])
    left, x = replace(whole.neighbour), whole.x
    rs.path(p.reweighted(np.linspace(0.1, 1.9, p.n)), near=whole)
    assert whole.neighbour.hessian is left.hessian
    assert whole.neighbour.f == left.f == whole.f[-1]
    np.testing.assert_array_equal(whole.x, x)


def test_a_path_of_something_else_is_refused():
    p = problem("logistic", n=50, d=3)
    whole = rs.path(p, [0.1, 0.01])
    for other, alphas in ((p, [0.1, 0.02]), (p.replace(fit_intercept=not p.fit_intercept), [0.1, 0.01])):
        with pytest.raises(ValueError, match="near is a path of other alphas or other features"):
            rs.path(other, alphas, near=whole)


def test_a_fit_from_the_optimum_stops_after_one_look():
    p = problem("logistic", n=3000, d=8)
    assert len(solve(p, tol=1e-4, x0=solve(p, tol=1e-9).x).history) == 1


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(NAMES), seed=st.integers(0, 10**6), intercept=st.booleans(), times=st.floats(1.0, 100.0))
@example(name="absolute", seed=24337, intercept=False, times=16.0)  # where a pass gained more than those before
def test_above_alpha_max_next_to_nothing_is_left_to_gain(name, seed, intercept, times):
    p = problem(name, n=50, d=4, intercept=intercept, seed=seed, weighted=True)
    largest = alpha_max(p)
    start = baseline(p).f
    best = solve(p.replace(alpha=times * largest), tol=1e-6, max_iter=3000)
    assert start - (best.f - best.gap) <= 0.01 * start + 1e-8 * start


def test_alpha_max_is_near_what_it_promises():
    """Half of it would leave more than half a percent: a factor of two in the formula would show."""
    p = problem("squared", n=500, d=3, intercept=True)
    start = baseline(p).f
    left = start - solve(p.replace(alpha=alpha_max(p)), tol=1e-9).f
    assert 0.009 * start <= left <= 0.01 * start


def test_a_grid_goes_down_seven_decades_from_alpha_max():
    p = problem("logistic")
    alphas = rs.path(p, 11, tol=0.1).alphas
    assert alphas[0] == alpha_max(p)
    np.testing.assert_allclose(alphas[:-1] / alphas[1:], 10.0**0.7)
    assert rs.path(p, 1, tol=0.1).alphas.tolist() == [alpha_max(p)]


@pytest.mark.parametrize("name", ["logistic", "hinge", "squared"])
def test_data_that_says_nothing_has_a_grid_too(name):
    y = [1.0, -1.0] if LOSSES[name].task == "classification" else [2.0, 2.0]
    found = rs.path(rs.Problem(np.zeros((2, 3)), y, loss=name, fit_intercept=True), 3)
    assert found.alphas[0] == 1.0
    assert found.converged


@pytest.mark.parametrize(
    ("alphas", "complaint"),
    [
        (0, "alphas=0"),
        (2.5, "alphas=2.5"),
        ([], r"alphas=\[\]"),
        ([0.1, 0.0], "alphas=.*positive"),
        ([[0.1]], "alphas=.*one after the other"),
        ([np.nan], "alphas=.*positive"),
    ],
)
def test_what_is_no_alpha_is_refused(alphas, complaint):
    with pytest.raises(ValueError, match=complaint):
        rs.path(problem("logistic"), alphas)


def test_a_frame_has_a_row_for_each_alpha():
    table = rs.path(problem("logistic"), [0.1, 0.01]).to_frame()
    assert table.index.tolist() == [0.1, 0.01]
    assert (table.relative_gap <= 1e-3).all()
    assert (table.passes >= 1).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("n", "d"), [(90, 4), (30, 50), (40, 600), (230, 300)])
def test_rows_of_weight_zero_that_stay_are_rows_that_are_not_there(name, intercept, n, d):
    """Whichever way the solver goes: Newton, the span of few rows, SDCA."""
    p = problem(name, n=n, d=d, intercept=intercept, alpha=0.1)
    kept = np.arange(n) % 3 > 0
    weights = np.where(kept, n / kept.sum(), 0.0)
    staying, gone = p.reweighted(weights), p.take(np.flatnonzero(kept))
    assert staying.n == n
    assert gone.n == kept.sum()
    x = np.random.default_rng(0).standard_normal(p.dimension)
    assert staying.objective(x) == pytest.approx(gone.objective(x), rel=1e-12)
    first, second = solve(staying, tol=1e-7, max_iter=3000), solve(gone, tol=1e-7, max_iter=3000)
    assert first.converged
    assert -second.gap - 1e-12 <= first.f - second.f <= first.gap + 1e-12
    assert staying.replace(alpha=0.2).n == n


def test_steps_with_kinks_are_solved_more_exactly_as_multipliers_settle():
    """Else these make a single iteration each, of which the certificate asks no more, and never come to the gap."""
    p = problem("epsilon_insensitive", n=230, d=300, intercept=True, alpha=0.1)
    some = p.reweighted(np.where(np.arange(230) % 3 > 0, 230 / 153, 0.0))
    found = solve(some, tol=1e-7, max_iter=300)
    assert found.converged
    assert len(found.history) < 100


def test_the_best_constant_of_a_loss_with_kinks_is_exact():
    """f falls in proportion to how far the intercept is off there, not to its square."""
    p = problem("absolute", n=50, d=4, intercept=True, seed=93, weighted=True)
    order = np.argsort(p.labels)
    middle = p.labels[order][np.searchsorted(np.cumsum(p.sample_weight[order]), 0.5 * p.sample_weight.sum())]
    assert baseline(p).f == pytest.approx(np.mean(p.sample_weight * np.abs(p.labels - middle)), rel=1e-11)
