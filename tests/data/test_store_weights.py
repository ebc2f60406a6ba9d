"""Weights in stores: those of the files, row by row, in every fit and command as they would be in memory."""

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import reshuffle as rs
from tests.data.test_store import KILLED, ROOT, content, opened, small_pieces, sparse, stop_after_each_block  # noqa: F401 the fixture is for all tests here

N, D = 400, 30


@pytest.fixture(scope="module")
def rows():
    """X, labels and whole weights, of which some are 0."""
    X, y = sparse()
    return X, y, np.random.default_rng(1).integers(0, 4, N)


def _table(X, y, w):
    return {**{f"f{k}": X[:, k] for k in range(D)}, "w": w, "y": y}


def _csv(path, X, y, w):
    table = _table(X, y, w)
    np.savetxt(path, np.column_stack(list(table.values())), delimiter=",", fmt="%.17g", header=",".join(table), comments="")


def _parquet(path, X, y, w):
    pa.parquet.write_table(pa.table(_table(X, y, w)), path, row_group_size=170)


def _npz(path, X, y, w):
    np.savez(path, X=X, y=y, w=w)


def _npy(path, X, y, w):
    for name, array in (("data", X), ("y", y), ("w", w)):
        np.save(path.parent / f"{name}.npy", array)


def _h5ad(path, X, y, w):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["X"] = X
        file["obs/y"], file["obs/w"] = y, w
        file["obs/kind/codes"] = w


FORMATS = {".csv": _csv, ".parquet": _parquet, ".npz": _npz, ".npy": _npy, ".h5ad": _h5ad}


@pytest.fixture(params=FORMATS)
def file(request, tmp_path, rows):
    """A file of each format, and how to name its labels and weights."""
    FORMATS[request.param](tmp_path / f"data{request.param}", *rows)
    arrays = request.param == ".npy"
    return tmp_path / f"data{request.param}", {"target": "y.npy", "weight": "w.npy"} if arrays else {
        "target": None if request.param == ".npz" else "y",
        "weight": "w",
    }


@pytest.fixture
def weighted(tmp_path, rows):
    _npz(tmp_path / "data.npz", *rows)
    rs.build_store(tmp_path / "w.store", tmp_path / "data.npz", weight="w")
    return tmp_path / "w.store", *rows


def test_a_store_holds_the_weights_of_every_format(file, rows, tmp_path, monkeypatch):
    """Also where the build is stopped after each block and goes on."""
    (path, names), (X, y, w) = file, rows
    rs.build_store(tmp_path / "whole.store", path, **names)
    found = rs.open(tmp_path / "whole.store")
    assert found.shape == (N, D)  # the weights are no feature
    np.testing.assert_array_equal(found.csr().toarray(), X)
    np.testing.assert_array_equal(found.labels, y)
    np.testing.assert_array_equal(found.weights, w)
    assert {block.facts.arrays["weights"]["dtype"] for block in found.blocks} == {"|i1"}
    stop_after_each_block(monkeypatch)
    for _ in found.blocks:
        with pytest.raises(KeyboardInterrupt):
            rs.build_store(tmp_path / "parts.store", path, **names)
    with pytest.raises(ValueError, match=r"begun with other settings: weight is 'w(\.npy)?' there and None now"):
        rs.build_store(tmp_path / "parts.store", path, target=names["target"])
    rs.build_store(tmp_path / "parts.store", path, **names)
    assert content(tmp_path / "parts.store") == content(tmp_path / "whole.store")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_build_that_was_killed_keeps_the_weights(tmp_path, rows):
    """In the middle of a file, of the journal, and between."""
    X, y, w = rows
    for k, part in enumerate(np.array_split(np.arange(N), 2)):
        _csv(tmp_path / f"part-{k}.csv", X[part], y[part], w[part])
    script = KILLED.replace('"part-*"', '"part-*.csv", target="y", weight="w"').replace("(1, 120)", "(1, 12)")  # of fewer blocks
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= 5
    assert content(tmp_path / "killed.store") == content(tmp_path / "whole.store")
    np.testing.assert_array_equal(rs.open(tmp_path / "killed.store").weights, w)


@pytest.mark.parametrize(("factor", "dtype"), [(1.0, "|i1"), (100.0, "<i2"), (0.5, "<f4"), (0.1, "<f8")])
def test_weights_have_the_smallest_type_that_holds_them(tmp_path, rows, factor, dtype):
    X, y, w = rows
    _npz(tmp_path / "data.npz", X, y, factor * w)
    rs.build_store(tmp_path / "w.store", tmp_path / "data.npz", weight="w")
    found = rs.open(tmp_path / "w.store")
    assert {block.facts.arrays["weights"]["dtype"] for block in found.blocks} == {dtype}
    np.testing.assert_array_equal(found.weights, factor * w)


