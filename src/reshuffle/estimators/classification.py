"""Classification: two classes by one predictor, more by one against the rest for each."""

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from reshuffle.estimators.base import Columns, Given, LinearModel, Trained, counted_rows
from reshuffle.losses import Logistic, Multinomial, get_loss
from reshuffle.problem import Problem
from reshuffle.vectors import Vector


def _has_probabilities(model: Any) -> bool:
    if not isinstance(get_loss(model.loss), Logistic | Multinomial):
        raise AttributeError(f"loss={str(model.loss)!r} gives no probabilities; use loss='logistic', or calibrate the model")
    return True


class LinearClassifier(ClassifierMixin, LinearModel):  # type: ignore[misc]
    """Of two classes or more. Fitted, it has `coef_` and `intercept_`: a row for each class, or one for two classes."""

    _task = "classification"
    class_weight: dict[Any, float] | str | None
    classes_: NDArray[Any]

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Train on all rows. `sample_weight` times `class_weight` is normalised to mean one; a row of weight 0 is a row that is not
        there, so a class that has no other rows is not known.
        """
        loss = self._checked_loss()
        X, y = self._validated(X, y, reset=True)
        _refuse_numbers(y)
        given = counted_rows(X, y, sample_weight)
        classes, numbers = _classes_of(given.y)
        if classes.size < 2:
            raise ValueError(
                f"y has 1 class, {classes.tolist()[0]!r}, among the rows that count; a classifier needs two classes or more"
            )
        numbers = numbers.astype(np.min_scalar_type(-classes.size))  # a byte a row, where there are few
        weights = self._class_weighted(classes, numbers, given.weights)
        starts = None
        if self.warm_start and hasattr(self, "coef_") and np.array_equal(self.classes_, classes):
            starts = self._points() if self.coef_.shape[1] == self.n_features_in_ else None
        self.classes_ = classes
        columns = self._columns(numbers, given)
        trained = self._train(self._problem(given.X, columns.labels(0), loss, weights), columns, starts)
        self._set(trained)
        self._warn_of_gap(trained)
        return self

    def _partial(self, X: Any, y: Any, classes: ArrayLike | None, sample_weight: ArrayLike | None) -> tuple[Problem, Columns]:
        """What one more epoch over these rows is about; the first call must name all classes."""
        loss = self._checked_loss()
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all rows at once; give partial_fit a dict of weights, or use fit")
        first = not hasattr(self, "coef_")
        known = _known_classes(classes, None if first else self.classes_)
        X, y = self._validated(X, y, reset=first)
        _refuse_numbers(y)
        given = counted_rows(X, y, sample_weight)
        numbers = np.minimum(np.searchsorted(known, given.y), known.size - 1)
        strange = known[numbers] != given.y
        if strange.any():
            raise ValueError(
                f"y holds {given.y[strange].tolist()[0]!r}, which is not among the classes {known.tolist()}; name all in classes"
            )
        self.classes_ = known
        columns = self._columns(numbers, given)
        return self._problem(given.X, columns.labels(0), loss, self._class_weighted(known, numbers, given.weights)), columns

    def decision_function(self, X: Any) -> Vector:
        """a'x + b of each row: one number for two classes (positive for the second), else one for each class."""
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        chosen: NDArray[Any] = self.classes_[(scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)]
        return chosen

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Vector:
        """The probability of each class: for the logistic loss 1/(1 + exp(-score)), made to add up to one over the classes, for the
        multinomial loss exp(score) over the sum of those of all classes.
        """
        return np.exp(self._log_probabilities(X))

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Vector:
        """The logarithm of `predict_proba`, exact where that is too small for a number."""
        return self._log_probabilities(X)

    def _log_probabilities(self, X: Any) -> Vector:
        scores = self._scores(X)
        both = np.hstack([-scores, scores]) if scores.shape[1] == 1 else scores
        joint = scores.shape[1] > 1 and isinstance(get_loss(self.loss), Multinomial)
        normalised: Vector = log_softmax(both if joint else log_expit(both), axis=1)
        return normalised

    def _columns(self, numbers: NDArray[np.integer[Any]], given: Given) -> Columns:
        """Of the second class where there are two, else of each."""
        if self.classes_.size == 2:
            return Columns([""], lambda k: _signs(numbers, 1), given)
        return Columns([f"class {name}: " for name in self.classes_], partial(_signs, numbers), given)

    def _class_weighted(self, classes: NDArray[Any], numbers: NDArray[np.integer[Any]], weights: Vector | None) -> Vector | None:
        if self.class_weight is None:
            return weights
        own = np.ones(numbers.size) if weights is None else weights
        if self.class_weight == "balanced":
            balanced: Vector = own / np.bincount(numbers, own)[numbers]
            return balanced
        if not isinstance(self.class_weight, dict):
            raise ValueError(f"class_weight={self.class_weight!r} is not known; use 'balanced' or a dict from class to weight")
        names = classes.tolist()
        for name, weight in self.class_weight.items():
            if name not in names:
                raise ValueError(f"class_weight names {name!r}, which is not among the classes {names}")
            if not 0.0 < weight < np.inf:
                raise ValueError(f"class_weight={weight!r} of class {name!r} must be a positive number; leave its rows out instead")
        factors = np.array([float(self.class_weight.get(name, 1.0)) for name in names])
        scaled = [np.ldexp(values, -np.frexp(values.max())[1]) for values in (own, factors)]  # their products stay finite
        weighted: Vector = scaled[0] * scaled[1][numbers]
        return weighted

    def _points(self) -> list[Vector]:
        return list(np.hstack([self.coef_, self.intercept_[:, None]]) if self.fit_intercept else self.coef_.copy())

    def _set(self, trained: list[Trained]) -> None:
        x = np.vstack([one.x for one in trained])
        self.coef_ = x[:, : self.n_features_in_].copy()
        self.intercept_ = x[:, -1].copy() if self.fit_intercept else np.zeros(x.shape[0])
        self._keep(trained)


def _classes_of(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The classes in rising order, and which of them each row has. Two numbers need no sort, which takes longer than to fit them
    where a device does that.
    """
    if y.dtype.kind in "biuf":
        ends = np.array([y.min(), y.max()])
        upper = y == ends[1]
        if ends[0] < ends[1] and (upper | (y == ends[0])).all():
            return ends, upper
    classes, numbers = np.unique(y, return_inverse=True)
    return classes, numbers


def _signs(numbers: NDArray[np.integer[Any]], k: int) -> NDArray[np.int8]:
    """+1 for the rows of class k, -1 for all others, of a byte each."""
    signs: NDArray[np.int8] = 2 * (numbers == k).view(np.int8) - 1
    return signs


def _refuse_numbers(y: Any) -> None:
    # of whole numbers and text every value is a class; what else may be one, scikit-learn decides, which takes it long
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        assert_all_finite(y, input_name="y")
    if y.dtype.kind == "O" or (y.dtype.kind == "f" and not (y == np.rint(y)).all()):
        check_classification_targets(y)


def _known_classes(given: ArrayLike | None, before: NDArray[Any] | None) -> NDArray[Any]:
    """The classes of `partial_fit`, sorted."""
    if given is None:
        if before is None:
            raise ValueError("classes=None: the first call of partial_fit must name all classes")
        return before
    classes = np.unique(np.asarray(given))
    if before is not None and not np.array_equal(classes, before):
        raise ValueError(f"classes={classes.tolist()} differ from {before.tolist()} of the first call; leave them out")
    if classes.size < 2:
        raise ValueError(f"classes={classes.tolist()} is a single class; a classifier needs two classes or more")
    return classes
