"""What every loss has."""

from dataclasses import dataclass, fields
from typing import ClassVar, Literal

Task = Literal["classification", "regression", "any"]


@dataclass(frozen=True)
class Loss:
    """l(z, y) of a margin or prediction z = a'x and a label y, convex in z."""

    name: ClassVar[str]
    task: ClassVar[Task]

    @property
    def smoothness(self) -> float | None:
        """L: the Lipschitz constant of l'(., y), or None where l has a kink."""
        return None

    @property
    def lipschitz(self) -> float | None:
        """G: the Lipschitz constant of l(., y), or None where it has none."""
        return None

    def __str__(self) -> str:
        values = [f"{getattr(self, field.name):g}" for field in fields(self)]
        return ":".join([self.name, *values])

    def _require(self, parameter: str, holds: bool, remedy: str) -> None:
        if not holds:
            raise ValueError(f"{parameter}={getattr(self, parameter)!r} does not fit the {self.name} loss; {remedy}")
