"""From a data file to a fitted estimator, and from an estimator to predictions for a data file: what the commands need."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.data import Data, load
from reshuffle.data._files import is_store
from reshuffle.defaults import ALPHA
from reshuffle.estimators import CertifiedClassifier, CertifiedClassifierCV, CertifiedRegressor, CertifiedRegressorCV
from reshuffle.estimators.classification import LinearClassifier
from reshuffle.estimators.regression import LinearRegressor
from reshuffle.losses import get_loss
from reshuffle.problem import Problem
from reshuffle.rows import Rows, in_memory
from reshuffle.scaling import AUTO
from reshuffle.scaling import scale as choose_scale
from reshuffle.tables import Columns
from reshuffle.validation import mean_one, refuse_merged

Model = LinearClassifier | LinearRegressor


def fit(data: Data, loss: str, scale: str = "none", *, on_dask: bool = False, **parameters: Any) -> Model:
    """The estimator that the loss asks for, trained on data that was read from a file, with alpha chosen by cross-validation where
    there are `alphas`, and on the workers of Dask's active client if asked to. `columns_` says how a table became X, and `scaling_`
    how that was scaled: the certificate is that of the scaled problem, the coefficients are in the units of the file.
    """
    model = checked(loss, **parameters)
    choose, classes = "alphas" in parameters, isinstance(model, LinearClassifier)
    y = _labels(data)
    scaling = choose_scale(_problem_of(model, data, y) if scale == AUTO else data.X, scale)
    rows = scaling.apply(data.X)
    model.fit(rows.on_dask() if on_dask else rows, _classes(y, data.name) if classes else y, sample_weight=data.weights)
    for one in (model, model.best_estimator_) if choose else (model,):
        one.coef_, one.intercept_ = scaling.in_units(one.coef_, one.intercept_)
        one.scaling_ = scaling
        if data.feature_names is not None:
            one.feature_names_in_ = np.array(data.feature_names, dtype=object)
        if data.columns is not None:
            one.columns_ = data.columns
        if data.zero_based is not None:
            one.zero_based_ = data.zero_based
    return model  # type: ignore[no-any-return]


def checked(loss: str, **parameters: Any) -> Any:
    """The estimator, after everything that can be wrong about it without the data has been refused."""
    choose, classes = "alphas" in parameters, get_loss(loss).task != "regression"
    kinds: Any = (CertifiedClassifier, CertifiedClassifierCV) if classes else (CertifiedRegressor, CertifiedRegressorCV)
    model = kinds[choose](loss, **parameters)
    model._checked_loss()
    return model


def _problem_of(model: Model, data: Data, y: Any) -> Problem:
    """What the model is to solve; of several classes, that of the most common against the rest."""
    if isinstance(model, LinearClassifier):
        classes, counts = np.unique(y, return_counts=True)
        y = y if classes.size == 2 else y == classes[np.argmax(counts)]
    weights = None if data.weights is None else mean_one(data.weights)
    options: dict[str, Any] = {"sample_weight": weights, "fit_intercept": model.fit_intercept}
    return Problem(data.X, y, loss=model.loss, alpha=getattr(model, "alpha", ALPHA), **options)


def _labels(data: Data) -> Any:
    if data.y is None:
        raise ValueError(f"{data.name} has no labels to learn from; name the column or file of the labels with --target")
    return data.y


def _classes(y: Any, name: str) -> Any:
    """In text a class 1 is read as the number 1.0."""
    if y.dtype.kind != "f" or not np.array_equal(y, np.rint(y)):
        return y
    refuse_merged(y, f"{name}: y")
    return y.astype(np.int64)


def quality(model: Model, predicted: Any, y: Any, weights: Any = None) -> str | None:
    """How well predictions agree with labels, in words; None where there is nothing to compare them with."""
    if y is None:
        return None
    labels, found = ("numbers" if values.dtype.kind in "biuf" else "words" for values in (y, predicted))
    if labels != found:
        return f"no score, as the labels are {labels} and the predictions {found}"
    if isinstance(model, LinearClassifier):
        unknown = ~np.isin(y, model.classes_)
        strange = f"; {unknown.sum()} of them have labels that the model does not know ({y[unknown][0]})" if unknown.any() else ""
        return f"accuracy {np.average(predicted == y, weights=weights):.4f} on {y.size} rows{strange}"
    spread = float(np.average((y - np.average(y, weights=weights)) ** 2, weights=weights))
    missed = float(np.average((y - predicted) ** 2, weights=weights))
    return None if spread == 0.0 else f"R² {1.0 - missed / spread:.4f} on {y.size} rows"


def load_for(
    model: Model,
    source: str | Path | Sequence[str | Path],
    *,
    target: str | int | None = None,
    weight: str | int | None = None,
    zero_based: bool | None = None,
    strict: bool = False,
    memory: str | None = None,
) -> Data:
    """Data that a model is to predict, in the form of what it was trained on. Columns of a table are found by their names, and
    labels and weights by the names they had there, or by `target` and `weight`; a table need not have any. Indices of svmlight text
    count from where they did in training.
    """
    trained = getattr(model, "zero_based_", None)
    if None not in (trained, zero_based) and trained != zero_based:
        raise ValueError(f"zero_based={zero_based}: the model was trained on indices that count from {0 if trained else 1}")
    d = int(model.n_features_in_)
    columns: Columns | None = getattr(model, "columns_", None)
    names = getattr(model, "feature_names_in_", None)
    if columns is None:
        columns = Columns.plain(None if names is None else [str(name) for name in names], d)
    if is_store(source if isinstance(source, str | Path) else source[0]):
        if not columns.numeric:
            raise ValueError(f"{source} is a store of numbers; the model was trained on a table with words, dates or gaps")
        data = load(source, target=target, weight=weight, memory=memory)
        if None not in (trained, data.zero_based) and trained != data.zero_based:
            counted = [0 if zero else 1 for zero in (data.zero_based, trained)]
            raise ValueError(f"{data.name} was built of indices that count from {counted[0]}; the model counts from {counted[1]}")
    else:
        base = trained if zero_based is None else zero_based
        data = load(source, target=target, weight=weight, strict=strict, columns=columns, zero_based=base, memory=memory)
    X, y = rows_for(model, data)
    return replace(data, X=X, y=y)


def rows_for(model: Model, data: Data) -> tuple[Any, Any]:
    """X and y with as many features as the model has. Sparse data may end early, as svmlight text does where the last features do
    not occur.
    """
    d = int(model.n_features_in_)
    if isinstance(data.X, Rows):
        X = data.X if data.X.d >= d or not hasattr(data.X, "widened") else data.X.widened(d)
    else:
        X = in_memory(data.X).widened(d)
    if X.shape[1] != d:
        raise ValueError(f"{data.name} has {X.shape[1]} features; the model was trained on {d}")
    return X, data.y
