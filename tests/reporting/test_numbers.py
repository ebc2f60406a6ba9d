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
    """All but the seconds that things took, at any depth."""
    if isinstance(numbers, dict):
        return {name: without_clock(value) for name, value in numbers.items() if name != "seconds"}
    return [without_clock(value) for value in numbers] if isinstance(numbers, list) else numbers


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
    assert without_clock(json.loads(printed)) == without_clock({**embedded(made.page)["plan"], "scaling": scaling})
    selected = made.report.accuracies[made.report.selected]
    assert selected.eps == SETTINGS["eps"]
    assert selected.choices == made.report.plan.choices
    assert selected.choices[selected.promised] == made.report.plan.promised
    advice, shown = made.report.plan.advice, selected.settings[selected.advised]
    assert (shown.order, shown.batch_size, shown.step_size) == (advice.order, advice.batch_size, advice.step_size)
    assert shown.epochs == advice.epochs


def test_every_eps_on_offer_is_what_a_plan_for_it_says():
    problem = rs.Problem(*small(), alpha=0.1)
    found = rs.report(problem, eps=0.01, permutations=2)
    assert [accuracy.eps for accuracy in found.accuracies] == [1.0, 0.3, 0.1, 0.03, 0.01]
    for accuracy in found.accuracies:
        plan = rs.plan(problem, eps=accuracy.eps, permutations=2)
        assert accuracy.choices == plan.choices
        assert accuracy.choices[accuracy.promised] == plan.promised
        advised = accuracy.settings[accuracy.advised]
        assert advised.worst <= accuracy.eps
        assert advised.epochs == min(s.epochs for s in accuracy.settings if s.worst <= accuracy.eps)
        assert advised.epochs <= plan.advice.epochs
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


def test_runs_at_the_advised_step_are_the_advice_in_all_orders():
    problem = rs.Problem(*small(), alpha=0.05)
    found = rs.report(problem, permutations=2)
    run, advice, optimum = found.convergence, found.plan.advice, theory.measure(problem)
    assert [curve.order for curve in run.at_advised] == ["rr", "so", "ig", "balanced"]
    for curve in run.at_advised:
        assert curve.step_size == advice.step_size
        again = rs.minimize(problem, **{**advice.arguments, "order": curve.order})
        assert [epoch.f - optimum.f for epoch in again.history] == pytest.approx(curve.gaps)
    assert run.multiple == pytest.approx(advice.step_size / run.at_theory[0].step_size)


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
    assert part.html().count(notice) == 1
    assert part.convergence.at_advised == whole.convergence.at_advised
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
