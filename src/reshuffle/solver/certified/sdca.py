"""SDCA, stochastic dual coordinate ascent (Shalev-Shwartz and Zhang 2013), in reshuffled order. Each dual value in turn moves to
where the dual objective is largest, by the prox of its loss, and x follows at once. There is no step size, and the dual point is
feasible all along.

A row whose visit gained little rests: one pass, and one more each time that it gains little again, so that passes go to the rows
that decide. Rows in a flat part of their loss, which no visit moves, are then hardly read (what solvers of support vectors call
shrinking), and heavy rows, which every move of the others unsettles, are read in every pass.

Where only a few rows are read in a pass, x moves to and fro between what they ask for, and its mean over some passes is a better
point; the dual values as they are bound the minimum best.

What a pass gained is known for nothing, and falls as the gap does: it says when to look at f and the bound, which costs as much as
half a pass, and how many passes are still to go. With strong regularisation there may be none after the first (`proven`).

An intercept bears no regulariser, which the dual sees as a constraint, w'v = 0. It gets a weak pull of its own towards a centre
that moves to where the intercept has come after every pass (the method of multipliers), so that the pull fades out. Where what is
left of it, which is pull times (w'v)^2 / 2, is not next to nothing of what passes gain, the pull grows.
"""

import math
from bisect import bisect
from typing import Any

import numpy as np

from reshuffle._compiled import jit
from reshuffle.orders.schemes import by_blocks
from reshuffle.orders.streams import Stream
from reshuffle.problem import Problem
from reshuffle.rows import DualState, DualStep
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.progress import TINY, Progress
from reshuffle.vectors import Vector, dot


def sdca(
    problem: Problem,
    progress: Progress,
    squares: Vector,
    x: Vector,
    dual: Vector,
    *,
    seed: int,
    patience: float,
    worth: float = math.inf,
) -> bool:
    """Passes until `progress` says that it is enough, or until `patience` (in passes) ends: see `Pace.hopeless`. `squares` are
    squared norms of rows, without an intercept. `worth` is how many passes there may be at all: where it is finite, a part of the
    first one is a trial, and if `passes_ahead` says that there are more, that was all. Returns whether anything was offered.
    """
    pull = 1.0 / (problem.n * problem.alpha)
    intercept_pull, strongest = pulls_of_intercept(problem, squares)
    step = DualStep(problem.loss, pull, intercept_pull)
    visits, pace, mean, doubt, share = Visits(problem, seed), Pace(progress.gap), x.copy(), math.inf, 0.0
    if worth < math.inf:
        share, visit = visits.next(min(tuning.TRIAL, tuning.TRIAL_ROWS * problem.dimension / problem.n))
        state = DualState(dual, np.zeros(problem.n))
        problem.rows.sdca_epoch(visit, problem.labels, problem.sample_weight, squares, step, x, state)
        pace.went_on(share)
        judges = visits.ahead(min(visit.size, tuning.TRIAL_JUDGES))
        if not passes_ahead(problem, progress, x, judges, pull * squares[judges] + intercept_pull) <= worth:
            return False
    elif not dual.any():
        state = DualState(dual, np.zeros(problem.n))
        share, doubt = grown(problem, visits, squares, step, x, state)
        pace.went_on(share)
    unrecorded = share  # of a pass over all rows
    while True:
        aim = progress.aim
        if visits.over:
            state = DualState(dual, np.zeros(problem.n))
        share, visit = visits.next(pace.enough(aim) if problem.rows.bounds is None else 1.0)
        problem.rows.sdca_epoch(visit, problem.labels, problem.sample_weight, squares, step, x, state)
        pace.went_on(share)
        unrecorded += visit.size / problem.n
        mean[:] = x if pace.alike == 1 else mean + (x - mean) / pace.alike
        if visits.over:
            pace.passed(*visits.rest(state.gains))
            del state, visit  # rows on disk leave little memory for vectors of all of them while f is looked at
        if visits.over and doubt <= tuning.PROVEN_BELOW * progress.share and proven(problem, progress, squares, x, dual):
            return True
        doubt = math.inf
        if not visits.over or pace.expected <= aim or pace.hopeless(aim, patience) or progress.at_last:
            if progress.offer(mean, None, dual, pull=-problem.alpha * x[: problem.d]):
                return True
            pace.looked(progress.gap)
            unrecorded = 0.0
            if pace.hopeless(progress.aim, patience):
                return True
        elif unrecorded >= 1.0:
            progress.passed()
            unrecorded = 0.0
        if problem.fit_intercept and visits.over:
            off = float(problem.sample_weight @ dual)
            if 0.5 * intercept_pull * off * off > tuning.CENTRE_LAGS * problem.n * pace.gained:
                intercept_pull = min(tuning.PULL_GROWS * intercept_pull, strongest)
                step = step._replace(intercept_pull=intercept_pull)
            x[-1] -= intercept_pull * off


