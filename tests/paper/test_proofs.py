"""The steps of docs/proofs.md, one test for each inequality, on problems small enough for explicit matrices and all orders.

Problems are made around their minimiser, so nothing has to be solved: dual values are drawn first, and x* and the labels follow.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import expm1, factorial, log, log1p, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

import reshuffle as rs
from reshuffle import theory
from tests import oracle

PAGE = Path(__file__).parents[2] / "docs" / "proofs.md"
CLOSE = 1e-9  # relative, for rounding in what is an equality or may be one


class Loss(NamedTuple):
    smoothness: float
    value: Callable
    slope: Callable
    inverse: Callable  # of the slope
    slopes: tuple[float, float]  # within which they are drawn


LOSSES = {
    "squared": Loss(1.0, lambda r: 0.5 * r**2, lambda r: r, lambda u: u, (-2.0, 2.0)),
    "log_cosh": Loss(1.0, lambda r: np.logaddexp(r, -r) - log(2.0), np.tanh, np.arctanh, (-0.9, 0.9)),
    "logistic": Loss(
        0.25, lambda r: np.logaddexp(0.0, r), lambda r: 0.5 * (1 + np.tanh(r / 2)), lambda u: np.log(u / (1 - u)), (0.1, 0.9)
    ),
}


@dataclass(frozen=True)
class Made:
    """f(x) = (1/n) sum_i w_i l(a_i'x - y_i) + (1/2) sum_c ridge_c x_c^2, and where its minimum is."""

    A: np.ndarray
    weights: np.ndarray
    labels: np.ndarray
    ridge: np.ndarray
    loss: Loss
    best: np.ndarray

    @property
    def n(self):
        return len(self.A)

    @property
    def smoothness(self):
        return self.weights * self.loss.smoothness

    def f(self, x):
        return float(np.mean(self.weights * self.loss.value(self.A @ x - self.labels)) + 0.5 * self.ridge @ x**2)

    def gap(self, x):
        return self.f(x) - self.f(self.best)

    def gradients(self, x):
        """Of each sample, its share of the regulariser included."""
        return (self.weights * self.loss.slope(self.A @ x - self.labels))[:, None] * self.A + self.ridge * x

    def blocks(self):
        """Λ^{1/2} B_i, so that B_i'y is blocks' duals, and |y|_{Λ^-1} the plain norm of duals."""
        regulariser = np.broadcast_to(np.diag(np.sqrt(self.ridge)), (self.n, self.A.shape[1], self.A.shape[1]))
        return np.concatenate([(np.sqrt(self.smoothness)[:, None] * self.A)[:, None, :], regulariser], axis=1)

    def duals(self, x):
        slopes = self.weights * self.loss.slope(self.A @ x - self.labels) / np.sqrt(self.smoothness)
        return np.column_stack([slopes, np.broadcast_to(np.sqrt(self.ridge) * x, (self.n, x.size))])

    def squared_distance(self, x):
        return float(np.sum((x - self.best) ** 2))

    @property
    def noise(self):
        """sigma*^2."""
        return float(np.mean(np.sum(self.gradients(self.best) ** 2, axis=1)))

    @property
    def curvature(self):
        """L_f, the smoothness of f."""
        blocks = self.blocks()
        return np.linalg.norm(blocks.reshape(-1, blocks.shape[-1]), 2) ** 2 / self.n


def made(rng, n, d, loss="squared", mu=0.0, intercept=False):
    A = np.column_stack([rng.standard_normal((n, d)), np.ones((n, int(intercept)))])
    ridge = np.r_[np.full(d, mu), np.zeros(int(intercept))]
    weights, slopes = rng.random(n) + 0.2, rng.uniform(*LOSSES[loss].slopes, n)
    free = np.sqrt(weights)[:, None] * A[:, ridge == 0.0]  # columns in which the slopes have to balance
    balanced = slopes - A[:, ridge == 0.0] @ np.linalg.lstsq(free, np.sqrt(weights) * slopes, rcond=None)[0]
    if free.shape[1]:  # where slopes balance, they are of both signs and may be scaled
        slopes = balanced * min(1.0, LOSSES[loss].slopes[1] / max(np.abs(balanced).max(), 1e-300))
    best = np.where(
        ridge > 0.0, -(A.T @ (weights * slopes)) / (n * np.where(ridge > 0.0, ridge, 1.0)), rng.standard_normal(A.shape[1])
    )
    return Made(A, weights, A @ best - LOSSES[loss].inverse(slopes), ridge, LOSSES[loss], best)


def epoch(problem, order, b, step, x):
    """Algorithm 1, lines 4 to 9: every point of an epoch. The step is divided by b in a short last batch as well."""
    points = [x]
    for start in range(0, problem.n, b):
        points.append(points[-1] - step / b * problem.gradients(points[-1])[order[start : start + b]].sum(axis=0))
    return points


def batch_of(n, b):
    """t_p - 1 of every position."""
    return np.arange(n) // b


def count(n, b):
    return -(-n // b)


def ordered_matrix(blocks, b):
    """T, whose block row p is (1{j <= t_p} blocks_p)_j: T T' is the matrix of Lhat."""
    n, rows, columns = blocks.shape
    T = np.zeros((n, rows, count(n, b), columns))
    for p, t in enumerate(batch_of(n, b) + 1):
        T[p, :, :t, :] = blocks[p][:, None, :]
    return T.reshape(n * rows, -1)


def lhat(blocks, b):
    return np.linalg.norm(ordered_matrix(blocks, b), 2) ** 2 / (count(len(blocks), b) * len(blocks))


def ltil(blocks, b):
    width = blocks.shape[-1]
    return max(np.linalg.norm(blocks[s : s + b].reshape(-1, width), 2) ** 2 for s in range(0, len(blocks), b)) / b


def limit(blocks, b):
    return theory.step_size_limit(len(blocks), b, lhat(blocks, b), ltil(blocks, b))


def discrepancy(gradients, b):
    """R of gradients that are in the order of the visit."""
    prefixes = np.vstack([np.zeros(gradients.shape[1]), np.cumsum(gradients, axis=0)])
    return np.sum(prefixes[: len(gradients) : b] ** 2) / (len(gradients) * b)


def batched_sums(values, b):
    return np.array([values[s : s + b].sum(axis=0) for s in range(0, len(values), b)])


def suffix_sums(batches):
    """Of batches i, i+1, ..., m, for every i."""
    return np.cumsum(batches[::-1], axis=0)[::-1]


def all_orders(n):
    return [np.array(order) for order in permutations(range(n))]


KINDS = [("squared", 0.0), ("squared", 0.3), ("log_cosh", 0.0), ("log_cosh", 0.3), ("logistic", 0.3)]
RAGGED = [(n, b) for n in range(1, 7) for b in range(1, n + 1)]


@st.composite
def cases(draw, strongly_convex=False):
    """A problem, a batch size and a source of random numbers."""
    loss, mu = draw(st.sampled_from([kind for kind in KINDS if kind[1] > 0.0 or not strongly_convex]))
    n, rng = draw(st.integers(1, 9)), np.random.default_rng(draw(st.integers(0, 10**6)))
    intercept = not strongly_convex and loss != "logistic" and draw(st.booleans())
    return made(rng, n, draw(st.integers(1, 4)), loss, mu, intercept), draw(st.integers(1, n)), rng


def some_order(rng, problem, b, x):
    """Random, or sorted by the main direction of the gradients at x*, or the worst of a few for the next epoch from x."""
    kind = rng.integers(3)
    if kind == 0:
        return rng.permutation(problem.n)
    if kind == 1:
        gradients = problem.gradients(problem.best)
        return np.argsort(gradients @ np.linalg.svd(gradients)[2][0])
    tried = [rng.permutation(problem.n) for _ in range(5)]
    step = min(limit(problem.blocks()[order], b) for order in tried)
    return max(tried, key=lambda order: problem.f(epoch(problem, order, b, step, x)[-1]))


def test_every_step_of_the_page_names_its_test_and_every_test_is_named():
    named = set(re.findall(r"`(test_\w+)`", PAGE.read_text()))
    here = {name for name in globals() if name.startswith("test_")} - {
        "test_every_step_of_the_page_names_its_test_and_every_test_is_named"
    }
    assert named == here


# --- one epoch


@pytest.mark.parametrize("name", LOSSES)
def test_a_smooth_loss_lies_above_its_tangent_by_half_the_squared_change_of_its_slope(name):
    loss, rng = LOSSES[name], np.random.default_rng(0)
    z, other = rng.normal(scale=3.0, size=(2, 500))
    above = loss.value(other) - loss.value(z) - loss.slope(z) * (other - z)
    change = (loss.slope(other) - loss.slope(z)) ** 2 / (2 * loss.smoothness)
    assert (above >= change - 1e-12).all()
    if name == "squared":
        np.testing.assert_allclose(above, change, atol=1e-12)
    near = 1e-3  # of zero, where the curvature is the largest, it is tight for every loss
    above = loss.value(near) - loss.value(0.0) - loss.slope(0.0) * near
    assert 0.99 * above <= (loss.slope(near) - loss.slope(0.0)) ** 2 / (2 * loss.smoothness) <= above * (1 + 1e-6)


@pytest.mark.parametrize("name", ["squared", "logistic", "smoothed_hinge:0.5", "squared_hinge", "huber:0.7"])
def test_the_losses_of_the_library_do_so_too(name):
    rng = np.random.default_rng(1)
    problem = rs.Problem(np.ones((400, 1)), np.where(np.arange(400) % 2, 1.0, -1.0), loss=name, sample_weight=rng.random(400) + 0.2)
    z, other = rng.normal(scale=3.0, size=(2, 400))
    slopes, others = problem.sample_weight * problem.duals(z), problem.sample_weight * problem.duals(other)
    above = problem.sample_weight * (problem.losses(other) - problem.losses(z)) - slopes * (other - z)
    assert (above >= (others - slopes) ** 2 / (2 * problem.smoothness) - 1e-12).all()


def terms(problem, order, b, step, x):
    """What one epoch is made of, in the order of the visit: blocks, duals y, v and y*, and the points."""
    points = epoch(problem, order, b, step, x)
    t = batch_of(problem.n, b)
    y = np.array([problem.duals(points[i])[j] for i, j in zip(t, order, strict=True)])
    return problem.blocks()[order], y, problem.duals(points[-1])[order], problem.duals(problem.best)[order], points


def pulled(blocks, duals):
    """B_p'y_p of every position."""
    return np.einsum("pqd,pq->pd", blocks, duals)


@given(case=cases())
def test_before_any_constant_an_epoch_is_an_inequality_that_squares_make_an_equality(case):
    problem, b, rng = case
    n, order, x = problem.n, rng.permutation(problem.n), problem.best + rng.standard_normal(problem.best.size)
    step = rng.uniform(0.1, 3.0) * limit(problem.blocks(), b)  # no limit is needed here
    blocks, y, v, star, points = terms(problem, order, b, step, x)
    end = points[-1]
    np.testing.assert_allclose(pulled(blocks, y).sum(axis=0), b / step * (x - end), atol=1e-9)
    inner = step / n * sum((v[p] - y[p]) @ blocks[p] @ (end - points[i]) for p, i in enumerate(batch_of(n, b)))
    left = step * problem.gap(end) + b / (2 * n) * (problem.squared_distance(end) - problem.squared_distance(x))
    squares = b / (2 * n) * np.sum((x - end) ** 2) + step / (2 * n) * (np.sum((v - y) ** 2) + np.sum((y - star) ** 2))
    assert left <= inner - squares + 1e-9
    if problem.loss is LOSSES["squared"]:
        assert left == pytest.approx(inner - squares, abs=1e-9)


@given(case=cases())
def test_the_inner_product_is_at_most_the_three_squares(case):
    problem, b, rng = case
    n, m, order, x = (
        problem.n,
        count(problem.n, b),
        rng.permutation(problem.n),
        problem.best + rng.standard_normal(problem.best.size),
    )
    blocks = problem.blocks()[order]
    step = rng.uniform(0.1, 3.0) * limit(blocks, b)
    blocks, y, v, star, points = terms(problem, order, b, step, x)
    changes = batched_sums(pulled(blocks, v - y), b)  # w_i
    suffixes = suffix_sums(batched_sums(pulled(blocks, y - star), b))  # S_i
    noise = suffix_sums(batched_sums(pulled(blocks, star), b))  # minus the prefix sums of the gradients at x*
    inner = step / n * sum((v[p] - y[p]) @ blocks[p] @ (points[-1] - points[i]) for p, i in enumerate(batch_of(n, b)))
    assert inner == pytest.approx(-(step**2) / (b * n) * np.sum((suffixes + noise) * changes), abs=1e-9)
    hat, til, R = lhat(blocks, b), ltil(blocks, b), discrepancy(problem.gradients(problem.best)[order], b)
    assert np.sum(noise**2) / (n * b) == pytest.approx(R, abs=1e-9)
    young = step**3 * til / (2 * b * n) * np.sum((suffixes + noise) ** 2) + step / (2 * n * b * til) * np.sum(changes**2)
    assert inner <= young + 1e-12
    final = step**3 * (m * hat * til / b * np.sum((y - star) ** 2) + til * R) + step / (2 * n) * np.sum((v - y) ** 2)
    assert young <= final * (1 + CLOSE) + 1e-12


@pytest.mark.parametrize(("n", "b"), RAGGED)
def test_lhat_and_ltil_are_the_norms_of_suffix_sums_and_of_batches(n, b):
    rng, m = np.random.default_rng(n), count(n, b)
    problem = made(rng, n, 3, mu=0.3)
    blocks = problem.blocks()
    hat, til = lhat(blocks, b), ltil(blocks, b)
    for duals in rng.standard_normal((20, *blocks.shape[:2])):
        batches = batched_sums(pulled(blocks, duals), b)
        assert np.sum(suffix_sums(batches) ** 2) <= m * n * hat * np.sum(duals**2) * (1 + CLOSE)
        inside = batched_sums(np.sum(duals**2, axis=1), b)
        assert (np.sum(batches**2, axis=1) <= b * til * inside * (1 + CLOSE)).all()
    top = np.linalg.svd(ordered_matrix(blocks, b))[0][:, 0].reshape(blocks.shape[:2])  # for which the first is an equality
    assert np.sum(suffix_sums(batched_sums(pulled(blocks, top), b)) ** 2) == pytest.approx(m * n * hat)
    # without a regulariser these are the constants of the paper and of the library
    A, L, order = problem.A, problem.smoothness, np.arange(n)
    rows = (np.sqrt(L)[:, None] * A)[:, None, :]
    assert lhat(rows, b) == pytest.approx(oracle.ordered_constant_as_the_paper_writes_it(A, L, order, b))
    c = rs.constants(rs.Problem(A, problem.labels, loss="squared", sample_weight=L), batch_size=b, order="ig", tol=1e-9)
    assert (lhat(rows, b), ltil(rows, b)) == pytest.approx((c.lhat_max, c.ltil_max), rel=1e-6)


@settings(max_examples=150)
@given(case=cases())
def test_one_epoch_in_any_order(case):
    problem, b, rng = case
    x = problem.best + rng.choice([0.0, 0.1, 1.0, 10.0]) * rng.standard_normal(problem.best.size)
    order = some_order(rng, problem, b, x)
    blocks, n = problem.blocks()[order], problem.n
    step = limit(blocks, b) * rng.choice([1.0, rng.uniform(0.05, 1.0)])
    end = epoch(problem, order, b, step, x)[-1]
    noise = step**3 * ltil(blocks, b) * discrepancy(problem.gradients(problem.best)[order], b)
    left = step * problem.gap(end) + b / (2 * n) * problem.squared_distance(end)
    assert left <= (b / (2 * n) * problem.squared_distance(x) + noise) * (1 + CLOSE) + 1e-12


@pytest.mark.parametrize(("n", "b"), [(2, 1), (4, 2), (3, 2), (7, 4)])
def test_one_epoch_takes_more_than_half_of_the_noise_that_is_granted(n, b):
    """Two batches of equal rows, the second of a hundred times the weight: from the worst start the noise is 0.6 of what the
    inequality grants, so half of it would not do.
    """
    weights = np.r_[np.ones(b), np.full(n - b, 100.0)]
    pulls = np.r_[np.ones(b) / b, -np.ones(n - b) / (n - b)]  # gradients at x* = 0
    problem = Made(np.ones((n, 1)), weights, -pulls / weights, np.zeros(1), LOSSES["squared"], np.zeros(1))
    blocks = problem.blocks()
    step = limit(blocks, b)
    granted = step**3 * ltil(blocks, b) * discrepancy(problem.gradients(problem.best), b)

    def taken(start):
        end = epoch(problem, np.arange(n), b, step, np.array([start]))[-1]
        return step * problem.gap(end) + b / (2 * n) * (problem.squared_distance(end) - start**2)

    low, middle, high = taken(-1.0), taken(0.0), taken(1.0)  # a parabola, and its top
    worst = taken((high - low) / (2 * (2 * middle - high - low)))
    assert 0.55 * granted < worst < granted


# --- a short last batch


def mean_bound(problem, b, steps, til):
    """Theorem 1, as the library has it."""
    distance, sigma = sqrt(problem.squared_distance(np.zeros(problem.best.size))), sqrt(problem.noise)
    return theory.bound_smooth(problem.n, b, steps=steps, ltil=til, distance=distance, sigma=sigma)


@pytest.mark.parametrize("b", [1, 2, 3, 4])
@pytest.mark.parametrize(("loss", "mu"), KINDS)
def test_theorem_1_in_exact_expectation_over_all_pairs_of_orders(b, loss, mu):
    """n = 4 and two epochs: RR has 576 runs, SO 24."""
    problem = made(np.random.default_rng(b), 4, 2, loss, mu)
    orders = all_orders(4)
    constants = [(lhat(problem.blocks()[o], b), ltil(problem.blocks()[o], b)) for o in orders]
    hat, til = np.max(constants, axis=0)
    steps = [theory.step_size_limit(4, b, hat, til), 0.4 * theory.step_size_limit(4, b, hat, til)]

    def gap(first, second):
        middle = epoch(problem, first, b, steps[0], np.zeros(2))[-1]
        end = epoch(problem, second, b, steps[1], middle)[-1]
        return problem.gap((steps[0] * middle + steps[1] * end) / sum(steps))

    bound = mean_bound(problem, b, steps, til)
    assert np.mean([gap(first, second) for first, second in product(orders, orders)]) <= bound
    assert np.mean([gap(order, order) for order in orders]) <= bound


@pytest.mark.parametrize(("n", "b"), RAGGED)
def test_v_is_the_mean_of_the_discrepancy_over_all_orders(n, b):
    gradients = np.random.default_rng(n).standard_normal((n, 2))
    gradients -= gradients.mean(axis=0)
    noise = np.mean(np.sum(gradients**2, axis=1))
    mean = np.mean([discrepancy(gradients[order], b) for order in all_orders(n)])
    assert mean == pytest.approx(noise * theory.variance_factor(n, b), abs=1e-12)
    squares = [s * (n - s) / (n - 1) for s in range(0, n, b)] if n > 1 else [0.0]
    assert theory.variance_factor(n, b) == pytest.approx(sum(squares) / (n * b), abs=1e-12)


def piecewise(kind, A, labels, weights):
    """f and the subgradient of each sample for |r| or for the pinball loss, G_i being the weight times 1 or 0.7."""
    up, down = {"absolute": (1.0, 1.0), "pinball": (0.3, 0.7)}[kind]

    def f(x):
        r = A @ x - labels
        return np.mean(weights * np.maximum(up * r, -down * r))

    def slopes(x):
        r = A @ x - labels
        return weights * np.where(r > 0, up, -down)

    return f, slopes, weights * max(up, down)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), kind=st.sampled_from(["absolute", "pinball"]), data=st.data())
