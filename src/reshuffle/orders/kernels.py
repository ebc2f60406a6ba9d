"""The compiled loops behind the orders. Random numbers are splitmix64 of a start and a counter (Steele, Lea, Flood 2014), so that a
loop needs no state but its own place, and every machine draws the same. There may be up to 2^32 rows.
"""

from typing import Any

import numpy as np

from reshuffle._compiled import jit

KEY_BITS, PART_BITS = 63, 12
_GOLDEN, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S1, _S11, _S27, _S30, _S31, _S32 = (np.uint64(s) for s in (1, 11, 27, 30, 31, 32))
_LOW = np.uint64(0xFFFFFFFF)


@jit()
def _bits(start: Any, i: int) -> Any:
    z = start + np.uint64(i + 1) * _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@jit()
def _key(start: Any, i: int) -> Any:
    return _bits(start, i) >> _S1


@jit()
def _below(start: Any, i: int, count: int) -> Any:
    """A number in 0..count-1: the whole part of count times a fraction of 64 bits, so none is likelier by more than 2^-32."""
    z, c = _bits(start, i), np.uint64(count)
    return np.int64(((z >> _S32) * c + (((z & _LOW) * c) >> _S32)) >> _S32)


@jit()
def _fraction(start: Any, i: int) -> float:
    return float(_bits(start, i) >> _S11) * 2.0**-53


