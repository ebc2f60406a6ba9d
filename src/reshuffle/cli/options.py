"""The options of commands, each described once, with what can be refused of it before anything is read."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer


def _one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """What a shell offers to complete a word with."""
    return lambda incomplete: [name for name in names() if name.startswith(incomplete)]


def _losses() -> Iterable[str]:
    from reshuffle.losses import LOSSES

    return ["auto", *LOSSES]


def _orders() -> Iterable[str]:
    from reshuffle.orders import SCHEMES
    from reshuffle.orders.naming import Family

    return [f"{name}:" if isinstance(entry, Family) else name for name, entry in SCHEMES.items()] + ["file"]


def _libraries() -> Iterable[str]:
    from reshuffle.snippets import TARGETS

    return TARGETS


def _datasets() -> Iterable[str]:
    from reshuffle.data.registry import DATASETS

    return DATASETS


def _targets() -> Iterable[str]:
    from reshuffle.experiments import TARGETS

    return [*TARGETS, "all"]


# --- checks: those of the library, which knows what an argument may be


def whole(name: str, smallest: int) -> Callable[[int], None]:
    def check(value: int) -> None:
        from reshuffle.validation import whole_number

        whole_number(name, value, smallest)

    return check


def _threads(value: int) -> None:
    from reshuffle.validation import threads

    threads("jobs", value)


def check_alpha(value: float) -> None:
    from reshuffle.validation import weight

    weight("alpha", value)


def gap(name: str) -> Callable[[float], None]:
    def check(value: float) -> None:
        from reshuffle.validation import gap_to_promise

        gap_to_promise(value, name)

    return check


def check_loss(value: str) -> None:
    from reshuffle.losses import get_loss

    if value != "auto":
        get_loss(value)


def _order(value: str) -> None:
    from reshuffle.orders import naming
    from reshuffle.orders.schemes import SAME, SCHEMES

    naming.read(value, SCHEMES, SAME)


def _scale(value: str) -> None:
    from reshuffle.scaling import check_kind

    check_kind(value, "--scale")


def _device(value: str) -> None:
    from reshuffle.rows import devices

    devices.check(value)


def _accuracy(value: float) -> None:
    from reshuffle.spectral.sampling import check_accuracy

    check_accuracy(value, None)


def _probability(value: float) -> None:
    from reshuffle.spectral.sampling import check_accuracy

    check_accuracy(None, value)


def _family(value: str) -> None:
    from reshuffle.assessment.study import check_family

    check_family(value)


def _within(value: float) -> None:
    from reshuffle.assessment.study import check_within

    check_within(value)


def each(check: Callable[[Any], None]) -> Callable[[Iterable[Any]], None]:
    def check_all(values: Iterable[Any]) -> None:
        for value in values:
            check(value)

    return check_all


# --- options

Source = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="Files (svmlight, csv, tsv, parquet, feather, npy, npz), a folder, a pattern, - (a pipe), a store, a named dataset.",
    ),
]
LossName = Annotated[
    str,
    typer.Option(
        help="unit, squared, logistic, smoothed_hinge, ...; huber:0.5 sets a parameter; auto: as the labels ask.",
        autocompletion=_one_of(_losses),
    ),
    check_loss,
]
BatchSize = Annotated[int, typer.Option(help="Samples in a step."), whole("batch_size", 1)]
OrderName = Annotated[
    str,
    typer.Option(
        help="rr: a new random order each epoch; so: one of them; file; paired; or what a loader does: buffer:1000, ...",
        autocompletion=_one_of(_orders),
    ),
    _order,
]
RunOrder = Annotated[
    str,
    typer.Option(
        help="rr, so, ig as for constants; balanced: each epoch makes a better one for the next.",
        autocompletion=_one_of(_orders),
    ),
    _order,
]
Schemes = Annotated[
    list[str] | None,
    typer.Option(
        help="An order to assess, such as file, buffer:1000 or blocks:256; may be repeated.  [default: a few usual ones]",
        autocompletion=_one_of(_orders),
    ),
    each(_order),
]
Smallest = Annotated[
    list[str] | None,
    typer.Option(help="buffer: the smallest that will do; blocks: the largest; may be repeated."),
    each(_family),
]
Within = Annotated[float, typer.Option(help="--smallest: promised epochs over those of a random order, at most."), _within]
Seed = Annotated[int, typer.Option(help="Of the permutations."), whole("seed", 0)]
Alpha = Annotated[float, typer.Option(help="Weight of the regulariser (alpha/2)|x|²."), check_alpha]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="Add a column of ones.")]
Scale = Annotated[
    str,
    typer.Option(help="Of the data: none, std (columns), maxabs (columns), rows; auto: what trains best, in a line on stderr."),
    _scale,
]
Target = Annotated[
    str | None, typer.Option(help="Tables: column of the labels (default: the last). npy: the .npy file of the labels.")
]
Weight = Annotated[
    str | None,
    typer.Option(
        help="Tables (in a store, AnnData too): column of row weights. npz: their array. npy: their file.", show_default=False
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Tables: refuse words, dates and gaps instead of making numbers of them.")]
Features = Annotated[int | None, typer.Option(help="svmlight: d, where the last features do not occur."), whole("n_features", 1)]
Base = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based", help="svmlight: from where indices count.  [default: guessed, with a line that says so]"
    ),
]
Memory = Annotated[str | None, typer.Option(help="Stores: memory to take, such as 2GiB.  [default: half of what is free]")]
CodeFor = Annotated[
    str | None,
    typer.Option(
        "--for", help="Print the advice as code to paste: torch, sklearn or reshuffle.", autocompletion=_one_of(_libraries)
    ),
]
Device = Annotated[
    str,
    typer.Option(help="Of dense data: auto (a GPU where one is seen and pays, in a line on stderr), memory, cuda, cuda:1, cpu."),
    _device,
]
Permutations = Annotated[int, typer.Option(help="How many random permutations to measure."), whole("permutations", 1)]
Eps = Annotated[float | None, typer.Option(help="The gap f - min f to reach, in place of --tol.", show_default=False), gap("eps")]
PlanTol = Annotated[
    float, typer.Option(help="The gap to reach, relative to what there is to gain: f(best constant) - min f."), gap("tol")
]
Accuracy = Annotated[float | None, typer.Option(help="Relative residual of each eigenvalue.  [default: 1e-4]"), _accuracy]
FailureProbability = Annotated[
    float | None, typer.Option(help="Report upper bounds that hold except with this probability."), _probability
]
Jobs = Annotated[int | None, typer.Option(help="Threads.  [default: all cores]"), whole("jobs", 1)]
JobsOfFit = Annotated[int, typer.Option(help="Threads for several classes or folds; -1 for all cores."), _threads]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Keep the rows on a Dask cluster: the address of its scheduler, such as tcp://host:8786, or local.", show_default=False
    ),
]
NamedDataset = Annotated[str, typer.Argument(help="A dataset that `reshuffle datasets` lists.", autocompletion=_one_of(_datasets))]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
PaperTarget = Annotated[
    str, typer.Argument(help="table1, table2, chain, figure1, figure2, figure3 or all.", autocompletion=_one_of(_targets))
]
