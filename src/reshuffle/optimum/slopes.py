"""Where the slope of a loss passes a value, asked of the loss's own derivative: it never falls, so halving finds the place."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reshuffle.losses import Loss, loops
from reshuffle.losses.base import compiled_over
from reshuffle.vectors import Vector

Booleans = NDArray[np.bool_]


def slopes_for(loss: Loss, labels: Vector) -> Callable[[Vector], Vector]:
    """z -> l'(z_i, y_i) of these labels."""
    derivative: Any = compiled_over(loss, "derivative")

    def slopes(z: Vector) -> Vector:
        out = np.empty(labels.size)
        loops.apply_loss(derivative, z, labels, loss.parameter, out)
        return out

    return slopes


def where_begins(holds: Callable[[Vector], Booleans], center: Vector) -> Vector:
    """The place from which on `holds` is true, entry by entry; -inf where it is so everywhere, inf where it never is."""
    low, high = center - 1.0, center + 1.0
    for k in range(1, 40):  # farther than 4^39 = 3e23 is infinitely far
        early, never = holds(low), ~holds(high)
        if not (early.any() or never.any()):
            break
        low, high = np.where(early, center - 4.0**k, low), np.where(never, center + 4.0**k, high)
    ends = np.where(holds(low), -np.inf, np.where(holds(high), np.nan, np.inf))
    for _ in range(140):  # 2^79 for the distance, the rest for the digits
        middle = low + 0.5 * (high - low)
        if bool(np.all((middle <= low) | (middle >= high))):
            break
        true = holds(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return np.where(np.isnan(ends), high, ends)
