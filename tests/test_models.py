"""Model files: what is read is what was written, to the last bit, and nothing else is read."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle.data import Data
from reshuffle.estimators import from_data
from reshuffle.estimators.from_data import rows_for
from reshuffle.models import load, save
from reshuffle.records import checksum
from reshuffle.tables import Columns

X = np.random.default_rng(0).standard_normal((30, 3))
SIGNS = (X[:, 0] > 0).astype(int)


def fitted(y=SIGNS, family="Certified", **parameters):
    kind = getattr(rs, family + ("Regressor" if np.asarray(y).dtype.kind == "f" else "Classifier"))
    return kind(**{"alpha": 0.1, "random_state": 0, **parameters}).fit(X, y)


LABELS = {
    "two numbers": SIGNS,
    "two words": np.array(["ham", "spam"])[SIGNS],
    "true and false": SIGNS.astype(bool),
    "three numbers": np.arange(30) % 3,
    "three words": np.array(["a", "b", "c"])[np.arange(30) % 3],
    "regression": X[:, 0] + 0.1,
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("intercept", [True, False])
def test_a_model_comes_back_to_the_last_bit(labels, intercept, tmp_path):
    model = fitted(LABELS[labels], fit_intercept=intercept)
    save(model, tmp_path / "model.json")
    back = load(tmp_path / "model.json")
    assert type(back) is type(model)
    assert back.get_params() == model.get_params()
    for name in ("coef_", "intercept_", "dual_gap_", "relative_gap_", "n_iter_", "step_size_", "n_features_in_"):
        np.testing.assert_array_equal(getattr(back, name), getattr(model, name))
    np.testing.assert_array_equal(back.predict(X), model.predict(X))
    if hasattr(model, "classes_"):
        assert back.classes_.tolist() == model.classes_.tolist()
        np.testing.assert_array_equal(back.predict_proba(X), model.predict_proba(X))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=4, max_size=4))
def test_every_number_is_exact(tmp_path_factory, numbers):
    model = fitted()
    model.coef_, model.intercept_ = np.array([numbers[:3]]), np.array(numbers[3:])
    path = tmp_path_factory.mktemp("exact") / "model.json"
    save(model, path)
    back = load(path)
    assert back.coef_.tobytes() == model.coef_.tobytes()
    assert back.intercept_.tobytes() == model.intercept_.tobytes()


def test_parameters_survive_in_their_types(tmp_path):
    model = fitted(
        loss="smoothed_hinge:0.1234567890123",
        class_weight={0: 2.0, 1: 0.5},
        family="ShuffledSGD",
        order=np.arange(30),
        tol=10.0,
        callbacks=print,
        verbose=0,
    )
    save(model, tmp_path / "model.json")
    back = load(tmp_path / "model.json")
    assert back.class_weight == {0: 2.0, 1: 0.5}
    assert back.loss == "smoothed_hinge:0.1234567890123"
    assert list(back.order) == list(range(30))
    assert back.callbacks is None
    assert back.step_size_ == model.step_size_


def test_names_of_features_are_kept(tmp_path):
    model = fitted()
    model.feature_names_in_ = np.array(["a", "b", "ç"], dtype=object)
    save(model, tmp_path / "model.json")
    assert load(tmp_path / "model.json").feature_names_in_.tolist() == ["a", "b", "ç"]
    content = json.loads((tmp_path / "model.json").read_text())
    assert (content["format"], content["format_version"], content["reshuffle"]) == ("reshuffle model", 4, rs.__version__)
    assert [path.name for path in tmp_path.iterdir()] == ["model.json"]


def test_what_a_file_cannot_hold_is_refused_and_leaves_the_old_file(tmp_path):
    class Own(rs.losses.Logistic):
        name = "own"

    path = tmp_path / "model.json"
    save(fitted(), path)
    before = path.read_text()
    for model, complaint in [
        (fitted(loss=Own()), "loss='own' is not built in"),
        (fitted(random_state=np.random.RandomState(0)), "random_state=.* cannot be written"),
        (fitted(family="ShuffledSGD", tol=1e-1, step_size=lambda epoch: 0.1), "step_size=.* cannot be written"),
    ]:
        with pytest.raises(ValueError, match=complaint):
            save(model, path)
    assert path.read_text() == before
    with pytest.raises(ValueError, match=r"the folder .* does not exist"):
        save(fitted(), tmp_path / "nowhere" / "model.json")


def signed(content):
    """With a checksum that fits, so that what is inside is looked at."""
    content = {name: value for name, value in content.items() if name != "checksum"}
    return json.dumps({**content, "checksum": checksum(content)})


def damage(**changes):
    def change(content):
        return signed({**content, **changes})

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda content: json.dumps(content)[:300], "is not a model of reshuffle, or not all of one"),
        (lambda content: "", "is not a model of reshuffle, or not all of one"),
        (lambda content: "[1, 2]", "is not a model of reshuffle"),
        (
            lambda content: signed({name: v for name, v in content.items() if name != "coefficients"}),
            "'coefficients' is missing",
        ),
        (lambda content: "[" * 10**5, "nested too deeply"),
        (lambda content: json.dumps({**content, "intercepts": [0.0]}), "its content is not what its checksum says"),
        (damage(format="other"), "is not a model of reshuffle"),
        (damage(format_version=2), "has format version 2 and this reshuffle reads 4; fit it again"),
        (damage(estimator="Forest"), "estimator 'Forest' is not one of"),
        (damage(parameters={"gamma": 1}), "unexpected keyword argument 'gamma'"),
        (damage(parameters={"loss": "squared"}), "loss='squared' is not for classification"),
        (damage(parameters=[1]), "is damaged"),
        (damage(n_features=4), r"coefficients have shape \(1, 3\); the sizes in the file ask for \(1, 4\)"),
        (damage(n_features=0), "n_features is 0"),
        (damage(classes=[0, 1, 2]), "coefficients have shape"),
        (damage(classes=[1, 0]), "classes must be two or more sorted"),
        (damage(classes=[0, "1"]), "classes must be two or more sorted"),
        (damage(classes=None), "classes must be two or more sorted"),
        (damage(coefficients=[["a", 1, 2]]), "coefficients are not numbers"),
        (damage(coefficients=[[1, 2], [3]]), "coefficients are not numbers"),
        (damage(coefficients=[[float("nan"), 1, 2]]), "coefficients are not all finite"),
        (damage(intercepts=[1, 2]), "intercepts have shape"),
        (damage(feature_names=["a"]), "feature_names must be 3 names"),
        (damage(columns={"inputs": []}), "is damaged"),
        (damage(columns=[1]), "is damaged"),
        (
            damage(columns={"target": None, "header": True, "dropped": [], "inputs": [{"kind": "words"}]}),
            "is damaged",
        ),
        (
            damage(columns=Columns.plain(["a", "b", "c"], 3).to_dict()),
            "columns make other features than feature_names",
        ),
        (damage(certified_gap="small"), "certified_gap is 'small'"),
        (damage(zero_based=1), "zero_based is 1"),
        (damage(passes=None), "is damaged"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(change, complaint, tmp_path):
    path = tmp_path / "model.json"
    save(fitted(), path)
    path.write_text(change(json.loads(path.read_text())))
    with pytest.raises(ValueError, match=complaint) as caught:
        load(path)
    assert str(path) in str(caught.value)
    with pytest.raises(FileNotFoundError):
        load(Path("nowhere.json"))


def test_sparse_rows_are_padded_and_wide_ones_refused():
    model, y = fitted(), np.zeros(2)
    padded, labels = rows_for(model, Data(sp.csr_array(X[:2, :2]), y, "t"))
    assert padded.shape == (2, 3)
    assert labels is y
    with pytest.raises(ValueError, match="t has 4 features; the model was trained on 3"):
        rows_for(model, Data(sp.csr_array(np.ones((2, 4))), y, "t"))
    with pytest.raises(ValueError, match="t has 2 features; the model was trained on 3"):
        rows_for(model, Data(X[:2, :2], y, "t"))


def test_what_was_learnt_of_a_table_is_kept_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{x!r},{w},2024-01-{k % 28 + 1:02d},{k % 2}" for k, (x, w) in enumerate(zip(rng.random(60), "abc" * 20, strict=True))]
    (tmp_path / "t.csv").write_text("x,w,day,t\n" + "\n".join([*rows[:-1], ",,,1"]))
    data = rs.load(tmp_path / "t.csv")
    model = from_data.fit(data, "logistic", alpha=0.1, random_state=0)
    save(model, tmp_path / "model.json")
    back = load(tmp_path / "model.json")
    assert back.columns_ == data.columns
    assert back.columns_.names == back.feature_names_in_.tolist() == data.feature_names
    again = from_data.load_for(back, tmp_path / "t.csv")
    assert (again.X != data.X).nnz == 0
    assert again.X.data.tobytes() == data.X.data.tobytes()
    save(back, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "model.json").read_text()


@pytest.mark.parametrize("large", [[2**63, 2**63 + 1], [0, 2**64 - 1], [-(2**63), 2**63 - 1]])
def test_large_classes_stay_apart(tmp_path, large):
    y = np.array(large, dtype=np.uint64 if large[0] >= 0 else np.int64)[SIGNS]
    model = from_data.fit(Data(X, y, "t"), "logistic", alpha=0.1)
    save(model, tmp_path / "model.json")
    assert load(tmp_path / "model.json").classes_.tolist() == large
    assert set(load(tmp_path / "model.json").predict(X).tolist()) == set(large)
    with pytest.raises(ValueError, match=r"t: y holds 9223372036854775808 in row \d+ .* too large a class"):
        from_data.fit(Data(X, np.where(SIGNS, 2.0**63, 0.0), "t"), "logistic", alpha=0.1)


def test_a_model_of_a_matrix_reads_tables_by_name_or_by_place(tmp_path):
    model = fitted()
    (tmp_path / "t.csv").write_text("c,label,b,a\n3,0,2,1\n6,1,5,4\n")
    by_place = from_data.load_for(model, tmp_path / "t.csv", target="label")
    np.testing.assert_array_equal(by_place.X, [[3, 2, 1], [6, 5, 4]])
    model.feature_names_in_ = np.array(["a", "b", "c"], dtype=object)
    by_name = from_data.load_for(model, tmp_path / "t.csv", target="label")
    np.testing.assert_array_equal(by_name.X, [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(by_name.y, [0, 1])


def test_a_model_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no model file .*nothing\.json'; `reshuffle fit"):
        rs.models.load(tmp_path / "nothing.json")
