"""What `constants` returns: the value for each sampled permutation, the statistics of them, and where they came from."""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from reshuffle import __version__
from reshuffle.frames import frame
from reshuffle.orders import describe
from reshuffle.records import finite
from reshuffle.theory import formulas
from reshuffle.validation import renamed
from reshuffle.vectors import Vector


def _statistic(of: Callable[[Vector], Any], array: str, doc: str) -> property:
    """A statistic of the permutations, under the name that it has for the loss at hand. Taken of numbers near one, as sums and
    squares of others may overflow or vanish, and scaled back, which is exact.
    """

    def value(self: "Constants") -> float:
        values: Vector = getattr(self, array)
        exponent = int(np.frexp(values.max())[1])
        return float(np.ldexp(of(np.ldexp(values, -exponent)), exponent))

    return property(value, doc=doc)


def _std(values: Vector) -> Any:
    return values.std(ddof=1) if values.size > 1 else 0.0


@dataclass(frozen=True, eq=False, repr=False)
class Constants:
    """Constants of one problem, batch size and kind of order. Arrays hold an entry for each permutation measured."""

    loss: str  #: as text, with its parameter: "huber:0.5"
    n: int  #: samples
    d: int  #: features, without the intercept
    nnz: int  #: entries of X that are not zero
    alpha: float
    batch_size: int
    order: str  #: its name
    seed: int
    tol: float  #: relative residual asked for, or slack of the upper bounds
    failure_probability: float | None  #: where given, hat and til are upper bounds, except with this probability
    requested: int  #: permutations asked for; an interrupted run has fewer
    hat: Vector  #: Lhat_pi or Ghat_pi of each permutation
    til: Vector  #: Ltil_pi or Gtil_pi of each permutation
    products: NDArray[np.int64]  #: products of the operator that each permutation took
    residual: Vector  #: relative residual of each permutation: an eigenvalue lies that close to the one reported
    largest_sample: float  #: max_i L_i|a_i|^2 (smooth) or max_i G_i^2|a_i|^2 (Lipschitz)
    mean_sample: float  #: the mean of L_i|a_i|^2 or G_i^2|a_i|^2
    full_gradient_constant: float  #: (1/n)||Λ^{1/2}A||^2
    hat_bound: float  #: what hat is at most in every order
    til_bound: float  #: what til is at most in every order
    seconds: float  #: that the measurement took
    device: str = "memory"  #: where the data lay, and why it was brought there if "auto" chose
    version: str = __version__

    l2 = property(lambda self: renamed("l2", "alpha", self.alpha, 0.0), doc="What `alpha` was called.")

    smooth: ClassVar[bool]  #: constants of a smooth loss; else of a Lipschitz one
    _REPORTED: ClassVar[tuple[str, ...]] = ()
    _NAMES: ClassVar[tuple[str, str]] = ("hat", "til")  # of the two constants, for the loss at hand

    @property
    def permutations(self) -> int:
        """How many permutations were measured."""
        return int(self.hat.size)

    @property
    def products_median(self) -> float:
        """The median of `products`."""
        return float(np.median(self.products))

    @property
    def residual_max(self) -> float:
        """The largest relative residual."""
        return float(self.residual.max())

    @property
    def _predicted_hat(self) -> float:
        """Of the data and of the regulariser alike, as both are ordered by the same min(t_p, t_q)."""
        return formulas.ordered_norm_ratio(formulas.batches(self.n, self.batch_size)) * self.full_gradient_constant

    def to_dict(self) -> dict[str, Any]:
        """Every number under the name of its attribute, ready for JSON: what is not finite becomes None."""
        settings = ("loss", "n", "d", "nnz", "alpha", "batch_size", "order", "permutations", "seed", "tol", "failure_probability")
        accuracy = ("products_median", "residual_max", "seconds", "device", "version")
        return {name: finite(getattr(self, name)) for name in (*settings, *self._REPORTED, *accuracy)}

    def to_frame(self) -> Any:
        """A pandas.DataFrame with a row for each permutation: its two constants, and how they were found."""
        hat, til = self._NAMES
        return frame({hat: self.hat, til: self.til, "products": self.products, "residual": self.residual}, index="permutation")

    def __repr__(self) -> str:
        return str(self)

    def _heading(self) -> list[str]:
        measured = f"{self.permutations}" if self.permutations == self.requested else f"{self.permutations} of {self.requested}"
        return [
            f"n            {self.n}",
            f"d            {self.d}",
            f"nnz          {self.nnz}",
            f"loss         {self.loss}" + (f" with alpha = {self.alpha:g}" if self.alpha else ""),
            f"batch size   {self.batch_size}",
            f"order        {self.order}: {describe(self.order)} ({measured} measured, seed {self.seed})",
            *([] if self.device == "memory" else [f"device       {self.device}"]),
        ]

    def _accuracy(self) -> str:
        if self.failure_probability is not None:
            sure = f"{1.0 - self.failure_probability:g}"
            return f"accuracy     upper bounds with slack {self.tol:g}, all of which hold with probability {sure}"
        return (
            f"accuracy     relative residual at most {self.residual_max:.1e} (tol {self.tol:g}), "
            f"median of {self.products_median:g} products a permutation, {self.seconds:.2f} s"
        )


