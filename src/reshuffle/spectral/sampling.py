"""`constants`: from a problem to its constants, over one order or many random ones.

Each permutation depends on the seed and its own number alone and is computed by one thread, with BLAS held to one thread:
results are the same to the last bit for any number of threads.
"""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from reshuffle.blas import one_thread
from reshuffle.losses import Unit
from reshuffle.losses.parts import cores
from reshuffle.orders import Order, make_order
from reshuffle.problem import Problem
from reshuffle.records import Journal
from reshuffle.rows.devices import AUTO, PASSES_A_PERMUTATION, choose, is_auto, memory_in_words
from reshuffle.spectral.permutations import Permutations, Sample, Shared
from reshuffle.spectral.result import LipschitzConstants, SmoothConstants
from reshuffle.validation import whole_number

_DEFAULT_TOL = 1e-4
# Small permutations are handed to threads a few at a time: handing one over takes as long as a small one does.
_ENTRIES_A_TASK, _MOST_A_TASK = 1 << 21, 16
_DEFAULT_SLACK = 1e-2  # of an upper bound: 1e-4 would take ten times the products


class AccuracyWarning(UserWarning):
    """An eigenvalue was not found to the tolerance asked for."""


def check_accuracy(tol: float | None, failure_probability: float | None) -> None:
    if failure_probability is not None and not 0.0 < failure_probability < 1.0:
        raise ValueError(f"failure_probability={failure_probability!r} must lie strictly between 0 and 1")
    if tol is not None and not 1e-12 <= tol < 1.0:
        raise ValueError(f"tol={tol!r} must be at least 1e-12 and less than 1")


def constants(
    problem: Any = None,
    *,
    smoothness: ArrayLike | None = None,
    batch_size: int = 1,
    order: str | ArrayLike | Order = "rr",
    permutations: int = 100,
    seed: int = 0,
    tol: float | None = None,
    failure_probability: float | None = None,
    lipschitz: bool = False,
    device: Any = AUTO,
    jobs: int | None = None,
    out: str | Path | None = None,
    callback: Callable[[Sample], None] | None = None,
) -> Any:  # SmoothConstants or LipschitzConstants, as the loss has it: a union would make type checkers refuse c.L
    """L, Lhat and Ltil of a smooth problem, or G, Ghat, Gtil and Gbar of a Lipschitz one.

    problem : a `Problem`, or a bare matrix, for which every L_i is 1.
    smoothness : instead of a problem, L_1..L_n of any convex smooth functions f_i: the constants of the general finite sum.
    batch_size : 1..n; the last batch of an epoch may be short.
    order : "rr" (`permutations` random orders are sampled), "so" (the one that the seed gives), "ig" (the data's own), another
        name, or a permutation array, or a list of such arrays, all of which are measured.
    permutations : how many random orders are sampled.
    seed : of the random orders.
    tol : relative residual that each eigenvalue is computed to; 1e-4 if not given.
    failure_probability : return upper bounds instead, all of which hold except with this probability; `tol` is then how far
        above the norm they may lie (1e-2 if not given).
    lipschitz : G, Ghat, Gtil and Gbar for a loss that is smooth as well as Lipschitz, such as the logistic loss.
    device : "auto": dense data goes to a GPU where PyTorch sees one and that pays (`docs/gpu.md`); the result says so. "memory",
        "cpu", "cuda:1", "cuda" (all GPUs share the permutations) or a list of them. A tensor is used where it lies.
    jobs : threads; all cores if not given. The result does not depend on it.
    out : a journal of finished permutations. A run that was stopped goes on where it was.
    callback : called with the `Sample` of each permutation as it is finished, in the calling thread.

    Ctrl-C returns what is finished, if anything is; the result then has fewer permutations than were `requested`.
    """
    began = time.perf_counter()
    problem = _as_problem(problem, smoothness, None if is_auto(device) else device)
    batch_size = whole_number("batch_size", batch_size, 1, problem.n, "rows of the data")
    permutations = whole_number("permutations", permutations, 1)
    seed = whole_number("seed", seed, 0)
    jobs = cores() if jobs is None else whole_number("jobs", jobs, 1)
    check_accuracy(tol, failure_probability)
    if tol is None:
        tol = _DEFAULT_TOL if failure_probability is None else _DEFAULT_SLACK
    rule = make_order(order, problem.n, seed)
    if not rule.repeatable:
        what = f"{rule.name!r} is made while a run goes on" if rule.adaptive else "is an iterator of permutations"
        raise ValueError(
            f"order {what}; constants belong to known orders or random ones: pass the permutation, a list of them, or 'rr'"
        )
    requested = rule.count or permutations
    auto = choose(device, problem.rows, requested * PASSES_A_PERMUTATION * (1 if batch_size == 1 else 2), jobs)
    if auto.why:
        problem = problem.replace(device=auto.device)

    # Each permutation needs two bounds and the whole matrix one: together they fail no more often than was asked.
    share = None if failure_probability is None else failure_probability / (2 * requested + 1)
    with ExitStack() as stack:
        stack.enter_context(one_thread())
        stack.enter_context(memory_in_words())
        problems = [problem, *(problem.replace(X=rows) for rows in problem.rows.replicas()[1:])]
        orders = [Permutations(Shared(each, rule, tol=tol, share=share, lipschitz=lipschitz), batch_size) for each in problems]
        journal = None if out is None else stack.enter_context(Journal.open(out, orders[0].settings()))
        samples = _measure_all(orders, requested, jobs, journal, callback)
    result = _result(orders[0], samples, requested, failure_probability, time.perf_counter() - began)
    return dataclasses.replace(result, device=", ".join(filter(None, (", ".join(each.rows.place for each in problems), auto.why))))


