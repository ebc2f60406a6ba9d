"""What one sample costs. A loss is a frozen dataclass that carries its theory: `smoothness` (L_i, where it is smooth),
`lipschitz` (G_i, where it is Lipschitz) and `task`, which says what labels it takes.

`Multinomial`, of a margin for each class, stands beside those of one margin, which `LOSSES` lists.

`get_loss("huber")` or `get_loss("huber:0.5")` reads a loss from text: its name, and its parameter where it has one.
"""

from dataclasses import fields

from reshuffle.losses.base import Loss, Task, Unit
from reshuffle.losses.classification import Hinge, Logistic, Multinomial, SmoothedHinge, SquaredHinge
from reshuffle.losses.regression import Absolute, EpsilonInsensitive, Huber, Quantile, Squared

LOSSES: dict[str, type[Loss]] = {
    kind.name: kind
    for kind in (Unit, Squared, Logistic, SmoothedHinge, SquaredHinge, Huber, Hinge, Absolute, EpsilonInsensitive, Quantile)
}

__all__ = ["LOSSES", "Loss", "Task", "Unit", "get_loss"]
__all__ += ["Absolute", "EpsilonInsensitive", "Hinge", "Huber", "Logistic", "Multinomial", "Quantile"]
__all__ += ["SmoothedHinge", "Squared", "SquaredHinge"]


def get_loss(loss: str | Loss) -> Loss:
    """The loss that a text names, as "name" or "name:parameter"; a `Loss` is returned as it is."""
    if isinstance(loss, Loss):
        return loss
    name, colon, parameter = str(loss).partition(":")
    name = name.replace("-", "_")
    if str(loss) == Multinomial.name:
        return Multinomial()
    if name not in LOSSES:
        raise ValueError(f"loss={loss!r} is not known; use one of {', '.join(LOSSES)}")
    kind = LOSSES[name]
    if not colon:
        return kind()
    if not fields(kind):
        raise ValueError(f"loss={loss!r}: {name} has no parameter; use {name!r}")
    try:
        value = float(parameter)
    except ValueError:
        raise ValueError(f"loss={loss!r}: {parameter!r} is not a number; write for example '{name}:0.5'") from None
    return kind(value)  # type: ignore[call-arg]
