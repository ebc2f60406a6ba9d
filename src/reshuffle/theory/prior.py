"""Earlier and newer results beside ours, at batch size 1: who, when, what they assume, and what they promise for the data at hand.

A result is either exact, with the constants that its source states, or an order of magnitude: the constants inside its O(.) are not
known and taken as one here, logarithms left out. Where its conditions fail it has nothing to say, and is not shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, log, sqrt

from reshuffle.theory import formulas
from reshuffle.theory.facts import Facts


@dataclass(frozen=True)
class Prior:
    """A result of other authors."""

    work: str  #: authors and year
    orders: str  #: that it is about
    output: str  #: the iterate that it is about
    formula: str  #: evaluations or gap, in plain text
    exact: bool  #: with the constants of its source; else an order of magnitude
    assumption: str  #: beyond convex samples
    holds: Callable[[Facts, float], bool]  #: for these facts and eps
    to_eps: Callable[[Facts, float], float]  #: gradient evaluations
    after: Callable[[Facts, int], float] | None = None  #: the gap after K epochs at its best step, where that is stated

    @property
    def kind(self) -> str:
        return "exact" if self.exact else "order only"


def prior_work(facts: Facts, eps: float) -> list[tuple[Prior, float]]:
    """The results whose conditions hold, with their gradient evaluations to eps."""
    return [(prior, prior.to_eps(facts, eps)) for prior in PRIOR if prior.holds(facts, eps)]


def prior_bound(facts: Facts, epochs: int, orders: str = "RR") -> tuple[Prior, float] | None:
    """The first result for these orders that says what f - min f is after K epochs, and what it says."""
    for prior in PRIOR:
        if prior.after is not None and orders in prior.orders and prior.holds(facts, 1.0):
            return prior, prior.after(facts, epochs)
    return None


def _smooth(facts: Facts, eps: float) -> bool:
    return facts.smooth is not None and facts.largest > 0.0


def _mishchenko(facts: Facts) -> tuple[float, float]:
    """The largest step 1/(sqrt(2) n L), and the factor of eta^2 in D^2/(2 eta n K) + eta^2 L n sigma^2 / 4."""
    return 1.0 / (sqrt(2.0) * facts.n * facts.largest), facts.largest * facts.n * facts.sigma**2 / 4.0


def _mishchenko_evaluations(facts: Facts, eps: float) -> float:
    limit, noise = _mishchenko(facts)
    return float(facts.n * formulas.tightest_below(eps, facts.n, 1, limit=limit, distance=facts.distance, noise=noise)[0])


def _mishchenko_bound(facts: Facts, epochs: int) -> float:
    limit, noise = _mishchenko(facts)
    step = formulas.step_below(facts.n, 1, epochs=epochs, limit=limit, distance=facts.distance, noise=noise)
    return formulas.bound_with_noise(facts.n, 1, steps=[step] * epochs, distance=facts.distance, noise=noise)


def _given_order_bound(facts: Facts, epochs: int) -> float:
    """D^2/(eta n K) + eta^2 L n^2 sigma^2 at the better of 1/(nL) and the step that makes both alike."""
    n, L, D2, noise = facts.n, facts.largest, facts.distance**2, facts.largest * float(facts.n) ** 2 * facts.sigma**2
    step = formulas.step_below(n, 1, epochs=epochs, limit=1.0 / (n * L), distance=sqrt(2.0 * D2), noise=noise)
    return D2 / (step * n * epochs) + step**2 * noise


def _liu(facts: Facts, step: float) -> float:
    """The noise min{1, eta n L} eta sigma^2."""
    return min(1.0, step * facts.n * facts.largest) * step * facts.sigma**2


def _liu_evaluations(facts: Facts, eps: float) -> float:
    steps = (step for step in formulas.steps_below(1.0 / (16.0 * facts.largest)) if _liu(facts, step) < eps)
    return float(min((facts.distance**2 / (step * (eps - _liu(facts, step))) for step in steps), default=inf))


def _in_L(first: float, rest: Callable[[Facts], float]) -> Callable[[Facts, float], float]:
    def evaluations(facts: Facts, eps: float) -> float:
        D2 = facts.distance**2
        return first * facts.n * facts.largest * D2 / eps + rest(facts) * facts.sigma * D2 / (eps * sqrt(eps))

    return evaluations


def _strongly_convex(power: int) -> Callable[[Facts, float], float]:
    def evaluations(facts: Facts, eps: float) -> float:
        n, L, mu = facts.n, facts.largest, facts.mu
        return max(n * L / mu, sqrt(n * L**power * facts.sigma**2 / (mu ** (power + 1) * eps)))

    return evaluations


def _has_mu(facts: Facts, eps: float) -> bool:
    return _smooth(facts, eps) and facts.mu > 0.0


_SMOOTH = "L-smooth samples"
_STRONG = "L-smooth samples, f strongly convex, K above L/mu"

PRIOR: list[Prior] = [
    Prior(
        "Mishchenko, Khaled, Richtárik 2020", "RR/SO", "average", "D^2/(2 eta n K) + eta^2 L n sigma^2/4, eta <= 1/(sqrt2 n L)",
        True, _SMOOTH, _smooth, _mishchenko_evaluations, _mishchenko_bound,
    ),
    Prior(
        "Nguyen, Tran-Dinh, Phan, Nguyen, van Dijk 2021", "RR", "average", "n L D^2/eps + sqrt(n L) sigma D^2/eps^{3/2}",
        False, _SMOOTH, _smooth, _in_L(1.0, lambda facts: sqrt(facts.n * facts.largest)),
    ),
    Prior(
        "Cha, Lee, Yun 2023", "RR", "average", "n L D^2/eps + sqrt(n L) sigma D^2/eps^{3/2}",
        False, _SMOOTH, _smooth, _in_L(1.0, lambda facts: sqrt(facts.n * facts.largest)),
    ),
    Prior(
        "Cha, Lee, Yun 2023, lower bound", "RR", "any average", "sqrt(n L) sigma D^2/eps^{3/2}",
        False, f"{_SMOOTH}, large K", _smooth, _in_L(0.0, lambda facts: sqrt(facts.n * facts.largest)),
    ),
    Prior(
        "Liu 2026", "RR", "average", "D^2/(eta n K) + min{1, eta n L} eta sigma^2, eta <= 1/(16 L)",
        False, _SMOOTH, _smooth, _liu_evaluations,
    ),
    Prior(
        "Mishchenko, Khaled, Richtárik 2020", "IG", "average", "n L D^2/eps + n sqrt(L) sigma D^2/eps^{3/2}",
        False, _SMOOTH, _smooth, _in_L(1.0, lambda facts: facts.n * sqrt(facts.largest)), _given_order_bound,
    ),
    Prior(
        "Cha, Lee, Yun 2023, Prop. 3.2", "RR", "last iterate", "gap L^2 sigma^2/(mu^3 n K^2)",
        False, _STRONG, _has_mu, _strongly_convex(2),
    ),
    Prior(
        "Cha, Lee, Yun 2023, Prop. 3.4", "RR", "tail average", "gap L sigma^2/(mu^2 n K^2)",
        False, _STRONG, _has_mu, _strongly_convex(1),
    ),
    Prior(
        "Shamir 2016", "RR", "average", "B^2 G^2/eps^2",
        False, "one epoch, so n of order 1/eps^2; bounded iterates",
        lambda facts, eps: facts.lipschitz is not None and facts.distance**2 * facts.lipschitz_squared / eps**2 <= facts.n,
        lambda facts, eps: facts.distance**2 * facts.lipschitz_squared / eps**2,
    ),
]  # fmt: skip


def gradient_descent(facts: Facts, eps: float) -> float:
    """Gradient evaluations to eps of full gradients by their own guarantee: n D^2 / (2 eps) times the smoothness of f, or at a
    linear rate where f is strongly convex; n D^2 G_f^2 / eps^2 of the subgradient method for a loss with kinks.
    """
    n, D2 = facts.n, facts.distance**2
    if facts.smooth is None:
        return n * facts.full * D2 / eps**2
    few = n * facts.full * D2 / (2.0 * eps)
    if facts.mu > 0.0:  # |x_K - x*|^2 <= (1 - mu/full)^K D^2
        few = min(few, n * max(1.0, facts.full / facts.mu * log(max(facts.full * D2 / (2.0 * eps), 1.0))))
    return max(few, float(n))
