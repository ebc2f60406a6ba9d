"""What the page says: numbers as people write them, and a grammatical sentence in every case."""

from dataclasses import replace

import pytest

from reshuffle.reporting import sentences
from reshuffle.reporting.figures import figures
from reshuffle.reporting.recommendation import again, card, cards
from reshuffle.wording import compared, count, counted, factor, number, percent


def test_numbers_are_written_for_people():
    assert [number(x) for x in (0.0006264, 12.0, 1234.5, 0.0, None)] == ["0.0006264", "12", "1,234", "0", "–"]
    assert number(2.354e-07) == "2.354\u00a0×\u00a010⁻⁷"
    assert number(9.99999e-06) == "1\u00a0×\u00a010⁻⁵"
    assert number(float("inf")) == "∞"
    assert [count(x) for x in (1, 22628, 999999, 3.794e6, 1.24e11, 5.26e12)] == [
        "1",
        "22,628",
        "999,999",
        "3.79 million",
        "124 billion",
        "5.26 trillion",
    ]
    assert count(2.83e23) == "2.83\u00a0×\u00a010²³"
    assert [factor(x) for x in (1.0, 1.346, 9.99, 37.4, 1594.0, 3e6)] == ["1", "1.35", "9.99", "37", "1,590", "3 million"]
    assert [counted(1, "epoch"), counted(2, "epoch")] == ["1 epoch", "2 epochs"]
    assert percent(0.1127) == "11\u00a0%"
    assert compared(3.0, 1.0, "higher", "lower", "as high") == "3 times higher"
    assert compared(1.0, 3.0, "higher", "lower", "as high") == "3 times lower"
    assert compared(1.0, 1.01, "higher", "lower", "as high") == "as high"


def with_rows(report, **changes):
    return replace(report, dataset=replace(report.dataset, row_norms=replace(report.dataset.row_norms, **changes)))


def test_the_sentence_on_rows(report):
    varied = with_rows(report, smallest=1.0, median=2.0, largest=6.0, zeros=0)
    assert sentences.row_norms(varied) == (
        "The longest row is 3 times as long as the median one, which makes L 9 times what median rows would give."
    )
    assert sentences.row_norms(with_rows(varied, zeros=1)).endswith("would give; 1 row is zero.")
    assert sentences.row_norms(with_rows(varied, zeros=4)).endswith("would give; 4 rows are zero.")
    even = with_rows(report, smallest=2.0, median=2.0, largest=2.0, zeros=0)
    assert sentences.row_norms(even) == "Every row has the norm 2, so no single row decides L."
    assert sentences.row_norms(replace(even, dataset=replace(even.dataset, n=1))) == "The only row has norm 2."
    nearly = with_rows(report, smallest=1.0, median=2.0, largest=2.05, zeros=0)
    assert sentences.row_norms(nearly) == "The longest row is hardly longer than the median one, so no single row decides L."
    empty = with_rows(report, smallest=1.0, median=0.0, largest=2.0, zeros=50)
    assert sentences.row_norms(empty) == "More than half of the rows are zero, and the longest of the others has norm 2."


def with_features(report, d=4, **changes):
    scales = replace(report.dataset.feature_scales, **changes)
    return replace(report, dataset=replace(report.dataset, d=d, feature_scales=scales, largest_feature="age"))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"median": 1.0, "largest": 20.0},
            "The largest feature, age, has 20 times the size of the median one; scaling the features would help.",
        ),
        (
            {"median": 1.0, "largest": 2.0},
            "The largest feature, age, has 2 times the size of the median one; the features are of similar size.",
        ),
        (
            {"median": 1.0, "largest": 5.0, "zeros": 2},
            "The largest feature, age, has 5 times the size of the median one; 2 features are zero throughout.",
        ),
        (
            {"median": 0.0, "largest": 5.0, "zeros": 3},
            "More than half of the features are zero, and the largest of the others is feature age.",
        ),
        ({"smallest": 5.0, "median": 5.0, "largest": 5.0}, "Every feature has the size 5."),
        ({"d": 1, "largest": 5.0}, "There is one feature, of size 5."),
    ],
)
def test_the_sentence_on_features(report, changes, said):
    assert sentences.feature_scales(with_features(report, **{"smallest": 0.5, "zeros": 0, **changes})) == said


