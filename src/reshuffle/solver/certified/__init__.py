"""The certified solver: SDCA in reshuffled order and subsampled Newton steps, stopped by a duality gap, without a step size."""

from reshuffle.solver.certified.alphas import SolutionPath, alpha_max, path
from reshuffle.solver.certified.multinomial import solve_multinomial
from reshuffle.solver.certified.progress import Baseline, Solution
from reshuffle.solver.certified.solve import baseline, solve

__all__ = ["Baseline", "Solution", "SolutionPath", "alpha_max", "baseline", "path", "solve", "solve_multinomial"]
