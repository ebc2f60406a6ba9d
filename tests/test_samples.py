"""Samples whose vectors are tensors say what those of the host say, for every loss with a form in tensors; here on torch's CPU."""

from dataclasses import replace
from math import fsum

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.losses import LOSSES, Logistic, get_loss
from reshuffle.losses.base import compiled
from reshuffle.orders.streams import Stream
from reshuffle.solver.certified.batch import sample_by_curvature
from tests.oracle import called

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'reshuffle[gpu]'")
from reshuffle import tensor_samples  # noqa: E402
from reshuffle.losses.tensors import FORMS  # noqa: E402
from reshuffle.rows.torch import TorchRows  # noqa: E402

NAMES = ["logistic", "squared", "squared_hinge", "smoothed_hinge", "smoothed_hinge:0.3", "huber", "huber:0.2"]
N = 5000


def test_every_smooth_loss_has_a_form_in_tensors():
    smooth = {kind for name, kind in LOSSES.items() if kind().smoothness is not None and name != "unit"}
    assert set(FORMS) == smooth == {type(get_loss(name)) for name in NAMES}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(NAMES),
    st.one_of(st.floats(-3.0, 3.0), st.floats(-1e6, 1e6), st.sampled_from([0.0, 1.0, -1.0, 0.7, 710.0, -710.0, 1e300, -1e300])),
    st.floats(-2.0, 2.0),
    st.floats(0.0, 1.0),
)
def test_forms_in_tensors_are_the_functions_of_the_loss(name, z, label, share):
    loss = get_loss(name)
    y = label if loss.task == "regression" else 1.0 if label > 0.0 else -1.0
    if loss.task == "regression" and abs(z) > 1e6:
        z = np.sign(z) * 1e6  # whose square is a number
    form, parameter = FORMS[type(loss)], loss.parameter
    for function in ("value", "derivative", "curvature"):
        ours = float(
            getattr(form, function)(torch.tensor([z], dtype=torch.float64), torch.tensor([y], dtype=torch.float64), parameter)
        )
        theirs = called(compiled(loss, function))(z, y, parameter)
        assert ours == pytest.approx(theirs, rel=1e-13, abs=1e-14 if function == "curvature" else 1e-300), function
    low, high = (min(max(end, -1e6), 1e6) for end in loss.dual_domain)
    u = (y if loss.task == "classification" else 1.0) * (low + share * (high - low))
    ours = float(form.conjugate(torch.tensor([u], dtype=torch.float64), torch.tensor([y], dtype=torch.float64), parameter))
    # of terms that nearly cancel where u is small or at its end
    assert ours == pytest.approx(called(compiled(loss, "conjugate"))(u, y, parameter), rel=1e-13, abs=1e-15 * (1.0 + u * u))


def both(name, seed=0, weights="some are zero"):
    """The same samples as NumPy has them and as tensors, with margins, and dual values of which some lie outside."""
    rng = np.random.default_rng(seed)
    X, loss = rng.standard_normal((N, 3)), get_loss(name)
    y = rng.standard_normal(N) if loss.task == "regression" else np.where(rng.random(N) > 0.4, 1.0, -1.0)
    problem = rs.Problem(X, y, loss=loss, alpha=0.1, device="cpu")
    if weights:
        problem = problem.reweighted(rng.random(N) * (rng.random(N) > 0.1))
    return problem.samples, problem.on_device().samples, 3.0 * rng.standard_normal(N), rng.standard_normal(N)


