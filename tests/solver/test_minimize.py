"""Steps, averages, history, divergence, checkpoints, certificates and mistakes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

import reshuffle as rs
from reshuffle import theory
from reshuffle.evidence import gather
from tests.solver.test_epochs import LOSSES, some_problem


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def test_steps_can_be_a_number_a_list_or_a_function(cancer):
    problem = rs.Problem(*cancer)
    by_number = rs.minimize(problem, step_size=0.01, epochs=3)
    by_list = rs.minimize(problem, step_size=[0.01, 0.01, 0.01], epochs=3)
    by_function = rs.minimize(problem, step_size=lambda epoch: 0.02 / epoch, epochs=3)
    np.testing.assert_array_equal(by_number.x, by_list.x)
    assert by_function.steps == [0.02, 0.01, 0.02 / 3]


@pytest.mark.parametrize("order", ["so", "ig", "backwards", "listed"])
@pytest.mark.parametrize("b", [1, 10, 569])
def test_the_step_of_theory_is_the_limit_of_orders_that_are_known(cancer, order, b):
    problem = rs.Problem(*cancer, alpha=1e-3)
    rng = np.random.default_rng(0)
    chosen = {"backwards": np.arange(569)[::-1].copy(), "listed": [rng.permutation(569) for _ in range(5)]}.get(order, order)
    run = rs.minimize(problem, order=chosen, batch_size=b, epochs=5, seed=2)
    c = rs.constants(problem, order=chosen, batch_size=b, seed=2)
    assert run.steps == [theory.step_size_limit(569, b, c.hat.max(), c.til.max())] * 5
    limits = [theory.step_size_limit(c.n, b, lhat, ltil) for lhat, ltil in zip(c.lhat, c.ltil, strict=True)]
    assert max(run.steps) <= min(limits) * (1 + 1e-12)
    safe = rs.minimize(problem, order=chosen, batch_size=b, epochs=5, seed=2, safe=True)
    assert safe.steps == run.steps  # a known order has a limit of its own


@pytest.mark.parametrize("b", [1, 10, 569])
def test_the_step_of_theory_in_random_orders_is_within_the_limit_of_each(cancer, b):
    problem = rs.Problem(*cancer, alpha=1e-3)
    run = rs.minimize(problem, batch_size=b, epochs=20, seed=2)
    visited = rs.constants(problem, batch_size=b, permutations=20, seed=2)  # those of RR with this seed
    within = theory.within(visited, run.rule, epochs=20)
    assert run.steps == pytest.approx([theory.step_size_limit(569, b, within.hat, within.til)] * 20)
    assert max(run.steps) <= visited.step_size_limit * (1 + 1e-6)
    safe = rs.minimize(problem, batch_size=b, epochs=20, seed=2, safe=True)
    assert safe.steps[0] == pytest.approx(visited.safe_step_size_limit)
    assert safe.steps[0] <= run.steps[0] * (1 + 1e-9)


@pytest.mark.parametrize("average", ["epoch", "weighted", "last"])
@pytest.mark.parametrize("order", ["rr", "so", "ig"])
def test_the_step_for_a_budget_makes_the_promise_smallest(cancer, order, average):
    problem = rs.Problem(*cancer, loss="squared", alpha=1e-2)
    optimum = theory.measure(problem)
    options = {"order": order, "step_size": "budget", "batch_size": 2, "epochs": 300, "evaluate_every": 300, "average": average}
    run = rs.minimize(problem, optimum=optimum, **options)
    facts = gather(problem, run.rule, run.constants, optimum, epochs=300)
    offered = [theorem for theorem in theory.theorems_for(problem, run.rule) if theorem.output == average]
    promise = theory.smallest_bound(offered, facts, run.steps, average)
    limit = offered[0].step_limit(facts)
    grid = [theory.smallest_bound(offered, facts, [step] * 300, average).bound for step in np.geomspace(1e-3 * limit, limit, 100)]
    assert promise.bound <= 1.03 * min(grid)
    if average == "epoch":
        noise = theory.noise_smooth(569, 2, ltil=facts.smooth.til, sigma=optimum.sigma)
        if order != "rr":
            noise = facts.smooth.til * facts.discrepancy
        assert run.steps[0] == min(
            limit, theory.step_below(569, 2, epochs=300, limit=limit, distance=optimum.distance, noise=noise)
        )
    assert rs.minimize(problem, **options).steps == pytest.approx(run.steps)


def test_a_lipschitz_loss_takes_its_step_from_the_distance_and_the_budget(cancer):
    X, y = cancer
    problem = rs.Problem(X[:100], y[:100], loss="hinge")
    optimum = theory.measure(problem)
    for order in ("rr", "ig"):
        run = rs.minimize(problem, order=order, batch_size=5, epochs=16, optimum=optimum)
        within = theory.within(run.constants, run.rule, epochs=16)
        gbar = np.sqrt(within.hat * within.til)
        want = theory.step_lipschitz(100, 5, epochs=16, gbar=gbar, distance=optimum.distance)
        assert run.steps == [want] * 16
        assert rs.minimize(problem, order=order, batch_size=5, epochs=16).steps == run.steps
    with pytest.raises(ValueError, match="no theorem covers a loss with kinks and a regulariser"):
        rs.minimize(rs.Problem(X, y, loss="hinge", alpha=0.1))


def test_averages(cancer):
    problem = rs.Problem(*cancer)
    ends = [rs.minimize(problem, step_size=[0.01, 0.02, 0.03, 0.04][:k], epochs=k).last for k in (1, 2, 3, 4)]
    weights = np.array([0.01, 0.02, 0.03, 0.04])
    steps = weights.tolist()
    runs = {a: rs.minimize(problem, step_size=steps, epochs=4, average=a) for a in ("epoch", "last", "suffix")}
    np.testing.assert_allclose(runs["epoch"].x, np.average(ends, axis=0, weights=weights))
    np.testing.assert_array_equal(runs["last"].x, ends[3])
    np.testing.assert_allclose(runs["suffix"].x, np.average(ends[2:], axis=0, weights=weights[2:]))
    for run in runs.values():
        assert run.f == problem.objective(run.x)


@pytest.mark.parametrize("alpha", [1e-2, 5.0])
@pytest.mark.parametrize("b", [1, 50])
def test_the_weighted_average_grows_by_its_growth(cancer, alpha, b):
    """x_w = sum w_k eta_k x_k / sum w_k eta_k, where w_k is the product of 1 + n eta alpha / (2b) over the epochs before k."""
    problem = rs.Problem(*cancer, alpha=alpha)
    steps = np.array([0.001, 0.002, 0.003, 0.004])
    options = {"step_size": steps.tolist(), "batch_size": b}
    ends = [rs.minimize(problem, **(options | {"step_size": steps[:k].tolist()}), epochs=k).last for k in (1, 2, 3, 4)]
    weights = steps * np.cumprod(np.r_[1.0, 1.0 + 569 * steps[:3] * alpha / (2 * b)])
    run = rs.minimize(problem, **options, epochs=4, average="weighted")
    np.testing.assert_allclose(run.x, np.average(ends, axis=0, weights=weights), rtol=1e-10, atol=1e-14)
    assert run.f == problem.objective(run.x)
    strong = rs.Problem(*cancer, alpha=100.0)  # an epoch has 3.8 times the weight of the one before: 10^600 in all
    long = rs.minimize(strong, order="ig", step_size=1e-4, epochs=1000, average="weighted", evaluate_every=1000)
    np.testing.assert_allclose(long.x, long.last, rtol=1e-9)
    for without in ({"alpha": 0.0}, {"alpha": alpha, "fit_intercept": True}):
        with pytest.raises(ValueError, match="average='weighted' needs strong convexity: use alpha > 0 and no intercept"):
            rs.minimize(rs.Problem(*cancer, **without), average="weighted", step_size=0.1)


def test_the_history_has_an_entry_an_epoch(cancer):
    problem = rs.Problem(*cancer, alpha=0.1)
    seen = []
    run = rs.minimize(problem, epochs=7, step_size=0.001, evaluate_every=3, callback=seen.append)
    assert seen == run.history
    assert [e.epoch for e in run.history] == list(range(1, 8))
    assert [e.f is None for e in run.history] == [True, True, False, True, True, False, False]
    assert all(a.seconds <= b.seconds for a, b in zip(run.history, run.history[1:], strict=False))
    assert "after 7 epochs" in str(run)
    assert "epoch    7" in str(run.history[-1])


def test_divergence_stops_with_the_epoch_and_the_step(cancer):
    problem = rs.Problem(*cancer, loss="squared")
    with pytest.raises(rs.DivergenceError, match=r"not finite after epoch \d+ with step size 5"):
        rs.minimize(problem, step_size=5.0, epochs=50)


@pytest.mark.parametrize("order", ["rr", "so", "ig", "listed"])
@pytest.mark.parametrize("average", ["epoch", "suffix", "weighted"])
def test_a_resumed_run_gives_the_same_numbers(cancer, tmp_path, order, average):
    order = [np.random.default_rng(k).permutation(569) for k in range(9)] if order == "listed" else order
    problem = rs.Problem(*cancer, alpha=1e-2, fit_intercept=average != "weighted")
    settings = {"order": order, "batch_size": 7, "epochs": 9, "seed": 4, "average": average}
    whole = rs.minimize(problem, **settings)
    file = tmp_path / "run.npz"

    def stop(epoch):
        if epoch.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rs.minimize(problem, **settings, checkpoint=file, callback=stop)
    resumed_epochs = []
    resumed = rs.minimize(problem, **settings, checkpoint=file, callback=lambda e: resumed_epochs.append(e.epoch))
    assert resumed_epochs == [5, 6, 7, 8, 9]
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.last.tobytes() == whole.last.tobytes()
    assert resumed.dual.tobytes() == whole.dual.tobytes()
    assert [(e.epoch, e.step, e.f, e.gap) for e in resumed.history] == [(e.epoch, e.step, e.f, e.gap) for e in whole.history]
    again = rs.minimize(problem, **settings, checkpoint=file)  # finished: nothing is left to do
    assert again.x.tobytes() == whole.x.tobytes()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"epochs": 0}, "epochs=0 is too small"),
        ({"batch_size": 1000}, "batch_size=1000 is larger than the 569 rows"),
        ({"step_size": -1.0}, "step_size is -1.0 in epoch 1"),
        ({"step_size": float("nan")}, "step_size is nan"),
        ({"step_size": "fast"}, "step_size='fast' is not known"),
        ({"step_size": [0.1], "epochs": 2}, "step_size has 1 entries for 2 epochs"),
        ({"average": "mean"}, "average='mean' is not known; use one of epoch, weighted, last, suffix"),
        ({"x0": np.zeros(3)}, "x0 has shape (3,); this problem takes (30,)"),
        ({"x0": np.full(30, np.nan)}, "x0 holds values that are not finite"),
        ({"order": "random"}, "order='random' is not known"),
        ({"checkpoint": "nowhere/run.npz", "step_size": 0.1}, "does not exist"),
        ({"checkpoint": "run.npz", "order": iter([]), "step_size": 0.1}, "cannot be resumed"),
    ],
)
def test_mistakes_are_named(cancer, arguments, complaint):
    with pytest.raises(ValueError, match=r"\w") as error:
        rs.minimize(rs.Problem(*cancer), **arguments)
    assert complaint in str(error.value)


def test_a_loss_without_values_cannot_be_minimised(cancer):
    with pytest.raises(ValueError, match="has constants but no values"):
        rs.minimize(rs.Problem(cancer[0], loss="unit"))


@given(seed=st.integers(0, 10**6), loss=st.sampled_from(LOSSES), intercept=st.booleans(), alpha=st.sampled_from([1e-3, 0.1, 10.0]))
def test_the_certificate_is_an_upper_bound_of_the_gap(seed, loss, intercept, alpha):
    rng = np.random.default_rng(seed)
    problem, _ = some_problem(rng, 30, 4, loss, "csr", alpha=alpha, fit_intercept=intercept, sample_weight=rng.random(30) + 0.1)
    run = rs.minimize(problem, step_size=0.02 / (1 + alpha), epochs=30, average="last")
    points = [run.x, rng.standard_normal(problem.dimension), np.zeros(problem.dimension)]
    gaps = [rs.duality_gap(problem, x, run.dual) for x in points]
    # no loss is negative, so f(x) itself is a certificate, and none may be worse
    assert all(gap <= problem.objective(x) * (1 + 1e-12) for x, gap in zip(points, gaps, strict=True))
    # every point certifies a lower bound of min f, which no other point may fall below
    lower = max(problem.objective(x) - gap for x, gap in zip(points, gaps, strict=True))
    if problem.smoothness is not None:
        optimum = theory.measure(problem)
        assert optimum.error <= 1e-9 * (1 + abs(optimum.f))
        assert lower <= optimum.f + 1e-9 * (1 + abs(optimum.f))
    assert lower <= min(problem.objective(x) for x in points) + 1e-12


def test_the_certificate_is_the_squared_gradient_without_an_intercept(cancer):
    problem = rs.Problem(*cancer, alpha=0.01)
    x = np.full(30, 0.1)
    g = problem.gradient(x)
    assert g @ g / (2 * 0.01) > problem.objective(x) >= rs.duality_gap(problem, x)  # far off, the zero dual and better ones help
    near = rs.theory.measure(problem).x + 1e-3
    g = problem.gradient(near)
    assert rs.duality_gap(problem, near) == pytest.approx(g @ g / (2 * 0.01))
    assert rs.duality_gap(rs.Problem(*cancer), x) is None


def test_a_sum_of_duals_that_jumps_at_zero_is_balanced():
    """Two samples of opposite labels whose duals switch at the very same place."""
    problem = rs.Problem(np.array([[1.0, 0.0], [0.0, 1.0]]), [-1.0, 1.0], loss="hinge", alpha=0.01, fit_intercept=True)
    for dual in (np.array([0.5, -0.5]), np.array([0.5 + 1e-17, -0.5]), np.array([1.0, 0.0]), np.zeros(2)):
        for x in (np.zeros(3), np.array([-1.0, 1.0, 0.0]), np.array([0.3, -0.7, 5.0])):
            gap = rs.duality_gap(problem, x, dual)
            assert np.isfinite(gap)
            assert gap >= 0.0


def test_a_better_dual_point_gives_a_better_certificate(cancer):
    """For the hinge the duals of x jump; those of a run do not, and the certificate takes the better of the two."""
    problem = rs.Problem(*cancer, loss="hinge", alpha=0.01, fit_intercept=True)
    run = rs.minimize(problem, step_size=lambda k: 0.05 / k, epochs=200, evaluate_every=200)
    assert run.gap <= rs.duality_gap(problem, run.x)
    assert run.gap < 0.1 * problem.objective(np.zeros(31))


def test_algorithm_2_with_linear_predictors_is_algorithm_1(cancer):
    X, y = cancer
    problem = rs.Problem(X, y)
    A, s = problem.X, problem.y

    def grad(x, batch):
        return A[batch].T @ (-s[batch] / (1 + np.exp(s[batch] * (A[batch] @ x))))

    for order in ("rr", "so", "ig"):
        one = rs.minimize(problem, order=order, batch_size=16, step_size=0.01, epochs=5, seed=3)
        two = rs.minimize_sum(grad, 0.25 * np.sum(A**2, axis=1), 569, np.zeros(30), order=order, batch_size=16, step_size=0.01,
                              epochs=5, seed=3, objective=problem.objective)  # fmt: skip
        np.testing.assert_allclose(two.x, one.x, rtol=1e-9, atol=1e-12)
        assert two.f == pytest.approx(one.f)
    L = 0.25 * np.sum(A**2, axis=1)
    for order in ("rr", "so", "ig"):
        planned = rs.minimize_sum(grad, L, 569, np.zeros(30), batch_size=16, epochs=2, order=order)
        within = theory.within(rs.constants(smoothness=L, batch_size=16, order=order, permutations=1), planned.rule, epochs=2)
        assert planned.steps[0] == theory.step_size_limit(569, 16, within.hat, within.til)


def test_algorithm_2_refuses_what_it_cannot_use():
    def grad(x, batch):
        return len(batch) * x

    with pytest.raises(ValueError, match="smoothness has shape"):
        rs.minimize_sum(grad, [1.0, 2.0], 3, [0.0])
    with pytest.raises(ValueError, match=r"batch_size=4 is larger than the 3 functions of the sum; use 1\.\.3"):
        rs.minimize_sum(grad, 1.0, 3, [1.0], batch_size=4)
    with pytest.raises(ValueError, match="step_size='budget' needs the minimiser; pass it as optimum, or give a number"):
        rs.minimize_sum(grad, 1.0, 3, [1.0], step_size="budget")
    with pytest.raises(ValueError, match="average='weighted' needs strong convexity"):
        rs.minimize_sum(grad, 1.0, 3, [1.0], average="weighted")
    with pytest.raises(ValueError, match=r"smoothness\[1\] must be a positive number"):
        rs.minimize_sum(grad, [1.0, 0.0, 2.0], 3, [1.0])
    with pytest.raises(ValueError, match=r"optimum has shape \(2,\)"):
        rs.minimize_sum(grad, 1.0, 3, [1.0], optimum=[0.0, 0.0])
    with pytest.raises(ValueError, match=r"grad returned shape \(2,\) for x of shape \(1,\); return the sum"):
        rs.minimize_sum(lambda x, batch: np.zeros(2), 1.0, 3, [1.0])
    with pytest.raises(rs.DivergenceError, match="after epoch"):
        rs.minimize_sum(grad, 1.0, 3, [1.0], step_size=1e200, epochs=5)
    assert rs.minimize_sum(grad, 1.0, 3, [1.0], epochs=200).last[0] == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("evaluate_every", [1, 7])
def test_tol_stops_at_a_certified_relative_gap(evaluate_every, tmp_path):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 4))
    problem = rs.Problem(X, X[:, 0] + 0.5 * rng.standard_normal(60) > 0, alpha=0.1, fit_intercept=True)
    options = {"step_size": 0.1, "batch_size": 4, "epochs": 2000, "evaluate_every": evaluate_every}
    run = rs.minimize(problem, tol=1e-2, **options)
    best, constant = rs.theory.measure(problem).f, rs.theory.measure(problem.replace(X=np.zeros((60, 1)))).f
    assert len(run.history) < 2000
    assert len(run.history) % evaluate_every == 0
    assert run.relative_gap <= 1e-2
    assert run.f - best <= run.gap
    assert run.gap <= run.relative_gap * (constant - best) * (1 + 1e-9)
    earlier = [epoch for epoch in run.history[:-1] if epoch.gap is not None]
    assert all(epoch.gap > 1e-2 * (constant - epoch.f) for epoch in earlier)
    optimum = rs.theory.measure(problem)
    assert run.stopped
    assert "nothing" in str(rs.Guarantee.of(problem, run, optimum))  # its step is far above the limit
    in_file = rs.minimize(problem, tol=0.5, order="ig", batch_size=4, epochs=2000)
    assert in_file.stopped
    assert in_file.f - best <= rs.Guarantee.of(problem, in_file, optimum).bound < np.inf
    kept = tmp_path / "run.npz"
    rs.minimize(problem, tol=0.1, checkpoint=kept, **options)
    np.testing.assert_array_equal(rs.minimize(problem, tol=1e-2, checkpoint=kept, **options).x, run.x)
    again = rs.minimize(problem, tol=1e-2, checkpoint=kept, **options)
    assert (len(again.history), again.relative_gap) == (len(run.history), run.relative_gap)


def test_tol_needs_a_certificate_and_a_positive_number():
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"tol=0\.1 needs a certificate, which alpha=0 leaves out; use alpha > 0"):
        rs.minimize(rs.Problem(X, y), tol=0.1)
    with pytest.raises(ValueError, match=r"tol=-1\.0 must be zero or a positive number"):
        rs.minimize(rs.Problem(X, y, alpha=0.1), tol=-1.0)
