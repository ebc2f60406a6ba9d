"""The solver without a step size: it reaches what it certifies, on any data, for any loss."""

import itertools
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.duality import lower_bound, rounding
from reshuffle.losses import LOSSES, get_loss
from reshuffle.rows.memory import SparseRows
from reshuffle.solver.certified import baseline, solve, tuning
from reshuffle.solver.certified.batch import Batch, Losses, Smoothed, sample_by_curvature
from reshuffle.solver.certified.newton import Missed, _left, _shrunk, _to_go, batch_sizes, on_batch, on_batches
from reshuffle.solver.certified.progress import Progress
from reshuffle.solver.certified.row_span import RowSpan
from reshuffle.solver.certified.sdca import sdca
from reshuffle.solver.certified.solve import _led_to
from reshuffle.vectors import balance

NAMES = [name for name in LOSSES if name != "unit"]
KINKED = [name for name in NAMES if get_loss(name).smoothness is None]


def data(n, d, seed=0, kind="dense", task="classification"):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    if kind == "sparse":
        X = sp.random(n, d, density=0.3, random_state=rng, data_rvs=rng.standard_normal, format="csr")
    z = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) + 0.7
    return X, np.where(z > 0, 1.0, -1.0) if task == "classification" else z


def problem(name, n=60, d=5, kind="dense", alpha=0.01, intercept=True, weighted=False, seed=0):
    X, y = data(n, d, seed, kind, get_loss(name).task)
    weights = np.random.default_rng(9).exponential(size=n) if weighted else None
    return rs.Problem(X, y, loss=name, alpha=alpha, fit_intercept=intercept, sample_weight=weights)


def by_slow_descent(p, tight=1e-12):
    """The oracle: full-batch accelerated proximal-free descent on a smooth problem, to a gradient of almost nothing."""
    from scipy.optimize import minimize

    x = np.zeros(p.dimension)
    for _ in range(5):
        x = minimize(p.objective, x, jac=p.gradient, method="BFGS", options={"gtol": tight, "maxiter": 5000}).x
    return p.objective(x)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_reaches_a_tight_certificate_for_every_loss(name, weighted, intercept, kind):
    p = problem(name, kind=kind, intercept=intercept, weighted=weighted)
    found = solve(p, tol=1e-9, max_iter=3000)
    assert found.converged
    assert found.relative_gap <= 1e-9
    assert found.f == pytest.approx(p.objective(found.x), rel=1e-12)
    assert found.f - found.gap <= lower_bound(p, found.dual, found.f, baseline(p).nothing)[0] + 1e-12
    low, high = p.dual_bounds
    assert (found.dual >= low).all()
    assert (found.dual <= high).all()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", [name for name in NAMES if name not in KINKED])
def test_the_optimum_is_that_of_a_slow_oracle(name, intercept):
    p = problem(name, intercept=intercept, weighted=True)
    lowest = by_slow_descent(p)
    for tol in (1e-1, 1e-3, 1e-8):
        found = solve(p, tol=tol)
        true = found.f - lowest
        assert -1e-9 <= true <= found.gap + 1e-9
        assert found.gap <= tol * (baseline(p).f - found.f)


