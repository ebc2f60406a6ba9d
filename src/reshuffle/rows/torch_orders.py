"""Products of the ordered matrix on a device of PyTorch's: the bulk of the work behind constants.

There are two bodies for them, `StreamedRows` and `ReweightedRows`. `together(orders, b)` takes several orders at once, and
`batches(orders, b)` the batches of several orders. They accumulate in float32 where that can reach the tolerance asked for, else in
float64. No product of rows that lie on the device waits for the host.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch

from reshuffle.orders import streams
from reshuffle.rows import transfer
from reshuffle.rows.base import Integers, Weighted
from reshuffle.vectors import Vector

if TYPE_CHECKING:
    from reshuffle.orders import Order
    from reshuffle.rows.torch import TorchRows

try:  # comes with a torch that can use a GPU, and with no other
    from reshuffle.rows import triton_kernels as triton_kernels
except ImportError:
    triton_kernels = None  # type: ignore[assignment]

_SMALLEST_SINGLE_TOL = 1e-5  # float32 sums over a million rows are good to about 1e-6
_SINGLE = 1e-25, 1e35  # n^2 times the largest squared norm, which no eigenvalue exceeds: beyond, float32 would overflow or vanish
_MOST_REWEIGHTED = 60_000  # rows whose Gram matrix is kept
_ORDERS_AT_ONCE = 16
_ROWS_A_BLOCK = 512  # whose own Gram matrix is formed where rows depend on those before them
_STATE_SHARE = 0.25  # of the free memory, for what orders that are multiplied at once keep
_GRAM_SHARE = 0.5  # of the free memory, for a Gram matrix


def weighted(rows: "TorchRows", scale: Vector, tol: float) -> "TorchWeighted":
    """The rows scale_i a_i, for eigenvalues to a relative `tol`."""
    n, d = rows.shape
    single = tol >= _SMALLEST_SINGLE_TOL and rows.matrix.dtype != torch.float64
    single = single and _SINGLE[0] <= n**2 * float((scale**2 * rows.squared_norms()).max()) <= _SINGLE[1]
    kind = torch.float32 if single else torch.float64
    # A product of the first reads the rows twice for each order; one of the second the Gram matrix once for all.
    few = n <= _MOST_REWEIGHTED and n < 2 * d * rows.matrix.element_size()
    room = n * n * kind.itemsize < _GRAM_SHARE * transfer.free(rows.device)
    return (ReweightedRows if few and room else StreamedRows)(rows, scale, kind)


class TorchWeighted(Weighted):
    """The rows scale_i a_i, for products in several orders at once. Vectors lie on the device: a row for each order, and in it a
    number for each position of the order.
    """

    at_once = _ORDERS_AT_ONCE  #: orders that are best multiplied together

    rows: "TorchRows"

    def __init__(self, rows: "TorchRows", scale: Vector, kind: Any) -> None:
        self.rows, self.kind = rows, kind
        self.scale = rows.up(scale, kind)

    def transposed(self, u: Vector) -> Vector:
        return self.rows.transposed(self.scale * self.rows.up(u))

    def margins(self, x: Vector) -> Vector:
        return (self.scale * self.rows.up(self.rows.margins(x))).cpu().numpy()  # type: ignore[no-any-return]

    def together(self, orders: Any, batch_size: int) -> "Together":
        """For orders that are the rows of `orders`, a tensor on the device."""
        raise NotImplementedError

    def batches(self, orders: Any, batch_size: int) -> "TorchBatches":
        """The batches of all these orders, one after the other."""
        lacking = -orders.shape[1] % batch_size
        return self.batches_of(torch.nn.functional.pad(orders, (0, lacking), value=self.rows.n).reshape(-1, batch_size))

    def batches_of(self, members: Any) -> "TorchBatches":
        raise NotImplementedError

    def orders(self, order: "Order", epochs: Sequence[int]) -> Any:
        """The permutations of these epochs, a row each, on the device; random ones are drawn there."""
        if order.given is None and order.scheme.draw is streams.permutation:
            begins = [streams.start(order.seed, epoch, streams.Stream.ORDER) for epoch in epochs]
            return permutations(order.n, begins, self.rows.device)
        return transfer.tensor_of(np.stack([order.permutation(epoch) for epoch in epochs])).to(self.rows.device)

    def up(self, values: Vector) -> Any:
        """Vectors of the host's, on the device."""
        return self.rows.up(values, self.kind)

    def arrange(self, order: Integers, batch_size: int) -> "ArrangedTorch":
        return ArrangedTorch(self, order, batch_size)


class Together(Protocol):
    def ordered(self, v: Any) -> Any: ...

    def lengths(self, v: Any) -> Any:
        """Of each row of v."""

    def only(self, places: Sequence[int]) -> "Together":
        """The same for the orders at these places alone."""


class _Vectors:
    @staticmethod
    def lengths(v: Any) -> Any:
        """Of each row of v, whose squares float32 may not hold."""
        return torch.linalg.vector_norm(v, dim=-1, dtype=torch.float64).to(v.dtype)


