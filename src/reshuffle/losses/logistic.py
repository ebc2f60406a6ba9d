from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class Logistic(Loss):
    """ln(1 + exp(-y z)) for y = -1, +1"""

    name: ClassVar[str] = "logistic"
    task: ClassVar[Task] = "classification"

    @property
    def smoothness(self) -> float:
        return 0.25

    @property
    def lipschitz(self) -> float:
        return 1.0