def test_the_sentence_on_the_spread(report):
    def said(**changes):
        return sentences.spread(replace(report, spread=replace(report.spread, **changes)))

    wide = {"permutations": 200, "mean": 5.0, "std": 0.5, "smallest": 4.0, "largest": 6.0}
    assert said(**wide) == (
        "Over 200 random orders L/L̂ lies between 4 and 6, with mean 5: orders differ by 10\u00a0% (standard deviation)."
    )
    assert said(**{**wide, "std": 0.001}).endswith("with mean 5: the order that is drawn hardly matters.")
    assert said(**{**wide, "permutations": 1}) == "The one order gives L/L̂ = 5."
    assert said(**{**wide, "smallest": 4.99999, "largest": 5.00001}) == "Each of 200 random orders gives L/L̂ = 5."
    kinked = sentences.spread(replace(report, smooth=False, spread=replace(report.spread, **wide)))
    assert kinked.startswith("Over 200 random orders G²/Ĝ lies between")


def test_the_sentences_on_batch_sizes(report):
    assert "grows from 1 at batch size 1 to " in sentences.constants_by_batch(replace(report, til_exponent=0.5))
    assert "like b to the power 0.50; L/L̂ goes from " in sentences.constants_by_batch(replace(report, til_exponent=0.5))
    assert sentences.constants_by_batch(replace(report, til_exponent=0.001)).startswith("L/L̃ hardly grows with the batch size: ")
    assert sentences.constants_by_batch(replace(report, til_exponent=None)).startswith("With a single row there is a single batch")
    batches = tuple(replace(row, step_size=3.0, textbook_step=1.0) for row in report.batches)
    assert sentences.steps_by_batch(replace(report, batches=batches, step_exponent=0.9)) == (
        "The step grows like b to the power 0.90 and is 3 times the textbook one."
    )
    other = (replace(batches[0], textbook_step=2.0), *batches[1:])
    assert sentences.steps_by_batch(replace(report, batches=other, step_exponent=None)) == (
        "With a single row the step is 1.5 to 3 times the textbook one."
    )


def test_the_sentence_on_epochs(report):
    plan = report.plan
    first = replace(plan.choices[0], batch_size=1, epochs=300, epochs_in_file_order=900)
    best = replace(first, batch_size=8, epochs=100, epochs_in_file_order=50)
    said = sentences.epochs_by_batch(replace(report, plan=replace(plan, promised=best, choices=(first, best), eps=0.01)))
    assert said == (
        "To promise f − min f ≤ 0.01, batch size 8 takes 100 epochs; batch size 1 takes 3 times as many, and the order of the file "
        "2 times fewer."
    )
    said = sentences.epochs_by_batch(replace(report, plan=replace(plan, promised=first, choices=(first, best), eps=0.01)))
    assert said == (
        "To promise f − min f ≤ 0.01, batch size 1 takes 300 epochs, and no larger batch takes much fewer, and the order of the "
        "file 3 times as many."
    )
    whole = replace(best, batch_size=plan.n, epochs=1)
    said = sentences.epochs_by_batch(replace(report, plan=replace(plan, promised=whole, choices=(first, whole), eps=0.01)))
    assert said == f"To promise f − min f ≤ 0.01, batch size {plan.n} takes 1 epoch; batch size 1 takes 300 times as many."


def with_run(report, theory=(0.1, 2.0, 8.0), advised=(0.01, 0.01, 0.01, 0.01), diverged=()):
    run = report.convergence
    gap, bound, prior = theory
    first = replace(
        run.at_theory[0],
        gaps=(gap,),
        bounds=None if bound is None else (bound,),
        prior=None if prior is None else (prior,),
    )
    last = tuple(
        replace(curve, gaps=(reached,), diverged=curve.order in diverged)
        for curve, reached in zip(run.at_advised, advised, strict=True)
    )
    plan = replace(report.plan, advice=replace(report.plan.advice, order="rr", epochs=30))
    changed = replace(run, at_theory=(first, *run.at_theory[1:]), at_advised=last, multiple=64.0)
    return replace(report, plan=plan, convergence=changed)


