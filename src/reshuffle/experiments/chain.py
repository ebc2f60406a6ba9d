"""The relaxations between Lhat and L, (2) of the paper, in numbers: how much each of its inequalities gives away on real data.

For the order pi, m batches and the norms of A_pi without its first j - 1 batches

    Lhat_pi <= (1/(mn)) sum_j ||tail_j||^2 <= (1/n) ||A||^2 <= (1/n) sum_i |a_i|^2 <= max_i |a_i|^2 = L,

rows scaled by sqrt(L_i). The paper states it at b = 1 and L_i = 1, and for any of both after (4).
"""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from reshuffle.experiments.measurements import Matrix
from reshuffle.experiments.typesetting import Table
from reshuffle.orders import make_order
from reshuffle.problem import Problem
from reshuffle.spectral import constants
from reshuffle.spectral.lanczos import top_eigenvalue

# The norm of a tail falls as the tail gets shorter, so straight lines between 101 of them miss the sum by less than a hundredth of
# the largest term. In random orders it falls almost linearly, and they miss far less: 3e-7 of the sum on a9a, 2e-3 on the word
# counts of news20, where a few rows dominate, both against 1001 tails.
TAILS = 101


@dataclass(frozen=True)
class Chain:
    """The five terms, from the smallest to the largest."""

    lhat: float  #: Lhat_pi
    tails: float  #: (i), the triangle inequality: the mean over j of (1/n)||tail_j||^2
    full: float  #: (ii), the whole matrix for each tail: (1/n)||A||^2
    mean: float  #: (iii), the trace for the norm: (1/n) sum_i L_i|a_i|^2
    L: float  #: the largest sample


def relaxations(problem: Any, *, batch_size: int = 1, order: Any = "so", seed: int = 0, tol: float = 1e-4) -> Chain:
    """The chain of a smooth problem, or of a bare matrix with L_i = 1, in one order: that of the seed if none is named."""
    problem = problem if isinstance(problem, Problem) else Problem(problem, loss="unit")
    if problem.smoothness is None or problem.alpha > 0.0:
        raise ValueError(f"loss={str(problem.loss)!r}, alpha={problem.alpha:g}: the chain is about smooth losses with alpha=0")
    rule = make_order(order, problem.n, seed)
    c = constants(problem, batch_size=batch_size, order=rule, permutations=1, tol=tol)
    visit, scale = rule.permutation(0), np.sqrt(problem.smoothness)
    starts = np.arange(0, problem.n, batch_size)
    some = np.unique(np.linspace(0, len(starts) - 1, TAILS).astype(int))
    norms = [_squared_norm(problem, scale, visit[starts[j] :], tol) for j in some]
    tails = float(np.interp(np.arange(len(starts)), some, norms).mean())
    mean = float(np.mean(problem.smoothness * problem.squared_norms()))
    return Chain(c.lhat_max, tails / problem.n, norms[0] / problem.n, mean, c.L)


def _squared_norm(problem: Problem, scale: Any, visit: Any, tol: float) -> float:
    """The norm of these rows, each times its scale, squared."""
    part, scale = problem.take(visit), scale[visit]

    def apply(v: Any, out: Any) -> None:
        out[:] = scale * part.margins(part.transposed(scale * v))

    # From the rows times a random direction: the start is as strong in each singular direction as the data is.
    start = scale * part.margins(np.random.default_rng(0).standard_normal(part.dimension))
    return top_eigenvalue(apply, start, tol=tol).value if start.any() else 0.0


def build(matrices: Iterable[Matrix], seed: int, failures: list[str]) -> Table:
    """A row for each dataset; one that fails is told in `failures` and left out."""
    terms = {
        "Lhat": r"$\hat L_\pi$",
        "tails": r"$\frac{1}{n^2}\sum_j \|A_{\pi, j\uparrow}\|^2$",
        "|A|^2/n": r"$\frac{1}{n}\|A\|^2$",
        "mean |a|^2": r"$\frac{1}{n}\sum_i \|a_i\|^2$",
        "L": r"$\max_i \|a_i\|^2$",
    }
    factors = {"(i)": "", "(ii)": "", "(iii)": "", "max/mean": ""}
    table = Table(
        "chain",
        "From Lhat to L: the terms of the paper's (2) for one random order (b = 1, all L_i = 1), and the factor of each relaxation",
        {"dataset": "", **terms, **factors},
        latex_caption=r"From $\hat L$ to $L$: each term of the chain of relaxations for one random order ($b = 1$, all $L_i = 1$), "
        "and the factor that each relaxation gives away.",
    )
    for matrix in matrices:
        try:
            chain = astuple(relaxations(matrix.load().X, seed=seed))
        except (ValueError, OSError, MemoryError) as error:
            failures.append(f"{matrix.name}, chain: {error}")
            continue
        table.rows.append([matrix.name, *chain, *(b / a if a > 0.0 else None for a, b in pairwise(chain))])
    return table
