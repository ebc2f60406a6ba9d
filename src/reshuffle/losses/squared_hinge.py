import math
from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y z)^2 for y = -1, +1, as scikit-learn has it (no factor 1/2)"""

    name: ClassVar[str] = "squared_hinge"
    task: ClassVar[Task] = "classification"
    smoothness: ClassVar[float] = 2.0
    dual_domain: ClassVar[tuple[float, float]] = (-math.inf, 0.0)

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        return max(0.0, 1.0 - y * z) ** 2

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return -2.0 * y * max(0.0, 1.0 - y * z)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return u * y + 0.25 * u * u

    @staticmethod
    def curvature(z: float, y: float, parameter: float) -> float:
        return 2.0 if y * z < 1.0 else 0.0

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        return (p + 2.0 * step * y) / (1.0 + 2.0 * step) if y * p < 1.0 else p
