from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


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
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        return p - min(max(p - y, -step), step)
