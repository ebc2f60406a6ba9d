"""Calls of the public API with one argument that does not fit. Each ends in a result or in words, never in a crash, and a vector
that fits gives what NumPy gives.
"""

import warnings

import numpy as np
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.orders import Order, balanced, discrepancy, make_order, sketch
from reshuffle.solver.certified import solve

IN_WORDS = (ValueError, TypeError, ArithmeticError, OSError, ImportError)  # all that a caller has to expect


OPTIONS = ["batch_size", "seed", "average", "tol", "evaluate_every"]


def odd(rng, like):
    """Something that is not quite what is asked for."""
    n = int(np.size(like)) or 1
    pool = [
        None, 0, -1, 1, 2.5, 10**9, 2**63, -(2**63), float("nan"), float("inf"), 1e300, 1e-300, True, "", "x", b"x", [], {},
        object(), np.zeros(0), np.zeros(n - 1),
        np.zeros(n + 1), np.zeros((n, 1)), np.zeros((1, n)), np.full(n, np.nan), np.full(n, np.inf),
        np.full(n, 1e300), np.arange(n), np.arange(n)[::-1], np.arange(n) + 1, -np.arange(n), np.full(n, 2**62),
        np.zeros(n, complex),
        np.array(["a"] * n), np.array([None] * n), np.ma.masked_array(np.zeros(n), np.arange(n) == 0), np.zeros(n, np.float16),
        np.zeros(n, ">f8"), np.zeros(2 * n)[::2], list(range(n)), tuple(range(n)), range(n), iter([np.arange(n)]),
        sp.csr_array((n, n)),
        np.float32(1), np.array(1.0), lambda *a: 1.0, slice(None), np.zeros(n, bool), np.zeros(n, "M8[s]"), "0", "huber:x", "rr:5",
    ]  # fmt: skip
    return pool[int(rng.integers(len(pool)))]


def broken(rng, X):
    """A sparse matrix with one number of one array changed, or a dense one that is odd."""
    kind = int(rng.integers(6))
    if kind == 0:
        return odd(rng, X[:, 0])
    if kind == 1:
        return X.astype(rng.choice(["f2", "i1", ">f8", "f4", "O", "c16", "U5"]))
    Y = getattr(sp, f"{rng.choice(['csr', 'csc', 'bsr', 'coo'])}_{rng.choice(['array', 'matrix'])}")(X)
    names = ("row", "col", "data") if Y.format == "coo" else ("indptr", "indices", "data")
    name = str(rng.choice(names))
    array = getattr(Y, name)
    if rng.random() < 0.3 and Y.format != "coo":
        setattr(Y, name, array[: int(rng.integers(len(array)))])
    elif array.size:
        array.reshape(-1)[int(rng.integers(array.size))] = rng.choice([-1, 10**6, 2**31 - 1, -(2**31), 0, 3])
    return Y


