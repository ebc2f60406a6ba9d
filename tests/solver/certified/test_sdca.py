"""What dual passes read, what they gain, and when they are looked at."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows import DualState, DualStep
from reshuffle.solver.certified import baseline, solve, tuning
from reshuffle.solver.certified import sdca as passes
from reshuffle.solver.certified.progress import Progress
from reshuffle.solver.certified.sdca import Pace, Visits, awake, grown, levelled, proven, pulls_of_intercept, rest, told


def test_rows_that_gain_little_rest_longer_each_time():
    rests, left, rows = np.zeros(4, dtype=np.uint8), np.zeros(4, dtype=np.uint8), np.arange(4)
    visits = []
    for _ in range(20):
        gained = rest(np.array([1.0, 0.0, 1.0, 0.2]), 0.5, 0.0, 3, rests, left)
        assert gained == pytest.approx(2.0 + 0.2 * (not visits or 3 in visits[-1]))
        visits.append(set(rows[: awake(left, rows)].tolist()))
    assert all({0, 2} <= visit for visit in visits)
    came = [k for k, visit in enumerate(visits) if 1 in visit]
    assert came == [1, 4, 8, 12, 16]  # rests of one pass, of two, of three, and no longer
    assert came == [k for k, visit in enumerate(visits) if 3 in visit]


def test_a_row_that_gains_again_comes_in_every_pass_and_a_fast_pass_puts_none_to_rest():
    rests, left = np.full(2, 3, dtype=np.uint8), np.zeros(2, dtype=np.uint8)
    rest(np.array([1.0, 0.6]), 0.5, 0.0, 3, rests, left)
    assert rests.tolist() == left.tolist() == [0, 0]
    rest(np.array([1.0, 0.1]), 0.5, 2.0, 3, rests, left)  # all gained less than 2
    assert left.tolist() == [0, 0]
    rest(np.array([1.0, 0.0]), 0.5, 2.0, 3, rests, left)  # what gains nothing rests even so
    assert left.tolist() == [0, 1]


@pytest.mark.parametrize("bounds", [None, np.array([0, 30, 70, 100])])
def test_a_pass_in_parts_visits_every_row_that_is_awake_once(bounds):
    class Lying:
        n = 100
        rows = type("Rows", (), {"bounds": bounds})

    visits, gains = Visits(Lying, seed=3), np.arange(100.0)
    orders = []
    for _ in range(6):
        parts, shares = [], []
        while not parts or not visits.over:
            share, visit = visits.next(0.3)
            shares.append(share)
            parts.append(visit.copy())
        assert math.isclose(sum(shares), 1.0)
        orders.append(np.concatenate(parts))
        assert len(set(orders[-1].tolist())) == orders[-1].size
        visited, gained = visits.rest(gains)
        assert visited == orders[-1].size / 100
        assert gained == pytest.approx(gains[orders[-1]].sum() / 100)
    assert orders[0].size == 100 > orders[1].size
    assert (np.diff(orders[0]) < 0).any()
    if bounds is not None:
        block = np.searchsorted(bounds, orders[0], side="right")
        assert (np.diff(block) != 0).sum() == 2  # blocks stay together


def test_gains_are_what_the_dual_objective_rose_by():
    """Exactly so for the hinge, whose conjugate is linear, where the step is not cut off at the end of the domain."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 60)), np.where(rng.random(40) < 0.5, -1.0, 1.0)
    p = rs.Problem(X, y, loss="hinge", alpha=0.5, sample_weight=rng.random(40) + 0.5)
    x, state, step = (
        np.zeros(60),
        DualState(np.zeros(40), np.zeros(40)),
        DualStep(p.loss, 1 / (0.5 * 40), 0.0),
    )
    inside = 0
    for i in rng.permutation(40):
        before = p.dual_objective_along(state.dual)(1.0)
        p.rows.sdca_epoch(np.array([i]), p.labels, p.sample_weight, p.squared_norms(), step, x, state)
        rose = p.dual_objective_along(state.dual)(1.0) - before
        if 0.0 < -state.dual[i] * y[i] < 1.0:
            inside += 1
            assert rose == pytest.approx(state.gains[i] / (2 * 40), rel=1e-9)
        else:
            assert rose >= state.gains[i] / (2 * 40) - 1e-15
    assert inside > 10


