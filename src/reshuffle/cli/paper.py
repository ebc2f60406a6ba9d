"""The paper's tables, figures and datasets."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from reshuffle.cli import console
from reshuffle.cli.application import PAPER, app, command
from reshuffle.cli.options import Device, Jobs, NamedDataset, PaperTarget, Seed, check_alpha, check_loss, whole


@command(PAPER, "reshuffle reproduce table2 --permutations 20")
def reproduce(
    target: PaperTarget,
    sources: Annotated[list[str] | None, typer.Argument(help="Files or names of datasets.  [default: those of the paper]")] = None,
    permutations: Annotated[int, typer.Option(help="Of each dataset in table2 and figure3."), whole("permutations", 1)] = 1000,
    data: Annotated[Path | None, typer.Option(help="Folder with datasets.  [default: $RESHUFFLE_DATA, then the cache]")] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and journals.")] = Path("reproduced"),
    jobs: Jobs = None,
    device: Device = "auto",
    seed: Seed = 0,
    loss: Annotated[str, typer.Option(help="table1: the loss."), check_loss] = "logistic",
    alpha: Annotated[float, typer.Option(help="table1: weight of the regulariser."), check_alpha] = 1e-3,
    batch_size: Annotated[int, typer.Option(help="table1: samples in a step."), whole("batch_size", 1)] = 1,
) -> None:
    """The paper's tables and figures from real data, with the paper's numbers beside ours. A stopped job goes on where it was."""
    from reshuffle import experiments

    options: dict[str, Any] = {"permutations": permutations, "data": data, "out": out, "jobs": jobs, "seed": seed, "device": device}
    with console.progress("measuring", "share") as update, console.plain_warnings():
        options |= {"start": lambda cost: update(total=cost), "advance": lambda cost: update(advance=cost)}
        try:
            outcome = experiments.reproduce(target, sources or (), loss=loss, alpha=alpha, batch_size=batch_size, **options)
        except KeyboardInterrupt:
            console.complain(f"interrupted; the same command goes on from the journals in {out / 'journals'}")
            raise typer.Exit(130) from None
    for text in outcome.said:
        print(text, end="\n\n" if "\n" in text else "\n")
    print("\n".join(f"made  {path}" for path in outcome.files))
    print(f"\n{outcome.table()}")
    for failure in outcome.failures:
        console.complain(f"failed: {failure}")
    if outcome.failures:
        raise typer.Exit(1)


datasets_app = typer.Typer(help="The datasets of the paper: list, fetch, add.", invoke_without_command=True)
app.add_typer(datasets_app, name="datasets", rich_help_panel=PAPER)


@datasets_app.callback()
def list_datasets(
    context: typer.Context, data: Annotated[Path | None, typer.Option(help="Folder to look in first.")] = None
) -> None:
    """All datasets of the paper's table, and where those that are present lie."""
    if context.invoked_subcommand is not None:
        return
    from reshuffle.data.registry import DATASETS, locate

    for dataset in DATASETS.values():
        place = locate(dataset.name, data)
        where = f"present  {place}" if place is not None else f"missing  reshuffle datasets fetch {dataset.name}"
        print(f"{dataset.name:<11}{dataset.n:>7} x {dataset.d:<8} {where}")


@command(PAPER, "reshuffle datasets fetch a9a", "fetch", datasets_app)
def fetch_dataset(name: NamedDataset) -> None:
    """Download, verify and convert a dataset into the cache folder."""
    from reshuffle.data.fetch import fetch
    from reshuffle.data.registry import get_dataset

    dataset = get_dataset(name)
    console.say(dataset.note, speaker=f"{dataset.name}: ")
    print(fetch(dataset, progress=sys.stderr.isatty(), say=lambda text: console.say(text, speaker="")))


@command(PAPER, "reshuffle datasets add a9a ~/data/a9a.txt", "add", datasets_app)
def add_dataset(name: NamedDataset, path: Path) -> None:
    """Say where a dataset lies that is already on this machine; its n and d are checked."""
    from reshuffle.data.registry import add

    print(add(name, path))
