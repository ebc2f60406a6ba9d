"""The theorems as objects: what each assumes, the constants that it rests on, its step, its bound and its complexity.

Constants of the data and what was measured of the optimum go in, and `formulas` do the arithmetic. A new theorem is a subclass of
`Theorem`, or of a family of them, and an entry in `catalogue.THEOREMS`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import TYPE_CHECKING, Any, ClassVar

from reshuffle.theory import formulas

if TYPE_CHECKING:
    from reshuffle.optimum import Optimum
    from reshuffle.orders import Order
    from reshuffle.problem import Problem

Measured = Any  # SmoothConstants or LipschitzConstants, as the theorem asks


@dataclass(frozen=True)
class Theorem(ABC):
    """A promise for f(x_hat) - min f. `c` is what `constants` measured for the problem, the batch size and the order."""

    number: int
    general: bool = False  #: for a sum of any convex functions instead of linear predictors
    assumption: ClassVar[str]  #: in words
    orders: ClassVar[str]  #: that it is about, as in the paper's table
    in_expectation: ClassVar[bool]  #: whether the promise is for the mean over orders
    constant: ClassVar[tuple[str, str]]  #: that its complexity rests on: the name, and the attribute of the constants
    prior_constant: ClassVar[tuple[str, str]]  #: the same for earlier work

    @property
    def name(self) -> str:
        """As in the paper."""
        return f"Theorem {self.number}"

    def __str__(self) -> str:
        return f"{self.name} ({self.assumption})"

    @abstractmethod
    def assumes(self, problem: "Problem | None", order: "Order") -> bool:
        """Whether its assumptions hold; None stands for a sum of any convex smooth functions."""

    @abstractmethod
    def constants_used(self, c: Measured) -> tuple[float, float]:
        """The hat and the tilde constant that it rests on."""

    @abstractmethod
    def step_limit(self, c: Measured, *, safe: bool = False) -> float | None:
        """The largest step allowed for the orders that were measured, or for every order (safe); None without such a limit."""

    @abstractmethod
    def step(self, c: Measured, optimum: "Optimum", epochs: int, *, safe: bool = False) -> float:
        """The constant step for these epochs."""

    @abstractmethod
    def bound(self, c: Measured, optimum: "Optimum", steps: Sequence[float]) -> float:
        """Of f(x_hat) - min f after these steps; infinite where one is above the limit."""

    @abstractmethod
    def evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float:
        """Gradient evaluations to eps by the paper's closed form."""

    @abstractmethod
    def tightest(self, c: Measured, optimum: "Optimum", eps: float) -> tuple[int, float]:
        """The fewest epochs after which it promises eps, and their step."""

    def tightest_evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float:
        """The same in gradient evaluations."""
        return float(c.n * self.tightest(c, optimum, eps)[0])

    def full_gradient_evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float | None:
        """Gradient evaluations to eps of gradient descent by its own guarantee; None where it has none."""
        return None

    @abstractmethod
    def prior_work(self, c: Measured, optimum: "Optimum", eps: float) -> list[formulas.PriorResult]:
        """Gradient evaluations to eps by earlier theory."""

    def prior_bound(self, c: Measured, optimum: "Optimum", epochs: int) -> float | None:
        """What earlier theory promises after these epochs, with its own step at batch size 1; None where it promises nothing."""
        return None


class SmoothTheorem(Theorem):
    """Smooth losses: steps up to a limit, the largest constants of the orders measured, and a noise that depends on the order."""

    constant, prior_constant = ("Lhat", "lhat_max"), ("L", "L")

    @abstractmethod
    def noise(self, c: Measured, optimum: "Optimum") -> float:
        """The factor of eta^3 in the bound."""

    def assumes(self, problem: "Problem | None", order: "Order") -> bool:
        return self.general if problem is None else not self.general and problem.loss.smoothness is not None

    def constants_used(self, c: Measured) -> tuple[float, float]:
        return c.lhat_max, c.ltil_max

    def step_limit(self, c: Measured, *, safe: bool = False) -> float:
        return float(c.safe_step_size_limit if safe else c.step_size_limit)

    def step(self, c: Measured, optimum: "Optimum", epochs: int, *, safe: bool = False) -> float:
        best = formulas.step_with_noise(c.n, c.batch_size, epochs=epochs, **self._numbers(c, optimum))
        return min(self.step_limit(c, safe=safe), best)

    def bound(self, c: Measured, optimum: "Optimum", steps: Sequence[float]) -> float:
        if max(steps) > self.step_limit(c) * (1 + 1e-9):
            return inf
        noise = self.noise(c, optimum)
        return formulas.bound_with_noise(c.n, c.batch_size, steps=steps, distance=optimum.distance, noise=noise)

    def evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float:
        return max(formulas.evaluations_with_noise(eps, c.n, c.batch_size, **self._numbers(c, optimum)))

    def tightest(self, c: Measured, optimum: "Optimum", eps: float) -> tuple[int, float]:
        return formulas.tightest_with_noise(eps, c.n, c.batch_size, **self._numbers(c, optimum))

    def full_gradient_evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float:
        return float(c.n * c.full_gradient_constant * optimum.distance**2 / (2.0 * eps))

    def prior_work(self, c: Measured, optimum: "Optimum", eps: float) -> list[formulas.PriorResult]:
        return formulas.prior_work(eps, c.n, L=c.L, distance=optimum.distance, sigma=optimum.sigma)

    def prior_bound(self, c: Measured, optimum: "Optimum", epochs: int) -> float:
        order = "rr" if self.in_expectation else "ig"
        return formulas.prior_bound(c.n, epochs=epochs, L=c.L, distance=optimum.distance, sigma=optimum.sigma, order=order)

    def _numbers(self, c: Measured, optimum: "Optimum") -> dict[str, float]:
        lhat, ltil = self.constants_used(c)
        return {"lhat": lhat, "ltil": ltil, "distance": optimum.distance, "noise": self.noise(c, optimum)}


