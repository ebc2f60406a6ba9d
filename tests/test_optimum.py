"""What is measured at the optimum, against the definitions; alpha is part of each. Of many minimisers it is the nearest, and where
there is none that is said.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, linprog, lsq_linear, minimize

import reshuffle as rs
from reshuffle import theory
from reshuffle.losses import get_loss
from reshuffle.optimum.existence import _balanced_inside
from tests.solver.test_epochs import some_problem

SMOOTH = ["squared", "huber:0.3", "smoothed_hinge:0.5", "squared_hinge"]
PIECES = ["hinge", "absolute", "epsilon_insensitive:0.4", "quantile:0.3"]


@pytest.mark.parametrize("alpha", [0.05, 2.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared", "huber:0.7"])
def test_sigma_and_the_dual_norm_are_those_of_the_regularised_samples(loss, intercept, alpha):
    rng = np.random.default_rng(0)
    n, d = 30, 4
    weights = rng.random(n) + 0.2
    problem, A = some_problem(rng, n, d, loss, "csr", alpha=alpha, fit_intercept=intercept, sample_weight=weights)
    x0 = rng.standard_normal(problem.dimension)
    optimum = theory.measure(problem, x0)
    x = optimum.x
    rows = np.column_stack([A, np.ones(n)]) if intercept else A
    pull = np.r_[alpha * x[:d], np.zeros(int(intercept))]
    slopes = np.array([problem.loss.derivative(row @ x, y, problem.loss.parameter) for row, y in zip(rows, problem.y, strict=True)])
    gradients = (weights * slopes)[:, None] * rows + pull
    assert optimum.sigma == pytest.approx(np.sqrt(np.mean(np.sum(gradients**2, axis=1))))
    np.testing.assert_allclose(gradients.mean(axis=0), 0.0, atol=1e-10)
    # a sample is the block row [a_i; sqrt(alpha) I]: its dual is (w_i l', sqrt(alpha) x), its smoothness (w_i L, 1, ..., 1)
    blocks = (weights * slopes) ** 2 / (weights * problem.loss.smoothness) + alpha * np.sum(x[:d] ** 2)
    assert optimum.dual_norm == pytest.approx(np.sqrt(blocks.sum()))
    assert optimum.distance == pytest.approx(np.linalg.norm(x - x0))
    assert optimum.error <= 1e-12
    assert "f - min f <=" in str(optimum)


@pytest.mark.parametrize("loss", PIECES)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_a_loss_of_straight_pieces_is_minimised_by_a_linear_program(loss, kind):
    rng = np.random.default_rng(1)
    problem, A = some_problem(rng, 25, 3, loss, fit_intercept=True)
    problem = rs.Problem(kind(A), problem.y, loss=loss, fit_intercept=True)
    optimum = theory.measure(problem)
    assert optimum.error < 1e-8
    nearby = [problem.objective(optimum.x + scale * rng.standard_normal(4)) for scale in (1e-4, 1e-2, 1.0) for _ in range(200)]
    assert optimum.f <= min(nearby) + 1e-9


def test_the_optimum_of_badly_scaled_features_is_found():
    data = rs.load("breast_cancer")  # columns from 1e-3 to 1e3
    optimum = theory.measure(rs.Problem(data.X, data.y, alpha=1e-3))
    assert optimum.gradient_norm < 1e-12
    assert optimum.error < 1e-8


def test_the_error_of_the_distance_is_bounded_by_strong_convexity():
    rng = np.random.default_rng(2)
    problem, A = some_problem(rng, 40, 5, "squared", alpha=0.3)
    optimum = theory.measure(problem)
    exact = np.linalg.norm(np.linalg.solve(A.T @ A / 40 + 0.3 * np.eye(5), A.T @ problem.y / 40))
    assert abs(optimum.distance - exact) <= optimum.distance_error + 1e-15 <= 1e-12
    assert theory.measure(problem.replace(alpha=0.0)).distance_error is None


# --- many minimisers: the nearest


def many_minimisers(rng, loss, kind, intercept, storage=np.asarray):
    """A problem that leaves directions free: fewer rows than columns, columns twice, or losses at their flat ends."""
    n, d = {"wide": (5, 9), "twice": (14, 3), "flat": (12, 4)}[kind]
    A = rng.standard_normal((n, d))
    if kind == "twice":
        A = np.hstack([A, A[:, :2], np.zeros((n, 1))])
    if get_loss(loss).task == "classification":
        y = np.where(A @ rng.standard_normal(A.shape[1]) > 0.0, 1.0, -1.0) if kind == "flat" else np.sign(rng.standard_normal(n))
        y[:2] = [1.0, -1.0] if kind != "flat" or abs(y.sum()) == n else y[:2]
    else:
        y = A @ rng.standard_normal(A.shape[1]) if kind == "flat" else 2.0 * rng.standard_normal(n)
    weights = rng.random(n) + 0.2
    problem = rs.Problem(storage(A), y, loss=loss, fit_intercept=intercept, sample_weight=weights)
    return problem, np.column_stack([A, np.ones(n)]) if intercept else A


def stretch(loss, z, y):
    """Where a smooth loss has the slope that it has at z, by its definition."""
    beside = 1e-6
    if loss.name == "huber" and abs(z - y) > loss.delta - beside:
        return (y + loss.delta, np.inf) if z > y else (-np.inf, y - loss.delta)
    if loss.name in ("smoothed_hinge", "squared_hinge"):
        m, corner = y * z, 1.0 - loss.parameter
        ends = (1.0, np.inf) if m > 1.0 - beside else (m, m)
        if loss.name == "smoothed_hinge" and m < corner + beside:
            ends = (-np.inf, corner)
        return tuple(sorted(y * end for end in ends))
    return z, z


def assert_is_nearest(A, x, x0, low, high, rtol=1e-6):
    """x0 - x = A' lambda with lambda_i >= 0 only where a_i'x = high_i and <= 0 only where it is low_i: the normal cone."""
    z = A @ x
    assert np.all((z > low - 1e-7) & (z < high + 1e-7))
    bounds = np.where(z < low + 1e-7, -np.inf, 0.0), np.where(z > high - 1e-7, np.inf, 0.0)
    used = bounds[0] < bounds[1]
    away = x0 - x
    if used.any():
        fitted = lsq_linear(A[used].T, away, (bounds[0][used], bounds[1][used]), method="bvls", tol=1e-14, max_iter=1000)
        away = away - A[used].T @ fitted.x
    assert np.linalg.norm(away) <= rtol * (1e-3 + np.linalg.norm(x0 - x))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), loss=st.sampled_from(SMOOTH), kind=st.sampled_from(["wide", "twice", "flat"]),
    intercept=st.booleans(), far=st.sampled_from([0.0, 0.1, 3.0]),
)  # fmt: skip
def test_of_many_minimisers_of_a_smooth_loss_it_is_the_nearest(seed, loss, kind, intercept, far):
    rng = np.random.default_rng(seed)
    problem, A = many_minimisers(rng, loss, kind, intercept)
    x0 = far * rng.standard_normal(problem.dimension)
    optimum = theory.measure(problem, x0)
    assert np.linalg.norm(problem.gradient(optimum.x)) < 1e-8
    assert optimum.distance == pytest.approx(np.linalg.norm(optimum.x - x0))
    low, high = np.array([stretch(problem.loss, *zy) for zy in zip(A @ optimum.x, problem.y, strict=True)]).T
    assert_is_nearest(A, optimum.x, x0, low, high)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6), loss=st.sampled_from(PIECES), kind=st.sampled_from(["wide", "twice", "flat"]),
    intercept=st.booleans(), far=st.sampled_from([0.0, 0.1, 3.0]),
)  # fmt: skip
def test_of_many_minimisers_of_a_loss_with_kinks_it_is_the_nearest(seed, loss, kind, intercept, far):
    """0 and mu (x0 - x) are subgradients at x: it minimises f, and f + (mu/2)|x - x0|^2 for a small mu, so none of f is nearer."""
    rng = np.random.default_rng(seed)
    problem, A = many_minimisers(rng, loss, kind, intercept)
    x0 = far * rng.standard_normal(problem.dimension)
    x = theory.measure(problem, x0).x
    low, high = problem.duals(A @ x - 1e-7), problem.duals(A @ x + 1e-7)
    kinks, rows = low < high, A.T * problem.sample_weight / problem.n
    for mu in (0.0, 1e-6):
        missing = mu * (x0 - x) - rows[:, ~kinks] @ low[~kinks]
        if kinks.any():
            missing -= rows[:, kinks] @ lsq_linear(rows[:, kinks], missing, (low[kinks], high[kinks]), method="bvls", tol=1e-15).x
        assert np.linalg.norm(missing) <= 1e-12 + 1e-6 * mu * np.linalg.norm(x0 - x)


def test_fewer_rows_than_columns_are_solved_by_the_pseudoinverse():
    rng = np.random.default_rng(0)
    A, y, x0 = rng.standard_normal((6, 15)) * np.logspace(-2, 2, 15), rng.standard_normal(6), rng.standard_normal(15)
    for storage in (np.asarray, sp.csr_array):
        optimum = theory.measure(rs.Problem(storage(A), y, loss="squared"), x0)
        np.testing.assert_allclose(optimum.x, x0 + np.linalg.pinv(A) @ (y - A @ x0), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_the_largest_margin_is_the_nearest_minimiser_on_separable_data(loss):
    """From 0, the nearest x with y_i a_i'x >= 1 for all i: the hard-margin support vector machine, here by SLSQP."""
    rng = np.random.default_rng(3)
    A = rng.standard_normal((30, 4)) + 0.5
    y = np.where(A @ [1.0, -2.0, 0.5, 1.0] > 0.3, 1.0, -1.0)
    rows = np.column_stack([A, np.ones(30)])
    margin = LinearConstraint(y[:, None] * rows, 1.0, np.inf)
    feasible = linprog(np.zeros(5), A_ub=-y[:, None] * rows, b_ub=-np.ones(30), bounds=(None, None)).x
    oracle = minimize(lambda x: 0.5 * x @ x, feasible, jac=lambda x: x, constraints=margin, method="SLSQP", options={"ftol": 1e-15})
    optimum = theory.measure(rs.Problem(A, y, loss=loss, fit_intercept=True))
    assert optimum.f < 1e-15
    assert optimum.distance == pytest.approx(np.linalg.norm(oracle.x), rel=1e-6)


