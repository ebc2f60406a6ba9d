"""The certified estimators with alpha chosen by cross-validation.

A fold is the whole problem with weights of zero for the rows that are left out, so all folds read the same data where it lies.
Every predictor first goes along a path over the alphas with all rows. In each fold it goes along again, in threads, from where it
was with all of them, which is nearly there; predictions for the rows that were left out come from their margins. Only a scoring
function of the user's own, which may look at rows, makes a copy of some.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv

from reshuffle.estimators.base import Columns, Given, LinearModel, Trained
from reshuffle.estimators.certified import CertifiedClassifier, CertifiedRegressor, predictors
from reshuffle.estimators.classification import LinearClassifier
from reshuffle.estimators.regression import LinearRegressor
from reshuffle.losses import Logistic, Loss, Multinomial, get_loss
from reshuffle.problem import Problem
from reshuffle.rows import Rows
from reshuffle.rows.devices import PASSES_A_FIT
from reshuffle.solver.certified import Solution, SolutionPath, path, solve, solve_multinomial
from reshuffle.solver.certified.alphas import Terms, checked, follow, grid, mixed
from reshuffle.validation import whole_number
from reshuffle.vectors import Vector


class Fold(NamedTuple):
    """Places of rows among those that count."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


class Predictor:
    """What is trained by itself: one class against all others, or numbers."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def path(self, problem: Problem, alphas: Vector, near: SolutionPath | None, **options: Any) -> SolutionPath:
        """Every alpha, on `problem`: that of this predictor, or one of its folds."""
        return path(problem, alphas, near=near, **options)

    def solve(self, alpha: float, start: Solution, **options: Any) -> Solution:
        return solve(self.problem.replace(alpha=alpha), x0=start.x, dual0=start.dual, **options)

    def points(self, x: Vector) -> list[Vector]:
        """One for each class that it scores."""
        return [x]


class Together(Predictor):
    """All classes as one problem."""

    def __init__(self, problem: Problem, numbers: NDArray[np.intp], classes: int) -> None:
        super().__init__(problem)
        self._numbers, self._classes = numbers, classes

    def path(self, problem: Problem, alphas: Vector, near: SolutionPath | None, **options: Any) -> SolutionPath:
        def fit(alpha: float, terms: Terms) -> Solution:
            x0 = mixed((factor, one.x) for factor, one in terms)
            return solve_multinomial(problem.replace(alpha=alpha), self._numbers, self._classes, x0=x0, **options)

        return follow(alphas, fit, near)

    def solve(self, alpha: float, start: Solution, **options: Any) -> Solution:
        return solve_multinomial(self.problem.replace(alpha=alpha), self._numbers, self._classes, x0=start.x, **options)

    def points(self, x: Vector) -> list[Vector]:
        return list(x)


class _CertifiedCV(LinearModel):
    _remedy = "a larger max_iter or larger alphas"
    _numbers = ("tol",)
    _best_of: ClassVar[Any]  # the estimator with one alpha
    _usual_scoring: ClassVar[Any]
    alpha = 1.0  # of a problem for which none is chosen yet
    warm_start = False
    alphas: Any
    cv: Any
    scoring: Any
    max_iter: int

    def _checked_loss(self) -> Loss:
        whole_number("max_iter", self.max_iter, 1)
        if np.ndim(self.alphas):
            checked(self.alphas)
        return super()._checked_loss()

    def _passes(self) -> float:
        """Warm starts make the fits of a path cheap: some five for all alphas, in each of some five folds."""
        return 25.0 * PASSES_A_FIT * predictors(self)

    def _train(self, problem: Problem, columns: Columns, starts: list[Vector] | None) -> list[Trained]:
        """All alphas on all rows, then in each fold from there, which chooses among them."""
        given, targets = columns.given, [problem.replace(y=columns.labels(k)) for k in range(len(columns.names))]
        own = self._predictors(problem, columns, targets)
        self.alphas_ = _grid(targets, self.alphas)
        splits = _folds(self.cv, given, is_classifier(self))
        options: dict[str, Any] = {"tol": self.tol or 1e-16, "max_iter": self.max_iter, "seed": self._seed()}

        count = len(own)
        whole = self._in_threads(lambda k: own[k].path(own[k].problem, self.alphas_, None, **options), count)

        def along(task: int) -> SolutionPath:
            fold, k = divmod(task, count)
            return own[k].path(_on(own[k].problem, splits[fold].train), self.alphas_, whole[k], **options)

        paths = self._in_threads(along, len(splits) * count)
        folds = [paths[fold * count : (fold + 1) * count] for fold in range(len(splits))]
        points = [list(_points(own, fold)) for fold in folds]
        self.scores_ = np.array(
            [self._scores_of(problem, given, found, split.test) for found, split in zip(points, splits, strict=True)]
        )
        self.fold_relative_gap_ = np.array([np.max([one.relative_gap for one in fold], axis=0) for fold in folds])
        means = self.scores_.mean(axis=0)
        best = int(np.argmax(means))
        self.alpha_, self.best_score_ = float(self.alphas_[best]), float(means[best])

        def train(k: int) -> Trained:
            report = self._report(columns.names[k] if count > 1 else "")
            found = own[k].solve(self.alpha_, whole[k].solutions[best], callback=report, **options)
            return Trained(found.x, found.history, None, found.gap, found.relative_gap, found.converged)

        return self._in_threads(train, count)

    def _predictors(self, problem: Problem, columns: Columns, targets: list[Problem]) -> list[Predictor]:
        return [Predictor(target) for target in targets]

    def _scores_of(self, problem: Problem, given: Given, fold: list[list[Vector]], test: NDArray[np.intp]) -> list[float]:
        """Of the model with each alpha, whose points these are, on the rows that it has not seen."""
        scorer = get_scorer(self._usual_scoring if self.scoring is None else self.scoring)
        if callable(self.scoring):
            rows = given.X.take(test) if isinstance(given.X, Rows) else given.X[test]
            return [float(scorer(self._with(points), rows, given.y[test])) for points in fold]
        weights = {} if given.weights is None else {"sample_weight": given.weights[test]}
        scores, model = [], self._with(fold[0])
        for points in fold:
            model._set([Trained(x, []) for x in points])
            margins = np.column_stack([problem.rows.margins(x, test) for x in points])
            model._scores = lambda X, margins=margins: margins if is_classifier(self) else margins[:, 0]
            scores.append(float(scorer(model, test, given.y[test], **weights)))  # which asks the model alone
        return scores

    def _with(self, points: list[Vector]) -> Any:
        """The estimator with one alpha, fitted: its predictors stand at these points."""
        names = self._best_of().get_params()
        model = self._best_of(**{name: value for name, value in self.get_params().items() if name in names})
        model.__dict__ |= {name: getattr(self, name) for name in ("n_features_in_", "classes_") if hasattr(self, name)}
        model._set([Trained(x, []) for x in points])
        return model

    def _keep(self, trained: list[Trained]) -> None:
        super()._keep(trained)
        self.best_estimator_ = self._with([one.x for one in trained]).set_params(alpha=self.alpha_)
        names = ("feature_names_in_", "n_iter_", "history_", "step_size_", "dual_gap_", "relative_gap_")
        self.best_estimator_.__dict__ |= {name: getattr(self, name) for name in names if hasattr(self, name)}


def _grid(targets: list[Problem], alphas: Any) -> Vector:
    """From the largest down, as of equal scores the first is the best. That of the class which needs the largest."""
    grids = [grid(target, alphas) for target in (targets if np.ndim(alphas) == 0 else targets[:1])]
    return np.sort(max(grids, key=lambda values: float(values.max())))[::-1].copy()


def _folds(cv: Any, given: Given, classifier: bool) -> list[Fold]:
    """Folds are made of all rows, those of weight zero too, as an iterable of rows would count them."""
    place = np.full(len(given.everything), -1)
    place[given.kept] = np.arange(len(given.y))
    split = check_cv(cv, given.everything, classifier=classifier).split(np.zeros(place.size), given.everything)
    folds = [Fold(*(part[part >= 0] for part in (place[train], place[test]))) for train, test in split]
    for k, fold in enumerate(folds):
        if fold.train.size == 0 or fold.test.size == 0:
            counts = f"{fold.train.size} rows to train on and {fold.test.size} to test on"
            raise ValueError(f"cv={cv!r}: fold {k} has {counts}, without those of weight zero; use fewer folds")
    return folds


def _on(problem: Problem, rows: NDArray[np.intp]) -> Problem:
    """The problem of these rows; the others stay where they are with a weight of zero."""
    weights = np.zeros(problem.n)
    weights[rows] = problem.sample_weight[rows]
    return problem.reweighted(weights * (weights.size / weights.sum()))


def _points(predictors: list[Predictor], fold: list[SolutionPath]) -> Iterator[list[Vector]]:
    """Where the predictors of a fold stand, for each alpha."""
    for solutions in zip(*(column.solutions for column in fold), strict=True):
        yield [point for own, one in zip(predictors, solutions, strict=True) for point in own.points(one.x)]


def accuracy(model: Any, X: Any, y: NDArray[Any], sample_weight: Vector | None = None) -> float:
    """scikit-learn's, which takes as long as a fit of thousands of rows to look at labels that were looked at before."""
    return float(np.average(model.predict(X) == y, weights=sample_weight))


