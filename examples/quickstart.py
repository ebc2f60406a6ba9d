"""From data to the constants of shuffled SGD and the step sizes they allow."""

import reshuffle as rs

data = rs.load("breast_cancer")  # or a file: svmlight, csv, parquet, npy, npz
print(data, end="\n\n")

# data -> Problem: unscaled features, then the same features standardised
scaled = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
for title, X in (("as it comes", data.X), ("standardised", scaled)):
    problem = rs.Problem(X, data.y, loss="logistic")

    # Problem -> constants, over random orders of the samples
    c = rs.constants(problem, batch_size=8, permutations=100, seed=0)
    textbook = rs.theory.step_size_limit(c.n, c.batch_size, c.L, c.L)

    # constants -> theory: the step they allow, beside the one that knows L only
    print(f"--- {title}\n{c}")
    print(f"             {c.step_size_limit / textbook:.1f} times the step that L alone would allow\n")

# theory -> solver -> certificate: shuffled SGD with that step, and what was promised beside what was reached
problem = rs.Problem(scaled, data.y, loss="logistic", l2=1e-2, fit_intercept=True)
run = rs.minimize(problem, batch_size=8, epochs=100, evaluate_every=20)
print(f"--- shuffled SGD\n{run}\n{rs.Guarantee.of(problem, run, rs.theory.measure(problem))}")
