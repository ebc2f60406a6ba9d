"""`Samples` whose vectors are float64 tensors on the device of their rows. A method that answers with a number waits for the device
once; no other does, save where it says so.
"""

from math import fsum, inf
from typing import Any

import torch

from reshuffle.losses.tensors import FORMS, Form
from reshuffle.orders.streams import Stream, start
from reshuffle.rows.torch_orders import fractions
from reshuffle.rows.transfer import tensor_of
from reshuffle.samples import Samples
from reshuffle.vectors import Vector

_SLACK = 1e-12  # as in `losses.loops`: rounding must not make a feasible dual point infeasible
_FEW = 4096  # numbers that the host adds up as fast as a device would


class TensorSamples(Samples):
    """Samples whose vectors are tensors."""

    labels: Any
    weights: Any

    @property
    def _form(self) -> type[Form]:
        return FORMS[type(self.loss)]

    def by_label(self) -> Samples:
        """Of numbers, all samples: to sum over them takes less time than to sort them."""
        return super().by_label() if self.loss.task == "classification" else self

    # --- vectors

    def zeros(self) -> Any:
        return torch.zeros_like(self.labels)

    def here(self, values: Vector) -> Any:
        return tensor_of(values).to(self.labels.device)

    def on_host(self, values: Any) -> Vector:
        out = torch.empty_like(values, device="cpu", pin_memory=values.is_cuda)  # new pages take longer than the way
        return out.copy_(values).numpy()  # type: ignore[no-any-return]

    def places(self, chosen: Any) -> Any:
        """It waits, to know how many there are."""
        return chosen.nonzero()[:, 0]

    def fractions(self, seed: int, stream: Stream) -> Any:
        return fractions(len(self.labels), start(seed, 0, stream), self.labels.device)

    # --- losses

    def apply(self, function: str, arguments: Any) -> Any:
        return getattr(self._form, function)(arguments, self.labels, self.loss.parameter)

    def total(self, z: Any, move: Any, length: float) -> float:
        return float((self.weights * self.apply("value", z + length * move)).sum())

    def models(self, z: Any, steep: bool) -> tuple[Any, Any]:
        slopes, curvatures = self.apply("derivative", z), self.apply("curvature", z)
        if steep:  # as `loops.bent` has it
            off = (z - self.labels).abs()
            curvatures = torch.maximum(curvatures, slopes.abs() / torch.where(off > 0.0, off, inf))
        return self.weights * slopes, self.weights * curvatures

    def unweighted(self, values: Any) -> Any:
        return torch.where(self.weights > 0.0, values / self.weights, 0.0)

    # --- dual values

    @property
    def _signs(self) -> Any:
        """That make a dual value one of the interval that all share."""
        return self.labels if self.loss.task == "classification" else 1.0

    def clipped(self, u: Any) -> Any:
        low, high, _ = self.dual_domain
        return self._signs * (self._signs * u).clip(low, high)

    def total_conjugate(self, u: Any, share: float) -> float:
        values, inside = self._conjugates_of(share * u)
        return float(torch.where(inside, (self.weights * values).sum(), inf))

    def _conjugates_of(self, u: Any) -> tuple[Any, Any]:
        """Of every sample, and whether all lie in their domain."""
        low, high, _ = self.dual_domain
        v = self._signs * u
        inside = ((v >= low - _SLACK) & (v <= high + _SLACK)).all()
        return self.apply("conjugate", self._signs * v.clip(low, high)), inside

    def sums_for_rounding(self, u: Any, reach: float, lengths: Any) -> list[float]:
        w, y, parameter, duals = self.weights, self.labels.abs(), abs(self.loss.parameter), u.abs()
        far = reach * lengths + y + parameter
        values, inside = self._conjugates_of(u)
        conjugates = torch.where(inside, (w * (values.abs() + duals * (2.0 * y + parameter))).sum(), inf)
        sums = (w * far).sum(), (w * far * far).sum(), conjugates, (w * duals).sum(), (w * duals * lengths).sum(), far.max()
        return torch.stack(sums).tolist()  # type: ignore[no-any-return]

    def balance_signs(self, u: Any) -> bool:
        terms, above = self.weights * u, u > 0.0
        up, down = compensated(torch.stack([torch.where(above, terms, 0.0), torch.where(above, 0.0, -terms)]))
        if up == down:
            return True
        u.copy_(torch.where(above == (up > down), u * (min(up, down) / max(up, down)), u))
        return False

    def imbalance(self, u: Any) -> float:
        return compensated((self.weights * u)[None])[0]


def compensated(terms: Any) -> list[float]:
    """The sum of each row, as if it were exact and then rounded, but for eps squared: halves are added to each other, what each
    addition rounds away is kept (Knuth's sum of two), and the host adds up the few numbers that are left.
    """
    lost = torch.zeros_like(terms[:, :1])
    while terms.shape[1] > _FEW:
        a, b = torch.nn.functional.pad(terms, (0, terms.shape[1] % 2)).chunk(2, 1)
        terms = a + b
        back = terms - a
        lost += ((a - (terms - back)) + (b - back)).sum(1, keepdim=True)
    return [fsum(row) for row in torch.cat([terms, lost], 1).tolist()]
