"""The command line: a thin skin that parses, calls and prints. Heavy imports wait until a command runs."""

import codecs
import io
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

import reshuffle
from reshuffle.defaults import ALPHA, AUTO, INTERCEPT

app = typer.Typer(
    name="reshuffle",
    help="The theory of shuffled SGD, computed from your data.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Source = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="Files (svmlight, csv, tsv, parquet, feather, npy, npz), a folder, a pattern, - (a pipe), or a named dataset.",
    ),
]
LossName = Annotated[
    str, typer.Option(help="unit, squared, logistic, smoothed_hinge, ...; huber:0.5 sets a parameter; auto: as the labels ask.")
]
BatchSize = Annotated[int, typer.Option(help="Samples in a step.")]
OrderName = Annotated[
    str,
    typer.Option(help="rr: a new random order each epoch; so: one of them; file; paired; or what a loader does: buffer:1000, ..."),
]
RunOrder = Annotated[str, typer.Option(help="rr, so, ig as for constants; balanced: each epoch makes a better one for the next.")]
Seed = Annotated[int, typer.Option(help="Of the permutations.")]
Alpha = Annotated[float, typer.Option(help="Weight of the regulariser (alpha/2)|x|².")]
Intercept = Annotated[bool, typer.Option("--intercept/--no-intercept", help="Add a column of ones.")]
Target = Annotated[
    str | None, typer.Option(help="Tables: column of the labels (default: the last). npy: the .npy file of the labels.")
]
Strict = Annotated[bool, typer.Option("--strict", help="Tables: refuse words, dates and gaps instead of making numbers of them.")]
Features = Annotated[int | None, typer.Option(help="svmlight: d, where the last features do not occur.")]
Base = Annotated[
    bool | None,
    typer.Option(
        "--zero-based/--one-based", help="svmlight: from where indices count.  [default: guessed, with a line that says so]"
    ),
]
Permutations = Annotated[int, typer.Option(help="How many random permutations to measure.")]
Eps = Annotated[float, typer.Option(help="The gap f - min f to reach.")]
FailureProbability = Annotated[float | None, typer.Option(help="Report upper bounds that hold except with this probability.")]
Jobs = Annotated[int | None, typer.Option(help="Threads.  [default: all cores]")]
NamedDataset = Annotated[str, typer.Argument(help="A dataset that `reshuffle datasets` lists.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def main() -> None:
    """Entry point: mistakes of the user end in one line on stderr and status 2, divergence and want of memory in status 1, Ctrl-C
    in 130. Anything else is a bug of ours, which is said in one line as well; $RESHUFFLE_TRACEBACK shows where it comes from.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal may know no letters but ASCII's
            stream.reconfigure(errors="reshuffle")
    try:
        app([_current_name(word) for word in sys.argv[1:]])
    except BrokenPipeError:  # whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, ImportError, ArithmeticError) as error:
        _say(f"reshuffle: {_one_line(error)}")
        sys.exit(1 if isinstance(error, ArithmeticError) else 2)
    except MemoryError as error:
        _say(f"reshuffle: there is not enough memory for this: {_one_line(error)}; use fewer rows or features, or a larger machine")
        sys.exit(1)
    except KeyboardInterrupt:
        _say("reshuffle: interrupted before anything was finished")
        sys.exit(130)
    except Exception as error:
        if os.environ.get("RESHUFFLE_TRACEBACK"):
            raise
        _say(
            f"reshuffle: this is a bug of reshuffle: {type(error).__name__}: {_one_line(error)}; please report it in the issues of "
            "the project with this command, its data and what it prints under RESHUFFLE_TRACEBACK=1"
        )
        sys.exit(1)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _spelled(error: UnicodeError) -> tuple[str, int]:
    """Signs that the output cannot show, in letters that it can."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = {"±": "+-", "²": "^2", "½": "1/2", "≤": "<=", "·": "*", "√": "sqrt ", "π": "pi", "Λ": "Lambda", "‖": "|", "→": "->"}
    return "".join(signs.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error("reshuffle", _spelled)


def _current_name(word: str) -> str:
    if word.split("=")[0] != "--l2":
        return word
    _say("reshuffle: --l2 is called --alpha now")
    return word.replace("--l2", "--alpha", 1)


@app.callback(invoke_without_command=True)
def version(show: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    if show:
        print(reshuffle.__version__)
        raise typer.Exit


@app.command()
def constants(
    path: Source,
    loss: LossName = "unit",
    batch_size: BatchSize = 1,
    order: OrderName = "rr",
    permutations: Permutations = 100,
    seed: Seed = 0,
    tol: Annotated[float | None, typer.Option(help="Relative residual of each eigenvalue.  [default: 1e-4]")] = None,
    failure_probability: FailureProbability = None,
    alpha: Alpha = 0.0,
    intercept: Intercept = False,
    target: Target = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    jobs: Jobs = None,
    out: Annotated[Path | None, typer.Option(help="Journal of finished permutations; a stopped run goes on from it.")] = None,
    as_json: AsJson = False,
) -> None:
    """L, Lhat and Ltil of a dataset (or G, Ghat, Gtil and Gbar), and the step size that they allow."""
    from reshuffle.orders import make_order

    problem, _ = _read(path, loss, alpha, intercept, target, features, zero_based, strict)
    total = make_order(order, problem.n, seed).count or permutations
    options: dict[str, Any] = {"batch_size": batch_size, "order": order, "permutations": permutations, "seed": seed, "tol": tol}
    with _progress("permutations", "count", total) as update, _plain_warnings():
        result = reshuffle.constants(
            problem, **options, failure_probability=failure_probability, jobs=jobs, out=out, callback=lambda _: update(advance=1)
        )
    print(json.dumps(result.to_dict()) if as_json else result)
    if result.permutations < result.requested:
        _say(f"reshuffle: interrupted after {result.permutations} of {result.requested} permutations; these are their constants")
        raise typer.Exit(130)


@app.command()
def plan(
    path: Source,
    loss: LossName = AUTO,
    eps: Eps = 1e-3,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    permutations: Permutations = 10,
    seed: Seed = 0,
    target: Target = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    as_json: AsJson = False,
) -> None:
    """How to train on this data: batch size, step size, order and epochs, with the reasons."""
    problem, data = _read(path, loss, alpha, intercept, target, features, zero_based, strict)
    with _plain_warnings():
        result = reshuffle.plan(problem, eps=eps, permutations=permutations, seed=seed, feature_names=data.feature_names)
    print(json.dumps(result.to_dict()) if as_json else result)


@app.command()
def report(
    path: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    loss: LossName = AUTO,
    eps: Eps = 1e-3,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    permutations: Permutations = 10,
    seed: Seed = 0,
    target: Target = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers of the page as one JSON object.")] = False,
) -> None:
    """The plan with its reasons, figures and measured runs, as one HTML page that needs no network."""
    from reshuffle.reporting import check_before_work

    _refuse_own_data(output, path, target, "output")
    known = "squared" if loss == AUTO else loss  # labels ask for no loss that could be refused
    check_before_work(output, eps=eps, loss=known, alpha=alpha, permutations=permutations, seed=seed)
    problem, data = _read(path, loss, alpha, intercept, target, features, zero_based, strict)
    asked: dict[str, Any] = {
        "eps": eps,
        "permutations": permutations,
        "seed": seed,
        "source": _source(path, target, features, zero_based),
    }
    with _progress("reading", "stages") as update, _plain_warnings():
        result = reshuffle.report(problem, data, **asked, stage=lambda name: update(description=name))
        update(description="page")
        result.save(output)
    print(json.dumps(result.to_dict()) if as_json else output)


@app.command()
def order(
    path: Source,
    scheme: Annotated[
        list[str] | None,
        typer.Option(
            help="An order to assess, such as file, buffer:1000 or blocks:256; may be repeated.  [default: a few usual ones]"
        ),
    ] = None,
    smallest: Annotated[
        list[str] | None, typer.Option(help="buffer: the smallest that will do; blocks: the largest; may be repeated.")
    ] = None,
    within: Annotated[float, typer.Option(help="--smallest: promised epochs over those of a random order, at most.")] = 1.1,
    loss: LossName = AUTO,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    batch_size: BatchSize = 1,
    eps: Annotated[
        float | None, typer.Option(help="The gap to promise; 0.001, and any for --smallest.", show_default=False)
    ] = None,
    measure: Annotated[
        bool | None, typer.Option("--measure/--no-measure", help="Train in these orders.  [default: up to 2 million entries]")
    ] = None,
    seed: Seed = 0,
    target: Target = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A page to write, with all sizes drawn.")] = None,
    as_json: AsJson = False,
) -> None:
    """How good is this shuffle? Orders against a random one: their discrepancy, what is promised, and what is measured."""
    from reshuffle.records import check_output
    from reshuffle.reporting.page import require
    from reshuffle.reporting.shuffling import shuffling

    if output is not None:
        require()
        check_output(output)
        _refuse_own_data(output, path, target, "output")
    problem, data = _read(path, loss, alpha, intercept, target, features, zero_based, strict)
    asked: dict[str, Any] = {"batch_size": batch_size, "eps": eps, "measure": measure, "seed": seed}
    asked |= {"schemes": scheme or (), "smallest": smallest or (), "within": within, "sweep": output is not None}
    with _progress("optimum", "stages") as update, _plain_warnings():
        result = shuffling(
            problem,
            data.name,
            **asked,
            source=_source(path, target, features, zero_based),
            stage=lambda name: update(description=name),
        )
        if output is not None:
            result.save(output)
    print(json.dumps(result.to_dict()) if as_json else result)


@app.command()
def run(
    path: Source,
    loss: LossName = AUTO,
    order: RunOrder = "rr",
    batch_size: BatchSize = 1,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 50,
    step_size: Annotated[str, typer.Option(help="theory, budget (best for these epochs), or a number.")] = "theory",
    safe: Annotated[bool, typer.Option("--safe", help="A step that every order allows, not all but 1 in 100 runs.")] = False,
    average: Annotated[str, typer.Option(help="epoch: the paper's average; weighted (alpha > 0); last; suffix.")] = "epoch",
    tol: Annotated[float | None, typer.Option(help="Stop at this certified relative gap; needs alpha > 0.")] = None,
    seed: Seed = 0,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    target: Target = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    checkpoint: Annotated[Path | None, typer.Option(help="File to write after each epoch and to go on from.")] = None,
    bound: Annotated[bool, typer.Option(help="Solve the problem too, to show the true gap beside the bound.")] = True,
    as_json: AsJson = False,
) -> None:
    """Shuffled SGD, an epoch a line, with what the theory promised beside what was reached."""
    from reshuffle.orders import make_order

    problem, _ = _read(path, loss, alpha, intercept, target, features, zero_based, strict)
    rule = make_order(order, problem.n, seed)  # a name that does not fit is refused before any work
    done: list[Any] = []

    def show(epoch: Any) -> None:
        done.append(epoch)
        if not as_json:
            print(epoch, flush=True)

    step: Any = _step_size(step_size)
    options: dict[str, Any] = {"order": rule, "batch_size": batch_size, "epochs": epochs, "seed": seed, "average": average}
    try:
        with _plain_warnings():
            optimum = _measured(problem) if bound else None
            result = reshuffle.minimize(
                problem, **options, step_size=step, safe=safe, tol=tol, optimum=optimum, checkpoint=checkpoint, callback=show
            )
            guarantee = None if optimum is None else reshuffle.Guarantee.of(problem, result, optimum)
    except KeyboardInterrupt:
        if not done:
            raise
        on = f"; the same command goes on from {checkpoint}" if checkpoint is not None else ""
        _say(f"reshuffle: interrupted after epoch {done[-1].epoch} of {epochs}{on}")
        raise typer.Exit(130) from None
    if as_json:
        print(json.dumps({**result.to_dict(), **({} if guarantee is None else guarantee.to_dict())}))
    else:
        print(result if guarantee is None else f"{result}\n{guarantee}")


def _measured(problem: Any) -> Any:
    """The optimum, or a line that says that there is none: training needs none."""
    try:
        return reshuffle.theory.measure(problem)
    except reshuffle.NoMinimiserError as error:
        _say(f"reshuffle: nothing is promised: {error}")
        return None


@app.command()
def fit(
    path: Source,
    loss: LossName = AUTO,
    alpha: Alpha = ALPHA,
    out: Annotated[Path, typer.Option(help="The model file to write, JSON.")] = Path("model.json"),
    tol: Annotated[float, typer.Option(help="Stop at this certified relative gap.")] = 1e-3,
    max_iter: Annotated[int, typer.Option(help="Passes over the data at most.")] = 1000,
    seed: Seed = 0,
    intercept: Intercept = INTERCEPT,
    target: Target = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    jobs: Annotated[int, typer.Option(help="Threads for more than two classes; -1 for all cores.")] = 1,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print a line for each pass.")] = False,
) -> None:
    """A linear model of a dataset, certified, as a file: a classifier or a regressor, as the labels or the loss ask."""
    import numpy as np

    from reshuffle import models
    from reshuffle.estimators import from_data
    from reshuffle.records import check_output

    check_output(out, "--out")
    _refuse_own_data(out, path, target, "--out")
    data = _load(path, target=target, n_features=features, zero_based=zero_based, strict=strict)
    loss = _loss(loss, data)
    options: dict[str, Any] = {"alpha": alpha, "tol": tol, "max_iter": max_iter, "fit_intercept": intercept, "random_state": seed}
    with _plain_warnings():
        model = from_data.fit(data, loss, n_jobs=jobs, verbose=int(verbose), **options)
    models.save(model, out)
    n, d = data.X.shape
    gap = float(np.max(model.relative_gap_))
    passes = "1 pass" if model.n_iter_ == 1 else f"{model.n_iter_} passes"
    print(f"{out}: {loss} on {n} x {d}, {passes}, certified relative gap {gap:.1e}")


@app.command()
def predict(
    model_file: Annotated[Path, typer.Argument(help="What `reshuffle fit` wrote.")],
    path: Source,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities, under a line that names the classes.")] = False,
    target: Target = None,
    zero_based: Base = None,
    strict: Strict = False,
) -> None:
    """One prediction a line; if the data has labels, the score goes to stderr."""
    from reshuffle import models
    from reshuffle.estimators import from_data

    model = models.load(model_file)
    if proba and not hasattr(model, "predict_proba"):
        raise ValueError(f"--proba: loss={model.loss!r} gives no probabilities; fit with --loss logistic")
    data = from_data.load_for(model, path, target=target, zero_based=zero_based, strict=strict)
    for note in data.notes:
        _say(f"reshuffle: {note}")
    with _plain_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # they were compared above
        predicted = model.predict(data.X)
        table = [model.classes_, *model.predict_proba(data.X)] if proba else predicted[:, None]
        quality = from_data.quality(model, predicted, data.y)
    sys.stdout.writelines("\t".join(map(str, row.tolist())) + "\n" for row in table)
    if quality is not None:
        _say(quality)


@app.command()
def reproduce(
    target: Annotated[str, typer.Argument(help="table1, table2, chain, figure1, figure2, figure3 or all.")],
    sources: Annotated[list[str] | None, typer.Argument(help="Files or names of datasets.  [default: those of the paper]")] = None,
    permutations: Annotated[int, typer.Option(help="Of each dataset in table2 and figure3.")] = 1000,
    data: Annotated[Path | None, typer.Option(help="Folder with datasets.  [default: $RESHUFFLE_DATA, then the cache]")] = None,
    out: Annotated[Path, typer.Option(help="Folder for tables, figures and journals.")] = Path("reproduced"),
    jobs: Jobs = None,
    seed: Seed = 0,
    loss: Annotated[str, typer.Option(help="table1: the loss.")] = "logistic",
    alpha: Annotated[float, typer.Option(help="table1: weight of the regulariser.")] = 1e-3,
    batch_size: Annotated[int, typer.Option(help="table1: samples in a step.")] = 1,
) -> None:
    """The paper's tables and figures from real data, with the paper's numbers beside ours. A stopped job goes on where it was."""
    from reshuffle import experiments

    options: dict[str, Any] = {"permutations": permutations, "data": data, "out": out, "jobs": jobs, "seed": seed}
    with _progress("measuring", "share") as update, _plain_warnings():
        options |= {"start": lambda cost: update(total=cost), "advance": lambda cost: update(advance=cost)}
        try:
            outcome = experiments.reproduce(target, sources or (), loss=loss, alpha=alpha, batch_size=batch_size, **options)
        except KeyboardInterrupt:
            _say(f"reshuffle: interrupted; the same command goes on from the journals in {out / 'journals'}")
            raise typer.Exit(130) from None
    for text in outcome.said:
        print(text, end="\n\n" if "\n" in text else "\n")
    print("\n".join(f"made  {path}" for path in outcome.files))
    print(f"\n{outcome.table()}")
    for failure in outcome.failures:
        _say(f"reshuffle: failed: {failure}")
    if outcome.failures:
        raise typer.Exit(1)


datasets_app = typer.Typer(help="The datasets of the paper: list, fetch, add.", invoke_without_command=True)
app.add_typer(datasets_app, name="datasets")


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


@datasets_app.command("fetch")
def fetch_dataset(name: NamedDataset) -> None:
    """Download, verify and convert a dataset into the cache folder."""
    from reshuffle.data.fetch import fetch
    from reshuffle.data.registry import get_dataset

    dataset = get_dataset(name)
    _say(f"{dataset.name}: {dataset.note}")
    print(fetch(dataset, progress=sys.stderr.isatty(), say=_say))


@datasets_app.command("add")
def add_dataset(name: NamedDataset, path: Path) -> None:
    """Say where a dataset lies that is already on this machine; its n and d are checked."""
    from reshuffle.data.registry import add

    print(add(name, path))


def _source(path: list[str], target: str | None, features: int | None, zero_based: bool | None) -> list[str]:
    """The words by which a command names this data."""
    options = {"--target": target, "--features": features}
    base = [] if zero_based is None else ["--zero-based" if zero_based else "--one-based"]
    return [*path, *(str(word) for option in options.items() if option[1] is not None for word in option), *base]


def _read(
    path: list[str],
    loss: str,
    alpha: float,
    intercept: bool,
    target: str | None,
    features: int | None,
    zero_based: bool | None,
    strict: bool,
) -> tuple[Any, Any]:
    """The problem, and the data that it is about."""
    data = _load(path, target=target, n_features=features, zero_based=zero_based, strict=strict)
    loss = _loss(loss, data)
    y = None if loss == "unit" else data.y
    return reshuffle.Problem(data.X, y, loss=loss, alpha=alpha, fit_intercept=intercept), data


def _load(path: list[str], **options: Any) -> Any:
    """The data, and on stderr what was made of its words, dates and gaps, or guessed."""
    data = reshuffle.load(path, **options)
    for note in data.notes:
        _say(f"reshuffle: {note}")
    return data


def _loss(loss: str, data: Any) -> str:
    """The one that was asked for, or that the labels ask for, which is then said."""
    from reshuffle.defaults import loss_for

    if loss != AUTO:
        return loss
    chosen, why = loss_for(data.y, data.name)
    _say(f"reshuffle: loss {chosen}, as {why}; --loss says otherwise")
    return chosen


def _refuse_own_data(out: Path, path: list[str], target: str | None, name: str) -> None:
    from reshuffle.data import files_of

    if out.exists() and any(out.samefile(file) for file in files_of(path, target)):
        raise ValueError(f"{name} {str(out)!r} is the data that is to be read; name another file")


def _step_size(text: str) -> str | float:
    try:
        return text if text in ("theory", "budget") else float(text)
    except ValueError:
        raise ValueError(f"--step-size={text!r} is neither theory nor budget nor a number") from None


@contextmanager
def _progress(what: str, form: str, total: float | None = None) -> Iterator[Callable[..., None]]:
    """A function that changes the `description` or `total` of a display on stderr, or lets it `advance`; where that is no terminal,
    it does nothing.
    """
    if not sys.stderr.isatty():
        yield lambda **changes: None
        return
    from rich import progress as rich
    from rich.console import Console

    text, bar, left = rich.TextColumn("{task.description}"), rich.BarColumn(), rich.TimeRemainingColumn()
    forms: dict[str, tuple[rich.ProgressColumn, ...]] = {
        "stages": (rich.SpinnerColumn(), text),
        "count": (text, bar, rich.MofNCompleteColumn(), left),
        "share": (text, bar, rich.TaskProgressColumn(), left),
    }
    with rich.Progress(*forms[form], console=Console(stderr=True), transient=True) as display:
        task = display.add_task(what, total=total)
        yield lambda **changes: display.update(task, **changes)


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
