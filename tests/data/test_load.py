"""Every other format, named datasets, and mistakes."""

import bz2
import gzip
import json
import lzma
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.data import READERS, Reader


def test_npy_and_npz(tmp_path):
    A = np.arange(6.0).reshape(2, 3)
    np.save(tmp_path / "a.npy", A.astype(np.float32))
    got = rs.load(tmp_path / "a.npy")
    assert got.X.dtype == np.float32
    assert got.y is None
    np.testing.assert_array_equal(got.X, A)
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(A))
    np.testing.assert_array_equal(rs.load(tmp_path / "s.npz").X.toarray(), A)
    np.savez(tmp_path / "both.npz", X=A, y=np.array(["yes", "no"]))
    assert list(rs.load(tmp_path / "both.npz").y) == ["yes", "no"]
    np.savez(tmp_path / "other.npz", a=A)
    with pytest.raises(ValueError, match="holds a; save a sparse matrix"):
        rs.load(tmp_path / "other.npz")
    (tmp_path / "bad.npy").write_bytes(b"not an array")
    with pytest.raises(ValueError, match="is not a NumPy array file"):
        rs.load(tmp_path / "bad.npy")
    (tmp_path / "bad.npz").write_bytes(b"not an archive")
    with pytest.raises(ValueError, match="is not a NumPy or SciPy archive"):
        rs.load(tmp_path / "bad.npz")


def test_csv_with_and_without_a_header(tmp_path):
    (tmp_path / "named.csv").write_text('age,"height, m",label\n1,2.5,yes\n3,4,no\n\n')
    got = rs.load(tmp_path / "named.csv")
    np.testing.assert_array_equal(got.X, [[1, 2.5], [3, 4]])
    assert list(got.y) == ["yes", "no"]
    assert got.feature_names == ["age", "height, m"]
    (tmp_path / "plain.csv").write_text("1,2,0\n3,4,1\n")
    np.testing.assert_array_equal(rs.load(tmp_path / "plain.csv").y, [0, 1])
    np.testing.assert_array_equal(rs.load(tmp_path / "plain.csv", target=0).y, [1, 3])
    np.testing.assert_array_equal(rs.load(tmp_path / "plain.csv", target="-2").y, [2, 4])
    (tmp_path / "zipped.csv.gz").write_bytes(gzip.compress(b"a,b,t\n1,2,3\n"))
    np.testing.assert_array_equal(rs.load(tmp_path / "zipped.csv.gz", target="a").X, [[2, 3]])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a,b,t\n1,2,0\n1,2\n", "line 3: 2 columns where the first line has 3"),
        ("a,b,t\n1,2,0\n1,2,0,4\n", "line 3: 4 columns where the first line has 3"),
        ("a,b,t\n1,2,0,\n1,2,0,\n", "line 2: 4 columns where the first line has 3"),  # a delimiter too many is no row name
        ("a,b,t\n1,inf,0\n", "line 2, column 'b': inf is not a number to compute with"),
        ("a,b,t\n1,2,0\n\n3,4,\n", "line 4, column 't': the label is missing, in 1 of the rows"),
        ("a,b,t\n1,2,0\n3,4,NA\n5,6,\n", "line 3, column 't': the label is missing, in 2 of the rows"),
        ("a,a,t\n1,2,0\n", "2 columns that are called 'a'"),
        ('a,b,t\n1,2,0\n3,"4,1\n5,6,0\n', "line 4: unexpected end of data"),
        ("a,b,t\n1,2,0\n3,\0,1\n", "line 3: holds a NUL byte"),
        ("a,b,t\n,,0\n,,1\n", "has no column to learn from; dropped columns that are empty: a, b"),
        ("a,b,t\n", "holds no samples"),
        ("", "holds no samples"),
        ("t\n1\n", "1 column"),
    ],
)
def test_a_malformed_csv_says_where_and_what(tmp_path, text, complaint):
    path = tmp_path / "broken.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match="broken") as error:
        rs.load(path)
    assert complaint in str(error.value)


