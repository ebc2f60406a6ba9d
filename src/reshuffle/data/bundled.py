"""Real datasets that ship inside scikit-learn, by name: no download."""

from typing import Any

import numpy as np

NAMES = ("breast_cancer", "diabetes", "digits", "iris", "wine")


def read_bundled(name: str) -> tuple[Any, Any, list[str]]:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target), [str(name) for name in bunch.feature_names]
