"""What a GPU does for dense data, against its own copy speed, its link and the CPU of the same machine. Prints one JSON object.

    python benchmarks/gpu.py [--only PART ...] [--limit 120]

fraction_of_copy              bytes of A that products read a second, over the bytes that a copy on the device reads and writes:
                              the smallest of those sizes whose products stream the rows
cifar10_1000_permutations_s   of 50,000 x 3,072 bytes, and
bbbc005_1000_permutations_s   of 19,200 x 361,920 bytes: seconds after the upload, `rs.constants` as a whole
gpu_over_cpu                  permutations a second over those of the CPU, one for each of its cores at a time, or two of the
                              largest size: the smallest
largest_difference            relative, of Lhat on the GPU and on the CPU, over the permutations that both measured
sizes                         the figures of each size

batches                       seconds of 1000 permutations of 50,000 x 3,072 bytes at batch size 64, with Ltil, over those at
                              batch size 1, without
fit_over_sklearn              seconds of a certified fit of 1,000,000 x 768 float32 to a relative gap of 1e-3, with the way from the
                              host's memory and the certificate, over those of the fastest solver of scikit-learn's on the CPU that
                              came as near within --limit seconds; `fit` has all of them, and the fit of a tensor on the GPU
streaming_over_link           bytes a second of products with 1,000,000 x 768 float32 in pinned memory (margins), over those of one
                              large copy from pinned memory; `streaming` has the products of the ordered matrix as well

Data are generated: a few strong directions and noise, as images and embeddings have. It needs a GPU that PyTorch sees. Parts: the
sizes, batches, fit, streaming; each ends within ten minutes.
"""

import argparse
import json
import multiprocessing
import os
import time
import warnings
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import reshuffle as rs
from reshuffle.orders import make_order
from reshuffle.rows.torch import TorchRows
from reshuffle.solver.certified import baseline, solve

SIZES = {
    "cifar10": (50_000, 3_072, torch.uint8),
    "embeddings float16": (1_000_000, 768, torch.float16),
    "embeddings float32": (1_000_000, 768, torch.float32),
    "bbbc005": (19_200, 361_920, torch.uint8),
}
PERMUTATIONS, PRODUCTS = 1000, 20
VERY_LARGE = 2e9  # entries: a permutation takes a CPU a minute, and one for each core an hour
STREAMED = ("cifar10", "embeddings float16", "embeddings float32")
ALPHA, GAP = 1e-6, 1e-3
SOLVERS = ("lbfgs", "newton-cholesky", "sag")
TOLERANCES = (
    1e-1,
    3e-2,
    1e-2,
    3e-3,
    1e-3,
    3e-4,
    1e-4,
    1e-5,
)  # of scikit-learn, from loose to strict: the first that is enough counts


