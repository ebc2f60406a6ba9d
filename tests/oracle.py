"""The definitions, written as slowly and plainly as they read: explicit n x n matrices and full eigendecompositions."""

import numpy as np


def _rows(A, weights, order):
    return (np.sqrt(weights)[:, None] * np.asarray(A, dtype=float))[order]


def ordered_constant_as_the_paper_writes_it(A, weights, order, b):
    """1/(mn) || Λ^{1/2} (sum_j I_{b(j-1) up} A A' I_{b(j-1) up}) Λ^{1/2} ||."""
    rows = _rows(A, weights, order)
    n = len(rows)
    m = -(-n // b)
    total = np.zeros((n, n))
    for j in range(m):
        tail = rows.copy()
        tail[: b * j] = 0.0
        total += tail @ tail.T
    return np.linalg.eigvalsh(total)[-1] / (m * n)


def ordered_constant(A, weights, order, b):
    """The same with the sum done: entry (p, q) is counted by min(t_p, t_q) of the j."""
    rows = _rows(A, weights, order)
    t = np.arange(len(rows)) // b + 1.0
    return np.linalg.eigvalsh(np.minimum.outer(t, t) * (rows @ rows.T))[-1] / (t[-1] * len(rows))


def batch_constant(A, weights, order, b):
    """(1/b) max over batches of || Λ^{1/2} A_batch ||^2."""
    rows = _rows(A, weights, order)
    return max(np.linalg.norm(rows[k : k + b], 2) ** 2 for k in range(0, len(rows), b)) / b


def shuffled_sgd(A, y, loss, permutations, b, steps, x0, *, weights=None, alpha=0.0, intercept=False):
    """Algorithm 1 line by line, in the functions of the loss as they are written. Returns every x_k and the last duals."""
    A = np.asarray(A, dtype=float)
    n = len(A)
    weights = np.ones(n) if weights is None else weights
    rows = np.column_stack([A, np.ones(n)]) if intercept else A
    shrunk = np.r_[np.ones(A.shape[1]), np.zeros(int(intercept))]
    x, duals, ends = np.array(x0, dtype=float), np.zeros(n), []
    for permutation, step in zip(permutations, steps, strict=True):
        for start in range(0, n, b):
            batch = permutation[start : start + b]
            for j in batch:
                duals[j] = loss.derivative(rows[j] @ x, y[j], loss.parameter)
            pull = sum(weights[j] * duals[j] * rows[j] for j in batch)
            x = x - step / b * (pull + len(batch) * alpha * shrunk * x)
        ends.append(x)
    return ends, duals
