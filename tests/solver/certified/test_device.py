"""Fits on a device of PyTorch's, here its CPU: Newton steps alone, certified as those in memory are and the same up to that."""

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import models
from reshuffle.duality import duality_gap
from reshuffle.losses import loops, parts
from reshuffle.solver.certified import baseline, batch, solve, tuning

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'reshuffle[gpu]'")
from reshuffle.rows import transfer  # noqa: E402
from reshuffle.rows.torch import TorchRows  # noqa: E402
from reshuffle.tensor_samples import TensorSamples  # noqa: E402

N, D = 900, 12


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((N, D)) + 2.0 * rng.standard_normal((N, 1)) * rng.standard_normal((1, D))).astype(np.float32)
    z = X[:, :3] @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(N)
    return X, z


def forbidden(*arguments, **options):
    raise AssertionError("a pass from row to row leaves a GPU idle")


@pytest.mark.parametrize("loss", ["logistic", "hinge", "smoothed_hinge", "squared", "huber", "absolute", "quantile"])
@pytest.mark.parametrize("room", [True, False])
def test_every_loss_is_certified_on_the_device(loss, room, data, monkeypatch):
    X, z = data
    if not room:
        monkeypatch.setattr(transfer, "free", lambda device: 1.0)
        monkeypatch.setattr(transfer, "BLOCK_ENTRIES", 100 * D)
    y = z if rs.losses.get_loss(loss).task == "regression" else np.where(z > 0, 1, -1)
    problem = rs.Problem(X, y, loss=loss, alpha=1e-4, fit_intercept=True)
    there = problem.replace(device="cpu")
    assert there.rows.resident == room
    monkeypatch.setattr(TorchRows, "sdca_epoch", forbidden)
    monkeypatch.setattr(TorchRows, "in_memory", forbidden)
    tol = 1e-4
    ours, theirs = solve(there, tol=tol), solve(problem, tol=tol)
    assert ours.converged
    assert ours.relative_gap <= 1.01 * tol
    # Two certified points of one problem: neither is below the other's lower bound.
    assert abs(ours.f - theirs.f) <= max(ours.gap, theirs.gap)
    assert problem.objective(ours.x) == pytest.approx(ours.f, rel=1e-12)
    assert duality_gap(problem, ours.x, ours.dual) <= 1.01 * ours.gap  # in memory, of the same point


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber"])
def test_no_vector_of_samples_comes_to_the_host_before_the_end(loss, data, monkeypatch):
    """Of a smooth loss: margins, slopes, curvatures and dual values stay, and the host hears what they sum to."""
    X, z = data
    y = z if rs.losses.get_loss(loss).task == "regression" else np.where(z > 0, 1, -1)
    problem = rs.Problem(X, y, loss=loss, alpha=1e-4, fit_intercept=True, sample_weight=1.0 + np.arange(N) % 2, device="cpu")
    start, brought, own = baseline(problem), [], TensorSamples.on_host

    def of_few(loop):
        return lambda *arguments: loop(*arguments) if max(np.size(one) for one in arguments) < N else forbidden()

    for name in ("apply_loss", "total_loss", "models", "total_conjugate", "clip_duals", "sums_for_rounding"):
        monkeypatch.setattr(loops, name, of_few(getattr(loops, name)))
    monkeypatch.setattr(TensorSamples, "on_host", lambda self, values: brought.append(len(values)) or own(self, values))
    found = solve(problem, tol=1e-8, start=start)
    assert found.converged
    assert isinstance(found.dual, np.ndarray)
    assert brought == [N]


def test_the_certificate_is_computed_in_float64_whatever_the_type(data):
    """A gap of 1e-9 of what there is to gain is below what float32 could tell."""
    X, z = data
    for kind in (torch.float16, torch.float32):
        problem = rs.Problem(torch.from_numpy(X).to(kind), np.where(z > 0, 1, -1), alpha=1e-3, fit_intercept=True)
        found = solve(problem, tol=1e-9)
        assert found.converged
        assert found.relative_gap < 2e-9
        exact = problem.rows.take(np.arange(N)).matrix.astype(np.float64)
        assert rs.Problem(exact, problem.y, alpha=1e-3, fit_intercept=True).objective(found.x) == pytest.approx(found.f, rel=1e-13)


