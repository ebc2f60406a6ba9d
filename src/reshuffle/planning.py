"""Which batch size, which step size, does the order matter, how many epochs: constants + theory -> a recommendation, with reasons.

Constants for batch sizes 1, 2, 4, ..., n share what they can; D and sigma* come from solving the problem once. For every batch size
the theorem then says how many gradient evaluations bring f - min f to eps; the smallest batch within 10 % of the best is taken.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

from reshuffle import __version__
from reshuffle.diagnostics import look_at
from reshuffle.optimum import Optimum, measure
from reshuffle.orders import describe, make_order
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.spectral import constants_by_batch_size
from reshuffle.theory import Theorem, theorem_for
from reshuffle.validation import renamed, whole_number

_WITHIN = 1.1


@dataclass(frozen=True)
class Choice:
    """What the guarantee says of one batch size."""

    batch_size: int
    hat: float  #: that the theorem rests on: the largest Lhat_pi of the sample (smooth) or the mean Ghat_pi
    til: float  #: the same of Ltil_pi or Gtil_pi
    step_size: float  #: for these epochs in a random order
    step_size_limit: float | None  #: the largest step that the theorem allows; None for Lipschitz losses, which have no such limit
    epochs: int  #: until f - min f <= eps in a random order
    evaluations: float  #: the same in gradient evaluations
    epochs_in_file_order: int


@dataclass(frozen=True)
class Plan:
    """The recommendation and what it rests on."""

    n: int  #: samples
    d: int  #: features
    loss: str  #: as text, with its parameter
    alpha: float
    eps: float  #: the gap f - min f to reach
    choices: tuple[Choice, ...]  #: one for each batch size 1, 2, 4, ..., n
    recommended: Choice  #: the smallest batch size within 10 % of the fewest evaluations
    proportional_up_to: int  #: up to this batch size, b samples at a time need no more evaluations, so b times fewer updates
    full_gradient_evaluations: float | None  #: of gradient descent by its own guarantee; smooth losses
    prior_evaluations: float  #: of earlier theory at batch size 1, as an order of magnitude
    distance: float  #: D = |x_0 - x*|
    sigma: float  #: the noise sigma* at the optimum; nan for a loss with kinks
    warnings: tuple[str, ...]  #: what about the data itself calls for one
    seed: int
    permutations: int  #: measured for each batch size
    version: str = __version__

    l2 = property(lambda self: renamed("l2", "alpha", self.alpha, 0.0), doc="What `alpha` was called.")

    @property
    def order(self) -> str:
        """Random reshuffling, which the recommendation is about."""
        return "rr"

    def to_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON: what is not finite becomes None."""
        return {name: finite(value) for name, value in {**asdict(self), "order": self.order}.items()}

    def __str__(self) -> str:
        best, first = self.recommended, self.choices[0]
        evaluations = f"{best.evaluations:.3g} gradient evaluations"
        lines = [
            f"train with   batch size {best.batch_size}, step size {best.step_size:.4g}, {describe(self.order)}",
            f"expect       f - min f <= {self.eps:g} after {best.epochs} epochs at the latest ({evaluations})",
            f"why          batch size 1 would need {first.evaluations / best.evaluations:.2f} times the evaluations "
            f"(constants {first.hat:.4g} and {first.til:.4g}, here {best.hat:.4g} and {best.til:.4g})",
            f"batches      up to {self.proportional_up_to}, b samples at a time need b times fewer updates than one",
            f"order        in {describe('ig')} it takes {best.epochs_in_file_order} epochs to promise the same",
            f"before       about {self.prior_evaluations:.3g} evaluations by earlier theory (order of magnitude, batch size 1)",
        ]
        if self.full_gradient_evaluations is not None:
            lines.append(f"full batch   {self.full_gradient_evaluations:.3g} evaluations by gradient descent and its own guarantee")
        lines.append(f"based on     D = {self.distance:.4g}, {self.permutations} permutations, seed {self.seed}")
        lines += [f"warning      {warning}" for warning in self.warnings]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Survey:
    """What plans for every eps share: the optimum, and the constants of each batch size, in random orders and in the file's own."""

    problem: Problem
    optimum: Optimum
    theorem: Theorem
    theorem_in_file: Theorem
    random: dict[int, Any]
    in_file: dict[int, Any]
    permutations: int
    seed: int

    def choices(self, eps: float) -> tuple[Choice, ...]:
        return tuple(self._choice(batch_size, eps) for batch_size in self.random)

    def full_gradient_evaluations(self, eps: float) -> float | None:
        return self.theorem.full_gradient_evaluations(self.random[1], self.optimum, eps)

    def prior_evaluations(self, eps: float) -> float:
        """Of earlier theory at batch size 1, as an order of magnitude."""
        return self.theorem.prior_work(self.random[1], self.optimum, eps)[0].evaluations

    def _choice(self, batch_size: int, eps: float) -> Choice:
        c, best = self.random[batch_size], self.optimum
        epochs, step = self.theorem.tightest(c, best, eps)
        limit, evaluations = self.theorem.step_limit(c), self.theorem.tightest_evaluations(c, best, eps)
        in_file, _ = self.theorem_in_file.tightest(self.in_file[batch_size], best, eps)
        return Choice(batch_size, *self.theorem.constants_used(c), step, limit, epochs, evaluations, in_file)


