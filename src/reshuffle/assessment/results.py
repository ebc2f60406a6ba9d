"""What an assessment is: numbers, a table of them, and a sentence."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any

from reshuffle.assessment import words
from reshuffle.frames import frame
from reshuffle.records import finite
from reshuffle.wording import count, counted, factor


@dataclass(frozen=True)
class Promised:
    """What the theorems say of f - min f <= eps."""

    epochs: int  #: until it is promised
    slowdown: float  #: these epochs over those of random orders
    slowdown_at_small_eps: float  #: what that tends to as eps falls: the square root of the discrepancy
    step_size: float  #: for these epochs
    step_size_limit: float  #: the largest step allowed, as `minimize(step_size="theory")` takes it
    theorem: int  #: its number


@dataclass(frozen=True)
class Measured:
    """How runs in this order ended, beside runs in random orders at the same step."""

    epochs: int  #: of each run
    seeds: int  #: runs that means are over
    step_size: float
    multiple: int  #: the step is this many times what the theorems allow in random orders
    gaps: tuple[float, ...]  #: f - min f after every epoch, the geometric mean over the seeds; infinite where a run diverged
    gap: float  #: the geometric mean over the last quarter of the epochs
    gap_over_rr: float
    slowdown: float  #: epochs until the gap is down to three times the last one of random orders, over theirs; or infinite


@dataclass(frozen=True)
class Assessment:
    """One order against random reshuffling."""

    scheme: str  #: its name
    label: str  #: in plain words
    batch_size: int
    eps: float  #: the gap that the promise is for
    discrepancy: float  #: the mean of R_pi over that of random orders; nan where it is not known
    spread: float  #: its standard deviation over the orders drawn
    draws: int  #: orders that both are taken over
    lhat: float  #: the mean of Lhat_pi over that of random orders
    ltil: float  #: the mean of Ltil_pi over that of random orders
    promised: Promised | None
    measured: Measured | None
    unpromised: str = ""  #: why nothing is promised beforehand
    unmeasured: str = ""  #: why nothing was measured

    @property
    def advice(self) -> str:
        """What to do, in one sentence from these numbers."""
        return words.advice(self)

    def to_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON: what is not finite becomes None."""
        numbers: dict[str, Any] = finite({**asdict(self), "advice": self.advice})
        return numbers

    def __str__(self) -> str:
        return f"{words.table([self])}\n{self.advice}"


@dataclass(frozen=True)
class Assessments(Sequence[Assessment]):
    """Several orders against random reshuffling, in the order in which they were named."""

    entries: tuple[Assessment, ...]

    def __getitem__(self, index: Any) -> Any:
        """By number, or by the name of the scheme."""
        if isinstance(index, str):
            return next(entry for entry in self.entries if entry.scheme == index)
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def advice(self) -> str:
        """What to do, in one sentence from these numbers."""
        return words.advice_of_many(self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON: what is not finite becomes None."""
        return {"schemes": [entry.to_dict() for entry in self.entries], "advice": self.advice}

    def to_frame(self) -> Any:
        """A pandas.DataFrame with a row for each scheme."""
        return frame({name: [read(entry) for entry in self.entries] for name, read in _COLUMNS.items()}).set_index("scheme")

    def _repr_html_(self) -> str:
        return f"{self.to_frame().to_html(float_format='{:.3g}'.format)}<p>{self.advice}</p>"

    def __str__(self) -> str:
        return f"{words.table(self.entries)}\n{self.advice}"


def _of_promised(name: str) -> Callable[[Assessment], Any]:
    return lambda entry: nan if entry.promised is None else getattr(entry.promised, name)


def _of_measured(name: str) -> Callable[[Assessment], Any]:
    return lambda entry: nan if entry.measured is None else getattr(entry.measured, name)


_COLUMNS: dict[str, Callable[[Assessment], Any]] = {
    "scheme": lambda entry: entry.scheme,
    "discrepancy": lambda entry: entry.discrepancy,
    "spread": lambda entry: entry.spread,
    "lhat": lambda entry: entry.lhat,
    "ltil": lambda entry: entry.ltil,
    "promised_epochs": _of_promised("epochs"),
    "promised_slowdown": _of_promised("slowdown"),
    "step_size": _of_promised("step_size"),
    "step_size_limit": _of_promised("step_size_limit"),
    "measured_gap": _of_measured("gap"),
    "measured_gap_over_rr": _of_measured("gap_over_rr"),
    "measured_slowdown": _of_measured("slowdown"),
}


@dataclass(frozen=True)
class Tried:
    """A parameter that `smallest` tried."""

    parameter: int
    discrepancy: float  #: over that of random orders
    slowdown: float  #: promised


@dataclass(frozen=True)
class Smallest:
    """The least shuffling that costs hardly more than a random order: the smallest buffer, or the largest block."""

    family: str
    rows: int  #: of the data
    parameter: int
    within: float  #: promised epochs over those of random orders, at most
    eps: float | None  #: for which they are promised; None for any
    assessment: Assessment
    tried: tuple[Tried, ...]  #: by rising parameter

    @property
    def advice(self) -> str:
        """What to do, in one sentence from these numbers."""
        return f"{self._found} {self.assessment.advice}"

    @property
    def _found(self) -> str:
        to = "for any eps" if self.eps is None else f"for eps = {self.eps:g}"
        which = "largest block" if self.family == "blocks" else "smallest buffer"
        cost = f"costs at most {100 * (self.within - 1):.3g} % more promised epochs than a random order, {to},"
        return f"The {which} that {cost} has {counted(self.parameter, 'row')} of {count(self.rows)}."

    def to_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON: what is not finite becomes None."""
        numbers: dict[str, Any] = finite({**asdict(self), "assessment": self.assessment.to_dict(), "advice": self.advice})
        return numbers

    def __str__(self) -> str:
        tries = ", ".join(f"{t.parameter} ({factor(t.slowdown)})" for t in self.tried)
        return f"{self._found}\ntried (times the promised epochs of a random order): {tries}\n{self.assessment}"
