"""The figures, as plain Plotly descriptions with a table of the same numbers beside each. Colours are roles ("$rr", "$ink"), which
the page fills in for light, dark and print. No string from the data goes into a figure: Plotly reads some HTML in text.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from typing import Any

from reshuffle.orders import describe
from reshuffle.reporting import sentences
from reshuffle.reporting.convergence import LARGEST, Curve
from reshuffle.reporting.dataset import Distribution
from reshuffle.reporting.numbers import Report
from reshuffle.reporting.wording import count, number


@dataclass(frozen=True)
class Figure:
    key: str
    title: str
    sentence: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def figures(report: Report) -> dict[str, Figure]:
    made = [
        _epochs(report),
        _row_norms(report),
        _feature_scales(report),
        _spread(report),
        _constants(report),
        _steps(report),
        _at_theory(report),
        _at_practical(report),
    ]
    return {figure.key: figure for figure in made}


def _epochs(report: Report) -> Figure:
    plan = report.plan
    b = [choice.batch_size for choice in plan.choices]
    textbook = [option.textbook_epochs for option in report.accuracies[report.selected].options]
    mine = [choice.epochs for choice in plan.choices]
    in_file = [choice.epochs_in_file_order for choice in plan.choices]
    data = [
        _line("random order", b, mine, "$rr", markers=True),
        _line("order of the file", b, in_file, "$ig", dash="dash", markers=True),
        _line("random order, textbook step", b, textbook, "$soft", dash="dot"),
        _point("recommended", plan.recommended.batch_size, plan.recommended.epochs),
    ]
    return Figure(
        "epochs",
        "Epochs that keep the promise, by batch size",
        sentences.epochs_by_batch(report),
        data,
        _layout(_log_axis("batch size", b), _log_axis("epochs", mine, in_file, textbook)),
        ["batch size", "step", "epochs", "in the order of the file", "with the textbook step"],
        [
            [f"{c.batch_size:,}", number(c.step_size), f"{c.epochs:,}", f"{c.epochs_in_file_order:,}", f"{t:,}"]
            for c, t in zip(plan.choices, textbook, strict=True)
        ],
    )


def _row_norms(report: Report) -> Figure:
    label = "norm of a row (intercept included)" if report.dataset.intercept else "norm of a row"
    return _histogram("rows", "How long the rows are", sentences.row_norms(report), report.dataset.row_norms, label, "rows")


def _feature_scales(report: Report) -> Figure:
    values = report.dataset.feature_scales
    label = "root mean square of a feature"
    return _histogram("features", "How large the features are", sentences.feature_scales(report), values, label, "features")


def _spread(report: Report) -> Figure:
    largest, hat, _ = sentences.symbols(report)
    label = f"{largest} / {hat}, batch size 1"
    title = f"{largest}/{hat} over random orders"
    return _histogram("spread", title, sentences.spread(report), report.spread.ratios, label, "orders")


def _histogram(key: str, title: str, sentence: str, values: Distribution, label: str, things: str) -> Figure:
    edges, counts = list(values.edges), list(values.counts)
    ranges = [f"{number(low)} to {number(high)}" for low, high in pairwise(edges)]
    trace = {
        "type": "scatter",
        "mode": "lines",
        "x": edges,
        "y": [*counts, counts[-1]],
        "text": [*ranges, ranges[-1]],
        "hovertemplate": f"%{{text}}<br>%{{y}} {things}<extra></extra>",
        "line": {"shape": "hv", "width": 1.5, "color": "$rr"},
        "fill": "tozeroy",
        "fillcolor": "$fill",
        "showlegend": False,
    }
    across = _log_axis(label, edges) if values.log else _axis(label, "linear")
    layout = _layout(across, {**_axis(things, "linear"), "rangemode": "tozero"})
    if values.median > 0.0:
        at = log10(values.median) if values.log else values.median
        layout["shapes"] = [{**_RULE, "x0": values.median, "x1": values.median}]
        layout["annotations"] = [{**_RULE_LABEL, "x": at, "text": "median"}]
    rows = [[span, f"{counted:,}"] for span, counted in zip(ranges, counts, strict=True)]
    if values.zeros:
        rows.insert(0, ["0", f"{values.zeros:,}"])
    return Figure(key, title, sentence, [trace], layout, [label, things], rows)


def _constants(report: Report) -> Figure:
    largest, hat, tilde = sentences.symbols(report)
    b = [row.batch_size for row in report.batches]
    data = [
        _line(f"{largest}/{hat} (order)", b, [row.over_hat for row in report.batches], "$rr", markers=True),
        _line(f"{largest}/{tilde} (batches)", b, [row.over_til for row in report.batches], "$ig", markers=True),
    ]
    if report.til_exponent is not None:
        ends, alpha, start = [b[0], b[-1]], report.til_exponent, report.batches[0].over_til
        data.append(_line(f"b^{alpha:.2f}", ends, [start * end**alpha for end in ends], "$soft", dash="dot"))
    return Figure(
        "constants",
        "The constants against the batch size",
        sentences.constants_by_batch(report),
        data,
        _layout(_log_axis("batch size", b), _log_axis("ratio", *(trace["y"] for trace in data))),
        ["batch size", f"{largest}/{hat}", f"{largest}/{tilde}"],
        [[f"{row.batch_size:,}", number(row.over_hat), number(row.over_til)] for row in report.batches],
    )


def _steps(report: Report) -> Figure:
    b = [row.batch_size for row in report.batches]
    name = "largest step that the theorem allows" if report.smooth else f"step for eps = {number(report.plan.eps)}"
    data = [
        _line(name, b, [row.step_size for row in report.batches], "$rr", markers=True),
        _line("textbook step", b, [row.textbook_step for row in report.batches], "$soft", dash="dot"),
    ]
    if report.step_exponent is not None:
        ends, alpha, start = [b[0], b[-1]], report.step_exponent, report.batches[0].step_size
        data.append(_line(f"b^{alpha:.2f}", ends, [start * end**alpha for end in ends], "$ig", dash="dash"))
    return Figure(
        "steps",
        "The step against the batch size",
        sentences.steps_by_batch(report),
        data,
        _layout(_log_axis("batch size", b), _log_axis("step size", *(trace["y"] for trace in data))),
        ["batch size", name, "textbook step"],
        [[f"{row.batch_size:,}", number(row.step_size), number(row.textbook_step)] for row in report.batches],
    )


def _at_theory(report: Report) -> Figure:
    run = report.convergence
    data = [_measured(curve) for curve in run.at_theory]
    columns, numbers = ["epoch"], []
    for curve in run.at_theory:
        columns.append(curve.order.upper())
        numbers.append(curve.gaps)
    for curve, name in ((run.at_theory[0], "RR and SO"), (run.at_theory[2], "IG")):
        colour = f"${curve.order}"
        for values, label, dash in ((curve.bounds, "this theory", "dash"), (curve.prior, "earlier theory", "dot")):
            if values is not None:
                data.append(_line(f"promise of {label}, {name}", _epoch_numbers(values), values, colour, dash=dash, width=1.5))
                columns.append(f"{label}, {name}")
                numbers.append(values)
    return Figure(
        "theory",
        "At the step of the theory",
        sentences.at_theory(report),
        data,
        _layout(_axis("epoch", "linear"), _log_axis("gap f − min f", *numbers), height=430),
        columns,
        _by_epoch(numbers),
        _sampling_note(report),
    )


def _at_practical(report: Report) -> Figure:
    run = report.convergence
    reference = {**_measured(run.at_theory[0]), "name": "RR at the step of the theory"}
    reference["line"] = {"color": "$soft", "width": 1.5, "dash": "dot"}
    curves = (*run.at_practical, run.at_theory[0])
    return Figure(
        "practical",
        "At the practical step",
        sentences.at_practical(report),
        [*(_measured(curve) for curve in run.at_practical), reference],
        _layout(_axis("epoch", "linear"), _log_axis("gap f − min f", *(curve.gaps for curve in curves)), height=400),
        ["epoch", "RR", "SO", "IG", "RR at the step of the theory"],
        _by_epoch([curve.gaps for curve in curves]),
        _sampling_note(report),
    )


def _sampling_note(report: Report) -> str:
    run = report.convergence
    if not run.sampled:
        return ""
    return (
        f"Measured on a random sample of {run.rows:,} of the {run.n:,} rows (seed {run.seed}), with the constants and the minimum "
        f"of that sample, because the data has more than {count(LARGEST)} entries. Everything else here is computed from all rows."
    )


def _measured(curve: Curve) -> dict[str, Any]:
    width = {"rr": 4.5, "so": 2.75, "ig": 1.5}[curve.order]  # drawn one upon the other, all three are seen where they agree
    name = f"{describe(curve.order)} ({curve.order.upper()})"
    return _line(name, _epoch_numbers(curve.gaps), curve.gaps, f"${curve.order}", width=width)


def _epoch_numbers(values: Sequence[float | None]) -> list[int]:
    return list(range(1, len(values) + 1))


def _by_epoch(numbers: list[Any]) -> list[list[str]]:
    return [[str(epoch), *map(number, row)] for epoch, row in enumerate(zip(*numbers, strict=True), 1)]


def _line(
    name: str,
    x: Sequence[float],
    y: Sequence[float | None],
    colour: str,
    *,
    dash: str = "solid",
    markers: bool = False,
    width: float = 2.0,
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "dash": dash, "width": width},
        "marker": {"color": colour, "size": 6},
        "hovertemplate": "%{y:.4g}",
    }


def _point(name: str, x: float, y: float) -> dict[str, Any]:
    marker = {"color": "$paper", "size": 13, "line": {"color": "$rr", "width": 3}}
    return {"type": "scatter", "mode": "markers", "name": name, "x": [x], "y": [y], "marker": marker, "hovertemplate": "%{y:.4g}"}


_RULE = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "$ink", "width": 1, "dash": "dot"}}
_RULE_LABEL = {"yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False, "font": {"size": 12, "color": "$soft"}}


def _axis(title: str, kind: str, decades: float = 0.0) -> dict[str, Any]:
    axis = {
        "title": {"text": title, "standoff": 8},
        "type": kind,
        "gridcolor": "$grid",
        "linecolor": "$grid",
        "zeroline": False,
        "automargin": True,
    }
    if kind == "log":
        axis |= {"exponentformat": "power", "dtick": 1 if decades >= 2.0 else "D2" if decades >= 1.0 else "D1"}
    return axis


def _log_axis(title: str, *series: Sequence[float | None]) -> dict[str, Any]:
    positive = [value for values in series for value in values if value is not None and value > 0.0]
    return _axis(title, "log", decades=log10(max(positive) / min(positive)) if positive else 0.0)


def _layout(x: dict[str, Any], y: dict[str, Any], *, height: int = 360) -> dict[str, Any]:
    return {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 24, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "$ink"},
        "hovermode": "x unified",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "$soft", "activecolor": "$ink"},
        "hoverlabel": {"bgcolor": "$paper", "bordercolor": "$grid", "font": {"color": "$ink"}},
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        "xaxis": x,
        "yaxis": y,
    }
