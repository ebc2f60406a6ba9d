"""The top eigenvalue of a positive semidefinite operator, by a short Lanczos recurrence that looks at its residual after
every product. It knows nothing of the operator but `apply(v, out)` or, by `GolubKahan`, its factors. A `start` vector is used
up: it becomes working space.

The Ritz value theta is a lower bound of the norm, and some eigenvalue lies within the residual of it. That eigenvalue is
the top one unless the start vector misses the top eigenvector; the callers choose starts that do not. No vector is kept
for reorthogonalisation: the copies of converged eigenvalues that rounding then breeds do not move the top one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, log, sqrt
from typing import Protocol

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dstev

from reshuffle.vectors import Vector, lanczos_step


class Factored(Protocol):
    """B B', whose factors cost one pass over B where they are multiplied by at once, and which holds a vector u for that."""

    def begin(self, u: Vector) -> Vector:
        """Holds u; returns B'u."""

    def step(self, x: Vector, factor: float) -> tuple[float, Vector]:
        """Holds B x - factor u in place of u; returns its squared norm, and B' times it."""

    def along(self, *several: tuple[Vector, float]) -> list[Vector]:
        """B x - factor u, for each x and factor."""


Apply = Callable[[Vector, Vector], None]

MAX_PRODUCTS = 1000
_SPENT = 1e-14  # of the largest Ritz value: what is left of a basis vector is rounding


@dataclass(frozen=True)
class TopEigenvalue:
    value: float  #: the Ritz value, or the upper bound
    residual: float  #: |M x - theta x| / theta for the unit Ritz vector x
    products: int  #: applications of the operator
    coefficients: Vector  #: of the Ritz vector in the Lanczos basis


class GolubKahan:
    """The recurrence of B B' = (U L)(U L)', by the rows of the lower bidiagonal L: d along its diagonal, e beside it (Golub
    and Kahan 1965). A vector of U is made orthogonal to the last before it is multiplied by B', so that both sequences of vectors
    stay those of B. Those of U are held by the operator, one at a time, and those beside them, x, are kept here if a Ritz vector
    will be asked for.
    """

    def __init__(self, factored: Factored, keep: bool = True) -> None:
        self._factored, self._keep = factored, keep
        self._known: list[tuple[float, float, Vector]] = []  # d, e and x of each step

    def steps(self, start: Vector) -> Iterator[tuple[float, float, None]]:
        """Alpha and beta of each step; the next basis vector stays where it is."""
        self._known = []
        e, held, x = 0.0, 1.0, self._factored.begin(start / np.linalg.norm(start))
        while True:
            d = float(np.linalg.norm(x))
            x = x / (d or 1.0)
            if self._keep:
                self._known.append((d, e, x))
            square, product = self._factored.step(x, d / held)  # what is held has this norm
            held = sqrt(square)
            yield d * d + e * e, d * held, None
            if d * held == 0.0:
                return
            e, x = held, product / held - held * x

    def ritz_vector(self, top: TopEigenvalue, beside: Callable[[Vector], Vector]) -> Vector:
        """As the function of this name. After k steps B B'Uc = theta Uc + d_k c_k p for the Ritz vector Uc, where p is what is
        held, and B'U is known: so the steps need not be made again.
        """
        c, image = top.coefficients, np.zeros_like(self._known[0][2])
        for k, (d, e, x) in enumerate(self._known):
            daxpy(x, image, a=d * c[k])
            if k:
                daxpy(self._known[k - 1][2], image, a=e * c[k])
        first, _, x = self._known[0]
        product, vector = self._factored.along((first * x, 0.0), (image, self._known[-1][0] * float(c[-1])))
        out = beside(product)
        daxpy(vector, out, a=1.0 / top.value)
        return out


Operator = Apply | GolubKahan


def top_eigenvalue(apply: Operator, start: Vector, *, tol: float) -> TopEigenvalue:
    """Until the relative residual is at most `tol`, or `MAX_PRODUCTS` are spent: the caller reads the residual."""
    return _top(apply, start, tol, MAX_PRODUCTS)


