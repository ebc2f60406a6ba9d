"""What to do with this data, measured: the batch size, step, order and epochs that won a race on it, and what they reached.

The race is on all rows up to `LARGEST`. Above that it is first run on a sample, with the optimum of that sample. Steps carry over
at the same batch size, but an epoch of the sample has fewer updates; so the best few batch sizes then race on all rows, from the
steps that they had. A sample cannot tell what rare rows do, nor how the batch sizes that lost there would end on all rows.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from reshuffle.optimum import Optimum, measure
from reshuffle.orders.streams import Stream, permutation
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.solver.certified import baseline
from reshuffle.solver.race import Entrant, Outcome, Place, Training, batch_grid, cost, looks_of, race, weighed

LARGEST = 2e7  #: the cost of an epoch, in entries of the data, up to which the race is on all rows
_FROM_SAMPLE = 3  # batch sizes that go on to all rows


@dataclass(frozen=True)
class Setting:
    """A way to train that was tried: the best step of this batch size in this order."""

    order: str
    batch_size: int
    step_size: float
    epochs: int  #: that it was run for
    gap: float  #: f - min f of the last iterate, the mean over the runs; infinite where one diverged
    relative_gap: float  #: over what there is to gain
    worst: float  #: the largest gap of any run
    seeds: int  #: runs that the mean is over
    rows: int  #: that they saw
    seconds: float = field(compare=False)  #: of an epoch, here


@dataclass(frozen=True)
class Advice:
    """What to do, and what it reached on this data. `rs.minimize(problem, **advice.arguments)` does it again."""

    order: str
    batch_size: int
    step_size: float
    epochs: int
    seed: int
    eps: float  #: the gap that was asked for
    reached: bool  #: whether every run reached the gap that was asked for; if not, this has the smallest gap in these epochs
    gap: float  #: f - min f of the last iterate, in a run on all rows with this seed
    relative_gap: float  #: the same over what there is to gain: f of the best constant prediction - min f
    mean_gap: float  #: over runs with several seeds, and over their last epochs
    certified_gap: float | None  #: f - min f is at most this, by duality; None without alpha
    gaps: tuple[float, ...]  #: after each epoch of that run
    gap_in_file_order: float  #: of `in_random_order`, were it run in the order of the file; infinite where that diverged
    gain: float  #: f of the best constant prediction - min f
    n: int
    rows: int  #: that the race was on at first
    runs: int  #: in the race
    run_epochs: int  #: of these runs together
    settings: tuple[Setting, ...]  #: the best of every batch size in random orders, then of those tried in balanced orders
    ladder: tuple[Setting, ...] = field(repr=False)  #: the same after 1, 2, 3, 4, 6, 8, ... epochs
    seconds: float = field(compare=False)  #: that these epochs took here
    average: str = "last"  #: the iterate that all of this is about

    @property
    def arguments(self) -> dict[str, Any]:
        """Of `rs.minimize`."""
        names = ("order", "batch_size", "step_size", "epochs", "seed", "average")
        return {name: getattr(self, name) for name in names}

    @property
    def in_random_order(self) -> Setting:
        """The best for loaders that know no order but a random one."""
        tried = [setting for setting in self.settings if setting.order == "rr" and setting.epochs == self.epochs]
        return min(tried, key=lambda setting: setting.gap)

    def of_batch_size(self, batch_size: int, eps: float) -> Setting | None:
        """The best with this batch size: the fewest epochs in which every run reached this gap or, where none did, the smallest
        gap; None where it was not tried, as a sample has fewer rows.
        """
        tried = [setting for setting in self.ladder if setting.batch_size == batch_size]
        enough = self.epochs if eps <= self.eps else 1  # sooner than the advice a few runs may have been there, but not all
        there = [setting for setting in tried if setting.worst <= eps and setting.epochs >= enough]
        if not tried:
            return None
        epochs = min(s.epochs for s in there) if there else max(s.epochs for s in tried)
        return min((s for s in there or tried if s.epochs == epochs), key=lambda s: weighed(s.order, s.gap))

    def to_dict(self) -> dict[str, Any]:
        """Every number but the ladder, ready for JSON: what is not finite becomes None."""
        numbers: dict[str, Any] = finite(asdict(replace(self, ladder=())))
        del numbers["ladder"]
        return numbers


def gain_of(problem: Problem, optimum: Optimum) -> float:
    """f of the best constant prediction - min f."""
    return baseline(problem).gain(optimum.f)


@dataclass(frozen=True)
class _Raced:
    """A race, the rows it was on, and what there was to gain on them."""

    outcome: Outcome
    rows: int
    gain: float

    def settings(self, places: Iterable[Place]) -> list[Setting]:
        return [
            Setting(
                order=place.entrant.order,
                batch_size=place.entrant.batch_size,
                step_size=place.entrant.step,
                epochs=place.epochs,
                gap=place.gap,
                relative_gap=place.gap / self.gain,
                worst=place.largest,
                seeds=place.seeds,
                rows=self.rows,
                seconds=place.seconds,
            )
            for place in places
        ]

    def in_random_order(self) -> list[Place]:
        """Those that were still there at the end, the best first."""
        last = self.outcome.winner.epochs
        return sorted((p for p in self.outcome.places if p.entrant.order == "rr" and p.epochs == last), key=lambda p: p.gap)


def advise(problem: Problem, optimum: Optimum, eps: float, *, seed: int) -> Advice | None:
    """How to reach f - min f <= eps; None where training starts at a minimum."""
    start = problem.objective(np.zeros(problem.dimension))
    if start - optimum.f <= 1e-12 * abs(start):
        return None
    gain, sizes, starts = gain_of(problem, optimum), batch_grid(problem.n), None
    races: list[_Raced] = []
    if cost(problem) > LARGEST:
        races.append(_on_sample(problem, eps / gain, seed))
        starts = {p.entrant.batch_size: p.entrant.notch for p in races[0].in_random_order()[:_FROM_SAMPLE]}
        sizes = sorted(starts)
    races.append(_Raced(race(problem, optimum.f, eps, sizes=sizes, seed=seed, start=starts), problem.n, gain))
    winner, random = races[-1].outcome.winner, races[-1].in_random_order()[0].entrant
    gaps, seconds = _train(problem, optimum, winner.entrant, winner.epochs, seed)
    in_file, _ = _train(problem, optimum, random._replace(order="ig"), winner.epochs, seed)
    return Advice(
        order=winner.entrant.order,
        batch_size=winner.entrant.batch_size,
        step_size=winner.entrant.step,
        epochs=winner.epochs,
        seed=seed,
        eps=eps,
        reached=races[-1].outcome.reached,
        gap=gaps[-1],
        relative_gap=gaps[-1] / gain,
        mean_gap=winner.gap,
        certified_gap=None if optimum.error is None else gaps[-1] + optimum.error,
        gaps=tuple(gaps),
        gap_in_file_order=float(np.mean([in_file[look - 1] for look in looks_of(winner.epochs)])),
        gain=gain,
        n=problem.n,
        rows=races[0].rows,
        runs=sum(raced.outcome.runs for raced in races),
        run_epochs=sum(raced.outcome.epochs for raced in races),
        settings=_joined([raced.settings(raced.outcome.places) for raced in races]),
        ladder=_joined([raced.settings(raced.outcome.ladder) for raced in races]),
        seconds=seconds,
    )


def sample_of(problem: Problem, rows: int, seed: int) -> Problem:
    """So many of its rows, drawn at random, as they lie."""
    return problem.take(np.sort(permutation(problem.n, seed, 0, Stream.SAMPLE_OF_ROWS)[:rows]))


def _on_sample(problem: Problem, tol: float, seed: int) -> _Raced:
    rows = max(2, int(problem.n * LARGEST / cost(problem)))
    sample = sample_of(problem, rows, seed)
    optimum = measure(sample)
    gain = gain_of(sample, optimum)
    sizes = [b for b in batch_grid(problem.n) if b < rows]  # all rows of a sample at once are a batch that the data has not
    return _Raced(race(sample, optimum.f, tol * gain, sizes=sizes, seed=seed), rows, gain)


def _joined(found: list[list[Setting]]) -> tuple[Setting, ...]:
    """By order and batch size; what was seen on all rows stands in for what was seen on the sample."""
    *sampled, whole = found
    known = {(setting.order, setting.batch_size) for setting in whole}
    before = [setting for settings in sampled for setting in settings if (setting.order, setting.batch_size) not in known]
    return tuple(sorted(before + whole, key=lambda s: (s.order != "rr", s.batch_size, s.epochs)))


def _train(problem: Problem, optimum: Optimum, entrant: Entrant, epochs: int, seed: int) -> tuple[list[float], float]:
    """The gap after each epoch, infinite once the run diverged, and the seconds that they took."""
    run, looks = Training(problem, *entrant.lane, entrant.step, seed), range(1, epochs + 1)
    run.go_on(looks)
    return [max(run.values.get(look, inf) - optimum.f, 0.0) for look in looks], sum(run.seconds)