@jit()
def fractions(start: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = _fraction(start, i)


@jit()
def sort_by_key(start: Any, bits: int, order: Any) -> None:
    """Rows by rising key, in linear time as keys are uniform: into parts by the top bits of the key, each small enough for the
    cache, then into buckets of about one row by the bits that follow, then by insertion. 12 ns a row, as NumPy's shuffle takes.
    """
    n, one = order.size, np.uint64(1)
    shift, inner_shift = np.uint64(KEY_BITS - bits), np.uint64(KEY_BITS - bits - PART_BITS)
    ends = np.zeros((1 << bits) + 1, dtype=np.int64)
    for i in range(n):
        ends[(_key(start, i) >> shift) + one] += 1
    largest = 0
    for part in range(1 << bits):
        largest = max(largest, ends[part + 1])
        ends[part + 1] += ends[part]
    rows = np.empty(n, dtype=np.int64)
    for i in range(n):
        part = _key(start, i) >> shift
        rows[np.uint64(ends[part])] = i
        ends[part] += 1
    keys, sorted_keys = np.empty(largest, dtype=np.uint64), np.empty(largest, dtype=np.uint64)
    inner, mask = np.empty((1 << PART_BITS) + 1, dtype=np.int32), np.uint64((1 << PART_BITS) - 1)
    low = 0
    for part in range(1 << bits):
        high = ends[part]
        inner[:] = 0
        for p in range(high - low):
            keys[p] = _key(start, rows[low + p])
            inner[((keys[p] >> inner_shift) & mask) + one] += 1
        for k in range(1 << PART_BITS):
            inner[k + 1] += inner[k]
        here = order[low:high]
        for p in range(high - low):
            bucket = (keys[p] >> inner_shift) & mask
            place = np.uint64(inner[bucket])
            inner[bucket] += 1
            sorted_keys[place], here[place] = keys[p], rows[low + p]
        for p in range(1, high - low):  # buckets are in order already, so no row moves out of its own
            key, row, q = sorted_keys[p], here[p], p - 1
            while q >= 0 and sorted_keys[q] > key:
                sorted_keys[q + 1], here[q + 1] = sorted_keys[q], here[q]
                q -= 1
            sorted_keys[q + 1], here[q + 1] = key, row
        low = high


@jit()
def is_permutation(order: Any) -> bool:
    """Whether each of 0..n-1 is there once."""
    seen = np.zeros(order.size, dtype=np.uint8)
    for row in order:
        if row < 0 or row >= order.size or seen[row]:
            return False
        seen[row] = 1
    return True


@jit()
def draw(start: Any, n: int, out: Any) -> None:
    """Rows of 0..n-1, each drawn from all of them."""
    for p in range(out.size):
        out[p] = _below(start, p, n)


@jit()
def signs(start: Any, first: int, out: Any) -> None:
    """Rows first, first + 1, ... of a matrix of random signs, 64 of them from one number."""
    rows, columns = out.shape
    numbers = (columns + 63) // 64
    for i in range(rows):
        for j in range(columns):
            z = _bits(start, (first + i) * numbers + j // 64)
            out[i, j] = 1.0 if (z >> np.uint64(j % 64)) & np.uint64(1) else -1.0


@jit()
def shuffle_within(start: Any, bounds: Any, values: Any) -> None:
    """Shuffle values[bounds[j] : bounds[j + 1]] for each j, after Fisher and Yates."""
    for j in range(bounds.size - 1):
        low = bounds[j]
        for p in range(bounds[j + 1] - 1, low, -1):
            q = low + _below(start, p, p - low + 1)
            values[p], values[q] = values[q], values[p]


@jit()
def join(source: Any, bounds: Any, order: Any, out: Any, ends: Any) -> None:
    """The pieces source[bounds[j] : bounds[j + 1]] in this order of j; `ends` is 0, then where each of them ends."""
    p = 0
    ends[0] = 0
    for k in range(order.size):
        for i in range(bounds[order[k]], bounds[order[k] + 1]):
            out[p] = source[i]
            p += 1
        ends[k + 1] = p


@jit()
def buffer(start: Any, source: Any, first: int, size: int, initial: int, out: Any) -> None:
    """A shuffle buffer that gives a random one of its rows for each row that it takes. The first leaves when `initial` rows are
    in; until the buffer holds `size`, it then takes two for one. `first` counts the draws of earlier buffers.
    """
    n, held, taken, p = source.size, 0, 0, 0
    slots = np.empty(min(size, n), dtype=np.int64)
    while p < n:
        for _ in range(2):
            if taken < n and held < size:
                slots[held] = source[taken]
                held += 1
                taken += 1
        if held >= initial or taken == n:
            q = _below(start, first + p, held)
            held -= 1
            out[p], slots[q] = slots[q], slots[held]
            p += 1


@jit()
def interleave(begins: Any, ends: Any, open_shards: int, out: Any) -> None:
    """One row from each open shard in turn. One that has ended misses its turn, and at its next the next shard is opened there."""
    places, limits = np.zeros(open_shards, dtype=np.int64), np.full(open_shards, -1)  # -1: nothing is open here
    p, slot, following = 0, 0, 0
    while p < out.size:
        if limits[slot] < 0 and following < begins.size:
            places[slot], limits[slot] = begins[following], ends[following]
            following += 1
        if places[slot] < limits[slot]:
            out[p] = places[slot]
            places[slot] += 1
            p += 1
        else:
            limits[slot] = -1
        slot = (slot + 1) % open_shards


@jit()
def deal(bounds: Any, source: Any, each: int, out: Any) -> None:
    """From each of the parts source[bounds[j] : bounds[j + 1]] in turn, the next `each` rows, as long as it has any."""
    places, p = bounds[:-1].copy(), 0
    while p < out.size:
        for j in range(places.size):
            for i in range(places[j], min(places[j] + each, bounds[j + 1])):
                out[p] = source[i]
                p += 1
            places[j] += each


@jit()
def from_open_pages(start: Any, pages: Any, size: int, rows: Any, open_pages: int, out: Any) -> None:
    """The next row of a random one of the open pages, again and again; where one has ended the next is opened. Page j has
    rows[j * size : (j + 1) * size].
    """
    n = rows.size
    places, limits = np.empty(open_pages, dtype=np.int64), np.empty(open_pages, dtype=np.int64)
    held, following = 0, 0
    for p in range(n):
        while held < open_pages and following < pages.size:
            places[held] = pages[following] * size
            limits[held] = min(places[held] + size, n)
            held += 1
            following += 1
        slot = _below(start, p, held)
        out[p] = rows[places[slot]]
        places[slot] += 1
        if places[slot] == limits[slot]:
            held -= 1
            places[slot], limits[slot] = places[held], limits[held]


@jit()
def block_bounds(start: Any, nodes: Any, low: int, high: int, out: Any) -> int:
    """Where blocks of random size end, cut at the ends of `nodes` too; the first of a node is cut short by 0..low-1. Sizes are
    uniform in low..high-1. Returns how many bounds there are, from 0 on.
    """
    count, draws = 1, 0
    out[0] = 0
    for j in range(nodes.size - 1):
        place = nodes[j] - _below(start, draws, low)
        draws += 1
        while place < nodes[j + 1]:
            place += low + _below(start, draws, high - low)
            draws += 1
            out[count] = min(place, nodes[j + 1])
            count += 1
    return count


@jit()
def spread(sizes: Any, starts: Any, nodes: Any, bounds: Any, low: int, high: int, source: Any, out: Any) -> None:
    """Move each row by a random distance, and list rows by where they are then. The rows of a piece, source[bounds[j] :
    bounds[j + 1]], stay within a range of random size in low..high-1 around the piece, and within its node.
    """
    n, node = source.size, 0
    places, counts = np.empty(n), np.zeros(n + 1, dtype=np.int64)
    for j in range(bounds.size - 1):
        begin, end = bounds[j], bounds[j + 1]
        while nodes[node + 1] <= begin and node + 2 < nodes.size:
            node += 1
        reach = max((low + _below(sizes, j, high - low) - (end - begin)) / 2.0, 0.0)
        left, right = -min(reach, float(begin - nodes[node])), min(reach, float(nodes[node + 1] - end))
        for p in range(begin, end):
            places[p] = p + left + _fraction(starts, p) * (right - left)
            counts[int(places[p]) + 1] += 1
    for p in range(n):
        counts[p + 1] += counts[p]
    moved = np.empty(n)
    for p in range(n):
        k = int(places[p])
        moved[counts[k]], out[counts[k]] = places[p], source[p]
        counts[k] += 1
    for p in range(1, n):  # about one row falls between two whole numbers, so each moves past a few at most
        place, row, q = moved[p], out[p], p - 1
        while q >= 0 and moved[q] > place:
            moved[q + 1], out[q + 1] = moved[q], out[q]
            q -= 1
        moved[q + 1], out[q + 1] = place, row