def test_one_epoch_of_a_lipschitz_loss_against_any_point(seed, n, kind, data):
    rng, b = np.random.default_rng(seed), data.draw(st.integers(1, n))
    m, A, weights = count(n, b), rng.standard_normal((n, 3)), rng.random(n) + 0.2
    f, slopes, G = piecewise(kind, A, rng.standard_normal(n), weights)
    order, x, z = rng.permutation(n), rng.standard_normal(3), rng.standard_normal(3)
    rows = (G[:, None] * A)[order][:, None, :]
    hat, til, step = lhat(rows, b), ltil(rows, b), 10.0 ** rng.uniform(-3, 1)
    point, y = x, np.zeros(n)
    for batch in np.split(order, range(b, n, b)):
        y[batch] = slopes(point)[batch]
        point = point - step / b * y[batch] @ A[batch]
    v = slopes(point)
    suffixes = suffix_sums(batched_sums((y[:, None] * A)[order], b))
    changes = batched_sums(((v - y)[:, None] * A)[order], b)
    inner = -(step**2) / (b * n) * np.sum(suffixes * changes)
    left = step * (f(point) - f(z)) + b / (2 * n) * (np.sum((point - z) ** 2) - np.sum((x - z) ** 2))
    assert left <= inner - b / (2 * n) * np.sum((point - x) ** 2) + CLOSE * (1 + abs(inner))
    assert np.sum(suffixes**2) <= m * n * hat * n * (1 + CLOSE)
    assert np.sum(changes**2) <= b * til * 4 * n * (1 + CLOSE)
    granted = 2 * step**2 * n * sqrt(hat * til) / theory.beta(n, b)
    assert inner <= step**2 / (b * n) * sqrt(np.sum(suffixes**2) * np.sum(changes**2)) + 1e-12
    assert inner <= granted * (1 + CLOSE)
    bound = theory.bound_lipschitz(n, b, steps=[step], gbar=sqrt(hat * til), distance=float(np.linalg.norm(x - z)))
    assert f(point) - f(z) <= bound * (1 + CLOSE)