def constants_by_batch_size(
    problem: Problem,
    batch_sizes: Iterable[int],
    *,
    order: str | ArrayLike | Order = "rr",
    permutations: int,
    seed: int,
    lipschitz: bool = False,
) -> dict[int, Any]:
    """`constants` for several batch sizes, which share the rows, their norm and the singular vector."""
    rule = make_order(order, problem.n, seed)
    requested = rule.count or permutations
    results = {}
    with one_thread():
        shared = Shared(problem, rule, tol=_DEFAULT_TOL, share=None, lipschitz=lipschitz)
        for batch_size in batch_sizes:
            began = time.perf_counter()
            orders = Permutations(shared, batch_size)
            samples = _measure_all([orders], requested, cores(), None, None)
            if len(samples) < requested:  # nobody asked for part of these: an interruption is not a result
                raise KeyboardInterrupt
            results[batch_size] = _result(orders, samples, requested, None, time.perf_counter() - began)
    return results


def as_lipschitz(problem: Problem, c: Any, order: str | Order) -> Any:
    """The constants of Theorem 3 beside those of a loss that is smooth as well: the same numbers on another scale where all samples
    have one G_i^2 / L_i, else measured.
    """
    L, G = problem.smoothness, problem.lipschitz
    if L is None or G is None or problem.alpha > 0.0 or np.ptp(G**2 / L) > 1e-12 * float(np.max(G**2 / L)):
        options: Any = {"batch_size": c.batch_size, "order": order, "permutations": c.permutations, "seed": c.seed, "tol": c.tol}
        return constants(problem, **options, lipschitz=True)
    ratio = float(G[0] ** 2 / L[0])
    scaled = ("hat", "til", "largest_sample", "mean_sample", "full_gradient_constant", "hat_bound", "til_bound")
    fields = {field.name: getattr(c, field.name) for field in dataclasses.fields(c)}
    return LipschitzConstants(**{name: ratio * value if name in scaled else value for name, value in fields.items()})


def _result(orders: Permutations, samples: list[Sample], requested: int, failure_probability: float | None, seconds: float) -> Any:
    shared = orders.shared
    if failure_probability is None:
        _warn_of_residual(max(shared.residual, *(s.residual for s in samples)), shared.tol)
    problem = shared.problem
    kind = SmoothConstants if shared.smooth else LipschitzConstants
    hat_bound, til_bound = shared.bounds(orders.batch_size)
    return kind(
        loss=str(problem.loss),
        n=problem.n,
        d=problem.d,
        nnz=problem.nnz,
        alpha=problem.alpha,
        batch_size=orders.batch_size,
        order=shared.order.name,
        seed=shared.order.seed,
        tol=shared.tol,
        failure_probability=failure_probability,
        requested=requested,
        hat=np.array([s.hat for s in samples]),
        til=np.array([s.til for s in samples]),
        products=np.array([s.products for s in samples]),
        residual=np.array([s.residual for s in samples]),
        largest_sample=shared.largest_sample,
        mean_sample=shared.mean_sample,
        full_gradient_constant=shared.full_gradient_constant,
        hat_bound=hat_bound,
        til_bound=til_bound,
        seconds=seconds,
        device=problem.rows.place,
    )