@pytest.mark.parametrize("name", KINKED)
@pytest.mark.parametrize("intercept", [False, True])
def test_losses_with_kinks_reach_the_optimum_of_their_quadratic_program(name, intercept):
    """min (alpha/2)|x|^2 + (1/n) sum w xi with xi above every straight piece, by a general-purpose solver."""
    from scipy.optimize import LinearConstraint, minimize

    p = problem(name, n=14, d=3, intercept=intercept, alpha=0.05)
    low, high = p.dual_bounds
    A = np.hstack([p.X, np.ones((p.n, 1))]) if intercept else p.X
    slopes = [low, np.zeros(p.n), high]
    pieces = np.vstack([np.hstack([u[:, None] * A, -np.eye(p.n)]) for u in slopes])
    heights = np.concatenate([p.conjugates(u) for u in slopes])
    weights = p.sample_weight / p.n
    bare = np.r_[np.full(p.d, p.alpha), np.zeros(p.dimension - p.d + p.n)]
    result = minimize(
        lambda v: 0.5 * bare @ (v * v) + weights @ v[p.dimension :],
        np.r_[np.zeros(p.dimension), np.full(p.n, 5.0)],
        jac=lambda v: bare * v + np.r_[np.zeros(p.dimension), weights],
        constraints=[LinearConstraint(pieces, -np.inf, heights)],
        method="SLSQP",
        options={"ftol": 1e-13, "maxiter": 2000},
    )
    found = solve(p, tol=1e-9, max_iter=5000)
    assert found.f == pytest.approx(result.fun, abs=1e-7)


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    n=st.integers(1, 40),
    d=st.integers(1, 60),
    seed=st.integers(0, 10**6),
    scale=st.floats(-3, 3),
    alpha=st.floats(-5, 1),
    intercept=st.booleans(),
)
def test_never_certifies_what_it_has_not_reached(name, n, d, seed, scale, alpha, intercept):
    """Two runs bracket the same minimum, however badly scaled the data."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-abs(scale), abs(scale), d)
    y = rng.standard_normal(n)
    if get_loss(name).task == "classification":
        y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    p = rs.Problem(X, y, loss=name, alpha=10.0**alpha, fit_intercept=intercept)
    rough, fine = solve(p, tol=0.3, max_iter=50), solve(p, tol=1e-4, max_iter=500, seed=1)
    for found in (rough, fine):
        assert found.f == pytest.approx(p.objective(found.x), rel=1e-6, abs=1e-9)
        assert found.f - found.gap <= min(rough.f, fine.f) + 1e-9 * (1.0 + abs(fine.f))


def test_many_features_start_with_sdca_and_few_with_newton_steps():
    wide = solve(problem("logistic", n=220, d=300, alpha=0.1), tol=1e-4)
    assert wide.converged
    tall = solve(problem("logistic", n=3000, d=5), tol=1e-6)
    assert len(tall.history) <= 3
    assert tall.converged


@pytest.mark.parametrize("name", ["logistic", "squared_hinge"])
def test_heavy_rows_and_unscaled_features_converge(name):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 20)) * np.logspace(-3, 3, 20) * (rng.pareto(1.5, 400)[:, None] + 0.1)
    y = np.where(X @ (rng.standard_normal(20) / np.logspace(-3, 3, 20)) > 0, 1, -1)
    for alpha in (1 / 400, 10 / 400):
        assert solve(rs.Problem(X, y, loss=name, alpha=alpha), tol=1e-6, max_iter=200).converged


def test_features_that_could_do_without_an_intercept_do_not_keep_dual_values_from_balancing():
    """Positive features of scales far apart, whose mean is nearly an intercept: a little of it costs the certificate much."""
    rng = np.random.default_rng([300, 600, 3])
    X = rng.lognormal(0.0, 0.7, (300, 600))
    y = np.where((X - 1.3) @ rng.standard_normal(600) + rng.standard_normal(300) > 0.0, 1.0, -1.0)
    p = rs.Problem(X * np.logspace(-1, 1, 600), y, loss="logistic", alpha=100.0 / 300, fit_intercept=True)
    found = solve(p, tol=1e-3, max_iter=60)
    assert found.converged


@pytest.mark.parametrize("intercept", [False, True])
def test_a_certificate_bears_a_gradient_and_what_its_intercept_asks_of_the_rows(intercept):
    p = problem("logistic", intercept=intercept)
    progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=1e-3, max_iter=10, small=False, callback=None)
    allowed = 2.0 * p.alpha * progress.target
    mean = float((p.rows.matrix**2).sum(axis=1).mean())
    of_coefficients, of_intercept = np.zeros(p.dimension), np.zeros(p.dimension)
    of_coefficients[1], of_intercept[-1] = np.sqrt(allowed), np.sqrt(allowed / mean)
    for gradient in (of_coefficients, of_intercept) if intercept else (of_coefficients,):
        assert progress.costs @ gradient**2 == pytest.approx(progress.target)
        assert progress.near(0.99 * gradient)
        assert not progress.near(1.01 * gradient)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("repeated", [False, True])
def test_the_span_of_few_rows_holds_the_same_problem(kind, intercept, repeated):
    p = problem("logistic", n=12, d=30, kind=kind, intercept=intercept, weighted=True)
    if repeated:
        p = rs.Problem(p.X[np.repeat(np.arange(6), 2)], p.y, alpha=p.alpha, fit_intercept=intercept)
    span, rng = RowSpan(p), np.random.default_rng(0)
    b = rng.standard_normal(span.problem.dimension)
    assert p.objective(span.outside(b)) == pytest.approx(span.problem.objective(b), rel=1e-12)
    np.testing.assert_allclose(span.inside(span.outside(b)), b, atol=1e-9)
    sharp = solve(p, tol=1e-9)
    assert sharp.converged
    assert sharp.f == pytest.approx(p.objective(sharp.x), rel=1e-12)
    assert np.linalg.norm(p.gradient(sharp.x)) < 1e-4
    assert len(solve(p, tol=1e-9, x0=sharp.x).history) <= len(sharp.history)


@pytest.mark.parametrize("alpha", [1e-2, 1e-8])
def test_float32_data_is_certified_as_tightly_as_float64(alpha):
    """Its Hessian is a preconditioner: made of float32 it may even lack positive pivots, and nothing else notices."""
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((900, 3)) @ rng.standard_normal((3, 40)) + 1e-3 * rng.standard_normal((900, 40))).astype(np.float32)
    y = np.where(X[:, 0] + rng.standard_normal(900) > 0, 1, -1)
    single, double = (solve(rs.Problem(kind, y, alpha=alpha), tol=1e-9) for kind in (X, X.astype(np.float64)))
    assert single.converged
    assert -single.gap - 1e-14 <= double.f - single.f <= double.gap + 1e-14


def test_where_sdca_stalls_newton_takes_over():
    """1200 strongly correlated features: dual passes alone need hundreds."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 3)) @ rng.standard_normal((3, 1200)) + 0.05 * rng.standard_normal((1500, 1200))
    y = np.where(X[:, 0] + rng.standard_normal(1500) > 0, 1, -1)
    found = solve(rs.Problem(X, y, alpha=1 / 1500), tol=1e-6, max_iter=100)
    assert found.converged