def test_one_sample_whose_slope_changes_sign_takes_all_that_a_lipschitz_loss_is_granted():
    a, step, x = 3.0, 0.5, 0.0  # |a x|, n = b = 1, at the minimum, where the slope 1 is as good as any
    end = x - step * a
    inner = step * (-1.0 - 1.0) * a * (end - x)
    assert inner == pytest.approx(2 * step**2 * a**2 / theory.beta(1, 1))
    assert step * abs(a * end) + 0.5 * (end**2 - x**2) == pytest.approx(inner - 0.5 * (end - x) ** 2)


@given(
    n=st.integers(1, 60), lhat=st.floats(0.1, 1.0), ltil=st.floats(1.0, 9.0), noise=st.floats(1e-4, 1e3), eps=st.floats(1e-6, 1e-1),
    distance=st.floats(0.1, 9.0), data=st.data(),
)  # fmt: skip
def test_evaluations_with_the_square_root_of_two_are_enough(n, lhat, ltil, noise, eps, distance, data):
    b = data.draw(st.integers(1, n))
    few, many = theory.evaluations_with_noise(eps, n, b, lhat=lhat, ltil=ltil, distance=distance, noise=noise)
    assert many == pytest.approx(4 * b * sqrt(noise) * distance**2 / eps**1.5)
    epochs = max(few, sqrt(2) * b * sqrt(noise) * distance**2 / eps**1.5) / n  # as a real number, so that nothing is rounded away
    step = theory.step_with_noise(n, b, epochs=epochs, lhat=lhat, ltil=ltil, distance=distance, noise=noise)
    gap = b * distance**2 / (2 * n * step * epochs) + step**2 * noise
    assert gap <= eps * (1 + CLOSE)
    if step < theory.step_size_limit(n, b, lhat, ltil) * (1 - 1e-6) and many / sqrt(8) > few:
        assert gap == pytest.approx(eps)  # not a smaller factor


