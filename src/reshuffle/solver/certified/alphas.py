"""One problem for many alphas, from the largest down: each fit starts where those before it point to, and has a certificate."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.duality import balanced_duals
from reshuffle.frames import frame
from reshuffle.problem import Problem
from reshuffle.solver.certified.progress import Solution
from reshuffle.solver.certified.solve import baseline, solve
from reshuffle.validation import real, whole_number
from reshuffle.vectors import Vector, dot

NEXT_TO_NOTHING = 0.01  #: of the constant model's loss: all that is left to gain at alpha_max
DECADES = 7.0  #: from alpha_max down to the smallest alpha of a grid


@dataclass(frozen=True, eq=False)
class SolutionPath:
    """What `path` found: for each alpha a point and how good it is for certain."""

    alphas: Vector  #: in the order in which they were given, or from the largest down
    solutions: list[Solution]  #: one for each alpha

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
    found: dict[int, Solution] = {}
    before: list[tuple[float, Solution]] = []
    for k in map(int, np.argsort(-values, kind="stable")):
        here = problem.replace(alpha=float(values[k]))
        x0, dual0 = _pointed_to(here, before[-2:]) if near is None else _moved_along(here, near, k, found)
        found[k] = solve(here, tol=tol, max_iter=max_iter, x0=x0, dual0=dual0, seed=seed, start=start)
        before.append((here.alpha, found[k]))
    return SolutionPath(values, [found[k] for k in range(values.size)])


def _pointed_to(problem: Problem, before: list[tuple[float, Solution]]) -> tuple[Vector | None, Vector | None]:
    """x in line with the last two solutions, in the logarithm of alpha, but no further from the last than they are apart; and the
    last dual values, which the slopes at x would not tell where the loss has kinks.
    """
    if not before:
        return None, None
    alpha, last = before[-1]
    dual = last.dual if problem.smoothness is None else None
    apart = np.log(before[0][0] / alpha)
    on = min(np.log(alpha / problem.alpha) / apart, 1.0) if apart > 0.0 else 0.0
    return last.x + on * (last.x - before[0][1].x), dual


def _moved_along(problem: Problem, near: SolutionPath, k: int, found: dict[int, Solution]) -> tuple[Vector, Vector | None]:
    """Where `near` is for the k-th alpha, moved by as much as what was found last is apart from it there."""
    last = next(reversed(found), None)
    x = near.solutions[k].x + (0.0 if last is None else found[last].x - near.solutions[last].x)
    duals = near.solutions[k].dual if last is None else found[last].dual
    return x, duals if problem.smoothness is None and duals.size == problem.n else None


def grid(problem: Problem, alphas: int | ArrayLike) -> Vector:
    """The values themselves, or so many of them from `alpha_max` down."""
    if np.ndim(alphas) == 0:
        count = whole_number("alphas", alphas, 1)
        return alpha_max(problem) * np.logspace(0.0, -DECADES, count)
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
