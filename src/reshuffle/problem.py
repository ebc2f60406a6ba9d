"""Problem = rows + loss + labels + weights + alpha + intercept: minimise f(x) = (1/n) sum_i w_i l(a_i'x, y_i) + (alpha/2)|x|^2.

Everything a user can get wrong about data, labels or weights is refused here, before any work starts, and so is a vector of a wrong
length or with NaN in it: compiled loops believe what they are given. The user's arrays are neither changed nor copied, except where
their layout forces it: see `rows.memory`.
"""

import copy
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.losses import Loss, Multinomial, get_loss
from reshuffle.rows import Rows, as_rows, is_tensor
from reshuffle.samples import Samples
from reshuffle.validation import labels_for, matrix, point, renamed, row_numbers, row_weights, vector, weight, yes_or_no
from reshuffle.vectors import Vector, dot


class Problem:
    """A linear prediction problem.

    X : n x d, sparse or dense, or a `Rows`. CSR with 32 or 64 bit indices and C-ordered arrays of 8 or 16 bit integers or of
        float16, float32 or float64 are used where they lie; anything else is converted once. Of a data frame `feature_names` are
        kept; words, dates and missing values become numbers as in a file (`rs.load`), with a warning that says so.
    y : labels. Two classes for a classification loss (the smaller becomes -1, the larger +1), numbers for a regression
        loss, not needed for the `unit` loss.
    loss : a name, "name:parameter", or a `Loss`.
    alpha : weight of (alpha/2)|x|^2, which leaves the intercept alone.
    sample_weight : multiplies each sample's loss. A row of weight 0 is removed, so n counts the rows that are left.
    fit_intercept : adds a column of ones to A (it is not stored).
    device : where PyTorch is to keep dense rows and multiply them: "cuda", "cuda:1" or "cpu". A tensor stays where it lies if
        none is named; all else is done in memory.
    """

    scaling: Any = None  #: how X was scaled, where a `Scaling` made this problem of another
    _on_device = False  # whether vectors with a number for each sample are tensors

    def __init__(
        self,
        X: Any,
        y: ArrayLike | None = None,
        *,
        loss: str | Loss = "logistic",
        alpha: float = 0.0,
        sample_weight: ArrayLike | None = None,
        fit_intercept: bool = False,
        device: Any = None,
        l2: float | None = None,
    ) -> None:
        self.loss = get_loss(loss)
        if isinstance(self.loss, Multinomial):
            raise ValueError(
                "loss='multinomial' is one of a margin for each class, and this takes losses of one margin; "
                "use CertifiedClassifier(loss='multinomial'), or loss='logistic'"
            )
        self.alpha = weight("alpha", renamed("l2", "alpha", l2, alpha))
        self.fit_intercept = yes_or_no("fit_intercept", fit_intercept)
        X, self.feature_names = matrix(X)
        rows: Rows = as_rows(X, device=device)
        labels, weights = labels_for(self.loss, y, rows.n), row_weights(sample_weight, rows.n)
        if not weights.all():
            kept = np.flatnonzero(weights)
            rows, weights, labels = rows.subset(kept), weights[kept], None if labels is None else labels[kept]
        self.rows, self.y, self.sample_weight = rows.with_intercept(self.fit_intercept), labels, weights

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__ and name not in ("feature_names", "scaling"):  # all were checked together
            raise AttributeError(f"a problem is not changed in place; problem.replace({name}=...) makes another")
        super().__setattr__(name, value)

    def replace(self, **changes: Any) -> "Problem":
        """The same problem with other arguments: `problem.replace(alpha=0.1)`."""
        if changes.keys() == {"alpha"}:  # all else was checked, and what was worked out of it holds
            other = copy.copy(self)
            object.__setattr__(other, "alpha", weight("alpha", changes["alpha"]))
            return other
        names = ("y", "loss", "alpha", "fit_intercept")
        other = Problem(**{"X": self.rows, **{name: getattr(self, name) for name in names}, **changes})
        if "sample_weight" not in changes:
            other = other.reweighted(self.sample_weight)
        if isinstance(changes.get("X", self.rows), Rows):  # rows have no names, and those of others are not ours to know
            other.feature_names = self.feature_names if other.d == self.d else None
            other.scaling = self.scaling
        return other

    def reweighted(self, sample_weight: Vector) -> "Problem":
        """The same problem with other weights, of which some may be zero: such rows stay where they are, so that problems of
        different parts of the data share it. n counts them, and f is as if they were not there if the weights have mean one.
        """
        other = copy.copy(self)
        object.__setattr__(other, "sample_weight", row_weights(sample_weight, self.n))
        other.__dict__.pop("samples", None)
        return other

    def on_device(self) -> "Problem":
        """The same problem for a solver: vectors with a number for each sample are tensors, in arguments and results, on the device
        that multiplies the rows. See `samples`. Itself where there is no device, or the loss has no form in tensors.
        """
        if self.rows.device is None or self._on_device:
            return self
        from reshuffle.losses.tensors import FORMS
        from reshuffle.tensor_samples import TensorSamples

        if type(self.loss) not in FORMS:
            return self
        other, rows = copy.copy(self), cast(Any, self.rows).with_tensors()
        samples = TensorSamples(self.loss, rows.up(self.labels), rows.up(self.sample_weight), by_all_cores=False)
        other.__dict__ |= {"rows": rows, "samples": samples, "_on_device": True}
        other.__dict__.pop("lengths", None)
        return other

    def take(self, rows: NDArray[np.integer[Any]]) -> "Problem":
        """The problem of these rows alone, in this order, with their weights as they are."""
        chosen = row_numbers("rows", rows, self.n)
        labels = None if self.y is None else self.y[chosen]
        return self.replace(X=self.rows.take(chosen), y=labels, sample_weight=self.sample_weight[chosen])

    l2 = property(lambda self: renamed("l2", "alpha", self.alpha, 0.0), doc="What `alpha` was called.")

    @property
    def X(self) -> Any:
        """The matrix, where the rows are in memory; of centred rows, before the centre is taken away."""
        return self.rows.matrix  # type: ignore[attr-defined]

    @property
    def n(self) -> int:
        """Samples, without those of weight 0."""
        return self.rows.n

    @property
    def d(self) -> int:
        """Features, without the intercept."""
        return self.rows.d

    @property
    def nnz(self) -> int:
        """Entries of X that are not zero."""
        return self.rows.nonzeros

    @property
    def weighted(self) -> bool:
        """Whether some samples count more than others."""
        return bool(np.ptp(self.sample_weight))

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
        return self.rows.dimension

    def margins(self, x: Vector) -> Vector:
        """A x, the intercept included."""
        return self.rows.margins(self._point(x))

    def transposed(self, u: Vector) -> Vector:
        """A' u."""
        return self.rows.transposed(self._by_sample("u", u))

    def losses(self, z: Vector) -> Vector:
        """l(z_i, y_i) of every sample, without its weight."""
        return self._apply("value", self._by_sample("z", z, infinite=True))

    def duals(self, z: Vector) -> Vector:
        """l'(z_i, y_i) of every sample, without its weight: the dual values that belong to margins z."""
        return self._apply("derivative", self._by_sample("z", z, infinite=True))

    def curvatures(self, z: Vector) -> Vector:
        """l''(z_i, y_i) of every sample, without its weight, for a smooth loss."""
        return self._apply("curvature", self._by_sample("z", z, infinite=True))

    def conjugates(self, u: Vector) -> Vector:
        """l*(u_i, y_i) of every sample, without its weight; infinite outside the dual domain."""
        u = self._by_sample("u", u, infinite=True)
        nearest, slack = self.in_dual_domain(u), 1e-12  # rounding must not make a feasible dual point infeasible
        out = self._apply("conjugate", nearest)
        out[~(np.abs(u - nearest) <= slack)] = np.inf
        return out

    @property
    def dual_bounds(self) -> tuple[Vector, Vector]:
        """The interval of each dual value."""
        low, high = self.loss.dual_domain
        if self.loss.task == "classification":
            positive = self.labels > 0
            return np.where(positive, low, -high), np.where(positive, high, -low)
        return np.full(self.n, low), np.full(self.n, high)

    def sums_for_rounding(self, x: Vector, u: Vector) -> list[float]:
        """See `loops.sums_for_rounding`."""
        u, reach = self._by_sample("u", u, infinite=True), float(np.linalg.norm(self._point(x)))
        return self.samples.sums_for_rounding(u, reach, self.lengths)

    def in_dual_domain(self, u: Vector) -> Vector:
        """Dual values, each moved to the nearest in its interval."""
        return self.samples.clipped(self._by_sample("u", u, infinite=True))

    @cached_property
    def samples(self) -> Samples:
        """Labels, weights and losses, and what they sum to."""
        return Samples(self.loss, self.labels, self.sample_weight, self.rows.elsewhere)

    @property
    def labels(self) -> Vector:
        """y, which every loss that can be minimised has."""
        if self.y is None:
            raise ValueError(f"loss={str(self.loss)!r} has constants but no values; choose a loss to minimise")
        return self.y

    def _point(self, x: Any) -> Vector:
        return point("x", x, self.dimension)

    def _by_sample(self, name: str, values: Any, *, infinite: bool = False) -> Vector:
        if self._on_device and is_tensor(values):  # of the solver's own, and to look for NaN would have the device wait
            return values  # type: ignore[no-any-return]
        found = vector(name, values, self.n, "one number for each sample", infinite=infinite)
        return self.samples.here(found) if self._on_device else found

    def _apply(self, function: str, arguments: Vector) -> Vector:
        return self.samples.apply(function, arguments)

    def objective(self, x: Vector) -> float:
        """f(x)."""
        x = self._point(x)
        return self._objective(self.rows.margins(x), x)

    def objective_at(self, z: Vector, x: Vector) -> float:
        """f where the margins of x are known to be z."""
        return self._objective(self._by_sample("z", z, infinite=True), self._point(x))

    def _objective(self, z: Vector, x: Vector) -> float:
        return self.samples.total(z, z, 0.0) / self.n + self._regulariser(x)

    def regulariser(self, x: Vector) -> float:
        """(alpha/2)|x|^2, without the intercept."""
        return self._regulariser(self._point(x))

    def _regulariser(self, x: Vector) -> float:
        coefficients = x[: self.d]
        return 0.5 * self.alpha * float(dot(coefficients, coefficients))

    def gradient(self, x: Vector) -> Vector:
        """grad f(x), or one subgradient where the loss has kinks."""
        x = self._point(x)
        g = self.rows.transposed(self.samples.weights * self._apply("derivative", self.rows.margins(x))) / self.n
        g[: self.d] += self.alpha * x[: self.d]
        return g

    def squared_norms(self) -> Vector:
        """|a_i|^2 of every sample, the intercept included."""
        return self.rows.squared_norms()

    @cached_property
    def lengths(self) -> Vector:
        """|a_i| of every sample, the intercept included."""
        return self.squared_norms() ** 0.5

    @cached_property
    def squared_units(self) -> Vector:
        """The square of the largest number of every feature, the intercept included, over that of all of them."""
        low, high = self.rows.column_ranges()
        largest = np.maximum(-low, high)
        if self.fit_intercept:
            largest = np.append(largest, 1.0)
        units: Vector = np.square(largest / (largest.max() or 1.0))
        return units

    def squared_column_norms(self) -> Vector:
        """The sum of the squares of every feature."""
        return self.rows.squared_column_norms()

    def squared_sample_gradients(self, x: Vector) -> Vector:
        """|grad f_i(x)|^2 for f_i(x) = w_i l(a_i'x, y_i) + (alpha/2)|x|^2, which leaves the intercept out of |x|."""
        x = self._point(x)
        z = self.rows.margins(x)
        duals = self.sample_weight * self._apply("derivative", z)
        along = z - (x[self.d] if self.fit_intercept else 0.0)
        coefficients = x[: self.d]
        shares = 2.0 * self.alpha * duals * along + self.alpha**2 * float(coefficients @ coefficients)
        return np.maximum(duals**2 * self.squared_norms() + shares, 0.0)

    def prefix_norms(self, x: Vector, order: NDArray[np.int64]) -> Vector:
        """|grad f_{order_1}(x) + ... + grad f_{order_p}(x)|^2 for p = 1..n, in one pass over the data."""
        x, order = self._point(x), row_numbers("order", order, self.n)
        along = self.rows.margins(x)
        u = self._apply("derivative", along)
        u *= self.sample_weight
        along -= x[self.d] if self.fit_intercept else 0.0
        along *= self.alpha  # a_i'c of the regulariser's share c = alpha x
        c_square = self.alpha**2 * float(dot(x[: self.d], x[: self.d]))
        return self.rows.prefix_norms(order, u, along, c_square)

    def dual_objective_along(self, u: Vector, pull: Vector | None = None) -> Callable[[float], float]:
        """-(1/n) sum w_i l*(v_i) - |A'(w v)|^2 / (2 alpha n^2) at v = s u, as a function of s: a lower bound of min f if u balances
        an intercept (w'u = 0). All s share one product with the data, A'(w u) / n, or none where it is known: `pull`.
        """
        u = self._by_sample("u", u)
        pull = self.rows.transposed(self.samples.weights * u)[: self.d] / self.n if pull is None else pull
        square = float(dot(pull, pull)) / (2.0 * self.alpha)

        def value(s: float) -> float:
            return -self.samples.total_conjugate(u, s) / self.n - s * s * square

        return value

    def __repr__(self) -> str:
        return f"Problem({self.rows}, loss={self.loss}, alpha={self.alpha:g}, fit_intercept={self.fit_intercept})"
