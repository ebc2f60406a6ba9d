"""How rows come to a device of PyTorch's, in blocks where they do not fit, and what is said of devices that cannot be used."""

from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.rows import as_rows
from reshuffle.scaling import KINDS, Scaling

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'reshuffle[gpu]'")
from reshuffle.rows import transfer  # noqa: E402
from reshuffle.rows.torch import TYPES, TorchRows, on_device  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture
def no_room(monkeypatch):
    monkeypatch.setattr(transfer, "free", lambda device: 1.0)
    monkeypatch.setattr(transfer, "BLOCK_ENTRIES", 12)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_rows_that_do_not_fit_come_in_blocks(kind, no_room):
    A = (torch.arange(40.0).reshape(10, 4) - 7.0).abs().to(kind)
    rows = on_device(A, "cpu")
    assert not rows.resident
    assert str(rows).endswith("on cpu, in blocks from the host's memory")
    x, some = np.array([1.0, -2.0, 0.5, 3.0]), np.array([9, 0, 0, 3, 7])
    np.testing.assert_array_equal(rows.margins(x), A.double().numpy() @ x)
    np.testing.assert_array_equal(rows.margins(x, some), A.double().numpy()[some] @ x)


def test_blocks_arrive_whole_in_order_and_two_at_a_time(monkeypatch):
    A, sent = torch.arange(24).reshape(8, 3), []
    listings = [slice(0, 3), torch.tensor([7, 1, 1]), slice(3, 5), torch.tensor([0])]
    send = transfer._Lane.send
    monkeypatch.setattr(transfer._Lane, "send", lambda self, listed: sent.append(listed) or send(self, listed))
    came = []
    for part in transfer.arriving(A, listings, CPU):
        assert len(sent) == min(len(came) + 2, len(listings))  # the next is on its way
        came.append(part)
    for part, listed in zip(came, listings, strict=True):  # none has been written over
        assert torch.equal(part, A[listed])


class Stream:
    """Of a GPU's, as far as a lane asks it; `log` holds what was waited for, and by whom."""

    def __init__(self, log):
        self.log, self.recorded = log, 0

    def record_event(self):
        event, self.recorded = Event(self.log, self.recorded), self.recorded + 1
        return event

    def wait_event(self, event):
        self.log.append(("work", event.number))


class Event:
    def __init__(self, log, number):
        self.log, self.number = log, number

    def synchronize(self):
        self.log.append(("host", self.number))


@pytest.mark.parametrize("pinned", [True, False])
def test_work_waits_for_its_block_and_a_buffer_for_what_it_held(pinned, monkeypatch):
    A, log, empty = torch.arange(30).reshape(10, 3), [], torch.empty
    listings = [slice(0, 3), slice(3, 6), torch.tensor([9, 1]), slice(6, 9), torch.tensor([0, 5]), torch.tensor([7])]
    lane = transfer._Lane(A, CPU)
    lane._cuda, lane._pinned, lane._stream = True, pinned, Stream(log)
    monkeypatch.setattr(transfer, "_Lane", lambda matrix, device: lane)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(log))
    monkeypatch.setattr(torch, "empty", lambda *shape, pin_memory, **options: empty(*shape, **options))
    kept = []
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda part, stream: kept.append(part))
    came = list(transfer.arriving(A, listings, CPU))
    for part, listed in zip(came, listings, strict=True):
        assert torch.equal(part, A[listed])
    assert [number for who, number in log if who == "work"] == list(range(6))
    assert len(kept) == 6
    gathered = [k for k, listed in enumerate(listings) if not (pinned and isinstance(listed, slice))]
    # Of two buffers, each is filled again once the copy before last has left it; pinned slices go without one.
    assert [number for who, number in log if who == "host"] == gathered[:-2]
    for number in gathered[:-2]:
        following = gathered[gathered.index(number) + 2]
        assert log.index(("host", number)) < log.index(("work", following - 1))  # before the block after it is worked on


def test_data_that_is_read_only_is_used_where_it_lies():
    X = np.ones((3, 2))
    X.flags.writeable = False
    rows = on_device(X, "cpu")
    assert rows.matrix.data_ptr() == X.ctypes.data
    with pytest.raises(ValueError, match="read-only"):
        X[0, 0] = 2.0


def test_memory_that_torch_holds_and_does_not_use_is_free(monkeypatch):
    known = {"mem_get_info": (100, 1000), "memory_reserved": 70, "memory_allocated": 20}
    for name, value in known.items():
        monkeypatch.setattr(torch.cuda, name, lambda device, value=value: value)
    assert transfer.free(torch.device("cuda", 0)) == 150.0
    assert transfer.fits(120.0, torch.device("cuda", 0))
    assert not transfer.fits(121.0, torch.device("cuda", 0))
    assert transfer.fits(1e30, CPU)


def test_data_goes_to_a_device_where_there_is_room(monkeypatch):
    A = torch.ones((6, 2))
    monkeypatch.setattr(transfer, "free", lambda device: A.nbytes / 0.8)
    assert TorchRows.of(A, (CPU,)).resident
    monkeypatch.setattr(transfer, "free", lambda device: A.nbytes)
    assert not TorchRows.of(A, (CPU,)).resident