def generated(n: int, d: int, kind: Any, seed: int = 0) -> Any:
    rng = torch.Generator(device="cuda").manual_seed(seed)
    options: dict[str, Any] = {"device": "cuda", "generator": rng}
    directions = [(size, torch.randn(n, 1, **options), torch.randn(1, d, **options)) for size in (3.0, 1.5)]
    A = torch.empty((n, d), dtype=kind, device="cuda")
    each = max((1 << 28) // d, 1)
    for start in range(0, n, each):
        place = slice(start, start + each)
        rows = torch.randn(A[place].shape, **options) + sum(size * u[place] * v for size, u, v in directions)
        A[place] = (25.0 * rows + 110.0).clamp(0, 255).to(kind) if kind == torch.uint8 else rows.to(kind)
    return A


def seconds(work: Any, repeats: int = 3) -> float:
    """The best of several, after one that is not counted."""
    taken = []
    for _ in range(repeats + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - began)
    return min(taken[1:])


def copy_speed() -> float:
    source = torch.empty(1 << 32, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2.0 * int(source.nbytes) / seconds(lambda: target.copy_(source), 10)


def product_speed(rows: Any) -> tuple[float, str]:
    """Bytes of A that products read a second, were each to read it twice, and the body that multiplies."""
    n = rows.n
    weighted: Any = rows.weighted(np.ones(n), 1e-4)
    orders = weighted.orders(make_order("rr", n, 0), range(weighted.at_once))
    together, v = weighted.together(orders, 1), torch.randn(orders.shape, device="cuda")
    taken = seconds(lambda: [together.ordered(v) for _ in range(PRODUCTS)])
    return 2 * rows.matrix.nbytes * len(orders) * PRODUCTS / taken, type(weighted).__name__


def figures(name: str, copy: float) -> dict[str, Any]:
    n, d, kind = SIZES[name]
    A = generated(n, d, kind)
    speed, body = product_speed(rs.Problem(A, loss="unit").rows)
    taken = seconds(partial(rs.constants, A, permutations=PERMUTATIONS), 2)
    few = 2 if n * d > VERY_LARGE else os.cpu_count() or 1
    ours = rs.constants(A, permutations=few)
    X = A.cpu().numpy()
    del A
    torch.cuda.empty_cache()
    began = time.perf_counter()
    theirs = rs.constants(X, permutations=few, device="memory")
    on_cpu = time.perf_counter() - began
    return {
        "body": body,
        "fraction_of_copy": speed / copy,
        "seconds_1000_permutations": taken,
        "cpu_seconds_a_permutation": on_cpu / few,
        "gpu_over_cpu": on_cpu / few / (taken / PERMUTATIONS),
        "largest_difference": float(np.max(np.abs(ours.hat / theirs.hat - 1.0))),
    }


def batches() -> float:
    A = generated(*SIZES["cifar10"])
    alone, with_batches = (seconds(partial(rs.constants, A, permutations=PERMUTATIONS, batch_size=b), 1) for b in (1, 64))
    return with_batches / alone


def streaming() -> dict[str, float]:
    n, d, kind = SIZES["embeddings float32"]
    host = generated(n, d, kind).cpu().pin_memory()
    device = torch.device("cuda", torch.cuda.current_device())
    link = host.nbytes / seconds(partial(torch.empty_like(host, device=device).copy_, host, non_blocking=True), 5)
    torch.cuda.empty_cache()
    rows, x, some = TorchRows(host, (device,), resident=False), np.ones(d), np.random.default_rng(0).permutation(n)[: n // 4]
    return {
        "link_gb_s": link / 1e9,
        "margins_over_link": host.nbytes / seconds(lambda: rows.margins(x)) / link,
        "margins_of_a_quarter_over_link": host.nbytes / 4 / seconds(lambda: rows.margins(x, some)) / link,
        "ordered_products_over_link": product_speed(rows)[0] / link,
    }


def fit(limit: float) -> dict[str, Any]:
    A = generated(*SIZES["embeddings float32"])
    rng = np.random.default_rng(0)
    z = (A @ torch.randn(A.shape[1], device="cuda") / 30.0).cpu().numpy()
    X, y = A.cpu().numpy(), np.where(z - z.mean() + rng.logistic(size=z.size) > 0.0, 1, -1)
    problem = rs.Problem(A, y, alpha=ALPHA, fit_intercept=True)
    best, constant = solve(problem, tol=1e-6), baseline(problem).f

    def relative(x: Any) -> float:
        """The gap over what there is to gain, at most."""
        return (problem.objective(x) - best.f + best.gap) / (constant - best.f)

    model = rs.CertifiedClassifier(alpha=ALPHA, tol=GAP, random_state=0, device="cuda")
    report: dict[str, Any] = {"seconds": seconds(lambda: model.fit(X, y), 2), "passes": model.n_iter_}
    report |= {"relative_gap": relative(np.append(model.coef_, model.intercept_)), "certified": float(model.relative_gap_)}
    report["seconds_of_a_tensor_on_the_gpu"] = seconds(lambda: model.fit(A, y), 2)
    with TemporaryDirectory() as folder:
        np.savez(f"{folder}/data.npz", X=X, y=y)
        report["sklearn"] = {solver: peer(solver, f"{folder}/data.npz", relative, limit) for solver in SOLVERS}
    fastest = min((peer["seconds"] for peer in report["sklearn"].values() if peer is not None), default=None)
    return {**report, "fit_over_sklearn": None if fastest is None else report["seconds"] / fastest}


def peer(solver: str, file: str, relative: Any, limit: float) -> dict[str, float] | None:
    """The loosest tolerance at which a solver comes near enough, and its seconds; None where none does within the limit, which all
    tolerances share. A solver is a process of its own, as inside compiled code it can be stopped in no other way.
    """
    context: Any = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_peer, args=(solver, file, send), daemon=True)
    child.start()
    receive.recv()  # the data is read
    ends, best = time.perf_counter() + limit, None
    while best is None and receive.poll(max(ends - time.perf_counter(), 0.0)):
        taken, tol, x = receive.recv()
        gap = relative(x)
        best = {"seconds": taken, "tol": tol, "relative_gap": gap} if gap <= GAP else None
        if best is None and tol == TOLERANCES[-1]:
            break
    child.terminate()
    child.join()
    return best


def _peer(solver: str, file: str, send: Any) -> None:
    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")
    with np.load(file) as data:
        X, y = data["X"], data["y"]
    send.send("ready")
    for tol in TOLERANCES:
        model = LogisticRegression(C=1.0 / (ALPHA * y.size), solver=solver, tol=tol, max_iter=10_000, random_state=0)
        began = time.perf_counter()
        model.fit(X, y)
        send.send((time.perf_counter() - began, tol, np.append(model.coef_, model.intercept_).astype(np.float64)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[*SIZES, "batches", "fit", "streaming"], metavar="PART")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each solver of scikit-learn's")
    options = parser.parse_args()
    chosen = options.only or [*SIZES, "batches", "fit", "streaming"]
    report: dict[str, Any] = {"device": torch.cuda.get_device_name()}
    if "fit" in chosen:
        report["fit"] = fit(options.limit)
        report["fit_over_sklearn"] = report["fit"]["fit_over_sklearn"]
        torch.cuda.empty_cache()
    if "streaming" in chosen:
        report["streaming"] = streaming()
        report["streaming_over_link"] = report["streaming"]["margins_over_link"]
    if "batches" in chosen:
        report["batches"] = batches()
    if any(name in chosen for name in SIZES):
        report |= of_sizes([name for name in SIZES if name in chosen])
    print(json.dumps(report, indent=1))


def of_sizes(chosen: list[str]) -> dict[str, Any]:
    copy = copy_speed()
    sizes = {name: figures(name, copy) for name in chosen}
    report: dict[str, Any] = {"copy_tb_s": copy / 1e12}
    if any(name in sizes for name in STREAMED):
        report["fraction_of_copy"] = min(sizes[name]["fraction_of_copy"] for name in STREAMED if name in sizes)
    for name in ("cifar10", "bbbc005"):
        if name in sizes:
            report[f"{name}_1000_permutations_s"] = sizes[name]["seconds_1000_permutations"]
    report["gpu_over_cpu"] = min(size["gpu_over_cpu"] for size in sizes.values())
    report["largest_difference"] = max(size["largest_difference"] for size in sizes.values())
    return {**report, "sizes": sizes}


if __name__ == "__main__":
    main()
