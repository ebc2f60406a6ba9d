"""Table 1: the paper's complexity table in numbers, for one dataset and loss: gradient evaluations to reach eps, theorem by
theorem, with earlier work beside them.
"""

import numpy as np
from numpy.typing import NDArray

from reshuffle import theory
from reshuffle.experiments.tables import Table
from reshuffle.problem import Problem
from reshuffle.spectral import LipschitzConstants, constants

Vector = NDArray[np.float64]

EPS = (1e-1, 1e-2, 1e-3)


def build(problem: Problem, name: str, *, permutations: int, seed: int) -> Table:
    optimum = theory.measure(problem)
    n = problem.n
    rr = constants(problem, permutations=permutations, seed=seed)
    table = Table(
        "table1",
        f"Gradient evaluations until f - min f <= eps: {name}, loss {problem.loss}, l2 = {problem.l2:g}, b = 1, n = {n}, {optimum}",
        ["result", "order", *(f"eps={eps:g}" for eps in EPS), "constant"],
    )
    table.notes.append("O(.) rows are orders of magnitude: the constants inside are not known and taken as one")
    if isinstance(rr, LipschitzConstants):
        ours = [theory.evaluations_lipschitz(eps, n, 1, gbar=rr.gbar, distance=optimum.distance) for eps in EPS]
        table.rows.append(["Theorem 3", "RR/SO/IG", *ours, f"Gbar={rr.gbar:.4g}"])
        priors = [theory.prior_work(eps, n, G=rr.G, distance=optimum.distance) for eps in EPS]
        return _with_prior(table, priors, f"G={rr.G:.4g}")
    ig = constants(problem, order="ig", seed=seed)
    general = _sample_smoothness(problem, problem.smoothness if problem.smoothness is not None else np.ones(n))
    general_dual_norm = float(np.sqrt(np.sum(problem.squared_sample_gradients(optimum.x) / general)))
    general_rr = constants(smoothness=general, permutations=permutations, seed=seed)
    general_ig = constants(smoothness=general, order="ig", seed=seed)
    numbers = {"distance": optimum.distance, "sigma": optimum.sigma}
    for label, c in (("Theorem 1", rr), ("Theorem 4 (general)", general_rr)):
        row = [theory.evaluations_smooth(eps, n, 1, lhat=c.lhat_max, ltil=c.ltil_max, **numbers) for eps in EPS]
        table.rows.append([label, "RR/SO", *row, f"Lhat={c.lhat_max:.4g}"])
    priors = [theory.prior_work(eps, n, L=rr.L, **numbers) for eps in EPS]
    for label, c, dual in (("Theorem 2", ig, optimum.dual_norm), ("Theorem 5 (general)", general_ig, general_dual_norm)):
        row = [theory.evaluations_ig(eps, n, 1, lhat=c.lhat_max, ltil=c.ltil_max, dual_norm=dual, **numbers) for eps in EPS]
        table.rows.append([label, "IG", *row, f"Lhat={c.lhat_max:.4g}"])
    return _with_prior(table, priors, f"L={rr.L:.4g}")


def _with_prior(table: Table, priors: list[list[theory.PriorResult]], constant: str) -> Table:
    for rows in zip(*priors, strict=True):
        table.rows.append([f"O(.) {rows[0].work}", rows[0].order.upper(), *(row.evaluations for row in rows), constant])
    return table


def _sample_smoothness(problem: Problem, smoothness: Vector) -> Vector:
    """L_i|a_i|^2 + l2: the smoothness of f_i as a function of x."""
    return np.maximum(smoothness * problem.squared_norms() + problem.l2, np.finfo(float).tiny)
