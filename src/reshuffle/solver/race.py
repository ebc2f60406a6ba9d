"""Which batch size, step and order train best on this data: a race of short runs, by successive halving.

The measure is the gap f - min f of the last iterate after K epochs. At one K and one batch size it falls with the step, then rises;
as K grows the best step falls. So K climbs a ladder, runs go on from where they were, and on every rung only the neighbours of the
best step are looked at. As rungs grow longer, batch sizes that are behind drop out, until the work of a rung is what it may be.
Once the gap that was asked for is reached, or the ladder ends, the best few meet again with finer steps and more seeds.

What diverges has an infinite gap and loses. Nothing here depends on time: the same seed makes the same race.
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from math import ceil, inf, isfinite, log2
from typing import NamedTuple

import numpy as np

from reshuffle.losses.parts import cores
from reshuffle.orders import make_order
from reshuffle.problem import Problem
from reshuffle.solver.shuffled import Sweep

EPOCHS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96)  #: the ladder; large data does not climb to its end
SEEDS, MOST_SEEDS = 3, 10  #: that means are over in heats and in finals, where the work allows it
WORK = 1.5e9  #: entries of the data that heats, and then finals, may visit; the cheapest race takes more where the data is large
_ROW = 40  # entries that a row costs besides its own
_LOOKS = 4  # at f on each rung, evenly spread over its epochs: one epoch that ends well or badly must not decide
_FEWEST, _FINALISTS = 3, 6  # that stay in the race whatever they cost, and that are in the finals at most
_COARSE, _FINE = 2, 1  # notches between steps: a factor of 2, and of sqrt 2
_WORTH = 0.8  # times the gap of random orders, at most: a balanced order asks for more of the user's code
_PLENTY = 6000  # epochs to spend: enough for several seeds from the start
_BALANCED, _BALANCED_FROM = "balanced", 3  # the first epoch of a balanced order is a random one, and there is little to see in two
_SHORTEST = 8  # epochs of the last rung, however much they cost
_FARTHEST = 200  # notches: steps between 2^-100 and 2^100


Lane = tuple[str, int]  #: an order and a batch size, whose best step is looked for


class Entrant(NamedTuple):
    """What is raced: steps are powers of sqrt 2, counted in notches."""

    order: str
    batch_size: int
    notch: int

    @property
    def step(self) -> float:
        return float(2.0 ** (self.notch / 2))

    @property
    def lane(self) -> Lane:
        return self.order, self.batch_size

    def moved(self, notches: int) -> "Entrant":
        return self._replace(notch=self.notch + notches)


@dataclass(frozen=True)
class Place:
    """Where an entrant stood when it was last looked at."""

    entrant: Entrant
    epochs: int
    gap: float  #: the mean over looks and seeds; infinite where a run diverged
    largest: float  #: of the same gaps
    seeds: int  #: that the mean is over
    seconds: float = field(compare=False)  #: of an epoch: the median, by the clock of its thread


@dataclass(frozen=True)
class Outcome:
    places: tuple[Place, ...]  #: the best of every batch size in random orders, then of those that were tried in balanced orders
    ladder: tuple[Place, ...]  #: the same on every rung that they were on
    winner: Place
    reached: bool  #: the gap that was asked for
    runs: int
    epochs: int  #: of all runs together


class Training:
    """One run, which can go on."""

    def __init__(self, problem: Problem, order: str, batch_size: int, step: float, seed: int) -> None:
        self._problem, self._step, self.epochs = problem, step, 0
        self._x = np.zeros(problem.dimension)
        self._sweep = Sweep(problem, make_order(order, problem.n, seed), batch_size)
        self.values: dict[int, float] = {}  #: f after the epochs at which it was looked at
        self.seconds: list[float] = []
        self.finite = True

    def go_on(self, looks: Sequence[int]) -> None:
        """To the last of these epochs, looking at f after each of them."""
        dual, wanted = np.empty(self._problem.n), set(looks)
        with np.errstate(over="ignore", invalid="ignore"):
            while self.finite and self.epochs < looks[-1]:
                began = time.thread_time()
                self._sweep.run(self.epochs, self._step, self._x, dual)
                self.seconds.append(time.thread_time() - began)
                self.epochs += 1
                self.finite = bool(np.isfinite(self._x).all())
                if self.finite and self.epochs in wanted:
                    self.values[self.epochs] = self._problem.objective(self._x)


def cost(problem: Problem) -> float:
    """Of an epoch, in entries of the data."""
    return float(problem.rows.entries + _ROW * problem.n)


class Race:
    """Runs on a problem whose minimum is known."""

    def __init__(self, problem: Problem, minimum: float, seed: int) -> None:
        self.problem, self.seed = problem, seed
        self._minimum, self._floor = minimum, 4.0 * float(np.spacing(abs(minimum)))  # rounding may put f below its minimum
        self._runs: dict[tuple[Entrant, int], Training] = {}
        self.started = self.epochs = 0

    @property
    def affordable(self) -> float:
        """Epochs that heats, and then finals, may take."""
        return WORK / cost(self.problem)

    def measure(self, entrants: Iterable[Entrant], epochs: int, seeds: int) -> None:
        """Let these go on to so many epochs with the first `seeds` seeds."""
        looks, waiting = looks_of(epochs), []
        for entrant in dict.fromkeys(entrants):
            for seed in self._seeds(entrant, seeds):
                run = self._runs.get((entrant, seed))
                if run is None:
                    run = self._runs[entrant, seed] = Training(self.problem, *entrant.lane, entrant.step, seed)
                    self.started += 1
                if run.finite and epochs not in run.values:
                    waiting.append(run)
        before = sum(run.epochs for run in waiting)
        with ThreadPoolExecutor(cores()) as pool:
            list(pool.map(lambda run: run.go_on(looks), waiting))
        self.epochs += sum(run.epochs for run in waiting) - before

    def _seeds(self, entrant: Entrant, seeds: int) -> range:
        """One will do for all rows at once, which have no order."""
        return range(self.seed, self.seed + (1 if entrant.batch_size == self.problem.n else seeds))

    def gaps(self, entrant: Entrant, epochs: int, seeds: int) -> list[float]:
        """At the looks of this rung, with each seed; infinite where a run diverged."""
        runs = [self._runs.get((entrant, seed)) for seed in self._seeds(entrant, seeds)]
        values = [inf if run is None else run.values.get(look, inf) for run in runs for look in looks_of(epochs)]
        return [max(value - self._minimum, self._floor) if isfinite(value) else inf for value in values]

    def gap(self, entrant: Entrant, epochs: int, seeds: int) -> float:
        """Their mean: of steps that usually end alike, the one that never ends badly is the better."""
        gaps = self.gaps(entrant, epochs, seeds)
        return sum(gaps) / len(gaps)

    def climb(self, best: dict[Lane, Entrant], lanes: Sequence[Lane], epochs: int, seeds: int, stride: int) -> None:
        """Move the best of each lane to where neither a smaller nor a larger step ends lower. Gaps of all rows at once have no
        noise and depend on the step so sharply that it is always a fine one.
        """
        moving = list(lanes)
        strides = {lane: _FINE if lane[1] == self.problem.n else stride for lane in lanes}
        while moving:
            around = {lane: [best[lane].moved(by) for by in (-strides[lane], 0, strides[lane])] for lane in moving}
            self.measure([entrant for three in around.values() for entrant in three], epochs, seeds)
            lowest = {lane: min(three, key=lambda e: (self.gap(e, epochs, seeds), e.notch)) for lane, three in around.items()}
            moving = [lane for lane in moving if lowest[lane] != best[lane] and abs(lowest[lane].notch) < _FARTHEST]
            best.update(lowest)

    def forget(self, kept: Iterable[Entrant]) -> None:
        """All runs but those of these and their neighbours."""
        near = {entrant.moved(by) for entrant in kept for by in range(-_COARSE, _COARSE + 1)}
        self._runs = {key: run for key, run in self._runs.items() if key[0] in near}

    def place(self, entrant: Entrant, epochs: int, seeds: int) -> Place:
        runs = [run for (other, _), run in self._runs.items() if other.lane == entrant.lane]
        spent = [seconds for run in runs for seconds in run.seconds]
        gaps = self.gaps(entrant, epochs, seeds)
        seen = len(self._seeds(entrant, seeds))
        return Place(entrant, epochs, self.gap(entrant, epochs, seeds), max(gaps), seen, float(np.median(spent)))


def race(
    problem: Problem, minimum: float, target: float, *, sizes: Sequence[int], seed: int, start: dict[int, int] | None = None
) -> Outcome:
    """Which of these batch sizes reaches the gap `target` in the fewest epochs, with which step and in which order.

    start : the notch of each batch size to begin with; guessed from the data if not given.
    """
    track, first = Race(problem, minimum, seed), start or _guess(problem, sizes)
    best = {("rr", b): Entrant("rr", b, first[b]) for b in sizes}
    seeds = SEEDS if track.affordable >= _PLENTY else 1
    standing, ladder, final = list(best), dict[tuple[Lane, int], Place](), list[Place]()
    rungs = [epochs for epochs in EPOCHS if epochs <= max(_SHORTEST, track.affordable / 5)]
    for rung, epochs in enumerate(rungs):
        if epochs == _BALANCED_FROM:
            joining = {(_BALANCED, b): best[order, b]._replace(order=_BALANCED) for order, b in standing if b < problem.n}
            best |= joining
            standing += joining
        track.climb(best, standing, epochs, seeds, _COARSE)
        places = {lane: track.place(best[lane], epochs, seeds) for lane in standing}
        last = epochs == rungs[-1]
        if last or any(places[lane].largest <= target for lane in standing):
            late = [("rr", b) for b in sizes if ("rr", b) not in standing]
            if track.affordable >= 3 * len(late) * epochs:  # an answer for every batch size after as many epochs
                track.climb(best, late, epochs, 1, _COARSE)
                places |= {lane: track.place(best[lane], epochs, 1) for lane in late}
                standing += late
        standing.sort(key=lambda lane: places[lane].gap)
        ladder |= {(lane, epochs): place for lane, place in places.items()}
        if last or any(place.largest <= target for place in places.values()):
            final = _finals(track, best, standing, epochs, target)
            ladder |= {(place.entrant.lane, epochs): place for place in final}
            if last or any(place.largest <= target for place in final):
                break
        share = track.affordable / len(rungs) / (3 * seeds * (rungs[rung + 1] - epochs))
        standing = _ahead(standing, max(_FEWEST, int(share)))
        track.forget(best[lane] for lane in standing)
    arrived = [place for place in final if place.largest <= target]
    winner = min(arrived or final, key=lambda place: weighed(place.entrant.order, place.gap))
    found = sorted(ladder, key=lambda key: (key[0][0] != "rr", key[0][1], key[1]))
    last_of = {lane: ladder[lane, epochs] for lane, epochs in found}
    return Outcome(tuple(last_of.values()), tuple(ladder[key] for key in found), winner, bool(arrived), track.started, track.epochs)


def _finals(track: Race, best: dict[Lane, Entrant], standing: Sequence[Lane], epochs: int, target: float) -> list[Place]:
    """The best few again, with finer steps and more seeds; among them the best in random orders."""
    seeds = max(1, min(MOST_SEEDS, int(track.affordable / (16 * epochs))))
    first = sorted(standing, key=lambda lane: max(track.gaps(best[lane], epochs, 1)) > target)  # those that seem to be there
    few = _ahead(first, max(1, min(_FINALISTS, int(track.affordable / (8 * seeds * epochs)))))
    track.climb(best, few, epochs, seeds, _COARSE)
    track.climb(best, few, epochs, seeds, _FINE)
    return [track.place(best[lane], epochs, seeds) for lane in few]


def _ahead(ranked: Sequence[Lane], count: int) -> list[Lane]:
    """The first of these and, if it is not among them, the first in random orders, which every loader knows."""
    kept = list(ranked[:count])
    return kept if any(order == "rr" for order, _ in kept) else [*kept, next(lane for lane in ranked if lane[0] == "rr")]


def weighed(order: str, gap: float) -> float:
    """The gap, or what a balanced order has to be better than to be worth it."""
    return gap if order == "rr" else gap / _WORTH


def batch_grid(n: int) -> list[int]:
    """1, 2, 4, ... and n."""
    return sorted({2**k for k in range(n.bit_length()) if 2**k <= n} | {n})


def _guess(problem: Problem, sizes: Sequence[int]) -> dict[int, int]:
    """One over the curvature of a usual row, and more for batches, which are smoother: the race corrects it."""
    curvature = float(np.mean(problem.sample_weight * problem.squared_norms())) * (problem.loss.smoothness or 1.0)
    notch = -2.0 * log2(curvature) if curvature > 0.0 else 0.0
    return {b: round(notch + log2(b)) for b in sizes}


def looks_of(epochs: int) -> list[int]:
    """The epochs of this rung after which f is looked at."""
    before = max((rung for rung in EPOCHS if rung < epochs), default=0)
    looks = min(_LOOKS, epochs - before)
    return [before + ceil((epochs - before) * k / looks) for k in range(1, looks + 1)]
