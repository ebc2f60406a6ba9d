"""Table 1: the paper's complexity table in numbers, for one dataset, loss and batch size: gradient evaluations to reach eps,
theorem by theorem, with earlier work beside them.
"""

from reshuffle import theory
from reshuffle.complexity import complexities
from reshuffle.experiments.measurements import Matrix
from reshuffle.experiments.typesetting import Table, latex_text
from reshuffle.problem import Problem
from reshuffle.spectral import constants

EPS = (1e-1, 1e-2, 1e-3)


def build(matrix: Matrix, *, loss: str, alpha: float, batch_size: int, permutations: int, seed: int) -> Table:
    data = matrix.load()
    problem = Problem(data.X, data.y, loss=loss, alpha=alpha)
    rr = constants(problem, batch_size=batch_size, permutations=permutations, seed=seed)
    ig = constants(problem, batch_size=batch_size, order="ig", seed=seed)
    optimum = theory.measure(problem)
    about = f"{matrix.name}, loss {problem.loss}, alpha = {alpha:g}, b = {batch_size}, n = {problem.n}, {optimum}"
    heads = {"result": "", "order": "", **{f"eps={eps:g}": rf"$\epsilon = {eps:g}$" for eps in EPS}, "constant": "", "value": ""}
    table = Table("table1", f"Gradient evaluations until f - min f <= eps: {about}", heads)
    table.latex_caption = (
        rf"Gradient evaluations until $f - \min f \le \epsilon$: {latex_text(f'{matrix.name}, loss {problem.loss}')}, "
        rf"$\mu = {alpha:g}$, $b = {batch_size}$, $n = {problem.n}$, $D = {optimum.distance:.4g}$."
    )
    table.notes.append("O(.) rows are orders of magnitude at b = 1: the constants inside are not known and taken as one")
    for row in complexities(problem, optimum, rr, ig, EPS):
        table.rows.append([row.label, row.order, *row.evaluations, row.constant, row.value])
    return table
