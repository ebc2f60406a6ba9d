"""The estimators: scikit-learn's contract, the certificate, and what weights, classes and starting points mean."""

import pickle
import warnings
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import reshuffle as rs
from reshuffle.estimators import certified
from reshuffle.estimators.classification import _classes_of
from reshuffle.losses import LOSSES, Loss
from reshuffle.theory import measure

Classifier, Regressor = rs.CertifiedClassifier, rs.CertifiedRegressor
CLASSIFICATION = [name for name, kind in LOSSES.items() if kind.task == "classification"]
REGRESSION = [name for name, kind in LOSSES.items() if kind.task == "regression"]
SMOOTH = [name for name, kind in LOSSES.items() if name != "unit" and kind().smoothness is not None]
ALPHA = 0.05


def estimator(loss, **parameters):
    kind = Classifier if loss in CLASSIFICATION else Regressor
    return kind(loss, **{"alpha": ALPHA, "random_state": 0, **parameters})


def shuffled(loss, **parameters):
    kind = rs.ShuffledSGDClassifier if loss in CLASSIFICATION else rs.ShuffledSGDRegressor
    return kind(loss, **{"alpha": ALPHA, "random_state": 0, **parameters})


def samples(loss="logistic", n=40, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) + 0.3
    return X, (z > 0).astype(int) if loss in CLASSIFICATION else z


def problem_of(model, X, y, weights=None):
    """The mathematics of a model for two classes or numbers; weights normalised by hand."""
    if weights is not None:
        weights = weights * np.count_nonzero(weights) / np.sum(weights)
    signs = np.where(y == model.classes_[1], 1.0, -1.0) if hasattr(model, "classes_") else y
    return rs.Problem(X, signs, loss=model.loss, alpha=model.alpha, sample_weight=weights, fit_intercept=model.fit_intercept)


def point(model):
    return np.append(model.coef_, model.intercept_ if model.fit_intercept else [])


