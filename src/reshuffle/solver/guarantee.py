"""The guarantee next to the run: what was reached, what the theorem promised, and what earlier theory would have."""

from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Self

from reshuffle.optimum import Optimum
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.solver.run import Run
from reshuffle.solver.steps import SAMPLED_PERMUTATIONS
from reshuffle.spectral import Constants
from reshuffle.spectral import constants as compute_constants
from reshuffle.theory import theorem_for


@dataclass(frozen=True)
class Guarantee:
    """Upper bounds of f(x_hat) - min f, for the paper's average of the iterates."""

    gap: float | None  #: f - min f as measured; None where f was not evaluated
    gap_error: float | None  #: how far `optimum_f` may be above the minimum, where that is known
    optimum_f: float  #: min f as measured
    distance: float  #: D = |x_0 - x*|
    sigma: float  #: the noise sigma* at the optimum
    bound: float  #: of the theorem; infinite where it promises nothing (a step too large, another average)
    theorem: int  #: its number
    in_expectation: bool  #: whether the bound is for the mean over orders
    prior: float | None  #: of earlier theory with its own step, as an order of magnitude, at batch size 1; smooth losses only

    @classmethod
    def of(cls, problem: Problem, run: Run, optimum: Optimum, constants: Constants | None = None) -> Self:
        """`optimum` is that of `theory.measure` from the point where the run started; `constants` are those of the run if it has
        them, and are computed if not.
        """
        theorem = run.theorem or theorem_for(problem, run.rule)
        found = constants or run.constants
        if found is None and not run.rule.repeatable:
            raise ValueError("the run had steps of its own in the orders of an iterator; pass constants=rs.constants(problem)")
        if found is None:
            sampled = min(len(run.history), SAMPLED_PERMUTATIONS)
            found = compute_constants(problem, batch_size=run.batch_size, order=run.rule, permutations=sampled, seed=run.seed)
        return cls(
            gap=None if run.f is None else run.f - optimum.f,
            gap_error=optimum.error,
            optimum_f=optimum.f,
            distance=optimum.distance,
            sigma=optimum.sigma,
            bound=run.bound(optimum, found),
            theorem=theorem.number,
            in_expectation=theorem.in_expectation,
            prior=theorem.prior_bound(found, optimum, len(run.history)),
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: finite(value) for name, value in asdict(self).items()}

    def __str__(self) -> str:
        mean = "the mean over orders of " if self.in_expectation else ""
        lines = [
            f"measured     f - min f = {self.gap:.4g}, with min f = {self.optimum_f:.10g}",
            f"promised     {mean}f - min f <= {self.bound:.4g} (Theorem {self.theorem}, D = {self.distance:.4g})",
        ]
        if not isfinite(self.bound):
            lines[1] = (
                "promised     nothing: the theorem is about steps within its limit, the average 'epoch' and epochs fixed beforehand"
            )
        if self.prior is not None:
            lines.append(f"before       about {self.prior:.4g} by earlier theory with its step 1/(nL) (order of magnitude, b = 1)")
        return "\n".join(lines)