class SmoothConstants(Constants):
    """L, Lhat and Ltil of a smooth problem; with alpha > 0, those of the regularised problem (Lhat and Ltil as upper bounds)."""

    smooth = True
    _STATISTICS = ("L", "lhat_mean", "lhat_std", "lhat_min", "lhat_max", "ltil_mean", "ltil_max")
    _RATIOS = ("l_over_lhat", "mean_l_over_lhat", "l_over_ltil", "full_gradient_constant", "predicted_lhat")
    _REPORTED = (*_STATISTICS, *_RATIOS, "step_size_limit", "safe_step_size_limit")
    _NAMES = ("lhat", "ltil")

    lhat = property(lambda self: self.hat, doc="Lhat_pi of each permutation (equation 4 of the paper).")
    ltil = property(lambda self: self.til, doc="Ltil_pi of each permutation (equation 4 of the paper).")
    lhat_mean = _statistic(np.mean, "hat", "The mean of Lhat_pi over the permutations.")
    lhat_std = _statistic(_std, "hat", "The standard deviation of Lhat_pi over the permutations.")
    lhat_min = _statistic(np.min, "hat", "The smallest Lhat_pi.")
    lhat_max = _statistic(np.max, "hat", "The largest Lhat_pi.")
    ltil_mean = _statistic(np.mean, "til", "The mean of Ltil_pi over the permutations.")
    ltil_max = _statistic(np.max, "til", "The largest Ltil_pi.")

    @property
    def L(self) -> float:
        """max_i L_i|a_i|^2, the constant of earlier theory."""
        return self.largest_sample

    @property
    def l_over_lhat(self) -> float:
        """L over the mean of Lhat_pi, as the caption of the paper's table has it."""
        return _ratio(self.L, self.lhat_mean)

    @property
    def mean_l_over_lhat(self) -> float:
        """The mean of L / Lhat_pi. On small n it differs from `l_over_lhat`."""
        return float(np.mean(self.L / self.hat)) if self.lhat_min > 0.0 else nan

    @property
    def l_over_ltil(self) -> float:
        """L over the mean of Ltil_pi."""
        return _ratio(self.L, self.ltil_mean)

    @property
    def predicted_lhat(self) -> float:
        """An estimate, not the constant: what Lhat tends to for random orders of data with one dominant direction."""
        return self._predicted_hat

    @property
    def step_size_limit(self) -> float:
        """The largest step that Theorems 1 and 2 allow for every permutation that was measured."""
        near_one = (np.ldexp(values, -np.frexp(values.max())[1]) for values in (self.hat, self.til))
        worst = int(np.argmax(np.multiply(*near_one)))
        return formulas.step_size_limit(self.n, self.batch_size, float(self.hat[worst]), float(self.til[worst]))

    @property
    def safe_step_size_limit(self) -> float:
        """The largest step that the theorems allow for every permutation there is, by the bounds that hold for all of them."""
        return formulas.step_size_limit(self.n, self.batch_size, self.hat_bound, self.til_bound)

    def __str__(self) -> str:
        measured = "this order" if self.permutations == 1 else "the orders measured"
        lines = [
            *self._heading(),
            f"L            {self.L:.6g}",
            f"Lhat         {self.lhat_mean:.6g} ± {self.lhat_std:.2g}   (estimate 4/π² rule: {self.predicted_lhat:.6g})",
            f"L/Lhat       {self.l_over_lhat:.4g}   (mean of L/Lhat_π: {self.mean_l_over_lhat:.4g})",
            f"Ltil         {self.ltil_mean:.6g}   (largest: {self.ltil_max:.6g})",
            f"L/Ltil       {self.l_over_ltil:.4g}",
            f"full         {self.full_gradient_constant:.6g}   (the constant of full gradients, (1/n)‖Λ^½A‖²)",
            f"step size    up to {self.step_size_limit:.4g} in {measured}, up to {self.safe_step_size_limit:.4g} in every order",
            self._accuracy(),
        ]
        return "\n".join(lines)


