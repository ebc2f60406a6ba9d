"""In which order samples are visited: RR (a new uniform permutation each epoch), SO (one, kept), IG (the file's order), balanced
(each epoch makes the next), or permutations of the user's own. A scheme is what has a name; an order is a scheme for n samples and
a seed.

The permutation of epoch k depends on the seed and on k alone: see `streams`. That of a balanced order depends on the run.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.orders.balancing import balanced
from reshuffle.orders.prefixes import discrepancy
from reshuffle.orders.streams import generator, permutation

__all__ = [
    "NAMES",
    "SCHEMES",
    "Order",
    "Permutations",
    "Scheme",
    "balanced",
    "describe",
    "discrepancy",
    "generator",
    "make_order",
    "permutation",
]

Permutations = Iterator[ArrayLike]


@dataclass(frozen=True)
class Scheme:
    """A way to make orders, and what can be said of them."""

    label: str  #: in plain words
    draw: Callable[[int, int, int], NDArray[np.int64]]  #: n, seed and epoch (from 0) to a permutation of 0..n-1
    fixed: bool = False  #: all epochs have the permutation of the first
    uniform: bool = False  #: each epoch's permutation is uniformly distributed, as Theorem 1 asks
    adaptive: bool = False  #: only the first epoch's is drawn; each epoch of a run makes that of the next


def _as_stored(n: int, seed: int, epoch: int) -> NDArray[np.int64]:
    return np.arange(n)


SCHEMES = {
    "rr": Scheme("a new random order each epoch", permutation, uniform=True),
    "so": Scheme("one random order for all epochs", permutation, fixed=True, uniform=True),
    "ig": Scheme("the order of the file", _as_stored, fixed=True),
    "balanced": Scheme("an order that each epoch makes for the next", permutation, adaptive=True),
}
NAMES = SCHEMES.keys()
_OWN = (permutation, _as_stored)
_GIVEN = Scheme("a given order", _as_stored, fixed=True)
_LISTED = Scheme("a list of orders, one for each epoch", _as_stored)
_ITERATOR = Scheme("an iterator of orders", _as_stored)


@dataclass(frozen=True, eq=False)
class Order:
    """A rule that gives each epoch its permutation of n samples."""

    name: str  #: one of `NAMES`, "given", "listed" or "iterator"
    n: int  #: samples
    seed: int
    scheme: Scheme
    #: the permutation of all epochs, for "given"; a row for each epoch, for "listed"; of the first epoch, for one that is adaptive
    given: NDArray[np.int64] | None = None
    iterator: Permutations | None = None  #: where the permutation of each epoch comes from, for "iterator"

    @property
    def repeatable(self) -> bool:
        """Whether it can be asked for any epoch at any time; an iterator cannot, nor an order that is made while running."""
        return self.iterator is None and not self.adaptive

    @property
    def fixed(self) -> bool:
        """Whether all epochs have the same permutation."""
        return self.scheme.fixed

    @property
    def count(self) -> int | None:
        """How many permutations there are: one for a fixed order, those of a list; None where every epoch may have another."""
        if self.fixed:
            return 1
        return len(self.given) if self.given is not None and not self.adaptive else None

    @property
    def uniform(self) -> bool:
        """Whether each epoch's permutation is uniformly distributed."""
        return self.scheme.uniform

    @property
    def adaptive(self) -> bool:
        """Whether each epoch of a run makes the permutation of the next."""
        return self.scheme.adaptive

    def permutation(self, epoch: int) -> NDArray[np.int64]:
        """The permutation of an epoch, counted from 0. An iterator gives its next one, whatever the epoch."""
        if self.iterator is not None:
            try:
                return _as_permutation(next(self.iterator), self.n)
            except StopIteration:
                raise ValueError(f"order gave {epoch} permutations; epoch {epoch + 1} needs one more") from None
        if self.adaptive and epoch > 0:
            raise ValueError(f"order={self.name!r} is made while a run goes on; only its first permutation can be asked for")
        if self.fixed or self.adaptive:
            return self._first
        if self.given is None:
            return self._draw(epoch)
        if epoch >= len(self.given):
            raise ValueError(f"order lists {len(self.given)} permutations; epoch {epoch + 1} needs one more")
        return self.given[epoch]  # type: ignore[no-any-return]

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        return self._draw(0) if self.given is None else self.given

    def _draw(self, epoch: int) -> NDArray[np.int64]:
        drawn = self.scheme.draw(self.n, self.seed, epoch)
        return drawn if self.scheme.draw in _OWN else _as_permutation(drawn, self.n)  # compiled loops index by it


def describe(name: str) -> str:
    """What an order of this name is, in plain words."""
    known = {**SCHEMES, "given": _GIVEN, "listed": _LISTED, "iterator": _ITERATOR}
    return known[name].label if name in known else name


def make_order(order: str | ArrayLike | Permutations | Order, n: int, seed: int) -> Order:
    """Read the `order` argument: one of `NAMES`, an array that holds each of 0..n-1 once, a list or an iterator of such arrays."""
    if isinstance(order, Order):
        if order.n != n:
            raise ValueError(f"order is one of {order.n} samples; the data has {n} rows")
        return order
    if isinstance(order, str):
        if order not in NAMES:
            raise ValueError(f"order={order!r} is not known; use one of {', '.join(NAMES)}, a permutation array or a list of them")
        return Order(order, n, seed, SCHEMES[order])
    if isinstance(order, Iterator):
        return Order("iterator", n, seed, _ITERATOR, iterator=order)
    if isinstance(order, list | tuple | np.ndarray) and len(order) and np.ndim(order[0]) == 1:
        return Order("listed", n, seed, _LISTED, given=np.array([_as_permutation(each, n) for each in order]))
    return Order("given", n, seed, _GIVEN, given=_as_permutation(order, n))


def _as_permutation(order: Any, n: int) -> NDArray[np.int64]:
    given: NDArray[Any] = np.asarray(order)
    if given.shape != (n,):
        raise ValueError(f"order has shape {given.shape}; a permutation of the {n} rows has shape ({n},)")
    whole = given.dtype.kind in "iu" and (n == 0 or (given.min() >= 0 and given.max() < n))
    if not whole or not (np.bincount(given.astype(np.int64), minlength=n) == 1).all():
        raise ValueError(f"order is not a permutation: it must hold each of the integers 0..{n - 1} once")
    return given.astype(np.int64)