def paced(ratio, passes, gap=None, at=None):
    pace = Pace(math.inf)
    for k in range(passes):
        pace.went_on(1.0)
        pace.passed(0.5, ratio**k)
        if k + 1 == at:
            pace.looked(gap)
    return pace


def test_the_gap_is_expected_to_fall_as_gains_do():
    looked = paced(0.5, 8, gap=1.0, at=6)
    assert looked.expected == pytest.approx(0.25)
    assert looked.left(0.25 / 8) == pytest.approx(3 * 0.5)  # three passes, each of half the rows
    assert looked.left(0.3) == 0.0
    assert looked.enough(0.25 / 1.1) == pytest.approx(tuning.LAST_PASS * math.log2(1.1))
    assert looked.enough(0.01) == 1.0
    looked.went_on(0.5)
    assert looked.expected == pytest.approx(0.25 / math.sqrt(2.0))


def test_patience_ends_with_too_many_passes_to_go():
    pace = paced(0.5, 40, gap=1.0, at=40)  # twenty passes over all rows were made
    to_go = pace.left(2.0**-16)
    assert to_go == pytest.approx(8.0)
    assert pace.hopeless(2.0**-16, patience=7.9)
    assert not pace.hopeless(2.0**-16, patience=8.1)


@pytest.mark.parametrize("fewer", [-0.1, 0.0, 0.2])
def test_patience_ends_where_passes_to_go_do_not_become_fewer(fewer):
    """They became fewer by so many with each of the last ten passes, of which twenty were made."""

    def hopeless(patience, first=10.0, last=20.0):
        pace = Pace(1.0)
        pace.left = lambda aim: aim
        pace.passed(first, 1.0)
        assert not pace.hopeless(12.0, 1e9)
        pace.passed(last - first, 1.0)
        return pace.hopeless(12.0 - 10.0 * fewer, patience)

    tried = 20.0 / tuning.PATIENCE_TRIED
    most = 10.0 / (tuning.PATIENCE_ENDS * fewer) if fewer > 0.0 else tried
    assert hopeless(0.99 * most)
    assert not hopeless(1.01 * most)
    assert not hopeless(0.99 * tried, first=11.0)  # nothing was told when half of them were made


def test_before_a_look_the_gap_is_some_times_what_is_still_to_gain():
    pace = paced(0.5, 6)
    assert pace.expected == pytest.approx(tuning.GAP_OVER_GAINS * 0.5**5)  # r / (1 - r) is one
    assert pace.enough(1e-9) == 1.0


def test_a_gap_that_is_known_at_the_start_is_looked_at_again_as_soon_as_a_fast_pass_could_be_enough():
    pace = Pace(1.0)
    assert pace.enough(0.9) == max(tuning.LAST_PASS * math.log(1 / 0.9) / -math.log(tuning.FASTEST), tuning.SHORTEST_PASS)
    assert pace.enough(1e-3) == 1.0
    pace.went_on(1.0)
    pace.passed(1.0, 1.0)
    assert pace.expected == pytest.approx(tuning.FASTEST)


def test_what_gains_no_less_than_before_has_no_end():
    for grows in (paced(1e9, 4, gap=1.0, at=2), paced(1e60, 4, gap=1.0, at=2)):
        grows.went_on(1e3)
        assert grows.expected == 1.0
        assert grows.left(0.1) == math.inf
    pace = paced(1.0, 8, gap=1.0, at=4)
    assert pace.left(0.1) == math.inf
    assert pace.enough(0.1) == 1.0
    assert paced(1.0, 2).left(0.1) == 0.0  # too early to tell


def test_a_pass_that_wakes_rows_does_not_look_like_standing_still():
    """Gains halve in eight passes, but every fourth wakes rows that rested, and gains half as much again."""
    pace = Pace(math.inf)
    for k in range(24):
        pace.went_on(1.0)
        pace.passed(0.5, 0.5 ** (k / 8.0) * (1.5 if k % 4 == 0 else 1.0))
        if k >= 6:
            pace.looked(1.0)
            assert 2.0 < pace.left(0.5) < 15.0  # it takes four: eight of half the rows


