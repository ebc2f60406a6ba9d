"""Lemmas 3, 6, 9, 12 and 13: T_2 = (eta/n) sum_i (v^(i) - y^(i))' A^(i) (x_k - x_{k-1,i}), for any dual vectors y and v.

The left sides are summed as they are written. T_2 is linear in v and its price quadratic, so the worst v has a closed form, and the
worst y is a singular vector. The right sides are made of the library's own constants and formulas, with (m/b) for the paper's n/b^2
where the last batch is short. On tight problems (all rows along one direction, every batch of the same weight) every step of the
proofs is an equality, so that a factor in either direction shows; random problems then try what is not special.

Three settings share the code: linear predictors with weights, the regulariser as rows of its own, and general functions on R^d.
"""

from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh, null_space

import reshuffle as rs
from reshuffle import theory
from tests.oracle import batches_of, block_rows, later_moves, matrix_of_batches, matrix_of_tails

DIVIDING = [(6, 1), (8, 2), (9, 3), (6, 6)]
RAGGED = [(7, 2), (8, 3), (5, 4)]
EVERY = [(kind, n, b) for kind in ("rows", "sum", "alpha") for n, b in DIVIDING + RAGGED]
EXACT = [case for case in EVERY if case[0] != "alpha" or case[1:] in DIVIDING]  # else the share of alpha in Lhat is an upper bound
SEVERAL = [case for case in EXACT if case[1] > case[2]]  # batches
ETA = 0.3


@dataclass
class Setting:
    A: np.ndarray
    weights: np.ndarray  # of the rows: L_i, or G_i^2
    batches: list
    n: int
    b: int
    c: Any  # the library's constants

    @property
    def m(self):
        return len(self.batches)

    @property
    def hat(self):
        return float(self.c.hat[0])

    @property
    def til(self):
        return float(self.c.til[0])

    def square(self, duals):
        """|y|^2 in the norm of the inverse weights."""
        return float(np.sum(duals**2 / self.weights))

    def pull(self, y, step=ETA):
        """The vector g with T_2 = g'(v - y)."""
        return step / self.n * later_moves(self.A, y, self.batches, step / self.b)

    def t2(self, y, v):
        return float((v - y) @ self.pull(y))

    def worst_v(self, y, price):
        """The v at which T_2 - price |v - y|^2 is largest."""
        return y + self.weights * self.pull(y) / (2 * price)

    def tails(self, y):
        """sum_i |A' I_{b(i-1) up} y|^2."""
        tails = [np.concatenate(self.batches[i:]) for i in range(self.m)]
        return sum(float(np.sum((self.A[rows].T @ y[rows]) ** 2)) for rows in tails)

    def parts(self, w):
        """sum_i |A' I_(i) w|^2."""
        return sum(float(np.sum((self.A[rows].T @ w[rows]) ** 2)) for rows in self.batches)

    def top(self, matrix):
        """The dual vector of norm one at which y' matrix y is largest."""
        root = np.sqrt(self.weights)
        return root * np.linalg.eigh(root[:, None] * matrix * root)[1][:, -1]

    def quadratic(self, price, step=ETA):
        """Q with sup_v { T_2 - price |v - y|^2 } = z'Qz at y = Λ^{1/2} z."""
        root = np.sqrt(self.weights)
        pulls = np.column_stack([root * self.pull(root * unit, step) for unit in np.eye(len(self.A))])
        return pulls.T @ pulls / (4 * price)


