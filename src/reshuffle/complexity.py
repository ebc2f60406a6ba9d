"""Gradient evaluations to reach eps at batch size 1, theorem by theorem, with earlier work beside them: the paper's Table 1 in
numbers, from the constants in random orders and in the file's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reshuffle.optimum import Optimum
from reshuffle.orders import make_order
from reshuffle.problem import Problem
from reshuffle.spectral import constants
from reshuffle.theory import Theorem, theorem_for


@dataclass(frozen=True)
class Complexity:
    """A row: gradient evaluations at batch size 1, one for each eps."""

    result: str
    order: str
    evaluations: tuple[float, ...]
    constant: str  #: the name of the constant of the data that it rests on
    value: float  #: of that constant
    order_only: bool  #: the constants inside O(.) are not known and taken as one

    @property
    def label(self) -> str:
        return f"O(.) {self.result}" if self.order_only else self.result


def complexities(problem: Problem, optimum: Optimum, rr: Any, ig: Any, accuracies: Sequence[float]) -> list[Complexity]:
    """A row for each theorem that holds for the problem, or for it as a general sum of smooth functions, and each earlier one."""
    rows: dict[str, Complexity] = {}

    def add(theorem: Theorem, c: Any, at: Optimum) -> None:
        name = f"{theorem.name} (general)" if theorem.general else theorem.name
        evaluations = tuple(theorem.evaluations(c, at, eps) for eps in accuracies)
        constant, attribute = theorem.constant
        rows.setdefault(name, Complexity(name, theorem.orders, evaluations, constant, getattr(c, attribute), order_only=False))

    for c in (rr, ig):
        order = make_order(c.order, problem.n, c.seed)
        add(theorem_for(problem, order), c, optimum)
        if problem.smoothness is not None:
            # L_i|a_i|^2 + alpha is the smoothness of f_i as a function of x
            smoothness = np.maximum(problem.smoothness * problem.squared_norms() + problem.alpha, np.finfo(float).tiny)
            dual_norm = float(np.sqrt(np.sum(problem.squared_sample_gradients(optimum.x) / smoothness)))
            general = constants(smoothness=smoothness, order=order, permutations=c.permutations, seed=c.seed)
            add(theorem_for(None, order), general, replace(optimum, dual_norm=dual_norm))
    theorem = theorem_for(problem, make_order(rr.order, problem.n, rr.seed))
    constant, attribute = theorem.prior_constant
    for results in zip(*(theorem.prior_work(rr, optimum, eps) for eps in accuracies), strict=True):
        name, evaluations = results[0].work, tuple(result.evaluations for result in results)
        rows[name] = Complexity(name, results[0].order.upper(), evaluations, constant, getattr(rr, attribute), order_only=True)
    return list(rows.values())
