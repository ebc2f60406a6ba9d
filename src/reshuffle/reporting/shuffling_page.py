"""The page about a shuffle: its headline, tiles, figures and table, from the numbers of `Shuffling`."""

from collections.abc import Callable
from math import isfinite

from reshuffle.assessment import Assessment
from reshuffle.assessment.words import CLOSE, cells
from reshuffle.reporting.figures import Figure, Trace, by_epoch, horizontal, layout, line, log_axis, point
from reshuffle.reporting.page import page
from reshuffle.reporting.shuffling import Shuffling
from reshuffle.wording import compared, count, counted, factor, number

_FORMS = {"buffer": ("shuffle buffer", "$rr"), "blocks": ("blocks in a random order", "$ig")}
_LINES = ("$rr", "$ig", "$so", "$balanced", "$soft", "$ink")


def render(s: Shuffling) -> str:
    drawn = {"discrepancy": _discrepancy(s)}
    if s.table[0].measured is not None:
        drawn |= {"gaps": _gaps(s), "epochs": _epochs(s)}
    return page(
        "shuffling.html",
        "How good is the shuffle of",
        s.name,
        drawn,
        embedded={"numbers": s.to_dict()},
        s=s,
        headline=_headline(s),
        tiles=_tiles(s),
        rows=[cells(a) for a in s.table],
        measured=s.table[0].measured,
    )


def _file(s: Shuffling) -> Assessment | None:
    return next((a for a in s.table if a.scheme == "ig"), None)


def _headline(s: Shuffling) -> str:
    a = _file(s)
    if a is None:
        return "How these orders compare with random reshuffling"
    if a.measured is not None and 1.0 / CLOSE <= a.measured.gap_over_rr <= CLOSE:
        cost = "trains as far as a random order, as closely as a few runs can tell"
    elif a.measured is not None and isfinite(a.measured.gap_over_rr):
        cost = (
            f"trains to {compared(a.measured.gap_over_rr, 1.0, 'the gap of', 'less than the gap of', 'the gap of')} a random order"
        )
    else:
        cost = f"has {compared(a.discrepancy, 1.0, 'the noise of', 'less noise than', 'the noise of')} a random order"
    verdict = "Keep the order of the file" if a.advice.startswith("Keep") else "Shuffle this file"
    return f"{verdict}: as it is stored, it {cost}"


def _tiles(s: Shuffling) -> list[tuple[str, str]]:
    a = _file(s)
    tiles = [] if a is None else [("Discrepancy of the file, over rr’s", factor(a.discrepancy))]
    names = {"buffer": "Smallest buffer that will do", "blocks": "Largest block that will do"}
    tiles += [(names[found.family], counted(found.parameter, "row")) for found in s.smallest]
    runs = s.table[0].measured
    return [*tiles, ("Gap of a random order", "–" if runs is None else number(runs.gap))]


def _against_size(
    s: Shuffling, key: str, title: str, sentence: str, label: str, read: Callable[[Assessment], float | None]
) -> Figure:
    data: list[Trace] = []
    columns: list[list[str]] = []
    for family, found in s.sizes.items():
        name, colour = _FORMS[family]
        data.append(line(name, [size for size, _ in found], [read(a) for _, a in found], colour, markers=True))
        columns += [[f"{name}, {size:,} rows", number(read(a))] for size, a in found]
    sizes = [size for found in s.sizes.values() for size, _ in found]
    ends = [min(sizes), max(sizes)]
    for a, colour in ((s.table[0], "$soft"), (_file(s), "$ink")):
        if a is not None:
            data.append(horizontal(a.label, ends, read(a), colour))
            columns.append([a.label, number(read(a))])
    for least in s.smallest:
        name = "largest block that will do" if least.family == "blocks" else "smallest buffer that will do"
        data.append(point(name, least.parameter, read(least.assessment), _FORMS[least.family][1]))
        columns.append([f"{name}, {least.parameter:,} rows", number(read(least.assessment))])
    form = layout(
        log_axis("rows in the buffer, or in a block", sizes), log_axis(label, *(trace["y"] for trace in data)), height=400
    )
    form["hovermode"] = "closest"
    return Figure(key, title, sentence, data, form, ["order", label], columns)


def _discrepancy(s: Shuffling) -> Figure:
    sentence = "One is a random order. The promised epochs grow with its square root as eps falls."
    return _against_size(
        s, "discrepancy", "Discrepancy, over a random order’s", sentence, "discrepancy / random’s", lambda a: a.discrepancy
    )


def _gaps(s: Shuffling) -> Figure:
    runs = s.table[0].measured
    assert runs is not None
    sentence = (
        f"After {runs.epochs} epochs at step size {number(runs.step_size)}, {count(runs.multiple)} times what the theorems allow."
    )

    def gap(a: Assessment) -> float | None:
        return a.measured.gap if a.measured is not None and isfinite(a.measured.gap) else None

    return _against_size(s, "gaps", "Measured gap f − min f", sentence, "gap f − min f", gap)


def _epochs(s: Shuffling) -> Figure:
    curves = {a.label: [g if isfinite(g) else None for g in a.measured.gaps] for a in s.table if a.measured is not None}
    data = [
        line(label, range(1, len(gaps) + 1), gaps, colour, width=4.0 if k == 0 else 2.0, dash="solid" if k < 6 else "dot")
        for k, ((label, gaps), colour) in enumerate(zip(curves.items(), _LINES * len(curves), strict=False))
    ]
    sentence = "All orders at one step, the mean over the seeds. Where a curve turns flat, the noise of its order is what is left."
    return by_epoch("epochs", "How they train", sentence, data, curves, height=430)
