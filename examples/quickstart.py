"""
From data to a certificate
==========================

The whole way: data, scaling, a plan that was measured, the plan followed, its certificate; then what the theory promises, and why.
"""

import reshuffle as rs

data = rs.load("breast_cancer")  # or a file: svmlight, csv, parquet, npy, npz
problem = rs.Problem(data.X, data.y, loss="logistic", alpha=1e-2, fit_intercept=True)
print(data, end="\n\n")

# %%
# **Scaling.** The features come in very different units. Every kind of scaling is tried on some of the rows, and judged by others.

scaling = rs.scale(problem)
problem = scaling.apply(problem)
print(f"--- scaled: {scaling.in_words}\n{scaling.reason}\n")

# %%
# **A plan.** Batch sizes, steps and orders race on the data. What won is what to do; the promise beside it holds for the worst data
# with the same constants.

plan = rs.plan(problem)
print(f"--- plan\n{plan}\n")
advice = plan.advice
assert advice is not None  # as it would be if training started at a minimum

# %%
# **The plan followed.** The run reaches what the plan says, and certifies how far from the minimum it can be at most.

run = rs.minimize(problem, **advice.arguments)
for epoch in run.history:
    print(epoch)
print(f"{run}\n")

# %%
# **What the theory sees.** Lhat and Ltil are measured over 100 random orders; the step that they allow stands beside the one that
# knows the largest sample only.

c = rs.constants(problem, batch_size=advice.batch_size, permutations=100, seed=0)
textbook = rs.theory.step_size_limit(c.n, c.batch_size, c.L, c.L)
print(f"--- constants\n{c}\n             {c.step_size_limit / textbook:.1f} times the step that L alone would allow\n")

# %%
# **A guarantee.** The same with the step of the theorem: slower, and promised beforehand.

slow = rs.minimize(problem, batch_size=8, epochs=100, evaluate_every=100)
print(f"--- by the theorem's step\n{slow}\n{rs.Guarantee.of(problem, slow, rs.theory.measure(problem))}")