def trial(seed):
    """None, or a kind ("wrong", "traceback") and words."""
    rng = np.random.default_rng([seed, 3])
    n, d = int(rng.integers(2, 9)), int(rng.integers(1, 5))
    X, y = rng.standard_normal((n, d)), np.where(np.arange(n) % 2, 1.0, -1.0)
    loss = str(rng.choice(["logistic", "hinge", "squared", "absolute", "huber"]))
    p = rs.Problem(sp.csr_array(X) if rng.random() < 0.5 else X, y, loss=loss, alpha=0.1, fit_intercept=bool(rng.integers(2)))
    x, u = np.zeros(p.dimension), np.zeros(n)
    ox, ou, o = odd(rng, x), odd(rng, u), odd(rng, u)
    estimator = [rs.CertifiedClassifier, rs.CertifiedRegressor, rs.ShuffledSGDClassifier, rs.ShuffledSGDRegressor][
        int(rng.integers(4))
    ]
    calls = {
        "margins": lambda: p.margins(ox), "transposed": lambda: p.transposed(ou), "losses": lambda: p.losses(ou),
        "duals": lambda: p.duals(ou), "conjugates": lambda: p.conjugates(ou), "objective": lambda: p.objective(ox),
        "gradient": lambda: p.gradient(ox), "objective_at": lambda: p.objective_at(ou, x),
        "along": lambda: p.dual_objective_along(ou),
        "prefix_norms": lambda: p.prefix_norms(x, ou), "sample_gradients": lambda: p.squared_sample_gradients(ox),
        "take": lambda: p.take(ou), "gap": lambda: rs.duality_gap(p, ox, ou), "gap of dual": lambda: rs.duality_gap(p, x, ou),
        "Problem": lambda: rs.Problem(broken(rng, X), y, loss=loss).margins(np.zeros(d)),
        "y": lambda: rs.Problem(X, ou, loss=loss), "weight": lambda: rs.Problem(X, y, loss=loss, sample_weight=ou),
        "alpha": lambda: rs.Problem(X, y, loss=loss, alpha=o), "loss": lambda: rs.Problem(X, y, loss=o),
        "constants": lambda: rs.constants(broken(rng, X), permutations=1, jobs=1),
        "order": lambda: rs.constants(X, order=ou, permutations=1, jobs=1),
        "batch": lambda: rs.constants(X, batch_size=o, permutations=1, jobs=1),
        "settings": lambda: rs.constants(X, permutations=1, jobs=1, **{str(rng.choice(["tol", "seed", "failure_probability"])): o}),
        "device": lambda: rs.constants(X, device=o, permutations=1, jobs=1), "fit device": lambda: estimator(device=o).fit(X, y),
        "smoothness": lambda: rs.constants(smoothness=ou, permutations=1, jobs=1),
        "minimize": lambda: rs.minimize(p, x0=ox, step_size=0.01, epochs=2),
        "visit": lambda: rs.minimize(p, order=ou, step_size=0.01, epochs=2),
        "step": lambda: rs.minimize(p, step_size=o, epochs=2),
        "options": lambda: rs.minimize(p, step_size=0.01, **{str(rng.choice(OPTIONS)): o}),
        "solve": lambda: solve(p, x0=ox, max_iter=3), "tol": lambda: solve(p, tol=o, max_iter=3),
        "measure": lambda: rs.theory.measure(p, ox), "make_order": lambda: make_order(ou, n, 0),
        "Order": lambda: Order("given", n, 0, make_order("ig", n, 0).scheme, given=ou),
        "balanced": lambda: balanced(p, ou), "discrepancy": lambda: discrepancy(p, ou, x=ox), "sketch": lambda: sketch(ou, 2),
        "gradients": lambda: discrepancy(ou, "ig"), "fit X": lambda: estimator().fit(broken(rng, X), y),
        "fit y": lambda: estimator().fit(X, ou), "fit weights": lambda: estimator().fit(X, y, ou),
        "predict": lambda: estimator().fit(X, y).predict(broken(rng, X)),
        "parameter": lambda: estimator(**{str(rng.choice(["alpha", "loss", "tol", "random_state", "n_jobs"])): o}).fit(X, y),
        "plan": lambda: rs.plan(p, eps=o, permutations=1), "load": lambda: rs.load(o),
    }  # fmt: skip
    name = str(rng.choice(sorted(calls)))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            found = calls[name]()
    except IN_WORDS as error:
        return None if str(error) else ("traceback", f"{name}: {type(error).__name__} without a word")
    except Exception as error:
        return "traceback", f"{name} of {o!r:.80}, {ou!r:.80}, {ox!r:.80}: {type(error).__name__}: {error}"[:400]
    if name == "margins":
        expected = X @ np.asarray(ox, dtype=float)[:d] + (float(ox[d]) if p.fit_intercept else 0.0)
        if not np.allclose(found, expected, rtol=1e-9, equal_nan=True):
            return "wrong", f"margins of {ox!r}"
    return None
