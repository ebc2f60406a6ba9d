"""Runs as they are made in practice, at steps far beyond what theorems allow, and the step that is worth taking there.

The practical step: the step of the theory is doubled for as long as runs in random orders end lower; the step that ends lowest is
taken, and halved for as long as f rises above where it started on the way. It is measured, not proved.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from math import inf, isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.epoch import Epoch
from reshuffle.optimum import Optimum
from reshuffle.orders import Order, make_order
from reshuffle.problem import Problem
from reshuffle.solver.run import DivergenceError
from reshuffle.solver.shuffled import Average, Sweep, run_epochs

EPOCHS = 30
LARGEST = 2_000_000  #: stored entries of the data, up to which runs are made on every row unasked
_MOST_DOUBLINGS = 24


@dataclass(frozen=True)
class Bench:
    """A problem on which runs are tried, with its optimum."""

    problem: Problem
    optimum: Optimum
    batch_size: int
    seed: int
    average: str = "epoch"
    epochs: int = EPOCHS

    @property
    def start_gap(self) -> float:
        """f(0) - min f."""
        return self.problem.objective(np.zeros(self.problem.dimension)) - self.optimum.f

    def gaps(self, order: Any, step: float, *, evaluate_every: int = 1) -> list[float]:
        """f - min f after each epoch, infinite where not known; fewer than all epochs where x left the finite numbers."""
        problem, rule = self.problem, make_order(order, self.problem.n, self.seed)
        x, dual, history = np.zeros(problem.dimension), np.zeros(problem.n), list[Epoch]()
        sweep, mean = Sweep(problem, rule, self.batch_size), Average(self.average, self.epochs, x.size)

        def evaluate(epoch: int) -> tuple[float | None, None]:  # without the certificate, which takes longer than the epoch
            return None if (epoch + 1) % evaluate_every else problem.objective(mean.point(x)), None

        with suppress(DivergenceError), np.errstate(over="ignore", invalid="ignore"):  # a step that is too large is no surprise
            steps = [step] * self.epochs
            run_epochs(x, steps, mean, history, lambda k, eta: sweep.run(k, eta, x, dual), evaluate, lambda record: False)
        return [inf if epoch.f is None or isnan(epoch.f) else epoch.f - self.optimum.f for epoch in history]

    def orders(self, order: Any, step: float, first: int) -> Iterator[NDArray[np.int64]]:
        """Those that a run makes for its epochs from `first` on, counted from 0."""
        x, dual = np.zeros(self.problem.dimension), np.zeros(self.problem.n)
        sweep = Sweep(self.problem, make_order(order, self.problem.n, self.seed), self.batch_size)
        for epoch in range(self.epochs):
            if epoch >= first and sweep.following is not None:
                yield sweep.following
            sweep.run(epoch, step, x, dual)

    def practical_multiple(self, step: float) -> int:
        """How many times the theory's step `step` the practical one is."""
        return self._calm(step, self._lowest(step))

    def _lowest(self, step: float) -> int:
        """The best of 1, 2, 4, ... times the step, until two in a row ended no lower than the best before them."""
        best, lowest, worse = 1, inf, 0
        for doublings in range(_MOST_DOUBLINGS):
            gaps = self.gaps(self._random, 2**doublings * step, evaluate_every=self.epochs)
            final = gaps[-1] if len(gaps) == self.epochs else inf
            best, lowest, worse = (2**doublings, final, 0) if final < lowest else (best, lowest, worse + 1)
            if worse == 2:
                break
        return best

    def _calm(self, step: float, multiple: int) -> int:
        """This multiple of the step, or the first half of it, half of that, ... at which f never rises above its start."""
        start_gap = self.start_gap
        while multiple > 1:
            gaps = self.gaps(self._random, multiple * step)
            if len(gaps) == self.epochs and max(gaps) <= start_gap:
                break
            multiple //= 2
        return multiple

    @property
    def _random(self) -> Order:
        return make_order("rr", self.problem.n, self.seed)
