"""A random fit, and its certificate against the true gap in extended precision."""

import numpy as np

import reshuffle as rs
from reshuffle.solver.certified import solve

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


def objective(problem, x):
    A, x = np.asarray(problem.X, dtype=REAL), np.asarray(x, dtype=REAL)
    z = A @ x[: problem.d] + (x[problem.d] if problem.fit_intercept else 0)
    total = np.sum(problem.sample_weight.astype(REAL) * values(problem.loss, z, problem.labels.astype(REAL)))
    return total / problem.n + REAL(problem.alpha) / 2 * np.sum(x[: problem.d] ** 2)


def a_problem(rng):
    n, d = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    scale = 10.0 ** rng.uniform(-3, 3)
    X = scale * rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-1, 1, d) + rng.choice([0.0, 5.0 * scale])
    loss = str(rng.choice(LOSSES))
    if rs.losses.get_loss(loss).task == "classification":
        y = np.where(rng.random(n) < rng.uniform(0.1, 0.9), 1.0, -1.0)
    else:
        y = 10.0 ** rng.uniform(-2, 3) * rng.standard_normal(n) + rng.choice([0.0, 1e3])
    w = rng.choice([None, 1])
    weights = None if w is None else rng.exponential(size=n) + 1e-3
    alpha = 10.0 ** rng.uniform(-6, 1)
    return rs.Problem(X, y, loss=loss, alpha=alpha, sample_weight=weights, fit_intercept=bool(rng.random() < 0.5))


def trial(rng):
    """None, or in words how a certificate was below the true gap, which is at least what any other point shows it to be."""
    problem = a_problem(rng)
    tol = 10.0 ** rng.uniform(-14, -1)
    found = solve(problem, tol=tol, max_iter=200, seed=int(rng.integers(100)))
    best = objective(problem, solve(problem, tol=1e-16, max_iter=300, seed=1).x)
    for x, gap in ((found.x, found.gap), (found.x, rs.duality_gap(problem, found.x, found.dual))):
        true = float(objective(problem, x) - best)
        if not true <= gap:
            return f"{problem}: certified {gap:.3e}, and the gap is {true:.3e} (f = {found.f:.3e})"
    return None
