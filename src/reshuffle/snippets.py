"""The advice of a plan as code to paste: for PyTorch, for scikit-learn, or for this library. What it does is what was measured, as
far as the other library can: scikit-learn takes one row at a time, and only this one makes balanced orders.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from reshuffle.losses import get_loss

if TYPE_CHECKING:
    from reshuffle.advising import Advice, Setting

#: Of the loss, with z for the margins, y for the labels and {parameter} for its own.
_IN_TORCH = {
    "logistic": "torch.nn.functional.softplus(-y * z)",
    "hinge": "torch.relu(1 - y * z)",
    "squared_hinge": "torch.relu(1 - y * z) ** 2",
    "smoothed_hinge": "torch.nn.functional.smooth_l1_loss(torch.relu(1 - y * z), 0 * z, reduction='none', beta={parameter})",
    "squared": "0.5 * (z - y) ** 2",
    "huber": "torch.nn.functional.huber_loss(z, y, reduction='none', delta={parameter})",
    "absolute": "torch.abs(z - y)",
    "epsilon_insensitive": "torch.relu(torch.abs(z - y) - {parameter})",
    "quantile": "torch.maximum({parameter} * (y - z), ({parameter} - 1) * (y - z))",
}
#: scikit-learn's estimator, what it calls the loss, and its epsilon: none, a number, or the loss's own parameter.
_IN_SKLEARN: dict[str, tuple[str, str, float | str | None]] = {
    "logistic": ("SGDClassifier", "log_loss", None),
    "hinge": ("SGDClassifier", "hinge", None),
    "squared_hinge": ("SGDClassifier", "squared_hinge", None),
    "squared": ("SGDRegressor", "squared_error", None),
    "huber": ("SGDRegressor", "huber", "parameter"),
    "absolute": ("SGDRegressor", "epsilon_insensitive", 0.0),
    "epsilon_insensitive": ("SGDRegressor", "epsilon_insensitive", "parameter"),
}
_SCALED = {
    "none": "",
    "std": "X = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)\n",
    "maxabs": "X = X / np.where(np.abs(X).max(axis=0) > 0, np.abs(X).max(axis=0), 1)\n",
    "rows": "X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)\n",
}
_SCALERS = {"std": "StandardScaler", "maxabs": "MaxAbsScaler", "rows": "Normalizer"}


def reading(path: Sequence[str], options: Mapping[str, Any], positive: Any = None, weighted: bool = False) -> str:
    """Code that reads X, y and weights, if there are any, as a command does; `positive` is the class that is told from the rest."""
    source = repr(path[0] if len(path) == 1 else list(path))
    given = "".join(f", {name}={value!r}" for name, value in options.items() if value not in (None, False))
    labels = "data.y" if positive is None else f"np.where(data.y == {positive!r}, 1.0, -1.0)"
    weights = "weights = data.weights / data.weights[data.weights > 0].mean()\n" if weighted else ""
    return f"data = rs.load({source}{given})\nX, y = data.X, {labels}\n{weights}"


def snippet(
    target: str, *, read: str, loss: str, alpha: float, fit_intercept: bool, scale: str, weighted: bool, advice: "Advice"
) -> str:
    """Code for "torch", "sklearn" or "reshuffle" that trains as advised; `read` is code that makes X, y and, if asked, weights."""
    check_library(target, weighted=weighted)
    facts: dict[str, Any] = {"loss": loss, "alpha": alpha, "fit_intercept": fit_intercept, "scale": scale}
    if weighted:  # which one of them takes
        facts["weighted"] = True
    return TARGETS[target](read, advice, **facts)


def check_library(target: str, as_json: bool = False, weighted: bool = False) -> None:
    if target not in TARGETS:
        raise ValueError(f"there is no code for {target!r}; use one of {', '.join(TARGETS)}")
    if as_json:
        raise ValueError(f"--for {target} prints code and --json numbers; leave one out")
    if weighted and target != "reshuffle":
        raise ValueError(f"there is no code for {target!r} where rows have weights; use 'reshuffle'")


def _for_reshuffle(
    read: str, advice: "Advice", *, loss: str, alpha: float, fit_intercept: bool, scale: str, weighted: bool = False
) -> str:
    weights = ", sample_weight=weights" if weighted else ""
    problem = f"rs.Problem(X, y, loss={loss!r}, alpha={alpha!r}{weights}, fit_intercept={fit_intercept})"
    scaled = "" if scale == "none" else f"problem = rs.scale(problem, {scale!r}).apply(problem)\n"
    arguments = ", ".join(f"{name}={value!r}" for name, value in advice.arguments.items())
    return f"""import numpy as np
