"""The theorems as functions of numbers.

n samples, batch size b, m = ceil(n / b) batches (the last may be short), steps eta_1..eta_K, H_K their sum, distance
D = |x_0 - x*|, sigma^2 = (1/n) sum_i |grad f_i(x*)|^2, dual_norm = |y*|_{Λ^-1}. Where b divides n the formulas are those of the
paper; beta(n, b) and variance_factor(n, b) carry them to a short last batch. Every bound is on the gap f(x_hat) - min f.

For smooth losses the bound is (b D^2/(2n) + sum eta^3 noise) / H_K. Theorems 1 and 2 differ in the noise alone: the functions
named `_smooth` have that of a random order, those named `_ig` that of a given one, and those named `_with_noise` take any.

A general finite sum has Theorems 4 and 5: Theorems 1 and 2 with the constants of `reshuffle.constants(smoothness=...)`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, pi, sin, sqrt


def batches(n: int, batch_size: int) -> int:
    """m, the number of batches in an epoch."""
    return ceil(n / batch_size)


def beta(n: int, batch_size: int) -> float:
    """sqrt(b n / m): b itself where b divides n, and what takes its place where the last batch is short."""
    return sqrt(batch_size * n / batches(n, batch_size))


def variance_factor(n: int, batch_size: int) -> float:
    """V = m(m-1)/(n(n-1)) (n/2 - b(2m-1)/6): what a random order leaves of sigma^2. (n-b)(n+b)/(6 b^2 (n-1)) where b divides n."""
    m = batches(n, batch_size)
    return 0.0 if m == 1 else m * (m - 1) / (n * (n - 1)) * (n / 2 - batch_size * (2 * m - 1) / 6)


def ordered_norm_ratio(m: int) -> float:
    """||[min(i, j)]||_2 / m^2 for i, j = 1..m: 1 at m = 1, falling to 4/pi^2.

    For a random order of data with one dominant direction, Lhat is close to this times (1/n)||Λ^{1/2}A||^2.
    """
    return 1.0 / (4.0 * m**2 * sin(pi / (4 * m + 2)) ** 2)


# --- noise


def noise_smooth(n: int, batch_size: int, *, ltil: float, sigma: float) -> float:
    """Ltil sigma^2 V: what a random order leaves of the noise, in the mean (Theorem 1)."""
    return ltil * sigma**2 * variance_factor(n, batch_size)


def noise_ig(n: int, batch_size: int, *, lhat: float, ltil: float, sigma: float, dual_norm: float) -> float:
    """min{(m/b) Lhat Ltil |y*|^2, (m-1)^2 Ltil sigma^2}: what the noise can be in any order (Theorem 2)."""
    m = batches(n, batch_size)
    return min(m / batch_size * lhat * ltil * dual_norm**2, (m - 1) ** 2 * ltil * sigma**2)


# --- steps


def step_size_limit(n: int, batch_size: int, lhat: float, ltil: float) -> float:
    """The largest step that Theorems 1 and 2 allow (smooth losses): beta / (n sqrt(2 Lhat Ltil))."""
    product = lhat * ltil
    return beta(n, batch_size) / (n * sqrt(2.0 * product)) if product > 0.0 else inf


def step_smooth(n: int, batch_size: int, *, epochs: int, lhat: float, ltil: float, distance: float, sigma: float) -> float:
    """The constant step for a budget of K epochs in a random order (after Theorem 1): the limit, or what balances the bound."""
    noise = noise_smooth(n, batch_size, ltil=ltil, sigma=sigma)
    return step_with_noise(n, batch_size, epochs=epochs, lhat=lhat, ltil=ltil, distance=distance, noise=noise)


def step_ig(
    n: int, batch_size: int, *, epochs: int, lhat: float, ltil: float, distance: float, sigma: float, dual_norm: float
) -> float:
    """The constant step for a budget of K epochs in a given order (after Theorem 2)."""
    noise = noise_ig(n, batch_size, lhat=lhat, ltil=ltil, sigma=sigma, dual_norm=dual_norm)
    return step_with_noise(n, batch_size, epochs=epochs, lhat=lhat, ltil=ltil, distance=distance, noise=noise)


def step_with_noise(n: int, batch_size: int, *, epochs: int, lhat: float, ltil: float, distance: float, noise: float) -> float:
    """The limit, or the step at which b D^2 / (2 n eta K) equals eta^2 noise."""
    limit = step_size_limit(n, batch_size, lhat, ltil)
    return min(limit, (batch_size * distance**2 / (2.0 * n * epochs * noise)) ** (1.0 / 3.0)) if noise > 0.0 else limit


def lipschitz_step_factor(n: int, batch_size: int, gbar: float) -> float:
    """sqrt(b beta) / (2 n sqrt(Gbar)), to be multiplied by D / sqrt(K)."""
    return sqrt(batch_size * beta(n, batch_size)) / (2.0 * n * sqrt(gbar)) if gbar > 0.0 else inf


def step_lipschitz(n: int, batch_size: int, *, epochs: int, gbar: float, distance: float) -> float:
    """The best constant step for a budget of K epochs in any order (after Theorem 3)."""
    return lipschitz_step_factor(n, batch_size, gbar) * distance / sqrt(epochs)


# --- bounds


def bound_smooth(n: int, batch_size: int, *, steps: Sequence[float], ltil: float, distance: float, sigma: float) -> float:
    """Theorem 1 (RR and SO, in expectation): (b D^2/(2n) + sum eta^3 Ltil sigma^2 V) / H_K. Steps must be within the limit."""
    return bound_with_noise(
        n, batch_size, steps=steps, distance=distance, noise=noise_smooth(n, batch_size, ltil=ltil, sigma=sigma)
    )


def bound_ig(
    n: int, batch_size: int, *, steps: Sequence[float], lhat: float, ltil: float, distance: float, sigma: float, dual_norm: float
) -> float:
    """Theorem 2 (a given order, no expectation), with the constants of that order. Steps must be within the limit."""
    noise = noise_ig(n, batch_size, lhat=lhat, ltil=ltil, sigma=sigma, dual_norm=dual_norm)
    return bound_with_noise(n, batch_size, steps=steps, distance=distance, noise=noise)


def bound_with_noise(n: int, batch_size: int, *, steps: Sequence[float], distance: float, noise: float) -> float:
    """(b D^2/(2n) + sum eta^3 noise) / H_K. Steps must be within the limit."""
    return (_travel(n, batch_size, distance) + noise * _powers(steps, 3)) / _powers(steps, 1)


def bound_lipschitz(n: int, batch_size: int, *, steps: Sequence[float], gbar: float, distance: float) -> float:
    """Theorem 3 (Lipschitz losses, any order and any steps): (b D^2/(2n) + sum 2 eta^2 n Gbar / beta) / H_K."""
    noise = 2.0 * n * gbar / beta(n, batch_size)
    return (_travel(n, batch_size, distance) + noise * _powers(steps, 2)) / _powers(steps, 1)


def _travel(n: int, batch_size: int, distance: float) -> float:
    return batch_size * distance**2 / (2.0 * n)


def _powers(steps: Sequence[float], power: int) -> float:
    return float(sum(float(step) ** power for step in steps))


# --- complexities


def evaluations_smooth(eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, distance: float, sigma: float) -> float:
    """Gradient evaluations nK that bring E[gap] to eps in a random order, with the step `step_smooth` (Theorem 1)."""
    noise = noise_smooth(n, batch_size, ltil=ltil, sigma=sigma)
    return max(evaluations_with_noise(eps, n, batch_size, lhat=lhat, ltil=ltil, distance=distance, noise=noise))


def evaluations_ig(
    eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, distance: float, sigma: float, dual_norm: float
) -> float:
    """Gradient evaluations nK that bring the gap to eps in a given order, with the step `step_ig` (Theorem 2)."""
    noise = noise_ig(n, batch_size, lhat=lhat, ltil=ltil, sigma=sigma, dual_norm=dual_norm)
    return sum(evaluations_with_noise(eps, n, batch_size, lhat=lhat, ltil=ltil, distance=distance, noise=noise))


def evaluations_lipschitz(eps: float, n: int, batch_size: int, *, gbar: float, distance: float) -> float:
    """Gradient evaluations nK that bring E[gap] to eps, with the step `step_lipschitz` (Theorem 3)."""
    return 4.0 * n * batch_size / beta(n, batch_size) * gbar * distance**2 / eps**2


def evaluations_with_noise(
    eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, distance: float, noise: float
) -> tuple[float, float]:
    """For small and for large K: each part of the bound is then at most eps/2."""
    few = n * batch_size / beta(n, batch_size) * sqrt(2.0 * lhat * ltil) * distance**2 / eps
    return few, 2.0**1.5 * batch_size * sqrt(2.0 * noise) * distance**2 / eps**1.5


def epochs_for(eps: float, n: int, batch_size: int, *, order: str = "rr", **numbers: float) -> int:
    """Epochs until the guarantee reaches eps: with gbar for Lipschitz losses, else with lhat and ltil; `order` "ig" also takes
    dual_norm. The other numbers are those of the bounds.
    """
    if eps <= 0.0:
        raise ValueError(f"eps={eps!r} must be positive")
    if "gbar" in numbers:
        evaluations = evaluations_lipschitz(eps, n, batch_size, **numbers)
    elif order == "ig":
        evaluations = evaluations_ig(eps, n, batch_size, **numbers)
    else:
        evaluations = evaluations_smooth(eps, n, batch_size, **numbers)
    return max(1, ceil(evaluations / n))


def tightest_smooth(
    eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, distance: float, sigma: float
) -> tuple[int, float]:
    """The fewest epochs for which some constant step makes the bound of Theorem 1 at most eps, and that step.

    `evaluations_smooth` is the paper's closed form; it asks each part of the bound to be eps/2, and so for two to three times more.
    """
    noise = noise_smooth(n, batch_size, ltil=ltil, sigma=sigma)
    return tightest_with_noise(eps, n, batch_size, lhat=lhat, ltil=ltil, distance=distance, noise=noise)


def tightest_ig(
    eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, distance: float, sigma: float, dual_norm: float
) -> tuple[int, float]:
    """The same for Theorem 2."""
    noise = noise_ig(n, batch_size, lhat=lhat, ltil=ltil, sigma=sigma, dual_norm=dual_norm)
    return tightest_with_noise(eps, n, batch_size, lhat=lhat, ltil=ltil, distance=distance, noise=noise)


def tightest_with_noise(
    eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, distance: float, noise: float
) -> tuple[int, float]:
    """The least K for which b D^2/(2 n step K) + step^2 noise <= eps at the best step up to the limit, and that step.

    At the least K the two meet: eps is reached with step^2 noise <= eps/3, since the best step makes noise half of the rest.
    """
    travel, limit = _travel(n, batch_size, distance), step_size_limit(n, batch_size, lhat, ltil)
    if travel == 0.0:
        return 1, limit
    step = min(limit, sqrt(eps / (3.0 * noise)) if noise > 0.0 else inf)
    return max(1, ceil(travel / (step * (eps - step**2 * noise)))), step


@dataclass(frozen=True)
class PriorResult:
    """A row of earlier work, as an order of magnitude: the constants inside O(.) are not known and taken as one here."""

    work: str  #: authors and year
    order: str  #: "rr" or "ig"
    evaluations: float  #: gradient evaluations to eps
    formula: str
    note: str = "order only"  #: what the result assumes


def prior_work(
    eps: float, n: int, *, distance: float, sigma: float | None = None, L: float | None = None, G: float | None = None
) -> list[PriorResult]:
    """What earlier theory says of gradient evaluations, at batch size 1: with L and sigma for smooth losses, with G otherwise."""
    D2 = distance**2
    if G is not None:
        note = "order only; K = 1, n of order 1/eps^2, bounded iterates"
        return [PriorResult("Shamir 2016", "rr", D2 * G**2 / eps**2, "B^2 G^2 / eps^2", note)]
    if L is None or sigma is None:
        raise ValueError("prior_work needs L and sigma for smooth losses, or G for Lipschitz ones")
    first, rest = n * L * D2 / eps, sigma * D2 / eps**1.5
    return [
        PriorResult(
            "Mishchenko 2020, Nguyen 2021, Cha 2023",
            "rr",
            first + sqrt(n * L) * rest,
            "n L D^2 / eps + sqrt(n L) sigma D^2 / eps^{3/2}",
        ),
        PriorResult("Mishchenko 2020", "ig", first + n * sqrt(L) * rest, "n L D^2 / eps + n sqrt(L) sigma D^2 / eps^{3/2}"),
        PriorResult("Cha 2023, lower bound", "rr", sqrt(n * L) * rest, "sqrt(n L) sigma D^2 / eps^{3/2}", "order only; large K"),
    ]


def prior_bound(n: int, *, epochs: int, L: float, distance: float, sigma: float, order: str = "rr") -> float:
    """The gap that earlier theory promises after K epochs at batch size 1 and its step 1/(nL), as an order of magnitude: the
    analogue of `bound_smooth` and `bound_ig` with L in place of Lhat and Ltil and the step that L allows.
    """
    step = 1.0 / (n * L)
    noise = L * sigma**2 * (n / 6.0 if order != "ig" else float(n) ** 2)
    return distance**2 / (2.0 * n * step * epochs) + step**2 * noise
