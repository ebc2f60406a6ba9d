"""Shuffled SGD with its theory: constants of your data, the steps they allow, and the guarantee they give.

data -> Problem -> constants -> theory -> solver. Everything here loads on first use, so that importing the package stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from reshuffle import losses, models, orders, theory
    from reshuffle.certificate import duality_gap
    from reshuffle.data import Data, load
    from reshuffle.estimators import ShuffledSGDClassifier, ShuffledSGDRegressor
    from reshuffle.planning import Plan, plan
    from reshuffle.problem import Problem
    from reshuffle.reporting import Report, report
    from reshuffle.solver import DivergenceError, Guarantee, Run, minimize, minimize_sum
    from reshuffle.spectral import Constants, LipschitzConstants, SmoothConstants, constants

_MODULES = ("losses", "models", "orders", "theory")
_HOMES = {
    "Data": "data",
    "load": "data",
    "ShuffledSGDClassifier": "estimators",
    "ShuffledSGDRegressor": "estimators",
    "Plan": "planning",
    "plan": "planning",
    "Problem": "problem",
    "Report": "reporting",
    "report": "reporting",
    "DivergenceError": "solver",
    "Guarantee": "solver",
    "Run": "solver",
    "duality_gap": "certificate",
    "minimize": "solver",
    "minimize_sum": "solver",
    "Constants": "spectral",
    "LipschitzConstants": "spectral",
    "SmoothConstants": "spectral",
    "constants": "spectral",
}

__all__ = [
    "Constants",
    "Data",
    "DivergenceError",
    "Guarantee",
    "LipschitzConstants",
    "Plan",
    "Problem",
    "Report",
    "Run",
    "ShuffledSGDClassifier",
    "ShuffledSGDRegressor",
    "SmoothConstants",
    "__version__",
    "constants",
    "duality_gap",
    "load",
    "losses",
    "minimize",
    "minimize_sum",
    "models",
    "orders",
    "plan",
    "report",
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
