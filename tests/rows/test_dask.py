"""Rows on a Dask cluster, here two processes of this machine, give the numbers of rows in memory, whatever happens to workers."""

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows import as_rows
from reshuffle.rows.centred import CentredRows

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'reshuffle[dask]'")
from reshuffle.rows import dask as dask_rows  # noqa: E402

N, D = 90, 5
EXACT = 1e-9


def numbers(seed=0, n=N):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, D)) < 0.7, rng.standard_normal((n, D)) * [1.0, 2.0, 0.5, 1.0, 3.0] + 0.7, 0.0)


CENTRE = np.array([0.3, -1.5, 0.0, 2.0, 1.0])
KINDS = {
    "bytes": lambda: as_rows((20.0 * numbers()).astype(np.int8)),
    "csr": lambda: as_rows(sp.csr_array(numbers())),
    "centred": lambda: CentredRows(sp.csr_array(numbers()), CENTRE),
}


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as active,
    ):
        yield active


@pytest.fixture(params=KINDS)
def both(request, client):
    """The same rows on the cluster and in memory."""
    rows = KINDS[request.param]()
    return rows.on_dask(), rows


@pytest.mark.parametrize("intercept", [False, True])
def test_sums_over_rows(both, intercept):
    ours, theirs = (rows.with_intercept(intercept) for rows in both)
    rng = np.random.default_rng(1)
    for fact in ("shape", "dimension", "entries", "nonzeros"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    assert len(ours.parts) == 2
    for name in ("squared_norms", "squared_column_norms", "column_ranges", "column_moments", "row_lengths", "hessian_cost", "gram"):
        np.testing.assert_allclose(getattr(ours, name)(), getattr(theirs, name)(), rtol=EXACT, atol=1e-12, err_msg=name)
    scattered, within = np.array([60, 3, 88, 3, 44, 45]), np.array([1, 2, 7])  # of both partitions, and of one
    for chosen in (None, scattered, within):
        x, u = rng.standard_normal(ours.dimension), rng.random(N if chosen is None else chosen.size)
        for name, arguments in (
            ("margins", (x,)),
            ("transposed", (u,)),
            ("curved_squares", (u,)),
            ("hessian", (u,)),
            ("rough_hessian", (u,)),
        ):
            found, expected = (getattr(rows, name)(*arguments, chosen) for rows in (ours, theirs))
            if "hessian" in name:
                found, expected = np.tril(found), np.tril(expected)
            off = 1e-6 if "rough" in name else EXACT  # of the largest: a rough one may be in float32
            np.testing.assert_allclose(found, expected, rtol=EXACT, atol=off * np.abs(expected).max(), err_msg=name)
        for found, expected in zip(ours.curved_product(u, x, chosen), theirs.curved_product(u, x, chosen), strict=True):
            np.testing.assert_allclose(found, expected, rtol=EXACT, atol=1e-12)
    np.testing.assert_array_equal(ours.take(scattered).csr().toarray(), theirs.take(scattered).csr().toarray())
    order = rng.permutation(N)
    np.testing.assert_allclose(ours.in_order(order).csr().toarray(), theirs.csr().toarray()[order], rtol=1e-12)
    c = rng.standard_normal(ours.dimension)
    arguments = order, rng.standard_normal(N), theirs.margins(c), float(c @ c)
    np.testing.assert_allclose(ours.prefix_norms(*arguments), theirs.prefix_norms(*arguments), rtol=EXACT)


def test_scaled_rows(client):
    X = numbers()
    X[:, 1] += 4.0  # stored for every row
    X[:60, 2] = 1.0  # stored for every row of the first partition alone, and of the other for some
    for A in (X, sp.csr_array(X)):
        theirs = as_rows(A)
        ours = theirs.on_dask()
        for kind in ("std", "maxabs", "rows"):
            scaled, expected = (rs.Scaling.learn(rows, kind).apply(rows) for rows in (ours, theirs))
            assert isinstance(scaled, dask_rows.DaskRows)
            np.testing.assert_allclose(scaled.csr().toarray(), expected.csr().toarray(), atol=1e-12)
            order = np.random.default_rng(0).permutation(N)
            np.testing.assert_allclose(scaled.in_order(order).csr().toarray(), expected.csr().toarray()[order], atol=1e-12)


@pytest.mark.parametrize("kind", ["bytes", "csr", "centred"])
def test_constants_are_those_of_rows_in_memory(client, kind):
    """At batches of one row, some that end inside a worker's half, one that is torn in two, and all rows."""
    rows, weights = KINDS[kind](), np.random.default_rng(1).random(N) + 0.5
    weights[[4, 50]] = 0.0
    problems = [rs.Problem(A, loss="unit", sample_weight=weights, fit_intercept=True) for A in (rows.on_dask(), rows)]
    assert isinstance(problems[0].rows, dask_rows.DaskRows)
    for options in ({}, {"batch_size": 7, "order": "ig"}, {"batch_size": 50}, {"batch_size": N - 2, "permutations": 1}):
        ours, theirs = (rs.constants(problem, **({"permutations": 2, "tol": 1e-6} | options), seed=3) for problem in problems)
        np.testing.assert_allclose(ours.hat, theirs.hat, rtol=EXACT, err_msg=str(options))
        np.testing.assert_allclose(ours.til, theirs.til, rtol=EXACT, err_msg=str(options))
        assert (ours.L, ours.nnz) == (pytest.approx(theirs.L, rel=EXACT), theirs.nnz)


def test_products_of_many_partitions(client, monkeypatch):
    """More of them than workers, and sums of three at a time, so that a scan has several levels."""
    monkeypatch.setattr(dask_rows, "_FEW", 3)
    monkeypatch.setattr(dask_rows, "_LARGE", 1)
    rng, few = np.random.default_rng(4), as_rows(numbers(n=23))
    theirs = as_rows(sp.csr_array(numbers(n=230)))
    parts = [client.submit(dask_rows._read, theirs.reader(10 * k, 10 * (k + 1)), pure=False) for k in range(23)]
    ours = dask_rows.DaskRows(client, parts, np.arange(0, 231, 10), D)
    for b in (1, 4, 23):
        order, scale, v = rng.permutation(230), rng.random(230) + 0.5, rng.standard_normal(230)
        products = []
        for rows in (ours, theirs):
            arranged, out, laid_out = rows._weighted(scale, 0.0).arrange(order, b), np.empty(230), np.empty(230)
            laid_out[arranged.visit] = v
            arranged.ordered(laid_out, out)
            products.append(out[arranged.visit])
        np.testing.assert_allclose(*products, rtol=EXACT, atol=1e-9)
    u = rng.standard_normal(230)
    np.testing.assert_allclose(ours.transposed(u), theirs.transposed(u), rtol=EXACT)
    assert few.on_dask().margins(np.ones(D)) == pytest.approx(few.margins(np.ones(D)))
