"""
How far can a batch grow?
=========================

A step on b samples costs b gradient evaluations, and the theory lets it be about b √(L/Ltil) times as long as a step on one.
So batches need hardly more evaluations than single samples, and fewer where ``Ltil``, the largest batch as a whole, is smaller than
``L``, the largest sample. If the samples of a batch point in different directions, L/Ltil grows like b. If they all point the same
way, it stays at 1.
"""

import numpy as np

import reshuffle as rs
from reshuffle import plots

digits = rs.load("digits")
centred = digits.X - digits.X.mean(axis=0)
gaussian = np.random.default_rng(0).standard_normal((1024, 256))
DATA = {"Gaussian": gaussian, "digits, centred": centred, "digits as they come": digits.X}
sizes = [2**k for k in range(11)]

# %%
# L/Ltil for batch sizes from 1 to 1024, ten random orders each. Raw pixels are never negative, so all images share one direction,
# and a batch of them is not much smaller than its largest image. Centred, the images differ more.

ratios = {name: [rs.constants(X, batch_size=b, permutations=10).l_over_ltil for b in sizes] for name, X in DATA.items()}
for name, ratio in ratios.items():
    print(f"{name:<20} L/Ltil at b = 1, 16, 256, 1024: {ratio[0]:.2f}, {ratio[4]:.2f}, {ratio[8]:.2f}, {ratio[10]:.2f}")

# %%
# What that means for training: ``rs.plan`` puts the constants of every batch size into the theorem and counts the gradient
# evaluations until f - min f <= 0.01. Below 1, batches of that size save evaluations, besides being computed side by side. In the
# end the curve rises again, since Lhat does: at b = n it is the constant of full gradients, about π²/4 times that of b = 1.

plans = {}
for name in ("digits, centred", "digits as they come"):
    problem = rs.Problem(DATA[name], digits.y >= 5, loss="logistic", alpha=1.0)
    plans[name] = rs.plan(problem, eps=1e-2)
    print(f"\n--- {name}\n{plans[name]}")

# %%

with plots.style():
    figure, ((left, right),) = plots.subplots(1, 2, height=2.8)
    for (name, ratio), colour in zip(ratios.items(), plots.COLOURS, strict=False):
        left.loglog(sizes, ratio, "o-", ms=3, base=2, color=colour, label=name)
        if name in plans:
            choices = plans[name].choices
            evaluations = [choice.evaluations / choices[0].evaluations for choice in choices]
            right.semilogx([choice.batch_size for choice in choices], evaluations, "o-", ms=3, base=2, color=colour, label=name)
    left.loglog(sizes, sizes, ":", base=2, color="#666666", label="b")
    left.set(title="the largest sample over the largest batch", xlabel="batch size b", ylabel="L / Ltil")
    right.set(title="what training costs", xlabel="batch size b", ylabel="evaluations, b = 1 being 1", ylim=(0, None))
    left.legend(frameon=False)
    figure.savefig("batch_growth.png", dpi=200)
