"""The theorems as functions of numbers. n samples, batch size b, m = ceil(n / b) batches, the last of which may be short."""

from math import ceil, pi, sin, sqrt


def batches(n: int, batch_size: int) -> int:
    """m, the number of batches in an epoch."""
    return ceil(n / batch_size)


def beta(n: int, batch_size: int) -> float:
    """sqrt(b n / m): b itself where b divides n, and what takes its place where the last batch is short."""
    return sqrt(batch_size * n / batches(n, batch_size))


def step_size_limit(n: int, batch_size: int, lhat: float, ltil: float) -> float:
    """The largest step that Theorems 1 and 2 allow (smooth losses): beta / (n sqrt(2 Lhat Ltil))."""
    product = lhat * ltil
    return beta(n, batch_size) / (n * sqrt(2.0 * product)) if product > 0.0 else float("inf")


def lipschitz_step_factor(n: int, batch_size: int, gbar: float) -> float:
    """What D / sqrt(K) is multiplied by in the best constant step for K epochs (Theorem 3): sqrt(b beta) / (2 n sqrt(Gbar))."""
    return sqrt(batch_size * beta(n, batch_size)) / (2.0 * n * sqrt(gbar)) if gbar > 0.0 else float("inf")


def ordered_norm_ratio(m: int) -> float:
    """||[min(i, j)]||_2 / m^2 for i, j = 1..m: 1 at m = 1, falling to 4/pi^2.

    For a random order of data with one dominant direction, Lhat is close to this times (1/n)||Λ^{1/2}A||^2.
    """
    return 1.0 / (4.0 * m**2 * sin(pi / (4 * m + 2)) ** 2)
