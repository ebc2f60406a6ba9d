"""Lemma 5, sampling without replacement, over all permutations, and what the theorems make of it:
R_pi = 1/(nb) sum_i |P_{b(i-1)}|^2, where P_s sums the gradients at the minimum over the first s samples of the order.
"""

from itertools import permutations

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import theory

SIZES = [(n, b) for n in range(2, 7) for b in range(1, n + 1)]


def all_orders(n):
    return np.array(list(permutations(range(n))))


def squared_prefixes(g, orders):
    """|P_0|^2, .., |P_n|^2 for each order."""
    sums = np.cumsum(g[orders], axis=1)
    return np.concatenate([np.zeros((len(orders), 1)), np.sum(sums**2, axis=2)], axis=1)


def discrepancies(g, orders, b):
    """R_pi for each order."""
    n = len(g)
    return squared_prefixes(g, orders)[:, range(0, n, b)].sum(axis=1) / (n * b)


def gradients(problem, A, x):
    """grad f_i(x), each with its share of the regulariser."""
    return (problem.sample_weight * problem.duals(problem.margins(x)))[:, None] * A + problem.alpha * x


def some_gradients(n, seed=0):
    """At the minimum of a weighted and regularised problem; and its sigma."""
    rng = np.random.default_rng([n, seed])
    A = rng.standard_normal((n, 2))
    problem = rs.Problem(
        A, np.sign(rng.standard_normal(n)), loss="logistic", alpha=0.05, sample_weight=np.exp(rng.standard_normal(n))
    )
    optimum = theory.measure(problem)
    return gradients(problem, A, optimum.x), optimum.sigma


@pytest.mark.parametrize("n", range(2, 7))
def test_lemma_5_the_variance_of_a_batch_without_replacement(n):
    """At any x: E |mean of s gradients - grad f(x)|^2 = (n - s)/(s(n - 1)) E_i |grad f_i(x) - grad f(x)|^2, for every s."""
    rng = np.random.default_rng(n)
    A, x = rng.standard_normal((n, 3)), rng.standard_normal(3)
    problem = rs.Problem(A, rng.standard_normal(n), loss="huber:0.7", alpha=0.2, sample_weight=rng.uniform(0.5, 2.0, n))
    g = gradients(problem, A, x) - problem.gradient(x)
    variance = np.mean(problem.squared_sample_gradients(x)) - np.sum(problem.gradient(x) ** 2)
    means = squared_prefixes(g, all_orders(n)).mean(axis=0)
    for s in range(1, n + 1):
        assert means[s] / s**2 == pytest.approx((n - s) / (s * (n - 1)) * variance, rel=1e-10, abs=1e-14)


@pytest.mark.parametrize(("n", "b"), SIZES)
def test_the_noise_of_an_order_is_that_of_theorem_1_in_the_mean_and_bounded_in_every_order(n, b):
    g, sigma = some_gradients(n)
    R, V = discrepancies(g, all_orders(n), b), theory.variance_factor(n, b)
    ltil = 3.0
    assert ltil * R.mean() == pytest.approx(theory.noise_smooth(n, b, ltil=ltil, sigma=sigma), rel=1e-7, abs=1e-14)
    assert R.max() <= (n - 1) * V * sigma**2 * (1 + 1e-7) + 1e-14
    m = theory.batches(n, b)
    assert (n - 1) * V <= (m - 1) ** 2 + 1e-12  # never above the paper's bound for a given order


@pytest.mark.parametrize("n", range(2, 7))
def test_the_bound_of_every_order_is_reached_by_two_kinds_of_samples(n):
    """|P_s|^2 <= s(n - s) sigma^2, with equality for s samples that pull one way before n - s that pull the other way."""
    for s in range(1, n):
        g = np.where(np.arange(n) < s, 1 / s, -1 / (n - s))[:, None]
        squares = squared_prefixes(g, all_orders(n))[:, s]
        assert squares.max() == squares[0] == pytest.approx(s * (n - s) * np.mean(g**2))
        if n <= 2 * s:  # two batches, and one prefix to count
            assert discrepancies(g, np.arange(n)[None], s)[0] == pytest.approx(
                (n - 1) * theory.variance_factor(n, s) * np.mean(g**2)
            )


@pytest.mark.parametrize(("n", "b"), [(n, b) for n, b in SIZES if n > b])
def test_how_far_the_bound_of_every_order_is_from_the_worst_gradients(n, b):
    """The worst g has R = sigma^2 / (4 sin^2(pi/2m)) where b divides n: all of (n - 1) V at m = 2, 6/pi^2 = 0.61 of it at many."""
    centred = np.eye(n) - 1 / n
    prefixes = np.array([np.arange(n) < s for s in range(0, n, b)]) @ centred
    worst = np.linalg.norm(prefixes, 2) ** 2 / b
    m, bound = theory.batches(n, b), (n - 1) * theory.variance_factor(n, b)
    if n % b == 0:
        assert worst == pytest.approx(1 / (4 * np.sin(np.pi / (2 * m)) ** 2))
    assert 6 / np.pi**2 < worst / bound <= 1 + 1e-12
