"""Everything that the page says, as numbers: `compute` measures, `Report` holds."""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from reshuffle import __version__
from reshuffle.advising import Advice, Setting
from reshuffle.complexity import Complexity, complexities
from reshuffle.data import Data
from reshuffle.defaults import TOL
from reshuffle.losses import Loss, get_loss
from reshuffle.orders import make_order
from reshuffle.planning import Choice, Plan, Survey, check_accuracy, eps_for, plan_from, recommend, survey
from reshuffle.problem import Problem
from reshuffle.records import finite, write_file
from reshuffle.reporting.convergence import LARGEST, Convergence, converge
from reshuffle.reporting.dataset import Dataset, Distribution, describe, distribution
from reshuffle.reporting.landscape import Landscape, landscape
from reshuffle.reporting.rivals import Rival, rivals
from reshuffle.solver.race import weighed
from reshuffle.spectral import constants_by_batch_size
from reshuffle.theory import theorem_for
from reshuffle.validation import whole_number

_SELECTABLE = (100.0, 30.0, 10.0, 3.0, 1.0)  # times eps: what the page lets its reader choose, all of it measured
_TABLED = (100.0, 10.0, 1.0)
_SPREAD = 200  # permutations in the histogram, and fewer for large data, where each takes long
_SPREAD_LARGE = 50

Stage = Callable[[str], None]


@dataclass(frozen=True)
class Accuracy:
    """An eps as the page offers it."""

    eps: float
    advised: int  #: index of the batch size that is advised
    settings: tuple[Setting | None, ...]  #: the best of each batch size; None where it was not tried
    promised: int  #: index of the best promise
    choices: tuple[Choice, ...]  #: what is promised, one for each batch size
    prior_work: str | None  #: of earlier theory at batch size 1, where its conditions hold
    prior_evaluations: float | None
    prior_exact: bool  #: with the constants of its source, or as an order of magnitude
    full_gradient_evaluations: float


@dataclass(frozen=True)
class BatchConstants:
    """Of random orders at one batch size."""

    batch_size: int
    over_hat: float  #: L / Lhat, or G^2 / Ghat
    over_til: float  #: L / Ltil, or G^2 / Gtil
    step_size: float  #: the largest that the theorem allows (smooth), or the one for eps (Lipschitz)
    textbook_step: float  #: the same, knowing L (or G) alone


@dataclass(frozen=True)
class Spread:
    """L / Lhat_pi, or G^2 / Ghat_pi, over random permutations at batch size 1."""

    permutations: int
    mean: float
    std: float
    smallest: float
    largest: float
    ratios: Distribution