def optimum(problem):
    """min f to high accuracy: by Newton, or with kinks as a quadratic program with xi_i above the straight pieces of each loss."""
    if problem.smoothness is not None:
        return measure(problem).f
    n, k = problem.n, problem.dimension
    A = np.hstack([problem.X, np.ones((n, k - problem.d))])
    low, high = problem.dual_bounds
    slopes = np.concatenate([low, np.zeros(n), high])
    heights = np.concatenate([-problem.conjugates(u) for u in (low, np.zeros(n), high)])
    pieces = np.hstack([-slopes[:, None] * np.tile(A, (3, 1)), np.tile(np.eye(n), (3, 1))])
    ridge, cost = (
        np.r_[np.full(problem.d, problem.alpha), np.zeros(k - problem.d + n)],
        np.r_[np.zeros(k), problem.sample_weight / n],
    )
    found = scipy_minimize(
        lambda v: 0.5 * v @ (ridge * v) + cost @ v,
        np.r_[np.zeros(k), problem.losses(np.zeros(n))],
        jac=lambda v: ridge * v + cost,
        constraints={"type": "ineq", "fun": lambda v: pieces @ v - heights, "jac": lambda v: pieces},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return problem.objective(found.x[:k])


def assert_same_optimum(one, other):
    """Two certified models of one problem are no farther apart than strong convexity lets them be."""
    radius = sum(np.sqrt(2.0 * (np.max(model.dual_gap_) + 1e-15) / model.alpha) for model in (one, other))
    assert np.linalg.norm(one.coef_ - other.coef_, axis=-1).max() <= radius


# Scikit-learn's contract


CONTRACT = [Classifier(loss) for loss in CLASSIFICATION] + [Regressor(loss) for loss in REGRESSION]


SGD_CONTRACT = [
    *(rs.ShuffledSGDClassifier(), rs.ShuffledSGDRegressor()),
    *(rs.ShuffledSGDClassifier(order="balanced"), rs.ShuffledSGDRegressor(order="balanced")),
]
MORE_STEPS = "an epoch over copies of a row takes more steps than over one with a weight"
NOT_OF_SGD = {
    "check_sample_weight_equivalence_on_dense_data": MORE_STEPS,
    "check_sample_weight_equivalence_on_sparse_data": MORE_STEPS,
    "check_class_weight_classifiers": "weights of 1000 and 0.0001 leave the theory a step that takes more than 100 epochs",
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(SGD_CONTRACT, expected_failed_checks=lambda model: NOT_OF_SGD)
def test_scikit_learns_own_checks_of_algorithm_1(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(CONTRACT)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# The certificate


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", CLASSIFICATION + REGRESSION)
def test_the_dual_gap_bounds_the_distance_to_a_high_accuracy_optimum(loss, intercept, weighted):
    X, y = samples(loss)
    weights = np.random.default_rng(1).integers(0, 4, size=y.size).astype(float) if weighted else None
    model = estimator(loss, fit_intercept=intercept, tol=1e-2).fit(X, y, weights)
    problem = problem_of(model, X, y, weights)
    reached, best = problem.objective(point(model)), optimum(problem)
    assert best - 1e-9 <= reached
    assert reached - best <= model.dual_gap_ + 1e-9
    blank = rs.Problem(
        np.zeros((problem.n, 1)), problem.y, loss=loss, alpha=1.0, sample_weight=problem.sample_weight, fit_intercept=intercept
    )
    constant = optimum(blank)
    assert reached - best <= 1e-2 * (constant - best) + 1e-9
    assert model.relative_gap_ <= 1e-2
    assert model.history_[-1].gap == model.dual_gap_
    assert model.n_iter_ == len(model.history_)


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), loss=st.sampled_from(CLASSIFICATION + REGRESSION), certified=st.booleans())
def test_no_point_is_better_than_the_certificate_allows(seed, loss, certified):
    X, y = samples(loss, n=20, d=2, seed=seed)
    y[:2] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = (estimator(loss, max_iter=10) if certified else shuffled(loss, step_size=0.05, epochs=10)).fit(X, y)
    problem = problem_of(model, X, y)
    floor = problem.objective(point(model)) - model.dual_gap_
    for away in np.random.default_rng(seed).standard_normal((20, 3)):
        assert problem.objective(point(model) + 0.1 * away) >= floor - 1e-9


def test_the_optimum_is_that_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours = Classifier(alpha=1e-2, tol=1e-7).fit(X, y)
    theirs = LogisticRegression(C=1.0 / (1e-2 * y.size), tol=1e-10, max_iter=10000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-2)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-2)
    X, y = load_diabetes(return_X_y=True)
    ours, theirs = Regressor(alpha=1e-3, tol=1e-9).fit(X, y), Ridge(alpha=1e-3 * y.size).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-2)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-3)


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (partial(estimator, "absolute", max_iter=1), "a larger max_iter"),
        (partial(shuffled, "logistic", epochs=1), "more epochs"),
        (partial(shuffled, "squared", epochs=1), "more epochs"),
    ],
)
def test_too_few_passes_end_in_a_warning_with_the_gap_and_a_remedy(make, remedy):
    model = make(alpha=1e-6, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match=rf"after 1 passes with a certified relative gap of .* tol=1e-09\. Use {remedy}"):
        model.fit(*samples(model.loss))
    assert model.dual_gap_ > 0.0


# Weights and classes


@pytest.mark.parametrize("loss", CLASSIFICATION + REGRESSION)
def test_a_weight_counts_copies_of_a_row_and_none_removes_it(loss):
    X, y = samples(loss)
    counts = np.random.default_rng(2).integers(0, 4, size=y.size)
    accurate = estimator(loss, tol=1e-6, max_iter=5000)
    assert_same_optimum(clone(accurate).fit(X, y, counts), clone(accurate).fit(X.repeat(counts, axis=0), y.repeat(counts)))
    kept = (counts > 0).astype(float)
    removed = clone(accurate).fit(X[counts > 0], y[counts > 0])
    np.testing.assert_array_equal(clone(accurate).fit(X, y, kept).coef_, removed.coef_)
    assert_same_optimum(clone(accurate).fit(sp.csr_array(X), y, kept), removed)


@settings(max_examples=10)
@given(scale=st.floats(1e-6, 1e6), loss=st.sampled_from(SMOOTH))
def test_only_the_ratios_of_weights_matter(scale, loss):
    X, y = samples(loss)
    weights = np.linspace(0.5, 2.0, y.size)
    assert_same_optimum(estimator(loss, tol=1e-6).fit(X, y, weights), estimator(loss, tol=1e-6).fit(X, y, scale * weights))