def test_the_sentence_on_runs_at_the_step_of_the_theory(report):
    head = "After 30 epochs at the step of the theory, a new random order each epoch "
    assert sentences.at_theory(with_run(report)) == (
        f"{head}stands at a gap of 0.1, 20 times below the 2 that this theory promises; what earlier theory promises is 4 times "
        "larger."
    )
    assert sentences.at_theory(with_run(report, (0.1, 2.0, 1.0))).endswith("what earlier theory promises is 2 times smaller.")
    assert sentences.at_theory(with_run(report, (0.1, 2.0, 2.0))).endswith("what earlier theory promises is the same.")
    assert sentences.at_theory(with_run(report, (0.1, 2.0, None))).endswith("20 times below the 2 that this theory promises.")
    assert sentences.at_theory(with_run(report, (0.1, None, None))) == f"{head}stands at a gap of 0.1."
    assert sentences.at_theory(with_run(report, (None, 2.0, 8.0))) == f"{head}has reached the minimum, as closely as that is known."


def test_the_sentence_on_runs_at_the_advised_step(report):
    said = sentences.at_advised
    head = "At the advised step, 64 times the theory’s, a new random order each epoch reaches a gap of 0.01 in 30 epochs"
    assert said(with_run(report)) == f"{head}; the other orders end as low."
    made = "an order that each epoch makes for the next"
    assert said(with_run(report, advised=(0.01, 0.03, 0.005, 0.001))) == (
        f"{head}; one random order for all epochs ends 3 times higher, the order of the file ends 2 times lower and {made} ends 10 "
        "times lower."
    )
    assert said(with_run(report, advised=(0.01, 0.03, None, 0.01), diverged=("ig",))).endswith(
        f"one random order for all epochs ends 3 times higher, the order of the file diverges and {made} ends as low."
    )
    assert said(with_run(report, advised=(None, 0.2, None, 0.3))).endswith(
        "reaches the minimum, as closely as that is known in 30 epochs; one random order for all epochs ends at 0.2, the order of "
        f"the file reaches the minimum and {made} ends at 0.3."
    )


def with_choice(accuracy, k, **changes):
    choices = list(accuracy.choices)
    choices[k] = replace(choices[k], **changes)
    return replace(accuracy, choices=tuple(choices))


def test_promises_in_every_case(report):
    accuracy = report.accuracies[report.selected]
    k = 3 if accuracy.promised != 3 else 2
    option = accuracy.choices[k]
    whole = card(report, accuracy, len(accuracy.choices) - 1)
    assert whole["order_matters"] == "The order does not matter: every step sees all rows."
    assert "on average" not in whole["promise"]
    assert ", for certain, whatever data has these constants: the training loss is within" in whole["promise"]
    assert f"(Theorem {option.theorem})" in card(report, accuracy, k)["promise"]
    chosen = {"step_size": 4.0, "epochs": 100, "epochs_in_file_order": 250, "textbook_step": 2.0, "textbook_epochs": 300}
    told = card(report, with_choice(accuracy, k, **chosen), k)
    assert told["textbook"] == (
        "The step is 2 times as large as the textbook step, which knows the data only by its largest row; the same promise takes 3 "
        "times fewer epochs."
    )
    for ratio, noise in (
        (None, ""),
        (40.0, "; its discrepancy is 40 times that of a random order"),
        (1.0, "; its discrepancy is that of a random order"),
    ):
        order = card(report, with_choice(accuracy, k, **chosen, discrepancy_in_file_order=ratio), k)["order_matters"]
        assert order == f"In the order of the file the same promise takes 2.5 times as many epochs{noise}."
    same = card(report, with_choice(accuracy, k, **{**chosen, "textbook_step": 4.0, "textbook_epochs": 100}), k)
    assert same["textbook"] == "The textbook step, which knows the data only by its largest row, is the same here."
    assert "and earlier theory (Mishchenko, Khaled, Richtárik 2020, batch size 1) after " in told["evaluations"]
    kinked = card(replace(report, smooth=False), replace(accuracy, prior_evaluations=None), k)
    assert "earlier theory" not in kinked["evaluations"]
    assert "the subgradient method promises the same after " in kinked["evaluations"]
    weighted = card(report, with_choice(accuracy, k, average="weighted"), k)
    assert weighted["promised_command"].endswith(" --average weighted")
    assert weighted["promise"].startswith("Promised for the weighted average after ")
    assert f"Batch size {accuracy.choices[accuracy.promised].batch_size} has the best promise" in told["batch_choice"]
    first = replace(accuracy, promised=0)
    assert card(report, first, 0)["batch_choice"] == "No larger batch needs much less work for the same promise."
    late = card(report, with_choice(accuracy, k, epochs=5 * 10**9), k)
    assert late["promise"] == "No useful promise: it would take 5 billion epochs."
    assert f"--step-size {option.step_size!r}" in card(report, accuracy, k)["promised_command"]


