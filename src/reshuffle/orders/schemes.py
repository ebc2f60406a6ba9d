"""All orders that have a name: what the loaders of known projects do with n rows, as pure functions of n, seed and epoch. Beside
each stands whose it is. They follow the documents and the code of those projects in what they do, not in the random numbers.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.orders import kernels
from reshuffle.orders.naming import Family, Parameter, Scheme
from reshuffle.orders.streams import Stream, permutation, start

Integers = NDArray[np.int64]


def as_stored(n: int, seed: int, epoch: int) -> Integers:
    return np.arange(n)


def _there_and_back(n: int, seed: int, epoch: int) -> Integers:
    forth = permutation(n, seed, epoch // 2)
    return forth if epoch % 2 == 0 else forth[::-1].copy()


def _with_replacement(n: int, seed: int, epoch: int) -> Integers:
    out = np.empty(n, dtype=np.int64)
    kernels.draw(start(seed, epoch, Stream.ORDER), n, out)
    return out


# --- a buffer, windows, blocks


def _buffer(label: str, n: int, size: int, initial: int) -> Scheme:
    def draw(n: int, seed: int, epoch: int) -> Integers:
        return _buffered(np.arange(n), np.array([0, n]), size, initial, seed, epoch)

    return Scheme(label, draw, fixed=size == 1, uniform=(initial or size) >= n)


def _buffered(rows: Integers, bounds: Integers, size: int, initial: int, seed: int, epoch: int) -> Integers:
    """A buffer for each part rows[bounds[j] : bounds[j + 1]]. Without `initial`, the first row leaves it when it is full."""
    if size == 1:
        return rows
    out, begin = np.empty_like(rows), start(seed, epoch, Stream.WITHIN)
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        kernels.buffer(begin, rows[low:high], low, size, min(initial or size, size), out[low:high])
    return out


def _shuffled_within(rows: Integers, bounds: Integers, seed: int, epoch: int, stream: Stream = Stream.WITHIN) -> Integers:
    kernels.shuffle_within(start(seed, epoch, stream), bounds, rows)
    return rows


def _windows(label: str, n: int, rows: int) -> Scheme:
    def draw(n: int, seed: int, epoch: int) -> Integers:
        return _shuffled_within(np.arange(n), _every(rows, n), seed, epoch)

    return Scheme(label, draw, fixed=rows == 1, uniform=rows == n)


def _joined(rows: Integers, bounds: Integers, order: Integers) -> tuple[Integers, Integers]:
    """The pieces rows[bounds[j] : bounds[j + 1]] in this order of j, and where each of them begins; n last."""
    out, ends = np.empty_like(rows), np.empty_like(bounds)
    kernels.join(rows, bounds, order, out, ends)
    return out, ends


def _every(size: int, n: int) -> Integers:
    """0, size, 2 size, ..., n."""
    return np.append(np.arange(0, n, size), n)


def _blocks(label: str, n: int, rows: int, window: int) -> Scheme:
    def draw(n: int, seed: int, epoch: int) -> Integers:
        out, ends = _joined(np.arange(n), _every(rows, n), permutation(-(-n // rows), seed, epoch))
        return _shuffled_within(out, np.append(ends[:-1:window], n), seed, epoch) if window else out

    return Scheme(label, draw, fixed=rows == n and not window, uniform=rows == 1 or window * rows >= n)


def by_blocks(rows: Integers, bounds: NDArray[Any], seed: int, epoch: int, stream: Stream, within: Stream) -> Integers:
    """Rising row numbers, cut where blocks of rows begin: blocks in a random order, rows inside shuffled."""
    if bounds.size == 2:  # of one block there is nothing to put in order
        return _shuffled_within(rows, np.array([0, rows.size]), seed, epoch, within)
    cuts = np.searchsorted(rows, bounds.astype(rows.dtype))  # of another type, NumPy would copy all rows first
    out, ends = _joined(rows, cuts, permutation(bounds.size - 1, seed, epoch, stream))
    return _shuffled_within(out, ends, seed, epoch, within)


# --- shards


def _shard_bounds(n: int, shards: int) -> Integers:
    """Shards of n / shards rows, as even as they can be."""
    return np.arange(shards + 1) * n // shards


def _read(
    n: int, seed: int, epoch: int, *, shards: int, own: bool, open_shards: int, size: int, initial: int, workers: int, batch: int
) -> Integers:
    """Each worker reads its shards in a random order, a few at a time, through a buffer; batches come from the workers in turn.
    `own`: a worker has the same shards in all epochs; if not, shards are put in order first and dealt out then.
    """
    bounds, order = _shard_bounds(n, shards), permutation(shards, seed, epoch)
    numbers = order if own else np.arange(shards)
    shares = [order[numbers % workers == w] for w in range(workers)] if workers > 1 else [order]
    places = np.append(0, np.cumsum([np.sum(bounds[mine + 1] - bounds[mine]) for mine in shares]))
    rows = np.empty(n, dtype=np.int64)
    for mine, low, high in zip(shares, places[:-1], places[1:], strict=True):
        kernels.interleave(bounds[mine], bounds[mine + 1], open_shards, rows[low:high])
    rows = _buffered(rows, places, size, initial, seed, epoch)
    if workers == 1:
        return rows
    out = np.empty_like(rows)
    kernels.deal(places, rows, batch, out)
    return out


def _shards(label: str, n: int, shards: int, open_shards: int, size: int, workers: int, batch: int) -> Scheme:
    how = {"open_shards": open_shards, "size": size, "initial": 0, "workers": workers, "batch": batch}
    draw, uniform = partial(_read, shards=shards, own=False, **how), shards == n or (workers == 1 and size >= n)
    return Scheme(label, draw, fixed=shards == 1 and size == 1, uniform=uniform)


def _webdataset(label: str, n: int, shards: int, size: int, initial: int, workers: int, batch: int) -> Scheme:
    how = {"open_shards": 1, "size": size, "initial": min(initial, size), "workers": workers, "batch": batch}
    draw, uniform = partial(_read, shards=shards, own=True, **how), workers == 1 and (shards == n or min(initial, size) >= n)
    return Scheme(label, draw, fixed=shards == 1 and size == 1, uniform=uniform)


def _ffcv(label: str, n: int, rows: int, open_pages: int) -> Scheme:
    def draw(n: int, seed: int, epoch: int) -> Integers:
        shuffled = _shuffled_within(np.arange(n), _every(rows, n), seed, epoch)
        out = np.empty(n, dtype=np.int64)
        pages = permutation(-(-n // rows), seed, epoch)
        kernels.from_open_pages(start(seed, epoch, Stream.SHIFTS), pages, rows, shuffled, open_pages, out)
        return out

    return Scheme(label, draw, uniform=rows in (1, n))


# --- MosaicML Streaming


def _streaming(
    n: int, seed: int, epoch: int, *, shards: int, nodes: int, block: int, twice: bool = False, spread: bool = False
) -> Integers:
    """Shards in an order that is kept for all epochs are cut into a part for each node; each epoch, the pieces of a node are put in
    a new order, and rows are shuffled inside pieces, or inside blocks of random size, or spread; nodes are then read in turn.
    """
    rows, laid = _joined(np.arange(n), _shard_bounds(n, shards), permutation(shards, seed, 0, Stream.RUN))
    parts = _shard_bounds(n, nodes)
    if twice:
        _shuffled_within(rows, laid, seed, 0, Stream.RUN_WITHIN)
    inside = parts[laid[np.searchsorted(laid, parts)] != parts]  # nodes end in the midst of these shards
    cuts = np.insert(laid, np.searchsorted(laid, inside), inside)
    pieces, first = np.arange(cuts.size - 1), np.searchsorted(cuts, parts)
    _shuffled_within(pieces, first, seed, epoch, Stream.ORDER)
    out, ends = _joined(rows, cuts, pieces)
    low, high = 3 * block // 4, 5 * block // 4
    if not block or spread:
        _shuffled_within(out, ends, seed, epoch)
    if spread:
        moved, of_sizes, of_shifts = rows, start(seed, epoch, Stream.SIZES), start(seed, epoch, Stream.SHIFTS)
        kernels.spread(of_sizes, of_shifts, parts, ends, low, high, out, moved)
        out = moved
    elif block:
        found = np.empty(n // low + 2 * nodes + 1, dtype=np.int64)
        count = kernels.block_bounds(start(seed, epoch, Stream.SIZES), parts, low, high, found)
        _shuffled_within(out, found[:count], seed, epoch)
    if nodes == 1:
        return out
    dealt = np.empty_like(out)
    kernels.deal(parts, out, 1, dealt)
    return dealt


def _py1s(label: str, n: int, shards: int, nodes: int) -> Scheme:
    return Scheme(label, partial(_streaming, shards=shards, nodes=nodes, block=0), uniform=nodes == 1 and shards in (1, n))


def _py2s(label: str, n: int, shards: int, nodes: int) -> Scheme:
    draw = partial(_streaming, shards=shards, nodes=nodes, block=0, twice=True)
    return Scheme(label, draw, uniform=nodes == 1 and shards in (1, n))


def _py1br(label: str, n: int, shards: int, nodes: int, block: int) -> Scheme:
    return Scheme(label, partial(_streaming, shards=shards, nodes=nodes, block=block), uniform=nodes == 1 and shards == n)


def _py1e(label: str, n: int, shards: int, nodes: int, block: int) -> Scheme:
    draw = partial(_streaming, shards=shards, nodes=nodes, block=block, spread=True)
    return Scheme(label, draw, uniform=nodes == 1 and shards in (1, n))


# --- several processes


def _distributed(label: str, n: int, ranks: int, drop: int) -> Scheme:
    """Rank r of R takes every R-th row of one random order from r on, so a step of all ranks takes the next rows of that order."""
    length = n // ranks * ranks if drop else -(-n // ranks) * ranks

    def draw(n: int, seed: int, epoch: int) -> Integers:
        return np.resize(permutation(n, seed, epoch), length)

    whole = length == n
    return Scheme(label, draw, uniform=whole, permutes=whole)


_SHARDS = Parameter("how many shards the rows lie in", at_most="rows")
_BATCH = Parameter("rows that are taken from one worker before the next one's", default=1)
_NODES = Parameter("canonical nodes, which are read side by side", default=1, at_most="rows")
_BLOCK = Parameter("rows of a block, in the mean", default=1 << 18, smallest=2)

#: Every order that has a name; an entry is all that a new one needs.
SCHEMES: dict[str, Scheme | Family] = {
    # PyTorch DataLoader(shuffle=True), scikit-learn's SGD, Streaming's "naive"
    "rr": Scheme("a new random order each epoch", permutation, uniform=True),
    # data that was shuffled once, when it was written
    "so": Scheme("one random order for all epochs", permutation, fixed=True, uniform=True),
    # a DataLoader without shuffle, Vowpal Wabbit
    "ig": Scheme("the order of the file", as_stored, fixed=True),
    # Lu, Guo, De Sa 2022 (GraB), with the dual values in place of stored gradients: see `balancing`.
    "balanced": Scheme("an order that each epoch makes for the next", permutation, adaptive=True),
    # flip-flop: Rajput, Lee, Papailiopoulos 2022
    "paired": Scheme("a random order, then its reverse", _there_and_back, uniform=True),
    # PyTorch RandomSampler(replacement=True), and the SGD of most theory
    "replacement": Scheme("every row drawn from all rows", _with_replacement, permutes=False),
    # tf.data shuffle(buffer_size), Hugging Face IterableDataset.shuffle(buffer_size) of one shard; with `initial`, WebDataset's
    "buffer": Family(
        "a shuffle buffer of {buffer} rows",
        {
            "buffer": Parameter("rows that it holds"),
            "initial": Parameter("rows that are in it when the first one leaves; all if not given", default=0, at_most="buffer"),
        },
        _buffer,
    ),
    # Grain's WindowShuffleMapDataset(window_size), Levanter's era_length
    "windows": Family(
        "windows of {rows} rows, each shuffled",
        {"rows": Parameter("rows of a window, the last may have fewer", at_most="rows")},
        _windows,
    ),
    # Keras fit(shuffle="batch") without a window; CorgiPile and Levanter's BlockShuffleConfig with one
    "blocks": Family(
        "blocks of {rows} rows in a random order",
        {
            "rows": Parameter("rows of a block, the last may have fewer", at_most="rows"),
            "window": Parameter("blocks that are shuffled together; inside a block the order is kept if not given", default=0),
        },
        _blocks,
    ),
    # tf.data's interleave(cycle_length) and shuffle over files; with open 1, Hugging Face IterableDataset.shuffle and a DataLoader
    "shards": Family(
        "{shards} shards in a random order",
        {
            "shards": _SHARDS,
            "open": Parameter("shards that are read in turn, a row from each", default=1, at_most="shards"),
            "buffer": Parameter("rows of the shuffle buffer behind them", default=1),
            "workers": Parameter("workers, each with its shards and its buffer", default=1, at_most="shards"),
            "batch": _BATCH,
        },
        _shards,
    ),
    # WebDataset(shardshuffle=True).shuffle(buffer, initial) in a DataLoader: a worker keeps its shards, in an order of each epoch
    "webdataset": Family(
        "WebDataset with {shards} shards and a buffer of {buffer} rows",
        {
            "shards": _SHARDS,
            "buffer": Parameter("rows of the shuffle buffer", default=1000),
            "initial": Parameter("rows that are in it when the first one leaves", default=100),
            "workers": Parameter("workers of the DataLoader", default=1, at_most="shards"),
            "batch": _BATCH,
        },
        _webdataset,
    ),
    # FFCV's OrderOption.QUASI_RANDOM, which opens twice as many pages as the batch has samples
    "ffcv": Family(
        "pages of {rows} rows, {open} of them open at a time",
        {
            "rows": Parameter("rows of a page, the last may have fewer", at_most="rows"),
            "open": Parameter("pages that are open, from which rows are taken at random"),
        },
        _ffcv,
    ),
    # MosaicML Streaming, StreamingDataset(shuffle_algo=..., num_canonical_nodes, shuffle_block_size)
    "py1s": Family("Streaming's py1s over {shards} shards", {"shards": _SHARDS, "nodes": _NODES}, _py1s),
    "py2s": Family("Streaming's py2s over {shards} shards", {"shards": _SHARDS, "nodes": _NODES}, _py2s),
    "py1br": Family("Streaming's py1br over {shards} shards", {"shards": _SHARDS, "nodes": _NODES, "block": _BLOCK}, _py1br),
    "py1e": Family("Streaming's py1e over {shards} shards", {"shards": _SHARDS, "nodes": _NODES, "block": _BLOCK}, _py1e),
    # PyTorch DistributedSampler(drop_last), as the global batch sees it
    "distributed": Family(
        "{ranks} ranks with one random order each epoch",
        {
            "ranks": Parameter("processes that take rows in turn", at_most="rows"),
            "drop": Parameter("1 leaves out the rows that are over; if not given, the first rows come again", default=0, at_most=1),
        },
        _distributed,
    ),
}

#: Other words for some of them; results have the word on the right.
SAME = {"file": "ig"}
