"""Alpha by cross-validation: the scores are those of plain fits on copies of the rows, fold by fold, and every fit is certified."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold
from sklearn.utils.estimator_checks import parametrize_with_checks

import reshuffle as rs
from reshuffle.rows import in_memory
from reshuffle.solver.certified import alpha_max

ALPHAS = [0.3, 0.003, 0.03]


def samples(classes=2, n=150, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X @ rng.standard_normal((d, classes)) + rng.standard_normal((n, classes))
    return (X, z[:, 0]) if classes == 1 else (X, z.argmax(axis=1))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_both_solvers_lead_to_the_same_estimators():
    assert rs.ShuffledSGDClassifierCV is rs.CertifiedClassifierCV
    assert rs.ShuffledSGDRegressorCV is rs.CertifiedRegressorCV


@parametrize_with_checks([rs.CertifiedClassifierCV(alphas=3, cv=3), rs.CertifiedRegressorCV(alphas=3, cv=3)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, in_memory])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_plain_fits_on_copies(classes, weighted, storage):
    X, y = samples(classes)
    weights = np.random.default_rng(1).integers(0, 4, y.size) * 1.0 if weighted else None
    model = rs.CertifiedClassifierCV(alphas=ALPHAS, cv=4, scoring="neg_log_loss", tol=1e-8, random_state=0)
    model.fit(storage(X), y, weights)
    np.testing.assert_array_equal(model.alphas_, sorted(ALPHAS, reverse=True))
    own = np.ones(y.size) if weights is None else weights
    for fold, (train, test) in enumerate(StratifiedKFold(4).split(X, y)):
        for a, alpha in enumerate(model.alphas_):
            plain = rs.CertifiedClassifier(alpha=alpha, tol=1e-8, random_state=0).fit(X[train], y[train], own[train])
            want = -log_loss(y[test], plain.predict_proba(X[test]), sample_weight=own[test], labels=model.classes_)
            assert model.scores_[fold, a] == pytest.approx(want, rel=1e-3)
    best = model.scores_.mean(axis=0).argmax()
    assert model.alpha_ == model.alphas_[best]
    assert model.best_score_ == model.scores_.mean(axis=0)[best]
    assert model.fold_relative_gap_.shape == model.scores_.shape
    assert (model.fold_relative_gap_ <= 1e-8).all()
    plain = rs.CertifiedClassifier(alpha=model.alpha_, tol=1e-8, random_state=0).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-2, atol=1e-3)
    assert np.max(model.relative_gap_) <= 1e-8


@pytest.mark.parametrize("weighted", [False, True])
def test_several_classes_as_one_are_scored_as_plain_fits_are(weighted):
    X, y = samples(3)
    weights = np.random.default_rng(1).integers(0, 4, y.size) * 1.0 if weighted else None
    options = {"loss": "multinomial", "tol": 1e-8, "random_state": 0}
    model = rs.CertifiedClassifierCV(alphas=ALPHAS, cv=4, scoring="neg_log_loss", **options).fit(X, y, weights)
    own = np.ones(y.size) if weights is None else weights
    for fold, (train, test) in enumerate(StratifiedKFold(4).split(X, y)):
        for a, alpha in enumerate(model.alphas_):
            plain = rs.CertifiedClassifier(alpha=alpha, **options).fit(X[train], y[train], own[train])
            want = -log_loss(y[test], plain.predict_proba(X[test]), sample_weight=own[test], labels=model.classes_)
            assert model.scores_[fold, a] == pytest.approx(want, rel=1e-3)
    assert (model.fold_relative_gap_ <= 1e-8).all()
    assert model.relative_gap_ <= 1e-8
    plain = rs.CertifiedClassifier(alpha=model.alpha_, **options).fit(X, y, weights)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-2, atol=1e-3)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.best_estimator_.loss == "multinomial"


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_regression_is_scored_by_r2(loss):
    X, y = samples(1)
    model = rs.CertifiedRegressorCV(loss, alphas=ALPHAS, cv=KFold(3), tol=1e-6, random_state=0).fit(X, y)
    for fold, (train, test) in enumerate(KFold(3).split(X)):
        plain = rs.CertifiedRegressor(loss, alpha=model.alphas_[-1], tol=1e-6, random_state=0).fit(X[train], y[train])
        assert model.scores_[fold, -1] == pytest.approx(r2_score(y[test], plain.predict(X[test])), abs=1e-3)
    np.testing.assert_array_equal(model.predict(X), model.best_estimator_.predict(X))
    assert model.best_estimator_.alpha == model.alpha_


@pytest.mark.parametrize("classes", [2, 3])
def test_without_a_scoring_it_is_scikit_learns_accuracy(classes):
    X, y = samples(classes)
    weights = np.random.default_rng(1).integers(0, 4, y.size) * 1.0
    names = np.array(["a", "b", "c"])[y]
    usual, named = (
        rs.CertifiedClassifierCV(alphas=ALPHAS, cv=4, scoring=scoring, random_state=0).fit(X, names, weights)
        for scoring in (None, "accuracy")
    )
    np.testing.assert_allclose(usual.scores_, named.scores_, rtol=1e-12)


def test_a_scoring_of_ones_own_sees_the_rows_and_a_fitted_model():
    X, y = samples()
    seen = []

    def scoring(model, rows, labels):
        seen.append(rows)
        return float(np.mean(model.predict(rows[:5]) == labels[:5]))

    model = rs.CertifiedClassifierCV(alphas=ALPHAS, cv=3, scoring=scoring, random_state=0).fit(X, y)
    assert len(seen) == 3 * len(ALPHAS)
    np.testing.assert_array_equal(seen[0], X[next(StratifiedKFold(3).split(X, y))[1]])
    assert ((model.scores_ >= 0.0) & (model.scores_ <= 1.0)).all()


def test_threads_change_nothing():
    X, y = load_iris(return_X_y=True)
    one, three = (rs.CertifiedClassifierCV(alphas=4, cv=3, random_state=0, n_jobs=jobs).fit(X, y) for jobs in (None, 3))
    np.testing.assert_array_equal(one.scores_, three.scores_)
    np.testing.assert_array_equal(one.coef_, three.coef_)


def test_folds_make_no_copy_of_the_data(monkeypatch):
    X, y = samples(n=400)
    rows = rs.Problem(X, y).rows
    monkeypatch.setattr(type(rows), "take", lambda self, rows: pytest.fail("rows were copied"))
    rs.CertifiedClassifierCV(alphas=2, cv=3, random_state=0).fit(X, y)


def test_of_equal_scores_the_largest_alpha_is_chosen():
    X, y = samples()
    model = rs.CertifiedClassifierCV(alphas=ALPHAS, cv=3, scoring=lambda model, X, y: 1.0, random_state=0).fit(X, y)
    assert model.alpha_ == max(ALPHAS)


def test_the_grid_begins_with_the_largest_of_the_classes():
    X, y = load_iris(return_X_y=True)
    model = rs.CertifiedClassifierCV(alphas=3, cv=3, tol=0.1, random_state=0).fit(X, y)
    largest = max(alpha_max(rs.Problem(X, y == k, fit_intercept=True)) for k in range(3))
    np.testing.assert_allclose(model.alphas_, largest * np.array([1.0, 10**-3.5, 1e-7]))


def test_splits_count_rows_of_weight_zero():
    X, y = samples(n=60)
    weights = np.where(np.arange(60) < 10, 0.0, 1.0)
    splits = list(GroupKFold(3).split(X, groups=np.arange(60) % 3))
    model = rs.CertifiedClassifierCV(alphas=[0.1], cv=splits, tol=1e-8, random_state=0).fit(X, y, weights)
    for (train, test), score in zip(splits, model.scores_[:, 0], strict=True):
        train, test = train[train >= 10], test[test >= 10]
        assert score == rs.CertifiedClassifier(alpha=0.1, tol=1e-8, random_state=0).fit(X[train], y[train]).score(X[test], y[test])


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"alphas": [0.0]}, "alphas="),
        ({"alphas": 0}, "alphas=0"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"tol": -1}, "tol=-1"),
        ({"cv": [(np.arange(5), np.arange(0))]}, "fold 0 has 5 rows to train on and 0 to test on"),
        ({"scoring": "goodness"}, "goodness"),
    ],
)
def test_bad_parameters_are_refused(options, complaint):
    with pytest.raises(ValueError, match=complaint):
        rs.CertifiedClassifierCV(**options).fit(*samples())


def test_a_model_file_keeps_the_model_that_was_chosen(tmp_path):
    X, y = samples()
    model = rs.CertifiedClassifierCV(alphas=ALPHAS, cv=3, random_state=0).fit(X, y)
    rs.models.save(model, tmp_path / "model.json")
    kept = rs.models.load(tmp_path / "model.json")
    assert kept.alpha == model.alpha_
    np.testing.assert_array_equal(kept.predict(X), model.predict(X))
