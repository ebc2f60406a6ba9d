"""The theorems as objects: what each assumes, its step, its bound and its complexity, from `Facts`; `formulas` do the arithmetic.

A theorem for smooth losses is a result (for the average of the epochs' ends, for a weighted one, or for the last) and the noise of
the orders that it is about. Theorems 1 to 5 are the paper's; 6 to 8 go beyond it, and docs/proofs.md has their proofs. A new
theorem is a subclass of `Theorem`, or an object of one of the classes here, and an entry in `catalogue.THEOREMS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Any, ClassVar

from reshuffle.theory import formulas
from reshuffle.theory.facts import Facts, Within

if TYPE_CHECKING:
    from reshuffle.orders import Order
    from reshuffle.problem import Problem


@dataclass(frozen=True)
class Theorem(ABC):
    """A promise for f - min f at one output of the algorithm."""

    number: int
    assumption: ClassVar[str]  #: about the loss, in words
    orders: ClassVar[str]  #: that it is about, as in the paper's table
    in_expectation: ClassVar[bool]  #: whether the promise is for the mean over orders
    output: ClassVar[str] = "epoch"  #: the average that it is about, as `minimize` calls it
    constant: ClassVar[str]  #: of the data, that its complexity rests on

    @property
    def name(self) -> str:
        """As in the paper, whose theorems end at 5."""
        return f"Theorem {self.number}"

    def __str__(self) -> str:
        return f"{self.name} ({self.assumption})"

    @abstractmethod
    def assumes(self, problem: "Problem | None", order: "Order") -> bool:
        """Whether its assumptions hold; None stands for a sum of any convex smooth functions."""

    @abstractmethod
    def within(self, facts: Facts) -> Within | None:
        """The constants that it rests on; None where they are not known."""

    @abstractmethod
    def step_limit(self, facts: Facts) -> float | None:
        """The largest step allowed; None without such a limit."""

    @abstractmethod
    def step(self, facts: Facts, epochs: int) -> float:
        """The constant step for these epochs."""

    @abstractmethod
    def bound(self, facts: Facts, steps: Sequence[float]) -> float:
        """Of f - min f after these steps; infinite where one is above the limit."""

    @abstractmethod
    def tightest(self, facts: Facts, eps: float) -> tuple[int, float]:
        """The fewest epochs after which it promises eps, and their step."""

    def evaluations(self, facts: Facts, eps: float) -> float:
        """Gradient evaluations to eps: by the paper's closed form where it has one."""
        return float(facts.n * self.tightest(facts, eps)[0])


# --- smooth losses


@dataclass(frozen=True)
class OrderNoise:
    """What an epoch of step eta adds to the bound, over eta^3, for the orders of one kind."""

    orders: str  #: as in the paper's table
    assumption: str
    in_expectation: bool
    holds: Callable[["Order"], bool]
    of: Callable[[Facts, Within], formulas.Noise]


def _of_random_orders(facts: Facts, w: Within) -> float:
    return formulas.noise_smooth(facts.n, facts.batch_size, ltil=w.til, sigma=facts.sigma)


def _of_the_paper(facts: Facts, w: Within) -> float:
    return formulas.noise_ig(facts.n, facts.batch_size, lhat=w.hat, ltil=w.til, sigma=facts.sigma, dual_norm=facts.dual_norm)


def _of_its_own(facts: Facts, w: Within) -> formulas.Noise:
    """Ltil R_pi; where R_pi was not measured, what it is at most."""
    if isinstance(facts.discrepancy, tuple):
        return [w.til * R for R in facts.discrepancy]
    if facts.discrepancy is not None:
        return w.til * facts.discrepancy
    worst = formulas.worst_discrepancy(facts.n, facts.batch_size, facts.sigma)
    return min(w.til * worst, _of_the_paper(facts, w))


#: A step that was chosen by the order that was drawn is no longer free of it, so shuffle once is left to `OWN_ORDER`.
RANDOM_ORDER = OrderNoise(
    "RR", "each order uniformly random", True, lambda order: order.uniform and not order.fixed, _of_random_orders
)
GIVEN_ORDER = OrderNoise("IG", "a given order", False, lambda order: True, _of_the_paper)
OWN_ORDER = OrderNoise("any", "any order, by its own discrepancy", False, lambda order: True, _of_its_own)


