"""Steps, averages, history, divergence, checkpoints, certificates and mistakes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

import reshuffle as rs
from reshuffle import theory
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


@pytest.mark.parametrize("order", ["rr", "so", "ig"])
@pytest.mark.parametrize("b", [1, 10, 569])
def test_the_step_of_theory_is_the_limit_of_the_order(cancer, order, b):
    problem = rs.Problem(*cancer, alpha=1e-3)
    run = rs.minimize(problem, order=order, batch_size=b, epochs=5, seed=2)
    c = rs.constants(problem, order=order, batch_size=b, permutations=5, seed=2)
    assert run.steps == [c.step_size_limit] * 5
    # RR of seed 2 visits just the permutations that the constants were computed for, so the theorem's condition is met
    limits = [theory.step_size_limit(c.n, b, lhat, ltil) for lhat, ltil in zip(c.lhat, c.ltil, strict=True)]
    assert max(run.steps) <= min(limits) * (1 + 1e-12)
    safe = rs.minimize(problem, order=order, batch_size=b, epochs=5, seed=2, safe=True)
    assert safe.steps[0] == pytest.approx(c.safe_step_size_limit)
    assert safe.steps[0] <= run.steps[0] * (1 + 1e-6)


@pytest.mark.parametrize("order", ["rr", "so", "ig"])
def test_the_step_for_a_budget_is_the_one_of_the_theorem(cancer, order):
    problem = rs.Problem(*cancer, loss="squared", alpha=1e-2)
    optimum = theory.measure(problem)
    run = rs.minimize(problem, order=order, step_size="budget", batch_size=2, epochs=50, optimum=optimum)
    c = run.constants
    numbers = {"lhat": c.lhat_max, "ltil": c.ltil_max, "distance": optimum.distance, "sigma": optimum.sigma}
    if order == "ig":
        numbers["dual_norm"] = optimum.dual_norm
    step = theory.step_ig if order == "ig" else theory.step_smooth
    assert run.steps == [min(c.step_size_limit, step(569, 2, epochs=50, **numbers))] * 50
    assert rs.minimize(problem, order=order, step_size="budget", batch_size=2, epochs=50).steps == pytest.approx(run.steps)


def test_a_lipschitz_loss_takes_its_step_from_the_distance_and_the_budget(cancer):
    X, y = cancer
    problem = rs.Problem(X[:100], y[:100], loss="hinge")
    optimum = theory.measure(problem)
    run = rs.minimize(problem, batch_size=5, epochs=16, optimum=optimum)
    want = theory.step_lipschitz(100, 5, epochs=16, gbar=run.constants.gbar, distance=optimum.distance)
    assert run.steps == [want] * 16
    assert rs.minimize(problem, batch_size=5, epochs=16).steps == run.steps
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


@pytest.mark.parametrize("order", ["rr", "so", "ig"])
@pytest.mark.parametrize("average", ["epoch", "suffix"])
def test_a_resumed_run_gives_the_same_numbers(cancer, tmp_path, order, average):
    problem = rs.Problem(*cancer, alpha=1e-2, fit_intercept=True)
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
        ({"average": "mean"}, "average='mean' is not known; use one of epoch, last, suffix"),
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


def test_the_guarantee_stands_beside_the_run(cancer):
    problem = rs.Problem(*cancer, alpha=0.1)
    optimum = theory.measure(problem)
    for order, theorem in (("rr", 1), ("so", 1), ("ig", 2), (np.arange(569)[::-1], 2)):
        run = rs.minimize(problem, order=order, batch_size=8, epochs=20)
        guarantee = rs.Guarantee.of(problem, run, optimum)
        assert guarantee.theorem == theorem
        assert guarantee.gap == run.f - optimum.f <= guarantee.bound < guarantee.prior
        assert f"Theorem {theorem}" in str(guarantee)
    by_hand = rs.minimize(problem, batch_size=8, epochs=20, step_size=run.steps[0] / 3)
    assert rs.Guarantee.of(problem, by_hand, optimum).bound < np.inf
    for arguments in ({"step_size": 1.0}, {"average": "last"}):
        nothing = rs.Guarantee.of(problem, rs.minimize(problem, epochs=2, **arguments), optimum)
        assert nothing.bound == np.inf
        assert nothing.to_dict()["bound"] is None
        assert "promised     nothing" in str(nothing)
    backwards = np.arange(569)[::-1]
    own = rs.minimize(problem, order=backwards, step_size=1e-5, epochs=2)
    with_constants = rs.Guarantee.of(problem, own, optimum, rs.constants(problem, order=backwards))
    assert rs.Guarantee.of(problem, own, optimum) == with_constants
    assert with_constants.bound < np.inf
    own = rs.minimize(problem, order=iter([backwards] * 2), step_size=1e-5, epochs=2)
    with pytest.raises(ValueError, match="pass constants"):
        rs.Guarantee.of(problem, own, optimum)
    assert rs.Guarantee.of(problem, own, optimum, rs.constants(problem, order=backwards)).bound == with_constants.bound


def test_where_no_theorem_holds_there_is_no_bound_and_no_guarantee(cancer):
    problem = rs.Problem(*cancer, loss="hinge", alpha=0.1)
    run = rs.minimize(problem, step_size=1e-3, epochs=2)
    optimum = theory.measure(rs.Problem(*cancer, alpha=0.1))
    assert run.bound(optimum, rs.constants(problem, permutations=2)) == np.inf
    with pytest.raises(ValueError, match="no theorem covers a loss with kinks and a regulariser"):
        rs.Guarantee.of(problem, run, optimum)


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
    planned = rs.minimize_sum(grad, 0.25 * np.sum(A**2, axis=1), 569, np.zeros(30), batch_size=16, epochs=2)
    assert planned.steps[0] == rs.constants(smoothness=0.25 * np.sum(A**2, axis=1), batch_size=16, permutations=2).step_size_limit


def test_algorithm_2_refuses_what_it_cannot_use():
    def grad(x, batch):
        return len(batch) * x

    with pytest.raises(ValueError, match="smoothness has shape"):
        rs.minimize_sum(grad, [1.0, 2.0], 3, [0.0])
    with pytest.raises(ValueError, match=r"batch_size=4 is larger than the 3 functions of the sum; use 1\.\.3"):
        rs.minimize_sum(grad, 1.0, 3, [1.0], batch_size=4)
    with pytest.raises(ValueError, match="needs the optimum"):
        rs.minimize_sum(grad, 1.0, 3, [1.0], step_size="budget")
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
    assert "nothing" in str(rs.Guarantee.of(problem, run, optimum))  # a mean over orders that decided when to stop
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
