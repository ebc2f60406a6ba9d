from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


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
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        outside = p - min(max(p, y - parameter), y + parameter)
        return p - min(max(outside, -step), step)
