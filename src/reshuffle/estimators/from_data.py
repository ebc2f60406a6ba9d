"""From a data file to a fitted estimator, and from an estimator to predictions for a data file: what the commands need."""

from typing import Any

import numpy as np

from reshuffle.data import Data
from reshuffle.estimators import CertifiedClassifier, CertifiedRegressor
from reshuffle.estimators.classification import LinearClassifier
from reshuffle.estimators.regression import LinearRegressor
from reshuffle.losses import get_loss
from reshuffle.rows import in_memory

Model = LinearClassifier | LinearRegressor


def fit(data: Data, loss: str, **parameters: Any) -> Model:
    """The estimator that the loss asks for, trained on data that was read from a file."""
    if data.y is None:
        raise ValueError(f"{data.name} has no labels to learn from")
    y = data.y
    if get_loss(loss).task == "regression":
        model: Model = CertifiedRegressor(loss, **parameters)
    else:
        model = CertifiedClassifier(loss, **parameters)
        if y.dtype.kind == "f" and np.array_equal(y, np.rint(y)):  # in text a class 1 is read as the number 1.0
            y = y.astype(np.int64)
    model.fit(data.X, y)
    if data.feature_names is not None:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)
    return model


def quality(model: Model, predicted: Any, y: Any) -> str | None:
    """How well predictions agree with labels, in words; None where there is nothing to compare them with."""
    if y is None or (y.dtype.kind in "biuf") != (predicted.dtype.kind in "biuf"):
        return None
    if isinstance(model, LinearClassifier):
        return f"accuracy {np.mean(predicted == y):.4f} on {y.size} rows"
    spread = float(np.sum((y - y.mean()) ** 2))
    return None if spread == 0.0 else f"R² {1.0 - float(np.sum((y - predicted) ** 2)) / spread:.4f} on {y.size} rows"


def rows_for(model: Model, data: Data, *, labelled: bool) -> tuple[Any, Any]:
    """X and y of data that a model is to predict, with the features it was trained on.

    Sparse data may end early, as svmlight text does where the last features do not occur. A table without labels is known by its
    width, unless it is said to be labelled: what was taken for its labels is its last feature.
    """
    X, y, d = data.X, data.y, int(model.n_features_in_)
    X = in_memory(X).widened(d)
    if data.feature_names is not None and X.shape[1] == d - 1 and not labelled:
        X, y = np.column_stack([X, _numbers(data)]), None
    if X.shape[1] != d:
        raise ValueError(f"{data.name} has {X.shape[1]} features; the model was trained on {d}")
    known = getattr(model, "feature_names_in_", None)
    if known is not None and data.feature_names is not None:
        for k, (name, wanted) in enumerate(zip(data.feature_names, known, strict=False)):
            if name != wanted:
                raise ValueError(f"{data.name}: feature {k} (counted from 0) is {name!r}, where the model has {str(wanted)!r}")
    return X, y


def _numbers(data: Data) -> Any:
    try:
        return np.asarray(data.y, dtype=np.float64)
    except ValueError:
        raise ValueError(f"{data.name} has {data.X.shape[1]} features; the model was trained on one more") from None
