"""What each number that steers the certified solver is worth: the time of fits with half and with double of it over that with the
number as it is. Prints one JSON object.

    python benchmarks/tuning.py [--held-out] [--only NAME ...] [--seconds 1]

Every name in capitals of `reshuffle.solver.certified.tuning` is halved and doubled, one at a time, on problems of generated data;
SKIPPED says what is left out and why. --held-out takes problems of other families, to check a choice on data that did not make it.

A number matters on a problem where it changes what the solver does, seen by f or the gap of any record in its history. Where all
of them are the same to the last bit, so are the steps, and to compare times would only measure noise.

A time is the CPU time of building a problem and solving it, on one thread, the least of at least ten fits (as many as --seconds
allow). Fits with the number as it is and with another take turns, so that whatever else the machine does meets both alike. What
that leaves of chance is shown by the same comparison of no change at all, which goes to stderr with each problem.

The numbers named HESSIAN and SAMPLE do nothing here: a Hessian is sampled only where a batch has more than 10 rows a feature, and
more than 80 entries a row, stored sparse, or 175, stored dense, and no problem here is of that kind.

NAME: half, double   geometric means, over the problems on which the number matters, of time over that with the number as it is;
                     null where it was skipped or matters on no problem
NAME: problems       on how many it matters
baseline_seconds     of all problems together, with every number as it is
"""

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import reshuffle as rs
from families import (
    Family,
    accounts,
    baskets,
    correlated,
    embeddings,
    few_rows,
    genes,
    heavy_tailed,
    images,
    interactions,
    lags,
    many_rows,
    mixed_scales,
    one_hot,
    outlying,
    prices,
    raw_counts,
    reviews,
    sensors,
    separable,
    small_table,
    sparse_binary,
    species,
    spectra,
    splices,
    survey,
    text,
    topics,
    voices,
    word_counts,
)
from reshuffle.solver.certified import Solution, solve, tuning

FITS = 10  # of each side at least in a comparison
SKIPPED = {
    ("SHRINK", "double"): "the width would grow instead of shrinking",
    ("BACKTRACK", "double"): "a step that is too long would never become shorter",
}

# --- problems


class Case(NamedTuple):
    """A problem; alpha is `strength` / n."""

    family: Family
    n: int
    d: int
    loss: str
    strength: float
    tol: float = 1e-3

    def __str__(self) -> str:
        return f"{self.family.__name__} {self.n} x {self.d} {self.loss} {self.strength:g}/n to {self.tol:g}"


TUNING = (
    Case(text, 1500, 4000, "logistic", 1.0),
    Case(text, 1500, 4000, "squared_hinge", 1.0, 1e-6),
    Case(text, 1500, 4000, "hinge", 10.0),
    Case(one_hot, 5000, 300, "logistic", 1.0),
    Case(one_hot, 4000, 700, "squared_hinge", 10.0),
    Case(one_hot, 4000, 1400, "logistic", 1.0, 1e-6),
    Case(one_hot, 3000, 100, "hinge", 1.0),
    Case(correlated, 4000, 60, "logistic", 1.0, 1e-6),
    Case(correlated, 4000, 60, "squared_hinge", 10.0),
    Case(correlated, 2000, 40, "hinge", 10.0),
    Case(correlated, 4000, 60, "squared", 1.0),
    Case(heavy_tailed, 2000, 1500, "logistic", 10.0),
    Case(heavy_tailed, 2000, 1500, "squared_hinge", 1.0),
    Case(heavy_tailed, 4000, 300, "logistic", 1.0),
    Case(separable, 2000, 30, "logistic", 1.0),
    Case(separable, 2000, 30, "hinge", 1.0),
    Case(few_rows, 150, 1000, "logistic", 1.0),
    Case(few_rows, 300, 600, "squared_hinge", 10.0),
    Case(many_rows, 40_000, 8, "logistic", 1.0),
    Case(many_rows, 20_000, 8, "hinge", 10.0),
    Case(baskets, 3000, 2000, "squared_hinge", 1.0),
    Case(baskets, 15_000, 1000, "logistic", 10.0, 1e-6),
    Case(word_counts, 4000, 3000, "logistic", 1.0),
    Case(word_counts, 4000, 3000, "squared_hinge", 10.0, 1e-6),
    Case(word_counts, 10_000, 800, "squared_hinge", 10.0),
    Case(images, 3000, 200, "logistic", 1.0),
    Case(images, 3000, 600, "squared_hinge", 10.0),
    Case(topics, 10_000, 2000, "squared_hinge", 1.0),
    Case(reviews, 800, 4000, "squared_hinge", 1.0, 1e-6),
    Case(reviews, 800, 4000, "hinge", 10.0),
    Case(species, 6000, 120, "logistic", 1.0),
    Case(species, 6000, 400, "squared_hinge", 1.0),
    Case(species, 20_000, 200, "squared_hinge", 10.0, 1e-6),
    Case(text, 4000, 400, "logistic", 10.0, 1e-6),
    Case(survey, 4000, 80, "logistic", 1.0),
    Case(survey, 4000, 80, "hinge", 10.0),
    Case(interactions, 1500, 300, "logistic", 1.0),
    Case(interactions, 1500, 300, "squared_hinge", 10.0),
    Case(lags, 1200, 400, "logistic", 1.0),
    Case(outlying, 2000, 200, "squared_hinge", 1.0),
    Case(outlying, 2000, 200, "smoothed_hinge", 10.0),
    Case(accounts, 20_000, 12, "logistic", 1.0),
    Case(accounts, 3000, 80, "squared_hinge", 10.0),
    Case(small_table, 150, 20, "logistic", 1.0),
    Case(small_table, 300, 20, "squared_hinge", 1.0),
    Case(small_table, 90, 40, "hinge", 10.0),
)

