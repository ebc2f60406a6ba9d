"""A theorem and an order from outside the package, each one entry, are used wherever the library's own are."""

from dataclasses import dataclass

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.evidence import gather
from reshuffle.orders import SCHEMES, Scheme, describe, make_order
from reshuffle.theory import OWN_ORDER, THEOREM_1, THEOREM_6, THEOREMS, AverageTheorem, theorem_for


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return rs.Problem(rng.standard_normal((50, 4)), rng.standard_normal(50), loss="squared", alpha=0.1)


def backwards(n, seed, epoch):
    return np.arange(n)[::-1]


def there_and_back(n, seed, epoch):
    forth = np.random.default_rng([seed, epoch // 2]).permutation(n)
    return forth if epoch % 2 == 0 else forth[::-1]


@pytest.fixture
def new_orders(monkeypatch):
    monkeypatch.setitem(SCHEMES, "reversed", Scheme("the file from its end", backwards, fixed=True))
    monkeypatch.setitem(SCHEMES, "forth_and_back", Scheme("a random order, then its reverse", there_and_back, uniform=True))


@dataclass(frozen=True)
class Cautious(AverageTheorem):
    """Half of the step and a tenth of the bound, for the file read from its end."""

    def assumes(self, problem, order):
        return super().assumes(problem, order) and order.name == "reversed"

    def step_limit(self, facts):
        return 0.5 * super().step_limit(facts)

    def bound(self, facts, steps):
        return 0.1 * super().bound(facts, steps)


def test_a_new_order_is_one_entry(problem, new_orders):
    c = rs.constants(problem, order="reversed", batch_size=3)
    by_hand = rs.constants(problem, order=backwards(50, 0, 0), batch_size=3)
    assert (c.permutations, c.hat[0], c.til[0]) == (1, by_hand.hat[0], by_hand.til[0])
    assert "order        reversed: the file from its end (1 measured, seed 0)" in str(c)
    run = rs.minimize(problem, order="reversed", batch_size=3, epochs=5)
    same = rs.minimize(problem, order=backwards(50, 0, 0), batch_size=3, epochs=5)
    assert run.steps == same.steps
    np.testing.assert_array_equal(run.x, same.x)
    optimum = rs.theory.measure(problem)
    assert rs.Guarantee.of(problem, run, optimum) == rs.Guarantee.of(problem, same, optimum)


def test_what_a_new_order_says_of_itself_decides_its_theorem(problem, new_orders):
    paired = make_order("forth_and_back", 50, 0)
    assert theorem_for(problem, paired) is THEOREM_1
    assert theorem_for(problem, make_order("reversed", 50, 0)) is THEOREM_6
    c = rs.constants(problem, order="forth_and_back", permutations=4)
    assert c.permutations == 4
    np.testing.assert_array_equal(paired.permutation(0), paired.permutation(1)[::-1])
    optimum, run = rs.theory.measure(problem), rs.minimize(problem, order="forth_and_back", epochs=4)
    assert rs.Guarantee.of(problem, run, optimum).theorem in (1, 6)
    known = gather(problem, paired, c, optimum, epochs=4)
    assert THEOREM_1.bound(known, run.steps) < np.inf
    assert known.smooth == gather(problem, make_order("rr", 50, 0), c, optimum, epochs=4).smooth  # bounds, of whatever was measured


def test_a_new_theorem_is_one_entry(problem, new_orders):
    before, optimum = rs.minimize(problem, order="reversed", epochs=4), rs.theory.measure(problem)
    cautious = Cautious(9, OWN_ORDER)
    THEOREMS.insert(0, cautious)
    try:
        assert theorem_for(problem, make_order("reversed", 50, 0)) is cautious
        assert theorem_for(problem, make_order("ig", 50, 0)) is THEOREM_6
        run = rs.minimize(problem, order="reversed", step_size="theory", epochs=4)
        guarantee = rs.Guarantee.of(problem, run, optimum)
        too_large = rs.Guarantee.of(problem, before, optimum)  # for the new one: another theorem promises more than nothing
    finally:
        THEOREMS.remove(cautious)
    assert run.steps == [0.5 * step for step in before.steps]
    assert guarantee.theorem == 9
    assert "for certain (Theorem 9, " in str(guarantee)
    assert guarantee.bound == pytest.approx(0.1 * rs.Guarantee.of(problem, run, optimum).bound)
    assert too_large == rs.Guarantee.of(problem, before, optimum)
    assert too_large.theorem in (2, 6)
    assert str(cautious) == "Theorem 9 (a smooth loss, any order, by its own discrepancy)"


def test_what_is_not_known_is_refused(problem):
    with pytest.raises(ValueError, match=r"order='reversed' is not known; use one of rr, so, ig \(or file\), .* or a list of them"):
        rs.minimize(problem, order="reversed")
    assert (describe("reversed"), describe("given")) == ("reversed", "a given order")
