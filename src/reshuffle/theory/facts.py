"""What a theorem is applied to: the constants of the data that hold for the orders in use, and what is known of the optimum.

The constants of a fixed order are its own. Random orders are not known beforehand, and a promise is about all that will be used: so
their constants are bounds, for every order there is, or for all epochs of a run except with a small probability.
"""

from dataclasses import dataclass, replace
from math import nan
from typing import TYPE_CHECKING, Any

from reshuffle.theory import formulas

if TYPE_CHECKING:
    from reshuffle.optimum import Optimum
    from reshuffle.orders import Order

#: What is said of random orders holds for all epochs, as many as these if nothing else is said, except with so small a probability.
EPOCHS, FAILURE = 10**15, 0.01
_WORTH = 1.1  # certainty is given up for a step that is longer by this factor, and for no less


@dataclass(frozen=True)
class Within:
    """Constants that the orders in use do not exceed."""

    hat: float  #: Lhat_pi or Ghat_pi
    til: float  #: Ltil_pi or Gtil_pi
    orders: str  #: for which this holds, in words
    failure: float = 0.0  #: the probability that it does not


def within(c: Any, order: "Order", *, safe: bool = False, epochs: int = EPOCHS) -> Within:
    """From what `constants` measured: of the orders themselves where they are fixed or listed, else for every order (`safe`, or
    where nothing is known of how orders are drawn), else for `epochs` uniformly random orders except with probability `FAILURE`.
    """
    if order.count is not None:
        return Within(float(c.hat.max()), float(c.til.max()), "this order" if order.fixed else "these orders")
    every = Within(c.hat_bound, c.til_bound, "every order")
    alpha = c.alpha if c.smooth else 0.0
    largest, full, m = c.largest_sample - alpha, c.full_gradient_constant - alpha, formulas.batches(c.n, c.batch_size)
    if safe or not order.uniform or largest <= 0.0:
        return every
    share = FAILURE / (2.0 * epochs)  # of each constant in each epoch
    dimension, intrinsic = min(c.n, c.d + 1), (c.mean_sample - alpha) / full  # an intercept may be one of the dimensions
    shrunk = alpha * formulas.ordered_norm_ratio(m)
    hat = min(every.hat, formulas.likely_hat(full, largest, dimension, c.n, c.batch_size, share) + shrunk)
    til = min(every.til, formulas.likely_til(full, largest, intrinsic, c.batch_size, share / m) + alpha)
    worth = every.hat * every.til > _WORTH**2 * hat * til
    return Within(hat, til, f"{epochs:,} random orders", FAILURE) if worth else every


@dataclass(frozen=True)
class Facts:
    """All that theorems rest on, as numbers: of the problem and batch size, of the orders, and of the optimum."""

    n: int
    batch_size: int
    smooth: Within | None  #: Lhat and Ltil; None for a loss with kinks
    lipschitz: Within | None  #: Ghat and Gtil; None for a loss that is not Lipschitz, or where they were not measured
    largest: float  #: L, or G^2 for a loss with kinks
    lipschitz_squared: float  #: G^2; nan where it was not measured
    full: float  #: the smoothness of f, or the square of its Lipschitz constant for a loss with kinks
    mu: float  #: f - (mu/2)|x|^2 is convex; zero with an intercept, which the regulariser leaves alone
    distance: float  #: D = |x_0 - x*|
    sigma: float
    dual_norm: float
    discrepancy: float | tuple[float, ...] | None = None  #: R_pi of the order, or of each epoch's; None where not measured

    @classmethod
    def of(
        cls,
        c: Any,
        optimum: "Optimum | None",
        order: "Order",
        *,
        intercept: bool = False,
        discrepancy: float | tuple[float, ...] | None = None,
        lipschitz: Any = None,
        safe: bool = False,
        epochs: int = EPOCHS,
    ) -> "Facts":
        """`c` is what `constants` measured for the loss; `lipschitz` the constants of Theorem 3 for a loss that is smooth as well.
        Without an optimum there are steps, but no promises.
        """
        g = c if not c.smooth else lipschitz
        return cls(
            n=c.n,
            batch_size=c.batch_size,
            smooth=within(c, order, safe=safe, epochs=epochs) if c.smooth else None,
            lipschitz=None if g is None else within(g, order, safe=safe, epochs=epochs),
            largest=c.largest_sample,
            lipschitz_squared=nan if g is None else g.largest_sample,
            full=c.full_gradient_constant,
            mu=0.0 if intercept else c.alpha,
            distance=nan if optimum is None else optimum.distance,
            sigma=nan if optimum is None else optimum.sigma,
            dual_norm=nan if optimum is None else optimum.dual_norm,
            discrepancy=discrepancy,
        )

    def textbook(self) -> "Facts":
        """The same, with the data known by its largest sample alone: L for Lhat and Ltil, and G^2 for Ghat and Gtil."""
        L, G2 = self.largest, self.lipschitz_squared
        return replace(
            self,
            smooth=None if self.smooth is None else Within(L, L, "every order"),
            lipschitz=None if self.lipschitz is None else Within(G2, G2, "every order"),
        )
