"""In which order samples are visited: RR (a new uniform permutation each epoch), SO (one, kept), IG (the file's order),
or any permutation of the user's own.

The permutation of epoch k depends on the seed and on k alone: see `streams`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.orders.streams import permutation

NAMES = ("rr", "so", "ig")
Permutations = Iterator[ArrayLike]


@dataclass(frozen=True, eq=False)
class Order:
    """A rule that gives each epoch its permutation of n samples."""

    name: str  #: "rr", "so", "ig", "given" or "iterator"
    n: int  #: samples
    seed: int
    given: NDArray[np.int64] | None = None  #: the permutation of all epochs, for "given"
    iterator: Permutations | None = None  #: where the permutation of each epoch comes from, for "iterator"

    @property
    def random(self) -> bool:
        """Whether each epoch draws its own permutation."""
        return self.name == "rr"

    @property
    def fixed(self) -> bool:
        """Whether all epochs have the same permutation."""
        return self.name in ("so", "ig", "given")

    def permutation(self, epoch: int) -> NDArray[np.int64]:
        """The permutation of an epoch, counted from 0. An iterator gives its next one, whatever the epoch."""
        if self.given is not None:
            return self.given
        if self.iterator is not None:
            try:
                return _as_permutation(next(self.iterator), self.n)
            except StopIteration:
                raise ValueError(f"order gave {epoch} permutations; epoch {epoch + 1} needs one more") from None
        if self.name == "ig":
            return np.arange(self.n)
        return permutation(self.n, self.seed, epoch if self.random else 0)


def make_order(order: str | ArrayLike | Permutations | Order, n: int, seed: int) -> Order:
    """Read the `order` argument: one of `NAMES`, an array that holds each of 0..n-1 once, or an iterator of such arrays."""
    if isinstance(order, Order):
        return order
    if isinstance(order, str):
        if order not in NAMES:
            raise ValueError(f"order={order!r} is not known; use one of {', '.join(NAMES)} or a permutation array")
        return Order(order, n, seed)
    if isinstance(order, Iterator):
        return Order("iterator", n, seed, iterator=order)
    return Order("given", n, seed, _as_permutation(order, n))


def _as_permutation(order: Any, n: int) -> NDArray[np.int64]:
    given: NDArray[Any] = np.asarray(order)
    if given.shape != (n,):
        raise ValueError(f"order has shape {given.shape}; a permutation of the {n} rows has shape ({n},)")
    if given.dtype.kind not in "iu" or not np.array_equal(np.sort(given), np.arange(n)):
        raise ValueError(f"order is not a permutation: it must hold each of the integers 0..{n - 1} once")
    return given.astype(np.int64)
