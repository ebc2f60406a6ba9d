"""The numbers of a report are those of plan, theory and the runs; the page and the command say the same ones."""

import json
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

import reshuffle as rs
from reshuffle import theory
from reshuffle.complexity import complexities
from reshuffle.reporting import convergence
from reshuffle.reporting.dataset import distribution
from tests.reporting.conftest import COMMAND, LABELS, SETTINGS, write_table


def small(n=60, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, 0] + rng.standard_normal(n) > 0, 1.0, -1.0)


def without_clock(numbers):
    return {name: value for name, value in numbers.items() if name != "seconds"}


def embedded(page):
    text = page.read_text(encoding="utf-8")
    start = text.index('id="numbers">') + len('id="numbers">')
    return json.loads(text[start : text.index("</script>", start)])


def test_page_command_and_library_have_the_same_numbers(made):
    want = json.loads(json.dumps(without_clock(made.report.to_dict())))
    assert without_clock(made.printed) == want
    assert embedded(made.page) == made.printed


def test_the_plan_on_the_page_is_the_plan(made, tmp_path):
    words = ["plan", write_table(tmp_path), "--alpha", "0.01", "--intercept", "--scale", "none", "--json"]
    for name, value in SETTINGS.items():
        words += [f"--{name}", value]
    printed = subprocess.run([str(COMMAND), *map(str, words)], capture_output=True, text=True, check=True).stdout
    scaling = embedded(made.page)["dataset"]["scaling"]
    assert json.loads(printed) == {**embedded(made.page)["plan"], "scaling": scaling}
    selected = made.report.accuracies[made.report.selected]
    assert selected.eps == SETTINGS["eps"]
    assert selected.choices == made.report.plan.choices
    assert selected.choices[selected.recommended] == made.report.plan.recommended


def test_every_eps_on_offer_is_what_a_plan_for_it_says():
    problem = rs.Problem(*small(), alpha=0.1)
    found = rs.report(problem, eps=0.01, permutations=2)
    for accuracy in found.accuracies:
        plan = rs.plan(problem, eps=accuracy.eps, permutations=2)
        assert accuracy.choices == plan.choices
        assert accuracy.choices[accuracy.recommended] == plan.recommended
        assert accuracy.prior_evaluations == plan.prior_evaluations
        assert accuracy.full_gradient_evaluations == plan.full_gradient_evaluations
        for choice in accuracy.choices:
            assert choice.textbook_epochs >= choice.epochs


def test_the_table_is_that_of_the_paper(report, made):
    data = rs.load(made.printed["dataset"]["name"])
    problem = rs.Problem(data.X, data.y, alpha=0.01, fit_intercept=True)
    constants = {"permutations": SETTINGS["permutations"], "seed": SETTINGS["seed"]}
    rr, ig = rs.constants(problem, **constants), rs.constants(problem, order="ig", seed=SETTINGS["seed"])
    assert list(report.complexities) == complexities(problem, theory.measure(problem), rr, ig, report.tabled)


def test_the_dataset_is_described(report):
    data = report.dataset
    assert (data.n, data.d, data.nnz, data.density) == (80, 4, 320, 1.0)
    assert tuple(label for label, _ in data.classes) == LABELS
    assert sum(count for _, count in data.classes) == 80
    assert sum(data.row_norms.counts) == 80
    assert sum(data.feature_scales.counts) == 4
    assert data.feature_scales.largest_index == 2


def test_distributions_count_everything():
    values = distribution(np.array([0.0, 1.0, 2.0, 1000.0]))
    assert values.log
    assert (values.zeros, sum(values.counts), values.largest_index) == (1, 3, 3)
    same = distribution(np.full(7, 2.0))
    assert same.counts == (7,)
    assert same.edges[0] < 2.0 < same.edges[1]
    assert distribution(np.zeros(3)).zeros == 3


def test_bounds_hold_for_the_measured_runs_and_belong_to_their_steps():
    problem = rs.Problem(*small(), alpha=0.05)
    found = rs.report(problem, permutations=4)
    optimum, run = theory.measure(problem), found.convergence
    for curve in run.at_theory:
        assert all(gap <= bound for gap, bound in zip(curve.gaps, curve.bounds, strict=True))
        again = rs.minimize(problem, order=curve.order, batch_size=run.batch_size, step_size=curve.step_size, epochs=run.epochs)
        assert [epoch.f - optimum.f for epoch in again.history] == pytest.approx(curve.gaps)
        promised = rs.Guarantee.of(problem, again, optimum)
        assert curve.bounds[-1] == pytest.approx(promised.bound)
        assert curve.prior[-1] == pytest.approx(promised.prior)


