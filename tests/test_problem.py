"""What a problem takes, what it refuses, and in which words."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import reshuffle as rs

A = np.arange(12.0).reshape(4, 3) + 1.0
Y = np.array([1, 2, 1, 2])


def test_two_classes_become_signs():
    np.testing.assert_array_equal(rs.Problem(A, Y).y, [-1, 1, -1, 1])
    np.testing.assert_array_equal(rs.Problem(A, np.array(["b", "a", "b", "a"])).y, [1, -1, 1, -1])
    np.testing.assert_array_equal(rs.Problem(A, -np.ones(4)).y, [-1, -1, -1, -1])


def test_weights_scale_what_the_loss_says():
    w = np.array([1.0, 2.0, 3.0, 4.0])
    np.testing.assert_allclose(rs.Problem(A, Y, loss="logistic", sample_weight=w).smoothness, w / 4)
    np.testing.assert_allclose(rs.Problem(A, Y, loss="hinge", sample_weight=w).lipschitz, w)
    assert rs.Problem(A, Y, loss="hinge").smoothness is None
    assert rs.Problem(A, Y, loss="squared").lipschitz is None


def test_data_is_used_where_it_lies():
    for X in (sp.csr_array(A), A, A.astype(np.float32), A.astype(np.uint8)):
        kept = rs.Problem(X, Y).X
        shared = (kept.data, X.data) if sp.issparse(X) else (kept, X)
        assert np.shares_memory(*shared)


@pytest.mark.parametrize(
    "X", [A.astype(int), A > 5, A.astype(np.float16), sp.csr_array(A.astype(int)), sp.coo_array(A), A.tolist()]
)
def test_other_types_are_converted(X):
    problem = rs.Problem(X, loss="unit")
    assert (problem.n, problem.d) == (4, 3)
    assert rs.constants(problem, order="ig").L > 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"X": np.zeros((0, 3))}, "X has shape (0, 3); it needs at least one row"),
        ({"X": np.zeros((3, 0))}, "X has shape (3, 0)"),
        ({"X": np.ones(3)}, "X has 1 dimensions"),
        ({"X": "a9a"}, "X='a9a' is a path, not a matrix; read it first"),
        ({"X": np.array([["a"]])}, "X has dtype"),
        ({"X": A * 1j}, "X has dtype complex128"),
        ({"X": np.where(A == 5, np.nan, A)}, "X holds nan in row 1"),
        ({"X": sp.csr_array(np.where(A == 12, np.inf, A))}, "X holds inf in row 3"),
        ({"y": Y[:3]}, "y has shape (3,); X has 4 rows"),
        ({"y": None}, "loss='logistic' needs labels y"),
        ({"y": np.arange(4)}, "y has 4 classes; loss='logistic' takes two: pass y == c"),
        ({"y": np.full(4, 3)}, "y has 1 classes"),
        ({"y": np.array([0.0, 1.0, np.nan, 1.0])}, "y holds nan in row 2"),
        ({"y": np.array([0.0, 1.0, np.inf, 1.0]), "loss": "squared"}, "y holds inf in row 2"),
        ({"y": np.array(list("abca")), "loss": "squared"}, "y holds 'a', which is no number"),
        ({"y": np.array([0.0, 2.0**63, 0.0, 0.0])}, "y holds 9223372036854775808 in row 1 (counted from 0), too large a class"),
        ({"alpha": -1.0}, "alpha=-1.0 must be zero or a positive number"),
        ({"alpha": float("nan")}, "alpha=nan"),
        ({"sample_weight": np.ones(3)}, "sample_weight has shape (3,)"),
        ({"sample_weight": np.array([1.0, -1.0, 1.0, 1.0])}, "sample_weight holds -1.0 in row 1"),
        ({"sample_weight": np.zeros(4)}, "sample_weight is zero everywhere"),
        ({"loss": "cubed"}, "loss='cubed' is not known"),
    ],
)
def test_mistakes_are_named_with_value_and_remedy(arguments, complaint):
    with pytest.raises(ValueError, match=r"\w") as error:
        rs.Problem(**{"X": A, "y": Y, **arguments})
    assert complaint in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"batch_size": 0}, "batch_size=0 is too small; use 1..4"),
        ({"batch_size": 5}, "batch_size=5 is larger than the 4 rows of the data; use 1..4"),
        ({"batch_size": 1.5}, "batch_size=1.5 is not a whole number"),
        ({"permutations": 0}, "permutations=0 is too small"),
        ({"seed": -1}, "seed=-1 is too small"),
        ({"jobs": 0}, "jobs=0"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"tol": float("nan")}, "tol=nan"),
        ({"failure_probability": 1.0}, "failure_probability=1.0"),
        ({"order": "random"}, "order='random' is not known; use one of rr, so, ig"),
        ({"order": [0, 1, 2]}, "order has shape (3,)"),
        ({"order": [0, 1, 2, 2]}, "order is not a permutation"),
        ({"order": [0.0, 1.0, 2.0, 3.0]}, "order is not a permutation"),
    ],
)
def test_mistakes_in_the_call_are_refused_before_any_work(arguments, complaint):
    with pytest.raises(ValueError, match=r"\w") as error:
        rs.constants(A, **arguments)
    assert complaint in str(error.value)


def test_a_finite_sum_needs_positive_smoothness_and_no_matrix():
    for wrong in ([], [1.0, 0.0], [1.0, np.nan], [[1.0]]):
        with pytest.raises(ValueError, match="smoothness must be"):
            rs.constants(smoothness=wrong)
    with pytest.raises(ValueError, match="either a problem"):
        rs.constants(A, smoothness=[1.0])
    with pytest.raises(ValueError, match="either a problem"):
        rs.constants()


def test_the_old_name_of_alpha_is_read_with_a_line_that_says_the_new_one():
    X, y = np.eye(3), [0, 1, 1]
    with pytest.warns(FutureWarning, match="l2 is called alpha now; write alpha=0.5"):
        problem = rs.Problem(X, y, l2=0.5)
    assert problem.alpha == 0.5
    with pytest.warns(FutureWarning, match="l2 is called alpha now"):
        assert problem.l2 == 0.5
    with pytest.raises(ValueError, match=r"l2=0\.5 and alpha=0\.1 are two names of one argument"):
        rs.Problem(X, y, l2=0.5, alpha=0.1)


def test_a_problem_with_other_arguments_or_fewer_rows():
    rng = np.random.default_rng(0)
    X, y, weights = rng.standard_normal((9, 3)), rng.integers(0, 2, 9), rng.random(9) + 0.1
    problem = rs.Problem(X, y, loss="hinge", alpha=0.1, sample_weight=weights, fit_intercept=True)
    rows, x = np.array([5, 2, 7]), rng.standard_normal(4)
    same = rs.Problem(X[rows], problem.y[rows], loss="hinge", alpha=0.1, sample_weight=weights[rows], fit_intercept=True)
    assert problem.take(rows).objective(x) == same.objective(x)
    other = problem.replace(loss="logistic", alpha=0.2, fit_intercept=False)
    assert other.objective(x[:3]) == rs.Problem(X, y, alpha=0.2, sample_weight=weights).objective(x[:3])
    assert problem.alpha == 0.1
    with pytest.raises(ValueError, match="alpha=-1"):
        problem.replace(alpha=-1)


FRAME = {
    "x": pd.array([1.5, 2.0, None, 4.0], dtype="Float64"),
    "n": pd.array([1, 2, 3, 4], dtype="Int64"),
    "flag": pd.array([True, False, None, True], dtype="boolean"),
    "city": pd.Categorical(["rome", "oslo", "rome", "oslo"], categories=["oslo", "paris", "rome"]),
    "word": pd.array(["a", "a", None, "b"], dtype="string"),
    "day": pd.to_datetime(["2024-01-01", "2024-01-03", "2024-01-02", "2024-01-01"]),
}


def test_a_frame_is_taken_like_a_file_of_it(tmp_path):
    frame = pd.DataFrame({**FRAME, "y": Y}, index=[7, 8, 9, 10])
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    data = rs.load(tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match="X: ") as told:
        problem = rs.Problem(frame.drop(columns="y"), frame["y"])
    assert [str(line.message).removeprefix("X: ") for line in told] == [
        note.removeprefix(f"{tmp_path}/t.parquet: ") for note in data.notes
    ]
    np.testing.assert_array_equal(problem.X.toarray(), data.X.toarray())
    names = [
        "x",
        "x=(missing)",
        "n",
        "flag",
        "flag=(missing)",
        "city=oslo",
        "city=rome",
        "word=a",
        "word=b",
        "word=(missing)",
        "day",
    ]
    assert problem.feature_names == data.feature_names == names
    assert problem.replace(alpha=0.5).feature_names == problem.take(np.array([0, 1])).feature_names == names
    assert problem.replace(X=A).feature_names is None
    with pytest.warns(UserWarning, match="X: "):
        other = rs.Problem(pl.from_pandas(frame.drop(columns="y")), frame["y"])
    np.testing.assert_array_equal(other.X.toarray(), data.X.toarray())


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_of_numbers_needs_no_other_library_and_keeps_its_names(frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    problem = rs.Problem(frame({"a": A[:, 0], "c": [1, 2, 3, 4]}), Y)
    assert problem.feature_names == ["a", "c"]
    np.testing.assert_array_equal(problem.X[:, 1], [1, 2, 3, 4])
    with pytest.raises(ImportError, match=r'needs pyarrow: pip install "reshuffle\[parquet\]"'):
        rs.Problem(frame({"a": ["x", "y", "x", "y"]}), Y)


def test_a_plan_names_the_columns_of_a_frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"small": rng.standard_normal(60), "huge": 1e4 * rng.standard_normal(60)})
    plan = rs.plan(rs.Problem(frame, rng.integers(0, 2, 60), alpha=0.1), eps=0.1, permutations=2)
    assert "huge" in str(plan)


@pytest.mark.parametrize("name", ["X", "y", "sample_weight", "x0"])
def test_masks_and_imaginary_parts_are_not_lost_without_a_word(name):
    values = {"X": A, "y": Y, "sample_weight": np.ones(4), "x0": np.ones(3)}
    for change, complaint in [
        (lambda values: np.ma.masked_array(values, values == values.flat[0]), rf"{name} is a masked array with \d+ masked entries"),
        (lambda values: values + 1j, rf"{name} has dtype complex128; use real numbers"),
    ]:
        given = {**values, name: change(values[name])}
        x0 = given.pop("x0")
        for loss in ("logistic", "squared"):
            with pytest.raises(ValueError, match=complaint):
                rs.minimize(rs.Problem(**given, loss=loss, alpha=0.1), x0=x0, epochs=1)
    free = np.ma.masked_array(A, np.zeros_like(A, dtype=bool))
    np.testing.assert_array_equal(rs.Problem(free, Y).X, A)


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA, pd.NaT])
def test_missing_labels_are_refused_with_their_row(missing):
    for loss in ("logistic", "squared"):
        with pytest.raises(ValueError, match="y is missing in row 2"):
            rs.Problem(A, np.array([1, 2, missing, 2], dtype=object), loss=loss)


def test_another_alpha_shares_what_was_worked_out_of_the_data_and_is_checked_as_the_first_was():
    X, y = np.random.default_rng(0).standard_normal((20, 3)), np.arange(20) % 2
    p = rs.Problem(X, y, alpha=0.1, sample_weight=np.arange(20.0))
    lengths, other = p.lengths, p.replace(alpha=0.3)
    assert (p.alpha, other.alpha) == (0.1, 0.3)
    assert other.lengths is lengths
    assert other.rows is p.rows
    x = np.ones(3)
    assert other.objective(x) == pytest.approx(p.objective(x) + 0.1 * 3.0, rel=1e-14)
    with pytest.raises(ValueError, match="alpha=-1"):
        p.replace(alpha=-1)
    with pytest.raises(AttributeError, match=r"problem\.replace\(alpha"):
        other.alpha = 0.5


@pytest.mark.parametrize("sparse", [False, True])
def test_units_are_the_largest_numbers_of_features_over_that_of_all(sparse):
    X = np.array([[0.0, -4.0, 0.5, 0.0], [2.0, 1.0, 0.25, 0.0], [-1.0, 3.0, 0.0, 0.0]])
    data = sp.csr_array(X) if sparse else X
    np.testing.assert_array_equal(rs.Problem(data, [0, 1, 1]).squared_units, [0.25, 1.0, 1 / 64, 0.0])
    tiny = rs.Problem(0.125 * data, [0, 1, 1], fit_intercept=True)  # the intercept is the largest
    np.testing.assert_array_equal(tiny.squared_units, [1 / 16, 0.25, 1 / 256, 0.0, 1.0])
    np.testing.assert_array_equal(rs.Problem(0.0 * data, [0, 1, 1]).squared_units, np.zeros(4))
