"""Products of the matrix, and of the ordered one, as kernels of a GPU's, in Triton. `rows.torch` says what they compute."""

from contextlib import nullcontext
from typing import Any

import torch
import triton
import triton.language as tl

# By measurement on an H200, over 60,000 x 784 to 1,000,000 x 768 of one to four bytes (`benchmarks/gpu.py`): one warp to a slice of
# the columns, eight rows in flight. Short chunks fill the machine, but what each sums to is written and read again.
_LENGTH, _UNROLL = 512, 8
_PASS = {"ROWS": 8, "COLUMNS": 128}  # of a tile: any shape from 4 x 1024 to 16 x 128 reads at the speed of a copy
_TILE = {"ORDERS": 8, "ROWS": 8, "COLUMNS": 128}  # 16 orders at once take 1.15 times as long for each, at 19,200 rows
_WIDTH, _WIDE = 512, 256  # columns of a slice: of one- and two-byte entries, and of longer ones


def _width(itemsize: int) -> int:
    return _WIDTH if itemsize <= 2 else _WIDE


def _length(n: int) -> int:
    """Rows of a chunk. It may end inside a batch."""
    return _LENGTH if n < 500_000 else 2 * _LENGTH


def state_size(n: int, d: int, itemsize: int) -> int:
    """Bytes that an order takes while it is multiplied: the sums of chunks, their prefix sums, and the parts of the product."""
    return 6 * (n // _LENGTH + 1) * d * itemsize + n * (d // _WIDE + 1) * itemsize


@triton.jit
def _chunk_sums(
    A, order, w, sums, n, d, batch_size, length, chunks,
    KIND: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    """sums[k, c] = (sum of t w a, sum of w a) over chunk c of order k, where t is the number of the batch, from 1."""
    c, k = tl.program_id(1), tl.program_id(2).to(tl.int64)
    columns = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = columns < d
    first = c * length
    stop = tl.minimum(first + length, n)
    order += k * n
    w += k * n
    weighted = tl.zeros([WIDTH], KIND)
    plain = tl.zeros([WIDTH], KIND)
    for begin in range(first, stop, UNROLL):
        for j in tl.static_range(UNROLL):
            p = begin + j
            row = tl.load(order + p, mask=p < stop, other=0).to(tl.int64)
            own = tl.load(w + p, mask=p < stop, other=0.0)
            a = own * tl.load(A + row * d + columns, mask=inside, other=0).to(KIND)
            plain += a
            weighted += (p // batch_size + 1).to(KIND) * a
    place = sums + (k * chunks + c) * 2 * d
    tl.store(place + columns, weighted, mask=inside)
    tl.store(place + d + columns, plain, mask=inside)


@triton.jit
def _chunk_products(
    A, order, w, state, out, n, d, batch_size, length, chunks, slices,
    KIND: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    """out[k, slice, p] = <a_p, q> over the columns of the slice; state[k, c] = (q, R) where chunk c begins."""
    c, k = tl.program_id(1), tl.program_id(2).to(tl.int64)
    columns = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = columns < d
    first = c * length
    stop = tl.minimum(first + length, n)
    order += k * n
    w += k * n
    out += (k * slices + tl.program_id(0)) * n
    place = state + (k * chunks + c) * 2 * d
    q = tl.load(place + columns, mask=inside, other=0.0)
    R = tl.load(place + d + columns, mask=inside, other=0.0)
    for begin in range(first, stop, UNROLL):
        for j in tl.static_range(UNROLL):
            p = begin + j
            row = tl.load(order + p, mask=p < stop, other=0).to(tl.int64)
            own = tl.load(w + p, mask=p < stop, other=0.0)
            a = tl.load(A + row * d + columns, mask=inside, other=0).to(KIND)
            tl.store(out + p, tl.sum(a * q), mask=p < stop)
            R -= own * a
            if ONE:
                q += R
            else:
                q += ((p + 1) % batch_size == 0).to(KIND) * R


def streamed(A: Any, orders: Any, w: Any, batch_size: int) -> Any:
    """sum_q min(t_p, t_q) <a_p, a_q> w_q for each position p of each order."""
    (count, n), d = orders.shape, A.shape[1]
    length, width = _length(n), _width(A.element_size())
    chunks, slices = triton.cdiv(n, length), triton.cdiv(d, width)
    options = {"KIND": tl.float64 if w.dtype == torch.float64 else tl.float32, "WIDTH": width, "UNROLL": _UNROLL, "num_warps": 1}
    sums = torch.empty((count, chunks, 2, d), dtype=w.dtype, device=w.device)
    grid = (slices, chunks, count)
    with torch.cuda.device(w.device) if w.is_cuda else nullcontext():
        _chunk_sums[grid](A, orders, w, sums, n, d, batch_size, length, chunks, **options)
        weighted, plain = sums.unbind(2)
        later = plain.flip(1).cumsum(1).flip(1)  # with those of the chunk itself
        t = (torch.arange(chunks, device=w.device) * length // batch_size + 1).to(w.dtype)
        state = torch.stack([weighted.cumsum(1) - weighted + t[:, None] * later, later], 2).contiguous()
        out = torch.empty((count, slices, n), dtype=w.dtype, device=w.device)
        _chunk_products[grid](A, orders, w, state, out, n, d, batch_size, length, chunks, slices, ONE=batch_size == 1, **options)
    return out.sum(1)


@triton.jit
def _reweighted(
    gram, t, w, out, n, count, KIND: tl.constexpr, ORDERS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """out[k, i] = sum_j min(t[k, i], t[k, j]) gram[i, j] w[k, j]: an entry of the matrix is read once for several orders. Sums over
    j stay apart until the end: adding them up in between takes twice as long.
    """
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    orders = (tl.program_id(1) * ORDERS + tl.arange(0, ORDERS)).to(tl.int64)
    here = (orders[:, None] < count) & (rows[None, :] < n)
    own = tl.load(t + orders[:, None] * n + rows[None, :], mask=here, other=0.0)[:, :, None]
    total = tl.zeros([ORDERS, ROWS, COLUMNS], KIND)
    for begin in range(0, n, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        there = (orders[:, None] < count) & (columns[None, :] < n)
        square = (rows[:, None] < n) & (columns[None, :] < n)
        g = tl.load(gram + rows[:, None].to(tl.int64) * n + columns[None, :], mask=square, other=0.0)
        others = tl.load(t + orders[:, None] * n + columns[None, :], mask=there, other=0.0)
        v = tl.load(w + orders[:, None] * n + columns[None, :], mask=there, other=0.0)
        total += tl.minimum(own, others[:, None, :]) * g[None, :, :] * v[:, None, :]
    tl.store(out + orders[:, None] * n + rows[None, :], tl.sum(total, axis=2), mask=here)


def reweighted(gram: Any, t: Any, w: Any) -> Any:
    """sum_j min(t_i, t_j) gram_ij w_j for each row i of each order."""
    count, n = w.shape
    out = torch.empty_like(w)
    kind = tl.float64 if w.dtype == torch.float64 else tl.float32
    grid = (triton.cdiv(n, _TILE["ROWS"]), triton.cdiv(count, _TILE["ORDERS"]))
    with torch.cuda.device(w.device) if w.is_cuda else nullcontext():
        _reweighted[grid](gram, t, w, out, n, count, KIND=kind, num_warps=2, **_TILE)
    return out


@triton.jit
def _margins(
    A, w, rows, out, n, d, SQUARES: tl.constexpr, LISTED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):  # fmt: skip
    """out[p] = <a, w> of the p-th row, or |a|^2, in float64."""
    places = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = places < n
    numbers = places
    if LISTED:
        numbers = tl.load(rows + places, mask=inside, other=0)
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    for begin in range(0, d, COLUMNS):
        columns = begin + tl.arange(0, COLUMNS)
        there = inside[:, None] & (columns[None, :] < d)
        a = tl.load(A + numbers[:, None] * d + columns[None, :], mask=there, other=0).to(tl.float64)
        if SQUARES:
            total += a * a
        else:
            total += a * tl.load(w + columns, mask=columns < d, other=0.0)[None, :]
    tl.store(out + places, tl.sum(total, axis=1), mask=inside)


def margins(A: Any, w: Any, rows: Any) -> Any:
    """<a, w> of all rows or of these, in float64; |a|^2 where w is None."""
    n, d = len(A) if rows is None else len(rows), A.shape[1]
    out = torch.empty(n, dtype=torch.float64, device=A.device)
    options = {"SQUARES": w is None, "LISTED": rows is not None, "num_warps": 4, **_PASS}
    with torch.cuda.device(A.device) if A.is_cuda else nullcontext():
        _margins[(triton.cdiv(n, _PASS["ROWS"]),)](A, A if w is None else w, A if rows is None else rows, out, n, d, **options)
    return out


@triton.jit
def _row_sums(
    A, v, rows, sums, n, d, length, LISTED: tl.constexpr, WIDTH: tl.constexpr, UNROLL: tl.constexpr
):  # fmt: skip
    """sums[c] = sum of v a over chunk c of the rows, in float64."""
    columns = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = columns < d
    c = tl.program_id(1).to(tl.int64)
    first = c * length
    stop = tl.minimum(first + length, n)
    total = tl.zeros([WIDTH], tl.float64)
    for begin in range(first, stop, UNROLL):
        for j in tl.static_range(UNROLL):
            p = begin + j
            row = tl.minimum(p, stop - 1)
            if LISTED:
                row = tl.load(rows + row)
            own = tl.load(v + p, mask=p < stop, other=0.0)
            total += own * tl.load(A + row * d + columns, mask=inside, other=0).to(tl.float64)
    tl.store(sums + c * d + columns, total, mask=inside)


def transposed(A: Any, v: Any, rows: Any) -> Any:
    """The sum of v a over all rows or over these, in float64."""
    n, d = len(v), A.shape[1]
    length, width = _length(n), _width(A.element_size())
    chunks = triton.cdiv(n, length)
    sums = torch.empty((chunks, d), dtype=torch.float64, device=A.device)
    options = {"LISTED": rows is not None, "WIDTH": width, "UNROLL": _UNROLL, "num_warps": 1}
    with torch.cuda.device(A.device) if A.is_cuda else nullcontext():
        _row_sums[(triton.cdiv(d, width), chunks)](A, v, A if rows is None else rows, sums, n, d, length, **options)
    return sums.sum(0)
