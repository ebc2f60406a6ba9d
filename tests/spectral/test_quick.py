"""Quick constants: one sweep, and a norm between what is measured and what is promised, however the file is sorted."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.data import build, streams
from reshuffle.orders.streams import Stream, generator
from reshuffle.rows import in_memory
from reshuffle.rows.memory import MemoryRows
from reshuffle.spectral import sweep
from reshuffle.spectral.sweep import FAILURE_PROBABILITY, _Ritz


class Far(rs.Rows):
    """Rows that are brought a part at a time, and counted."""

    def __init__(self, X):
        self.X, self.brought = X, 0

    shape = property(lambda self: self.X.shape)
    entries = property(lambda self: self.X.size)

    def take(self, rows):
        self.brought += len(rows)
        return in_memory(self.X[rows])


@pytest.fixture
def short_look(monkeypatch):
    """At few of the rows."""
    monkeypatch.setattr(sweep, "_LOOK", 300)


def norm(X, weights=None):
    A = X if weights is None else np.sqrt(weights)[:, None] * X
    return np.linalg.norm(A, 2) ** 2 / len(X)


def clusters(rng, n, d):
    """Sorted by cluster: each has its own features, and rows of its own size."""
    X = np.zeros((n, d))
    for rows, features in zip(np.array_split(np.arange(n), 5), np.array_split(np.arange(d), 5), strict=True):
        X[np.ix_(rows, features)] = rng.lognormal(0.0, 1.0) * (1.0 + 0.3 * rng.standard_normal((rows.size, features.size)))
    return X


DATA = {
    "noise": lambda rng, n, d: rng.standard_normal((n, d)),
    "one direction": lambda rng, n, d: 1.0 + 0.3 * rng.standard_normal((n, d)),
    "heavy rows": lambda rng, n, d: rng.standard_normal((n, d)) * (1.0 + rng.pareto(1.5, n))[:, None],
    "clusters": clusters,
}


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(DATA)),
    shape=st.tuples(st.integers(1, 120), st.integers(1, 40)),
    far=st.booleans(),
    intercept=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_norm_lies_between_what_is_measured_and_what_is_promised(kind, shape, far, intercept, weighted, seed):
    rng = np.random.default_rng(seed)
    X = DATA[kind](rng, *shape)
    weights = rng.random(len(X)) + 0.1 if weighted else None
    A = np.column_stack([X, np.ones(len(X))]) if intercept else X
    with pytest.MonkeyPatch.context() as look:
        look.setattr(sweep, "_LOOK", 300)
        problem = rs.Problem(Far(X) if far else X, loss="unit", fit_intercept=intercept, sample_weight=weights)
        quick = rs.quick_constants(problem, seed=seed)
    exact = norm(A, weights)
    squares = (1.0 if weights is None else weights) * (A**2).sum(axis=1)
    assert quick.full_gradient_constant <= exact * (1.0 + 1e-9)
    assert quick.nnz == problem.nnz
    assert pytest.approx(squares.max(), rel=1e-12) == quick.L
    assert pytest.approx(squares.mean(), rel=1e-12) == quick.mean_sample
    assert quick.full_gradient_constant <= quick.hat_bound <= quick.mean_sample * (1.0 + 1e-12)
    if not far:  # all rows were looked at
        assert quick.full_gradient_constant == pytest.approx(exact, rel=1e-6)
        assert exact <= quick.hat_bound * (1.0 + 1e-9)


def test_promises_fail_as_seldom_as_is_said_where_nothing_is_known_of_the_largest():
    """A direction that V misses, twice the norm of what V has, among so many small ones that the trace says nothing. The bound is
    then as tight as it can be: a factor that is off by a half would fail a tenth of the time, one that is twice as large never.
    """
    d, trials = 60, 4000
    H = np.concatenate([[1.0], [2.0], np.full(d - 2, 0.02)])
    rng, failed = np.random.default_rng(0), 0
    for _ in range(trials):
        vectors = np.vstack([np.eye(1, d), rng.standard_normal((4, d))])
        failed += _Ritz(vectors, vectors * H, 1).at_most(trace=1e9) < 2.0
    assert FAILURE_PROBABILITY / 4 < failed / trials <= FAILURE_PROBABILITY + 3 * np.sqrt(FAILURE_PROBABILITY / trials)


def test_residuals_border_the_ritz_values():
    """H of two features, and V between its eigenvectors: what is promised is the norm itself, as there is nothing else."""
    H, angle = np.diag([1.0, 3.0]), 0.4
    v = np.array([np.sin(angle), np.cos(angle)])
    along = np.tile(v, (5, 1))  # which says nothing of what V misses
    ritz = _Ritz(along, along @ H, 1)
    assert ritz.values[0] == pytest.approx(v @ H @ v)
    assert ritz.residual == pytest.approx(np.linalg.norm(H @ v - (v @ H @ v) * v) / (v @ H @ v))
    assert ritz.at_most(trace=4.0) < 3.0
    vectors = np.vstack([v, 1e3 * np.random.default_rng(0).standard_normal((4, 2))])
    assert _Ritz(vectors, vectors @ H, 1).at_most(trace=4.0) == pytest.approx(3.0, rel=1e-12)  # by the trace of what is left


@pytest.mark.parametrize("kind", ["one direction", "heavy rows"])
def test_one_sweep_comes_within_a_hundredth_of_many(kind, short_look):
    X = DATA[kind](np.random.default_rng(1), 3000, 30)
    rows = Far(X)
    quick = rs.quick_constants(rows)
    assert norm(X) * 0.99 <= quick.full_gradient_constant <= norm(X) * (1.0 + 1e-9)
    assert rows.brought < 1.1 * len(X)
    assert 1.0 < quick.sweeps < 1.1


def test_what_a_sorted_file_hides_is_said_by_the_promise_and_not_by_the_residual(monkeypatch):
    """All rows have length one. The last lie along a feature of their own, and no run that is looked at comes so far."""
    rng = np.random.default_rng(0)
    X = np.zeros((3000, 400))
    X[:2800, 1:399] = rng.standard_normal((2800, 398))
    X[:2800] *= np.sqrt(0.98) / np.linalg.norm(X[:2800], axis=1)[:, None]
    X[:2800, 0], X[2800:, 399] = np.sqrt(0.02), 1.0
    monkeypatch.setattr(sweep, "_LOOK", 400 * 400)
    looked_at, _ = sweep._runs(Far(X), generator(0, 0, Stream.LOOK))
    assert looked_at.max() < 2800
    quick = rs.quick_constants(Far(X), seed=0)
    assert norm(X[:2800]) < 0.03
    assert norm(X) == pytest.approx(200.0 / 3000.0)
    assert quick.residual < 0.4  # an eigenvalue is near, and is not the largest
    assert quick.full_gradient_constant * (1.0 + quick.residual) < 0.6 * norm(X)
    assert norm(X) <= quick.hat_bound < 0.5
    mixed = rs.quick_constants(Far(X[rng.permutation(3000)]), seed=0)
    assert 0.99 * norm(X) <= mixed.full_gradient_constant


def test_a_store_is_read_once_and_a_little_of_it_twice(tmp_path, monkeypatch, short_look):
    monkeypatch.setattr(build, "BLOCK", 4000)
    monkeypatch.setattr(streams, "CELLS", 300)
    X = 1.0 + 0.3 * np.random.default_rng(0).standard_normal((3000, 10))
    np.save(tmp_path / "X.npy", X)
    rs.build_store(tmp_path / "a.store", tmp_path / "X.npy")
    rows = rs.open(tmp_path / "a.store")
    rows.memory = rows.nbytes
    blocks, seen, measured = len(rows.blocks), [], []
    read, squares = type(rows.blocks[0]).read, MemoryRows.squared_norms
    monkeypatch.setattr(type(rows.blocks[0]), "read", lambda self: seen.append(self.facts.name) or read(self))
    monkeypatch.setattr(MemoryRows, "squared_norms", lambda self: measured.append(self.n) or squares(self))
    quick = rs.quick_constants(rows)
    assert blocks >= 50
    assert len(set(seen)) == blocks
    assert blocks <= len(seen) <= blocks + 8 + 16  # those with rows that were looked at, and those with the heaviest rows
    assert len(X) <= sum(measured) < 1.2 * len(X)
    assert quick.sweeps == pytest.approx(1.0 + 8.0 / blocks, rel=0.2)
    assert quick.full_gradient_constant == pytest.approx(norm(X), rel=1e-3)


@pytest.mark.parametrize("c", [1e-150, 1e-80, 1e80, 1e150])
@pytest.mark.parametrize("wrap", [np.array, sp.csr_array, Far])
def test_scaled_data(c, wrap):
    X = DATA["heavy rows"](np.random.default_rng(0), 60, 5)
    found, base = rs.quick_constants(wrap(c * X)), rs.quick_constants(wrap(X))
    for name in ("L", "mean_sample", "full_gradient_constant", "hat_bound", "til_bound"):
        assert getattr(found, name) / c / c == pytest.approx(getattr(base, name), rel=1e-9)


def test_rows_far_larger_than_those_that_were_looked_at_take_a_second_sweep(short_look):
    X = np.ones((3000, 3))
    X[1777] = 1e120
    quick = rs.quick_constants(Far(X), seed=1)
    assert 2.0 < quick.sweeps < 2.2
    assert quick.full_gradient_constant == pytest.approx(1e240 / 1000.0, rel=1e-9)
    assert rs.quick_constants(np.zeros((7, 3))).hat_bound == 0.0


def test_seeds_and_words():
    X = DATA["noise"](np.random.default_rng(0), 50, 20)
    first, again, other = (rs.quick_constants(X, seed=seed) for seed in (0, 0, 1))
    assert first.hat_bound == again.hat_bound != other.hat_bound
    assert first.full_gradient_constant == pytest.approx(other.full_gradient_constant, rel=1e-6)
    text = str(first)
    assert f"full         {first.full_gradient_constant:.6g} at least   (measured, residual" in text
    assert f"promised: at most {first.hat_bound:.6g})" in text
    assert "promises     hold with probability 0.99" in text
    lipschitz = rs.quick_constants(rs.Problem(X, np.sign(X[:, 0]), loss="hinge"))
    assert "step size" not in str(lipschitz)
    assert lipschitz.to_dict()["safe_step_size_limit"] is None
