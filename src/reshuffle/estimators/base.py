"""What the classifier and the regressor share: parameters and their checks, rows that count, training, attributes, warnings.

The data is validated once, held by one Problem, and read where it lies by every class.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from reshuffle.epoch import Epoch
from reshuffle.estimators import training
from reshuffle.estimators.training import Trained
from reshuffle.losses import LOSSES, Loss, Task, get_loss
from reshuffle.orders import Order, make_order
from reshuffle.problem import Problem
from reshuffle.validation import whole_number

Vector = NDArray[np.float64]

SOLVERS = ("auto", "sgd")


@dataclass(frozen=True, eq=False)
class Columns:
    """The predictors of a model: what the lines of each begin with, and the labels it is trained on, made when asked for."""

    names: list[str]
    labels: Callable[[int], Vector]

    def problem(self, k: int, shared: Problem) -> Problem:
        """That of column k, on the rows and weights that all share."""
        own = copy.copy(shared)
        own.y = self.labels(k)
        return own


class LinearModel(BaseEstimator):  # type: ignore[misc]
    """Minimises (1/sum w) sum_i w_i l(a_i'x + b, y_i) + (alpha/2)|x|^2 until the certified relative gap is at most tol."""

    _task: ClassVar[Task]

    def __init__(
        self,
        loss: str | Loss,
        *,
        alpha: float,
        solver: str,
        tol: float,
        max_iter: int,
        fit_intercept: bool,
        order: Any,
        batch_size: int,
        step_size: Any,
        warm_start: bool,
        random_state: Any,
        n_jobs: int | None,
        verbose: int,
        callbacks: Any,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.order = order
        self.batch_size = batch_size
        self.step_size = step_size
        self.warm_start = warm_start
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.callbacks = callbacks

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked_loss(self) -> Loss:
        """The loss, after everything that can be wrong about the parameters has been refused."""
        loss = get_loss(self.loss)
        if loss.task != self._task:
            fitting = ", ".join(name for name, kind in LOSSES.items() if kind.task == self._task)
            raise ValueError(f"loss={str(loss)!r} is not for {self._task}; {type(self).__name__} takes {fitting}")
        if self.solver not in SOLVERS:
            raise ValueError(f"solver={self.solver!r} is not known; use one of {', '.join(SOLVERS)}")
        for name in ("alpha", "tol"):
            value: Any = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 <= float(value) < inf:
                raise ValueError(f"{name}={value!r} must be zero or a positive number")
        if self.alpha == 0.0 and self.solver == "auto":
            raise ValueError("alpha=0 leaves no certificate, which solver='auto' needs to stop; use alpha > 0 or solver='sgd'")
        whole_number("max_iter", self.max_iter, 1)
        if isinstance(self.order, Iterator):
            raise ValueError("order is an iterator, which cannot be used twice; use 'rr', 'so', 'ig' or a permutation array")
        jobs: Any = self.n_jobs
        if jobs is not None and (jobs == 0 or not isinstance(jobs, Integral)):
            raise ValueError(f"n_jobs={jobs!r} is not a number of threads; use None for one, -1 for all cores")
        return loss

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
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

    def _problem(self, X: Any, y: Any, loss: Loss, weights: Vector | None) -> Problem:
        if weights is not None:
            weights = weights * (weights.size / weights.sum())  # mean one, so that alpha keeps its meaning
        return Problem(X, y, loss=loss, l2=self.alpha, sample_weight=weights, fit_intercept=self.fit_intercept)

    def _train(self, problem: Problem, columns: Columns, starts: list[Vector] | None) -> list[Trained]:
        """A predictor for each column, in threads. Every one has the same seed, so how many threads there are changes nothing."""
        seed = self._seed()
        if self.solver == "auto":

            def train(column: Problem, start: Vector | None, report: training.Report | None) -> Trained:
                return training.train_auto(column, tol=self.tol, max_iter=self.max_iter, x0=start, seed=seed, report=report)

        else:
            rule = make_order(self.order, problem.n, seed)
            batch_size = whole_number("batch_size", self.batch_size, 1, problem.n, "rows of the data")
            step_size: Any = self.step_size
            if isinstance(step_size, str) and step_size == "theory" and problem.smoothness is not None:
                # It does not look at the labels, so it is the same for all columns.
                step_size = self._plan(step_size, problem, rule, batch_size, None)

            def train(column: Problem, start: Vector | None, report: training.Report | None) -> Trained:
                steps = self._plan(step_size, column, rule, batch_size, start)
                return training.train_sgd(column, rule, steps, batch_size=batch_size, tol=self.tol, x0=start, report=report)

        def train_column(k: int) -> Trained:
            return train(columns.problem(k, problem), None if starts is None else starts[k], self._report(columns.names[k]))

        return self._in_threads(train_column, len(columns.names))

    def _plan(self, step_size: Any, problem: Problem, rule: Order, batch_size: int, start: Vector | None) -> list[float]:
        return training.plan(step_size, problem, rule, batch_size=batch_size, epochs=self.max_iter, x0=start)

    def _train_one_epoch(self, problem: Problem, columns: Columns, starts: list[Vector]) -> list[Trained]:
        """One epoch of Algorithm 1 for each column, from where it stands."""
        histories = _per_column(getattr(self, "history_", []), len(columns.names))
        number, seed = len(histories[0]) + 1, self._seed()
        sgd = self.solver == "sgd"
        rule = make_order(self.order if sgd else "rr", problem.n, seed)
        batch_size = whole_number("batch_size", self.batch_size, 1, problem.n, "rows of the data") if sgd else 1

        def train_column(k: int) -> Trained:
            column, x = columns.problem(k, problem), starts[k]
            if sgd:
                step_size = self.step_size(number) if callable(self.step_size) else self.step_size
                step = training.plan(step_size, column, rule, batch_size=batch_size, epochs=1, x0=x)[0]
            else:
                step = training.step_for_one_epoch(column, rule, x)
            report = self._report(columns.names[k])
            return training.train_one_epoch(column, rule, step, batch_size=batch_size, x0=x, history=histories[k], report=report)

        return self._in_threads(train_column, len(columns.names))

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral):
            return whole_number("random_state", self.random_state, 0)
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _in_threads(self, train: Callable[[int], Trained], count: int) -> list[Trained]:
        workers = 1 if count == 1 else min(effective_n_jobs(self.n_jobs), count)
        if workers == 1:
            return [train(k) for k in range(count)]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(train, range(count)))

    def _report(self, name: str) -> Callable[[Epoch], None] | None:
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
        remedy = "larger alpha" if self.solver == "auto" else "larger step_size, or solver='auto'"
        warnings.warn(
            f"{type(self).__name__} stopped at max_iter={self.max_iter}{where} with a certified relative gap of {max(gaps):.1e}, "
            f"above tol={self.tol:g}. Use a larger max_iter or tol, features of similar scale, or a {remedy}.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _scores(self, X: Any) -> Vector:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype="numeric")
        scores: Vector = safe_sparse_dot(X, self.coef_.T, dense_output=True) + self.intercept_
        return scores


def counted_rows(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Vector | None]:
    """The rows whose weight is not zero, and their weights; None where there are none, so that all count alike."""
    if sample_weight is None:
        return X, y, None
    weights: Vector = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError("sample_weight is zero everywhere; at least one row must count")
    kept = weights > 0.0
    return (X, y, weights) if kept.all() else (X[kept], y[kept], weights[kept])


def _per_column(history: Any, columns: int) -> list[list[Epoch]]:
    if columns == 1:
        return [history]
    return history or [[] for _ in range(columns)]


def _joined(values: list[float | None]) -> Any:
    """One value as it is, one for each class as an array; None where there is none."""
    if None in values:
        return None
    return values[0] if len(values) == 1 else np.array(values)
