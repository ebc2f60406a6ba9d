"""The chain of relaxations (2): every term against the matrices as the paper writes them."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import experiments
from reshuffle.experiments import chain


def explicit_terms(A, b):
    """Lhat, the sum of the norms of the tails, and what follows, with I_{j up} A A' I_{j up} formed for every j."""
    n, m = len(A), -(-len(A) // b)
    parts = []
    for j in range(m):
        kept = np.diag((np.arange(n) >= b * j).astype(float))
        parts.append(kept @ A @ A.T @ kept)
    norms = [np.linalg.norm(part, 2) for part in parts]
    samples = np.sum(A**2, axis=1)
    return np.array(
        [
            np.linalg.norm(sum(parts), 2) / (m * n),
            sum(norms) / (m * n),
            np.linalg.norm(A @ A.T, 2) / n,
            samples.mean(),
            samples.max(),
        ]
    )


@pytest.mark.parametrize("b", [1, 4, 7, 30])
@pytest.mark.parametrize("sorted_by_size", [False, True])
def test_each_term_is_the_papers(b, sorted_by_size):
    rng = np.random.default_rng(b)
    A = rng.standard_normal((30, 5)) * rng.exponential(size=(30, 1))
    order = np.argsort(np.sum(A**2, axis=1)) if sorted_by_size else rng.permutation(30)
    found = chain.relaxations(A, batch_size=b, order=order, tol=1e-9)
    terms = np.array([found.lhat, found.tails, found.full, found.mean, found.L])
    np.testing.assert_allclose(terms, explicit_terms(A[order], b), rtol=1e-7)
    assert (np.diff(terms) >= -1e-9 * terms[1:]).all()


def test_different_smoothness_scales_the_rows():
    rng = np.random.default_rng(5)
    A, weights = rng.standard_normal((20, 4)), rng.random(20) + 0.1
    problem = rs.Problem(A, rng.standard_normal(20), loss="squared", sample_weight=weights)
    found = chain.relaxations(problem, batch_size=3, order="ig", tol=1e-9)
    terms = explicit_terms(np.sqrt(problem.smoothness)[:, None] * A, 3)
    np.testing.assert_allclose([found.lhat, found.tails, found.full, found.mean, found.L], terms, rtol=1e-7)


def test_straight_lines_between_a_hundred_tails_miss_the_sum_by_less_than_a_thousandth():
    A = np.random.default_rng(0).standard_normal((600, 8))
    order = np.random.default_rng(1).permutation(600)
    tails = chain.relaxations(A, order=order).tails
    exact = np.mean([np.linalg.norm(A[order[j:]], 2) ** 2 for j in range(600)]) / 600
    assert tails == pytest.approx(exact, rel=1e-3)


def test_the_chain_is_a_table_with_the_factor_of_each_relaxation(tmp_path):
    (tmp_path / "broken.npy").write_text("nonsense")
    outcome = experiments.reproduce("chain", ["iris", tmp_path / "broken.npy"], out=tmp_path)
    (row,) = outcome.tables["chain"].to_frame().to_dict("records")
    found = chain.relaxations(rs.load("iris").X)
    assert row["Lhat"] == found.lhat
    assert row["(i)"] == pytest.approx(found.tails / found.lhat)
    assert row["(i)"] * row["(ii)"] * row["(iii)"] * row["max/mean"] == pytest.approx(found.L / found.lhat)
    assert [failure.split(":")[0] for failure in outcome.failures] == ["broken, chain"]


def test_losses_without_such_a_chain_are_refused():
    X, y = np.eye(3), np.array([-1.0, 1.0, 1.0])
    for problem in (rs.Problem(X, y, loss="hinge"), rs.Problem(X, y, loss="logistic", alpha=0.1)):
        with pytest.raises(ValueError, match="the chain is about smooth losses with alpha=0"):
            chain.relaxations(problem)
