"""Gradient evaluations to reach eps, theorem by theorem, with earlier and newer work beside them: the paper's Table 1 in numbers,
from the constants in random orders and in the file's own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from reshuffle.evidence import gather
from reshuffle.optimum import Optimum
from reshuffle.orders import make_order
from reshuffle.problem import Problem
from reshuffle.spectral import constants
from reshuffle.theory import EPOCHS, Facts, Theorem, prior_work, theorem_for, theorems_for


@dataclass(frozen=True)
class Complexity:
    """A row: gradient evaluations, one for each eps; None where the conditions of the result fail."""

    result: str
    order: str
    evaluations: tuple[float | None, ...]
    constant: str  #: the name of the constant of the data that it rests on
    value: float  #: of that constant
    order_only: bool = False  #: the constants inside O(.) are not known and taken as one

    @property
    def label(self) -> str:
        return f"O(.) {self.result}" if self.order_only else self.result


def complexities(problem: Problem, optimum: Optimum, rr: Any, ig: Any, accuracies: Sequence[float]) -> list[Complexity]:
    """A row for each theorem that holds for the problem in random orders or in that of the file, or for it as a general sum of
    smooth functions; the same with L for all constants; and for each other result at batch size 1.
    """
    rows: dict[tuple[str, str], Complexity] = {}

    def add(theorem: Theorem, facts: Facts, orders: str, suffix: str = "") -> None:
        w = theorem.within(facts)
        if w is None:
            return
        constant, value = ("Gbar", (w.hat * w.til) ** 0.5) if theorem.constant == "Gbar" else ("Lhat", w.hat)
        evaluations = tuple(theorem.evaluations(facts, eps) for eps in accuracies)
        name = f"{theorem.name}{suffix}"
        rows.setdefault((name, orders), Complexity(name, orders, evaluations, constant, value))

    for c in (rr, ig):
        order = make_order(c.order, problem.n, c.seed)
        facts = gather(problem, order, c, optimum, epochs=EPOCHS)
        orders = "RR" if order.uniform else "IG"
        for theorem in theorems_for(problem, order):  # of random orders, what holds on average: the worst of them is another row
            if theorem.in_expectation == order.uniform or theorem.constant == "Gbar":
                add(theorem, facts, orders)
        known_by = " with L" if c.smooth else " with G"
        add(theorem_for(problem, order), facts.textbook(), orders, known_by)
        if problem.smoothness is not None:
            # L_i|a_i|^2 + alpha is the smoothness of f_i as a function of x
            smoothness = np.maximum(problem.smoothness * problem.squared_norms() + problem.alpha, np.finfo(float).tiny)
            dual_norm = float(np.sqrt(np.sum(problem.squared_sample_gradients(optimum.x) / smoothness)))
            general = constants(
                smoothness=smoothness, batch_size=c.batch_size, order=order, permutations=c.permutations, seed=c.seed
            )
            known = replace(Facts.of(general, optimum, order, discrepancy=facts.discrepancy), dual_norm=dual_norm)
            add(theorem_for(None, order), known, orders, " (general)")
    at_one = replace(facts, batch_size=1)
    for prior, _ in prior_work(at_one, max(accuracies)):
        shown = tuple(prior.to_eps(at_one, eps) if prior.holds(at_one, eps) else None for eps in accuracies)
        constant, value = ("L", facts.largest) if rr.smooth else ("G", facts.largest**0.5)
        rows[prior.work, prior.orders] = Complexity(prior.work, prior.orders, shown, constant, value, not prior.exact)
    return list(rows.values())
