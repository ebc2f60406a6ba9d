"""Random reshuffling is uniform, shuffle-once keeps its order, and both can be had again."""

import sys
from itertools import permutations
from math import factorial

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.orders import SCHEMES, Scheme, make_order, torch_sampler
from reshuffle.orders.streams import Stream, fractions, permutation


def test_each_permutation_of_four_is_drawn_equally_often():
    draws = 24_000
    order = make_order("rr", 4, seed=7)
    counts = dict.fromkeys(permutations(range(4)), 0)
    for epoch in range(draws):
        counts[tuple(order.permutation(epoch).tolist())] += 1
    expected = draws / factorial(4)
    chi_squared = sum((c - expected) ** 2 / expected for c in counts.values())
    assert chi_squared < 49.7  # 23 degrees of freedom: exceeded by chance once in a thousand seeds


def test_an_epoch_has_the_same_permutation_whoever_asks_and_whenever():
    order = make_order("rr", 50, seed=1)
    late = order.permutation(9)
    np.testing.assert_array_equal(late, make_order("rr", 50, seed=1).permutation(9))
    assert not np.array_equal(late, order.permutation(8))


def test_shuffle_once_keeps_the_first_permutation_of_its_seed():
    once = make_order("so", 50, seed=1)
    np.testing.assert_array_equal(once.permutation(0), once.permutation(33))
    assert once.permutation(0) is once.permutation(33)
    np.testing.assert_array_equal(once.permutation(0), make_order("rr", 50, seed=1).permutation(0))
    np.testing.assert_array_equal(make_order("ig", 5, seed=1).permutation(3), np.arange(5))


@pytest.mark.parametrize(
    ("order", "name", "count", "fixed", "uniform", "repeatable"),
    [
        ("rr", "rr", None, False, True, True),
        ("so", "so", 1, True, True, True),
        ("ig", "ig", 1, True, False, True),
        ([1, 0], "given", 1, True, False, True),
        (np.array([1, 0]), "given", 1, True, False, True),
        ([[1, 0], np.array([0, 1]), (1, 0)], "listed", 3, False, False, True),
        (np.array([[1, 0], [0, 1]]), "listed", 2, False, False, True),
        ("balanced", "balanced", None, False, False, False),
        (iter([[1, 0]]), "iterator", None, False, False, False),
    ],
)
def test_an_order_says_what_it_is(order, name, count, fixed, uniform, repeatable):
    made = make_order(order, 2, seed=0)
    assert (made.name, made.count, made.fixed, made.uniform, made.repeatable) == (name, count, fixed, uniform, repeatable)
    if uniform or fixed:  # what may be asked for any epoch
        np.testing.assert_array_equal(np.sort(made.permutation(7)), [0, 1])


def test_a_list_has_an_order_for_each_epoch_and_says_when_it_ends():
    listed = make_order([[1, 0, 2], [2, 1, 0]], 3, seed=0)
    assert [listed.permutation(k).tolist() for k in (1, 0, 1)] == [[2, 1, 0], [1, 0, 2], [2, 1, 0]]
    problem = rs.Problem(np.eye(3), [0, 1, 1])
    for order in (listed, [[1, 0, 2], [2, 1, 0]]):
        with pytest.raises(ValueError, match="order lists 2 permutations; epoch 3 needs one more"):
            rs.minimize(problem, order=order, step_size=0.1, epochs=3)
    by_iterator = rs.minimize(problem, order=iter([[1, 0, 2], [2, 1, 0]]), step_size=0.1, epochs=2)
    np.testing.assert_array_equal(rs.minimize(problem, order=listed, step_size=0.1, epochs=2).x, by_iterator.x)
    with pytest.raises(ValueError, match="order is not a permutation"):
        make_order([[0, 1, 2], [0, 1, 1]], 3, seed=0)
    with pytest.raises(ValueError, match=r"order has shape \(2,\); a permutation of the 3 rows has shape \(3,\)"):
        make_order([[0, 1, 2], [0, 1]], 3, seed=0)


def splitmix64(state):
    """As Steele, Lea and Flood (2014) write it, in Python's own integers."""
    mask = 2**64 - 1
    z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
    return z ^ (z >> 31)


@pytest.mark.parametrize("n", [1, 2, 3, 17, 4095, 4096, 4097, 20_000])
def test_a_random_permutation_sorts_the_rows_by_their_keys(n):
    start = int(np.random.SeedSequence(5, spawn_key=(3, 0)).generate_state(1, np.uint64)[0])
    keys = [splitmix64((start + (i + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 1 for i in range(n)]
    assert permutation(n, 5, 3).tolist() == sorted(range(n), key=keys.__getitem__)


def test_every_place_is_equally_likely_for_every_row_of_many():
    n, draws = 9_000, 200
    places = np.array([np.argsort(permutation(n, 0, epoch)) for epoch in range(draws)])
    assert abs(places.mean() - (n - 1) / 2) < 1e-9
    spread = np.sqrt(draws * (n * n - 1) / 12)
    assert np.abs(places.sum(axis=0) - draws * (n - 1) / 2).max() < 4.5 * spread  # 9000 sums: beyond by chance in 6 % of seeds


def test_streams_of_one_epoch_and_epochs_of_one_stream_differ():
    drawn = [permutation(100, 0, epoch, stream).tolist() for epoch in range(3) for stream in Stream]
    assert all(a != b for k, a in enumerate(drawn) for b in drawn[:k])


def test_fractions_below_a_share_are_a_sample_of_it_and_rise_as_keys_do():
    n = 20_000
    drawn = fractions(n, 3, 0, Stream.GROWING_BATCH)
    for share in (0.02, 0.25, 0.9):  # within four standard deviations
        assert abs((drawn < share).sum() - share * n) < 4.0 * (n * share * (1.0 - share)) ** 0.5
    np.testing.assert_array_equal(np.argsort(drawn, kind="stable"), permutation(n, 3, 0, Stream.GROWING_BATCH))


@pytest.mark.parametrize("bad", [[0, 1, 1], [0, 1, 3], [-1, 0, 1], [0.0, 1.0, 2.0], [0, 1]])
def test_what_is_no_permutation_never_reaches_compiled_code(bad, monkeypatch):
    monkeypatch.setitem(SCHEMES, "broken", Scheme("a broken order", lambda n, seed, epoch: np.array(bad)))
    problem = rs.Problem(np.eye(3), [0, 1, 1])
    for order in (bad, "broken", iter([bad]), [[0, 1, 2], bad]):
        with pytest.raises(ValueError, match="permutation"):
            rs.minimize(problem, order=order, step_size=0.1, epochs=1)
    with pytest.raises(ValueError, match="order is one of 4 samples; the data has 3 rows"):
        rs.minimize(problem, order=make_order("rr", 4, 0), step_size=0.1, epochs=1)


def test_without_torch_there_is_a_line_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.data", None)
    monkeypatch.delitem(sys.modules, "reshuffle.orders.sampler", raising=False)
    with pytest.raises(ImportError, match=r'a sampler for PyTorch needs torch: pip install "reshuffle\[torch\]"'):
        torch_sampler("rr", 8)
