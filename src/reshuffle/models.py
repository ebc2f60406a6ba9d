"""A fitted estimator as a JSON file: names, sizes, coefficients and certificate, and nothing that runs when it is read.

A file is always whole, and `load` believes nothing it has not checked.
"""

import json
import warnings
from dataclasses import fields
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from reshuffle import __version__
from reshuffle.estimators import (
    CertifiedClassifier,
    CertifiedClassifierCV,
    CertifiedRegressor,
    CertifiedRegressorCV,
    ShuffledSGDClassifier,
    ShuffledSGDRegressor,
)
from reshuffle.estimators.classification import LinearClassifier
from reshuffle.estimators.regression import LinearRegressor
from reshuffle.losses import LOSSES, Multinomial, get_loss
from reshuffle.records import checksum, in_short, read_json, write_file
from reshuffle.scaling import Scaling
from reshuffle.tables import Columns

FORMAT = "reshuffle model"
FORMAT_VERSION = 4

Model = LinearClassifier | LinearRegressor

_KINDS = (CertifiedClassifier, CertifiedRegressor, ShuffledSGDClassifier, ShuffledSGDRegressor)
_ESTIMATORS: dict[str, Any] = {kind.__name__: kind for kind in _KINDS}


def __getattr__(name: str) -> Any:
    if name in ("fit", "quality", "rows_for"):
        warnings.warn(f"models.{name} is called estimators.from_data.{name} now", FutureWarning, stacklevel=2)
        return getattr(import_module("reshuffle.estimators.from_data"), name)
    raise AttributeError(f"module 'reshuffle.models' has no attribute {name!r}")


def save(model: Model, path: str | Path) -> None:
    """Write a fitted model, with how the table it was trained on became a matrix (`columns_`, where it was one), or from where the
    indices of svmlight text counted (`zero_based_`). Of its parameters, `callbacks` stay behind; of its attributes, `history_`. Of
    one that has chosen its alpha, the `best_estimator_` is kept.
    """
    check_is_fitted(model)
    if isinstance(model, CertifiedClassifierCV | CertifiedRegressorCV):
        model = model.best_estimator_
    names, columns, scaling = (getattr(model, name, None) for name in ("feature_names_in_", "columns_", "scaling_"))
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "reshuffle": __version__,
        "estimator": type(model).__name__,
        "parameters": _parameters(model),
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "columns": None if columns is None else columns.to_dict(),
        "scaling": None if scaling is None else scaling.to_dict(),
        "zero_based": getattr(model, "zero_based_", None),
        "classes": _classes(model),
        "coefficients": np.atleast_2d(model.coef_).tolist(),
        "intercepts": np.atleast_1d(model.intercept_).tolist(),
        "passes": model.n_iter_,
        "step_size": _plain(model.step_size_),
        "certified_gap": _plain(model.dual_gap_),
        "certified_relative_gap": _plain(model.relative_gap_),
    }
    content["checksum"] = checksum(content)
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(value, allow_nan=False)}" for name, value in content.items())
    write_file(path, f"{{\n{lines}\n}}\n")


def load(path: str | Path) -> Model:
    """Read a model that `save` wrote: fitted, and equal to the last bit."""
    try:
        content = read_json(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no model file {str(path)!r}; `reshuffle fit ... --out {path}` writes one") from None
    except ValueError as error:
        raise ValueError(f"{path} is not a model of reshuffle, or not all of one: {in_short(error)}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a model of reshuffle; `reshuffle fit` writes one")
    version = content.get("format_version")
    if version != FORMAT_VERSION:
        raise ValueError(
            f"{path} has format version {version!r} and this reshuffle reads {FORMAT_VERSION}; "
            "fit it again, or read it with the reshuffle that wrote it"
        )
    try:
        if content.pop("checksum") != checksum(content):
            raise ValueError("its content is not what its checksum says; fit it again, or bring back a copy")
        return _model(content)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError) as error:
        raise ValueError(f"{path} is damaged: {in_short(error)}") from None


def _parameters(model: Model) -> dict[str, Any]:
    parameters = model.get_params()
    del parameters["callbacks"], parameters["device"]  # which belongs to a machine
    loss = get_loss(model.loss)
    if {**LOSSES, "multinomial": Multinomial}.get(loss.name) is not type(loss):
        raise ValueError(f"loss={str(loss)!r} is not built in, so a file cannot hold it; keep coef_ and intercept_ by other means")
    parameters["loss"] = f"{loss.name}:{loss.parameter!r}" if fields(loss) else loss.name
    weights = parameters.get("class_weight")
    if isinstance(weights, dict):  # the keys of a JSON object are always text, and classes need not be
        parameters["class_weight"] = [[_plain(name), float(weight)] for name, weight in weights.items()]
    return {name: _plain(value, name) for name, value in parameters.items()}


