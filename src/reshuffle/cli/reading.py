"""From the words of a command line to data and a problem; what was chosen on the way is said."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import reshuffle
from reshuffle.cli import console
from reshuffle.defaults import ALPHA, AUTO


class Posed(NamedTuple):
    """A problem that a command poses."""

    problem: Any
    data: Any  #: that it is about, as the file has it
    scaling: Any  #: what was done to that
    positive: Any  #: the class that counts as 1; None where there are none


@dataclass(frozen=True)
class Source:
    """Where data comes from, in the words of a command."""

    path: list[str]
    target: str | None
    weight: str | None
    features: int | None
    zero_based: bool | None
    strict: bool
    memory: str | None = None

    def words(self, scale: str) -> list[str]:
        """Those by which a command names this data."""
        options = {"--target": self.target, "--weight": self.weight, "--features": self.features, "--memory": self.memory}
        options |= {"--scale": scale}
        base = [] if self.zero_based is None else ["--zero-based" if self.zero_based else "--one-based"]
        return [*self.path, *(str(word) for option in options.items() if option[1] is not None for word in option), *base]

    def refuse(self, out: Path, name: str) -> None:
        """A file to write that is the data itself."""
        from reshuffle.data import files_of

        if out.exists() and any(out.samefile(file) for file in files_of(self.path, self.target, self.weight)):
            raise ValueError(f"{name} {str(out)!r} is the data that is to be read; name another file")

    def load(self) -> Any:
        """The rows that count, and on stderr what was made of words, dates and gaps, or guessed."""
        from reshuffle.data import counted

        data = reshuffle.load(self.path, **self._options)
        for note in data.notes:
            console.say(note)
        return counted(data)

    def code(self, positive: Any, weighted: bool) -> str:
        """Python that reads X, y and weights as `problem` does; `positive` is the class that is told from the rest, if any."""
        from reshuffle.snippets import reading

        return reading(self.path, self._options, positive, weighted)

    @property
    def _options(self) -> dict[str, Any]:
        """Those of `load`."""
        named = {"target": self.target, "weight": self.weight, "n_features": self.features, "zero_based": self.zero_based}
        return {**named, "strict": self.strict, "memory": self.memory}

    def problem(
        self,
        loss: str,
        alpha: float,
        intercept: bool,
        scale: str,
        device: str = "memory",
        passes: float = 0.0,
        orders: Sequence[str] = (),
        batch_size: int = 1,
    ) -> Posed:
        """Of several classes, the largest against the rest. About so many `passes` are to be made over the data; `orders` and a
        `batch_size` that do not fit it are refused as soon as that is seen.
        """
        import numpy as np

        from reshuffle.defaults import largest_against_rest
        from reshuffle.losses import get_loss
        from reshuffle.orders import make_order
        from reshuffle.rows import devices
        from reshuffle.validation import mean_one, whole_number

        data = self.load()
        n = data.X.shape[0]
        for order in orders:
            make_order(order, n, 0)
        whole_number("batch_size", batch_size, 1, n, "rows of the data")
        loss = loss_of(loss, data)
        positive = None
        if get_loss(loss).task == "classification" and data.y is not None:
            classes = np.unique(data.y).tolist()
            positive = classes[-1]
            if len(classes) > 2:
                y, positive, told = largest_against_rest(data.y)
                data = replace(data, y=y)
                console.say(told)
        y = None if loss == "unit" else data.y
        weights = None if data.weights is None else mean_one(data.weights)  # as estimators do: one file is one problem
        problem = reshuffle.Problem(data.X, y, loss=loss, alpha=alpha, sample_weight=weights, fit_intercept=intercept)
        scaling = reshuffle.scale(problem, scale)  # the same in all commands, whatever their seed
        tell(scaling)
        problem = scaling.apply(problem)
        chosen = devices.choose(device, problem.rows, passes)
        if chosen.why:
            console.say(f"device {chosen.device}, {chosen.why}; --device says otherwise")
        if chosen.device not in (None, devices.MEMORY):
            problem = problem.replace(device=chosen.device)
        return Posed(problem, data, scaling, positive)


@contextmanager
def on_cluster(address: str | None) -> Iterator[Callable[[Any], Any]]:
    """A function that moves the rows of a problem to the workers of a Dask cluster, or leaves them where no address is named."""
    if address is None:
        yield lambda problem: problem
        return
    try:
        from reshuffle.rows.dask import cluster
    except ImportError:
        raise ImportError("--cluster needs Dask: pip install 'reshuffle[dask]'") from None
    with cluster(address) as client:
        workers = len(client.nthreads())
        console.say(f"cluster of {workers} worker{'s' * (workers != 1)}; dashboard: {client.dashboard_link}")
        yield lambda problem: problem.replace(X=problem.rows.on_dask())


def tell(scaling: Any) -> None:
    """Why a scaling was chosen, where it was."""
    if scaling.reason:
        console.say(f"scale {scaling.kind}: {scaling.reason}; --scale says otherwise")


def loss_of(loss: str, data: Any) -> str:
    """The one that was asked for, or that the labels ask for, which is then said."""
    from reshuffle.defaults import loss_for

    if loss != AUTO:
        return loss
    chosen, why = loss_for(data.y, data.name)
    console.say(f"loss {chosen}, as {why}; --loss says otherwise")
    return chosen


def alphas(text: str, alpha: float) -> Any:
    """How many to choose from, or which."""
    if alpha != ALPHA:
        raise ValueError(f"--alpha {alpha:g} and --alphas {text} are two ways to say one thing; leave one out")
    if text == AUTO:
        return 10
    try:
        return [float(word) for word in text.split(",")]
    except ValueError:
        raise ValueError(f"--alphas {text} is not a list of numbers; write auto, or values such as 0.1,0.01") from None


def step_size(text: str) -> str | float:
    from reshuffle.solver.steps import check_steps

    if text in ("theory", "budget"):
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"--step-size={text!r} is neither theory nor budget nor a number") from None
    check_steps([number])
    return number