def test_class_weights_multiply_sample_weights():
    X, y = samples()
    accurate, weights = estimator("logistic", tol=1e-8), np.linspace(0.5, 2.0, y.size)
    by_class = clone(accurate).set_params(class_weight={1: 3.0}).fit(X, y, weights)
    assert_same_optimum(by_class, clone(accurate).fit(X, y, np.where(y == 1, 3.0, 1.0) * weights))
    balanced = clone(accurate).set_params(class_weight="balanced").fit(X, y, weights)
    sums = np.bincount(y, weights)
    assert_same_optimum(balanced, clone(accurate).fit(X, y, weights / sums[y]))
    names = np.array(["no", "yes"])[y]
    assert_same_optimum(by_class, clone(accurate).set_params(class_weight={"yes": 3.0}).fit(X, names, weights))


@pytest.mark.parametrize(
    "y", [[True, False, True], [3, -1, 3, 3], [250, 2, 2], [0.5, 2.0], [1.0, np.nan, 2.0], [0, 1, 2, 1], [7, 7], ["b", "a", "b"]]
)
def test_classes_are_found_without_a_sort_where_there_are_two(y):
    for values in (np.array(y), np.array(y)[::-1]):
        classes, numbers = _classes_of(values)
        expected, inverse = np.unique(values, return_inverse=True)
        np.testing.assert_array_equal(classes, expected)
        np.testing.assert_array_equal(numbers, inverse)
        assert classes.dtype == expected.dtype


def test_several_classes_are_each_against_the_rest_whatever_the_threads():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    one, two = (Classifier(alpha=1e-2, n_jobs=jobs, random_state=3).fit(X, names) for jobs in (None, 2))
    assert one.coef_.shape == (3, 4)
    assert one.intercept_.shape == one.dual_gap_.shape == one.relative_gap_.shape == (3,)
    assert len(one.history_) == 3
    for attribute in ("coef_", "intercept_", "dual_gap_"):
        np.testing.assert_array_equal(getattr(one, attribute), getattr(two, attribute))
    for k, name in enumerate(one.classes_):
        alone = Classifier(alpha=1e-2, random_state=3).fit(X, names == name)
        np.testing.assert_array_equal(alone.coef_[0], one.coef_[k])
    p = one.predict_proba(X)
    single = 1.0 / (1.0 + np.exp(-one.decision_function(X)))
    np.testing.assert_allclose(p, single / single.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.exp(one.predict_log_proba(X)), p)
    assert set(one.predict(X)) <= set(names)
    assert np.isfinite(one.predict_log_proba(1e6 * X)).all()


