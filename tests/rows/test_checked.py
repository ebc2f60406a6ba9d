"""The kernels once more, compiled with bounds checks: no index lies outside of its array, and one that does is noticed."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parents[2]
OUTSIDE = """
import numpy as np
from reshuffle.rows import in_memory, kernels
for rows, x in ((None, np.ones(2)), (np.array([5]), np.ones(3))):
    try:
        in_memory(np.ones((4, 3))).margins(x, rows)
    except IndexError:
        print("noticed")
"""
EVERY_KERNEL = """
import numpy as np, scipy.sparse as sp
import reshuffle as rs
from reshuffle.orders import balanced, discrepancy
from reshuffle.rows import in_memory, kernels
X, y = np.random.default_rng(0).standard_normal((60, 5)), np.arange(60) % 2
for A in (X, sp.csr_array(X)):
    p = rs.Problem(A, y, alpha=0.01, fit_intercept=True)
    rs.constants(p, batch_size=7, permutations=2, jobs=1)
    for order in ("so", "balanced", "buffer:9"):
        run = rs.minimize(p, order=order, step_size=0.1, batch_size=7, epochs=2)
    discrepancy(p, balanced(p, run.dual), x=run.x)
    rs.CertifiedClassifier("hinge", alpha=0.01, tol=1e-2).fit(A, y)
    rs.theory.measure(p)
    rows = in_memory(A)
    rows.gram_step(np.ones(60), np.ones(5), np.ones(60))
    kernels.split(np.arange(50), np.repeat(np.arange(2), 30), np.array([0, 30, 60]), np.zeros(3, int), np.empty(50, int))
    rows.joined([(rows.packed(np.arange(20)), np.arange(20)), (rows, np.arange(20, 60))], [np.arange(40, 60), np.arange(40)])
print("done")
"""


def run(code):
    environment = {**os.environ, "RESHUFFLE_CHECKED": "1", "NUMBA_OPT": "0"}  # which checks as much in less time
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=HERE, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


def test_an_index_outside_of_its_array_is_noticed():
    assert run(OUTSIDE) == ["noticed", "noticed"]


def test_no_kernel_reads_or_writes_outside_of_an_array():
    assert run(EVERY_KERNEL) == ["done"]
