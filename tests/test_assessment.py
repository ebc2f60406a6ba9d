"""How good is my shuffle? The numbers against sums written out, the promises by hand, and a sentence for every case."""

from dataclasses import replace
from itertools import pairwise
from math import ceil, inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.assessment import Assessment, Assessments, Measured, Promised
from reshuffle.assessment.study import Study
from tests.oracle import batch_constant, ordered_constant, shuffled_sgd

SEED, DRAWS = 3, 5


def small(n=26, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5
    return X, np.sort(np.where(X[:, 0] + 0.5 * rng.standard_normal(n) > 0.5, 1.0, -1.0))


def sorted_by_label(path):
    data = rs.load(path)
    by_label = np.argsort(data.y, kind="stable")
    return rs.Problem(data.X[by_label], data.y[by_label], alpha=1e-3)


@pytest.fixture(scope="module")
def ragged():
    """With an intercept there is no strong convexity, so Theorems 1 and 6 are all that is promised."""
    X, y = small()
    problem = rs.Problem(X, y, alpha=0.05, fit_intercept=True)
    return X, y, problem, rs.theory.measure(problem)


def gradients(X, y, problem, x):
    """grad f_j(x) of every sample, one row each."""
    A = np.column_stack([X, np.ones(len(X))])
    slopes = -y / (1 + np.exp(y * (A @ x)))
    return slopes[:, None] * A + problem.alpha * np.r_[x[:-1], 0.0]


def discrepancy_over_rr(g, permutation, b):
    n = len(g)
    total = sum(np.sum(g[permutation[:k]].sum(axis=0) ** 2) for k in range(b, n, b)) / (n * b)
    m = ceil(n / b)
    mean = np.mean(np.sum(g**2, axis=1)) * m * (m - 1) / (n * (n - 1)) * (n / 2 - b * (2 * m - 1) / 6)
    return total / mean


# --- against brute force


@pytest.mark.parametrize("scheme", ["ig", "so", "rr", "buffer:7", "blocks:4/window:2", np.arange(26)[::-1]], ids=str)
def test_the_discrepancy_is_the_mean_over_the_orders_drawn_over_that_of_random_orders(ragged, scheme):
    X, y, problem, optimum = ragged
    a = rs.orders.assess(problem, scheme, batch_size=4, optimum=optimum, draws=DRAWS, seed=SEED, measure=False)
    g = gradients(X, y, problem, optimum.x)
    drawn = [rs.orders.make_order(scheme, 26, SEED + k).permutation(k) for k in range(DRAWS)]
    want = [discrepancy_over_rr(g, permutation, 4) for permutation in drawn]
    assert a.discrepancy == pytest.approx(np.mean(want), rel=1e-6)
    assert a.draws == (1 if isinstance(scheme, np.ndarray) or scheme == "ig" else DRAWS)
    assert a.spread == pytest.approx(np.std(want, ddof=1) if a.draws > 1 else 0.0, rel=1e-6)


def test_over_many_random_orders_the_discrepancy_is_one(ragged):
    _, _, problem, optimum = ragged
    a = rs.orders.assess(problem, "rr", batch_size=4, optimum=optimum, draws=3000, measure=False)
    assert a.discrepancy == pytest.approx(1.0, abs=4 * a.spread / sqrt(3000))


def test_lhat_and_ltil_are_means_over_those_of_random_orders(ragged):
    X, _, problem, optimum = ragged
    a = rs.orders.assess(problem, "ig", batch_size=4, optimum=optimum, seeds=2, seed=SEED, measure=False)
    A, weights = np.column_stack([X, np.ones(26)]), np.full(26, 0.25)
    shrunk = problem.alpha * rs.theory.ordered_norm_ratio(7)
    random = [rs.orders.permutation(26, SEED + k, k) for k in range(2)]
    hat, til = (lambda order: ordered_constant(A, weights, order, 4) + shrunk), (lambda order: batch_constant(A, weights, order, 4))
    assert a.lhat == pytest.approx(hat(np.arange(26)) / np.mean([hat(order) for order in random]), rel=1e-3)
    ltil = (til(np.arange(26)) + problem.alpha) / (np.mean([til(order) for order in random]) + problem.alpha)
    assert a.ltil == pytest.approx(ltil, rel=1e-3)


@pytest.mark.parametrize("eps", [1e-2, 1e-4])
@pytest.mark.parametrize("scheme", ["rr", "ig", "buffer:7"])
def test_the_promised_epochs_are_the_fewest_for_which_some_step_makes_the_bound_eps(ragged, scheme, eps):
    X, y, problem, optimum = ragged
    n, b = 26, 4
    a = rs.orders.assess(problem, scheme, batch_size=b, eps=eps, optimum=optimum, draws=DRAWS, measure=False)
    A, m = np.column_stack([X, np.ones(n)]), 7
    full = 0.25 * np.linalg.norm(A, 2) ** 2 / n + problem.alpha
    norms = 0.25 * np.sort(np.sum(A**2, axis=1))
    til = min(norms[-b:].mean(), 0.25 * np.linalg.norm(A, 2) ** 2 / b) + problem.alpha
    g = gradients(X, y, problem, optimum.x)
    mean = np.mean(np.sum(g**2, axis=1)) * m * (m - 1) / (n * (n - 1)) * (n / 2 - b * (2 * m - 1) / 6)
    noise = til * mean * (1.0 if scheme == "rr" else a.discrepancy)
    steps = sqrt(b * n / m) / (n * sqrt(2 * full * til)) * np.geomspace(1e-4, 1.0, 200_001)
    rest = eps - steps**2 * noise
    needed = np.min(np.where(rest > 0, b * np.sum(optimum.x**2) / (2 * n * steps * np.maximum(rest, 1e-300)), inf))
    assert abs(a.promised.epochs - ceil(needed)) <= 1
    if scheme != "rr":
        random = rs.orders.assess(problem, "rr", batch_size=b, eps=eps, optimum=optimum, measure=False)
        assert a.promised.slowdown == a.promised.epochs / random.promised.epochs


@pytest.mark.parametrize("intercept", [True, False])
def test_the_slowdown_goes_from_one_to_the_square_root_of_the_discrepancy_as_eps_falls(intercept):
    X, y = small(n=150)
    problem = rs.Problem(X, y, alpha=0.05, fit_intercept=intercept)
    optimum = rs.theory.measure(problem)
    found = [rs.orders.assess(problem, "ig", eps=eps, optimum=optimum, measure=False) for eps in (1e2, 1e-2, 1e-4, 1e-9)]
    slowdowns = [a.promised.slowdown for a in found]
    limit = sqrt(found[0].discrepancy)
    assert limit > 3
    assert slowdowns[0] == 1.0
    assert all(before <= after * 1.001 for before, after in pairwise(slowdowns))
    assert slowdowns[-1] == pytest.approx(limit, rel=0.02)
    assert {a.promised.slowdown_at_small_eps for a in found} == {limit}


def test_the_step_limit_is_that_of_a_run_at_the_step_of_the_theory(ragged):
    _, _, problem, optimum = ragged
    for scheme in ("rr", "ig", "buffer:7"):
        a = rs.orders.assess(problem, scheme, batch_size=4, optimum=optimum, measure=False)
        assert a.promised.step_size_limit == rs.minimize(problem, order=scheme, batch_size=4, epochs=30).steps[0]


def test_gaps_are_those_of_algorithm_1_at_one_step_for_all_orders(ragged):
    X, y, problem, optimum = ragged
    table = rs.orders.assess(problem, ["rr", "blocks:4"], batch_size=4, optimum=optimum, epochs=8, seeds=2, seed=SEED)
    assert table["rr"].measured.step_size == table["blocks:4"].measured.step_size
    for a in table:
        runs = []
        for k in range(2):
            order = rs.orders.make_order(a.scheme, 26, SEED + k)
            permutations, steps = [order.permutation(epoch) for epoch in range(8)], [a.measured.step_size] * 8
            ends, _ = shuffled_sgd(X, y, problem.loss, permutations, 4, steps, np.zeros(4), alpha=0.05, intercept=True)
            runs.append([problem.objective(x) - optimum.f for x in ends])
        want = np.exp(np.mean(np.log(runs), axis=0))
        np.testing.assert_allclose(a.measured.gaps, want, rtol=1e-6)
        assert a.measured.gap == pytest.approx(sqrt(want[-1] * want[-2]))
    mine, random = table["blocks:4"].measured, table["rr"].measured
    assert mine.gap_over_rr == mine.gap / random.gap
    assert (random.gap_over_rr, random.slowdown) == (1.0, 1.0)


def test_the_measured_slowdown_counts_epochs_to_three_times_the_last_gap_of_random_orders(ragged, monkeypatch):
    _, _, problem, optimum = ragged
    curves = {"rr": [1.0, 0.1, 0.01, 1e-3, 1e-4, 1e-4, 1e-4, 1e-4], "ig": [1.0, 1.0, 1e-3, 1e-3, 1e-3, 1e-3, 2e-4, 2e-4]}
    study = Study(problem, batch_size=4, eps=1e-3, optimum=optimum, epochs=8)
    monkeypatch.setattr(study, "_gaps", lambda scheme: np.array(curves[scheme]))
    measured = study.assess("ig").measured
    assert measured.gap_over_rr == pytest.approx(2.0)
    # Of two epochs each, the means 1e-4 (epoch 6) and 2e-4 (8) are the first below 3e-4; before that, 3.162e-4 and 4.472e-4.
    assert measured.slowdown == pytest.approx((7 + log(4.472 / 3) / log(4.472 / 2)) / (5 + log(3.1623 / 3) / log(3.1623)), rel=1e-3)
    curves["ig"][-1] = 1.0
    study._assessed.clear()
    assert study.assess("ig").measured.slowdown == inf


def test_a_scheme_that_does_not_visit_each_row_once_is_measured_and_promised_nothing(ragged):
    _, _, problem, optimum = ragged
    a = rs.orders.assess(problem, "replacement", batch_size=4, optimum=optimum, epochs=4, seeds=1)
    assert a.promised is None
    assert np.isnan(a.discrepancy)
    assert a.measured.gap > 0
    assert "as an epoch does not visit each row once, but after 4 epochs" in a.advice
    assert "–" in str(a)


def test_orders_that_a_run_makes_are_those_of_the_last_quarter_of_one(ragged):
    X, y, problem, optimum = ragged
    a = rs.orders.assess(problem, "balanced", batch_size=4, optimum=optimum, epochs=6, seeds=1, seed=SEED)
    short, whole = (
        rs.minimize(problem, order="balanced", batch_size=4, step_size=a.measured.step_size, epochs=k, seed=SEED) for k in (4, 5)
    )
    g = gradients(X, y, problem, optimum.x)
    want = [discrepancy_over_rr(g, run.following, 4) for run in (short, whole)]
    assert a.discrepancy == pytest.approx(np.mean(want), rel=1e-6)
    assert a.promised is None
    assert "as its orders are made while a run goes on, but after 6 epochs" in a.advice
    unmeasured = rs.orders.assess(problem, "balanced", batch_size=4, optimum=optimum, measure=False)
    assert np.isnan(unmeasured.discrepancy)
    assert "nothing was measured (measure=False)" in unmeasured.advice


def test_without_noise_every_order_is_as_good():
    X = np.random.default_rng(0).standard_normal((12, 3))
    problem = rs.Problem(X, X @ [1.0, 2.0, 3.0], loss="squared")
    a = rs.orders.assess(problem, "ig", measure=False, optimum=replace(rs.theory.measure(problem), sigma=0.0))
    assert (a.discrepancy, a.promised.slowdown) == (1.0, 1.0)


def test_where_training_has_nothing_to_do_nothing_is_measured():
    X, _ = small()
    a = rs.orders.assess(rs.Problem(X, np.zeros(26), loss="squared", alpha=0.1), "ig")
    assert a.measured is None
    assert "already a minimum" in a.advice


def test_large_data_is_measured_only_if_asked(ragged, monkeypatch):
    _, _, problem, optimum = ragged
    monkeypatch.setattr("reshuffle.assessment.study.LARGEST", 50)
    a = rs.orders.assess(problem, "ig", optimum=optimum)
    assert a.measured is None
    assert "more than 50" in a.unmeasured
    assert rs.orders.assess(problem, "ig", optimum=optimum, measure=True, epochs=2, seeds=1).measured is not None


# --- real data


def test_on_a9a_sorted_by_label_orders_are_as_far_apart_as_they_were_when_written_down(real_file):
    """R over that of random orders, and how the gaps follow: the file 3500, buffers of n/10 and n/3 3118 and 1638, blocks of
    n/100 and n/1000 87 and 5 to 12.
    """
    problem = sorted_by_label(real_file("a9a"))
    n = problem.n
    schemes = ["rr", "file", f"buffer:{n // 10}", f"buffer:{n // 3}", f"blocks:{n // 100}", f"blocks:{n // 1000}"]
    table = rs.orders.assess(problem, schemes, batch_size=32, epochs=20, seeds=1)
    R = [a.discrepancy for a in table]
    assert R[0] == pytest.approx(1.0, abs=4 * table[0].spread / sqrt(32))
    assert R[1:4] == pytest.approx([3500, 3118, 1638], rel=0.02)
    assert R[4:] == pytest.approx([87, 10], rel=0.5)
    assert all(0.97 < a.lhat < 1.03 for a in table)
    _, file, buffer_10, buffer_3, blocks_100, blocks_1000 = (a.measured.gap_over_rr for a in table)
    assert file > buffer_10 > buffer_3 > blocks_1000 > 1
    assert buffer_10 > blocks_100 > blocks_1000
    assert file > 100 * blocks_1000
    assert table.advice.startswith("Use a random order; ig")


# --- the least shuffling that will do


@pytest.mark.parametrize("eps", [None, 1e-3])
@pytest.mark.parametrize("family", ["buffer", "blocks"])
def test_what_is_found_does_and_the_next_less_shuffled_one_does_not(family, eps):
    X, y = small(n=200)
    problem = rs.Problem(X, y, alpha=0.01)
    found = rs.orders.smallest(problem, family, within=1.3, batch_size=2, eps=eps, measure=False)
    tried = {entry.parameter: entry.slowdown for entry in found.tried}
    assert tried[found.parameter] <= 1.3
    less = max(p for p in tried if p < found.parameter) if family == "buffer" else min(p for p in tried if p > found.parameter)
    assert tried[less] > 1.3
    assert abs(less - found.parameter) == 1 or 1 / 1.05 <= less / found.parameter <= 1.05
    assert 1 < found.parameter < 200
    again = rs.orders.assess(problem, f"{family}:{found.parameter}", batch_size=2, eps=eps or 1e-3, measure=False)
    assert again == found.assessment
    counts = again.promised.slowdown_at_small_eps if eps is None else again.promised.slowdown
    assert counts == tried[found.parameter]
    assert f"{found.parameter} rows of 200" in str(found)
    assert found.to_dict()["parameter"] == found.parameter


def test_a_file_in_a_random_order_needs_no_buffer_and_one_block():
    X, y = small(n=400)
    shuffled = np.random.default_rng(5).permutation(400)
    problem = rs.Problem(X[shuffled], y[shuffled], alpha=0.1)
    file = rs.orders.assess(problem, "file", measure=False)
    within = max(1.1, 1.01 * file.promised.slowdown_at_small_eps)
    assert rs.orders.smallest(problem, "buffer", within=within, measure=False).parameter == 1
    assert rs.orders.smallest(problem, "blocks", within=within, measure=False).parameter == 400


# --- words


def entry(promised=1.0, measured=1.0, discrepancy=1.0, **changes):
    gap_over = 100.0 if measured == inf else measured
    runs = Measured(30, 3, 0.1, 64, (0.5, 0.1), 0.1 * gap_over, gap_over, measured)
    promise = Promised(int(1000 * promised), promised, sqrt(discrepancy), 1e-3, 1e-3, 6)
    made = Assessment("buffer:9", "a shuffle buffer of 9 rows", 1, 1e-3, discrepancy, 0.0, 1, 1.0, 1.0, promise, runs)
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("a", "begins", "says"),
    [
        (entry(), "Keep it: with a shuffle buffer", "as many epochs as in a random order, and after 30 epochs at 64 times"),
        (entry(5.0, inf, 25.0), "Shuffle more: with", "5 times the epochs of a random order, and after"),
        (entry(1.0, inf, 400.0), "Shuffle more, although", "20 times as many for smaller eps, as its discrepancy is 400 times"),
        (entry(1.2, inf, 1.3), "Shuffle more, although", "smaller steps (its discrepancy is 1.3 times a random order's)"),
        (entry(5.0, 1.1, 25.0), "Keep it for runs like these, although", "a promise is for the worst problem"),
        (entry(1.0, 0.2, 0.01), "Keep it: with", "its measured gap was 5 times below that of random orders"),
        (replace(entry(), measured=None, unmeasured="too large"), "Keep it: with", "nothing was measured (too large)"),
        (replace(entry(5.0, 1.0, 25.0), measured=None, unmeasured="x"), "Shuffle more: with", "nothing was measured (x)"),
        (replace(entry(1.0, 1.0, 400.0), measured=None), "Shuffle more if eps is to be smaller", "up to 20 times as many"),
        (replace(entry(), promised=None, unpromised="y"), "Keep it: nothing is promised beforehand", "as y, but after 30 epochs"),
        (replace(entry(5.0, inf), promised=None, unpromised="y"), "Shuffle more: nothing is promised", "as y, but after 30 epochs"),
        (replace(entry(), promised=None, measured=None, unmeasured="x"), "Nothing is promised", "nothing was measured (x)"),
        (replace(entry(), scheme="rr"), "This is random reshuffling", "compared with"),
    ],
)  # fmt: skip
def test_there_is_a_sentence_for_every_case(a, begins, says):
    assert a.advice.startswith(begins)
    assert says in a.advice
    assert a.advice.endswith(".")
    assert a.advice in str(a)
    assert a.to_dict()["advice"] == a.advice


