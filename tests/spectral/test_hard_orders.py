"""Orders made to lead Lanczos astray: the top eigenvector sits where the first guess does not look."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_digits

import reshuffle as rs
from tests.oracle import ordered_constant


def explicit(A, order, b=1):
    return ordered_constant(A, np.ones(len(A)), order, b)


def clusters(sizes, strengths, spread, rng, d=4):
    """Rows in orthogonal clusters, one after the other."""
    A = np.zeros((sum(sizes), d * len(sizes)))
    start = 0
    for k, (size, strength) in enumerate(zip(sizes, strengths, strict=True)):
        direction = rng.standard_normal(d)
        direction /= np.linalg.norm(direction)
        A[start : start + size, k * d : (k + 1) * d] = strength * (direction + spread * rng.standard_normal((size, d)))
        start += size
    return A


@pytest.mark.parametrize("strength", [0.5, 0.56, 0.58, 0.6, 0.62, 0.8, 1.0, 1.2])
@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_two_clusters_the_stronger_one_first(strength, spread):
    A = clusters([300, 300], [1.0, strength], spread, np.random.default_rng(0))
    assert rs.constants(A, order="ig").lhat[0] == pytest.approx(explicit(A, np.arange(600)), rel=1e-6)


def test_many_clusters_in_any_order():
    rng = np.random.default_rng(1)
    for trial in range(10):
        A = clusters([60] * 8, rng.uniform(0.5, 1.0, 8), 0.1, rng)
        order = np.concatenate([np.arange(60 * k, 60 * k + 60) for k in rng.permutation(8)])
        assert rs.constants(sp.csr_array(A), order=order, seed=trial).lhat[0] == pytest.approx(explicit(A, order), rel=1e-6)


@pytest.mark.parametrize("n", [2_000, 20_000, 200_000])
@pytest.mark.parametrize("strength", [0.56, 0.6, 0.7])
def test_the_guard_does_not_fade_with_n(n, strength):
    """Rows e1 (first half), then strength * e2: the second block of the matrix is strength^2 [min(h + i, h + j)]."""
    h = n // 2
    A = sp.csr_array((np.r_[np.ones(h), np.full(h, strength)], (np.arange(n), np.arange(n) // h)), shape=(n, 2))
    v = np.ones(h)
    for _ in range(60):
        w = h * v.sum() + np.cumsum(np.cumsum(v[::-1])[::-1])
        top = np.linalg.norm(w) / np.linalg.norm(v)
        v = w / np.linalg.norm(w)
    first_block = h * (h + 0.5) ** 2 / (np.pi**2 / 4) / h  # close to the norm of [min(i, j)]; below the second block
    assert strength**2 * top > first_block
    assert rs.constants(A, order="ig").lhat[0] == pytest.approx(strength**2 * top / n**2, rel=1e-6)


@pytest.mark.parametrize("load", [load_breast_cancer, load_digits])
@pytest.mark.parametrize("by", ["label", "norm", "reversed norm", "first feature"])
@pytest.mark.parametrize("b", [1, 10])
def test_files_sorted_by_label_norm_or_feature(load, by, b):
    X, y = load(return_X_y=True)
    X, y = X[:700], y[:700]
    norms = np.linalg.norm(X, axis=1)
    key = {"label": y, "norm": norms, "reversed norm": -norms, "first feature": X[:, X.var(axis=0).argmax()]}[by]
    order = np.argsort(key, kind="stable")
    assert rs.constants(X, order=order, batch_size=b).lhat[0] == pytest.approx(explicit(X, order, b), rel=1e-6)


def test_one_heavy_row_at_either_end():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((400, 10))
    A[7] *= 60.0
    others = np.delete(np.arange(400), 7)
    for order in (np.r_[7, others], np.r_[others, 7]):
        assert rs.constants(A, order=order).lhat[0] == pytest.approx(explicit(A, order), rel=1e-6)
