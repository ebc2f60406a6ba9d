"""A batch of rows, each represented by the quadratic model of its loss at its own margin: the sums over them that a Newton step
needs, and the step itself, to where the sum of the models is least.

The linear system of a step is solved by conjugate gradients, with few features preconditioned by the Hessian of as many rows as
cost about as much as a few passes (all of them on sparse data, which leaves one iteration to do), else by its diagonal. Nobody
knows how many iterations are to come, so they are held against prices: once they have taken some times as long as a better
preconditioner would, in all steps together, one is formed, and the next steps on a batch keep it until their iterations have
taken as long as another would. All but a new Hessian are corrected by the directions of the step before. One in single precision
whose pivots are too small for it is blurred by a ridge first, where one in double precision would be dear.
"""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np

from reshuffle.losses import loops
from reshuffle.losses.base import compiled
from reshuffle.problem import Problem
from reshuffle.samples import Samples
from reshuffle.solver.certified import tuning
from reshuffle.solver.certified.conjugate import Directions, Inverse, Iterate
from reshuffle.solver.certified.progress import TINY, Neighbour
from reshuffle.vectors import Vector, dot

Chosen = Any  # rows, where vectors with a number for each sample are; None for all of them

_PIVOT = 1e-12  # of the largest pivot: some times what rounding may take from one; ten times that where it is not enough


class Losses:
    """The smooth losses of a batch."""

    exact = True  #: whether `total` sums the losses themselves

    def __init__(self, problem: Problem, rows: Chosen) -> None:
        self.samples = problem.samples.take(rows)
        self.weights = self.samples.weights
        self._most = self.weights * (problem.loss.smoothness or 0.0)

    def models(self, z: Vector, steep: bool) -> tuple[Vector, Vector]:
        """The weighted slope and curvature of each loss at its margin: see `Samples`. On the wrong side, where losses hardly bend,
        they stay below a `steep` model on their way back: it is least at the label, or bends as the loss can at most.
        """
        slopes, curvatures = self.samples.models(z, steep)
        return slopes, curvatures.clip(max=self._most) if steep else curvatures

    def steepen(self, z: Vector) -> bool:
        """Whether steep models at z are any steeper."""
        return bool((self.models(z, True)[1] > self.models(z, False)[1]).any())

    def farthest(self, z: Vector) -> float:
        """How far the row is off that is farthest from its label, on the wrong side if it has one."""
        labels, wrong = self.samples.labels, self.samples.loss.task == "classification"
        return float((labels * (labels - z) if wrong else abs(labels - z)).max())

    def total(self, z: Vector, move: Vector, length: float) -> float:
        """Their weighted sum at z + length move."""
        return self.samples.total(z, move, length)

    def duals(self, slopes: Vector) -> Vector:
        """Dual values of weighted slopes; zero where a weight is."""
        return self.samples.unweighted(slopes)

    def bent(self, curvatures: Vector, along: Vector) -> Vector:
        """By how much the slopes of the models change where margins change by `along`."""
        return curvatures * along

    def settle(self, z: Vector) -> bool:
        """A full step has led to z; returns whether that changes what is summed."""
        return False


class Smoothed(Losses):
    """Moreau smoothing of losses with kinks, by the method of multipliers: min_t l(t) + v (z - t) + (z - t)^2 / (2 width), the
    augmented Lagrangian of z = t. The multiplier v moves to the slope after every full step, and the width shrinks, so that the
    smoothing fades out.
    """

    exact = False

    def __init__(self, problem: Problem, rows: Chosen, width: float, multipliers: Vector) -> None:
        super().__init__(problem, rows)
        self._functions = compiled(problem.loss, "value"), compiled(problem.loss, "prox")
        self._width, self._multipliers = width, multipliers if rows is None else multipliers[rows]
        self._smallest = tuning.SMALLEST_WIDTH * width

    def models(self, z: Vector, steep: bool) -> tuple[Vector, Vector]:
        slopes, curvatures, (_, prox) = np.empty(z.size), np.empty(z.size), self._functions
        self.samples.in_parts(
            lambda part: loops.smoothed_models(prox, self._smoothing(part), z[part], steep, slopes[part], curvatures[part])
        )
        return slopes, curvatures

    def total(self, z: Vector, move: Vector, length: float) -> float:
        parts = self.samples.in_parts(
            lambda part: loops.smoothed_total(*self._functions, self._smoothing(part), z[part], move[part], length)
        )
        return float(sum(parts))

    def settle(self, z: Vector) -> bool:
        self._multipliers = self.duals(self.models(z, False)[0])
        self._width = max(tuning.SHRINK * self._width, self._smallest)
        return True

    def _smoothing(self, part: slice) -> tuple[float, float, Vector, Vector, Vector]:
        own = self.samples
        return own.loss.parameter, self._width, own.labels[part], own.weights[part], self._multipliers[part]