def pulls_of_intercept(problem: Problem, squares: Vector) -> tuple[float, float]:
    """The first, and the strongest. The stronger the pull is, the more rows undo what others have gained; the weaker, the less the
    centre moves in a pass. Where features leave much to an intercept, all losses together bend so much that a weak one will do;
    where they could do without, it has to be as strong as that of a row's features, which passes find out.
    """
    if not problem.fit_intercept:
        return 0.0, 0.0
    features = (float(np.median(squares)) or 1.0) / (problem.n * problem.alpha)
    bent = problem.n * (problem.loss.smoothness or 0.0)
    first = min(max(features, tuning.WEAKEST_PULL / bent), tuning.STRONGEST_PULL / bent) if bent else features
    return first, max(first, features)


def grown(problem: Problem, visits: "Visits", squares: Vector, step: DualStep, x: Vector, state: DualState) -> tuple[float, float]:
    """The first pass, but for its last part, in parts that each take the rows visited by then for all that there are. Rows that
    come early then do not keep dual values from where x knew nothing, and the pass leads where others take two or three to come
    (growing batches, in one pass). Returns the share that was visited, and how much there is to doubt of it.

    That is so where rows leave it to others to fit them: where a visit moves the own margin by little (`reach`, times how much the
    loss bends) and x is good for rows that it has not seen. Where it is not after the first part, that was all. The product of both
    is the doubt.
    """
    rows, weights = problem.rows, problem.sample_weight
    reach = step.pull * float(weights @ squares) / problem.n + step.intercept_pull
    reach *= problem.loss.smoothness or math.inf
    if reach > 1.0 or rows.elsewhere or rows.bounds is not None:
        return 0.0, math.inf
    doubt, visited, centre = math.inf, 0, x[problem.d :].copy()

    def shrink(before: int, after: int) -> None:
        x[:] *= before / after
        x[problem.d :] += (1.0 - before / after) * centre

    while visited < (1.0 - 1.0 / tuning.PARTS) * problem.n:
        before, (_, visit) = visited, visits.next(1.0 / tuning.PARTS)
        visited += visit.size
        shrink(before, visited)
        more = problem.n / visited
        larger = DualStep(step.loss, more * step.pull, more * step.intercept_pull)
        rows.sdca_epoch(visit, problem.labels, weights, squares, larger, x, state)
        if before == 0:
            samples, level, along = _unseen(problem, x, visits.ahead(tuning.TRIAL_JUDGES))
            left = samples.total(level, along, 1.0) / max(samples.total(level, along, 0.0), TINY)
            doubt = reach * left
            if doubt > tuning.GROWS_BELOW:
                break
    shrink(visited, problem.n)
    return visited / problem.n, doubt