def test_rows_are_sent_to_a_place_that_is_there_for_them(monkeypatch):
    monkeypatch.setattr(transfer, "BLOCK_ENTRIES", 7 * 3)
    A = torch.from_numpy(np.random.default_rng(0).standard_normal((50, 3)))
    lane, target = transfer._Lane(A, CPU), torch.full_like(A, torch.nan)
    for place in transfer.places(None, 50, 3):
        part, _ = lane.send(place, target[place])
        assert part.data_ptr() == target[place].data_ptr()
    assert torch.equal(target, A)
    assert all(len(buffer) == 7 for buffer in lane._buffers)  # two, however many blocks there are


@pytest.mark.parametrize("room", [True, False])
@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("kind", [torch.uint8, torch.float32, torch.float64], ids=str)
def test_scaled_rows_stay_on_their_device(kind, how, room, request):
    if not room:
        request.getfixturevalue("no_room")
    X = (20.0 * np.random.default_rng(0).random((30, 4))).astype(str(kind).removeprefix("torch."))
    X[3] = 0
    rows, same = on_device(X, "cpu"), as_rows(X)
    ours, theirs = Scaling.learn(rows, how), Scaling.learn(same, how)
    scaled = ours.apply(rows.with_intercept(True))
    assert isinstance(scaled, TorchRows)
    assert scaled.resident == room
    expected = theirs.apply(same)
    assert scaled.take(np.arange(30)).matrix.dtype == expected.matrix.dtype
    np.testing.assert_allclose(scaled.take(np.arange(30)).matrix, expected.matrix, rtol=1e-6 if kind == torch.float32 else 1e-12)


def test_rows_of_weight_zero_leave_and_the_others_stay_on_the_device():
    X = np.random.default_rng(0).standard_normal((5, 2))
    problem = rs.Problem(X, loss="unit", sample_weight=[1, 0, 1, 0, 2], device="cpu", fit_intercept=True)
    assert isinstance(problem.rows, TorchRows)
    assert problem.rows.intercept
    np.testing.assert_array_equal(problem.rows.matrix.numpy(), X[[0, 2, 4]])


def test_products_of_float32_are_exact_whatever_the_program_allows():
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "tf32"
    try:
        with transfer.exact_products():
            assert matmul.fp32_precision == "ieee"
            with transfer.exact_products():
                pass
            assert matmul.fp32_precision == "ieee"
        assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before


@pytest.mark.parametrize(
    ("X", "device", "complaint"),
    [
        (np.ones((3, 2)), "tpu", "device='tpu' is not known; use 'cuda', 'cuda:1', 'cpu' or 'memory'"),
        (np.ones((3, 2)), 1.5, "device=1.5 is not known; use 'cuda', 'cuda:1', 'cpu' or 'memory'"),
        (np.ones((3, 2)), "meta", "device='meta' is not supported; use 'cuda', 'cuda:1', 'cpu' or 'memory'"),
        (np.ones((3, 2)), [], r"device=\[\] names none"),
        (np.ones((3, 2)), ["cpu", "tpu"], "device='tpu' is not known"),
        (torch.ones(3), None, "use a dense n x d one"),
        (torch.ones((3, 2), dtype=torch.complex64), None, "has dtype torch.complex64; use one of uint8"),
        (torch.tensor([[1.0, 2.0], [3.0, float("nan")]]), None, "NaN or infinity in row 1"),
        (np.array([[1.0, 2.0], [np.inf, 1.0]]), "cpu", "X holds NaN or infinity in row 1"),
        (np.ones((3, 0)), "cpu", r"X has shape \(3, 0\); it needs at least one row and one column"),
        (sp.csr_array(np.ones((3, 2))), "cpu", "only dense data gain from a device"),
    ],
)
def test_what_a_device_cannot_take_is_refused_before_any_work(X, device, complaint):
    with pytest.raises(ValueError, match=complaint):
        rs.constants(X, device=device)


def test_a_problem_alone_does_not_know_whether_a_gpu_pays():
    with pytest.raises(ValueError, match="device='auto' weighs data against the work to be done, which is not known here"):
        rs.Problem(np.ones((3, 2)), loss="unit", device="auto")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("version", ["13.0", None])
def test_a_gpu_that_is_not_there_is_named(version, monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", version)
    monkeypatch.setattr(torch.version, "hip", None)
    why = "sees no GPU or driver" if version else "is built without CUDA"
    with pytest.raises(ValueError, match=rf"device='cuda' cannot be used: torch .* {why}; use device='cpu' or leave it out"):
        rs.constants(np.ones((3, 2)), device="cuda")


def test_gpus_are_counted(monkeypatch):
    for name, value in {"is_available": True, "device_count": 3, "current_device": 1}.items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    assert [str(device) for device in transfer.find("cuda")] == ["cuda:1", "cuda:2", "cuda:0"]
    assert [str(device) for device in transfer.find(["cuda:2", "cuda"])] == ["cuda:2", "cuda:1"]
    with pytest.raises(ValueError, match=r"device='cuda:3' does not exist; torch sees 3 GPU\(s\), counted from 0"):
        transfer.find("cuda:3")