class Point(NamedTuple):
    """Where a batch has come: x, its margins there, and the value of its sum."""

    x: Vector
    z: Vector
    f: float


class Batch:
    """A set of rows with the sums over them that a step needs. Steps share a preconditioner as long as few iterations of conjugate
    gradients are enough with it: to form a Hessian takes as long as several. The first one is the `neighbour`'s, if it has any.
    """

    def __init__(self, problem: Problem, rows: Chosen, losses: Losses, limit: int, neighbour: Neighbour | None = None) -> None:
        self.problem, self.rows, self.losses, self.limit = problem, rows, losses, limit
        self.size = len(losses.weights)
        self._priced = problem.rows.at_hand and not problem.rows.elsewhere  # elsewhere products take longer than what they compute
        self.price = products_a_hessian(problem, limit, self.size) if self._priced else 0.0  #: of a Hessian, in products
        self._cheap = problem.dimension <= few_features(problem) and self.price <= tuning.FEW_PRODUCTS
        self._neighbour = neighbour if neighbour is not None and self._cheap else Neighbour()
        self._known = self._neighbour.hessian
        at_once = self.price <= tuning.VERY_FEW_PRODUCTS or self._known is not None
        self.factored = self._cheap and at_once  #: whether a Hessian preconditions, and not its diagonal
        self._rough = problem.rows.rough and problem.rows.entries > tuning.ROUGH_ENTRIES  # and exact enough so far
        self._blurred = False  # by a ridge, as some pivots were too small for single precision
        self._held: Inverse | None = None
        self._most = int(tuning.DIRECTIONS * problem.rows.entries * (self.size / problem.n) / problem.dimension)
        self._before = Directions(0)  # of the last step
        self.alpha = np.full(problem.dimension, problem.alpha)
        self.alpha[problem.d :] = 0.0
        self.ridge = self.alpha  #: what damping makes of it
        self.damping = 0.0  #: of the feature that is largest
        self.products = 0.0  #: that were made, of A or A' or both, by the share of rows that were read
        self._spent = 0  # iterations of conjugate gradients, in all steps, that a better preconditioner would have spared

    def at(self, x: Vector) -> Point:
        z = self.margins(x)
        return Point(x, z, self.value(x, z))

    def value(self, x: Vector, z: Vector) -> float:
        """The sum at x, whose margins are z."""
        return self.losses.total(z, z, 0.0) / self.size + 0.5 * float(dot(self.alpha, x * x))

    def margins(self, x: Vector) -> Vector:
        self.products += 1.0
        return self.problem.rows.margins(x, self.rows)

    def gradient(self, slopes: Vector, x: Vector) -> Vector:
        self.products += 1.0
        return self.problem.rows.transposed(slopes, self.rows) / self.size + self.alpha * x

    def product(self, curvatures: Vector, p: Vector) -> tuple[Vector, Vector]:
        """A p, of the rows that bend, and the Hessian of the models' sum, damped, times p."""
        along, product = self.problem.rows.curved_product(curvatures, p, self.rows)
        return along, product / self.size + self.ridge * p

    def go_on_from(self, before: "Batch") -> None:
        """With what the last batch has learnt: directions, whether a Hessian is worth its price, and how exact it has to be."""
        self._before, self._rough, self._blurred = before._before, before._rough, before._blurred
        self.factored = self.factored or (self._cheap and (before.factored or before._spent >= self.price))

    def direction(
        self,
        gradient: Vector,
        curvatures: Vector,
        left: Callable[[Iterate], float],
        here: Point | None = None,
        costs: Vector | None = None,
    ) -> Iterate:
        """The step to where the models' sum is least: conjugate gradients until none are `left` or, where all rows bend, which
        makes it cheap to ask, until f does not fall from `here` as the models say. `costs`: see `Iterate`.
        """
        step = Iterate(gradient, costs)
        if self._known is not None:
            self._held, self._known = self._inverse(self._known), None
        held, worth = self._held, self._worth(curvatures)
        keep = max(self._price_of(curvatures, self.limit) if self._priced else 0.0, tuning.KEEP_WITHIN)
        precondition = self._before.correct(held) if held is not None else self._fresh(curvatures)
        self._before = Directions(self._most)
        towards = precondition(step.residual)
        p, size = towards, float(dot(step.residual, towards))
        first, look, share = size, tuning.CG_LOOK, float((curvatures > 0.0).sum()) / self.size
        all_bend, to_go = share == 1.0, inf
        for iteration in range(tuning.CG_ITERATIONS):
            soon = iteration < tuning.CG_TELLS or to_go * tuning.REFINE_AFTER < worth  # the step may be solved without
            late = self._spent >= (2.0 * worth if soon else worth)
            if late or (held is not None and min(iteration, to_go) >= keep):  # another would not have taken longer: go on with it
                if late:
                    self._refine()
                    worth, self._spent = self._worth(curvatures), 0
                self._before = Directions(self._most)
                held, precondition = None, self._fresh(curvatures)
                p = precondition(step.residual)
                size, first = float(dot(step.residual, p)), float(dot(gradient, precondition(gradient)))
            if not size > 0.0:
                break
            part, product = self.product(curvatures, p)
            self._spent += 1
            self.products += share
            bend = float(dot(p, product))
            if not bend > 0.0:
                break
            self._before.add(p, product, bend)
            step.move(size / bend, p, part, product, size)
            towards = precondition(step.residual)
            new = float(dot(step.residual, towards))
            step.share = new / first
            to_go = left(step)
            if to_go == 0.0:
                break
            if here is not None and all_bend and iteration + 1 >= look:
                if self._value_along(here, step.s, step.along) > here.f - tuning.CG_HOLDS * step.gained:
                    break
                look *= tuning.CG_LOOK_LATER
            p, size = towards + (new / size) * p, new
        if step.made == 0:
            step.along = 0.0 * curvatures
        return step

    def _value_along(self, here: Point, s: Vector, along: Vector) -> float:
        """The sum at here.x + s, with margins here.z + along."""
        x = here.x + s
        return self.losses.total(here.z, along, 1.0) / self.size + 0.5 * float(dot(self.alpha, x * x))

    def damp(self, length: float, slope: float, s: Vector, near: float = 0.0) -> None:
        """After a step that was too long, the next ones are shorter (Levenberg and Marquardt): the Hessian gets as much of the
        `squared_units` on its diagonal as would have made the step as long as it should have been, and after every full step less
        of it: none where f is `near` enough to the minimum for steps to gain less, as the certificate is spoilt by what is left.
        """
        if length < 1.0:
            excess = 1.0 / max(length, tuning.DAMPED_LENGTH) - 1.0
            self.damping += excess * -slope / max(float(dot(self.squared_units * s, s)), TINY)
            self.forget()
        else:
            self.damping *= tuning.DAMPING_FADES if -slope > near else 0.0
            if self.damping < tuning.DAMPING_ENDS * self.problem.alpha:
                self.damping = 0.0
        self.ridge = self.alpha + self.damping * self.squared_units if self.damping > 0.0 else self.alpha

    @property
    def squared_units(self) -> Vector:
        """What damping is measured in, the same whatever units features are in, and for one that is hardly ever used."""
        return self.problem.squared_units

    def forget(self) -> None:
        """The preconditioner: losses bend differently where they are now."""
        self._held = None

    def _fresh(self, curvatures: Vector) -> Inverse:
        fresh = self.preconditioner(curvatures)
        self._held = fresh if self.factored else None  # a diagonal is formed in no time
        return fresh if self.factored else self._before.correct(fresh)

    def _worth(self, curvatures: Vector) -> float:
        """Products with the Hessian after which a better preconditioner is worth its price; infinite where there is none."""
        sampled = self.factored and not self._blurred
        none = sampled and self.limit * tuning.SAMPLE_ABOVE >= self.size
        if none or self.problem.dimension > tuning.MOST_FEATURES:
            return inf
        return tuning.REFINE_AFTER * self._price_of(curvatures, (2 if sampled else 1) * self.limit)

    def _price_of(self, curvatures: Vector, limit: int) -> float:
        """Products that take as long as to form and to factorise the Hessian of so many rows. Those that do not bend cost neither
        anything.
        """
        return products_a_hessian(self.problem, limit, int((curvatures > 0.0).sum()))

    def _refine(self) -> None:
        """The next preconditioner is a better one: a Hessian in place of its diagonal, an exact one, or that of twice as many
        rows.
        """
        if self._blurred:
            self._rough = self._blurred = False
        else:
            self.limit, self.factored = (2 if self.factored else 1) * self.limit, True

    def preconditioner(self, curvatures: Vector) -> Inverse:
        """Nearly the inverse of that Hessian."""
        if not self.factored:
            diagonal = self.problem.rows.curved_squares(curvatures, self.rows) / self.size + self.ridge
            diagonal[diagonal <= 0.0] = 1.0
            return lambda r: r / diagonal
        chosen, kept = sample_by_curvature(self.problem.samples, curvatures, self.limit)
        rows = self.rows if chosen is None else chosen if self.rows is None else self.rows[chosen]
        data = self.problem.rows
        if self._rough:
            H = self._neighbour.hessian = data.rough_hessian(kept, rows)
            inverse = None if self._blurred else data.factorised(H, self.size, self.ridge, tuning.ROUGH_PIVOT)
            if inverse is None and self.price > tuning.RENEW_WITHIN:
                self._blurred = True
                inverse = data.factorised(H, self.size, self.ridge, tuning.ROUGH_PIVOT, tuning.BLUR)
            if inverse is not None:
                return inverse
            self._rough = self._blurred = False
        self._neighbour.hessian = data.hessian(kept, rows)
        return self._inverse(self._neighbour.hessian)

    def _inverse(self, H: Any) -> Inverse:
        """Of a Hessian of losses, with alpha on its diagonal; of one that overflows, which says nothing, the identity's."""
        data, more = self.problem.rows, 0.0
        least = _PIVOT * (float(H.diagonal().max()) / self.size + self.problem.alpha)
        while (inverse := data.factorised(H, self.size, self.ridge + more)) is None:
            # an intercept without curvature, or a tiny alpha after rounding, may lack a positive pivot
            more = max(10.0 * more, least)
            if not 0.0 < more < inf:
                return np.copy
        return inverse


