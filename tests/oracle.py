"""The definitions, written as slowly and plainly as they read: explicit n x n matrices and full eigendecompositions."""

import ctypes

import numpy as np


def called(address, arguments=3):
    """A compiled function of numbers, by its address."""
    return ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.c_double] * arguments)(address)


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
        for start in range(0, len(permutation), b):
            batch = permutation[start : start + b]
            for j in batch:
                duals[j] = loss.derivative(rows[j] @ x, y[j], loss.parameter)
            pull = sum(weights[j] * duals[j] * rows[j] for j in batch)
            x = x - step / b * (pull + len(batch) * alpha * shrunk * x)
        ends.append(x)
    return ends, duals


def balanced_sgd(A, y, loss, order, b, steps, x0, *, weights=None, alpha=0.0, intercept=False):
    """The same, each epoch making the order of the next from its gradients, pair after pair. Returns every order as well, the one
    for an epoch that is yet to come included.
    """
    n = len(A)
    weights = np.ones(n) if weights is None else weights
    rows = np.column_stack([A, np.ones(n)]) if intercept else np.asarray(A, dtype=float)
    x, ends, orders = np.array(x0, dtype=float), [], [list(order)]
    for step in steps:
        here = orders[-1]
        (x,), duals = shuffled_sgd(A, y, loss, [np.array(here)], b, [step], x, weights=weights, alpha=alpha, intercept=intercept)
        ends.append(x)
        gradients = (weights * duals)[:, None] * rows
        walk, front, back = np.zeros(x.size), [], []
        for h, i in zip(here[0::2], here[1::2], strict=False):
            if walk @ (gradients[h] - gradients[i]) > 0.0:
                h, i = i, h
            front.append(h)
            back.append(i)
            walk = walk + gradients[h] - gradients[i]
        orders.append(front + here[2 * len(front) :] + back[::-1])
    return ends, duals, orders


# --- what the lemmas sum over an epoch
#
# They hold for block rows too: a sample has one row as a linear predictor, 1 + d with a regulariser, d as a function on R^d. The
# rows of each batch are all that tells these apart.


def batches_of(order, b, rows=1):
    """The rows of each batch, where sample i has the rows i * rows, .., (i + 1) * rows - 1."""
    return [(rows * order[k : k + b, None] + np.arange(rows)).ravel() for k in range(0, len(order), b)]


def block_rows(A, smoothness, alpha):
    """[a_i; sqrt(alpha) I] of every sample, one below the other, and the smoothness of each row: 1 in those of the regulariser."""
    n, d = A.shape
    blocks = np.concatenate([A[:, None], np.broadcast_to(np.sqrt(alpha) * np.eye(d), (n, d, d))], axis=1)
    return blocks.reshape(-1, d), np.column_stack([smoothness, np.ones((n, d))]).ravel()


def points_of(A, duals, batches, step_by_b, x):
    """x_{k-1,1}, .., x_{k-1,m+1}: line 7 alone, for any dual values."""
    points = [x]
    for B in batches:
        points.append(points[-1] - step_by_b * A[B].T @ duals[B])
    return points


def later_moves(A, duals, batches, step_by_b):
    """A^(i) (x_k - x_{k-1,i}) in the rows of each batch i, for any dual values."""
    points, out = points_of(A, duals, batches, step_by_b, np.zeros(A.shape[1])), np.empty(len(A))
    for B, x in zip(batches, points, strict=False):
        out[B] = A[B] @ (points[-1] - x)
    return out


def matrix_of_tails(A, batches):
    """sum_j I_{b(j-1) up} A A' I_{b(j-1) up}, rows and columns as they lie in A."""
    total = np.zeros((len(A), len(A)))
    for i in range(len(batches)):
        rows = np.concatenate(batches[i:])
        total[np.ix_(rows, rows)] += A[rows] @ A[rows].T
    return total


def matrix_of_batches(A, batches):
    """sum_j I_(j) A A' I_(j), rows and columns as they lie in A."""
    total = np.zeros((len(A), len(A)))
    for rows in batches:
        total[np.ix_(rows, rows)] = A[rows] @ A[rows].T
    return total
