"""The command line: a thin skin that parses, calls and prints. Heavy imports wait until a command runs.

`know`, `stores`, `train` and `paper` have the commands, by what a person wants; `application` what all of them share, `options`
their options, `reading` the way from words to a problem, `console` all that is printed.
"""

import os
import sys
from typing import Annotated

import typer

import reshuffle
from reshuffle.cli import console, know, stores, train
from reshuffle.cli.application import app

# isort: split
from reshuffle.cli import paper  # the last, as commands are listed in the order of import

_BUG = (
    "this is a bug of reshuffle: {}: {{}}; please report it in the issues of the project with this command, its data and what it "
    "prints with --verbose"
)

__all__ = ["app", "know", "main", "paper", "stores", "train"]


def main() -> None:
    """Entry point: mistakes of the user end in one line on stderr and status 2, divergence and want of memory in status 1, Ctrl-C
    in 130. Anything else is a bug of ours, which is said in one line as well; --verbose shows where it comes from.
    """
    console.spell_out()
    try:
        app([_current_name(word) for word in sys.argv[1:]])
    except BrokenPipeError:  # whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        console.complain(error)
        sys.exit(1 if isinstance(error, ArithmeticError) else 2)
    except MemoryError as error:
        console.complain(error, "there is not enough memory for this: {}; use fewer rows or features, or a larger machine")
        sys.exit(1)
    except KeyboardInterrupt:
        console.complain("interrupted before anything was finished")
        sys.exit(130)
    except Exception as error:
        console.complain(error, _BUG.format(type(error).__name__))
        sys.exit(1)


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