def test_where_most_rows_rest_a_cycle_of_passes_says_how_fast_they_gain():
    """Gains halve in forty passes of a tenth of the rows, every eighth wakes all of them, and chance moves each by a tenth."""
    rng, pace = np.random.default_rng(0), Pace(math.inf)
    for k in range(120):
        pace.went_on(1.0)
        pace.passed(1.0 if k % 8 == 0 else 0.1, 0.5 ** (k / 40.0) * rng.uniform(0.9, 1.1))
        if k >= 40:
            pace.looked(1.0)
            assert 3 <= pace.cycle <= 6
            assert 4.0 < pace.left(0.5) < 18.0  # it takes 8.5: forty passes, of which five visit all
    assert paced(0.5, 8).cycle == 2
    assert paced(0.5, 8).alike == 1  # a pass halves the gap
    assert paced(0.99, 8).alike == 2
    alternating = Pace(math.inf)
    for share in (1.0, 0.95, 0.9, 0.95):
        alternating.passed(share, 1.0)
        assert alternating.cycle == 1


def topical(n=3000, d=1500, seed=0):
    """Documents of two topics, which share most words; rows of length one."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    chances = 1.0 / np.arange(1.0, d + 1.0)
    leaning = rng.choice([0.3, 1.0, 3.0], size=d)
    words = [rng.choice(d, size=40, p=p / p.sum()) for p in (chances * leaning ** (0.5 * c) for c in y)]
    X = sp.csr_array((np.ones(40 * n), np.concatenate(words), np.arange(0, 40 * n + 1, 40)), shape=(n, d))
    X.sum_duplicates()
    return sp.csr_array(X.multiply(1.0 / np.sqrt(X.power(2).sum(axis=1))[:, None])), y


@pytest.mark.parametrize("intercept", [False, True])
def test_a_first_pass_that_grows_leaves_x_where_its_dual_values_say(intercept):
    X, y = topical()
    p = rs.Problem(X, y, loss="logistic", alpha=10.0 / 3000, fit_intercept=intercept, sample_weight=np.linspace(0.5, 1.5, 3000))
    visits, squares, pull = Visits(p, 0), np.ones(3000), 0.1
    x, state = np.full(p.dimension, 0.0), DualState(np.zeros(3000), np.zeros(3000))
    x[p.d :] = 0.2
    share, _ = grown(p, visits, squares, DualStep(p.loss, pull, pull * intercept), x, state)
    assert share == pytest.approx(1.0 - 1.0 / tuning.PARTS, abs=1e-2)
    assert np.count_nonzero(state.dual) == round(share * 3000)
    weighted = p.sample_weight * state.dual
    np.testing.assert_allclose(x[: p.d], -pull * (X.T @ weighted), atol=1e-12)
    np.testing.assert_allclose(x[p.d :], [0.2 - pull * weighted.sum()][: p.dimension - p.d], atol=1e-12)


def test_the_first_pass_grows_only_where_rows_leave_it_to_others_to_fit_them():
    X, y = topical()
    step = DualStep(rs.Problem(X, y, loss="logistic", alpha=1.0).loss, 0.1, 0.0)
    rng = np.random.default_rng(1)

    def visited(X, y, pull=0.1, loss="logistic"):
        p = rs.Problem(X, y, loss=loss, alpha=1.0 / (pull * y.size))
        squares, state = p.squared_norms(), DualState(np.zeros(p.n), np.zeros(p.n))
        return grown(p, Visits(p, 0), squares, step._replace(loss=p.loss, pull=pull), np.zeros(p.d), state)[0]

    assert visited(X, y) > 0.9
    assert visited(X, y, pull=100.0) == 0.0  # rows that fit themselves
    assert visited(X, y, loss="hinge") == 0.0  # a kink bends for ever
    first = visited(X, rng.permutation(y), pull=1.0)  # nothing that others could say
    assert first == pytest.approx(1.0 / tuning.PARTS, abs=1e-3)


def test_a_first_pass_that_grows_saves_passes(monkeypatch):
    X, y = topical()
    p = rs.Problem(X, y, loss="logistic", alpha=10.0 / 3000)
    records = len(solve(p, tol=1e-3).history)
    monkeypatch.setattr(passes, "grown", lambda *data: (0.0, math.inf))
    assert records < len(solve(p, tol=1e-3).history)


def test_with_strong_regularisation_one_pass_and_one_proof_do(monkeypatch):
    X, y = topical()
    p = rs.Problem(X, y, loss="logistic", alpha=1000.0 / 3000)
    visited, epoch = [], type(p.rows).sdca_epoch

    def counted(rows, visit, *others):
        visited.extend(visit.tolist())
        epoch(rows, visit, *others)

    monkeypatch.setattr(type(p.rows), "sdca_epoch", counted)
    found = solve(p, tol=1e-3)
    assert sorted(visited) == list(range(3000))
    assert found.converged
    assert found.f - solve(p, tol=1e-10).f <= found.gap <= 1e-3 * (baseline(p).f - found.f)
    del visited[:]
    monkeypatch.setattr(passes, "proven", lambda *data: False)
    assert solve(p, tol=1e-3).converged
    assert len(visited) > 3000


def passed_once():
    """A problem, its squared norms, and x and dual values after one pass over it."""
    X, y = topical(n=4000, d=400)
    p = rs.Problem(X, y, loss="logistic", alpha=0.01, sample_weight=np.random.default_rng(3).random(4000) + 0.5)
    squares, x, state = p.squared_norms(), np.zeros(p.d), DualState(np.zeros(p.n), np.zeros(p.n))
    visit = np.random.default_rng(0).permutation(p.n).astype(np.int32)
    p.rows.sdca_epoch(visit, p.labels, p.sample_weight, squares, DualStep(p.loss, 1.0 / (p.n * p.alpha), 0.0), x, state)
    return p, squares, x, state.dual


def test_all_rows_tell_the_gaps_and_some_tell_them_up_to_chance():
    p, squares, x, dual = passed_once()
    level, _ = levelled(p, p.samples, x, p.margins(x))
    g = p.gradient(level)
    exact = p.objective(x), p.objective(x) - p.dual_objective_along(dual)(1.0), float(g @ g) / (2.0 * p.alpha)
    np.testing.assert_allclose(told(p, squares, x, dual, np.arange(p.n)), exact, rtol=1e-9)
    rng = np.random.default_rng(1)
    found = np.array([told(p, squares, x, dual, np.sort(rng.choice(p.n, 500, replace=False))) for _ in range(200)])
    of_mean = found.std(axis=0) / math.sqrt(200)
    assert (np.abs(found.mean(axis=0) - exact) < 4.0 * of_mean).all()
    assert (of_mean < 0.1 * np.array(exact)).all()


@pytest.mark.parametrize(("gaps", "offers"), [((3.0, 3.0), 0), ((3.0, 1.9), 1), ((0.9, 3.0), 1), ((0.9, 0.9), 1)])
def test_a_proof_is_tried_where_some_rows_say_that_it_will_do(gaps, offers, monkeypatch):
    p, squares, x, dual = passed_once()
    progress = Progress(p, np.zeros(p.d), baseline(p), tol=10.0, max_iter=100, small=False, callback=None)
    target, offered, offer = 10.0 * baseline(p).gain(p.objective(x)), [], progress.offer
    monkeypatch.setattr(passes, "told", lambda *data: (p.objective(x), *(target * gap for gap in gaps)))
    monkeypatch.setattr(progress, "offer", lambda *given, **options: offered.append(given) or offer(*given, **options))
    assert proven(p, progress, squares, x, dual) is bool(offers)
    assert len(offered) == offers
    for _, f, given in offered:
        assert (given is dual) == (gaps[0] < 1.0)
        assert f <= p.objective(x)


@pytest.mark.parametrize("intercept", [False, True])
def test_a_point_is_as_long_as_is_best_and_its_intercept_where_it_should_be(intercept):
    """Of a parabola, a Newton step finds the least point."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 4))
    p = rs.Problem(X, X @ np.ones(4) + 3.0, loss="squared", alpha=0.3, fit_intercept=intercept, sample_weight=rng.random(60) + 0.5)
    x = rng.standard_normal(p.dimension)
    found, z = levelled(p, p.samples, x, p.margins(x))
    np.testing.assert_allclose(z, p.margins(found), rtol=1e-12)
    np.testing.assert_allclose(found[:4] / x[:4], found[0] / x[0])
    slope = p.gradient(found)
    assert slope[:4] @ x[:4] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(slope[4:], 0.0, atol=1e-12)


