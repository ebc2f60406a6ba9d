"""Rows on a Dask cluster, here two processes of this machine, give the numbers of rows in memory, whatever happens to workers."""

import dataclasses
import gc
import json
import os
import pickle
import re
import signal
import time
import warnings
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows import DualState, DualStep, as_rows
from reshuffle.rows.centred import CentredRows
from reshuffle.solver.certified import solve
from reshuffle.spectral import lanczos

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'reshuffle[dask]'")
import dask.array as da  # noqa: E402

from reshuffle.rows import calls  # noqa: E402
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


def test_without_a_client_the_way_to_one_is_named():
    """The first of these tests, as all others have a client."""
    with pytest.raises(ValueError, match=r"no client of Dask's is active; start one around this: with dask\.distributed\.Client"):
        as_rows(numbers()).on_dask()


@pytest.fixture(scope="module")
def client():
    with started() as cluster, distributed.Client(cluster) as active:
        yield active
    with warnings.catch_warnings():  # connections to workers that were killed are not always closed by Dask
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def started():
    """Two worker processes, which a machine that is busy with much else may not start in the time that Dask gives them."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
    try:
        return distributed.LocalCluster(**options)
    except RuntimeError:
        return distributed.LocalCluster(**options)


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
    assert ours.rough == theirs.rough
    assert len({worker for (worker,) in ours.client.who_has(ours.parts).values()}) == 2  # a half for each
    for name in (
        "squared_norms",
        "squared_column_norms",
        "column_ranges",
        "column_moments",
        "row_lengths",
        "hessian_cost",
        "blas_speed",
        "gram",
    ):
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


@pytest.mark.parametrize("kind", ["bytes", "centred"])
def test_constants_are_those_of_rows_in_memory(client, kind):
    """At batches of one row, some that end inside a worker's half, one that is torn in two, and all rows."""
    rows, weights = KINDS[kind](), np.random.default_rng(1).random(N) + 0.5
    weights[[4, 50]] = 0.0
    problems = [rs.Problem(A, loss="unit", sample_weight=weights, fit_intercept=True) for A in (rows.on_dask(), rows)]
    assert isinstance(problems[0].rows, dask_rows.DaskRows)
    for options in ({}, {"batch_size": 7, "order": "ig"}, {"batch_size": 50}, {"batch_size": N - 2}):
        ours, theirs = (rs.constants(problem, permutations=1, seed=3, **options) for problem in problems)
        np.testing.assert_allclose(ours.hat, theirs.hat, rtol=EXACT, err_msg=str(options))
        np.testing.assert_allclose(ours.til, theirs.til, rtol=EXACT, err_msg=str(options))
        assert (ours.L, ours.nnz) == (pytest.approx(theirs.L, rel=EXACT), theirs.nnz)
    ours, theirs = (rs.quick_constants(problem, seed=3) for problem in problems)
    for name in ("L", "mean_sample", "full_gradient_constant", "hat_bound", "sweeps", "nnz"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=EXACT)


def test_products_of_many_partitions(client, monkeypatch):
    """More of them than workers, and sums of three at a time, so that a scan has several levels."""
    monkeypatch.setattr(calls, "_FEW", 3)
    rng, few = np.random.default_rng(4), as_rows(numbers(n=1))
    theirs = as_rows(sp.csr_array(numbers(n=110)))
    parts = [client.submit(dask_rows._read, theirs.reader(10 * k, 10 * (k + 1)), pure=False) for k in range(11)]
    ours = dask_rows.DaskRows(calls.Held(client, parts), np.arange(0, 111, 10), D)
    for b in (1, 23):
        order, scale, v = rng.permutation(110), rng.random(110) + 0.5, rng.standard_normal(110)
        products = []
        for rows in (ours, theirs):
            arranged, out, laid_out = rows._weighted(scale, 0.0).arrange(order, b), np.empty(110), np.empty(110)
            laid_out[arranged.visit] = v
            arranged.ordered(laid_out, out)
            products.append(out[arranged.visit])
        np.testing.assert_allclose(*products, rtol=EXACT, atol=1e-9)
    u = rng.standard_normal(110)
    np.testing.assert_allclose(ours.transposed(u), theirs.transposed(u), rtol=EXACT)
    assert few.on_dask().margins(np.ones(D)) == pytest.approx(few.margins(np.ones(D)))


