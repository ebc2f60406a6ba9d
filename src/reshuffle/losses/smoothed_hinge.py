from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge with its kink rounded to a parabola over 1 - gamma <= y z <= 1, for y = -1, +1"""

    name: ClassVar[str] = "smoothed_hinge"
    task: ClassVar[Task] = "classification"
    lipschitz: ClassVar[float] = 1.0
    dual_domain: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    gamma: float = 1.0

    def __post_init__(self) -> None:
        self._require("gamma", 0.0 < self.gamma < float("inf"), "use a positive number")

    @property
    def smoothness(self) -> float:
        return 1.0 / self.gamma

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        short = 1.0 - y * z
        if short <= 0.0:
            return 0.0
        return short - 0.5 * parameter if short >= parameter else 0.5 * short * short / parameter

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return -y * min(max((1.0 - y * z) / parameter, 0.0), 1.0)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        return u * y + 0.5 * parameter * u * u

    @staticmethod
    def curvature(z: float, y: float, parameter: float) -> float:
        return 1.0 / parameter if 0.0 < 1.0 - y * z < parameter else 0.0

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        short = 1.0 - y * p
        if short <= 0.0:
            return p
        return p + step * y if short >= parameter + step else p + y * step * short / (parameter + step)