@pytest.mark.parametrize("wrong", [-1.0, np.nan, np.inf])
def test_a_weight_that_no_row_can_have_is_named_with_its_file_and_row(file, rows, tmp_path, wrong):
    (path, names), (X, y, w) = file, rows
    bad = w.astype(float)
    bad[321] = wrong
    FORMATS[path.suffix](path, X, y, bad)
    place = "row 321 \\(counted from 0\\); use zero or positive numbers"
    if path.suffix == ".csv":  # the header is line 1, and what is not finite is refused in any column
        place = "line 323; use zero or positive" if wrong == -1.0 else "line 323, column 'w'"
    with pytest.raises(ValueError, match=rf"{path.name}.* {place}"):
        rs.build_store(tmp_path / "a.store", path, **names)


def test_weights_that_are_all_zero_are_refused_and_one_that_counts_is_enough(tmp_path, rows):
    X, y, _ = rows
    _npz(tmp_path / "zero.npz", X, y, np.zeros(N))
    with pytest.raises(ValueError, match=r"weight='w' is zero in every row of .*zero\.npz; at least one must count"):
        rs.build_store(tmp_path / "zero.store", tmp_path / "zero.npz", weight="w")
    _npz(tmp_path / "one.npz", X, y, np.arange(N) == N - 1)
    rs.build_store(tmp_path / "one.store", tmp_path / "one.npz", weight="w")
    assert rs.open(tmp_path / "one.store").weights.sum() == 1


def test_weights_that_cannot_be_found(tmp_path, rows):
    X, y, w = rows
    (tmp_path / "a.svm").write_bytes(b"1 1:1\n")
    with pytest.raises(ValueError, match=r"weight='w': .*a\.svm has no columns to choose from; only tables do"):
        rs.build_store(tmp_path / "a.store", tmp_path / "a.svm", weight="w")
    _csv(tmp_path / "a.csv", X, y, w)
    with pytest.raises(ValueError, match=r"weight='v' is not a column of .*a\.csv; it has f0"):
        rs.build_store(tmp_path / "b.store", tmp_path / "a.csv", weight="v")
    with pytest.raises(ValueError, match=r"target='y' and weight='-1' are one column of .*a\.csv; name two"):
        rs.build_store(tmp_path / "b.store", tmp_path / "a.csv", target="y", weight="-1")
    _npz(tmp_path / "a.npz", X, y, w)
    with pytest.raises(
        ValueError, match=r"weight='v': .*a\.npz has no array of that name; name the \.npy file that holds its weights"
    ):
        rs.build_store(tmp_path / "c.store", tmp_path / "a.npz", weight="v")
    _npz(tmp_path / "b.npz", X, y, w[1:])
    with pytest.raises(ValueError, match=r"b\.npz: the weights have shape \(399,\) where X has 400 rows"):
        rs.build_store(tmp_path / "d.store", tmp_path / "b.npz", weight="w")
    _npz(tmp_path / "c.npz", X, y, w.astype(str))
    with pytest.raises(ValueError, match=r"c\.npz: the weights have dtype <U"):
        rs.build_store(tmp_path / "e.store", tmp_path / "c.npz", weight="w")
    _h5ad(tmp_path / "a.h5ad", X, y, w)
    with pytest.raises(ValueError, match=r"a\.h5ad: weight='v' is no column of obs; it has kind, w, y"):
        rs.build_store(tmp_path / "f.store", tmp_path / "a.h5ad", target="y", weight="v")
    with pytest.raises(ValueError, match=r"a\.h5ad: weight='kind' holds categories; name a column of numbers"):
        rs.build_store(tmp_path / "f.store", tmp_path / "a.h5ad", target="y", weight="kind")


def test_the_labels_are_the_last_column_that_holds_no_weights(tmp_path):
    (tmp_path / "a.csv").write_text("a,y,w\n1,0,2\n3,1,5\n")
    rs.build_store(tmp_path / "a.store", tmp_path / "a.csv", weight="w")
    found = rs.open(tmp_path / "a.store")
    assert found.csr().toarray().tolist() == [[1.0], [3.0]]
    assert [found.labels.tolist(), found.weights.tolist()] == [[0, 1], [2, 5]]


def test_weights_that_lie_there_unused_are_said(tmp_path, rows):
    X, y, w = rows
    np.savez(tmp_path / "a.npz", X=X, y=y, sample_weight=w)
    said = []
    rs.build_store(tmp_path / "a.store", tmp_path / "a.npz", say=said.append)
    assert len(said) == 1
    assert said[0].endswith("'sample_weight' are not used; weight='sample_weight' (--weight sample_weight) does")
    assert rs.open(tmp_path / "a.store").weights is None


