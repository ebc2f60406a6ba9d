"""The command line: a thin skin that parses, calls and prints. Heavy imports wait until a command runs."""

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import reshuffle

app = typer.Typer(
    name="reshuffle",
    help="The theory of shuffled SGD, computed from your data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point: mistakes of the user end in one line on stderr and status 2, Ctrl-C in status 130."""
    try:
        app()
    except (ValueError, OSError, ImportError) as error:
        _say(f"reshuffle: {error}")
        sys.exit(2)
    except KeyboardInterrupt:
        _say("reshuffle: interrupted before anything was finished")
        sys.exit(130)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        print(reshuffle.__version__)
        raise typer.Exit


@app.command()
def constants(
    path: Annotated[str, typer.Argument(help="A data file (svmlight, csv, parquet, npy, npz) or a dataset of scikit-learn.")],
    loss: Annotated[str, typer.Option(help="unit, squared, logistic, smoothed_hinge, ...; huber:0.5 sets a parameter.")] = "unit",
    batch_size: Annotated[int, typer.Option(help="Samples in a step.")] = 1,
    order: Annotated[str, typer.Option(help="rr: random permutations; so: one of them; ig: the order of the file.")] = "rr",
    permutations: Annotated[int, typer.Option(help="How many random permutations to measure.")] = 100,
    seed: Annotated[int, typer.Option(help="Of the permutations.")] = 0,
    tol: Annotated[float | None, typer.Option(help="Relative residual of each eigenvalue.  [default: 1e-4]")] = None,
    failure_probability: Annotated[
        float | None, typer.Option(help="Report upper bounds that hold except with this probability.")
    ] = None,
    l2: Annotated[float, typer.Option(help="Weight of the regulariser (l2/2)|x|².")] = 0.0,
    intercept: Annotated[bool, typer.Option("--intercept", help="Add a column of ones.")] = False,
    target: Annotated[str | None, typer.Option(help="csv, parquet: column of the labels.  [default: the last]")] = None,
    features: Annotated[int | None, typer.Option(help="svmlight: d, where the last features do not occur.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads.  [default: all cores]")] = None,
    out: Annotated[Path | None, typer.Option(help="Journal of finished permutations; a stopped run goes on from it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """L, Lhat and Ltil of a dataset (or G, Ghat, Gtil and Gbar), and the step size that they allow."""
    data = reshuffle.load(path, target=target, n_features=features)
    labels = None if loss == "unit" else data.y
    problem = reshuffle.Problem(data.X, labels, loss=loss, l2=l2, fit_intercept=intercept)
    with _progress(permutations if order == "rr" else 1) as advance, _plain_warnings():
        result = reshuffle.constants(
            problem,
            batch_size=batch_size,
            order=order,
            permutations=permutations,
            seed=seed,
            tol=tol,
            failure_probability=failure_probability,
            jobs=jobs,
            out=out,
            callback=advance,
        )
    print(json.dumps(result.to_dict()) if as_json else result)
    if result.permutations < result.requested:
        _say(f"reshuffle: interrupted after {result.permutations} of {result.requested} permutations; these are their constants")
        raise typer.Exit(130)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[Any], None] | None]:
    """A bar on stderr if that is a terminal, nothing elsewhere."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("permutations"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("permutations", total=total)
        yield lambda _: progress.advance(task)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line on stderr, without the place in the code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        _say(f"reshuffle: warning: {warning.message}")


def _say(text: str) -> None:
    print(text, file=sys.stderr)


if __name__ == "__main__":
    main()
