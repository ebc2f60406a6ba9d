"""The norm of H = A'ΛA from one sweep over the data, between what is measured and what is promised.

A look at a few runs of rows says where to search: by Lanczos, V spans the leading eigenvectors of H of these rows alone. Rows that
are all at hand are all looked at. The sweep takes every row's norm, and multiplies H with V and with random vectors g:

at least    H is the sum of its few heaviest rows and of the rest R, and R is at least RV (V'RV)^-1 V'R (Nyström), both positive
            semidefinite. What these sum to has low rank, and the largest eigenvalue of a small Gram matrix. V need not be
            good for that to hold. Its error counts squared, and a row that outweighs all others is there as it is.
at most     In Ritz vectors of V, H is diag(theta) bordered by residuals r, beside S = (I - VV')H(I - VV'), so that its norm is at
            most that of the arrow matrix of theta, r and |S|. |S| is at most its trace, which is known, and, except with
            probability delta, at most delta^(-1/q) sqrt(2/pi) max |S g| for q random g of which V knows nothing (Halko,
            Martinsson and Tropp 2011, Lemma 4.1).

The residual of the first Ritz vector says how near an eigenvalue is. It does not say that this is the largest: of a file that is
sorted, the rows that were looked at may know nothing of the rest. What holds at most does not rest on them.
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np

from reshuffle.orders.streams import Stream, generator
from reshuffle.problem import Problem
from reshuffle.rows import Rows
from reshuffle.spectral import lanczos
from reshuffle.spectral.permutations import PLAIN, measured, scale_of
from reshuffle.vectors import Vector

FAILURE_PROBABILITY = 0.01
_TOL = 1e-4  # relative residual of the first eigenvector of the rows that are looked at
_LEADING, _RANDOM = 4, 4  # vectors that H is multiplied with
_HEAVIEST = 16
_RUNS = 8
_LOOK = 1 << 20  # entries of the rows that are looked at, where not all are at hand
_BASIS = 1 << 28  # bytes of a Lanczos basis
_FEWEST_STEPS, _MOST_STEPS = 10, 60


@dataclass(frozen=True)
class Norm:
    """What is known of H, and of the rows that it is made of: 2^-exponent sqrt(L_i) a_i."""

    exponent: int
    squared_norms: Vector
    nonzeros: int
    at_least: float
    at_most: float  #: except with probability `FAILURE_PROBABILITY`
    residual: float  #: relative to the Ritz value: an eigenvalue is as near as that
    sweeps: float  #: over the data


def norm_of(problem: Problem, seed: int) -> Norm:
    rows, scale, random = problem.rows, scale_of(problem), generator(seed, 0, Stream.LOOK)
    listed, share = (None, 1.0) if rows.at_hand else _runs(rows, random)
    part, own = (rows, scale) if listed is None else (rows._part(listed), scale[listed])
    exponent, _ = measured(part, own)
    vectors, products = _leading(part, np.ldexp(own, -exponent), random)
    sweeps = share * (products if rows.at_hand else 1)
    count = len(vectors)
    vectors = np.vstack([vectors, random.standard_normal((_RANDOM, rows.dimension))])
    while True:
        sweeps += 1
        needed, squares, products_of, nonzeros = _swept(rows, scale, exponent, vectors)
        largest = float(squares.max())
        if largest == 0.0 or PLAIN[0] <= largest <= PLAIN[1]:
            break
        exponent = needed  # the rows that were looked at are far larger or smaller than the others
    if largest == 0.0:
        return Norm(exponent, squares, nonzeros, 0.0, 0.0, 0.0, sweeps)
    trace, heavy = float(squares.sum()), np.argsort(squares)[-_HEAVIEST:]
    ritz = _Ritz(vectors, products_of, count)
    high = ritz.at_most(trace)
    low = _at_least(rows._part(heavy), np.ldexp(scale[heavy], -exponent), vectors, products_of, trace)
    return Norm(exponent, squares, nonzeros, low, max(low, min(high, trace)), ritz.residual, sweeps)


def _runs(rows: Rows, random: np.random.Generator) -> tuple[Any, float]:
    """Runs of neighbouring rows, which are cheap to read, all over the data, as it may be sorted; and the share of the data in the
    blocks that they are read from.
    """
    bounds = np.linspace(0, rows.n, min(_RUNS, rows.n) + 1, dtype=np.int64) if rows.bounds is None else rows.bounds
    size = max(_LOOK * rows.n // max(rows.entries, 1) // _RUNS, 1)
    listed, read = [], 0
    for blocks in np.array_split(np.arange(len(bounds) - 1), _RUNS):
        if blocks.size:
            block = int(random.choice(blocks))
            low, high = int(bounds[block]), int(bounds[block + 1])
            first = int(random.integers(low, max(high - size, low) + 1))
            listed.append(np.arange(first, min(first + size, high)))
            read += listed[-1].size if rows.bounds is None else high - low
    return np.concatenate(listed), read / rows.n


def _leading(rows: Rows, scale: Vector, random: np.random.Generator) -> tuple[Vector, int]:
    """Orthonormal vectors near the leading eigenvectors of these rows, and the products that it took; by a recurrence over rows or
    features, of which there are fewer.
    """
    by_rows = rows.n < rows.dimension
    size, curvatures = min(rows.n, rows.dimension), scale**2

    def apply(v: Vector, out: Vector) -> None:
        out[:] = scale * rows.margins(rows.transposed(scale * v)) if by_rows else rows.curved_product(curvatures, v)[1]

    steps = min(max(_BASIS // (8 * size), _FEWEST_STEPS), _MOST_STEPS, size)
    found, products = lanczos.leading(apply, random.standard_normal(size), tol=_TOL, steps=steps, count=_LEADING)
    if by_rows:
        found = np.array([rows.transposed(scale * u) for u in found])
    return np.ascontiguousarray(np.linalg.qr(found.T)[0].T), products


def _swept(rows: Rows, scale: Vector, exponent: int, vectors: Vector) -> tuple[int, Vector, Vector, int]:
    """The exponent that all rows ask for, their squared norms and H times every vector, both for the exponent given; and how many
    of their entries are not zero.
    """
    parts: Iterable[tuple[Any, Any]] = [(slice(0, rows.n), rows)] if rows.at_hand else rows._blocks()
    squares, products, needed = np.empty(rows.n), np.zeros(vectors.shape), list[int]()
    nonzeros = 0
    for place, part in parts:
        nonzeros += part.nonzeros
        own, found = measured(part, scale[place])
        if found.max() > 0.0:
            needed.append(own)
        with np.errstate(over="ignore", under="ignore"):
            squares[place] = np.ldexp(found, 2 * (own - exponent))
        _add_products(part, np.ldexp(scale[place], -exponent) ** 2, vectors, products, 1 if rows.elsewhere else len(vectors))
    return max(needed, default=0), squares, products, nonzeros


def _add_products(part: Any, curvatures: Vector, vectors: Vector, products: Vector, threads: int) -> None:
    def add(k: int) -> None:
        products[k] += part.curved_product(curvatures, vectors[k])[1]

    with ThreadPoolExecutor(min(threads, os.cpu_count() or 1)) as pool:
        list(pool.map(add, range(len(vectors))))


def _at_least(heavy: Any, scale: Vector, vectors: Vector, products: Vector, trace: float) -> float:
    """The norm of the heaviest rows together with the Nyström approximation of the rest, whose products take the place of all."""
    rest = products
    for v, product in zip(vectors, rest, strict=True):
        product -= heavy.curved_product(scale**2, v)[1]
    inside = vectors @ rest.T
    values, turned = np.linalg.eigh(0.5 * (inside + inside.T))
    there = values > 1e-12 * max(values[-1], trace)  # less may be rounding
    spread = (turned[:, there] / np.sqrt(values[there])).T
    beside = spread @ [scale * heavy.margins(product) for product in rest]
    gram = np.block([[scale[:, None] * heavy.gram() * scale, beside.T], [beside, spread @ (rest @ rest.T) @ spread.T]])
    return float(np.linalg.eigvalsh(gram)[-1])


class _Ritz:
    """Ritz values of H in the span of the first vectors, which are orthonormal. Ritz vectors take their places, and their products
    those of their products: there may be as many features as a few vectors leave room for.
    """

    def __init__(self, vectors: Vector, products: Vector, count: int) -> None:
        self.vectors, self.products = vectors[:count], products[:count]
        self._random, self._products_of_random = vectors[count:], products[count:]
        inside = self.vectors @ self.products.T
        self.values, turned = np.linalg.eigh(0.5 * (inside + inside.T))
        self.vectors[:] = turned.T @ self.vectors
        self.products[:] = turned.T @ self.products
        each = zip(self.values, self.vectors, self.products, strict=True)
        self.residuals = np.array([np.linalg.norm(product - value * v) for value, v, product in each])

    @property
    def residual(self) -> float:
        return float(self.residuals[-1] / self.values[-1]) if self.values[-1] > 0.0 else 0.0

    def at_most(self, trace: float) -> float:
        """The norm of H, of which the trace is known, except with probability `FAILURE_PROBABILITY` over the other vectors, which
        are standard normal.
        """
        longest = 0.0
        for g, product in zip(self._random, self._products_of_random, strict=True):
            outside = product - (self.vectors @ g) @ self.products  # H(I - VV')g
            outside -= (self.vectors @ outside) @ self.vectors
            longest = max(longest, float(np.linalg.norm(outside)))
        factor = FAILURE_PROBABILITY ** (-1.0 / len(self._random)) * sqrt(2.0 / pi)
        beside = min(factor * longest, max(trace - float(self.values.sum()), 0.0))
        arrow = np.diag([*self.values, beside])
        arrow[-1, :-1] = self.residuals  # eigvalsh reads the lower triangle
        return float(np.linalg.eigvalsh(arrow)[-1])