def _measure_all(
    replicas: list[Permutations],
    requested: int,
    jobs: int,
    journal: Journal | None,
    callback: Callable[[Sample], None] | None,
) -> list[Sample]:
    """`replicas` are the same, one for each device."""
    orders = replicas[0]
    done: dict[int, Sample] = {}

    def keep(sample: Sample) -> None:
        done[sample.permutation] = sample
        if callback is not None:
            callback(sample)

    names = ("permutation", *(("lhat", "ltil") if orders.shared.smooth else ("ghat", "gtil")), "products", "residual")
    for entry in journal.done if journal is not None else ():
        if entry["permutation"] < requested:
            keep(Sample(*(entry[name] for name in names)))
    missing = [k for k in range(requested) if k not in done]
    each = min(max(_ENTRIES_A_TASK // max(orders.shared.problem.rows.entries, 1), 1), _MOST_A_TASK)
    at_once = getattr(orders.shared.rows, "at_once", 0)  # by rows that are multiplied in several orders together
    if at_once:
        each = min(at_once, -(-len(missing) // len(replicas)) or 1)
    jobs = min(jobs, -(-len(missing) // each) or 1)
    if jobs > 1:
        jobs = min(jobs, getattr(orders.shared.rows, "most_at_once", jobs))  # by rows that are copied where room is limited
    idle: SimpleQueue[Permutations] = SimpleQueue()
    for worker in replicas if at_once else replicas * jobs:
        idle.put(worker)
    pool = ThreadPoolExecutor(max_workers=min(idle.qsize(), requested))
    try:
        # In turn, not by as_completed: that locks every future at once, and Ctrl-C there leaves them locked for good.
        tasks = [missing[start : start + each] for start in range(0, len(missing), each)]
        for future in [pool.submit(_several, idle, task) for task in tasks]:
            samples, error = future.result()
            for sample in samples:
                if journal is not None:
                    values = (sample.permutation, sample.hat, sample.til, sample.products, sample.residual)
                    journal.append(dict(zip(names, values, strict=True)))
                keep(sample)
            if error is not None:
                raise error
    except KeyboardInterrupt:
        if not done:
            raise
    finally:
        pool.shutdown(cancel_futures=True)
    return [done[k] for k in sorted(done)]


def _several(idle: "SimpleQueue[Permutations]", numbers: list[int]) -> tuple[list[Sample], BaseException | None]:
    """The constants of these permutations, as far as they could be had, by one that has nothing to do."""
    samples: list[Sample] = []
    orders = idle.get()
    try:
        samples.extend(orders.constants_of_all(numbers))
    except BaseException as error:
        return samples, error
    finally:
        idle.put(orders)
    return samples, None


def _warn_of_residual(residual: float, tol: float) -> None:
    if residual > tol:
        warnings.warn(
            f"Lanczos stopped at a relative residual of {residual:.1e}, above tol={tol:g}: the constants may be too small by "
            "that much. Use a larger tol, or failure_probability for an upper bound that can be relied on.",
            AccuracyWarning,
            stacklevel=4,
        )


def _as_problem(problem: Any, smoothness: ArrayLike | None, device: Any) -> Problem:
    if (problem is None) == (smoothness is None):
        raise ValueError("pass either a problem (or a matrix) or smoothness=[L_1, ..., L_n]")
    if isinstance(problem, Problem):
        return problem if device is None else problem.replace(device=device)
    if smoothness is None:
        return Problem(problem, loss="unit", device=device)
    values = np.asarray(smoothness, dtype=np.float64)
    if values.ndim != 1 or values.size == 0 or not (np.isfinite(values) & (values > 0.0)).all():
        raise ValueError("smoothness must be a list of n positive numbers, one L_i for each function")
    # By the paper's Kronecker argument a general finite sum has the constants of the n x 1 matrix of ones.
    return Problem(np.ones((values.size, 1), dtype=np.uint8), loss=Unit(), sample_weight=values)
