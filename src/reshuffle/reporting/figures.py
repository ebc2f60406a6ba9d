"""The figures, as plain Plotly descriptions with a table of the same numbers beside each. Colours are roles ("$rr", "$ink"), which
the page fills in for light, dark and print. No string from the data goes into a figure: Plotly reads some HTML in text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, log10
from typing import Any

from reshuffle.orders import describe
from reshuffle.reporting import sentences
from reshuffle.reporting.convergence import LARGEST, Curve
from reshuffle.reporting.dataset import Distribution
from reshuffle.reporting.numbers import Report
from reshuffle.wording import count, counted, number

Trace = dict[str, Any]
Gaps = Sequence[float | None]


@dataclass(frozen=True)
class Figure:
    key: str
    title: str
    sentence: str
    data: list[Trace]
    layout: dict[str, Any]
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def figures(report: Report) -> dict[str, Figure]:
    data, (largest, hat, _) = report.dataset, sentences.symbols(report)
    norm = "norm of a row (intercept included)" if data.intercept else "norm of a row"
    size, ratio = "root mean square of a feature", f"{largest} / {hat}, batch size 1"
    rows, features, orders = data.row_norms, data.feature_scales, report.spread.ratios
    made = [
        _by_epochs_spent(report),
        _by_seconds_spent(report),
        _by_batch_size(report),
        _landscape(report),
        _epochs(report),
        _histogram("rows", "How long the rows are", sentences.row_norms(report), rows, norm, "rows"),
        _histogram("features", "How large the features are", sentences.feature_scales(report), features, size, "features"),
        _histogram("spread", f"{largest}/{hat} over random orders", sentences.spread(report), orders, ratio, "orders"),
        _constants(report),
        _steps(report),
        _at_theory(report),
        _at_advised(report),
    ]
    return {figure.key: figure for figure in made}


_RIVALS = ("$rr", "$soft", "$so", "$ig")  # the advice first


def _by_epochs_spent(report: Report) -> Figure:
    data = [
        line(rival.name, range(1, len(rival.gaps) + 1), rival.gaps, colour, width=2.0 if k else 4.0)
        for k, (rival, colour) in enumerate(zip(report.rivals, _RIVALS, strict=False))
    ]
    columns = {rival.name: rival.gaps for rival in report.rivals}
    title = "The advice, and training without it"
    return by_epoch("rivals", title, sentences.rivals_by_epoch(report), data, columns, height=400)


def _by_seconds_spent(report: Report) -> Figure:
    data = [
        line(rival.name, rival.seconds, rival.gaps, colour, markers=True, width=2.0 if k else 4.0)
        for k, (rival, colour) in enumerate(zip(report.rivals, _RIVALS, strict=False))
    ]
    x, y = (
        log_axis(name, *(trace[axis] for trace in data))
        for name, axis in (("seconds of training on one core", "x"), ("gap f − min f", "y"))
    )
    form = {**layout(x, y, height=400), "hovermode": "closest"}
    rows = [
        [f"{rival.name}, epoch {epoch}", number(seconds), number(gap)]
        for rival in report.rivals
        for epoch, (seconds, gap) in enumerate(zip(rival.seconds, rival.gaps, strict=True), 1)
    ]
    title = "The same by the clock"
    return Figure("clock", title, sentences.rivals_by_clock(report), data, form, ["run", "seconds", "gap"], rows)


def _landscape(report: Report) -> Figure:
    drawn, advice = report.landscape, report.plan.advice
    assert advice is not None
    sizes, steps = [f"{b:,}" for b in drawn.batch_sizes], [number(step) for step in drawn.steps]
    shares = [[None if gap is None else 100.0 * gap for gap in row] for row in drawn.gaps]
    z = [[None if share is None else log10(min(share, 1000.0)) for share in row] for row in shares]
    known = [height for row in z for height in row if height is not None]
    ticks = sorted({round(height) for height in known})
    heat = {
        "type": "heatmap",
        "x": steps,
        "y": sizes,
        "z": z,
        "text": [["diverged" if share is None else f"{share:.3g} %" for share in row] for row in shares],
        "hovertemplate": "batch size %{y}, step %{x}: %{text}<extra></extra>",
        "colorscale": [[0, "$rr"], [1, "$back"]],
        "colorbar": {
            "title": {"text": "left to gain", "side": "right"},
            "tickvals": ticks,
            "ticktext": [f"{10.0**tick:g} %" for tick in ticks],
            "thickness": 14,
            "outlinewidth": 0,
        },
        "xgap": 1,
        "ygap": 1,
    }
    gone = [
        (step, size)
        for size, row in zip(sizes, drawn.gaps, strict=True)
        for step, gap in zip(steps, row, strict=True)
        if gap is None
    ]
    cross = {"symbol": "x-thin", "size": 7, "line": {"color": "$soft", "width": 1.5}}
    data = [heat]
    if gone:
        at = {"x": [step for step, _ in gone], "y": [size for _, size in gone]}
        data.append({"type": "scatter", "mode": "markers", "name": "diverged", **at, "marker": cross, "hoverinfo": "skip"})
    best = advice.in_random_order
    if best.batch_size in drawn.batch_sizes:
        marker = {"color": "$ink", "symbol": "square-open", "size": 15, "line": {"width": 2.5}}
        here = {"x": [number(best.step_size)], "y": [f"{best.batch_size:,}"]}
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "advised in random orders",
                **here,
                "marker": marker,
                "hoverinfo": "skip",
            }
        )
    form = layout(_axis("step size", type="category"), _axis("batch size", type="category"), height=max(320, 22 * len(sizes) + 120))
    form["hovermode"] = "closest"
    rows = [
        [size, *("diverged" if share is None else f"{share:.3g} %" for share in row)]
        for size, row in zip(sizes, shares, strict=True)
    ]
    note = (
        ""
        if drawn.rows == report.dataset.n
        else f"Measured on a random sample of {drawn.rows:,} of the {report.dataset.n:,} rows, with the minimum of that sample."
    )
    title = f"Every batch size with every step, after {counted(drawn.epochs, 'epoch')}"
    return Figure("landscape", title, sentences.landscape(report), data, form, ["batch size", *steps], rows, note)


def _by_batch_size(report: Report) -> Figure:
    advice = report.plan.advice
    assert advice is not None
    tried = [s for s in advice.settings if isfinite(s.gap)]
    lines = {"rr": ("random order", "$rr"), "balanced": ("balanced order", "$balanced")}
    data = []
    for order, (name, colour) in lines.items():
        there = [s for s in tried if s.order == order and s.epochs == advice.epochs]
        if there:
            data.append(line(name, [s.batch_size for s in there], [s.gap for s in there], colour, markers=True))
    mine = next(s for s in tried if (s.order, s.batch_size, s.epochs) == (advice.order, advice.batch_size, advice.epochs))
    data.append(point("advised", mine.batch_size, mine.gap, lines[advice.order][1]))
    form = layout(log_axis("batch size", [s.batch_size for s in tried]), log_axis("gap f − min f", *(t["y"] for t in data)))
    columns = ["order and batch size", "step", "epochs", "gap", "seconds an epoch"]
    rows = [
        [f"{lines[s.order][0]}, {s.batch_size:,}", number(s.step_size), count(s.epochs), number(s.gap), number(s.seconds)]
        for s in advice.settings
    ]
    title = f"What each batch size reached in {counted(advice.epochs, 'epoch')}"
    return Figure("measured", title, sentences.measured(report), data, form, columns, rows)


def _epochs(report: Report) -> Figure:
    choices, best = report.plan.choices, report.plan.promised
    b = [choice.batch_size for choice in choices]
    mine = [choice.epochs for choice in choices]
    in_file = [choice.epochs_in_file_order for choice in choices]
    textbook = [choice.textbook_epochs for choice in choices]
    data = [
        line("random order", b, mine, "$rr", markers=True),
        line("order of the file", b, in_file, "$ig", dash="dash", markers=True),
        line("random order, textbook step", b, textbook, "$soft", dash="dot"),
        point("best promise", best.batch_size, best.epochs),
    ]
    columns = {
        "step": [number(choice.step_size) for choice in choices],
        "epochs": _whole(mine),
        "in the order of the file": _whole(in_file),
        "with the textbook step": _whole(textbook),
    }
    title = "Epochs that keep the promise, by batch size"
    return _by_batch("epochs", title, sentences.epochs_by_batch(report), "epochs", data, columns)


def _constants(report: Report) -> Figure:
    largest, hat, tilde = sentences.symbols(report)
    b = [row.batch_size for row in report.batches]
    over_hat, over_til = [row.over_hat for row in report.batches], [row.over_til for row in report.batches]
    data = [
        line(f"{largest}/{hat} (order)", b, over_hat, "$rr", markers=True),
        line(f"{largest}/{tilde} (batches)", b, over_til, "$ig", markers=True),
        *_power(b, over_til[0], report.til_exponent, "$soft", "dot"),
    ]
    columns = {f"{largest}/{hat}": [*map(number, over_hat)], f"{largest}/{tilde}": [*map(number, over_til)]}
    title = "The constants against the batch size"
    return _by_batch("constants", title, sentences.constants_by_batch(report), "ratio", data, columns)


def _steps(report: Report) -> Figure:
    b = [row.batch_size for row in report.batches]
    mine, textbook = [row.step_size for row in report.batches], [row.textbook_step for row in report.batches]
    name = "largest step that the theorem allows" if report.smooth else f"step for eps = {number(report.plan.eps)}"
    data = [
        line(name, b, mine, "$rr", markers=True),
        line("textbook step", b, textbook, "$soft", dash="dot"),
        *_power(b, mine[0], report.step_exponent, "$ig", "dash"),
    ]
    columns = {name: [*map(number, mine)], "textbook step": [*map(number, textbook)]}
    return _by_batch("steps", "The step against the batch size", sentences.steps_by_batch(report), "step size", data, columns)


def _power(b: list[int], start: float, exponent: float | None, colour: str, dash: str) -> list[Trace]:
    """b to this power, from `start` at the first batch size to the last."""
    if exponent is None:
        return []
    ends = [b[0], b[-1]]
    return [line(f"b^{exponent:.2f}", ends, [start * end**exponent for end in ends], colour, dash=dash)]


def _by_batch(key: str, title: str, sentence: str, label: str, data: list[Trace], columns: dict[str, list[str]]) -> Figure:
    b = data[0]["x"]
    form = layout(log_axis("batch size", b), log_axis(label, *(trace["y"] for trace in data)))
    rows = [list(row) for row in zip(_whole(b), *columns.values(), strict=True)]
    return Figure(key, title, sentence, data, form, ["batch size", *columns], rows)


def _whole(values: Sequence[int]) -> list[str]:
    return [f"{value:,}" for value in values]


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
    form = layout(log_axis(label, edges) if values.log else _axis(label), _axis(things, rangemode="tozero"))
    if values.median > 0.0:
        at = log10(values.median) if values.log else values.median
        form["shapes"] = [{**_RULE, "x0": values.median, "x1": values.median}]
        form["annotations"] = [{**_RULE_LABEL, "x": at, "text": "median"}]
    rows = [[span, f"{counted:,}"] for span, counted in zip(ranges, counts, strict=True)]
    if values.zeros:
        rows.insert(0, ["0", f"{values.zeros:,}"])
    return Figure(key, title, sentence, [trace], form, [label, things], rows)


def _at_theory(report: Report) -> Figure:
    curves = report.convergence.at_theory
    data = [_measured(curve) for curve in curves]
    columns: dict[str, Gaps] = {_short(curve): curve.gaps for curve in curves}
    for curve, name in ((curves[0], "RR and SO"), (curves[2], "IG")):
        for values, label, dash in ((curve.bounds, "this theory", "dash"), (curve.prior, "earlier theory", "dot")):
            if values is not None:
                epochs = range(1, len(values) + 1)
                promise = line(f"promise of {label}, {name}", epochs, values, f"${curve.order}", dash=dash, width=1.5)
                band = {"fill": "tozeroy", "fillcolor": "$fill"} if curve is curves[0] and dash == "dash" else {}
                data.append({**promise, **band})
                columns[f"{label}, {name}"] = values
    title, note = "At the step of the theory", _sampling_note(report)
    return by_epoch("theory", title, sentences.at_theory(report), data, columns, height=430, note=note)


def _at_advised(report: Report) -> Figure:
    curves = report.convergence.at_advised
    columns = {_short(curve): curve.gaps for curve in curves}
    title = "At the advised step"
    return by_epoch("advised", title, sentences.at_advised(report), [*map(_measured, curves)], columns, height=400)


def by_epoch(
    key: str, title: str, sentence: str, data: list[Trace], columns: Mapping[str, Gaps], *, height: int, note: str = ""
) -> Figure:
    form = layout(_axis("epoch"), log_axis("gap f − min f", *columns.values()), height=height)
    rows = [[str(epoch), *map(number, row)] for epoch, row in enumerate(zip(*columns.values(), strict=True), 1)]
    return Figure(key, title, sentence, data, form, ["epoch", *columns], rows, note)


def _sampling_note(report: Report) -> str:
    run = report.convergence
    if not run.sampled:
        return ""
    return (
        f"Measured on a random sample of {run.rows:,} of the {run.n:,} rows (seed {run.seed}), with the constants and the minimum "
        f"of that sample, because the data has more than {count(LARGEST)} entries. Everything else here is computed from all rows."
    )


def _measured(curve: Curve) -> Trace:
    # Drawn one upon the other, all are seen where they agree.
    width = {"rr": 4.5, "so": 2.75, "ig": 1.5, "balanced": 1.5}[curve.order]
    name = f"{describe(curve.order)} ({_short(curve)})"
    return line(name, range(1, len(curve.gaps) + 1), curve.gaps, f"${curve.order}", width=width)


def _short(curve: Curve) -> str:
    return curve.order if curve.order == "balanced" else curve.order.upper()


def line(name: str, x: Sequence[float], y: Gaps, colour: str, *, markers: bool = False, **form: str | float) -> Trace:
    """`form` is the `dash` and `width` of the line."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if markers else "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": colour, "dash": "solid", "width": 2.0, **form},
        "marker": {"color": colour, "size": 6},
        "hovertemplate": "%{y:.4g}",
    }


