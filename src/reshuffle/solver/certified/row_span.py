"""Few rows and many features: the same problem in the span of its rows, where it has no more coefficients than rows.

The minimiser is a combination of rows, x = A'c. With A A' = L L', x stands for the b with A x = L b, |x| = |b|: losses, regulariser
and dual are those of a problem with the matrix L for data. L is a Cholesky factor with pivots, which ends where the rows that are
left depend on others: n^3 / 3 operations, of which eigenvectors would take fifteen to thirty times as many.
"""

import numpy as np
from scipy.linalg import lapack, solve_triangular

from reshuffle.problem import Problem
from reshuffle.vectors import Vector


class RowSpan:
    """A problem seen in the span of its rows."""

    def __init__(self, problem: Problem) -> None:
        self._original = problem
        factor, pivots, rank, _ = lapack.dpstrf(problem.rows.with_intercept(False).gram(), lower=1)
        kept = max(int(rank), 1)  # data of zeros alone still needs a column
        self._chosen = pivots[:kept] - 1  #: rows that all others depend on
        self._top = np.tril(factor[:kept, :kept]) if rank else np.eye(1)
        data = np.zeros((problem.n, kept))
        if rank:
            data[pivots - 1] = np.tril(factor)[:, :kept]
        self.problem = problem.replace(X=data)

    def inside(self, x: Vector) -> Vector:
        """The point that stands for the part of x in the span."""
        d = self._original.d
        if not x[:d].any():  # which needs no product to see
            return np.append(np.zeros(self._chosen.size), x[d:])
        along = self._original.margins(x) - (x[d] if self._original.fit_intercept else 0.0)
        return np.append(solve_triangular(self._top, along[self._chosen], lower=True), x[d:])

    def outside(self, b: Vector) -> Vector:
        """The x that b stands for."""
        k, combined = self._chosen.size, np.zeros(self._original.n)
        combined[self._chosen] = solve_triangular(self._top, b[:k], lower=True, trans=1)
        x = self._original.transposed(combined)
        x[self._original.d :] = b[k:]
        return x
