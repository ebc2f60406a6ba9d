"""Estimators on the certified solver: no learning rate, a certificate to stop by."""

from collections.abc import Callable
from typing import Any

import numpy as np

from reshuffle.estimators.base import Columns, LinearModel, Report, Trained
from reshuffle.estimators.classification import LinearClassifier
from reshuffle.estimators.regression import LinearRegressor
from reshuffle.losses import Logistic, Loss, Multinomial, get_loss
from reshuffle.problem import Problem
from reshuffle.rows.devices import PASSES_A_FIT
from reshuffle.solver.certified import solve, solve_multinomial
from reshuffle.validation import whole_number
from reshuffle.vectors import Vector

_ALL = 1e-16  # what tol=0 asks for: all that rounding allows


class _Certified(LinearModel):
    _remedy = "a larger max_iter or alpha"
    max_iter: int

    def _checked_loss(self) -> Loss:
        loss = super()._checked_loss()
        if self.alpha == 0.0:
            raise ValueError(f"alpha=0 leaves no certificate to stop by; use alpha > 0, or {_sibling(self)}")
        whole_number("max_iter", self.max_iter, 1)
        return loss

    def _passes(self) -> float:
        return PASSES_A_FIT * predictors(self)

    def _trainer(self, problem: Problem, seed: int) -> Callable[[Problem, Vector | None, Report | None], Trained]:
        def train(column: Problem, start: Vector | None, report: Report | None) -> Trained:
            found = solve(column, tol=self.tol or _ALL, max_iter=self.max_iter, x0=start, seed=seed, callback=report)
            return Trained(found.x, found.history, None, found.gap, found.relative_gap, found.converged)

        return train


def predictors(model: LinearModel) -> int:
    """That are to be trained."""
    count = len(getattr(model, "classes_", ()))
    return count if count > 2 else 1


def _sibling(model: LinearModel) -> str:
    return type(model).__name__.replace("Certified", "ShuffledSGD")


class CertifiedClassifier(_Certified, LinearClassifier):
    """Linear classification that needs no learning rate and says how far from the optimum it is: SDCA in reshuffled order and
    subsampled Newton steps, stopped by the duality gap.

    Minimises (1/sum w) sum_i w_i l(a_i'x + b, y_i) + (alpha/2)|x|^2 until the certified relative gap is at most tol. With more
    than two classes, each gets a predictor against all others or, with the multinomial loss, all are trained as one problem.

    loss : "logistic", "multinomial", "hinge", "squared_hinge", "smoothed_hinge"; "smoothed_hinge:0.5" sets the parameter; or a
        `Loss`. With two classes, "multinomial" is "logistic".
    alpha : weight of the regulariser, above 0; it leaves the intercept alone.
    tol : where to stop: (f - min f) / (f of the best constant prediction - min f) is certified to be at most this.
    max_iter : passes over the data at most.
    fit_intercept : whether to add b.
    class_weight : a dict from class to weight (1 for those not named), or "balanced": every class counts alike.
    warm_start : start `fit` from the coefficients of the fit before, if their shape and classes are right.
    random_state : of the orders; a number gives the same model every time, on any number of threads.
    n_jobs : threads for more than two classes; None for one, -1 for all cores.
    verbose : print a line for each pass.
    callbacks : a function, or a list of them, called with the `Epoch` of each pass; from several threads if n_jobs asks for them.
    device : "auto": dense data goes to a GPU where PyTorch sees one and that pays (`docs/gpu.md`), and `device_` says where the fit
        was made; "memory", "cpu", "cuda" or "cuda:1", where data to predict goes as well. A tensor is used where it lies.

    Fitted, it has `coef_` and `intercept_` (a row for each class, or one for two classes), `classes_`, `n_features_in_`,
    `feature_names_in_`, `n_iter_` (passes, the most that a class took), `dual_gap_` (certified: f - min f is at most this),
    `relative_gap_` (that, relative as in `tol`), `history_` (an `Epoch` for each pass) and `device_`. With more than two classes
    the gaps are arrays and `history_` a list of lists, unless the loss is multinomial.
    """

    def __init__(
        self,
        loss: str | Loss = "logistic",
        *,
        alpha: float = 1e-4,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        device: Any = "auto",
    ) -> None:
        self._set_parameters(locals())

    def _problem(self, X: Any, y: Any, loss: Loss, weights: Vector | None) -> Problem:
        return super()._problem(X, y, Logistic() if isinstance(loss, Multinomial) else loss, weights)

    def _train(self, problem: Problem, columns: Columns, starts: list[Vector] | None) -> list[Trained]:
        if self.classes_.size == 2 or not isinstance(get_loss(self.loss), Multinomial):
            return super()._train(problem, columns, starts)
        numbers = np.searchsorted(self.classes_, columns.given.y)
        found = solve_multinomial(
            problem,
            numbers,
            self.classes_.size,
            tol=self.tol or _ALL,
            max_iter=self.max_iter,
            x0=None if starts is None else np.array(starts),
            seed=self._seed(),
            callback=self._report(""),
        )
        return [Trained(found.x, found.history, None, found.gap, found.relative_gap, found.converged)]


class CertifiedRegressor(_Certified, LinearRegressor):
    """Linear regression that needs no learning rate and says how far from the optimum it is: see `CertifiedClassifier`.

    loss : "squared", "huber", "absolute", "epsilon_insensitive", "quantile"; "huber:0.5" sets the parameter; or a `Loss`.
    The other parameters are those of the classifier, without `class_weight`.

    Fitted, it has the attributes of the classifier without `classes_`: `coef_` holds d numbers, `intercept_` is one.
    """

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        alpha: float = 1e-4,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        device: Any = "auto",
    ) -> None:
        self._set_parameters(locals())
