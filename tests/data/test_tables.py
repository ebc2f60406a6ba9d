"""Text as people have it: delimiters, headers, row names, several files, pipes; and files that are damaged."""

import bz2
import gzip
import io
import lzma
import re
import sys

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.data import tables
from reshuffle.data.tables import MISSING

ROWS = [[1.5, 2, 0], [3, 4.25, 1], [-5, 6, 1]]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def lines(delimiter, header=("a", "b", "t"), rows=ROWS):
    return "".join(delimiter.join(map(str, row)) + "\n" for row in ([header, *rows] if header else rows))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", lines(",")),
        ("t.csv", lines(";")),
        ("t.csv", lines(";").replace(".", ",")),  # as a spreadsheet writes it where a comma is the point
        ("t.csv", lines(";", header=None).replace(".", ",")),
        ("t.csv", lines("\t")),
        ("t.csv", "\ufeff" + lines(",")),
        ("t.csv", lines(",").replace("\n", "\r\n")),
        ("t.CSV", lines(",").replace("\n", "\r")),
        ("t.csv", lines(" , ")),
        ("t.tsv", lines("\t")),
        ("t.tsv", lines("\t", header=None)),
        ("t.txt", lines("\t")),
        ("t.txt", lines(";")),
        ("t.txt", lines(",", header=None)),
        ("t.txt", "0 1:1.5 2:2\n1 1:3 2:4.25\n1 1:-5 2:6\n"),
        ("t.txt", "0\t1:1.5\t2:2\n1\t1:3\t2:4.25\n1\t1:-5\t2:6 # as some write svmlight\n"),
    ],
)
def test_the_delimiter_is_found(tmp_path, monkeypatch, name, text):
    path = tmp_path / name
    path.write_bytes(text.encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    for source in (path, "-") if path.suffix != ".tsv" or "a" in text else (path,):
        got = rs.load(source)
        np.testing.assert_array_equal(got.X.toarray() if sp.issparse(got.X) else got.X, np.array(ROWS)[:, :2])
        np.testing.assert_array_equal(got.y, [0, 1, 1])
    assert got.name in ("standard input", str(path))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1,red,0\n2,red,1\n3,blue,0\n4,blue,1\n", ["0", "1=blue", "1=red"]),  # no header, though there are words
        ("1,,0\n2,5,1\n3,5,0\n4,6,1\n", ["0", "1", "1=(missing)"]),
        ("x,2019,t\n1,red,0\n2,red,1\n3,blue,0\n4,blue,1\n", ["x", "2019=blue", "2019=red"]),
        ("x,2019,2020\n1,2,0\n2,2,1\n", ["x", "2019"]),
        (
            "kind,size,t\nred,big,yes\nred,big,no\nblue,small,no\nblue,small,no\n",
            ["kind=blue", "kind=red", "size=big", "size=small"],
        ),
    ],
)
def test_a_header_stands_over_columns_of_another_kind(tmp_path, text, names):
    assert rs.load(write(tmp_path / "t.csv", text)).feature_names == names


def test_row_names_and_indices_are_left_out_and_said(tmp_path):
    frame = pd.DataFrame(ROWS, columns=["a", "b", "t"], index=["u", "v", "w"])
    frame.to_csv(tmp_path / "index.csv")
    frame.to_csv(tmp_path / "r.csv", header=['a"', "b", "t"])
    text = (tmp_path / "index.csv").read_text()
    write(tmp_path / "r.csv", text.replace(",a,b,t", "a,b,t"))  # as R's write.table has it
    frame.reset_index(drop=True).to_csv(tmp_path / "numbers.csv")
    frame.reset_index(drop=True).reset_index().rename(columns={"index": "Unnamed: 0"}).to_csv(tmp_path / "again.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    for name, line in {
        "index.csv": "left out the first column, which is an index",
        "numbers.csv": "left out the first column, which is an index",
        "again.csv": "left out the first column, which is an index",
        "r.csv": "left out the names of the rows, which the header has none for",
        "t.parquet": "left out __index_level_0__, which is the index of a frame",
    }.items():
        got = rs.load(tmp_path / name)
        np.testing.assert_array_equal(got.X, np.array(ROWS)[:, :2])
        assert got.feature_names == ["a", "b"]
        assert got.notes == (f"{tmp_path / name}: {line}",)


