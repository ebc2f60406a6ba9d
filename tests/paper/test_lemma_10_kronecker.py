"""Lemma 10, and the constants of general sums by it: those of the n x 1 matrix of ones, in place of nd x nd matrices."""

import numpy as np
import pytest

import reshuffle as rs


@pytest.mark.parametrize(("p", "q"), [(1, 3), (2, 2), (4, 3)])
def test_the_eigenvalues_of_a_kronecker_product_are_the_products(p, q):
    rng = np.random.default_rng([p, q])
    A, B = rng.standard_normal((p, p)), rng.standard_normal((q, q))
    found = np.linalg.eigvals(np.kron(A, B))
    products = np.outer(np.linalg.eigvals(A), np.linalg.eigvals(B)).ravel()
    assert np.sort_complex(np.round(found, 9)) == pytest.approx(np.sort_complex(np.round(products, 9)), abs=1e-8)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize(("n", "b"), [(5, 1), (6, 2), (6, 6), (7, 3), (5, 4)])
def test_the_constants_of_a_general_sum_are_the_norms_of_the_explicit_matrices(n, b, d):
    """Equation `eq:new-smoothness-constants-general`, with Λ, E and the projections of size nd written out."""
    rng = np.random.default_rng([n, b, d])
    L, order = np.exp(rng.standard_normal(n)), rng.permutation(n)
    m = -(-n // b)
    root, E = np.diag(np.repeat(np.sqrt(L[order]), d)), np.tile(np.eye(d), (n, 1))
    position = np.arange(n * d)
    tails = [np.diag((position >= b * d * i).astype(float)) for i in range(m)]
    batches = [np.diag((position // (b * d) == i).astype(float)) for i in range(m)]
    hat = np.linalg.norm(root @ sum(P @ E @ E.T @ P for P in tails) @ root, 2) / (m * n)
    til = np.linalg.norm(root @ sum(P @ E @ E.T @ P for P in batches) @ root, 2) / b
    c = rs.constants(smoothness=L, batch_size=b, order=order, tol=1e-10)
    assert (c.lhat[0], c.ltil[0]) == pytest.approx((hat, til), rel=1e-8)
    assert c.full_gradient_constant == pytest.approx(np.linalg.norm(root @ E, 2) ** 2 / n) == pytest.approx(L.mean())
    assert c.ltil[0] == pytest.approx(max(L[order[k : k + b]].sum() for k in range(0, n, b)) / b)