HELD_OUT = (
    Case(sparse_binary, 4000, 250, "logistic", 1.0),
    Case(sparse_binary, 4000, 250, "hinge", 10.0),
    Case(sparse_binary, 2000, 1400, "squared_hinge", 10.0, 1e-6),
    Case(raw_counts, 2000, 1200, "logistic", 1.0),
    Case(raw_counts, 2000, 1200, "hinge", 10.0),
    Case(raw_counts, 2000, 600, "squared_hinge", 1.0),
    Case(embeddings, 1000, 600, "squared_hinge", 1.0, 1e-6),
    Case(sensors, 2000, 160, "logistic", 1.0),
    Case(prices, 4000, 80, "logistic", 1.0),
    Case(prices, 4000, 80, "smoothed_hinge", 10.0),
    Case(genes, 100, 2000, "logistic", 10.0),
    Case(voices, 250, 750, "logistic", 1.0),
    Case(spectra, 160, 800, "logistic", 10.0, 1e-6),
    Case(spectra, 250, 500, "squared", 1.0),
    Case(splices, 4000, 180, "logistic", 1.0),
    Case(splices, 4000, 180, "squared_hinge", 10.0, 1e-6),
    Case(mixed_scales, 15_000, 15, "logistic", 10.0),
    Case(mixed_scales, 9000, 150, "logistic", 1.0),
    Case(mixed_scales, 3000, 25, "hinge", 1.0),
    Case(mixed_scales, 180, 18, "hinge", 10.0),
)


class Fits:
    """A case, its data, and the fits of it."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.X, scores = case.family(np.random.default_rng(0), case.n, case.d)
        self.y = scores if case.loss == "squared" else np.where(scores > 0.0, 1.0, -1.0)

    def fit(self) -> tuple[float, Solution]:
        """Seconds of CPU time, and what was found."""
        began = time.process_time()
        problem = rs.Problem(self.X, self.y, loss=self.case.loss, alpha=self.case.strength / self.case.n, fit_intercept=True)
        solution = solve(problem, tol=self.case.tol)
        return time.process_time() - began, solution

    def ratio(self, setting: "Setting", seconds: float) -> float:
        """The least time with this setting over the least with every number as it is."""
        spent = 0.0
        usual: list[float] = []
        changed: list[float] = []
        while len(usual) < FITS or spent < seconds:
            usual.append(self.fit()[0])
            with setting.in_force():
                changed.append(self.fit()[0])
            spent += usual[-1] + changed[-1]
        return min(changed) / min(usual)


class Setting(NamedTuple):
    """One number changed, or none."""

    name: str = ""
    change: str = ""

    @property
    def value(self) -> float:
        old: float = getattr(tuning, self.name)
        new = old * (0.5 if self.change == "half" else 2.0)
        return max(1, round(new)) if isinstance(old, int) else new

    @contextmanager
    def in_force(self) -> Iterator[None]:
        if not self.name:
            yield
            return
        old = getattr(tuning, self.name)
        setattr(tuning, self.name, self.value)
        try:
            yield
        finally:
            setattr(tuning, self.name, old)


AS_IT_IS = Setting()


def records(solution: Solution) -> list[tuple[float | None, float | None]]:
    return [(epoch.f, epoch.gap) for epoch in solution.history]


def ratios(case: Case, settings: list[Setting], seconds: float) -> tuple[float, dict[Setting, float]]:
    """Seconds of a fit with every number as it is, and the ratio to it of each setting that matters on this case."""
    fits = Fits(case)
    fits.fit()  # compiled code is loaded
    usual, found = records(fits.fit()[1]), {}
    for setting in settings:
        with setting.in_force():
            solution = fits.fit()[1]
        if not solution.converged:
            print(f"{case}: {setting.change} of {setting.name} did not converge", file=sys.stderr)
        if records(solution) != usual:
            found[setting] = fits.ratio(setting, seconds)
    least, noise = min(fits.fit()[0] for _ in range(FITS)), fits.ratio(AS_IT_IS, seconds)
    shown = {f"{setting.name} {setting.change}": round(ratio, 2) for setting, ratio in found.items()}
    print(f"{case}: {1e3 * least:.1f} ms, no change {noise:.2f}, {shown}", file=sys.stderr, flush=True)
    return least, found


def summary(name: str, found: list[dict[Setting, float]]) -> dict[str, Any]:
    """Means over the cases on which half or double of this number matters; where only one does, the other has the ratio 1."""
    here = [ratio for ratio in found if any(setting.name == name for setting in ratio)]

    def mean(change: str) -> float | None:
        if (name, change) in SKIPPED or not here:
            return None
        return round(math.exp(sum(math.log(ratio.get(Setting(name, change), 1.0)) for ratio in here) / len(here)), 3)

    return {"half": mean("half"), "double": mean("double"), "problems": len(here)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--held-out", action="store_true", help="problems of the families that chose no number")
    parser.add_argument("--only", nargs="*", default=None, help="names of numbers")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each comparison, at least")
    options = parser.parse_args()
    names = options.only or [name for name in vars(tuning) if name.isupper()]
    settings = [Setting(name, change) for name in names for change in ("half", "double") if (name, change) not in SKIPPED]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = [ratios(case, settings, options.seconds) for case in (HELD_OUT if options.held_out else TUNING)]
    report: dict[str, Any] = {name: summary(name, [found for _, found in measured]) for name in names}
    print(json.dumps({**report, "baseline_seconds": round(sum(seconds for seconds, _ in measured), 4)}, indent=1))


if __name__ == "__main__":
    main()
