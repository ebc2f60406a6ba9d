"""From columns to a matrix: as scikit-learn's transformers do it, the same of every format, and the same again for prediction."""

import json

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

import reshuffle as rs
from reshuffle.tables import Columns, Table, Words, table_of_frame

NUMBERS = st.none() | st.floats(-1e12, 1e12, allow_subnormal=False) | st.integers(-(2**40), 2**40)
WORDS = st.none() | st.sampled_from(["red", "green", "dark blue", 'a "b", c', "1st", "é;ö"])
DATES = st.none() | st.datetimes(pd.Timestamp("1900-01-01"), pd.Timestamp("2100-01-01"))
WRITE = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "txt": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "parquet": lambda frame, path: frame.to_parquet(path, index=False),
    "feather": lambda frame, path: frame.to_feather(path),
}


def dense(X):
    return X.toarray() if sp.issparse(X) else np.asarray(X)


@st.composite
def frames(draw):
    n = draw(st.integers(4, 12))

    def column(values):
        return draw(st.lists(values, min_size=n, max_size=n))

    return pd.DataFrame(
        {
            "size": pd.array(column(st.floats(-1e9, 1e9)), dtype="float64"),
            "weight, kg": np.array(column(NUMBERS), dtype=np.float64),
            "colour": pd.array([*column(WORDS)[2:], "red", "red"], dtype="string"),
            "kind": pd.Categorical([*column(st.sampled_from("ab"))[2:], "a", "a"]),
            "flag": column(st.booleans()),
            "seen": pd.array([*column(DATES)[1:], pd.Timestamp("2000-01-01 12:30")], dtype="datetime64[us]"),
            "y": ["no", "yes"] * (n // 2) + ["no"] * (n % 2),
        }
    )


@given(frames())
@settings(max_examples=25)
def test_every_format_gives_the_matrix_of_the_frame(tmp_path_factory, frame):
    folder = tmp_path_factory.mktemp("formats")
    table = table_of_frame(frame, "frame")
    columns = Columns.fit(table, 6)
    want = dense(columns.transform(table)[0])
    for ending, write in WRITE.items():
        write(frame, folder / f"t.{ending}")
        got = rs.load(folder / f"t.{ending}")
        assert got.feature_names == columns.names, ending
        np.testing.assert_array_equal(dense(got.X), want, err_msg=ending)
        assert got.y.tolist() == frame["y"].tolist()
        again = rs.load(folder / f"t.{ending}", columns=Columns.from_dict(json.loads(json.dumps(columns.to_dict()))))
        np.testing.assert_array_equal(dense(again.X), want, err_msg=ending)


def by_scikit_learn(frame, n_rare):
    """The same matrix by SimpleImputer and OneHotEncoder, a column after the other; and how to make it of other rows."""
    fitted = []
    for name in frame.columns:
        values = frame[[name]]
        if frame[name].dtype.kind == "f":
            transformer = SimpleImputer(strategy="mean", add_indicator=True)
        else:
            values = values.astype(object).where(values.notna(), None)
            transformer = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=n_rare, sparse_output=False)
        fitted.append((name, transformer.fit(values)))

    def transform(other):
        parts = []
        for name, transformer in fitted:
            values = other[[name]]
            values = values if isinstance(transformer, SimpleImputer) else values.astype(object).where(values.notna(), None)
            parts.append(transformer.transform(values))
        return np.hstack(parts)

    return transform


@pytest.mark.parametrize(("n", "n_rare"), [(40, 1), (700, 7), (3000, 10)])
def test_the_matrix_is_that_of_scikit_learn(n, n_rare):
    rng = np.random.default_rng(n)

    def draw(size, strange=()):
        words = np.array(["a", "b", "c", "d", None, *strange], dtype=object)
        share = np.array([0.5, 0.3, 0.1, 0.002, 0.098])
        share = np.append(share * (1 - 0.1 * len(strange)), [0.1] * len(strange))
        gaps = np.where(rng.random(size) < 0.1, np.nan, rng.standard_normal(size))
        return pd.DataFrame({"x": rng.standard_normal(size), "gaps": gaps, "word": words[rng.choice(len(words), size, p=share)]})

    train, test = draw(n), draw(50, strange=["z"])
    want = by_scikit_learn(train, n_rare)
    columns = Columns.fit(table_of_frame(train, "train"))
    np.testing.assert_allclose(dense(columns.transform(table_of_frame(train, "train"))[0]), want(train), rtol=1e-13, atol=1e-16)
    X, _, notes = columns.transform(table_of_frame(test, "test"))
    np.testing.assert_allclose(dense(X), want(test), rtol=1e-13, atol=1e-16)
    rare = "word=(other)" in columns.names
    assert rare == (n > 40)
    assert rare or f"has not seen, taken as none or as the mean: word ({(test['word'] == 'z').sum()} rows)" in notes[0]
    assert not rare or not notes


