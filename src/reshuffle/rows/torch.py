"""Dense rows on a device of PyTorch's: a GPU, or a CPU where the same code is tested.

Rows are kept in their own type and read where they lie. A matrix that does not fit into the device's memory stays in the host's,
pinned, and is read from there at the speed of the link. What is a sum over rows is done in float64, chunk after chunk; Hessians
that need not be exact in float32, unless the rows are float64.

Products of the ordered matrix are the bulk of the work. There are two bodies for them, `StreamedRows` and `ReweightedRows`, which
take several orders at once: `weighted(scale).together(orders, b)`. They accumulate in float32 where that can reach the tolerance
asked for, else in float64.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from reshuffle.orders import streams
from reshuffle.rows.base import Integers, Rows
from reshuffle.rows.memory import DenseRows, in_memory
from reshuffle.vectors import Vector

if TYPE_CHECKING:
    from reshuffle.orders import Order

try:  # comes with a torch that can use a GPU, and with no other
    from reshuffle.rows import triton_kernels
except ImportError:
    triton_kernels = None  # type: ignore[assignment]

TYPES = (
    torch.uint8, torch.int8, torch.uint16, torch.int16, torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip
_CHUNK_ENTRIES = 1 << 24  # numbers that are float64 at a time: 128 MiB
_SMALLEST_SINGLE_TOL = 1e-5  # float32 sums over a million rows are good to about 1e-6
_MOST_REWEIGHTED = 60_000  # rows whose Gram matrix is kept
_GRAM_COLUMNS = 2048  # that tensor cores add up in one go: more, and their sums come out low
_ORDERS_AT_ONCE = 16
_ROWS_A_BLOCK = 512  # whose own Gram matrix is formed where rows depend on those before them
_STATE_SHARE = 0.25  # of the free memory, for what orders that are multiplied at once keep


def on_device(X: Any, device: Any = None, name: str = "X") -> "TorchRows":
    """The rows of a dense matrix, or of a tensor, on a device; a tensor stays on its own if none is named."""
    tensor = _as_tensor(X, name)
    target = tensor.device if device is None else _device(device)
    if tensor.device != target:
        tensor = _moved(tensor, target)
    rows = TorchRows(tensor, target)
    rows.refuse_non_finite(name)
    return rows


def _as_tensor(X: Any, name: str) -> Any:
    if not isinstance(X, torch.Tensor):
        rows = in_memory(X, name)
        if not isinstance(rows, DenseRows):
            raise ValueError(
                f"{name} is sparse, and only dense data gain from a device; leave device out, or pass {name}.toarray()"
            )
        return torch.from_numpy(rows.matrix)
    if X.layout != torch.strided or X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} is a tensor of shape {tuple(X.shape)} and layout {X.layout}; use a dense n x d one")
    if X.dtype == torch.bool:
        X = X.view(torch.uint8)
    if X.dtype not in TYPES:
        raise ValueError(f"{name} has dtype {X.dtype}; use one of {', '.join(str(kind).removeprefix('torch.') for kind in TYPES)}")
    return X.detach().contiguous()


def _device(name: Any) -> torch.device:
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError, ValueError):
        raise ValueError(f"device={name!r} is not known; use 'cuda', 'cuda:1' or 'cpu'") from None
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise ValueError(f"device={name!r} is not supported; use 'cuda', 'cuda:1' or 'cpu'")
    if not torch.cuda.is_available():
        built = "is built without CUDA" if torch.version.cuda is None and torch.version.hip is None else "sees no GPU or driver"
        raise ValueError(f"device={name!r} cannot be used: torch {torch.__version__} {built}; use device='cpu' or leave it out")
    device = torch.device("cuda", torch.cuda.current_device() if device.index is None else device.index)
    if device.index >= torch.cuda.device_count():
        raise ValueError(f"device={name!r} does not exist; torch sees {torch.cuda.device_count()} GPU(s), counted from 0")
    return device


def _moved(tensor: Any, device: torch.device) -> Any:
    """On the device, or pinned in the host's memory where it is too large for it."""
    if device.type == "cuda" and tensor.nbytes > 0.8 * torch.cuda.mem_get_info(device)[0]:
        return tensor.cpu().pin_memory()
    return tensor.to(device)