def test_a_run_that_diverged_is_said_to_have():
    broken = replace(entry(5.0, inf, 9.0).measured, gap=inf, gap_over_rr=inf)
    a = replace(entry(5.0, inf, 9.0), measured=broken)
    assert "it had diverged" in a.advice
    assert "diverged" in str(a)
    assert a.to_dict()["measured"]["gap"] is None


@given(
    st.lists(
        st.builds(entry, st.floats(0.1, 100), st.one_of(st.floats(0.1, 100), st.just(inf)), st.floats(1e-3, 1e5)),
        min_size=1,
        max_size=4,
    )
)
def test_every_table_of_numbers_can_be_read(entries):
    named = [replace(a, scheme=f"buffer:{k}") for k, a in enumerate(entries, 1)]
    table = Assessments(tuple(named))
    assert len(str(table).splitlines()) == len(table) + 4
    assert all(a.scheme in table.advice for a in table)
    parted = [(a.promised.slowdown > 1.25) != (a.measured.slowdown > 1.25 and a.measured.gap_over_rr > 2.0) for a in table]
    assert ("disagree" in table.advice) == any(parted)
    assert list(table.to_frame().index) == [a.scheme for a in table]
    assert table.advice in table._repr_html_()


def test_a_table_is_a_sequence_that_can_be_asked_by_name(ragged):
    _, _, problem, optimum = ragged
    table = rs.orders.assess(problem, ["rr", "file", np.arange(26)], batch_size=4, optimum=optimum, measure=False)
    assert [a.scheme for a in table] == ["rr", "ig", "given"]
    assert table["ig"] is table[1]
    assert table[1].discrepancy == table[2].discrepancy
    assert table.to_dict()["schemes"][1] == table[1].to_dict()
    assert "name another" in rs.orders.assess(problem, ["rr"], optimum=optimum, measure=False).advice


