"""Random fits, and their certificates against the true gaps in extended precision.

A certificate is an upper bound of f(x) - min f, and no point lies below min f: whatever point is better than x by more than that
proves it wrong. So the points that are compared with x are the best of all that were found, and f is summed in long double.
"""

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.solver.certified import solve, solve_multinomial

LOSSES = ["logistic", "smoothed_hinge:0.5", "squared_hinge", "hinge", "squared", "huber:0.7", "absolute", "epsilon_insensitive:0.1"]
LOSSES += ["quantile:0.3"]
REAL = np.longdouble


def values(loss, z, y):
    """l(z, y) by its definition, in extended precision."""
    name, p = loss.name, REAL(loss.parameter)
    m, r = y * z, z - y
    if name == "logistic":
        return np.where(m > 0, np.log1p(np.exp(-np.abs(m))), np.log1p(np.exp(-np.abs(m))) - m)
    if name == "smoothed_hinge":
        return np.where(1 - m >= p, 1 - m - p / 2, np.maximum(1 - m, 0) ** 2 / (2 * p))
    if name == "squared_hinge":
        return np.maximum(1 - m, 0) ** 2
    if name == "hinge":
        return np.maximum(1 - m, 0)
    if name == "squared":
        return r * r / 2
    if name == "huber":
        return np.where(np.abs(r) <= p, r * r / 2, p * (np.abs(r) - p / 2))
    if name == "absolute":
        return np.abs(r)
    if name == "epsilon_insensitive":
        return np.maximum(np.abs(r) - p, 0)
    return np.where(y > z, p * (y - z), (1 - p) * (z - y))


def objective(problem, x, numbers=None):
    """f(x) in extended precision; of several classes, `numbers` of which the samples have, where x has a row for each."""
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    A, points = np.asarray(X, dtype=REAL), np.asarray(np.atleast_2d(x), dtype=REAL)
    z = A @ points[:, : problem.d].T + (points[:, problem.d] if problem.fit_intercept else 0)
    if numbers is None:
        each = values(problem.loss, z[:, 0], problem.labels.astype(REAL))
    else:
        top = z.max(axis=1)
        each = np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(problem.n), numbers]
    total = np.sum(problem.sample_weight.astype(REAL) * each)
    return total / problem.n + REAL(problem.alpha) / 2 * np.sum(points[:, : problem.d] ** 2)


def a_matrix(rng):
    """More rows than features or fewer; of one scale or of many, centred or far from zero; dense in two types, or sparse."""
    n, d = rng.integers([2, 1], [40, 6]) if rng.random() < 0.7 else rng.integers([2, 8], [12, 30])
    scale = 10.0 ** (rng.uniform(-3, 3) if rng.random() < 0.9 else rng.uniform(-12, 12))
    X = scale * rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d) + rng.choice([0.0, 5.0 * scale])
    kind = rng.choice(["float64", "float32", "sparse"])
    return sp.csr_array(X * (rng.random((n, d)) < 0.5)) if kind == "sparse" else X.astype(kind)


def a_problem(rng):
    X = a_matrix(rng)
    n, loss = X.shape[0], str(rng.choice(LOSSES))
    if rs.losses.get_loss(loss).task == "classification":
        y = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
    else:
        y = 10.0 ** rng.uniform(-2, 3) * rng.standard_normal(n) + rng.choice([0.0, 1e3])
    weights = None if rng.random() < 0.5 else rng.exponential(size=n) + 1e-3
    if weights is not None and rng.random() < 0.3:
        weights[1:] *= rng.random(n - 1) < 0.7  # rows that are not there
    alpha = 10.0 ** rng.uniform(-6, 1)
    return rs.Problem(X, y, loss=loss, alpha=alpha, sample_weight=weights, fit_intercept=bool(rng.random() < 0.5))


def cold(rng, problem, how):
    found = solve(problem, **how)
    return [(problem, [(found.x, found.gap), (found.x, rs.duality_gap(problem, found.x, found.dual))])]


def warm(rng, problem, how):
    """From a point and dual values that may be good, or anything."""
    near = solve(problem.replace(alpha=problem.alpha * 10.0 ** rng.uniform(-1, 1)), **how)
    x0 = near.x if rng.random() < 0.7 else near.x + 10.0 ** rng.uniform(-3, 3) * rng.standard_normal(near.x.size)
    dual0 = [None, near.dual, rng.standard_normal(problem.n)][int(rng.integers(3))]
    found = solve(problem, x0=x0, dual0=dual0, **how)
    return [(problem, [(found.x, found.gap), (x0, rs.duality_gap(problem, x0, dual0))])]


def along(rng, problem, how):
    """A path of three alphas."""
    found = rs.path(problem, problem.alpha * np.array([1.0, 0.2, 3.0]), **how)
    return [
        (problem.replace(alpha=float(alpha)), [(one.x, one.gap)]) for alpha, one in zip(found.alphas, found.solutions, strict=True)
    ]


def trial(rng):
    """How many certificates were compared, and in words which one was below the true gap, or None."""
    problem = a_problem(rng)
    how = {"tol": 10.0 ** rng.uniform(-14, -1), "max_iter": int(rng.choice([1, 2, 5, 200])), "seed": int(rng.integers(100))}
    if rng.random() < 0.1:
        return several_classes(rng, problem, how)
    count = 0
    for one, points in [cold, warm, along][int(rng.choice([0, 0, 1, 2]))](rng, problem, how):
        best = solve(one, tol=1e-14, max_iter=100, x0=points[0][0])
        count += len(points) + 1
        if words := _below(one, [*points, (best.x, best.gap)]):
            return count, words
    return count, None


def several_classes(rng, problem, how):
    """The multinomial loss, which has a dual of its own."""
    rows, classes = problem.replace(loss="logistic", y=np.ones(problem.n)), int(rng.integers(3, 6))
    numbers = np.concatenate([np.arange(classes), rng.integers(0, classes, problem.n)])[: problem.n]
    classes = min(classes, problem.n)
    found = solve_multinomial(rows, numbers, classes, **how)
    best = solve_multinomial(rows, numbers, classes, tol=1e-14, max_iter=100, x0=found.x)
    return 2, _below(rows, [(found.x, found.gap), (best.x, best.gap)], numbers)


def _below(problem, fits, numbers=None):
    reached = [objective(problem, x, numbers) for x, _ in fits]
    for (_, gap), f in zip(fits, reached, strict=True):
        if not float(f - min(reached)) <= gap:
            what = "multinomial, " if numbers is not None else ""
            return f"{what}{problem}: certified {gap:.3e}, and the gap is {float(f - min(reached)):.3e} (f = {float(f):.3e})"
    return None
