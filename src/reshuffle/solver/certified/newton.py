"""Subsampled Newton: steps to where the sum of the models of a `Batch` is least.

A small random batch comes first; when steps on it gain little, a batch some times larger takes over, and only the last few steps
see all rows. Iterations of a step end where f no longer falls as the models say, and steps that turn out too long are damped, and
less so after every full one. The models' slopes at the new point are the dual values of the certificate: they make it tight.
"""

from collections.abc import Callable, Iterable, Iterator
from math import inf, log, sqrt
from typing import NamedTuple

from reshuffle.orders.streams import Stream
from reshuffle.problem import Problem
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.batch import Batch, Chosen, Losses, Point, Smoothed, rows_for_hessian
from reshuffle.solver.certified.conjugate import Iterate
from reshuffle.solver.certified.progress import ROUNDING, TINY, Progress
from reshuffle.vectors import Vector, dot

_STRAIGHT = 1e-9  # of the slopes: with curvatures whose sum is less, a step would be longer than any margin can be
_SOLVED = 1e-20  # of the first residual, squared: conjugate gradients that came so far only turn rounding over
_SHORTEST = 1e-10  # of a step: on a shorter one, rounding hides whether f falls


class Missed(NamedTuple):
    """By how much f missed what the models had said of the last step, and the slope of that step."""

    by: float = 0.0
    slope: float = inf

    def next(self, slope: float) -> float:
        """By how much it will miss that of a step with this slope: it grows with the third power of a step, and slopes with the
        second. Near the end, rounding may turn their signs.
        """
        times = max(slope, 0.0) / max(self.slope, TINY)
        return self.by * times * sqrt(times)


