"""What about the data itself calls for a warning: rows and features that outweigh the others, repeats, constants."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from reshuffle.optimum import measure
from reshuffle.orders import make_order
from reshuffle.problem import Problem
from reshuffle.spectral import constants_by_batch_size
from reshuffle.theory import Facts, shortest, theorems_for

_FEW_ENTRIES = 2_000_000  # up to here the problem is solved again with scaled features, to see what that would gain


def look_at(problem: Problem, *, batch_size: int, epochs: int, eps: float, feature_names: Sequence[str] | None) -> Iterator[str]:
    """The warnings, for a plan that takes `epochs` epochs at this batch size to reach eps."""
    yield from heavy_rows(problem)
    yield from heavy_features(problem, batch_size, epochs, eps, feature_names)
    yield from repeated_rows(problem)
    yield from constant_features(problem, feature_names)


def heavy_rows(problem: Problem) -> Iterator[str]:
    smoothness, lipschitz = problem.smoothness, problem.lipschitz
    weights = smoothness if smoothness is not None else np.square(lipschitz if lipschitz is not None else 1.0)
    sizes = weights * problem.squared_norms()
    usual = float(np.quantile(sizes, 0.99))
    heavy = np.flatnonzero(sizes > 4.0 * usual)
    if usual > 0.0 and heavy.size:
        rows = ", ".join(str(row) for row in heavy[np.argsort(-sizes[heavy])][:5])
        gain = float(np.sqrt(sizes.max() / usual))
        text = f"{heavy.size} rows decide L (largest: {rows}, from 0)"
        yield f"{text}; scaled down to the 99th percentile, b = 1 could step {gain:.1f} times larger"


def heavy_features(problem: Problem, batch_size: int, epochs: int, eps: float, names: Sequence[str] | None) -> Iterator[str]:
    squares = problem.rows.squared_column_norms()
    total, top = float(squares.sum()), int(np.argmax(squares))
    if problem.d == 1 or total == 0.0 or squares[top] < 0.5 * total:
        return
    text = f"feature {_named(top, names)} carries {100 * squares[top] / total:.0f} % of the data's squared norm; scale the features"
    if problem.rows.entries <= _FEW_ENTRIES and problem.smoothness is not None:
        gain = epochs / _epochs_with_scaled_features(problem, squares, batch_size, eps)
        text = f"{text}: to unit size, the promise would take {gain:.3g} times fewer evaluations"
    yield text


def _epochs_with_scaled_features(problem: Problem, squares: Any, batch_size: int, eps: float) -> int:
    factors = 1.0 / np.sqrt(np.where(squares > 0.0, squares / problem.n, 1.0))
    scaled = problem.replace(X=problem.rows.scale_columns(factors))
    found = constants_by_batch_size(scaled, [batch_size], permutations=3, seed=0)[batch_size]
    rule = make_order("rr", scaled.n, 0)
    facts = Facts.of(found, measure(scaled), rule, intercept=scaled.fit_intercept)
    return shortest(theorems_for(scaled, rule), facts, eps).epochs


def repeated_rows(problem: Problem) -> Iterator[str]:
    """Equal rows have equal products with a random vector, and unequal ones have not."""
    probe = np.random.default_rng(0).standard_normal(problem.dimension)
    repeated = problem.n - np.unique(problem.margins(probe)).size
    if repeated >= max(2, 0.01 * problem.n):
        yield f"{repeated} of the {problem.n} rows repeat another row; a sample weight can stand for each"


def constant_features(problem: Problem, names: Sequence[str] | None) -> Iterator[str]:
    low, high = problem.rows.column_ranges()
    constant = np.flatnonzero(low == high)
    if constant.size and problem.n > 1:
        shown = ", ".join(_named(int(column), names) for column in constant[:5])
        yield f"{constant.size} features are constant ({shown}{', ...' if constant.size > 5 else ''}, from 0); drop them"


def _named(column: int, names: Sequence[str] | None) -> str:
    return f"{column} ({names[column]})" if names is not None else str(column)