def test_probabilities_are_there_for_the_logistic_loss_alone():
    X, y = samples()
    assert hasattr(Classifier().fit(X, y), "predict_proba")
    for loss in ("hinge", "squared_hinge", "smoothed_hinge"):
        assert not hasattr(Classifier(loss), "predict_proba")
        assert not hasattr(Classifier(loss), "predict_log_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        Classifier("hinge").predict_proba(X)


# Going on


@pytest.mark.parametrize("family", [estimator, shuffled])
def test_a_warm_start_goes_on_from_the_fit_before(family):
    X, y = samples()
    cold = family("logistic", tol=5e-2).fit(X, y)
    warm = clone(cold).set_params(warm_start=True).fit(X, y)
    again = warm.n_iter_, warm.fit(X, y).n_iter_
    assert again[1] <= again[0]
    assert warm.relative_gap_ <= 5e-2
    warm.set_params(tol=10.0).fit(X[:, :2], y)
    assert warm.coef_.shape == (1, 2)
    warm.fit(X, np.arange(y.size) % 3)
    assert warm.coef_.shape == (3, 3)
    model = family("squared", warm_start=True, tol=1e-1).fit(X, X[:, 0])
    assert model.fit(X, X[:, 0]).relative_gap_ <= 1e-1


@pytest.mark.parametrize("loss", CLASSIFICATION + REGRESSION)
def test_passes_over_parts_of_the_data_approach_the_optimum(loss):
    X, y = samples(loss, n=60)
    model, classes = shuffled(loss), {"classes": [0, 1]} if loss in CLASSIFICATION else {}
    for _ in range(10):
        for part in np.array_split(np.arange(60), 3):
            model.partial_fit(X[part], y[part], **classes)
    assert model.dual_gap_ is None
    assert model.n_iter_ == len(model.history_) == 30
    assert [record.epoch for record in model.history_] == list(range(1, 31))
    problem = problem_of(model, X, y)
    start, best = problem.objective(np.zeros(4)), optimum(problem)
    assert problem.objective(point(model)) - best < 0.25 * (start - best)


def test_a_pass_with_sgd_is_an_epoch_of_algorithm_1():
    X, y = samples()
    model = shuffled("logistic", step_size=lambda epoch: 0.1 / epoch, batch_size=4, order="ig")
    for _ in range(3):
        model.partial_fit(X, y, classes=[0, 1])
    run = rs.minimize(problem_of(model, X, y), order="ig", batch_size=4, step_size=[0.1, 0.05, 0.1 / 3], epochs=3, average="last")
    np.testing.assert_allclose(point(model), run.x, rtol=1e-12)
    assert model.step_size_ == 0.1 / 3


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_passes_go_on_with_the_order_that_the_pass_before_has_made():
    X, y = samples()
    options = {"order": "balanced", "batch_size": 3, "step_size": 0.05}
    model = shuffled("logistic", random_state=7, **options)
    for _ in range(5):
        model.partial_fit(X, y, classes=[0, 1])
    run = rs.minimize(problem_of(model, X, y), epochs=5, seed=7, average="last", **options)
    np.testing.assert_array_equal(point(model), run.x)
    model.partial_fit(X[:30], y[:30])  # other rows begin with a random order
    begun = rs.minimize(problem_of(model, X[:30], y[:30]), epochs=1, seed=7, x0=run.x, average="last", **options)
    np.testing.assert_array_equal(point(model), begun.x)
    model.fit(X, y).partial_fit(X, y)
    again = rs.minimize(problem_of(model, X, y), epochs=1, seed=7, x0=point(clone(model).fit(X, y)), average="last", **options)
    np.testing.assert_array_equal(point(model), again.x)


def test_each_class_has_a_balanced_order_of_its_own_on_any_number_of_threads():
    X, y = load_iris(return_X_y=True)
    options = {"order": "balanced", "batch_size": 4, "step_size": 0.01, "epochs": 6, "tol": 0.0, "random_state": 3}
    with pytest.warns(ConvergenceWarning):
        one, two = (rs.ShuffledSGDClassifier(n_jobs=jobs, **options).fit(X, y) for jobs in (1, 3))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    problem = rs.Problem(X, np.where(y == 2, 1.0, -1.0), alpha=one.alpha, fit_intercept=True)
    run = rs.minimize(problem, order="balanced", batch_size=4, step_size=0.01, epochs=6, seed=3)
    np.testing.assert_array_equal(np.append(one.coef_[2], one.intercept_[2]), run.x)
    passes = [rs.ShuffledSGDClassifier(n_jobs=jobs, **options) for jobs in (1, 3)]
    for model in passes:
        for _ in range(3):
            model.partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(passes[0].coef_, passes[1].coef_)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_pass_may_lack_a_class_and_continues_a_fit(loss):
    X, y = load_iris(return_X_y=True)
    model = rs.ShuffledSGDClassifier(loss, alpha=1e-2, tol=100.0, random_state=0).fit(X, y)
    passes = len(model.history_[0])
    model.partial_fit(X[:50], y[:50])
    assert len(model.history_[0]) == passes + 1
    assert model.coef_.shape == (3, 4)
    with pytest.raises(ValueError, match="y holds 7, which is not among the classes"):
        model.partial_fit(X[:3], [0, 7, 1])
    with pytest.raises(ValueError, match=r"classes=\[0, 1\] differ from \[0, 1, 2\]"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="the first call of partial_fit must name all classes"):
        rs.ShuffledSGDClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="'balanced' needs all rows"):
        rs.ShuffledSGDClassifier(class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])


# Algorithm 1 as a solver