def test_damaged_weights_are_named(weighted):
    path, *_ = weighted
    place = path / "000002" / "weights.npy"
    changed = bytearray(place.read_bytes())
    changed[-1] ^= 1
    place.write_bytes(changed)
    with pytest.raises(ValueError, match=r"000002/weights\.npy is damaged: its content is not what its checksum says"):
        rs.load(path)
    manifest = json.loads((path / "store.json").read_text())
    manifest.pop("checksum")
    del manifest["blocks"][2]["arrays"]["weights"]
    (path / "store.json").write_text(json.dumps(manifest | {"checksum": rs.records.checksum(manifest)}))
    with pytest.raises(ValueError, match="what it says of blocks does not fit together"):
        rs.open(path)


@pytest.mark.parametrize("kind", [rs.CertifiedClassifier, rs.CertifiedClassifierCV])
def test_a_fit_of_a_store_is_that_in_memory(weighted, kind):
    """A row of weight 2 is a row that stands there twice: repeated rows are the oracle of both."""
    path, X, y, w = weighted
    stored = opened(path)
    options = {"alphas": [1e-2], "cv": 2} if kind is rs.CertifiedClassifierCV else {"alpha": 1e-2}
    models = [
        kind("logistic", tol=1e-9, random_state=0, **options).fit(*given)
        for given in ((stored, stored.labels, stored.weights), (X, y, w), (np.repeat(X, w, axis=0), np.repeat(y, w)))
    ]
    for model in models[1:]:
        np.testing.assert_allclose(models[0].coef_, model.coef_, rtol=0, atol=1e-4)
    assert np.abs(models[0].coef_ - kind("logistic", tol=1e-9, **options).fit(X, y).coef_).max() > 1e-2


def test_commands_use_the_weights_and_say_so(weighted, tmp_path, called):
    """Oracle: the problem in memory, its weights divided by their mean over the rows that count."""
    path, X, y, w = weighted

    again = tmp_path / "again.store"
    assert "weights      yes" in called("store", "build", again, tmp_path / "data.npz", "--weight", "w").out
    assert content(again) == content(path)
    assert "weights      yes" in called("store", "info", path, "--check").out

    kept = w > 0
    problem = rs.Problem(X[kept], y[kept], loss="logistic", alpha=1e-3, sample_weight=w[kept] / w[kept].mean())
    about = ["--loss", "logistic", "--alpha", "1e-3", "--no-intercept", "--scale", "none"]
    said = "rows count by their weights in the store, 0 to 3"
    printed = called("constants", path, "--permutations", "2", *about, "--json")
    assert printed.err.count(said) == 1
    expected = rs.constants(problem, permutations=2)
    assert json.loads(printed.out)["lhat_mean"] == pytest.approx(expected.lhat_mean, rel=1e-9)
    printed = called("constants", path, "--quick", *about, "--json")
    assert said in printed.err
    assert json.loads(printed.out)["L"] == pytest.approx(expected.L, rel=1e-12)

    printed = called("run", path, "--epochs", "2", "--batch-size", "4", *about, "--json")
    assert said in printed.err
    assert json.loads(printed.out)["f"] == pytest.approx(rs.minimize(problem, batch_size=4, epochs=2).f, rel=1e-6)

    printed = called("fit", path, *about, "--tol", "1e-9", "--out", tmp_path / "m.json")
    assert said in printed.err
    model = rs.CertifiedClassifier(alpha=1e-3, tol=1e-9, fit_intercept=False).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(rs.models.load(tmp_path / "m.json").coef_, model.coef_, atol=1e-4)
    printed = called("predict", tmp_path / "m.json", path)
    assert len(printed.out.splitlines()) == N
    assert f"accuracy {model.score(X, y, w):.4f} on 400 rows" in printed.err

    code = called("plan", path, *about, "--for", "reshuffle")
    assert said in code.err
    names = {}
    exec(compile(code.out, "snippet", "exec"), names)
    np.testing.assert_allclose(names["problem"].sample_weight, problem.sample_weight, rtol=1e-12)
    refused = called("plan", path, *about, "--for", "sklearn", status=2)
    assert "there is no code for 'sklearn' where rows have weights; use 'reshuffle'" in refused.err


def test_a_file_that_is_refused_before_its_first_block_leaves_nothing(tmp_path):
    (tmp_path / "bad.csv").write_text("a,y,w\n1,1,2\n2,0,-3\n")
    with pytest.raises(ValueError, match=r"the weight -3\.0 in line 3"):
        rs.build_store(tmp_path / "bad.store", tmp_path / "bad.csv", target="y", weight="w")
    assert [file.name for file in tmp_path.iterdir()] == ["bad.csv"]