class LipschitzConstants(Constants):
    """G, Ghat, Gtil and Gbar of a Lipschitz loss. The regulariser is no part of them: it is not Lipschitz."""

    smooth = False
    _STATISTICS = ("G", "ghat_mean", "ghat_std", "ghat_min", "ghat_max", "gtil_mean", "gtil_max", "gbar")
    _RATIOS = ("g_squared_over_ghat", "g_squared_over_gtil", "full_gradient_constant", "predicted_ghat")
    _REPORTED = (*_STATISTICS, *_RATIOS, "step_size_factor")
    _NAMES = ("ghat", "gtil")

    ghat = property(lambda self: self.hat, doc="Ghat_pi of each permutation.")
    gtil = property(lambda self: self.til, doc="Gtil_pi of each permutation.")
    ghat_mean = _statistic(np.mean, "hat", "The mean of Ghat_pi over the permutations.")
    ghat_std = _statistic(_std, "hat", "The standard deviation of Ghat_pi over the permutations.")
    ghat_min = _statistic(np.min, "hat", "The smallest Ghat_pi.")
    ghat_max = _statistic(np.max, "hat", "The largest Ghat_pi.")
    gtil_mean = _statistic(np.mean, "til", "The mean of Gtil_pi over the permutations.")
    gtil_max = _statistic(np.max, "til", "The largest Gtil_pi.")

    @property
    def G(self) -> float:
        """max_i G_i|a_i|, the Lipschitz constant of a sample; Ghat, Gtil and Gbar are on the scale of its square."""
        return sqrt(self.largest_sample)

    @property
    def gbar(self) -> float:
        """The mean of sqrt(Ghat_pi Gtil_pi), which Theorem 3 asks for."""
        return float(np.mean([formulas.root_of_product(hat, til) for hat, til in zip(self.hat, self.til, strict=True)]))

    @property
    def g_squared_over_ghat(self) -> float:
        """G squared over the mean of Ghat_pi."""
        return _ratio(self.largest_sample, self.ghat_mean)

    @property
    def g_squared_over_gtil(self) -> float:
        """G squared over the mean of Gtil_pi."""
        return _ratio(self.largest_sample, self.gtil_mean)

    @property
    def predicted_ghat(self) -> float:
        """An estimate, not the constant: see `SmoothConstants.predicted_lhat`."""
        return self._predicted_hat

    @property
    def step_size_factor(self) -> float:
        """The best constant step for K epochs from a distance D is this times D / sqrt(K) (Theorem 3)."""
        return formulas.lipschitz_step_factor(self.n, self.batch_size, self.gbar)

    def __str__(self) -> str:
        lines = [
            *self._heading(),
            f"G            {self.G:.6g}   (squared: {self.largest_sample:.6g})",
            f"Ghat         {self.ghat_mean:.6g} ± {self.ghat_std:.2g}   (estimate 4/π² rule: {self.predicted_ghat:.6g})",
            f"G²/Ghat      {self.g_squared_over_ghat:.4g}",
            f"Gtil         {self.gtil_mean:.6g}   (largest: {self.gtil_max:.6g})",
            f"G²/Gtil      {self.g_squared_over_gtil:.4g}",
            f"Gbar         {self.gbar:.6g}",
            f"step size    {self.step_size_factor:.4g} · D/√K for K epochs from distance D",
            self._accuracy(),
        ]
        return "\n".join(lines)


def _ratio(above: float, below: float) -> float:
    return above / below if below > 0.0 else nan
