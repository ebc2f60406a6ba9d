"""Few rows and many features: the same problem in the span of its rows, where it has no more coefficients than rows.

The minimiser is a combination of rows, x = A'c. With A A' = L L', x stands for the b with A x = L b, |x| = |b|: losses, regulariser
and dual are those of a problem with the n x n matrix L for data.
"""

import numpy as np
from scipy.linalg import eigh

from reshuffle.problem import Problem
from reshuffle.solver.certified.progress import TINY
from reshuffle.vectors import Vector

_DEPENDENT = 1e-14  # of the largest eigenvalue: smaller ones are rounding, of rows that depend on others


class RowSpan:
    """A problem seen in the span of its rows."""

    def __init__(self, problem: Problem) -> None:
        self._original = problem
        squares, vectors = eigh(problem.rows.with_intercept(False).gram(), check_finite=False)
        kept = squares > _DEPENDENT * max(squares[-1], TINY)
        kept[-1] = True  # data of zeros alone still needs a column
        self._lengths, self._vectors = np.sqrt(np.maximum(squares[kept], TINY)), vectors[:, kept]
        self.problem = problem.replace(X=np.ascontiguousarray(self._vectors * np.sqrt(np.maximum(squares[kept], 0.0))))

    def inside(self, x: Vector) -> Vector:
        """The point that stands for the part of x in the span."""
        d = self._original.d
        if not x[:d].any():  # which needs no product to see
            return np.append(np.zeros(self._lengths.size), x[d:])
        along = self._original.margins(x) - (x[d] if self._original.fit_intercept else 0.0)
        return np.append(self._vectors.T @ along / self._lengths, x[d:])

    def outside(self, b: Vector) -> Vector:
        """The x that b stands for."""
        k = self._lengths.size
        x = self._original.transposed(self._vectors @ (b[:k] / self._lengths))
        x[self._original.d :] = b[k:]
        return x