import reshuffle as rs

{read}problem = {problem}
{scaled}run = rs.minimize(problem, {arguments})
print(run)  # f after every epoch, and how far from min f it is at most
"""


def _for_torch(read: str, advice: "Advice", *, loss: str, alpha: float, fit_intercept: bool, scale: str) -> str:
    setting = advice.in_random_order
    formula = _formula(_IN_TORCH, loss, "PyTorch")
    decay = f'{{"params": [model.weight], "weight_decay": {alpha!r}}}'
    parameters = f'[{decay}, {{"params": [model.bias]}}]' if fit_intercept else f"[{decay}]"
    zeros = "\ntorch.nn.init.zeros_(model.bias)" if fit_intercept else ""
    return f"""import numpy as np
import reshuffle as rs
import torch

{read}X = np.asarray(X.todense() if hasattr(X, "todense") else X, dtype=np.float64)
{_SCALED[scale]}X, y = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)

sampler = rs.orders.torch_sampler({setting.order!r}, len(X), seed={advice.seed})
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size={setting.batch_size}, sampler=sampler)
model = torch.nn.Linear(X.shape[1], 1, bias={fit_intercept})
torch.nn.init.zeros_(model.weight){zeros}
optimiser = torch.optim.SGD({parameters}, lr={setting.step_size!r})


def losses(z, y):
    return {formula}


for epoch in range({setting.epochs}):
    for rows, labels in loader:
        optimiser.zero_grad()
        (losses(model(rows)[:, 0], labels).sum() / {setting.batch_size}).backward()
        optimiser.step()
    with torch.no_grad():
        f = losses(model(X)[:, 0], y).mean() + {alpha!r} / 2 * model.weight.square().sum()
    print(f"epoch {{epoch + 1}}: f = {{f:.6f}}")
"""


def _for_sklearn(read: str, advice: "Advice", *, loss: str, alpha: float, fit_intercept: bool, scale: str) -> str:
    setting = _one_row_at_a_time(advice)
    name, named = in_sklearn(loss)
    arguments = ", ".join(f"{key}={json.dumps(value)}" for key, value in named.items())
    scaler = _SCALERS.get(scale)
    scalers = f"from sklearn.preprocessing import {scaler}\n" if scaler else ""
    filled = 'X = X.toarray() if hasattr(X, "toarray") else X  # centred columns are not sparse\n' if scale == "std" else ""
    pipeline = f"{scaler}(), " if scaler else ""
    return f"""import numpy as np
import reshuffle as rs
from sklearn.linear_model import {name}
from sklearn.pipeline import make_pipeline
{scalers}
{read}{filled}sgd = {name}(
    {arguments}, alpha={alpha!r}, fit_intercept={fit_intercept},
    learning_rate="constant", eta0={setting.step_size!r}, max_iter={setting.epochs}, tol=None, random_state={advice.seed},
)
model = make_pipeline({pipeline}sgd).fit(X, y)
print(f"score on the data itself: {{model.score(X, y):.4f}}")
"""


def in_sklearn(loss: str) -> tuple[str, dict[str, Any]]:
    """The name of scikit-learn's estimator by SGD, and its arguments for the loss."""
    name, called, epsilon = _entry(_IN_SKLEARN, loss, "scikit-learn's SGD")
    if epsilon == "parameter":
        epsilon = get_loss(loss).parameter
    return name, {"loss": called} if epsilon is None else {"loss": called, "epsilon": epsilon}


def _one_row_at_a_time(advice: "Advice") -> "Setting":
    tried = [
        setting for setting in advice.settings if setting.batch_size == 1 and setting.order == "rr" and math.isfinite(setting.gap)
    ]
    if not tried:
        raise ValueError(
            "--for sklearn: one row at a time, which is all it knows, diverged here at every step; use torch or reshuffle"
        )
    return min(tried, key=lambda setting: setting.gap)


def _formula(table: Mapping[str, str], loss: str, where: str) -> str:
    return _entry(table, loss, where).format(parameter=get_loss(loss).parameter)  # type: ignore[no-any-return]


def _entry(table: Mapping[str, Any], loss: str, where: str) -> Any:
    name = get_loss(loss).name
    if name not in table:
        raise ValueError(f"loss={loss!r} has no code for {where} yet; use one of {', '.join(table)}, or --for reshuffle")
    return table[name]


TARGETS = {"torch": _for_torch, "sklearn": _for_sklearn, "reshuffle": _for_reshuffle}