def opinions(n, d):
    """Long documents as they are counted, whose words are each a little more frequent in one of two classes."""
    rng = np.random.default_rng(0)
    y, lean = np.where(rng.random(n) < 0.5, 1.0, -1.0), 0.1 * rng.standard_normal(d)
    odds = np.exp(np.outer(y, lean)) / np.arange(2, d + 2) ** 1.1
    return sp.csr_array(rng.poisson(400.0 * odds / odds.sum(axis=1, keepdims=True)).astype(float)), y


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_where_newton_steps_take_long_too_both_go_on_in_turns(loss, monkeypatch):
    """Newton steps alone make 1265 products after the first dual passes, for the hinge more than 100,000, and do not converge."""
    X, y = opinions(300, 1500)
    products = 0

    def counted(self, *arguments, product=Batch.product):
        nonlocal products
        products += 1
        return product(self, *arguments)

    monkeypatch.setattr(Batch, "product", counted)
    found = solve(rs.Problem(X, y, loss=loss, alpha=1 / 300), tol=1e-6)
    assert found.converged
    assert 0 < products < 600


def steps_with_patience(p, x, patience):
    progress = Progress(p, x, baseline(p), tol=1e-8, max_iter=1000, small=False, callback=None)
    batch = Batch(p, None, Losses(p, None), p.n)
    on_batch(batch, progress, batch.at(x), final=True, patience=patience)
    return progress, batch


@pytest.mark.parametrize("patience", [5, 40])
def test_newton_steps_end_with_their_patience(patience):
    p = rs.Problem(*opinions(300, 1500), loss="squared_hinge", alpha=1 / 300)
    progress, batch = steps_with_patience(p, np.zeros(p.d), patience)
    assert not progress.finished
    assert patience < batch.products <= patience + tuning.CG_ITERATIONS


def test_newton_steps_go_on_where_as_much_patience_will_do(monkeypatch):
    p = rs.Problem(*opinions(300, 1500), loss="squared_hinge", alpha=1 / 300)
    newton, products = sys.modules["reshuffle.solver.certified.newton"], []
    for to_go in (40.1, 39.9):
        monkeypatch.setattr(newton, "_to_go", lambda seen, aim, to_go=to_go: to_go if len(seen) < 30 else np.inf)
        products.append(steps_with_patience(p, np.zeros(p.d), 40)[1].products)
    assert products[1] > 1.5 * products[0]


def test_products_to_go_are_told_by_the_second_half_of_those_made():
    assert _to_go([(10.0, 64.0), (20.0, 8.0), (30.0, 6.0), (40.0, 4.0)], 1.0) == pytest.approx(40.0)  # half as much in 20
    assert _to_go([(10.0, 8.0), (40.0, 4.0)], 1.0) == pytest.approx(60.0)
    assert _to_go([(40.0, 4.0)], 1.0) == np.inf
    assert _to_go([(20.0, 4.0), (40.0, 4.5)], 1.0) == np.inf
    assert _to_go([(20.0, 4.0), (40.0, 0.5)], 1.0) == 0.0


def test_each_turn_of_newton_steps_starts_from_where_dual_passes_led(monkeypatch):
    module, starts, led = sys.modules["reshuffle.solver.certified.solve"], [], []
    steps, from_there = module.newton, module._led_to

    def newton(problem, progress, x, **options):
        """Of no use in the first two turns."""
        starts.append(x)
        if len(starts) == 3:
            steps(problem, progress, x, **options | {"patience": np.inf})

    monkeypatch.setattr(module, "newton", newton)
    monkeypatch.setattr(module, "_led_to", lambda *a: led.append(from_there(*a).copy()) or led[-1])
    monkeypatch.setattr(tuning, "FEW_ROWS_LATER", 0)  # or the same turn would go on in their span
    monkeypatch.setattr(tuning, "PATIENCE_FEW", 0.1)
    monkeypatch.setattr(tuning, "PATIENCE_MANY", 0.1)
    assert solve(rs.Problem(*opinions(300, 1500), loss="squared_hinge", alpha=1 / 300), tol=1e-6).converged
    assert len(starts) == 3
    assert all(one is other for one, other in zip(starts[1:], led, strict=True))


@pytest.mark.parametrize(("loss", "final", "near"), [("logistic", True, 1.0), ("logistic", False, 0.0), ("hinge", True, 0.0)])
def test_damping_is_told_what_is_asked_for_where_a_certificate_is_all_that_is_missing(loss, final, near, monkeypatch):
    p = problem(loss, n=400)
    progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=1e-3, max_iter=20, small=False, callback=None)
    losses = Losses(p, None) if loss == "logistic" else Smoothed(p, None, 1.0, np.zeros(p.n))
    batch, told = Batch(p, None, losses, p.n), []
    monkeypatch.setattr(batch, "damp", lambda length, slope, s, near: told.append((near, progress.target)))
    on_batch(batch, progress, batch.at(np.zeros(p.dimension)), final=final)
    assert told
    assert all(given == near * target for given, target in told)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_after_dual_passes_newton_steps_start_from_where_they_led_unless_that_is_worse_than_nothing(loss):
    """Where the loss is smooth: else f says little about how near the minimiser is."""
    p = problem(loss, n=300)
    progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=1e-3, max_iter=9, small=False, callback=None)
    best = solve(p, tol=1e-3).x
    progress.offer(best, None, None)
    near, far = 0.5 * best, 1e3 * best
    assert _led_to(p, progress, near) is (near if loss == "squared_hinge" else progress.x)
    assert _led_to(p, progress, far) is progress.x


