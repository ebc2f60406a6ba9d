"""One sentence for each figure, written from its numbers: what it shows for this dataset."""

from reshuffle.orders import describe
from reshuffle.reporting.convergence import Curve
from reshuffle.reporting.dataset import Distribution
from reshuffle.reporting.numbers import Report
from reshuffle.wording import compared, count, counted, factor, number, percent

_HARDLY = 0.02  # a spread or an exponent below this is not worth a reader's thought


def symbols(report: Report) -> tuple[str, str, str]:
    """The constants as the paper writes them: of the largest sample, hat, tilde."""
    return ("L", "L̂", "L̃") if report.smooth else ("G²", "Ĝ", "G̃")


def row_norms(report: Report) -> str:
    norms, (largest, _, _) = report.dataset.row_norms, symbols(report)
    if report.dataset.n == 1:
        return f"The only row has norm {number(norms.largest)}."
    if _one_value(norms):
        return f"Every row has the norm {number(norms.largest)}, so no single row decides {largest}."
    if norms.median == 0.0:
        return f"More than half of the rows are zero, and the longest of the others has norm {number(norms.largest)}."
    ratio = norms.largest / norms.median
    if ratio < 1.05 and not norms.zeros:
        return f"The longest row is hardly longer than the median one, so no single row decides {largest}."
    zero = f"; {counted(norms.zeros, 'row')} {'is' if norms.zeros == 1 else 'are'} zero" if norms.zeros else ""
    return (
        f"The longest row is {factor(ratio)} times as long as the median one, which makes {largest} {factor(ratio**2)} times what "
        f"median rows would give{zero}."
    )


def feature_scales(report: Report) -> str:
    scales, name = report.dataset.feature_scales, report.dataset.largest_feature
    if report.dataset.d == 1:
        return f"There is one feature, of size {number(scales.largest)}."
    if _one_value(scales):
        return f"Every feature has the size {number(scales.largest)}."
    if scales.median == 0.0:
        return f"More than half of the features are zero, and the largest of the others is feature {name}."
    ratio = scales.largest / scales.median
    so = "scaling the features would help" if ratio >= 10.0 else "the features are of similar size" if ratio < 3.0 else ""
    zero = f"{counted(scales.zeros, 'feature')} {'is' if scales.zeros == 1 else 'are'} zero throughout" if scales.zeros else ""
    rest = "".join(f"; {part}" for part in (so, zero) if part)
    return f"The largest feature, {name}, has {factor(ratio)} times the size of the median one{rest}."


def spread(report: Report) -> str:
    s, (largest, hat, _) = report.spread, symbols(report)
    ratio = f"{largest}/{hat}"
    if s.permutations == 1 or number(s.smallest) == number(s.largest):
        orders = "The one order" if s.permutations == 1 else f"Each of {s.permutations} random orders"
        return f"{orders} gives {ratio} = {number(s.mean)}."
    wide = s.std / s.mean
    so = "the order that is drawn hardly matters" if wide < _HARDLY else f"orders differ by {percent(wide)} (standard deviation)"
    return (
        f"Over {s.permutations} random orders {ratio} lies between {number(s.smallest)} and {number(s.largest)}, with mean "
        f"{number(s.mean)}: {so}."
    )


def constants_by_batch(report: Report) -> str:
    (largest, hat, tilde), first, last = symbols(report), report.batches[0], report.batches[-1]
    if report.til_exponent is None:
        return f"With a single row there is a single batch size, at which {largest}/{hat} is {number(first.over_hat)}."
    if report.til_exponent < _HARDLY:
        grows = f"{largest}/{tilde} hardly grows with the batch size: averaging rows does not make this problem smoother"
    else:
        grows = (
            f"{largest}/{tilde} grows from {number(first.over_til)} at batch size 1 to {number(last.over_til)} with all rows at "
            f"once, like b to the power {report.til_exponent:.2f}"
        )
    return f"{grows}; {largest}/{hat} goes from {number(first.over_hat)} to {number(last.over_hat)}."


def steps_by_batch(report: Report) -> str:
    gains = [row.step_size / row.textbook_step for row in report.batches]
    low, high = factor(min(gains)), factor(max(gains))
    gain = f"{low} times" if low == high else f"{low} to {high} times"
    if report.step_exponent is None:
        return f"With a single row the step is {gain} the textbook one."
    return f"The step grows like b to the power {report.step_exponent:.2f} and is {gain} the textbook one."


def epochs_by_batch(report: Report) -> str:
    plan = report.plan
    best, first = plan.promised, plan.choices[0]
    head = f"To promise f − min f ≤ {number(plan.eps)}, batch size {best.batch_size} takes {counted(best.epochs, 'epoch')}"
    if best.batch_size == 1:
        rest = ", and no larger batch takes much fewer" if plan.n > 1 else ""
        return f"{head}{rest}{_in_file(report)}."
    return f"{head}; batch size 1 takes {compared(first.epochs, best.epochs, 'as many', 'fewer', 'as many')}{_in_file(report)}."


def _in_file(report: Report) -> str:
    best = report.plan.promised
    if best.batch_size == report.plan.n:
        return ""
    told = compared(best.epochs_in_file_order, best.epochs, "as many", "fewer", "as many")
    return f", and the order of the file {told}"


