"""
The shuffle of a network
========================

Data on disk often lies sorted, a folder for each class, and loaders do not shuffle it all: they keep a buffer, or read blocks and
shards. How much of the sorting is left in the order that the network sees?

The theorems ask for convexity, so for a network nothing is promised. Their noise term can be measured all the same, as a
diagnostic: how far the gradients of the samples, less their mean, stray from zero when they are summed in an order. Here it stands
beside the loss that each order trains to. It needs PyTorch: ``pip install "reshuffle[torch]"``.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits

import reshuffle as rs

torch.set_num_threads(1)
images, digits = load_digits(return_X_y=True)
by_class = np.argsort(digits, kind="stable")
X = torch.tensor(images[by_class] / 16.0, dtype=torch.float32)
y = torch.tensor(digits[by_class])
n = len(y)
ORDERS = ["rr", "blocks:32/window:8", "blocks:32", "buffer:1000", "buffer:100", "file"]


def network() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))


def train(model: Any, order: str, epochs: int) -> float:
    """The loss after so many epochs in this order. The sampler knows by itself which epoch it is in."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    loader = torch.utils.data.DataLoader(range(n), batch_size=32, sampler=rs.orders.torch_sampler(order, n, seed=0))
    for _ in range(epochs):
        for rows in loader:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(X[rows]), y[rows]).backward()
            optimiser.step()
    with torch.no_grad():
        return float(torch.nn.functional.cross_entropy(model(X), y))


# %%
# The gradient of every sample at a network that was trained for an epoch. They are 2410 numbers each here, and billions elsewhere:
# they come in chunks, and a random projection keeps 128 columns of them, which estimates each discrepancy to an eighth or better
# (one standard error).

model = network()
train(model, "rr", 1)
weights = {name: value.detach() for name, value in model.named_parameters()}


def loss_of_one(parameters: Any, x: Any, label: Any) -> Any:
    return torch.nn.functional.cross_entropy(torch.func.functional_call(model, parameters, x[None]), label[None])


def gradients(chunk: int = 256) -> Iterator[Any]:
    of_each = torch.func.vmap(torch.func.grad(loss_of_one), in_dims=(None, 0, 0))
    for low in range(0, n, chunk):
        found = of_each(weights, X[low : low + chunk], y[low : low + chunk])
        yield torch.cat([g.flatten(1) for g in found.values()], dim=1).numpy()


few = rs.orders.sketch(gradients(), columns=128)
exact = np.concatenate(list(gradients()))
print(f"{exact.shape[1]} columns, {few.shape[1]} are kept")

# %%
# The discrepancy by the sketch and by all columns, and the loss after 5 epochs. A buffer of 100 is nearly the sorted file: a class
# has 180 images. Blocks are far better at the same price for the disk, and a window over a few of them helps the network more than
# the discrepancy says, which is about the sums before each batch and not about what is in it.

for order in ORDERS:
    by_sketch, by_all = (rs.orders.discrepancy(g, order, batch_size=32, centre=True) for g in (few, exact))
    print(f"{order:<20} discrepancy {by_sketch:8.2f} ({by_all:8.2f})   loss {train(network(), order, 5):.3f}")
