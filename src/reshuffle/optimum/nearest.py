"""Of many minimisers, the one nearest to x_0.

All minimisers have the same slopes l_i'(a_i'x), so they are the x with low_i <= a_i'x <= high_i, where l_i has its slope from low_i
to high_i: a point where the loss is curved or has its kink, a stretch where it is straight. Rows of the first kind leave free the
directions that they do not see, and x_0 - x is projected on these. Rows of the second kind are half-spaces, and only those count
that the point found so far is outside of: they are added a few at a time, and the point of them all that is nearest to x_0 is found
by nonnegative least squares (Lawson and Hanson's least distance programming).

With alpha > 0 the coefficients are unique, and at most the intercept is free.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import nnls
from scipy.sparse.linalg import LinearOperator, lsmr

from reshuffle.optimum.slopes import Booleans, slopes_for, where_begins
from reshuffle.optimum.solving import LARGEST_HESSIAN, weighted_gram
from reshuffle.problem import Problem
from reshuffle.vectors import Vector

_BESIDE = 1e-7  # a margin this near (relative) to a straight stretch may lie on it: that changes f by its square
_NARROW = 1e-6  # a stretch shorter than this (relative) is a point
_ULPS = 1e-15  # slopes that differ by less (relative) are the same
_SLACK = 1e-9  # the same for slopes that come from a linear program
_DEPENDENT = 1e-12  # of the largest eigenvalue of the Gram matrix of unit rows in unit columns: smaller ones are rounding
_OUTSIDE = 1e-10  # a row is left where its margin is this far (relative) from its stretch
_AT_ONCE = 50  # half-spaces that are added before the next look


def nearest_minimiser(problem: Problem, start: Vector, x: Vector) -> Vector:
    """Of a smooth loss, where x is one of the minimisers."""
    if problem.alpha > 0.0 and not problem.fit_intercept:
        return x
    z = problem.margins(x)
    step = _BESIDE * (1.0 + np.abs(z))
    far_left, left, right, far_right = (problem.duals(z + k * step) for k in (-2.0, -1.0, 1.0, 2.0))
    rises, falls = far_right - right <= _ULPS * np.abs(right), left - far_left <= _ULPS * np.abs(left)
    straight = rises | falls
    free = _unseen(problem, ~straight)
    if not np.linalg.norm(free(start - x)) > _OUTSIDE * np.linalg.norm(start - x):
        return x
    low, high = z.copy(), z.copy()
    slopes = np.where(rises, right, left)[straight]
    low[straight], high[straight] = _stretches(problem, straight, slopes, _ULPS * np.abs(slopes), z[straight])
    return _nearest(problem, start, x, low, high)


def nearest_where_slopes_are(problem: Problem, start: Vector, x: Vector, slopes: Vector) -> Vector:
    """Of a loss made of straight pieces, where x is one of the minimisers and these are slopes of the losses that add to zero."""
    everywhere = np.ones(problem.n, dtype=bool)
    return _nearest(problem, start, x, *_stretches(problem, everywhere, slopes, _SLACK, problem.margins(x)))


def _stretches(problem: Problem, rows: Booleans, slopes: Vector, slack: Vector | float, z: Vector) -> tuple[Vector, Vector]:
    """From where to where each of these losses has its slope."""
    derivative = slopes_for(problem.loss, problem.labels[rows])
    low = where_begins(lambda at: derivative(at) >= slopes - slack, z)
    high = where_begins(lambda at: derivative(at) > slopes + slack, z)
    return low, high


def _unseen(problem: Problem, rows: Booleans) -> Callable[[Vector], Vector]:
    """The projection on the directions along which neither these rows nor alpha see a change."""
    if problem.alpha > 0.0:
        keep = np.zeros(problem.dimension)
        keep[problem.d :] = 0.0 if rows.any() else 1.0
        return lambda v: keep * v
    norms = np.sqrt(problem.squared_norms())
    unit = np.where(rows & (norms > 0.0), 1.0 / np.where(norms > 0.0, norms, 1.0), 0.0)
    if problem.dimension <= LARGEST_HESSIAN:
        gram = weighted_gram(problem, unit**2)
        lengths = np.sqrt(np.diag(gram))
        lengths[lengths == 0.0] = 1.0
        values, vectors = np.linalg.eigh(gram / lengths / lengths[:, None])
        basis = np.linalg.qr(vectors[:, values <= _DEPENDENT * values[-1]] / lengths[:, None])[0]
        return lambda v: basis @ (basis.T @ v)
    seen = LinearOperator(
        (problem.n, problem.dimension),
        matvec=lambda v: unit * problem.margins(np.ravel(v)),
        rmatvec=lambda u: problem.transposed(unit * np.ravel(u)),
        dtype=np.float64,
    )
    return lambda v: v - lsmr(seen, seen @ v, atol=1e-14, btol=1e-14, conlim=0.0, maxiter=5000)[0]


def _nearest(problem: Problem, start: Vector, x: Vector, low: Vector, high: Vector) -> Vector:
    """The point of low <= A x <= high nearest to start, where x is one of them."""
    free = _unseen(problem, high - low <= _NARROW * (1.0 + np.abs(problem.margins(x))))
    base = x + free(start - x)
    reach = float(np.linalg.norm(x - base))
    normals, offsets, point = np.empty((0, x.size)), np.empty(0), base
    allowed = np.concatenate([-low, high])  # of (-z, z): every row is two half-spaces
    slack = np.concatenate([_OUTSIDE * (1.0 + np.abs(end)) for end in (low, high)])
    seen = np.zeros(2 * problem.n, dtype=bool)
    while True:
        z = problem.margins(point)
        excess = np.where(seen | ~np.isfinite(allowed), -np.inf, np.concatenate([-z, z]) - allowed - slack)
        left = np.argsort(-excess)[:_AT_ONCE]
        left = left[excess[left] > 0.0]
        if left.size == 0:
            break
        seen[left] = True
        signs = np.where(left < problem.n, -1.0, 1.0)
        rows = problem.rows.take(left % problem.n).with_intercept(problem.fit_intercept).csr().toarray()
        across = np.array([free(row) for row in signs[:, None] * rows])
        lengths, own = np.linalg.norm(across, axis=1), np.linalg.norm(rows, axis=1)
        kept = lengths > _NARROW * own  # the others cannot be changed: rounding brought them here
        room = allowed[left] - signs * (rows @ base)
        normals = np.vstack([normals, across[kept] / lengths[kept, None]])
        offsets = np.append(offsets, room[kept] / lengths[kept])
        if kept.any():
            point = base + reach * _least_distance(-normals, -offsets / reach)
    better = np.linalg.norm(point - start) <= np.linalg.norm(x - start) and problem.objective(point) <= _just_above(problem, x)
    return point if better else x


def _just_above(problem: Problem, x: Vector) -> float:
    f = problem.objective(x)
    return f + 1e-9 * abs(f) + 1e-12


def _least_distance(normals: Vector, offsets: Vector) -> Vector:
    """The shortest t with normals t >= offsets."""
    stacked = np.vstack([normals.T, offsets])
    target = np.zeros(stacked.shape[0])
    target[-1] = 1.0
    rest = stacked @ nnls(stacked, target)[0] - target
    return np.asarray(-rest[:-1] / rest[-1])
