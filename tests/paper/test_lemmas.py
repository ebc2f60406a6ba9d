"""Lines 6 and 7 of Algorithm 1 as argmax and argmin, and the lemmas, numbered as LaTeX numbers them in the paper's source.

1 gap, smooth           here; an identity for the squared loss
2 first inner product   here; an identity
3 second, random orders `test_lemmas_second_inner.py`, over all orders
4 strong convexity      here, of the conjugates of the losses
5 batch variance        `test_lemmas_sampling.py`, over all orders
6 second, given order   `test_lemmas_second_inner.py`
7 convexity             here, of the conjugates of the losses
8 gap, Lipschitz        here; an identity at the kinks of the losses
9 second, Lipschitz     `test_lemmas_second_inner.py`
10 Kronecker product    `test_lemma_10_kronecker.py`
11 gap, general sums    here; an identity for isotropic quadratics
12, 13 second, general  `test_lemmas_second_inner.py`, with 3 and 6
"""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import reshuffle as rs
from tests.oracle import batches_of, block_rows, later_moves, points_of
from tests.solver.test_epochs import LOSSES, some_problem

SMOOTH = ["squared", "logistic", "smoothed_hinge:0.5", "squared_hinge", "huber:0.7"]
LIPSCHITZ = ["hinge", "absolute", "epsilon_insensitive:0.1", "quantile:0.3"]
SIZES = [(6, 1), (8, 2), (7, 3), (5, 5)]


def one_epoch(problem, A, order, b, step, x):
    """Every x_{k-1,i} and every dual, in the order of the positions."""
    points, duals = [x], np.zeros(len(A))
    for start in range(0, len(A), b):
        batch = order[start : start + b]
        for j in batch:
            duals[j] = problem.loss.derivative(A[j] @ x, problem.y[j], problem.loss.parameter)
        x = x - step / b * A[batch].T @ duals[batch]
        points.append(x)
    return points, duals


@pytest.mark.parametrize("loss", LOSSES)
def test_line_6_is_the_argmax_over_the_dual_value(loss):
    problem, A = some_problem(np.random.default_rng(0), 12, 3, loss)
    x = np.random.default_rng(1).standard_normal(3)
    low, high = problem.dual_bounds
    for j, z in enumerate(A @ x):
        ours = problem.loss.derivative(z, problem.y[j], problem.loss.parameter)

        def negative(u, j=j, z=z):
            return problem.loss.conjugate(u, problem.y[j], problem.loss.parameter) - u * z

        edge = 50.0
        best = minimize_scalar(
            negative, bounds=(max(low[j], -edge), min(high[j], edge)), method="bounded", options={"xatol": 1e-12}
        )
        assert negative(ours) <= best.fun + 1e-9
        assert low[j] - 1e-12 <= ours <= high[j] + 1e-12


@pytest.mark.parametrize("b", [1, 3])
def test_line_7_is_the_argmin_over_the_primal_point(b):
    rng = np.random.default_rng(2)
    problem, A = some_problem(rng, 9, 4, "logistic")
    step, x = 0.3, rng.standard_normal(4)
    run = rs.minimize(problem, order="ig", batch_size=b, step_size=step, epochs=1, x0=x)
    points, duals = one_epoch(problem, A, np.arange(9), b, step, x)
    np.testing.assert_allclose(run.last, points[-1], rtol=1e-12)
    for i, start in enumerate(range(0, 9, b)):
        linear = duals[start : start + b] @ A[start : start + b]
        # d/dx { y'A x + b/(2 step) |x - x_i|^2 } = 0 at x_{i+1}
        np.testing.assert_allclose(linear + b / step * (points[i + 1] - points[i]), 0.0, atol=1e-12)


# --- Lemmas 4 and 7: the conjugates


def slack_of_the_conjugates(loss, z, other, labels, weights):
    """l*(v) - l*(u) - z (v - u) for the duals u of z and v of other; the distance |v - u|; and the constants of the problem."""
    problem = rs.Problem(np.ones((len(z), 1)), labels, loss=loss, sample_weight=weights)
    u, v = problem.duals(z), problem.duals(other)
    slack = weights * (problem.conjugates(v) - problem.conjugates(u) - z * (v - u))
    return slack, weights * np.abs(v - u), problem


@pytest.mark.parametrize("loss", SMOOTH)
def test_lemma_4_the_conjugate_is_strongly_convex_by_one_over_the_smoothness_and_no_more(loss):
    rng = np.random.default_rng(0)
    z, labels, weights = rng.uniform(-2, 2, 4000), rng.choice([-1.0, 1.0], 4000), np.exp(rng.standard_normal(4000))
    for other in (rng.uniform(-2, 2, 4000), z + 0.05):
        slack, distance, problem = slack_of_the_conjugates(loss, z, other, labels, weights)
        parabola = distance**2 / (2 * problem.smoothness)
        assert (slack >= parabola - 1e-12).all()
    far = distance > 1e-3
    assert np.min(slack[far] / parabola[far]) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("loss", LIPSCHITZ)
