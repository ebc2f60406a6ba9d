"""A sum of any convex smooth functions, f(x) = (1/n) sum_i f_i(x), known by the gradients of batches."""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.validation import starting_point, whole_number
from reshuffle.vectors import Vector

if TYPE_CHECKING:
    from reshuffle.optimum import Optimum

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FiniteSum:
    """What Algorithm 2 minimises.

    grad : grad(x, indices) returns the sum of the gradients of these f_i at x.
    smoothness : L_1..L_n, or one number for all.
    n : how many functions there are.
    objective : f, where it is at hand.
    """

    grad: Callable[[Vector, Integers], Vector]
    smoothness: Vector
    n: int
    objective: Callable[[Vector], float] | None = None

    def __post_init__(self) -> None:
        n = whole_number("n", self.n, 1)
        L = np.asarray(self.smoothness, dtype=np.float64)
        L = np.full(n, float(L)) if L.ndim == 0 else L
        if L.shape != (n,):
            raise ValueError(f"smoothness has shape {L.shape}; give one number, or one for each of the {n} functions")
        if not (np.isfinite(L) & (L > 0.0)).all():
            raise ValueError(f"smoothness[{int(np.argmin(np.isfinite(L) & (L > 0.0)))}] must be a positive number")
        object.__setattr__(self, "smoothness", L)

    def gradient(self, x: Vector, indices: Integers) -> Vector:
        """The sum of the gradients of these functions, checked."""
        g = np.asarray(self.grad(x, indices), dtype=np.float64)
        if g.shape != x.shape:
            raise ValueError(
                f"grad returned shape {g.shape} for x of shape {x.shape}; return the sum of the gradients of the batch"
            )
        return g

    def prefix_norms(self, x: Vector, order: Integers) -> Vector:
        """|g_{pi_1} + ... + g_{pi_p}|^2 for p = 1..n, where g_j is the gradient of f_j at x."""
        total, squares = np.zeros_like(x), np.empty(order.size)
        for p in range(order.size):
            total += self.gradient(x, order[p : p + 1])
            squares[p] = total @ total
        return squares

    def optimum(self, x: ArrayLike, x0: ArrayLike) -> "Optimum":
        """What the theorems ask of the minimiser x, for a run from x0; n single gradients."""
        from reshuffle.optimum import Optimum

        start = starting_point(x0, np.size(x0))
        best = starting_point(x, start.size, "optimum")
        squares, total = np.empty(self.n), np.zeros_like(best)
        for i in range(self.n):
            g = self.gradient(best, np.array([i]))
            squares[i], total = g @ g, total + g
        first = float(np.linalg.norm(self.gradient(start, np.arange(self.n))))
        return Optimum(
            x=best,
            f=nan if self.objective is None else float(self.objective(best)),
            distance=float(np.linalg.norm(best - start)),
            sigma=float(np.sqrt(squares.mean())),
            dual_norm=float(np.sqrt(np.sum(squares / self.smoothness))),
            gradient_norm=float(np.linalg.norm(total)) / first if first > 0.0 else 0.0,
            error=None,
        )