# --- the regulariser


def min_matrix(n, b):
    t = batch_of(n, b) + 1.0
    return np.minimum.outer(t, t)


@pytest.mark.parametrize("n", range(1, 41))
def test_the_min_matrix_of_a_short_last_batch_is_below_that_of_full_batches(n):
    for b in range(1, n + 1):
        m = count(n, b)
        full = np.linalg.eigvalsh(min_matrix(m, 1))[-1]
        assert full / m**2 == pytest.approx(theory.ordered_norm_ratio(m))
        values, vectors = np.linalg.eigh(min_matrix(n, b))
        top = values[-1]
        # u belongs to the top eigenvector of the n positions; its partial sums rise, and the last is above the mean
        u = np.abs(ordered_matrix(np.ones((n, 1, 1)), b).T @ vectors[:, -1]) / sqrt(top)
        partial = np.cumsum(u)
        sizes = np.diff(np.r_[0:n:b, n])
        assert sizes @ partial**2 == pytest.approx(top)
        assert partial[-1] ** 2 >= top / n * (1 - CLOSE)
        assert b * full >= (top + (b * m - n) * partial[-1] ** 2) * (1 - CLOSE)
        assert top <= n / m * full * (1 + CLOSE)
        if n == b * m:
            assert top / (m * n) == pytest.approx(theory.ordered_norm_ratio(m))
        else:
            assert top / (m * n) < theory.ordered_norm_ratio(m)


@given(case=cases())
def test_the_regulariser_adds_no_more_than_its_share(case):
    problem, b, rng = case
    n, m, mu, order = problem.n, count(problem.n, b), problem.ridge.max(), rng.permutation(problem.n)
    blocks = problem.blocks()[order]
    rows = blocks[:, :1, :]  # without the regulariser
    assert lhat(blocks, b) <= (lhat(rows, b) + mu * theory.ordered_norm_ratio(m)) * (1 + CLOSE)
    assert ltil(blocks, b) <= (ltil(rows, b) + mu) * (1 + CLOSE)
    assert ltil(blocks, 1) <= (ltil(rows, 1) + mu) * (1 + CLOSE)  # L
    if n == b * m and (problem.ridge == mu).all():
        assert ltil(blocks, b) == pytest.approx(ltil(rows, b) + mu)
    intercept, weights = bool(problem.ridge[-1] != mu), problem.smoothness  # the unit loss of the library has L_i = w_i
    X = problem.A[:, problem.ridge == mu]
    same = rs.Problem(X, loss="unit", alpha=mu, sample_weight=weights, fit_intercept=intercept)
    c = rs.constants(same, batch_size=b, order=order, tol=1e-8)
    assert c.lhat_max == pytest.approx(lhat(rows, b) + mu * theory.ordered_norm_ratio(m), rel=1e-5)
    assert c.ltil_max == pytest.approx(ltil(rows, b) + mu, rel=1e-5)
    assert c.full_gradient_constant >= lhat(blocks, b) * (1 - 1e-6)


