"""The data in numbers: its size, its labels, how long its rows are and how large its features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from reshuffle.problem import Problem
from reshuffle.scaling import KINDS
from reshuffle.vectors import Vector

_MOST_BINS = 30
_WIDE = 30.0  # from this ratio of largest to smallest on, bins are of equal width on a log axis


@dataclass(frozen=True)
class Distribution:
    """A histogram of positive values; zeros, which a log axis cannot show, are counted apart."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    log: bool
    zeros: int
    smallest: float  #: of the values that are not zero
    median: float
    largest: float
    largest_index: int  #: where the largest value stands, from 0


@dataclass(frozen=True)
class Scaled:
    """How the data was scaled."""

    kind: str
    reason: str  #: why, where it was chosen

    @property
    def in_words(self) -> str:
        return KINDS[self.kind]


@dataclass(frozen=True)
class Dataset:
    name: str
    n: int
    d: int
    nnz: int
    density: float
    loss: str
    alpha: float
    intercept: bool
    scaling: Scaled
    classes: tuple[tuple[str, int], ...]  #: label and number of rows; empty in regression
    label_range: tuple[float, float, float] | None  #: smallest, mean and largest label in regression
    row_norms: Distribution  #: |a_i|, an intercept included
    feature_scales: Distribution  #: root mean square of every feature
    largest_feature: str  #: its name, or its number from 0 where features have no names


def describe(problem: Problem, name: str, labels: Any, feature_names: Sequence[str] | None) -> Dataset:
    scales = distribution(np.sqrt(problem.rows.squared_column_norms() / problem.n))
    top = scales.largest_index
    classification = problem.loss.task == "classification"
    y = problem.labels
    return Dataset(
        name=name,
        n=problem.n,
        d=problem.d,
        nnz=problem.nnz,
        density=problem.nnz / (problem.n * problem.d),
        loss=str(problem.loss),
        alpha=problem.alpha,
        intercept=problem.fit_intercept,
        scaling=scaled(problem),
        classes=_classes(y, labels) if classification else (),
        label_range=None if classification else (float(y.min()), float(y.mean()), float(y.max())),
        row_norms=distribution(np.sqrt(problem.squared_norms())),
        feature_scales=scales,
        largest_feature=str(top) if feature_names is None else str(feature_names[top]),
    )


def scaled(problem: Problem) -> Scaled:
    return Scaled(**({"kind": "none", "reason": ""} if problem.scaling is None else problem.scaling.choice))


def distribution(values: Vector) -> Distribution:
    positive = values[values > 0.0]
    smallest, largest = (float(positive.min()), float(positive.max())) if positive.size else (0.0, 0.0)
    bins = int(np.clip(2.0 * np.sqrt(positive.size), 5, _MOST_BINS))
    log = positive.size > 0 and largest > _WIDE * smallest
    if largest - smallest <= 1e-9 * largest:  # one value: a bin around it
        edges = np.array([smallest * 0.95, largest * 1.05]) if largest > 0.0 else np.array([0.0, 1.0])
    elif log:
        edges = np.geomspace(smallest, largest, bins + 1)
        edges[0], edges[-1] = smallest, largest
    else:
        edges = np.linspace(smallest, largest, bins + 1)
    return Distribution(
        edges=tuple(edges.tolist()),
        counts=tuple(np.histogram(positive, bins=edges)[0].tolist()),
        log=bool(log),
        zeros=int(values.size - positive.size),
        smallest=smallest,
        median=float(np.median(values)),
        largest=largest,
        largest_index=int(np.argmax(values)),
    )


def _classes(y: Vector, labels: Any) -> tuple[tuple[str, int], ...]:
    """The labels as the file has them, where that is known: the smaller is -1 in the problem, the larger +1."""
    found: Any = [] if labels is None else np.unique(np.asarray(labels))
    names = [f"{label:g}" if isinstance(label, float) else str(label) for label in found]
    below, above = names if len(names) == 2 else ("-1", "+1")
    return ((below, int((y < 0).sum())), (above, int((y > 0).sum())))