class ArrangedTorch:
    """One order, with vectors in the host's memory that have a number for each row."""

    def __init__(self, weighted: TorchWeighted, order: Integers, batch_size: int) -> None:
        self.visit, self._weighted = order, weighted
        self._together = weighted.together(self._up(order)[None], batch_size)

    def _up(self, numbers: Integers) -> Any:
        return transfer.tensor_of(np.ascontiguousarray(numbers, dtype=np.int64)).to(self._weighted.rows.device)

    def ordered(self, v: Vector, out: Vector) -> None:
        out[self.visit] = self._together.ordered(self._weighted.up(v[self.visit])[None])[0].cpu().numpy()

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        sizes = np.diff(starts)
        for size in np.unique(sizes):
            places = starts[:-1][sizes == size][:, None] + np.arange(size)
            out[places] = self._weighted.batches_of(self._up(members[places])).product(self._weighted.up(v[places])).cpu().numpy()


@dataclass(frozen=True)
class TorchBatches(_Vectors):
    """Batches of one size, a row of `members` each; a short one is filled up with the row number n, which weighs nothing."""

    weighted: TorchWeighted
    members: Any

    def product(self, v: Any) -> Any:
        """Of the Gram matrix of each batch with its row of v."""
        raise NotImplementedError

    def only(self, places: Integers) -> "TorchBatches":
        """The batches at these places alone."""
        return replace(self, members=self.members[transfer.tensor_of(places).to(self.members.device)])

    def down(self, *values: Any) -> Vector:
        """Vectors of the device's in the host's memory, a row each, all at once."""
        return torch.stack(values).double().cpu().numpy()  # type: ignore[no-any-return]

    def sums(self, values: Vector) -> Vector:
        """Over each batch, of values that each row has."""
        return self.aligned(self.weighted.rows.up(values)).sum(-1).cpu().numpy()  # type: ignore[no-any-return]

    def aligned(self, values: Any) -> Any:
        """Of values that each row has, those of the members."""
        return torch.nn.functional.pad(values, (0, 1))[self.members]

    def spread(self, v: Any) -> Any:
        """Of values that each position of each order has, those of the members."""
        size = self.members.shape[1]
        return torch.nn.functional.pad(v, (0, -v.shape[1] % size)).reshape(-1, size)

    def _groups(self, entries: int) -> list[slice]:
        """As many batches at a time as have room, each with so many numbers to work with."""
        return transfer.places(None, len(self.members), entries)

    @property
    def _rows(self) -> Any:
        """Numbers of rows that are there."""
        return self.members.clamp(max=self.weighted.rows.n - 1)


class _StreamedBatches(TorchBatches):
    """Rows of a batch are read where they lie, or brought from the host."""

    def product(self, v: Any) -> Any:
        rows, size = self.weighted.rows, self.members.shape[1]
        scale = self.aligned(self.weighted.scale)
        w = scale * v
        if size * rows.d > transfer.BLOCK_ENTRIES:
            out = torch.stack([self._long(listed, own) for listed, own in zip(self._rows, w, strict=True)])
        else:
            out, groups = torch.empty_like(w), self._groups(size * rows.d)
            with transfer.exact_products():
                for place, part in zip(groups, rows.listed([self._rows[place].reshape(-1) for place in groups]), strict=True):
                    A = part.to(w.dtype).reshape(-1, size, rows.d)
                    out[place] = (A @ (w[place, None] @ A).mT)[:, :, 0]
        return scale * (out + (w.sum(-1, keepdim=True) if rows.intercept else 0.0))

    def _long(self, listed: Any, w: Any) -> Any:
        """Of one batch that is too long to be worked with at once."""
        rows, out = self.weighted.rows, torch.empty_like(w)
        places = transfer.places(None, len(listed), rows.d)
        total = torch.zeros(rows.d, dtype=w.dtype, device=w.device)
        with transfer.exact_products():
            for place, part in zip(places, rows.listed([listed[place] for place in places]), strict=True):
                total += w[place] @ part.to(w.dtype)
            for place, part in zip(places, rows.listed([listed[place] for place in places]), strict=True):
                out[place] = part.to(w.dtype) @ total
        return out


class _ReweightedBatches(TorchBatches):
    """Where there is a Gram matrix of all rows, that of a batch is a part of it."""

    def product(self, v: Any) -> Any:
        gram, size, scale = self.weighted.gram, self.members.shape[1], self.aligned(self.weighted.scale)  # type: ignore[attr-defined]
        w, out, listed = scale * v, torch.empty_like(v), self._rows
        with transfer.exact_products():
            for place in self._groups(size * size):
                here = listed[place]
                out[place] = (gram[here[:, :, None], here[:, None, :]] @ w[place, :, None])[:, :, 0]
        return scale * out


