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
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        return (p + step * y) / (1.0 + step)
