"""What a run leaves behind: the points, the dual values, a record of every epoch, and where it all came from."""

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle import __version__
from reshuffle.epoch import Epoch
from reshuffle.frames import frame
from reshuffle.orders import Order
from reshuffle.spectral import Constants
from reshuffle.vectors import Vector


class DivergenceError(ArithmeticError):
    """The iterates left the finite numbers: the step was too large."""


@dataclass(frozen=True, eq=False)
class Run:
    """The result of `minimize`."""

    x: Vector  #: the average that was asked for; with average="epoch", the x_hat_K of the paper
    last: Vector  #: the last iterate
    dual: Vector | None  #: the n dual values l'(a_i'x, y_i) seen in the last epoch, in the order of the data
    history: list[Epoch]  #: a record of every epoch
    batch_size: int
    average: str  #: "epoch", "weighted", "last" or "suffix"
    allowed: int  #: epochs that were asked for; a tol may have stopped it earlier
    rule: Order = field(repr=False)  #: the order as an object
    relative_gap: float | None = None  #: certified, as `tol` has it; None where no tol was asked for
    constants: Constants | None = field(repr=False, default=None)  #: where they were needed for the steps
    start: Vector | None = field(repr=False, default=None)  #: where it began; None for a sum of any functions
    following: NDArray[np.int64] | None = field(repr=False, default=None)  #: the order of one more epoch, where the run makes them
    version: str = __version__

    @property
    def order(self) -> str:
        """The name of the order."""
        return self.rule.name

    @property
    def n(self) -> int:
        """Samples."""
        return self.rule.n

    @property
    def seed(self) -> int:
        """Of the order."""
        return self.rule.seed

    @property
    def steps(self) -> list[float]:
        """The step of every epoch."""
        return [epoch.step for epoch in self.history if epoch.step is not None]

    @property
    def stopped(self) -> bool:
        """By its tol, before the last epoch that was allowed."""
        return len(self.history) < self.allowed

    @property
    def f(self) -> float | None:
        """f(x); None where no objective was given."""
        return self.history[-1].f

    @property
    def gap(self) -> float | None:
        """Certified upper bound of f(x) - min f; None means no certificate (alpha = 0)."""
        return self.history[-1].gap

    @property
    def seconds(self) -> float:
        """That the epochs took."""
        return self.history[-1].seconds

    def to_frame(self) -> Any:
        """The history as a pandas data frame, a row for each epoch."""
        names = [field.name for field in fields(Epoch) if field.name != "epoch"]
        columns = {"epoch": [entry.epoch for entry in self.history]}
        return frame({**columns, **{name: [getattr(entry, name) for entry in self.history] for name in names}}).set_index("epoch")

    def to_dict(self) -> dict[str, Any]:
        """Settings, results and the whole history, ready for JSON."""
        return {
            "n": self.n,
            "order": self.order,
            "batch_size": self.batch_size,
            "epochs": len(self.history),
            "seed": self.seed,
            "average": self.average,
            "f": self.f,
            "certified_gap": self.gap,
            "certified_relative_gap": self.relative_gap,
            "seconds": self.seconds,
            "x": self.x.tolist(),
            "history": [asdict(epoch) for epoch in self.history],
            "version": self.version,
        }

    def __str__(self) -> str:
        last = self.history[-1]
        gap = "no certificate" if last.gap is None else f"f - min f <= {last.gap:.3e}"
        f = "" if last.f is None else f"f = {last.f:.10g}, "
        return f"{f}{gap} after {last.epoch} epochs ({self.order}, b = {self.batch_size}, {last.seconds:.3f} s)"
