"""The top eigenvalue of a positive semidefinite operator, by a short Lanczos recurrence that looks at its residual after
every product. It knows nothing of the operator but `apply(v, out)` or, by `GolubKahan`, its factors. A `start` vector is used
up: it becomes working space.

The Ritz value theta is a lower bound of the norm, and some eigenvalue lies within the residual of it. That eigenvalue is
the top one unless the start vector misses the top eigenvector; the callers choose starts that do not. No vector is kept
for reorthogonalisation: the copies of converged eigenvalues that rounding then breeds do not move the top one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from math import ceil, log, sqrt
from typing import Any, Protocol

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dstev

from reshuffle.vectors import Vector, dot, lanczos_step


class Factored(Protocol):
    """B, with a vector u that has a number for each of its rows."""

    def image(self) -> Vector:
        """B'u."""

    def step(self, x: Vector, factor: float) -> tuple[float, Vector]:
        """u <- B x - factor u, in one pass over B; then |u|^2 and B'u."""

    def along(self, *several: tuple[Vector, float]) -> list[Vector]:
        """B x - factor u, for each x and factor."""


Apply = Callable[[Vector, Vector], Any]

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
    stay those of B. Those of U, one at a time, stay beside B, and those of B', x, are kept for a Ritz vector, if they are no more
    than `keep`; else it takes another run.
    """

    def __init__(self, factored: Callable[[Vector], Factored], keep: int) -> None:
        self._factored, self._keep = factored, keep
        self._kept: list[tuple[float, float, Vector]] = []  # what the first steps have found
        self._made = 0

    def steps(self, start: Vector) -> Iterator[tuple[float, float, None]]:
        """Alpha and beta of each step; the next basis vector stays where it is."""
        self._kept, self._made, before = [], 0, 0.0
        for d, e, x in self._run(start):
            self._made += 1
            if self._made <= self._keep:
                self._kept.append((d, e, x))
            yield d * d + before * before, d * e, None
            before = e

    def _run(self, start: Vector) -> Iterator[tuple[float, float, Vector]]:
        """d of each step, the e that comes after it, and x."""
        start /= np.linalg.norm(start)
        self._beside = self._factored(start)
        e, x = 1.0, self._beside.image()
        while True:
            d = sqrt(dot(x, x))
            x = x / (d or 1.0)
            square, product = self._beside.step(x, d / e)  # as long as u is
            e = sqrt(square)
            yield d, e, x
            if d * e == 0.0:
                return
            product /= e
            x = daxpy(x, product, a=-e)

    def ritz_vector(self, start: Vector, top: TopEigenvalue, beside: Callable[[Vector], Vector]) -> Vector:
        """As the function of this name. After k steps B B'Uc = theta Uc + d_k c_k u for the Ritz vector Uc, and B'U is known by
        d, e and x.
        """
        steps = iter(self._kept if self._made == len(self._kept) else self._run(start))
        c = np.append(top.coefficients, 0.0)
        d, e, x = next(steps)
        first, image = d * x, (d * c[0] + e * c[1]) * x
        for (now, following), (d, e, x) in zip(pairwise(c[1:]), steps, strict=False):
            image = daxpy(x, image, a=d * now + e * following)
        product, vector = self._beside.along((first, 0.0), (image, d * float(c[-2])))
        return daxpy(vector, beside(product), a=1.0 / top.value)  # type: ignore[no-any-return]


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
    unit start. The recurrence of a function is run again rather than its basis kept in memory; its first step has that product.
    """
    if isinstance(apply, GolubKahan):
        return apply.ritz_vector(start, top, beside)
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
