"""Figures 1 to 3: growth of L/Lhat on Gaussian data, of L/Ltil with the batch size, and the spread of L/Lhat over permutations.

Exponents: figure 1 fits c x^alpha by least squares on the ratio itself. In figure 2 the ratio is one at b = 1 by definition, and
alpha is its growth from there to b = n, the line b^alpha through both ends; this is what gives the paper's 0.74 to 0.87.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import curve_fit

from reshuffle import plots
from reshuffle.experiments import paper, table2
from reshuffle.experiments.measurements import Matrix, Results, Task, gaussian

Vector = NDArray[np.float64]

FIXED = 500
SIZES = [1, 10, 25, *range(50, 1001, 50)]
GENERATED = 3
SAMPLES = (100, 500, 1000, 2000)
PERMUTATIONS = 100
_FIT = {"color": "black", "linestyle": "--", "linewidth": 1}


def _figure1_task(fixed: str, size: int, number: int) -> Task:
    n, d = (FIXED, size) if fixed == "n" else (size, FIXED)
    return Task(gaussian(n, d, number), permutations=PERMUTATIONS)


def figure1_tasks() -> list[Task]:
    return [_figure1_task(fixed, size, k) for fixed in ("n", "d") for size in SIZES for k in range(GENERATED)]


def figure1(results: Results, folder: Path) -> tuple[list[Path], list[str]]:
    figure, axes = plots.subplots(1, 2)
    said = []
    x = np.array(SIZES, dtype=float)
    for axis, (fixed, varied) in zip(axes[0], (("n", "d"), ("d", "n")), strict=True):
        means = []
        for number in range(GENERATED):
            runs = [results[_figure1_task(fixed, size, number).key] for size in SIZES]
            ratios = [c.L / c.lhat for c in runs]
            means.append(_mean_and_std(axis, x, ratios, color=plots.COLOURS[number], label=f"dataset {number + 1}"))
        average = np.mean(means, axis=0)
        (scale, exponent), _ = curve_fit(lambda t, c, a: c * t**a, x, average, p0=(average[-1] / np.sqrt(x[-1]), 0.5))
        axis.plot(x, scale * x**exponent, **_FIT, label=f"fit {scale:.3g}·{varied}^{exponent:.2f}")
        axis.set(xlabel=varied, ylabel="L / L̂", title=f"{fixed} = {FIXED}")
        axis.legend()
        reported = paper.FIGURE_1_EXPONENTS[fixed]
        said.append(f"figure1: {fixed} = {FIXED}: L/Lhat grows as {varied}^{exponent:.2f} (paper: about {reported})")
    return plots.save(figure, folder, "figure1"), said


def _batch_grid(n: int) -> list[int]:
    return sorted({round(b) for b in np.geomspace(1, n, 13)})


def figure2_tasks() -> list[Task]:
    return [Task(gaussian(n, FIXED, 0), b, permutations=PERMUTATIONS) for n in SAMPLES for b in _batch_grid(n)]


def figure2(results: Results, folder: Path) -> tuple[list[Path], list[str]]:
    figure, axes = plots.subplots(2, 2)
    said = []
    for axis, n in zip(axes.ravel(), SAMPLES, strict=True):
        b = np.array(_batch_grid(n), dtype=float)
        runs = [results[Task(gaussian(n, FIXED, 0), int(size)).key] for size in b]
        ratios, colour = [c.L / c.ltil for c in runs], plots.COLOURS[0]
        mean = _mean_and_std(axis, b, ratios, color=colour, marker="o", markersize=3, linewidth=1, label="mean and std")
        exponent = float(np.log(mean[-1]) / np.log(n))
        axis.plot(b, b**exponent, **_FIT, label=f"b^{exponent:.2f}")
        axis.set(xlabel="batch size b", ylabel="L / L̃", title=f"n = {n}, d = {FIXED}", xscale="log", yscale="log")
        axis.legend()
        low, high = paper.FIGURE_2_EXPONENTS
        said.append(f"figure2: n = {n}: L/Ltil grows as b^{exponent:.3f} (paper: {low} to {high})")
    return plots.save(figure, folder, "figure2"), said


def figure3_tasks(data: Path | None, permutations: int) -> list[Task]:
    return [Task(Matrix(name), permutations=permutations) for name in table2.present(data)]


def figure3(results: Results, folder: Path, data: Path | None) -> tuple[list[Path], list[str]]:
    runs = {name: results[Task(Matrix(name)).key] for name in table2.present(data) if Task(Matrix(name)).key in results}
    if not runs:
        raise ValueError("no dataset of the paper is present; get one with: reshuffle datasets fetch NAME")
    rows = -(-len(runs) // 3)
    figure, axes = plots.subplots(rows, min(3, len(runs)), width=2.4, height=1.9)
    for axis in axes.ravel()[len(runs) :]:
        axis.set_axis_off()
    for axis, (name, c) in zip(axes.ravel(), runs.items(), strict=False):
        ratios = c.L / c.lhat
        axis.hist(ratios, bins=min(40, max(5, c.permutations // 20)), density=True, color=plots.COLOURS[0], alpha=0.8)
        axis.axvline(c.l_over_lhat, color=plots.COLOURS[1], linestyle="--", linewidth=1)
        axis.set(title=f"{name} ({c.permutations} permutations)", xlabel="L / L̂", ylabel="density")
    said = [f"figure3: {len(runs)} datasets; the dashed line is L over the mean of Lhat"]
    return plots.save(figure, folder, "figure3"), said


def _mean_and_std(axis: Any, x: Vector, samples: list[Any], color: str, **line: Any) -> Vector:
    """Draw the mean of the samples at each x, with a band of one standard deviation around it, and return it."""
    mean = np.array([np.mean(s) for s in samples])
    std = np.array([np.std(s, ddof=1) if len(s) > 1 else 0.0 for s in samples])
    axis.plot(x, mean, color=color, **line)
    axis.fill_between(x, mean - std, mean + std, color=color, alpha=0.2, linewidth=0)
    return mean
