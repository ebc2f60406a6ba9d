"""Results as data frames: what stands in them, and what is said where pandas is not installed."""

import sys

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.experiments.typesetting import Table

X = np.random.default_rng(0).standard_normal((12, 3))


@pytest.mark.parametrize(("loss", "names"), [("squared", ["lhat", "ltil"]), ("absolute", ["ghat", "gtil"])])
def test_constants_have_a_row_for_each_permutation(loss, names):
    c = rs.constants(rs.Problem(X, np.ones(12), loss=loss), batch_size=2, permutations=7)
    frame = c.to_frame()
    assert list(frame.columns) == [*names, "products", "residual"]
    assert frame.index.name == "permutation"
    assert frame.index.tolist() == list(range(7))
    np.testing.assert_array_equal(frame[names[0]], c.hat)
    np.testing.assert_array_equal(frame[names[1]], c.til)
    assert frame["products"].dtype == np.int64


def test_tables_keep_numbers_as_numbers():
    frame = Table("t", "", {"x": "", "y": ""}, [["a", 1.5], ["b", None]]).to_frame()
    assert frame["x"].tolist() == ["a", "b"]
    assert frame["y"].dtype == np.float64
    assert frame["y"].isna().tolist() == [False, True]


def test_without_pandas_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"to_frame\(\) needs pandas: pip install pandas"):
        rs.constants(X, order="ig").to_frame()
