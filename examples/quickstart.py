"""
From data to a guarantee
========================

The whole way: data, problem, constants, the step that they allow, shuffled SGD with that step, and its guarantee.
"""

import reshuffle as rs

data = rs.load("breast_cancer")  # or a file: svmlight, csv, parquet, npy, npz
print(data, end="\n\n")

# %%
# **Data, problem, constants, step.** The features come in very different units, so the same is done once more with every feature
# scaled to mean 0 and variance 1. The constants are measured over 100 random orders of the samples; the step that they allow
# stands beside the one that knows the largest sample only.

scaled = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
for title, X in (("as it comes", data.X), ("standardised", scaled)):
    problem = rs.Problem(X, data.y, loss="logistic")
    c = rs.constants(problem, batch_size=8, permutations=100, seed=0)
    textbook = rs.theory.step_size_limit(c.n, c.batch_size, c.L, c.L)
    print(f"--- {title}\n{c}")
    print(f"             {c.step_size_limit / textbook:.1f} times the step that L alone would allow\n")

# %%
# **Solver, certificate, guarantee.** Shuffled SGD with the largest step that the theorem allows. With alpha > 0 the run certifies
# how far from the minimum it can be; beside that stand the gap that was measured and the one that was promised.

problem = rs.Problem(scaled, data.y, loss="logistic", alpha=1e-2, fit_intercept=True)
run = rs.minimize(problem, batch_size=8, epochs=100, evaluate_every=20)
print(f"--- shuffled SGD\n{run}\n{rs.Guarantee.of(problem, run, rs.theory.measure(problem))}")