def test_lemma_7_the_conjugate_is_convex_and_no_more(loss):
    """At its kinks a loss has a conjugate that is straight; and the duals go as far as the Lipschitz constant."""
    rng = np.random.default_rng(1)
    z, labels, weights = np.tile(np.arange(-20, 21) / 10, 100), rng.choice([-1.0, 1.0], 4100), np.exp(rng.standard_normal(4100))
    slack, distance, problem = slack_of_the_conjugates(loss, z, rng.uniform(-3, 3, 4100), labels, weights)
    assert (slack >= -1e-12).all()
    far = distance > 0.1 * weights
    assert np.min(slack[far] / distance[far]) == pytest.approx(0.0, abs=1e-12)
    assert np.max(np.abs(problem.duals(z)) * weights / problem.lipschitz) == pytest.approx(1.0)


# --- Lemmas 1, 2, 8 and 11


def gap_and_its_bound(rows, batches, n, b, step, *, x, x_star, y, v, y_star, conjugate, inverse_smoothness=0.0):
    """E_k, what Lemmas 1, 8 and 11 say that it is at most, and x_k. All their proofs ask of x* and y*
    is that y* is dual to x*, so any point will do for x*.
    """
    points = points_of(rows, y, batches, step / b, x)
    end = points[-1]

    def saddle(x, duals):
        return (duals @ rows @ x - conjugate(duals)) / n

    gap = step * (saddle(end, v) - saddle(x_star, y_star))
    first = step / n * sum(y[B] @ rows[B] @ (end - points[i + 1]) for i, B in enumerate(batches))
    second = step / n * (v - y) @ later_moves(rows, y, batches, step / b)
    strong = step / (2 * n) * np.sum(inverse_smoothness * ((y - v) ** 2 + (y - y_star) ** 2))
    moves = b / (2 * n) * np.sum(np.diff(points, axis=0) ** 2)
    return gap + b / (2 * n) * (np.sum((x_star - end) ** 2) - np.sum((x_star - x) ** 2)), first + second - strong - moves, end


def duals_of_an_epoch(dual_map, rows, batches, step_by_b, x):
    """Line 6 and line 7 in turns: the dual values that an epoch sees."""
    y = np.zeros(len(rows))
    for B in batches:
        y[B] = dual_map(rows @ x)[B]
        x = x - step_by_b * rows[B].T @ y[B]
    return y


@pytest.mark.parametrize(("n", "b"), SIZES)
@pytest.mark.parametrize("rows_each", [1, 3])
def test_lemma_2_is_an_identity_for_any_dual_vector(n, b, rows_each):
    rng = np.random.default_rng([n, b])
    rows, y, x = rng.standard_normal((n * rows_each, 4)), rng.standard_normal(n * rows_each), rng.standard_normal(4)
    batches, step = batches_of(rng.permutation(n), b, rows_each), 0.3
    points = points_of(rows, y, batches, step / b, x)
    first = step / n * sum(y[B] @ rows[B] @ (points[-1] - points[i + 1]) for i, B in enumerate(batches))
    assert first == pytest.approx(b / (2 * n) * (np.sum(np.diff(points, axis=0) ** 2) - np.sum((x - points[-1]) ** 2)))


@pytest.mark.parametrize("loss", SMOOTH)
@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize(("n", "b"), SIZES)
def test_lemma_1_holds_for_any_v_and_is_an_identity_for_the_squared_loss(loss, alpha, n, b):
    """The conjugate of the squared loss is the parabola of Lemma 4. With alpha, a sample has rows for its share of it."""
    rng = np.random.default_rng([n, b])
    weights, d, step = np.exp(rng.standard_normal(n)), 2, 0.1
    problem, A = some_problem(rng, n, d, loss, alpha=alpha, sample_weight=weights)
    rows, smoothness = block_rows(A, problem.smoothness, alpha) if alpha else (A, problem.smoothness)
    size = len(rows) // n
    order, data = rng.permutation(n), np.arange(n) * size  # where the rows of the data lie

    def dual_map(z):
        y = z.copy()  # the regulariser is |.|^2 / 2 of its rows
        y[data] = weights * problem.duals(z[data])
        return y

    def conjugate(y):
        return weights @ problem.conjugates(y[data] / weights) + np.sum(np.delete(y, data) ** 2) / 2

    (x, x_star), batches = rng.standard_normal((2, d)), batches_of(order, b, size)
    y, y_star = duals_of_an_epoch(dual_map, rows, batches, step / b, x), dual_map(rows @ x_star)
    end = rs.minimize(problem, order=order, batch_size=b, step_size=step, epochs=1, x0=x).last
    best = dual_map(rows @ end)
    assert (best @ rows @ end - conjugate(best)) / n == pytest.approx(problem.objective(end))  # at this v the gap is that of f
    for v in (best, y, y_star, *(dual_map(rng.standard_normal(len(rows)) * scale) for scale in (0.3, 3.0))):
        left, right, x_k = gap_and_its_bound(
            rows, batches, n, b, step,
            x=x, x_star=x_star, y=y, v=v, y_star=y_star, conjugate=conjugate, inverse_smoothness=1 / smoothness,
        )  # fmt: skip
        assert left == pytest.approx(right, abs=1e-12) if loss == "squared" else left <= right + 1e-12
    np.testing.assert_allclose(x_k, end, rtol=1e-10)