@dataclass(frozen=True)
class SmoothTheorem(Theorem):
    """Smooth losses: steps up to a limit, and the noise of the orders."""

    noise: OrderNoise
    general: bool = False  #: for a sum of any convex functions instead of linear predictors
    constant = "Lhat"
    needs_mu: ClassVar[bool] = False

    @property
    def in_expectation(self) -> bool:  # type: ignore[override]
        return self.noise.in_expectation

    @property
    def orders(self) -> str:  # type: ignore[override]
        return self.noise.orders

    @property
    def assumption(self) -> str:  # type: ignore[override]
        convex = "a smooth loss with alpha > 0 and no intercept" if self.needs_mu else "a smooth loss"
        return f"{convex}, {self.noise.assumption}"

    def assumes(self, problem: "Problem | None", order: "Order") -> bool:
        holds = order.permutes and self.noise.holds(order)
        if problem is None:
            return self.general and not self.needs_mu and holds
        convex = not self.needs_mu or (problem.alpha > 0.0 and not problem.fit_intercept)
        return not self.general and problem.loss.smoothness is not None and convex and holds

    def within(self, facts: Facts) -> Within:
        if facts.smooth is None:
            raise ValueError(f"{self} needs the constants of a smooth loss")
        return facts.smooth

    def step_limit(self, facts: Facts) -> float:
        w = self.within(facts)
        return formulas.step_size_limit(facts.n, facts.batch_size, w.hat, w.til)

    def step(self, facts: Facts, epochs: int) -> float:
        return self._step(facts, epochs, self._numbers(facts))

    def tightest(self, facts: Facts, eps: float) -> tuple[int, float]:
        return self._tightest(facts, eps, self._numbers(facts))

    def bound(self, facts: Facts, steps: Sequence[float]) -> float:
        if max(steps) > self.step_limit(facts) * (1 + 1e-9):
            return inf
        noise = self.noise.of(facts, self.within(facts))
        here = noise if isinstance(noise, float) else noise[: len(steps)]
        return self._bound(facts, steps, {"distance": facts.distance, "noise": here})

    def _numbers(self, facts: Facts) -> dict[str, Any]:
        """With the largest noise where epochs differ: a plan is for any of them."""
        w = self.within(facts)
        noise = self.noise.of(facts, w)
        return {
            "lhat": w.hat,
            "ltil": w.til,
            "distance": facts.distance,
            "noise": noise if isinstance(noise, float) else max(noise),
        }

    @abstractmethod
    def _step(self, facts: Facts, epochs: int, numbers: dict[str, Any]) -> float: ...

    @abstractmethod
    def _bound(self, facts: Facts, steps: Sequence[float], numbers: dict[str, Any]) -> float: ...

    @abstractmethod
    def _tightest(self, facts: Facts, eps: float, numbers: dict[str, Any]) -> tuple[int, float]: ...


class AverageTheorem(SmoothTheorem):
    """For the average of the epochs' ends, weighted by the steps."""

    def _step(self, facts: Facts, epochs: int, numbers: dict[str, Any]) -> float:
        return formulas.step_with_noise(facts.n, facts.batch_size, epochs=epochs, **numbers)

    def _bound(self, facts: Facts, steps: Sequence[float], numbers: dict[str, Any]) -> float:
        return formulas.bound_with_noise(facts.n, facts.batch_size, steps=steps, **numbers)

    def _tightest(self, facts: Facts, eps: float, numbers: dict[str, Any]) -> tuple[int, float]:
        return formulas.tightest_with_noise(eps, facts.n, facts.batch_size, **numbers)

    def evaluations(self, facts: Facts, eps: float) -> float:
        few, many = formulas.evaluations_with_noise(eps, facts.n, facts.batch_size, **self._numbers(facts))
        return max(few, many) if self.in_expectation else few + many