@pytest.mark.parametrize(("n", "b"), [(6, 1), (6, 2), (6, 3), (6, 6)])
def test_equal_rows_take_the_whole_share(n, b):
    mu, a = 0.7, np.array([1.0, -2.0])
    blocks = np.tile(np.vstack([a, np.sqrt(mu) * np.eye(2)]), (n, 1, 1))
    ratio = theory.ordered_norm_ratio(count(n, b))
    assert lhat(blocks, b) == pytest.approx(ratio * (a @ a + mu))
    assert lhat(blocks[:, :1], b) == pytest.approx(ratio * (a @ a))


@pytest.mark.parametrize("intercept", [False, True])
def test_sigma_and_the_dual_norm_of_the_library_count_the_regulariser(intercept):
    made_problem = made(np.random.default_rng(3), 9, 3, "squared", 0.4, intercept)
    problem = rs.Problem(
        made_problem.A[:, :3],
        made_problem.labels,
        loss="squared",
        alpha=0.4,
        sample_weight=made_problem.weights,
        fit_intercept=intercept,
    )
    found = theory.measure(problem)
    np.testing.assert_allclose(found.x, made_problem.best, atol=1e-8)
    assert found.sigma**2 == pytest.approx(made_problem.noise)
    assert found.dual_norm**2 == pytest.approx(np.sum(made_problem.duals(made_problem.best) ** 2))


# --- any order


@settings(max_examples=100)
@given(case=cases(), epochs=st.integers(1, 6))
def test_any_sequence_of_orders_even_chosen_while_running(case, epochs):
    problem, b, rng = case
    gradients, n = problem.gradients(problem.best), problem.n
    x = problem.best + rng.choice([0.01, 1.0, 10.0]) * rng.standard_normal(problem.best.size)
    right, steps, ends = b / (2 * n) * problem.squared_distance(x), [], []
    for _ in range(epochs):
        order = some_order(rng, problem, b, x)
        blocks = problem.blocks()[order]
        step = limit(blocks, b) * rng.uniform(0.2, 1.0)  # it may depend on the order
        x = epoch(problem, order, b, step, x)[-1]
        right += step**3 * ltil(blocks, b) * discrepancy(gradients[order], b)
        steps.append(step)
        ends.append(x)
    average = np.average(ends, axis=0, weights=steps)
    assert sum(steps) * problem.gap(average) <= right * (1 + CLOSE) + 1e-12


@pytest.mark.parametrize(("n", "b"), RAGGED)
def test_every_order_has_at_most_n_minus_1_times_the_mean_discrepancy(n, b):
    rng = np.random.default_rng(n)
    gradients = rng.standard_normal((n, 2)) * np.exp(rng.standard_normal((n, 1)))
    gradients -= gradients.mean(axis=0)
    noise = np.mean(np.sum(gradients**2, axis=1))
    V, m = theory.variance_factor(n, b), count(n, b)
    for order in all_orders(n):
        prefixes = np.cumsum(gradients[order], axis=0)
        s = np.arange(1, n + 1)
        assert (np.sum(prefixes**2, axis=1) <= s * (n - s) * noise * (1 + CLOSE) + 1e-12).all()
        assert discrepancy(gradients[order], b) <= (n - 1) * V * noise * (1 + CLOSE) + 1e-12
    for cut in range(1, n):  # two values, one after the other: the bound of a prefix is attained
        two = np.r_[np.ones(cut) / cut, -np.ones(n - cut) / (n - cut)][:, None]
        assert cut * (n - cut) * np.mean(two**2) == pytest.approx(1.0)  # |P_cut|^2 = 1
        if m == 2 and cut == b:
            assert discrepancy(two, b) == pytest.approx((n - 1) * V * np.mean(two**2))
    assert (n - 1) * V <= (m**2 - 1) / 6 + 1e-12
    if n == b * m:
        assert (n - 1) * V == pytest.approx((m**2 - 1) / 6)
    assert (m**2 - 1) / 6 <= (m - 1) ** 2


@given(case=cases())
def test_the_discrepancy_is_never_above_the_noise_of_theorem_2(case):
    problem, b, rng = case
    order = some_order(rng, problem, b, problem.best)
    blocks, R = problem.blocks()[order], discrepancy(problem.gradients(problem.best)[order], b)
    dual = sqrt(np.sum(problem.duals(problem.best) ** 2))
    assert count(problem.n, b) / b * lhat(blocks, b) * dual**2 * (1 + CLOSE) + 1e-12 >= R
    noise = theory.noise_ig(problem.n, b, lhat=lhat(blocks, b), ltil=ltil(blocks, b), sigma=sqrt(problem.noise), dual_norm=dual)
    assert ltil(blocks, b) * R <= noise * (1 + CLOSE) + 1e-12


# --- strong convexity


@settings(max_examples=100)
@given(case=cases(strongly_convex=True), epochs=st.integers(1, 6), theta=st.floats(0.05, 1.0))
def test_strong_convexity_the_last_iterate_and_the_weighted_average(case, epochs, theta):
    problem, b, rng = case
    gradients, n, mu = problem.gradients(problem.best), problem.n, problem.ridge[0]
    x = problem.best + rng.choice([0.01, 1.0, 10.0]) * rng.standard_normal(problem.best.size)
    numerator, growth, distance = b / (2 * n) * problem.squared_distance(x), 1.0, problem.squared_distance(x)
    weights, ends = [], []
    for _ in range(epochs):
        order = some_order(rng, problem, b, x)
        blocks = problem.blocks()[order]
        step = limit(blocks, b) * rng.uniform(0.2, 1.0)
        noise = step**3 * ltil(blocks, b) * discrepancy(gradients[order], b)
        x = epoch(problem, order, b, step, x)[-1]
        # the weighted average
        numerator += growth * noise
        weights.append(step * growth)
        ends.append(x)
        growth *= 1 + (1 - theta) * n * step * mu / b
        # the last iterate: `distance` is the bound of the epoch before
        total = b / (2 * n) * distance + noise
        gap = total / (step + b / (n * problem.curvature))
        distance = 2 * n / b * total / (1 + n * step * mu / b)
        assert problem.squared_distance(x) <= distance * (1 + CLOSE) + 1e-12
        assert problem.gap(x) <= gap * (1 + CLOSE) + 1e-12
        assert gap <= min(total / step, problem.curvature / 2 * distance) * (1 + CLOSE)
    average = np.average(ends, axis=0, weights=weights)
    assert problem.gap(average) <= numerator / (theta * sum(weights)) * (1 + CLOSE) + 1e-12


