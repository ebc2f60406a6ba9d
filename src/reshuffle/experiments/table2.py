"""Table 2: L/Lhat of datasets, with the paper's value beside those that it has, and two tables that the paper lacks: estimates,
batches and the order of the file, and what Theorem 3 makes of the same data.
"""

from collections.abc import Iterable
from math import floor, log10, sqrt

import numpy as np

from reshuffle.data.registry import DATASETS
from reshuffle.experiments.claims import exponent
from reshuffle.experiments.measurements import ROOT, Matrix, Results, Task
from reshuffle.experiments.paper import TABLE_2, Reported
from reshuffle.experiments.typesetting import Table
from reshuffle.spectral import SmoothConstants

_SWEEP_PERMUTATIONS = 100  # of the columns for b > 1, where the spread is small
_BATCHES: dict[str, tuple[int | str, str]] = {
    "b=1": (1, "b=1"),
    "b=8": (8, "b=8"),
    "b=64": (64, "b=64"),
    "b=√n": (ROOT, r"b=\sqrt n"),
}


def tasks(matrices: Iterable[Matrix], permutations: int) -> list[Task]:
    found, few = [], min(permutations, _SWEEP_PERMUTATIONS)
    for matrix in matrices:
        found += [Task(matrix, permutations=permutations), Task(matrix, order="ig", permutations=1)]
        found += [Task(matrix, b, permutations=few) for b, _ in _BATCHES.values() if b != 1]
    return found


def reported(name: str, c: SmoothConstants) -> Reported | None:
    """What the paper has for a dataset of this name and size; svmlight text may not use its last features."""
    same = name in DATASETS and c.n == DATASETS[name].n and c.d <= DATASETS[name].d
    return TABLE_2[name] if same else None


def standard_error(c: SmoothConstants, paper: Reported) -> float:
    """Of the difference between our L / mean(Lhat) and the paper's: both are sample means, theirs rounded to three digits."""
    spread = c.l_over_lhat * c.lhat_std / c.lhat_mean
    digit = 10.0 ** (floor(log10(paper.ratio)) - 2)
    return sqrt(spread**2 * (1.0 / c.permutations + 1.0 / paper.permutations) + digit**2 / 12.0)


def agrees(c: SmoothConstants, paper: Reported) -> bool:
    """Within three standard errors or 1 %, whichever is larger."""
    return abs(c.l_over_lhat - paper.ratio) <= max(3.0 * standard_error(c, paper), 0.01 * paper.ratio)


def build(results: Results, matrices: Iterable[Matrix]) -> tuple[Table, Table, Table]:
    """Rows for what was measured."""
    main, beyond, lipschitz = _main(), _beyond(), _lipschitz()
    for matrix in matrices:
        c = results.get(Task(matrix).key)
        if c is None:
            continue
        name, ratio, paper = matrix.name, c.l_over_lhat, reported(matrix.name, c)
        logs = [exponent(ratio, c.n), exponent(ratio, min(c.n, c.d))]
        row = [name, c.n, c.d, ratio, ratio * c.lhat_std / c.lhat_mean, *logs, c.permutations, round(c.seconds, 2)]
        main.rows.append([*row, *(_compared(c, paper) if paper is not None else [None] * 3)])
        if paper is not None and not agrees(c, paper):
            main.notes.append(f"{name} differs from the paper by more than three standard errors and 1 %")
        if paper is not None and paper.caveat:
            main.notes.append(f"{name}: {paper.caveat}")
        sizes = [results.get(Task(matrix, b).key) for b, _ in _BATCHES.values()]
        sweep = [value for s in sizes for value in ((None, None) if s is None else (s.l_over_lhat, s.l_over_ltil))]
        growth, ig = None if sizes[-1] is None else exponent(sizes[-1].l_over_ltil, c.n), results.get(Task(matrix, order="ig").key)
        estimate = c.L / c.predicted_lhat
        error_of_it = 100.0 * (estimate / ratio - 1.0)
        beyond.rows.append([name, estimate, error_of_it, *sweep, growth, None if ig is None else ig.l_over_lhat])
        # all G_i = 1: then Ghat, Gtil and G^2 are Lhat, Ltil and L
        gains = [None if s is None else s.L / float(np.mean(np.sqrt(s.hat * s.til))) for s in sizes]
        lipschitz.rows.append([name, ratio, *gains, gains[0] and c.n / gains[0]])
    return main, beyond, lipschitz


def _compared(c: SmoothConstants, paper: Reported) -> list[float]:
    difference = c.l_over_lhat - paper.ratio
    return [paper.ratio, difference, difference / standard_error(c, paper)]


def _main() -> Table:
    heads = {
        "dataset": "",
        "n": "$n$",
        "d": "$d$",
        "L/Lhat": r"$L/\hat L$",
        "std": "",
        "log_n": r"$\log_n L/\hat L$",
        "log_min(n,d)": r"$\log_{\min(d, n)} L/\hat L$",
        **dict.fromkeys(("permutations", "seconds", "paper", "difference", "in s.e."), ""),
    }
    caption = "L/Lhat over random permutations (b = 1, all L_i = 1), and the paper's value"
    latex = r"$L/\hat L$ with the mean of $\hat L_\pi$ over random permutations ($b = 1$, all $L_i = 1$), and the paper's value."
    return Table("table2", caption, heads, latex_caption=latex)


def _beyond() -> Table:
    heads = {"dataset": "", "estimate": r"$4/\pi^2$ estimate", "error %": ""}
    for b, (_, latex) in _BATCHES.items():
        heads |= {f"L/Lhat {b}": rf"$L/\hat L$, ${latex}$", f"L/Ltil {b}": rf"$L/\tilde L$, ${latex}$"}
    heads |= {"log_n L/Ltil b=√n": r"$\log_n L/\tilde L$, $b=\sqrt n$", "L/Lhat in file order": r"$L/\hat L_0$"}
    caption = "Beyond the paper: the 4/pi^2 estimate and its error, mini-batches, and the order that the file came in"
    latex = r"Beyond the paper: the $4/\pi^2$ estimate and its error, mini-batches of $b$, and the order $\pi^{(0)}$ of the file."
    return Table("table2_beyond", caption, heads, latex_caption=latex)


def _lipschitz() -> Table:
    gains = {f"G^2/Gbar {b}": rf"$G^2/\bar G$, ${latex}$" for b, (_, latex) in _BATCHES.items()}
    heads = {"dataset": "", "G^2/Ghat": r"$G^2/\hat G$", **gains, "n Gbar/G^2": r"$n\bar G/G^2$"}
    caption = "Lipschitz losses (all G_i = 1): the gain over the full subgradient method, and the loss against SGD (b = 1)"
    latex = (
        r"Lipschitz losses (all $G_i = 1$): $G^2/\bar G$ is the gain over the full subgradient method, $n\bar G/G^2$ the factor "
        r"to the bound of SGD with replacement ($b = 1$)."
    )
    return Table("table2_lipschitz", caption, heads, latex_caption=latex)