def batch_sizes(n: int, dimension: int, in_blocks: bool = False) -> list[int]:
    """About so many rows: from a few a feature, each some times larger than the last, to all rows."""
    sizes, each = [n], tuning.ROWS_A_FEATURE_IN_BLOCKS if in_blocks else tuning.ROWS_A_FEATURE
    smallest = max(tuning.SMALLEST_BATCH, each * min(dimension, tuning.FEW_FEATURES))
    while sizes[-1] // tuning.GROWTH >= smallest:
        rich = sizes[-1] // tuning.GROWTH_RICH >= tuning.RICH * dimension
        sizes.append(sizes[-1] // (tuning.GROWTH_RICH if rich else tuning.GROWTH))
    return sizes[::-1]


def growing(problem: Problem, seed: int) -> Iterator[Chosen]:
    """Random batches of these sizes, each with all rows of the one before; None for all rows at last."""
    *sizes, n = batch_sizes(problem.n, problem.dimension, problem.rows.in_blocks)
    if sizes:
        drawn = problem.samples.fractions(seed, Stream.GROWING_BATCH)
        yield from (problem.samples.places(drawn < size / n) for size in sizes)
    yield None


def newton(problem: Problem, progress: Progress, x: Vector, *, seed: int, grow: bool, width: float, patience: float = inf) -> None:
    """Step until `progress` says that it is enough or, far from that, until `patience` (in products) ends. `grow` starts with a
    small batch: that is for an x that knows nothing yet. `width` is how far kinks are smoothed at first.
    """
    limit, smooth = rows_for_hessian(problem), problem.loss.smoothness is not None

    def batches() -> Iterator[Batch]:
        for rows in growing(problem, seed) if grow else [None]:
            losses = Losses(problem, rows) if smooth else Smoothed(problem, rows, width, progress.dual)
            yield Batch(problem, rows, losses, limit, progress.neighbour if rows is None and smooth else None)

    on_batches(batches(), progress, x, patience=patience)


def on_batches(batches: Iterable[Batch], progress: Progress, x: Vector, *, patience: float = inf) -> None:
    """Steps on one batch after the other, each from where the last has led, up to that of all rows. Where most of what a batch
    gained is lost on the next, it was too small to say anything but which way to go. Where the next has a row that is far more off
    than any before, steps begin with steep models.
    """
    here, fitted, off = Point(x, x, inf), inf, inf
    before: Batch | None = None
    for batch in batches:
        if before is not None:
            batch.go_on_from(before)
        before, here = batch, batch.at(here.x)
        if here.f - fitted > tuning.OVERFITS * progress.baseline.gain(fitted):
            here = _shrunk(batch, x, here)
        steep = off < inf and batch.losses.farthest(here.z) > tuning.UNSEEN * off
        here = on_batch(batch, progress, here, final=batch.rows is None, patience=patience, steep=steep)
        fitted = here.f
        if batch.losses.exact and batch.rows is not None:
            off = batch.losses.farthest(here.z)


def _shrunk(batch: Batch, start: Vector, there: Point) -> Point:
    """The best of a few points between `start` and there, both of them included."""
    here, s = batch.at(start), there.x - start
    along = there.z - here.z
    _, part = min((batch.value(start + part * s, here.z + part * along), part) for part in (1.0, 0.5, 0.25, 0.125, 0.0))
    return {0.0: here, 1.0: there}.get(part) or batch.at(start + part * s)


def from_nearby(batch: Batch, progress: Progress, x: Vector) -> None:
    """From an x that is nearly optimal, on a batch of all rows: x itself, if its gradient is so small that its own slopes prove it
    good enough, else one whole step. How far down that leads nobody asks, as its certificate says whether it was good.
    """
    losses, z = batch.losses, batch.margins(x)
    if not progress.neighbour.f < inf:
        progress.fall_back(x, batch.value(x, z))
    slopes, curvatures = _models(losses, z, False)
    gradient = batch.gradient(slopes, x)
    if progress.near(gradient):
        pull = (gradient - batch.alpha * x)[: batch.problem.d]
        if progress.offer(x, batch.value(x, z), losses.duals(slopes), pull=pull):
            return
    left = _left(progress, inf, tuning.NEARBY_SHARE, Missed(), False)
    step = batch.direction(gradient, curvatures, left, costs=progress.costs)
    there = batch.at(x + step.s)
    dual = losses.duals(slopes + losses.bent(curvatures, step.dual_along))
    progress.offer(there.x, there.f, dual, _moved(x, there.x))


def on_batch(batch: Batch, progress: Progress, here: Point, *, final: bool, patience: float = inf, steep: bool = False) -> Point:
    """Steps on one batch until `progress` says that it is enough or, if it is not the final one, until they gain little. Those on
    the final one end with their `patience` too, unless the models held in the last, as then few are to come, or as much patience
    will do at the rate so far. `steep` says what the first models are.
    """
    losses, seen = batch.losses, list[tuple[float, float]]()
    since, rounds, missed, borne = 0, 0, Missed(), tuning.CERTIFICATE_SHARE
    for _ in range(10**9 if final else tuning.BATCH_STEPS):
        slopes, curvatures = _models(losses, here.z, steep)
        gradient = batch.gradient(slopes, here.x)
        left = _left(progress if final else None, here.f, borne, missed, batch.damping > 0.0)
        step = batch.direction(gradient, curvatures, left, here, progress.costs if final else None)
        slope = float(dot(gradient, step.s))
        before, (length, here) = here, _line_search(batch, here, step.s, slope)
        decrease = before.f - here.f
        if length < 1.0 and losses.exact and not steep and losses.steepen(here.z):
            batch.forget()
        else:
            batch.damp(length, slope, step.s, progress.target if final and losses.exact else 0.0)
        steep = losses.exact and (length < 1.0 or decrease < -0.5 * tuning.TOO_LITTLE * slope)
        missed = Missed(abs(decrease + 0.5 * slope), -slope)
        held = missed.by <= tuning.KEEP_IF * abs(slope)
        if progress.small or not (held or batch.price > tuning.RENEW_WITHIN):  # small data asks for steps that are exact
            batch.forget()
        if final:
            f = here.f if losses.exact else progress.problem.objective_at(here.z, here.x)
            dual = losses.duals(slopes + losses.bent(curvatures, step.dual_along)) if progress.worth_certifying(-slope) else None
            if progress.offer(here.x, f, dual, _moved(before.x, here.x) if losses.exact else 0.0):
                return here
            seen.append((batch.products, min(progress.gap, progress.f)))
            if batch.products > patience and not held and _to_go(seen, progress.aim) > patience:
                return here
        elif length == 1.0 and decrease < tuning.BATCH_DONE * progress.baseline.gain(here.f):
            return here
        since += 1
        late = 1.0 + tuning.SETTLE_LATER * rounds  # settling too early can go round in a circle, so it gets rarer
        models_hold = missed.by * late <= tuning.MODELS_HOLD * abs(slope)
        often = since >= tuning.SETTLE_AFTER + late and batch.damping == 0.0  # damped steps lead nowhere near their end
        if length == 0.0 or (length == 1.0 and (models_hold or often)):
            since, rounds = 0, rounds + 1
            if losses.settle(here.z):
                here, borne = batch.at(here.x), tuning.SHRINK * borne
    return here


def _to_go(seen: list[tuple[float, float]], aim: float) -> float:
    """Products until the gap is what is aimed for, at the rate of the second half of those that were made, each seen with the gap
    after it.
    """
    made, gap = seen[-1]
    if gap <= aim:
        return 0.0
    then, before = next(point for point in reversed(seen) if point[0] <= max(0.5 * made, seen[0][0]))
    return (made - then) * log(gap / aim) / log(before / gap) if before > gap else inf


def _models(losses: Losses, z: Vector, steep: bool) -> tuple[Vector, Vector]:
    slopes, curvatures = losses.models(z, steep)
    straight = curvatures.sum() <= _STRAIGHT * abs(slopes).sum()  # everywhere
    return losses.models(z, True) if straight else (slopes, curvatures)


def _left(progress: Progress | None, f: float, borne: float, missed: Missed, damped: bool) -> Callable[[Iterate], float]:
    """Iterations until a step from where f is this is solved well enough, infinite where nobody knows how many: near the end, when
    the models' gap is no more than this share of the target. It is not that near where the models will miss f by too much to
    certify anything, unless so few are left that another step would take longer, and nothing is left to certify where the bound
    that is known will do. Elsewhere iterations go on while each gains about as much as the mean product of the step.
    """

    def left(step: Iterate) -> float:
        if progress is not None:
            target = progress.target
            if step.slope < tuning.CG_EXACT_WITHIN * target and f - step.gained - progress.bound > target:
                to_go, off = step.left(borne * target), missed.next(step.slope)
                soon = to_go <= tuning.STEP_PRODUCTS and off <= (1.0 - borne) * target
                if soon or off <= tuning.CG_MISSED * target:
                    return 0.0 if step.share < (tuning.CG_DAMPED if damped else _SOLVED) else to_go
        return 0.0 if step.fading < tuning.CG_FADED or step.share < tuning.CG_SHARE else inf

    return left


def _moved(before: Vector, x: Vector) -> float:
    """How far x is from where it was, relative to its size."""
    step = x - before
    return sqrt(dot(step, step)) / (sqrt(dot(x, x)) + TINY)


def _line_search(batch: Batch, here: Point, s: Vector, slope: float) -> tuple[float, Point]:
    """The full step if f falls as it should, else a part of it, and so on; known margins make that cheap. No step at all where
    rounding leaves no way down.
    """
    there = batch.at(here.x + s)
    if _falls(there.f, here.f, slope):
        return 1.0, there
    xx, xs, ss = (0.5 * float(dot(batch.alpha, product)) for product in (here.x * here.x, 2.0 * here.x * s, s * s))
    along, length = there.z - here.z, tuning.BACKTRACK
    while length > _SHORTEST:
        near = batch.losses.total(here.z, along, length) / batch.size + xx + length * (xs + length * ss)
        if _falls(near, here.f, length * slope):
            there = batch.at(here.x + length * s)  # of the point itself: margins that are sums of steps drift away from it
            if _falls(there.f, here.f, 0.0):
                return length, there
        length *= tuning.BACKTRACK
    return 0.0, here


def _falls(new: float, old: float, slope: float) -> bool:
    return new <= old + tuning.SUFFICIENT * slope + ROUNDING * abs(old)
