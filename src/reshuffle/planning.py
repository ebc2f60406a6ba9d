"""Which batch size, which step size, does the order matter, how many epochs: constants + theory -> a recommendation, with reasons.

Constants for batch sizes 1, 2, 4, ..., n share what they can; D and sigma* come from solving the problem once. For every batch size
the theorem then says how many gradient evaluations bring f - min f to eps; the smallest batch within 10 % of the best is taken.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from reshuffle import __version__
from reshuffle.optimum import Optimum, measure
from reshuffle.orders import describe, make_order
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.spectral import constants_by_batch_size
from reshuffle.theory import Theorem, theorem_for
from reshuffle.validation import whole_number

_WITHIN = 1.1
_FEW_ENTRIES = 2_000_000  # up to here the problem is solved again with scaled features, to see what that would gain


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
    best = optimum or measure(problem)
    sizes = batch_grid(problem.n)
    return Survey(
        problem=problem,
        optimum=best,
        theorem=theorem,
        theorem_in_file=theorem_in_file,
        random=constants_by_batch_size(problem, sizes, permutations=permutations, seed=seed),
        in_file=constants_by_batch_size(problem, sizes, order="ig", permutations=1, seed=seed),
        permutations=permutations,
        seed=seed,
    )


def plan_from(found: Survey, *, eps: float, feature_names: Sequence[str] | None = None) -> Plan:
    problem, best = found.problem, found.optimum
    choices = found.choices(eps)
    recommended = recommend(choices)
    return Plan(
        n=problem.n,
        d=problem.d,
        loss=str(problem.loss),
        alpha=problem.alpha,
        eps=eps,
        choices=choices,
        recommended=recommended,
        proportional_up_to=_proportional(choices),
        full_gradient_evaluations=found.full_gradient_evaluations(eps),
        prior_evaluations=found.prior_evaluations(eps),
        distance=best.distance,
        sigma=best.sigma,
        warnings=tuple(look_at(problem, recommended, eps, feature_names)),
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
    up_to = 1
    for choice in choices:
        if choice.evaluations > choices[0].evaluations:
            break
        up_to = choice.batch_size
    return up_to


def look_at(problem: Problem, recommended: Choice, eps: float, names: Sequence[str] | None) -> list[str]:
    """What about the data itself calls for a warning."""
    found = [*_heavy_rows(problem), *_heavy_features(problem, recommended, eps, names), *_repeated_rows(problem)]
    return [*found, *_constant_features(problem, names), *_sorted_labels(problem)]


def _heavy_rows(problem: Problem) -> list[str]:
    smoothness, lipschitz = problem.smoothness, problem.lipschitz
    weights = smoothness if smoothness is not None else np.square(lipschitz if lipschitz is not None else 1.0)
    sizes = weights * problem.squared_norms()
    usual = float(np.quantile(sizes, 0.99))
    heavy = np.flatnonzero(sizes > 4.0 * usual)
    if usual == 0.0 or heavy.size == 0:
        return []
    rows = ", ".join(str(row) for row in heavy[np.argsort(-sizes[heavy])][:5])
    gain = float(np.sqrt(sizes.max() / usual))
    text = f"{heavy.size} rows decide L (largest: {rows}, from 0)"
    return [f"{text}; scaled down to the 99th percentile, b = 1 could step {gain:.1f} times larger"]


def _named(column: int, names: Sequence[str] | None) -> str:
    return f"{column} ({names[column]})" if names is not None else str(column)


def _heavy_features(problem: Problem, recommended: Choice, eps: float, names: Sequence[str] | None) -> list[str]:
    squares = problem.rows.squared_column_norms()
    total = float(squares.sum())
    top = int(np.argmax(squares))
    if problem.d == 1 or total == 0.0 or squares[top] < 0.5 * total:
        return []
    text = f"feature {_named(top, names)} carries {100 * squares[top] / total:.0f} % of the data's squared norm; scale the features"
    gain = _gain_of_scaling(problem, squares, recommended, eps)
    return [text if gain is None else f"{text}: to unit size, the promise would take {gain:.3g} times fewer evaluations"]


def _gain_of_scaling(problem: Problem, squares: Any, recommended: Choice, eps: float) -> float | None:
    if problem.rows.entries > _FEW_ENTRIES or problem.smoothness is None:
        return None
    factors = 1.0 / np.sqrt(np.where(squares > 0.0, squares / problem.n, 1.0))
    scaled = problem.replace(X=problem.rows.scale_columns(factors))
    best = measure(scaled)
    found = constants_by_batch_size(scaled, [recommended.batch_size], permutations=3, seed=0)[recommended.batch_size]
    epochs, _ = theorem_for(scaled, make_order("rr", scaled.n, 0)).tightest(found, best, eps)
    return recommended.epochs / epochs


def _repeated_rows(problem: Problem) -> list[str]:
    """Equal rows have equal products with a random vector, and unequal ones have not."""
    probe = np.random.default_rng(0).standard_normal(problem.dimension)
    repeated = problem.n - np.unique(problem.margins(probe)).size
    if repeated < max(2, 0.01 * problem.n):
        return []
    return [f"{repeated} of the {problem.n} rows repeat another row; a sample weight can stand for each"]


def _constant_features(problem: Problem, names: Sequence[str] | None) -> list[str]:
    low, high = problem.rows.column_ranges()
    constant = np.flatnonzero(low == high)
    if constant.size == 0 or problem.n == 1:
        return []
    shown = ", ".join(_named(int(column), names) for column in constant[:5])
    return [f"{constant.size} features are constant ({shown}{', ...' if constant.size > 5 else ''}, from 0); drop them"]


def _sorted_labels(problem: Problem) -> list[str]:
    y = problem.labels
    changes, apart = np.abs(np.diff(y)).mean() if problem.n > 1 else 0.0, 0.0
    if problem.n > 1:
        apart = float(np.abs(y - np.random.default_rng(0).permutation(y)).mean())
    if problem.n < 20 or apart == 0.0 or changes > 0.3 * apart:
        return []
    return ["the labels are sorted in the file; its own order is a poor one to train in"]
