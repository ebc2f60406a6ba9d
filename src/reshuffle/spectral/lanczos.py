"""The top eigenvalue of a positive semidefinite operator, by a short Lanczos recurrence that looks at its residual after
every product. It knows nothing of the operator but `apply(v, out)` or, of B B', the products of a `Factor`. A `start` vector is
used up: it becomes working space.

The Ritz value theta is a lower bound of the norm, and some eigenvalue lies within the residual of it. That eigenvalue is
the top one unless the start vector misses the top eigenvector; the callers choose starts that do not. No vector is kept
for reorthogonalisation: the copies of converged eigenvalues that rounding then breeds do not move the top one.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from math import ceil, log, sqrt
from typing import Any, Protocol

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dstev

from reshuffle.vectors import Vector, dot, lanczos_step


class Factor(Protocol):
    """B, of which B x and B'u cost one pass where they are computed at once."""

    def transposed(self, u: Vector) -> Vector:
        """B'u."""

    def gram_step(self, x: Vector, u: Vector) -> Vector:
        """Leaves p = B x - u in u, and returns B'p."""


Operator = Callable[[Vector, Vector], Any] | Factor

MAX_PRODUCTS = 1000
_SPENT = 1e-14  # of the largest Ritz value: what is left of a basis vector is rounding


@dataclass(frozen=True)
class TopEigenvalue:
    value: float  #: the Ritz value, or the upper bound
    residual: float  #: |M x - theta x| / theta for the unit Ritz vector x
    products: int  #: applications of the operator
    coefficients: Vector  #: of the Ritz vector in the Lanczos basis


def top_eigenvalue(operator: Operator, start: Vector, *, tol: float) -> TopEigenvalue:
    """Until the relative residual is at most `tol`, or `MAX_PRODUCTS` are spent: the caller reads the residual."""
    return _top(operator, start, tol, MAX_PRODUCTS)


def _top(operator: Operator, start: Vector, tol: float, most: int) -> TopEigenvalue:
    alphas: list[float] = []
    betas: list[float] = []
    for k, (alpha, beta, _) in enumerate(_recurrence(operator, start), 1):
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


def ritz_vector(operator: Operator, start: Vector, top: TopEigenvalue, beside: Callable[[Vector], Vector]) -> Vector:
    """The unit vector that belongs to `top`, added to what `beside` makes of the product with the unit start. The recurrence is run
    again rather than its basis kept in memory; its first step has that product.
    """
    start /= np.linalg.norm(start)
    first, steps = start.copy(), _recurrence(operator, start)
    alpha, beta, following = next(steps)
    out = beside(daxpy(following, alpha * first, a=beta))
    daxpy(first, out, a=top.coefficients[0])
    del first
    for coefficient, v in zip(top.coefficients[1:], chain([following], (v for _, _, v in steps)), strict=False):
        daxpy(v, out, a=coefficient)
    return out


def leading(apply: Callable[[Vector, Vector], None], start: Vector, *, tol: float, steps: int, count: int) -> tuple[Vector, int]:
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


def upper_bound(operator: Operator, start: Vector, *, slack: float, failure_probability: float) -> TopEigenvalue:
    """theta / (1 - slack): at least the norm, except with the given probability over a standard normal `start`."""
    steps = steps_for_bound(start.size, slack, failure_probability)
    top = _top(operator, start, -1.0, steps)  # all of them, whatever the residual
    return replace(top, value=top.value / (1.0 - slack))


def steps_for_bound(n: int, slack: float, failure_probability: float) -> int:
    """The k at which (ln(1.648 sqrt(n) / delta) / (2k - 1))^2 <= slack (Kuczynski and Wozniakowski 1992)."""
    return ceil((log(1.648 * sqrt(n) / failure_probability) / sqrt(slack) + 1.0) / 2.0)


def _recurrence(operator: Operator, start: Vector) -> Iterator[tuple[float, float, Vector]]:
    """Alpha and beta of each step, and the next basis vector, which the steps after overwrite. Ends when the space does."""
    return _tridiagonal(operator, start) if callable(operator) else _bidiagonal(operator, start)


def _tridiagonal(apply: Callable[[Vector, Vector], Any], start: Vector) -> Iterator[tuple[float, float, Vector]]:
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


def _bidiagonal(factor: Factor, u: Vector) -> Iterator[tuple[float, float, Vector]]:
    """The same of B B' = (U L)(U L)', by the rows of the lower bidiagonal L: d along its diagonal, e beside it (Golub and Kahan
    1965). p is made orthogonal to the last u before it is multiplied by B', so that both sequences of vectors stay those of B.
    """
    u /= np.linalg.norm(u)
    e, x = 0.0, factor.transposed(u)
    while True:
        d = sqrt(dot(x, x))
        x /= d or 1.0
        u *= d
        product = factor.gram_step(x, u)
        beside = sqrt(dot(u, u))
        u /= beside or 1.0
        yield d * d + e * e, d * beside, u
        if d * beside == 0.0:
            return
        product /= beside
        x, e = daxpy(x, product, a=-beside), beside


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