def test_with_alpha_only_the_intercept_may_be_free():
    """Both rows are past the corner of huber with opposite slopes whatever the intercept, from -2 to 2."""
    problem = rs.Problem(np.zeros((2, 1)), [-3.0, 3.0], loss="huber:1", alpha=0.5, fit_intercept=True)
    for start, nearest_one in ((0.7, 0.7), (5.0, 2.0), (-9.0, -2.0)):
        optimum = theory.measure(problem, [0.0, start])
        assert optimum.x == pytest.approx([0.0, nearest_one], abs=1e-9)
        assert optimum.distance == pytest.approx(abs(start - nearest_one), abs=1e-9)


def test_more_columns_than_a_hessian_is_formed_for():
    rng = np.random.default_rng(4)
    A = sp.random_array((30, 3500), density=0.02, rng=rng).tocsr()
    y, x0 = rng.standard_normal(30), 0.1 * rng.standard_normal(3500)
    expected = np.linalg.pinv(A.toarray()) @ (y - A @ x0)
    assert theory.measure(rs.Problem(A, y, loss="squared"), x0).distance == pytest.approx(np.linalg.norm(expected), rel=1e-6)
    labels = np.where(y > 0.0, 1.0, -1.0)
    optimum = theory.measure(rs.Problem(A, labels, loss="squared_hinge"), x0)
    low, high = np.sort([labels, labels * np.inf], axis=0)
    assert_is_nearest(A.toarray(), optimum.x, x0, low, high)