def test_newton_steps_whose_models_hold_go_on_to_their_end():
    p = problem("logistic", n=300)
    progress, _ = steps_with_patience(p, 0.9 * solve(p).x, 0)
    assert progress.finished
    assert len(progress.history) > 1


@pytest.mark.parametrize("strength", [1.0, 10.0])
def test_multipliers_wait_for_damped_steps(strength):
    """Images with grey levels 0 to 255. Where multipliers settle after a few steps however short these were, smoothing fades long
    before its end, and after 1000 records the relative gap is still 0.07.
    """
    rng, at = np.random.default_rng(0), np.arange(10) / 9.0
    X = np.zeros((800, 10, 10))
    for _ in range(4):
        across, down = rng.normal(0.5, 0.17, (2, 800, 1))
        X += np.exp(-(((at - across) / 0.1) ** 2))[:, :, None] * np.exp(-(((at - down) / 0.2) ** 2))[:, None, :]
    X = np.floor(255.0 * np.minimum(X, 1.0)).reshape(800, -1)
    scores = X @ rng.standard_normal(100)
    y = np.where(scores > np.median(scores) + 0.1 * scores.std() * rng.standard_normal(800), 1.0, -1.0)
    assert solve(rs.Problem(X, y, loss="hinge", alpha=strength / 800, fit_intercept=True)).converged


def test_the_seed_decides_everything_and_a_warm_start_is_used():
    p = problem("logistic", n=3000, d=8)
    first, again, other = solve(p, seed=4), solve(p, seed=4), solve(p, seed=5)
    np.testing.assert_array_equal(first.x, again.x)
    assert not np.array_equal(first.x, other.x)
    sharp = solve(p, tol=1e-10)
    assert len(solve(p, tol=1e-10, x0=sharp.x).history) < len(sharp.history)


def test_history_counts_up_and_the_callback_sees_it():
    seen = []
    found = solve(problem("hinge"), tol=1e-6, callback=seen.append)
    assert seen == found.history
    assert [epoch.epoch for epoch in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].gap == found.gap
    gaps = [epoch.gap for epoch in seen if epoch.gap is not None]
    # Of points that rounding cannot tell apart the last is kept, and each dual point has a share of rounding of its own.
    assert all(b <= a + 1e-12 * found.f for a, b in itertools.pairwise(gaps))


def test_stops_at_max_iter_with_a_valid_gap():
    p = problem("hinge", n=200, d=20, alpha=1e-4)
    found = solve(p, tol=1e-12, max_iter=2)
    assert not found.converged
    assert len(found.history) == 2
    assert 0.0 < found.f - solve(p, tol=1e-7, max_iter=3000).f <= found.gap


def test_one_row_is_fitted_by_its_intercept_alone():
    found = solve(rs.Problem(np.ones((1, 70)), [5.0], loss="squared", alpha=0.1, fit_intercept=True))
    assert found.converged
    assert found.f == pytest.approx(0.0, abs=1e-9)


def test_data_that_says_nothing_is_solved_at_once():
    X = np.zeros((6, 2))
    for name in ("logistic", "hinge"):
        found = solve(rs.Problem(X, [1, -1] * 3, loss=name, alpha=0.1, fit_intercept=True))
        assert found.converged
        np.testing.assert_allclose(found.x[:2], 0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "named"),
    [({"tol": 0.0}, "tol=0.0"), ({"max_iter": 0}, "max_iter"), ({"x0": [1.0]}, "x0"), ({"tol": np.nan}, "tol=nan")],
)
def test_bad_arguments_are_refused(options, named):
    with pytest.raises(ValueError, match=named):
        solve(problem("logistic"), **options)


def test_alpha_is_needed():
    with pytest.raises(ValueError, match="alpha=0"):
        solve(problem("logistic", alpha=0.0))


@pytest.mark.parametrize("name", NAMES)
def test_no_constant_is_better_than_the_baseline(name):
    p = problem(name, weighted=True)
    best = baseline(p)
    x = np.zeros(p.dimension)
    for shift in (0.0, -1e-2, 1e-2, -1.0, 1.0):
        x[-1] = best.intercept + shift
        assert p.objective(x) >= best.f - 1e-9


