"""Sparse arrays that do not fit together are refused before anything indexes with them; all others mean what they say."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.rows import in_memory

N, D = 6, 4
DAMAGED = "X is a damaged sparse matrix"


def whole(kind=sp.csr_array):
    rng = np.random.default_rng(3)
    X = rng.integers(1, 9, (N, D)) * (rng.random((N, D)) < 0.6).astype(float)
    X[-1, -1] = 5.0
    return kind(X)


def changed(kind, array, place, value):
    """A whole matrix with one number of one array changed behind its back."""
    X = whole(kind)
    getattr(X, array)[place] = value
    return X


def replaced(kind, **arrays):
    X = whole(kind)
    for name, value in arrays.items():
        setattr(X, name, value(getattr(X, name)))
    return X


def lists(change):
    X = whole(sp.lil_array)
    change(X)
    return X


BROKEN = {
    **{
        f"{kind.__name__} {array}[{place}] = {value}": lambda kind=kind, a=array, p=place, v=value: changed(kind, a, p, v)
        for kind in (sp.csr_array, sp.csc_array, sp.bsr_array, sp.csr_matrix)
        for array, place, value in [
            ("indices", 1, 10**6),
            ("indices", 0, -1),
            ("indices", 0, -(2**31)),
            ("indices", -1, 2**31 - 1),
            ("indptr", 0, 1),
            ("indptr", 0, -5),
            ("indptr", 2, 10**6),
            ("indptr", 2, -3),
            ("indptr", -1, 10**6),
            ("indptr", 3, 0),
        ]
    },
    **{
        f"coo {axis} = {value}": lambda axis=axis, v=value: changed(sp.coo_matrix, axis, 1, v)
        for axis in ("row", "col")
        for value in (6, -1, 2**31 - 1)
    },
    "short indptr": lambda: replaced(sp.csr_array, indptr=lambda a: a[:-1]),
    "short indices": lambda: replaced(sp.csr_array, indices=lambda a: a[:-1]),
    "short data": lambda: replaced(sp.csr_array, data=lambda a: a[:-1]),
    "short blocks": lambda: replaced(sp.bsr_array, data=lambda a: a[:-1]),
    "flat blocks": lambda: replaced(sp.bsr_array, data=lambda a: a.ravel()),
    "data in two dimensions": lambda: replaced(sp.csr_array, data=lambda a: a[:, None]),
    "broad indices": lambda: replaced(sp.csr_array, indices=lambda a: a[:, None]),
    "indices of floats": lambda: replaced(sp.csr_array, indices=lambda a: a.astype(float)),
    "indices of another order of bytes": lambda: replaced(sp.csr_array, indices=lambda a: a.astype(">i4")),
    "indices as a list": lambda: replaced(sp.csr_array, indices=lambda a: a.tolist()),
    "short rows of coo": lambda: replaced(sp.coo_array, coords=lambda a: (a[0][:-1], a[1])),
    "list of indices too long": lambda: lists(lambda X: X.rows[0].append(1)),
    "list with a column outside": lambda: lists(lambda X: (X.rows[0].append(77), X.data[0].append(1.0))),
    "diagonals without an offset": lambda: replaced(sp.dia_array, offsets=lambda a: a[:-1]),
}


@pytest.mark.parametrize("how", BROKEN)
def test_arrays_that_do_not_fit_together_are_refused_by_every_door(how):
    y = np.arange(N) % 2
    fitted = rs.CertifiedClassifier().fit(whole(), y)
    doors = [
        lambda X: in_memory(X),
        lambda X: rs.Problem(X, y),
        lambda X: rs.constants(X),
        lambda X: rs.CertifiedClassifier().fit(X, y),
        lambda X: rs.ShuffledSGDRegressor(epochs=1).fit(X, y),
        fitted.predict,
    ]
    for door in doors:
        with pytest.raises(ValueError, match=DAMAGED):
            door(BROKEN[how]())


@pytest.mark.parametrize(
    "kind", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.bsr_array, sp.lil_array, sp.dok_array, sp.dia_array]
)
def test_every_format_is_read_as_it_stands(kind):
    np.testing.assert_array_equal(in_memory(whole(kind)).matrix.toarray(), whole().toarray())
    blocks = sp.bsr_array(whole().toarray(), blocksize=(3, 2))
    np.testing.assert_array_equal(in_memory(blocks).matrix.toarray(), whole().toarray())


def test_a_sound_matrix_is_used_where_it_lies():
    X = whole()
    assert in_memory(X).matrix is X
    wide = sp.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)
    assert np.shares_memory(in_memory(wide).matrix.data, X.data)


def test_a_matrix_is_not_believed_what_it_says_of_its_own_order():
    X = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 2]), np.array([0, 3])), shape=(1, 3))
    X.has_canonical_format = X.has_sorted_indices = True
    found = in_memory(X).matrix
    np.testing.assert_array_equal(found.toarray(), [[2.0, 0.0, 5.0]])
    assert found.nnz == 2
    assert X.nnz == 3  # the caller's is left alone


def test_entries_beyond_the_last_row_are_no_part_of_the_matrix():
    X = whole()
    X.data, X.indices = np.append(X.data, np.nan), np.append(X.indices, 99).astype(np.int32)
    found = in_memory(X)
    np.testing.assert_array_equal(found.matrix.toarray(), whole().toarray())
    assert found.matrix.data.size == whole().nnz


@given(
    indptr=st.lists(st.integers(-2, 7), min_size=3, max_size=5),
    indices=st.lists(st.integers(-2, 4), max_size=7),
    form=st.sampled_from(["csr", "csc"]),
)
def test_any_arrays_are_refused_or_read_by_the_definition(indptr, indices, form):
    shape, data = (3, 3), 2.0 ** np.arange(len(indices))
    X = getattr(sp, f"{form}_array")(shape)
    X.indptr, X.indices, X.data = np.array(indptr, dtype=np.int32), np.array(indices, dtype=np.int32), data
    steps = np.diff(indptr)
    fits = len(indptr) == 4 and indptr[0] == 0 and (steps >= 0).all() and indptr[-1] <= len(indices)
    if not (fits and all(0 <= j < 3 for j in indices[: indptr[-1]])):
        with pytest.raises(ValueError, match=DAMAGED):
            in_memory(X)
        return
    expected = np.zeros(shape)
    for i in range(3):
        for k in range(indptr[i], indptr[i + 1]):
            expected[(i, indices[k]) if form == "csr" else (indices[k], i)] += data[k]
    found = in_memory(X).matrix
    np.testing.assert_array_equal(found.toarray(), expected)
    assert found.has_canonical_format


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo"])
def test_files_are_believed_no_more_than_arrays(tmp_path, form):
    X = whole(getattr(sp, f"{form}_array"))
    (X.indices if form != "coo" else X.coords[1])[1] = 10**6
    sp.save_npz(tmp_path / "X.npz", X)
    sp.save_npz(tmp_path / "whole.npz", whole())
    for sources in (["X.npz"], ["whole.npz", "X.npz"]):
        with pytest.raises(ValueError, match=r"X\.npz is (a damaged|not)"):
            rs.load([tmp_path / source for source in sources])
