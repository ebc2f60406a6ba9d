"""
A loss of your own
==================

A loss is a frozen dataclass with its theory and three plain functions of numbers, which get compiled.

log cosh is smooth like the squared loss near zero and grows like the absolute loss far away. Everything works with it: constants,
steps, shuffled SGD, the certificate.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import reshuffle as rs
from reshuffle.losses import Loss, Task


@dataclass(frozen=True)
class LogCosh(Loss):
    """ln cosh(z - y)"""

    name: ClassVar[str] = "log_cosh"
    task: ClassVar[Task] = "regression"

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def dual_domain(self) -> tuple[float, float]:
        return (-1.0, 1.0)

    @staticmethod
    def value(z: float, y: float, parameter: float) -> float:
        r = abs(z - y)
        return r + math.log1p(math.exp(-2.0 * r)) - math.log(2.0)

    @staticmethod
    def derivative(z: float, y: float, parameter: float) -> float:
        return math.tanh(z - y)

    @staticmethod
    def conjugate(u: float, y: float, parameter: float) -> float:
        # sup_r u r - ln cosh r, at r = artanh u, plus u y for the shift
        tails = 0.0
        for side in (1.0 + u, 1.0 - u):
            if side > 0.0:
                tails += 0.5 * side * math.log(side)
        return tails + u * y


def main() -> None:
    data = rs.load("diabetes")
    y = (data.y - data.y.mean()) / data.y.std()
    problem = rs.Problem(data.X / data.X.std(axis=0), y, loss=LogCosh(), alpha=1e-2, fit_intercept=True)
    print(rs.constants(problem, batch_size=8), end="\n\n")
    run = rs.minimize(problem, batch_size=8, epochs=200, evaluate_every=20)
    print(run)
    print(rs.Guarantee.of(problem, run, rs.theory.measure(problem)))


if __name__ == "__main__":
    main()
