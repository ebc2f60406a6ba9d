"""Dense rows on a device of PyTorch's: a GPU, or a CPU where the same code is tested.

Rows are kept in their own type and read where they lie. What is a sum over rows is done in float64, block after block; Hessians
that need not be exact in float32, unless the rows are float64. A matrix that does not fit into the device's memory stays in the
host's and comes in blocks: see `transfer`. `torch_orders` has the products of the ordered matrix.

Vectors come and go as NumPy's. `with_tensors` leaves those with a number for each row, and Hessians, on the device: see `samples`.
On a GPU, passes over rows that lie there are made by kernels that convert each number as they read it.

Passes that go from row to row, as those of SGD do, leave a GPU idle: they run on the CPU, over a copy in the host's memory.
"""

import copy
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from reshuffle.rows import torch_orders, transfer
from reshuffle.rows.base import DualState, DualStep, Integers, Positions, Rows, Step
from reshuffle.rows.memory import DenseRows, unchecked
from reshuffle.vectors import Vector

TYPES = (
    torch.uint8, torch.int8, torch.uint16, torch.int16, torch.float16, torch.bfloat16, torch.float32, torch.float64,
)  # fmt: skip
_GRAM_COLUMNS = 2048  # that tensor cores add up in one go: more, and their sums come out low
_ROWS_A_BLOCK = 128  # whose own Gram matrix is formed where prefix sums of gradients are measured
_SMALLEST = 1e-300  # stands for the largest curvature where all are zero, or there are none
_one_at_a_time = (
    threading.Lock()
)  # PyTorch loads its linear algebra for GPUs at the first call, which several threads must not share
_HESSIAN_SPEED = 20.0  # operations of a Hessian in the time of one of a pass, which memory limits
_FACTOR_SPEED = 10.0  # the same of its factorisation


def on_device(X: Any, device: Any = None, name: str = "X") -> "TorchRows":
    """The rows of a dense matrix, or of a tensor, on a device; a tensor stays on its own if none is named."""
    devices = None if device is None else transfer.find(device)
    tensor = _as_tensor(X, name)
    rows = TorchRows.of(tensor, devices or (tensor.device,))
    rows.refuse_non_finite(name)
    return rows


def _as_tensor(X: Any, name: str) -> Any:
    if not isinstance(X, torch.Tensor):
        rows = unchecked(X, name)  # the device looks for NaN, once the data is there
        if not isinstance(rows, DenseRows):
            raise ValueError(
                f"{name} is sparse, and only dense data gain from a device; leave device out, or pass {name}.toarray()"
            )
        if 0 in rows.shape:
            raise ValueError(f"{name} has shape {rows.shape}; it needs at least one row and one column")
        return transfer.tensor_of(rows.matrix)
    if X.layout != torch.strided or X.ndim != 2 or 0 in X.shape:
        raise ValueError(f"{name} is a tensor of shape {tuple(X.shape)} and layout {X.layout}; use a dense n x d one")
    if X.dtype == torch.bool:
        X = X.view(torch.uint8)
    if X.dtype not in TYPES:
        raise ValueError(f"{name} has dtype {X.dtype}; use one of {', '.join(str(kind).removeprefix('torch.') for kind in TYPES)}")
    return X.detach().contiguous()