def test_an_intercept_is_pulled_as_losses_can_bend_or_as_features_are():
    X, y = np.random.default_rng(0).standard_normal((50, 3)), np.tile([1.0, -1.0], 25)
    squares = (X * X).sum(axis=1)

    def pulls(alpha, loss="logistic", fit_intercept=True):
        return pulls_of_intercept(rs.Problem(X, y, loss=loss, alpha=alpha, fit_intercept=fit_intercept), squares)

    bent = 50 * 0.25
    features = float(np.median(squares)) / 50
    assert pulls(1e-6) == pytest.approx((tuning.STRONGEST_PULL / bent, features / 1e-6))
    assert pulls(1e3) == pytest.approx((tuning.WEAKEST_PULL / bent, tuning.WEAKEST_PULL / bent))
    between = features / (0.5 * (tuning.WEAKEST_PULL + tuning.STRONGEST_PULL) / bent)
    assert pulls(between) == pytest.approx((features / between, features / between))
    assert pulls(1e-6, "hinge") == pytest.approx((features / 1e-6, features / 1e-6))  # nothing says how much a kink bends
    assert pulls(1e-6, fit_intercept=False) == (0.0, 0.0)


def test_the_pull_of_an_intercept_grows_where_features_could_do_without_it(monkeypatch):
    """Every row has one letter at each place, so that the intercept is a sum of features."""
    rng, n, places = np.random.default_rng(0), 3000, 150
    kinds, own = rng.integers(3, size=n), rng.integers(4, size=(3, places))
    chances = np.minimum(0.9, 0.1 + np.abs(np.arange(places) - 0.5 * places) / (0.3 * places))
    letters = np.where(rng.random((n, places)) < chances, rng.integers(4, size=(n, places)), own[kinds]) + 4 * np.arange(places)
    X = sp.csr_array((np.ones(n * places), letters.ravel(), np.arange(0, n * places + 1, places)), shape=(n, 4 * places))
    y = np.where((kinds == 0) ^ (rng.random(n) < 0.1), 1.0, -1.0)
    p = rs.Problem(X, y, loss="logistic", alpha=100.0 / n, fit_intercept=True)
    pulls, epoch = [], type(p.rows).sdca_epoch

    def seen(rows, visit, labels, weights, squares, step, *others):
        pulls.append(step.intercept_pull)
        epoch(rows, visit, labels, weights, squares, step, *others)

    monkeypatch.setattr(type(p.rows), "sdca_epoch", seen)
    squares = p.squared_norms() - 1.0

    def passes_to(tol):
        del pulls[:]
        progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=tol, max_iter=200, small=False, callback=None)
        passes.sdca(p, progress, squares, np.zeros(p.dimension), np.zeros(p.n), seed=0, patience=math.inf)
        return len(pulls) if progress.finished and progress.gap <= progress.target else math.inf

    growing = passes_to(1e-6)
    first, strongest = pulls_of_intercept(p, squares)
    assert first == min(pulls) < pulls[-1] == strongest
    monkeypatch.setattr(tuning, "PULL_GROWS", 1.0)
    assert growing < 0.7 * passes_to(1e-6)


def test_where_few_rows_are_awake_the_mean_of_x_is_offered(monkeypatch):
    """Rows near a plane of twenty dimensions, most of them in the flat part of their loss: x goes to and fro between the rest."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 20)) @ rng.standard_normal((20, 800)) / math.sqrt(20) + 0.1 * rng.standard_normal((600, 800))
    p = rs.Problem(X, np.sign(X @ rng.standard_normal(800)), loss="squared_hinge", alpha=0.1 / 600)
    averaged, alike = [], Pace.alike.fget

    def records():
        progress = Progress(p, np.zeros(800), baseline(p), tol=1e-3, max_iter=1000, small=False, callback=None)
        assert passes.sdca(p, progress, p.squared_norms(), np.zeros(800), np.zeros(600), seed=0, patience=1e9)
        assert progress.finished
        return len(progress.history)

    by_means = records()
    monkeypatch.setattr(Pace, "alike", property(lambda pace: averaged.append(alike(pace)) or 1))
    assert by_means < 0.95 * records()
    assert averaged[:2] == [1, 1]
    assert max(averaged) >= 4
