from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


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
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        return p - min(max(p - y, -parameter * step), (1.0 - parameter) * step)