class TorchRows(Rows):
    """The rows of a dense tensor. `matrix` lies on `device`, or pinned in the host's memory."""

    def __init__(self, matrix: Any, device: torch.device) -> None:
        self.matrix, self.device = matrix, device

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.matrix.shape
        return int(n), int(d)

    @property
    def entries(self) -> int:
        return int(self.matrix.numel())

    def __str__(self) -> str:
        where = self.device if self.matrix.device == self.device else f"{self.device} from the host's memory"
        return f"{self.n} x {self.d}, dense, {str(self.matrix.dtype).removeprefix('torch.')}, on {where}"

    def take(self, rows: Integers) -> DenseRows:
        part = self.matrix[torch.from_numpy(np.asarray(rows, dtype=np.int64)).to(self.matrix.device)].cpu()
        return DenseRows((part.float() if part.dtype == torch.bfloat16 else part).numpy())

    def update_hash(self, digest: Any) -> None:
        """As rows in memory have it, so that a journal goes on on any device."""
        digest.update(f"{str(self.matrix.dtype).removeprefix('torch.')} {self.shape}".encode())
        for place in self._places(self.n):
            digest.update(self.matrix[place].cpu().view(torch.uint8).numpy().data.cast("B"))

    def refuse_non_finite(self, name: str) -> None:
        """NaN and infinity, with the row where the first of them stands."""
        if not self.matrix.dtype.is_floating_point:
            return
        for place in self._places(self.n):
            finite = torch.isfinite(self.matrix[place].to(self.device)).all(1)
            if not bool(finite.all()):
                row = place.start + int(torch.argmin(finite.to(torch.uint8)))
                raise ValueError(f"{name} holds NaN or infinity in row {row} (counted from 0); remove or fill them first")

    # --- sums over rows

    def _places(self, n: int) -> Iterator[slice]:
        size = max(_CHUNK_ENTRIES // self.d, 1)
        return (slice(start, start + size) for start in range(0, n, size))

    def _chunks(self, rows: Integers | None = None, kind: Any = torch.float64) -> Iterator[tuple[slice, Any]]:
        """Rows on the device, converted, so many at a time, and their places in `rows`."""
        for place in self._places(self.n if rows is None else rows.size):
            listed = place if rows is None else torch.from_numpy(np.asarray(rows[place], dtype=np.int64)).to(self.matrix.device)
            yield place, self.matrix[listed].to(self.device, kind)

    def _up(self, values: Vector, kind: Any = torch.float64) -> Any:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, kind)

    @property
    def nonzeros(self) -> int:
        return sum(int((self.matrix[place].to(self.device) != 0).sum()) for place in self._places(self.n))

    def squared_norms(self) -> Vector:
        return np.concatenate([part.square().sum(1).cpu().numpy() for _, part in self._chunks()]) + float(self.intercept)

    def column_ranges(self) -> tuple[Vector, Vector]:
        ends = [(part.amin(0), part.amax(0)) for _, part in self._chunks()]
        low, high = (torch.stack(end) for end in zip(*ends, strict=True))
        return low.amin(0).cpu().numpy(), high.amax(0).cpu().numpy()

    def scale_columns(self, factors: Vector) -> "TorchRows":
        kind = torch.promote_types(self.matrix.dtype, torch.float32) if self.matrix.dtype.is_floating_point else torch.float64
        scaled = torch.cat([(part * self._up(factors)).to(self.matrix.device, kind) for _, part in self._chunks()])
        return TorchRows(scaled, self.device).with_intercept(self.intercept)

    def gram(self) -> Vector:
        return self._gram_matrix(torch.float64).cpu().numpy() + float(self.intercept)  # type: ignore[no-any-return]

    def _gram_matrix(self, kind: Any) -> Any:
        """A A', without the intercept. Eight and sixteen bit numbers go through tensor cores, a few columns at a time."""
        n, d = self.shape
        total = torch.zeros((n, n), dtype=kind, device=self.device)
        short = {torch.bfloat16: torch.bfloat16}.get(self.matrix.dtype, torch.float16)
        exact = self.matrix.dtype in (torch.uint8, torch.int8, torch.float16, torch.bfloat16)
        cores = exact and self.device.type == "cuda" and kind == torch.float32
        for start in range(0, d, _GRAM_COLUMNS):
            part = self.matrix[:, start : start + _GRAM_COLUMNS].to(self.device).to(short if cores else kind)
            total += torch.mm(part, part.T, out_dtype=torch.float32) if cores else part @ part.T
        return total

    def margins(self, x: Vector, rows: Integers | None = None) -> Vector:
        w = self._up(x[: self.d])
        parts = [(part @ w).cpu().numpy() for _, part in self._chunks(rows)]
        return np.concatenate(parts) + (x[self.d] if self.intercept else 0.0)

    def transposed(self, u: Vector, rows: Integers | None = None) -> Vector:
        total = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        for place, part in self._chunks(rows):
            total += self._up(u[place]) @ part
        return self._with_sum(total, u)

    def _with_sum(self, total: Any, u: Vector) -> Vector:
        return np.append(total.cpu().numpy(), u.sum() if self.intercept else [])

    def curved_product(self, curvatures: Vector, x: Vector, rows: Integers | None = None) -> tuple[Vector, Vector]:
        w, shift = self._up(x[: self.d]), float(x[self.d]) if self.intercept else 0.0
        total, along = torch.zeros_like(w), np.empty(curvatures.size)
        for place, part in self._chunks(rows):
            z = part @ w + shift
            total += (self._up(curvatures[place]) * z) @ part
            along[place] = z.cpu().numpy()
        return along, self._with_sum(total, curvatures * along)

    def curved_squares(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        total = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        for place, part in self._chunks(rows):
            total += self._up(curvatures[place]) @ part.square()
        return self._with_sum(total, curvatures)

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._hessian(curvatures, rows, torch.float64)

    def rough_hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._hessian(curvatures, rows, torch.float64 if self.matrix.dtype == torch.float64 else torch.float32)

    def _hessian(self, curvatures: Vector, rows: Integers | None, kind: Any) -> Vector:
        H = torch.zeros((self.dimension, self.dimension), dtype=torch.float64, device=self.device)
        for place, part in self._chunks(rows, kind):
            if self.intercept:
                part = torch.nn.functional.pad(part, (0, 1), value=1.0)
            part = part * self._up(curvatures[place], kind).sqrt()[:, None]
            H += part.T @ part
        return H.cpu().numpy()  # type: ignore[no-any-return]

    def prefix_norms(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> Vector:
        """As `kernels.prefix_pass` has it: |S|^2 grows by 2 u <a, S> + u^2 |a|^2. Inside a block of the order, <a, S> is that of
        the block's beginning and what its own rows have added.
        """
        visit, growth = np.asarray(order, dtype=np.int64), np.empty(order.size)
        S = torch.zeros(self.d, dtype=torch.float64, device=self.device)
        size = min(_ROWS_A_BLOCK, max(_CHUNK_ENTRIES // self.d, 1))
        for start in range(0, visit.size, size):
            here = visit[start : start + size]
            ((_, rows),), own = self._chunks(here), self._up(u[here])
            G = rows @ rows.T
            along = rows @ S + torch.tril(G, -1) @ own
            growth[start : start + size] = (own * (2.0 * along + own * torch.diagonal(G))).cpu().numpy()
            S += own @ rows
        if self.intercept:
            growth += np.diff(np.cumsum(u[visit]) ** 2, prepend=0.0)
        k, S_c = np.arange(1.0, visit.size + 1.0), np.cumsum(u[visit] * along_c[visit])
        return np.maximum(np.cumsum(growth), 0.0) + k * (2.0 * S_c + k * c_square)

    # --- products of the ordered matrix

    def _weighted(self, scale: Vector, tol: float) -> "TorchWeighted":
        n, d = self.shape
        single = tol >= _SMALLEST_SINGLE_TOL and self.matrix.dtype != torch.float64
        kind = torch.float32 if single else torch.float64
        # A product of the first reads the rows twice for each order; one of the second the Gram matrix once for all.
        few = n <= _MOST_REWEIGHTED and n < 2 * d * self.matrix.element_size()
        return (ReweightedRows if few and self._has_room(n * n * kind.itemsize) else StreamedRows)(self, scale, kind)

    def _has_room(self, size: int) -> bool:
        return self.device.type != "cuda" or bool(size < 0.5 * torch.cuda.mem_get_info(self.device)[0])


class TorchWeighted:
    """The rows scale_i a_i, for products in several orders at once. Vectors lie on the device: a row for each order, and in it a
    number for each position of the order.
    """

    at_once = _ORDERS_AT_ONCE  #: orders that are best multiplied together

    def __init__(self, rows: TorchRows, scale: Vector, kind: Any) -> None:
        self.rows, self.kind = rows, kind
        self.scale = rows._up(scale, kind)

    def together(self, orders: Any, batch_size: int) -> "Together":
        """For orders that are the rows of `orders`, a tensor on the device."""
        raise NotImplementedError

    def orders(self, order: "Order", epochs: Sequence[int]) -> Any:
        """The permutations of these epochs, a row each, on the device; random ones are drawn there."""
        if order.given is None and order.scheme.draw is streams.permutation:
            begins = np.array([streams.start(order.seed, epoch, streams.Stream.ORDER) for epoch in epochs])
            return _permutations(order.n, torch.from_numpy(begins.view(np.int64)).to(self.rows.device))
        return torch.from_numpy(np.stack([order.permutation(epoch) for epoch in epochs])).to(self.rows.device)

    def up(self, values: Vector) -> Any:
        """Vectors of the host's, on the device."""
        return self.rows._up(values, self.kind)

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedTorch":
        return ArrangedTorch(self, order, batch_size)


class Together(Protocol):
    def ordered(self, v: Any) -> Any: ...

    def only(self, places: Sequence[int]) -> "Together":
        """The same for the orders at these places alone."""


class ArrangedTorch:
    """One order, with vectors in the host's memory that have a number for each row."""

    def __init__(self, weighted: TorchWeighted, order: Integers, batch_size: int) -> None:
        self.visit, self._weighted = order, weighted
        self._together = weighted.together(
            torch.from_numpy(np.asarray(order, dtype=np.int64))[None].to(weighted.rows.device), batch_size
        )

    def ordered(self, v: Vector, out: Vector) -> None:
        product = self._together.ordered(self._weighted.rows._up(v[self.visit], self._weighted.kind)[None])
        out[self.visit] = product[0].cpu().numpy()

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        sizes = np.diff(starts)
        full = int(np.count_nonzero(sizes == sizes[0]))  # a last one may be short
        each = max(_CHUNK_ENTRIES // (int(sizes[0]) * self._weighted.rows.d), 1)
        for first in [*range(0, full, each), *range(full, sizes.size)]:
            last = min(first + each, full) if first < full else first + 1
            place = slice(starts[first], starts[last])
            out[place] = self._products(np.asarray(members[place]).reshape(last - first, -1), v[place])

    def _products(self, members: Integers, v: Vector) -> Vector:
        """Those of batches of one size, a row of `members` each."""
        rows, kind = self._weighted.rows, self._weighted.kind
        listed = torch.from_numpy(members.astype(np.int64)).to(rows.matrix.device)
        A = rows.matrix[listed.reshape(-1)].to(rows.device, kind).reshape(*members.shape, rows.d)
        scale = self._weighted.scale[listed.to(rows.device)]
        w = (scale * rows._up(v, kind).reshape(members.shape))[:, None]
        product = (A @ (w @ A).mT)[:, :, 0] + (w.sum(-1) if rows.intercept else 0.0)
        return (scale * product).reshape(-1).cpu().numpy()  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Streamed:
    """Rows are read in each order, once to sum them by chunks and once, with what the chunks before and after sum to, for the
    product: out_p = <a_p, q_t> for position p in batch t, where q_t = sum over batches s of min(s, t) v a, which grows from batch
    to batch by R_t, the sum of v a over later ones. So q and R are all that is carried from row to row.
    """

    weighted: TorchWeighted
    orders: Any
    batch_size: int

    def ordered(self, v: Any) -> Any:
        rows, scale = self.weighted.rows, self.weighted.scale[self.orders]
        w = scale * v
        if rows.device.type == "cuda" and triton_kernels is not None:
            product = triton_kernels.streamed(rows.matrix, self.orders, w, self.batch_size)
        else:
            product = torch.stack([self._by_blocks(order, own) for order, own in zip(self.orders, w, strict=True)])
        if rows.intercept:
            product = product + _ones(w.double(), self.batch_size).to(product.dtype)
        return scale * product

    def only(self, places: Sequence[int]) -> "_Streamed":
        return replace(self, orders=self.orders[list(places)])

    def _by_blocks(self, order: Any, w: Any) -> Any:
        """The same without a compiled kernel. Inside a block the rows' own Gram matrix says what they add to q."""
        rows = self.weighted.rows
        t = torch.arange(rows.n, device=rows.device) // self.batch_size
        R = torch.zeros(rows.d, dtype=w.dtype, device=rows.device)
        blocks = range(0, rows.n, min(_ROWS_A_BLOCK, max(_CHUNK_ENTRIES // rows.d, 1)))
        for start in blocks:
            place = slice(start, start + blocks.step)
            R += w[place] @ self._rows(order[place])
        q, out = R.clone(), torch.empty_like(w)
        for start in blocks:
            place = slice(start, start + blocks.step)
            A, own = self._rows(order[place]), w[place]
            since = (t[place] - t[start]).to(w.dtype)
            to_next = float(t[place.stop] - t[start]) if place.stop < rows.n else 0.0
            gone = torch.clamp(since[:, None] - since, min=0.0)
            out[place] = A @ q + since * (A @ R) - (gone * (A @ A.T)) @ own
            q += to_next * R - ((to_next - since) * own) @ A
            R -= own @ A
        return out

    def _rows(self, listed: Any) -> Any:
        rows = self.weighted.rows
        return rows.matrix[listed.to(rows.matrix.device)].to(rows.device, self.weighted.kind)


class StreamedRows(TorchWeighted):
    """Rows that are read in each order: see `_Streamed`."""

    @property
    def at_once(self) -> int:  # type: ignore[override]
        """As many as have room for what chunks of them sum to."""
        if self.rows.device.type != "cuda" or triton_kernels is None:
            return 1
        room = _STATE_SHARE * torch.cuda.mem_get_info(self.rows.device)[0]
        return max(1, min(_ORDERS_AT_ONCE, int(room // triton_kernels.state_size(*self.rows.shape, self.kind.itemsize))))

    def together(self, orders: Any, batch_size: int) -> Together:
        return _Streamed(self, orders, batch_size)


@dataclass(frozen=True)
class _Reweighted:
    """An order is a vector t of batch numbers: out_i = scale_i sum_j min(t_i, t_j) G_ij scale_j v_j, rows as they lie."""

    weighted: "ReweightedRows"
    orders: Any
    t: Any

    def ordered(self, v: Any) -> Any:
        scale, gram = self.weighted.scale, self.weighted.gram
        w = scale * torch.empty_like(v).scatter_(1, self.orders, v)
        if gram.device.type == "cuda" and triton_kernels is not None:
            product = triton_kernels.reweighted(gram, self.t, w)
        else:
            product = torch.stack([_reweighted(gram, t, own) for t, own in zip(self.t, w, strict=True)])
        return (scale * product).gather(1, self.orders)

    def only(self, places: Sequence[int]) -> "_Reweighted":
        return replace(self, orders=self.orders[list(places)], t=self.t[list(places)])


class ReweightedRows(TorchWeighted):
    """Few rows: one Gram matrix, formed once, in the data's own order."""

    def __init__(self, rows: TorchRows, scale: Vector, kind: Any) -> None:
        super().__init__(rows, scale, kind)
        self.gram = rows._gram_matrix(kind)
        if rows.intercept:
            self.gram += 1.0

    def together(self, orders: Any, batch_size: int) -> Together:
        numbers = torch.arange(self.rows.n, device=self.rows.device) // batch_size + 1
        t = torch.empty_like(orders).scatter_(1, orders, numbers.expand_as(orders)).to(self.kind)
        return _Reweighted(self, orders, t)


def _reweighted(gram: Any, t: Any, w: Any) -> Any:
    out, size = torch.empty_like(w), max(_CHUNK_ENTRIES // t.numel(), 1)
    for start in range(0, t.numel(), size):
        place = slice(start, start + size)
        out[place] = (torch.minimum(t[place, None], t) * gram[place]) @ w
    return out


def _ones(w: Any, batch_size: int) -> Any:
    """What the entry of the intercept adds: sum_q min(t_p, t_q) w_q for each position p, in float64."""
    n = w.shape[1]
    number = torch.arange(n, device=w.device) // batch_size
    sums = torch.zeros((w.shape[0], int(number[-1]) + 1), dtype=w.dtype, device=w.device)
    sums.index_add_(1, number, w)
    later = sums.flip(1).cumsum(1).flip(1)
    return later.cumsum(1)[:, number]


_GOLDEN, _MIX_1, _MIX_2 = (z - (1 << 64) for z in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _permutations(n: int, begins: Any) -> Any:
    """As `streams` defines them: rows by rising key. Integers of 64 bits wrap in torch as unsigned ones do; only shifts must be
    told that there is no sign.
    """
    z = torch.arange(1, n + 1, device=begins.device) * _GOLDEN + begins[:, None]
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return torch.sort(_shifted(z ^ _shifted(z, 31), 1), stable=True).indices


def _shifted(z: Any, bits: int) -> Any:
    return (z >> bits) & ((1 << (64 - bits)) - 1)
