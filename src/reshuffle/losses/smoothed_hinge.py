from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class SmoothedHinge(Loss):
    """The hinge with its kink rounded to a parabola over 1 - gamma <= y z <= 1, for y = -1, +1"""

    name: ClassVar[str] = "smoothed_hinge"
    task: ClassVar[Task] = "classification"

    gamma: float = 1.0

    def __post_init__(self) -> None:
        self._require("gamma", 0.0 < self.gamma < float("inf"), "use a positive number")

    @property
    def smoothness(self) -> float:
        return 1.0 / self.gamma

    @property
    def lipschitz(self) -> float:
        return 1.0
