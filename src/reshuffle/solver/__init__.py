"""Algorithms 1 and 2 of the paper: compiled epochs, the loop around them, steps, averages and history."""

from reshuffle.epoch import Epoch
from reshuffle.solver.algorithm import minimize
from reshuffle.solver.general import minimize_sum
from reshuffle.solver.guarantee import Guarantee
from reshuffle.solver.run import DivergenceError, Run

__all__ = ["DivergenceError", "Epoch", "Guarantee", "Run", "minimize", "minimize_sum"]
