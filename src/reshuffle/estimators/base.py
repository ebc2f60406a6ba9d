"""What all estimators share: parameters and their checks, rows that count, threads, attributes, warnings.

The data is validated once, held by one Problem, and read where it lies by every class. A family of estimators says how one
predictor is trained; classification and regression say which predictors there are.
"""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Any, ClassVar, TypeVar

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, validate_data

from reshuffle.epoch import Epoch
from reshuffle.losses import LOSSES, Loss, Task, get_loss
from reshuffle.problem import Problem
from reshuffle.rows import Rows, as_rows, devices, is_dask, is_tensor
from reshuffle.validation import in_host_memory, mean_one, real, sound, threads, unmasked, whole_number
from reshuffle.vectors import Vector

Report = Callable[[Epoch], None]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Trained:
    """A predictor, and what is known of it."""

    x: Vector  #: d coefficients, then the intercept if there is one
    history: list[Epoch]
    step: float | None = None  #: of the last epoch; None where the solver has none
    gap: float | None = None  #: certified: f(x) - min f is at most this; None without a certificate
    relative_gap: float | None = None  #: gap over the decrease from the best constant prediction
    converged: bool = True  #: False where there is a certificate and it did not reach the tolerance
    following: Any = None  #: the order for one more epoch, where epochs make orders and one more may come


@dataclass(frozen=True, eq=False)
class Given:
    """What the user gave, without the rows of weight zero."""

    X: Any
    y: Any
    weights: Vector | None  #: None where there are none, so that all rows count alike
    everything: Any  #: y with those rows
    kept: Any  #: where the others stand among them: a slice or an array


@dataclass(frozen=True, eq=False)
class Columns:
    """The predictors of a model: what the lines of each begin with, and the labels it is trained on, made when asked for."""

    names: list[str]
    labels: Callable[[int], NDArray[Any]]
    given: Given


