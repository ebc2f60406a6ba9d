"""The theory: `formulas` of numbers, `theorems` as objects that know what they assume, and the `catalogue` that chooses one.

Constants of the data (`reshuffle.constants`) and what `measure` finds of the optimum go in; steps, bounds and epochs come out.
"""

from typing import TYPE_CHECKING, Any

from reshuffle.theory.catalogue import *  # noqa: F403
from reshuffle.theory.facts import *  # noqa: F403
from reshuffle.theory.formulas import *  # noqa: F403
from reshuffle.theory.prior import *  # noqa: F403
from reshuffle.theory.theorems import *  # noqa: F403

if TYPE_CHECKING:
    from reshuffle.optimum import Optimum
    from reshuffle.problem import Problem


def measure(problem: "Problem", x0: Any = None) -> "Optimum":
    """Solve the problem to high accuracy and measure what the bounds need, from the starting point x0 (zero if not given).

    Smooth losses are solved by the certified solver where alpha > 0 and by L-BFGS elsewhere, then by Newton steps; losses made of
    straight pieces by a linear program. A loss with kinks together with alpha > 0 is refused, as no theorem covers it.
    """
    from reshuffle.optimum import measure as measured

    return measured(problem, x0)
