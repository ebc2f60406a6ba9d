"""Regression: one predictor."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from reshuffle.estimators.base import Columns, LinearModel, Trained, counted_rows
from reshuffle.problem import Problem
from reshuffle.vectors import Vector


class LinearRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Of numbers. Fitted, it has `coef_` (d numbers) and `intercept_`."""

    _task = "regression"

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all rows. `sample_weight` is normalised to mean one; a row of weight 0 is a row that is not there."""
        problem, columns = self._posed(X, y, sample_weight, reset=True)
        known = self.warm_start and hasattr(self, "coef_") and self.coef_.shape == (problem.d,)
        trained = self._train(problem, columns, self._points() if known else None)
        self._set(trained)
        self._warn_of_gap(trained)
        return self

    def _partial(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> tuple[Problem, Columns]:
        """What one more epoch over these rows is about."""
        return self._posed(X, y, sample_weight, reset=not hasattr(self, "coef_"))

    def _posed(self, X: Any, y: Any, sample_weight: ArrayLike | None, *, reset: bool) -> tuple[Problem, Columns]:
        loss = self._checked_loss()
        X, y = self._validated(X, y, reset=reset)
        given = counted_rows(X, y, sample_weight)
        problem = self._problem(given.X, given.y, loss, given.weights)
        return problem, Columns([""], lambda k: problem.labels, given)

    def predict(self, X: Any) -> Vector:
        """The prediction of each row."""
        return self._scores(X)

    def _points(self) -> list[Vector]:
        return [np.append(self.coef_, self.intercept_) if self.fit_intercept else self.coef_.copy()]

    def _set(self, trained: list[Trained]) -> None:
        x = trained[0].x
        self.coef_ = x[: self.n_features_in_].copy()
        self.intercept_ = float(x[-1]) if self.fit_intercept else 0.0
        self._keep(trained)