class WeightedTheorem(SmoothTheorem):
    """Strong convexity: for the average in which every epoch weighs more than the one before."""

    output, needs_mu = "weighted", True

    def _step(self, facts: Facts, epochs: int, numbers: dict[str, Any]) -> float:
        return formulas.step_weighted(facts.n, facts.batch_size, epochs=epochs, mu=facts.mu, **numbers)

    def _bound(self, facts: Facts, steps: Sequence[float], numbers: dict[str, Any]) -> float:
        return formulas.bound_weighted(facts.n, facts.batch_size, steps=steps, mu=facts.mu, **numbers)

    def _tightest(self, facts: Facts, eps: float, numbers: dict[str, Any]) -> tuple[int, float]:
        return formulas.tightest_weighted(eps, facts.n, facts.batch_size, mu=facts.mu, **numbers)


class LastTheorem(SmoothTheorem):
    """Strong convexity: for the last iterate."""

    output, needs_mu = "last", True

    def _step(self, facts: Facts, epochs: int, numbers: dict[str, Any]) -> float:
        return formulas.step_last(facts.n, facts.batch_size, epochs=epochs, mu=facts.mu, full=facts.full, **numbers)

    def _bound(self, facts: Facts, steps: Sequence[float], numbers: dict[str, Any]) -> float:
        return formulas.bound_last(facts.n, facts.batch_size, steps=steps, mu=facts.mu, full=facts.full, **numbers)[0]

    def _tightest(self, facts: Facts, eps: float, numbers: dict[str, Any]) -> tuple[int, float]:
        return formulas.tightest_last(eps, facts.n, facts.batch_size, mu=facts.mu, full=facts.full, **numbers)


# --- Lipschitz losses


@dataclass(frozen=True)
class LipschitzTheorem(Theorem):
    """Lipschitz losses in any order: any steps. With constants that bound each order in use, the promise is for each of them."""

    assumption = "a Lipschitz loss without a regulariser, any order"
    orders, in_expectation, constant = "RR/SO/IG", False, "Gbar"

    def assumes(self, problem: "Problem | None", order: "Order") -> bool:
        return order.permutes and problem is not None and problem.loss.lipschitz is not None and problem.alpha == 0.0

    def within(self, facts: Facts) -> Within | None:
        return facts.lipschitz

    def step_limit(self, facts: Facts) -> None:
        return None

    def step(self, facts: Facts, epochs: int) -> float:
        numbers = {"gbar": self._gbar(facts), "distance": facts.distance}
        return formulas.step_lipschitz(facts.n, facts.batch_size, epochs=epochs, **numbers)

    def bound(self, facts: Facts, steps: Sequence[float]) -> float:
        numbers = {"gbar": self._gbar(facts), "distance": facts.distance}
        return formulas.bound_lipschitz(facts.n, facts.batch_size, steps=steps, **numbers)

    def evaluations(self, facts: Facts, eps: float) -> float:
        return formulas.evaluations_lipschitz(eps, facts.n, facts.batch_size, gbar=self._gbar(facts), distance=facts.distance)

    def tightest(self, facts: Facts, eps: float) -> tuple[int, float]:
        evaluations = self.evaluations(facts, eps)
        epochs = max(1, ceil(evaluations / facts.n))
        return epochs, self.step(facts, epochs)

    def _gbar(self, facts: Facts) -> float:
        w = facts.lipschitz
        return inf if w is None else float((w.hat * w.til) ** 0.5)


THEOREM_1 = AverageTheorem(1, RANDOM_ORDER)
THEOREM_2 = AverageTheorem(2, GIVEN_ORDER)
THEOREM_3 = LipschitzTheorem(3)
THEOREM_4 = AverageTheorem(4, RANDOM_ORDER, general=True)
THEOREM_5 = AverageTheorem(5, GIVEN_ORDER, general=True)
THEOREM_6 = AverageTheorem(6, OWN_ORDER)
THEOREM_6_GENERAL = AverageTheorem(6, OWN_ORDER, general=True)
THEOREM_7, THEOREM_7_RANDOM = WeightedTheorem(7, OWN_ORDER), WeightedTheorem(7, RANDOM_ORDER)
THEOREM_8, THEOREM_8_RANDOM = LastTheorem(8, OWN_ORDER), LastTheorem(8, RANDOM_ORDER)
