"""
How good is my shuffle?
=======================

A loader that cannot shuffle everything reads the file through a buffer, or reads blocks of it in a random order. How good is that?
The discrepancy says: how far the gradients at the optimum stray from zero when they are summed in the order in which rows arrive,
over what random orders have in the mean. Here on digits, odd against even, in a file that is sorted by label.
"""

import numpy as np

import reshuffle as rs
from reshuffle import plots

data = rs.load("digits")
odd = data.y % 2
by_label = np.argsort(odd, kind="stable")
problem = rs.Problem(data.X[by_label] / 16.0, odd[by_label], alpha=1e-3)
n = problem.n

# %%
# A table of some usual ways to shuffle, and one sentence of advice.

buffers, blocks = [n // 10, n // 3, n // 2, 2 * n // 3], [3, 10, 30, 100, 300]
schemes = ["rr", "file", *(f"buffer:{size}" for size in buffers), *(f"blocks:{size}" for size in blocks), "balanced"]
table = rs.orders.assess(problem, schemes, batch_size=8, seeds=5)
print(table)

# %%
# The smallest buffer that is promised about as much as a random order holds most of the file.

print(rs.orders.smallest(problem, "buffer", batch_size=8, measure=False))

# %%
# On the left the runs, all at one step: what a run ends at is the noise of its order. On the right that gap and the discrepancy,
# which can be had without a run. Balanced is no shuffle: each epoch makes the order of the next from the gradients that it sees.

BLUE, ORANGE, GREEN, PINK, _, _, BLACK = plots.COLOURS
SHOWN = {"rr": ("random order", BLUE), "ig": ("as stored", BLACK), f"buffer:{n // 10}": ("buffer of n/10", ORANGE)}
SHOWN |= {"blocks:30": ("blocks of 30", PINK), "balanced": ("balanced", GREEN)}

with plots.style():
    figure, ((left, right),) = plots.subplots(1, 2, height=2.9)
    for scheme, (name, colour) in SHOWN.items():
        gaps = table[scheme].measured.gaps
        left.semilogy(range(1, len(gaps) + 1), gaps, color=colour)
        left.annotate(name, (len(gaps), gaps[-1]), (5, -2), textcoords="offset points", fontsize=7, color=colour)
    left.set(title="one file, read in five ways", xlabel="epochs", ylabel="f(x) − min f", xlim=(0, 42))
    for family, sizes, colour, marker in (("buffer", buffers, ORANGE, "s"), ("blocks", blocks, PINK, "o")):
        found = [table[f"{family}:{size}"] for size in sizes]
        label = f"{family} of so many rows"
        right.loglog([a.discrepancy for a in found], [a.measured.gap for a in found], marker, color=colour, ms=4, label=label)
        for size, a in zip(sizes, found, strict=True):
            right.annotate(
                f"{size}", (a.discrepancy, a.measured.gap), (5, -6), textcoords="offset points", fontsize=6, color=colour
            )
    for scheme in ("ig", "rr", "balanced"):
        (name, colour), a = SHOWN[scheme], table[scheme]
        right.loglog(a.discrepancy, a.measured.gap, "*", color=colour, ms=9, label=name)
    right.set(title="what each ends at, and the number that tells", xlim=(0.02, 800))
    right.set(xlabel="discrepancy, over a random order's", ylabel="f(x) − min f after 30 epochs")
    right.legend(frameon=False)
    figure.savefig("how_good_is_my_shuffle.png", dpi=200)
