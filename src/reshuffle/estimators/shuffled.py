"""Estimators on Algorithm 1: shuffled SGD with its order, batch size, step size and epochs, and a certificate where alpha > 0."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from reshuffle import theory
from reshuffle.epoch import Epoch
from reshuffle.estimators.base import Columns, LinearModel, Report, Trained
from reshuffle.estimators.classification import LinearClassifier
from reshuffle.estimators.regression import LinearRegressor
from reshuffle.evidence import constants_for, gather
from reshuffle.losses import Loss
from reshuffle.orders import Order, make_order
from reshuffle.problem import Problem
from reshuffle.rows import Rows
from reshuffle.solver.certified import solve
from reshuffle.solver.shuffled import minimize
from reshuffle.spectral import constants
from reshuffle.validation import whole_number
from reshuffle.vectors import Vector


class _Shuffled(LinearModel):
    _remedy = "more epochs, a larger step_size or alpha"
    order: Any
    batch_size: int
    step_size: Any
    epochs: int

    def _checked_loss(self) -> Loss:
        loss = super()._checked_loss()
        whole_number("epochs", self.epochs, 1)
        if isinstance(self.order, Iterator):
            raise ValueError(
                "order is an iterator, which cannot be used twice; use 'rr', 'so', 'ig', 'balanced' or a permutation array"
            )
        return loss

    def _trainer(self, problem: Problem, seed: int) -> Callable[[Problem, Vector | None, Report | None], Trained]:
        rule, batch_size = self._rule(problem, seed)
        shared = self.step_size
        if self._asks_theory and problem.smoothness is not None:  # which does not look at the labels: the same for all columns
            theorem = theory.theorem_for(problem, rule)
            facts = gather(problem, rule, constants_for(problem, rule, batch_size), None, epochs=self.epochs)
            shared = theorem.step_limit(facts)

        def train(column: Problem, start: Vector | None, report: Report | None) -> Trained:
            step = self._step(shared, column, rule, batch_size, self.epochs, start)
            tol = self.tol if self.alpha > 0.0 else None
            options: Any = {"order": rule, "batch_size": batch_size, "epochs": self.epochs, "seed": seed, "callback": report}
            run = minimize(column, step_size=step, x0=start, tol=tol, **options)
            converged = run.relative_gap is None or tol is None or run.relative_gap <= tol
            return Trained(run.x, run.history, run.steps[-1], run.gap, run.relative_gap, converged)

        return train

    def _problem(self, X: Any, y: Any, loss: Loss, weights: Vector | None) -> Problem:
        problem = super()._problem(X, y, loss, weights)
        if problem.rows.in_blocks and not isinstance(X, Rows):  # rows that lie there already were not brought for this
            warnings.warn(
                f"device={self.device!r}: epochs of shuffled SGD go from row to row and run on the CPU; the device computes step "
                "sizes and certificates. CertifiedClassifier and CertifiedRegressor train on it.",
                UserWarning,
                stacklevel=3,
            )
        return problem

    def _rule(self, problem: Problem, seed: int) -> tuple[Order, int]:
        batch_size = whole_number("batch_size", self.batch_size, 1, problem.n, "rows of the data")
        return make_order(self.order, problem.n, seed), batch_size

    @property
    def _asks_theory(self) -> bool:
        return isinstance(self.step_size, str) and self.step_size == "theory"

    def _step(self, step: Any, problem: Problem, rule: Order, batch_size: int, epochs: int, start: Vector | None) -> Any:
        """For a loss with kinks no theorem covers alpha > 0. "theory" is then the step of Theorem 3 as if alpha were 0, from the
        distance to a rough optimum: a choice, not a promise.
        """
        if self._asks_theory and not problem.squared_norms().any():
            return 1.0  # rows of zeros do not move x
        if not (self._asks_theory and problem.smoothness is None and problem.alpha > 0.0):
            return step
        of = rule if rule.repeatable else "rr"
        gbar = constants(problem, batch_size=batch_size, order=of, permutations=1, seed=rule.seed).gbar
        rough = solve(problem, tol=1e-2, max_iter=100, seed=rule.seed).x
        distance = float(np.linalg.norm(rough if start is None else rough - start))
        found = theory.step_lipschitz(problem.n, batch_size, epochs=epochs, gbar=gbar, distance=distance)
        return found or 1.0  # at the optimum already

    def _one_epoch(self, problem: Problem, columns: Columns) -> list[Trained]:
        """One epoch of Algorithm 1 for each column from where it stands, numbered on. Its f is that of the given rows."""
        first, count, seed = not hasattr(self, "coef_"), len(columns.names), self._seed()
        starts = [np.zeros(problem.dimension)] * count if first else self._points()
        known = getattr(self, "history_", [])
        histories: list[list[Epoch]] = [known] if count == 1 else known or [[] for _ in range(count)]
        rule, batch_size = self._rule(problem, seed)
        number = len(histories[0])

        def train_column(k: int) -> Trained:
            column, report = problem.replace(y=columns.labels(k)), self._report(columns.names[k])
            step = self.step_size(number + 1) if callable(self.step_size) else self.step_size
            step = self._step(step, column, rule, batch_size, 1, starts[k])
            order: Any = rule.only(number) if rule.repeatable else self._next_order(rule, k)
            run = minimize(column, order=order, batch_size=batch_size, step_size=step, epochs=1, x0=starts[k], average="last")
            record = replace(run.history[0], epoch=number + 1, gap=None)
            if report is not None:
                report(record)
            return Trained(run.x, [*histories[k], record], record.step, following=run.following)

        return self._in_threads(train_column, count)

    def _keep(self, trained: list[Trained]) -> None:
        super()._keep(trained)
        self._following = [one.following for one in trained]

    def _next_order(self, rule: Order, column: int) -> Order:
        """That which the call before made for the same number of rows; a random one where there is none."""
        made = getattr(self, "_following", None)
        if made is None or made[column] is None or made[column].size != rule.n:
            return rule
        return replace(rule, given=made[column])


class ShuffledSGDClassifier(_Shuffled, LinearClassifier):
    """Linear classification by Algorithm 1 of the paper, shuffled SGD.

    Minimises (1/sum w) sum_i w_i l(a_i'x + b, y_i) + (alpha/2)|x|^2, and keeps the paper's average of the epochs' ends. With more
    than two classes, each gets a predictor against all others. `CertifiedClassifier` needs no step size and is faster.

    loss : "logistic", "hinge", "squared_hinge", "smoothed_hinge"; "smoothed_hinge:0.5" sets the parameter; or a `Loss`.
    alpha : weight of the regulariser, which leaves the intercept alone; above 0 there is a certificate.
    order : a name such as "rr", "so", "ig", "balanced" or "buffer:1000", or a permutation array.
    batch_size : samples in a step.
    step_size : "theory", "budget", a number, a list or a function of the epoch, as in `minimize`.
    epochs : passes over the data, at most these where alpha > 0.
    tol : where to stop if alpha > 0: (f - min f) / (f of the best constant prediction - min f) is certified to be at most this.
    fit_intercept : whether to add b.
    class_weight : a dict from class to weight (1 for those not named), or "balanced": every class counts alike.
    warm_start : start `fit` from the coefficients of the fit before, if their shape and classes are right.
    random_state : of the orders; a number gives the same model every time, on any number of threads.
    n_jobs : threads for more than two classes; None for one, -1 for all cores.
    verbose : print a line for each epoch.
    callbacks : a function, or a list of them, called with the `Epoch` of each epoch; from several threads if n_jobs asks for them.
    device : where the step size and certificates are computed, and data is predicted: "auto" and "memory" for the host's memory,
        "cpu", "cuda" or "cuda:1" for PyTorch's. Epochs go from row to row, and run on the CPU whatever it is.

    Fitted, it has the attributes of `CertifiedClassifier` and `step_size_`; without a certificate the gaps are None.
    """

    def __init__(
        self,
        loss: str | Loss = "logistic",
        *,
        alpha: float = 1e-4,
        order: Any = "rr",
        batch_size: int = 1,
        step_size: Any = "theory",
        epochs: int = 100,
        tol: float = 1e-3,
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

    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """One epoch over these rows, from where the model stands (zero at first), numbered on in `history_`.

        The first call must name all `classes`. Step, batch size and order are the parameters, and the last iterate is kept. A
        balanced order goes on where the call before had as many rows, which should then be the same ones. Nothing
        is certified about rows of other calls, so `dual_gap_` is None.
        """
        self._set(self._one_epoch(*self._partial(X, y, classes, sample_weight)))
        return self


class ShuffledSGDRegressor(_Shuffled, LinearRegressor):
    """Linear regression by Algorithm 1 of the paper, shuffled SGD: see `ShuffledSGDClassifier`. `CertifiedRegressor` needs no step
    size and is faster.

    loss : "squared", "huber", "absolute", "epsilon_insensitive", "quantile"; "huber:0.5" sets the parameter; or a `Loss`.
    The other parameters are those of the classifier, without `class_weight`.
    """

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        alpha: float = 1e-4,
        order: Any = "rr",
        batch_size: int = 1,
        step_size: Any = "theory",
        epochs: int = 100,
        tol: float = 1e-3,
        fit_intercept: bool = True,
        warm_start: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        device: Any = "auto",
    ) -> None:
        self._set_parameters(locals())

    def partial_fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """One epoch over these rows: see `ShuffledSGDClassifier.partial_fit`."""
        self._set(self._one_epoch(*self._partial(X, y, sample_weight)))
        return self
