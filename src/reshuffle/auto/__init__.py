"""Minimise f without a step size, and know how well: reshuffled passes until a certified gap is small enough."""

from reshuffle.auto.progress import Solution, relative_gap
from reshuffle.auto.pursuit import best_constant, solve

__all__ = ["Solution", "best_constant", "relative_gap", "solve"]
