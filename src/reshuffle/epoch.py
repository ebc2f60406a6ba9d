"""The record of one pass over the data, by whatever solver."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """One epoch. f and gap belong to the point that the run would return if it ended here; None where not evaluated."""

    epoch: int  #: counted from 1
    step: float | None  #: None for a solver without one
    f: float | None  #: the objective
    gap: float | None  #: certified: f - min f is at most this; what rounding may hide is in the last one of a certified fit
    seconds: float  #: since the run began, without the time spent on evaluating f and the gap

    def __str__(self) -> str:
        f = "" if self.f is None else f"   f {self.f:.10g}"
        gap = "" if self.gap is None else f"   gap <= {self.gap:.3e}"
        step = "" if self.step is None else f"   step {self.step:.4g}"
        return f"epoch {self.epoch:4d}{step}{f}{gap}   {self.seconds:.3f} s"
