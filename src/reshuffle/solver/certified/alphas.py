"""One problem for many alphas: each fit starts where those before it point to, with their Hessian, and has a certificate."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.duality import balanced_duals
from reshuffle.frames import frame
from reshuffle.problem import Problem
from reshuffle.solver.certified.progress import Neighbour, Solution
from reshuffle.solver.certified.solve import baseline, solve
from reshuffle.validation import real, whole_number
from reshuffle.vectors import Vector, dot

NEXT_TO_NOTHING = 0.01  #: of the constant model's loss: all that is left to gain at alpha_max
DECADES = 7.0  #: from alpha_max down to the smallest alpha of a grid

Terms = list[tuple[float, Solution]]  #: where to start: a sum of solutions, each times its factor


@dataclass(frozen=True, eq=False)
class SolutionPath:
    """What `path` found: for each alpha a point and how good it is for certain."""

    alphas: Vector  #: in the order in which they were given, or from the largest down
    solutions: list[Solution]  #: one for each alpha
    neighbour: Neighbour = field(default_factory=Neighbour)  #: what the last fit left

    @property
    def x(self) -> Vector:
        """A row for each alpha: the coefficients, then the intercept if there is one."""
        return np.array([one.x for one in self.solutions])

    @property
    def f(self) -> Vector:
        """f(x) of each, with its own alpha."""
        return np.array([one.f for one in self.solutions])

    @property
    def gap(self) -> Vector:
        """Certified: f(x) - min f is at most this."""
        return np.array([one.gap for one in self.solutions])

    @property
    def relative_gap(self) -> Vector:
        """The gap over what x gains on the best constant model."""
        return np.array([one.relative_gap for one in self.solutions])

    @property
    def converged(self) -> bool:
        """Whether every relative gap is at most tol."""
        return all(one.converged for one in self.solutions)

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each alpha: f, the certified gaps, passes, and the norm of the coefficients."""
        columns = {"f": self.f, "gap": self.gap, "relative_gap": self.relative_gap}
        columns["passes"] = np.array([len(one.history) for one in self.solutions])
        return frame({"alpha": self.alphas, **columns}).set_index("alpha")


def path(
    problem: Problem,
    alphas: int | ArrayLike = 20,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    seed: int = 0,
    near: SolutionPath | None = None,
) -> SolutionPath:
    """Minimise f for each alpha until its certified relative gap is at most tol. Fits go from the largest alpha down, each from
    where those before it point to.

    problem : its own alpha does not matter.
    alphas : the values, or how many, from `alpha_max` down over seven decades.
    tol, max_iter, seed : of each fit.
    near : what was found for the same alphas on nearly the same data (a fold, or before rows came in): fits start from there.
    """
    values, start = grid(problem, near.alphas if near is not None and np.ndim(alphas) == 0 else alphas), baseline(problem)
    if near is not None and not (np.array_equal(values, near.alphas) and near.solutions[0].x.size == problem.dimension):
        raise ValueError("near is a path of other alphas or other features; use one of the same, or None")
    here, neighbour = problem, Neighbour() if near is None else replace(near.neighbour)

    def fit(alpha: float, terms: Terms) -> Solution:
        nonlocal here
        here = here.replace(alpha=alpha)  # of the last, which has worked out what all alphas share
        x0, dual0 = mixed((factor, one.x) for factor, one in terms), None
        if problem.loss.smoothness is None or (near is not None and problem.d > problem.n):
            # on so little data as this a short dual pass moves a fold's values from those of all rows to its own
            dual0 = mixed((factor, one.dual) for factor, one in terms if one.dual.size == problem.n)
        options: dict[str, Any] = {"tol": tol, "max_iter": max_iter, "seed": seed, "start": start, "neighbour": neighbour}
        return solve(here, x0=x0, dual0=dual0, **options)

    return replace(follow(values, fit, near), neighbour=neighbour)


def follow(alphas: Vector, fit: Callable[[float, Terms], Solution], near: SolutionPath | None = None) -> SolutionPath:
    """`fit` an alpha after the other, each from where those before it, or `near`, point to. From the largest down; but from the
    smallest up where `near` left a Hessian, which is that of where it ended.
    """
    found: dict[int, Solution] = {}
    down = near is None or near.neighbour.hessian is None
    for k in map(int, np.argsort(-alphas if down else alphas, kind="stable")):
        found[k] = fit(float(alphas[k]), _pointed_to(alphas, k, found) if near is None else _moved_along(near, k, found))
    return SolutionPath(alphas, [found[k] for k in range(alphas.size)])


def mixed(terms: Iterable[tuple[float, Vector]]) -> Vector | None:
    """The sum of vectors times their factors; None of none."""
    parts = [factor * vector for factor, vector in terms]
    return sum(parts[1:], parts[0]) if parts else None


def _pointed_to(alphas: Vector, k: int, found: dict[int, Solution]) -> Terms:
    """In line with the last two solutions, in the logarithm of alpha, but no further from the last than they are apart."""
    if len(found) < 2:
        return [(1.0, one) for one in found.values()]
    first, last = list(found)[-2:]
    apart = np.log(alphas[first] / alphas[last])
    on = min(float(np.log(alphas[last] / alphas[k]) / apart), 1.0) if apart > 0.0 else 0.0
    return [(1.0 + on, found[last]), (-on, found[first])]


def _moved_along(near: SolutionPath, k: int, found: dict[int, Solution]) -> Terms:
    """Where `near` is for the k-th alpha, moved by as much as what was found last is apart from it there."""
    terms = [(1.0, near.solutions[k])]
    if found:
        last = next(reversed(found))
        terms += [(1.0, found[last]), (-1.0, near.solutions[last])]
    return terms


def grid(problem: Problem, alphas: int | ArrayLike) -> Vector:
    """The values themselves, or so many of them from `alpha_max` down."""
    if np.ndim(alphas) == 0:
        count = whole_number("alphas", alphas, 1)
        return alpha_max(problem) * np.logspace(0.0, -DECADES, count)
    return checked(alphas)


def checked(alphas: ArrayLike) -> Vector:
    values = np.array(real("alphas", alphas), dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not ((values > 0.0) & np.isfinite(values)).all():
        raise ValueError(f"alphas={alphas!r} must be positive numbers, one after the other, or how many to choose")
    return values


def alpha_max(problem: Problem) -> float:
    """The alpha at which x = 0 is optimal up to 1 % of its loss, and above which it is so even more; with a squared norm it is
    exactly optimal for no alpha. With g the gradient of the best constant model, f >= f_0 + g'x + (alpha/2)|x|^2 by convexity, so
    there is no more to gain than |g|^2 / (2 alpha). One where there is nothing to gain at all.
    """
    duals = balanced_duals(problem, np.zeros(problem.n))
    g = problem.transposed(problem.sample_weight * duals)[: problem.d] / problem.n
    allowed = 2.0 * NEXT_TO_NOTHING * baseline(problem).f
    square = float(dot(g, g))
    return square / allowed if square > 0.0 < allowed else 1.0