def _classes(model: Model) -> list[Any] | None:
    if isinstance(model, LinearRegressor):
        return None
    classes: list[Any] = model.classes_.tolist()
    if not _one_kind(classes):
        raise ValueError(
            f"classes_ holds {classes[0]!r}; a file can hold classes that are all text, all numbers or all true and false"
        )
    return classes


def _one_kind(classes: list[Any]) -> bool:
    return any(all(type(name) is kind for name in classes) for kind in (str, bool, int, float))


def _plain(value: Any, name: str = "") -> Any:
    """The same in types that JSON has."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if not (value is None or isinstance(value, bool | int | float | str | list | tuple)):
        raise ValueError(f"{name}={value!r} cannot be written to a file; set it to a number or a name first")
    return value


def _model(content: dict[str, Any]) -> Model:
    parameters = dict(content["parameters"])
    if isinstance(parameters.get("class_weight"), list):
        parameters["class_weight"] = {name: float(weight) for name, weight in parameters["class_weight"]}
    kind = _ESTIMATORS.get(content["estimator"])
    if kind is None:
        raise ValueError(f"estimator {content['estimator']!r} is not one of {', '.join(_ESTIMATORS)}")
    model: Model = kind(**parameters)
    model._checked_loss()
    d, classes = content["n_features"], content["classes"]
    if type(d) is not int or d < 1:
        raise ValueError(f"n_features is {d!r}")
    rows = 1
    if isinstance(model, LinearClassifier):
        if not (isinstance(classes, list) and len(classes) > 1 and _one_kind(classes) and classes == sorted(set(classes))):
            raise ValueError("classes must be two or more sorted names or numbers")
        rows = len(classes) if len(classes) > 2 else 1
        model.classes_ = _class_array(classes)
    coefficients = _array("coefficients", content["coefficients"], (rows, d))
    intercepts = _array("intercepts", content["intercepts"], (rows,))
    one = isinstance(model, LinearRegressor)
    model.coef_, model.intercept_ = (coefficients[0], float(intercepts[0])) if one else (coefficients, intercepts)
    model.n_features_in_ = d
    names = content["feature_names"]
    if names is not None:
        if not (isinstance(names, list) and len(names) == d and all(isinstance(name, str) for name in names)):
            raise ValueError(f"feature_names must be {d} names")
        model.feature_names_in_ = np.array(names, dtype=object)
    if content["columns"] is not None:
        model.columns_ = Columns.from_dict(content["columns"])
        if model.columns_.names != names:
            raise ValueError("columns make other features than feature_names")
    if content["scaling"] is not None:
        model.scaling_ = Scaling.from_dict(content["scaling"], d)
    if content["zero_based"] is not None:
        if not isinstance(content["zero_based"], bool):
            raise ValueError(f"zero_based is {content['zero_based']!r}")
        model.zero_based_ = content["zero_based"]
    model.n_iter_ = int(content["passes"])
    problems = 1 if isinstance(get_loss(model.loss), Multinomial) else rows  # of which each has a gap
    model.step_size_ = _number_or_row("step_size", content["step_size"], problems)
    model.dual_gap_ = _number_or_row("certified_gap", content["certified_gap"], problems)
    model.relative_gap_ = _number_or_row("certified_relative_gap", content["certified_relative_gap"], problems)
    return model


def _class_array(classes: list[Any]) -> Any:
    """Whole numbers stay whole, however large: NumPy alone would take them for floats or objects."""
    if type(classes[0]) is not int:
        return np.array(classes)
    for kind in (np.int64, np.uint64):
        if np.iinfo(kind).min <= classes[0] and classes[-1] <= np.iinfo(kind).max:
            return np.array(classes, dtype=kind)
    raise ValueError("classes hold whole numbers of more than 64 bits")


def _array(name: str, values: Any, shape: tuple[int, ...]) -> Any:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} are not numbers") from None
    if array.shape != shape:
        raise ValueError(f"{name} have shape {array.shape}; the sizes in the file ask for {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} are not all finite")
    return array


def _number_or_row(name: str, value: Any, rows: int) -> Any:
    if value is None:
        return None
    if rows > 1:
        return _array(name, value, (rows,))
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ValueError(f"{name} is {value!r}, not a number")
    return float(value)