def horizontal(name: str, x: Sequence[float], y: float | None, colour: str) -> Trace:
    """At one height from end to end."""
    return line(name, x, [y] * len(x), colour, dash="dash", width=1.5)


def point(name: str, x: float, y: float | None, colour: str = "$rr") -> Trace:
    marker = {"color": "$paper", "size": 13, "line": {"color": colour, "width": 3}}
    return {"type": "scatter", "mode": "markers", "name": name, "x": [x], "y": [y], "marker": marker, "hovertemplate": "%{y:.4g}"}


_RULE = {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "line": {"color": "$ink", "width": 1, "dash": "dot"}}
_RULE_LABEL = {"yref": "paper", "y": 1, "yanchor": "bottom", "showarrow": False, "font": {"size": 12, "color": "$soft"}}


_FEW_DECADES = 0.4


def _axis(title: str, **form: Any) -> dict[str, Any]:
    lines = {"type": "linear", "gridcolor": "$grid", "linecolor": "$grid", "zeroline": False, "automargin": True}
    return {"title": {"text": title, "standoff": 8}, **lines, **form}


def log_axis(title: str, *series: Gaps) -> dict[str, Any]:
    positive = [value for values in series for value in values if value is not None and value > 0.0]
    decades = log10(max(positive) / min(positive)) if positive else 0.0
    if decades < _FEW_DECADES:  # a log axis would have no number on it
        return _axis(title)
    return _axis(title, type="log", exponentformat="power", dtick=1 if decades >= 2.0 else "D2" if decades >= 1.0 else "D1")


def layout(x: dict[str, Any], y: dict[str, Any], *, height: int = 360) -> dict[str, Any]:
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