# --- losses of one's own: what is flat, and what falls for ever, is read off their derivative


@dataclass(frozen=True)
class DeadZone(rs.losses.Loss):
    """Half the squared distance to [y - 1, y + 1], up to a slope of 1."""

    name = "dead_zone"
    task = "regression"
    smoothness = 1.0
    lipschitz = 1.0
    dual_domain = (-1.0, 1.0)

    @staticmethod
    def value(z, y, parameter):
        r = max(abs(z - y) - 1.0, 0.0)
        return 0.5 * r * r if r < 1.0 else r - 0.5

    @staticmethod
    def derivative(z, y, parameter):
        return math.copysign(min(max(abs(z - y) - 1.0, 0.0), 1.0), z - y)

    @staticmethod
    def conjugate(u, y, parameter):
        return 0.5 * u * u + abs(u) + u * y


@dataclass(frozen=True)
class SlowTail(rs.losses.Loss):
    """1/(1 + m) for m = y z >= 0, and the line 1 - m before: its slope tends to 0 slowly, and never is."""

    name = "slow_tail"
    task = "classification"
    smoothness = 2.0
    lipschitz = 1.0
    dual_domain = (-1.0, 0.0)

    @staticmethod
    def value(z, y, parameter):
        return 1.0 / (1.0 + y * z) if y * z > 0.0 else 1.0 - y * z

    @staticmethod
    def derivative(z, y, parameter):
        return -y / (1.0 + y * z) ** 2 if y * z > 0.0 else -y

    @staticmethod
    def conjugate(u, y, parameter):
        v = max(-u * y, 0.0)
        return v - 2.0 * math.sqrt(v)


