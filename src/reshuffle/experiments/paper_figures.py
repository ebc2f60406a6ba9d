"""Figures 1 to 3: growth of L/Lhat on Gaussian data, of L/Ltil with the batch size, and the spread of L/Lhat over permutations.

Exponents: figure 1 fits c x^alpha by least squares on the ratio itself, figure 2 c b^alpha by least squares on the logarithms.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import curve_fit

from reshuffle import plots
from reshuffle.experiments import paper
from reshuffle.experiments.claims import exponent
from reshuffle.experiments.measurements import Matrix, Results, Task, gaussian
from reshuffle.vectors import Vector

FIXED = 500
SIZES = [1, 10, 25, *range(50, 1001, 50)]
GENERATED = 3
SAMPLES = (100, 500, 1000, 2000)
PERMUTATIONS = 100
_FIT = {"color": "black", "linestyle": "--", "linewidth": 0.8}


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
        (scale, alpha), _ = curve_fit(lambda t, c, a: c * t**a, x, average, p0=(average[-1] / np.sqrt(x[-1]), 0.5))
        reported = paper.FIGURE_1_EXPONENTS[fixed]
        fit = rf"fit ${scale:.3g}\,{varied}^{{{alpha:.2f}}}$ (paper: about {reported})"
        axis.plot(x, scale * x**alpha, **_FIT, label=fit)
        axis.set(xlabel=f"${varied}$", ylabel=r"$L / \hat{L}_\pi$", title=f"${fixed} = {FIXED}$", xlim=(0, x[-1]), ylim=(0, None))
        axis.legend()
        said.append(f"figure1: {fixed} = {FIXED}: L/Lhat grows as {varied}^{alpha:.2f} (paper: about {reported})")
    return plots.save(figure, folder, "figure1"), said


def _batch_grid(n: int) -> list[int]:
    """From 1 to n, with √n in the middle."""
    return sorted({round(b) for b in np.geomspace(1, n, 13)})


def figure2_tasks() -> list[Task]:
    return [Task(gaussian(n, FIXED, 0), b, permutations=PERMUTATIONS) for n in SAMPLES for b in _batch_grid(n)]


def figure2(results: Results, folder: Path) -> tuple[list[Path], list[str]]:
    figure, axes = plots.subplots(4, 2, height=1.7, height_ratios=[3, 1, 3, 1])
    said = []
    low, high = paper.FIGURE_2_EXPONENTS
    for k, n in enumerate(SAMPLES):
        axis, strip = axes[k // 2 * 2 : k // 2 * 2 + 2, k % 2]
        b = np.array(_batch_grid(n), dtype=float)
        runs = [results[Task(gaussian(n, FIXED, 0), int(size)).key] for size in b]
        ratios, dots = [c.L / c.ltil for c in runs], {"color": plots.COLOURS[0], "linestyle": ":"}
        mean = _mean_and_std(axis, b, ratios, label=r"mean $\pm$ std", **dots)
        alpha, offset = np.polyfit(np.log(b), np.log(mean), 1)
        fit = rf"fit ${np.exp(offset):.2f}\,b^{{{alpha:.2f}}}$ (paper: $b^{{\alpha}}$, $\alpha \in [{low}, {high}]$)"
        axis.plot(b, np.exp(offset) * b**alpha, **_FIT, label=fit)
        axis.set(ylabel=r"$L / \tilde{L}_\pi$", title=f"$n = {n}$, $d = {FIXED}$", xscale="log", yscale="log")
        axis.tick_params(labelbottom=False)
        axis.legend(loc="upper left")
        _mean_and_std(strip, b, [r / m for r, m in zip(ratios, mean, strict=True)], **dots)  # a band of 2 % cannot be seen above
        strip.set(xlabel="$b$", ylabel=r"$\div$ mean", xscale="log", ylim=(0.95, 1.05))
        middle = int(np.argmin(np.abs(b - np.sqrt(n))))
        at_root = exponent(float(mean[middle]), n)
        said.append(
            f"figure2: n = {n}: L/Ltil grows as b^{alpha:.3f} (paper: {low} to {high}); n^{at_root:.2f} at b = √n (paper: n^0.4)"
        )
    return plots.save(figure, folder, "figure2"), said


def figure3_tasks(matrices: Iterable[Matrix], permutations: int) -> list[Task]:
    return [Task(matrix, permutations=permutations) for matrix in matrices]


def figure3(results: Results, folder: Path, matrices: Iterable[Matrix]) -> tuple[list[Path], list[str]]:
    runs = {matrix.name: results[Task(matrix).key] for matrix in matrices if Task(matrix).key in results}
    if not runs:
        raise ValueError(
            "no dataset of the paper is present; name files of your own, or get one with: reshuffle datasets fetch NAME"
        )
    rows = -(-len(runs) // 3)
    figure, axes = plots.subplots(rows, min(3, len(runs)), width=2.4, height=1.9)
    for axis in axes.ravel()[len(runs) :]:
        axis.set_axis_off()
    for axis, (name, c) in zip(axes.ravel(), runs.items(), strict=False):
        bins = min(40, max(5, c.permutations // 20))
        axis.hist(c.L / c.lhat, bins=bins, density=True, color=plots.COLOURS[0], alpha=0.8)
        axis.axvline(c.l_over_lhat, color=plots.COLOURS[1], linestyle="--", linewidth=1)
        axis.set(title=name, xlabel=r"$L / \hat{L}_\pi$", ylabel="density")
    said = [f"figure3: {len(runs)} datasets; the dashed line is L over the mean of Lhat"]
    return plots.save(figure, folder, "figure3"), said


def _mean_and_std(axis: Any, x: Vector, samples: list[Any], color: str, **line: Any) -> Vector:
    """Draw the mean of the samples at each x, with a band of one standard deviation around it, and return it."""
    mean = np.array([np.mean(s) for s in samples])
    std = np.array([np.std(s, ddof=1) if len(s) > 1 else 0.0 for s in samples])
    axis.plot(x, mean, color=color, linewidth=0.8, **line)
    axis.fill_between(x, mean - std, mean + std, color=color, alpha=0.35, linewidth=0)
    return mean