@pytest.fixture(scope="module")
def labelled():
    rng = np.random.default_rng(7)
    X = sp.random_array((600, 12), density=0.5, rng=rng, format="csr")
    return X, np.where(X @ rng.standard_normal(12) + 0.3 * rng.standard_normal(600) > 0.0, 1, -1)


@pytest.mark.parametrize(("loss", "features", "tol"), [("logistic", 500, 1e-4), ("logistic", 5, 1e-4), ("hinge", 500, 0.1)])
def test_a_fit_is_certified(client, labelled, loss, features, tol, monkeypatch):
    """By Newton steps with few features and a smooth loss, else by passes of each partition over its own rows."""
    monkeypatch.setattr("reshuffle.solver.certified.tuning.FEW_FEATURES", features)
    monkeypatch.setattr("reshuffle.rows.Rows._blocks", None)  # nothing is done block by block in the client's memory
    passes, one_pass = [], dask_rows.DaskRows.sdca_epoch
    monkeypatch.setattr(dask_rows.DaskRows, "sdca_epoch", lambda *arguments: passes.append(one_pass(*arguments)))
    X, y = labelled
    problem, same = (rs.Problem(A, y, loss=loss, alpha=1e-3, fit_intercept=True) for A in (as_rows(X).on_dask(), X))
    found, least = solve(problem, tol=tol), solve(same, tol=1e-8)
    assert bool(passes) == (loss == "hinge" or features == 5)
    assert found.relative_gap <= tol
    assert -1e-12 <= found.f - least.f <= found.gap
    assert same.objective(found.x) == pytest.approx(found.f, rel=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
def test_passes_of_all_partitions_raise_the_dual_objective_together(client, intercept):
    """Also where all rows pull the same way, so that moves which are best for each partition alone would lead as many times too far
    as there are. x stays -pull A'(w dual), and of one partition a pass is that of rows in memory.
    """
    rows = as_rows(sp.csr_array(np.ones((N, D)) + 0.01 * numbers())).with_intercept(intercept)
    rng = np.random.default_rng(5)
    y, w = rng.standard_normal(N) + 3.0, rng.random(N) + 0.5
    same = rs.Problem(rows, y, loss="squared", alpha=1e-3, sample_weight=w, fit_intercept=intercept)
    squares, pull = same.squared_norms() - intercept, 1.0 / (N * same.alpha)
    step = DualStep(same.loss, pull, pull if intercept else 0.0)

    def dual_objective(dual):
        """Of the dual whose intercept bears a pull of its own."""
        pulled = rows.transposed(w * dual)
        return -float(w @ same.conjugates(dual)) - 0.5 * pull * float(pulled @ pulled)

    def passes(those):
        x, dual, gains = np.zeros(rows.dimension), np.zeros(N), np.zeros(N)
        for epoch in range(6):
            visit = np.random.default_rng(epoch).permutation(N)[: N - 5 * epoch]
            those.sdca_epoch(visit, y, w, squares, step, x, DualState(dual, gains))
            assert (gains[visit] > 0.0).all()
            np.testing.assert_allclose(x, -pull * rows.transposed(w * dual), rtol=1e-8, atol=1e-8 * np.abs(x).max())
            yield dual.copy(), gains.copy()

    def placed(count):
        bounds = np.arange(count + 1) * N // count
        parts = [client.submit(dask_rows._read, rows.reader(low, high), pure=False) for low, high in pairwise(bounds)]
        return dask_rows.DaskRows(calls.Held(client, parts), bounds, D).with_intercept(intercept)

    reached = [dual_objective(dual) for dual, _ in passes(placed(6))]
    assert (np.diff([dual_objective(np.zeros(N)), *reached]) > 0.0).all()
    for ours, theirs in zip(passes(placed(1)), passes(rows), strict=True):  # and what rows gained in passes before
        np.testing.assert_allclose(ours, theirs, rtol=EXACT, atol=1e-12)


def test_products_are_few_calls_and_no_tasks(client, labelled, monkeypatch):
    """What the cost model in the documents counts."""
    X, y = labelled
    rows, calls_made = as_rows(X).on_dask(), []
    called = calls.Held._called

    async def counted(held, rpc, addresses, function, *others, **options):
        calls_made.append(function.__name__)
        return await called(held, rpc, addresses, function, *others, **options)

    rows.margins(np.ones(12))
    monkeypatch.setattr(calls.Held, "_called", counted)
    monkeypatch.setattr(client, "map", None)
    monkeypatch.setattr(client, "gather", None)

    def count(work):
        calls_made.clear()
        work()
        return len(calls_made)

    n, u = rows.n, np.ones(rows.n)
    assert count(lambda: rows.margins(np.ones(12))) == 1
    assert count(lambda: rows.transposed(u)) == 1
    assert count(lambda: rows.curved_product(u, np.ones(12))) == 1
    assert count(lambda: rows.hessian(u)) == 1
    arranged = rows._weighted(u, 0.0).arrange(np.random.default_rng(0).permutation(n), 1)
    assert count(lambda: arranged.ordered(u, np.empty(n))) == 1 + 2  # an exchange, and the product, which brings the scale of rows
    assert count(lambda: arranged.ordered(u, np.empty(n))) == 2
    factored = rows._weighted(u, 0.0).factored(u)
    assert count(factored.image) == 1  # which brings the scale of rows, and the vector beside them
    assert count(lambda: factored.step(np.ones(12), 0.5)) == 1
    assert count(lambda: factored.along((np.ones(12), 0.5), (np.ones(12), 0.0))) == 1
    step, signs, moved = DualStep(rs.Problem(X, y).loss, 0.1, 0.0), np.sign(y - 0.5), []
    kept = []
    for labels in (signs, signs.copy(), -signs):

        def one_pass(labels=labels):
            moved.append(np.zeros(12))
            rows.sdca_epoch(np.arange(n), labels, u, u, step, moved[-1], DualState(np.zeros(n), np.zeros(n)))

        assert count(one_pass) == 1
        kept.append(rows._samples[-1])
    assert kept[0] is kept[1] is not kept[2]  # labels, weights and squares go there once
    np.testing.assert_array_equal(moved[0], moved[1])
    np.testing.assert_allclose(moved[0], -moved[2], rtol=EXACT)  # a pass of other labels
    found = solve(rs.Problem(rows, y, alpha=1e-2), tol=1e-3)
    calls_made.clear()
    assert count(lambda: solve(rs.Problem(rows, y, alpha=1e-2), tol=1e-3)) <= 12 * len(found.history)


def test_what_is_kept_beside_rows_goes_with_them_or_when_it_is_let_go(client):
    rows = as_rows(numbers()).on_dask()
    keys = [part.key for part in rows.parts]

    def kept(dask_worker):
        return [len(calls._kept.get(dask_worker.data[key], ())) for key in keys if key in dask_worker.data]

    def found():
        return sorted(count for counts in client.run(kept).values() for count in counts)

    arranged = rows._weighted(np.ones(N), 0.0).arrange(np.random.default_rng(0).permutation(N), 1)
    arranged.ordered(np.ones(N), np.empty(N))
    assert found() == [2, 2]  # beside both partitions what was joined, and that with its scale
    del arranged
    for _ in range(100):
        if found() == [0, 0]:
            break
        time.sleep(0.05)
    assert found() == [0, 0]


def test_a_client_that_does_not_reach_workers_asks_the_scheduler_to(client, monkeypatch):
    async def unreachable(*arguments):
        return False

    monkeypatch.setattr(calls, "_reaches", unreachable)
    monkeypatch.setattr(calls, "_connections", weakref.WeakKeyDictionary())
    rows = as_rows(numbers()).on_dask()
    np.testing.assert_allclose(rows.margins(np.ones(D)), numbers().sum(axis=1), rtol=1e-12)
    assert type(calls._connections[client]("address")).__name__ == "ProxyRPC"


def test_the_discrepancy_of_an_order_is_that_of_rows_in_memory(client, labelled):
    X, y = labelled
    problem, same = (rs.Problem(A, y, alpha=1e-2, fit_intercept=True) for A in (as_rows(X).on_dask(), X))
    x = solve(same, tol=1e-8).x
    for order in ("rr", "ig"):
        ours, theirs = (rs.orders.discrepancy(each, order, batch_size=4, x=x) for each in (problem, same))
        assert ours == pytest.approx(theirs, rel=EXACT)


def test_arrays_of_dask_are_used_where_they_lie(client, labelled):
    X, y = labelled
    kinds = y + (X[:, [0]].toarray().ravel() > 0.6)  # several classes
    dense, labels = da.from_array(X.toarray(), chunks=(250, 5)), da.from_array(kinds, chunks=100)
    sparse = dense.rechunk({1: -1}).map_blocks(sp.csr_array)
    theirs = rs.constants(rs.Problem(X, kinds == 1, alpha=1e-2), permutations=1)
    for A in (dense, sparse):
        problem = rs.Problem(A, labels == 1, alpha=1e-2)
        assert problem.rows.edges.tolist() == [0, 250, 500, 600]
        assert rs.constants(problem, permutations=1).hat == pytest.approx(theirs.hat, rel=EXACT)
    model, same = (
        rs.CertifiedClassifier(alpha=1e-2, tol=1e-4, random_state=0).fit(rows, given, np.arange(600) % 3)
        for rows, given in ((sparse, labels), (X, kinds))
    )
    assert model.relative_gap_.size == model.classes_.size > 2
    assert model.relative_gap_.max() <= 1e-4
    np.testing.assert_allclose(model.coef_, same.coef_, atol=2e-2 * np.abs(same.coef_).max())
    np.testing.assert_allclose(model.decision_function(sparse), model.decision_function(X), rtol=EXACT, atol=1e-9)


def test_rows_of_an_array_are_looked_at(client):
    bad = numbers()
    bad[70, 2] = np.nan
    with pytest.raises(ValueError, match=r"X holds nan in row 70 \(counted from 0\)"):
        rs.Problem(da.from_array(bad, chunks=(30, D)), loss="unit")
    with pytest.raises(ValueError, match="X has 1 dimensions"):
        rs.Problem(da.ones(5), loss="unit")
    with pytest.raises(ValueError, match=r"needs at least one row"):
        rs.Problem(da.ones((0, 3)), loss="unit")


def test_commands_keep_rows_on_a_cluster(client, tmp_path, called):
    at = "--cluster", client.scheduler.address
    out, err = called("constants", "iris", "--batch-size", 4, "--permutations", 2, "--json", *at)
    assert err.startswith("reshuffle: cluster of 2 workers; dashboard: http://")
    expected = rs.constants(rs.load("iris").X, batch_size=4, permutations=2)
    assert json.loads(out)["lhat_mean"] == pytest.approx(expected.lhat_mean, rel=EXACT)
    files = tmp_path / "ours.json", tmp_path / "theirs.json"
    for file, where in zip(files, (at, ()), strict=True):
        assert "certified relative gap" in called("fit", "breast_cancer", "--out", file, *where)[0]
    ours, theirs = (rs.models.load(file).coef_ for file in files)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)  # few features: the same Newton steps
    tables = [called("order", "breast_cancer", "--scheme", "file", "--no-measure", *where)[0] for where in (at, ())]
    assert tables[0] == tables[1]


