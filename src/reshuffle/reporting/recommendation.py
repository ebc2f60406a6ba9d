"""What to do, in words: one card for every eps and batch size that the page offers. The page looks them up and computes nothing."""

import shlex

from reshuffle.planning import KEPT, Choice
from reshuffle.reporting.convergence import Convergence, Trial
from reshuffle.reporting.numbers import Accuracy, Report
from reshuffle.wording import compared, count, counted, factor, number

Card = dict[str, str]
_AGAINST_RANDOM = ("that of a random order", "below that of a random order", "that of a random order")


def cards(report: Report) -> list[list[Card]]:
    return [[card(report, accuracy, choice) for choice in accuracy.choices] for accuracy in report.accuracies]


def card(report: Report, accuracy: Accuracy, choice: Choice) -> Card:
    n, b = report.dataset.n, choice.batch_size
    whole = b == n
    return {
        "eps": number(accuracy.eps),
        "batch": f"{b:,}",
        "step": number(choice.step_size),
        "order": "any order" if whole else "random",
        "epochs": count(choice.epochs),
        "headline": _headline(choice.batch_size, choice.step_size, whole),
        "promise": _promise(report, accuracy, choice),
        "textbook": _textbook(choice),
        "order_matters": _order(choice, whole),
        "batch_choice": _batch(accuracy, choice),
        "evaluations": _evaluations(report, accuracy, choice),
        "command": _command(report, b, choice.step_size, choice.epochs, choice.average),
    }


def practical(report: Report) -> dict[str, str]:
    """The practical step, its measured result, and the rule by which it was found."""
    run = report.convergence
    gap = run.at_practical[0].gaps[-1]
    reached = "the minimum, as closely as that is known" if gap is None else f"a gap of {number(gap)}"
    here = "on a sample of the rows" if run.sampled else "here"
    came = "reached the minimum" if gap is None else f"came within {number(gap)} of the minimum"
    worse = [trial for trial in run.trials if trial.multiple > run.multiple]
    beyond = f"; twice that step {_fate(run, worse[0])}" if worse else ""
    where = f"a sample of {run.rows:,} of the {run.n:,} rows" if run.sampled else "this data"
    if run.multiple == 1:
        size = f"This is the theory's own step for {run.epochs} epochs: no larger one did better without rising above the start"
    else:
        size = f"This is {count(run.multiple)} times the theory's step for {run.epochs} epochs{beyond}"
    return {
        "lede": f"In practice, start with step size {number(run.practical_step)}: {run.epochs} epochs {came} {here}.",
        "step": number(run.practical_step),
        "batch": f"{report.plan.promised.batch_size:,}",
        "reached": f"{run.epochs} epochs on {where} went from a gap of {number(run.start_gap)} to {reached}.",
        "size": f"{size}. It was measured here and carries no guarantee.",
        "command": _command(report, report.plan.promised.batch_size, run.practical_step, run.epochs),
    }


def _fate(run: Convergence, trial: Trial) -> str:
    if trial.gap is None:
        return "diverged"
    reached = run.at_practical[0].gaps[-1]
    return "ended higher" if reached is None or trial.gap >= reached else "ended lower but rose above the start on the way"


def _headline(batch_size: int, step: float, whole: bool) -> str:
    if whole:
        return f"Train on all rows at once with step size {number(step)}"
    rows = "one row at a time" if batch_size == 1 else f"batches of {batch_size:,} rows"
    return f"Train with {rows}, step size {number(step)}, and a new random order each epoch"


def _promise(report: Report, accuracy: Accuracy, choice: Choice) -> str:
    after, within = counted(choice.epochs, "epoch"), f"within {number(accuracy.eps)} of its minimum"
    holds = "for certain" if choice.batch_size == report.dataset.n else choice.holds
    return f"Promised for {KEPT[choice.average]} after {after}, {holds}: the training loss is {within} (Theorem {choice.theorem})."


def _textbook(choice: Choice) -> str:
    gain, fewer = choice.step_size / choice.textbook_step, choice.textbook_epochs / choice.epochs
    if gain < 1.005 and fewer < 1.005:
        return "The textbook step, which knows the data only by its largest row, is the same here."
    step = f"{factor(gain)} times as large as the textbook step, which knows the data only by its largest row"
    if gain < 1.005:
        step = "the same as the textbook step, which knows the data only by its largest row"
    return f"The step is {step}; the same promise takes {factor(fewer)} times fewer epochs."


def _order(choice: Choice, whole: bool) -> str:
    if whole:
        return "The order does not matter: every step sees all rows."
    told = compared(choice.epochs_in_file_order, choice.epochs, "as many epochs", "fewer epochs", "as many epochs")
    ratio = choice.discrepancy_in_file_order
    noise = "" if ratio is None else f"; its discrepancy is {compared(ratio, 1.0, *_AGAINST_RANDOM)}"
    return f"In the order of the file the same promise takes {told}{noise}."


def _batch(accuracy: Accuracy, choice: Choice) -> str:
    best = accuracy.choices[accuracy.recommended]
    first = accuracy.choices[0]
    if choice != best:
        told = compared(choice.evaluations, best.evaluations, "as much work", "less work", "as much work")
        return f"The plan takes batch size {best.batch_size:,}; this one takes {told} for the same promise."
    if best == first:
        return "No larger batch needs much less work for the same promise."
    told = compared(first.evaluations, best.evaluations, "as much work", "less work", "as much work")
    return f"It is the smallest batch within 10\u00a0% of the least work; batch size 1 takes {told}."


def _evaluations(report: Report, accuracy: Accuracy, choice: Choice) -> str:
    text = f"That is {count(choice.evaluations)} gradient evaluations"
    full = "full gradient descent" if report.smooth else "the subgradient method"
    text = f"{text}; {full} promises the same after {count(accuracy.full_gradient_evaluations)}"
    if accuracy.prior_evaluations is None:
        return f"{text}."
    about = "" if accuracy.prior_exact else "about "
    return f"{text}, and earlier theory ({accuracy.prior_work}, batch size 1) after {about}{count(accuracy.prior_evaluations)}."


def _command(report: Report, batch_size: int, step: float, epochs: int, average: str = "epoch") -> str:
    """That trains like this: in the shell where the data has a name there, else in Python."""
    if not report.source:
        kept = f" average={average!r}," if average != "epoch" else ""
        how = f"batch_size={batch_size}, epochs={epochs},\n  step_size={step!r}, seed={report.plan.seed},{kept}"
        return f"rs.minimize(\n  problem, {how}\n)"
    about = shlex.join(["reshuffle", "run", *report.source, *_settings(report)])
    kept = f" --average {average}" if average != "epoch" else ""
    return f"{about} \\\n  --batch-size {batch_size} --epochs {epochs} \\\n  --step-size {step!r}{kept}"


def again(report: Report) -> str | None:
    """The command that makes the same report."""
    if not report.source:
        return None
    plan = report.plan
    how = ["--eps", repr(plan.eps), "--permutations", str(plan.permutations)]
    return shlex.join(["reshuffle", "report", *report.source, *_settings(report), *how])


def _settings(report: Report) -> list[str]:
    data, seed = report.dataset, report.plan.seed
    words = ["--loss", data.loss, "--alpha", repr(data.alpha)]
    words += ["--intercept" if data.intercept else "--no-intercept"]
    return words + (["--seed", str(seed)] if seed else [])
