"""Algorithm 1, shuffled SGD: the loop around the compiled epochs.

problem -> steps for every epoch -> epochs -> averages, history, certificate. A run depends on its arguments alone; with a
checkpoint it can be stopped at any moment and goes on to the same numbers. Where all epochs share one order, rows that it
scatters are copied once into that order, if their storage gains from that.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from reshuffle.duality import duality_gap
from reshuffle.epoch import Epoch
from reshuffle.losses.base import compiled
from reshuffle.optimum import Optimum, measure
from reshuffle.orders import Order, Permutations, make_order
from reshuffle.problem import Problem
from reshuffle.records import Checkpoint, settings_of
from reshuffle.rows import Step
from reshuffle.solver.certified import baseline
from reshuffle.solver.run import DivergenceError, Run
from reshuffle.solver.steps import StepSize, choose_steps
from reshuffle.theory import growth
from reshuffle.validation import point, starting_point, vector, whole_number
from reshuffle.vectors import Vector

AVERAGES = ("epoch", "weighted", "last", "suffix")


def check_average(kind: str, strongly_convex: bool) -> None:
    if kind not in AVERAGES:
        raise ValueError(f"average={kind!r} is not known; use one of {', '.join(AVERAGES)}")
    if kind == "weighted" and not strongly_convex:
        raise ValueError("average='weighted' needs strong convexity: use alpha > 0 and no intercept, or another average")


def check_tol(tol: float | None, alpha: float) -> None:
    if tol is None:
        return
    if alpha == 0.0:
        raise ValueError(f"tol={tol!r} needs a certificate, which alpha=0 leaves out; use alpha > 0")
    if not 0.0 <= tol < float("inf"):
        raise ValueError(f"tol={tol!r} must be zero or a positive number")


class Average:
    """The point a run returns: the eta-weighted mean of the epochs' ends ("epoch"), of those of the second half ("suffix"), the
    mean in which each epoch has 1 + `growth(step)` times the weight of the one before ("weighted"), or the last one.
    """

    def __init__(self, kind: str, epochs: int, dimension: int, growth: Callable[[float], float] | None = None) -> None:
        check_average(kind, growth is not None)
        self._kind, self._first, self._growth = kind, epochs // 2 if kind == "suffix" else 0, growth
        self.total, self.weight = np.zeros(dimension), 0.0

    def add(self, epoch: int, step: float, x: Vector) -> None:
        if self._kind == "last":
            self.total, self.weight = x.copy(), 1.0
        elif epoch >= self._first:
            self.total += step * x
            self.weight += step
            if self._kind == "weighted" and self._growth is not None:  # the earlier epochs shrink; the later would overflow
                shrink = 1.0 / (1.0 + self._growth(step))
                self.total *= shrink
                self.weight *= shrink

    def point(self, x: Vector) -> Vector:
        return self.total / self.weight if self.weight > 0.0 else x.copy()


def minimize(
    problem: Problem,
    *,
    order: str | ArrayLike | Permutations = "rr",
    batch_size: int = 1,
    step_size: StepSize = "theory",
    epochs: int = 50,
    x0: ArrayLike | None = None,
    seed: int = 0,
    average: str = "epoch",
    safe: bool = False,
    tol: float | None = None,
    optimum: Optimum | None = None,
    evaluate_every: int = 1,
    checkpoint: str | Path | None = None,
    callback: Callable[[Epoch], None] | None = None,
) -> Run:
    """Minimise f by shuffled SGD.

    batch_size : 1..n; the last batch of an epoch may be short.
    epochs : passes over the data, at most these where there is a `tol`.
    tol : stop when (f - min f) / (f of the best constant prediction - min f) is certified to be at most this; needs alpha > 0.
    x0 : where to start; zero if not given.
    seed : of the random orders.
    order : a name such as "rr", "so", "ig", "balanced" (each epoch makes an order for the next, better than a random one) or
        "buffer:1000", a permutation array, or a list or an iterator that gives a permutation for each epoch.
    step_size : a number, a list with one for each epoch, a function of the epoch (from 1), or
        "theory": the largest step that the theorem for this order, batch size and loss allows (for a Lipschitz loss, the best one
        for these epochs, which needs the optimum);
        "budget": the constant step that makes the promise for these epochs smallest, which needs the optimum.
    safe : in random orders, keep the step within the limit of every order there is; else it is within that of all epochs' orders
        with probability 0.99, and larger. Orders that are fixed have a limit of their own.
    optimum : what `theory.measure(problem, x0)` returns; measured when needed if not given.
    average : "epoch" for the paper's x_hat_K, "weighted" for one that grows with the epochs as strong convexity asks (alpha > 0, no
        intercept), "last", or "suffix" for the mean over the second half of the epochs.
    evaluate_every : how often f and the certificate are computed; they always are after the last epoch.
    checkpoint : a file to write after every epoch, and to go on from if it exists.
    callback : called with the record of each epoch.
    """
    epochs = whole_number("epochs", epochs, 1)
    seed = whole_number("seed", seed, 0)
    batch_size = whole_number("batch_size", batch_size, 1, problem.n, "rows of the data")
    evaluate_every = whole_number("evaluate_every", evaluate_every, 1)
    rule = make_order(order, problem.n, seed)
    if checkpoint is not None and rule.iterator is not None:
        raise ValueError("a run over an iterator of permutations cannot be resumed; leave out checkpoint, or give an order by name")
    x = starting_point(x0, problem.dimension)
    mu = 0.0 if problem.fit_intercept else problem.alpha
    mean = Average(average, epochs, x.size, (lambda step: growth(problem.n, batch_size, step, mu)) if mu else None)
    problem.labels  # noqa: B018 refuse a loss without values before any work
    check_tol(tol, problem.alpha)
    reference = None if tol is None else baseline(problem)  # what the certified gap is measured against
    start = x.copy()
    known = cache(lambda: optimum or measure(problem, start))
    steps, constants = choose_steps(
        step_size, problem, rule, batch_size=batch_size, epochs=epochs, average=average, safe=safe, optimum=known
    )
    keeping: AbstractContextManager[Checkpoint | None] = nullcontext()
    if checkpoint is not None:
        settings = settings_of(problem, rule, batch_size, problem.sample_weight, problem.labels, x)
        asked = {"steps": steps, "average": average, "evaluate_every": evaluate_every}
        keeping = Checkpoint.open(checkpoint, {**settings, **asked})

    sweep = Sweep(problem, rule, batch_size)
    dual = np.zeros(problem.n)
    history: list[Epoch] = []

    def evaluate(epoch: int) -> tuple[float | None, float | None]:
        if (epoch + 1) % evaluate_every and epoch + 1 < epochs:
            return None, None
        at = mean.point(x)
        f = problem.objective(at)
        if not np.isfinite(f):
            return f, None
        return f, duality_gap(problem, at, dual if np.isfinite(dual).all() else None)

    def relative_gap(record: Epoch) -> float | None:
        if reference is None or record.f is None or record.gap is None:
            return None
        return reference.relative(record.f, record.gap)

    def reached(record: Epoch) -> bool:
        gap = relative_gap(record)
        return tol is not None and gap is not None and gap <= tol

    def finished(record: Epoch) -> bool:
        if saved is not None:
            made = {} if sweep.following is None else {"following": sweep.following}
            saved.save({"x": x, "dual": dual, "total": mean.total, "weight": np.array(mean.weight), **made}, history)
        if callback is not None:
            callback(record)
        return reached(record)

    with keeping as saved:
        stored = None if saved is None else saved.load()
        if stored is not None:
            arrays, history[:] = stored
            x[:], mean.total = (point(f"checkpoint: {name}", arrays[name], x.size) for name in ("x", "total"))
            dual[:] = vector("checkpoint: dual", arrays["dual"], problem.n, "one number for each sample", infinite=True)
            mean.weight = float(arrays["weight"])
            sweep.following = replace(rule, given=arrays["following"]).permutation(0) if rule.adaptive else None
        if not (history and reached(history[-1])):
            run_epochs(x, steps, mean, history, lambda epoch, step: sweep.run(epoch, step, x, dual), evaluate, finished)
    return Run(
        x=mean.point(x),
        last=x,
        dual=dual,
        history=history,
        batch_size=batch_size,
        average=average,
        allowed=epochs,
        relative_gap=relative_gap(history[-1]),
        rule=rule,
        start=start,
        following=sweep.following,
        constants=constants,
    )


class Sweep:
    """Epochs over the samples of `problem`, in the permutations of `order`."""

    def __init__(self, problem: Problem, order: Order, batch_size: int) -> None:
        self._problem, self._order, self._batch_size = problem, order, batch_size
        self._derivative = compiled(problem.loss, "derivative")
        self._rows, self._labels, self._weights = problem.rows, problem.labels, problem.sample_weight
        self._kept: Any = None  # the order that the rows lie in
        self.following = order.permutation(0) if order.adaptive else None  #: the order of the next epoch, where a run makes it
        if order.fixed and order.permutes:
            permutation = order.permutation(0)
            if np.array_equal(permutation, np.arange(problem.n)):
                self._kept = slice(None)
            elif (copy := problem.rows.in_order(permutation)) is not None:
                self._rows, self._labels, self._weights = copy, self._labels[permutation], self._weights[permutation]
                self._kept = permutation

    def run(self, epoch: int, step: float, x: Vector, dual: Vector) -> None:
        """Epoch `epoch` (from 0), which changes x in place and leaves in `dual` the dual values it saw; that of a row which it did
        not visit stays.
        """
        problem = self._problem
        how = Step(self._batch_size, step, problem.alpha, self._derivative, problem.loss.parameter)
        if self.following is not None:
            self.following = self._rows.balanced_epoch(self.following, self._labels, self._weights, how, x, dual)
            return
        if self._kept is None:
            self._rows.sgd_epoch(self._order.permutation(epoch), self._labels, self._weights, how, x, dual)
            return
        seen = np.empty(problem.n)
        self._rows.sgd_epoch(None, self._labels, self._weights, how, x, seen)
        dual[self._kept] = seen


def orders_of(problem: Problem, run: Run) -> Iterator[NDArray[np.int64]]:
    """The permutation of each epoch of a run that made them, by running it again: they are too large to be kept."""
    sweep, x, dual = Sweep(problem, run.rule, run.batch_size), starting_point(run.start, problem.dimension), np.zeros(problem.n)
    for epoch, step in enumerate(run.steps):
        if sweep.following is not None:
            yield sweep.following
        sweep.run(epoch, step, x, dual)


def run_epochs(
    x: Vector,
    steps: list[float],
    mean: Average,
    history: list[Epoch],
    advance: Callable[[int, float], None],
    evaluate: Callable[[int], tuple[float | None, float | None]],
    finished: Callable[[Epoch], bool],
) -> None:
    """From where `history` ends to the last step, or to where `finished` says so: `advance` moves x by an epoch, `evaluate` looks
    at f and the gap after it.
    """
    spent = history[-1].seconds if history else 0.0
    for epoch in range(len(history), len(steps)):
        began = time.perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is caught below
            advance(epoch, steps[epoch])
            mean.add(epoch, steps[epoch], x)
        if not (np.isfinite(x).all() and np.isfinite(mean.total).all()):
            raise DivergenceError(f"x is not finite after epoch {epoch + 1} with step size {steps[epoch]:g}; use a smaller one")
        spent += time.perf_counter() - began
        with np.errstate(over="ignore", invalid="ignore"):
            f, gap = evaluate(epoch)
        if f is not None and not np.isfinite(f):
            raise DivergenceError(f"f is not finite after epoch {epoch + 1} with step size {steps[epoch]:g}; use a smaller one")
        history.append(Epoch(epoch + 1, steps[epoch], f, gap, spent))
        if finished(history[-1]):
            return
