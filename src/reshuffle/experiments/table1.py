"""Table 1: the paper's complexity table in numbers, for one dataset and loss: gradient evaluations to reach eps, theorem by
theorem, with earlier work beside them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle import theory
from reshuffle.experiments.typesetting import Table
from reshuffle.optimum import Optimum
from reshuffle.problem import Problem
from reshuffle.spectral import LipschitzConstants, constants

Vector = NDArray[np.float64]

EPS = (1e-1, 1e-2, 1e-3)


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


def build(problem: Problem, name: str, *, permutations: int, seed: int) -> Table:
    optimum = theory.measure(problem)
    rr = constants(problem, permutations=permutations, seed=seed)
    ig = constants(problem, order="ig", seed=seed)
    about = f"{name}, loss {problem.loss}, l2 = {problem.l2:g}, b = 1, n = {problem.n}, {optimum}"
    table = Table(
        "table1",
        f"Gradient evaluations until f - min f <= eps: {about}",
        ["result", "order", *(f"eps={eps:g}" for eps in EPS), "constant"],
    )
    table.notes.append("O(.) rows are orders of magnitude: the constants inside are not known and taken as one")
    for row in complexities(problem, optimum, rr, ig, EPS):
        table.rows.append([row.label, row.order, *row.evaluations, f"{row.constant}={row.value:.4g}"])
    return table


def complexities(problem: Problem, optimum: Optimum, rr: Any, ig: Any, accuracies: Sequence[float]) -> list[Complexity]:
    """The rows, from the constants at batch size 1 in random orders and in the file's own."""
    n, D = problem.n, optimum.distance
    if isinstance(rr, LipschitzConstants):
        ours = tuple(theory.evaluations_lipschitz(eps, n, 1, gbar=rr.gbar, distance=D) for eps in accuracies)
        priors = [theory.prior_work(eps, n, G=rr.G, distance=D) for eps in accuracies]
        return [Complexity("Theorem 3", "RR/SO/IG", ours, "Gbar", rr.gbar, False), *_prior(priors, "G", rr.G)]
    general = _sample_smoothness(problem, problem.smoothness if problem.smoothness is not None else np.ones(n))
    general_dual_norm = float(np.sqrt(np.sum(problem.squared_sample_gradients(optimum.x) / general)))
    general_rr = constants(smoothness=general, permutations=rr.permutations, seed=rr.seed)
    general_ig = constants(smoothness=general, order="ig", seed=rr.seed)
    numbers = {"distance": D, "sigma": optimum.sigma}
    rows = []
    for label, c in (("Theorem 1", rr), ("Theorem 4 (general)", general_rr)):
        ours = tuple(theory.evaluations_smooth(eps, n, 1, lhat=c.lhat_max, ltil=c.ltil_max, **numbers) for eps in accuracies)
        rows.append(Complexity(label, "RR/SO", ours, "Lhat", c.lhat_max, False))
    for label, c, dual in (("Theorem 2", ig, optimum.dual_norm), ("Theorem 5 (general)", general_ig, general_dual_norm)):
        own = {**numbers, "lhat": c.lhat_max, "ltil": c.ltil_max, "dual_norm": dual}
        ours = tuple(theory.evaluations_ig(eps, n, 1, **own) for eps in accuracies)
        rows.append(Complexity(label, "IG", ours, "Lhat", c.lhat_max, False))
    return [*rows, *_prior([theory.prior_work(eps, n, L=rr.L, **numbers) for eps in accuracies], "L", rr.L)]


def _prior(priors: list[list[theory.PriorResult]], constant: str, value: float) -> list[Complexity]:
    return [
        Complexity(rows[0].work, rows[0].order.upper(), tuple(row.evaluations for row in rows), constant, value, True)
        for rows in zip(*priors, strict=True)
    ]


def _sample_smoothness(problem: Problem, smoothness: Vector) -> Vector:
    """L_i|a_i|^2 + l2: the smoothness of f_i as a function of x."""
    return np.maximum(smoothness * problem.squared_norms() + problem.l2, np.finfo(float).tiny)