class CertifiedClassifierCV(_CertifiedCV, LinearClassifier):
    """`CertifiedClassifier` with alpha chosen by cross-validation. Every fit is certified, in the folds too; folds and classes read
    the same data, in threads, and go along a path of warm starts over the alphas.

    loss : as in `CertifiedClassifier`.
    alphas : the values to choose from, or how many, over seven decades down from where hardly anything is left to gain.
    cv : how many folds, with as much of each class in each; a splitter of scikit-learn; or pairs of rows to train and to test on.
    scoring : what is best: a name that scikit-learn knows, or a function of model, X and y; None for the accuracy.
    n_jobs : threads for folds and classes; None for one, -1 for all cores.
    The other parameters are those of `CertifiedClassifier`, for every fit.

    Fitted, it has the attributes of `CertifiedClassifier` for the model of all rows, and `alpha_` (of equally good ones the
    largest), `alphas_` (from the largest down), `scores_` (a row for each fold, a column for each alpha), `best_score_` (the mean
    over folds for `alpha_`), `fold_relative_gap_` (certified, in the shape of `scores_`), and `best_estimator_`, the same model as
    a `CertifiedClassifier`.
    """

    _best_of = CertifiedClassifier
    _usual_scoring = staticmethod(accuracy)

    def __init__(
        self,
        loss: str | Loss = "logistic",
        *,
        alphas: Any = 10,
        cv: Any = 5,
        scoring: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        device: Any = "auto",
    ) -> None:
        self._set_parameters(locals())

    def _problem(self, X: Any, y: Any, loss: Loss, weights: Vector | None) -> Problem:
        return super()._problem(X, y, Logistic() if isinstance(loss, Multinomial) else loss, weights)

    def _predictors(self, problem: Problem, columns: Columns, targets: list[Problem]) -> list[Predictor]:
        if self.classes_.size == 2 or not isinstance(get_loss(self.loss), Multinomial):
            return super()._predictors(problem, columns, targets)
        return [Together(problem, np.searchsorted(self.classes_, columns.given.y), self.classes_.size)]


class CertifiedRegressorCV(_CertifiedCV, LinearRegressor):
    """`CertifiedRegressor` with alpha chosen by cross-validation: see `CertifiedClassifierCV`.

    loss : as in `CertifiedRegressor`.
    scoring : None for R².
    The other parameters are those of the classifier, without `class_weight`.
    """

    _best_of = CertifiedRegressor
    _usual_scoring = "r2"

    def __init__(
        self,
        loss: str | Loss = "squared",
        *,
        alphas: Any = 10,
        cv: Any = 5,
        scoring: Any = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        callbacks: Any = None,
        device: Any = "auto",
    ) -> None:
        self._set_parameters(locals())
