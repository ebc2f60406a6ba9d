"""Draws docs/figures/convergence.png: what shuffled SGD reached, what this theory promised, and what earlier theory did.

python docs/figures/convergence.py
"""

from pathlib import Path

import matplotlib
import numpy as np

import reshuffle as rs
from reshuffle import theory

matplotlib.use("Agg")
import matplotlib.pyplot as plt

EPOCHS, SEEDS = 300, 5
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"  # told apart by colour-blind readers


def main() -> None:
    data = rs.load("breast_cancer")
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    problem = rs.Problem(X, data.y, loss="logistic", alpha=1e-2)
    optimum = theory.measure(problem)
    epochs = np.arange(1, EPOCHS + 1)
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True, layout="constrained")
    for axis, order, title in zip(axes, ("rr", "so", "ig"), ("random reshuffling", "shuffle once", "file order"), strict=True):
        c = rs.constants(problem, order=order, permutations=20)
        n, step, textbook = problem.n, c.step_size_limit, 1.0 / (problem.n * c.L)
        shared = {"distance": optimum.distance, "sigma": optimum.sigma}
        if order == "ig":
            constants = {"lhat": c.lhat_max, "ltil": c.ltil_max, "dual_norm": optimum.dual_norm}
            promised = [theory.bound_ig(n, 1, steps=[step] * k, **constants, **shared) for k in epochs]
        else:
            promised = [theory.bound_smooth(n, 1, steps=[step] * k, ltil=c.ltil_max, **shared) for k in epochs]
        prior = [theory.prior_bound(n, epochs=int(k), L=c.L, order=order, **shared) for k in epochs]
        for name, size, colour in (("measured, the step of this theory", step, BLUE), ("measured, step 1/(nL)", textbook, GREY)):
            runs = [rs.minimize(problem, order=order, step_size=size, epochs=EPOCHS, seed=s) for s in range(SEEDS)]
            reached = np.array([[entry.f for entry in run.history] for run in runs], dtype=float).mean(axis=0)
            axis.plot(epochs, reached - optimum.f, color=colour, label=name)
        axis.plot(epochs, promised, color=BLUE, linestyle="--", label="promised by this theory (Theorems 1 and 2)")
        axis.plot(epochs, prior, color=ORANGE, linestyle=":", label="promised by earlier theory (order of magnitude)")
        axis.set(title=f"{title}, step {step / textbook:.1f}/(nL)", xlabel="epochs", xscale="log", yscale="log")
        axis.title.set_fontsize(10)
        axis.grid(alpha=0.2)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    axes[0].set_ylabel("f(x̂) − min f")
    figure.suptitle("Shuffled SGD on breast_cancer (n = 569, logistic, alpha = 0.01, b = 1)", fontsize=10)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
