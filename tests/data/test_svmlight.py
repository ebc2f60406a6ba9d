"""The svmlight reader against scikit-learn's, number by number, and what it says of broken files."""

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import reshuffle as rs
from reshuffle.data import _parse


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def assert_same_as_sklearn(path, **options):
    got = rs.load(path)
    X, y = load_svmlight_file(str(path), **options)
    np.testing.assert_array_equal(got.X.indptr, X.indptr)
    np.testing.assert_array_equal(got.X.indices, X.indices)
    assert got.X.data.tobytes() == X.data.tobytes()
    assert got.y.tobytes() == y.tobytes()
    assert got.X.shape == X.shape


@pytest.mark.parametrize(
    "name", ["a1a", "a9a", "mushrooms", "sonar_scale", "german.numer_scale", "abalone", "ijcnn1", "duke", "rcv1_like"]
)
def test_real_files_are_read_to_the_last_bit(real_file, name):
    assert_same_as_sklearn(real_file(name))


@given(seed=st.integers(0, 10**6), digits=st.sampled_from([3, 9, 15, 16, 17, 19]), zero_based=st.booleans())
def test_random_matrices_survive_writing_and_reading(tmp_path_factory, seed, digits, zero_based):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((7, 5)) * 10.0 ** rng.integers(-12, 12, (7, 5)) * (rng.random((7, 5)) < 0.6)
    y = rng.standard_normal(7)
    X[0, 0] = 1.0
    lines = []
    for label, row in zip(y, X, strict=True):
        cells = (f"{j + (not zero_based)}:{x:.{digits}g}" for j, x in enumerate(row) if x)
        lines.append(f"{label:.{digits}g} " + " ".join(cells))
    path = write(tmp_path_factory.mktemp("svm") / "file", "\n".join(lines) + "\n")
    assert_same_as_sklearn(path)


@given(
    token=st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr),
        st.decimals(allow_nan=False, allow_infinity=False, places=25, min_value=-100, max_value=100).map(str),
        st.from_regex(r"[+-]?[0-9]{1,24}(\.[0-9]{0,24})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
        st.from_regex(r"[+-]?\.[0-9]{1,22}([eE]-?[0-9]{1,2})?", fullmatch=True),
    )
)
def test_every_number_is_read_as_python_reads_it(tmp_path_factory, token):
    path = write(tmp_path_factory.mktemp("svm") / "file", f"{token} 1:{token}\n")
    got = rs.load(path)
    want = np.array([float(token)])
    assert got.y.tobytes() == want.tobytes()
    assert got.X.data.tobytes() == want.tobytes()


def test_halfway_cases_are_rounded_to_even(tmp_path):
    tokens = ["9007199254740993", "9007199254740995", "0.500000000000000166533453693773481063544750213623046875",
              "1.00000000000000011102230246251565404236316680908203125", "8.5e22", "1e23", "2.2250738585072011e-308",
              "4.9e-324", "1.7976931348623157e308", "123456789012345678901234567890"]  # fmt: skip
    path = write(tmp_path / "file", "".join(f"{t} 1:-{t}\n" for t in tokens))
    got = rs.load(path)
    np.testing.assert_array_equal(got.y, [float(t) for t in tokens])
    np.testing.assert_array_equal(got.X.toarray().ravel(), [-float(t) for t in tokens])


def test_the_table_of_powers_is_the_truth_rounded_down():
    for q in range(_parse._SMALLEST_POWER, _parse._LARGEST_POWER + 1):
        significand = int(_parse._SIGNIFICANDS[q - _parse._SMALLEST_POWER])
        exponent = int(_parse._EXPONENTS[q - _parse._SMALLEST_POWER])
        assert 2**63 <= significand < 2**64
        up, down = (5**q, 1) if q >= 0 else (1, 5**-q)
        left, right = (significand << exponent, 1) if exponent >= 0 else (significand, 1 << -exponent)
        assert left * down <= up * right
        bigger = ((significand + 1) << exponent, 1) if exponent >= 0 else (significand + 1, 1 << -exponent)
        assert bigger[0] * down > up * bigger[1]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_compressed_files_are_read_as_they_are(tmp_path, compress):
    text = b"1 1:0.5 3:2\n-1 2:1e-3\n"
    suffix = {gzip.compress: "gz", bz2.compress: "bz2", lzma.compress: "xz"}[compress]
    path = write(tmp_path / f"file.{suffix}", compress(text))
    np.testing.assert_array_equal(rs.load(path).X.toarray(), [[0.5, 0, 2], [0, 1e-3, 0]])
    broken = write(tmp_path / f"broken.{suffix}", compress(text)[:-7])
    with pytest.raises(ValueError, match="cannot be decompressed"):
        rs.load(broken)


