"""Commands that look at data: their constants, a plan, a report, what an order is worth."""

from pathlib import Path
from typing import Annotated, Any

import typer

import reshuffle
from reshuffle.cli import console, reading
from reshuffle.cli.application import KNOW, command
from reshuffle.cli.options import (
    Accuracy,
    Alpha,
    AsJson,
    Base,
    BatchSize,
    Cluster,
    CodeFor,
    Device,
    Eps,
    FailureProbability,
    Features,
    Intercept,
    Jobs,
    LossName,
    Memory,
    OrderName,
    Permutations,
    PlanTol,
    Scale,
    Schemes,
    Seed,
    Smallest,
    Source,
    Strict,
    Target,
    Weight,
    Within,
    gap,
)  # fmt: skip
from reshuffle.defaults import ALPHA, AUTO, INTERCEPT, SCALE, TOL


@command(KNOW, "reshuffle constants breast_cancer --batch-size 8 --permutations 20")
def constants(
    path: Source,
    loss: LossName = "unit",
    batch_size: BatchSize = 1,
    order: OrderName = "rr",
    permutations: Permutations = 100,
    seed: Seed = 0,
    tol: Accuracy = None,
    failure_probability: FailureProbability = None,
    alpha: Alpha = 0.0,
    intercept: Intercept = False,
    scale: Scale = "none",
    target: Target = None,
    weight: Weight = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    device: Device = AUTO,
    memory: Memory = None,
    jobs: Jobs = None,
    cluster: Cluster = None,
    out: Annotated[Path | None, typer.Option(help="Journal of finished permutations; a stopped run goes on from it.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One sweep and no order: L, bounds for all orders, an estimate.")] = False,
    as_json: AsJson = False,
) -> None:
    """L, Lhat and Ltil of a dataset (or G, Ghat, Gtil and Gbar), and the step size that they allow."""
    from reshuffle.orders import make_order

    source = reading.Source(path, target, weight, features, zero_based, strict, memory)
    with reading.on_cluster(cluster) as placed:
        problem, _, scaling, _ = source.problem(loss, alpha, intercept, scale, orders=[order], batch_size=batch_size)
        if quick:
            console.show(
                reshuffle.quick_constants(placed(problem), batch_size=batch_size, seed=seed), as_json, scaling=scaling.choice
            )
            return
        total = make_order(order, problem.n, seed).count or permutations
        options: dict[str, Any] = {"batch_size": batch_size, "order": order, "permutations": permutations, "seed": seed, "tol": tol}
        options |= {"failure_probability": failure_probability, "device": device, "jobs": jobs, "out": out}
        with console.progress("permutations", "count", total) as update, console.plain_warnings():
            result = reshuffle.constants(placed(problem), **options, callback=lambda _: update(advance=1))
    console.show(result, as_json, scaling=scaling.choice)
    if result.permutations < result.requested:
        console.complain(f"interrupted after {result.permutations} of {result.requested} permutations; these are their constants")
        raise typer.Exit(130)


@command(KNOW, "reshuffle plan churn.csv --target churned")
def plan(
    path: Source,
    loss: LossName = AUTO,
    tol: PlanTol = TOL,
    eps: Eps = None,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    scale: Scale = SCALE,
    permutations: Permutations = 3,
    seed: Seed = 0,
    target: Target = None,
    weight: Weight = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    device: Device = AUTO,
    memory: Memory = None,
    code_for: CodeFor = None,
    as_json: AsJson = False,
) -> None:
    """How to train on this data: batch size, step size, order and epochs that were measured here, and what is promised."""
    from reshuffle.rows.devices import PASSES_A_PLAN
    from reshuffle.snippets import check_library

    if code_for is not None:
        check_library(code_for, as_json)
    source = reading.Source(path, target, weight, features, zero_based, strict, memory)
    problem, data, scaling, positive = source.problem(loss, alpha, intercept, scale, device, PASSES_A_PLAN)
    if code_for is not None:
        check_library(code_for, weighted=problem.weighted)
    with console.plain_warnings():
        result = reshuffle.plan(problem, eps=eps, tol=tol, permutations=permutations, seed=seed, feature_names=data.feature_names)
    if code_for is not None:
        print(result.code_for(code_for, source.code(positive, result.weighted)), end="")
        return
    console.show(result if as_json else f"scale        {scaling.in_words}\n{result}", as_json, scaling=scaling.choice)