class RandomOrderTheorem(SmoothTheorem):
    """Each epoch in a uniformly random order, drawn anew or kept."""

    assumption = "a smooth loss, each order uniformly random"
    orders, in_expectation = "RR/SO", True

    def assumes(self, problem: "Problem | None", order: "Order") -> bool:
        return super().assumes(problem, order) and order.uniform

    def noise(self, c: Measured, optimum: "Optimum") -> float:
        return formulas.noise_smooth(c.n, c.batch_size, ltil=self.constants_used(c)[1], sigma=optimum.sigma)


class GivenOrderTheorem(SmoothTheorem):
    """Any order, by the constants of that order."""

    assumption = "a smooth loss, any order"
    orders, in_expectation = "IG", False

    def noise(self, c: Measured, optimum: "Optimum") -> float:
        lhat, ltil = self.constants_used(c)
        return formulas.noise_ig(c.n, c.batch_size, lhat=lhat, ltil=ltil, sigma=optimum.sigma, dual_norm=optimum.dual_norm)

    def evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float:
        return sum(formulas.evaluations_with_noise(eps, c.n, c.batch_size, **self._numbers(c, optimum)))


class LipschitzTheorem(Theorem):
    """Lipschitz losses in any order: any steps, and the mean constants of the orders measured."""

    assumption = "a Lipschitz loss without a regulariser, any order"
    orders, in_expectation = "RR/SO/IG", True
    constant, prior_constant = ("Gbar", "gbar"), ("G", "G")

    def assumes(self, problem: "Problem | None", order: "Order") -> bool:
        return problem is not None and problem.loss.lipschitz is not None and problem.alpha == 0.0

    def constants_used(self, c: Measured) -> tuple[float, float]:
        return c.ghat_mean, c.gtil_mean

    def step_limit(self, c: Measured, *, safe: bool = False) -> None:
        return None

    def step(self, c: Measured, optimum: "Optimum", epochs: int, *, safe: bool = False) -> float:
        gbar = c.full_gradient_constant**0.5 * c.largest_sample**0.5 if safe else c.gbar
        return formulas.step_lipschitz(c.n, c.batch_size, epochs=epochs, gbar=gbar, distance=optimum.distance)

    def bound(self, c: Measured, optimum: "Optimum", steps: Sequence[float]) -> float:
        return formulas.bound_lipschitz(c.n, c.batch_size, steps=steps, gbar=c.gbar, distance=optimum.distance)

    def evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float:
        return formulas.evaluations_lipschitz(eps, c.n, c.batch_size, gbar=c.gbar, distance=optimum.distance)

    def tightest(self, c: Measured, optimum: "Optimum", eps: float) -> tuple[int, float]:
        epochs = max(1, ceil(self.evaluations(c, optimum, eps) / c.n))
        return epochs, self.step(c, optimum, epochs)

    def tightest_evaluations(self, c: Measured, optimum: "Optimum", eps: float) -> float:
        return self.evaluations(c, optimum, eps)

    def prior_work(self, c: Measured, optimum: "Optimum", eps: float) -> list[formulas.PriorResult]:
        return formulas.prior_work(eps, c.n, G=c.G, distance=optimum.distance)


THEOREM_1 = RandomOrderTheorem(1)
THEOREM_2 = GivenOrderTheorem(2)
THEOREM_3 = LipschitzTheorem(3)
THEOREM_4 = RandomOrderTheorem(4, general=True)
THEOREM_5 = GivenOrderTheorem(5, general=True)
