"""Commands that train: Algorithm 1 with its bound, certified models, predictions."""

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import reshuffle
from reshuffle.cli import console, reading
from reshuffle.cli.application import TRAIN, command
from reshuffle.cli.options import (
    Alpha,
    AsJson,
    Base,
    BatchSize,
    Cluster,
    Device,
    Features,
    Intercept,
    JobsOfFit,
    LossName,
    Memory,
    RunOrder,
    Scale,
    Seed,
    Source,
    Strict,
    Target,
    Weight,
    whole,
)
from reshuffle.defaults import ALPHA, AUTO, INTERCEPT, SCALE


@command(TRAIN, "reshuffle run breast_cancer --batch-size 16 --epochs 20 --order balanced")
def run(
    path: Source,
    loss: LossName = AUTO,
    order: RunOrder = "rr",
    batch_size: BatchSize = 1,
    epochs: Annotated[int, typer.Option(help="Passes over the data."), whole("epochs", 1)] = 50,
    step_size: Annotated[str, typer.Option(help="theory, budget (best for these epochs), or a number.")] = "theory",
    safe: Annotated[bool, typer.Option("--safe", help="A step that every order allows, not all but 1 in 100 runs.")] = False,
    average: Annotated[str, typer.Option(help="epoch: the paper's average; weighted (alpha > 0); last; suffix.")] = "epoch",
    tol: Annotated[float | None, typer.Option(help="Stop at this certified relative gap; needs alpha > 0.")] = None,
    seed: Seed = 0,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    scale: Scale = SCALE,
    target: Target = None,
    weight: Weight = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    memory: Memory = None,
    checkpoint: Annotated[Path | None, typer.Option(help="File to write after each epoch and to go on from.")] = None,
    bound: Annotated[bool, typer.Option(help="Solve the problem too, to show the true gap beside the bound.")] = True,
    as_json: AsJson = False,
) -> None:
    """Shuffled SGD, an epoch a line, with what the theory promised beside what was reached."""
    from reshuffle.orders import make_order
    from reshuffle.solver.shuffled import check_average, check_tol

    step: Any = reading.step_size(step_size)
    check_average(average, strongly_convex=alpha > 0.0 and not intercept)
    check_tol(tol, alpha)
    source = reading.Source(path, target, weight, features, zero_based, strict, memory)
    problem, data, scaling, _ = source.problem(loss, alpha, intercept, scale, orders=[order], batch_size=batch_size)
    rule = make_order(order, problem.n, seed)
    done: list[Any] = []

    def show(epoch: Any) -> None:
        done.append(epoch)
        if not as_json:
            print(epoch, flush=True)

    options: dict[str, Any] = {"order": rule, "batch_size": batch_size, "epochs": epochs, "seed": seed, "average": average}
    try:
        with console.plain_warnings():
            optimum = _measured(problem) if bound else None
            result = reshuffle.minimize(
                problem, **options, step_size=step, safe=safe, tol=tol, optimum=optimum, checkpoint=checkpoint, callback=show
            )
            guarantee = None if optimum is None else reshuffle.Guarantee.of(problem, result, optimum)
    except KeyboardInterrupt:
        if not done:
            raise
        on = f"; the same command goes on from {checkpoint}" if checkpoint is not None else ""
        console.complain(f"interrupted after epoch {done[-1].epoch} of {epochs}{on}")
        raise typer.Exit(130) from None
    if as_json:
        promised = {} if guarantee is None else guarantee.to_dict()
        named = {"x": scaling.point_in_units(result.x).tolist(), "feature_names": data.feature_names}
        print(json.dumps(result.to_dict() | promised | named | {"scaling": scaling.choice}))
    else:
        console.show(result if guarantee is None else f"{result}\n{guarantee}")


def _measured(problem: Any) -> Any:
    """The optimum, or a line that says that there is none: training needs none."""
    try:
        return reshuffle.theory.measure(problem)
    except reshuffle.NoMinimiserError as error:
        console.say(f"nothing is promised: {error}")
        return None


