"""The command line: a thin skin that parses, calls and prints. Heavy imports wait until a command runs.

`know`, `train` and `paper` have the commands, by what a person wants; `application` what all of them share, `options` their
options, `reading` the way from words to a problem, `console` all that is printed.
"""

import sys
from typing import Annotated

import typer

import reshuffle
from reshuffle.cli import console, know, train
from reshuffle.cli.application import app

# isort: split
from reshuffle.cli import paper  # the last, as commands are listed in the order of import

__all__ = ["app", "know", "main", "paper", "train"]


def main() -> None:
    """Entry point: mistakes of the user end in one line on stderr and status 2, divergence in status 1, Ctrl-C in 130."""
    try:
        app([_current_name(word) for word in sys.argv[1:]])
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        console.complain(error)
        sys.exit(1 if isinstance(error, ArithmeticError) else 2)
    except KeyboardInterrupt:
        console.complain("interrupted before anything was finished")
        sys.exit(130)


def _current_name(word: str) -> str:
    if word.split("=")[0] != "--l2":
        return word
    console.say("--l2 is called --alpha now")
    return word.replace("--l2", "--alpha", 1)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        print(reshuffle.__version__)
        raise typer.Exit
