"""Table 1: the paper's complexity table in numbers, for one dataset and loss: gradient evaluations to reach eps, theorem by
theorem, with earlier work beside them.
"""

from reshuffle import theory
from reshuffle.complexity import complexities
from reshuffle.experiments.typesetting import Table
from reshuffle.problem import Problem
from reshuffle.spectral import constants

EPS = (1e-1, 1e-2, 1e-3)


def build(problem: Problem, name: str, *, permutations: int, seed: int) -> Table:
    optimum = theory.measure(problem)
    rr = constants(problem, permutations=permutations, seed=seed)
    ig = constants(problem, order="ig", seed=seed)
    about = f"{name}, loss {problem.loss}, alpha = {problem.alpha:g}, b = 1, n = {problem.n}, {optimum}"
    columns = ["result", "order", *(f"eps={eps:g}" for eps in EPS), "constant"]
    table = Table("table1", f"Gradient evaluations until f - min f <= eps: {about}", columns)
    table.notes.append("O(.) rows are orders of magnitude: the constants inside are not known and taken as one")
    for row in complexities(problem, optimum, rr, ig, EPS):
        table.rows.append([row.label, row.order, *row.evaluations, f"{row.constant}={row.value:.4g}"])
    return table
