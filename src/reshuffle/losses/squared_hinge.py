from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y z)^2 for y = -1, +1, as scikit-learn has it (no factor 1/2)"""

    name: ClassVar[str] = "squared_hinge"
    task: ClassVar[Task] = "classification"

    @property
    def smoothness(self) -> float:
        return 2.0