def test_words_that_come_late_make_the_column_words(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_CELLS", 6)  # two rows at a time
    text = "a,b,t\n" + "".join(f"{k % 2:02d},{k},{k % 2}\n" for k in range(6)) + "none,x,1\nnone,6,1\n"
    got = rs.load(write(tmp_path / "t.csv", text))
    assert got.feature_names == ["a=00", "a=01", "a=none"]
    np.testing.assert_array_equal(got.X.toarray().argmax(axis=1), [0, 1, 0, 1, 0, 1, 2, 2])
    assert "all words differ: b" in str(got)


def test_large_whole_numbers_stay_apart(tmp_path):
    large = [2**63, 2**63 + 1, 2**64 - 1, 2**63 + 1]
    got = rs.load(write(tmp_path / "t.csv", "a,t\n" + "".join(f"{k},{label}\n" for k, label in enumerate(large))))
    assert got.y.tolist() == large
    huge = [2**64, 2**64 + 1, 2**64 + 1]
    got = rs.load(write(tmp_path / "t.csv", "a,t\n" + "".join(f"{k},{label}\n" for k, label in enumerate(huge))))
    assert got.y.tolist() == list(map(str, huge))
    got = rs.load(write(tmp_path / "t.csv", "a,t\n" + "".join(f"{label},{k}\n" for k, label in enumerate(large))))
    np.testing.assert_array_equal(got.X[:, 0], np.array(large, dtype=np.float64))


def test_numbers_are_those_of_python(tmp_path):
    texts = ["1e-320", "0.1", "+3", ".5", "5.", "-0", "1E5", "123456789012345678901234567890", "9007199254740993"]
    got = rs.load(write(tmp_path / "t.csv", "a,t\n" + "".join(f"{text},{k}.5\n" for k, text in enumerate(texts))))
    assert got.X[:, 0].tolist() == [float(text) for text in texts]
    got = rs.load(write(tmp_path / "t.csv", "a,t\n1_0,1\n2_0,0\n1_0,0\n"))
    assert got.feature_names == ["a=1_0", "a=2_0"]  # which Python would read as 10 and 20


def test_dates_and_true_and_false(tmp_path):
    rows = ["2024-01-01 12:00:00,2024-01-01T01:00:00+01:00,TRUE,True", "2024-01-02,2024-01-01T12:00Z,FALSE,False", ",,,True"]
    got = rs.load(write(tmp_path / "t.csv", "\n".join(["when,zone,on,t", *rows])))
    assert got.feature_names == ["when", "when=(missing)", "zone", "zone=(missing)", "on", "on=(missing)"]
    np.testing.assert_array_equal(got.X, [[0, 0, 0, 0, 1, 0], [0.5, 0, 0.5, 0, 0, 0], [0.25, 1, 0.25, 1, 0.5, 1]])
    assert got.y.tolist() == [True, False, True]
    (tmp_path / "t.csv").write_text("a,t\n1,2024-01-01\n2,2024-01-02\n")
    with pytest.raises(ValueError, match="column 't' holds dates, which are no labels"):
        rs.load(tmp_path / "t.csv")


FORMATS = {
    "csv": lambda frame, path: frame.to_csv(path, index=False),
    "parquet": lambda frame, path: frame.to_parquet(path, index=False),
    "feather": lambda frame, path: frame.to_feather(path),
}


@pytest.mark.parametrize("ending", FORMATS)
def test_several_files_are_one_table(tmp_path, ending, monkeypatch):
    frame = pd.DataFrame(
        {"a": np.arange(9.0), "w": list("xyzxyzxyz"), "n": ["1", "2", "3", "u", "v", "u", "1", "2", "3"], "t": [0, 1, 1] * 3}
    )
    folder = tmp_path / "parts"
    folder.mkdir()
    FORMATS[ending](frame, tmp_path / f"all.{ending}")
    for k in range(3):
        part = frame[3 * k : 3 * k + 3].reset_index(drop=True)
        FORMATS[ending](part[["t", "w", "a", "n"]] if k == 1 else part, folder / f"part-{k}.{ending}")
    (folder / "_SUCCESS").write_text("")
    want = rs.load(tmp_path / f"all.{ending}", target="t")
    paths = sorted(folder.glob("part*"))
    for source in (folder, str(folder / "part-*"), paths, list(map(str, paths))):
        got = rs.load(source, target="t")
        assert got.feature_names == want.feature_names
        np.testing.assert_array_equal(got.X.toarray(), want.X.toarray())
        np.testing.assert_array_equal(got.y, want.y)
    FORMATS[ending](frame.rename(columns={"w": "v"}), folder / f"part-9.{ending}")
    with pytest.raises(ValueError, match=r"part-9.* has other columns than .*part-0.*: it lacks w and has v besides"):
        rs.load(folder)
    (folder / f"part-9.{ending}").rename(folder / "part-9.npy")
    with pytest.raises(ValueError, match=r"part-0.* and .*part-9.npy are files of different kinds"):
        rs.load(folder)


def test_a_place_in_several_files_names_the_file(tmp_path):
    for name, cell in (("1.csv", "2"), ("2.csv", "inf")):
        write(tmp_path / name, f"a,b,t\n\n1,{cell},0\n")
    with pytest.raises(ValueError, match=r"line 3 of .*2\.csv, column 'b'"):
        rs.load(tmp_path)


def test_parts_of_matrices(tmp_path, monkeypatch):
    write(tmp_path / "a.svm", "1 1:1\n-1 2:2\n")
    write(tmp_path / "b.svm", "1 4:3\n")
    got = rs.load([tmp_path / "a.svm", tmp_path / "b.svm"])
    np.testing.assert_array_equal(got.X.toarray(), [[1, 0, 0, 0], [0, 2, 0, 0], [0, 0, 0, 3]])
    np.testing.assert_array_equal(got.y, [1, -1, 1])
    assert got.name == f"{tmp_path / 'a.svm'} and 1 more"
    np.save(tmp_path / "a.npy", np.ones((2, 2)))
    np.save(tmp_path / "b.npy", np.ones((2, 3)))
    with pytest.raises(ValueError, match=r"b\.npy has 3 features where .*a\.npy has 2"):
        rs.load(str(tmp_path / "*.npy"))
    with pytest.raises(FileNotFoundError, match="there is no file 'iris'"):
        rs.load(["iris", tmp_path / "a.svm"])
    with pytest.raises(ValueError, match="cannot be read together"):
        rs.load(["-", tmp_path / "a.svm"])


def test_labels_of_an_array_lie_in_another(tmp_path, monkeypatch):
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    np.save(tmp_path / "X.npy", X)
    sp.save_npz(tmp_path / "X.npz", sp.csr_array(X))
    np.save(tmp_path / "y.npy", y)
    for name in ("X.npy", "X.npz"):
        np.testing.assert_array_equal(rs.load(tmp_path / name, target=tmp_path / "y.npy").y, y)
        np.testing.assert_array_equal(rs.load(tmp_path / name, target="y.npy").y, y)  # beside it
        with pytest.raises(ValueError, match=r"target='label': .*name the \.npy file that holds its labels"):
            rs.load(tmp_path / name, target="label")
    np.save(tmp_path / "y.npy", y[:2])
    with pytest.raises(ValueError, match=r"the labels have shape \(2,\) where X has 3 rows"):
        rs.load(tmp_path / "X.npy", target="y.npy")
    np.save(tmp_path / "y.npy", y * 1j)
    with pytest.raises(ValueError, match="the labels have dtype complex128"):
        rs.load(tmp_path / "X.npy", target="y.npy")


def damaged(tmp_path):
    """Files that were torn in writing or on the way, by name."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 5))
    frame = pd.DataFrame(X, columns=list("abcdt"))
    np.save(tmp_path / "t.npy", X)
    np.savez_compressed(tmp_path / "t.npz", X=X, y=X[:, 0])
    sp.save_npz(tmp_path / "sparse.npz", sp.csr_array(X))
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    text = frame.to_csv(index=False).encode()
    svmlight = b"".join(b"1 " + b" ".join(b"%d:%r" % (k + 1, x) for k, x in enumerate(row)) + b"\n" for row in X.tolist())
    for ending, pack in ((".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)):
        (tmp_path / f"t.csv{ending}").write_bytes(pack(text))
        (tmp_path / f"t.svm{ending}").write_bytes(pack(svmlight))
    return sorted(path for path in tmp_path.iterdir())


def test_torn_files_end_in_one_line_that_names_them(tmp_path):
    for path in damaged(tmp_path):
        whole = path.read_bytes()
        assert rs.load(path).X.shape[0] == 400
        for content in (
            whole[: len(whole) // 2],
            whole[:20],
            b"",
            whole[: len(whole) // 3] + b"\xff" * 40 + whole[len(whole) // 3 + 40 :],
        ):
            path.write_bytes(content)
            if len(content) == len(whole) and path.suffix in (".npy", ".feather", ".parquet"):
                continue  # nothing in such a file says that bytes of a number are not the ones that were written
            with pytest.raises(ValueError, match=re.escape(str(path))) as error:
                rs.load(path)
            assert "\n" not in str(error.value)


def test_what_is_not_text_is_refused_with_its_line(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,city,t\n1,K\xf6ln,0\n2,Bonn,1\n")
    with pytest.raises(ValueError, match=r"t\.csv, line 2: b'.xf6ln,0.n' is not UTF-8; save the file as UTF-8"):
        rs.load(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_bytes("a,t\n1,2\n".encode("utf-16"))
    with pytest.raises(ValueError, match=r"t\.csv, line 1"):
        rs.load(tmp_path / "t.csv")


CELLS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e15, 1e15).map(lambda x: f" {x:+.3e}"),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["00.5", "1e-400", "+.5E+2 ", "-0", '"7"', '" 7.5"', "5.", "1E5", "nan", "NA", ""]),
)


@given(st.lists(st.tuples(CELLS, CELLS), min_size=3, max_size=8))
@example([("0.0", "0.0"), ("0.0", "8.988465674311579e+307"), ("0.0", "8.98846567431158e+307")])  # whose sum overflows
@example([("0.0", "1.7976931348623157e+308")] * 3)  # as the sum of their thirds does
@example([("0.0", "0"), ("0.0", "0"), ("0.0", "-9223372036854775809")])  # so many zeros that they are not stored
@settings(max_examples=40)
def test_numbers_are_the_same_read_at_once_or_cell_by_cell(tmp_path_factory, rows):
    path = write(
        tmp_path_factory.mktemp("cells") / "t.csv", "a,b,c,t\n" + "".join(f"{a},{b},1,{k}.5\n" for k, (a, b) in enumerate(rows))
    )
    got = rs.load(path)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tables.Form, "all_numbers", lambda form: None)
        want = rs.load(path)
    assert got.feature_names == want.feature_names
    ours, theirs = (data.X.toarray() if sp.issparse(data.X) else data.X for data in (got, want))  # many zeros are not stored
    assert ours.tobytes() == theirs.tobytes()
    numbers = [None if cell in MISSING else float(cell.strip('"')) for cell, _ in rows]
    if None not in numbers and not any(np.isnan(numbers)) and max(map(abs, numbers)) < 2**53:
        assert ours[:, 0].tolist() == numbers


# --- what spreadsheet programs write


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sep=;\na;b;t\n1;2;0\n3;4;1\n", r"line 1: 'sep=;' is for spreadsheet programs; remove that line first"),
        ("a,b,t,\n1,2,0,\n3,4,1,\n", r"column '3' is to hold the labels and is empty; .*delimiter at the end of every line"),
        ("Sales\na,t\n1,0\n2,1\n", r"has 1 column between commas, semicolons or tabs, 'Sales'; .*a first line that is their names"),
        ("a|b|t\n1|2|0\n", r"has 1 column between commas, semicolons or tabs, 'a\|b\|t'"),
        (
            "a;b;t\n987;2,5;0\n1.234;3,5;1\n",
            r"line 3, column 'a': '1.234' may have a point between thousands, as 'b' has a comma for a point",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(tmp_path, text, words):
    with pytest.raises(ValueError, match=rf"t\.csv.*{words}"):
        rs.load(write(tmp_path / "t.csv", text))


@pytest.mark.parametrize(
    "text",
    [
        "a;b;t\n987;2;0\n1.234;3;1\n",  # no comma is a point here
        "a;b;t\n1.5;2,5;0\n1.234;3,5;1\n",  # 1.5 has no thousands
        "a;b;t\n1;2,5;0\n1234;3,5;1\n",
    ],
)
def test_points_that_can_only_be_points_are(tmp_path, text):
    cells = [row.split(";")[0] for row in text.splitlines()[1:]]
    assert rs.load(write(tmp_path / "t.csv", text)).X[:, 0].tolist() == [float(cell) for cell in cells]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (('"1,234"', '"2,345"', '"3,456"'), r"column 'p' holds numbers that are not written as such \('1,234', line 2\)"),
        (("$5", "$10", "$15"), r"numbers that are not written as such \('\$5', line 2\)"),
        (("7 %", "10 %", "15 %"), r"numbers that are not written as such \('7 %', line 2\)"),
        (("31.01.2024", "01.02.2024", "2.2.2024"), r"dates that are not written as such \('31.01.2024', line 2\)"),
        (("1", "#DIV/0!", "3"), r"numbers and words \('#DIV/0!', line 3\)"),
    ],
)
@pytest.mark.parametrize("repeated", [1, 30])  # columns whose words all differ are dropped, others become zeros and ones
def test_a_column_that_was_not_meant_to_be_words_is_named(tmp_path, cells, words, repeated):
    rows = [f"{k},{cell},{k % 2}" for k, cell in enumerate(cells * repeated)]
    data = rs.load(write(tmp_path / "t.csv", "\n".join(["a,p,t", *rows])))
    assert len([note for note in data.notes if re.search(words, note)]) == 1
    plain = rs.load(
        write(tmp_path / "u.csv", "\n".join(["a,p,t", *(f"{k},{w},{k % 2}" for k, w in enumerate(["red", "blue"] * 9))]))
    )
    assert not any("not written" in note or "numbers and words" in note for note in plain.notes)


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("digits", ["%.3f", None])
def test_columns_of_a_frame_that_nobody_named(tmp_path, index, digits):
    X = np.arange(24.0).reshape(8, 3) + 0.5 if digits else np.arange(24).reshape(8, 3) + 7
    pd.DataFrame(X).to_csv(tmp_path / "t.csv", index=index, float_format=digits)
    data = rs.load(tmp_path / "t.csv")
    names = index or digits is not None  # whole numbers under 0, 1, 2 may have any line among them
    np.testing.assert_array_equal(data.X, X[:, :2] if names else np.vstack([[0, 1], X[:, :2]]))
    assert data.y.tolist() == [*([] if names else [2]), *X[:, 2]]
    assert ("taken for the names of columns" if names else "taken for a row") in data.notes[0]