@pytest.mark.parametrize("parameters", [{}, {"order": "so", "batch_size": 7}, {"step_size": 0.05}, {"fit_intercept": False}])
def test_sgd_gives_the_numbers_of_minimize(parameters):
    X, y = samples()
    model = shuffled("logistic", tol=0.0, epochs=5, **parameters)
    with pytest.warns(ConvergenceWarning, match="Use more epochs"):
        model.fit(X, y)
    options = {name: value for name, value in parameters.items() if name != "fit_intercept"}
    run = rs.minimize(problem_of(model, X, y), epochs=5, **options)
    np.testing.assert_array_equal(point(model), run.x)
    assert (model.dual_gap_, model.step_size_, model.n_iter_) == (run.gap, run.steps[0], 5)


def test_sgd_stops_at_the_tolerance():
    X, y = samples()
    model = shuffled("logistic", epochs=1000, tol=1e-2).fit(X, y)
    assert 1 < model.n_iter_ < 1000
    assert model.relative_gap_ <= 1e-2
    problem = problem_of(model, X, y)
    best = optimum(problem)
    constant = optimum(rs.Problem(np.zeros((y.size, 1)), y, alpha=1.0, fit_intercept=True))
    assert all((record.f - best) / (constant - best) <= 1.0 for record in model.history_)
    assert problem.objective(point(model)) - best <= 1e-2 * (constant - best)


def test_sgd_without_a_regulariser_runs_all_epochs_and_certifies_nothing():
    X, y = samples()
    model = shuffled("logistic", alpha=0.0, epochs=7).fit(X, y)
    assert (model.n_iter_, model.dual_gap_, model.relative_gap_) == (7, None, None)
    several = shuffled("logistic", alpha=0.0, epochs=2).fit(X, np.arange(y.size) % 3)
    assert several.dual_gap_ is None
    assert several.step_size_.shape == (3,)


# What a user can get wrong


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (
            partial(Classifier, "squared"),
            "loss='squared' is not for classification; CertifiedClassifier takes logistic, smoothed_hinge",
        ),
        (partial(Regressor, "hinge"), "loss='hinge' is not for regression; CertifiedRegressor takes squared, huber, absolute"),
        (partial(Classifier, "unit"), "loss='unit' is not for classification"),
        (partial(Classifier, "cubic"), "loss='cubic' is not known"),
        (partial(Classifier, alpha=0.0), "alpha=0 leaves no certificate.* use alpha > 0, or ShuffledSGDClassifier"),
        (partial(Classifier, alpha=-1), "alpha=-1 must be zero or a positive number"),
        (partial(Classifier, tol=None), "tol=None must be zero or a positive number"),
        (partial(Classifier, max_iter=0), "max_iter=0 is too small; use 1 or more"),
        (partial(Classifier, n_jobs=0), "n_jobs=0 is not a number of threads"),
        (partial(rs.ShuffledSGDClassifier, order=iter([])), "order is an iterator"),
        (partial(Classifier, class_weight="even"), "class_weight='even' is not known"),
        (partial(Classifier, class_weight={2: 1.0}), "class_weight names 2, which is not among the classes"),
        (partial(Classifier, class_weight={1: 0.0}), "class_weight=0.0 of class 1 must be a positive number"),
        (partial(rs.ShuffledSGDClassifier, batch_size=500), "batch_size=500 is larger than the 40 rows"),
        (partial(rs.ShuffledSGDClassifier, order="random"), "order='random' is not known"),
        (partial(rs.ShuffledSGDClassifier, step_size=-1.0), "step_size is -1.0 in epoch 1"),
        (partial(rs.ShuffledSGDClassifier, "hinge", step_size="budget"), "no theorem covers a loss with kinks and a regulariser"),
        (partial(rs.ShuffledSGDClassifier, epochs=0), "epochs=0 is too small"),
        (partial(Classifier, random_state=-1), "random_state=-1 is too small"),
    ],
)
def test_mistakes_are_refused_with_the_remedy(make, complaint):
    with pytest.raises(ValueError, match=complaint):
        make().fit(*samples())


