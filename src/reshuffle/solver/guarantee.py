"""The guarantee next to the run: what was reached, what the theorems promised, and what the theory before them would have."""

from dataclasses import asdict, dataclass, replace
from math import inf, isfinite
from typing import Any, Self

from reshuffle.evidence import constants_for, gather
from reshuffle.finite_sum import FiniteSum
from reshuffle.optimum import Optimum
from reshuffle.orders.prefixes import of_epochs
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.solver.run import Run
from reshuffle.solver.shuffled import orders_of
from reshuffle.spectral import Constants
from reshuffle.theory import in_words, prior_bound, smallest_bound, theorems_for


@dataclass(frozen=True)
class Guarantee:
    """The smallest of the bounds of f - min f that theorems promise for the point that a run returned."""

    gap: float | None  #: f - min f as measured; None where f was not evaluated
    gap_error: float | None  #: how far `optimum_f` may be above the minimum, where that is known
    optimum_f: float  #: min f as measured
    distance: float  #: D = |x_0 - x*|
    sigma: float  #: the noise sigma* at the optimum
    bound: float  #: infinite where nothing is promised
    theorem: int | None  #: the number of the theorem that promises it
    in_expectation: bool  #: whether the bound is for the mean over orders
    failure: float  #: the probability, over random orders, that a step was above the limit of its order
    textbook: float | None  #: of the same theorem at the step for these epochs, if it knew the data by L (or G) alone
    prior: float | None  #: of earlier theory at batch size 1 and its best step
    prior_work: str | None  #: whose
    prior_exact: bool  #: with the constants that its source states, or as an order of magnitude

    @classmethod
    def of(cls, problem: Problem | FiniteSum, run: Run, optimum: Optimum, constants: Constants | None = None) -> Self:
        """`optimum` is that of `theory.measure` from the point where the run started, or of `FiniteSum.optimum`; `constants` are
        those of the run if it has them, and are computed if not.

        In the order of a run that has ended nothing is left to chance: its discrepancy is measured, which takes as long as the run.
        An order that was made while running is made again, which takes as long once more.
        """
        if run.n != problem.n:
            raise ValueError(f"run visited {run.n} samples and the problem has {problem.n}; pass the problem that was minimised")
        rule, epochs, sum_of_any = run.rule, len(run.history), isinstance(problem, FiniteSum)
        theorems = theorems_for(None if sum_of_any else problem, rule)  # type: ignore[arg-type]
        # A mean over orders says nothing of a run whose orders decided when it ended.
        offered = [theorem for theorem in theorems if not (run.stopped and theorem.in_expectation)]
        found = constants or run.constants or constants_for(problem, rule, run.batch_size)
        # The probability is that of all epochs that were allowed: how many there were, the orders may have decided.
        facts = gather(problem, rule, found, optimum, epochs=run.allowed, visited=epochs)
        if rule.adaptive and isinstance(problem, Problem) and facts.smooth is not None:
            visited = replace(rule, iterator=orders_of(problem, run))
            facts = replace(facts, discrepancy=of_epochs(problem, optimum.x, visited, run.batch_size, epochs))
        best = smallest_bound(offered, facts, run.steps, run.average)
        known = facts.textbook()
        before = prior_bound(facts, epochs, "RR" if rule.uniform else "IG") if rule.permutes else None
        return cls(
            gap=None if run.f is None else run.f - optimum.f,
            gap_error=optimum.error,
            optimum_f=optimum.f,
            distance=optimum.distance,
            sigma=optimum.sigma,
            bound=inf if best is None else best.bound,
            theorem=None if best is None else best.theorem.number,
            in_expectation=best is not None and best.theorem.in_expectation,
            failure=0.0 if best is None else best.failure,
            textbook=None if best is None else best.theorem.bound(known, [best.theorem.step(known, epochs)] * epochs),
            prior=None if before is None else before[1],
            prior_work=None if before is None else before[0].work,
            prior_exact=before is not None and before[0].exact,
        )

    def to_dict(self) -> dict[str, Any]:
        return {name: finite(value) for name, value in asdict(self).items()}

    def __str__(self) -> str:
        lines = []
        if self.gap is not None:
            lines.append(f"measured     f - min f = {self.gap:.4g}, with min f = {self.optimum_f:.10g}")
        if isfinite(self.bound):
            holds = in_words(self.in_expectation, self.failure)
            lines.append(f"promised     f - min f <= {self.bound:.4g} {holds} (Theorem {self.theorem}, D = {self.distance:.4g})")
        else:
            lines.append(
                "promised     nothing: theorems are about each sample once an epoch, steps within their limit, and some averages"
            )
        if self.textbook is not None:
            lines.append(
                f"with L       f - min f <= {self.textbook:.4g} by the same theorem if L were all that it knew of the data"
            )
        if self.prior is not None:
            what = f"f - min f <= {self.prior:.4g}" if self.prior_exact else f"about {self.prior:.4g}, as an order of magnitude,"
            lines.append(f"before       {what} by {self.prior_work} with its own step (b = 1)")
        return "\n".join(lines)
