"""What to do, in words: one card for every eps and batch size that the page offers. The page looks them up and computes nothing."""

import shlex

from reshuffle.advising import Setting
from reshuffle.planning import KEPT, MOST_EPOCHS, Choice, in_words_of
from reshuffle.reporting.numbers import Accuracy, Report
from reshuffle.wording import compared, count, counted, factor, number, percent

Card = dict[str, str]
_AGAINST_RANDOM = ("that of a random order", "below that of a random order", "that of a random order")


def cards(report: Report) -> list[list[Card]]:
    return [[card(report, accuracy, k) for k in range(len(accuracy.choices))] for accuracy in report.accuracies]


def card(report: Report, accuracy: Accuracy, k: int) -> Card:
    """Of the k-th batch size."""
    choice, setting, whole = accuracy.choices[k], accuracy.settings[k], accuracy.choices[k].batch_size == report.dataset.n
    return {
        "eps": percent(accuracy.eps / report.plan.gain),
        "batch": f"{choice.batch_size:,}",
        "step": "–" if setting is None else number(setting.step_size),
        "order": "any order" if whole else "–" if setting is None else _ORDERS[setting.order],
        "epochs": "–" if setting is None else count(setting.epochs),
        "headline": _headline(setting, choice, whole, report.dataset.scaling.kind),
        "reached": _reached(report, accuracy, setting),
        "against": _against(report, accuracy, k),
        "command": "" if setting is None else _run(report, setting),
        "promise": _promise(report, accuracy, choice),
        "textbook": _textbook(choice),
        "order_matters": _order(choice, whole),
        "batch_choice": _batch(accuracy, choice),
        "evaluations": _evaluations(report, accuracy, choice),
        "promised_command": _command(report, choice.batch_size, choice.step_size, choice.epochs, choice.average),
    }


_ORDERS = {"rr": "random", "balanced": "balanced"}
_TRAIN = {"none": "Train", "rows": "Scale the rows, then train"}


def _headline(setting: Setting | None, choice: Choice, whole: bool, scaling: str) -> str:
    if setting is None:
        return f"Batches of {choice.batch_size:,} rows were not tried: the sample has fewer"
    after = f"for {counted(setting.epochs, 'epoch')}"
    train = _TRAIN.get(scaling, "Scale the columns, then train")
    if whole:
        return f"{train} on all rows at once with step size {number(setting.step_size)}, {after}"
    rows = "one row at a time" if setting.batch_size == 1 else f"batches of {setting.batch_size:,} rows"
    return f"{train} with {rows} and step size {number(setting.step_size)}, in {_ORDERS[setting.order]} order, {after}"


def _is_advice(report: Report, setting: Setting) -> bool:
    advice = report.plan.advice
    assert advice is not None
    mine = (advice.order, advice.batch_size, advice.step_size, advice.epochs)
    return mine == (setting.order, setting.batch_size, setting.step_size, setting.epochs)


def _reached(report: Report, accuracy: Accuracy, setting: Setting | None) -> str:
    """What that reached here."""
    if setting is None:
        return "All rows of a sample are fewer than that, and what a sample cannot show is not guessed."
    advice = report.plan.advice
    assert advice is not None
    there = setting.worst <= accuracy.eps
    if _is_advice(report, setting):
        gap, runs, seconds = advice.gap, "", f", in {advice.seconds:.2g} s"
        proof = "" if advice.certified_gap is None else f" Certified: within {number(advice.certified_gap)}."
    else:
        gap, proof, seconds = setting.gap, "", f", in {setting.epochs * setting.seconds:.2g} s"
        runs = f" on average over {setting.seeds} runs" if setting.seeds > 1 else ""
    rows = "" if setting.rows == advice.n else f" on a sample of {setting.rows:,} rows"
    share = f"{percent(gap / advice.gain)} of what there is to gain over a constant prediction"
    said = f"Measured here{rows}: the training loss came within {number(gap)} of its minimum{runs}, {share}{seconds}."
    wanted = percent(accuracy.eps / advice.gain)
    short = "" if there else f" The {wanted} that were asked for were not reached in {counted(setting.epochs, 'epoch')}."
    return f"{said}{proof}{short}"


def _against(report: Report, accuracy: Accuracy, k: int) -> str:
    """Beside the batch size that is advised or, for that one, beside random orders."""
    best, mine = accuracy.settings[accuracy.advised], accuracy.settings[k]
    assert best is not None
    if mine is None:
        return ""
    if k != accuracy.advised:
        if mine.epochs == best.epochs:
            told = compared(mine.gap, best.gap, "the gap", "less than the gap", "the gap")
            return f"Batch size {best.batch_size:,} is advised; after as many epochs this one has {told}."
        return f"Batch size {best.batch_size:,} is advised, with {counted(best.epochs, 'epoch')} in place of {count(mine.epochs)}."
    advice = report.plan.advice
    assert advice is not None
    if mine.order == "rr" or not _is_advice(report, mine):
        return f"{counted(advice.runs, 'run')} of {counted(len(accuracy.choices), 'batch size')} raced for this."
    random = advice.in_random_order
    told = compared(random.gap, mine.gap, "the gap", "less than the gap", "the gap")
    return f"Where only random orders are to be had: {in_words_of(random)}; after as many epochs, {told} on average."


def _run(report: Report, setting: Setting) -> str:
    return _command(report, setting.batch_size, setting.step_size, setting.epochs, "last", setting.order)


def _promise(report: Report, accuracy: Accuracy, choice: Choice) -> str:
    if choice.epochs > MOST_EPOCHS:
        why = f": {report.plan.useless}" if choice == report.plan.promised else f": it would take {count(choice.epochs)} epochs"
        return f"No useful promise{why}."
    after, within = counted(choice.epochs, "epoch"), f"within {number(accuracy.eps)} of its minimum"
    holds = "for certain" if choice.batch_size == report.dataset.n else choice.holds
    step = f"at step size {number(choice.step_size)}"
    head = f"Promised for {KEPT[choice.average]} after {after} {step}, {holds}"
    return f"{head}, whatever data has these constants: the training loss is {within} (Theorem {choice.theorem})."


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
    best = accuracy.choices[accuracy.promised]
    first = accuracy.choices[0]
    if choice != best:
        told = compared(choice.evaluations, best.evaluations, "as much work", "less work", "as much work")
        return f"Batch size {best.batch_size:,} has the best promise; this one takes {told} for the same."
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


def _command(report: Report, batch_size: int, step: float, epochs: int, average: str, order: str = "rr") -> str:
    """That trains like this: in the shell where the data has a name there, else in Python."""
    if not report.source:
        kept = f" average={average!r}," if average != "epoch" else ""
        kept += f" order={order!r}," if order != "rr" else ""
        how = f"batch_size={batch_size}, epochs={epochs},\n  step_size={step!r}, seed={report.plan.seed},{kept}"
        return f"rs.minimize(\n  problem, {how}\n)"
    about = shlex.join(["reshuffle", "run", *report.source, *_settings(report)])
    kept = f" --average {average}" if average != "epoch" else ""
    kept += f" --order {order}" if order != "rr" else ""
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
