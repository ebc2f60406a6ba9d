"""The options of commands, each described once."""

from collections.abc import Callable, Iterable
from typing import Annotated

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
]
BatchSize = Annotated[int, typer.Option(help="Samples in a step.")]
OrderName = Annotated[
    str,
    typer.Option(
        help="rr: a new random order each epoch; so: one of them; file; paired; or what a loader does: buffer:1000, ...",
        autocompletion=_one_of(_orders),
    ),
]
RunOrder = Annotated[
    str,
    typer.Option(
        help="rr, so, ig as for constants; balanced: each epoch makes a better one for the next.",
        autocompletion=_one_of(_orders),
    ),
]
Schemes = Annotated[
    list[str] | None,
    typer.Option(
        help="An order to assess, such as file, buffer:1000 or blocks:256; may be repeated.  [default: a few usual ones]",
        autocompletion=_one_of(_orders),
    ),
]
Seed = Annotated[int, typer.Option(help="Of the permutations.")]
Alpha = Annotated[float, typer.Option(help="Weight of the regulariser (alpha/2)|x|².")]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="Add a column of ones.")]
Scale = Annotated[
    str,
    typer.Option(help="Of the data: none, std (columns), maxabs (columns), rows; auto: what trains best, in a line on stderr."),
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
Features = Annotated[int | None, typer.Option(help="svmlight: d, where the last features do not occur.")]
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
]
Permutations = Annotated[int, typer.Option(help="How many random permutations to measure.")]
Eps = Annotated[float | None, typer.Option(help="The gap f - min f to reach, in place of --tol.", show_default=False)]
PlanTol = Annotated[float, typer.Option(help="The gap to reach, relative to what there is to gain: f(best constant) - min f.")]
FailureProbability = Annotated[float | None, typer.Option(help="Report upper bounds that hold except with this probability.")]
Jobs = Annotated[int | None, typer.Option(help="Threads.  [default: all cores]")]
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
