"""Weights of rows in files that are read into memory: those that a store of the same file holds, in the same words."""

import json

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.data import counted
from tests.data.test_store_weights import FORMATS, D, N, _csv, _npy, _npz

READ = {ending: write for ending, write in FORMATS.items() if ending != ".h5ad"}  # which only a store is made of


@pytest.fixture
def rows():
    """X, labels and whole weights, of which some are 0."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, np.where(X[:, 0] - 2.0 * X[:, 1] + rng.standard_normal(N) > 0, 1, 0), rng.integers(0, 4, N)


@pytest.mark.parametrize("ending", READ)
def test_the_weights_of_a_file_are_those_of_its_store(ending, rows, tmp_path):
    X, _, w = rows
    path = tmp_path / f"data{ending}"
    READ[ending](path, *rows)
    asked = {"target": "y.npy", "weight": "w.npy"} if ending == ".npy" else {"weight": "w"}
    asked |= {"target": "y"} if ending in (".csv", ".parquet") else {}
    data = rs.load(path, **asked)
    rs.build_store(tmp_path / "a.store", path, **asked)
    stored = rs.load(tmp_path / "a.store")
    np.testing.assert_array_equal(data.weights, stored.weights)
    np.testing.assert_array_equal(data.weights, w)
    np.testing.assert_array_equal(data.y, stored.y)
    np.testing.assert_allclose(data.X, X)  # the weights are no feature
    name = asked["weight"]
    assert data.notes == (f"{path}: rows count by their weights in {name!r}, 0 to 3",)
    kept = counted(data)
    np.testing.assert_array_equal(kept.X, data.X[w > 0])
    np.testing.assert_array_equal(kept.weights, w[w > 0])
    with pytest.raises(ValueError, match=r"weight='w': .*a\.store' is a store, which was built with its own; leave it out"):
        rs.load(tmp_path / "a.store", weight="w")


def test_several_files_and_weights_beside_words(tmp_path):
    (tmp_path / "a.csv").write_text("w,town,y,size\n2,rome,yes,1\n0,oslo,no,\n")
    (tmp_path / "b.csv").write_text("w,town,y,size\n1.5,oslo,no,3\n7,rome,yes,1\n")
    data = rs.load([tmp_path / "a.csv", tmp_path / "b.csv"], target="y", weight="w")
    assert data.feature_names == ["town=oslo", "town=rome", "size", "size=(missing)"]
    assert data.weights.tolist() == [2.0, 0.0, 1.5, 7.0]
    assert data.notes[-1].endswith("rows count by their weights in 'w', 0 to 7")
    (tmp_path / "c.csv").write_text("a,y,w\n1,5,2\n3,6,1\n")
    assert rs.load(tmp_path / "c.csv", weight=-1).y.tolist() == [5.0, 6.0]  # the last column that holds no weights
    assert rs.load("iris", weight="sepal length (cm)").weights.max() == pytest.approx(7.9)
    for k in (1, 2):
        np.savez(tmp_path / f"{k}.npz", X=np.full((k, 2), k), y=np.arange(k), w=np.full(k, 10 * k))
    assert rs.load(tmp_path / "[12].npz", weight="w").weights.tolist() == [10.0, 20.0, 20.0]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (["2", "-3"], r"a\.csv holds the weight -3\.0 in line 3; use zero or positive numbers"),
        (["2", ""], r"a\.csv holds the weight nan in line 3; use zero or positive numbers"),
        (["2", "inf"], r"a\.csv holds the weight inf in line 3"),
        (["2", "x"], r"a\.csv, line 3, column 'w': 'x' is no number, and a weight is one"),
        (["2024-01-31", "2024-01-30"], r"a\.csv, line 2, column 'w': '2024-01-31.*' is no number"),
    ],
)
def test_a_weight_that_no_row_can_have_is_named_with_its_line(tmp_path, cells, said):
    (tmp_path / "a.csv").write_text("a,y,w\n" + "".join(f"{k},{k % 2},{cell}\n" for k, cell in enumerate(cells)))
    with pytest.raises(ValueError, match=said):
        rs.load(tmp_path / "a.csv", target="y", weight="w")


def test_weights_that_cannot_be_found(tmp_path, rows):
    X, y, w = rows
    _csv(tmp_path / "a.csv", X, y, w)
    _npz(tmp_path / "a.npz", X, y, w)
    _npy(tmp_path / "data.npy", X, y, w[:-1])
    (tmp_path / "a.svm").write_text("1 1:2\n-1 2:3\n")
    np.savez(tmp_path / "zero.npz", X=X, y=y, w=0 * w)
    np.savez(tmp_path / "words.npz", X=X, y=y, w=w.astype(str))
    for file, named, match in (
        ("a.svm", {"weight": "w"}, r"weight='w': .*a\.svm' has no columns to choose from; only tables do"),
        ("a1a", {"weight": "w"}, r"weight='w': 'a1a' has no columns to choose from; only tables do"),
        ("a.csv", {"weight": "v"}, r"weight='v' is not a column of .*a\.csv; it has f0"),
        ("a.csv", {"weight": "-1", "target": "y"}, r"target='y' and weight='-1' are one column of .*a\.csv; name two"),
        ("a.npz", {"weight": "v"}, r"weight='v': .*a\.npz has no array of that name; name the \.npy file that holds its weights"),
        ("data.npy", {"weight": "w.npy"}, r"data\.npy: the weights have shape \(399,\) where X has 400 rows"),
        ("zero.npz", {"weight": "w"}, r"weight='w' is zero in every row of .*zero\.npz; at least one must count"),
        ("words.npz", {"weight": "w"}, r"words\.npz: the weights have dtype <U"),
    ):
        with pytest.raises(ValueError, match=match):
            rs.load(file if file == "a1a" else tmp_path / file, **named)


def test_weights_that_lie_there_unused_are_said(tmp_path, rows):
    X, y, w = rows
    np.savez(tmp_path / "a.npz", X=X, y=y, sample_weight=w)
    assert (
        rs.load(tmp_path / "a.npz")
        .notes[0]
        .endswith(
            "a.npz: the weights in its array 'sample_weight' are not used; weight='sample_weight' (--weight sample_weight) does"
        )
    )
    assert len(rs.load(tmp_path / "a.npz", weight="sample_weight").notes) == 1


def test_commands_use_the_weights_and_say_so(called, rows, tmp_path):
    """Oracle: the problem in memory, its weights divided by their mean over the rows that count."""
    X, y, w = rows
    path = tmp_path / "data.csv"
    _csv(path, X, y, w)
    kept, said = w > 0, "rows count by their weights in 'w', 0 to 3"
    problem = rs.Problem(X[kept], y[kept], loss="logistic", alpha=1e-3, sample_weight=w[kept] / w[kept].mean())
    about = ["--loss", "logistic", "--alpha", "1e-3", "--no-intercept", "--scale", "none", "--target", "y", "--weight", "w"]

    printed = called("constants", path, "--permutations", "2", *about, "--json")
    assert printed.err.count(said) == 1
    assert json.loads(printed.out)["lhat_mean"] == pytest.approx(rs.constants(problem, permutations=2).lhat_mean, rel=1e-9)
    printed = called("run", path, "--epochs", "2", "--batch-size", "4", *about, "--json")
    assert json.loads(printed.out)["f"] == pytest.approx(rs.minimize(problem, batch_size=4, epochs=2).f, rel=1e-6)

    printed = called("fit", path, *about, "--tol", "1e-9", "--out", tmp_path / "m.json")
    assert said in printed.err
    model = rs.CertifiedClassifier(alpha=1e-3, tol=1e-9, fit_intercept=False).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(rs.models.load(tmp_path / "m.json").coef_, model.coef_, atol=1e-4)
    printed = called("predict", tmp_path / "m.json", path)  # the column is known by its name
    assert f"accuracy {model.score(X, y, w):.4f} on 400 rows" in printed.err
    assert "not trained on" not in printed.err
    printed = called("predict", tmp_path / "m.json", path, "--weight", "y", "--target", "w")
    assert "rows count by their weights in 'y', 0 to 1" in printed.err

    code = called("plan", path, *about, "--for", "reshuffle")
    names = {}
    exec(compile(code.out, "snippet", "exec"), names)
    np.testing.assert_allclose(names["problem"].sample_weight, problem.sample_weight, rtol=1e-12)
    assert "weight='v' is not a column of" in called("constants", path, "--target", "y", "--weight", "v", status=2).err
    _npy(tmp_path / "data.npy", X, y, w)
    beside = ["--target", "y.npy", "--weight", "w.npy", "--out", tmp_path / "w.npy"]
    assert "w.npy' is the data that is to be read" in called("fit", tmp_path / "data.npy", *beside, status=2).err


def test_weights_by_their_place_where_columns_have_no_names(called, rows, tmp_path):
    X, y, w = rows
    w = w + 1
    for name, columns in {"all": [w, *X.T, y], "features": [*X.T], "one": [*X.T, y]}.items():
        np.savetxt(tmp_path / f"{name}.csv", np.column_stack(columns), delimiter=",")
    called("fit", tmp_path / "all.csv", "--weight", "0", "--loss", "logistic", "--out", tmp_path / "m.json")
    printed = [called("predict", tmp_path / "m.json", tmp_path / f"{name}.csv") for name in ("all", "features")]
    assert printed[0].out == printed[1].out
    assert "rows count by their weights in '0', 1 to 4" in printed[0].err
    assert "accuracy" in printed[0].err
    assert "accuracy" not in printed[1].err
    model = rs.models.load(tmp_path / "m.json")
    predicted = np.array([float(line) for line in printed[0].out.splitlines()])
    assert f"accuracy {np.average(predicted == y, weights=w):.4f}" in printed[0].err
    assert model.columns_.weight == "0"
    refused = called("predict", tmp_path / "m.json", tmp_path / "one.csv", status=2)  # of labels, or of weights
    assert f"has {D + 1} features; the model was trained on {D}" in refused.err
    assert "accuracy" in called("predict", tmp_path / "m.json", tmp_path / "one.csv", "--target", "-1").err
