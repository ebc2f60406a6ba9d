"""Commands on stores: data larger than memory, on disk."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from reshuffle.cli import console
from reshuffle.cli.application import KNOW, app, command
from reshuffle.cli.options import AsJson, Base, Features, Weight

store_app = typer.Typer(help="Data larger than memory: build a store on disk, look at one.", no_args_is_help=True)
app.add_typer(store_app, name="store", rich_help_panel=KNOW)

Store = Annotated[Path, typer.Argument(metavar="STORE", help="The folder of the store.")]


@command(KNOW, "reshuffle store build clicks.store part-*.svm.gz", "build", store_app)
def build(
    store: Store,
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...", help="svmlight, csv and tsv of numbers, parquet, npy, npz, h5ad, zarr; or folders, patterns."
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(help="csv, parquet: column of the labels (default: the last). npy: their file. AnnData: column of obs."),
    ] = None,
    weight: Weight = None,
    features: Features = None,
    zero_based: Base = None,
) -> None:
    """Make a store of files of any size, in one pass. The same command goes on after it was stopped."""
    from reshuffle.data.build import build_store

    options: dict[str, Any] = {"target": target, "weight": weight, "n_features": features, "zero_based": zero_based}
    try:
        with console.progress("reading", "bytes") as update:
            manifest = build_store(
                store, sources, **options, say=console.say, progress=lambda done, total: update(completed=done, total=total)
            )
    except KeyboardInterrupt:
        console.complain("interrupted; the same command goes on after the last whole block")
        raise typer.Exit(130) from None
    console.show(manifest)


@command(KNOW, "reshuffle store info clicks.store", "info", store_app)
def info(
    store: Store,
    check: Annotated[bool, typer.Option("--check", help="Read every block and compare it with its checksum.")] = False,
    as_json: AsJson = False,
) -> None:
    """What is in a store: rows, features, entries, labels, weights, blocks, types, checksums."""
    from reshuffle.data.store import Manifest, check_blocks

    manifest = Manifest.read(store)
    check_blocks(store, manifest, content=check)
    if as_json:
        print(json.dumps(asdict(manifest)))
    else:
        console.show(manifest)
