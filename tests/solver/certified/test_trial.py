"""Few features: when dual passes are tried, what a trial makes of the rest, and that one which fails leaves nothing behind."""

import math
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows.memory import MemoryRows
from reshuffle.solver.certified import baseline, solve, tuning
from reshuffle.solver.certified.progress import Progress
from reshuffle.solver.certified.sdca import fewest_passes, passes_ahead

solving = sys.modules["reshuffle.solver.certified.solve"]  # beside the function, which has the same name


def marks(n=3000, kinds=6, changed=0.0, seed=0):
    """Twenty marks of some kinds, a feature for each: copies of ten species, with some marks changed."""
    rng = np.random.default_rng(seed)
    own, species = rng.integers(10, size=n), rng.integers(kinds, size=(10, 20))
    found = np.where(rng.random((n, 20)) < changed, rng.integers(kinds, size=(n, 20)), species[own])
    columns = (found + kinds * np.arange(20)).astype(np.int32)
    X = sp.csr_array((np.ones(20 * n), columns.ravel(), np.arange(0, 20 * n + 1, 20)), shape=(n, 20 * kinds))
    return X, np.where(own % 2 == 0, 1.0, -1.0)


def started(p, tol=1e-3):
    return Progress(p, np.zeros(p.dimension), baseline(p), tol=tol, max_iter=100, small=False, callback=None)


@pytest.fixture
def calls(monkeypatch):
    """What `solve` calls: a trial of so many passes, which goes on or not, and Newton's method."""
    seen = []
    passes, steps = solving.sdca, solving.newton

    def sdca(*data, worth, **options):
        went_on = passes(*data, worth=worth, **options)
        seen.append("passes" if went_on else "trial")
        return went_on

    monkeypatch.setattr(solving, "sdca", sdca)
    monkeypatch.setattr(solving, "newton", lambda *data, **options: seen.append("newton") or steps(*data, **options))
    return seen


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_rows_that_hardly_disagree_are_fitted_by_passes_alone(calls, loss):
    X, y = marks(changed=0.02)
    found = solve(rs.Problem(X, y, loss=loss, alpha=10.0 / X.shape[0]))
    assert found.converged
    assert calls == ["passes"]


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", "squared", "huber"])
def test_a_trial_that_fails_leaves_nothing_behind(calls, monkeypatch, loss):
    """Labels by chance: every row undoes what others have gained."""
    X, y = marks(changed=0.9)
    p = rs.Problem(X, np.random.default_rng(1).permutation(y), loss=loss, alpha=0.1 / X.shape[0])
    tried = solve(p)
    assert tried.converged
    assert calls == ["trial", "newton"]
    monkeypatch.setattr(tuning, "TRIAL_ENTRIES", p.rows.entries)
    untried = solve(p)
    assert calls[2:] == ["newton"]
    np.testing.assert_array_equal(tried.x, untried.x)
    assert [(epoch.f, epoch.gap) for epoch in tried.history] == [(epoch.f, epoch.gap) for epoch in untried.history]


def test_nothing_is_tried_where_newton_is_cheap_or_a_start_is_known(calls, monkeypatch):
    X, y = marks(changed=0.02)
    p = rs.Problem(X, y, alpha=10.0 / X.shape[0])
    solve(p, tol=1e-12)  # more digits than Newton steps are worth passes
    solve(p.take(np.arange(2000)))  # few numbers
    narrow = np.random.default_rng(0).standard_normal((20_000, 4))
    solve(rs.Problem(narrow, np.where(narrow[:, 0] > 0.0, 1.0, -1.0), alpha=1e-3))
    solve(p, x0=np.full(p.d, 0.01))
    monkeypatch.setattr(MemoryRows, "elsewhere", True)
    solve(p)
    assert calls == ["newton"] * 5


def test_a_trial_is_a_part_of_the_first_pass(monkeypatch):
    visited = []
    epoch = MemoryRows.sdca_epoch
    monkeypatch.setattr(
        MemoryRows, "sdca_epoch", lambda self, visit, *rest: visited.append(visit.copy()) or epoch(self, visit, *rest)
    )
    X, y = marks(changed=0.02)
    p = rs.Problem(X, y, alpha=10.0 / X.shape[0])
    assert solve(p).converged
    assert visited[0].size == math.ceil(min(tuning.TRIAL * p.n, tuning.TRIAL_ROWS * p.d))
    np.testing.assert_array_equal(np.sort(np.concatenate(visited[:2])), np.arange(p.n))


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_passes_grow_with_reach_times_curvature(tol):
    """The logistic loss bends by a quarter at zero, where passes have all digits to gain."""
    X, y = marks(kinds=3)
    p = rs.Problem(X, y, alpha=4.0 / X.shape[0])
    digits, rows = math.log10(tuning.FIRST_GAP / tol), np.arange(200)
    for reach in (np.full(200, 5.0), np.random.default_rng(0).exponential(5.0, 200)):
        kept = np.sort(reach)[: 200 - math.ceil(200 * p.d / p.n)]
        undone = sum(each / 4.0 * (each / kept.sum()) for each in kept)
        expected = passes_ahead(p, started(p, tol), np.zeros(p.d), rows, reach)
        assert expected == pytest.approx(1.0 + digits * (1.0 + tuning.UNDONE * undone))
    assert fewest_passes(started(p, tol)) == pytest.approx(1.0 + digits)


def test_what_is_gained_already_counts_and_x_is_scaled_to_where_it_is_best():
    X, y = marks()
    p = rs.Problem(X, y, alpha=1e-3)
    x, rows, reach = solve(p, tol=1e-2).x, np.arange(300), np.zeros(300)
    ahead = passes_ahead(p, started(p), x, rows, reach)
    f = p.objective(x)  # copies of ten rows: some are nearly all
    assert ahead == pytest.approx(1.0 + math.log10(f / (baseline(p).f - f) / 1e-3), abs=0.02)
    assert passes_ahead(p, started(p), 8.0 * x, rows, reach) <= ahead + 1e-9


def test_rows_in_a_flat_part_of_their_loss_rest():
    """All margins are beyond one, or all are not."""
    X, y = marks(n=4000)
    p = rs.Problem(X, y, loss="squared_hinge", alpha=1e-9)
    x, rows, reach = 16.0 * solve(p, tol=1e-6).x, np.arange(400), np.zeros(400)
    assert (y * p.margins(x) > 8.0).all()  # at all scales
    assert passes_ahead(p, started(p), x, rows, reach) == pytest.approx(tuning.RESTING)  # nothing is left to gain
    assert passes_ahead(p, started(p), 0.0 * x, rows, reach) == pytest.approx(fewest_passes(started(p)))


def test_the_longest_rows_as_many_as_features_do_not_count():
    X, y = marks(kinds=3)
    p = rs.Problem(X, y, alpha=4.0 / X.shape[0])
    rows, reach = np.arange(500), np.full(500, 5.0)
    usual = passes_ahead(p, started(p), np.zeros(p.d), rows, reach)
    long = math.ceil(rows.size * p.d / p.n)
    reach[: long - 1] = 1e6
    assert passes_ahead(p, started(p), np.zeros(p.d), rows, reach) == pytest.approx(usual)
    reach[: long + 1] = 1e6
    assert passes_ahead(p, started(p), np.zeros(p.d), rows, reach) > 100.0 * usual