def test_a_scheduler_that_is_not_there_is_one_line(called, monkeypatch):
    monkeypatch.setattr(dask_rows, "_SECONDS_TO_ANSWER", 1)
    _, err = called("constants", "no such file", "--cluster", "tcp://127.0.0.1:1", status=2)
    assert re.fullmatch(r"reshuffle: no scheduler of Dask's answers at 'tcp://127.0.0.1:1' within 1 s .*or use 'local'.*\n", err)


def test_workers_that_do_not_start_are_one_line(called, monkeypatch):
    def killed(**options):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(dask_rows, "LocalCluster", killed)
    _, err = called("constants", "iris", "--cluster", "local", status=2)
    assert re.fullmatch(r"reshuffle: workers of Dask could not be started on this machine \(Nanny failed to start.\); .*\n", err)


def test_a_worker_that_is_killed_costs_time_and_no_result(client, labelled, monkeypatch):
    """By SIGKILL, between the two calls of a product of an order, and once more before a call of a Newton step."""
    X, y = labelled
    problem, same = (rs.Problem(A, y, alpha=1e-3) for A in (as_rows(X).on_dask(), X))
    products, asked, killed = [], [], []
    nothing_before, places = dask_rows._nothing_before, calls.Held._places

    def kill():
        killed.append(pids[min(pids)])
        os.kill(killed[-1], signal.SIGKILL)

    def between(everything):
        products.append(everything)
        if len(products) == 4:
            kill()
        return nothing_before(everything)

    def before(held):
        asked.append(held)
        if len(asked) == doomed:
            kill()
        return places(held)

    monkeypatch.setattr(dask_rows, "_nothing_before", between)
    pids = client.run(os.getpid)
    ours = rs.constants(problem, permutations=2, batch_size=7, jobs=1, tol=1e-8)
    assert len(products) > 10
    assert len(killed) == 1
    np.testing.assert_allclose(ours.hat, rs.constants(same, permutations=2, batch_size=7, tol=1e-8).hat, rtol=EXACT)
    client.wait_for_workers(2, timeout=60)
    monkeypatch.setattr(calls.Held, "_places", before)
    pids, doomed = client.run(os.getpid), 8
    found = solve(problem, tol=1e-6)
    assert len(killed) == 2
    assert found.relative_gap <= 1e-6
    assert found.f == pytest.approx(solve(same, tol=1e-6).f, rel=EXACT)
    client.wait_for_workers(2, timeout=60)


