"""Conjugate gradients of a step: what they gain, the combination whose residual is least, and the directions that they leave."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.solver.certified import solve, tuning
from reshuffle.solver.certified.batch import Batch, Losses
from reshuffle.solver.certified.conjugate import Directions, Iterate, Smoothing


def system(d, seed, spread=3.0):
    rng = np.random.default_rng(seed)
    turned, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return (turned * np.logspace(0, -spread, d)) @ turned.T, rng.standard_normal(d)


def iterates(H, gradient, costs, count, precondition=np.copy):
    """Textbook conjugate gradients, moving an `Iterate`, of which the margins are H^1/2 s; the points s with it."""
    values, vectors = np.linalg.eigh(H)
    root = (vectors * np.sqrt(values)) @ vectors.T
    step, points = Iterate(gradient, costs), [np.zeros(gradient.size)]
    p = precondition(step.residual)
    size = step.residual @ p
    for _ in range(count):
        product = H @ p
        step.move(size / (p @ product), p, root @ p, product, size)
        points.append(step.s.copy())
        towards = precondition(step.residual)
        new = step.residual @ towards
        p, size = towards + new / size * p, new
    return step, points, root


@given(st.integers(2, 30), st.integers(1, 6), st.integers(0, 99))
def test_an_iterate_knows_what_it_gained(d, count, seed):
    H, g = system(d, seed)
    step, points, root = iterates(H, g, None, min(count, d))
    model = [g @ s + 0.5 * s @ H @ s for s in points]
    assert step.gained == pytest.approx(-model[-1], rel=1e-6)
    assert step.slope == pytest.approx(-g @ step.s, rel=1e-6)
    np.testing.assert_allclose(step.along, root @ step.s, atol=1e-8 * np.abs(step.s).max())
    np.testing.assert_allclose(step.residual, -g - H @ step.s, atol=1e-8)
    mean = step.gained / (len(points) - 1 + tuning.STEP_PRODUCTS)
    assert step.fading * mean == pytest.approx(model[-2] - model[-1], rel=1e-5, abs=1e-9 * step.gained)


@given(st.integers(2, 30), st.integers(1, 12), st.integers(0, 99))
def test_a_smoothed_residual_never_grows_and_is_no_larger_than_any_iterate_s(d, count, seed):
    H, g = system(d, seed)
    costs = np.random.default_rng(seed).uniform(0.5, 2.0, d)
    least = np.inf
    for made in range(1, min(count, d) + 1):
        step, points, root = iterates(H, g, costs, made)
        smooth = step._smooth
        bar = costs @ (g + H @ smooth._s) ** 2
        assert smooth.cost == pytest.approx(bar, rel=1e-6, abs=1e-12)
        assert smooth.cost <= least * (1.0 + 1e-9)
        assert smooth.cost <= min(costs @ (g + H @ s) ** 2 for s in points[1:]) * (1.0 + 1e-6) + 1e-12
        np.testing.assert_allclose(step.dual_along, root @ smooth._s, atol=1e-8 * np.abs(smooth._s).max())
        assert smooth.value(g) == pytest.approx(g @ smooth._s + 0.5 * smooth._s @ H @ smooth._s, rel=1e-6, abs=1e-9)
        least = smooth.cost


def test_iterations_left_are_those_that_the_gap_takes_at_the_rate_since_it_was_first_asked(monkeypatch):
    step, gaps = Iterate(np.ones(2), np.ones(2)), iter([8.0, 4.0, 5.0, 1.0, 9.0])
    monkeypatch.setattr(Iterate, "gap", property(lambda step: next(gaps)))
    assert step.left(1.0) == np.inf
    step.made = 2
    assert step.left(1.0) == pytest.approx(4.0)  # halved in two
    assert step.left(0.5) == pytest.approx(2.0 * np.log(10.0) / np.log(1.6))
    assert step.left(1.0) == 0.0
    assert step.left(1.0) == np.inf  # it has risen


def test_without_smoothing_the_margins_of_the_step_itself_are_offered():
    H, g = system(12, 0)
    step, *_ = iterates(H, g, None, 5)
    assert step.dual_along is step.along


@pytest.mark.parametrize("made", [1, 4, 9])
def test_the_gap_of_the_models_is_that_of_their_own_primal_and_dual(made):
    """Squared loss, whose models are exact: f at the step, less the bound of the smoothed dual values."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 30)) @ (rng.standard_normal((30, 30)) * np.logspace(0, -1, 30))
    p = rs.Problem(X, X @ rng.standard_normal(30) + rng.standard_normal(80), loss="squared", alpha=0.05)
    batch, x = Batch(p, None, Losses(p, None), p.n), rng.standard_normal(30)
    batch.factored, batch._worth = False, lambda curvatures: np.inf
    here = batch.at(x)
    slopes, curvatures = batch.losses.models(here.z, False)
    count = iter(range(1, 100))
    step = batch.direction(
        batch.gradient(slopes, x), curvatures, lambda step: float(made - next(count)), costs=np.full(30, 0.5 / p.alpha)
    )
    smooth, plain = (p.dual_objective_along(slopes + curvatures * along)(1.0) for along in (step.dual_along, step.along))
    assert step.gap == pytest.approx(p.objective(x + step.s) - smooth, rel=1e-9)
    assert smooth >= plain
    assert (smooth > plain) == (made > 1)


