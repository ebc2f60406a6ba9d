"""An order as a sampler of PyTorch. Nothing else in the library imports torch."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    from torch.utils.data import Sampler
except ImportError:
    raise ImportError('a sampler for PyTorch needs torch: pip install "reshuffle[torch]"') from None

from reshuffle.orders import Order

_AT_ONCE = 1 << 16  # numbers that are made Python's own at a time: all of them would take four times the memory of the order


class OrderSampler(Sampler[int]):  # type: ignore[misc]
    """What `torch_sampler` returns."""

    def __init__(self, order: Order, rank: int, num_replicas: int, drop_last: bool) -> None:
        super().__init__()
        self.order, self.rank, self.num_replicas, self.drop_last = order, rank, num_replicas, drop_last
        visited = order.permutation(0).size
        self._length = visited // num_replicas if drop_last else -(-visited // num_replicas)
        if not self._length:
            raise ValueError(f"num_replicas={num_replicas} is larger than the {visited} samples of an epoch; use 1..{visited}")
        self._following, self._skipped = 0, 0  # the epoch of the next iterator, and where it starts
        self._epoch, self._position = 0, 0  # of the iterator that was started last
        self._latest: object | None = None  # that iterator; None where the next one goes on from elsewhere

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        """The samples of the next epoch, which is counted when the first one is asked for: a DataLoader drops some iterators."""
        epoch, first, this = self._following, self._skipped, object()
        self._epoch, self._position, self._latest = epoch, first, this
        self._following, self._skipped = epoch + 1, 0
        rows = self._rows(epoch)
        for low in range(first, rows.size, _AT_ONCE):
            for row in rows[low : low + _AT_ONCE].tolist():
                if self._latest is this:
                    self._position += 1
                yield row

    def _rows(self, epoch: int) -> NDArray[np.int64]:
        visited = self.order.permutation(epoch)
        return np.resize(visited, self._length * self.num_replicas)[self.rank :: self.num_replicas]

    @property
    def epoch(self) -> int:
        """Of the next iterator, counted from 0."""
        return self._following

    def set_epoch(self, epoch: int) -> None:
        """The next iterator is of this epoch, from its start; those after it count on from there."""
        self._following, self._skipped, self._latest = epoch, 0, None

    def state_dict(self, position: int | None = None) -> dict[str, Any]:
        """Where this rank is, for `load_state_dict`.

        position : how many samples of the epoch it has used; all that were asked for if not given. A DataLoader with workers asks
            ahead, so there it has to be given: batches so far times the batch size.
        """
        epoch, reached = self._following, self._skipped
        if self._latest is not None:
            epoch, reached = self._epoch, self._position if position is None else position
        ended = reached >= self._length
        return {**self._settings(), "epoch": epoch + ended, "position": 0 if ended else reached}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The next iterator goes on where the state was taken, by any of the ranks."""
        for name, value in self._settings().items():
            if state.get(name) != value:
                raise ValueError(
                    f"the state is of a sampler with {name}={state.get(name)!r}, this one has {value!r}; make it with the same"
                )
        self._following, self._skipped, self._latest = int(state["epoch"]), int(state["position"]), None

    def _settings(self) -> dict[str, Any]:
        order = self.order
        return {
            "order": order.name,
            "n": order.n,
            "seed": order.seed,
            "num_replicas": self.num_replicas,
            "drop_last": self.drop_last,
        }