@pytest.mark.parametrize("replayed", [64, 2])
def test_a_worker_that_is_killed_loses_no_step_of_a_recurrence(client, replayed, monkeypatch):
    """Its n-vector lies on the workers, and is made again of the steps since it was sent there last."""
    monkeypatch.setattr(dask_rows, "_REPLAYED", replayed)
    rng = np.random.default_rng(3)
    rows, scale, start = as_rows(sp.csr_array(rng.standard_normal((600, 40)))), rng.random(600) + 0.5, rng.standard_normal(600)
    on_dask = rows.on_dask()
    pids, steps, step = client.run(os.getpid), [], dask_rows.FactoredDask.step

    def killed(*arguments):
        steps.append(arguments)
        if len(steps) == 4:
            os.kill(pids[on_dask._held._places()[0]], signal.SIGKILL)
        return step(*arguments)

    monkeypatch.setattr(dask_rows.FactoredDask, "step", killed)
    found = []
    ours = lanczos.GolubKahan(on_dask._weighted(scale, 0.0).factored, keep=100)
    for apply in (ours, rows._weighted(scale, 0.0).arrange(np.arange(600), 600).ordered):
        top = lanczos.top_eigenvalue(apply, start.copy(), tol=1e-4)
        found.append((top.value, lanczos.ritz_vector(apply, start.copy(), top, lambda image: image)))
    assert len(steps) > 8
    (ours, our_vector), (theirs, their_vector) = found
    assert ours == pytest.approx(theirs, rel=1e-12)
    np.testing.assert_allclose(our_vector, their_vector, atol=1e-11 * np.abs(their_vector).max())
    client.wait_for_workers(2, timeout=60)


