"""The regressor."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from reshuffle.estimators.base import Columns, LinearModel, counted_rows
from reshuffle.estimators.training import Trained
from reshuffle.losses import Loss

Vector = NDArray[np.float64]


class ShuffledSGDRegressor(RegressorMixin, LinearModel):  # type: ignore[misc]
    """Linear regression that needs no learning rate and says how far from the optimum it is.

    Minimises (1/sum w) sum_i w_i l(a_i'x + b, y_i) + (alpha/2)|x|^2 until the certified relative gap is at most tol.

    loss : "squared", "huber", "absolute", "epsilon_insensitive", "quantile"; "huber:0.5" sets the parameter; or a `Loss`.
    alpha : weight of the regulariser, which leaves the intercept alone; above 0 for solver="auto".
    solver : "auto" needs no step size, and order, batch_size and step_size have no effect on it; "sgd" is Algorithm 1 of the paper.
    tol : where to stop: (f - min f) / (f of the best constant prediction - min f) is certified to be at most this.
    max_iter : passes over the data at most.
    fit_intercept : whether to add b.
    order : solver="sgd" alone: "rr", "so", "ig" or a permutation array.
    batch_size : solver="sgd" alone: samples in a step.
    step_size : solver="sgd" alone: "theory", "budget", a number, a list or a function of the epoch, as in `minimize`.
    warm_start : start `fit` from the coefficients of the fit before, if their shape is right.
    random_state : of the orders; a number gives the same model every time.
    n_jobs : taken for likeness with the classifier; a regressor trains one predictor.
    verbose : print a line for each pass.
    callbacks : a function, or a list of them, called with the `Epoch` of each pass.

    Fitted, it has `coef_` (d numbers), `intercept_`, `n_features_in_`, `feature_names_in_`, `n_iter_` (passes), `step_size_` (None
    for "auto", which has none), `dual_gap_` (certified: f - min f is at most this; None without a certificate), `relative_gap_`
    (that, relative as in `tol`) and `history_` (an `Epoch` for each pass).
    """

    _task = "regression"

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        alpha: float = 1e-4,
        solver: str = "auto",
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        order: Any = "rr",
        batch_size: int = 1,
        step_size: Any = "theory",
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
    ) -> None:
        super().__init__(
            loss,
            alpha=alpha,
            solver=solver,
            tol=tol,
            max_iter=max_iter,
            fit_intercept=fit_intercept,
            order=order,
            batch_size=batch_size,
            step_size=step_size,
            warm_start=warm_start,
            random_state=random_state,
            n_jobs=n_jobs,
            verbose=verbose,
            callbacks=callbacks,
        )

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all rows. `sample_weight` is normalised to mean one; a row of weight 0 is a row that is not there."""
        loss = self._checked_loss()
        X, y = self._validated(X, y, reset=True)
        X, y, weights = counted_rows(X, y, sample_weight)
        problem = self._problem(X, y, loss, weights)
        known = self.warm_start and hasattr(self, "coef_") and self.coef_.shape == (problem.d,)
        trained = self._train(problem, Columns([""], lambda k: problem.labels), [self._point()] if known else None)
        self._set(trained)
        self._warn_of_gap(trained)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """One epoch of Algorithm 1 over these rows, from where the model stands (zero at first), numbered on in `history_`.

        With solver="sgd" its step, batch size and order are the parameters. With "auto" samples come one by one in random order,
        and the step is the one the theory has for these rows: the limit of Theorem 1 for a smooth loss; for a loss with kinks that
        of Theorem 3 for one epoch, from the distance to the optimum of these rows. Nothing is certified about rows of other
        calls, so `dual_gap_` is None.
        """
        loss = self._checked_loss()
        first = not hasattr(self, "coef_")
        X, y = self._validated(X, y, reset=first)
        X, y, weights = counted_rows(X, y, sample_weight)
        problem = self._problem(X, y, loss, weights)
        start = np.zeros(problem.dimension) if first else self._point()
        self._set(self._train_one_epoch(problem, Columns([""], lambda k: problem.labels), [start]))
        return self

    def predict(self, X: Any) -> Vector:
        """The prediction of each row."""
        return self._scores(X)

    def _point(self) -> Vector:
        return np.append(self.coef_, self.intercept_) if self.fit_intercept else self.coef_.copy()

    def _set(self, trained: list[Trained]) -> None:
        x = trained[0].x
        self.coef_ = x[: self.n_features_in_].copy()
        self.intercept_ = float(x[-1]) if self.fit_intercept else 0.0
        self._keep(trained)