class LinearModel(BaseEstimator):  # type: ignore[misc]
    """Minimises (1/sum w) sum_i w_i l(a_i'x + b, y_i) + (alpha/2)|x|^2."""

    _task: ClassVar[Task]
    _remedy: ClassVar[str]  # where the tolerance was not reached
    _numbers: ClassVar[tuple[str, ...]] = ("alpha", "tol")  # parameters that must not be negative
    loss: str | Loss
    alpha: Any
    tol: float | None
    fit_intercept: bool
    warm_start: bool
    random_state: Any
    n_jobs: int | None
    verbose: int
    callbacks: Any
    device: Any

    def _set_parameters(self, parameters: dict[str, Any]) -> None:
        """The arguments of __init__ as attributes, as scikit-learn wants them: unchanged and unchecked."""
        self.__dict__ |= {name: value for name, value in parameters.items() if name not in ("self", "__class__")}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _trainer(self, problem: Problem, seed: int) -> Callable[[Problem, Vector | None, Report | None], Trained]:
        """How one predictor is trained, from where it starts; what all of them share is prepared here."""

    @abstractmethod
    def _points(self) -> list[Vector]:
        """Where each predictor stands: its coefficients, then its intercept if there is one."""

    def _checked_loss(self) -> Loss:
        """The loss, after everything that can be wrong about the parameters has been refused."""
        loss = get_loss(self.loss)
        if loss.task != self._task:
            fitting = ", ".join(name for name, kind in LOSSES.items() if kind.task == self._task)
            raise ValueError(f"loss={str(loss)!r} is not for {self._task}; {type(self).__name__} takes {fitting}")
        for name in self._numbers:
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < inf:
                raise ValueError(f"{name}={value!r} must be zero or a positive number")
        threads("n_jobs", self.n_jobs)
        devices.check(self.device)
        return loss

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
        y = unmasked("y", in_host_memory(y))
        as_they_are = _as_it_is(X, 2) and _as_it_is(y, 1)
        X = X if as_they_are else _sound(X)
        if as_they_are or isinstance(X, Rows):
            check_consistent_length(X, y)
            self._check_width(X, reset)
            return X, y if _as_it_is(y, 1) else column_or_1d(real("y", y))
        # Problem refuses what is not finite; one look at X is enough.
        return validate_data(  # type: ignore[no-any-return]
            self,
            X,
            y,
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            y_numeric=self._task == "regression",
        )

    def _check_width(self, X: Any, reset: bool) -> None:
        """Of data whose columns have no names."""
        d = X.shape[1]
        if hasattr(self, "feature_names_in_"):  # which it loses, or misses
            validate_data(self, X, reset=reset, skip_check_array=True)
        if reset:
            self.n_features_in_ = d
        elif d != self.n_features_in_:
            raise ValueError(f"X has {d} features, but {type(self).__name__} is expecting {self.n_features_in_} features as input")

    def _problem(self, X: Any, y: Any, loss: Loss, weights: Vector | None) -> Problem:
        if weights is not None:
            weights = mean_one(weights)  # so that alpha keeps its meaning
        chosen = devices.choose(self.device, X, self._passes())
        options: dict[str, Any] = {"sample_weight": weights, "fit_intercept": self.fit_intercept, "device": chosen.device}
        with devices.memory_in_words():
            problem = Problem(X, y, loss=loss, alpha=self.alpha, **options)
        self.device_ = problem.rows.place
        if chosen.why and self.verbose:
            print(f"device {self.device_}, {chosen.why}", flush=True)
        return problem

    def _passes(self) -> float:
        """Over the data, about, of a fit: what a device would save."""
        return 0.0

    def _train(self, problem: Problem, columns: Columns, starts: list[Vector] | None) -> list[Trained]:
        """A predictor for each column. Every one has the same seed, so how many threads there are changes nothing."""
        train = self._trainer(problem, self._seed())

        def train_column(k: int) -> Trained:
            start, report = None if starts is None else starts[k], self._report(columns.names[k])
            return train(problem if len(columns.names) == 1 else problem.replace(y=columns.labels(k)), start, report)

        return self._in_threads(train_column, len(columns.names))

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return whole_number("random_state", self.random_state, 0)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _in_threads(self, train: Callable[[int], T], count: int) -> list[T]:
        workers = 1 if count == 1 else min(effective_n_jobs(self.n_jobs), count)
        if workers == 1:
            return [train(k) for k in range(count)]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(train, range(count)))

    def _report(self, name: str) -> Report | None:
        """What to do with the record of each epoch, if anything."""
        callbacks = self.callbacks if isinstance(self.callbacks, list | tuple) else [self.callbacks]
        functions = [function for function in callbacks if function is not None]
        if self.verbose:
            functions.insert(0, lambda epoch: print(f"{name}{epoch}", flush=True))
        if not functions:
            return None

        def report(epoch: Epoch) -> None:
            for function in functions:
                function(epoch)

        return report

    def _keep(self, trained: list[Trained]) -> None:
        """The attributes of a fitted model, except for coefficients and intercept, whose shape is the estimator's."""
        self.__dict__.pop("scaling_", None)  # of a model that was read from a file and is now trained on other data
        self.n_iter_ = max(len(one.history) for one in trained)
        several = len(trained) > 1
        self.history_ = [one.history for one in trained] if several else trained[0].history
        self.step_size_ = _joined([one.step for one in trained])
        self.dual_gap_ = _joined([one.gap for one in trained])
        self.relative_gap_ = _joined([one.relative_gap for one in trained])

    def _warn_of_gap(self, trained: list[Trained]) -> None:
        gaps = [one.relative_gap for one in trained if not one.converged and one.relative_gap is not None]
        if not gaps:
            return
        where = f" in {len(gaps)} of {len(trained)} classes" if len(trained) > 1 else ""
        warnings.warn(
            f"{type(self).__name__} stopped after {self.n_iter_} passes{where} with a certified relative gap of {max(gaps):.1e}, "
            f"above tol={self.tol:g}. Use {self._remedy}, a larger tol, or features of similar scale.",
            ConvergenceWarning,
            stacklevel=3,
        )

    @property
    def _of_unit_rows(self) -> bool:
        """Whether rows are divided by their length; how columns were scaled is in the coefficients."""
        scaling = getattr(self, "scaling_", None)
        return scaling is not None and scaling.kind == "rows"

    def _scores(self, X: Any) -> Vector:
        check_is_fitted(self)
        X = _sound(X)
        if isinstance(X, Rows):
            self._check_width(X, reset=False)
        else:
            X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric")
        with devices.memory_in_words():
            if self.device is not None and not devices.is_auto(self.device):  # to bring data there for one pass never pays
                X = as_rows(X, device=self.device)
            if self._of_unit_rows:
                X = as_rows(X).unit_rows()
            if isinstance(X, Rows):
                products = [X.with_intercept(False).margins(row) for row in np.atleast_2d(self.coef_)]
                product = np.column_stack(products) if self.coef_.ndim == 2 else products[0]
            else:
                product = safe_sparse_dot(X, self.coef_.T, dense_output=True)
        scores: Vector = product + self.intercept_
        return scores


def _sound(X: Any) -> Any:
    """X as scikit-learn can be shown it; tensors, and arrays of Dask's, which stay on the workers, as rows."""
    return as_rows(X) if is_dask(X) or is_tensor(X) else sound(X)


def _as_it_is(values: Any, dimensions: int) -> bool:
    """Whether scikit-learn would hand this back as it is: to find that out takes it longer than some fits take."""
    arrays = type(values) is np.ndarray or (sp.issparse(values) and values.format == "csr")
    return arrays and values.ndim == dimensions and values.dtype.kind in "biuf" and 0 not in values.shape


def counted_rows(X: Any, y: Any, sample_weight: Any) -> Given:
    """The rows whose weight is not zero."""
    if sample_weight is None:
        return Given(X, y, None, y, slice(None))
    weights: Vector = _check_sample_weight(real("sample_weight", sample_weight), y, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one row must count")
    kept = np.flatnonzero(weights)
    if kept.size == weights.size:
        return Given(X, y, weights, y, slice(None))
    return Given(X.subset(kept) if isinstance(X, Rows) else sound(X)[kept], y[kept], weights[kept], y, kept)


def _joined(values: list[float | None]) -> Any:
    """One value as it is, one for each class as an array; None where there is none."""
    if None in values:
        return None
    return values[0] if len(values) == 1 else np.array(values)