def proven(problem: Problem, progress: Progress, squares: Vector, x: Vector, dual: Vector) -> bool:
    """Whether one pass was enough. Where rows hardly move x, x is good long before dual values are, those of rows that came early
    above all: then the slopes at x are better dual values, though they cost a product. Some rows tell what gap either would prove;
    if both are much, no more is asked.
    """
    rows = np.arange(0, problem.n, min(max(problem.n // tuning.PROOF_ROWS, 8), tuning.PARTS))
    f, by_dual, by_slopes = told(problem, squares, x, dual, rows)
    target = progress.share * progress.baseline.gain(f)
    if min(by_dual, by_slopes / tuning.PROOF_WITHIN) > target:
        return False
    z = problem.margins(x)
    if by_dual <= target and progress.offer(x, problem.objective_at(z, x), dual, pull=-problem.alpha * x[: problem.d]):
        return True
    x, z = levelled(problem, problem.samples, x, z)
    return progress.offer(x, problem.objective_at(z, x), problem.duals(z))


def told(problem: Problem, squares: Vector, x: Vector, dual: Vector, rows: Any) -> tuple[float, float, float]:
    """f, the gap by the dual values that x belongs to, and that by the slopes at x once it is levelled, |g|^2 / (2 alpha) for the
    gradient g, as these rows tell them. Each row has a gap of its own by its dual value; of g they tell a mean, and what chance
    adds to its square is known.
    """
    samples, z, u = problem.samples.take(rows), problem.rows.margins(x, rows), dual[rows]
    losses, m, share = samples.total(z, z, 0.0), rows.size, rows.size / problem.n
    by_dual = (losses + samples.total_conjugate(u, 1.0) - float(dot(samples.weights * u, z))) / m
    level, z = levelled(problem, samples, x, z)
    apart = samples.models(z, False)[0] - samples.weights * u  # alpha x is what the dual values make of all rows
    g = problem.rows.transposed(apart, rows)[: problem.d] / m + problem.alpha * (level - x)[: problem.d]
    square = float(dot(g, g)) - (1.0 - share) * float(squares[rows] @ apart**2) / m**2
    return losses / m + problem.regulariser(x), by_dual, square / (2.0 * problem.alpha)


def levelled(problem: Problem, samples: Any, x: Vector, z: Vector) -> tuple[Vector, Vector]:
    """x and its margins at samples after a Newton step in one or two numbers: how long coefficients are, and the intercept."""
    slopes, curvatures = samples.models(z, False)
    along = np.array([z, np.ones(z.size)] if problem.fit_intercept else [z])
    if problem.fit_intercept:
        along[0] -= x[-1]
    gradient, hessian = along @ slopes, (curvatures * along) @ along.T
    pulled = 2.0 * z.size * problem.regulariser(x)
    gradient[0] += pulled
    hessian[0, 0] += pulled
    step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
    x = x.copy()
    x[: problem.d] *= 1.0 + step[0]
    x[problem.d :] += step[1:]
    return x, z + step @ along


def _unseen(problem: Problem, x: Vector, rows: Any) -> tuple[Any, Vector, Vector]:
    """What is known of these rows, their margins by the intercept alone, and what x adds to them."""
    level = np.full(rows.size, x[-1] if problem.fit_intercept else 0.0)
    return problem.samples.take(rows), level, problem.rows.margins(x, rows) - level


def fewest_passes(progress: Progress) -> float:
    """Passes over all rows, from nothing, where rows are orthogonal, each visit is for good and none rests."""
    return 1.0 + math.log10(tuning.FIRST_GAP / progress.share)


def passes_ahead(problem: Problem, progress: Progress, x: Vector, rows: Any, reach: Vector) -> float:
    """Passes over all rows that are to be expected, from an x that some rows have led to, by others that were not visited. `reach`
    of a row is how far a visit moves its own margin, for each unit of its dual value.

    A pass gains a digit, or less where rows undo what others have gained: passes grow with reach times the curvature of the loss
    (Shalev-Shwartz and Zhang 2013), with that of long rows above all, but for as many of the longest as there are features: to
    each of them x can do justice. x is scaled to where the rows like it best, as a part of a pass overshoots. Rows in a flat part
    of their loss will rest.
    """
    few = rows.size - math.ceil(rows.size * min(problem.dimension / problem.n, 0.5))
    shortest = np.argpartition(reach, few)[:few]
    rows, reach = rows[shortest], reach[shortest]
    (samples, level, along), regulariser = _unseen(problem, x, rows), problem.regulariser(x)
    f, scale = min((samples.total(level, along, s) / rows.size + s * s * regulariser, s) for s in (1.0, 0.5, 0.25, 0.125))
    gap = min((f - progress.baseline.nothing) / progress.baseline.gain(f), tuning.FIRST_GAP)
    curvatures = samples.models(level + scale * along, False)[1]
    undone = float((curvatures * reach) @ (reach / max(float(reach.sum()), TINY)))
    passes = 1.0 + math.log10(max(gap / progress.share, 1.0)) * (1.0 + tuning.UNDONE * undone)
    awake = np.count_nonzero(curvatures) / rows.size
    return passes * float(awake + (1.0 - awake) * tuning.RESTING)


class Visits:
    """Which rows a pass reads, and in what order: blocks of them in random order where they lie in blocks, rows inside shuffled. A
    pass needs no order that is uniform over all rows, and reads them where they lie.
    """

    def __init__(self, problem: Problem, seed: int) -> None:
        n, bounds = problem.n, problem.rows.bounds
        self._bounds = np.array([0, n]) if bounds is None else bounds
        self._seed, self._epoch, self._place, self._gained = seed, 0, 0, math.inf
        self._rests, self._left = np.zeros(n, dtype=np.uint8), np.zeros(n, dtype=np.uint8)  # passes, and how many are left of them
        self._order: Any = np.empty(0, dtype=np.int32 if n < 2**31 else np.int64)

    def next(self, share: float) -> tuple[float, Any]:
        """The next of the rows that do not rest, a share of them or what is left: which share that is, and the rows."""
        if self.over:
            rows = np.empty(self._left.size, dtype=self._order.dtype)
            rows = rows[: awake(self._left, rows)]
            self._order = by_blocks(rows, self._bounds, self._seed, self._epoch, Stream.ORDER, Stream.WITHIN)
            self._epoch, self._place = self._epoch + 1, 0
        begin = self._place
        self._place = min(begin + math.ceil(share * self._order.size), self._order.size)
        return (self._place - begin) / max(self._order.size, 1), self._order[begin : self._place]

    def ahead(self, count: int) -> Any:
        """So many of those that come next."""
        return self._order[self._place : self._place + count]

    @property
    def over(self) -> bool:
        """Whether the pass is: all of its rows have been visited."""
        return bool(self._place == self._order.size)

    def rest(self, gains: Vector) -> tuple[float, float]:
        """After a pass, rows rest by what they gained. Returns how many were visited, as a share, and what they gained together."""
        visited, above = self._order.size, tuning.RESTS_ABOVE * self._gained
        self._order, self._place = self._order[:0].copy(), 0
        self._gained = rest(gains, tuning.RESTS_BELOW, above, tuning.LONGEST_REST, self._rests, self._left)
        return visited / gains.size, self._gained / gains.size


# Loops without branches, which run in vectors; with the branches that one would write first, which nothing could guess, this takes
# 3 times as long (`benchmarks/kernels.py`).


@jit(fastmath={"reassoc", "nsz"})
def rest(gains: Any, below: float, above: float, longest: int, rests: Any, left: Any) -> Any:
    """Rows that gained less than this share of the mean rest, if all gained more than `above`, else those that gained nothing.
    Returns what all gained.
    """
    gained, visited, none, one = 0.0, 0, np.uint8(0), np.uint8(1)
    for i in range(gains.size):
        gained += gains[i] if left[i] == none else 0.0
        visited += left[i] == none
    enough, most = below * gained / max(visited, 1) if gained > above else 0.0, np.uint8(longest)
    for i in range(gains.size):
        before, resting = rests[i], left[i] > none
        longer = min(np.uint8(before + one), most) if gains[i] <= enough else none
        rests[i] = before if resting else longer
        left[i] = np.uint8(left[i] - one) if resting else longer
    return gained


@jit()
def awake(left: Any, out: Any) -> Any:
    """Lists the rows that do not rest, and returns how many they are."""
    count = np.uint64(0)
    for i in range(left.size):
        out[count] = i
        count += np.uint64(left[i] == np.uint8(0))
    return count


class Pace:
    """How fast passes gain, and what gap that speaks of. Passes that gain g, each r times as much as the one before, have g r +
    g r^2 + ... still to gain; the gap is taken to be some times that before anybody has looked, and to fall as fast ever after.
    """

    def __init__(self, gap: float) -> None:
        self._passes: list[tuple[float, float]] = []  # how many rows were visited, as a share, and what they gained
        self._rate = math.log(tuning.FASTEST) if gap < math.inf else 0.0  # the logarithm of r, or zero where it is not known
        self._gap, self._since = gap, 0.0  # when last looked at, and how many passes ago that was
        self._visited = 1.0  # rows in a pass lately, as a share
        self._made = 0.0  # passes over all rows
        self._told: list[tuple[float, float]] = []  # how many of them were made when it was asked, and were still to go then

    def went_on(self, share: float) -> None:
        self._since += share

    def passed(self, visited: float, gained: float) -> None:
        self._passes.append((visited, max(gained, TINY)))
        self._made += visited
        made, whole = 0, TINY
        while whole < 2.0 and made < len(self._passes):  # two, as the last pass may be one that wakes all
            made, whole = made + 1, whole + self._passes[-1 - made][0]
        self._visited = whole / made
        if len(self._passes) > 1:
            self._rate = self._fall(1)

    @property
    def gained(self) -> float:
        """By the last pass."""
        return self._passes[-1][1]

    @property
    def cycle(self) -> int:
        """Passes that visit as many rows as there are, or as many as there were passes."""
        return min(round(1.0 / self._visited), len(self._passes)) or 1

    @property
    def alike(self) -> int:
        """Passes at most of a cycle in which the gap hardly falls: x is one of many points as good in them."""
        return min(self.cycle, max(int(tuning.ALIKE / max(-self._rate, TINY)), 1))

    def _fall(self, fewest: int) -> float:
        """The logarithm of what a cycle gained, and so many passes at least, over what as many did before, for each pass between.
        Single passes say little where many rows rest: those that wake them gain more than others.
        """
        made = len(self._passes) - 1  # what is gained from knowing nothing says little
        wide = max(min(max(self.cycle, fewest), made // 2), 1)
        back = max(min(tuning.RATE_PASSES, made - wide), wide)
        gains = [gained for _, gained in self._passes[-back - wide :]]
        rate = math.log(sum(gains[-wide:]) / sum(gains[:wide])) / back
        return min(max(rate, math.log(tuning.FASTEST)), 0.0)

    def looked(self, gap: float) -> None:
        self._gap, self._since = gap, 0.0

    @property
    def expected(self) -> float:
        """The gap by now; infinite where passes gain no less than those before."""
        if self._gap < math.inf:
            return self._gap * math.exp(self._rate * self._since)
        return tuning.GAP_OVER_GAINS * self._passes[-1][1] / math.expm1(-self._rate) if self._rate < 0.0 else math.inf

    def left(self, aim: float) -> float:
        """Passes over all rows that are still to go; zero before that is known."""
        back = tuning.RATE_PASSES
        if len(self._passes) <= back or self.expected <= aim:
            return 0.0
        rate = self._fall(max(back, len(self._passes) // 3))  # the slower passes gain, the more of them it takes to tell how slowly
        return self._visited * math.log(self.expected / aim) / -rate if rate < 0.0 else math.inf

    def hopeless(self, aim: float, patience: float) -> bool:
        """Whether more passes than that are to go or, after some, whether they will have been: those to go should become fewer by
        one with every pass, and may have become hardly fewer since half as many were made.
        """
        left, made = self.left(aim), self._made
        then, told = self._told[bisect(self._told, (0.5 * made, math.inf)) - 1] if self._told else (0.0, 0.0)
        self._told.append((made, left))
        asked = told > 0.0 and then <= 0.5 * made and made > tuning.PATIENCE_TRIED * patience
        return left > patience or (asked and left * (made - then) > tuning.PATIENCE_ENDS * patience * (told - left))

    def enough(self, aim: float) -> float:
        """Of a pass: the last one ends where the rate of the others says that it is enough."""
        if not (self._rate < 0.0 and self._gap < math.inf):
            return 1.0
        left = math.log(max(self.expected / aim, 1.0)) / -self._rate
        return min(max(tuning.LAST_PASS * left, tuning.SHORTEST_PASS), 1.0)
