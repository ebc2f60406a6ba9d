"""Constants against the definitions, for every body, batch size, weighting and order, and the chain of inequalities."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.rows import base, memory
from tests.oracle import batch_constant, ordered_constant, ordered_constant_as_the_paper_writes_it

TOL = 1e-8


@st.composite
def matrices(draw, max_rows=40, max_columns=12):
    """Dense arrays with zero rows, repeated rows and heavy rows among them."""
    n, d = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    A = rng.standard_normal((n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.2, 0.6, 1.0])))
    if draw(st.booleans()):
        A[rng.random(n) < 0.2] = 0.0
    if draw(st.booleans()):
        A = A[rng.integers(0, n, n)]
    if draw(st.booleans()):
        A *= np.exp(2.0 * rng.standard_normal((n, 1)))
    return A


def as_kind(A, kind):
    if kind == "dense64":
        return A
    if kind == "dense32":
        return A.astype(np.float32)
    if kind == "uint8":
        return np.round(np.abs(A) * 20).clip(0, 255).astype(np.uint8)
    if kind == "fortran":
        return np.asfortranarray(A)
    X = sp.csr_array(A.astype(np.float32) if kind == "csr32" else A)
    if kind == "csr64index":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return sp.csc_array(X) if kind == "csc" else X


KINDS = ["dense64", "dense32", "uint8", "fortran", "csr", "csr32", "csr64index", "csc"]


def dense(X):
    return X.toarray().astype(float) if sp.issparse(X) else np.asarray(X, dtype=float)


@given(A=matrices(), kind=st.sampled_from(KINDS), data=st.data())
def test_lhat_and_ltil_equal_the_explicit_matrices(A, kind, data):
    X = as_kind(A, kind)
    n = len(A)
    b = data.draw(st.integers(1, n), label="batch size")
    rng = np.random.default_rng(data.draw(st.integers(0, 1000), label="weights and order"))
    weights = np.exp(rng.standard_normal(n))
    order = rng.permutation(n)
    c = rs.constants(rs.Problem(X, loss="unit", sample_weight=weights), batch_size=b, order=order, tol=TOL)
    assert c.lhat[0] == pytest.approx(ordered_constant_as_the_paper_writes_it(dense(X), weights, order, b), rel=1e-6, abs=1e-12)
    assert c.lhat[0] == pytest.approx(ordered_constant(dense(X), weights, order, b), rel=1e-6, abs=1e-12)
    assert c.ltil[0] == pytest.approx(batch_constant(dense(X), weights, order, b), rel=1e-6, abs=1e-12)


@given(A=matrices(max_rows=30), b=st.integers(1, 30), in_place=st.booleans())
def test_rows_copied_into_order_and_rows_read_in_place_give_the_same(A, b, in_place):
    b = min(b, len(A))
    order = np.random.default_rng(len(A)).permutation(len(A))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_LARGEST_GRAM", 0)
        patch.setattr(memory, "_SMALL_COPY", -1 if in_place else 1 << 30)
        patch.setattr(memory, "_LARGEST_COPY", -1 if in_place else 1 << 30)
        c = rs.constants(sp.csr_array(A), batch_size=b, order=order, tol=TOL)
    weights = np.ones(len(A))
    assert c.lhat[0] == pytest.approx(ordered_constant(A, weights, order, b), rel=1e-6, abs=1e-12)
    assert c.ltil[0] == pytest.approx(batch_constant(A, weights, order, b), rel=1e-6, abs=1e-12)


@given(A=matrices(), data=st.data())
def test_the_chain_of_inequalities(A, data):
    n = len(A)
    b = data.draw(st.integers(1, n))
    weights = np.exp(np.random.default_rng(n).standard_normal(n))
    c = rs.constants(rs.Problem(A, loss="unit", sample_weight=weights), batch_size=b, permutations=3, tol=TOL)
    up = 1.0 + 1e-6
    mean_sample = np.mean(weights * (A**2).sum(axis=1))
    assert c.lhat_max <= c.full_gradient_constant * up
    assert c.full_gradient_constant <= mean_sample * up
    assert mean_sample <= c.L * up
    assert c.ltil_max <= c.L * up
    assert c.ltil_max <= n / b * c.full_gradient_constant * up
    assert c.lhat_max <= c.hat_bound * up
    assert c.ltil_max <= c.til_bound * up
    assert c.til_bound <= min(c.L, n / b * c.full_gradient_constant) * up
    if b == 1:
        assert c.ltil_mean == pytest.approx(c.L)
        assert c.til_bound == pytest.approx(c.L)
    if b == n:
        assert c.til_bound == pytest.approx(c.full_gradient_constant, rel=1e-6, abs=1e-12)
        assert c.lhat_mean == pytest.approx(c.full_gradient_constant, rel=1e-6, abs=1e-12)
        assert c.ltil_mean == pytest.approx(c.full_gradient_constant, rel=1e-6, abs=1e-12)


@given(A=matrices(max_rows=20), data=st.data())
def test_an_intercept_is_a_column_of_ones(A, data):
    kind = data.draw(st.sampled_from(["dense64", "csr"]))
    b = data.draw(st.integers(1, len(A)))
    with_column = np.column_stack([A, np.ones(len(A))])
    got = rs.constants(rs.Problem(as_kind(A, kind), loss="unit", fit_intercept=True), batch_size=b, order="ig", tol=TOL)
    want = rs.constants(with_column, batch_size=b, order="ig", tol=TOL)
    assert pytest.approx(want.L) == got.L
    assert got.lhat_mean == pytest.approx(want.lhat_mean, rel=1e-6)
    assert got.ltil_mean == pytest.approx(want.ltil_mean, rel=1e-6)


@given(A=matrices(max_rows=20), data=st.data())
def test_a_weight_of_zero_equals_a_removed_row(A, data):
    kept = np.array(data.draw(st.lists(st.booleans(), min_size=len(A), max_size=len(A))))
    kept[0] = True
    got = rs.constants(rs.Problem(A, loss="unit", sample_weight=kept.astype(float)), order="ig", tol=TOL)
    want = rs.constants(A[kept], order="ig", tol=TOL)
    assert (got.n, got.L, got.lhat_mean) == (want.n, want.L, want.lhat_mean)


@given(L=st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40), data=st.data())
def test_a_general_finite_sum_is_the_matrix_of_ones(L, data):
    n = len(L)
    b = data.draw(st.integers(1, n))
    c = rs.constants(smoothness=L, batch_size=b, order="ig", tol=TOL)
    ones, weights, order = np.ones((n, 1)), np.array(L), np.arange(n)
    assert c.lhat[0] == pytest.approx(ordered_constant(ones, weights, order, b), rel=1e-6)
    assert c.ltil[0] == pytest.approx(batch_constant(ones, weights, order, b), rel=1e-6)
    assert pytest.approx(max(L)) == c.L
    assert c.lhat_mean <= np.mean(L) * (1 + 1e-6)


def test_the_gram_matrix_serves_few_long_rows_and_weighs_them_alike():
    rng = np.random.default_rng(0)
    A, weights = rng.standard_normal((12, 400)), rng.random(12) + 0.1
    for X in (A, A.astype(np.float32), sp.csr_array(A), np.abs(A * 50).clip(0, 255).astype(np.uint8)):
        problem = rs.Problem(X, loss="unit", sample_weight=weights, fit_intercept=True)
        assert isinstance(problem.rows.weighted(weights), base.WeightedGram)
        c = rs.constants(problem, batch_size=5, permutations=5, tol=TOL)
        full = np.column_stack([dense(X), np.ones(12)])
        for k in range(5):
            order = rs.orders.make_order("rr", 12, 0).permutation(k)
            assert c.lhat[k] == pytest.approx(ordered_constant(full, weights, order, 5), rel=1e-6)
            assert c.ltil[k] == pytest.approx(batch_constant(full, weights, order, 5), rel=1e-6)


@pytest.mark.parametrize("b", [1, 7, 64, 100])
@pytest.mark.parametrize("kind", ["csr", "dense64"])
def test_lipschitz_constants_are_those_of_squared_lipschitz_weights(kind, b):
    rng = np.random.default_rng(1)
    A, y, w = rng.standard_normal((100, 9)), rng.standard_normal(100), rng.random(100) + 0.5
    c = rs.constants(rs.Problem(as_kind(A, kind), y, loss="quantile:0.2", sample_weight=w), batch_size=b, permutations=4, tol=TOL)
    gamma = (0.8 * w) ** 2
    orders = [rs.orders.make_order("rr", 100, 0).permutation(k) for k in range(4)]
    ghat = np.array([ordered_constant(A, gamma, order, b) for order in orders])
    gtil = np.array([batch_constant(A, gamma, order, b) for order in orders])
    np.testing.assert_allclose(c.ghat, ghat, rtol=1e-6)
    np.testing.assert_allclose(c.gtil, gtil, rtol=1e-6)
    assert c.gbar == pytest.approx(np.mean(np.sqrt(ghat * gtil)), rel=1e-6)
    assert pytest.approx(np.max(gamma * (A**2).sum(axis=1))) == c.G**2


def test_statistics_are_those_of_the_sample():
    rng = np.random.default_rng(2)
    A = rng.standard_normal((30, 4))
    c = rs.constants(A, permutations=8, seed=5)
    assert c.lhat.shape == (8,)
    assert c.l_over_lhat == pytest.approx(c.L / c.lhat.mean())
    assert c.mean_l_over_lhat == pytest.approx(np.mean(c.L / c.lhat))
    assert c.lhat_std == pytest.approx(np.std(c.lhat, ddof=1))
    limit = 1 / (30 * np.sqrt(2 * np.max(c.lhat * c.ltil)))
    assert c.step_size_limit == pytest.approx(limit)
    assert c.safe_step_size_limit == pytest.approx(1 / (30 * np.sqrt(2 * c.hat_bound * c.til_bound)))
    assert c.safe_step_size_limit <= c.step_size_limit
    in_both = f"up to {c.step_size_limit:.4g} in the orders measured, up to {c.safe_step_size_limit:.4g} in every order"
    assert f"step size    {in_both}" in str(c)
    assert "in this order, up to" in str(rs.constants(A, order="ig"))
    assert set(c.to_dict()) >= {"L", "lhat_mean", "ltil_max", "predicted_lhat", "seconds", "full_gradient_constant"}


def test_regularisation_adds_its_share():
    rng = np.random.default_rng(3)
    A, y = rng.standard_normal((50, 4)), np.sign(rng.standard_normal(50))
    plain = rs.constants(rs.Problem(A, y, loss="logistic"), batch_size=8, order="ig")
    ridge = rs.constants(rs.Problem(A, y, loss="logistic", alpha=0.3), batch_size=8, order="ig")
    m = 7
    share = 0.3 / (4 * m**2 * np.sin(np.pi / (4 * m + 2)) ** 2)
    assert pytest.approx(plain.L + 0.3) == ridge.L
    assert ridge.lhat_mean == pytest.approx(plain.lhat_mean + share)
    assert ridge.ltil_mean == pytest.approx(plain.ltil_mean + 0.3)
    assert ridge.hat_bound == pytest.approx(plain.hat_bound + share)
    assert ridge.til_bound == pytest.approx(plain.til_bound + 0.3)
    assert ridge.full_gradient_constant == pytest.approx(plain.full_gradient_constant + 0.3)
    # and it is an upper bound of the block-row problem [a_i; sqrt(mu) I], here formed explicitly
    d, n, b = 4, 50, 8
    blocks = np.zeros((n * (d + 1), d))
    for i in range(n):
        blocks[i * (d + 1)] = 0.5 * A[i]
        blocks[i * (d + 1) + 1 : (i + 1) * (d + 1)] = np.sqrt(0.3) * np.eye(d)
    big = np.zeros((len(blocks), len(blocks)))
    for j in range(m):
        tail = blocks.copy()
        tail[: j * b * (d + 1)] = 0.0
        big += tail @ tail.T
    assert np.linalg.eigvalsh(big)[-1] / (m * n) <= ridge.lhat_mean * (1 + 1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (2, 2)])
def test_the_smallest_problems(shape):
    A = np.arange(1.0, 1.0 + np.prod(shape)).reshape(shape)
    for b in range(1, shape[0] + 1):
        c = rs.constants(A, batch_size=b, permutations=2, tol=TOL)
        order = rs.orders.make_order("rr", shape[0], 0).permutation(0)
        assert c.lhat[0] == pytest.approx(ordered_constant(A, np.ones(shape[0]), order, b), rel=1e-6)


def test_all_zero_data_has_zero_constants_and_no_ratio():
    c = rs.constants(sp.csr_array((6, 3)), batch_size=2, permutations=2)
    assert (c.L, c.lhat_mean, c.ltil_mean) == (0.0, 0.0, 0.0)
    assert c.to_dict()["l_over_lhat"] is None
    assert "Lhat" in str(c)


def test_the_users_arrays_are_not_changed():
    rng = np.random.default_rng(4)
    X = sp.csr_array(rng.standard_normal((20, 5)))
    X.indices = X.indices[::-1].copy()  # unsorted within rows
    X.data = X.data[::-1].copy()
    before = X.copy()
    X.has_canonical_format, X.has_sorted_indices = False, False
    rs.constants(X, permutations=2, batch_size=3)
    np.testing.assert_array_equal(X.indices, before.indices)
    np.testing.assert_array_equal(X.data, before.data)
    frozen = rng.standard_normal((20, 5))
    frozen.flags.writeable = False
    rs.constants(frozen, permutations=2, batch_size=3)


def test_repeated_entries_of_a_row_are_summed():
    X = sp.csr_array((np.array([1.0, 2.0, 5.0]), np.array([0, 0, 1]), np.array([0, 2, 3])), shape=(2, 2))
    assert rs.constants(X, order="ig").L == 25.0
    assert rs.constants(X, order="ig").lhat[0] == rs.constants(X.toarray(), order="ig").lhat[0]
    assert X.nnz == 3
