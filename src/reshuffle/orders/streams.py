"""Every random order and vector of the algorithms, in one place. What is drawn depends on (seed, epoch, stream) and on nothing
else, so epochs can be computed in any order, on any number of threads, and again after a restart.

A random permutation is defined by sorting: row i gets the key splitmix64(s + (i + 1) g) >> 1, where s is 64 bits from
`SeedSequence(seed, spawn_key=(epoch, stream))` and g the golden ratio in 64 bits (Steele, Lea, Flood 2014), and rows are visited by
rising key. Keys know nothing of each other, so a GPU or a cluster makes the same permutation as fast as it can sort. Two of n keys
agree with probability n^2 / 2^64; the lower row then comes first.
"""

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle._compiled import jit

_KEY_BITS, _PART_BITS = 63, 12
_GOLDEN, _MIX_1, _MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S1, _S27, _S30, _S31 = (np.uint64(s) for s in (1, 27, 30, 31))


class Stream(IntEnum):
    """What the random numbers of an epoch are for."""

    ORDER = 0
    START = 1  #: of Lanczos, for an upper bound
    BATCH_START = 2  #: of Lanczos, one for each batch
    LOOK = 3  #: the first look at the whole matrix
    GROWING_BATCH = 4  #: rows of the batches that subsampled Newton steps see
    HEAVY_ROWS = 5  #: the second visit of a dual pass
    SAMPLE_OF_ROWS = 6  #: of a report on large data


def generator(seed: int, epoch: int, stream: Stream = Stream.ORDER) -> np.random.Generator:
    """The random numbers of an epoch, one stream for each purpose."""
    return np.random.default_rng(_sequence(seed, epoch, stream))


def permutation(n: int, seed: int, epoch: int, stream: Stream = Stream.ORDER) -> NDArray[np.int64]:
    """A uniformly random permutation of 0..n-1."""
    order, start = np.empty(n, dtype=np.int64), _sequence(seed, epoch, stream).generate_state(1, np.uint64)[0]
    _sort_by_key(start, max(n.bit_length() - _PART_BITS, 0), order)
    return order


def _sequence(seed: int, epoch: int, stream: Stream) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(epoch, int(stream)))


@jit()
def _key(start: Any, i: int) -> Any:
    z = start + np.uint64(i + 1) * _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return (z ^ (z >> _S31)) >> _S1


@jit()
def _sort_by_key(start: Any, bits: int, order: Any) -> None:
    """Rows by rising key, in linear time as keys are uniform: into parts by the top bits of the key, each small enough for the
    cache, then into buckets of about one row by the bits that follow, then by insertion. 12 ns a row, as NumPy's shuffle takes.
    """
    n, one = order.size, np.uint64(1)
    shift, inner_shift = np.uint64(_KEY_BITS - bits), np.uint64(_KEY_BITS - bits - _PART_BITS)
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
    inner, mask = np.empty((1 << _PART_BITS) + 1, dtype=np.int32), np.uint64((1 << _PART_BITS) - 1)
    low = 0
    for part in range(1 << bits):
        high = ends[part]
        inner[:] = 0
        for p in range(high - low):
            keys[p] = _key(start, rows[low + p])
            inner[((keys[p] >> inner_shift) & mask) + one] += 1
        for k in range(1 << _PART_BITS):
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