def test_the_flat_stretch_of_a_loss_of_ones_own_is_found():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((8, 3))
    truth, x0 = rng.standard_normal(3), 2.0 * rng.standard_normal(3)
    y = A @ truth
    optimum = theory.measure(rs.Problem(A, y, loss=DeadZone()), x0)
    assert optimum.distance > 0.1
    assert_is_nearest(A, optimum.x, x0, y - 1.0, y + 1.0)


# --- no minimiser

ENDLESS = ["logistic", SlowTail()]


def separable(A, y):
    """Some v with y_i a_i'v >= 0 for all i and > 0 for one: the linear program max sum y_i a_i'v over |v| <= 1."""
    S = y[:, None] * A
    return -linprog(-S.sum(axis=0), A_ub=-S, b_ub=np.zeros(len(y)), bounds=(-1.0, 1.0)).fun > 1e-6


@settings(max_examples=50)
@given(
    seed=st.integers(0, 10**6), loss=st.sampled_from(ENDLESS), n=st.integers(3, 25), d=st.integers(1, 4), intercept=st.booleans(),
    sparse=st.booleans(),
)  # fmt: skip
def test_separable_data_and_no_other_is_refused(seed, loss, n, d, intercept, sparse):
    rng = np.random.default_rng(seed)
    A = rng.integers(-2, 3, (n, d)) * 1.0  # ties: many rows lie on the separating plane
    y = np.where(A[:, 0] + 1.5 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    y[:2] = [1.0, -1.0]
    rows = np.column_stack([A, np.ones(n)]) if intercept else A
    weights = rng.random(n) + 0.1
    problem = rs.Problem(sp.csr_array(A) if sparse else A, y, loss=loss, fit_intercept=intercept, sample_weight=weights)
    if separable(rows, y):
        with pytest.raises(rs.NoMinimiserError, match=r"no minimiser on this data.*use alpha > 0"):
            theory.measure(problem)
    else:
        assert theory.measure(problem).gradient_norm < 1e-6


def test_the_command_line_says_in_one_line_that_there_is_no_minimiser(tmp_path, called):
    path = tmp_path / "toy.csv"
    path.write_text("a,b,label\n1,2,1\n2,1,1\n-1,-1,-1\n-2,0,-1\n0,0,-1\n")
    for command in (["plan"], ["run", "--step-size", "budget"], ["report", "-o", str(tmp_path / "page.html")]):
        words = ["--alpha", "0", "--no-intercept", "--scale", "none", *command[1:]]
        out, err = called(command[0], path, *words, status=2)
        assert out == ""
        assert err.splitlines()[-1].startswith("reshuffle: loss='logistic' with alpha=0 has no minimiser on this data")
        assert "> 0 for 4 of 5" in err
        assert err.endswith("use alpha > 0\n")
    words = ["--loss", "logistic", "--alpha", "0", "--epochs", "2", "--scale", "none"]
    out, err = called("run", path, *words)  # training needs no minimiser
    assert len(out.splitlines()) == 3
    assert "promised" not in out
    assert err.startswith("reshuffle: nothing is promised: loss='logistic' with alpha=0 has no minimiser")
    problem = rs.Problem([[1.0, 2.0], [-1.0, 0.0]], [1, -1])
    with pytest.raises(rs.NoMinimiserError):
        rs.minimize(problem, step_size="budget", epochs=3)
    assert theory.measure(problem.replace(alpha=0.1)).distance > 0.0


@pytest.mark.parametrize("far", [0.0, 1.0, 10.0, 30.0, 100.0])
def test_no_point_of_separable_data_passes_for_one_near_a_minimiser(far):
    """The second feature occurs in one row alone; the first is balanced, and its optimum known."""
    problem = rs.Problem([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1, 1, -1, 1])
    assert not _balanced_inside(problem, np.array([np.log(2.0), far]))
    both = rs.Problem([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]], [1, 1, -1, 1, -1])
    assert _balanced_inside(both, np.array([np.log(2.0), 0.0]))


def test_data_of_zeros_is_minimised_everywhere():
    optimum = theory.measure(rs.Problem(np.zeros((4, 2)), [1, -1, 1, 1]), [3.0, -1.0])
    assert (optimum.f, optimum.distance) == (pytest.approx(np.log(2.0)), 0.0)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "smoothed_hinge", "huber", DeadZone()])
def test_losses_that_reach_their_least_value_are_never_refused(loss):
    optimum = theory.measure(rs.Problem([[1.0, 2.0], [2.0, 1.0], [-1.0, -1.0]], [1.0, 1.0, -1.0], loss=loss))
    assert optimum.gradient_norm < 1e-12
