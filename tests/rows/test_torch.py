"""Rows on a device give the numbers of rows in memory, in every type, here on torch's CPU; kernels of a GPU's are interpreted."""

import subprocess
import sys

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.orders import make_order
from reshuffle.spectral import permutations as spectral

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'reshuffle[gpu]'")
from reshuffle.rows import torch as device_rows  # noqa: E402
from reshuffle.rows import torch_orders, transfer  # noqa: E402

N, D = 120, 15


def data(kind, n=N, d=D, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 2.0 * rng.standard_normal((n, 1)) * rng.standard_normal((1, d))
    return torch.from_numpy(np.clip(20.0 * X + 100.0, 0, 127) if not kind.is_floating_point else X).to(kind)


def in_memory(tensor):
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


@pytest.fixture
def few_at_once(monkeypatch):
    """Several blocks of rows and groups of orders, and both bodies, as large data have them."""
    monkeypatch.setattr(transfer, "BLOCK_ENTRIES", 7 * D)
    monkeypatch.setattr(torch_orders, "_ROWS_A_BLOCK", 16)
    monkeypatch.setattr(torch_orders, "_ORDERS_AT_ONCE", 3)


@pytest.fixture(params=["on the device", "from the host"])
def resident(request, monkeypatch):
    """Whether there is room for the data on the device; a memory of one byte has none."""
    if request.param == "from the host":
        monkeypatch.setattr(transfer, "free", lambda device: 1.0)
    return request.param == "on the device"


def body_for(name, monkeypatch):
    monkeypatch.setattr(torch_orders, "_MOST_REWEIGHTED", N if name == "ReweightedRows" else 0)
    monkeypatch.setattr(torch_orders, "_GRAM_SHARE", np.inf)
    monkeypatch.setattr(device_rows.torch.Tensor, "element_size", lambda self: 8)


@pytest.mark.parametrize("body", ["StreamedRows", "ReweightedRows"])
@pytest.mark.parametrize("kind", device_rows.TYPES, ids=str)
def test_constants_of_every_type_are_those_of_rows_in_memory(kind, body, few_at_once, monkeypatch):
    body_for(body, monkeypatch)
    X, weights = data(kind), np.random.default_rng(1).random(N) + 0.5
    problem, same = (rs.Problem(A, loss="unit", sample_weight=weights, fit_intercept=True) for A in (X, in_memory(X)))
    assert type(problem.rows.weighted(np.ones(N), 1e-4)).__name__ == body
    options = {"batch_size": 7, "permutations": 4, "seed": 2}
    ours, theirs = rs.constants(problem, **options), rs.constants(same, **options)
    np.testing.assert_allclose(ours.hat, theirs.hat, rtol=1e-5)
    np.testing.assert_allclose(ours.til, theirs.til, rtol=1e-5)
    assert ours.residual.max() <= 1e-4


@pytest.mark.parametrize("body", ["StreamedRows", "ReweightedRows"])
@pytest.mark.parametrize("b", [1, 7, N])
def test_constants_of_every_batch_size_are_as_exact_as_asked_for(b, body, resident, few_at_once, monkeypatch):
    body_for(body, monkeypatch)
    X, options = data(torch.float32), {"batch_size": b, "permutations": 3, "seed": 2, "tol": 1e-10}
    problem = rs.Problem(X, loss="unit")
    assert type(problem.rows.weighted(np.ones(N), 1e-4)).__name__ == body
    assert problem.rows.resident == resident
    ours, theirs = rs.constants(problem, **options), rs.constants(in_memory(X), **options)
    np.testing.assert_allclose(ours.hat, theirs.hat, rtol=1e-9)
    np.testing.assert_allclose(ours.til, theirs.til, rtol=1e-9)


@pytest.mark.parametrize("body", ["StreamedRows", "ReweightedRows"])
@pytest.mark.parametrize("size", [1e-16, 1e-9, 1e9, 1e16])
def test_numbers_whose_squares_float32_cannot_hold(size, body, monkeypatch):
    """Eigenvalues of images without a scale are near 1e19 at a million rows, and lengths are sums of squares of those."""
    body_for(body, monkeypatch)
    X = (size * data(torch.float64)).float()
    ours, theirs = (rs.constants(A, permutations=3, batch_size=7) for A in (X, in_memory(X)))
    np.testing.assert_allclose(ours.hat, theirs.hat, rtol=1e-5)
    np.testing.assert_allclose(ours.til, theirs.til, rtol=1e-5)


def test_the_largest_batches_of_several_orders_are_those_of_each_alone(few_at_once):
    """Norms by brute force, of batches of which the last is short, with rows of zeros among them."""
    X = np.random.default_rng(8).standard_normal((N, D))
    X[:20] = 0.0
    weights = np.random.default_rng(1).random(N) + 0.5
    problem = rs.Problem(torch.from_numpy(X), loss="unit", sample_weight=weights)
    order, b = make_order("rr", N, 5), 7
    c = rs.constants(problem, batch_size=b, order=order, permutations=6, tol=1e-10)
    A = np.sqrt(weights)[:, None] * X
    norms = [
        max(np.linalg.norm(A[visit[start : start + b]], 2) ** 2 for start in range(0, N, b)) / b
        for visit in (order.permutation(k) for k in range(6))
    ]
    np.testing.assert_allclose(c.til, norms, rtol=1e-9)


def test_a_product_of_batches_waits_for_the_host_once(monkeypatch, few_at_once):
    looks = []
    down = torch_orders.TorchBatches.down
    monkeypatch.setattr(torch_orders.TorchBatches, "down", lambda self, *v: looks.append(len(self.members)) or down(self, *v))
    products = []
    product = torch_orders._ReweightedBatches.product
    monkeypatch.setattr(torch_orders._ReweightedBatches, "product", lambda self, v: products.append(1) or product(self, v))
    monkeypatch.setattr(device_rows.torch.Tensor, "element_size", lambda self: 8)
    c = rs.constants(data(torch.float64), batch_size=7, permutations=torch_orders._ORDERS_AT_ONCE, tol=1e-8)
    assert c.permutations == torch_orders._ORDERS_AT_ONCE
    assert len(looks) == len(products)
    assert looks == sorted(looks, reverse=True)  # batches leave
    assert looks[0] == torch_orders._ORDERS_AT_ONCE * -(-N // 7) > looks[-1]


@pytest.mark.parametrize("kind", [torch.float32, torch.float64], ids=str)
def test_upper_bounds_are_those_of_rows_in_memory(kind, few_at_once):
    X, options = data(kind), {"permutations": 4, "batch_size": 5, "failure_probability": 0.01}
    ours, theirs = rs.constants(X, **options), rs.constants(in_memory(X), **options)
    np.testing.assert_allclose(ours.hat, theirs.hat, rtol=1e-2)  # starts are drawn alike, and laid out in another order
    np.testing.assert_allclose(ours.til, theirs.til, rtol=1e-9 if kind == torch.float64 else 1e-5)
    exact = rs.constants(X, permutations=4, batch_size=5, tol=1e-10)
    assert (ours.hat >= exact.hat).all()
    assert (ours.til >= exact.til).all()
    assert (ours.hat <= 1.02 * exact.hat).all()


def test_permutations_are_spread_over_devices(few_at_once, monkeypatch):
    X, working = data(torch.float32), set()
    many = spectral.Permutations.constants_of_all

    def told(self, numbers):
        working.add(id(self))
        return many(self, numbers)

    monkeypatch.setattr(spectral.Permutations, "constants_of_all", told)
    ours = rs.constants(X, device=["cpu", "cpu"], permutations=9, batch_size=4)
    assert ours.device == "cpu, cpu"
    assert len(working) == 2
    alone = rs.constants(X, device="cpu", permutations=9, batch_size=4)
    np.testing.assert_array_equal(ours.hat, alone.hat)
    np.testing.assert_array_equal(ours.til, alone.til)


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_random_orders_are_those_of_the_host(n):
    order = make_order("rr", n, seed=11)
    rows = torch_orders.StreamedRows(device_rows.on_device(torch.ones((n, 2))), np.ones(n), torch.float32)
    drawn = rows.orders(order, [0, 3, 200])
    np.testing.assert_array_equal(drawn.numpy(), [order.permutation(k) for k in (0, 3, 200)])
    blocks = make_order(f"blocks:{max(n // 10, 1)}", n, seed=1)
    np.testing.assert_array_equal(rows.orders(blocks, [2])[0].numpy(), blocks.permutation(2))


def test_each_order_leaves_when_it_has_converged(few_at_once):
    X = torch.from_numpy(np.random.default_rng(5).standard_normal((N, D)))  # no direction that all orders find at once
    shared = spectral.Shared(rs.Problem(X, loss="unit"), make_order("rr", N, 0), tol=1e-3, share=None)
    side_by_side = spectral.Permutations(shared, 1)
    together, alone = list(side_by_side.constants_of_all(range(6))), [side_by_side.constants_of(k) for k in range(6)]
    assert len({sample.products for sample in together}) > 1
    for ours, theirs in zip(together, alone, strict=True):
        assert (ours.permutation, ours.products) == (theirs.permutation, theirs.products)
        assert ours.hat == pytest.approx(theirs.hat, rel=1e-12)


def test_a_journal_goes_on_on_another_device(tmp_path):
    X, journal = data(torch.float32), tmp_path / "journal"
    rs.constants(in_memory(X), permutations=3, out=journal)
    ours = rs.constants(X, permutations=6, out=journal)
    np.testing.assert_allclose(ours.hat, rs.constants(in_memory(X), permutations=6).hat, rtol=1e-5)
    assert len(journal.read_text().splitlines()) == 1 + 6


def test_the_discrepancy_and_the_optimum_are_those_of_rows_in_memory(resident, few_at_once, monkeypatch):
    monkeypatch.setattr(device_rows, "_ROWS_A_BLOCK", 3)
    X = data(torch.float32)
    y = np.where(in_memory(X)[:, 0] + np.random.default_rng(3).standard_normal(N) > 0, 1, -1)
    problem, same = (rs.Problem(A, y, alpha=1e-2, fit_intercept=True) for A in (X, in_memory(X)))
    x = rs.theory.measure(problem).x
    np.testing.assert_allclose(x, rs.theory.measure(same).x, rtol=1e-5, atol=1e-7)
    for order in ("ig", np.random.default_rng(0).permutation(N)):
        ours, theirs = (rs.orders.discrepancy(each, order, batch_size=4, x=x) for each in (problem, same))
        assert ours == pytest.approx(theirs, rel=1e-8)
    runs = [rs.minimize(each, batch_size=4, epochs=3, step_size=0.01) for each in (problem, same)]
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-6)


def test_a_device_is_asked_for_by_name_and_a_tensor_is_used_where_it_lies():
    X = np.ones((4, 2), dtype=np.uint8)
    assert isinstance(rs.Problem(X, loss="unit", device="cpu").rows, device_rows.TorchRows)
    tensor = torch.ones((4, 2))
    assert rs.Problem(tensor, loss="unit").rows.matrix.data_ptr() == tensor.data_ptr()
    assert rs.constants(X, device="cpu", permutations=1).L == rs.constants(X, permutations=1).L


KERNELS = """
import torch
from reshuffle.rows import triton_kernels as kernels
kernels._LENGTH = 16
rng = torch.Generator().manual_seed(0)
for n, d, b, kind in ((70, 40, 1, torch.uint8), (65, 300, 7, torch.float16), (50, 20, 50, torch.float64), (33, 5, 4, torch.int16)):
    A = (torch.randn(n, d, generator=rng) * 9).to(kind)
    orders = torch.stack([torch.randperm(n, generator=rng) for _ in range(3)])
    w = torch.randn(3, n, generator=rng, dtype=torch.float64)
    t = (torch.arange(n) // b + 1).double()
    B = A.double()
    for kind, tol in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        for weighted in (torch.minimum(t[:, None], t),):
            expected = torch.stack([(weighted * (B[o] @ B[o].T)) @ v for o, v in zip(orders, w)])
            ours = kernels.streamed(A, orders, w.to(kind), b)
            assert (ours - expected).abs().max() < tol * expected.abs().max(), (n, d, b, kind)
        numbers = torch.stack([t[o.argsort()] for o in orders])
        expected = torch.stack([(torch.minimum(s[:, None], s) * (B @ B.T)) @ v for s, v in zip(numbers, w)])
        ours = kernels.reweighted((B @ B.T).to(kind), numbers.to(kind), w.to(kind))
        assert (ours - expected).abs().max() < tol * expected.abs().max(), (n, d, b, kind)
    x = torch.randn(d, generator=rng, dtype=torch.float64)
    for rows in (None, orders[0][: n // 2 + 1]):
        part, v = (B, w[0]) if rows is None else (B[rows], w[0, : n // 2 + 1].contiguous())
        passes = ((kernels.margins(A, x, rows), part @ x), (kernels.margins(A, None, rows), (part * part).sum(1)))
        for ours, expected in (*passes, (kernels.transposed(A, v, rows), v @ part)):
            assert ours.dtype == torch.float64
            assert (ours - expected).abs().max() < 1e-12 * expected.abs().max(), (n, d, rows)
"""


def test_kernels_of_a_gpu_through_their_interpreter():
    pytest.importorskip("triton")
    from os import environ

    done = subprocess.run(
        [sys.executable, "-c", KERNELS], capture_output=True, text=True, check=False, env={**environ, "TRITON_INTERPRET": "1"}
    )
    _, _, innermost = done.stderr.rpartition('File "')
    if "triton/runtime/interpreter.py" in innermost and "0-dimensional arrays" in innermost:
        pytest.skip("Triton's interpreter makes numbers of arrays that the installed NumPy makes none of")
    assert done.returncode == 0, done.stderr[-2000:]
