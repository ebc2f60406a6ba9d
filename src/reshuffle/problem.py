"""Problem = data + loss + weights + l2 + intercept: minimise f(x) = (1/n) sum_i w_i l(a_i'x, y_i) + (l2/2)|x|^2.

Everything a user can get wrong about data, labels or weights is refused here, before any work starts. The user's arrays
are neither changed nor copied, except where their layout forces it: see `_as_matrix`.
"""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from reshuffle.losses import Loss, get_loss
from reshuffle.validation import labels_for, refuse_non_finite, row_weights

Vector = NDArray[np.float64]

_DENSE_TYPES = (np.uint8, np.float32, np.float64)


class Problem:
    """A linear prediction problem.

    X : n x d, sparse or dense. CSR with 32 or 64 bit indices and C-ordered uint8, float32 or float64 arrays are used
        where they lie; anything else is converted once.
    y : labels. Two classes for a classification loss (the smaller becomes -1, the larger +1), numbers for a regression
        loss, not needed for the `unit` loss.
    loss : a name, "name:parameter", or a `Loss`.
    l2 : weight of (l2/2)|x|^2, which leaves the intercept alone.
    sample_weight : multiplies each sample's loss. A row of weight 0 is removed, so n counts the rows that are left.
    fit_intercept : adds a column of ones to A (it is not stored).
    """

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        loss: str | Loss = "logistic",
        l2: float = 0.0,
        sample_weight: ArrayLike | None = None,
        fit_intercept: bool = False,
    ) -> None:
        self.loss = get_loss(loss)
        if not 0.0 <= l2 < float("inf"):
            raise ValueError(f"l2={l2!r} must be zero or a positive number")
        self.l2 = float(l2)
        self.fit_intercept = bool(fit_intercept)
        self.X = _as_matrix(X)
        self.y = labels_for(self.loss, y, self.X.shape[0])
        self.sample_weight = row_weights(sample_weight, self.X.shape[0])
        if not self.sample_weight.all():
            kept = self.sample_weight > 0.0
            self.X, self.sample_weight = self.X[kept], self.sample_weight[kept]
            self.y = None if self.y is None else self.y[kept]

    @property
    def n(self) -> int:
        """Samples, without those of weight 0."""
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        """Features, without the intercept."""
        return int(self.X.shape[1])

    @property
    def nnz(self) -> int:
        """Entries of X that are not zero."""
        return int(self.X.nnz if sp.issparse(self.X) else np.count_nonzero(self.X))

    @property
    def smoothness(self) -> Vector | None:
        """L_i of every sample (w_i times that of the loss), or None where the loss has a kink."""
        return None if self.loss.smoothness is None else self.loss.smoothness * self.sample_weight

    @property
    def lipschitz(self) -> Vector | None:
        """G_i of every sample (w_i times that of the loss), or None where the loss is not Lipschitz."""
        return None if self.loss.lipschitz is None else self.loss.lipschitz * self.sample_weight

    @property
    def dimension(self) -> int:
        """Length of x: the d coefficients, then the intercept if there is one."""
        return self.d + self.fit_intercept

    def margins(self, x: Vector) -> Vector:
        """A x, the intercept included."""
        from reshuffle import _passes

        out = np.empty(self.n)
        if sp.issparse(self.X):
            _passes.csr_margins(*self.csr, x, self.fit_intercept, out)
        else:
            _passes.dense_margins(self.X, x, self.fit_intercept, out)
        return out

    def transposed(self, u: Vector) -> Vector:
        """A' u."""
        from reshuffle import _passes

        out = np.empty(self.dimension)
        if sp.issparse(self.X):
            _passes.csr_transposed(*self.csr, u, self.fit_intercept, out)
        else:
            _passes.dense_transposed(self.X, u, self.fit_intercept, out)
        return out

    @property
    def csr(self) -> tuple[Any, Any, Any]:
        """The arrays of a sparse X, its indices seen as unsigned: that spares kernels numba's check for negative ones."""
        return self.X.indptr, self.X.indices.view(f"u{self.X.indices.itemsize}"), self.X.data

    def losses(self, z: Vector) -> Vector:
        """l(z_i, y_i) of every sample, without its weight."""
        return self._apply("value", z)

    def duals(self, z: Vector) -> Vector:
        """l'(z_i, y_i) of every sample, without its weight: the dual values that belong to margins z."""
        return self._apply("derivative", z)

    def curvatures(self, z: Vector) -> Vector:
        """l''(z_i, y_i) of every sample, without its weight, for a smooth loss."""
        return self._apply("curvature", z)

    def conjugates(self, u: Vector) -> Vector:
        """l*(u_i, y_i) of every sample, without its weight; infinite outside the dual domain."""
        low, high = self.dual_bounds
        slack = 1e-12  # rounding must not make a feasible dual point infeasible
        inside = (u >= low - slack) & (u <= high + slack)
        return np.where(inside, self._apply("conjugate", np.clip(u, low, high)), np.inf)

    @property
    def dual_bounds(self) -> tuple[Vector, Vector]:
        """The interval of each dual value."""
        low, high = self.loss.dual_domain
        if self.loss.task == "classification":
            positive = self.labels > 0
            return np.where(positive, low, -high), np.where(positive, high, -low)
        return np.full(self.n, low), np.full(self.n, high)

    @property
    def labels(self) -> Vector:
        """y, which every loss that can be minimised has."""
        if self.y is None:
            raise ValueError(f"loss={str(self.loss)!r} has constants but no values; choose a loss to minimise")
        return self.y

    def _apply(self, function: str, arguments: Vector) -> Vector:
        from reshuffle import _passes
        from reshuffle.losses.base import compiled

        labels, out = self.labels, np.empty(self.n)
        _passes.apply_loss(compiled(self.loss, function), arguments, labels, self.loss.parameter, out)
        return out

    def _total(self, function: str, arguments: Vector) -> float:
        """The weighted sum over all samples."""
        from reshuffle import _passes
        from reshuffle.losses.base import compiled

        labels, weights, parameter = self.labels, self.sample_weight, self.loss.parameter
        return float(_passes.total_loss(compiled(self.loss, function), parameter, labels, weights, arguments, arguments, 0.0))

    def objective(self, x: Vector) -> float:
        """f(x)."""
        return self.objective_at(self.margins(x), x)

    def objective_at(self, z: Vector, x: Vector) -> float:
        """f where the margins of x are known to be z."""
        return self._total("value", z) / self.n + self.regulariser(x)

    def regulariser(self, x: Vector) -> float:
        """(l2/2)|x|^2, without the intercept."""
        from reshuffle import _passes

        return 0.5 * self.l2 * float(_passes.dot(x[: self.d], x[: self.d]))

    def gradient(self, x: Vector) -> Vector:
        """grad f(x), or one subgradient where the loss has kinks."""
        g = self.transposed(self.sample_weight * self.duals(self.margins(x))) / self.n
        g[: self.d] += self.l2 * x[: self.d]
        return g

    def squared_norms(self) -> Vector:
        """|a_i|^2 of every sample, the intercept included."""
        from reshuffle import _passes

        out = np.empty(self.n)
        if sp.issparse(self.X):
            _passes.csr_squared_norms(self.X.indptr, self.X.data, out)
        else:
            _passes.dense_squared_norms(self.X, out)
        return out + self.fit_intercept

    def squared_column_norms(self) -> Vector:
        """The sum of the squares of every feature."""
        X = self.X
        sums = X.multiply(X).sum(axis=0) if sp.issparse(X) else np.square(X, dtype=np.float64).sum(axis=0)
        return np.asarray(sums, dtype=np.float64).ravel()

    def squared_sample_gradients(self, x: Vector) -> Vector:
        """|grad f_i(x)|^2 for f_i(x) = w_i l(a_i'x, y_i) + (l2/2)|x|^2, of which the intercept bears no l2."""
        z = self.margins(x)
        duals = self.sample_weight * self.duals(z)
        along = z - (x[self.d] if self.fit_intercept else 0.0)
        coefficients = x[: self.d]
        shares = 2.0 * self.l2 * duals * along + self.l2**2 * float(coefficients @ coefficients)
        return np.maximum(duals**2 * self.squared_norms() + shares, 0.0)

    def dual_objective_along(self, u: Vector) -> Callable[[float], float]:
        """-(1/n) sum w_i l*(v_i) - |A'(w v)|^2 / (2 l2 n^2) at v = s u, as a function of s: a lower bound of min f if u balances
        an intercept (w'u = 0). All s share one product with the data.
        """
        from reshuffle import _passes

        pull = self.transposed(self.sample_weight * u)[: self.d] / self.n
        square = float(_passes.dot(pull, pull)) / (2.0 * self.l2)

        def value(s: float) -> float:
            return -float(_passes.dot(self.sample_weight, self.conjugates(s * u))) / self.n - s * s * square

        return value

    def __repr__(self) -> str:
        kind = "sparse" if sp.issparse(self.X) else "dense"
        return f"Problem({self.n} x {self.d} {kind}, loss={self.loss}, l2={self.l2:g}, fit_intercept={self.fit_intercept})"


def _as_matrix(X: Any) -> Any:
    """A CSR matrix without repeated entries, or a C-ordered array of a type the kernels read; finite, n >= 1, d >= 1."""
    X = _as_csr(X) if sp.issparse(X) else _as_dense(X)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X has shape {X.shape}; it needs at least one row and one column")
    refuse_non_finite("X", X)
    return X


def _as_csr(X: Any) -> Any:
    if X.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {X.dtype}; use real numbers")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if X.format != "csr":
        X = X.tocsr()
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _as_dense(X: Any) -> Any:
    if isinstance(X, str | PathLike):
        raise ValueError(f"X={str(X)!r} is a path, not a matrix; read it first: rs.load({str(X)!r}).X")
    X = np.asarray(X)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimensions; use an n x d matrix (X.reshape(-1, 1) for a single feature)")
    if X.dtype == np.bool_:
        X = X.view(np.uint8)
    if X.dtype.kind not in "iuf":
        raise ValueError(f"X has dtype {X.dtype}; use real numbers")
    return np.ascontiguousarray(X, dtype=X.dtype if X.dtype in _DENSE_TYPES else np.float64)