@command(KNOW, "reshuffle report churn.csv --target churned -o churn.html")
def report(
    path: Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("report.html"),
    loss: LossName = AUTO,
    tol: PlanTol = TOL,
    eps: Eps = None,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    scale: Scale = SCALE,
    permutations: Permutations = 3,
    seed: Seed = 0,
    target: Target = None,
    weight: Weight = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    memory: Memory = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers of the page as one JSON object.")] = False,
) -> None:
    """The plan with its reasons, figures and measured runs, as one HTML page that needs no network."""
    from reshuffle.reporting import check_before_work

    source = reading.Source(path, target, weight, features, zero_based, strict, memory)
    source.refuse(output, "output")
    known = "squared" if loss == AUTO else loss  # labels ask for no loss that could be refused
    check_before_work(output, eps=eps, tol=tol, loss=known, alpha=alpha, permutations=permutations, seed=seed)
    problem, data, scaling, _ = source.problem(loss, alpha, intercept, scale)
    asked: dict[str, Any] = {
        "eps": eps,
        "tol": tol,
        "permutations": permutations,
        "seed": seed,
        "source": source.words(scaling.kind),
    }
    with console.progress("reading", "stages") as update, console.plain_warnings():
        result = reshuffle.report(problem, data, **asked, stage=lambda name: update(description=name))
        update(description="page")
        result.save(output)
    if as_json:
        console.show(result, as_json)
    else:
        print(output)


@command(KNOW, "reshuffle order clicks.svm --scheme file --scheme buffer:1000 --smallest buffer")
def order(
    path: Source,
    scheme: Schemes = None,
    smallest: Smallest = None,
    within: Within = 1.1,
    loss: LossName = AUTO,
    alpha: Alpha = ALPHA,
    intercept: Intercept = INTERCEPT,
    scale: Scale = SCALE,
    batch_size: BatchSize = 1,
    eps: Annotated[
        float | None, typer.Option(help="The gap to promise; 0.001, and any for --smallest.", show_default=False), gap("eps")
    ] = None,
    measure: Annotated[
        bool | None, typer.Option("--measure/--no-measure", help="Train in these orders.  [default: up to 2 million entries]")
    ] = None,
    seed: Seed = 0,
    target: Target = None,
    weight: Weight = None,
    features: Features = None,
    zero_based: Base = None,
    strict: Strict = False,
    device: Device = AUTO,
    memory: Memory = None,
    cluster: Cluster = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A page to write, with all sizes drawn.")] = None,
    as_json: AsJson = False,
) -> None:
    """How good is this shuffle? Orders against a random one: their discrepancy, what is promised, and what is measured."""
    from reshuffle.records import check_output
    from reshuffle.reporting.page import require
    from reshuffle.reporting.shuffling import shuffling
    from reshuffle.rows.devices import PASSES_A_FIT, PASSES_A_SCHEME

    source = reading.Source(path, target, weight, features, zero_based, strict, memory)
    if output is not None:
        require()
        check_output(output)
        source.refuse(output, "output")
    passes = PASSES_A_FIT + PASSES_A_SCHEME * (len(scheme or ()) + len(smallest or ()) or 1)
    with reading.on_cluster(cluster) as placed:
        problem, data, scaling, _ = source.problem(loss, alpha, intercept, scale, device, passes, scheme or (), batch_size)
        asked: dict[str, Any] = {"batch_size": batch_size, "eps": eps, "measure": measure, "seed": seed}
        asked |= {"schemes": scheme or (), "smallest": smallest or (), "within": within, "sweep": output is not None}
        with console.progress("optimum", "stages") as update, console.plain_warnings():
            result = shuffling(
                placed(problem),
                data.name,
                **asked,
                source=source.words(scaling.kind),
                stage=lambda name: update(description=name),
            )
            if output is not None:
                result.save(output)
    console.show(result, as_json)
