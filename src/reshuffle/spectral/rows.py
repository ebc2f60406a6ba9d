"""The rows of Λ^{1/2}A, and products with the two Gram matrices of them whose norms the constants are.

`arrange(order, b)` puts the rows into a visiting order and answers with an `Arranged`, which multiplies by
    ordered   [min(t_p, t_q) <a_p, a_q>]_{pq}           (Lhat, Ghat; t_p = p // b + 1 is the batch of position p)
    batched   [<a_p, a_q> if p, q share a batch]_{pq}   (Ltil, Gtil; with one batch, the whole Gram matrix)
Neither n x n matrix is formed, except where n is so small against the data that one Gram matrix serves every order.
Three bodies: CSR, dense, Gram. A body on disk, on a cluster or on a GPU needs `arrange` and no more.
"""

import threading
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle import _passes
from reshuffle.problem import Problem
from reshuffle.spectral import _kernels

Vector = NDArray[np.float64]
Integers = NDArray[np.integer[Any]]

# Sparse data is copied into visiting order where the copy is small, or where two threads that make one keep all that is
# held within three times the CSR arrays. The number of threads must not enter: the layout decides how sums round.
_SMALL_COPY, _LARGEST_COPY = 8 << 20, 1 << 30
_BYTES_A_ROW_AND_THREAD = 44
_BYTES_A_ROW_SHARED = 48

# Forming the Gram matrix costs about n products of level 3 speed, which permutations then share. How many there are must not
# enter, for the same reason.
_LARGEST_GRAM = 1024


class Arranged(Protocol):
    """Rows in a visiting order. Vectors have one entry a row, in a layout that is the body's own choice."""

    visit: Integers  #: the layout's row at each position of the order

    def ordered(self, v: Vector, out: Vector) -> None: ...

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        """Products with the Gram matrix of each batch members[starts[g]:starts[g + 1]]; v, out are aligned with members."""


class Rows(Protocol):
    squared_norms: Vector

    def arrange(self, order: Integers, batch_size: int) -> Arranged: ...

    def whole(self) -> Arranged:
        """The rows as they lie, in a single batch: `ordered` is then the plain Gram matrix."""


def make_rows(problem: Problem, scale: Vector) -> Rows:
    """The body that suits the data: rows scale_i * [a_i, 1 if there is an intercept]."""
    n, sparse = problem.n, sp.issparse(problem.X)
    entries = problem.X.nnz if sparse else problem.X.size
    if n * n <= entries and n <= _LARGEST_GRAM:
        return GramRows(problem, scale)
    return CsrRows(problem, scale) if sparse else DenseRows(problem, scale)


def batch_starts(n: int, batch_size: int) -> NDArray[np.int64]:
    """Where each batch begins, then n. The last batch may be short."""
    return np.append(np.arange(0, n, batch_size), n)


class CsrRows:
    """Sparse rows, copied into visiting order where the copy fits, read in place where it does not."""

    def __init__(self, problem: Problem, scale: Vector) -> None:
        self.width, self.csr = problem.d, problem.csr
        self.scale, self.ones = scale, float(problem.fit_intercept)
        self.squared_norms = scale**2 * problem.squared_norms()
        self._in_place = np.arange(problem.n)
        self._copy_types = self._smallest_exact_types()
        self._copies = self._copy_fits()
        self._of_thread = threading.local()

    def _smallest_exact_types(self) -> tuple[np.dtype[Any], np.dtype[Any]]:
        _, indices, values = self.csr
        block = 1 << 16
        blocks = (values[start : start + block] for start in range(0, values.size, block))
        single = all(np.array_equal(part.astype(np.float32), part) for part in blocks)
        index_type = np.dtype(np.uint16) if self.width <= 2**16 else indices.dtype
        return index_type, np.dtype(np.float32 if single else np.float64)

    def _copy_fits(self) -> bool:
        indptr, _, values = self.csr
        n = indptr.size - 1
        copy = indptr.nbytes + values.size * sum(kind.itemsize for kind in self._copy_types)
        two_threads = 2 * (copy + n * _BYTES_A_ROW_AND_THREAD) + n * _BYTES_A_ROW_SHARED
        fits = two_threads <= 2 * sum(array.nbytes for array in self.csr)
        return int(copy) <= (_LARGEST_COPY if fits else _SMALL_COPY)

    def whole(self) -> "_ArrangedCsr":
        return _ArrangedCsr(self.csr, self.scale, self, self._in_place, self._in_place.size)

    def arrange(self, order: Integers, batch_size: int) -> "_ArrangedCsr":
        if not self._copies:
            return _ArrangedCsr(self.csr, self.scale, self, order, batch_size)
        _passes.csr_gather(*self.csr, order, *self._room())
        return _ArrangedCsr(self._room(), self.scale[order], self, self._in_place, batch_size)

    def _room(self) -> Any:
        """Arrays for one copy, a set for each thread, used again by its next permutation."""
        if not hasattr(self._of_thread, "copy"):
            indptr, _, values = self.csr
            index_type, value_type = self._copy_types
            self._of_thread.copy = np.empty_like(indptr), np.empty(values.size, index_type), np.empty(values.size, value_type)
        return self._of_thread.copy


