from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class Hinge(Loss):
    """max(0, 1 - y z) for y = -1, +1"""

    name: ClassVar[str] = "hinge"
    task: ClassVar[Task] = "classification"

    @property
    def lipschitz(self) -> float:
        return 1.0
