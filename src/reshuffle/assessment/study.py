"""What assessments of all orders share, measured once: the optimum, the constants of random orders, and runs in them."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from math import exp, inf, log, nan, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.assessment.results import Assessment, Measured, Promised, Smallest, Tried
from reshuffle.evidence import constants_for, gather
from reshuffle.optimum import Optimum
from reshuffle.optimum import measure as find
from reshuffle.orders import Order, describe, make_order
from reshuffle.orders.prefixes import from_prefixes
from reshuffle.problem import Problem
from reshuffle.solver.practice import EPOCHS, LARGEST, Bench
from reshuffle.spectral import constants
from reshuffle.theory import Facts, Shortest, shortest, theorems_for, variance_factor
from reshuffle.validation import gap_to_promise, whole_number
from reshuffle.vectors import Vector
from reshuffle.wording import count

EPS = 1e-3  #: the gap that promises are for, if nothing is said
DRAWS = 32  #: orders over which the mean of the discrepancy is taken
_NEAR = 3.0  # times the gap that random orders end at: a few runs cannot tell gaps apart that are closer
WITHIN = 1.1  #: times the promised epochs of a random order: what the least shuffling may cost
_PRECISION = 1.05  # of the parameter that `smallest` finds: the orders that are drawn decide more than the next digit does


#: Families that `smallest` knows, and whether their orders are those of the file at 1 and random at n, or the other way round.
FAMILIES = {"buffer": False, "blocks": True}


def check_family(family: str) -> None:
    if family not in FAMILIES:
        raise ValueError(f"family={family!r} is not known; use one of {', '.join(FAMILIES)}")


def check_within(within: float) -> None:
    if not 1.0 < within < inf:
        raise ValueError(f"within={within!r} must be more than 1: 1.1 allows 10 % more epochs than a random order")


class Study:
    """What assessments of all orders share: the optimum, the constants of random orders, and runs in them."""

    def __init__(
        self,
        problem: Problem,
        *,
        batch_size: int,
        eps: float = EPS,
        optimum: Optimum | None = None,
        measure: bool | None = None,
        epochs: int = EPOCHS,
        seeds: int = 3,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> None:
        if problem.loss.smoothness is None:
            what = f"loss={str(problem.loss)!r} has kinks, and what is promised for it is the same in every order"
            raise ValueError(f"{what}; use a smooth loss, such as 'smoothed_hinge' or 'huber'")
        eps = gap_to_promise(eps)
        self.problem, self.eps, self.seed = problem, eps, whole_number("seed", seed, 0)
        self.batch_size = whole_number("batch_size", batch_size, 1, problem.n, "rows of the data")
        if self.batch_size == problem.n:
            raise ValueError(
                f"batch_size={problem.n} takes all rows in one step, so there is no order to assess; use a smaller one"
            )
        self.seeds, self.draws = whole_number("seeds", seeds, 1), whole_number("draws", draws, 1)
        self.epochs = whole_number("epochs", epochs, 1)
        self._given, self.asked = optimum, measure
        self._assessed: dict[str, Assessment] = {}
        problem.labels  # noqa: B018 refuse a loss without values before any work

    def order(self, scheme: Any, k: int = 0) -> Order:
        """With the k-th seed."""
        rule = make_order(scheme, self.problem.n, self.seed + k)
        if rule.iterator is not None:
            raise ValueError("scheme is an iterator of permutations, which can be asked for once; pass an array or a name")
        return rule

    @cached_property
    def optimum(self) -> Optimum:
        return self._given or find(self.problem)

    def assess(self, scheme: Any) -> Assessment:
        if isinstance(scheme, str) and scheme not in self._assessed:
            self._assessed[scheme] = self._assess(scheme)
        return self._assessed[scheme] if isinstance(scheme, str) else self._assess(scheme)

    def _assess(self, scheme: Any) -> Assessment:
        rule, why = self.order(scheme), self._unpromised(scheme)
        known = not why or (rule.adaptive and not self.unmeasured)
        R = self.discrepancies(scheme) if known else np.array([nan])
        c = constants(self.problem, batch_size=self.batch_size, order=self._sample(scheme)) if known else None
        return Assessment(
            scheme=rule.name,
            label=describe(rule.name),
            batch_size=self.batch_size,
            eps=self.eps,
            discrepancy=float(R.mean()),
            spread=float(R.std(ddof=1)) if R.size > 1 else 0.0,
            draws=R.size,
            lhat=nan if c is None else float(c.hat.mean() / self._random.hat.mean()),
            ltil=nan if c is None else float(c.til.mean() / self._random.til.mean()),
            promised=None if why else self.promised(scheme, float(R.mean())),
            unpromised=why,
            measured=None if self.unmeasured else self._measured(scheme),
            unmeasured=self.unmeasured,
        )

    def _unpromised(self, scheme: Any) -> str:
        """Why nothing can be promised beforehand; empty where it can."""
        rule = self.order(scheme)
        if rule.adaptive:
            return "its orders are made while a run goes on"
        return "" if rule.permutes else "an epoch does not visit each row once"

    # --- discrepancy

    def discrepancies(self, scheme: Any) -> Vector:
        """R_pi of `draws` orders over its mean for random ones; of one where there is only one."""
        mean = self.optimum.sigma**2 * variance_factor(self.problem.n, self.batch_size)
        found = [from_prefixes(self.problem.prefix_norms(self.optimum.x, order), self.batch_size) for order in self._draws(scheme)]
        return np.array(found) / mean if mean > 0.0 else np.ones(len(found))  # without noise all orders are the same

    def _draws(self, scheme: Any) -> Iterator[NDArray[np.int64]]:
        """Epoch k of the run with the k-th seed: some schemes draw something once for all epochs of a run. Orders that a run makes
        are those of the last quarter of one.
        """
        first = self.order(scheme)
        if first.adaptive:
            yield from self._bench(0).orders(first, self._practice[0], self.epochs - self._window)
            return
        yield first.permutation(0)
        most = min(self.draws, first.count or self.draws) if not first.fixed else self.draws
        for k in range(1, most):
            drawn = self.order(scheme, k).permutation(k)
            if first.fixed and k == 1 and np.array_equal(drawn, first.permutation(0)):
                return
            yield drawn

    def _sample(self, scheme: Any) -> list[NDArray[np.int64]]:
        """A few of these orders, as their constants hardly differ."""
        return [order for order, _ in zip(self._draws(scheme), range(self.seeds), strict=False)]

    # --- promises

    @cached_property
    def _random(self) -> Any:
        return constants(self.problem, batch_size=self.batch_size, order=self._sample("rr"))

    @cached_property
    def _facts(self) -> Facts:
        """Of random orders, with constants that hold in every order there is."""
        rule = self.order("rr")
        found = constants_for(self.problem, rule, self.batch_size)
        return gather(self.problem, rule, found, self.optimum, epochs=1, safe=True)

    def slowdown(self, scheme: Any, discrepancy: float) -> float:
        """Promised, of an order with this discrepancy."""
        return self._shortest(scheme, discrepancy).epochs / self._shortest("rr", 1.0).epochs

    def promised(self, scheme: Any, discrepancy: float) -> Promised:
        rule = self.order(scheme)
        discrepancy = 1.0 if rule.uniform else discrepancy  # the mean itself, where it is known
        best = self._shortest(scheme, discrepancy)
        found = constants_for(self.problem, rule, self.batch_size)
        limit = theorems_for(self.problem, rule)[0].step_limit(gather(self.problem, rule, found, None, epochs=self.epochs))
        return Promised(
            epochs=best.epochs,
            slowdown=self.slowdown(scheme, discrepancy),
            slowdown_at_small_eps=sqrt(discrepancy),
            step_size=best.step,
            step_size_limit=inf if limit is None else limit,
            theorem=best.theorem.number,
        )

    def _shortest(self, scheme: Any, discrepancy: float) -> Shortest:
        """By a theorem for any order, with this discrepancy in the mean, or by one for random orders, which have their own."""
        mean = self.optimum.sigma**2 * variance_factor(self.problem.n, self.batch_size)
        facts = replace(self._facts, discrepancy=discrepancy * mean)
        return shortest(theorems_for(self.problem, self.order(scheme)), facts, self.eps)

    # --- runs

    @cached_property
    def unmeasured(self) -> str:
        """Why no runs are made; empty where they are."""
        entries = self.problem.rows.entries
        if self.asked is False:
            return "measure=False"
        if self.asked is None and entries > LARGEST:
            return f"the data has {count(entries)} stored entries, more than {count(LARGEST)}"
        start = self.problem.objective(np.zeros(self.problem.dimension))
        if start - self.optimum.f <= 1e-12 * abs(start):
            return "x = 0, where runs start, is already a minimum"
        return ""

    @cached_property
    def _practice(self) -> tuple[float, int]:
        """The step of all runs, and how many times it is that of the theory in random orders."""
        limit = self.promised("rr", 1.0).step_size_limit
        multiple = self._bench(0).practical_multiple(limit)
        return multiple * limit, multiple

    @property
    def _window(self) -> int:
        """A quarter of the epochs."""
        return -(-self.epochs // 4)

    def _bench(self, k: int) -> Bench:
        return Bench(self.problem, self.optimum, self.batch_size, self.seed + k, average="last", epochs=self.epochs)

    def _gaps(self, scheme: Any) -> Vector:
        """After every epoch, the mean over the seeds."""
        step, _ = self._practice
        runs = [self._bench(k).gaps(self.order(scheme, k), step) for k in range(self.seeds)]
        whole = np.array([[*gaps, *[inf] * (self.epochs - len(gaps))] for gaps in runs])
        return _mean(np.maximum(whole, np.spacing(self.optimum.f)))  # rounding may put f below its minimum

    @cached_property
    def _random_gaps(self) -> Vector:
        return self._gaps("rr")

    def _measured(self, scheme: Any) -> Measured:
        random = self._random_gaps
        gaps = random if self.order(scheme).name == "rr" else self._gaps(scheme)
        step, multiple = self._practice
        mine, theirs = _running_mean(gaps, self._window), _running_mean(random, self._window)
        target, start = _NEAR * theirs[-1], self._bench(0).start_gap
        return Measured(
            epochs=self.epochs,
            seeds=self.seeds,
            step_size=step,
            multiple=multiple,
            gaps=tuple(gaps.tolist()),
            gap=float(mine[-1]),
            gap_over_rr=float(mine[-1] / theirs[-1]),
            slowdown=_reached(mine, target, start) / _reached(theirs, target, start),
        )

    # --- the least shuffling that will do

    def smallest(self, family: str, within: float, eps: float | None) -> Smallest:
        check_family(family)
        check_within(within)
        parameter, tried = self.search(family, within, eps)
        return Smallest(family, self.problem.n, parameter, within, eps, self.assess(f"{family}:{parameter}"), tried)

    def search(self, family: str, within: float, eps: float | None) -> tuple[int, tuple[Tried, ...]]:
        """By bisection. At the end where orders are random it is known to do."""
        n, turned, tried = self.problem.n, FAMILIES[family], dict[int, Tried]()

        def does(parameter: int) -> bool:
            scheme = f"{family}:{parameter}"
            R = float(self.discrepancies(scheme).mean())
            tried[parameter] = Tried(parameter, R, sqrt(R) if eps is None else self.slowdown(scheme, R))
            return tried[parameter].slowdown <= within

        good, bad = (1, n) if turned else (n, 1)
        if does(bad):
            good = bad
        while max(good, bad) > min(good, bad) + 1 and max(good, bad) > _PRECISION * min(good, bad):
            middle = min(max(round(exp(0.5 * (log(good) + log(bad)))), min(good, bad) + 1), max(good, bad) - 1)
            good, bad = (middle, bad) if does(middle) else (good, middle)
        return good, tuple(tried[parameter] for parameter in sorted(tried))


def _running_mean(values: Vector, window: int) -> Vector:
    """Over the last `window` of them, or as many as there are: a gap that falls below a level for one epoch is not there yet."""
    return np.array([_mean(values[max(0, k - window) : k]) for k in range(1, values.size + 1)])


def _mean(gaps: Vector) -> Vector:
    """The geometric one, down the columns: gaps differ by factors, and one epoch that strays far must not decide."""
    mean: Vector = np.exp(np.mean(np.log(gaps), axis=0))
    return mean


def _reached(values: Vector, level: float, start: float) -> float:
    """Epochs until the gap is down to this level, as if it fell evenly, on a log scale, from one epoch to the next: where three are
    enough, whole numbers would be too coarse. Infinite where it never is.
    """
    below = np.flatnonzero(values <= level)
    if not below.size:
        return inf
    k = int(below[0])
    before, after = (start if k == 0 else values[k - 1]), values[k]
    return k + (log(before / level) / log(before / after) if before > level else 1.0)