@given(case=cases(strongly_convex=True))
def test_f_lies_between_two_parabolas(case):
    problem, _, rng = case
    for x in problem.best + rng.standard_normal((20, problem.best.size)):
        square = problem.squared_distance(x)
        assert problem.ridge[0] / 2 * square <= problem.gap(x) * (1 + CLOSE) + 1e-12
        assert problem.gap(x) <= problem.curvature / 2 * square * (1 + CLOSE) + 1e-12


@pytest.mark.parametrize("theta", [0.25, 1.0])
def test_the_recursions_lose_nothing_where_every_epoch_is_an_equality(theta):
    rng, n, b, mu = np.random.default_rng(0), 10, 3, 0.2
    steps, noise = rng.uniform(0.1, 1.0, 5), rng.uniform(0.0, 1.0, 5)
    distances = [4.0]
    for step, N in zip(steps, noise, strict=True):  # f - f* = (mu/2) d, and nothing to spare
        distances.append((distances[-1] + 2 * n / b * N) / (1 + n * step * mu / b))
    d, q = np.array(distances), n * steps * mu / b
    decay = np.cumprod((1 + q)[::-1])[::-1]  # prod_{j >= k} (1 + q_j)
    assert d[-1] == pytest.approx(d[0] / decay[0] + 2 * n / b * np.sum(noise / decay))
    growth = np.cumprod(np.r_[1.0, 1 + (1 - theta) * q])
    weights, gaps = steps * growth[:-1], mu / 2 * d[1:]
    total = b / (2 * n) * d[0] + noise @ growth[:-1]
    assert theta * weights @ gaps + b / (2 * n) * growth[-1] * d[-1] == pytest.approx(total)


# --- orders better than random


def signed_walk(vectors, signs):
    return np.cumsum(signs[:, None] * vectors, axis=0)


def reordered(signs):
    """Positions with a plus as they come, then those with a minus from the last to the first."""
    return np.r_[np.flatnonzero(signs > 0), np.flatnonzero(signs < 0)[::-1]]


def balancing_signs(vectors):
    signs, walk = np.ones(len(vectors)), np.zeros(vectors.shape[1])
    for p, c in enumerate(vectors):
        signs[p] = 1.0 if walk @ c <= 0.0 else -1.0
        walk = walk + signs[p] * c
    return signs


def centred(rng, n, d):
    vectors = rng.standard_normal((n, d)) * np.exp(rng.standard_normal((n, 1)))
    return vectors - vectors.mean(axis=0)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 25), d=st.integers(1, 4), data=st.data())
def test_every_prefix_of_the_new_order_is_half_of_old_and_signed(seed, n, d, data):
    rng = np.random.default_rng(seed)
    vectors, signs = centred(rng, n, d), rng.choice([-1.0, 1.0], n)
    old, walk = np.cumsum(vectors, axis=0), signed_walk(vectors, signs)
    new = np.cumsum(vectors[reordered(signs)], axis=0)
    up = (signs > 0).cumsum()
    for p in range(n):
        length = up[p] if signs[p] > 0 else n - (p + 1 - up[p])
        expected = (old[p] + walk[p]) / 2 if signs[p] > 0 else (walk[p] - old[p]) / 2
        np.testing.assert_allclose(new[length - 1] if length else 0.0, expected, atol=1e-10)
    for norm in (1, 2, np.inf):
        longest = [np.linalg.norm(sums, norm, axis=1).max() for sums in (new, old, walk)]
        assert longest[0] <= (longest[1] + longest[2]) / 2 * (1 + CLOSE) + 1e-12
    roots = [sqrt(discrepancy(vectors[reordered(signs)], 1)), sqrt(discrepancy(vectors, 1)), sqrt(np.sum(walk**2) / n)]
    assert roots[0] <= (roots[1] + roots[2]) / 2 * (1 + CLOSE) + 1e-12
    b = data.draw(st.integers(1, n))
    assert discrepancy(vectors, b) <= discrepancy(vectors, 1) / b * (1 + CLOSE) + 1e-12


def test_equal_signs_leave_the_order_and_attain_the_bound():
    vectors = centred(np.random.default_rng(0), 9, 2)
    signs = np.ones(9)
    walk, R = signed_walk(vectors, signs), discrepancy(vectors, 1)
    assert sqrt(discrepancy(vectors[reordered(signs)], 1)) == pytest.approx((sqrt(R) + sqrt(np.sum(walk**2) / 9)) / 2)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), d=st.integers(1, 4))
def test_the_balanced_walk_grows_no_faster_than_orthogonal_vectors(seed, n, d):
    rng = np.random.default_rng(seed)
    vectors = centred(rng, n, d)
    noise = np.mean(np.sum(vectors**2, axis=1))
    R = discrepancy(vectors, 1)
    for passes in range(1, 7):
        signs = balancing_signs(vectors)
        lengths = np.sum(signed_walk(vectors, signs) ** 2, axis=1)
        assert (lengths <= np.cumsum(np.sum(vectors**2, axis=1)) * (1 + CLOSE) + 1e-12).all()
        assert lengths.mean() <= n * noise * (1 + CLOSE)
        vectors = vectors[reordered(signs)]
        granted = 2.0**-passes * sqrt(R) + (1 - 2.0**-passes) * sqrt(n * noise)
        assert sqrt(discrepancy(vectors, 1)) <= granted * (1 + CLOSE)
    orthogonal = np.diag(rng.random(n) + 0.1)
    walk = signed_walk(orthogonal, balancing_signs(orthogonal))
    np.testing.assert_allclose(np.sum(walk**2, axis=1), np.cumsum(np.diag(orthogonal) ** 2))


def pair_signs(vectors):
    """(+, -) or (-, +) for two vectors at a time; a last one without a partner has a plus."""
    signs, walk = np.ones(len(vectors)), np.zeros(vectors.shape[1])
    for p in range(0, len(vectors) - 1, 2):
        sign = 1.0 if walk @ (vectors[p] - vectors[p + 1]) <= 0.0 else -1.0
        signs[p : p + 2] = sign, -sign
        walk = walk + sign * (vectors[p] - vectors[p + 1])
    return signs


