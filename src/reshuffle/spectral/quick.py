"""`quick_constants`: what one sweep over the data says, without measuring a single order."""

import time
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from reshuffle import __version__
from reshuffle.blas import one_thread
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.spectral.sweep import FAILURE_PROBABILITY, norm_of
from reshuffle.theory import formulas
from reshuffle.validation import whole_number


@dataclass(frozen=True)
class QuickConstants:
    """Constants that belong to no order: some are measured, others promised for every order, others estimated. Promises hold with
    probability 0.99 over the random vectors that the data was multiplied with.
    """

    loss: str
    n: int
    d: int
    nnz: int
    alpha: float
    batch_size: int
    L: float  #: measured: max_i L_i|a_i|^2; of a Lipschitz loss, max_i G_i^2|a_i|^2
    mean_sample: float  #: measured: the mean of these numbers
    full_gradient_constant: float  #: measured: (1/n)||Λ^{1/2}A||^2 is at least this, and little more where `residual` is small
    hat_bound: float  #: promised: (1/n)||Λ^{1/2}A||^2, and so Lhat_pi in every order, is at most this
    til_bound: float  #: promised: Ltil_pi is at most this in every order
    predicted_lhat: float  #: estimated: what Lhat tends to for random orders of data with one dominant direction
    predicted_til_bound: float  #: estimated: `til_bound` as it would be if the constant of full gradients were what was measured
    smooth: bool  #: constants of a smooth loss; else of a Lipschitz one
    residual: float  #: relative: an eigenvalue, though it need not be the largest, is as near to that of the vector found
    sweeps: float  #: over the data: one, and a part of one to see where to look; rows in memory are all looked at, several times
    seconds: float
    version: str = __version__

    @property
    def safe_step_size_limit(self) -> float | None:
        """Promised: a step that the theorems allow in every order; None for a Lipschitz loss."""
        return formulas.step_size_limit(self.n, self.batch_size, self.hat_bound, self.til_bound) if self.smooth else None

    @property
    def predicted_step_size_limit(self) -> float | None:
        """Estimated: the same, if the constant of full gradients were what was measured."""
        hat, til = self.full_gradient_constant, self.predicted_til_bound
        return formulas.step_size_limit(self.n, self.batch_size, hat, til) if self.smooth else None

    def to_dict(self) -> dict[str, Any]:
        """Every number under the name of its attribute, ready for JSON."""
        names = (*self.__dataclass_fields__, "safe_step_size_limit", "predicted_step_size_limit")
        return {name: finite(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        L, hat, til = ("L", "Lhat", "Ltil") if self.smooth else ("G²", "Ghat", "Gtil")
        safe, predicted = self.safe_step_size_limit, self.predicted_step_size_limit
        step = (
            "" if safe is None else f"\nstep size    up to {safe:.4g} in every order   (promised; estimated: up to {predicted:.4g})"
        )
        single = "" if self.smooth else f"   (G: {sqrt(self.L):.6g})"
        return (
            f"n            {self.n}\nd            {self.d}\nnnz          {self.nnz}\nloss         {self.loss}"
            + (f" with alpha = {self.alpha:g}" if self.alpha else "")
            + f"\nbatch size   {self.batch_size}"
            f"\n{L:<13}{self.L:.6g}   (measured; mean over the rows {self.mean_sample:.6g}){single}"
            f"\nfull         {self.full_gradient_constant:.6g} at least   (measured, residual {self.residual:.1e}: the constant of "
            f"full gradients; promised: at most {self.hat_bound:.6g})"
            f"\n{hat:<13}{self.hat_bound:.6g} at most in every order   (promised; estimate 4/π² rule: {self.predicted_lhat:.6g})"
            f"\n{til:<13}{self.til_bound:.6g} at most in every order   (promised; estimated: {self.predicted_til_bound:.6g})"
            + step
            + f"\npromises     hold with probability {1.0 - FAILURE_PROBABILITY:g}"
            f"\nsweeps       {self.sweeps:.3g}, {self.seconds:.2f} s; no order was measured"
        )


def quick_constants(problem: Any, *, batch_size: int = 1, seed: int = 0) -> QuickConstants:
    """L and the constant of full gradients, and what follows from them for orders; none is measured, and data on disk is read once.

    problem : a `Problem`, or a bare matrix or `Rows`, for which every L_i is 1.
    batch_size : 1..n.
    seed : of the rows that are looked at first, and of the vectors that the data is multiplied with.
    """
    began = time.perf_counter()
    problem = problem if isinstance(problem, Problem) else Problem(problem, loss="unit")
    n = problem.n
    batch_size = whole_number("batch_size", batch_size, 1, n, "rows of the data")
    seed = whole_number("seed", seed, 0)
    with one_thread():
        norm = norm_of(problem, seed)
    smooth, squares = problem.smoothness is not None, norm.squared_norms
    alpha = problem.alpha if smooth else 0.0

    def true(value: float) -> float:
        return float(np.ldexp(value, 2 * norm.exponent)) + alpha

    heaviest = float(np.partition(squares, n - batch_size)[n - batch_size :].mean())  # what a batch has at most
    full = true(norm.at_least / n)
    return QuickConstants(
        loss=str(problem.loss),
        n=n,
        d=problem.d,
        nnz=norm.nonzeros,
        alpha=problem.alpha,
        batch_size=batch_size,
        L=true(float(squares.max())),
        mean_sample=true(float(squares.mean())),
        full_gradient_constant=full,
        hat_bound=true(norm.at_most / n),
        til_bound=true(min(heaviest, norm.at_most / batch_size)),
        predicted_lhat=formulas.ordered_norm_ratio(formulas.batches(n, batch_size)) * full,
        predicted_til_bound=true(min(heaviest, norm.at_least / batch_size)),
        smooth=smooth,
        residual=norm.residual,
        sweeps=norm.sweeps,
        seconds=time.perf_counter() - began,
    )