def test_names_say_what_a_column_is(tmp_path):
    rows = [
        f"{k % 7},{'' if k == 3 else k},{['rome', 'oslo', ''][k % 3]},{k % 2 == 0},2024-01-{k + 1:02d},u{k},,{k % 2}"
        for k in range(30)
    ]
    (tmp_path / "t.csv").write_text("a,b,city,flag,day,user,nothing,t\n" + "\n".join(rows))
    got = rs.load(tmp_path / "t.csv")
    assert got.feature_names == ["a", "b", "b=(missing)", "city=oslo", "city=rome", "city=(missing)", "flag", "day"]
    X = dense(got.X)
    np.testing.assert_array_equal(X[3], [3, np.mean([k for k in range(30) if k != 3]), 1, 0, 1, 0, 0, 3])
    np.testing.assert_array_equal(X[5], [5, 5, 0, 0, 0, 1, 0, 5])
    told = str(got)
    for line in (
        "dropped columns that are empty: nothing",
        "dropped columns in which all words differ: user",
        "words become 3 columns of zeros and ones: city",
        "dates become days since the first: day",
        "missing numbers become the mean, and a column says where, (missing): b",
    ):
        assert f"{tmp_path}/t.csv: {line}" in told
    with pytest.raises(ValueError, match=r"t\.csv: dropped columns .*; strict refuses that"):
        rs.load(tmp_path / "t.csv", strict=True)


def test_rare_words_share_a_column_and_text_is_dropped():
    n = 2000
    words = np.array(["x"] * 1500 + ["y"] * 480 + [f"rare {k // 2}" for k in range(20)])
    prose = np.array([f"text {k // 2}" for k in range(n)])
    columns = Columns.fit(table_of_frame(pd.DataFrame({"w": words, "prose": prose}), "t"))
    assert columns.names == ["w=x", "w=y", "w=(other)"]
    assert columns.dropped == ("prose",)
    X = dense(columns.transform(table_of_frame(pd.DataFrame({"w": words}), "t"))[0])
    np.testing.assert_array_equal(X.sum(axis=0), [1500, 480, 20])
    assert "rare" not in json.dumps(columns.to_dict())  # a model file must not spread what few rows say


def test_columns_are_found_by_name_and_what_is_missing_or_new_is_said(tmp_path):
    (tmp_path / "train.csv").write_text("a,b,t\n1,red,0\n2,red,1\n3,blue,1\n4,blue,0\n")
    columns = rs.load(tmp_path / "train.csv").columns

    def load(text, **options):
        (tmp_path / "new.csv").write_text(text)
        return rs.load(tmp_path / "new.csv", columns=columns, **options)

    got = load("more,b,a\n7,blue,1\n8,pink,2\n")
    np.testing.assert_array_equal(dense(got.X), [[1, 1, 0], [2, 0, 0]])
    assert got.y is None
    assert "left out columns that the model was not trained on: more" in got.notes[0]
    assert "b (1 rows)" in got.notes[1]
    with pytest.raises(ValueError, match="strict refuses"):
        load("more,b,a\n7,blue,1\n", strict=True)
    np.testing.assert_array_equal(load("t,b,a\n1,blue,1\n0,red,2\n").y, [1, 0])
    np.testing.assert_array_equal(load("label,b,a\n1,blue,1\n0,red,2\n", target="label").y, [1, 0])
    got = load("t,b,a\n1,blue,1\n,red,2\n")  # rows whose labels are to be predicted
    assert got.y is None
    assert "labels are missing in 't', so there is no score" in got.notes[0]
    with pytest.raises(ValueError, match="lacks columns that the model was trained on: b; new here: c"):
        load("a,c,t\n1,2,0\n")  # never the label in place of a feature
    with pytest.raises(ValueError, match=r"lacks columns that the model was trained on: b$"):
        load("a,t\n1,0\n")
    with pytest.raises(ValueError, match=r"lacks .*: a, b; new here: 0, 1; its first line is not a header"):
        load("1,2\n3,4\n")
    with pytest.raises(ValueError, match="line 3, column 'a': 'many' is text, and the model was trained on numbers"):
        load("a,b\n1,red\nmany,red\n")
    with pytest.raises(ValueError, match=r"line 2, column 'a': '2024-01-01T00:00:00.000000' is a date, and"):
        load("a,b\n2024-01-01,red\n")


def test_words_stay_words_where_a_new_table_has_only_numbers(tmp_path):
    (tmp_path / "train.csv").write_text("code,t\n1,0\n2,1\n02,1\n1,1\n2,0\nA,0\nA,1\n02,0\n")
    got = rs.load(tmp_path / "train.csv")
    assert got.feature_names == ["code=02", "code=1", "code=2", "code=A"]
    assert "column 'code' holds numbers and words ('A', line 7): all of it is taken as words" in str(got)
    (tmp_path / "new.csv").write_text("code\n1\n02\n2\n")
    new = rs.load(tmp_path / "new.csv", columns=got.columns)
    np.testing.assert_array_equal(dense(new.X), [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]])
    typed = got.columns.transform(Table("t", ["code"], [np.array([1, 2, 1])]))[0]  # as parquet has them
    np.testing.assert_array_equal(dense(typed), [[0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0]])


