from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - y z) for y = -1, +1"""

    name: ClassVar[str] = "hinge"
    task: ClassVar[Task] = "classification"
    lipschitz: ClassVar[float] = 1.0
    dual_domain: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        return max(0.0, 1.0 - y * z)

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return -y if y * z < 1.0 else 0.0

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return u * y

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        return p + y * min(max(1.0 - y * p, 0.0), step)