def test_advice_in_every_case(report):
    accuracy, advice = report.accuracies[report.selected], report.plan.advice
    mine = card(report, accuracy, accuracy.advised)
    assert mine["batch"] == f"{advice.batch_size:,}"
    assert mine["step"] == number(advice.step_size)
    assert mine["epochs"] == count(advice.epochs)
    assert f"within {number(advice.gap)} of its minimum, {percent(advice.relative_gap)} of what there is to gain" in mine["reached"]
    assert f"Certified: within {number(advice.certified_gap)}." in mine["reached"]
    assert card(report, accuracy, 0)["headline"].startswith("Train with one row at a time and step size ")
    assert card(report, accuracy, len(accuracy.choices) - 1)["headline"].startswith("Train on all rows at once with step size ")
    k = 0 if accuracy.advised != 0 else 1
    other = accuracy.settings[k]
    assert card(report, accuracy, k)["against"].startswith(f"Batch size {advice.batch_size:,} is advised")
    settings = list(accuracy.settings)

    def told(**changes):
        settings[k] = replace(other, **changes)
        return card(report, replace(accuracy, settings=tuple(settings)), k)

    ordered = told(order="balanced", step_size=0.25, epochs=6, gap=0.5, worst=2 * accuracy.eps, rows=40, seeds=3)
    assert ", in balanced order, for 6 epochs" in ordered["headline"]
    assert ordered["reached"].startswith("Measured here on a sample of 40 rows: the training loss came within 0.5 of its minimum")
    assert "on average over 3 runs" in ordered["reached"]
    asked = percent(accuracy.eps / advice.gain)
    assert ordered["reached"].endswith(f"The {asked} that were asked for were not reached in 6 epochs.")
    assert ordered["command"].endswith("--average last --order balanced")
    assert "not reached" not in told(worst=0.5 * accuracy.eps)["reached"]
    settings[k] = None
    missing = card(report, replace(accuracy, settings=tuple(settings)), k)
    assert "were not tried" in missing["headline"]
    assert missing["command"] == ""
    assert all(entry["command"].startswith("reshuffle run '") for row in cards(report) for entry in row)
    assert "--target label --scale none --loss logistic --alpha 0.01 --intercept --seed 5 " in mine["command"]
    assert again(report).endswith(
        "--target label --scale none --loss logistic --alpha 0.01 --intercept --seed 5 --eps 0.02 --permutations 3"
    )
    from_python = replace(report, source=())
    assert again(from_python) is None
    assert card(from_python, accuracy, k)["promised_command"].startswith("rs.minimize(")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (None, None),
        (1, "No shuffle buffer is needed"),
        (60, "has to hold 60 of the 80 rows to be"),
        (80, "has to hold all 80 rows to be"),
    ],
)
def test_the_sentence_on_a_buffer(report, rows, said):
    told = sentences.buffer(replace(report, plan=replace(report.plan, smallest_buffer=rows)))
    assert told is None if said is None else said in told


def test_every_figure_has_a_sentence_and_its_numbers_in_a_table(report):
    drawn = figures(report)
    assert len(drawn) == 12
    for figure in drawn.values():
        assert figure.sentence.endswith(".")
        assert figure.sentence.count(". ") == 0
        assert figure.rows
        assert all(len(row) == len(figure.columns) for row in figure.rows)
