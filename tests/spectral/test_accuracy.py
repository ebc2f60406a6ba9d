"""What is said about accuracy is true: tolerance, residual, warning, and upper bounds with their probability."""

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows import base, in_memory
from reshuffle.spectral import AccuracyWarning, batches, lanczos
from tests.oracle import batch_constant, ordered_constant


@pytest.fixture
def gaussian():
    return np.random.default_rng(0).standard_normal((150, 150))


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-6, 1e-10])
def test_the_error_is_below_the_tolerance(gaussian, tol):
    c = rs.constants(gaussian, batch_size=10, permutations=5, tol=tol)
    assert c.residual_max <= tol
    for k in range(5):
        order = rs.orders.make_order("rr", 150, 0).permutation(k)
        assert c.lhat[k] == pytest.approx(ordered_constant(gaussian, np.ones(150), order, 10), rel=tol)
        assert c.ltil[k] == pytest.approx(batch_constant(gaussian, np.ones(150), order, 10), rel=tol)


def test_a_tighter_tolerance_takes_more_products(gaussian):
    loose, tight = (rs.constants(gaussian, permutations=3, tol=tol).products_median for tol in (1e-2, 1e-8))
    assert loose < tight


def test_a_residual_above_the_tolerance_is_never_silent(gaussian, monkeypatch):
    monkeypatch.setattr(lanczos, "MAX_PRODUCTS", 4)
    with pytest.warns(AccuracyWarning, match=r"relative residual of .* above tol=1e-08"):
        c = rs.constants(gaussian, permutations=2, tol=1e-8)
    assert c.residual_max > 1e-8
    assert c.products.max() == 4


def test_batches_that_do_not_settle_are_not_silent_either(gaussian, monkeypatch):
    monkeypatch.setattr(batches, "MAX_PRODUCTS", 2)
    with pytest.warns(AccuracyWarning):
        rs.constants(gaussian, permutations=2, batch_size=50, tol=1e-8)


@pytest.mark.parametrize("b", [1, 9, 150])
@pytest.mark.parametrize("slack", [0.3, 0.05, 0.01])
def test_upper_bounds_hold_and_are_as_close_as_stated(gaussian, b, slack):
    c = rs.constants(gaussian, batch_size=b, permutations=10, tol=slack, failure_probability=1e-3, seed=3)
    for k in range(10):
        order = rs.orders.make_order("rr", 150, 3).permutation(k)
        lhat = ordered_constant(gaussian, np.ones(150), order, b)
        ltil = batch_constant(gaussian, np.ones(150), order, b)
        assert lhat <= c.lhat[k] <= lhat / (1 - slack) * (1 + 1e-9)
        assert ltil * (1 - 1e-12) <= c.ltil[k] <= ltil / (1 - slack) * (1 + 1e-9)
    full = np.linalg.norm(gaussian, 2) ** 2 / 150
    assert full <= c.full_gradient_constant <= full / (1 - slack) * (1 + 1e-9)


def test_the_stated_probability_covers_the_failures_of_few_steps():
    """A spectrum without a gap, and so few steps that bounds do fail: no more often than delta, give or take 4 sigma."""
    rng = np.random.default_rng(0)
    eigenvalues = np.linspace(0.0, 1.0, 400) ** 0.3
    delta, slack, trials = 0.25, 0.05, 400

    def apply(v, out):
        np.multiply(eigenvalues, v, out=out)

    bounds = [
        lanczos.upper_bound(apply, rng.standard_normal(400), slack=slack, failure_probability=delta).value for _ in range(trials)
    ]
    failures = np.mean(np.array(bounds) < 1.0)
    assert failures <= delta + 4 * np.sqrt(delta * (1 - delta) / trials)


@pytest.mark.parametrize("body", ["rows", "rows, run again", "gram"])
@pytest.mark.parametrize("rank", [1, 3, 60])
def test_two_factors_have_the_recurrence_of_their_product(rank, body):
    """Values, residuals, how many products and the vector itself; also long after the top eigenvalue has settled."""
    rng = np.random.default_rng(rank)
    A, scale = rng.standard_normal((90, rank)) @ rng.standard_normal((rank, 120)), rng.random(90) + 0.5
    B, rows = scale[:, None] * A, in_memory(A)
    eigenvalues, vectors = np.linalg.eigh(B @ B.T)
    start = rng.standard_normal(90)
    squared = {
        "rows": lanczos.GolubKahan(rows._weighted(scale, 0.0).factored, keep=1000),
        "rows, run again": lanczos.GolubKahan(rows._weighted(scale, 0.0).factored, keep=rank // 2),
        "gram": base.WeightedGram(rows, scale).squared,
    }[body]
    operators = squared, lambda v, out: np.dot(B, B.T @ v, out=out)
    ours, theirs = (lanczos.top_eigenvalue(apply, start.copy(), tol=1e-6) for apply in operators)
    assert ours.products == theirs.products <= rank + 1
    assert ours.value == pytest.approx(theirs.value, rel=1e-12)
    assert ours.residual == pytest.approx(theirs.residual, rel=1e-6, abs=1e-12)
    images = []
    unit = lanczos.ritz_vector(squared, start.copy(), ours, lambda image: images.append(image.copy()) or 0.0 * image)
    assert np.linalg.norm(unit) == pytest.approx(1.0, rel=1e-9)
    assert abs(unit @ vectors[:, -1]) == pytest.approx(1.0, abs=1e-6)
    np.testing.assert_allclose(images[0], B @ (B.T @ start) / np.linalg.norm(start), rtol=1e-9, atol=1e-9 * eigenvalues[-1])
    bounds = [lanczos.upper_bound(apply, start.copy(), slack=1e-3, failure_probability=1e-3) for apply in operators]
    assert bounds[0].products > 3 * rank or rank == 60
    for bound in bounds:
        assert (1.0 - 1e-3) * bound.value == pytest.approx(eigenvalues[-1], rel=1e-9)


def test_more_certainty_takes_more_steps():
    steps = [lanczos.steps_for_bound(10**6, 0.01, delta) for delta in (1e-1, 1e-3, 1e-9)]
    assert steps == sorted(steps)
    for k, delta in zip(steps, (1e-1, 1e-3, 1e-9), strict=True):
        assert (np.log(1.648 * 1000 / delta) / (2 * k - 1)) ** 2 <= 0.01


def test_the_estimate_is_close_for_data_with_one_direction():
    rng = np.random.default_rng(1)
    A = 1.0 + 0.1 * rng.standard_normal((3000, 20))
    c = rs.constants(sp.csr_array(A), permutations=20)
    assert c.predicted_lhat == pytest.approx(c.lhat_mean, rel=0.01)
    assert rs.theory.ordered_norm_ratio(1) == pytest.approx(1.0)
    assert rs.theory.ordered_norm_ratio(10**6) == pytest.approx(4 / np.pi**2, rel=1e-5)
    m = 17
    K = np.minimum.outer(np.arange(1, m + 1), np.arange(1, m + 1))
    assert rs.theory.ordered_norm_ratio(m) == pytest.approx(np.linalg.norm(K, 2) / m**2)


def test_real_data_takes_few_products(real_file):
    medians = [
        rs.constants(rs.load(real_file(name)).X, permutations=5).products_median
        for name in ("a1a", "a9a", "mushrooms", "ijcnn1", "sonar_scale", "german.numer_scale", "rcv1_like", "duke", "leu")
    ]
    assert np.median(medians) <= 4