@pytest.mark.parametrize("name", NAMES)
def test_sums_of_tensors_are_those_of_the_host(name):
    host, there, z, u = both(name)
    T = torch.from_numpy
    move = np.roll(z, 1)
    assert there.total(T(z), T(move), 0.25) == pytest.approx(host.total(z, move, 0.25), rel=1e-12)
    z[:5] = host.labels[:5]  # no care can bend a model towards where it is
    for steep in (False, True):
        for ours, theirs in zip(there.models(T(z), steep), host.models(z, steep), strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(there.unweighted(T(u)).numpy(), host.unweighted(u), rtol=1e-15)
    feasible = host.clipped(u)
    np.testing.assert_array_equal(there.clipped(T(u)).numpy(), feasible)
    for share in (1.0, 0.5, 0.0):
        ours = there.total_conjugate(T(feasible), share)
        assert ours == pytest.approx(host.total_conjugate(feasible, share), rel=1e-12, abs=1e-10)
    lengths = np.abs(z)
    expected = host.sums_for_rounding(feasible, 2.0, lengths)
    assert there.sums_for_rounding(T(feasible), 2.0, T(lengths)) == pytest.approx(expected, rel=1e-12)
    if np.isfinite(get_loss(name).dual_domain).any():
        assert there.total_conjugate(T(u), 1.0) == host.total_conjugate(u, 1.0) == np.inf
        assert there.sums_for_rounding(T(u), 2.0, T(lengths))[2] == np.inf
    broken = feasible.copy()
    broken[7] = np.nan
    assert there.total_conjugate(T(broken), 1.0) == np.inf  # of which no bound is made


@pytest.mark.parametrize("size", [1, 7, N])
def test_signs_are_balanced_and_what_is_left_is_measured_to_the_last_digit(size, monkeypatch):
    monkeypatch.setattr(tensor_samples, "_FEW", 4)  # the rest is halved on the device
    host, there, z, _ = (part[:size] if isinstance(part, np.ndarray) else part.take(np.arange(size)) for part in both("squared"))
    wide = z * 10.0 ** np.linspace(-12, 12, size)  # sums of which lose all but the largest, unless they are compensated
    tensor = torch.from_numpy(wide.copy())
    terms = (host.weights * wide).tolist()
    assert there.imbalance(tensor) == pytest.approx(fsum(terms), rel=1e-15, abs=1e-30 * fsum(map(abs, terms)))
    was = there.balance_signs(tensor)
    theirs = wide.copy()
    assert was == host.balance_signs(theirs) == (size == 1 and terms[0] == 0.0)
    np.testing.assert_allclose(tensor.numpy(), theirs, rtol=1e-14)
    assert abs(there.imbalance(tensor)) <= 2.0**-52 * fsum(map(abs, terms))
    assert there.imbalance(tensor) == pytest.approx(host.imbalance(tensor.numpy()), rel=1e-3, abs=2.0**-53 * fsum(map(abs, terms)))


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_prediction_sees_as_much_of_the_labels_alone(name):
    host, there, z, _ = both(name)
    labels = np.round(host.labels, 1)
    host, there = replace(host, labels=labels), replace(there, labels=torch.from_numpy(labels))
    assert host.by_label().labels.size == np.unique(labels).size < 100
    expected = host.total(np.full(N, 0.3), z, 0.0)
    for each in (host.by_label(), there.by_label()):
        assert float(each.weights @ each.apply("value", each.zeros() + 0.3)) == pytest.approx(expected, rel=1e-12)


def test_balanced_signs_stay_as_they_are():
    _, there, _, _ = both("logistic", weights=None)
    u = torch.cat([torch.ones(N // 2, dtype=torch.float64), -torch.ones(N // 2, dtype=torch.float64)])
    assert there.balance_signs(u)
    assert float(u.abs().min()) == 1.0


def test_rows_are_drawn_and_sampled_as_on_the_host():
    host, there, z, _ = both("logistic")
    for seed in (0, 3):
        ours, theirs = (each.fractions(seed, Stream.GROWING_BATCH) for each in (there, host))
        np.testing.assert_array_equal(ours.numpy(), theirs)
    mine, same = there.places(ours < 0.02), host.places(theirs < 0.02)
    np.testing.assert_array_equal(mine.numpy(), same)
    np.testing.assert_array_equal(there.take(mine).labels.numpy(), host.take(same).labels)
    curvatures = np.abs(z) ** 5  # of which some are certain to be taken
    (rows, kept), (same, as_much) = (
        sample_by_curvature(there, torch.from_numpy(curvatures), 800),
        sample_by_curvature(host, curvatures, 800),
    )
    assert 0 < (as_much == curvatures[same]).sum() < same.size  # and some are not
    # Sums round differently, so a row at the edge may give way to its neighbour.
    assert np.isin(rows.numpy(), same).mean() > 0.99
    assert float(kept.sum()) == pytest.approx(as_much.sum(), rel=1e-3)


def test_a_problem_on_a_device_has_tensors_where_a_loss_has_a_form():
    X, y = np.random.default_rng(0).standard_normal((50, 3)), np.tile([-1.0, 1.0], 25)

    class Own(Logistic):
        """A child may have changed any function of it."""

    for loss, there in (("logistic", True), ("hinge", False), (Own(), False)):
        problem = rs.Problem(X, y, loss=loss, alpha=0.1, fit_intercept=True, device="cpu")
        other = problem.on_device()
        assert (other is not problem) == there
        assert isinstance(other.samples, tensor_samples.TensorSamples) == there
        assert not problem.rows.tensors
    memory = rs.Problem(X, y, alpha=0.1)
    assert memory.on_device() is memory
    problem, x = rs.Problem(X, y, alpha=0.1, fit_intercept=True, device="cpu"), np.arange(4.0)
    other = problem.on_device()
    assert other.on_device() is other
    assert other.objective(x) == pytest.approx(problem.objective(x), rel=1e-14)
    np.testing.assert_allclose(other.margins(x).numpy(), problem.margins(x), rtol=1e-14)
    np.testing.assert_allclose(other.lengths.numpy(), problem.lengths, rtol=1e-14)
    u = 0.1 * y  # of the host's, which goes where the others are
    np.testing.assert_allclose(other.transposed(u), problem.transposed(u), rtol=1e-13, atol=1e-13)
    with pytest.raises(ValueError, match="u has shape"):
        other.transposed(u[1:])


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_hessian_is_factorised_where_it_was_formed(kind):
    rng = np.random.default_rng(1)
    A = torch.from_numpy(rng.standard_normal((200, 5))).to(kind)
    plain = TorchRows(A, (torch.device("cpu"),)).with_intercept(True)
    rows, c, ridge, r = plain.with_tensors(), rng.random(200), np.array([0.1] * 5 + [0.0]), rng.standard_normal(6)
    B = np.column_stack([A.double().numpy(), np.ones(200)])
    exact = B.T @ (c[:, None] * B)
    H = rows.rough_hessian(torch.from_numpy(c))
    np.testing.assert_allclose(H.numpy(), exact, atol=1e-5 * np.abs(exact).max())
    for each, own in ((rows, H), (plain, plain.rough_hessian(c))):
        inverse = each.factorised(own, 200, ridge)
        np.testing.assert_allclose(inverse(r), np.linalg.solve(exact / 200 + np.diag(ridge), r), rtol=1e-4)
        assert each.factorised(own, 200, ridge - 10.0) is None
        blurred = exact / 200 + np.diag(ridge + 0.1 * exact.diagonal() / 200)
        np.testing.assert_allclose(each.factorised(own, 200, ridge, blur=0.1)(r), np.linalg.solve(blurred, r), rtol=1e-4)
    nothing = rows.rough_hessian(torch.zeros(0, dtype=torch.float64), torch.zeros(0, dtype=torch.int64))
    assert float(nothing.abs().max()) == 0.0