def test_a_sample_by_curvature_is_unbiased_and_keeps_what_bends_most():
    samples, curvatures = rs.Problem(np.ones((5000, 1)), np.ones(5000)).samples, np.random.default_rng(0).pareto(1.0, 5000)
    chosen, kept = sample_by_curvature(samples, curvatures, 800)
    assert 700 <= chosen.size <= 900
    assert kept.sum() == pytest.approx(curvatures.sum(), rel=0.02)
    heaviest = np.argsort(-curvatures)[:50]
    assert np.isin(heaviest, chosen).all()
    np.testing.assert_allclose(kept[np.isin(chosen, heaviest)], curvatures[chosen[np.isin(chosen, heaviest)]])
    everything, same = sample_by_curvature(samples, curvatures, 4000)
    assert everything is None
    np.testing.assert_array_equal(same, curvatures)


def test_batches_grow_by_four_or_after_rich_ones_by_eight_and_end_with_all_rows():
    assert batch_sizes(100, 5) == [100]
    assert batch_sizes(16_000, 40) == [250, 1000, 4000, 16_000]
    assert batch_sizes(16_000, 10) == [500, 2000, 16_000]
    assert batch_sizes(512_000, 8) == [250, 1000, 8000, 64_000, 512_000]
    assert batch_sizes(8000, 450) == [2000, 8000]
    assert batch_sizes(16_000, 50, in_blocks=True) == [1000, 4000, 16_000]


def test_sdca_alone_finds_an_intercept():
    """That needs the centre of its pull to move: a fixed one would leave a gap for good."""
    p = problem("logistic", n=300, d=4, alpha=0.1)
    start = baseline(p)
    progress = Progress(p, np.zeros(5), start, tol=1e-6, max_iter=300, small=False, callback=None)
    sdca(p, progress, p.squared_norms() - 1.0, np.zeros(5), np.zeros(300), seed=0, patience=np.inf)
    assert progress.converged


def test_a_record_without_a_look_stands_for_as_many_visits_as_there_are_rows(monkeypatch):
    """max_iter is said in passes over the data, however few rows most passes read."""
    X, y = opinions(400, 2000)
    p = rs.Problem(X, y, loss="squared_hinge", alpha=1 / 400)
    visited, before, unlooked = [0], [0], []

    def counted(self, visit, *arguments, pass_=SparseRows.sdca_epoch):
        visited[0] += visit.size
        return pass_(self, visit, *arguments)

    def passed(self, record=Progress.passed):
        unlooked.append(visited[0] - before[0])
        before[0] = visited[0]
        record(self)

    def offered(self, *arguments, offer=Progress.offer, **options):
        before[0] = visited[0]
        return offer(self, *arguments, **options)

    monkeypatch.setattr(SparseRows, "sdca_epoch", counted)
    monkeypatch.setattr(Progress, "passed", passed)
    monkeypatch.setattr(Progress, "offer", offered)
    solve(p, tol=1e-4)
    assert len(unlooked) > 5
    assert all(400 <= visits < 800 for visits in unlooked)


def test_passes_without_a_look_are_records_too_and_the_last_one_is_looked_at():
    p = problem("logistic", n=1000, d=700, kind="sparse", alpha=0.1)
    found = solve(p, tol=1e-8)
    assert found.converged
    looks = [a.gap != b.gap for a, b in itertools.pairwise(found.history)]
    assert not all(looks)
    assert looks[-1]
    for most in range(1, len(found.history)):
        short = solve(p, tol=1e-8, max_iter=most)
        assert len(short.history) == most
        assert short.f == pytest.approx(p.objective(short.x), rel=1e-12)
        assert short.history[-1].gap == short.gap
        assert all(epoch.f >= short.f for epoch in short.history)
        if most > 1:
            assert short.gap < solve(p, tol=1e-8, max_iter=1).gap