@dataclass(frozen=True)
class Report:
    """All numbers of a report. `html()` is the page, `save(path)` writes it."""

    dataset: Dataset
    smooth: bool
    plan: Plan
    accuracies: tuple[Accuracy, ...]
    selected: int  #: which of the accuracies the plan is for
    largest_sample: float  #: L, or G^2
    spread: Spread
    batches: tuple[BatchConstants, ...]
    til_exponent: float | None  #: L / Ltil grows as b to this power, from b = 1 to n; None where n = 1
    step_exponent: float | None  #: the step likewise
    tabled: tuple[float, ...]  #: the accuracies of the complexity table
    complexities: tuple[Complexity, ...]
    rivals: tuple[Rival, ...]  #: the advice, and what people do without it
    landscape: Landscape  #: of batch sizes and steps
    convergence: Convergence
    source: tuple[str, ...]  #: the words by which a command line names this data; none where it was made from Python
    seconds: dict[str, float]  #: by stage
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON: what is not finite becomes None. `plan` is what `rs.plan` says for the same seed."""
        numbers: dict[str, Any] = finite(asdict(self))
        return {**numbers, "plan": self.plan.to_dict()}

    def html(self) -> str:
        from reshuffle.reporting.page import render

        return render(self)

    def save(self, path: Any) -> None:
        """Write the page. An earlier one stays as it is until the new one is complete."""
        write_file(path, self.html())


def report(
    problem: Problem,
    data: Data | None = None,
    *,
    eps: float | None = None,
    tol: float = TOL,
    permutations: int = 3,
    seed: int = 0,
    source: Sequence[str] = (),
    stage: Stage = lambda name: None,
) -> Report:
    """How to train on this data, and why, as a page: `rs.report(problem, data).save("report.html")`.

    data : what `rs.load` returned, for the names of the dataset, its labels and its features.
    eps, tol, permutations, seed : as in `plan`.
    source : the words by which a command line names this data, for the commands on the page: ["table.csv", "--target", "label"].
    stage : told what is being done, for a progress display.
    """
    check_settings(loss=problem.loss, alpha=problem.alpha, eps=eps, tol=tol, permutations=permutations, seed=seed)
    began: dict[str, float] = {}

    def begin(name: str) -> None:
        began[name] = time.perf_counter()
        stage(name)

    begin("data")
    data = data or Data(None, None, "data", problem.feature_names)
    dataset = describe(problem, data.name, data.y, data.feature_names)
    begin("optimum and constants")
    found = survey(problem, permutations=permutations, seed=seed)
    _refuse_trained(found)
    eps = eps_for(found, eps, tol)
    begin("plan")
    plan = plan_from(found, eps=eps, feature_names=data.feature_names)
    advice = plan.advice
    assert advice is not None  # as there is something to train
    accuracies = tuple(_accuracy(found, advice, accuracy) for accuracy in _times(eps, _SELECTABLE))
    selected = _SELECTABLE.index(1.0)
    batches = tuple(_batch(found, choice) for choice in accuracies[selected].choices)
    begin("spread over permutations")
    spread = _spread(found)
    begin("complexity table")
    tabled = _times(eps, _TABLED)
    rows = complexities(problem, found.optimum, found.random[1], found.constants[True][1], tabled)
    begin("training runs")
    convergence = converge(found, advice)
    textbook = next(row.textbook_step for row in batches if row.batch_size == advice.batch_size)
    beside = rivals(problem, found.optimum, advice, textbook_step=textbook, full_step=batches[-1].step_size)
    begin("batch sizes and steps")
    drawn = landscape(problem, found.optimum, advice)
    times = pairwise([*began.values(), time.perf_counter()])
    return Report(
        dataset=dataset,
        smooth=problem.smoothness is not None,
        plan=plan,
        accuracies=accuracies,
        selected=selected,
        largest_sample=found.random[1].largest_sample,
        spread=spread,
        batches=batches,
        til_exponent=_growth([row.over_til for row in batches], problem.n),
        step_exponent=_growth([row.step_size for row in batches], problem.n),
        tabled=tabled,
        complexities=tuple(rows),
        rivals=beside,
        landscape=drawn,
        convergence=convergence,
        source=tuple(source),
        seconds={name: end - start for name, (start, end) in zip(began, times, strict=True)},
    )


def check_settings(*, loss: str | Loss, alpha: float, eps: float | None, tol: float, permutations: int, seed: int) -> None:
    """What can be refused without the data."""
    check_accuracy(eps, tol)
    whole_number("permutations", permutations, 1)
    whole_number("seed", seed, 0)
    chosen = get_loss(loss)
    if chosen.task == "any":
        without = "has constants but no values, so there is nothing to train"
        raise ValueError(f"loss={str(chosen)!r} {without}; choose a loss to minimise")
    stand_in = Problem(np.zeros((2, 1)), [-1.0, 1.0], loss=chosen, alpha=alpha)  # zeros in place of the data
    theorem_for(stand_in, make_order("rr", 2, 0))


def _refuse_trained(found: Survey) -> None:
    start = found.problem.objective(np.zeros(found.problem.dimension))
    if start - found.optimum.f <= 1e-12 * abs(start):
        remedy = "" if found.problem.fit_intercept else "; an intercept may be missing (fit_intercept=True, --intercept)"
        raise ValueError(f"x = 0, where training starts, is already a minimum of f, so there is nothing to train{remedy}")


def _times(eps: float, factors: Sequence[float]) -> tuple[float, ...]:
    """eps itself to the last bit, and its multiples without the noise of rounding."""
    return tuple(eps if factor == 1.0 else float(f"{factor * eps:.6g}") for factor in factors)


def _accuracy(found: Survey, advice: Advice, eps: float) -> Accuracy:
    choices, prior = found.choices(eps), found.prior(eps)
    work, evaluations, exact = (None, None, False) if prior is None else (prior[0].work, prior[1], prior[0].exact)
    settings = tuple(advice.of_batch_size(choice.batch_size, eps) for choice in choices)
    return Accuracy(
        eps=eps,
        advised=_advised(settings, advice, eps),
        settings=settings,
        promised=choices.index(recommend(choices)),
        choices=choices,
        prior_work=work,
        prior_evaluations=evaluations,
        prior_exact=exact,
        full_gradient_evaluations=found.full_gradient_evaluations(eps),
    )


def _advised(settings: Sequence[Setting | None], advice: Advice, eps: float) -> int:
    """The batch size that is there first and, of several, with the smallest gap; that of the advice where none is there sooner."""
    there = {k: s for k, s in enumerate(settings) if s is not None and s.worst <= eps and s.epochs < advice.epochs}
    if there:
        return min(there, key=lambda k: (there[k].epochs, weighed(there[k].order, there[k].gap)))
    return next(k for k, s in enumerate(settings) if s is not None and s.batch_size == advice.batch_size)


def _batch(found: Survey, choice: Choice) -> BatchConstants:
    c, facts, theorem = found.random[choice.batch_size], found.facts(choice.batch_size), found.theorems[0]
    step, textbook = theorem.step_limit(facts), theorem.step_limit(facts.textbook())
    if step is None or textbook is None:
        step, textbook = choice.step_size, choice.textbook_step
    return BatchConstants(choice.batch_size, c.largest_sample / c.hat.mean(), c.largest_sample / c.til.mean(), step, textbook)


def _spread(found: Survey) -> Spread:
    wanted = _SPREAD if found.problem.nnz <= LARGEST else _SPREAD_LARGE
    c = found.random[1]
    if c.permutations < wanted:
        c = constants_by_batch_size(found.problem, [1], permutations=wanted, seed=found.seed)[1]
    ratios = c.largest_sample / c.hat
    std = float(np.std(ratios, ddof=1)) if ratios.size > 1 else 0.0
    return Spread(ratios.size, float(ratios.mean()), std, float(ratios.min()), float(ratios.max()), distribution(ratios))


def _growth(values: Sequence[float], n: int) -> float | None:
    """alpha of the line b^alpha through the values at b = 1 and b = n on log axes, as in the paper's figure 2."""
    return float(np.log(values[-1] / values[0]) / np.log(n)) if n > 1 else None
