"""What a run leaves behind: the points, the dual values, a record of every epoch, and where it all came from."""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle import __version__, theory
from reshuffle.epoch import Epoch
from reshuffle.optimum import Optimum
from reshuffle.spectral import Constants, LipschitzConstants

Vector = NDArray[np.float64]


class DivergenceError(ArithmeticError):
    """The iterates left the finite numbers: the step was too large."""


@dataclass(frozen=True, eq=False)
class Run:
    """The result of `minimize`."""

    x: Vector  #: the average that was asked for; with average="epoch", the x_hat_K of the paper
    last: Vector  #: the last iterate
    dual: Vector | None  #: the n dual values l'(a_i'x, y_i) seen in the last epoch, in the order of the data
    history: list[Epoch]  #: a record of every epoch
    order: str  #: "rr", "so", "ig", "given" or "iterator"
    batch_size: int
    n: int  #: samples
    seed: int
    average: str  #: "epoch", "last" or "suffix"
    relative_gap: float | None = None  #: certified, as `tol` has it; None where no tol was asked for
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
        """Certified upper bound of f(x) - min f; None means no certificate (l2 = 0)."""
        return self.history[-1].gap

    @property
    def seconds(self) -> float:
        """That the epochs took."""
        return self.history[-1].seconds

    def bound(self, optimum: Optimum, constants: Constants) -> float:
        """What the theorem for this order promised for x_hat_K after these steps: a bound of (the mean of) f(x_hat_K) - min f.
        Infinite where it promised nothing: for another average, or for a smooth loss if a step was above the limit.
        """
        if self.average != "epoch":
            return float("inf")
        steps, n, b = self.steps, self.n, self.batch_size
        if isinstance(constants, LipschitzConstants):
            return theory.bound_lipschitz(n, b, steps=steps, gbar=constants.gbar, distance=optimum.distance)
        if max(steps) > constants.step_size_limit * (1 + 1e-9):  # type: ignore[attr-defined]
            return float("inf")
        common: dict[str, Any] = {"steps": steps, "distance": optimum.distance, "sigma": optimum.sigma}
        if self.order in ("rr", "so"):
            return theory.bound_smooth(n, b, ltil=float(constants.til.max()), **common)
        lhat, ltil = float(constants.hat.max()), float(constants.til.max())
        return theory.bound_ig(n, b, lhat=lhat, ltil=ltil, dual_norm=optimum.dual_norm, **common)

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