class _ArrangedCsr:
    def __init__(self, csr: Any, scale: Vector, of: CsrRows, visit: Integers, batch_size: int) -> None:
        self.visit = visit
        self._matrix = (*csr, scale, of.ones)
        self._scattered = visit is not of._in_place
        self._batch_size = batch_size
        self._state = np.empty((of.width, 2))
        self._work = np.zeros(of.width)

    def ordered(self, v: Vector, out: Vector) -> None:
        _kernels.csr_ordered(*self._matrix, self.visit, self._scattered, self._batch_size, v, self._state, out)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        _kernels.csr_batched(*self._matrix, members, starts, v, self._work, out)


class DenseRows:
    """Dense rows of any real type, read in place: a compiled row loop runs at memory speed without a float64 copy."""

    def __init__(self, problem: Problem, scale: Vector) -> None:
        self.matrix = (problem.X, scale, float(problem.fit_intercept))
        self.squared_norms = scale**2 * problem.squared_norms()

    def whole(self) -> "_ArrangedDense":
        n = self.squared_norms.size
        return self.arrange(np.arange(n), n)

    def arrange(self, order: Integers, batch_size: int) -> "_ArrangedDense":
        return _ArrangedDense(self.matrix, order, batch_size)


class _ArrangedDense:
    def __init__(self, matrix: Any, visit: Integers, batch_size: int) -> None:
        self.visit = visit
        self._matrix = matrix
        self._batch_size = batch_size
        self._state = np.empty((2, matrix[0].shape[1]))

    def ordered(self, v: Vector, out: Vector) -> None:
        _kernels.dense_ordered(*self._matrix, self.visit, self._batch_size, v, self._state, out)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        _kernels.dense_batched(*self._matrix, members, starts, v, self._state[0], out)


class GramRows:
    """Few long rows: their n x n Gram matrix, formed once; an order is a reweighting of its entries."""

    def __init__(self, problem: Problem, scale: Vector) -> None:
        X = problem.X
        if sp.issparse(X):
            X = X.astype(np.float64)
            gram = (X @ X.T).toarray()
        else:
            gram = np.zeros((X.shape[0], X.shape[0]))
            block = max(1, (1 << 20) // X.shape[0])
            for start in range(0, X.shape[1], block):
                part = X[:, start : start + block].astype(np.float64)
                gram += part @ part.T
        self.gram = scale[:, None] * (gram + float(problem.fit_intercept)) * scale
        self.squared_norms = self.gram.diagonal().copy()

    def whole(self) -> "_ArrangedGram":
        n = self.squared_norms.size
        return self.arrange(np.arange(n), n)

    def arrange(self, order: Integers, batch_size: int) -> "_ArrangedGram":
        return _ArrangedGram(self.gram, order, batch_size)


class _ArrangedGram:
    def __init__(self, gram: Vector, visit: Integers, batch_size: int) -> None:
        self.visit = visit
        t = np.empty(visit.size)
        t[visit] = np.arange(visit.size) // batch_size + 1.0
        self._gram = gram
        self._weighted = np.minimum(t, t[:, None]) * gram

    def ordered(self, v: Vector, out: Vector) -> None:
        np.dot(self._weighted, v, out=out)

    def batched(self, members: Integers, starts: Integers, v: Vector, out: Vector) -> None:
        for lo, hi in pairwise(starts):
            batch = members[lo:hi]
            out[lo:hi] = self._gram[np.ix_(batch, batch)] @ v[lo:hi]
