"""Vectors of a wrong length, with NaN or of another problem are refused before a compiled loop reads them."""

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle.orders import Order, balanced, discrepancy, make_order
from reshuffle.solver.certified import solve

N, D = 12, 3
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D))
Y = np.where(X[:, 0] > 0.1, 1.0, -1.0)
PROBLEMS = [rs.Problem(A, Y, alpha=0.1, fit_intercept=b) for A in (X, sp.csr_array(X)) for b in (False, True)]


def other(n):
    return rs.Problem(RNG.standard_normal((n, D)), np.arange(n) % 2, alpha=0.1)


OF_X = {
    "margins": lambda p, x: p.margins(x),
    "objective": lambda p, x: p.objective(x),
    "objective_at": lambda p, x: p.objective_at(np.zeros(N), x),
    "regulariser": lambda p, x: p.regulariser(x),
    "gradient": lambda p, x: p.gradient(x),
    "squared_sample_gradients": lambda p, x: p.squared_sample_gradients(x),
    "prefix_norms": lambda p, x: p.prefix_norms(x, np.arange(N)),
    "duality_gap": lambda p, x: rs.duality_gap(p, x),
    "minimize": lambda p, x: rs.minimize(p, x0=x, step_size=0.1, epochs=1),
    "solve": lambda p, x: solve(p, x0=x),
    "measure": lambda p, x: rs.theory.measure(p, x),
    "discrepancy": lambda p, x: discrepancy(p, "ig", x=x),
}
OF_SAMPLES = {
    "transposed": lambda p, u: p.transposed(u),
    "losses": lambda p, u: p.losses(u),
    "duals": lambda p, u: p.duals(u),
    "curvatures": lambda p, u: p.curvatures(u),
    "conjugates": lambda p, u: p.conjugates(u),
    "objective_at": lambda p, u: p.objective_at(u, np.zeros(p.dimension)),
    "dual_objective_along": lambda p, u: p.dual_objective_along(u)(1.0),
    "duality_gap": lambda p, u: rs.duality_gap(p, np.zeros(p.dimension), u),
    "balanced": lambda p, u: balanced(p, u),
}


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("name", OF_X)
def test_points_of_a_wrong_length_or_with_nan_are_refused(problem, name):
    size = problem.dimension
    wrong = [np.zeros(size - 1), np.zeros(size + 1), np.zeros(0), np.zeros((size, 1)), np.zeros(10**6), 0.0, "x"]
    wrong += [np.full(size, np.nan), np.full(size, np.inf), np.ma.masked_equal(np.zeros(size), 0.0), np.full(size, 1j)]
    for x in wrong:
        with pytest.raises(ValueError, match=r"^x0? "):
            OF_X[name](problem, x)
    OF_X[name](problem, [0.0] * size)  # numbers in a list are as good as an array


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("name", OF_SAMPLES)
def test_values_of_samples_of_a_wrong_length_or_with_nan_are_refused(problem, name):
    for values in (np.zeros(N - 1), np.zeros(N + 1), np.zeros(0), np.zeros((N, 1)), 0.0, np.full(N, np.nan), [None] * N):
        with pytest.raises(ValueError, match=r"^(u|z|dual) "):
            OF_SAMPLES[name](problem, values)
    OF_SAMPLES[name](problem, np.zeros(2 * N)[::2])


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_rows_that_are_not_there_are_refused(problem):
    for rows in ([N], [-1], [0.5], [], [[0]], np.arange(N) == 1):
        with pytest.raises(ValueError, match="no list of rows"):
            problem.take(rows)
        with pytest.raises(ValueError, match="no list of rows"):
            problem.prefix_norms(np.zeros(problem.dimension), rows)


def test_an_order_made_by_hand_is_checked_as_one_that_is_given():
    scheme = make_order(np.arange(N), N, 0).scheme
    for given in (np.arange(N) + 1, np.arange(N - 1), np.zeros(N, dtype=int), np.arange(float(N)), [10**9] * N):
        with pytest.raises(ValueError, match=r"^order "):
            Order("given", N, 0, scheme, given=given)


@pytest.mark.parametrize("name", ["so", "ig", "given", "listed"])
def test_an_order_that_was_changed_behind_its_back_is_refused(name):
    made = {"given": np.arange(N), "listed": [np.arange(N)] * 2}.get(name, name)
    rule = make_order(made, N, 0)
    rule.permutation(0)[3] = 10**9
    for use in (lambda: rs.minimize(PROBLEMS[0], order=rule, step_size=0.1, epochs=2), lambda: rs.constants(X, order=rule)):
        with pytest.raises(ValueError, match="order is not a permutation"):
            use()


def test_an_order_or_a_run_of_other_data_is_refused():
    run = rs.minimize(other(N + 4), step_size=0.1, epochs=2, order="balanced")
    optimum = rs.theory.measure(PROBLEMS[0])
    with pytest.raises(ValueError, match="order is one of 16 samples; the data has 12 rows"):
        rs.minimize(PROBLEMS[0], order=run.rule, step_size=0.1)
    with pytest.raises(ValueError, match="run visited 16 samples and the problem has 12"):
        rs.Guarantee.of(PROBLEMS[0], run, optimum)
    wide = rs.theory.measure(rs.Problem(np.hstack([X, X]), Y, alpha=0.1))
    own = rs.minimize(PROBLEMS[0], step_size=0.1, epochs=2, order="ig")
    with pytest.raises(ValueError, match=r"^x has shape \(6,\)"):
        rs.Guarantee.of(PROBLEMS[0], own, wide)


def test_a_problem_is_not_changed_in_place():
    problem = rs.Problem(X, Y)
    for name in ("rows", "y", "sample_weight", "loss", "alpha", "fit_intercept"):
        with pytest.raises(AttributeError, match=f"replace\\({name}=...\\) makes another"):
            setattr(problem, name, None)


@pytest.mark.parametrize("alpha", ["0.1", None, [0.1, 0.2], -1.0, np.nan, np.inf, 1j])
def test_alpha_is_zero_or_a_positive_number(alpha):
    with pytest.raises(ValueError, match=r"^alpha=.* must be zero or a positive number"):
        rs.Problem(X, Y, alpha=alpha)
    assert rs.Problem(X, Y, alpha=np.float32(0.5)).alpha == 0.5


@pytest.mark.parametrize("answer", ["no", "False", "", None, 2, 0.5, [True]])
def test_an_intercept_is_asked_for_by_true_or_false(answer):
    with pytest.raises(ValueError, match=r"^fit_intercept=.* must be True or False"):
        rs.Problem(X, Y, fit_intercept=answer)
    with pytest.raises(ValueError, match=r"^fit_intercept=.* must be True or False"):
        rs.CertifiedClassifier(alpha=0.1, fit_intercept=answer).fit(X, Y)
    assert [rs.Problem(X, Y, fit_intercept=yes).dimension for yes in (1, np.bool_(True), 0, False)] == [D + 1, D + 1, D, D]


@pytest.mark.parametrize("kind", ["M8[D]", "M8[ns]", "m8[s]"])
def test_dates_are_no_numbers_to_predict(kind):
    with pytest.raises(ValueError, match=r"^y has dtype .* predicts numbers: make days or seconds of it first"):
        rs.Problem(X, np.arange(N).astype(kind), loss="squared")


def test_rows_that_differ_in_length_are_no_matrix():
    with pytest.raises(ValueError, match=r"^X is no matrix: .*use rows of the same length"):
        rs.Problem([[1.0, 2.0], [3.0]], [0, 1])
