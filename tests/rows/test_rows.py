"""Every storage answers every question as NumPy does, and a storage of one's own is one class."""

import hashlib
import tempfile
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.losses import get_loss
from reshuffle.losses.base import compiled
from reshuffle.rows import DualState, DualStep, Rows, Step, as_rows, base, in_memory, kernels, memory
from reshuffle.rows.blocks import Held, Kind
from reshuffle.rows.centred import CentredRows
from reshuffle.rows.disk import DiskRows
from reshuffle.rows.shared import borrow
from tests.oracle import balanced_sgd, shuffled_sgd

N, D = 37, 6


class ListRows(Rows):
    """A toy storage: rows in a Python list of dictionaries."""

    def __init__(self, X):
        self.rows = [{j: float(a) for j, a in enumerate(row) if a} for row in X]
        self.width = X.shape[1]

    @property
    def shape(self):
        return len(self.rows), self.width

    @property
    def entries(self):
        return sum(map(len, self.rows))

    def take(self, rows):
        return in_memory(np.array([[self.rows[i].get(j, 0.0) for j in range(self.width)] for i in rows]))


class CentredBlocks(ListRows):
    """One whose blocks are centred."""

    def take(self, rows):
        return CentredRows(sp.csr_array(super().take(rows).matrix), CENTRE)


def on_disk(X, room=1.5):
    """Blocks of 8 rows, and memory for `room` times all of them: too little to hold an order of them."""
    parts = [in_memory(X[start : start + 8]) for start in range(0, X.shape[0], 8)]
    kind = Kind((X.indices.dtype if sp.issparse(X) else None, X.dtype))
    entries, folder = sum(part.entries for part in parts), Path(tempfile.gettempdir())
    rows = DiskRows([Held(part) for part in parts], X.shape, entries, kind, memory=0, scratch=folder, mark=str(X))
    rows.memory = int(room * rows.nbytes)
    return rows


class CentredOnDisk(DiskRows):
    """Rows that are centred as they are read."""


def centred_on_disk(X):
    rows = on_disk(X).standardised(CENTRE, np.ones(D))
    rows.__class__ = CentredOnDisk
    return rows


CENTRE = np.array([0.3, -1.5, 0.0, 2.0, 1.0, -0.7])  # one column stays, and one loses a value that it holds


def numbers(kind):
    rng = np.random.default_rng(3)
    X = rng.integers(0, 9, (N, D)) * (rng.random((N, D)) < 0.6)
    return (X - (4 if np.dtype(kind).kind != "u" else 0) * (X > 0)).astype(kind)


try:
    import torch
except ImportError:
    TENSORS = {}
else:
    from reshuffle.rows.torch import TYPES

    def tensor(kind):
        signed = "uint8" if kind in (torch.uint8, torch.uint16) else "float64"
        return torch.from_numpy(numbers(signed)).to(kind)

    TENSORS = {f"tensor of {str(kind).removeprefix('torch.')}": partial(tensor, kind) for kind in TYPES}


CENTRED = (CentredRows, CentredBlocks, CentredOnDisk)
STORAGES = {
    "csr": lambda: sp.csr_array(numbers("float64")),
    "csr of float32": lambda: sp.csr_array(numbers("float32")),
    "list": lambda: ListRows(numbers("float64")),
    "centred csr": lambda: CentredRows(sp.csr_array(numbers("float64")), CENTRE),
    "centred csr of float32": lambda: CentredRows(sp.csr_array(numbers("float32")), CENTRE),
    "centred blocks": lambda: CentredBlocks(numbers("float64")),
    "disk": lambda: on_disk(sp.csr_array(numbers("float64"))),
    "disk, held": lambda: on_disk(sp.csr_array(numbers("float32")), room=100.0),
    "disk, dense": lambda: on_disk(numbers("float16")),
    "disk, centred": lambda: centred_on_disk(sp.csr_array(numbers("float64"))),
    **{np.dtype(kind).name: partial(numbers, kind) for kind in memory.DENSE_TYPES},
    **TENSORS,
}


