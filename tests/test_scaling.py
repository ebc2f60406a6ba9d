"""Scaling as part of the problem: what it does to the data, what it leaves of it in the units of the file, and how it is chosen."""

import csv
import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import reshuffle as rs
from reshuffle import models
from reshuffle.estimators import from_data
from reshuffle.rows import in_memory, memory
from reshuffle.rows.centred import CentredRows
from reshuffle.scaling import KINDS, Scaling, choice
from tests.rows.test_rows import ListRows
from tests.test_cli import run
from tests.test_models import signed

N, D = 60, 5


def mixed(seed=0):
    """Numbers with a large mean, zeros and ones, a constant, zeros, and numbers of either sign."""
    rng = np.random.default_rng(seed)
    ones, signed = (rng.random(N) < 0.2) * 1.0, rng.standard_normal(N) * (rng.random(N) < 0.5)
    return np.column_stack([2000.0 + 7.0 * rng.standard_normal(N), ones, np.full(N, 3.7), np.zeros(N), signed])


def by_hand(X, kind):
    """The definitions, in so many words."""
    if kind == "maxabs":
        size = np.abs(X).max(axis=0)
        return X / np.where(size > 0, size, 1.0)
    if kind == "std":
        spread = X.std(axis=0)
        constant = X.max(axis=0) == X.min(axis=0)
        return np.where(constant, 0.0, (X - X.mean(axis=0)) / np.where(constant, 1.0, spread))
    if kind == "rows":
        return X / np.linalg.norm(X, axis=1, keepdims=True)
    return X


