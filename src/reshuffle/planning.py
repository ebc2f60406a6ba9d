"""Which batch size, which step size, which order, how many epochs: what to do, measured, and beside it what is promised.

What to do is what won a race on the data (`advising`). For the promise, constants for batch sizes 1, 2, 4, ..., n share what they
can; D and sigma* come from solving the problem once. For every batch size the theorems then say how many gradient evaluations bring
f - min f to eps; the smallest batch within 10 % of the best is taken.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from math import inf, nan
from typing import Any

import numpy as np

from reshuffle import __version__
from reshuffle.advising import Advice, Setting, advise, gain_of
from reshuffle.assessment.study import WITHIN, Study
from reshuffle.defaults import TOL
from reshuffle.diagnostics import look_at
from reshuffle.optimum import Optimum, measure
from reshuffle.orders import Order, make_order
from reshuffle.orders.prefixes import from_prefixes
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.solver.race import batch_grid
from reshuffle.spectral import as_lipschitz, constants_by_batch_size
from reshuffle.theory import (
    EPOCHS,
    THEOREM_3,
    Facts,
    Prior,
    Theorem,
    gradient_descent,
    in_words,
    prior_work,
    shortest,
    theorem_for,
    theorems_for,
    variance_factor,
)
from reshuffle.validation import gap_to_promise, renamed, whole_number
from reshuffle.vectors import Vector
from reshuffle.wording import compared, count, counted, factor, number, percent

MOST_EPOCHS = 1_000_000  #: a promise that takes more is of no use to anybody
_WITHIN = 1.1
_APART = 30.0  # times the median size of a feature: a ratio that scaling removes
_COSTS = 2.0  # times the gap of a random order, from which on the order of the file is said to cost something
#: The point that a promise is about, by the name of the average.
KEPT = {"epoch": "the average of the epochs", "weighted": "the weighted average", "last": "the last iterate"}


@dataclass(frozen=True)
class Choice:
    """What the guarantee says of one batch size."""

    batch_size: int
    hat: float  #: that the theorem rests on: what Lhat_pi (smooth) or Ghat_pi of the orders in use is at most
    til: float  #: the same of Ltil_pi or Gtil_pi
    measured_hat: float  #: the mean of Lhat_pi or Ghat_pi over the random orders that were measured
    measured_til: float  #: the same of Ltil_pi or Gtil_pi
    step_size: float  #: for these epochs in random orders
    step_size_limit: float | None  #: the largest step that the theorem allows; None for Lipschitz losses, which have no such limit
    epochs: int  #: until f - min f <= eps is promised in random orders
    evaluations: float  #: the same in gradient evaluations
    theorem: int  #: the number of the theorem that promises it
    average: str  #: the point that it is about, as `minimize` calls it
    holds: str  #: for certain, on average, or with a probability
    epochs_in_file_order: int
    theorem_in_file_order: int
    discrepancy_in_file_order: float | None  #: over that of a random order; None with kinks, or with all rows in one batch
    textbook_epochs: int  #: of the best promise in random orders if L (or G) were all that is known of the data
    textbook_step: float


@dataclass(frozen=True)
class Plan:
    """What to do and what it reached, what is promised, and what both rest on."""

    n: int  #: samples
    d: int  #: features
    loss: str  #: as text, with its parameter
    alpha: float
    fit_intercept: bool
    scale: str  #: what was done to the data: see `rs.scale`
    weighted: bool  #: whether some rows count more than others
    eps: float  #: the gap f - min f to reach
    gain: float  #: what there is to gain: f of the best constant prediction - min f
    advice: Advice | None  #: what to do, measured; None where training starts at a minimum
    choices: tuple[Choice, ...]  #: what is promised, for each batch size 1, 2, 4, ..., n
    promised: Choice  #: the smallest batch size within 10 % of the fewest evaluations
    useless: str | None  #: why so late a promise is of no use, and what would change it; None where it is of use
    smallest_buffer: (
        int | None
    )  #: rows of a shuffle buffer that costs at most 10 % more epochs than random orders, whatever the eps
    proportional_up_to: int  #: up to this batch size, b samples at a time need no more evaluations, so b times fewer updates
    full_gradient_evaluations: float  #: of gradient descent, or of the subgradient method, by its own guarantee
    prior_evaluations: float | None  #: of earlier theory at batch size 1; None where its conditions fail
    prior_work: str | None  #: whose
    prior_exact: bool  #: with the constants that its source states, or as an order of magnitude
    distance: float  #: D = |x_0 - x*|
    sigma: float  #: the noise sigma* at the optimum; nan for a loss with kinks
    warnings: tuple[str, ...]  #: what about the data itself calls for one
    seed: int
    permutations: int  #: measured for each batch size
    version: str = __version__

    l2 = property(lambda self: renamed("l2", "alpha", self.alpha, 0.0), doc="What `alpha` was called.")

    def to_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON: what is not finite becomes None."""
        advice = None if self.advice is None else self.advice.to_dict()
        return {name: finite(value) for name, value in {**asdict(self), "advice": advice}.items()}

    def code_for(self, library: str, read: str = "X, y = ...  # your data; labels of two classes as -1 and 1\n") -> str:
        """The advice as code to paste, for "torch", "sklearn" or "reshuffle"; `read` is code that makes X and y, as they are before
        scaling, and `weights`, where rows have some.
        """
        from reshuffle.snippets import snippet

        if self.advice is None:
            raise ValueError("there is no code to write: x = 0, where training starts, is already a minimum")
        facts: dict[str, Any] = {
            name: getattr(self, name) for name in ("loss", "alpha", "fit_intercept", "scale", "weighted", "advice")
        }
        return snippet(library, read=read, **facts)

    def __str__(self) -> str:
        lines = [*self._advised(), *self._promised(), *self._shuffling()]
        lines += [f"warning      {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _advised(self) -> Iterator[str]:
        advice = self.advice
        if advice is None:
            yield "do           nothing: x = 0, where training starts, is already a minimum"
            return
        yield f"do           {in_words_of(advice)}, {counted(advice.epochs, 'epoch')}; keep the last iterate"
        asked = f"asked for: {number(self.eps)}, {percent(self.eps / self.gain)}"
        done = "" if advice.reached else f", the least of all that was tried in {counted(advice.epochs, 'epoch')}"
        share = f"{percent(advice.relative_gap)} of what there is to gain"
        yield f"reached      f - min f = {number(advice.gap)}, {share} ({asked}){done}"
        certified = (
            "no certificate without alpha" if advice.certified_gap is None else f"certified: at most {advice.certified_gap:.3g}"
        )
        rows = "" if advice.rows == self.n else f", first on a sample of {advice.rows:,} rows"
        raced = f"{counted(advice.runs, 'run')} of {counted(len(self.choices), 'batch size')} raced{rows}"
        yield f"             in {advice.seconds:.2g} s of training here; {certified}; {raced}"
        other = advice.in_random_order
        if advice.order != other.order:
            more = compared(other.gap, advice.mean_gap, "that gap", "less than that gap", "that gap")
            yield f"random order {in_words_of(other)}, as many epochs: {more} on average over orders"

    def _promised(self) -> Iterator[str]:
        best = self.promised
        if self.useless is not None:
            yield f"promised     no useful promise: {self.useless}"
            return
        how = f"at batch size {best.batch_size} and step size {best.step_size:.4g}"
        yield f"promised     f - min f <= {self.eps:.3g} after {best.epochs} epochs {how}, for {KEPT[best.average]},"
        yield f"             {best.holds}, whatever data has these constants (Theorem {best.theorem})"

    def _shuffling(self) -> Iterator[str]:
        """What the order of the file and a buffer are worth."""
        costs = False
        if self.advice is not None and self.advice.in_random_order.batch_size < self.n:
            file, random = self.advice.gap_in_file_order, self.advice.in_random_order.gap
            costs = file > _COSTS * random
            if costs:
                cost = f"ends at {factor(file / random)} times the gap of a random order" if file < inf else "diverges"
                yield f"file order   {cost}: shuffle"
            else:
                yield "file order   ends as low as a random order here"
        if self.smallest_buffer == 1 and not costs:
            yield "buffer       none is needed: the order of the file will do for any eps, as promises go"
        elif self.smallest_buffer not in (None, 1):
            more = f"{100 * (WITHIN - 1):.3g} % more epochs than a random order, for any eps"
            yield f"buffer       one of {self.smallest_buffer} rows is promised at most {more}"


def in_words_of(setting: Advice | Setting) -> str:
    """The batch size, step and order, for people."""
    rows = "one row at a time" if setting.batch_size == 1 else f"batches of {setting.batch_size:,} rows"
    order = "each epoch ordered by the one before (balanced)" if setting.order == "balanced" else "a new random order each epoch"
    return f"{rows}, step size {number(setting.step_size)}, {order}"


@dataclass(frozen=True, eq=False)
class Survey:
    """What plans for every eps share: the optimum, the constants of each batch size in random orders and in the file's own, and the
    discrepancy of the latter.
    """

    problem: Problem
    optimum: Optimum
    rules: dict[bool, Order]  #: random orders, and that of the file (True)
    constants: dict[bool, dict[int, Any]]
    lipschitz: dict[bool, dict[int, Any]]  #: for a loss that is smooth as well; empty for any other
    squares: Vector | None  #: of the sums of gradients at the optimum, in the file's order; None for a loss with kinks
    permutations: int
    seed: int

    @property
    def random(self) -> dict[int, Any]:
        return self.constants[False]

    @property
    def theorems(self) -> list[Theorem]:
        return theorems_for(self.problem, self.rules[False])

    def facts(self, batch_size: int, *, in_file: bool = False, safe: bool = False) -> Facts:
        squares = self.squares if in_file else None
        return Facts.of(
            self.constants[in_file][batch_size],
            self.optimum,
            self.rules[in_file],
            intercept=self.problem.fit_intercept,
            discrepancy=None if squares is None else from_prefixes(squares, batch_size),
            lipschitz=self.lipschitz[in_file].get(batch_size),
            safe=safe,
        )

    def choices(self, eps: float) -> tuple[Choice, ...]:
        return tuple(self._choice(batch_size, eps) for batch_size in self.random)

    def full_gradient_evaluations(self, eps: float) -> float:
        return gradient_descent(self.facts(1), eps)

    def prior(self, eps: float) -> tuple[Prior, float] | None:
        """The first earlier result that holds for random orders, with its gradient evaluations at batch size 1."""
        return next(iter(prior_work(self.facts(1), eps)), None)

    def smallest_buffer(self, batch_size: int) -> int | None:
        """That costs hardly more epochs than a random order, whatever the eps; None where no order matters."""
        if self.squares is None or batch_size == self.problem.n:
            return None
        study = Study(self.problem, batch_size=batch_size, optimum=self.optimum, seed=self.seed)
        return study.search("buffer", WITHIN, eps=None)[0]

    def _discrepancy(self, batch_size: int) -> float | None:
        mean = self.optimum.sigma**2 * variance_factor(self.problem.n, batch_size)
        return None if self.squares is None or mean == 0.0 else from_prefixes(self.squares, batch_size) / mean

    def _choice(self, batch_size: int, eps: float) -> Choice:
        facts = self.facts(batch_size)
        best = shortest(self.theorems, facts, eps)
        if best.epochs > EPOCHS:  # for so many epochs only what holds in every order can be said
            facts = self.facts(batch_size, safe=True)
            best = shortest(self.theorems, facts, eps)
        within = best.theorem.within(facts)
        in_file = shortest(theorems_for(self.problem, self.rules[True]), self.facts(batch_size, in_file=True), eps)
        textbook = shortest(self.theorems, facts.textbook(), eps)
        return Choice(
            batch_size=batch_size,
            hat=nan if within is None else within.hat,
            til=nan if within is None else within.til,
            measured_hat=float(self.random[batch_size].hat.mean()),
            measured_til=float(self.random[batch_size].til.mean()),
            step_size=best.step,
            step_size_limit=best.theorem.step_limit(facts),
            epochs=best.epochs,
            evaluations=float(self.problem.n * best.epochs),
            theorem=best.theorem.number,
            average=best.theorem.output,
            holds=in_words(best.theorem.in_expectation, 0.0 if within is None else within.failure),
            epochs_in_file_order=in_file.epochs,
            theorem_in_file_order=in_file.theorem.number,
            discrepancy_in_file_order=self._discrepancy(batch_size),
            textbook_epochs=textbook.epochs,
            textbook_step=textbook.step,
        )


def plan(
    problem: Problem,
    *,
    eps: float | None = None,
    tol: float = TOL,
    permutations: int = 3,
    seed: int = 0,
    optimum: Optimum | None = None,
    feature_names: Sequence[str] | None = None,
) -> Plan:
    """How to train on this data: what to do, measured, and what is promised: see `Plan`.

    eps : the gap f - min f to reach, if it is to be named as such.
    tol : the same relative to what there is to gain, f of the best constant prediction - min f; for where no eps is given.
    permutations : random orders that the constants are measured over, for each batch size.
    seed : of the orders, in the race as in the constants.
    optimum : what `theory.measure(problem)` returns; measured if not given.
    feature_names : names of the columns, for the warnings; those of the problem if not given.
    """
    check_accuracy(eps, tol)
    found = survey(problem, permutations=permutations, seed=seed, optimum=optimum)
    return plan_from(found, eps=eps_for(found, eps, tol), feature_names=feature_names)


def check_accuracy(eps: float | None, tol: float) -> None:
    for name, value in {"eps": eps, "tol": tol}.items():
        if value is not None:
            gap_to_promise(value, name)


def eps_for(found: "Survey", eps: float | None, tol: float) -> float:
    """The gap that is meant."""
    return tol * gain_of(found.problem, found.optimum) if eps is None else eps


def survey(problem: Problem, *, permutations: int, seed: int, optimum: Optimum | None = None) -> Survey:
    permutations = whole_number("permutations", permutations, 1)
    seed = whole_number("seed", seed, 0)
    rules = {in_file: make_order("ig" if in_file else "rr", problem.n, seed) for in_file in (False, True)}
    theorem_for(problem, rules[True])  # refuse what no theorem covers before any work
    best, sizes = optimum or measure(problem), batch_grid(problem.n)
    constants, lipschitz = {}, {}
    for in_file, rule in rules.items():
        constants[in_file] = constants_by_batch_size(problem, sizes, order=rule, permutations=permutations, seed=seed)
        both = problem.smoothness is not None and THEOREM_3.assumes(problem, rule)
        lipschitz[in_file] = {b: as_lipschitz(problem, c, rule) for b, c in constants[in_file].items() if both}
    squares = None if problem.smoothness is None else problem.prefix_norms(best.x, np.arange(problem.n))
    return Survey(problem, best, rules, constants, lipschitz, squares, permutations, seed)


def plan_from(found: Survey, *, eps: float, feature_names: Sequence[str] | None = None) -> Plan:
    problem, choices = found.problem, found.choices(eps)
    best, prior = recommend(choices), found.prior(eps)
    names = problem.feature_names if feature_names is None else feature_names
    advice = advise(problem, found.optimum, eps, seed=found.seed)
    warnings = [*look_at(problem, batch_size=best.batch_size, epochs=best.epochs, eps=eps, feature_names=names)]
    return Plan(
        n=problem.n,
        d=problem.d,
        loss=str(problem.loss),
        alpha=problem.alpha,
        fit_intercept=problem.fit_intercept,
        scale="none" if problem.scaling is None else problem.scaling.kind,
        weighted=problem.weighted,
        eps=eps,
        gain=gain_of(problem, found.optimum),
        advice=advice,
        choices=choices,
        promised=best,
        useless=useless(found, best, eps),
        smallest_buffer=found.smallest_buffer(best.batch_size),
        proportional_up_to=_proportional(choices),
        full_gradient_evaluations=found.full_gradient_evaluations(eps),
        prior_evaluations=None if prior is None else prior[1],
        prior_work=None if prior is None else prior[0].work,
        prior_exact=prior is not None and prior[0].exact,
        distance=found.optimum.distance,
        sigma=found.optimum.sigma,
        warnings=tuple(warnings),
        seed=found.seed,
        permutations=found.permutations,
    )


def useless(found: Survey, best: Choice, eps: float) -> str | None:
    """Why a promise takes more epochs than anybody has, and what would change it."""
    if best.epochs <= MOST_EPOCHS:
        return None
    head = f"theorems ask for {count(best.epochs)} epochs, as"
    squares = found.problem.squared_column_norms()
    positive = squares[squares > 0.0]
    if positive.size > 1 and float(positive.max()) > _APART**2 * float(np.median(positive)):
        return f"{head} the features differ in size by orders of magnitude; scale them"
    facts = found.facts(best.batch_size)
    still = shortest(found.theorems, replace(facts, sigma=0.0, dual_norm=0.0, discrepancy=0.0), eps)
    if still.epochs < 0.1 * best.epochs:
        return f"{head} gradients of single rows are far from zero at the optimum (noise); a larger batch or eps would help"
    return f"{head} the optimum lies far out where the data hardly shows it (conditioning); a larger alpha or eps would help"


def recommend(choices: Sequence[Choice]) -> Choice:
    """The smallest batch within 10 % of the fewest evaluations."""
    fewest = min(choice.evaluations for choice in choices)
    return next(choice for choice in choices if choice.evaluations <= _WITHIN * fewest)


def _proportional(choices: tuple[Choice, ...]) -> int:
    """The last batch size of the grid up to which none needs more evaluations than batch size 1."""
    return [*takewhile(lambda choice: choice.evaluations <= choices[0].evaluations, choices)][-1].batch_size
