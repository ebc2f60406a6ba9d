"""All that commands print. Results go to stdout, the same text in a pipe and, with colours, on a terminal; everything else to
stderr: notes and warnings (not with `--quiet`), progress (on a terminal, or as lines with `--verbose`) and errors.
"""

import codecs
import io
import json
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_QUIET, _USUAL, _VERBOSE = range(3)
_level = _USUAL
_LABEL = re.compile(r"(?P<label>\S+(?: \S+){0,2})  +\S")  # a word or three, and a gap before what they are about

_SPELLED = {"±": "+-", "²": "^2", "½": "1/2", "≤": "<=", "·": "*", "√": "sqrt ", "π": "pi", "Λ": "Lambda", "‖": "|", "→": "->"}


def set_level(quiet: bool, verbose: bool) -> None:
    global _level
    if quiet and verbose:
        raise ValueError("--quiet and --verbose cannot both be had; leave one out")
    _level = _QUIET if quiet else _VERBOSE if verbose else _USUAL


def verbose() -> bool:
    return _level == _VERBOSE


def show(result: Any, as_json: bool = False, **also: Any) -> None:
    """A result, as people read it or, with what `also` belongs to it, as one JSON object."""
    if as_json:
        print(json.dumps(result.to_dict() | also))
    elif not sys.stdout.isatty():
        print(result)
    else:
        _coloured(str(result))


def say(text: str, style: str = "dim", speaker: str = "reshuffle: ") -> None:
    """What was done with the data, or chosen for the user."""
    if _level != _QUIET:
        _to_stderr(f"{speaker}{text}", style)


def complain(error: BaseException | str, sentence: str = "{}") -> None:
    """What stopped a command, in one line; with `--verbose`, also where in the code."""
    if verbose() and isinstance(error, BaseException):
        traceback.print_exception(error)
    text = " ".join(str(error).split()) or type(error).__name__
    _to_stderr(f"reshuffle: {sentence.format(text)}", "bold red")


def spell_out() -> None:
    """A terminal may know no letters but ASCII's: signs that it cannot show are written in letters that it can."""
    codecs.register_error("reshuffle", _spelled)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="reshuffle")


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(_SPELLED.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings as one line each, without the place in the code."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for warning in caught:
        say(f"warning: {warning.message}", "yellow")


@contextmanager
def progress(what: str, form: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """A function that changes the `description` or `total` of a display on stderr, or lets it `advance`. `form` is "stages",
    "count", "share" or "bytes".
    """
    if _level == _VERBOSE:
        yield from _stages(what)
    elif _level == _QUIET or not sys.stderr.isatty():
        yield lambda **changes: None
    else:
        yield from _display(what, form, total)


def _stages(what: str) -> Iterator[Callable[..., None]]:
    """Each stage as a line, when it ends, with its seconds."""
    stage, began = what, time.perf_counter()

    def update(description: str | None = None, **changes: Any) -> None:
        nonlocal stage, began
        if description is not None and description != stage:
            say(f"{stage} took {time.perf_counter() - began:.2f} s")
            stage, began = description, time.perf_counter()

    yield update
    say(f"{stage} took {time.perf_counter() - began:.2f} s")


def _display(what: str, form: str, total: float | None) -> Iterator[Callable[..., None]]:
    from rich import progress as rich
    from rich.console import Console

    text, bar, left = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TimeRemainingColumn()
    forms: dict[str, tuple[rich.ProgressColumn, ...]] = {
        "stages": (rich.SpinnerColumn(), text),
        "count": (text, bar, rich.MofNCompleteColumn(), left),
        "share": (text, bar, rich.TaskProgressColumn(), left),
        "bytes": (text, bar, rich.DownloadColumn(), rich.TransferSpeedColumn(), left),
    }
    with rich.Progress(*forms[form], console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what, total=total)
        yield lambda **changes: display.update(task, **changes)


def _coloured(text: str) -> None:
    from rich.console import Console
    from rich.text import Text

    for line in text.split("\n"):
        drawn, label = Text(line), _LABEL.match(line)
        if label:
            drawn.stylize("bold yellow" if label["label"] == "warning" else "bold cyan", 0, label.end("label"))
        Console(highlight=False).print(drawn, soft_wrap=True)


def _to_stderr(text: str, style: str) -> None:
    if not sys.stderr.isatty():
        print(text, file=sys.stderr)
        return
    from rich.console import Console
    from rich.text import Text

    Console(stderr=True).print(Text(text, style), soft_wrap=True)