FORMS = {
    "dense": np.asarray,
    "csr": sp.csr_array,
    "csc matrix": sp.csc_matrix,
    "own storage": ListRows,
    "mapped": np.asfortranarray,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
def test_every_kind_is_what_it_is_by_definition(kind, form):
    X, made = mixed(), FORMS[form](mixed())
    scaling = rs.scale(made, kind)
    rows = scaling.apply(made)
    np.testing.assert_allclose(rows.csr().toarray(), by_hand(X, kind), rtol=1e-12, atol=1e-12)
    assert (scaling.kind, scaling.reason) == (kind, "")
    x = np.random.default_rng(1).standard_normal(D)
    np.testing.assert_allclose(rows.margins(x), by_hand(X, kind) @ x, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", memory.DENSE_TYPES)
def test_small_types_become_single_precision_and_double_stays(kind):
    X = np.abs(mixed()).round().clip(0, 100).astype(kind)
    rows = rs.scale(X, "std").apply(X)
    assert rows.matrix.dtype == (np.float64 if kind is np.float64 else np.float32)
    np.testing.assert_allclose(rows.matrix, by_hand(X.astype(float), "std"), rtol=1e-6, atol=1e-6)
    sparse = sp.csr_array(X.astype(np.float32))
    assert rs.scale(sparse, "rows").apply(sparse).matrix.dtype == np.float32


def test_sparse_data_is_not_made_dense():
    """A column without a gap is centred where it lies; of the others the centre is kept beside them."""
    X = sp.csr_array(mixed())
    rows = rs.scale(X, "std").apply(X)
    assert isinstance(rows, CentredRows)
    assert rows.entries == X.nnz
    assert np.shares_memory(rows.matrix.indices, X.indices)
    assert (rows.centre != 0.0).tolist() == [False, True, False, False, True]
    assert np.abs(rows.matrix.toarray()[:, 0]).max() < 5.0  # 2000 is gone
    full = sp.csr_array(mixed()[:, [0, 2]])
    assert type(rs.scale(full, "std").apply(full)) is memory.SparseRows
    assert rs.scale(X, "none").apply(X).matrix is X


@given(st.integers(0, 2**32 - 1), st.sampled_from([1e-300, 1e-120, 1e-3, 1.0, 1e8, 1e150, 1e307]), st.booleans())
def test_numbers_of_any_size_give_the_same(seed, unit, sparse):
    """Columns of 1e307 have squares, and columns of 1e-300 reciprocals, that are no numbers."""
    X = mixed(seed)[:, [1, 4]]
    scaled = X * [unit, 1.0]
    made = sp.csr_array(scaled) if sparse else scaled
    for kind in ("std", "maxabs"):
        scaling = rs.scale(made, kind)
        found = scaling.apply(made).csr().toarray()
        assert np.isfinite(found).all()
        coefficients, intercept = scaling.in_units(np.ones(2), 1.0)
        assert np.isfinite([*coefficients, intercept]).all()
        if unit > 1e-150:
            np.testing.assert_allclose(found, by_hand(X, kind), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(rs.scale(made, "rows").apply(made).csr().toarray(), axis=1), np.any(scaled, axis=1))


@pytest.mark.parametrize("sparse", [False, True])
def test_a_large_mean_costs_no_digits(sparse):
    """A million million, and a spread of one: squares of such numbers would have no digit left for the spread."""
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 10, 500).astype(float)
    X = np.column_stack([1e12 + steps, rng.random(500) < 0.5])
    made = sp.csr_array(X) if sparse else X
    rows = rs.scale(made, "std").apply(made)
    want = by_hand(np.column_stack([steps, X[:, 1]]), "std")
    np.testing.assert_allclose(rows.csr().toarray(), want, atol=1e-4)  # the mean itself is known to that
    np.testing.assert_allclose(rows.squared_norms(), (rows.csr().toarray() ** 2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_points_in_the_units_of_the_data_have_the_same_margins(kind, sparse, intercept):
    X = mixed() + 0.0
    made = sp.csr_array(X) if sparse else X
    problem = rs.Problem(made, np.arange(N) % 2, fit_intercept=intercept)
    scaling = rs.scale(problem, kind)
    scaled = scaling.apply(problem)
    assert scaled.fit_intercept == intercept
    x = np.random.default_rng(1).standard_normal(problem.dimension)
    back = scaling.point_in_units(x)
    A = by_hand(X, "rows") if kind == "rows" else X
    margins = A @ back[:D] + (back[D] if back.size > D else 0.0)
    np.testing.assert_allclose(margins, scaled.margins(x), rtol=1e-9, atol=1e-9)
    assert back.size == D + (intercept or kind == "std")


def labelled(sparse, seed=3):
    X = mixed(seed)
    rng = np.random.default_rng(seed)
    score = (X[:, 0] - 2000.0) / 7.0 + X[:, 1] - X[:, 4] + 0.3 * rng.standard_normal(N)
    data = rs.Data(sp.csr_array(X) if sparse else X, np.where(score > 0.2, "yes", "no"), "t")
    return data, rs.Data(data.X, score, "t")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_a_scaled_fit_predicts_raw_data_and_is_certified_for_the_scaled_problem(kind, sparse, intercept, tmp_path):
    options = {"alpha": 1e-2, "tol": 1e-9, "fit_intercept": intercept, "random_state": 0}
    for data, loss in zip(labelled(sparse), ("logistic", "squared"), strict=True):
        model = from_data.fit(data, loss, kind, **options)
        A = by_hand(data.X.toarray() if sparse else data.X, kind)
        plain = type(model)(loss, **options).fit(A, data.y)
        assert model.dual_gap_ <= 1e-9 * 10
        problem = rs.Problem(A, data.y, loss=loss, alpha=1e-2, fit_intercept=intercept)
        reached = rs.theory.measure(problem).f
        x = np.append(plain.coef_, plain.intercept_)[: problem.dimension]
        assert problem.objective(x) - reached <= plain.dual_gap_ + 1e-12
        scores = (lambda m, Z: m.decision_function(Z)) if loss == "logistic" else (lambda m, Z: m.predict(Z))
        np.testing.assert_allclose(scores(model, data.X), scores(plain, A), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(scores(model, in_memory(data.X)), scores(model, data.X), rtol=1e-9, atol=1e-9)
        models.save(model, tmp_path / "m.json")
        back = models.load(tmp_path / "m.json")
        assert back.scaling_.kind == kind
        np.testing.assert_array_equal(scores(back, data.X), scores(model, data.X))


def test_training_again_forgets_how_another_model_was_scaled():
    data, _ = labelled(False)
    model = from_data.fit(data, "logistic", "rows", alpha=1e-2)
    model.fit(data.X, data.y)
    assert not hasattr(model, "scaling_")
    np.testing.assert_allclose(model.decision_function(data.X), data.X @ model.coef_[0] + model.intercept_)


def test_several_classes_are_scaled_as_one_matrix():
    data, _ = labelled(True)
    three = rs.Data(data.X, np.arange(N) % 3, "t")
    model = from_data.fit(three, "logistic", "std", alpha=1e-2, tol=1e-8, random_state=0)
    A = by_hand(data.X.toarray(), "std")
    plain = rs.CertifiedClassifier(alpha=1e-2, tol=1e-8, random_state=0).fit(A, three.y)
    np.testing.assert_allclose(model.decision_function(data.X), plain.decision_function(A), atol=1e-3)
    assert from_data.fit(three, "logistic", "auto", alpha=1e-2).scaling_.reason


def test_constants_and_training_are_those_of_the_explicit_matrix():
    data, _ = labelled(True)
    A = by_hand(data.X.toarray(), "std")
    for loss, alpha in (("logistic", 0.1), ("hinge", 0.0)):
        problem = rs.Problem(data.X, data.y, loss=loss, alpha=alpha, fit_intercept=True, sample_weight=1.0 + np.arange(N) % 3)
        explicit = problem.replace(X=A)
        centred = rs.scale(problem, "std").apply(problem)
        assert isinstance(centred.rows, CentredRows)
        for b in (1, 7, N):
            ours, want = (rs.constants(p, batch_size=b, permutations=3, tol=1e-9) for p in (centred, explicit))
            np.testing.assert_allclose(ours.hat, want.hat, rtol=1e-8)
            np.testing.assert_allclose(ours.til, want.til, rtol=1e-8)
        for order in ("rr", "so", "balanced"):
            runs = [rs.minimize(p, order=order, batch_size=7, step_size=0.05, epochs=4) for p in (centred, explicit)]
            np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-9, atol=1e-11)
        ours, want = (rs.theory.measure(p) for p in (centred, explicit))
        assert ours.f == pytest.approx(want.f, rel=1e-8)
        assert ours.distance == pytest.approx(want.distance, rel=1e-4)


def test_linear_programs_do_not_fill_the_matrix(monkeypatch):
    """Whether data is separable, and the optimum of a loss with kinks, do not change with a centre where there is an intercept."""
    filled = CentredRows.csr
    monkeypatch.setattr(CentredRows, "csr", lambda self: filled(self) if self.n < 40 else pytest.fail("all rows were filled"))
    rng = np.random.default_rng(0)
    X = sp.csr_array(rng.standard_normal((40, 4)) * (rng.random((40, 4)) < 0.6) + [0.0, 0.0, 0.0, 5.0])
    for labels, separable in ((X.toarray() @ [1.0, -1.0, 0.5, 0.1] > 0.4, True), (rng.random(40) < 0.5, False)):
        problem = rs.Problem(X, labels, fit_intercept=True)
        centred = rs.scale(problem, "std").apply(problem)
        assert isinstance(centred.rows, CentredRows)
        if separable:
            with pytest.raises(rs.NoMinimiserError, match="some x separates it"):
                rs.theory.measure(centred)
        else:
            for loss in ("logistic", "hinge"):
                ours, want = (rs.theory.measure(p.replace(loss=loss)) for p in (centred, problem))
                assert ours.f == pytest.approx(want.f, rel=1e-9)


# The choice


def table(n=1500, seed=0):
    """Numbers with large means and unlike units beside words, and a label that depends on all of them."""
    rng = np.random.default_rng(seed)
    year, income, share = rng.integers(1940, 2005, n), 3e4 + 1e4 * rng.standard_normal(n), rng.random(n)
    city = rng.integers(0, 6, n)
    score = (1972 - year) / 19 + (income - 3e4) / 1e4 + 4 * (share - 0.5) + (city - 2.5) / 2
    return year, income, share, city, rng.random(n) < 1 / (1 + np.exp(-1.5 * score))


def problem_of(columns):
    year, income, share, city, y = columns
    X = np.column_stack([year, income, share, *(city == k for k in range(6))]).astype(float)
    return rs.Problem(sp.csr_array(X), y, alpha=1e-4, fit_intercept=True)


def test_auto_standardises_a_mixed_table_and_trains_well():
    problem = problem_of(table())
    scaling = rs.scale(problem)
    assert scaling.kind == "std"
    assert scaling.reason.startswith("after 5 epochs on 1,125 of 1,500 rows the loss on 375 held out is ")
    assert "(none 0.6" in scaling.reason
    scaled = scaling.apply(problem)
    best, raw = rs.theory.measure(scaled).f, rs.theory.measure(problem).f
    gaps = [
        rs.minimize(p, step_size=step, batch_size=8, epochs=10, average="last").f - f
        for p, step, f in ((scaled, 0.05, best), (problem, 1e-9, raw))
    ]
    assert gaps[0] < 0.02 * gaps[1]
    again = rs.scale(problem)
    assert again.reason == scaling.reason
    assert rs.scale(problem, seed=1).reason != scaling.reason


def test_auto_leaves_alone_what_trains_well():
    """Scaling that does not pay is not done, and a centre is no business of a problem without an intercept."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 8))
    y = X @ rng.standard_normal(8) + 0.5 * rng.standard_normal(2000) > 0
    problem = rs.Problem(X, y, alpha=1e-4, fit_intercept=True)
    scaling = rs.scale(problem)
    assert scaling.kind == "none"
    assert scaling.apply(problem).rows is problem.rows
    assert " std " in scaling.reason
    assert " std " not in rs.scale(problem.replace(fit_intercept=False)).reason


def test_auto_divides_rows_of_very_different_lengths():
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((2000, 20))
    y = directions @ rng.standard_normal(20) > 0
    X = directions * np.exp(3.0 * rng.standard_normal((2000, 1)))
    assert rs.scale(rs.Problem(X, y, alpha=1e-4, fit_intercept=True)).kind == "rows"


def test_auto_tries_on_a_sample_and_survives_what_cannot_be_trained_on():
    problem = problem_of(table(9000))
    assert choice.sample(problem, 0).size == 4096
    assert " on 3,072 of 9,000 rows the loss on 1,024 held out is " in rs.scale(problem).reason
    assert " on 150 of 200 rows the loss on those held out, in turns, is " in rs.scale(problem_of(table(200))).reason
    huge = rs.Problem(np.array([[1e300, 1.0], [0.0, 2.0], [-1e300, 1.0], [5e299, 0.0]] * 20), [0, 1, 1, 0] * 20, fit_intercept=True)
    assert rs.scale(huge).kind in ("std", "maxabs")
    for n in (2, 3, 5):
        few = rs.Problem(np.arange(2.0 * n).reshape(n, 2), np.arange(n) % 2, alpha=0.1, fit_intercept=True)
        assert rs.scale(few).kind in KINDS
    assert rs.scale(rs.Problem(np.zeros((9, 2)), np.arange(9) % 2, alpha=0.1)).kind == "none"


@pytest.mark.parametrize("loss", ["hinge", "squared", "huber", "squared_hinge"])
def test_auto_takes_every_loss(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4)) * [1.0, 100.0, 1.0, 0.01] + [0.0, 1000.0, 3.0, 0.0]
    y = np.sign(rng.standard_normal(400))
    assert rs.scale(rs.Problem(X, y, loss=loss, alpha=1e-3, fit_intercept=True)).reason


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda X: rs.scale(X, "standard"), "how='standard' is not known; use one of none, maxabs, std, rows, auto"),
        (
            lambda X: rs.scale(X),
            "how='auto' tries the kinds on a problem; pass an rs.Problem, or use one of none, maxabs, std, rows",
        ),
        (lambda X: rs.scale(rs.Problem(X, loss="unit")), "has constants but no values"),
        (lambda X: rs.scale(X, "std").apply(X[:, 1:]), "X has 4 columns; this scaling was learnt from 5"),
        (lambda X: rs.scale(X * np.nan, "std"), "X holds nan in row 0"),
        (lambda X: rs.scale(rs.Problem(X, np.arange(N) % 2), seed=-1), "seed=-1 is too small"),
        (lambda X: rs.scale(X, "rows").apply(rs.scale(sp.csr_array(X), "std").apply(sp.csr_array(X))), "centred already"),
    ],
)
def test_mistakes_are_named_with_their_remedy(call, complaint):
    with pytest.raises(ValueError, match=complaint):
        call(mixed())


def test_scaled_rows_can_be_scaled_again():
    X = sp.csr_array(mixed())
    once = rs.scale(X, "std").apply(X)
    twice = rs.scale(once, "maxabs").apply(once)
    np.testing.assert_allclose(twice.csr().toarray(), by_hand(by_hand(mixed(), "std"), "maxabs"), atol=1e-12)
    again = rs.scale(once, "std").apply(once)
    np.testing.assert_allclose(again.csr().toarray(), once.csr().toarray(), atol=1e-10)
    np.testing.assert_allclose(once.row_lengths(), np.linalg.norm(by_hand(mixed(), "std"), axis=1))


# Files


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"kind": "auto"}, "how='auto' is not known"),
        ({"size": [1.0]}, "size must be 5 numbers"),
        ({"size": [0.0] * 5}, "sizes of columns are not all above zero"),
        ({"centre": None}, "'std' is not described as one is"),
        ({"reason": 3}, "'std' is not described as one is"),
    ],
)
def test_a_damaged_scaling_is_refused(change, complaint, tmp_path):
    data, _ = labelled(False)
    models.save(from_data.fit(data, "logistic", "std", alpha=1e-2), tmp_path / "m.json")
    content = json.loads((tmp_path / "m.json").read_text())
    content["scaling"] |= change
    (tmp_path / "m.json").write_text(signed(content))
    with pytest.raises(ValueError, match=f"is damaged: .*{complaint}"):
        models.load(tmp_path / "m.json")


def test_a_scaling_goes_through_json_to_the_bit():
    scaling = rs.scale(mixed(), "std")
    back = Scaling.from_dict(json.loads(json.dumps(scaling.to_dict())), D)
    np.testing.assert_array_equal([back.centre, back.size], [scaling.centre, scaling.size])


# Commands


def written(path, columns):
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["year", "income", "share", "city", "bought"])
        for year, income, share, city, bought in zip(*columns, strict=True):
            rows.writerow([year, f"{income:.1f}", f"{share:.4f}", "abcdef"[city], "yes" if bought else "no"])
    return path


def test_fit_and_predict_of_a_mixed_table(tmp_path):
    """Through the real entry point: scaled by default, coefficients in the units of the file, and they are enough to predict."""
    path, model = written(tmp_path / "t.csv", table()), tmp_path / "m.json"
    stdout, stderr = run("fit", path, "--out", model)
    assert ", scale std, " in stdout
    assert stderr.splitlines()[-1].startswith("reshuffle: scale std: after 5 epochs on 1,125 of 1,500 rows")
    content = json.loads(model.read_text())
    named = dict(zip(content["feature_names"], content["coefficients"][0], strict=True))
    assert named["year"] == pytest.approx(-1.5 / 19, rel=0.2)  # as the labels were made
    assert named["income"] == pytest.approx(1.5 / 1e4, rel=0.2)
    assert named["share"] == pytest.approx(6.0, rel=0.2)
    data = rs.load(path)
    scores = data.X @ np.array(content["coefficients"][0]) + content["intercepts"][0]
    printed, said = run("predict", model, path)
    assert printed.split() == np.where(scores > 0, "yes", "no").tolist()
    assert float(said.split()[1]) > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_takes_a_scale(kind, tmp_path, called):
    path = written(tmp_path / "t.csv", table(120))
    data = rs.load(path)
    raw = rs.Problem(data.X, data.y, loss="logistic", alpha=0.1, fit_intercept=True)
    problem = rs.scale(raw, kind).apply(raw)
    words = [path, "--loss", "logistic", "--alpha", 0.1, "--scale", kind]

    def printed(command, *more):
        return json.loads(called(command, *words, *more, "--json")[0])

    found = printed("constants", "--intercept", "--permutations", 3)
    assert found["L"] == pytest.approx(rs.constants(problem, permutations=3).L, rel=1e-9)
    assert found["scaling"] == {"kind": kind, "reason": ""}
    step = rs.plan(problem, permutations=2).promised.step_size
    assert printed("plan", "--permutations", 2)["promised"]["step_size"] == pytest.approx(step, rel=1e-9)
    found = printed("run", "--epochs", 2, "--no-bound", "--step-size", "1e-3")
    x = rs.scale(raw, kind).point_in_units(rs.minimize(problem, step_size=1e-3, epochs=2).x)
    np.testing.assert_allclose(found["x"], x, rtol=1e-12)
    assert found["feature_names"] == data.feature_names
    found = printed("order", "--scheme", "file", "--no-measure")
    assert found["scaling"]["kind"] == kind
    model = tmp_path / "m.json"
    called("fit", *words, "--tol", 1e-8, "--out", model)
    own = rs.CertifiedClassifier(alpha=0.1, tol=1e-8, random_state=0).fit(problem.rows, data.y)
    values = called("predict", model, path, "--proba")[0].splitlines()[1:]
    np.testing.assert_allclose(
        [float(line.split("\t")[1]) for line in values], own.predict_proba(problem.rows)[:, 1], rtol=1e-6, atol=1e-9
    )


def test_pages_say_how_the_data_was_scaled():
    problem = problem_of(table(150))
    scaling = rs.scale(problem)
    made = rs.report(scaling.apply(problem), eps=0.1, permutations=2)
    assert made.to_dict()["dataset"]["scaling"] == {"kind": "std", "reason": scaling.reason}
    said = "<dt>Scaled (std)</dt><dd>every column centred and divided by its standard deviation: after 5 epochs on 112 of 150 rows"
    assert said in made.html()
    assert problem.scaling is None
    assert scaling.apply(problem).take(np.arange(9)).scaling is scaling


def test_a_scale_that_is_not_known_is_refused_before_any_work(called):
    for command in ("constants", "plan", "run", "order", "fit", "report"):
        _, stderr = called(command, "nowhere.csv", "--scale", "zscore", status=2)
        assert stderr == "reshuffle: --scale='zscore' is not known; use one of none, maxabs, std, rows, auto\n"


@pytest.mark.parametrize("X", [np.ones((N, 2)), np.zeros((N, 2)), sp.csr_array((N, 2))], ids=["ones", "zeros", "none"])
def test_columns_that_say_nothing_need_no_scaling(X):
    problem = rs.Problem(X, np.arange(N) % 2, alpha=0.1, fit_intercept=True)
    assert choice.choose(problem, 0).kind == "none"