@given(seed=st.integers(0, 10**6), n=st.integers(2, 25), d=st.integers(1, 4))
def test_a_walk_in_pairs_needs_no_mean_and_grows_no_faster_than_the_differences(seed, n, d):
    rng = np.random.default_rng(seed)
    vectors = centred(rng, n, d)
    shifted = vectors + rng.standard_normal(d)
    R, sigma = discrepancy(vectors, 1), sqrt(np.mean(np.sum(vectors**2, axis=1)))
    for passes in range(1, 7):
        signs = pair_signs(vectors)
        np.testing.assert_array_equal(signs, pair_signs(shifted))
        walk, pairs = signed_walk(vectors, signs), n // 2
        differences = np.cumsum(np.sum((vectors[0 : 2 * pairs : 2] - vectors[1 : 2 * pairs : 2]) ** 2, axis=1))
        assert (np.sum(walk[1 : 2 * pairs : 2] ** 2, axis=1) <= differences * (1 + CLOSE) + 1e-12).all()
        assert sqrt(np.sum(walk**2) / n) <= (sqrt(2 * n) + 1) * sigma * (1 + CLOSE)
        new = reordered(signs)
        vectors, shifted = vectors[new], shifted[new]
        granted = 2.0**-passes * sqrt(R) + (1 - 2.0**-passes) * (sqrt(2 * n) + 1) * sigma
        assert sqrt(discrepancy(vectors, 1)) <= granted * (1 + CLOSE)
    orthogonal = np.diag(rng.random(2 * n) + 0.1)
    walk = signed_walk(orthogonal, pair_signs(orthogonal))
    np.testing.assert_allclose(np.sum(walk**2, axis=1), np.cumsum(np.diag(orthogonal) ** 2))


@pytest.mark.parametrize(("n", "b"), [(4, 1), (5, 1), (5, 2), (6, 4)])
def test_on_a_simplex_no_order_is_better_than_random(n, b):
    simplex = np.eye(n) - 1.0 / n
    noise = np.mean(np.sum(simplex**2, axis=1))
    for order in all_orders(n):
        assert discrepancy(simplex[order], b) == pytest.approx(noise * theory.variance_factor(n, b))


# --- with high probability


def norm_of(vectors, order, b):
    """m n Lhat_pi."""
    return np.linalg.norm(ordered_matrix(vectors[order][:, None, :], b), 2) ** 2


def deviations(vectors, order, b):
    """||D_j|| of the rows from each batch on."""
    n, whole = len(vectors), vectors.T @ vectors
    parts = [vectors[order[start:]] for start in range(0, n, b)]
    return np.array([np.linalg.norm(part.T @ part - len(part) / n * whole, 2) for part in parts])


def some_rows(rng, n, d, heavy):
    """Of about one length, or of very different ones."""
    return rng.standard_normal((n, d)) * np.exp(heavy * rng.standard_normal((n, 1)))


def sizes(vectors):
    """L and L_{f,0}."""
    return np.max(np.sum(vectors**2, axis=1)), np.linalg.norm(vectors, 2) ** 2 / len(vectors)


@pytest.mark.parametrize("heavy", [0.0, 1.5])
@pytest.mark.parametrize("b", [1, 2, 3, 4, 5])
def test_lhat_is_at_most_the_share_of_each_part_and_its_deviation(b, heavy):
    n, m = 5, count(5, b)
    vectors = some_rows(np.random.default_rng(b), n, 2, heavy)
    _, full = sizes(vectors)
    counts = np.array([n - b * j for j in range(m)])
    shares = np.linalg.norm(counts[np.maximum.outer(np.arange(m), np.arange(m))], 2) * full
    assert shares <= m * n * theory.ordered_norm_ratio(m) * full * (1 + CLOSE)
    for order in all_orders(n):
        off = deviations(vectors, order, b)
        assert off[0] <= 1e-9 * full
        assert norm_of(vectors, order, b) <= (shares + m * off.max()) * (1 + CLOSE)


@pytest.mark.parametrize(("n", "b"), [(6, 1), (6, 2), (6, 3), (6, 6)])
def test_equal_rows_have_just_their_share(n, b):
    vectors, m = np.ones((n, 1)), count(n, b)
    assert norm_of(vectors, np.arange(n), b) == pytest.approx(m * n * theory.ordered_norm_ratio(m))


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), d=st.integers(1, 4), heavy=st.sampled_from([0.0, 1.5]))
def test_a_centred_sample_is_bounded_and_so_is_its_square(seed, n, d, heavy):
    vectors = some_rows(np.random.default_rng(seed), n, d, heavy)
    largest, full = sizes(vectors)
    centred = vectors[:, :, None] * vectors[:, None, :] - vectors.T @ vectors / n
    np.testing.assert_allclose(centred.mean(axis=0), 0.0, atol=1e-12 * largest)
    assert np.linalg.norm(centred, 2, axis=(1, 2)).max() <= largest * (1 + CLOSE)
    assert np.linalg.norm(np.mean(centred @ centred, axis=0), 2) <= largest * full * (1 + CLOSE)


@pytest.mark.parametrize("heavy", [0.0, 1.5])
@pytest.mark.parametrize("part", [1, 3, 5, 8])
def test_the_deviation_of_a_part_by_the_matrix_bernstein_bound(part, heavy):
    n, d = 10, 2
    vectors = some_rows(np.random.default_rng(part), n, d, heavy)
    (largest, full), whole = sizes(vectors), vectors.T @ vectors
    off = [np.linalg.norm(Y - part / n * whole, 2) for Y in batches_of(vectors, part)]
    for t in np.linspace(0.0, max(off) + 0.1, 30):
        bound = 2 * d * np.exp(-(t**2) / 2 / (n / 2 * largest * full + largest * t / 3))
        assert np.mean(np.array(off) >= t) <= bound * (1 + CLOSE)


@pytest.mark.parametrize("heavy", [0.0, 1.5])
@pytest.mark.parametrize("b", [1, 2, 5, 6])
def test_lhat_of_random_orders_is_within_the_bound(b, heavy):
    n, d = 6, 2
    vectors, m = some_rows(np.random.default_rng(b), n, d, heavy), count(6, b)
    largest, full = sizes(vectors)
    values = np.array([norm_of(vectors, order, b) / (m * n) for order in all_orders(n)])
    for delta in (0.9, 0.5, 0.1):
        found = theory.likely_hat(full, largest, d, n, b, delta)
        logarithm = log(2 * (m - 1) * d / delta) if m > 1 else 0.0
        t = logarithm * largest / 3 + sqrt((logarithm * largest / 3) ** 2 + n * logarithm * largest * full)
        assert found == pytest.approx(theory.ordered_norm_ratio(m) * full + t / n)
        assert np.mean(values > found * (1 + CLOSE)) <= delta
    # Many rows, of which a few are heavy: far below what every order has, and hardly ever exceeded.
    rng = np.random.default_rng(b)
    many = rng.standard_normal((3000, 3)) + 2.0
    many[:10] *= 2.0
    largest, full = sizes(many)
    found = theory.likely_hat(full, largest, 3, 3000, b, 0.1)
    values = [rs.constants(many, order=rng.permutation(3000), batch_size=b).lhat_max for _ in range(20)]
    assert np.mean(np.array(values) > found) <= 0.1
    assert np.mean(values) < found < 0.75 * full


