"""Losses of a margin, for labels -1 and +1."""

import math
from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task
from reshuffle.losses.elementary import exp_below, log1p_share, log_share


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
        return log1p_share(exp_below(abs(margin))) + max(-margin, 0.0)

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        margin = y * z
        small = exp_below(abs(margin))
        return -y * (small if margin > 0.0 else 1.0) / (1.0 + small)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        a = min(max(-u * y, 0.0), 1.0)
        rest = 1.0 - a
        lost = (1.0 - rest) - a  # of 1 - a, to rounding
        return a * log_share(a) + rest * log_share(rest) + lost

    @staticmethod
    def curvature(z: float, y: float, parameter: float) -> float:
        small = exp_below(abs(z))
        return small / ((1.0 + small) * (1.0 + small))

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        """Newton's method on m - step / (1 + exp(m)) = y p, kept inside the bracket that the two sides of it give."""
        start = y * p
        low, high = start, start + step
        m = min(max(y * near, low), high)
        for _ in range(60):
            small = math.exp(-abs(m))
            share = small / (1.0 + small) if m > 0.0 else 1.0 / (1.0 + small)
            excess = m - step * share - start
            if excess > 0.0:
                high = m
            else:
                low = m
            nearer = m - excess / (1.0 + step * share * (1.0 - share))
            if abs(nearer - m) <= 3e-2 * (1.0 + abs(m)):  # what is left then is about the square of this
                return y * nearer
            m = nearer if low < nearer < high else 0.5 * (low + high)
        return y * m


@dataclass(frozen=True)
class Multinomial(Loss):
    """ln sum_k exp(z_k) - z_y of a margin for each class: not of one, so `CertifiedClassifier` alone can minimise it"""

    name: ClassVar[str] = "multinomial"
    task: ClassVar[Task] = "classification"


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
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        short = 1.0 - y * p
        if short <= 0.0:
            return p
        return p + step * y if short >= parameter + step else p + y * step * short / (parameter + step)


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
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        return (p + 2.0 * step * y) / (1.0 + 2.0 * step) if y * p < 1.0 else p


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
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        return p + y * min(max(1.0 - y * p, 0.0), step)
