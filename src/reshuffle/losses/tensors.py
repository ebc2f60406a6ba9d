"""Smooth losses as expressions of PyTorch's, of a tensor of margins (or dual values) and one of labels: for samples whose vectors
stay on a device. They are the functions of `losses` of the same names. A loss that is not here, or a child of one that is, is
computed by the loops of the host.
"""

from typing import Any, Protocol

import torch

from reshuffle.losses.base import Loss
from reshuffle.losses.classification import Logistic, SmoothedHinge, SquaredHinge
from reshuffle.losses.regression import Huber, Squared

Tensor = Any


class Form(Protocol):
    """The functions of a loss, of tensors; see `Loss`."""

    @staticmethod
    def value(z: Tensor, y: Tensor, parameter: float) -> Tensor: ...

    @staticmethod
    def derivative(z: Tensor, y: Tensor, parameter: float) -> Tensor: ...

    @staticmethod
    def conjugate(u: Tensor, y: Tensor, parameter: float) -> Tensor: ...

    @staticmethod
    def curvature(z: Tensor, y: Tensor, parameter: float) -> Tensor: ...


class _Logistic:
    @staticmethod
    def value(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return -torch.nn.functional.logsigmoid(y * z)

    @staticmethod
    def derivative(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return -y * torch.sigmoid(-y * z)

    @staticmethod
    def conjugate(u: Tensor, y: Tensor, parameter: float) -> Tensor:
        a = (-u * y).clip(0.0, 1.0)
        return torch.xlogy(a, a) + torch.special.xlog1py(1.0 - a, -a)

    @staticmethod
    def curvature(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        small = torch.exp(-z.abs())
        return small / (1.0 + small) ** 2


class _SmoothedHinge:
    @staticmethod
    def value(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        short = 1.0 - y * z
        bent = short.clip(0.0, parameter)
        return bent / parameter * (short - 0.5 * bent)

    @staticmethod
    def derivative(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return -y * ((1.0 - y * z) / parameter).clip(0.0, 1.0)

    @staticmethod
    def conjugate(u: Tensor, y: Tensor, parameter: float) -> Tensor:
        return u * y + 0.5 * parameter * u * u

    @staticmethod
    def curvature(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        short = 1.0 - y * z
        return ((short > 0.0) & (short < parameter)).to(z.dtype) / parameter


class _SquaredHinge:
    @staticmethod
    def value(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return (1.0 - y * z).clip(min=0.0) ** 2

    @staticmethod
    def derivative(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return -2.0 * y * (1.0 - y * z).clip(min=0.0)

    @staticmethod
    def conjugate(u: Tensor, y: Tensor, parameter: float) -> Tensor:
        return u * y + 0.25 * u * u

    @staticmethod
    def curvature(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return 2.0 * (y * z < 1.0).to(z.dtype)


class _Squared:
    @staticmethod
    def value(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return 0.5 * (z - y) ** 2

    @staticmethod
    def derivative(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return z - y

    @staticmethod
    def conjugate(u: Tensor, y: Tensor, parameter: float) -> Tensor:
        return 0.5 * u * u + u * y

    @staticmethod
    def curvature(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return torch.ones_like(z)


class _Huber(_Squared):
    @staticmethod
    def value(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        off = (z - y).abs()
        bent = off.clip(max=parameter)
        return bent * (off - 0.5 * bent)

    @staticmethod
    def derivative(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return (z - y).clip(-parameter, parameter)

    @staticmethod
    def curvature(z: Tensor, y: Tensor, parameter: float) -> Tensor:
        return ((z - y).abs() < parameter).to(z.dtype)


FORMS: dict[type[Loss], type[Form]] = {
    Logistic: _Logistic, SmoothedHinge: _SmoothedHinge, SquaredHinge: _SquaredHinge, Squared: _Squared, Huber: _Huber
}  # fmt: skip
