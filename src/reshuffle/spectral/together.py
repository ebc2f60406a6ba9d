"""The constants of several permutations side by side, for rows whose products are cheaper so: a GPU reads them for many orders at
once. The recurrence is that of `lanczos`, with a row of a matrix for each permutation; the host looks once a product.

Vectors are the storage's own, on its device: all that is asked of them is arithmetic, sums and `tolist`.
"""

from dataclasses import replace
from typing import Any

from reshuffle.spectral.lanczos import MAX_PRODUCTS, TopEigenvalue, looks_at, ritz, steps_for_bound


def top_eigenvalues(together: Any, start: Any, *, tol: float, most: int = MAX_PRODUCTS) -> list[TopEigenvalue]:
    """`lanczos.top_eigenvalue` of each order: until its residual is at most `tol`, or `most` products are spent."""
    v = start / together.lengths(start)[:, None]
    previous, beta = 0.0 * v, 0.0 * together.lengths(v)
    live = list(range(len(v)))
    alphas: list[list[float]] = [[] for _ in live]
    betas: list[list[float]] = [[] for _ in live]
    found: dict[int, TopEigenvalue] = {}
    for k in range(1, most + 1):
        w = together.ordered(v) - beta[:, None] * previous
        alpha = (v * w).sum(-1)
        w = w - alpha[:, None] * v
        beta = together.lengths(w)
        for place, a, b in zip(live, alpha.tolist(), beta.tolist(), strict=True):
            alphas[place].append(a)
            betas[place].append(b)
        previous, v = v, w / (beta + (beta == 0.0))[:, None]
        if not looks_at(k) and k < most and all(betas[place][-1] > 0.0 for place in live):
            continue
        found.update({place: ritz(alphas[place], betas[place]) for place in live})
        stay = [i for i, place in enumerate(live) if found[place].residual > tol and k < most]
        if len(stay) < len(live):
            if not stay:
                break
            together, v, previous, beta = together.only(stay), v[stay], previous[stay], beta[stay]
            live = [live[i] for i in stay]
    return [found[place] for place in sorted(found)]


def upper_bounds(together: Any, start: Any, *, slack: float, failure_probability: float) -> list[TopEigenvalue]:
    """`lanczos.upper_bound` of each order."""
    steps = steps_for_bound(start.shape[1], slack, failure_probability)
    tops = top_eigenvalues(together, start, tol=-1.0, most=steps)
    return [replace(top, value=top.value / (1.0 - slack)) for top in tops]
