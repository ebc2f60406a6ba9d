"""What every batch size reaches with every step: the gap after a few epochs in random orders, on a grid around the best of each
batch size. As many epochs as the work allows; where it does not allow one, a sample of the rows, with the minimum of that sample.
"""

from dataclasses import dataclass
from math import isfinite, log2

from reshuffle.advising import Advice, gain_of, sample_of
from reshuffle.optimum import Optimum, measure
from reshuffle.problem import Problem
from reshuffle.solver.race import EPOCHS, WORK, Entrant, Race, batch_grid, cost

_STRIDE = 4  # notches: steps by factors of 4
_BELOW, _ABOVE = 2, 2  # strides beyond the smallest and the largest of the best steps


@dataclass(frozen=True)
class Landscape:
    epochs: int
    rows: int  #: that the runs saw
    batch_sizes: tuple[int, ...]
    steps: tuple[float, ...]
    gaps: tuple[tuple[float | None, ...], ...]  #: over what there is to gain, by batch size, then step; None where it diverged


def landscape(problem: Problem, optimum: Optimum, advice: Advice) -> Landscape:
    best = advice.in_random_order
    notches = [round(2 * log2(s.step_size)) for s in advice.settings if s.order == "rr" and isfinite(s.gap)]
    middle = round(2 * log2(best.step_size))  # which is on the grid
    low = -(-(middle - min(notches)) // _STRIDE) + _BELOW
    high = -(-(max(notches) - middle) // _STRIDE) + _ABOVE
    steps = [middle + _STRIDE * k for k in range(-low, high + 1)]
    sizes = batch_grid(problem.n)
    affordable = WORK / (len(sizes) * len(steps) * cost(problem))
    gain = advice.gain
    if affordable < 1.0:
        rows = max(2, int(affordable * problem.n))
        problem = sample_of(problem, rows, advice.seed)
        optimum = measure(problem)
        gain, sizes = gain_of(problem, optimum), [b for b in sizes if b <= rows]
    epochs = max(rung for rung in EPOCHS if rung <= max(1.0, min(affordable, advice.epochs)))
    track, grid = Race(problem, optimum.f, advice.seed), [[Entrant("rr", b, notch) for notch in steps] for b in sizes]
    track.measure([entrant for row in grid for entrant in row], epochs, 1)
    gaps = [[track.gap(entrant, epochs, 1) / gain for entrant in row] for row in grid]
    return Landscape(
        epochs=epochs,
        rows=problem.n,
        batch_sizes=tuple(sizes),
        steps=tuple(entrant.step for entrant in grid[0]),
        gaps=tuple(tuple(gap if isfinite(gap) else None for gap in row) for row in gaps),
    )
