"""Conjugate gradients for a Newton step, H s = -g: how far they have come, and what they leave to the next step.

Their residual rises and falls on the way to the least sum, while a certificate costs its square. The combination of all iterates
whose residual is least (minimal residual smoothing, Zhou and Walker 1994) has a far smaller one, and its slopes are the better dual
values.

Their directions are conjugate, so one BFGS update with all of them at once corrects a preconditioner as they would one by one: the
next step, where losses bend a little differently, begins with what this one found out (Morales and Nocedal 2000).
"""

from collections.abc import Callable
from math import inf, log
from typing import Any

import numpy as np

from reshuffle._compiled import jit
from reshuffle.solver.certified import tuning
from reshuffle.vectors import Vector, dot

Inverse = Callable[[Vector], Vector]  #: a preconditioner: nearly H^-1 times a vector


class Iterate:
    """A step that is not solved yet. `costs`, where a bound is asked for, say what the squares of a residual's entries take."""

    def __init__(self, gradient: Vector, costs: Vector | None) -> None:
        self.gradient = gradient
        self.s = np.zeros(gradient.size)
        self.along = np.empty(0)  #: A s, of the rows that bend, once there was an iteration
        self.residual = -gradient  #: -g - H s
        self.share = 1.0  #: of the first residual, preconditioned, squared
        self.gained = 0.0  #: by which the models' sum has fallen
        self.made = 0  #: iterations
        self._last = 0.0  # what the last of them gained
        self._asked: tuple[int, float] | None = None  # iterations and gap when `left` was first asked
        self._smooth = None if costs is None else Smoothing(costs)

    def move(self, length: float, p: Vector, along: Vector, product: Vector, slope: float) -> None:
        """Along p, whose margins are `along`, with H p = `product`; the models' sum falls along it with this slope at first."""
        self.s += length * p
        self.along = self.along + length * along if self.made else length * along
        self.residual -= length * product
        self._last, self.made = 0.5 * length * slope, self.made + 1
        self.gained += self._last
        if self._smooth is not None:
            self._smooth.move(self)

    @property
    def fading(self) -> float:
        """What the last iteration gained over the mean of all products of a step (Nash and Sofer 1990)."""
        return self._last * (self.made + tuning.STEP_PRODUCTS) / self.gained

    @property
    def slope(self) -> float:
        """-g's: conjugate gradients gain half of it."""
        return 2.0 * self.gained

    @property
    def gap(self) -> float:
        """By how much the bound of the smoothed dual values is below the models' sum at s."""
        assert self._smooth is not None
        return self._smooth.cost - self._smooth.value(self.gradient) - self.gained

    def left(self, aim: float) -> float:
        """Iterations until the gap is this, if it goes on to fall as it has since this was first asked."""
        gap = self.gap
        if gap <= aim:
            return 0.0
        if self._asked is None:
            self._asked = self.made, gap
        since, before = self._asked
        return (self.made - since) * log(gap / aim) / log(before / gap) if gap < before else inf

    @property
    def dual_along(self) -> Vector:
        """Margins of the step whose slopes are the best dual values that are known."""
        return self._smooth.along if self._smooth is not None and self.made else self.along


class Smoothing:
    """The combination of iterates, from the first on, whose residual costs the bound least."""

    def __init__(self, costs: Vector) -> None:
        self._costs = costs
        self._s = self._residual = self.along = np.empty(0)
        self.cost = 0.0

    def move(self, step: Iterate) -> None:
        """As far towards the iterate as makes the residual least."""
        if step.made == 1:
            self._s, self._residual, self.along = step.s.copy(), step.residual.copy(), step.along
        part, self.cost = smoothed(self._costs, step.residual, step.s, self._residual, self._s)
        if step.made > 1:
            self.along = self.along + part * (step.along - self.along)

    def value(self, gradient: Vector) -> float:
        """The models' sum there, over that at zero."""
        return 0.5 * float(dot(gradient - self._residual, self._s))


@jit(fastmath={"contract", "reassoc", "nsz"})
def smoothed(costs: Any, residual: Any, s: Any, least: Any, at: Any) -> Any:
    """Moves `least` and `at` towards a residual and its s until costs'least^2 is least. Returns how far, and what that is."""
    across = square = 0.0
    for j in range(least.size):
        change = residual[j] - least[j]
        across += costs[j] * least[j] * change
        square += costs[j] * change * change
    part = -across / square if square > 0.0 else 1.0
    total = 0.0
    for j in range(least.size):
        least[j] += part * (residual[j] - least[j])
        at[j] += part * (s[j] - at[j])
        total += costs[j] * least[j] * least[j]
    return part, total


class Directions:
    """Conjugate directions p with H p and p'H p, as many of the first as are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: list[tuple[Vector, Vector, float]] = []

    def add(self, p: Vector, product: Vector, bend: float) -> None:
        if len(self._found) < self._most:
            self._found.append((p, product, bend))

    def correct(self, inverse: Inverse) -> Inverse:
        """Its BFGS update: exact on these directions, and as it was on what is conjugate to them. Where one was enough, the
        preconditioner knew all that it would say.
        """
        if len(self._found) < 2:
            return inverse
        P, Q, bends = (np.array(each) for each in zip(*self._found, strict=True))

        def corrected(r: Vector) -> Vector:
            inside = (P @ r) / bends
            outside = inverse(r - inside @ Q)
            updated: Vector = outside + (inside - (Q @ outside) / bends) @ P
            return updated

        return corrected