@pytest.mark.parametrize("loss", LIPSCHITZ)
@pytest.mark.parametrize(("n", "b"), SIZES)
def test_lemma_8_holds_for_any_v(loss, n, b):
    rng = np.random.default_rng([n, b])
    weights, step = np.exp(rng.standard_normal(n)), 0.1
    problem, A = some_problem(rng, n, 3, loss, sample_weight=weights)
    batches, (x, x_star) = batches_of(rng.permutation(n), b), rng.standard_normal((2, 3))

    def dual_map(z):
        return weights * problem.duals(z)

    y = duals_of_an_epoch(dual_map, A, batches, step / b, x)
    for v in (dual_map(A @ points_of(A, y, batches, step / b, x)[-1]), y, dual_map(rng.standard_normal(n))):
        left, right, _ = gap_and_its_bound(
            A, batches, n, b, step, x=x, x_star=x_star, y=y, v=v, y_star=dual_map(A @ x_star),
            conjugate=lambda duals: weights @ problem.conjugates(duals / weights),
        )  # fmt: skip
        assert left <= right + 1e-12


@pytest.mark.parametrize(("n", "b"), SIZES)
def test_lemma_8_is_an_identity_where_the_losses_are_at_their_kinks(n, b):
    """Absolute losses with A x* = labels, begun where the first batch has no residual either: its v is free, the others are y."""
    rng = np.random.default_rng([n, b])
    A, x_star, weights, step = rng.integers(-3, 4, (n, 4)).astype(float), np.array([1.0, -2, 3, 1]), rng.uniform(0.5, 2, n), 0.05
    order = rng.permutation(n)
    A[order[:b], 3] = 0.0
    problem = rs.Problem(A, A @ x_star, loss="absolute", sample_weight=weights)
    x, batches = x_star + np.array([0, 0, 0, 2.0]), batches_of(order, b)  # whole numbers: the residuals are zero, not small
    y = duals_of_an_epoch(lambda z: weights * problem.duals(z), A, batches, step / b, x)
    v = y.copy()
    v[batches[0]] = weights[batches[0]] * rng.uniform(-1, 1, b)
    left, right, end = gap_and_its_bound(
        A, batches, n, b, step,
        x=x, x_star=x_star, y=y, v=v, y_star=np.zeros(n), conjugate=lambda duals: weights @ problem.conjugates(duals / weights),
    )  # fmt: skip
    assert left == pytest.approx(right, abs=1e-12)
    assert n == b or abs(right) > 1e-4
    np.testing.assert_allclose(
        rs.minimize(problem, order=order, batch_size=b, step_size=step, epochs=1, x0=x).last, end, rtol=1e-12
    )


@pytest.mark.parametrize("isotropic", [True, False])
@pytest.mark.parametrize(("n", "b"), SIZES)
def test_lemma_11_holds_for_any_v_and_is_an_identity_for_isotropic_quadratics(n, b, isotropic):
    """f_i(x) = (x - c_i)' Q_i (x - c_i) / 2, with conjugate y' Q_i^-1 y / 2 + c_i'y: the parabola of Lemma 4 where Q_i = L_i I."""
    rng = np.random.default_rng([n, b])
    d, step = 2, 0.05
    roots = rng.standard_normal((n, d, d))
    Q = np.exp(rng.standard_normal((n, 1, 1))) * np.eye(d) if isotropic else roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(d)
    centres, L = rng.standard_normal((n, d)), np.linalg.norm(Q, 2, axis=(1, 2))
    rows, order, (x, x_star) = np.tile(np.eye(d), (n, 1)), rng.permutation(n), rng.standard_normal((2, d))
    batches = batches_of(order, b, d)

    def dual_map(z):
        return np.einsum("nij,nj->ni", Q, z.reshape(n, d) - centres).ravel()

    def conjugate(y):
        y = y.reshape(n, d)
        return np.einsum("ni,nij,nj->", y, np.linalg.inv(Q), y) / 2 + np.sum(y * centres)

    y = duals_of_an_epoch(dual_map, rows, batches, step / b, x)
    for v in (dual_map(rows @ points_of(rows, y, batches, step / b, x)[-1]), y, rng.standard_normal(n * d)):
        left, right, end = gap_and_its_bound(
            rows, batches, n, b, step, x=x, x_star=x_star, y=y, v=v, y_star=dual_map(rows @ x_star),
            conjugate=conjugate, inverse_smoothness=1 / np.repeat(L, d),
        )  # fmt: skip
        assert left == pytest.approx(right, abs=1e-10) if isotropic else left <= right + 1e-10

    def gradient(x, batch):
        return np.einsum("nij,nj->i", Q[batch], x - centres[batch])

    run = rs.minimize_sum(gradient, L, n, x, order=order, batch_size=b, step_size=step, epochs=1)
    np.testing.assert_allclose(run.last, end, rtol=1e-10)