def test_nothing_is_lost_or_reordered(tmp_path):
    text = "# a comment: 9:9\n+1 1:1 2:0 4:-3.5 # another 5:5\r\n\n3\n-2.5 qid:7 3:+1\t4:1e2   \n0 2:.5"
    got = rs.load(write(tmp_path / "file", text))
    np.testing.assert_array_equal(got.y, [1, 3, -2.5, 0])
    np.testing.assert_array_equal(got.X.toarray(), [[1, 0, 0, -3.5], [0, 0, 0, 0], [0, 0, 1, 100], [0, 0.5, 0, 0]])
    assert got.X.nnz == 6  # the zero that was written is kept


def test_indices_count_from_zero_only_where_a_zero_occurs(tmp_path):
    assert rs.load(write(tmp_path / "zero", "1 0:1 2:1\n")).X.shape == (1, 3)
    assert rs.load(write(tmp_path / "one", "1 1:1 2:1\n")).X.shape == (1, 2)


def test_from_where_indices_count_is_said_where_it_is_a_guess(tmp_path):
    zero, one = write(tmp_path / "zero", "1 0:1 2:1\n"), write(tmp_path / "one", "1 1:1 2:1\n")
    assert rs.load(zero).notes == ()
    assert rs.load(zero).zero_based is True
    assert rs.load(one).zero_based is False
    assert "they are taken to count from 1; zero_based=True (--zero-based)" in str(rs.load(one))
    told = rs.load(one, zero_based=True)
    np.testing.assert_array_equal(told.X.toarray(), [[0, 1, 1]])
    assert (told.notes, told.zero_based) == ((), True)
    assert rs.load(one, zero_based=False).notes == ()
    with pytest.raises(ValueError, match=r"zero holds an index 0 and is to be read as counting from 1; zero_based=True"):
        rs.load(zero, zero_based=False)
    assert rs.load(write(tmp_path / "none", "1\n2\n")).notes == ()  # nothing to guess
    np.save(tmp_path / "X.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match="only svmlight text does"):
        rs.load(tmp_path / "X.npy", zero_based=True)


def test_files_that_are_read_as_one_count_from_the_same_place(tmp_path):
    parts = [write(tmp_path / "a", "1 1:3\n"), write(tmp_path / "b", "0 0:1 2:5\n")]
    for sources in (parts, parts[::-1]):
        got = rs.load(sources)
        np.testing.assert_array_equal(got.X.toarray()[[sources.index(part) for part in parts]], [[0, 3, 0], [1, 0, 5]])
        assert (got.zero_based, got.notes) == (True, ())


def test_a_number_of_any_length_is_read_whole(tmp_path):
    for digits in (20, 4095, 4096, 4097, 70_000):
        token = "0." + "0" * digits + "1" + "7" * digits + f"e{digits}"
        whole = "3" * digits + f"1e-{digits}"
        got = rs.load(write(tmp_path / "file", f"-{token} 2:{token}# no digit 9\n1 1:{whole}\n"))
        assert got.y[0] == -float(token)
        assert got.X.toarray().tolist() == [[0.0, float(token)], [float(whole), 0.0]]
    with pytest.raises(ValueError, match=r"'1{60}\.\.\.' is too large for a double"):
        rs.load(write(tmp_path / "file", "1 1:" + "1" * 5000))


@pytest.mark.parametrize(
    "token", ["q", "qid", "qid:", "qid:x", "qid:1x", "qid:1.5", "qidd:1", "quality:3", "q1:3", "qid:-", "quit"]
)
def test_only_a_query_is_skipped(tmp_path, token):
    for end in ("", " 3:4\n"):
        with pytest.raises(ValueError, match=f"line 2: expected index:value, found '{token}'"):
            rs.load(write(tmp_path / "file", f"1 1:2\n1 {token}{end}"))
    np.testing.assert_array_equal(rs.load(write(tmp_path / "file", "1 qid:-12 1:2\n2 qid:+3")).X.toarray(), [[2], [0]])


def test_a_few_bytes_cannot_ask_for_more_memory_than_there_is(tmp_path, monkeypatch):
    monkeypatch.setenv("RESHUFFLE_MEMORY", "1G")
    wide = write(tmp_path / "wide", f"1 {2**31 - 2}:1\n")
    complaint = r"wide uses 2147483646 features: a vector of them would take 17.2 GB of memory, and 1.07 GB are free; "
    with pytest.raises(ValueError, match=complaint + r"n_features=2147483646 \(--features 2147483646\) if that is meant, or set"):
        rs.load(wide)
    assert rs.load(wide, n_features=2**31).X.shape == (1, 2**31)
    monkeypatch.setenv("RESHUFFLE_MEMORY", "17G")
    assert rs.load(wide).X.shape == (1, 2**31 - 2)
    monkeypatch.setenv("RESHUFFLE_MEMORY", "20M")
    with pytest.raises(ValueError, match=r"long has up to 2000001 lines and 0 entries: they would take 24 MB"):
        rs.load(write(tmp_path / "long", "1\n" * 2_000_000))
    monkeypatch.setenv("RESHUFFLE_MEMORY", "much")
    with pytest.raises(ValueError, match="RESHUFFLE_MEMORY='much' is not a size"):
        rs.load(wide)


def test_features_that_do_not_occur_can_be_declared(tmp_path):
    path = write(tmp_path / "file", "1 1:1 3:1\n")
    assert rs.load(path, n_features=10).X.shape == (1, 10)
    with pytest.raises(ValueError, match=r"n_features=2, but .* uses 3 features"):
        rs.load(path, n_features=2)


def test_huge_indices_become_int64(tmp_path):
    got = rs.load(write(tmp_path / "file", f"1 1:1 {2**33}:2\n"), n_features=2**33)
    assert got.X.shape == (1, 2**33)
    assert got.X.indices.dtype == np.int64


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("1 1:1\nyes 1:1\n", "line 2: the label 'yes' is not a number"),
        ("1 1:1\n1,2 1:1\n", "line 2: '1,2' is more than one label"),
        ("1 1:1\n1 two:1\n", "line 2: expected index:value, found 'two:1'"),
        ("1 1:1\n1 2\n", "line 2: expected index:value, found '2'"),
        ("1 1:1\n1 -2:1\n", "line 2: expected index:value, found '-2:1'"),
        ("1 1:1\n\n\n1 2:x\n", "line 4: the value in '2:x' is not a number"),
        ("1 1:1 2:\n", "line 1: the value in '2:' is not a number"),
        ("1 1:1 2: 3\n", "line 1: the value in '2:' is not a number"),
        ("1 1:1.5.2\n", "line 1: the value in '1:1.5.2' is not a number"),
        ("1 1:1e\n", "line 1: the value in '1:1e' is not a number"),
        ("1 1:2:3\n", "line 1: the value in '1:2:3' is not a number"),
        ("1 3:1 2:1\n", "line 1: the index in '2:1' is not larger"),
        ("1 3:1 3:1\n", "line 1: the index in '3:1' is not larger"),
        ("1 1:1\n1 1:nan\n", "line 2: '1:nan' is not finite"),
        ("1 1:1\n1 1:-Inf\n", "line 2: '1:-Inf' is not finite"),
        ("1 1:1\nNaN 1:1\n", "line 2: 'NaN' is not finite"),
        ("1 1:1\n1 1:1e999\n", "line 2: '1e999' is too large"),
        ("1 1:1\n1 99999999999999999999999:1\n", "line 2: the index in '99999999999999999999999:1' is too large"),
        ("", "holds no samples"),
        ("# nothing\n\n", "holds no samples"),
        ("\x00\x01\x02", "line 1: the label"),
    ],
)
def test_a_malformed_file_says_where_and_what(tmp_path, text, complaint):
    path = write(tmp_path / "broken", text)
    with pytest.raises(ValueError, match="broken") as error:
        rs.load(path)
    assert complaint in str(error.value)


def test_what_scikit_learn_writes_is_read(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((50, 8)) * (rng.random((50, 8)) < 0.5), rng.integers(0, 3, 50)
    dump_svmlight_file(X, y, str(tmp_path / "file"), zero_based=False, comment="made by scikit-learn")
    assert_same_as_sklearn(tmp_path / "file", zero_based=False)