def test_bad_data_is_refused():
    X, y = samples()
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"X holds .* in row 3"):
            Classifier().fit(np.where(X[3, 1] == X, bad, X), y)
    with pytest.raises(ValueError, match=r"y has 1 class, 0, .* needs two classes"):
        Classifier().fit(X, np.zeros_like(y))
    with pytest.raises(ValueError, match="y has 1 class"):
        Classifier().fit(X, y, sample_weight=y)
    with pytest.raises(ValueError, match="zero"):
        Classifier().fit(X, y, sample_weight=np.zeros(y.size))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        Regressor().fit(X, y, sample_weight=np.full(y.size, -1.0))
    with pytest.raises(ValueError, match="continuous"):
        Classifier().fit(X, X[:, 0])


# What comes in


def as_memory_map(X, folder):
    np.save(folder / "X.npy", X)
    return np.load(folder / "X.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "kind", ["C", "F", "float32", "uint8", "int64", "csr", "csr32", "csr int64", "csc", "coo", "mapped", "list"]
)
def test_any_matrix_is_taken_and_none_is_changed(kind, tmp_path):
    X, y = samples()
    X = np.rint(X * 2) + 5
    reference = estimator("logistic").fit(X, y)
    long = sp.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    taken = {
        "C": X,
        "F": np.asfortranarray(X),
        "float32": X.astype(np.float32),
        "uint8": X.astype(np.uint8),
        "int64": X.astype(np.int64),
        "csr": sp.csr_matrix(X),
        "csr32": sp.csr_array(X.astype(np.float32)),
        "csr int64": long,
        "csc": sp.csc_array(X),
        "coo": sp.coo_array(X),
        "mapped": as_memory_map(X, tmp_path),
        "list": X.tolist(),
    }[kind]
    parts = [getattr(taken, name) for name in ("data", "indices", "indptr") if sp.issparse(taken) and hasattr(taken, name)]
    for array in parts or ([taken] if isinstance(taken, np.ndarray) else []):
        array.flags.writeable = False
    model = estimator("logistic").fit(taken, y)
    np.testing.assert_array_equal(taken.toarray() if sp.issparse(taken) else taken, X)
    assert model.coef_.dtype == model.intercept_.dtype == model.decision_function(taken).dtype == np.float64
    assert_same_optimum(model, reference)
    np.testing.assert_allclose(model.decision_function(taken), model.decision_function(X), rtol=1e-6)


def test_data_that_can_be_read_where_it_lies_is_not_copied(monkeypatch):
    seen, solve = [], certified.solve
    monkeypatch.setattr(certified, "solve", lambda problem, **options: seen.append(problem) or solve(problem, **options))
    X, y = samples()
    long = sp.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    for lies in (X, X.astype(np.float32), sp.csr_array(X.astype(np.float32)), long):
        Classifier(alpha=ALPHA).fit(lies, np.arange(y.size) % 3)
        for problem in seen:
            for name in ("data", "indices", "indptr"):
                if sp.issparse(lies):
                    assert np.shares_memory(getattr(problem.X, name), getattr(lies, name))
            assert sp.issparse(lies) or np.shares_memory(problem.X, lies)
        assert len(seen) == 3
        seen.clear()


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_bring_the_names_of_their_columns(frame):
    X, y = samples()
    named = frame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2]})
    model = estimator("logistic").fit(named, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.coef_, estimator("logistic").fit(X, y).coef_)
    np.testing.assert_array_equal(model.predict(named), estimator("logistic").fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame({"a": X[:, 0], "b": X[:, 1], "z": X[:, 2]}))


def test_names_of_columns_go_with_the_data_that_had_them():
    X, y = samples()
    for other in (X, sp.csr_array(X), rs.rows.as_rows(X)):
        model = estimator("logistic").fit(pd.DataFrame(X, columns=["a", "b", "c"]), y).fit(other, y)
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("labels", [np.asarray, list])
@pytest.mark.parametrize("weights", [None, np.arange(40.0)])
def test_a_damaged_matrix_is_refused_whatever_comes_with_it(labels, weights):
    X, y = samples()
    X = sp.csr_array(X)
    X.indices[7] = 3
    with pytest.raises(ValueError, match=r"index 3 at place 7 is outside of 0\.\.2"):
        estimator("logistic").fit(X, labels(y), weights)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_label_that_is_no_number_is_no_class(value):
    X, y = samples()
    y = y.astype(float)
    y[3] = value
    for data in (X, sp.csr_array(X), rs.rows.as_rows(X), X.tolist()):
        with pytest.raises(ValueError, match=r"y contains (NaN|infinity)"):
            estimator("logistic").fit(data, y)


