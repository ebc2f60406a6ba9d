from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class Squared(Loss):
    """(z - y)^2 / 2"""

    name: ClassVar[str] = "squared"
    task: ClassVar[Task] = "regression"

    @property
    def smoothness(self) -> float:
        return 1.0