def buffer(report: Report) -> str | None:
    """How large a shuffle buffer has to be; None where no order matters."""
    rows, n = report.plan.smallest_buffer, report.plan.n
    if rows is None:
        return None
    if rows == 1:
        return "No shuffle buffer is needed: as promises go, the order of the file will do for any accuracy."
    what = f"{count(rows)} of the {count(n)} rows" if rows < n else f"all {count(n)} rows"
    return f"A shuffle buffer that reads the file in its order has to hold {what} to be promised about as much as a random order."


def at_theory(report: Report) -> str:
    run = report.convergence
    curve = run.at_theory[0]
    gap = curve.gaps[-1]
    head = f"After {run.epochs} epochs at the step of the theory, {describe(curve.order)}"
    if gap is None:
        return f"{head} has reached the minimum, as closely as that is known."
    if curve.bounds is None:
        return f"{head} stands at a gap of {number(gap)}."
    ours = f"{factor(curve.bounds[-1] / gap)} times below the {number(curve.bounds[-1])} that this theory promises"
    if curve.prior is None:
        return f"{head} stands at a gap of {number(gap)}, {ours}."
    than = compared(curve.prior[-1], curve.bounds[-1], "larger", "smaller", "the same")
    return f"{head} stands at a gap of {number(gap)}, {ours}; what earlier theory promises is {than}."


def rivals_by_epoch(report: Report) -> str:
    """How far the others are from the advice."""
    mine, *others = report.rivals
    reached = mine.gaps[-1]
    head = f"After {counted(len(mine.gaps), 'epoch')} the advice has come to"
    head = f"{head} the minimum, as closely as that is known" if reached is None else f"{head} a gap of {number(reached)}"
    fates = []
    for other in others:
        gap = other.gaps[-1]
        end = "diverged" if gap is None else f"at {number(gap)}"
        fates.append(
            f"{other.name} {end if reached is None or gap is None else compared(gap, reached, 'higher', 'lower', 'as low')}"
        )
    return f"{head}; {', '.join(fates[:-1])} and {fates[-1]}."


def rivals_by_clock(report: Report) -> str:
    """How soon the advice is where the others end."""
    mine, *others = report.rivals
    told = []
    for other in others:
        last = other.gaps[-1]
        if last is None:
            continue
        soon = next((s for gap, s in zip(mine.gaps, mine.seconds, strict=True) if gap is None or gap <= last), None)
        ends = f"where {other.name} ends after {_seconds(other.seconds[-1])}"
        told.append(f"does not come {ends}" if soon is None else f"takes {_seconds(soon)} to come {ends}")
    return f"The advice {'; it '.join(told)}." if told else "All other runs diverged."


def _seconds(spent: float) -> str:
    return f"{number(float(f'{spent:.2g}'))} s"


def landscape(report: Report) -> str:
    """How much room the step leaves, and what it costs to miss it."""
    drawn, advice = report.landscape, report.plan.advice
    assert advice is not None
    cells = [gap for row in drawn.gaps for gap in row if gap is not None]
    best = min(cells)
    near = sum(gap <= 2.0 * best for gap in cells)
    gone = sum(gap is None for row in drawn.gaps for gap in row)
    every = f"{near} of the {len(cells) + gone} pairs end within twice the smallest gap"
    diverged = f", {gone} diverged" if gone else ""
    return f"Steps by factors of 4, one run each in random orders: {every}, {percent(best)} of what there is to gain{diverged}."


def measured(report: Report) -> str:
    advice = report.plan.advice
    assert advice is not None
    there = [s for s in advice.settings if s.epochs == advice.epochs]
    gone = len({s.batch_size for s in advice.settings}) - len({s.batch_size for s in there})
    random = [s for s in there if s.order == "rr"]
    worst, best = max(random, key=lambda s: s.gap), advice.in_random_order
    dropped = f"; {counted(gone, 'batch size')} fell behind and stopped sooner" if gone else ""
    head = f"At its best step and in random orders batch size {best.batch_size:,} ends at {number(best.gap)}"
    if worst == best:
        return f"{head}{dropped}."
    told = compared(worst.gap, best.gap, "that", "less than that", "that")
    return f"{head}, batch size {worst.batch_size:,} at {told}{dropped}."


def at_advised(report: Report) -> str:
    run, advice = report.convergence, report.plan.advice
    assert advice is not None
    mine = next(curve for curve in run.at_advised if curve.order == advice.order)
    gap = mine.gaps[-1]
    reach = "reaches the minimum, as closely as that is known" if gap is None else f"reaches a gap of {number(gap)}"
    head = f"At the advised step, {factor(run.multiple)} times the theory’s, {describe(mine.order)}"
    return f"{head} {reach} in {counted(advice.epochs, 'epoch')}{_orders([c for c in run.at_advised if c != mine], gap)}."


def _orders(others: list[Curve], reached: float | None) -> str:
    """How the other orders did against the advised one."""
    fates = [_fate(curve, reached) for curve in others]
    if all(fate.endswith("as low") for fate in fates):
        return "; the other orders end as low"
    return f"; {', '.join(fates[:-1])} and {fates[-1]}"


def _fate(curve: Curve, reached: float | None) -> str:
    who, gap = describe(curve.order), curve.gaps[-1]
    if curve.diverged:
        return f"{who} diverges"
    if gap is None:
        return f"{who} reaches the minimum"
    return f"{who} ends {'at ' + number(gap) if reached is None else compared(gap, reached, 'higher', 'lower', 'as low')}"


def _one_value(values: Distribution) -> bool:
    return values.zeros == 0 and values.largest <= values.smallest * (1.0 + 1e-9)