def test_a_hessian_of_more_features_than_in_memory_is_formed_on_a_device(monkeypatch):
    """In memory conjugate gradients would be preconditioned by a diagonal there, which features that go together defeat."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 40)) @ (rng.standard_normal((40, 40)) * np.logspace(0, -2, 40))
    y = np.where(X[:, 0] + 0.1 * rng.standard_normal(400) > 0, 1, -1)
    monkeypatch.setattr(tuning, "FEW_FEATURES", 10)
    problem = rs.Problem(X, y, alpha=1e-6)
    here, there = (batch.few_features(each) for each in (problem, problem.replace(device="cpu")))
    assert (here, there) == (10, 4096)
    calls = []
    monkeypatch.setattr(TorchRows, "curved_squares", forbidden)
    formed = TorchRows._hessian
    monkeypatch.setattr(TorchRows, "_hessian", lambda self, *a: calls.append(a[1]) or formed(self, *a))
    assert solve(problem.replace(device="cpu"), tol=1e-4).converged
    assert calls[-1] is None  # all rows, as they lie


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_several_classes_are_fitted_and_predicted_on_the_device(loss, data):
    X, z = data
    y = np.digitize(z, [-2.0, 2.0])
    options = {"loss": loss, "alpha": 1e-3, "tol": 1e-4, "random_state": 0}
    ours, theirs = rs.CertifiedClassifier(**options, device="cpu").fit(X, y), rs.CertifiedClassifier(**options).fit(X, y)
    assert (ours.device_, theirs.device_) == ("cpu", "memory")
    assert np.max(ours.relative_gap_) <= 1.01e-4
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=0.05)
    expected = X.astype(np.float64) @ ours.coef_.T + ours.intercept_
    np.testing.assert_allclose(ours.decision_function(X), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(ours.predict(torch.from_numpy(X)), ours.predict(X))


def test_tensors_are_fitted_where_they_lie_and_labels_may_be_tensors(data):
    X, z = data
    A, y = torch.from_numpy(X), torch.from_numpy(np.where(z > 0, 1, 0))
    model = rs.CertifiedClassifier(alpha=1e-3).fit(A, y, sample_weight=np.arange(N) % 3)
    same = rs.CertifiedClassifier(alpha=1e-3).fit(X, y.numpy(), sample_weight=np.arange(N) % 3)
    assert model.device_ == "cpu"
    np.testing.assert_allclose(model.coef_, same.coef_, atol=0.05)
    assert model.score(A, y.numpy()) == pytest.approx(same.score(X, y.numpy()), abs=0.01)
    regressor = rs.CertifiedRegressorCV(alphas=[0.1, 0.01], cv=3, device="cpu").fit(X, z)
    assert regressor.best_estimator_.device == "cpu"
    assert rs.Problem(A, y, alpha=1e-3).rows.matrix.data_ptr() == A.data_ptr()


def test_a_model_file_leaves_the_device_to_the_machine_that_reads_it(data, tmp_path):
    X, z = data
    model = rs.CertifiedRegressor(alpha=1e-2, device="cpu").fit(X, z)
    models.save(model, tmp_path / "model.json")
    read = models.load(tmp_path / "model.json")
    assert read.device == "auto"
    np.testing.assert_allclose(read.predict(X), model.predict(X), rtol=1e-10)


def test_shuffled_sgd_says_that_its_epochs_run_on_the_cpu(data):
    X, z = data
    options = {"alpha": 1e-2, "epochs": 3, "batch_size": 32, "tol": 10.0, "random_state": 0}
    with pytest.warns(UserWarning, match="device='cpu': epochs of shuffled SGD go from row to row and run on the CPU"):
        ours = rs.ShuffledSGDRegressor(**options, device="cpu").fit(X, z)
    theirs = rs.ShuffledSGDRegressor(**options).fit(X, z)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-4)
    assert ours.step_size_ == pytest.approx(theirs.step_size_, rel=1e-4)
    assert ours.dual_gap_ == pytest.approx(theirs.dual_gap_, rel=1e-3)


def test_an_order_is_assessed_on_a_device_as_in_memory(data):
    X, z = data
    problem = rs.Problem(X, np.where(z > 0, 1, -1), alpha=1e-2)
    options = {"batch_size": 16, "draws": 4, "measure": False}
    ours, theirs = (rs.orders.assess(problem, "blocks:100", **options, device=device) for device in ("cpu", "memory"))
    assert ours.discrepancy == pytest.approx(theirs.discrepancy, rel=1e-3)
    assert ours.lhat == pytest.approx(theirs.lhat, rel=1e-4)
    assert ours.promised.epochs == pytest.approx(theirs.promised.epochs, rel=1e-2)
    smallest = [rs.orders.smallest(problem, "buffer", **options, device=device).parameter for device in ("cpu", "memory")]
    assert smallest[0] == pytest.approx(smallest[1], rel=0.1)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_loops_over_samples_do_not_depend_on_how_many_cores_there_are(loss, data, monkeypatch):
    X, z = data
    problem = rs.Problem(X, np.where(z > 0, 1, -1), loss=loss, alpha=1e-4, fit_intercept=True, device="cpu")
    at_once = problem.objective(np.ones(D + 1))
    monkeypatch.setattr(parts, "_PART", 64)
    found = []
    for cores in (1, 4):
        monkeypatch.setattr(parts, "cores", lambda cores=cores: cores)
        found.append(solve(problem, tol=1e-4))
        assert problem.objective(np.ones(D + 1)) == pytest.approx(at_once, rel=1e-13)
    assert len(found[0].history) > 1
    np.testing.assert_array_equal(found[0].x, found[1].x)
    assert found[0].gap == found[1].gap


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_few_rows_that_their_span_does_not_hold_are_fitted_without_dual_passes(loss, monkeypatch):
    """Three features are far larger than all others. Rows on a device are not visited one by one."""
    X = np.random.default_rng(0).standard_normal((60, 500))
    y = np.where(X[:, 5:15].sum(axis=1) > 0.0, 1.0, -1.0)
    X[:, :3] *= 1e8
    monkeypatch.setattr("reshuffle.solver.certified.sdca.Visits", None)
    assert solve(rs.Problem(torch.from_numpy(X), y, loss=loss, alpha=1 / 60), tol=1e-4, max_iter=100).converged
