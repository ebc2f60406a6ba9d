"""Constants of the data: rows -> products with their ordered Gram matrix -> top eigenvalue -> sampling over permutations."""

from reshuffle.spectral.permutations import Sample
from reshuffle.spectral.quick import QuickConstants, quick_constants
from reshuffle.spectral.result import Constants, LipschitzConstants, SmoothConstants
from reshuffle.spectral.sampling import AccuracyWarning, as_lipschitz, constants, constants_by_batch_size

__all__ = [
    "AccuracyWarning",
    "Constants",
    "LipschitzConstants",
    "QuickConstants",
    "Sample",
    "SmoothConstants",
    "as_lipschitz",
    "constants",
    "constants_by_batch_size",
    "quick_constants",
]
