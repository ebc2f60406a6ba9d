"""Every random order and vector of the algorithms, in one place. What is drawn depends on (seed, epoch, stream) and on nothing
else, so epochs can be computed in any order, on any number of threads, and again after a restart.

A random permutation is defined by sorting: row i gets the key splitmix64(s + (i + 1) g) >> 1, where s is 64 bits from
`SeedSequence(seed, spawn_key=(epoch, stream))` and g the golden ratio in 64 bits (Steele, Lea, Flood 2014), and rows are visited by
rising key. Keys know nothing of each other, so a GPU or a cluster makes the same permutation as fast as it can sort. Two of n keys
agree with probability n^2 / 2^64; the lower row then comes first.
"""

from enum import IntEnum
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from reshuffle.orders import kernels


class Stream(IntEnum):
    """What the random numbers of an epoch are for."""

    ORDER = 0  #: of rows, or of the blocks and shards that they lie in
    START = 1  #: of Lanczos, for an upper bound
    BATCH_START = 2  #: of Lanczos, one for each batch
    LOOK = 3  #: the first look at the whole matrix
    GROWING_BATCH = 4  #: rows of the batches that subsampled Newton steps see
    SAMPLE_OF_ROWS = 6  #: of a report on large data
    WITHIN = 7  #: of rows inside blocks, windows, pages and buffers
    RUN = 8  #: of shards, kept over all epochs: drawn for epoch 0
    RUN_WITHIN = 9  #: of rows inside shards, likewise
    SIZES = 10  #: of blocks
    SHIFTS = 11  #: how far rows move
    SKETCH = 12  #: of gradients, to few columns


def generator(seed: int, epoch: int, stream: Stream = Stream.ORDER) -> np.random.Generator:
    """The random numbers of an epoch, one stream for each purpose."""
    return np.random.default_rng(_sequence(seed, epoch, stream))


def permutation(n: int, seed: int, epoch: int, stream: Stream = Stream.ORDER) -> NDArray[np.int64]:
    """A uniformly random permutation of 0..n-1."""
    if n <= 1:
        return np.zeros(n, dtype=np.int64)
    order = np.empty(n, dtype=np.int64)
    kernels.sort_by_key(start(seed, epoch, stream), max(n.bit_length() - kernels.PART_BITS, 0), order)
    return order


def fractions(n: int, seed: int, epoch: int, stream: Stream) -> NDArray[np.float64]:
    """A number between 0 and 1 for each row: those below a share s are a random sample of about s n rows, found without a sort."""
    out = np.empty(n)
    kernels.fractions(start(seed, epoch, stream), out)
    return out


@lru_cache(maxsize=4096)
def start(seed: int, epoch: int, stream: Stream) -> np.uint64:
    """Where the compiled loops start to count, for an epoch and a purpose. Kept, as fits of many alphas, folds or classes ask for
    the same ones, and this takes as long as a pass over a few dozen rows.
    """
    return _sequence(seed, epoch, stream).generate_state(1, np.uint64)[0]  # type: ignore[no-any-return]


def _sequence(seed: int, epoch: int, stream: Stream) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(epoch, int(stream)))
