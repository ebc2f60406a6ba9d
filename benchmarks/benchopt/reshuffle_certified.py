"""The certified solver for benchopt's benchmark of l2 regularised logistic regression: copy this file into its `solvers` folder.

Its objective is sum_i ln(1 + exp(-y_i (a_i'beta + c))) + (lmbd/2)|beta|^2, n times ours with alpha = lmbd / n.
"""

from typing import Any

import numpy as np

import reshuffle as rs
from benchopt import BaseSolver
from reshuffle.solver.certified import solve


class Solver(BaseSolver):  # type: ignore[misc]
    name = "reshuffle"
    requirements = ("pip::reshuffle",)
    references = ("Cai, Lin and Diakonikolas, 'Empirical Risk Minimization with Shuffled SGD: A Primal-Dual Perspective', 2023",)
    # a curve of certified tolerances: the solver chooses its own passes
    sampling_strategy = "tolerance"

    def set_objective(self, X: Any, y: Any, lmbd: float, fit_intercept: bool = False) -> None:
        self.problem = rs.Problem(X, y, loss="logistic", alpha=lmbd / X.shape[0], fit_intercept=fit_intercept)
        self.run(0.5)  # compiled code is loaded before the clock starts

    def run(self, tolerance: float) -> None:
        """From nothing to a certified relative gap; benchopt begins with an infinite tolerance."""
        self.beta = np.zeros(self.problem.dimension)
        if tolerance < 1.0:
            self.beta = solve(self.problem, tol=max(tolerance, 1e-15)).x

    def get_result(self) -> dict[str, Any]:
        return {"beta": self.beta}