def kept(H, gradient, count, precondition=np.copy, most=100):
    """The directions of so many iterations."""
    found, p = Directions(most), precondition(-gradient)
    residual = -gradient
    size = residual @ p
    for _ in range(count):
        product = H @ p
        found.add(p, product, p @ product)
        residual = residual - size / (p @ product) * product
        towards = precondition(residual)
        new = residual @ towards
        p, size = towards + new / size * p, new
    return found


@given(st.integers(3, 25), st.integers(2, 8), st.integers(0, 99))
def test_a_corrected_preconditioner_is_the_bfgs_update_one_direction_after_the_other(d, count, seed):
    H, g = system(d, seed, spread=2.0)
    rng = np.random.default_rng(seed)
    diagonal = rng.uniform(0.5, 2.0, d)
    found = kept(H, g, min(count, d - 1), lambda r: r / diagonal)
    update = np.diag(1.0 / diagonal)
    for p, product, bend in found._found:
        left = np.eye(d) - np.outer(p, product) / bend
        update = left @ update @ left.T + np.outer(p, p) / bend
    corrected = found.correct(lambda r: r / diagonal)
    r = rng.standard_normal(d)
    np.testing.assert_allclose(corrected(r), update @ r, rtol=1e-5, atol=1e-6 * np.abs(update @ r).max())
    for p, product, _ in found._found:  # exact where it knows the Hessian
        np.testing.assert_allclose(corrected(product), p, rtol=1e-5, atol=1e-6 * np.abs(p).max())
    assert r @ corrected(r) > 0.0


def test_one_direction_leaves_a_preconditioner_as_it_is_and_of_many_the_first_are_kept():
    H, g = system(10, 0)
    for few in (Directions(5), kept(H, g, 4, most=0), kept(H, g, 1)):
        assert few.correct(np.copy) is np.copy
    all_, few = kept(H, g, 6)._found, kept(H, g, 6, most=2)._found
    assert len(few) == 2
    np.testing.assert_array_equal([p for p, *_ in few], [p for p, *_ in all_[:2]])


def test_dual_values_of_least_residual_end_fits_sooner(monkeypatch):
    """On directions far apart, where the residual of conjugate gradients rises by orders of magnitude between its falls."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 5)) @ rng.standard_normal((5, 450)) + 0.1 * rng.standard_normal((1500, 450))
    p = rs.Problem(X, np.where(X @ rng.standard_normal(450) + rng.standard_normal(1500) > 0.0, 1.0, -1.0), alpha=1 / 1500)
    made, plain = [0, 0], Batch.product

    def counted(self, *arguments):
        made[-1] += 1
        return plain(self, *arguments)

    monkeypatch.setattr(Batch, "product", counted)
    assert solve(p).converged
    made.append(0)
    monkeypatch.setattr(Smoothing, "move", follow)
    assert solve(p).converged
    assert made[1] < 0.85 * made[2]


def follow(self, step):
    """No smoothing: the iterate itself."""
    self._s, self._residual, self.along = step.s, step.residual, step.along
    self.cost = float(self._costs @ step.residual**2)
