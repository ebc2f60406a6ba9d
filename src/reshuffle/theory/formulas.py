"""The theorems as functions of numbers.

n samples, batch size b, m = ceil(n / b) batches (the last may be short), steps eta_1..eta_K, H_K their sum, distance
D = |x_0 - x*|, sigma^2 = (1/n) sum_i |grad f_i(x*)|^2, dual_norm = |y*|_{Λ^-1}. Where b divides n the formulas are those of the
paper; beta(n, b) and variance_factor(n, b) carry them to a short last batch. Every bound is on the gap f(x_hat) - min f.

For smooth losses an epoch of step eta adds eta^3 noise to the bound. Theorems differ in the noise: the functions named `_smooth`
have that of a random order in the mean, those named `_ig` the paper's for a given one, and those named `_with_noise` take any, one
number for all epochs or one for each.

A general finite sum has Theorems 4 and 5: Theorems 1 and 2 with the constants of `reshuffle.constants(smoothness=...)`.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from math import cbrt, ceil, exp, expm1, frexp, inf, ldexp, log, log1p, pi, sin, sqrt

Noise = float | Sequence[float]  # the same in every epoch, or one for each

_LARGE = 700.0  # exp of more overflows
_THETA = 0.5  # the share of f - min f that pays for the gap; the rest pays for the contraction


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


def worst_discrepancy(n: int, batch_size: int, sigma: float) -> float:
    """(n-1) V sigma^2: the prefix discrepancy R_pi is at most this in every order, as |P_s|^2 <= s (n - s) sigma^2."""
    return (n - 1) * variance_factor(n, batch_size) * sigma**2


# --- constants that no order, or hardly any, exceeds


def likely_hat(full: float, largest: float, dimension: int, n: int, batch_size: int, failure: float) -> float:
    """What Lhat_pi of a random order exceeds with at most this probability: `ordered_norm_ratio` times full, plus what the Gram
    matrix of the first rows is off its share of the whole, over n, at any of the m - 1 places where batches part; by the matrix
    Bernstein bound (Tropp 2012; for sampling without replacement, Gross and Nesme 2010).
    """
    m = batches(n, batch_size)
    if m == 1:
        return full
    logarithm = log(2.0 * dimension * (m - 1) / failure)
    tail = largest * logarithm / (3.0 * n)
    return ordered_norm_ratio(m) * full + tail + sqrt(tail**2 + logarithm * largest * full / n)


def likely_til(full: float, largest: float, dimension: float, batch_size: int, failure: float) -> float:
    """What the constant (1/b)||Λ^{1/2}A_B||^2 of a random batch exceeds with at most this probability, by the matrix Chernoff bound
    (Tropp 2012; for sampling without replacement, Gross and Nesme 2010): (1 + u) full, where `dimension`, the intrinsic one of the
    rows, times (e^u / (1+u)^{1+u})^{b full / largest} is that probability.
    """
    asked = largest / (batch_size * full) * log(dimension / failure)
    low, high = 0.0, 1.0 + asked**0.5 + 2.0 * asked  # (1+u) ln(1+u) - u is at least asked there
    while high - low > 1e-6 * high:
        u = 0.5 * (low + high)
        low, high = (low, u) if (1.0 + u) * log1p(u) - u >= asked else (u, high)
    return float((1.0 + high) * full)


def root_of_product(a: float, b: float) -> float:
    """sqrt(a b), where the product may lie outside of what a number can hold."""
    (x, p), (y, q) = frexp(a), frexp(b)
    half, odd = divmod(p + q, 2)
    return ldexp(sqrt(ldexp(x * y, odd)), half)


# --- steps


def step_size_limit(n: int, batch_size: int, lhat: float, ltil: float) -> float:
    """The largest step that Theorems 1 and 2 allow (smooth losses): beta / (n sqrt(2 Lhat Ltil))."""
    root = root_of_product(2.0 * lhat, ltil)
    return beta(n, batch_size) / (n * root) if root > 0.0 else inf


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
    return step_below(n, batch_size, epochs=epochs, limit=limit, distance=distance, noise=noise)


def step_below(n: int, batch_size: int, *, epochs: int, limit: float, distance: float, noise: float) -> float:
    """The same for any limit."""
    return min(limit, cbrt(batch_size * distance**2 / (2.0 * n * epochs * noise))) if noise > 0.0 else limit


def lipschitz_step_factor(n: int, batch_size: int, gbar: float) -> float:
    """sqrt(b beta) / (2 n sqrt(Gbar)), to be multiplied by D / sqrt(K)."""
    return sqrt(batch_size * beta(n, batch_size)) / (2.0 * n * sqrt(gbar)) if gbar > 0.0 else inf


def step_lipschitz(n: int, batch_size: int, *, epochs: int, gbar: float, distance: float) -> float:
    """The best constant step for a budget of K epochs in any order (after Theorem 3)."""
    return lipschitz_step_factor(n, batch_size, gbar) * distance / sqrt(epochs) if distance > 0.0 else 0.0


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


def bound_with_noise(n: int, batch_size: int, *, steps: Sequence[float], distance: float, noise: Noise) -> float:
    """(b D^2/(2n) + sum eta^3 noise) / H_K. Steps must be within the limit."""
    return (_travel(n, batch_size, distance) + sum(_added(steps, noise))) / _powers(steps, 1)


def bound_lipschitz(n: int, batch_size: int, *, steps: Sequence[float], gbar: float, distance: float) -> float:
    """Theorem 3 (Lipschitz losses, any order and any steps): (b D^2/(2n) + sum 2 eta^2 n Gbar / beta) / H_K."""
    noise = 2.0 * n * gbar / beta(n, batch_size)
    return (_travel(n, batch_size, distance) + noise * _powers(steps, 2)) / _powers(steps, 1)


# --- strong convexity: f - (mu/2)|x|^2 is convex


def growth(n: int, batch_size: int, step: float, mu: float) -> float:
    """c = (1 - theta) n eta mu / b, theta = 1/2: in the weighted average an epoch has 1 + c times the weight of the one before."""
    return (1.0 - _THETA) * n * step * mu / batch_size


def bound_weighted(n: int, batch_size: int, *, steps: Sequence[float], mu: float, distance: float, noise: Noise) -> float:
    """For x_w = sum_k w_k eta_k x_k / sum_k w_k eta_k, where w_k is the product of 1 + c over the epochs before k:
    (b D^2/(2n) + sum w_k eta_k^3 noise_k) / (theta sum w_k eta_k) at theta = 1/2. Steps must be within the limit.
    """
    above, below, c = _travel(n, batch_size, distance), 0.0, 0.0
    for step, added in zip(steps, _added(steps, noise), strict=True):  # both sums over w_k, which may be astronomical
        above, below = above / (1.0 + c) + added, below / (1.0 + c) + step
        c = growth(n, batch_size, step, mu)
    return above / (_THETA * below)


def bound_last(
    n: int, batch_size: int, *, steps: Sequence[float], mu: float, distance: float, noise: Noise, full: float
) -> tuple[float, float]:
    """For the last iterate: bounds of f(x_K) - min f and of |x_K - x*|^2. `full` is the smoothness of f. Steps must be within the
    limit.

    With q = n eta mu / b, |x_k - x*|^2 <= (|x_{k-1} - x*|^2 + (2n/b) eta^3 noise) / (1 + q), and the gap after the last epoch is at
    most ((b/2n) |x_{K-1} - x*|^2 + eta^3 noise) / (eta + b / (n full)).
    """
    square, gap = distance**2, inf
    for step, added in zip(steps, _added(steps, noise), strict=True):
        spent = batch_size / (2.0 * n) * square + added
        gap, square = spent / (step + batch_size / (n * full)), 2.0 * spent / (batch_size / n + step * mu)
    return gap, square


def _travel(n: int, batch_size: int, distance: float) -> float:
    return batch_size * distance**2 / (2.0 * n)


def _powers(steps: Sequence[float], power: int) -> float:
    return float(sum(float(step) ** power for step in steps))


def _added(steps: Sequence[float], noise: Noise) -> Iterator[float]:
    """eta_k^3 noise_k of each epoch."""
    each = repeat(noise, len(steps)) if isinstance(noise, int | float) else noise
    return (step**3 * here for step, here in zip(steps, each, strict=True))


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
    """The least K for which b D^2/(2 n step K) + step^2 noise <= eps at the best step up to the limit, and that step."""
    limit = step_size_limit(n, batch_size, lhat, ltil)
    return tightest_below(eps, n, batch_size, limit=limit, distance=distance, noise=noise)


def tightest_below(eps: float, n: int, batch_size: int, *, limit: float, distance: float, noise: float) -> tuple[int, float]:
    """The same for any limit. At the least K the two parts meet: the best step makes noise half of the rest, so eps/3."""
    travel = _travel(n, batch_size, distance)
    if travel == 0.0:
        return 1, limit
    step = min(limit, sqrt(eps / (3.0 * noise)) if noise > 0.0 else inf)
    return max(1, ceil(travel / (step * (eps - step**2 * noise)))), step


def step_weighted(
    n: int, batch_size: int, *, epochs: int, lhat: float, ltil: float, mu: float, distance: float, noise: float
) -> float:
    """The constant step for a budget of K epochs that makes `bound_weighted` smallest, to 3 %."""
    travel = _travel(n, batch_size, distance)

    def bound(step: float) -> float:
        c = growth(n, batch_size, step, mu)
        return travel * c / (step * expm1(min(epochs * log1p(c), _LARGE))) + noise * step**2

    return min(steps_below(step_size_limit(n, batch_size, lhat, ltil)), key=bound)


def tightest_weighted(
    eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, mu: float, distance: float, noise: float
) -> tuple[int, float]:
    """The fewest epochs for which one of the constant steps tried makes `bound_weighted` at most eps, and that step."""
    travel = _travel(n, batch_size, distance)

    def epochs(step: float) -> float:
        c, rest = growth(n, batch_size, step, mu), _THETA * eps - step**2 * noise
        return log1p(c * travel / (step * rest)) / log1p(c) if rest > 0.0 else inf

    return _fewest(epochs, step_size_limit(n, batch_size, lhat, ltil))


def step_last(
    n: int, batch_size: int, *, epochs: int, lhat: float, ltil: float, mu: float, distance: float, noise: float, full: float
) -> float:
    """The constant step for a budget of K epochs that makes the gap of `bound_last` smallest, to 3 %."""

    def bound(step: float) -> float:
        q, floor = n * step * mu / batch_size, 2.0 * step**2 * noise / mu  # |x - x*|^2 falls to `floor`
        before = floor + (distance**2 - floor) * exp(-(epochs - 1) * log1p(q))
        return (batch_size / (2.0 * n) * before + step**3 * noise) / (step + batch_size / (n * full))

    return min(steps_below(step_size_limit(n, batch_size, lhat, ltil)), key=bound)


def tightest_last(
    eps: float, n: int, batch_size: int, *, lhat: float, ltil: float, mu: float, distance: float, noise: float, full: float
) -> tuple[int, float]:
    """The fewest epochs for which one of the constant steps tried makes the gap of `bound_last` at most eps, and that step."""

    def epochs(step: float) -> float:
        q, floor = n * step * mu / batch_size, 2.0 * step**2 * noise / mu
        near = 2.0 * n / batch_size * (eps * (step + batch_size / (n * full)) - step**3 * noise)  # from where one epoch is enough
        if near >= distance**2:
            return 1.0
        return 1.0 + log((distance**2 - floor) / (near - floor)) / log1p(q) if near > floor else inf

    return _fewest(epochs, step_size_limit(n, batch_size, lhat, ltil))


def _fewest(epochs: Callable[[float], float], limit: float) -> tuple[int, float]:
    needed, step = min((epochs(step), step) for step in steps_below(limit))
    while needed == inf and limit > _SHORTEST:  # eps is so small that all of these were too long
        limit = steps_below(limit)[-1]
        needed, step = min((epochs(step), step) for step in steps_below(limit))
    if needed == inf:
        raise ValueError("eps is so small that no number of epochs can be promised; use a larger one")
    return max(1, ceil(needed)), step


_SHORTEST = 1e-200  # a step whose square is a number still


def steps_below(limit: float) -> list[float]:
    """The limit, and steps down to 1e-9 of it, 3 % apart."""
    return [limit * 0.97**k for k in range(681)]
