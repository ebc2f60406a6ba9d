"""What a run leaves behind: the points, the dual values, a record of every epoch, and where it all came from."""

from dataclasses import asdict, dataclass, field
from typing import Any

from reshuffle import __version__
from reshuffle.epoch import Epoch
from reshuffle.optimum import Optimum
from reshuffle.orders import Order
from reshuffle.spectral import Constants
from reshuffle.theory import Theorem
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
    order: str  #: its name
    batch_size: int
    n: int  #: samples
    seed: int
    average: str  #: "epoch", "last" or "suffix"
    rule: Order = field(repr=False)  #: the order as an object
    theorem: Theorem | None = field(repr=False)  #: that holds for this problem and order
    relative_gap: float | None = None  #: certified, as `tol` has it; None where no tol was asked for
    stopped: bool = False  #: by its tol, before the last epoch that was allowed
    constants: Constants | None = field(repr=False, default=None)  #: where they were needed for the steps
    version: str = __version__

    @property
    def steps(self) -> list[float]:
        """The step of every epoch."""
        return [epoch.step for epoch in self.history if epoch.step is not None]

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

    def bound(self, optimum: Optimum, constants: Constants) -> float:
        """What the theorem for this order promised for x_hat_K after these steps: a bound of (the mean of) f(x_hat_K) - min f.
        Infinite where it promised nothing: for another average, for a step above the limit, where no theorem holds, or for the mean
        over orders where these decided when to stop.
        """
        if self.theorem is None or self.average != "epoch" or (self.stopped and self.theorem.in_expectation):
            return float("inf")
        return self.theorem.bound(constants, optimum, self.steps)

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
