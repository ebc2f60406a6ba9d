"""Epochs that are no permutations train like any other, and no theorem or constant is claimed for them."""

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.orders import SCHEMES, Scheme, make_order
from tests.oracle import shuffled_sgd

NAMES = ["replacement", "distributed:7", "distributed:7/drop:1"]  # of 40 rows: one drawn again and again, 42, 35


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return rs.Problem(rng.standard_normal((40, 3)), rng.choice([-1.0, 1.0], 40), loss="logistic", alpha=0.05, fit_intercept=True)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batch_size", [1, 4])
def test_a_run_visits_the_rows_that_the_order_names(problem, name, batch_size):
    visited = [make_order(name, 40, 3).permutation(epoch) for epoch in range(4)]
    run = rs.minimize(problem, order=name, batch_size=batch_size, step_size=0.05, epochs=4, seed=3)
    A, y = problem.rows.csr().toarray()[:, :3], problem.labels
    ends, _ = shuffled_sgd(A, y, problem.loss, visited, batch_size, [0.05] * 4, np.zeros(4), alpha=0.05, intercept=True)
    np.testing.assert_allclose(run.last, ends[-1], rtol=1e-12)
    assert run.order == name
    assert run.gap >= run.f - rs.theory.measure(problem).f > 0.0  # a certificate asks nothing of the order


@pytest.mark.parametrize("rows", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_dual_value_of_a_row_that_was_not_visited_stays(problem, rows, monkeypatch):
    lists = [np.array([0, 1, 2]), np.array([2, 2, 3, 3, 3])]
    monkeypatch.setitem(SCHEMES, "few", Scheme("a few rows", lambda n, seed, epoch: lists[epoch], permutes=False))
    here = rs.Problem(rows(np.arange(1.0, 6.0)[:, None]), np.ones(5), loss="squared", alpha=0.1)
    first = rs.minimize(here, order="few", step_size=0.01, epochs=1)
    both = rs.minimize(here, order="few", step_size=0.01, epochs=2)
    assert first.dual[0] == -1.0  # at x = 0
    assert (first.dual[3:] == 0.0).all()
    np.testing.assert_array_equal(both.dual[[0, 1, 4]], first.dual[[0, 1, 4]])
    assert (both.dual[[2, 3]] != first.dual[[2, 3]]).all()
    x = 0.0
    for rows_of_epoch in lists:
        for i in rows_of_epoch:
            x = (1.0 - 0.01 * 0.1) * x - 0.01 * ((i + 1) * x - 1.0) * (i + 1)
    assert both.last[0] == pytest.approx(x, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_constants_theorems_and_their_steps_are_refused(problem, name):
    order = make_order(name, 40, 0)
    with pytest.raises(ValueError, match=f"order='{name}' does not visit each of the 40 rows once an epoch"):
        rs.constants(problem, order=name)
    assert rs.theory.theorems_for(problem, order) == rs.theory.theorems_for(None, order) == []
    for call in (
        lambda: rs.theory.theorem_for(problem, order),
        lambda: rs.minimize(problem, order=name),
        lambda: rs.ShuffledSGDClassifier(order=name).fit(np.eye(40), problem.labels),
        lambda: rs.minimize_sum(lambda x, rows: x, 1.0, 40, np.zeros(1), order=name),
    ):
        with pytest.raises(ValueError, match=f"order='{name}': theorems are about orders that visit each sample once an epoch"):
            call()
    assert rs.theory.theorems_for(problem, make_order("distributed:8", 40, 0))  # which 8 ranks can share


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_promised_of_such_a_run(problem, name):
    run = rs.minimize(problem, order=name, step_size=1e-4, epochs=3)
    guarantee = rs.Guarantee.of(problem, run, rs.theory.measure(problem))
    assert (guarantee.bound, guarantee.theorem, guarantee.prior) == (np.inf, None, None)
    assert "promised     nothing: theorems are about each sample once an epoch" in str(guarantee)
    assert guarantee.gap > 0.0


@pytest.mark.parametrize("name", NAMES)
def test_estimators_sums_and_checkpoints_run_them(problem, name, tmp_path):
    X, y = np.random.default_rng(1).standard_normal((40, 2)), problem.labels
    options = {"order": name, "step_size": 0.1, "random_state": 0, "alpha": 0.1}
    model = rs.ShuffledSGDClassifier(epochs=3, tol=0.0, **options)
    with pytest.warns(Warning, match="epochs"):
        model.fit(X, y)
    assert model.dual_gap_ > 0.0
    other = rs.ShuffledSGDClassifier(**options)
    for _ in range(3):
        other.partial_fit(X, y, classes=[-1, 1])
    assert len(other.history_) == 3
    assert np.isfinite(other.coef_).all()
    centres = np.linspace(-1.0, 1.0, 40)
    total = rs.minimize_sum(
        lambda x, rows: rows.size * x - centres[rows].sum(), 1.0, 40, np.ones(1), order=name, step_size=0.05, epochs=2, batch_size=3
    )
    x = 1.0
    for epoch in range(2):
        rows = make_order(name, 40, 0).permutation(epoch)
        for low in range(0, rows.size, 3):
            batch = rows[low : low + 3]
            x -= 0.05 / 3 * (batch.size * x - centres[batch].sum())
    assert total.last[0] == pytest.approx(x, rel=1e-12)
    whole = rs.minimize(problem, order=name, step_size=0.05, epochs=4)
    path = tmp_path / "run.npz"
    rs.minimize(problem, order=name, step_size=[0.05] * 4, epochs=4, checkpoint=path, tol=1e9)  # stops after the first
    np.testing.assert_array_equal(
        rs.minimize(problem, order=name, step_size=[0.05] * 4, epochs=4, checkpoint=path).dual, whole.dual
    )


@pytest.mark.parametrize(
    "name", ["buffer:10", "blocks:5/window:2", "shards:8/open:2/buffer:5", "py1e:8/block:20", "paired", "file"]
)
def test_orders_with_names_go_wherever_rr_does(problem, name):
    c = rs.constants(problem, order=name, batch_size=4, permutations=3)
    order = make_order(name, 40, 0)
    assert c.permutations == (order.count or 3)
    by_hand = rs.constants(problem, order=[order.permutation(k) for k in range(c.permutations)], batch_size=4)
    np.testing.assert_allclose(c.hat, by_hand.hat, rtol=1e-3)
    run = rs.minimize(problem, order=name, batch_size=4, epochs=3)
    guarantee = rs.Guarantee.of(problem, run, rs.theory.measure(problem))
    assert guarantee.gap <= guarantee.bound < np.inf
    assert run.order == order.name
    assert f"order        {order.name}: {rs.orders.describe(order.name)} (" in str(c)
