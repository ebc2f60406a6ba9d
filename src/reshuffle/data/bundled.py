"""Real datasets that ship inside scikit-learn, by name: no download."""

import numpy as np

from reshuffle.tables import Column, Table

NAMES = ("breast_cancer", "diabetes", "digits", "iris", "wine")


def read_bundled(name: str) -> Table:
    """The features, then a column `target`."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    columns: list[Column] = [*np.asarray(bunch.data, dtype=np.float64).T, np.asarray(bunch.target)]
    return Table(name, [*map(str, bunch.feature_names), "target"], columns)