def few_features(problem: Problem) -> int:
    """Features up to which a Hessian is formed and factorised."""
    return tuning.FEW_FEATURES_IN_BLOCKS if problem.rows.in_blocks else tuning.FEW_FEATURES


def sample_by_curvature(samples: Samples, curvatures: Vector, limit: int) -> tuple[Chosen, Vector]:
    """About `limit` of the rows, each with a chance in proportion to its curvature, and curvatures that make up for those left out.
    Where the model is sure of most rows, few of them bend at all, and the sample is nearly everything that counts.
    """
    if len(curvatures) <= tuning.SAMPLE_ABOVE * limit:
        return None, curvatures
    bent = samples.places(curvatures > tuning.SAMPLE_FLAT * curvatures.max())
    kept = curvatures[bent]
    if len(bent) <= tuning.SAMPLE_ABOVE * limit:
        return bent, kept
    chances = (kept * (limit / kept.sum())).clip(max=1.0)
    for _ in range(tuning.SAMPLE_ROUNDS):  # what is certain already leaves more for the others
        open_ = chances < 1.0
        chances = (kept * ((limit - (~open_).sum()) / kept[open_].sum())).clip(max=1.0)
    reached = chances.cumsum(0) // 1.0  # a row is picked where the sum of chances passes a whole number
    passes = reached > 0.0
    passes[1:] = reached[1:] > reached[:-1]
    picked = samples.places(passes)
    return bent[picked], kept[picked] / chances[picked]


def rows_for_hessian(problem: Problem) -> int:
    """So many that forming their Hessian costs about as much as a few passes over all rows."""
    spent = tuning.HESSIAN_OPERATIONS_IN_BLOCKS if problem.rows.in_blocks else tuning.HESSIAN_OPERATIONS
    share = spent / max(problem.rows.hessian_cost(), TINY)
    return min(problem.n, max(tuning.HESSIAN_ROWS_A_FEATURE * problem.dimension, int(share * problem.n)))


def products_a_hessian(problem: Problem, limit: int, bent: int) -> float:
    """Products with so many rows that bend that take as long as to form the Hessian of `limit` of them and to factorise it."""
    rows, d = problem.rows, problem.dimension
    entries = rows.entries * (bent / problem.n)
    forming = rows.hessian_cost() * min(limit / max(bent, 1), 1.0) * entries
    return 0.5 * (forming + d**3 / (3.0 * rows.blas_speed())) / (entries + tuning.PRODUCT_OVERHEAD)
