from dataclasses import dataclass
from typing import ClassVar

from reshuffle.losses.base import Loss, Task


@dataclass(frozen=True)
class Absolute(Loss):
    """|z - y|"""

    name: ClassVar[str] = "absolute"
    task: ClassVar[Task] = "regression"

    @property
    def lipschitz(self) -> float:
        return 1.0
