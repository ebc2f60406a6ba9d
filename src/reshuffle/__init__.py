"""Shuffled SGD with its theory: constants of your data, the steps they allow, and the guarantee they give.

data -> Problem -> constants -> theory -> solver. Everything here loads on first use, so that importing the package stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from reshuffle import losses, models, orders, theory
    from reshuffle.data import Data, load
    from reshuffle.data.build import build_store
    from reshuffle.data.store import open
    from reshuffle.duality import duality_gap
    from reshuffle.estimators import (
        CertifiedClassifier,
        CertifiedClassifierCV,
        CertifiedRegressor,
        CertifiedRegressorCV,
        ShuffledSGDClassifier,
        ShuffledSGDClassifierCV,
        ShuffledSGDRegressor,
        ShuffledSGDRegressorCV,
    )
    from reshuffle.finite_sum import FiniteSum
    from reshuffle.optimum import NoMinimiserError
    from reshuffle.planning import Plan, plan
    from reshuffle.problem import Problem
    from reshuffle.reporting import Report, report
    from reshuffle.rows import Rows
    from reshuffle.scaling import Scaling, scale
    from reshuffle.solver.certified import SolutionPath, path
    from reshuffle.solver.guarantee import Guarantee
    from reshuffle.solver.run import DivergenceError, Run
    from reshuffle.solver.shuffled import minimize
    from reshuffle.solver.sums import minimize_sum
    from reshuffle.spectral import Constants, LipschitzConstants, QuickConstants, SmoothConstants, constants, quick_constants

_MODULES = ("losses", "models", "orders", "theory")
_HOMES = {
    "Data": "data",
    "load": "data",
    "build_store": "data.build",
    "open": "data.store",
    "CertifiedClassifier": "estimators",
    "CertifiedClassifierCV": "estimators",
    "CertifiedRegressor": "estimators",
    "CertifiedRegressorCV": "estimators",
    "ShuffledSGDClassifier": "estimators",
    "ShuffledSGDClassifierCV": "estimators",
    "ShuffledSGDRegressor": "estimators",
    "ShuffledSGDRegressorCV": "estimators",
    "FiniteSum": "finite_sum",
    "NoMinimiserError": "optimum",
    "Plan": "planning",
    "plan": "planning",
    "Problem": "problem",
    "Report": "reporting",
    "report": "reporting",
    "Rows": "rows",
    "DivergenceError": "solver.run",
    "Guarantee": "solver.guarantee",
    "SolutionPath": "solver.certified",
    "path": "solver.certified",
    "Run": "solver.run",
    "Scaling": "scaling",
    "scale": "scaling",
    "duality_gap": "duality",
    "minimize": "solver.shuffled",
    "minimize_sum": "solver.sums",
    "Constants": "spectral",
    "LipschitzConstants": "spectral",
    "SmoothConstants": "spectral",
    "constants": "spectral",
    "QuickConstants": "spectral",
    "quick_constants": "spectral",
}

__all__ = [
    "CertifiedClassifier",
    "CertifiedClassifierCV",
    "CertifiedRegressor",
    "CertifiedRegressorCV",
    "Constants",
    "Data",
    "DivergenceError",
    "FiniteSum",
    "Guarantee",
    "LipschitzConstants",
    "NoMinimiserError",
    "Plan",
    "Problem",
    "QuickConstants",
    "Report",
    "Rows",
    "Run",
    "Scaling",
    "ShuffledSGDClassifier",
    "ShuffledSGDClassifierCV",
    "ShuffledSGDRegressor",
    "ShuffledSGDRegressorCV",
    "SmoothConstants",
    "SolutionPath",
    "__version__",
    "build_store",
    "constants",
    "duality_gap",
    "load",
    "losses",
    "minimize",
    "minimize_sum",
    "models",
    "open",
    "orders",
    "path",
    "plan",
    "quick_constants",
    "report",
    "scale",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"reshuffle.{name}")
    if name in _HOMES:
        return getattr(import_module(f"reshuffle.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'reshuffle' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