# --- bad input


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"scheme": "bufer:10"}, "order='bufer:10' is not known"),
        ({"scheme": ["rr", "buffer:x"]}, "'x' is not a whole number"),
        ({"scheme": []}, "scheme is an empty list"),
        ({"scheme": iter([np.arange(26)])}, "scheme is an iterator"),
        ({"batch_size": 26}, "batch_size=26 takes all rows in one step"),
        ({"batch_size": 27}, "batch_size=27 is larger than the 26 rows"),
        ({"eps": 0.0}, "eps=0.0 must be a positive number"),
        ({"seeds": 0}, "seeds=0 is too small"),
        ({"draws": 0}, "draws=0 is too small"),
        ({"epochs": 0}, "epochs=0 is too small"),
    ],
)
def test_mistakes_are_named_before_any_work(arguments, complaint, monkeypatch):
    X, y = small()
    monkeypatch.setattr("reshuffle.assessment.study.find", lambda problem: pytest.fail("it was solved"))
    with pytest.raises(ValueError, match=complaint.replace("(", r"\(")):
        rs.orders.assess(rs.Problem(X, y, alpha=0.1), **{"scheme": "file", **arguments})


def test_what_cannot_be_searched_or_promised_is_refused():
    X, y = small()
    problem = rs.Problem(X, y, alpha=0.1)
    with pytest.raises(ValueError, match="family='shards' is not known; use one of buffer, blocks"):
        rs.orders.smallest(problem, "shards")
    with pytest.raises(ValueError, match=r"within=1\.0 must be more than 1"):
        rs.orders.smallest(problem, within=1.0)
    with pytest.raises(ValueError, match="loss='hinge' has kinks"):
        rs.orders.assess(problem.replace(loss="hinge", alpha=0.0), "file")
    with pytest.raises(ValueError, match="has constants but no values"):
        rs.orders.assess(rs.Problem(X, loss="unit"), "file")