@pytest.mark.parametrize("target", [0, 1, 2])
def test_tables_without_a_header_go_by_place(tmp_path, target):
    rows = np.array([[1, 5, 0], [2, 6, 1], [3, 5, 1]])
    np.savetxt(tmp_path / "train.csv", rows, "%d", ",")
    columns = rs.load(tmp_path / "train.csv", target=target).columns
    features = [k for k in range(3) if k != target]
    labelled = rs.load(tmp_path / "train.csv", columns=columns)
    np.testing.assert_array_equal(labelled.X, rows[:, features])
    np.testing.assert_array_equal(labelled.y, rows[:, target])
    np.savetxt(tmp_path / "new.csv", rows[:, features], "%d", ",")
    new = rs.load(tmp_path / "new.csv", columns=columns)
    np.testing.assert_array_equal(new.X, rows[:, features])
    assert new.y is None
    np.savetxt(tmp_path / "new.csv", rows[:, :1], "%d", ",")
    with pytest.raises(ValueError, match="has 1 features; the model was trained on 2"):
        rs.load(tmp_path / "new.csv", columns=columns)


def test_dates_and_gaps_at_prediction():
    days = np.array(["2024-01-01", "2024-01-03", "NaT"], dtype="datetime64[us]")
    columns = Columns.fit(Table("t", ["day", "x"], [days, np.array([1.0, 2.0, 6.0])]))
    assert columns.names == ["day", "day=(missing)", "x"]
    np.testing.assert_array_equal(
        columns.transform(Table("t", ["day", "x"], [days, np.ones(3)]))[0][:, :2], [[0, 0], [2, 0], [1, 1]]
    )
    later = Table("t", ["x", "day"], [np.array([np.nan]), np.array(["2023-12-31T12:00"], dtype="datetime64[us]")])
    X, _, notes = columns.transform(later)
    np.testing.assert_array_equal(X, [[-0.5, 0, 3]])
    assert "x (1 rows)" in notes[0]
    with pytest.raises(ValueError, match=r"5\.0 is no date"):
        columns.transform(Table("t", ["x", "day"], [np.ones(1), np.array([5.0])]))
    empty = columns.transform(Table("t", ["x", "day"], [np.ones(1), np.array([np.nan])]))[0]
    np.testing.assert_array_equal(empty, [[1, 1, 1]])


GOOD = {
    "target": "t",
    "weight": "n",
    "header": True,
    "dropped": ["id"],
    "inputs": [
        {"kind": "numbers", "name": "a", "mean": 0.1, "missing": True},
        {"kind": "dates", "name": "d", "mean": 2.5, "missing": False, "first": "2024-01-01T00:00:00.000000"},
        {"kind": "words", "name": "w", "values": ["x", "y"], "missing": False, "other": True},
    ],
}


def test_what_is_kept_comes_back():
    columns = Columns.from_dict(json.loads(json.dumps(GOOD)))
    assert columns.to_dict() == GOOD
    assert columns.names == ["a", "a=(missing)", "d", "w=x", "w=y", "w=(other)"]
    assert Columns.from_dict({name: value for name, value in GOOD.items() if name != "weight"}).weight is None


@pytest.mark.parametrize(
    ("at", "change"),
    [
        (None, {"target": 3}),
        (None, {"weight": 3}),
        (None, {"weight": "t"}),
        (None, {"header": 1}),
        (None, {"header": False}),
        (None, {"dropped": "id"}),
        (None, {"dropped": ["a"]}),
        (None, {"inputs": []}),
        (0, {"kind": "pictures"}),
        (0, {"mean": "0.1"}),
        (0, {"mean": float("nan")}),
        (0, {"missing": 1}),
        (0, {"name": 5}),
        (0, {"size": 3}),
        (1, {"first": "yesterday"}),
        (1, {"first": None}),
        (2, {"values": ["y", "x"]}),
        (2, {"values": ["x", "x"]}),
        (2, {"values": [1, 2]}),
        (2, {"values": "xy"}),
        (2, {"other": None}),
    ],
)
def test_what_is_damaged_is_refused(at, change):
    content = json.loads(json.dumps(GOOD))
    (content if at is None else content["inputs"][at]).update(change)
    with pytest.raises((ValueError, TypeError, KeyError)):
        Columns.from_dict(content)


def test_words_are_numbered_in_sorted_order():
    words = Words.of(np.array([2, 0, -1, 1, 3]), ["b", None, "a", "b"])
    assert words.values == ["a", "b"]
    assert words.codes.tolist() == [0, 1, -1, -1, 1]
