"""Is the plan's advice good? What it reaches, beside the best of a fine grid and beside SGDClassifier. Prints one JSON object.

For each dataset, raw and scaled (columns to unit deviation, centred where dense), at the commands' alpha and intercept:

- advice_over_grid: the gap f - min f after following the advice for its epochs, over the smallest that any batch size 1, 2, 4, ...,
  n and step (by factors of sqrt 2) has after as many epochs in random orders. Both are means over the same --seeds seeds, none of
  them the plan's: of a single run, luck decides.
- advice_over_sgdclassifier: over that of scikit-learn's SGDClassifier or SGDRegressor as they come, on scaled data.
- plan_seconds: of `rs.plan`, in CPU time of all threads.

    python benchmarks/plan.py --data FOLDER                    # files, and what comes with scikit-learn
    python benchmarks/plan.py --generated 24                   # made data: the two thirds that may be looked at while tuning
    python benchmarks/plan.py --generated 24 --held-out        # the third that decides
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier, SGDRegressor

import reshuffle as rs
from reshuffle.defaults import ALPHA
from reshuffle.solver.race import Entrant, Training, batch_grid

FILES = (
    "sonar_scale",
    "german.numer_scale",
    "abalone.bz2",
    "a1a",
    "mushrooms",
    "colon-cancer.bz2",
    "duke.bz2",
    "leu.bz2",
    "ijcnn1.bz2",
    "a9a",
    "rcv1_like.bz2",
    "news20_multiclass.bz2",
)
BUNDLED = ("breast_cancer", "diabetes", "digits", "iris", "wine")
REGRESSION = ("abalone", "diabetes")
FIRST_SEED = 1000

Case = tuple[str, Any, Any, str]


def real(folder: Path | None, names: list[str]) -> Iterator[Case]:
    for name in names or [*BUNDLED, *FILES]:
        place = name if name in BUNDLED else folder and folder / name
        if place is None or (name not in BUNDLED and not Path(place).exists()):
            continue
        data = rs.load(str(place))
        short = name.split(".")[0]
        if short in REGRESSION:
            yield short, data.X, data.y, "squared"
        else:
            labels, counts = np.unique(data.y, return_counts=True)
            yield short, data.X, np.where(data.y == labels[counts.argmax()], 1.0, -1.0), "logistic"


def generated(count: int, held_out: bool) -> Iterator[Case]:
    for k in range(count):
        if (k % 3 == 2) == held_out:
            yield f"made {k}", *made(k)


def made(k: int) -> tuple[Any, Any, str]:
    """The k-th of a family: sizes, spectra, sparsity, sizes of rows and columns, noise, tails and file orders are drawn."""
    rng = np.random.default_rng([7, k])
    n, d = (round(float(np.exp(rng.uniform(*np.log(limits))))) for limits in ((80, 8000), (2, 200)))
    kind = rng.choice(["dense", "sparse", "binary"])
    if kind == "dense":
        decay = rng.uniform(0, 1.5)
        Q = np.linalg.qr(rng.standard_normal((d, d)))[0]
        X = rng.standard_normal((n, d)) * (np.arange(1, d + 1) ** -decay) @ Q
        if rng.random() < 0.4:
            X *= np.exp(rng.uniform(0, 2.0) * rng.standard_normal(d))
        if rng.random() < 0.4:
            X += rng.uniform(0, 3) * np.abs(X).mean() * rng.standard_normal(d)
    elif kind == "sparse":
        X = sp.random_array((n, d), density=min(1, max(0.02, 3 / d)), format="csr", random_state=rng).toarray()
        X *= np.exp(rng.uniform(0, 1.5) * rng.standard_normal(d))
    else:
        X = (rng.random((n, d)) < rng.uniform(0.02, 0.6, d)).astype(float)
    if rng.random() < 0.3:
        X *= np.exp(rng.uniform(0.2, 1.2) * rng.standard_normal((n, 1)))
    w = rng.standard_normal(d) * (rng.random(d) < rng.uniform(0.1, 1))
    z = (X - X.mean(axis=0)) @ w
    z /= max(z.std(), 1e-9)
    noise = np.exp(rng.uniform(np.log(0.05), np.log(3)))
    z = z + noise * (rng.standard_normal(n) if rng.random() < 0.7 else rng.standard_t(2.5, n)) + 0.7 * rng.normal()
    y, loss = (z * np.exp(rng.normal()), "squared") if rng.random() < 0.5 else (np.where(z > 0, 1.0, -1.0), "logistic")
    if loss == "logistic" and abs(y.sum()) == n:
        y[0] = -y[0]
    if rng.random() < 0.25:
        order = np.argsort(y, kind="stable")
        X, y = X[order], y[order]
    return X if kind == "dense" else sp.csr_array(X), y, loss


def scaled(X: Any) -> Any:
    if not sp.issparse(X):
        deviation = X.std(axis=0)
        return (X - X.mean(axis=0)) / np.where(deviation > 1e-12 * np.abs(X).max(), deviation, 1.0)
    squares, means = np.asarray(X.multiply(X).mean(axis=0)).ravel(), np.asarray(X.mean(axis=0)).ravel()
    deviation = np.sqrt(np.maximum(squares - means**2, 0.0))
    return sp.csr_array(X @ sp.diags_array(1.0 / np.where(deviation > 0.0, deviation, 1.0)))


def mean_gap(problem: rs.Problem, minimum: float, entrant: Entrant, epochs: int, seeds: range) -> float:
    gaps = []
    for seed in seeds:
        run = Training(problem, *entrant.lane, entrant.step, seed)
        run.go_on([epochs])
        gaps.append(run.values.get(epochs, np.inf) - minimum)
    return float(np.mean(np.maximum(gaps, 1e-15 * (1.0 + abs(minimum)))))


def best_of_grid(problem: rs.Problem, minimum: float, epochs: int, seeds: range) -> tuple[float, int, float]:
    """From the best step of the batch size before, steps go up, then down, until four in a row are twice as bad as the best, or
    eight no better.
    """
    usual = float(np.mean(problem.squared_norms())) * (problem.loss.smoothness or 1.0)
    start, found = round(-2 * np.log2(usual)), []
    for b in batch_grid(problem.n):
        gaps: dict[int, float] = {}
        for first, by in ((start, 1), (start - 1, -1)):
            notch, bad, worse = first, 0, 0
            while bad < 4 and worse < 8:
                before = min(gaps.values(), default=np.inf)
                gap = gaps[notch] = mean_gap(problem, minimum, Entrant("rr", b, notch), epochs, seeds)
                wild = gap == np.inf and before == np.inf and by < 0  # going down from where all diverges
                bad = bad + 1 if (not gap <= 2.0 * before and not wild) or (by > 0 and gap == np.inf) else 0
                worse = worse + 1 if gap >= before and not wild else 0
                notch += by
        best = min(gaps, key=lambda k: gaps[k])
        found.append((gaps[best], b, float(2.0 ** (best / 2))))
        start = best + 1
    return min(found)


def peer_gap(problem: rs.Problem, minimum: float, X: Any, y: Any, loss: str, epochs: int, seeds: range) -> float:
    gaps = []
    for seed in seeds:
        options: dict[str, Any] = {"alpha": ALPHA, "max_iter": epochs, "tol": None, "random_state": seed}
        model = SGDClassifier(loss="log_loss", **options) if loss == "logistic" else SGDRegressor(**options)
        model.fit(X, y)
        gaps.append(problem.objective(np.r_[np.ravel(model.coef_), model.intercept_]) - minimum)
    return float(np.mean(np.maximum(gaps, 1e-15 * (1.0 + abs(minimum)))))


def compare(name: str, X: Any, y: Any, loss: str, *, form: str, seeds: range) -> dict[str, Any] | None:
    X = scaled(X) if form == "scaled" else X
    problem = rs.Problem(X, y, loss=loss, alpha=ALPHA, fit_intercept=True)
    optimum = rs.theory.measure(problem)
    began = time.process_time()
    plan = rs.plan(problem, optimum=optimum)
    seconds = time.process_time() - began
    advice = plan.advice
    if advice is None:
        return None
    entrant = Entrant(advice.order, advice.batch_size, round(2 * np.log2(advice.step_size)))
    mine = mean_gap(problem, optimum.f, entrant, advice.epochs, seeds)
    theirs, b, step = best_of_grid(problem, optimum.f, advice.epochs, seeds)
    row = {
        "data": f"{name}, {form}",
        "n": problem.n,
        "d": problem.d,
        "advice": [advice.order, advice.batch_size, advice.step_size],
        "epochs": advice.epochs,
        "reached": advice.reached,
        "relative_gap": mine / advice.gain,
        "grid": ["rr", b, step],
        "advice_over_grid": mine / theirs,
        "plan_seconds": seconds,
    }
    if form == "scaled":
        peer = peer_gap(problem, optimum.f, X, y, loss, advice.epochs, seeds)
        row["advice_over_sgdclassifier"] = mine / peer
    return row


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in ("advice_over_grid", "advice_over_sgdclassifier"):
        values = [row[key] for row in rows if key in row]
        if values:
            found[key] = {"geometric_mean": float(np.exp(np.mean(np.log(values)))), "worst": max(values), "of": len(values)}
    found["plan_seconds"] = max((row["plan_seconds"] for row in rows), default=0.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="datasets; all if none is named")
    parser.add_argument("--data", type=Path, help="folder of the files")
    parser.add_argument("--generated", type=int, default=0, help="how many made datasets, in place of files")
    parser.add_argument("--held-out", action="store_true", help="of these, the third that is not to be tuned to")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--verbose", action="store_true", help="a line for each, while it goes on, on stderr")
    asked = parser.parse_args()
    cases = generated(asked.generated, asked.held_out) if asked.generated else real(asked.data, asked.names)
    rows = []
    for name, X, y, loss in cases:
        for form in ("raw", "scaled"):
            row = compare(name, X, y, loss, form=form, seeds=range(FIRST_SEED, FIRST_SEED + asked.seeds))
            if row is not None:
                rows.append(row)
                if asked.verbose:
                    print(json.dumps(row), file=sys.stderr, flush=True)
    print(json.dumps({**summary(rows), "rows": rows}))


if __name__ == "__main__":
    main()
