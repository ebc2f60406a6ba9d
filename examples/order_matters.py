"""
Does the order matter?
======================

Random reshuffling (RR), shuffle once (SO) and the order of the file (IG), on a file sorted by its labels.

The guarantee has two parts. The first falls with the number of epochs and is about the same for every order. The second is the
discrepancy of the order, how far the gradients at the optimum stray from zero when they are summed in that order, times the square
of the step. So the order hardly matters while a small step is on its way; it matters most where a large step has arrived.
"""

from typing import Any

import numpy as np

import reshuffle as rs
from reshuffle import plots

data = rs.load("breast_cancer")
by_label = np.argsort(data.y, kind="stable")
X = ((data.X - data.X.mean(axis=0)) / data.X.std(axis=0))[by_label]
problem = rs.Problem(X, data.y[by_label], loss="logistic", alpha=1e-2)
optimum = rs.theory.measure(problem)
ORDERS = {"rr": "random reshuffling", "so": "shuffle once", "ig": "sorted by label"}

# %%
# The discrepancy of the three orders, the steps that the theorems allow in them, and what is promised after 200 epochs.

for order, name in ORDERS.items():
    run = rs.minimize(problem, order=order, epochs=200, evaluate_every=200)
    promised = rs.Guarantee.of(problem, run, optimum).bound
    R = rs.orders.discrepancy(problem, order, x=optimum.x)
    print(f"{name:<20} discrepancy {R:8.2f}   step up to {run.steps[0]:.2e}   promised {promised:.3f}")

# %%
# On the left every order takes the step of its theorem. On the right steps go far beyond it, as they do in practice, and the gap
# of the last iterate after 200 epochs is shown against the step. The smallest of these steps have not arrived yet. Those that have
# are left with the noise: sorted, it is the largest, and it grows with the square of the step, as the theory has it.

steps, epochs = np.geomspace(1e-3, 5e-2, 9), np.arange(5, 201, 5)


def gaps(order: str, **settings: Any) -> Any:
    """f - min f wherever it was evaluated, the mean over five seeds."""
    runs = [rs.minimize(problem, order=order, epochs=200, seed=seed, **settings) for seed in range(5)]
    return np.array([[epoch.f - optimum.f for epoch in run.history if epoch.f is not None] for run in runs]).mean(axis=0)


def last_gap(order: str, step: float) -> float:
    return float(gaps(order, step_size=step, average="last", evaluate_every=200)[-1])


with plots.style():
    figure, ((left, right),) = plots.subplots(1, 2, height=2.8)
    for (order, name), colour in zip(ORDERS.items(), plots.COLOURS, strict=False):
        left.loglog(epochs, gaps(order, evaluate_every=5), color=colour, label=name)
        right.loglog(steps, [last_gap(order, step) for step in steps], "o-", ms=3, color=colour, label=name)
    right.loglog(steps, 2.0 * steps**2, ":", color="#666666", label="grows like step²")
    left.set(title="the step of the theorem", xlabel="epochs", ylabel="f(x̂) − min f")
    right.set(title="larger steps, after 200 epochs", xlabel="step size", ylabel="f(x) − min f, last iterate")
    right.legend(frameon=False)
    figure.savefig("order_matters.png", dpi=200)

# %%
# In numbers, at the step 0.01:

for order, name in ORDERS.items():
    print(f"{name:<20} f - min f = {last_gap(order, 0.01):.1e}")