@dataclass(eq=False)
class TorchRows(Rows):
    """The rows of a dense tensor."""

    matrix: Any  #: on the first of the devices, or in the host's memory
    devices: tuple[Any, ...]  #: the first multiplies; permutations are spread over all of them
    resident: bool = True  #: whether the matrix lies on the device; else it comes in blocks
    _known: dict[str, Any] = field(default_factory=dict, repr=False)  # what was worked out once, with or without an intercept

    in_blocks, elsewhere, one_by_one, at_hand = True, True, False, True
    tensors = False  #: whether vectors with a number for each row, and numbers of rows, are tensors on the device

    @classmethod
    def of(cls, tensor: Any, devices: tuple[Any, ...]) -> "TorchRows":
        """Of a tensor anywhere, on the first of these devices."""
        matrix, resident = transfer.moved(tensor, devices[0])
        return cls(matrix, devices, resident)

    @property
    def device(self) -> Any:
        return self.devices[0]

    def with_tensors(self) -> "TorchRows":
        """The same rows, whose vectors stay on the device."""
        other = copy.copy(self)
        other.tensors = True
        return other

    @property
    def shape(self) -> tuple[int, int]:
        n, d = self.matrix.shape
        return int(n), int(d)

    @property
    def entries(self) -> int:
        return int(self.matrix.numel())

    @property
    def kind(self) -> str:
        """The type of an entry."""
        return str(self.matrix.dtype).removeprefix("torch.")

    def __str__(self) -> str:
        return f"{self.n} x {self.d}, dense, {self.kind}, on {self.place}"

    @property
    def place(self) -> str:  # type: ignore[override]
        return str(self.device) if self.resident else f"{self.device}, in blocks from the host's memory"

    def replicas(self) -> list[Rows]:
        return [self, *(TorchRows.of(self.matrix, (other,)).with_intercept(self.intercept) for other in self.devices[1:])]

    def take(self, rows: Integers) -> DenseRows:
        return _in_memory(self._picked(self._numbers(rows).to(self.matrix.device)))

    def subset(self, rows: Integers) -> "TorchRows":
        return self._like(self._picked(self._numbers(rows).to(self.matrix.device)))

    def _like(self, tensor: Any) -> "TorchRows":
        return TorchRows.of(tensor, self.devices).with_intercept(self.intercept)

    def update_hash(self, digest: Any) -> None:
        """As rows in memory have it, so that a journal goes on on any device."""
        digest.update(f"{self.kind} {self.shape}".encode())
        for place in transfer.places(None, *self.shape):
            digest.update(self.matrix[place].cpu().view(torch.uint8).numpy().data.cast("B"))

    def refuse_non_finite(self, name: str) -> None:
        """NaN and infinity, with the row where the first of them stands. Squared norms, which a certificate will ask for, tell
        whether there are any; those of float64 may be infinite without.
        """
        if not self.matrix.dtype.is_floating_point or bool(torch.isfinite(self._squares()).all()):
            return
        for place, part in self._chunks(kind=None):
            finite = torch.isfinite(part).all(1)
            if not bool(finite.all()):
                row = place.start + int(torch.argmin(finite.to(torch.uint8)))
                raise ValueError(f"{name} holds NaN or infinity in row {row} (counted from 0); remove or fill them first")

    # --- blocks of rows

    @staticmethod
    def _numbers(rows: Integers) -> Any:
        if isinstance(rows, torch.Tensor):
            return rows
        return transfer.tensor_of(np.ascontiguousarray(rows, dtype=np.int64))

    def listed(self, listings: list[Any]) -> Iterator[Any]:
        """Rows on the device, a slice or a tensor of numbers at a time, in their own type."""
        if not self.resident:
            return transfer.arriving(
                self.matrix, (each if isinstance(each, slice) else each.cpu() for each in listings), self.device
            )
        return (self._picked(each) for each in listings)

    def _picked(self, rows: Any) -> Any:
        """Rows by a slice or a tensor of numbers, where they lie. A GPU picks signed numbers of 16 bits, and no others."""
        if self.matrix.dtype == torch.uint16:
            return self.matrix.view(torch.int16)[rows].view(torch.uint16)
        return self.matrix[rows]

    def _chunks(self, rows: Integers | None = None, kind: Any = torch.float64, width: int = 0) -> Iterator[tuple[slice, Any]]:
        """Rows on the device, converted, so many at a time, and their places in `rows`; each takes up `width` numbers at least."""
        places = transfer.places(rows, self.n, max(self.d, width))
        listings: list[Any] = places
        if rows is not None:
            numbers = self._numbers(rows).to(self.matrix.device)
            listings = [numbers[place] for place in places]
        for place, part in zip(places, self.listed(listings), strict=True):
            yield place, part if kind is None else part.to(kind)

    def up(self, values: Vector, kind: Any = torch.float64) -> Any:
        """A vector of the host's, or one that is there already, on the device."""
        tensor = values if isinstance(values, torch.Tensor) else transfer.tensor_of(np.ascontiguousarray(values))
        return tensor.to(self.device, kind)

    def _given(self, tensor: Any) -> Any:
        """What has a number for each row, as it is asked for."""
        return tensor if self.tensors else tensor.cpu().numpy()

    def _room(self, *shape: int) -> Any:
        return torch.zeros(shape, dtype=torch.float64, device=self.device)

    # --- sums over rows

    @property
    def nonzeros(self) -> int:
        return int(sum((part != 0).sum() for _, part in self._chunks(kind=None)))

    @property
    def _kernels(self) -> Any:
        """Those of a GPU, for rows that lie there; None where PyTorch makes the passes, block after block."""
        return torch_orders.triton_kernels if self.resident and self.device.type == "cuda" else None

    def squared_norms(self) -> Vector:
        return self._given(self._squares() + float(self.intercept))  # type: ignore[no-any-return]

    def _squares(self) -> Any:
        if "squares" not in self._known:
            self._known["squares"] = self._along(None, None)
        return self._known["squares"]

    def _along(self, w: Any, rows: Integers | None) -> Any:
        """<a, w> of each row, on the device and without the intercept; |a|^2 where w is None."""
        if self._kernels is not None:
            return self._kernels.margins(self.matrix, w, None if rows is None else self._numbers(rows).to(self.device))
        out = self._room(self.n if rows is None else len(rows))
        for place, part in self._chunks(rows):
            out[place] = part.square().sum(1) if w is None else part @ w
        return out

    def _sum(self, values: Any, rows: Integers | None) -> Any:
        """The sum of v a over rows, on the device and without the intercept."""
        if self._kernels is not None:
            return self._kernels.transposed(self.matrix, values, None if rows is None else self._numbers(rows).to(self.device))
        total = self._room(self.d)
        for place, part in self._chunks(rows):
            total += values[place] @ part
        return total

    def column_ranges(self) -> tuple[Vector, Vector]:
        ends = [(part.amin(0), part.amax(0)) for _, part in self._chunks()]
        low, high = (torch.stack(end) for end in zip(*ends, strict=True))
        return low.amin(0).cpu().numpy(), high.amax(0).cpu().numpy()

    def _sums_about(self, centre: Vector, half: Vector) -> Vector:
        c, h, out = self.up(centre), self.up(half), self._room(2, self.d)
        for _, part in self._chunks():
            off = (0.5 * part - 0.5 * c) / h
            out += torch.stack([off.sum(0), off.square().sum(0)])
        return out.cpu().numpy()  # type: ignore[no-any-return]

    def row_lengths(self) -> Vector:
        out = self._room(self.n)
        for place, part in self._chunks():
            largest = part.abs().amax(1)
            unit = torch.where(largest > 0.0, largest, 1.0)
            out[place] = largest * (part / unit[:, None]).square().sum(1).sqrt()
        return out.cpu().numpy()  # type: ignore[no-any-return]

    def scale_columns(self, factors: Vector) -> "TorchRows":
        f, floating = self.up(factors), self.matrix.dtype.is_floating_point
        kind = torch.promote_types(self.matrix.dtype, torch.float32) if floating else torch.float64
        return self._made(lambda part, place: part * f, kind)

    def standardised(self, centre: Vector | None, size: Vector) -> "TorchRows":
        c, s = self.up(np.zeros(self.d) if centre is None else centre), self.up(size)
        return self._made(lambda part, place: (0.5 * part - 0.5 * c) / (0.5 * s))

    def unit_rows(self) -> "TorchRows":
        lengths = self.row_lengths()
        lengths[lengths == 0.0] = 1.0
        unit = self.up(lengths)[:, None]
        return self._made(lambda part, place: part / unit[place])

    def _made(self, function: Any, kind: Any = None) -> "TorchRows":
        """Other numbers of the same rows, where there is room for them: in double precision if these are, else in single."""
        kind = kind or (torch.float64 if self.matrix.dtype == torch.float64 else torch.float32)
        room = self.device if transfer.fits(self.entries * kind.itemsize, self.device) else "cpu"
        out = torch.empty(self.shape, dtype=kind, device=room)
        for place, part in self._chunks():
            out[place] = function(part, place).to(out.device, kind)
        return self._like(out)

    def gram(self) -> Vector:
        return self.gram_matrix(torch.float64).cpu().numpy() + float(self.intercept)  # type: ignore[no-any-return]

    def gram_matrix(self, kind: Any) -> Any:
        """A A', without the intercept. Eight and sixteen bit numbers go through tensor cores, a few columns at a time."""
        n, d = self.shape
        total = torch.zeros((n, n), dtype=kind, device=self.device)
        short = {torch.bfloat16: torch.bfloat16}.get(self.matrix.dtype, torch.float16)
        exact = self.matrix.dtype in (torch.uint8, torch.int8, torch.float16, torch.bfloat16)
        cores = exact and self.device.type == "cuda" and kind == torch.float32
        with transfer.exact_products():
            for start in range(0, d, _GRAM_COLUMNS):
                part = self.matrix[:, start : start + _GRAM_COLUMNS].to(self.device).to(short if cores else kind)
                total += torch.mm(part, part.T, out_dtype=torch.float32) if cores else part @ part.T
        return total

    def margins(self, x: Vector, rows: Integers | None = None) -> Vector:
        return self._given(self._margins(x, rows))  # type: ignore[no-any-return]

    def _margins(self, x: Vector, rows: Integers | None) -> Any:
        return self._along(self.up(x[: self.d]), rows) + (float(x[self.d]) if self.intercept else 0.0)

    def transposed(self, u: Vector, rows: Integers | None = None) -> Vector:
        values = self.up(u)
        return self._with_sum(self._sum(values, rows), values)

    def _with_sum(self, total: Any, values: Any) -> Vector:
        return (torch.cat([total, values.sum()[None]]) if self.intercept else total).cpu().numpy()  # type: ignore[no-any-return]

    def curved_product(self, curvatures: Vector, x: Vector, rows: Integers | None = None) -> tuple[Vector, Vector]:
        bends = self.up(curvatures)
        along, product = self._there_and_back(x, rows, lambda place, along: bends[place] * along)
        return self._given(along), product

    def gram_step(self, scale: Vector, x: Vector, u: Vector) -> Vector:
        s, before = self.up(scale), self.up(u)
        along, product = self._there_and_back(x, None, lambda place, along: s[place] * (s[place] * along - before[place]))
        u[:] = self._given(s * along - before)
        return product

    def _there_and_back(self, x: Vector, rows: Integers | None, force: Callable[[slice, Any], Any]) -> tuple[Any, Vector]:
        """A x, on the device, and A'f, where `force` makes f of places and what A x is there."""
        if self._kernels is not None:  # for which a row is as near the second time
            along = self._margins(x, rows)
            values = force(slice(None), along)
            return along, self._with_sum(self._sum(values, rows), values)
        w, shift, total = self.up(x[: self.d]), float(x[self.d]) if self.intercept else 0.0, self._room(self.d)
        along, values = self._room(2, self.n if rows is None else len(rows))
        for place, part in self._chunks(rows):
            along[place] = part @ w + shift
            values[place] = force(place, along[place])
            total += values[place] @ part
        return along, self._with_sum(total, values)

    def curved_squares(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        bends, total = self.up(curvatures), self._room(self.d)
        for place, part in self._chunks(rows):
            total += bends[place] @ part.square()
        return self._with_sum(total, bends)

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._hessian(curvatures, rows, torch.float64)

    @property
    def rough(self) -> bool:  # type: ignore[override]
        return bool(self.matrix.dtype != torch.float64)

    def rough_hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        return self._hessian(curvatures, rows, torch.float32 if self.rough else torch.float64)

    def _hessian(self, curvatures: Vector, rows: Integers | None, kind: Any) -> Vector:
        """Products in this type, summed over blocks in float64; what belongs to the intercept is added beside them."""
        H, bends = self._room(self.dimension, self.dimension), self.up(curvatures)
        # The largest keeps float32 from losing those of rows that hardly bend.
        largest = torch.nn.functional.pad(bends, (0, 1), value=_SMALLEST).amax()
        roots = (bends / largest).sqrt().to(kind)
        with transfer.exact_products():
            for place, part in self._chunks(rows, kind):
                own = roots[place]
                part = part * own[:, None]
                H[: self.d, : self.d] += part.T @ part
                if self.intercept:
                    H[self.d, : self.d] += own @ part
        if self.intercept:
            H[: self.d, self.d], H[self.d, self.d] = H[self.d, : self.d], (bends / largest).sum()
        return self._given(largest * H)  # type: ignore[no-any-return]

    def factorised(
        self, H: Any, divisor: float, ridge: Vector, least: float = 0.0, blur: float = 0.0
    ) -> Callable[[Vector], Vector] | None:
        if not self.tensors:
            return super().factorised(H, divisor, ridge, least, blur)
        H = H / divisor
        H += torch.diag(self.up(ridge) + blur * H.diagonal())
        with _one_at_a_time:
            factor, failed = torch.linalg.cholesky_ex(H)
        pivots = factor.diagonal().square()
        if int(failed) or not bool(((least * H.diagonal() <= pivots) & (pivots < math.inf)).all()):
            return None
        return lambda r: torch.cholesky_solve(self.up(r)[:, None], factor)[:, 0].cpu().numpy()

    def hessian_cost(self) -> float:
        return self.dimension / _HESSIAN_SPEED

    def blas_speed(self) -> float:
        return _FACTOR_SPEED

    def prefix_norms(self, order: Integers, u: Vector, along_c: Vector, c_square: float) -> Vector:
        """As `kernels.prefix_pass` has it: |S|^2 grows by 2 u <a, S> + u^2 |a|^2."""
        visit = np.asarray(order, dtype=np.int64)
        own = self.up(u[visit])
        growth, S = torch.empty_like(own), self._room(self.d)
        for place, part in self._chunks(visit, width=_ROWS_A_BLOCK):
            growth[place], S = _growth(part, own[place], S)
        grown = growth.cpu().numpy()
        if self.intercept:
            grown += np.diff(np.cumsum(u[visit]) ** 2, prepend=0.0)
        k, S_c = np.arange(1.0, visit.size + 1.0), np.cumsum(u[visit] * along_c[visit])
        squares: Vector = np.maximum(np.cumsum(grown), 0.0) + k * (2.0 * S_c + k * c_square)
        return squares

    # --- passes from row to row

    def in_memory(self) -> DenseRows:
        """The same rows in the host's memory, copied there once."""
        if "rows" not in self._known:
            self._known["rows"] = _in_memory(self.matrix)
        return self._known["rows"].with_intercept(self.intercept)  # type: ignore[no-any-return]

    def sgd_epoch(self, visit: Integers | None, labels: Vector, weights: Vector, step: Step, x: Vector, dual: Vector) -> None:
        self.in_memory().sgd_epoch(visit, labels, weights, step, x, dual)

    def balanced_epoch(self, visit: Positions, labels: Vector, weights: Vector, step: Step, x: Vector, dual: Vector) -> Positions:
        return self.in_memory().balanced_epoch(visit, labels, weights, step, x, dual)

    def sdca_epoch(
        self, visit: Integers, labels: Vector, weights: Vector, squares: Vector, step: DualStep, x: Vector, state: DualState
    ) -> None:
        self.in_memory().sdca_epoch(visit, labels, weights, squares, step, x, state)

    # --- products of the ordered matrix

    def _weighted(self, scale: Vector, tol: float) -> torch_orders.TorchWeighted:
        return torch_orders.weighted(self, scale, tol)


def _in_memory(tensor: Any) -> DenseRows:
    part = tensor.cpu()
    return DenseRows((part.float() if part.dtype == torch.bfloat16 else part).numpy())


def _growth(part: Any, own: Any, S: Any) -> tuple[Any, Any]:
    """By how much |S|^2 grows with each row of the part, and the sum after all of them. Inside a block of the rows, <a, S> is that
    of the block's beginning, a cumulative sum over blocks, and what the block's own rows have added, by their Gram matrix.
    """
    count = len(part)
    size = min(_ROWS_A_BLOCK, count)
    lacking = -count % size
    A = torch.nn.functional.pad(part, (0, 0, 0, lacking)).reshape(-1, size, part.shape[1])
    u = torch.nn.functional.pad(own, (0, lacking)).reshape(-1, size)
    G = A @ A.mT
    sums = torch.cumsum(torch.cat([S[None], (u[:, None] @ A)[:, 0]]), 0)
    along = (A @ sums[:-1, :, None] + torch.tril(G, -1) @ u[:, :, None])[:, :, 0]
    growth = u * (2.0 * along + u * torch.diagonal(G, dim1=1, dim2=2))
    return growth.reshape(-1)[:count], sums[-1]