def _top(apply: Operator, start: Vector, tol: float, most: int) -> TopEigenvalue:
    alphas: list[float] = []
    betas: list[float] = []
    steps = apply.steps(start) if isinstance(apply, GolubKahan) else _recurrence(apply, start)
    for k, (alpha, beta, _) in enumerate(steps, 1):
        alphas.append(alpha)
        betas.append(beta)
        if looks_at(k) or beta == 0.0 or k == most:
            top = ritz(alphas, betas)
            if top.residual <= tol or k == most:
                break
    return top


def looks_at(k: int) -> bool:
    """Whether to look at the residual after k products: late on, a product costs less than looking."""
    return k <= 16 or k % 4 == 0


def ritz_vector(apply: Operator, start: Vector, top: TopEigenvalue, beside: Callable[[Vector], Vector]) -> Vector:
    """The unit vector that belongs to `top`, which was found from this start, added to what `beside` makes of the product with the
    unit start. The recurrence is run again rather than its basis kept in memory; its first step has that product.
    """
    if isinstance(apply, GolubKahan):
        return apply.ritz_vector(top, beside)
    start /= np.linalg.norm(start)
    steps = _recurrence(apply, start)
    alpha, beta, following = next(steps)
    out = beside(daxpy(following, alpha * start, a=beta))
    for coefficient, v in zip(top.coefficients, chain([start, following], (v for _, _, v in steps)), strict=False):
        daxpy(v, out, a=coefficient)
    return out


def leading(apply: Apply, start: Vector, *, tol: float, steps: int, count: int) -> tuple[Vector, int]:
    """Unit Ritz vectors of up to `count` largest Ritz values, a row each, when the residual of the first is at most `tol` or
    `steps` were made; and how many were. Here the basis is kept, and orthogonal to rounding.
    """
    basis, alphas, betas = np.empty((steps, start.size)), list[float](), list[float]()
    basis[0] = start / np.linalg.norm(start)
    for k in range(1, steps + 1):
        w, known = start, basis[:k]  # which is used up
        apply(basis[k - 1], w)
        alphas.append(float(known[-1] @ w))
        for _ in range(2):
            w -= (known @ w) @ known
        betas.append(float(np.linalg.norm(w)))
        if k == steps or betas[-1] <= _SPENT * max(alphas) or ritz(alphas, betas).residual <= tol:
            break
        np.divide(w, betas[-1], out=basis[k])
    _, vectors = eigh_tridiagonal(alphas, betas[:-1])
    return vectors[:, -count:].T @ known, k


def upper_bound(apply: Operator, start: Vector, *, slack: float, failure_probability: float) -> TopEigenvalue:
    """theta / (1 - slack): at least the norm, except with the given probability over a standard normal `start`."""
    steps = steps_for_bound(start.size, slack, failure_probability)
    top = _top(apply, start, -1.0, steps)  # all of them, whatever the residual
    return replace(top, value=top.value / (1.0 - slack))


def steps_for_bound(n: int, slack: float, failure_probability: float) -> int:
    """The k at which (ln(1.648 sqrt(n) / delta) / (2k - 1))^2 <= slack (Kuczynski and Wozniakowski 1992)."""
    return ceil((log(1.648 * sqrt(n) / failure_probability) / sqrt(slack) + 1.0) / 2.0)


def _recurrence(apply: Apply, start: Vector) -> Iterator[tuple[float, float, Vector]]:
    """Alpha and beta of each step, and the next basis vector, which is overwritten two steps later. Ends when the space does."""
    v, previous, w = start, np.zeros_like(start), np.empty_like(start)
    v /= np.linalg.norm(v)
    beta = 0.0
    while True:
        apply(v, w)
        alpha, beta = lanczos_step(w, v, previous, beta)
        yield alpha, beta, w
        if beta == 0.0:
            return
        previous, v, w = v, w, previous


def ritz(alphas: list[float], betas: list[float]) -> TopEigenvalue:
    k = len(alphas)
    if k == 1:
        values, vectors = np.array(alphas), np.ones((1, 1))
    elif k <= 64:  # LAPACK itself: it is done before SciPy's own function has checked its arguments
        values, vectors, _ = dstev(alphas, betas[:-1])
    else:
        values, vectors = eigh_tridiagonal(alphas, betas[:-1], select="i", select_range=(k - 1, k - 1))
    theta, coefficients = float(values[-1]), vectors[:, -1]
    residual = betas[-1] * abs(float(coefficients[-1])) / theta if theta > 0.0 else 0.0
    return TopEigenvalue(theta, residual, k, coefficients)
