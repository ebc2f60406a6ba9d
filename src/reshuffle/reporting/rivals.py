"""The advice beside what people do without it, for as many epochs and by the same clock, all of it measured: the step that a
textbook allows, scikit-learn's SGD as it comes, and full gradient descent.
"""

import time
import warnings
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any

import numpy as np
import scipy.sparse as sp

from reshuffle.advising import Advice
from reshuffle.optimum import Optimum
from reshuffle.problem import Problem
from reshuffle.snippets import in_sklearn
from reshuffle.solver.race import Training


@dataclass(frozen=True)
class Rival:
    """One run."""

    name: str
    gaps: tuple[float | None, ...]  #: after each epoch; None where f left the finite numbers, or reached the minimum
    seconds: tuple[float, ...]  #: of training until then, looking at f not counted


def rivals(problem: Problem, optimum: Optimum, advice: Advice, *, textbook_step: float, full_step: float) -> tuple[Rival, ...]:
    """The advice first. `textbook_step` is for the batch size of the advice, `full_step` for all rows at once."""
    ways = {
        "the advice": (advice.order, advice.batch_size, advice.step_size),
        "the textbook step": ("rr", advice.batch_size, textbook_step),
        "full gradient descent": ("rr", problem.n, full_step),
    }
    runs = [_trained(name, problem, optimum, way, advice) for name, way in ways.items()]
    return tuple(run for run in [*runs, _in_sklearn(problem, optimum, advice)] if run is not None)


def _trained(name: str, problem: Problem, optimum: Optimum, way: tuple[str, int, float], advice: Advice) -> Rival:
    run, looks = Training(problem, *way, advice.seed), range(1, advice.epochs + 1)
    run.go_on(looks)
    return _rival(name, [run.values.get(look, inf) - optimum.f for look in looks], run.seconds)


def _in_sklearn(problem: Problem, optimum: Optimum, advice: Advice) -> Rival | None:
    """None where it does not know the loss, or does not take the data."""
    from sklearn import linear_model

    try:
        estimator, arguments = in_sklearn(str(problem.loss))
    except ValueError:
        return None
    orders = np.random.RandomState(advice.seed)  # a number would repeat one order in every epoch
    model = getattr(linear_model, estimator)(
        **arguments, alpha=problem.alpha, fit_intercept=problem.fit_intercept, random_state=orders
    )
    X, gaps, seconds = _for_sklearn(problem.rows.take(np.arange(problem.n)).matrix), [], []
    known = {"classes": np.unique(problem.labels)} if estimator == "SGDClassifier" else {}
    margins = model.decision_function if known else model.predict
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of too few epochs, and of overflow: what it reached is what is drawn
        for _ in range(advice.epochs):
            began = time.thread_time()
            try:
                model.partial_fit(X, problem.labels, **known, sample_weight=problem.sample_weight)
            except ValueError as error:
                if "overflow" in str(error):  # it left the finite numbers
                    break
                return None  # it does not take such data
            seconds.append(time.thread_time() - began)
            x = np.zeros(problem.dimension)
            x[: problem.d] = model.coef_.ravel()
            gaps.append(problem.objective_at(margins(X), x) - optimum.f)  # an intercept has no part in the alpha term
    return _rival(f"{estimator} as it comes", gaps + [inf] * (advice.epochs - len(gaps)), seconds)


def _for_sklearn(X: Any) -> Any:
    """With the only kind of indices that its SGD takes, where they are large enough."""
    if sp.issparse(X) and X.nnz < 2**31:
        X.indices, X.indptr = X.indices.astype(np.int32, copy=False), X.indptr.astype(np.int32, copy=False)
    return X


def _rival(name: str, gaps: list[float], seconds: list[float]) -> Rival:
    spent = np.cumsum([*seconds, *[0.0] * (len(gaps) - len(seconds))])
    return Rival(name, tuple(gap if isfinite(gap) and gap > 0.0 else None for gap in gaps), tuple(spent.tolist()))
