"""A problem ready to be passed over, epoch after epoch: one call runs Algorithm 1's inner loop in compiled code.

Data is read where it lies. Where every epoch visits it in the same order (SO, IG, a given permutation), sparse rows that the
order scatters are copied once into that order, if the copy is not large.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle import _passes
from reshuffle.losses.base import compiled
from reshuffle.orders import Order
from reshuffle.problem import Problem
from reshuffle.solver import _kernels

Vector = NDArray[np.float64]

_LARGEST_COPY = 1 << 30


class Passes:
    """Epochs over the samples of `problem`, in the permutations of `order`."""

    def __init__(self, problem: Problem, order: Order, batch_size: int) -> None:
        self._problem, self._order, self._batch_size = problem, order, batch_size
        self._derivative = compiled(problem.loss, "derivative")
        self._labels, self._weights = problem.labels, problem.sample_weight
        self._rows: Any = problem.csr if sp.issparse(problem.X) else (problem.X,)
        self._kept: NDArray[np.int64] | None = None
        if order.fixed and order.name != "ig" and sp.issparse(problem.X) and problem.X.data.nbytes <= _LARGEST_COPY:
            self._keep(order.permutation(0))

    def _keep(self, permutation: NDArray[np.int64]) -> None:
        """Lay the rows out in the order that all epochs share."""
        copy = tuple(np.empty_like(array) for array in self._rows)
        _passes.csr_gather(*self._rows, permutation, *copy)
        self._rows, self._kept, self._positions = copy, permutation, np.arange(permutation.size)
        self._labels, self._weights = self._labels[permutation], self._weights[permutation]

    def run(self, epoch: int, step: float, x: Vector, dual: Vector) -> None:
        """Epoch `epoch` (from 0), which changes x in place and leaves in `dual` the n dual values it saw."""
        problem = self._problem
        permutation = self._order.permutation(epoch)
        seen = dual if self._kept is None else np.empty_like(dual)
        visit = permutation if self._kept is None else self._positions
        rule = (self._batch_size, step, problem.l2, self._derivative, problem.loss.parameter)
        target = (x, problem.fit_intercept, seen)
        if sp.issparse(problem.X):
            scattered = self._kept is None and self._order.name != "ig"
            _kernels.csr_epoch(*self._rows, self._labels, self._weights, visit, scattered, *rule, *target)
        else:
            _kernels.dense_epoch(*self._rows, self._labels, self._weights, visit, *rule, *target)
        if self._kept is not None:
            dual[self._kept] = seen
