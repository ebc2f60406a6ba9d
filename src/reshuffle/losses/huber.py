from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


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
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        return p - step * min(max((p - y) / (1.0 + step), -parameter), parameter)
