"""Sparse rows a_i - c: a CSR matrix, and a centre c that is taken away from each of its rows without ever being stored there.

A pass costs what it costs over the CSR matrix, and a number more for each row: `kernels` says how.
"""

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from reshuffle.rows.base import Integers
from reshuffle.rows.memory import SparseRows, hash_array
from reshuffle.vectors import Vector


class CentredRows(SparseRows):
    """The rows of X - 1 c'. `matrix` is X, and `nonzeros` are its own."""

    _behind = 2

    def __init__(self, X: Any, centre: Vector) -> None:
        super().__init__(X)
        self.centre = centre
        self._along, self._square = SparseRows(X).margins(centre), float(centre @ centre)
        self.A = (*self.stored, self._along, self._square, np.uint64(self.d))

    def __str__(self) -> str:
        return f"{super().__str__()}, centred"

    @cached_property
    def _plain(self) -> SparseRows:
        """The rows of X, each with a one behind it."""
        return SparseRows(self.matrix).with_intercept(True)

    @property
    def _kind(self) -> Callable[[Any], "CentredRows"]:
        return partial(CentredRows, centre=self.centre)

    def _held(self, x: Vector) -> Vector:
        w = x[..., : self.d]
        c_x = np.einsum("...j,j->...", w, self.centre)[..., None]  # BLAS would start threads that wait for each other
        return np.concatenate([w, np.zeros_like(c_x), c_x, x[..., self.d :]], axis=-1)

    def _seen(self, held: Vector) -> Vector:
        w, k = held[..., : self.d], held[..., self.d, None]
        return np.concatenate([w - k * self.centre, held[..., self.d + 2 :]], axis=-1)

    def _visited(self, stored: Any, order: Integers) -> Any:
        return (*stored, self._along.take(order), *self.A[4:])

    def update_hash(self, digest: Any) -> None:
        super().update_hash(digest)
        hash_array(digest, self.centre)

    def column_ranges(self) -> tuple[Vector, Vector]:
        low, high = super().column_ranges()
        return low - self.centre, high - self.centre

    def scale_columns(self, factors: Vector) -> "CentredRows":
        return CentredRows(super().scale_columns(factors).matrix, self.centre * factors).with_intercept(self.intercept)

    def sums_about(self, centre: Vector, half: Vector) -> Vector:
        return super().sums_about(centre + self.centre, half)

    def standardised(self, centre: Vector | None, size: Vector, full: NDArray[np.bool_] | None = None) -> SparseRows:
        return super().standardised(self.centre if centre is None else self.centre + centre, size, full)

    def row_lengths(self) -> Vector:
        return np.sqrt(self.with_intercept(False).squared_norms())

    def unit_rows(self) -> SparseRows:
        raise ValueError("scale='rows': these rows are centred already; scale the data as it was before")

    def csr(self) -> Any:
        """A number for every entry: as large as a dense matrix."""
        X = sp.csr_array(self.matrix.toarray() - self.centre)
        return SparseRows(X).with_intercept(self.intercept).csr()

    def factored(self) -> tuple[Any, Any]:
        """z is x, then c'x."""
        X = SparseRows(self.matrix).with_intercept(self.intercept).csr()
        centre = np.concatenate([self.centre, np.zeros(int(self.intercept)), [-1.0]])
        return sp.hstack([X, sp.csr_array(np.full((self.n, 1), -1.0))], format="csr"), sp.csr_array(centre[None, :])

    def gram(self) -> Vector:
        """<a_i - c, a_j - c> of the products that the stored rows have."""
        along = self._along - 0.5 * (self._square + self.intercept)
        return SparseRows(self.matrix).gram() - along - along[:, None]

    def squared_norms(self) -> Vector:
        return np.maximum(super().squared_norms(), float(self.intercept))  # rounding may leave less of a row that is the centre

    def curved_squares(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        out, sums = (sum_over(curvatures, rows) for sum_over in (self._plain.curved_squares, self._plain.transposed))
        out[:-1] -= self.centre * (2.0 * sums[:-1] - self.centre * sums[-1])
        return np.maximum(out[: self.dimension], 0.0)

    def hessian(self, curvatures: Vector, rows: Integers | None = None) -> Vector:
        """T' H T, where H is that of the stored rows with a one behind each, and x has the margins there that T x has."""
        H = self._plain.hessian(curvatures, rows)
        H = np.tril(H) + np.tril(H, -1).T
        sums, total = H[-1, :-1].copy(), H[-1, -1]
        H[:-1, :-1] -= np.outer(self.centre, sums) + np.outer(sums - total * self.centre, self.centre)
        H[-1, :-1] -= total * self.centre
        return H[: self.dimension, : self.dimension]