@pytest.fixture(params=STORAGES)
def storage(request, monkeypatch):
    monkeypatch.setattr(base, "_BLOCK_ENTRIES", 40)  # several blocks
    monkeypatch.setattr(base, "_LARGEST_GRAM", 0)
    return STORAGES[request.param]()


def explicit(storage, intercept):
    A = storage.take(np.arange(N)).matrix if isinstance(storage, Rows) else storage
    A = A.double().numpy() if hasattr(A, "numpy") else A
    A = (A.toarray() if sp.issparse(A) else A).astype(float)
    A = numbers("float64") if isinstance(storage, CentredOnDisk) else A
    A = A - CENTRE if isinstance(storage, CENTRED) else A
    return np.column_stack([A, np.ones(N)]) if intercept else A


@pytest.mark.parametrize("intercept", [False, True])
def test_sums_over_rows(storage, intercept):
    rows, A = as_rows(storage).with_intercept(intercept), explicit(storage, intercept)
    rng, some = np.random.default_rng(0), np.array([1, 4, 5, 20, 36, 4])
    assert (rows.n, rows.d, rows.dimension, rows.shape) == (N, D, D + intercept, (N, D))
    stored = A[:, :D] + CENTRE if isinstance(storage, CENTRED) else A[:, :D]
    assert rows.nonzeros == np.count_nonzero(stored)
    assert rows.entries >= rows.nonzeros
    np.testing.assert_allclose(rows.squared_norms(), (A**2).sum(axis=1))
    np.testing.assert_allclose(rows.squared_column_norms(), (A[:, :D] ** 2).sum(axis=0))
    np.testing.assert_array_equal(rows.column_ranges(), [A[:, :D].min(axis=0), A[:, :D].max(axis=0)])
    np.testing.assert_allclose(rows.gram(), A @ A.T)
    np.testing.assert_array_equal(rows.csr().toarray(), A)
    C, E = rows.factored()
    z = np.append(np.ones(rows.dimension), np.zeros(C.shape[1] - rows.dimension))
    z[rows.dimension :] = E @ z
    np.testing.assert_allclose(E @ z, 0.0)
    np.testing.assert_allclose(C @ z, A.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(rows.scale_columns(np.arange(1.0, D + 1)).csr().toarray()[:, :D], A[:, :D] * np.arange(1.0, D + 1))
    for chosen in (None, some):
        B = A if chosen is None else A[chosen]
        x, u = rng.standard_normal(rows.dimension), rng.random(len(B))
        np.testing.assert_allclose(rows.margins(x, chosen), B @ x)
        np.testing.assert_allclose(rows.transposed(u, chosen), B.T @ u)
        bent = u > 0.3  # rows that do not bend need not be read
        u *= bent
        along, product = rows.curved_product(u, x, chosen)
        np.testing.assert_allclose(along[bent], (B @ x)[bent])
        np.testing.assert_allclose(product, B.T @ (u * (B @ x)), atol=1e-10)
        np.testing.assert_allclose(rows.curved_squares(u, chosen), (u[:, None] * B**2).sum(axis=0))
        H = B.T @ (u[:, None] * B)
        np.testing.assert_allclose(np.tril(rows.hessian(u, chosen)), np.tril(H), atol=1e-10)
        np.testing.assert_allclose(np.tril(rows.rough_hessian(u, chosen)), np.tril(H), atol=1e-6 * H.max())
    np.testing.assert_array_equal(rows.take(some).csr().toarray(), A[some][:, :D])


@pytest.mark.parametrize("intercept", [False, True])
def test_a_step_of_the_recurrence_for_the_norm(storage, intercept):
    rows, rng = as_rows(storage).with_intercept(intercept), np.random.default_rng(3)
    scale, x, u = rng.random(N) + 0.5, rng.standard_normal(rows.dimension), rng.standard_normal(N)
    scale[7] = 0.0
    B, weighted = scale[:, None] * explicit(storage, intercept), rows.weighted(scale)
    np.testing.assert_allclose(weighted.transposed(u), B.T @ u, rtol=1e-9, atol=1e-9)
    factored, y = weighted.factored(u.copy()), rng.standard_normal(rows.dimension)
    np.testing.assert_allclose(factored.image(), B.T @ u, rtol=1e-9, atol=1e-9)
    p = B @ x - 0.5 * u
    square, product = factored.step(x, 0.5)
    assert square == pytest.approx(p @ p, rel=1e-9)
    np.testing.assert_allclose(product, B.T @ p, rtol=1e-9, atol=1e-9)
    for along, expected in zip(factored.along((y, 2.0), (x, 0.0)), (B @ y - 2.0 * p, B @ x), strict=True):
        np.testing.assert_allclose(along, expected, rtol=1e-9, atol=1e-9)
    p = B @ x - u
    np.testing.assert_allclose(rows.gram_step(scale, x, u), B.T @ p, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(u, p, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("b", [1, 5, N])
@pytest.mark.parametrize("copied", [False, True])
def test_products_in_an_order(storage, intercept, b, copied, monkeypatch):
    monkeypatch.setattr(memory, "_SMALL_COPY", 1 << 30 if copied else -1)
    monkeypatch.setattr(memory, "_LARGEST_COPY", 1 << 30 if copied else -1)
    rows, A = as_rows(storage).with_intercept(intercept), explicit(storage, intercept)
    rng = np.random.default_rng(1)
    scale, order, v, out = rng.random(N) + 0.5, rng.permutation(N), rng.standard_normal(N), np.empty(N)
    arranged = rows.weighted(scale).arrange(order, b)
    B, t = (scale[:, None] * A)[order], np.arange(N) // b + 1.0
    arranged.ordered(v, out)
    np.testing.assert_allclose(out[arranged.visit], (np.minimum.outer(t, t) * (B @ B.T)) @ v[arranged.visit])
    starts = base.batch_starts(N, b)
    members, lengths = arranged.visit, np.diff(starts)
    arranged.batched(members, starts, v, out)
    same = np.equal.outer(np.repeat(np.arange(len(lengths)), lengths), np.repeat(np.arange(len(lengths)), lengths))
    np.testing.assert_allclose(out, (same * (B @ B.T)) @ v, atol=1e-9)
    arranged.batched(members, starts, v, out)  # working space was left as it was found
    np.testing.assert_allclose(out, (same * (B @ B.T)) @ v, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_norms_of_prefixes(storage, intercept):
    rows, A = as_rows(storage).with_intercept(intercept), explicit(storage, intercept)
    rng = np.random.default_rng(2)
    u, c, order = rng.standard_normal(N), rng.standard_normal(rows.dimension), rng.permutation(N)
    found = rows.prefix_norms(order, u, A @ c, c @ c)
    np.testing.assert_allclose(found, (np.cumsum((u[:, None] * A + c)[order], axis=0) ** 2).sum(axis=1), rtol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("b", [1, 4])
def test_an_epoch_of_algorithm_1(storage, intercept, b):
    rows, A = as_rows(storage).with_intercept(intercept), explicit(storage, False)
    rng, loss = np.random.default_rng(4), get_loss("logistic")
    y, weights, order = np.where(rng.random(N) < 0.5, -1.0, 1.0), rng.random(N) + 0.5, rng.permutation(N)
    step = Step(b, 0.1, 0.3, compiled(loss, "derivative"), loss.parameter)
    for visit, permutation in ((order, order), (None, np.arange(N))):
        x, dual = np.full(rows.dimension, 0.1), np.empty(N)
        rows.sgd_epoch(visit, y, weights, step, x, dual)
        start = np.full(rows.dimension, 0.1)
        ends, duals = shuffled_sgd(A, y, loss, [permutation], b, [0.1], start, weights=weights, alpha=0.3, intercept=intercept)
        np.testing.assert_allclose(x, ends[-1], rtol=1e-9)
        np.testing.assert_allclose(dual, duals, rtol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("b", [1, 3, 4, N])
@pytest.mark.parametrize("n", [N, N - 1])
def test_an_epoch_that_makes_the_next_order(storage, intercept, b, n, monkeypatch):
    monkeypatch.setattr(base, "_BLOCK_ENTRIES", 30)  # room for nine rows, the last of which would lose its partner
    A = explicit(storage, False)[:n]
    rows = as_rows(storage)
    if type(rows) is ListRows:
        rows = ListRows(A)
    elif type(rows) is CentredBlocks:
        rows = CentredBlocks(A + CENTRE)
    elif type(rows) is CentredOnDisk:
        rows = centred_on_disk(sp.csr_array(numbers("float64")[:n]))
    elif type(rows) is DiskRows:
        rows = on_disk(sp.csr_array(A) if rows.kind.sparse else A)
    else:
        rows = rows.take(np.arange(n))
    rng, loss, rows = np.random.default_rng(4), get_loss("logistic"), rows.with_intercept(intercept)
    y, weights, order = np.where(rng.random(n) < 0.5, -1.0, 1.0), rng.random(n) + 0.5, rng.permutation(n)
    x, dual, start, b = np.full(rows.dimension, 0.1), np.empty(n), np.full(rows.dimension, 0.1), min(b, n)
    step = Step(b, 0.1, 0.3, compiled(loss, "derivative"), loss.parameter)
    following = rows.balanced_epoch(order, y, weights, step, x, dual)
    ends, duals, orders = balanced_sgd(A, y, loss, order, b, [0.1], start, weights=weights, alpha=0.3, intercept=intercept)
    np.testing.assert_allclose(x, ends[-1], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(dual, duals, rtol=1e-12, atol=1e-13)
    assert following.tolist() == orders[-1]


@pytest.mark.parametrize("intercept", [False, True])
def test_signs_of_a_balanced_walk(storage, intercept):
    rows, A = as_rows(storage).with_intercept(intercept), explicit(storage, intercept)
    rng = np.random.default_rng(2)
    u, c, order = rng.standard_normal(N), rng.standard_normal(rows.dimension), rng.permutation(N)
    walk, expected = np.zeros(rows.dimension), []
    for v in (u[:, None] * A + c)[order]:
        expected.append(walk @ v <= 0.0)
        walk += v if expected[-1] else -v
    assert rows.balanced_signs(order, u, A @ c, c @ c).tolist() == expected


@pytest.mark.parametrize("intercept", [False, True])
def test_a_pass_of_sdca_maximises_the_dual_over_one_entry_after_the_other(storage, intercept):
    """An intercept with a pull of its own is one more feature, of size sqrt(intercept_pull / pull), with the others' pull."""
    size = 1.7 * intercept
    y = np.where(np.random.default_rng(5).random(N) < 0.5, -1.0, 1.0)
    A = np.column_stack([explicit(storage, False), np.full(N, size)])
    p = rs.Problem(A, y, alpha=0.5, sample_weight=np.random.default_rng(6).random(N) + 0.5)
    rows, pull, order = as_rows(storage).with_intercept(intercept), 1.0 / (p.n * p.alpha), np.random.default_rng(0).permutation(p.n)
    x, dual, gains, squares = np.zeros(rows.dimension), np.zeros(p.n), np.zeros(p.n), rows.squared_norms() - intercept
    step = DualStep(p.loss, pull, pull * size**2)
    for i in order:
        before = p.dual_objective_along(dual)(1.0)
        rows.sdca_epoch(np.array([i]), p.labels, p.sample_weight, squares, step, x, DualState(dual, gains))
        best = p.dual_objective_along(dual)(1.0)
        if p.squared_norms()[i] == 0.0:
            continue  # a row of zeros moves nothing
        assert best >= before
        for shift in (-1e-3, 1e-3):
            other = dual.copy()
            other[i] = np.clip(other[i] + shift, *(bound[i] for bound in p.dual_bounds))
            assert p.dual_objective_along(other)(1.0) <= best + 1e-13
        expected = -pull * p.transposed(p.sample_weight * dual)
        np.testing.assert_allclose(x, (expected * np.append(np.ones(D), size))[: x.size], rtol=1e-9, atol=1e-12)


def test_a_hash_changes_with_every_entry(storage):
    def digest(rows):
        found = hashlib.sha256()
        rows.update_hash(found)
        return found.hexdigest()

    rows, A = as_rows(storage), explicit(storage, False)
    A[7, 2] += 1.0
    assert digest(rows) == digest(as_rows(storage))
    assert digest(rows) != digest(in_memory(sp.csr_array(A) if sp.issparse(storage) else A.astype(rows.take([0]).matrix.dtype)))


def test_a_hash_changes_with_the_centre():
    found = set()
    for rows in (
        as_rows(sp.csr_array(numbers("float64"))),
        *(CentredRows(sp.csr_array(numbers("float64")), c * CENTRE) for c in (1, 2)),
    ):
        digest = hashlib.sha256()
        rows.update_hash(digest)
        found.add(digest.hexdigest())
    assert len(found) == 3


def test_centred_rows_are_copied_into_an_order():
    rows, order = STORAGES["centred csr"]().with_intercept(True), np.random.default_rng(0).permutation(N)
    copy = rows.in_order(order)
    assert copy.intercept
    np.testing.assert_array_equal(copy.csr().toarray(), rows.csr().toarray()[order])
    x = np.random.default_rng(1).standard_normal(rows.dimension)
    np.testing.assert_array_equal(copy.margins(x), rows.margins(x)[order])


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_do_not_bend_are_not_read(sparse):
    A, u = numbers("float64"), np.ones(N)
    X = sp.csr_array(A) if sparse else A
    rows, u[5] = in_memory(X), 0.0
    (X.data[X.indptr[5] : X.indptr[6]] if sparse else A[5])[:] = np.nan  # where the rows lie
    along, product = rows.curved_product(u, np.ones(D))
    others = np.delete(A, 5, 0)
    np.testing.assert_allclose(product, others.T @ np.delete(along, 5), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.transposed(u), others.sum(0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(rows.curved_squares(u), (others**2).sum(0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_rows_are_split_by_their_holders_in_the_order_of_their_visits(kind):
    edges, visit = np.array([0, 4, 4, 9, N]), np.random.default_rng(0).permutation(N)[: N - 3].astype(kind)
    rows, ends = np.empty_like(visit), np.zeros(5, dtype=np.int64)
    kernels.split(visit, np.repeat(np.arange(4, dtype=np.uint8), np.diff(edges)), edges, ends, rows)
    assert (ends[0], ends[-1]) == (0, visit.size)
    for k, (low, high) in enumerate(pairwise(edges)):
        expected = [row - low for row in visit if low <= row < high]
        assert rows[ends[k] : ends[k + 1]].tolist() == expected


@pytest.mark.parametrize("kind", ["bytes", "single", "double", "dense", "centred"])
def test_rows_that_others_packed_or_lent_and_own_ones_join_at_their_places(kind):
    """In the smallest types that hold them exactly; of two partitions one may have wider numbers than the other."""
    A = np.rint(20.0 * np.abs(numbers("float64")))
    parts = [A[: N // 3].copy(), A[N // 3 :].copy()]
    parts[0][0, 0] = {"single": -0.5, "double": 0.1}.get(kind, 3.0)
    made = {"dense": in_memory, "centred": lambda X: CentredRows(sp.csr_array(X), CENTRE)}.get(
        kind, lambda X: in_memory(sp.csr_array(X))
    )
    theirs, ours = map(made, parts)
    order = np.random.default_rng(0).permutation(N)
    places = [np.flatnonzero(order < N // 3), np.flatnonzero(order >= N // 3)]
    wanted, own = order[places[0]], (ours, order[places[1]] - N // 3)
    packed, lent = theirs.packed(wanted), borrow(theirs.lent())
    for piece in ((packed, np.arange(wanted.size)), (lent, wanted), (theirs, wanted)):
        if kind != "dense" and piece[0] is not theirs:
            values = {"single": np.float32, "double": np.float64}.get(kind, np.uint8)
            assert [array.dtype for array in piece[0][1:]] == [np.uint16, values]
        pieces = [piece, own]
        joined = ours.joined(pieces, places)
        assert not pieces  # each is let go once it is laid out
        assert type(joined) is type(ours)
        np.testing.assert_array_equal(joined.matrix.toarray() if kind != "dense" else joined.matrix, np.concatenate(parts)[order])
        np.testing.assert_array_equal(joined.margins(np.ones(D)), made(np.concatenate(parts)[order]).margins(np.ones(D)))


@pytest.mark.parametrize("kind", memory.DENSE_TYPES)
def test_dense_data_of_every_native_type_is_read_where_it_lies(kind):
    X = numbers(kind)
    assert np.shares_memory(in_memory(X).matrix, X)


def test_half_precision_is_read_exactly():
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    X = every[np.isfinite(every)].reshape(-1, 1)
    np.testing.assert_array_equal(in_memory(X).margins(np.ones(1)), X[:, 0].astype(float))


@pytest.mark.parametrize(
    ("X", "complaint"),
    [
        (np.array([[1.0, np.nan]]), "X holds nan in row 0"),
        (sp.csr_array(np.array([[0.0, 1.0], [np.inf, 0.0]])), "X holds inf in row 1"),
        (np.array([[np.inf]], dtype=np.float16), "X holds inf in row 0"),
        (np.zeros((0, 3)), r"X has shape \(0, 3\); it needs at least one row"),
        (np.array([["a"]]), "X has dtype"),
        (np.zeros(3), "X has 1 dimensions"),
        ("a.csv", "X='a.csv' is a path"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(X, complaint):
    with pytest.raises(ValueError, match=complaint):
        in_memory(X)


# A storage of one's own, end to end


@pytest.fixture
def both():
    rng = np.random.default_rng(8)
    X = rng.standard_normal((80, 5)) * (rng.random((80, 5)) < 0.7)
    return X, ListRows(X), np.where(X @ rng.standard_normal(5) + 0.3 * rng.standard_normal(80) > 0, 1, 0)


def test_a_toy_storage_has_constants_and_a_plan(both, tmp_path):
    X, rows, y = both
    bounds = {"failure_probability": 0.1, "tol": 1e-3}  # to be 1e-6 above a norm takes a thousand products
    for options in ({"batch_size": 3}, {"batch_size": 80}, {"order": "ig"}, bounds):
        ours, reference = (rs.constants(A, permutations=3, **{"tol": 1e-6, **options}) for A in (rows, X))
        np.testing.assert_allclose(ours.hat, reference.hat, rtol=1e-6)
        np.testing.assert_allclose(ours.til, reference.til, rtol=1e-6)
    journal = tmp_path / "run.jsonl"
    rs.constants(rows, permutations=2, out=journal)
    assert rs.constants(rows, permutations=4, out=journal).permutations == 4
    ours, reference = (rs.plan(rs.Problem(A, y, alpha=0.01), tol=0.3, permutations=2) for A in (rows, X))
    assert ours.promised.batch_size == reference.promised.batch_size
    assert ours.advice.arguments == reference.advice.arguments
    assert ours.promised.step_size == pytest.approx(reference.promised.step_size, rel=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_toy_storage_is_trained_on(both, loss):
    X, rows, y = both
    for order in ("rr", "balanced"):
        options = {"order": order, "step_size": 0.1, "batch_size": 3, "epochs": 4}
        runs = [rs.minimize(rs.Problem(A, y, loss=loss, alpha=0.1), **options) for A in (rows, X)]
        np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-9)
        assert runs[0].gap == pytest.approx(runs[1].gap, rel=1e-6)
    for kind in (rs.CertifiedClassifier, partial(rs.ShuffledSGDClassifier, epochs=5, tol=1e9)):
        models = [kind(loss, alpha=0.1, random_state=0).fit(A, y, np.arange(80) % 3) for A in (rows, X)]
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, atol=1e-3)
        np.testing.assert_allclose(models[0].decision_function(rows), models[0].decision_function(X))
    with pytest.raises(ValueError, match="4 features, but CertifiedClassifier is expecting 5"):
        rs.CertifiedClassifier().fit(rows, y).predict(ListRows(X[:, :4]))


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.uint8])
@pytest.mark.parametrize("share", [0.02, 0.9])
def test_a_dense_hessian_reads_rows_that_bend(kind, share):
    """Few of many are picked out of the others: what the others hold does not matter, and not even whether they are finite."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, (600, 40)).astype(kind)
    curvatures = np.where(rng.random(600) < share, rng.random(600), 0.0)
    chosen = np.sort(rng.permutation(600)[:300])
    rows = memory.DenseRows(X).with_intercept(True)
    if share < 0.1 and X.dtype.kind == "f":
        rows.matrix[curvatures == 0.0] = np.nan
    A = np.column_stack([np.nan_to_num(X), np.ones(600)]).astype(np.float64)
    for some, own in ((None, curvatures), (chosen, curvatures[chosen])):
        B = A if some is None else A[some]
        expected = np.tril(B.T @ (own[:, None] * B))
        np.testing.assert_allclose(np.tril(rows.hessian(own, some)), expected, rtol=1e-12)
        np.testing.assert_allclose(np.tril(rows.rough_hessian(own, some)), expected, rtol=1e-4)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_inverse_of_a_hessian_is_that_of_its_lower_triangle(kind):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 7)) * (rng.random((50, 7)) < 0.6)
    rows, ridge, r = in_memory(sp.csr_array(X) if kind == "sparse" else X), rng.random(7) + 0.1, rng.standard_normal(7)
    solve = rows.factorised(rows.hessian(np.ones(50)), 50.0, ridge)
    before = r.copy()
    np.testing.assert_allclose(solve(r), np.linalg.solve(X.T @ X / 50.0 + np.diag(ridge), r), rtol=1e-10)
    np.testing.assert_array_equal(r, before)
    assert rows.factorised(np.zeros((7, 7)), 50.0, np.zeros(7)) is None
    blurred = X.T @ X / 50.0 + np.diag(ridge + 0.1 * np.square(X).sum(axis=0) / 50.0)
    np.testing.assert_allclose(rows.factorised(rows.hessian(np.ones(50)), 50.0, ridge, blur=0.1)(r), np.linalg.solve(blurred, r))


@pytest.mark.parametrize("kind", ["memory", "torch"])
def test_a_factor_is_refused_where_a_pivot_is_too_small_a_share_of_the_diagonal(kind):
    """The last column is the first but for a hundredth of it, of which a pivot keeps the square."""
    A = np.eye(3)[:, [0, 1, 0]] + 0.01 * np.eye(3)[:, [2, 2, 2]] * [0.0, 0.0, 1.0]
    rows, H = in_memory(A), A.T @ A
    if kind == "torch":
        torch = pytest.importorskip("torch")
        from reshuffle.rows.torch import TorchRows

        rows, H = TorchRows(torch.from_numpy(A), (torch.device("cpu"),)).with_tensors(), torch.from_numpy(H)
    assert rows.factorised(H, 1.0, np.zeros(3), 0.9e-4) is not None
    assert rows.factorised(H, 1.0, np.zeros(3), 1.1e-4) is None
    assert rows.factorised(H * np.nan, 1.0, np.zeros(3)) is None
