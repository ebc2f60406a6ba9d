"""The discrepancy of an order from gradients that come in chunks, are too wide to keep, or do not sum to zero."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.orders import discrepancy, make_order, sketch


def by_definition(g, order, b):
    g = g[order]
    return sum(np.sum(g[:low].sum(axis=0) ** 2) for low in range(0, len(g), b)) / (len(g) * b)


@pytest.fixture(scope="module")
def gradients():
    g = np.random.default_rng(0).standard_normal((60, 300)) * np.linspace(0.1, 3.0, 300)
    return g - g.mean(axis=0)


@pytest.mark.parametrize("name", ["file", "buffer:8", "rr", "distributed:7", "replacement"])
@pytest.mark.parametrize("batch_size", [1, 7])
def test_chunks_give_what_the_whole_does(gradients, name, batch_size):
    whole = discrepancy(gradients, name, batch_size, seed=3)
    assert whole == pytest.approx(by_definition(gradients, make_order(name, 60, 3).permutation(0), batch_size), rel=1e-12)
    chunks = (gradients[low : low + 11] for low in range(0, 60, 11))
    assert discrepancy(chunks, name, batch_size, seed=3) == pytest.approx(whole, rel=1e-12)


def test_the_mean_is_taken_off_where_asked(gradients):
    moved = gradients + 5.0
    assert discrepancy(moved, "file") > 100 * discrepancy(gradients, "file")
    for columns in (None, 40):
        want = discrepancy(gradients, "file", columns=columns)
        assert discrepancy(moved, "file", columns=columns, centre=True) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("columns", [1, 70])
def test_a_sketch_is_a_product_with_random_signs_however_it_is_cut(gradients, columns):
    P = sketch(np.eye(300), columns, seed=2) * np.sqrt(columns)
    assert set(np.unique(P)) == {-1.0, 1.0}
    np.testing.assert_allclose(sketch(gradients, columns, seed=2), gradients @ P / np.sqrt(columns), rtol=1e-10, atol=1e-12)
    chunks = (gradients[low : low + 13] for low in range(0, 60, 13))
    np.testing.assert_allclose(sketch(chunks, columns, seed=2), gradients @ P / np.sqrt(columns), rtol=1e-10, atol=1e-12)
    assert (sketch(np.eye(300), columns, seed=3) != P / np.sqrt(columns)).any()


def test_the_estimate_has_no_bias_and_the_error_that_is_stated(gradients):
    """The variance of the estimate is (2/k)(|M|_F^2 - sum of M_ii^2) for the mean M of prefix sums times themselves."""
    order, b, columns, draws = make_order("rr", 60, 1).permutation(0), 4, 20, 600
    exact = discrepancy(gradients, order, b)
    sums = np.array([gradients[order][:low].sum(axis=0) for low in range(0, 60, b)])
    M = sums.T @ sums / (60 * b)
    error = np.sqrt(2 / columns * (np.sum(M**2) - np.sum(np.diag(M) ** 2)))
    assert error <= np.sqrt(2 / columns) * exact
    found = np.array([discrepancy(gradients, order, b, columns=columns, seed=seed) for seed in range(draws)])
    assert abs(found.mean() - exact) < 4 * error / np.sqrt(draws)
    assert found.std() == pytest.approx(error, rel=0.15)


def test_what_does_not_fit_is_refused(gradients):
    problem = rs.Problem(np.eye(4), np.ones(4), loss="squared", alpha=0.1)
    for call, message in [
        (lambda: discrepancy(iter([]), "file"), "gradients is an iterator that gave nothing"),
        (lambda: discrepancy(iter([np.ones((2, 3)), np.ones((2, 4))]), "file"), "chunks of 3 and of 4 columns"),
        (lambda: discrepancy(iter([np.ones(3)]), "file"), "gradients must be an n x d array"),
        (lambda: discrepancy(gradients, "file", columns=0), "columns=0 is too small"),
        (lambda: discrepancy(problem, "file", x=np.zeros(4), columns=3), "columns=3 and centre=False are for gradients"),
        (lambda: discrepancy(problem, "file", x=np.zeros(4), centre=True), "columns=None and centre=True are for gradients"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
