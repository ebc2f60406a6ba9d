"""What a GPU does for dense data, against its own copy speed and against the CPU of the same machine. Prints one JSON object.

    python benchmarks/gpu.py [--only NAME ...]

fraction_of_copy              bytes of A that products read a second, over the bytes that a copy on the device reads and writes:
                              the smallest of those sizes whose products stream the rows
cifar10_1000_permutations_s   of 50,000 x 3,072 bytes, and
bbbc005_1000_permutations_s   of 19,200 x 361,920 bytes: seconds after the upload, `rs.constants` as a whole
gpu_over_cpu                  permutations a second over those of the CPU, one for each of its cores at a time, or two of the
                              largest size: the smallest
largest_difference            relative, of Lhat on the GPU and on the CPU, over the permutations that both measured
sizes                         the figures of each size

Data are generated: a few strong directions and noise, as images and embeddings have. It needs a GPU that PyTorch sees.
"""

import argparse
import json
import os
import time
from functools import partial
from typing import Any

import numpy as np
import torch

import reshuffle as rs
from reshuffle.orders import make_order

SIZES = {
    "cifar10": (50_000, 3_072, torch.uint8),
    "embeddings float16": (1_000_000, 768, torch.float16),
    "embeddings float32": (1_000_000, 768, torch.float32),
    "bbbc005": (19_200, 361_920, torch.uint8),
}
PERMUTATIONS, PRODUCTS = 1000, 20
VERY_LARGE = 2e9  # entries: a permutation takes a CPU a minute, and one for each core an hour
STREAMED = ("cifar10", "embeddings float16", "embeddings float32")


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


def product_speed(A: Any) -> tuple[float, str]:
    """Bytes of A that products read a second, were each to read it twice, and the body that multiplies."""
    n = A.shape[0]
    weighted: Any = rs.Problem(A, loss="unit").rows.weighted(np.ones(n), 1e-4)
    orders = weighted.orders(make_order("rr", n, 0), range(weighted.at_once))
    together, v = weighted.together(orders, 1), torch.randn(orders.shape, device="cuda")
    taken = seconds(lambda: [together.ordered(v) for _ in range(PRODUCTS)])
    return 2 * A.nbytes * len(orders) * PRODUCTS / taken, type(weighted).__name__


def figures(name: str, copy: float) -> dict[str, Any]:
    n, d, kind = SIZES[name]
    A = generated(n, d, kind)
    speed, body = product_speed(A)
    taken = seconds(partial(rs.constants, A, permutations=PERMUTATIONS), 2)
    few = 2 if n * d > VERY_LARGE else os.cpu_count() or 1
    ours = rs.constants(A, permutations=few)
    X = A.cpu().numpy()
    del A
    torch.cuda.empty_cache()
    began = time.perf_counter()
    theirs = rs.constants(X, permutations=few)
    on_cpu = time.perf_counter() - began
    return {
        "body": body,
        "fraction_of_copy": speed / copy,
        "seconds_1000_permutations": taken,
        "cpu_seconds_a_permutation": on_cpu / few,
        "gpu_over_cpu": on_cpu / few / (taken / PERMUTATIONS),
        "largest_difference": float(np.max(np.abs(ours.hat / theirs.hat - 1.0))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=SIZES)
    chosen = parser.parse_args().only or list(SIZES)
    copy = copy_speed()
    sizes = {name: figures(name, copy) for name in chosen}
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(), "copy_tb_s": copy / 1e12}
    if any(name in sizes for name in STREAMED):
        report["fraction_of_copy"] = min(sizes[name]["fraction_of_copy"] for name in STREAMED if name in sizes)
    for name in ("cifar10", "bbbc005"):
        if name in sizes:
            report[f"{name}_1000_permutations_s"] = sizes[name]["seconds_1000_permutations"]
    report["gpu_over_cpu"] = min(size["gpu_over_cpu"] for size in sizes.values())
    report["largest_difference"] = max(size["largest_difference"] for size in sizes.values())
    print(json.dumps({**report, "sizes": sizes}, indent=1))


if __name__ == "__main__":
    main()
