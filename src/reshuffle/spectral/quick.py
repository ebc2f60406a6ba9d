"""`quick_constants`: what a few sweeps over the data say, without measuring a single order."""

import time
from dataclasses import dataclass
from math import sqrt
from typing import Any

from reshuffle import __version__
from reshuffle.blas import one_thread
from reshuffle.orders import make_order
from reshuffle.problem import Problem
from reshuffle.records import finite
from reshuffle.spectral.permutations import Shared
from reshuffle.theory import formulas
from reshuffle.validation import whole_number

_TOL = 1e-4  # relative residual of the norm, as for the constants of orders: at less, Lanczos may stop at an eigenvalue below


@dataclass(frozen=True)
class QuickConstants:
    """Constants that belong to no order: some are measured, others follow from them for every order, one is an estimate."""

    loss: str
    n: int
    d: int
    nnz: int
    alpha: float
    batch_size: int
    L: float  #: measured: max_i L_i|a_i|^2; of a Lipschitz loss, max_i G_i^2|a_i|^2
    mean_sample: float  #: measured: the mean of these numbers; promised: Lhat_pi is at most this in every order
    full_gradient_constant: float  #: measured, to a relative residual of 1e-4: (1/n)||Λ^{1/2}A||^2
    til_bound: float  #: Ltil_pi is at most this in every order
    predicted_lhat: float  #: estimated: what Lhat tends to for random orders of data with one dominant direction
    smooth: bool  #: constants of a smooth loss; else of a Lipschitz one
    products: int  #: pairs of sweeps over the data that it took, beside one for the norms of rows
    residual: float  #: relative, of the constant of full gradients
    seconds: float
    version: str = __version__

    @property
    def hat_bound(self) -> float:
        """Lhat_pi is at most this in every order: the constant of full gradients with its residual. A norm found by iteration may
        be too small all the same; `mean_sample` is above it for certain.
        """
        return min(self.full_gradient_constant * (1.0 + self.residual), self.mean_sample)

    @property
    def safe_step_size_limit(self) -> float | None:
        """The largest step that the theorems allow in every order; None for a Lipschitz loss."""
        return formulas.step_size_limit(self.n, self.batch_size, self.hat_bound, self.til_bound) if self.smooth else None

    def to_dict(self) -> dict[str, Any]:
        """Every number under the name of its attribute, ready for JSON."""
        names = (*self.__dataclass_fields__, "hat_bound", "safe_step_size_limit")
        return {name: finite(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        L, hat, til = ("L", "Lhat", "Ltil") if self.smooth else ("G²", "Ghat", "Gtil")
        step = "" if self.safe_step_size_limit is None else f"\nstep size    up to {self.safe_step_size_limit:.4g} in every order"
        single = "" if self.smooth else f"   (G: {sqrt(self.L):.6g})"
        return (
            f"n            {self.n}\nd            {self.d}\nnnz          {self.nnz}\nloss         {self.loss}"
            + (f" with alpha = {self.alpha:g}" if self.alpha else "")
            + f"\nbatch size   {self.batch_size}"
            f"\n{L:<13}{self.L:.6g}   (measured; mean over the rows {self.mean_sample:.6g}){single}"
            f"\nfull         {self.full_gradient_constant:.6g}   (measured to {self.residual:.1e}: the constant of full gradients)"
            f"\n{hat:<13}{self.hat_bound:.6g} at most in every order   (estimate 4/π² rule: {self.predicted_lhat:.6g})"
            f"\n{til:<13}{self.til_bound:.6g} at most in every order{step}"
            f"\nsweeps       {2 * self.products + 1}, {self.seconds:.2f} s; no order was measured"
        )


def quick_constants(problem: Any, *, batch_size: int = 1, seed: int = 0) -> QuickConstants:
    """L and the constant of full gradients, and what follows from them for orders; none is measured.

    problem : a `Problem`, or a bare matrix or `Rows`, for which every L_i is 1.
    batch_size : 1..n.
    seed : of the vector that Lanczos starts from.
    """
    began = time.perf_counter()
    problem = problem if isinstance(problem, Problem) else Problem(problem, loss="unit")
    batch_size = whole_number("batch_size", batch_size, 1, problem.n, "rows of the data")
    order = make_order("rr", problem.n, whole_number("seed", seed, 0))
    with one_thread():
        shared = Shared(problem, order, tol=_TOL, share=None, orders=False)
    full, til = shared.full_gradient_constant, shared.bounds(batch_size)[1]
    return QuickConstants(
        loss=str(problem.loss),
        n=problem.n,
        d=problem.d,
        nnz=problem.nnz,
        alpha=problem.alpha,
        batch_size=batch_size,
        L=shared.largest_sample,
        mean_sample=shared.mean_sample,
        full_gradient_constant=full,
        til_bound=min(til * (1.0 + shared.residual), shared.largest_sample),
        predicted_lhat=formulas.ordered_norm_ratio(formulas.batches(problem.n, batch_size)) * full,
        smooth=shared.smooth,
        products=shared.products,
        residual=shared.residual,
        seconds=time.perf_counter() - began,
    )