def batches_of(vectors, b):
    """The Gram matrix of every batch of size b."""
    return [vectors[list(batch)].T @ vectors[list(batch)] for batch in combinations(range(len(vectors)), b)]


def chernoff(u):
    return (1 + u) * log1p(u) - u


@pytest.mark.parametrize("b", [1, 2, 3, 6])
@pytest.mark.parametrize("heavy", [0.0, 1.5])
def test_the_exponential_moment_of_a_batch_drawn_without_replacement(b, heavy):
    rng, n = np.random.default_rng(b), 6
    vectors = rng.standard_normal((n, 3)) * np.exp(heavy * rng.standard_normal((n, 1)))
    largest, mean = np.max(np.sum(vectors**2, axis=1)), b / n * vectors.T @ vectors
    top, rank = np.linalg.eigvalsh(mean)[-1], np.trace(mean) / np.linalg.eigvalsh(mean)[-1]
    assert 1.0 <= rank <= 3.0
    for u in (0.1, 1.0, 3.0):
        theta, rate = log1p(u) / largest, u / largest
        moment = np.mean([np.trace(expm(theta * Y)) - 3.0 for Y in batches_of(vectors, b)])
        middle = np.trace(expm(rate * mean)) - 3.0
        assert moment <= middle * (1 + CLOSE)
        assert middle <= rank * expm1(rate * top) * (1 + CLOSE)


def test_the_exponential_moment_is_nearly_that_of_one_heavy_row():
    n, theta = 200, 0.7
    vectors = np.zeros((n, 1))
    vectors[0] = 1.0
    moment = np.mean([expm1(theta * Y[0, 0]) for Y in batches_of(vectors, 1)])
    bound = expm1(expm1(theta) / n)
    assert 0.99 * bound <= moment <= bound


@given(u=st.floats(1e-3, 50.0), ratio=st.floats(1e-3, 50.0))
def test_the_ratio_of_moments_needs_no_constant(u, ratio):
    small, large = u * ratio, (1 + u) * log1p(u) * ratio
    assert small <= large
    logarithms = [exponent + log(-expm1(-exponent)) for exponent in (small, large)]  # of exp(.) - 1
    assert logarithms[0] - logarithms[1] <= -ratio * chernoff(u) + 1e-9 * (1 + large)


@given(u=st.floats(1e-3, 100.0))
def test_the_rate_of_chernoff_is_above_that_of_bernstein(u):
    assert chernoff(u) >= u**2 / (2 + 2 * u / 3) * (1 - 1e-6)
    assert chernoff(1e-3) == pytest.approx(1e-6 / 2, rel=1e-3)
    tau = u**2 / (2 + 2 * u / 3)
    assert tau / 3 + sqrt(tau**2 / 9 + 2 * tau) == pytest.approx(u)


@pytest.mark.parametrize(("n", "b"), [(6, 1), (6, 2), (6, 3), (5, 2), (5, 3), (6, 4)])
@pytest.mark.parametrize("heavy", [0.0, 1.5])
def test_ltil_of_a_random_order_by_the_matrix_chernoff_bound(n, b, heavy):
    rng, m = np.random.default_rng(n + b), count(n, b)
    vectors = rng.standard_normal((n, 3)) * np.exp(heavy * rng.standard_normal((n, 1)))
    full, L = np.linalg.norm(vectors, 2) ** 2 / n, np.max(np.sum(vectors**2, axis=1))
    rank = np.sum(vectors**2) / (n * full)
    values = np.array([ltil(vectors[order][:, None, :], b) for order in all_orders(n)])
    batches = np.array([np.linalg.norm(Y, 2) / b for Y in batches_of(vectors, b)])
    for u in np.linspace(0.0, L / full, 30):
        bound = rank * np.exp(-b * full / L * chernoff(u))
        assert np.mean(batches >= (1 + u) * full) <= bound * (1 + CLOSE)
        assert np.mean(values >= (1 + u) * full) <= m * bound * (1 + CLOSE)
    for batch in combinations(range(n), b) if b > 1 else ():  # a short batch is part of a full one
        assert np.linalg.norm(vectors[list(batch[1:])], 2) <= np.linalg.norm(vectors[list(batch)], 2) * (1 + CLOSE)


@pytest.mark.parametrize(("n", "b"), RAGGED)
def test_bounds_that_hold_for_every_order(n, b):
    rng = np.random.default_rng(10 * n + b)
    vectors = rng.standard_normal((n, 2)) * np.exp(rng.standard_normal((n, 1)))
    squares = np.sort(np.sum(vectors**2, axis=1))[::-1]
    full, largest = np.linalg.norm(vectors, 2) ** 2 / n, squares[:b].mean()
    orders = all_orders(n)[:: max(1, factorial(n) // 60)]
    for order in orders:
        assert lhat(vectors[order][:, None, :], b) <= full * (1 + CLOSE)
        assert ltil(vectors[order][:, None, :], b) <= min(largest, n / b * full) * (1 + CLOSE)
    # general sums: all rows are one, so the largest over orders is the mean of the b largest
    roots = np.sqrt(squares)[:, None]
    exact = max(ltil(roots[order][:, None, :], b) for order in [np.arange(n), *orders])
    assert exact == pytest.approx(largest)
    c = rs.constants(smoothness=squares, batch_size=b, order="ig", tol=1e-9)
    assert c.ltil_max == pytest.approx(largest)


@pytest.mark.parametrize("b", [1, 2, 3])
@pytest.mark.parametrize(("loss", "mu"), KINDS)
def test_theorem_1_on_an_event_in_exact_expectation(b, loss, mu):
    """n = 4, two epochs, a step that three quarters of the orders allow: outside of them nothing is promised."""
    problem = made(np.random.default_rng(b), 4, 2, loss, mu)
    orders = all_orders(4)
    hats, tils = np.array([(lhat(problem.blocks()[o], b), ltil(problem.blocks()[o], b)) for o in orders]).T
    hat, til = np.sort(hats)[18], tils.max()
    good = [order for order, one in zip(orders, hats, strict=True) if one <= hat * (1 + 1e-12)]
    steps = [theory.step_size_limit(4, b, hat, til)] * 2
    total = 0.0
    for first, second in product(good, good):
        middle = epoch(problem, first, b, steps[0], np.zeros(2))[-1]
        total += problem.gap((middle + epoch(problem, second, b, steps[1], middle)[-1]) / 2)
    bound, probability = mean_bound(problem, b, steps, til), (len(good) / len(orders)) ** 2
    assert total / len(orders) ** 2 <= bound  # E[1_event gap]
    assert total / len(good) ** 2 <= bound / probability  # E[gap | event]