def setting(kind, n, b, *, tight="", seed=0, loss="squared", order=None):
    """A random problem. A tight one has all rows along one direction and the same sum of w_i |a_i|^2 in all "batches" of
    this order, or the same w_i |a_i|^2 in all "samples", which is tight in every order where b divides n.
    """
    rng = np.random.default_rng([seed, n, b])
    order = np.asarray(rng.permutation(n) if order is None else order)
    weights, A, power = np.exp(rng.standard_normal(n)), rng.standard_normal((n, 2)), 2 if loss == "absolute" else 1
    if tight:
        sizes = np.ones(n) if kind == "sum" else rng.uniform(0.5, 1.5, n)
        together = batches_of(order, b) if tight == "batches" else [[i] for i in range(n)]
        for B in together:
            share = 1.7 * (b if tight == "batches" else 1) / np.sum(weights[B] ** power * sizes[B] ** 2)
            if kind == "sum":
                weights[B] *= share
            else:
                sizes[B] *= np.sqrt(share)
        A = np.outer(sizes, [0.6, -0.8])
    if kind == "sum":
        c = rs.constants(smoothness=weights, batch_size=b, order=order, tol=1e-10)
        rows, row_weights = np.tile(np.eye(2), (n, 1)), np.repeat(weights, 2)
    else:
        alpha = 0.4 if kind == "alpha" else 0.0
        problem = rs.Problem(A, np.zeros(n), loss=loss, sample_weight=weights, alpha=alpha)
        c = rs.constants(problem, batch_size=b, order=order, tol=1e-10)
        rows, row_weights = block_rows(A, weights, alpha) if alpha else (A, weights**power)
    return Setting(rows, row_weights, batches_of(order, b, len(rows) // n), n, b, c)


def exact(kind, n, b, **options):
    return setting(kind, n, b, tight="samples" if kind == "alpha" else "batches", **options)


def free(s, seed=0):
    """Any dual vector, of norm one."""
    y = np.sqrt(s.weights) * np.random.default_rng(seed).standard_normal(len(s.A))
    return y / np.sqrt(s.square(y))


def same(value):
    return pytest.approx(value, rel=1e-8)


# --- the steps of the proofs, one by one


@pytest.mark.parametrize(("build", "kind", "n", "b"), [*[(exact, *case) for case in EXACT], *[(setting, *case) for case in EVERY]])
def test_the_operator_norms_of_the_proofs_are_lhat_and_ltil(build, kind, n, b):
    """sum_i |A' I_{b(i-1) up} y|^2 <= m n Lhat |y|^2 and sum_i |A' I_(i) w|^2 <= b Ltil |w|^2, reached by the top eigenvectors.

    With alpha the library adds its share to that of the data, which is the norm if both have their top eigenvector in common, as
    on the tight problems; on these random ones it is above the norm by 6 % at most.
    """
    s = build(kind, n, b)
    y, w = s.top(matrix_of_tails(s.A, s.batches)), s.top(matrix_of_batches(s.A, s.batches))
    reached = s.tails(y) / (s.m * n * s.hat), s.parts(w) / (b * s.til)
    assert reached == pytest.approx((1.0, 1.0), rel=0.06 if kind == "alpha" and build is setting else 1e-8)
    assert max(reached) <= 1 + 1e-8


@pytest.mark.parametrize(("kind", "n", "b"), EXACT)
def test_each_inequality_from_young_to_the_price_of_v_can_be_an_equality(kind, n, b):
    """-(eta^2/bn) sum <A' I_up u, A' I_(i) w> <= eta^2 a/(2bn) sum |A' I_up u|^2 + eta^2/(2bna) sum |A' I_(i) w|^2
    <= eta^3 (m/b) Lhat Ltil |u|^2 + eta/(4n) |w|^2 with a = 2 eta Ltil: all three are equal at the worst u and w.
    """
    s = exact(kind, n, b)
    u = s.top(matrix_of_tails(s.A, s.batches))
    w = s.worst_v(u, ETA / (4 * n)) - u
    a = 2 * ETA * s.til
    assert s.t2(u, u + w) == same(ETA**2 * a / (2 * b * n) * s.tails(u) + ETA**2 / (2 * b * n * a) * s.parts(w))
    assert ETA**2 * a / (2 * b * n) * s.tails(u) == same(ETA**3 * s.m / b * s.hat * s.til * s.square(u))
    assert ETA**2 / (2 * b * n * a) * s.parts(w) == same(ETA / (4 * n) * s.square(w))


# --- Lemmas 6 and 13


def noise_of_dual_norm(s, y_star):
    """(m/b) Lhat Ltil |y*|^2: the first part of the minimum, which asks nothing else of y*."""
    return theory.noise_ig(s.n, s.b, lhat=s.hat, ltil=s.til, sigma=1e9, dual_norm=np.sqrt(s.square(y_star)))


@pytest.mark.parametrize(("kind", "n", "b"), SEVERAL)
def test_lemmas_6_and_13_are_equalities_at_y_twice_y_star(kind, n, b):
    s = exact(kind, n, b)
    y_star = s.top(matrix_of_tails(s.A, s.batches))
    y = 2 * y_star
    v = s.worst_v(y, ETA / (2 * n))
    prices = ETA**3 * s.m / b * s.hat * s.til * s.square(y - y_star) + ETA / (2 * n) * s.square(v - y)
    assert s.t2(y, v) == same(prices + ETA**3 * noise_of_dual_norm(s, y_star))
    # without noise one half of the price of v would do, so that the factor of |y - y*|^2 is twice what is reached
    v = s.worst_v(y_star, ETA / (2 * n))
    left = s.t2(y_star, v) - ETA / (2 * n) * s.square(v - y_star)
    assert left == same(0.5 * ETA**3 * s.m / b * s.hat * s.til * s.square(y_star))


@pytest.mark.parametrize(("kind", "n", "b"), [case for case in EVERY if case[1] > case[2]])
def test_lemmas_6_and_13_hold_for_any_y_and_v_on_random_problems(kind, n, b):
    """Of 20 problems the worst reaches 0.51 to 1.00 of the bound."""
    reached = []
    for seed in range(20):
        s = setting(kind, n, b, seed=seed)
        root = np.sqrt(s.weights)
        worst = root * np.linalg.eigh(s.quadratic(ETA / (2 * n)))[1][:, -1]
        for y_star, y in [(worst, 2 * worst), (free(s, 1), free(s, 2)), (worst, free(s, 3)), (free(s, 4), 3 * worst)]:
            v = s.worst_v(y, ETA / (2 * n))
            price = ETA**3 * s.m / b * s.hat * s.til * s.square(y - y_star)
            left = s.t2(y, v) - ETA / (2 * n) * s.square(v - y)
            right = price + ETA**3 * noise_of_dual_norm(s, y_star)
            assert left <= right * (1 + 1e-9)
            reached.append(left / right)
    assert max(reached) > 0.5


@pytest.mark.parametrize("kind", ["rows", "sum", "alpha"])
@pytest.mark.parametrize(("n", "b"), [(4, 2), *DIVIDING[:-1]])
def test_the_noise_of_lemmas_6_and_13_by_sigma_is_loose_by_a_known_factor(kind, n, b):
    """What y* leaves, for y* that balances (A'y* = 0): eta^3 Ltil R with R <= sigma^2 / (4 sin^2(pi/2m)), the worst there is.

    The paper bounds that R by (m-1)^2 sigma^2: twice the worst at m = 2, up to pi^2 times at many batches.
    """
    s = setting(kind, n, b, tight="samples")
    y_star, sigma = worst_balanced(s, s.quadratic(ETA / (4 * n)))
    v = s.worst_v(y_star, ETA / (4 * n))
    left = s.t2(y_star, v) - ETA / (4 * n) * s.square(v - y_star)
    noise = theory.noise_ig(n, b, lhat=s.hat, ltil=s.til, sigma=sigma, dual_norm=1e9)
    assert left / (ETA**3 * noise) == same(1 / (4 * np.sin(np.pi / (2 * s.m)) ** 2) / (s.m - 1) ** 2)


def worst_balanced(s, Q):
    """The y = Λ^{1/2} z with A'y = 0 and the largest z'Qz beside sigma, and that sigma: sigma^2 is the mean of |A_i'y_i|^2."""
    root, size = np.sqrt(s.weights), len(s.A) // s.n
    noise = np.zeros((len(s.A), len(s.A)))
    for i in range(0, len(s.A), size):
        noise[i : i + size, i : i + size] = s.A[i : i + size] @ s.A[i : i + size].T / s.n
    balanced = null_space(np.vstack([s.A.T, null_space(noise).T]))  # what has no gradient changes neither
    top = eigh(balanced.T @ (Q / np.outer(root, root)) @ balanced, balanced.T @ noise @ balanced)[1][:, -1]
    return balanced @ top, np.sqrt(top @ balanced.T @ noise @ balanced @ top)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_the_optimum_has_the_noise_and_the_dual_norm_that_the_lemmas_speak_of(alpha):
    """y* with the rows of the regulariser balances, and has sigma and |y*| as `measure` finds them."""
    rng = np.random.default_rng(0)
    A, weights = rng.standard_normal((9, 2)), np.exp(rng.standard_normal(9))
    problem = rs.Problem(A, rng.standard_normal(9), loss="huber:0.5", alpha=alpha, sample_weight=weights)
    optimum = theory.measure(problem)
    duals = weights * problem.duals(problem.margins(optimum.x))
    rows, smoothness = block_rows(A, problem.smoothness, alpha)
    y_star = np.column_stack([duals, np.tile(np.sqrt(alpha) * optimum.x, (9, 1))]).ravel()
    each = (rows * y_star[:, None]).reshape(9, -1, 2).sum(axis=1)
    np.testing.assert_allclose(each.sum(axis=0), 0.0, atol=1e-7)
    assert optimum.sigma**2 == pytest.approx(np.mean(np.sum(each**2, axis=1)), rel=1e-6)
    assert optimum.dual_norm**2 == pytest.approx(np.sum(y_star**2 / smoothness), rel=1e-6)


# --- the step at which the lemmas cancel


@pytest.mark.parametrize(("kind", "n", "b"), SEVERAL)
def test_the_limit_of_the_step_is_where_lemma_1_just_pays_for_lemma_6(kind, n, b):
    """Lemma 1 has eta/(2n) |y - y*|^2 to pay for the eta^3 (m/b) Lhat Ltil |y - y*|^2 of Lemma 6: enough up to the limit."""
    s = exact(kind, n, b)
    limit = s.c.step_size_limit
    y_star = s.top(matrix_of_tails(s.A, s.batches))
    z = y_star / np.sqrt(s.weights)

    def reached(step):
        """sup over y and v of { T_2 - eta/(2n) |v - y|^2 - eta/(2n) |y - y*|^2 } over the noise; z is an eigenvector of Q."""
        q = z @ s.quadratic(step / (2 * n), step) @ z
        return q / (1 - q / (step / (2 * n))) / (step**3 * noise_of_dual_norm(s, y_star))

    assert reached(limit) == same(1.0)
    assert reached(0.99 * limit) < 1 < reached(1.01 * limit)


# --- Lemmas 3 and 12


@pytest.mark.parametrize("kind", ["rows", "sum", "alpha"])
@pytest.mark.parametrize(("n", "b"), [(4, 1), (4, 2), (4, 3), (5, 2)])
@pytest.mark.parametrize("tight", ["samples", ""])
def test_lemmas_3_and_12_in_the_mean_of_all_orders(kind, n, b, tight):
    """E sup over y and v of { T_2 - eta/(2n) |v - y|^2 - eta^3 (m/b) Lhat Ltil |y - y*|^2 } <= eta^3 Ltil sigma^2 V, for the y*
    with A'y* = 0 that is worst in the mean, and y and v that may depend on the order. Lemma 6 is an equality at a y* that does
    not balance, so of this bound more than a half is reached and not all: 0.52 to 0.70 on tight problems.
    """
    every = [setting(kind, n, b, tight=tight, order=order) for order in permutations(range(n))]
    root = np.sqrt(every[0].weights)
    sups = []
    for s in every:
        Q, c = s.quadratic(ETA / (2 * n)), ETA**3 * s.m / b * s.hat * s.til
        sups.append(Q @ np.linalg.inv(np.eye(len(Q)) - Q / c))
    y_star, sigma = worst_balanced(every[0], np.mean(sups, axis=0))
    left = []
    for s in every:  # as the lemma writes it, at the y and v where the supremum is
        Q, c = s.quadratic(ETA / (2 * n)), ETA**3 * s.m / b * s.hat * s.til
        y = root * np.linalg.solve(np.eye(len(Q)) - Q / c, y_star / root)
        v = s.worst_v(y, ETA / (2 * n))
        left.append(s.t2(y, v) - ETA / (2 * n) * s.square(v - y) - c * s.square(y - y_star))
    right = ETA**3 * theory.noise_smooth(n, b, ltil=max(s.til for s in every), sigma=sigma)
    reached = np.mean(left) / right
    if tight:
        sizes = [len(rows) * n // len(root) for rows in every[0].batches]
        weight = np.array([i * b * (n - i * b) for i in range(len(sizes))])  # of batch i in V: E |sum of it and what follows|^2
        full = weight @ sizes / (b * weight.sum())  # Ltil charges a short batch like a full one
        assert 0.5 < reached / full <= 1 + 1e-9
    else:
        assert 0.2 < reached <= 1 + 1e-9  # 0.23 to 0.44 on these problems


# --- Lemma 9


@pytest.mark.parametrize(("n", "b"), DIVIDING + RAGGED)
def test_lemma_9_is_an_equality_at_the_worst_y_and_v(n, b):
    """T_2 <= eta^2 sqrt(Ghat Gtil)/beta (|y|^2 + |v - y|^2 / 4)."""
    s = exact("rows", n, b, loss="absolute")
    y = s.top(matrix_of_tails(s.A, s.batches))
    price = ETA**2 * s.c.gbar / theory.beta(n, b)
    v = s.worst_v(y, price / 4)
    assert s.t2(y, v) == same(price * s.square(y) + price / 4 * s.square(v - y))
    for seed in range(20):
        s = setting("rows", n, b, seed=seed, loss="absolute")
        price = ETA**2 * s.c.gbar / theory.beta(n, b)
        for y in (free(s, seed), s.top(matrix_of_tails(s.A, s.batches))):
            v = s.worst_v(y, price / 4)
            assert s.t2(y, v) <= (price * s.square(y) + price / 4 * s.square(v - y)) * (1 + 1e-9)


@pytest.mark.parametrize(("n", "b"), [(6, 1), (6, 2), (6, 6), (7, 3)])
def test_what_theorem_3_makes_of_lemma_9_is_nearly_reached_by_signs(n, b):
    """|y_i|, |v_i| <= G_i bound T_2 by 2 eta^2 n Gbar / beta."""
    s = setting("rows", n, b, tight="samples", loss="absolute")
    G = np.sqrt(s.weights)
    worst = 0.0
    for signs in product([-1.0, 1.0], repeat=n):
        y = G * np.array(signs)
        worst = max(worst, s.t2(y, G * np.sign(s.pull(y))))
    bound = ETA * theory.bound_lipschitz(n, b, steps=[ETA], gbar=s.c.gbar, distance=0.0)
    assert 0.84 < worst / bound <= 1 + 1e-9  # 1 at b = n, 0.84 at b = 1: signs are no eigenvector
