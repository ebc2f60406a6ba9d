"""The application, and what every command has: a place in the list of commands, an example, `--quiet` and `--verbose`."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from reshuffle.cli import console

KNOW, TRAIN, PAPER = "Know your data and your shuffle", "Train", "Reproduce the paper"

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result and errors, nothing else.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what is done and how long it took; trace errors.")]

app = typer.Typer(
    name="reshuffle",
    help="Shuffled SGD for linear models: how to train on your data, what your shuffle costs, what is promised and reached.",
    epilog="Begin with: reshuffle plan breast_cancer",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def command(panel: str, example: str, name: str | None = None, to: typer.Typer = app) -> Callable[[Callable[..., None]], Any]:
    """Register a command that says nothing of how much is printed: it is given both options, and `console` their answer. It begins
    when the checks that stand beside the help of its options, in `Annotated`, have let pass what was given.
    """

    def register(body: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(body)
        beside = {name: getattr(each.annotation, "__metadata__", ()) for name, each in own.parameters.items()}
        checks = [(name, check) for name, found in beside.items() for check in found if inspect.isfunction(check)]

        @functools.wraps(body)
        def run(*, quiet: bool = False, verbose: bool = False, **words: Any) -> None:
            console.set_level(quiet, verbose)
            for name, check in checks:
                if words[name] is not None:
                    check(words[name])
            body(**words)

        both = {"quiet": Quiet, "verbose": Verbose}
        added = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind) for name, kind in both.items()
        ]
        run.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
        run.__annotations__ = {**body.__annotations__, **both}
        to.command(name, rich_help_panel=panel, epilog=f"Example: {example}")(run)
        return body

    return register
