import math
from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class Logistic(Loss):
    """ln(1 + exp(-y z)) for y = -1, +1"""

    name: ClassVar[str] = "logistic"
    task: ClassVar[Task] = "classification"
    smoothness: ClassVar[float] = 0.25
    lipschitz: ClassVar[float] = 1.0
    dual_domain: ClassVar[tuple[float, float]] = (-1.0, 0.0)

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        margin = y * z
        return math.log1p(math.exp(-margin)) if margin > 0.0 else math.log1p(math.exp(margin)) - margin

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        margin = y * z
        if margin > 0.0:
            small = math.exp(-margin)
            return -y * small / (1.0 + small)
        return -y / (1.0 + math.exp(margin))

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        a = min(max(-u * y, 0.0), 1.0)
        entropy = a * math.log(a) if a > 0.0 else 0.0
        return entropy + ((1.0 - a) * math.log1p(-a) if a < 1.0 else 0.0)

    @staticmethod
    def curvature(z: float, y: float, parameter: float) -> float:
        small = math.exp(-abs(z))
        return small / (1.0 + small) ** 2

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float) -> float:
        """Newton's method on m - step / (1 + exp(m)) = y p, kept inside the bracket that the two sides of it give."""
        start = y * p
        low, high = start, start + step
        m = min(start + 0.5 * step, max(start, 0.0)) if start < 0.0 else start + step * math.exp(-start) / (1.0 + math.exp(-start))
        for _ in range(60):
            small = math.exp(-abs(m))
            share = small / (1.0 + small) if m > 0.0 else 1.0 / (1.0 + small)
            excess = m - step * share - start
            if excess > 0.0:
                high = m
            else:
                low = m
            nearer = m - excess / (1.0 + step * share * (1.0 - share))
            if abs(nearer - m) <= 1e-6 * (1.0 + abs(m)):  # what is left then is about the square of this
                return y * nearer
            m = nearer if low < nearer < high else 0.5 * (low + high)
        return y * m