@pytest.mark.parametrize("intercept", [False, True])
def test_a_lower_bound_holds_for_any_dual_values(intercept):
    p = problem("logistic", intercept=intercept, weighted=True)
    lowest = solve(p, tol=1e-10).f
    for seed in range(20):
        u = np.random.default_rng(seed).uniform(-2, 2, p.n)
        bound, feasible, pull = lower_bound(p, u, lowest, baseline(p).nothing)
        assert bound <= lowest
        np.testing.assert_allclose(pull, p.transposed(p.sample_weight * feasible)[: p.d] / p.n, rtol=1e-9, atol=1e-12)
        assert bound == pytest.approx(p.dual_objective_along(feasible)(1.0), rel=1e-9)
        assert not intercept or abs(p.sample_weight @ feasible) < 1e-9


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_what_rounding_may_hide_is_the_sum_that_is_written_down(name, intercept):
    """The same bound with an array for every term."""
    p = problem(name, intercept=intercept, weighted=True)
    found = solve(p, tol=1e-6, max_iter=3000)
    w, y, loss, n, d = p.sample_weight, np.abs(p.labels), p.loss, p.n, p.d
    far = p.lengths * np.linalg.norm(found.x) + y + abs(loss.parameter)
    delta, u = 2.0**-52 * (d + 16) * far, np.abs(found.dual)
    ways = [] if loss.lipschitz is None else [loss.lipschitz * (w @ delta)]
    if loss.smoothness is not None:
        ways.append(np.sqrt(2.0 * loss.smoothness * n * found.f * (w @ delta**2)))
    of_f = 2.0**-52 * (n + 16) * found.f + min(ways) / n + 2.0**-52 * (d + 16) * p.regulariser(found.x)
    conjugates = w @ (np.abs(p.conjugates(found.dual)) + u * (2.0 * y + abs(loss.parameter))) / n
    off = 2.0**-52 * (n + 16) * ((w * u) @ p.lengths) / n
    pull = p.alpha * np.linalg.norm(found.x[:d]) + np.sqrt(2.0 * p.alpha * found.gap) + off
    of_dual = 2.0**-52 * (n + 16) * conjugates + off * (2.0 * pull + off) / p.alpha + 2.0**-52 * (d + 16) * p.regulariser(found.x)
    if intercept:
        of_dual += (abs(balance(w, found.dual)) + 2.0**-51 * (w @ u)) / n * 10.0 * (1.0 + far.max())
    assert rounding(p, found.x, found.f, found.gap, found.dual) == pytest.approx(of_f + of_dual, rel=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_duals_are_moved_to_the_nearest_that_is_allowed(name):
    p = problem(name, weighted=True)
    u = np.random.default_rng(0).uniform(-3, 3, p.n)
    np.testing.assert_array_equal(p.in_dual_domain(u), np.clip(u, *p.dual_bounds))


def solved_well_enough(damped=False, missed=None, bound=-np.inf, gap=1e3):
    """Whether a step that gains half a target is solved well enough, by its share of the first residual and how gains fade; the gap
    of its models is so many targets.
    """
    p = rs.Problem(np.eye(3), [0, 1, 1], alpha=0.1)
    progress = Progress(p, np.zeros(3), baseline(p), tol=1e-3, max_iter=10, small=False, callback=None)
    progress.bound = bound
    left = _left(progress, 0.5, tuning.CERTIFICATE_SHARE, missed or Missed(), damped)

    def enough(share, fading=1.0):
        step = SimpleNamespace(gained=0.5 * progress.target, slope=progress.target, share=share, fading=fading)
        step.left = lambda aim: max(gap * progress.target / aim - 1.0, 0.0)
        return left(step) == 0.0

    return enough


@pytest.mark.parametrize("damped", [False, True])
def test_a_damped_step_is_not_solved_for_a_certificate(damped):
    enough = solved_well_enough(damped)
    assert enough(0.9 * tuning.CG_DAMPED) == damped
    assert not enough(1.1 * tuning.CG_DAMPED)


def test_a_step_near_the_end_is_solved_until_its_models_are_certified():
    for gap, certified in ((0.99, True), (1.01, False)):
        assert solved_well_enough(gap=gap * tuning.CERTIFICATE_SHARE)(1.0, 0.01) == certified


@pytest.mark.parametrize("damped", [False, True])
def test_a_step_whose_models_will_miss_f_is_solved_roughly(damped):
    """A slope a quarter of the last one lets models miss f by an eighth."""
    p = rs.Problem(np.eye(3), [0, 1, 1], alpha=0.1)
    target = 1e-3 * baseline(p).f
    for by, rough in ((0.9, False), (1.1, True)):
        enough = solved_well_enough(damped, Missed(8.0 * by * tuning.CG_MISSED * target, 4.0 * target))
        assert enough(0.9 * tuning.CG_SHARE) == rough or damped
        assert enough(1.0, 0.9 * tuning.CG_FADED) == rough
        assert not enough(1.0, 1.1 * tuning.CG_FADED)


@pytest.mark.parametrize(("by", "gap", "soon"), [(0.39, 2.9, True), (0.39, 3.1, False), (0.41, 2.9, False)])
def test_a_step_goes_on_to_its_certificate_where_another_would_take_longer(by, gap, soon):
    """Models that miss f by what the certificate leaves of the target, at three iterations from it."""
    target = 1e-3 * np.log(2.0)
    assert (tuning.STEP_PRODUCTS, tuning.CERTIFICATE_SHARE) == (3.0, 0.6)
    enough = solved_well_enough(missed=Missed(8.0 * by * target, 4.0 * target), gap=0.6 * (1.0 + gap))
    assert enough(1.0, 0.9 * tuning.CG_FADED) == (not soon)


def test_slopes_whose_sign_rounding_has_turned_say_that_nothing_is_missed():
    assert Missed(1e-17, 1e-17).next(-1e-17) == 0.0
    assert Missed(1e-17, -1e-17).next(1e-3) > 1e200


def test_a_step_is_solved_roughly_where_the_known_bound_will_do():
    target = 1e-3 * np.log(2.0)
    assert solved_well_enough(bound=0.5 - 1.4 * target)(1.0, 0.9 * tuning.CG_FADED)
    assert not solved_well_enough(bound=0.5 - 1.6 * target)(1.0, 0.9 * tuning.CG_FADED)


def rare_class(n=4000, d=80, seed=0):
    """Standardised features with tails, and a class of one row in sixteen: four rows a feature say nothing about it."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
    X = np.sign(X) * np.abs(X) ** 1.5
    score = X[:, :5] @ np.full(5, 0.5 / X.std()) + 2.0 * rng.standard_normal(n)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(score > np.quantile(score, 15 / 16), 1.0, -1.0)


def test_where_a_batch_was_too_small_the_next_starts_nearer_to_where_it_began():
    p = rs.Problem(*rare_class(), alpha=1 / 4000)
    batch, start = Batch(p, None, Losses(p, None), p.n), np.zeros(p.d)
    best = solve(p, tol=1e-6).x
    for factor, part in ((1.0, 1.0), (0.5, 1.0), (2.0, 0.5), (8.0, 0.125), (100.0, 0.0)):
        there = batch.at(factor * best)
        found = _shrunk(batch, start, there)
        np.testing.assert_allclose(found.x, part * there.x, atol=1e-15)
        assert found.f == pytest.approx(p.objective(part * there.x), rel=1e-12)
        np.testing.assert_allclose(found.z, p.margins(found.x), atol=1e-10)


def test_only_what_a_batch_that_was_too_small_has_found_is_shrunk(monkeypatch):
    """Of what a batch gains, the next keeps more than half, or next to nothing."""
    shrunk = []

    def counted(*arguments):
        shrunk.append(arguments)
        return _shrunk(*arguments)

    monkeypatch.setattr("reshuffle.solver.certified.newton._shrunk", counted)
    p = problem("logistic", n=4000, d=10)
    solve(p)
    assert not shrunk
    p = rs.Problem(*rare_class(), alpha=1 / 4000)
    records = len(solve(p).history)
    assert shrunk
    monkeypatch.setattr(tuning, "OVERFITS", np.inf)
    assert records < len(solve(p).history)


def test_batches_follow_each_other_from_where_the_last_has_led():
    p = problem("logistic", n=2000, d=6)
    progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=1e-9, max_iter=100, small=False, callback=None)
    seen = []

    class Seen(Batch):
        def at(self, x):
            seen.append((self.size, x.copy()))
            return super().at(x)

    halves = [np.arange(1000), None]
    on_batches((Seen(p, rows, Losses(p, rows), p.n) for rows in halves), progress, np.zeros(p.dimension))
    assert progress.finished
    last, first = ([x for size, x in seen if size == wanted] for wanted in (1000, 2000))
    np.testing.assert_array_equal(last[-1], first[0])
    assert not last[0].any()


@pytest.mark.parametrize(("times", "steep"), [(0.8, False), (1.2, True)])
def test_a_batch_with_a_row_far_more_off_than_any_before_begins_with_steep_models(times, steep, monkeypatch):
    X = np.random.default_rng(0).standard_normal((400, 3))
    y = np.where(X[:, 0] + np.random.default_rng(1).standard_normal(400) > 0.0, 1.0, -1.0)
    half = np.arange(200)
    first = rs.Problem(X[half], y[half], alpha=1e-2)
    x = solve(first, tol=1e-9).x  # nearly where steps on the first batch end
    off = Losses(first, None).farthest(first.margins(x))
    newton, asked = sys.modules["reshuffle.solver.certified.newton"], []
    plain = newton.on_batch
    monkeypatch.setattr(newton, "on_batch", lambda *a, steep, **k: asked.append(steep) or plain(*a, steep=steep, **k))
    X[300] *= (1.0 - times * tuning.UNSEEN * off) / (y[300] * (X[300] @ x))
    p = rs.Problem(X, y, alpha=1e-2)
    progress = Progress(p, x, baseline(p), tol=1e-3, max_iter=100, small=False, callback=None)
    on_batches((Batch(p, rows, Losses(p, rows), p.n) for rows in (half, None)), progress, x)
    assert progress.finished
    assert asked == [False, steep]


@pytest.mark.parametrize("steep", [False, True])
def test_steps_on_a_batch_begin_with_the_models_that_they_are_told_to(steep, monkeypatch):
    p = problem("logistic", n=400)
    progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=1e-3, max_iter=100, small=False, callback=None)
    asked, plain = [], Losses.models
    monkeypatch.setattr(Losses, "models", lambda self, z, steep: asked.append(steep) or plain(self, z, steep))
    batch = Batch(p, None, Losses(p, None), p.n)
    on_batch(batch, progress, batch.at(np.zeros(p.dimension)), final=True, steep=steep)
    assert progress.finished
    assert asked[0] is steep
    assert not asked[-1]


@pytest.mark.parametrize("price", [5.0, 15.0])
def test_a_dear_hessian_is_kept_where_models_did_not_hold(price, monkeypatch):
    p = problem("logistic", n=400, d=30, alpha=1e-6)
    progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=1e-3, max_iter=1000, small=False, callback=None)
    batch, forgotten = Batch(p, None, Losses(p, None), p.n), []
    batch.price = price
    monkeypatch.setattr(batch, "forget", lambda: forgotten.append(1))
    on_batch(batch, progress, batch.at(np.zeros(p.dimension)), final=True)
    assert progress.converged
    assert bool(forgotten) == (price <= tuning.RENEW_WITHIN)


def test_a_step_that_was_too_long_is_followed_by_one_of_steep_models(monkeypatch):
    """Rows far on the wrong side of a start that knows a part of them alone: their losses hardly bend, and models miss them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 12)) * (rng.pareto(1.2, (2000, 1)) + 0.1)
    p = rs.Problem(X, np.where(X @ rng.standard_normal(12) + 3.0 * rng.standard_normal(2000) > 0.0, 1.0, -1.0), alpha=1 / 2000)
    asked, plain = [], Losses.models

    def seen(self, z, steep):
        asked.append(steep)
        return plain(self, z, steep)

    def records(start):
        progress = Progress(p, start, baseline(p), tol=1e-6, max_iter=500, small=False, callback=None)
        batch = Batch(p, None, Losses(p, None), p.n)
        on_batch(batch, progress, batch.at(start), final=True)
        assert progress.converged
        return len(progress.history)

    start = 30.0 * rng.standard_normal(12)
    monkeypatch.setattr(Losses, "models", seen)
    steep = records(start)
    assert any(asked)
    assert not asked[-1]  # near the end, models hold
    monkeypatch.setattr(Losses, "steepen", lambda self, z: False)
    monkeypatch.setattr(tuning, "TOO_LITTLE", 0.0)
    monkeypatch.setattr(Losses, "models", lambda self, z, steep: plain(self, z, False))
    assert steep < 0.7 * records(start)


