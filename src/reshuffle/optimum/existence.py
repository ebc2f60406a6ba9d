"""Whether f has a minimiser at all: separable data has none under a loss that falls for ever, as the logistic one does.

f has none if and only if along some direction v no loss rises and one falls for ever. Most problems cannot have such a v, as their
loss reaches its least value. For the others a point u inside the dual domain with A'(w u) = 0 rules it out: the sum of all
w_i u_i a_i'v is zero, while for a v as above no term is positive and one is negative. Newton's step offers such a u, for the price
of a Hessian. Only where it does not, because there is none or because it is too near to its bounds to be trusted, a linear program
looks for v.
"""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

from reshuffle.optimum.slopes import slopes_for, where_begins
from reshuffle.optimum.solving import LARGEST_HESSIAN, hessian, weighted_gram
from reshuffle.problem import Problem
from reshuffle.vectors import Vector

_CURVED = 1e-9  # of the largest curvature: where the least is above, rounding cannot hide a direction
_DEPENDENT = 1e-12  # of the largest eigenvalue of the Gram matrix: smaller ones are rounding
_LEFT = 1e-3  # of the room that a dual had: on separable data Newton's step would take all of it, but for rounding
_ROUNDING = 1e-6  # of a margin along v, whose entries are up to 1 in columns up to 1: HiGHS keeps its constraints to 1e-7


class NoMinimiserError(ValueError):
    """f comes ever nearer to its infimum and never reaches it, so D is infinite and no theorem promises anything."""


def require_minimiser(problem: Problem, x: Vector) -> None:
    """Raise `NoMinimiserError` where there is none; x is what the solver ended at."""
    if problem.alpha > 0.0:
        return
    downhill, endless = _tails(problem)
    if not endless.any():
        return
    falling = _falling(downhill, endless, problem.margins(x), 0.0)
    if falling == 0 and not _balanced_inside(problem, x):
        falling = _falling(downhill, endless, problem.margins(_best_direction(problem, downhill, endless)), _ROUNDING)
    if falling > 0:
        how = (
            "y_i a_i'x >= 0 for all rows, and > 0"
            if problem.loss.task == "classification"
            else "no loss rises along x, and it falls"
        )
        raise NoMinimiserError(
            f"loss={str(problem.loss)!r} with alpha=0 has no minimiser on this data: some x separates it ({how} for {falling} of "
            f"{problem.n}), so f falls for ever along x and no theorem can promise anything; use alpha > 0"
        )


def _tails(problem: Problem) -> tuple[Vector, NDArray[np.bool_]]:
    """The sign of the margins towards which each loss does not rise, however far (0: there is none), and whether it falls for ever
    there: the place where its slope has come down to a share of what it can be then never settles as the share gets smaller.
    """
    low, high = problem.dual_bounds
    downhill = np.where(high == 0.0, 1.0, np.where(low == 0.0, -1.0, 0.0))
    endless = np.zeros(problem.n, dtype=bool)
    if downhill.any():
        labels, first, which = np.unique(problem.labels, return_index=True, return_inverse=True)
        sign, shares = downhill[first], np.repeat([1e-4, 1e-8, 1e-12], labels.size)
        slopes, steepest = slopes_for(problem.loss, np.tile(labels, 3)), problem.loss.lipschitz or problem.loss.smoothness or 1.0
        begins = where_begins(lambda t: np.abs(slopes(np.tile(sign, 3) * t)) <= shares * steepest, np.zeros(shares.size))
        first_move, second_move = np.diff(begins.reshape(3, -1), axis=0)
        endless = ((sign != 0.0) & ~(second_move <= 0.5 * first_move))[which]
    return downhill, endless


def _falling(downhill: Vector, endless: NDArray[np.bool_], z: Vector, rounding: float) -> int:
    """How many losses fall for ever along a direction with these margins; 0 if any loss rises on the way."""
    rises = np.where(downhill == 0.0, np.abs(z), -downhill * z)
    return 0 if np.any(rises > rounding) else int(np.sum(endless & (downhill * z > 10.0 * rounding)))


def _balanced_inside(problem: Problem, x: Vector) -> bool:
    """Whether the duals of x, moved as a Newton step moves them, balance the rows strictly inside their domain.

    In coordinates in which A'A is the identity no row is longer than 1, so a least curvature well above rounding means that the sum
    that rounding leaves could be balanced as well.
    """
    if problem.dimension > LARGEST_HESSIAN:
        return False
    gram = weighted_gram(problem, np.ones(problem.n))
    lengths = np.sqrt(np.diag(gram))
    lengths[lengths == 0.0] = 1.0
    values, vectors = np.linalg.eigh(gram / lengths / lengths[:, None])
    kept = values > _DEPENDENT * values[-1]
    if not kept.any():  # data of zeros: f is constant
        return True
    to_x = vectors[:, kept] / np.sqrt(values[kept]) / lengths[:, None]
    curvatures, axes = np.linalg.eigh(to_x.T @ hessian(problem, x) @ to_x)
    if not curvatures[0] > _CURVED * curvatures[-1]:
        return False
    step = to_x @ (axes @ ((axes.T @ (to_x.T @ problem.gradient(x))) / curvatures))
    z = problem.margins(x)
    before = problem.duals(z)
    after = before - problem.curvatures(z) * problem.margins(step)
    low, high = problem.dual_bounds
    room, left = (np.minimum(u - low, high - u) for u in (before, after))
    return bool(np.all(left > _LEFT * room))


def _best_direction(problem: Problem, downhill: Vector, endless: NDArray[np.bool_]) -> Vector:
    """The direction without a rise along which the losses that fall for ever move farthest, entries up to 1 in columns up to 1."""
    A, tied = problem.rows.factored()
    sizes = np.asarray(abs(A).max(axis=0).toarray()).ravel()
    sizes[sizes == 0.0] = 1.0
    scaled, tied = ((part @ sp.diags_array(1.0 / sizes)).tocsr() for part in (A, tied))
    towards = sp.diags_array(downhill) @ scaled
    still = downhill == 0.0
    equal = sp.vstack([scaled[still], tied], format="csr")
    fixed = {"A_eq": equal, "b_eq": np.zeros(equal.shape[0])} if equal.shape[0] else {}
    bounds = [(-1.0, 1.0)] * problem.dimension + [(None, None)] * (sizes.size - problem.dimension)
    gain = np.asarray(towards[endless].sum(axis=0)).ravel()
    found: Any = linprog(-gain, A_ub=-towards[~still], b_ub=np.zeros(int((~still).sum())), **fixed, bounds=bounds, method="highs")
    if not found.success:
        raise ValueError(
            f"the linear program that looks for a separation of the data was not solved: {found.message}; use alpha > 0"
        )
    return np.asarray(found.x / sizes)[: problem.dimension]
