"""Draws docs/figures/convergence.png: what shuffled SGD reached, what this theory promised, and what earlier theory did.

python docs/figures/convergence.py
"""

from pathlib import Path

import matplotlib
import numpy as np

import reshuffle as rs
from reshuffle import theory
from reshuffle.evidence import gather
from reshuffle.orders import make_order

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
        rule = make_order(order, problem.n, seed=0)
        c = rs.constants(problem, order=order, permutations=1)
        facts, theorems = gather(problem, rule, c, optimum, epochs=EPOCHS), theory.theorems_for(problem, rule)
        step, textbook = theorems[0].step_limit(facts) or 0.0, 1.0 / (np.sqrt(2.0) * problem.n * c.L)
        promises = (theory.smallest_bound(theorems, facts, [step] * k) for k in epochs)
        promised = [promise.bound for promise in promises if promise is not None]
        priors = (theory.prior_bound(facts, int(k), "IG" if order == "ig" else "RR") for k in epochs)
        prior = [found[1] for found in priors if found is not None]
        for name, size, colour in (("measured, the step of this theory", step, BLUE), ("measured, step 1/(√2 nL)", textbook, GREY)):
            runs = [rs.minimize(problem, order=order, step_size=size, epochs=EPOCHS, seed=s) for s in range(SEEDS)]
            reached = np.array([[entry.f for entry in run.history] for run in runs], dtype=float).mean(axis=0)
            axis.plot(epochs, reached - optimum.f, color=colour, label=name)
        axis.plot(epochs, promised, color=BLUE, linestyle="--", label="promised by this theory (Theorems 1 and 6)")
        axis.plot(
            epochs,
            prior,
            color=ORANGE,
            linestyle=":",
            label="promised by Mishchenko et al. 2020 (file order: as an order of magnitude)",
        )
        axis.set(title=f"{title}, step {step / textbook:.1f}/(√2 nL)", xlabel="epochs", xscale="log", yscale="log")
        axis.title.set_fontsize(10)
        axis.grid(alpha=0.2)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    axes[0].set_ylabel("f(x̂) − min f")
    figure.suptitle("Shuffled SGD on breast_cancer (n = 569, logistic, alpha = 0.01, b = 1)", fontsize=10)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


if __name__ == "__main__":
    main()