def plan(
    problem: Problem,
    *,
    eps: float = 1e-3,
    permutations: int = 10,
    seed: int = 0,
    optimum: Optimum | None = None,
    feature_names: Sequence[str] | None = None,
) -> Plan:
    """How to train on this data, by the theorems: see `Plan`.

    eps : the gap f - min f to reach.
    permutations : random orders that the constants are measured over, for each batch size.
    optimum : what `theory.measure(problem)` returns; measured if not given.
    feature_names : names of the columns, for the warnings.
    """
    check_eps(eps)
    return plan_from(survey(problem, permutations=permutations, seed=seed, optimum=optimum), eps=eps, feature_names=feature_names)


def check_eps(eps: float) -> None:
    if not 0.0 < eps < float("inf"):
        raise ValueError(f"eps={eps!r} must be a positive number")


def survey(problem: Problem, *, permutations: int, seed: int, optimum: Optimum | None = None) -> Survey:
    permutations = whole_number("permutations", permutations, 1)
    seed = whole_number("seed", seed, 0)
    theorem, theorem_in_file = (theorem_for(problem, make_order(name, problem.n, seed)) for name in ("rr", "ig"))
    best, sizes = optimum or measure(problem), batch_grid(problem.n)
    random = constants_by_batch_size(problem, sizes, permutations=permutations, seed=seed)
    in_file = constants_by_batch_size(problem, sizes, order="ig", permutations=1, seed=seed)
    return Survey(problem, best, theorem, theorem_in_file, random, in_file, permutations, seed)


def plan_from(found: Survey, *, eps: float, feature_names: Sequence[str] | None = None) -> Plan:
    problem, choices = found.problem, found.choices(eps)
    best = recommend(choices)
    warnings = look_at(problem, batch_size=best.batch_size, epochs=best.epochs, eps=eps, feature_names=feature_names)
    return Plan(
        n=problem.n,
        d=problem.d,
        loss=str(problem.loss),
        alpha=problem.alpha,
        eps=eps,
        choices=choices,
        recommended=best,
        proportional_up_to=_proportional(choices),
        full_gradient_evaluations=found.full_gradient_evaluations(eps),
        prior_evaluations=found.prior_evaluations(eps),
        distance=found.optimum.distance,
        sigma=found.optimum.sigma,
        warnings=tuple(warnings),
        seed=found.seed,
        permutations=found.permutations,
    )


def recommend(choices: Sequence[Choice]) -> Choice:
    """The smallest batch within 10 % of the fewest evaluations."""
    fewest = min(choice.evaluations for choice in choices)
    return next(choice for choice in choices if choice.evaluations <= _WITHIN * fewest)


def batch_grid(n: int) -> list[int]:
    """1, 2, 4, ... and n."""
    return sorted({2**k for k in range(n.bit_length()) if 2**k <= n} | {n})


def _proportional(choices: tuple[Choice, ...]) -> int:
    """The last batch size of the grid up to which none needs more evaluations than batch size 1."""
    return [*takewhile(lambda choice: choice.evaluations <= choices[0].evaluations, choices)][-1].batch_size
