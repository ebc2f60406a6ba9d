"""Losses of a prediction, for labels that are numbers."""

from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class Squared(Loss):
    """(z - y)^2 / 2"""

    name: ClassVar[str] = "squared"
    task: ClassVar[Task] = "regression"
    smoothness: ClassVar[float] = 1.0

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        return 0.5 * (z - y) ** 2

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return z - y

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return 0.5 * u * u + u * y

    @staticmethod
    def curvature(z: float, y: float, parameter: float) -> float:
        return 1.0

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        return (p + step * y) / (1.0 + step)


@dataclass(frozen=True)
class Huber(Loss):
    """(z - y)^2 / 2 up to |z - y| = delta, then a line of slope delta"""

    name: ClassVar[str] = "huber"
    task: ClassVar[Task] = "regression"
    smoothness: ClassVar[float] = 1.0

    delta: float = 1.0

    def __post_init__(self) -> None:
        self._require("delta", 0.0 < self.delta < float("inf"), "use a positive number")

    @property
    def lipschitz(self) -> float:
        return self.delta

    @property
    def dual_domain(self) -> tuple[float, float]:
        return (-self.delta, self.delta)

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        r = abs(z - y)
        return 0.5 * r * r if r <= parameter else parameter * (r - 0.5 * parameter)

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return min(max(z - y, -parameter), parameter)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return 0.5 * u * u + u * y

    @staticmethod
    def curvature(z: float, y: float, parameter: float) -> float:
        return 1.0 if abs(z - y) < parameter else 0.0

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        return p - step * min(max((p - y) / (1.0 + step), -parameter), parameter)


@dataclass(frozen=True)
class Absolute(Loss):
    """|z - y|"""

    name: ClassVar[str] = "absolute"
    task: ClassVar[Task] = "regression"
    lipschitz: ClassVar[float] = 1.0
    dual_domain: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        return abs(z - y)

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return 1.0 if z > y else (-1.0 if z < y else 0.0)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return u * y

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        return p - min(max(p - y, -step), step)


@dataclass(frozen=True)
class EpsilonInsensitive(Loss):
    """max(0, |z - y| - epsilon)"""

    name: ClassVar[str] = "epsilon_insensitive"
    task: ClassVar[Task] = "regression"
    lipschitz: ClassVar[float] = 1.0
    dual_domain: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        self._require("epsilon", 0.0 <= self.epsilon < float("inf"), "use zero or a positive number")

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        return max(0.0, abs(z - y) - parameter)

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return 1.0 if z > y + parameter else (-1.0 if z < y - parameter else 0.0)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return u * y + parameter * abs(u)

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        outside = p - min(max(p, y - parameter), y + parameter)
        return p - min(max(outside, -step), step)


@dataclass(frozen=True)
class Quantile(Loss):
    """The pinball loss: q (y - z) above the prediction, (1 - q) (z - y) below it"""

    name: ClassVar[str] = "quantile"
    task: ClassVar[Task] = "regression"

    q: float = 0.5

    def __post_init__(self) -> None:
        self._require("q", 0.0 < self.q < 1.0, "use a number strictly between 0 and 1")

    @property
    def lipschitz(self) -> float:
        return max(self.q, 1.0 - self.q)

    @property
    def dual_domain(self) -> tuple[float, float]:
        return (-self.q, 1.0 - self.q)

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        return parameter * (y - z) if y > z else (1.0 - parameter) * (z - y)

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return 1.0 - parameter if z > y else (-parameter if z < y else 0.0)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return u * y

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        return p - min(max(p - y, -parameter * step), (1.0 - parameter) * step)