def test_a_call_that_kills_its_worker_is_repeated_and_not_for_ever(client, tmp_path, monkeypatch):
    rows, died = as_rows(numbers()).on_dask(), tmp_path / "died"

    def dies(held, times):
        deaths = int(died.read_text()) if died.exists() else 0
        if deaths < times:
            died.write_text(str(deaths + 1))
            os.kill(os.getpid(), signal.SIGKILL)
        return held.n, None

    chosen = {"each": [()], "chosen": [1]}
    assert rows._held.ask(dies, 1, **chosen) == ([N // 2], None)
    assert died.read_text() == "1"
    monkeypatch.setattr(calls, "_LOSSES", 2)
    with pytest.raises(MemoryError, match=r"killed again and again in the same task.*use more workers"):
        rows._held.ask(dies, 9, **chosen)
    client.wait_for_workers(2, timeout=60)
    assert rows.margins(np.ones(D)) == pytest.approx(numbers().sum(axis=1))


def test_a_worker_that_dies_while_rows_are_exchanged_costs_no_row(client, tmp_path, monkeypatch):
    rows, order, died = as_rows(numbers()).on_dask(), np.random.default_rng(2).permutation(N), tmp_path / "died"

    def dies(held):
        """As another partition asks for its rows."""
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return held.lent(), None

    monkeypatch.setattr(dask_rows, "_lent", dies)
    np.testing.assert_array_equal(rows.in_order(order).take(np.arange(N)).matrix, numbers()[order])
    assert died.exists()
    client.wait_for_workers(2, timeout=60)


def test_workers_lend_to_each_other_where_half_of_the_rows_are_on_their_host():
    first, second, third, other = "tcp://10.0.0.1:1", "tcp://10.0.0.1:2", "tcp://10.0.0.1:3", "tcp://10.0.0.2:1"
    assert calls._lenders(first, [first, second, second, third]) == {second, third}
    assert calls._lenders(first, [other, second, other, first]) == {second}
    assert calls._lenders(other, [other, second, other, first]) == set()  # which holds half of them alone
    assert calls._lenders(first, [other, second, other, first, other]) == set()


def test_rows_are_borrowed_once_for_all_orders_and_given_back(client, tmp_path, monkeypatch):
    def lent(held):
        with open(tmp_path / "names", "a") as names:
            names.write(f"{held.lent().name}\n")
        return held.lent(), None

    def mapped(names):
        maps = Path("/proc/self/maps").read_text()
        return sum(name in maps for name in names)

    monkeypatch.setattr(dask_rows, "_lent", lent)
    rows, rng = as_rows(sp.csr_array(numbers())).on_dask(), np.random.default_rng(2)
    for order in (rng.permutation(N) for _ in range(3)):
        np.testing.assert_array_equal(rows.in_order(order).take(np.arange(N)).matrix.toarray(), numbers()[order])
    names = (tmp_path / "names").read_text().split()
    assert len(names) == len(set(names)) == 2  # each partition to the other
    assert list(client.run(mapped, names).values()) == [1, 1]
    del rows
    until = time.monotonic() + 20.0
    while any(client.run(mapped, names).values()) and time.monotonic() < until:
        client.run(gc.collect)
    assert not any(client.run(mapped, names).values())


@pytest.mark.parametrize("what", ["none", "gone", "another host"])
def test_rows_that_cannot_be_borrowed_are_sent(client, what, tmp_path, monkeypatch):
    """Where there is no loan, where its owner cannot be seen, and between hosts, which ask for none."""
    packed = tmp_path / "packed"

    def lent(held):
        if what == "another host":
            raise AssertionError("nobody on another host could open it")
        loan = held.lent()
        return None if what == "none" else dataclasses.replace(loan, process=2**22 + 1), None

    def sent(held, chosen):
        packed.touch()
        return held.packed(chosen.copy()), None

    def tell_hosts_apart(differ):
        calls.get_address_host = (lambda address: address) if differ else distributed.comm.get_address_host

    monkeypatch.setattr(dask_rows, "_lent", lent)
    monkeypatch.setattr(dask_rows, "_packed", sent)
    client.run(tell_hosts_apart, what == "another host")
    rows, order = as_rows(sp.csr_array(numbers())).on_dask(), np.random.default_rng(2).permutation(N)
    np.testing.assert_array_equal(rows.in_order(order).take(np.arange(N)).matrix.toarray(), numbers()[order])
    client.run(tell_hosts_apart, False)
    assert packed.exists()


def test_workers_read_a_store_by_themselves(client, tmp_path):
    X, y = numbers(), np.where(numbers()[:, 0] > 0.5, 1.0, -1.0)
    np.savez(tmp_path / "data.npz", X=X, y=y)
    rs.build_store(tmp_path / "a.store", [tmp_path / "data.npz"])
    stored = rs.open(tmp_path / "a.store")
    placed = stored.on_dask()
    assert sum(len(pickle.dumps(stored.reader(0, N))) for _ in range(2)) < 20_000  # paths, and no rows
    np.testing.assert_allclose(placed.margins(np.arange(D)), X @ np.arange(D), rtol=1e-12)
    own, theirs = (rs.constants(rs.Problem(rows, loss="unit"), batch_size=4, permutations=2) for rows in (placed, X))
    np.testing.assert_allclose(own.lhat, theirs.lhat, rtol=EXACT)
