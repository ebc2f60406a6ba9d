"""What dual passes read, what they gain, and when they are looked at."""

import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.rows import DualState, DualStep
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.sdca import Pace, Visits, awake, rest


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


def test_patience_ends_with_too_many_passes_to_go_or_made():
    pace = paced(0.5, 40, gap=1.0, at=40)  # twenty passes over all rows were made
    to_go = pace.left(2.0**-16)
    assert to_go == pytest.approx(8.0)
    assert pace.hopeless(2.0**-16, patience=7.9)
    made = 20.0 / tuning.PATIENCE_ENDS
    assert pace.hopeless(2.0**-16, patience=0.99 * made)
    assert not pace.hopeless(2.0**-16, patience=1.01 * made)
    assert not pace.hopeless(2.0**-4, patience=0.99 * made)  # nearly there


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
