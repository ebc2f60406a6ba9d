"""From the numbers to one HTML file that needs nothing else: the template, its style and script, and Plotly, all inside.

Strings from the data pass through Jinja's escaping; JSON inside the page has every < written as an escape.
"""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Any

from reshuffle.plots import COLOURS
from reshuffle.reporting.figures import Figure, figures
from reshuffle.reporting.numbers import Report
from reshuffle.reporting.recommendation import again, cards
from reshuffle.reporting.sentences import buffer, symbols
from reshuffle.wording import count, number, percent

_BLUE, _ORANGE, _GREEN, _PINK, _SKY, _AMBER, _ = COLOURS

_ROLES = {  # in a light and in a dark page
    "paper": ("#ffffff", "#201f1d"),
    "back": ("#faf9f6", "#171614"),
    "ink": ("#1d1c1a", "#ece9e3"),
    "soft": ("#66625b", "#aba69d"),
    "grid": ("#e3dfd7", "#3a3834"),
    "rr": (_BLUE, _SKY),
    "so": (_GREEN, _GREEN),
    "ig": (_ORANGE, _AMBER),
    "balanced": ("#a8437f", _PINK),  # the pink itself is too light for lines on white
    "fill": ("rgba(0, 114, 178, 0.16)", "rgba(86, 180, 233, 0.22)"),
    "warn": ("#9a4400", _AMBER),
}
PALETTES = {page: {role: colours[k] for role, colours in _ROLES.items()} for k, page in enumerate(("light", "dark"))}


def require() -> None:
    """Say at once what is not installed."""
    try:
        import jinja2  # noqa: F401
        import plotly  # noqa: F401
    except ImportError:
        raise ImportError('a report needs plotly and jinja2: pip install "reshuffle[report]"') from None


def render(report: Report) -> str:
    drawn, offered = figures(report), cards(report)
    accuracy = report.accuracies[report.selected]
    return page(
        "page.html",
        "How to train on",
        report.dataset.name,
        drawn,
        embedded={"numbers": report.to_dict(), "choices": _choices(report, offered)},
        scripts=["sliders.js"],
        report=report,
        card=offered[report.selected][accuracy.advised],
        accuracy=accuracy,
        settings=report.plan.advice.settings if report.plan.advice is not None else (),
        again=again(report),
        buffer=buffer(report),
        names={"L": "L", "Lhat": "L̂", "G": "G", "Gbar": "Ḡ"},
        **dict(zip(("largest", "hat", "tilde"), symbols(report), strict=True)),
    )


def page(
    template: str,
    title: str,
    name: str,
    drawn: dict[str, Figure],
    *,
    embedded: dict[str, Any],
    scripts: Sequence[str] = (),
    **values: Any,
) -> str:
    """A template of ours, filled: `embedded` is there as JSON, for scripts and for readers of other programs."""
    require()
    from jinja2 import Environment, FunctionLoader
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    environment = Environment(loader=FunctionLoader(_own), autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"number": number, "count": count, "percent": percent}
    drawings = {key: {"data": figure.data, "layout": figure.layout} for key, figure in drawn.items()}
    everything = {**embedded, "drawings": drawings, "colours": PALETTES}
    return environment.get_template(template).render(
        title=title,
        name=PurePath(name).name or name,
        figures=drawn,
        palettes=PALETTES,
        css=Markup(_own("page.css")),
        plotly=Markup(get_plotlyjs()),
        scripts=[Markup(_own(script)) for script in (*scripts, "figures.js")],
        embedded={id: Markup(_json(value)) for id, value in everything.items()},
        **values,
    )


def _choices(report: Report, offered: list[list[dict[str, str]]]) -> list[dict[str, Any]]:
    return [
        {"eps": number(accuracy.eps), "recommended": accuracy.advised, "cards": row}
        for accuracy, row in zip(report.accuracies, offered, strict=True)
    ]


def _own(name: str) -> str:
    return files("reshuffle.reporting").joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that no HTML parser can mistake for the end of its script element."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False).replace("<", "\\u003c")