@command(TRAIN, "reshuffle fit churn.csv --target churned --out churn.json")
def fit(
    path: Source,
    loss: LossName = AUTO,
    alpha: Alpha = ALPHA,
    alphas: Annotated[
        str | None, typer.Option(help="Choose alpha by cross-validation in 5 folds: auto, or values such as 0.1,0.01,0.001.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The model file to write, JSON.")] = Path("model.json"),
    tol: Annotated[float, typer.Option(help="Stop at this certified relative gap.")] = 1e-3,
    max_iter: Annotated[int, typer.Option(help="Passes over the data at most.")] = 1000,
    seed: Seed = 0,
    intercept: Intercept = INTERCEPT,
    scale: Scale = SCALE,
    target: Target = None,
    weight: Weight = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    device: Device = AUTO,
    memory: Memory = None,
    jobs: JobsOfFit = 1,
    cluster: Cluster = None,
) -> None:
    """A linear model of a dataset, certified, as a file: a classifier or a regressor, as the labels or the loss ask."""
    import numpy as np

    from reshuffle import models
    from reshuffle.estimators import from_data
    from reshuffle.records import check_output
    from reshuffle.rows.devices import MEMORY

    check_output(out, "--out")
    source = reading.Source(path, target, weight, features, zero_based, strict, memory)
    source.refuse(out, "--out")
    if alphas is None and alpha == 0.0:
        raise ValueError("--alpha 0 leaves no certificate to stop by; use --alpha 1e-8, say, or `reshuffle run --alpha 0`")
    penalty = {"alpha": alpha} if alphas is None else {"alphas": reading.alphas(alphas, alpha)}
    options: dict[str, Any] = {**penalty, "tol": tol, "max_iter": max_iter, "fit_intercept": intercept, "random_state": seed}
    options |= {"n_jobs": jobs, "verbose": int(console.verbose()), "device": device}
    from_data.checked("squared" if loss == AUTO else loss, **options)  # labels ask for no loss that could be refused
    with reading.on_cluster(cluster):
        data = source.load()
        loss = reading.loss_of(loss, data)
        with console.plain_warnings():
            model = from_data.fit(data, loss, scale, on_dask=cluster is not None, **options)
    reading.tell(model.scaling_)
    if device == AUTO and model.device_ != MEMORY:
        console.say(f"device {model.device_}, where that is faster; --device says otherwise")
    models.save(model, out)
    n, d = data.X.shape
    gap = float(np.max(model.relative_gap_))
    if alphas is not None:
        kind = "accuracy" if hasattr(model, "classes_") else "R²"
        folds, count = model.scores_.shape
        print(f"alpha {model.alpha_:.3g}, of {count} the best in {folds} folds: {kind} {model.best_score_:.4f}")
    passes = "1 pass" if model.n_iter_ == 1 else f"{model.n_iter_} passes"
    print(f"{out}: {loss} on {n} x {d}, scale {model.scaling_.kind}, {passes}, certified relative gap {gap:.1e}")


@command(TRAIN, "reshuffle predict churn.json new.csv > predicted.txt")
def predict(
    model_file: Annotated[Path, typer.Argument(help="What `reshuffle fit` wrote.")],
    path: Source,
    proba: Annotated[bool, typer.Option("--proba", help="Probabilities, under a line that names the classes.")] = False,
    target: Target = None,
    weight: Weight = None,
    zero_based: Base = None,
    strict: Strict = False,
    memory: Memory = None,
) -> None:
    """One prediction a line; if the data has labels, the score goes to stderr."""
    from reshuffle import models
    from reshuffle.estimators import from_data

    model = models.load(model_file)
    if proba and not hasattr(model, "predict_proba"):
        raise ValueError(f"--proba: loss={model.loss!r} gives no probabilities; fit with --loss logistic")
    data = from_data.load_for(model, path, target=target, weight=weight, zero_based=zero_based, strict=strict, memory=memory)
    for note in data.notes:
        console.say(note)
    with console.plain_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # they were compared above
        predicted = model.predict(data.X)
        table = [model.classes_, *model.predict_proba(data.X)] if proba else predicted[:, None]
        quality = from_data.quality(model, predicted, data.y, data.weights)
    sys.stdout.writelines("\t".join(map(str, row.tolist())) + "\n" for row in table)
    if quality is not None:
        console.say(quality, "bold", speaker="")
