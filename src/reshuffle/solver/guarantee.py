"""The guarantee next to the run: what was reached, what the theorem promised, and what earlier theory would have."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Self

from reshuffle import theory
from reshuffle.optimum import Optimum
from reshuffle.orders import NAMES
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.solver.run import Run
from reshuffle.solver.steps import SAMPLED_PERMUTATIONS
from reshuffle.spectral import Constants, SmoothConstants
from reshuffle.spectral import constants as compute_constants


@dataclass(frozen=True)
class Guarantee:
    """Upper bounds of f(x_hat) - min f, for the paper's average of the iterates."""

    gap: float | None  #: f - min f as measured; None where f was not evaluated
    gap_error: float | None  #: how far `optimum_f` may be above the minimum, where that is known
    optimum_f: float  #: min f as measured
    distance: float  #: D = |x_0 - x*|
    sigma: float  #: the noise sigma* at the optimum
    bound: float  #: of the theorem; infinite where it promises nothing (a step too large, another average)
    theorem: int  #: 1, 2 or 3
    prior: float | None  #: of earlier theory with its own step, as an order of magnitude, at batch size 1; smooth losses only

    @classmethod
    def of(cls, problem: Problem, run: Run, optimum: Optimum, constants: Constants | None = None) -> Self:
        """`optimum` is that of `theory.measure` from the point where the run started; `constants` are those of the run if it has
        them, and are computed if not.
        """
        found = constants or run.constants
        if found is None and run.order not in NAMES:
            raise ValueError("the run had an order and steps of its own; pass constants=rs.constants(problem, order=...)")
        if found is None:
            sampled = min(len(run.history), SAMPLED_PERMUTATIONS)
            found = compute_constants(problem, batch_size=run.batch_size, order=run.order, permutations=sampled, seed=run.seed)
        smooth = isinstance(found, SmoothConstants)
        prior = None
        if smooth:
            numbers = {"L": found.largest_sample, "distance": optimum.distance, "sigma": optimum.sigma}
            prior = theory.prior_bound(
                problem.n, epochs=len(run.history), order=run.order if run.order in NAMES else "ig", **numbers
            )
        return cls(
            gap=None if run.f is None else run.f - optimum.f,
            gap_error=optimum.error,
            optimum_f=optimum.f,
            distance=optimum.distance,
            sigma=optimum.sigma,
            bound=run.bound(optimum, found),
            theorem=(1 if run.order in ("rr", "so") else 2) if smooth else 3,
            prior=prior,
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: finite(value) for name, value in asdict(self).items()}

    def __str__(self) -> str:
        mean = "the mean over orders of " if self.theorem != 2 else ""
        lines = [
            f"measured     f - min f = {self.gap:.4g}, with min f = {self.optimum_f:.10g}",
            f"promised     {mean}f - min f <= {self.bound:.4g} (Theorem {self.theorem}, D = {self.distance:.4g})",
        ]
        if not isfinite(self.bound):
            lines[1] = "promised     nothing: the theorem is about steps within its limit and the average 'epoch'"
        if self.prior is not None:
            lines.append(f"before       about {self.prior:.4g} by earlier theory with its step 1/(nL) (order of magnitude, b = 1)")
        return "\n".join(lines)