def test_pickles_and_clones():
    X, y = samples()
    model = Classifier("smoothed_hinge:0.5", alpha=ALPHA, random_state=1).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    assert copy.history_ == model.history_
    assert clone(model).get_params() == model.get_params()


def test_the_same_seed_gives_the_same_model():
    X, y = samples()
    for family in (estimator, partial(shuffled, tol=1.0)):
        one, two = (family("logistic", random_state=5).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(one.coef_, two.coef_)
    Classifier(alpha=ALPHA, random_state=np.random.RandomState(0)).fit(X, y)
    Classifier(alpha=ALPHA, random_state=None).fit(X, y)


@dataclass(frozen=True)
class Twice(Loss):
    """(z - y)^2, a loss of the user's own."""

    name: ClassVar[str] = "twice"
    task: ClassVar[str] = "regression"

    @property
    def smoothness(self):
        return 2.0

    @staticmethod
    def value(z, y, parameter):
        return (z - y) * (z - y)

    @staticmethod
    def derivative(z, y, parameter):
        return 2.0 * (z - y)

    @staticmethod
    def conjugate(u, y, parameter):
        return 0.25 * u * u + u * y


def test_a_loss_of_the_users_own():
    X, y = samples("squared")
    own, known = Regressor(Twice(), alpha=0.2, tol=1e-8).fit(X, y), Regressor(alpha=0.1, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(own.predict(X), known.predict(X), atol=1e-2)
    assert clone(own).loss == Twice()
    with pytest.raises(ValueError, match="loss='twice' is not for classification"):
        Classifier(Twice()).fit(X, y > 0)


# At work with the rest of scikit-learn


def test_it_works_inside_the_tools_of_scikit_learn():
    X, y = load_breast_cancer(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), Classifier(alpha=1e-2, random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.95
    search = GridSearchCV(pipeline, {"certifiedclassifier__alpha": [1e-1, 1e-2]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.95
    calibrated = CalibratedClassifierCV(make_pipeline(StandardScaler(), Classifier("squared_hinge", alpha=1e-2)), cv=2).fit(X, y)
    assert calibrated.score(X, y) > 0.95
    assert calibrated.predict_proba(X).shape == (569, 2)


def test_each_pass_is_printed_and_handed_to_the_callbacks(capsys):
    X, y = samples()
    seen, also = [], []
    model = shuffled("logistic", verbose=1, callbacks=[seen.append, also.append], tol=1e-1).fit(X, y)
    assert seen == also == model.history_
    assert len(capsys.readouterr().out.splitlines()) == model.n_iter_
    estimator("logistic", verbose=1, callbacks=seen.append).fit(X, np.arange(y.size) % 3)
    assert {line.split(":")[0] for line in capsys.readouterr().out.splitlines()} == {"class 0", "class 1", "class 2"}
    rs.ShuffledSGDRegressor(callbacks=seen.append, tol=10.0).fit(X, y).partial_fit(X, y)
    assert seen[-1].gap is None


@pytest.mark.parametrize("kind", [rs.CertifiedClassifier, partial(rs.ShuffledSGDClassifier, epochs=3)])
@pytest.mark.parametrize("light", [1e-300, 5e-324, 1e-30])
@pytest.mark.parametrize("heavy", [1.0, 1e300, 1.7e308])
def test_a_weight_that_is_too_small_to_be_told_from_zero_keeps_its_row_and_its_label(kind, light, heavy):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.where(X[:, 0] > 0, "b", "a")
    weights = np.where(np.arange(40) % 4 == 1, light, heavy)
    options = {"alpha": 1e-2, "tol": 1e6, "random_state": 0}
    model = kind(**options).fit(X, y, weights)
    plain = kind(**options).fit(X, y, np.where(weights == heavy, 1.0, 2.0**-1000))
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-9)
    by_class = rs.CertifiedClassifier(**options, class_weight={"a": 1e-200, "b": 1e200}).fit(X, y, weights)
    assert np.isfinite(by_class.coef_).all()
    assert (by_class.predict(X) == "b").mean() > 0.9
