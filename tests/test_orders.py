"""Random reshuffling is uniform, shuffle-once keeps its order, and both can be had again."""

from itertools import permutations
from math import factorial

import numpy as np

from reshuffle.orders import make_order


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
    np.testing.assert_array_equal(once.permutation(0), make_order("rr", 50, seed=1).permutation(0))
    np.testing.assert_array_equal(make_order("ig", 5, seed=1).permutation(3), np.arange(5))
