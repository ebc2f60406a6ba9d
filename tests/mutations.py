"""Do the tests of the theory notice a wrong factor? `python tests/mutations.py` makes one mistake after another in a copy of src,
and runs tests/test_theory.py and tests/paper against it until one of them fails. It prints the mistakes that none noticed, and
exits with 1 if there are any. `python tests/mutations.py growth` tries those whose text has that word. A few seconds each; no part
of `make test`.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FORMULAS, THEOREMS, FACTS = "theory/formulas.py", "theory/theorems.py", "theory/facts.py"
CATALOGUE, PRIOR, DISCREPANCY = "theory/catalogue.py", "theory/prior.py", "orders/prefixes.py"
PERMUTATIONS, KERNELS, PROBLEM, SHUFFLED, SUMS = (
    "spectral/permutations.py", "rows/kernels.py", "problem.py", "solver/shuffled.py", "solver/sums.py",
)  # fmt: skip

# (file below src/reshuffle, text that occurs there once, what takes its place)
MUTANTS: list[tuple[str, str, str]] = [
    # what all theorems share
    (FORMULAS, "return ceil(n / batch_size)", "return n // batch_size"),
    (FORMULAS, "return sqrt(batch_size * n / batches(n, batch_size))", "return float(batch_size)"),
    (FORMULAS, "m * (m - 1) / (n * (n - 1)) * (n / 2", "2 * m * (m - 1) / (n * (n - 1)) * (n / 2"),
    (FORMULAS, "m * (m - 1) / (n * (n - 1)) * (n / 2", "m * (m - 1) / (2 * n * (n - 1)) * (n / 2"),
    (FORMULAS, "batch_size * (2 * m - 1) / 6)", "batch_size * (2 * m - 1) / 12)"),
    (FORMULAS, "return 1.0 / (4.0 * m**2 * sin", "return 1.0 / (2.0 * m**2 * sin"),
    (FORMULAS, "return 1.0 / (4.0 * m**2 * sin", "return 1.0 / (8.0 * m**2 * sin"),
    # noise
    (FORMULAS, "return ltil * sigma**2 * variance_factor", "return 0.5 * ltil * sigma**2 * variance_factor"),
    (FORMULAS, "return ltil * sigma**2 * variance_factor", "return 2.0 * ltil * sigma**2 * variance_factor"),
    (FORMULAS, "min(m / batch_size * lhat", "min(0.5 * m / batch_size * lhat"),
    (FORMULAS, "min(m / batch_size * lhat", "min(n / batch_size**2 * lhat"),
    (FORMULAS, "(m - 1) ** 2 * ltil * sigma**2)", "m**2 * ltil * sigma**2)"),
    (FORMULAS, "return (n - 1) * variance_factor", "return 0.5 * (n - 1) * variance_factor"),
    (FORMULAS, "return (n - 1) * variance_factor", "return 2.0 * (n - 1) * variance_factor"),
    (THEOREMS, "return [w.til * R for R in facts.discrepancy]", "return [0.5 * w.til * R for R in facts.discrepancy]"),
    (THEOREMS, "return [w.til * R for R in facts.discrepancy]", "return [w.til * min(facts.discrepancy)] * len(facts.discrepancy)"),
    (THEOREMS, "return w.til * facts.discrepancy", "return 0.5 * w.til * facts.discrepancy"),
    (THEOREMS, "return min(w.til * worst, _of_the_paper(facts, w))", "return min(0.5 * w.til * worst, _of_the_paper(facts, w))"),
    (THEOREMS, "noise if isinstance(noise, float) else max(noise)", "noise if isinstance(noise, float) else min(noise)"),
    (DISCREPANCY, ".sum()) / (n * batch_size)", ".sum()) / n"),
    (DISCREPANCY, ".sum()) / (n * batch_size)", ".sum()) / (2 * n * batch_size)"),
    (DISCREPANCY, "squares[batch_size - 1 : n - 1 : batch_size]", "squares[: n - 1 : batch_size]"),
    (DISCREPANCY, "squares[batch_size - 1 : n - 1 : batch_size]", "squares[batch_size - 1 : n - batch_size : batch_size]"),
    (PROBLEM, "along = self.alpha * (z - (x[self.d]", "along = 0.5 * self.alpha * (z - (x[self.d]"),
    (PROBLEM, "c_square = self.alpha**2 *", "c_square = self.alpha *"),
    (KERNELS, "ones * (total + 0.5 * u[i])", "ones * (total + u[i])"),
    (KERNELS, "k * (2.0 * S_c + k * c_square)", "k * (S_c + k * c_square)"),
    (FORMULAS, "tail + sqrt(tail**2 + logarithm", "sqrt(tail**2 + 0.25 * logarithm"),
    (FACTS, "(c.mean_sample - alpha) / full", "1e-9"),
    # steps
    (FORMULAS, "/ (n * sqrt(2.0 * product))", "/ (n * sqrt(product))"),
    (FORMULAS, "/ (n * sqrt(2.0 * product))", "/ (n * sqrt(4.0 * product))"),
    (FORMULAS, "return beta(n, batch_size) / (n * sqrt", "return min(batch_size, 1.9) * beta(n, batch_size) / (n * sqrt"),
    (FORMULAS, "cbrt(batch_size * distance**2 / (2.0 *", "cbrt(batch_size * distance**2 / (4.0 *"),
    (FORMULAS, "cbrt(batch_size * distance**2 / (2.0 *", "cbrt(batch_size * distance**2 / (1.0 *"),
    (FORMULAS, "sqrt(batch_size * beta(n, batch_size)) / (2.0 * n", "sqrt(batch_size * beta(n, batch_size)) / (1.0 * n"),
    (FORMULAS, "sqrt(batch_size * beta(n, batch_size)) / (2.0 * n", "batch_size / (2.0 * n"),
    (THEOREMS, "self.step_limit(facts) * (1 + 1e-9)", "self.step_limit(facts) * 1.9"),
    (SHUFFLED, "growth(problem.n, batch_size, step, mu)", "growth(problem.n, 1, step, mu)"),
    (SHUFFLED, "shrink = 1.0 / (1.0 + self._growth(step))", "shrink = 1.0 / (1.0 + 2.0 * self._growth(step))"),
    # bounds
    (FORMULAS, "return batch_size * distance**2 / (2.0 * n)", "return batch_size * distance**2 / (4.0 * n)"),
    (FORMULAS, "return batch_size * distance**2 / (2.0 * n)", "return batch_size * distance**2 / n"),
    (FORMULAS, "return (step**3 * here for", "return (0.5 * step**3 * here for"),
    (FORMULAS, "return (step**3 * here for", "return (2.0 * step**3 * here for"),
    (FORMULAS, "noise = 2.0 * n * gbar / beta", "noise = n * gbar / beta"),
    (FORMULAS, "noise = 2.0 * n * gbar / beta", "noise = 4.0 * n * gbar / beta"),
    (FORMULAS, "return (1.0 - _THETA) * n * step", "return n * step"),
    (FORMULAS, "return (1.0 - _THETA) * n * step", "return 0.5 * (1.0 - _THETA) * n * step"),
    (FORMULAS, "_THETA = 0.5 ", "_THETA = 0.25 "),
    (FORMULAS, "return above / (_THETA * below)", "return above / below"),
    (FORMULAS, "above, below = above / (1.0 + c) + added, below", "above, below = above + added, below"),
    (FORMULAS, "spent = batch_size / (2.0 * n) * square + added", "spent = batch_size / (4.0 * n) * square + added"),
    (FORMULAS, "spent = batch_size / (2.0 * n) * square + added", "spent = batch_size / (2.0 * n) * square + 0.5 * added"),
    (FORMULAS, "spent / (step + batch_size / (n * full))", "spent / (2.0 * step + batch_size / (n * full))"),
    (FORMULAS, "2.0 * spent / (batch_size / n + step * mu)", "2.0 * spent / (batch_size / n + 2.0 * step * mu)"),
    (FORMULAS, "2.0 * spent / (batch_size / n + step * mu)", "spent / (batch_size / n + step * mu)"),
    (THEOREMS, "return inf if w is None else float((w.hat * w.til) ** 0.5)", "return inf if w is None else float(w.hat)"),
    (FACTS, "mu=0.0 if intercept else c.alpha", "mu=2.0 * c.alpha"),
    # complexities
    (FORMULAS, "few = n * batch_size / beta(n, batch_size) * sqrt(2.0", "few = n * batch_size / beta(n, batch_size) * sqrt(1.0"),
    (FORMULAS, "return few, 2.0**1.5 * batch_size", "return few, 2.0 * batch_size"),
    (FORMULAS, "return 4.0 * n * batch_size / beta", "return 2.0 * n * batch_size / beta"),
    (FORMULAS, "return 4.0 * n * batch_size / beta", "return 4.0 * n * beta"),
    (FORMULAS, "sqrt(eps / (3.0 * noise))", "sqrt(eps / (1.5 * noise))"),
    (FORMULAS, "ceil(travel / (step * (eps - step**2 * noise)))", "ceil(travel / (step * eps))"),
    (FORMULAS, "log1p(c), _LARGE))) + noise * step**2", "log1p(c), _LARGE))) + 4 * noise * step**2"),
    (FORMULAS, "rest = growth(n, batch_size, step, mu), _THETA * eps", "rest = growth(n, batch_size, step, mu), eps"),
    (FORMULAS, "log1p(c * travel / (step * rest))", "log1p(2.0 * c * travel / (step * rest))"),
    (FORMULAS, "2.0 * step**2 * noise / mu  # |x - x*|^2", "8.0 * step**2 * noise / mu  # |x - x*|^2"),
    (FORMULAS, "near = 2.0 * n / batch_size * (eps", "near = 4.0 * n / batch_size * (eps"),
    (FORMULAS, "near = 2.0 * n / batch_size * (eps", "near = 0.5 * n / batch_size * (eps"),
    (FORMULAS, "return 1.0 + log((distance**2 - floor)", "return log((distance**2 - floor)"),
    (THEOREMS, "max(few, many) if self.in_expectation else few + many", "max(few, many)"),
    (CATALOGUE, "bound, theorem = min(found", "bound, theorem = max(found"),
    (CATALOGUE, "return min(found, key=lambda plan: (plan.epochs, plan.theorem.in_expectation))", "return found[0]"),
    (CATALOGUE, "return min(zip(offered, steps", "return max(zip(offered, steps"),
    (THEOREMS, "order.uniform and not order.fixed", "order.uniform"),
    (FACTS, "L, G2 = self.largest, self.lipschitz_squared", "L, G2 = 2.0 * self.largest, 0.5 * self.lipschitz_squared"),
    # constants of the data
    (PERMUTATIONS, "hat.value / (self._m * self._n) +", "hat.value / (self._n * self._n) +"),
    (PERMUTATIONS, "hat.value / (self._m * self._n) +", "hat.value / (2 * self._m * self._n) +"),
    (PERMUTATIONS, "til / self.batch_size + shared.alpha", "til + shared.alpha"),
    (PERMUTATIONS, "til / self.batch_size + shared.alpha", "til / (2 * self.batch_size) + shared.alpha"),
    (PERMUTATIONS, "til / self.batch_size + shared.alpha", "til / self.batch_size"),
    (PERMUTATIONS, "share_of_alpha = self.shared, self.shared.alpha *", "share_of_alpha = self.shared, 0.5 * self.shared.alpha *"),
    (PERMUTATIONS, "return self.norm / self.problem.n + self.alpha", "return self.norm / self.problem.n"),
    (PERMUTATIONS, "hat = self.norm / n + self.alpha", "hat = 0.5 * self.norm / n + self.alpha"),
    (PERMUTATIONS, "min(largest, self.norm / batch_size) + self.alpha", "self.largest + self.alpha"),
    (PERMUTATIONS, "min(largest, self.norm / batch_size) + self.alpha", "min(largest, self.norm / n) + self.alpha"),
    (FORMULAS, "ordered_norm_ratio(m) * full + tail + sqrt", "ordered_norm_ratio(m) * full + 0.0 * sqrt"),
    (FORMULAS, "tail = largest * logarithm / (3.0 * n)", "tail = largest * logarithm / (6.0 * n)"),
    (FORMULAS, "+ logarithm * largest * full / n)", "+ 0.5 * logarithm * largest * full / n)"),
    (FORMULAS, "logarithm = log(2.0 * dimension * (m - 1) / failure)", "logarithm = log(2.0 * dimension / failure)"),
    (FORMULAS, "asked = largest / (batch_size * full) * log", "asked = 0.5 * largest / (batch_size * full) * log"),
    (FORMULAS, "* full) * log(dimension / failure)", "* full) * log(1.0 / failure)"),
    (FACTS, "FAILURE / (2.0 * epochs)", "FAILURE"),
    (FACTS, "c.batch_size, share / m) + alpha", "c.batch_size, share) + alpha"),
    (FACTS, "if safe or not order.uniform or largest", "if safe or largest"),
    (FACTS, "Within(float(c.hat.max()), float(c.til.max())", "Within(float(c.hat.min()), float(c.til.min())"),
    (FACTS, "c.largest_sample - alpha, c.full_gradient_constant - alpha", "c.largest_sample, c.full_gradient_constant"),
    # Algorithms 1 and 2
    (KERNELS, "move = rate * weights[i] * dual[i]", "move = step / (end - start) * weights[i] * dual[i]"),
    (KERNELS, "scale *= 1.0 - rate * alpha * (stop - start)", "scale *= 1.0 - rate * alpha * batch_size"),
    (SUMS, "x[:] -= step / batch_size * total.gradient", "x[:] -= step / (hi - lo) * total.gradient"),
    # other authors
    (PRIOR, "return 1.0 / (sqrt(2.0) * facts.n", "return 1.0 / (facts.n"),
    (PRIOR, "facts.n * facts.sigma**2 / 4.0", "facts.n * facts.sigma**2 / 2.0"),
    (PRIOR, "few = n * facts.full * D2 / (2.0 * eps)", "few = n * facts.full * D2 / eps"),
    (PRIOR, "steps_below(1.0 / (16.0 * facts.largest))", "steps_below(1.0 / (8.0 * facts.largest))"),
    (PRIOR, "return min(1.0, step * facts.n * facts.largest)", "return min(1.0, 2.0 * step * facts.n * facts.largest)"),
    (PRIOR, "first * facts.n * facts.largest", "2.0 * first * facts.n * facts.largest"),
    (PRIOR, "return D2 / (step * n * epochs) + step**2 * noise", "return D2 / (2.0 * step * n * epochs) + step**2 * noise"),
    (PRIOR, "facts.lipschitz_squared / eps**2 <= facts.n,", "facts.lipschitz_squared / eps**2 <= 2 * facts.n,"),
]  # fmt: skip


def run(source: Path, tests: list[str]) -> bool:
    """Whether the tests pass against this copy of src."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode == 0


def main(words: list[str]) -> int:
    papers = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "paper").glob("test_*.py"))
    stages = [["tests/test_theory.py"], papers]  # the quick one first
    chosen = [mutant for mutant in MUTANTS if not words or any(word in " ".join(mutant) for word in words)]
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "src"
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        for name, old, _ in MUTANTS:
            count = (source / "reshuffle" / name).read_text().count(old)
            assert count == 1, f"{name} has {count} times: {old}"
        if not all(run(source, stage) for stage in stages):
            print("the tests fail without any mistake")
            return 1
        for number, (name, old, new) in enumerate(chosen, 1):
            file, began = source / "reshuffle" / name, time.monotonic()
            text, stamp = file.read_text(), file.stat()
            file.write_text(text.replace(old, new))
            survived = all(run(source, stage) for stage in stages)
            file.write_text(text)
            os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))  # compiled kernels are kept by the time of their file
            if survived:
                survivors.append((name, old, new))
            state = "SURVIVED" if survived else "noticed"
            print(f"{number:3}/{len(chosen)} {state:8} {time.monotonic() - began:5.0f} s  {name}: {old}  ->  {new}", flush=True)
    print(f"{len(survivors)} of {len(chosen)} mistakes were not noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
