"""What the paper says in sentences, as functions of numbers: where one regime ends and the next begins, what is gained in each, and
how fast a ratio grows. n samples, batch size b; `lhat`, `ltil`, `distance` and `sigma` are as in `reshuffle.theory`.
"""

from math import inf, log, sqrt

from reshuffle.theory import beta, noise_smooth, step_size_limit, variance_factor


def eps_between_regimes(n: int, batch_size: int, *, lhat: float, sigma: float) -> float:
    """The eps at which the two parts of Theorem 1's complexity are equal: 8 beta^2 V sigma^2 / (n^2 Lhat).

    Above it the first part counts, 1/eps, and Lhat with it; below it the second, 1/eps^{3/2}. Where b divides n this is
    (4/3) (n-b)(n+b) sigma^2 / (n^2 (n-1) Lhat), which the paper states as an order (after Theorem 1).
    """
    return 8.0 * beta(n, batch_size) ** 2 * variance_factor(n, batch_size) * sigma**2 / (n**2 * lhat)


def epochs_between_regimes(n: int, batch_size: int, *, lhat: float, ltil: float, distance: float, sigma: float) -> float:
    """The K at which the step of Theorem 1 leaves its limit: "small K" below, "large K" above; infinite without noise.

    With b = 1 and Lhat = Ltil = L it is 6 sqrt(2) n^2/(n+1) L^2 D^2 / sigma^2, the order L^2 D^2 n / sigma^2 of the introduction.
    """
    noise = noise_smooth(n, batch_size, ltil=ltil, sigma=sigma)
    limit = step_size_limit(n, batch_size, lhat, ltil)
    return batch_size * distance**2 / (2.0 * n * noise * limit**3) if noise > 0.0 else inf


def gain_of_few_epochs(*, L: float, lhat: float, ltil: float) -> float:
    """L / sqrt(Lhat Ltil): by how much the first part of the complexity is smaller than n L D^2 / eps. sqrt(L/Lhat) at b = 1."""
    return L / sqrt(lhat * ltil)


def gain_of_many_epochs(n: int, batch_size: int, *, L: float, ltil: float) -> float:
    """sqrt(n(n-1) / ((n-b)(n+b)) L/Ltil), the gain of batches in the second part (after Theorem 1); infinite at b = n, where
    that part is zero.
    """
    left = (n - batch_size) * (n + batch_size)
    return sqrt(n * (n - 1) / left * L / ltil) if left > 0 else inf


def exponent(ratio: float, n: int) -> float:
    """log_n of a ratio: the paper's L/Lhat is n^0.15 to n^0.96 on its datasets, its L/Ltil at b = sqrt(n) about n^0.4."""
    return log(ratio) / log(n) if n > 1 else 0.0