@dataclass(frozen=True)
class _Streamed(_Vectors):
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
        if rows.device.type == "cuda" and triton_kernels is not None:  # which read pinned memory as well, over the link
            product = triton_kernels.streamed(rows.matrix, self.orders, w, self.batch_size)
        else:
            with transfer.exact_products():
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
        each = min(_ROWS_A_BLOCK, max(transfer.BLOCK_ENTRIES // rows.d, 1))
        places = [slice(start, start + each) for start in range(0, rows.n, each)]
        listings = [order[place] for place in places]
        for place, part in zip(places, rows.listed(listings), strict=True):
            R += w[place] @ part.to(w.dtype)
        q, out = R.clone(), torch.empty_like(w)
        for place, part in zip(places, rows.listed(listings), strict=True):
            A, own = part.to(w.dtype), w[place]
            since = (t[place] - t[place.start]).to(w.dtype)
            to_next = (t[place.stop] - t[place.start]).to(w.dtype) if place.stop < rows.n else 0.0
            gone = torch.clamp(since[:, None] - since, min=0.0)
            out[place] = A @ q + since * (A @ R) - (gone * (A @ A.T)) @ own
            q += to_next * R - ((to_next - since) * own) @ A
            R -= own @ A
        return out


class StreamedRows(TorchWeighted):
    """Rows that are read in each order: see `_Streamed`."""

    @property
    def at_once(self) -> int:  # type: ignore[override]
        """As many as have room for what chunks of them sum to."""
        if self.rows.device.type != "cuda" or triton_kernels is None:
            return 1
        room = _STATE_SHARE * transfer.free(self.rows.device)
        return max(1, min(_ORDERS_AT_ONCE, int(room // triton_kernels.state_size(*self.rows.shape, self.kind.itemsize))))

    def together(self, orders: Any, batch_size: int) -> Together:
        return _Streamed(self, orders, batch_size)

    def batches_of(self, members: Any) -> "TorchBatches":
        return _StreamedBatches(self, members)


@dataclass(frozen=True)
class _Reweighted(_Vectors):
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
            with transfer.exact_products():
                product = torch.stack([_reweighted(gram, t, own) for t, own in zip(self.t, w, strict=True)])
        return (scale * product).gather(1, self.orders)

    def only(self, places: Sequence[int]) -> "_Reweighted":
        return replace(self, orders=self.orders[list(places)], t=self.t[list(places)])


class ReweightedRows(TorchWeighted):
    """Few rows: one Gram matrix, formed once, in the data's own order."""

    def __init__(self, rows: "TorchRows", scale: Vector, kind: Any) -> None:
        super().__init__(rows, scale, kind)
        self.gram = rows.gram_matrix(kind)
        if rows.intercept:
            self.gram += 1.0

    def together(self, orders: Any, batch_size: int) -> Together:
        numbers = torch.arange(self.rows.n, device=self.rows.device) // batch_size + 1
        t = torch.empty_like(orders).scatter_(1, orders, numbers.expand_as(orders)).to(self.kind)
        return _Reweighted(self, orders, t)

    def batches_of(self, members: Any) -> "TorchBatches":
        return _ReweightedBatches(self, members)


def _reweighted(gram: Any, t: Any, w: Any) -> Any:
    out = torch.empty_like(w)
    for place in transfer.places(None, t.numel(), t.numel()):
        out[place] = (torch.minimum(t[place, None], t) * gram[place]) @ w
    return out


def _ones(w: Any, batch_size: int) -> Any:
    """What the entry of the intercept adds: sum_q min(t_p, t_q) w_q for each position p, in float64."""
    n = w.shape[1]
    number = torch.arange(n, device=w.device) // batch_size
    sums = torch.zeros((w.shape[0], -(-n // batch_size)), dtype=w.dtype, device=w.device)
    sums.index_add_(1, number, w)
    later = sums.flip(1).cumsum(1).flip(1)
    return later.cumsum(1)[:, number]


_GOLDEN, _MIX_1, _MIX_2 = (z - (1 << 64) for z in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def permutations(n: int, begins: Sequence[np.uint64], device: Any) -> Any:
    """As `streams` defines them, a row each: rows by rising key."""
    return torch.sort(_shifted(_bits(n, begins, device), 1), stable=True).indices


def fractions(n: int, begin: np.uint64, device: Any) -> Any:
    """As `streams` defines them."""
    return _shifted(_bits(n, [begin], device)[0], 11).double() * 2.0**-53


def _bits(n: int, begins: Sequence[np.uint64], device: Any) -> Any:
    """Random ones, as `orders.kernels` has them. Integers of 64 bits wrap in torch as unsigned ones do; only shifts must be told
    that there is no sign.
    """
    first = transfer.tensor_of(np.array(begins).view(np.int64)).to(device)
    z = torch.arange(1, n + 1, device=device) * _GOLDEN + first[:, None]
    z = (z ^ _shifted(z, 30)) * _MIX_1
    z = (z ^ _shifted(z, 27)) * _MIX_2
    return z ^ _shifted(z, 31)


def _shifted(z: Any, bits: int) -> Any:
    return (z >> bits) & ((1 << (64 - bits)) - 1)