def test_the_practical_step_is_the_one_that_ended_lowest():
    run = rs.report(rs.Problem(*small(), alpha=0.05), permutations=2).convergence
    lowest = min(run.trials, key=lambda trial: trial.gap)
    assert run.multiple == lowest.multiple > 1
    assert [trial.multiple for trial in run.trials] == [2**k for k in range(len(run.trials))]
    assert len(run.trials) - [trial.multiple for trial in run.trials].index(run.multiple) == 3
    reached = run.at_practical[0]
    assert reached.gaps[-1] == lowest.gap < run.at_theory[0].gaps[-1]
    assert max(reached.gaps) <= run.start_gap
    assert run.practical_step == pytest.approx(run.multiple * run.at_theory[0].step_size)
    assert [curve.order for curve in run.at_practical] == ["rr", "so", "ig", "balanced"]
    assert len({curve.step_size for curve in run.at_practical}) == 1


def test_a_step_that_rises_above_the_start_on_the_way_is_halved():
    X, y = small()
    run = rs.report(rs.Problem(X * [1.0, 1.0, 10.0], y, alpha=1e-3), permutations=1).convergence
    lowest = min(run.trials, key=lambda trial: trial.gap or float("inf"))
    assert run.multiple < lowest.multiple
    assert max(run.at_practical[0].gaps) <= run.start_gap


def test_a_step_that_diverges_is_never_taken():
    X, y = small()
    run = rs.report(rs.Problem(X, X[:, 0] + y, loss="squared"), permutations=2).convergence
    assert run.trials[-1].gap is None or run.trials[-1].gap > run.start_gap
    assert max(gap for gap in run.at_practical[0].gaps if gap is not None) <= run.start_gap


@pytest.mark.parametrize("sparse", [False, True])
def test_large_data_is_sampled_for_the_runs_and_only_for_them(monkeypatch, sparse):
    X, y = small(200)
    problem = rs.Problem(sp.csr_array(X) if sparse else X, y, alpha=0.05)
    whole = rs.report(problem, permutations=2)
    monkeypatch.setattr(convergence, "LARGEST", 150)
    part = rs.report(problem, permutations=2)
    assert not whole.convergence.sampled
    assert part.convergence.sampled
    assert (part.convergence.rows, part.convergence.n) == (50, 200)
    assert part.plan == whole.plan
    assert part.batches == whole.batches
    notice = "Measured on a random sample of 50 of the 200 rows (seed 0)"
    assert part.html().count(notice) == 2
    assert "a sample of 50 of the 200 rows" in part.html()
    assert "Measured on a random sample" not in whole.html()
    assert rs.report(problem, permutations=2).convergence == part.convergence
    for curve in part.convergence.at_theory:
        assert all(gap is None or gap <= bound for gap, bound in zip(curve.gaps, curve.bounds, strict=True))


def test_losses_with_kinks_and_regression_have_reports():
    X, y = small(40)
    hinge = rs.report(rs.Problem(X, y, loss="hinge"), eps=0.1, permutations=2)
    assert not hinge.smooth
    assert hinge.convergence.at_theory[0].prior is None
    assert all(
        gap is None or gap <= bound for c in hinge.convergence.at_theory for gap, bound in zip(c.gaps, c.bounds, strict=True)
    )
    assert "G²/Ĝ" in hinge.html()
    squared = rs.report(rs.Problem(X, X[:, 0] + 3.0, loss="squared", fit_intercept=True), permutations=2)
    assert squared.dataset.classes == ()
    assert squared.dataset.label_range == (min(X[:, 0]) + 3, np.mean(X[:, 0] + 3), max(X[:, 0]) + 3)
    json.dumps(hinge.to_dict(), allow_nan=False)


def test_the_smallest_data_there_is():
    found = rs.report(rs.Problem(np.array([[2.0]]), [1.0], loss="squared"))
    assert (found.til_exponent, found.step_exponent) == (None, None)
    assert "The only row has norm 2." in found.html()


@pytest.mark.parametrize(
    ("arguments", "options", "complaint"),
    [
        ({"loss": "logistic"}, {"eps": 0.0}, "eps=0.0 must be a positive number"),
        ({"loss": "logistic"}, {"permutations": 0}, "permutations=0"),
        ({"loss": "logistic"}, {"seed": -1}, "seed=-1"),
        ({"loss": "unit"}, {}, "loss='unit' has constants but no values"),
        ({"loss": "hinge", "alpha": 0.1}, {}, "no theorem covers a loss with kinks and a regulariser"),
    ],
)
def test_mistakes_are_named(arguments, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        rs.report(rs.Problem(*small(), **arguments), **options)


def test_a_problem_that_is_solved_at_the_start_is_refused():
    X, _ = small()
    with pytest.raises(ValueError, match="already a minimum of f, so there is nothing to train; an intercept may be missing"):
        rs.report(rs.Problem(X - X.mean(axis=0), np.full(60, 50.0), loss="squared"))