@pytest.mark.parametrize("intercept", [False, True])
def test_few_rows_are_seen_in_their_span_where_dual_passes_take_long(intercept, monkeypatch):
    """Smooth curves, of which neighbouring features are nearly the same, and noise, of which dual passes make short work."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((120, 600))
    curves = np.cumsum(noise, axis=1) / np.sqrt(600)
    y = np.where(curves[:, 200] - curves[:, 300] + 0.1 * rng.standard_normal(120) > 0.0, 1.0, -1.0)
    seen = []
    monkeypatch.setattr(
        sys.modules["reshuffle.solver.certified.solve"], "RowSpan", lambda problem: seen.append(problem) or RowSpan(problem)
    )
    assert solve(rs.Problem(noise, y, alpha=1 / 120, fit_intercept=intercept)).converged
    assert not seen
    p = rs.Problem(curves, y, loss="hinge", alpha=1 / 120, fit_intercept=intercept)
    found = solve(p, tol=1e-6)
    assert found.converged
    assert len(seen) == 1
    assert found.f == pytest.approx(p.objective(found.x), rel=1e-12)
    bound = lower_bound(p, found.dual, found.f, baseline(p).nothing)
    assert found.f - bound.value <= 1e-6 * baseline(p).gain(found.f)


@pytest.mark.parametrize(("rows", "times"), [(300, 1), (700, 0)])
def test_some_more_rows_are_seen_in_their_span_where_newton_steps_take_long_too(rows, times, monkeypatch):
    """Grey levels of blurred spots, as in images, which features less than rows would tell apart."""
    rng = np.random.default_rng(0)
    at, spots = np.arange(26) / 25.0, rng.uniform(0.2, 0.8, (rows, 3, 2))
    X = np.exp(-(((at[:, None, None] - spots[..., 0]) / 0.15) ** 2))[:, None] * np.exp(
        -(((at[:, None, None] - spots[..., 1]) / 0.1) ** 2)
    )
    X = np.floor(255.0 * X.sum(axis=-1).clip(max=1.0)).reshape(-1, rows).T
    y = np.where(X @ rng.standard_normal(X.shape[1]) > 0.0, 1.0, -1.0)
    module, seen = sys.modules["reshuffle.solver.certified.solve"], []
    monkeypatch.setattr(module, "RowSpan", lambda problem: seen.append(problem) or RowSpan(problem))
    p = rs.Problem(X, y, loss="squared_hinge", alpha=1 / rows)
    found = solve(p, tol=1e-6)
    assert found.converged
    assert found.f == pytest.approx(p.objective(found.x), rel=1e-12)
    assert len(seen) == times


def test_of_what_another_form_of_a_problem_found_only_what_is_better_is_adopted():
    p = problem("logistic")
    progress = Progress(p, np.zeros(p.dimension), baseline(p), tol=1e-9, max_iter=9, small=False, callback=None)
    best, worse = solve(p), 1e-2 * np.ones(p.dimension)
    progress.adopt(worse, p.duals(p.margins(worse)), [])
    assert progress.f == p.objective(worse)
    progress.adopt(best.x, best.dual, [])
    f, bound = progress.f, progress.bound
    assert f == p.objective(best.x)
    assert f - bound == pytest.approx(best.gap, abs=1e-9)
    progress.adopt(worse, np.zeros(p.n), ["a record"])
    assert (progress.f, progress.bound, progress.history) == (f, bound, ["a record"])
    np.testing.assert_array_equal(progress.x, best.x)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_the_span_of_rows_is_not_all_where_it_does_not_hold_the_smaller_features(loss):
    """Three features are a hundred million times larger than all others: of a Gram matrix, double precision holds these alone."""
    X = np.random.default_rng(0).standard_normal((60, 500))
    y = np.where(X[:, 5:15].sum(axis=1) > 0.0, 1.0, -1.0)
    X[:, :3] *= 1e8
    found = solve(rs.Problem(X, y, loss=loss, alpha=1 / 60), tol=1e-3, max_iter=200)
    assert found.converged
