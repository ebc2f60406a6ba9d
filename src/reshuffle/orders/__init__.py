"""In which order samples are visited: RR (a new uniform permutation each epoch), SO (one, kept), IG (the file's order), what the
loaders of known projects do (`schemes`), balanced (each epoch makes the next), or permutations of the user's own. A scheme is what
has a name; an order is a scheme for n samples and a seed.

The permutation of epoch k depends on the seed and on k alone: see `streams`. That of a balanced order depends on the run.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.orders import kernels, naming
from reshuffle.orders.balancing import balanced
from reshuffle.orders.naming import Family, Parameter, Scheme
from reshuffle.orders.prefixes import discrepancy, sketch
from reshuffle.orders.schemes import SAME, SCHEMES
from reshuffle.orders.schemes import as_stored as _as_stored
from reshuffle.orders.streams import generator, permutation
from reshuffle.validation import row_numbers
from reshuffle.validation import whole_number as _whole_number

if TYPE_CHECKING:
    from reshuffle.assessment import assess, smallest
    from reshuffle.orders.sampler import OrderSampler

__all__ = [
    "NAMES",
    "SCHEMES",
    "Family",
    "Order",
    "Parameter",
    "Permutations",
    "Scheme",
    "assess",
    "balanced",
    "describe",
    "discrepancy",
    "generator",
    "make_order",
    "permutation",
    "sketch",
    "smallest",
    "torch_sampler",
]

Permutations = Iterator[ArrayLike]


def __getattr__(name: str) -> Any:
    """What asks how good an order is rests on problems and the solver, and is loaded when it is called for."""
    if name in ("assess", "smallest"):
        return getattr(import_module("reshuffle.assessment"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


NAMES = SCHEMES.keys()
_OWN = (permutation, _as_stored)
_GIVEN = Scheme("a given order", _as_stored, fixed=True)
_LISTED = Scheme("a list of orders, one for each epoch", _as_stored)
_ITERATOR = Scheme("an iterator of orders", _as_stored)


@dataclass(frozen=True, eq=False)
class Order:
    """A rule that gives each epoch its permutation of n samples."""

    name: str  #: as `SCHEMES` has it, with its numbers if it has any; or "given", "listed" or "iterator"
    n: int  #: samples
    seed: int
    scheme: Scheme
    #: the permutation of all epochs, for "given"; a row for each epoch, for "listed"; of the first epoch, for one that is adaptive
    given: NDArray[np.int64] | None = None
    iterator: Permutations | None = None  #: where the permutation of each epoch comes from, for "iterator"

    def __post_init__(self) -> None:
        if self.given is not None:
            for permutation in np.atleast_2d(self.given):
                self._checked(permutation)

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
    def permutes(self) -> bool:
        """Whether an epoch visits each sample once. If not, some come twice or never, and no theorem speaks of it."""
        return self.scheme.permutes

    @property
    def adaptive(self) -> bool:
        """Whether each epoch of a run makes the permutation of the next."""
        return self.scheme.adaptive

    def permutation(self, epoch: int) -> NDArray[np.int64]:
        """The permutation of an epoch, counted from 0; where the order does not permute, the samples that it visits, in order. An
        iterator gives its next one, whatever the epoch.
        """
        epoch = _whole_number("epoch", epoch, 0)
        if self.iterator is not None:
            try:
                return _as_permutation(next(self.iterator), self.n)
            except StopIteration:
                raise ValueError(f"order gave {epoch} permutations; epoch {epoch + 1} needs one more") from None
        if self.adaptive and epoch > 0:
            raise ValueError(f"order={self.name!r} is made while a run goes on; only its first permutation can be asked for")
        if self.fixed or self.adaptive:
            return self._checked(self._first)  # which others hold too, and may have changed
        if self.given is None:
            return self._draw(epoch)
        if epoch >= len(self.given):
            raise ValueError(f"order lists {len(self.given)} permutations; epoch {epoch + 1} needs one more")
        return self._checked(self.given[epoch])

    def only(self, epoch: int) -> "Order":
        """The order of one epoch, for all."""
        return Order("given", self.n, self.seed, replace(_GIVEN, permutes=self.permutes), given=self.permutation(epoch))

    @cached_property
    def _first(self) -> NDArray[np.int64]:
        return self._draw(0) if self.given is None else self.given

    def _draw(self, epoch: int) -> NDArray[np.int64]:
        drawn = self.scheme.draw(self.n, self.seed, epoch)
        return drawn if self.scheme.draw in _OWN else self._checked(drawn)

    def _checked(self, rows: Any) -> NDArray[np.int64]:
        """What compiled loops index by."""
        return _as_permutation(rows, self.n) if self.permutes else row_numbers("what order gave", rows, self.n)


def describe(name: str) -> str:
    """What an order of this name is, in plain words."""
    known = {"given": _GIVEN, "listed": _LISTED, "iterator": _ITERATOR}
    if name in known:
        return known[name].label
    try:
        _, entry, values = naming.read(name, SCHEMES, SAME)
    except ValueError:  # a result may outlive the entry that it was made with
        return name
    return naming.words(entry, values)


def make_order(order: str | ArrayLike | Permutations | Order, n: int, seed: int) -> Order:
    """Read the `order` argument: a name, an array that holds each of 0..n-1 once, a list or an iterator of such arrays. Names are
    the words of `SCHEMES`, with the numbers of a family behind them: "rr", "buffer:1000", "blocks:256/window:16".
    """
    if isinstance(order, Order):
        if order.n != n:
            raise ValueError(f"order is one of {order.n} samples; the data has {n} rows")
        return order
    if isinstance(order, str):
        name, entry, values = naming.read(order, SCHEMES, SAME)
        return Order(name, n, seed, naming.scheme_for(order, entry, values, n))
    if isinstance(order, Iterator):
        return Order("iterator", n, seed, _ITERATOR, iterator=order)
    if isinstance(order, list | tuple | np.ndarray) and len(order) and np.ndim(order[0]) == 1:
        return Order("listed", n, seed, _LISTED, given=np.array([_as_permutation(each, n) for each in order]))
    return Order("given", n, seed, _GIVEN, given=_as_permutation(order, n).copy())  # the caller's may change


def torch_sampler(
    order: str | ArrayLike | Order,
    n: int,
    *,
    seed: int = 0,
    rank: int = 0,
    num_replicas: int = 1,
    drop_last: bool = False,
) -> "OrderSampler":
    """A sampler for PyTorch's DataLoader that visits n samples in this order. Each new pass over it is the next epoch; nothing has
    to be called for that, and `set_epoch` is there for those who do.

    order : a name, a permutation array, a list of them or an `Order`.
    seed : of random orders, the same on all ranks.
    rank : of this process, in 0..num_replicas-1. Every rank takes each num_replicas-th sample of the one order.
    num_replicas : how many processes train together.
    drop_last : where they cannot share an epoch evenly, leave out what is over; if not, the first samples come again.

    `state_dict()` and `load_state_dict(state)` go on in the midst of an epoch. Needs torch.
    """
    from reshuffle.orders.sampler import OrderSampler

    n, seed = _whole_number("n", n, 1), _whole_number("seed", seed, 0)
    num_replicas = _whole_number("num_replicas", num_replicas, 1)
    rank = _whole_number("rank", rank, 0, num_replicas - 1, "of the last rank")
    rule = make_order(order, n, seed)
    if not rule.repeatable:
        what = "is an iterator" if rule.iterator is not None else f"{rule.name!r} is made while a run goes on"
        raise ValueError(f"order {what}: it cannot be asked for an epoch; use another name, an array or a list of arrays")
    return OrderSampler(rule, rank, num_replicas, drop_last)


def _as_permutation(order: Any, n: int) -> NDArray[np.int64]:
    given: NDArray[Any] = np.asarray(order)
    if given.shape != (n,):
        raise ValueError(f"order has shape {given.shape}; a permutation of the {n} rows has shape ({n},)")
    rows = np.ascontiguousarray(given, dtype=np.int64) if given.dtype.kind in "iu" else None
    if rows is None or not kernels.is_permutation(rows):
        raise ValueError(f"order is not a permutation: it must hold each of the integers 0..{n - 1} once")
    return rows
