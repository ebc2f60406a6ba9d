"""Assessments in words: the table, and one sentence of advice, which says where promise and measurement part."""

from collections.abc import Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING

from reshuffle.wording import compared, count, counted, factor, number

if TYPE_CHECKING:
    from reshuffle.assessment.results import Assessment, Measured, Promised

_AS_GOOD = 1.25  # times the epochs of a random order: less is within what a few runs can tell
CLOSE = 2.0  #: times the gap of a random order: the same
_BETTER = 1 / 3  # of the gap of random orders: more is within what a few runs can tell


def advice(a: "Assessment") -> str:
    p, m = a.promised, a.measured
    if a.scheme == "rr":
        return "This is random reshuffling, which all others are compared with."
    if p is None:
        nothing = f"nothing is promised beforehand with {a.label}, as {a.unpromised}"
        if m is None:
            return f"{nothing[0].upper()}{nothing[1:]}, and nothing was measured ({a.unmeasured})."
        return f"{'Keep it' if _does(a) else 'Shuffle more'}: {nothing}, but {_ended(m)}."
    told = f"with {a.label} {_promise(a, p)}"
    late = p.slowdown <= _AS_GOOD < p.slowdown_at_small_eps
    at_small = (
        f"after up to {factor(p.slowdown_at_small_eps)} times as many for smaller eps, as its discrepancy is {_discrepancy(a)}"
    )
    if m is None:
        unmeasured = f"nothing was measured ({a.unmeasured})"
        if late:
            return f"Shuffle more if eps is to be smaller: {told}, but {at_small}; {unmeasured}."
        return f"{'Shuffle more' if p.slowdown > _AS_GOOD else 'Keep it'}: {told}; {unmeasured}."
    good, promised_good = _does(a), p.slowdown <= _AS_GOOD
    if good == promised_good:
        return f"{'Keep it' if good else 'Shuffle more'}: {told}, and {_ended(m)}."
    if good:
        why = "a promise is for the worst problem with these numbers"
        return f"Keep it for runs like these, although {told}: {_ended(m)}; {why}."
    why = at_small if late else f"its discrepancy is {_discrepancy(a)}"
    return f"Shuffle more, although {told}: {_ended(m)}; the promise is about smaller steps ({why})."


def _discrepancy(a: "Assessment") -> str:
    return compared(a.discrepancy, 1.0, "a random order's", "below a random order's", "a random order's")


def _promise(a: "Assessment", p: "Promised") -> str:
    more, fewer, same = "the epochs of a random order", "fewer epochs than in a random order", "as many epochs as in a random order"
    return f"eps = {a.eps:g} is promised after {compared(p.slowdown, 1.0, more, fewer, same)}"


def _ended(m: "Measured") -> str:
    where = f"after {counted(m.epochs, 'epoch')} at {_step(m)}"
    if not isfinite(m.gap):
        return f"{where} it had diverged, where random orders had not"
    told = compared(m.gap_over_rr, 1.0, "that of random orders", "below that of random orders", "that of random orders")
    return f"{where} its measured gap was {told}"


def _step(m: "Measured") -> str:
    return "the theorems' step" if m.multiple == 1 else f"{count(m.multiple)} times the theorems' step"


def _does(a: "Assessment") -> bool:
    """Whether it is as good as a random order, as measured; as promised where nothing was."""
    if a.measured is not None:
        return a.measured.slowdown <= _AS_GOOD or a.measured.gap_over_rr <= CLOSE
    return a.promised is not None and a.promised.slowdown <= _AS_GOOD


def advice_of_many(entries: Sequence["Assessment"]) -> str:
    """Which of them do, which do not, and where promise and measurement part."""
    others = [entry for entry in entries if entry.scheme != "rr"]
    if not others:
        return "Random reshuffling is what others are compared with: name another scheme."
    good, bad = [entry for entry in others if _does(entry)], [entry for entry in others if not _does(entry)]
    how = "measured" if others[0].measured is not None else "promised"
    best = min(good, key=_gap, default=None)
    if best is None:
        parts = ["Use a random order"]
    elif _gap(best) > _BETTER:
        parts = [f"Use {_listed(good, 'or')}, as good as a random order as far as was {how}"]
    else:
        parts = [f"Use {best.scheme}, whose measured gap was {factor(1.0 / _gap(best))} times below a random order's"]
        parts += _are([entry for entry in good if entry is not best], "as good as a random order")
    if bad:
        worst = max(bad, key=lambda entry: entry.discrepancy if isfinite(entry.discrepancy) else 0.0)
        parts += _are(bad, f"not as good ({worst.scheme}: {_numbers(worst)})")
    parted = [e for e in others if e.measured and e.promised and (e.promised.slowdown <= _AS_GOOD) != _does(e)]
    if parted:
        parts.append(f"promised and measured disagree about {_listed(parted, 'and')}")
    return f"{'; '.join(parts)}."


def _gap(a: "Assessment") -> float:
    """Over that of random orders."""
    return 1.0 if a.measured is None else a.measured.gap_over_rr


def _are(entries: Sequence["Assessment"], what: str) -> list[str]:
    return [f"{_listed(entries, 'and')} {'is' if len(entries) == 1 else 'are'} {what}"] if entries else []


def _listed(entries: Sequence["Assessment"], last: str) -> str:
    names = [entry.scheme for entry in entries]
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else names[0]


def _numbers(a: "Assessment") -> str:
    parts = (
        []
        if a.promised is None
        else [f"{factor(a.discrepancy)} times the discrepancy, {factor(a.promised.slowdown)} times the promised epochs"]
    )
    if a.measured is not None:
        parts.append(f"{factor(a.measured.gap_over_rr)} times the measured gap" if isfinite(a.measured.gap) else "diverged")
    return ", ".join(parts)


def table(entries: Sequence["Assessment"]) -> str:
    first = entries[0]
    runs = first.measured
    head = [
        ["", "discrepancy", "Lhat", "Ltil", "promised", "", "measured", "", ""],
        ["scheme", "over rr's", "over rr's", "over rr's", "epochs", "slowdown", "gap", "over rr's", "slowdown"],
    ]
    shown = 6 if runs is None else 9
    rows = [row[:shown] for row in [*head, *map(cells, entries)]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [[row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))] for row in rows]
    lines = ["  ".join(row).rstrip() for row in padded]
    about = f"promised: f - min f <= {first.eps:g} at batch size {first.batch_size}"
    how = f"not measured: {first.unmeasured}"
    if runs is not None:
        how = f"measured: {runs.epochs} epochs at step {runs.step_size:.3g}, {_step(runs)}, {counted(runs.seeds, 'seed')}"
    return "\n".join([*lines, f"{about}; {how}"])


def cells(a: "Assessment") -> list[str]:
    """The line of a scheme in the table."""
    p, m = a.promised, a.measured
    spread = f" ± {factor(a.spread)}" if a.spread else ""
    noise = ["–"] * 3 if isnan(a.discrepancy) else [f"{factor(a.discrepancy)}{spread}", f"{a.lhat:.2f}", f"{a.ltil:.2f}"]
    promise = ["–"] * 2 if p is None else [count(p.epochs), factor(p.slowdown)]
    if m is None:
        runs = ["–"] * 3
    elif not isfinite(m.gap):
        runs = ["diverged", "–", "never"]
    else:
        runs = [number(m.gap), factor(m.gap_over_rr), factor(m.slowdown) if isfinite(m.slowdown) else "never"]
    return [a.scheme, *noise, *promise, *runs]