def test_an_unknown_target_lists_the_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,t\n1,2,0\n")
    with pytest.raises(ValueError, match=r"target='z' is not a column of .*; it has a, b, t"):
        rs.load(tmp_path / "t.csv", target="z")


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    columns = {"a": [1, 2], "flag": [True, False], "label": ["x", "y"]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    got = rs.load(tmp_path / "t.parquet")
    np.testing.assert_array_equal(got.X, [[1, 1], [2, 0]])
    assert list(got.y) == ["x", "y"]
    assert got.y.dtype.kind == "U"
    pq.write_table(pa.table({"a": [1.0, None], "b": [1, 2]}), tmp_path / "gaps.parquet")
    with pytest.raises(ValueError, match=r"row 1 \(counted from 0\), column 'a': the label is missing"):
        rs.load(tmp_path / "gaps.parquet", target="a")
    pq.write_table(pa.table({"a": [[1.0], [2.0]], "b": [1, 2]}), tmp_path / "lists.parquet")
    with pytest.raises(ValueError, match=r"column 'a' holds list.*drop or convert it first"):
        rs.load(tmp_path / "lists.parquet")


def test_without_pyarrow_the_extra_is_named_and_csv_is_read(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "t.csv").write_text("a,city,day,t\n1,rome,2024-01-01,0\n,rome,2024-01-03,1\n3,oslo,,1\n")
    assert rs.load(tmp_path / "t.csv").X.shape == (3, 6)
    for name in ("t.parquet", "t.feather"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(ImportError, match=r'needs pyarrow: pip install "reshuffle\[parquet\]"'):
            rs.load(tmp_path / name)


def test_named_datasets_ship_with_scikit_learn():
    got = rs.load("breast_cancer")
    assert got.X.shape == (569, 30)
    assert str(got) == "breast_cancer: 569 x 30, dense, float64"
    with pytest.raises(FileNotFoundError, match="there is no file 'breast_cancr', nor a dataset"):
        rs.load("breast_cancr")


def test_non_finite_values_are_refused_with_their_row(tmp_path):
    A = np.zeros((5, 2))
    A[3, 1] = np.inf
    np.save(tmp_path / "a.npy", A)
    with pytest.raises(ValueError, match=r"a.npy' holds inf in row 3|a.npy holds inf in row 3"):
        rs.load(tmp_path / "a.npy")
    sp.save_npz(tmp_path / "s.npz", sp.csr_array(np.where(A > 0, np.nan, np.eye(5, 2))))
    with pytest.raises(ValueError, match="holds nan in row 3"):
        rs.load(tmp_path / "s.npz")


def test_options_that_do_not_apply_are_refused(tmp_path):
    (tmp_path / "file").write_text("1 1:1\n")
    with pytest.raises(ValueError, match="only tables do"):
        rs.load(tmp_path / "file", target="a")
    with pytest.raises(ValueError, match="only svmlight text"):
        rs.load("digits", n_features=3)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no files"):
        rs.load(tmp_path / "empty")


def test_a_new_format_is_one_entry(tmp_path, monkeypatch, called):
    def read_rows(path):
        table = np.loadtxt(path, ndmin=2)
        return table[:, :-1], table[:, -1]

    path = tmp_path / "toy.ROWS"
    path.write_text("1 2 -1\n3 4 1\n5 7 1\n")
    with monkeypatch.context() as patched:
        patched.setitem(READERS, ".rows", Reader(read_rows))
        data = rs.load(path)
        np.testing.assert_array_equal(data.X, [[1, 2], [3, 4], [5, 7]])
        for option in ({"target": 0}, {"n_features": 3}):
            with pytest.raises(ValueError, match="only"):
                rs.load(path, **option)
        want = rs.constants(rs.Problem(data.X, data.y, loss="logistic"), permutations=3)
        printed = json.loads(called("constants", path, "--loss", "logistic", "--permutations", "3", "--json").out)
        assert (printed["L"], printed["lhat_mean"]) == (want.L, want.lhat_mean)
    with pytest.raises(ValueError, match="line 1"):  # svmlight text again
        rs.load(path)


def test_what_would_not_fit_into_memory_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("RESHUFFLE_MEMORY", "20M")
    text = b"1,2,3\n" * 50_000  # a hundred times over: each of these formats may have many parts
    for ending, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        packed = 100 * pack(text)
        (tmp_path / f"t.csv{ending}").write_bytes(packed)
        (tmp_path / f"t{ending}").write_bytes(packed)
        for name in (f"t.csv{ending}", f"t{ending}"):
            with pytest.raises(
                ValueError, match=r"holds more than the 21 MB of memory that are free; decompress it to a file first"
            ):
                rs.load(tmp_path / name)
    np.savez_compressed(tmp_path / "X.npz", X=np.zeros((1000, 4000)))
    with pytest.raises(
        ValueError, match=r"X\.npz holds arrays that would take 32 MB of memory, and 21 MB are free; set RESHUFFLE_MEM"
    ):
        rs.load(tmp_path / "X.npz")
    pd.DataFrame({"a": np.zeros(3_000_000), "b": 1}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet holds 3000000 x 2 cells, which would take 48 MB"):
        rs.load(tmp_path / "t.parquet")


@pytest.mark.parametrize("source", [[], (), {}])
def test_nothing_to_read_is_refused(source):
    with pytest.raises(ValueError, match=r"names nothing to read; name a file"):
        rs.load(source)
