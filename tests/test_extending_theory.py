"""A theorem and an order from outside the package, each one entry, are used wherever the library's own are."""

from dataclasses import dataclass

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.orders import SCHEMES, Scheme, describe, make_order
from reshuffle.theory import THEOREM_1, THEOREM_2, THEOREMS, GivenOrderTheorem, theorem_for


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
    monkeypatch.setitem(SCHEMES, "paired", Scheme("a random order, then its reverse", there_and_back, uniform=True))


@dataclass(frozen=True)
class Cautious(GivenOrderTheorem):
    """Half of the step, for the file read from its end."""

    assumption = "a smooth loss, the file read from its end"

    def assumes(self, problem, order):
        return super().assumes(problem, order) and order.name == "reversed"

    def step_limit(self, c, *, safe=False):
        return 0.5 * super().step_limit(c, safe=safe)


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
    paired = make_order("paired", 50, 0)
    assert theorem_for(problem, paired) is THEOREM_1
    assert theorem_for(problem, make_order("reversed", 50, 0)) is THEOREM_2
    c = rs.constants(problem, order="paired", permutations=4)
    assert c.permutations == 4
    np.testing.assert_array_equal(paired.permutation(0), paired.permutation(1)[::-1])
    assert rs.Guarantee.of(problem, rs.minimize(problem, order="paired", epochs=4), rs.theory.measure(problem)).theorem == 1


def test_a_new_theorem_is_one_entry(problem, new_orders):
    before = rs.minimize(problem, order="reversed", epochs=4)
    cautious = Cautious(6)
    THEOREMS.insert(0, cautious)
    try:
        assert theorem_for(problem, make_order("reversed", 50, 0)) is cautious
        assert theorem_for(problem, make_order("ig", 50, 0)) is THEOREM_2
        run = rs.minimize(problem, order="reversed", step_size="theory", epochs=4)
        guarantee = rs.Guarantee.of(problem, run, rs.theory.measure(problem))
    finally:
        THEOREMS.remove(cautious)
    assert run.steps == [0.5 * step for step in before.steps]
    assert guarantee.theorem == 6
    assert "(Theorem 6, " in str(guarantee)
    assert "the mean" not in str(guarantee)
    assert guarantee.gap <= guarantee.bound < np.inf
    assert rs.Guarantee.of(problem, before, rs.theory.measure(problem)).theorem == 2


def test_what_is_not_known_is_refused(problem):
    with pytest.raises(ValueError, match="order='reversed' is not known; use one of rr, so, ig or a permutation array"):
        rs.minimize(problem, order="reversed")
    assert (describe("reversed"), describe("given")) == ("reversed", "a given order")
