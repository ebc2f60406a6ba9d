"""What every loss has: its theory, and functions of one sample that get compiled, as they are and as loops over many."""

import sys
from dataclasses import dataclass, fields
from functools import cache, cached_property
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal

Task = Literal["classification", "regression", "any"]


@dataclass(frozen=True)
class Loss:
    """l(z, y) of a margin or prediction z = a'x and a label y (-1 or +1 in classification), convex in z.

    `value`, `derivative` and `conjugate` are plain Python on numbers, with `math` and no more; they are compiled when first
    used. Their last argument is the loss's parameter, if it has one. `curvature` and `prox` make training faster, no more: both
    are worked out from the derivative where they are missing.
    """

    name: ClassVar[str]
    task: ClassVar[Task]

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        """l(z, y)."""
        raise NotImplementedError

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        """l'(z, y), the dual map; at a kink, one fixed subgradient."""
        raise NotImplementedError

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        """sup_z u z - l(z, y) for u in the dual domain."""
        raise NotImplementedError

    @staticmethod
    def curvature(z: float, y: float, parameter: float) -> float:
        """l''(z, y) of a smooth loss. A loss without one gets the slope of its derivative over a short distance."""
        raise NotImplementedError

    @staticmethod
    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        """The z that minimises step l(z, y) + (z - p)^2 / 2. A search may begin at `near`, and end with three digits where that was
        far off: it will be asked again from nearer. A loss without a prox gets a search that asks its derivative.
        """
        raise NotImplementedError

    @property
    def smoothness(self) -> float | None:
        """L: the Lipschitz constant of l'(., y), or None where l has a kink."""
        return None

    @property
    def lipschitz(self) -> float | None:
        """G: the Lipschitz constant of l(., y), or None where it has none."""
        return None

    @property
    def dual_domain(self) -> tuple[float, float]:
        """Where the conjugate is finite: bounds of u in regression, of u y in classification."""
        return (-inf, inf)

    @cached_property
    def parameter(self) -> float:
        """The loss's parameter, which is its only field; 0 where it has none."""
        own = fields(self)
        return float(getattr(self, own[0].name)) if own else 0.0

    def __str__(self) -> str:
        return f"{self.name}:{self.parameter:g}" if fields(self) else self.name

    def _require(self, parameter: str, holds: bool, remedy: str) -> None:
        if not holds:
            raise ValueError(f"{parameter}={getattr(self, parameter)!r} does not fit the {self.name} loss; {remedy}")


@dataclass(frozen=True)
class Unit(Loss):
    """Any 1-smooth loss: the constants of the data alone, as in the paper's table."""

    name: ClassVar[str] = "unit"
    task: ClassVar[Task] = "any"
    smoothness: ClassVar[float] = 1.0


def compiled(loss: Loss, function: str) -> int:
    """The address of a function of a loss, a C function that kernels call: one kernel serves every loss, and both are kept on disk
    between processes.
    """
    return int(_as_c_function(*_plain(loss, function)).address)


def compiled_over(loss: Loss, function: str) -> int:
    """The same of vectors, f(z, y, parameter, out): the loop is inside, where it knows the loss, and so runs in vectors."""
    return int(_over_vectors(*_plain(loss, function)).address)


def _plain(loss: Loss, function: str) -> tuple[Any, bool]:
    """The function in Python, and whether it can be found again in another process."""
    plain, own = getattr(loss, function), getattr(Loss, function)
    if plain is not own:
        asked = plain.__code__.co_varnames[: plain.__code__.co_argcount], own.__code__.co_varnames[: own.__code__.co_argcount]
        if len(asked[0]) != len(asked[1]):
            raise TypeError(
                f"{function} of the loss {loss.name!r} takes {', '.join(asked[0])}; it is called with {', '.join(asked[1])}"
            )
        return plain, plain.__module__ in sys.modules
    if function in _SUBSTITUTES:
        return _substitute(function, _as_c_function(*_plain(loss, "derivative"))), False
    raise TypeError(f"the loss {loss.name!r} must implement {function}(z, y, parameter)")


@cache
def _as_c_function(plain: Any, lasting: bool) -> Any:
    from numba import float64

    return _c_function(plain, float64(*[float64] * plain.__code__.co_argcount), lasting)


@cache
def _over_vectors(plain: Any, lasting: bool) -> Any:
    from numba import float64, void
    from numba.extending import register_jitable

    vector = float64[::1]
    loop = _loop(register_jitable(forceinline=True)(plain), _stamp())
    # Machine code of loops lies beside this file, and is told apart by the name of what they call: for losses from elsewhere, that
    # could be another one by the next time.
    return _c_function(loop, void(vector, vector, float64, vector), lasting and plain.__module__.startswith(__package__ + "."))


def _loop(plain: Any, stamp: int) -> Any:
    def over(z: Any, y: Any, parameter: float, out: Any) -> None:
        stamp  # noqa: B018 part of what numba finds machine code by
        for i in range(z.size):
            out[i] = plain(z[i], y[i], parameter)

    return over


@cache
def _stamp() -> int:
    """Changes whenever a file of this package does."""
    return max(file.stat().st_mtime_ns for file in Path(__file__).parent.glob("*.py"))


def _c_function(plain: Any, signature: Any, lasting: bool) -> Any:
    from numba import cfunc

    # A division by zero is infinite and no exception, which nobody could catch: to look for it keeps loops from running in vectors.
    options: dict[str, Any] = {"error_model": "numpy", "fastmath": {"contract"}}
    if lasting:
        try:
            return cfunc(signature, cache=True, **options)(plain)
        except RuntimeError:  # numba found no folder to cache in
            pass
    return cfunc(signature, **options)(plain)


@cache
def _substitute(function: str, derivative: Any) -> Any:
    return _SUBSTITUTES[function](derivative)


def _slope(derivative: Any) -> Any:
    def curvature(z: float, y: float, parameter: float) -> float:
        h = 1e-5 * (1.0 + abs(z))
        rise: float = derivative(z + h, y, parameter) - derivative(z - h, y, parameter)
        return max(rise / (2.0 * h), 0.0)

    return curvature


def _search(derivative: Any) -> Any:
    """z + step l'(z) rises in z, jumps at kinks, and passes p between p and p - step l'(p): halve that way till it is gone."""

    def prox(p: float, y: float, step: float, parameter: float, near: float) -> float:
        a, b = p, p - step * derivative(p, y, parameter)
        low: float = min(a, b)
        high: float = max(a, b)
        for _ in range(200):
            z = 0.5 * (low + high)
            if z <= low or z >= high:
                break
            if z + step * derivative(z, y, parameter) > p:
                high = z
            else:
                low = z
        return 0.5 * (low + high)

    return prox


_SUBSTITUTES = {"curvature": _slope, "prox": _search}
