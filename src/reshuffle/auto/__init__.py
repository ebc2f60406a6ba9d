"""Minimise f without a step size, and know how well: reshuffled passes until a certified gap is small enough."""

from reshuffle.auto.progress import Constant, Solution
from reshuffle.auto.pursuit import best_constant, solve

__all__ = ["Constant", "Solution", "best_constant", "solve"]
