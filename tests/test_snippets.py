"""Code that a plan prints runs as it stands, and trains as was measured."""

import json
import math

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import snippets
from reshuffle.losses import LOSSES, get_loss
from tests.test_console import run

SCALES = ("none", "std", "maxabs", "rows")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with words, columns of very different sizes, and two classes that overlap."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3)) * [1.0, 50.0, 0.1] + [0.0, 200.0, 1.0]
    city = rng.choice(["oslo", "rome", "lima"], 300)
    z = X[:, 0] + (X[:, 1] - 200.0) / 50.0 + (city == "rome") + 0.5 * rng.standard_normal(300)
    path = tmp_path_factory.mktemp("snippets") / "churn.csv"
    rows = [
        f"{a!r},{b!r},{c!r},{place},{'yes' if one > 0 else 'no'}" for (a, b, c), place, one in zip(X.tolist(), city, z, strict=True)
    ]
    path.write_text("\n".join(["a,b,c,city,churned", *rows]))
    return path


def planned(path, scale):
    data = rs.load(path, target="churned")
    problem = rs.Problem(data.X, data.y == "yes", loss="logistic", alpha=1e-2, fit_intercept=True)
    problem = rs.scale(problem, scale).apply(problem)
    return problem, rs.plan(problem)


def executed(code):
    names = {}
    exec(compile(code, "snippet", "exec"), names)
    return names


@pytest.mark.parametrize("scale", SCALES)
def test_code_for_this_library_does_what_was_measured(table, scale, capsys):
    problem, plan = planned(table, scale)
    read = snippets.reading([str(table)], {"target": "churned", "strict": False}, "yes")
    names = executed(plan.code_for("reshuffle", read))
    assert names["run"].f - rs.theory.measure(problem).f == pytest.approx(plan.advice.gap, rel=1e-6, abs=1e-12)
    assert "f - min f" in capsys.readouterr().out


@pytest.mark.parametrize("scale", SCALES)
def test_code_for_sklearn_ends_where_one_row_at_a_time_did(table, scale, capsys):
    problem, plan = planned(table, scale)
    best = rs.theory.measure(problem).f
    read = snippets.reading([str(table)], {"target": "churned"}, "yes")
    names = executed(plan.code_for("sklearn", read))
    sgd, setting = names["sgd"], snippets._one_row_at_a_time(plan.advice)
    assert (sgd.learning_rate, sgd.eta0, sgd.max_iter, sgd.alpha) == ("constant", setting.step_size, setting.epochs, 0.01)
    gap = problem.objective(np.append(sgd.coef_[0], sgd.intercept_)) - best
    # other random orders than ours: the gap of a single run is noisy, by about its own size
    assert gap <= 6.0 * setting.gap + 1e-4
    assert "score on the data itself" in capsys.readouterr().out


@pytest.mark.parametrize("scale", SCALES)
def test_code_for_torch_follows_the_measured_curve(table, scale, capsys):
    pytest.importorskip("torch", reason="torch is not installed: pip install 'reshuffle[torch]'")
    problem, plan = planned(table, scale)
    read = snippets.reading([str(table)], {"target": "churned"}, "yes")
    executed(plan.code_for("torch", read))
    printed = [float(line.split("= ")[1]) for line in capsys.readouterr().out.splitlines()]
    setting = plan.advice.in_random_order
    options = {"order": setting.order, "batch_size": setting.batch_size, "step_size": setting.step_size, "epochs": setting.epochs}
    ours = rs.minimize(problem, **options, seed=plan.seed, average="last")
    assert printed == pytest.approx([epoch.f for epoch in ours.history], rel=1e-3)  # float32, and a last batch that decays in full


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "unit"])
def test_every_loss_is_written_for_torch_as_it_is(name):
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'reshuffle[torch]'")
    loss = get_loss(name)
    z, y = torch.linspace(-3.0, 3.0, 41, dtype=torch.float64), torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat(21)[:41]
    ours = eval(snippets._formula(snippets._IN_TORCH, name, "PyTorch"), {"torch": torch, "z": z, "y": y})
    expected = [loss.value(a, b, loss.parameter) for a, b in zip(z.tolist(), y.tolist(), strict=True)]
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_the_command_prints_code_alone(table):
    code, said = run("plan", str(table), "--target", "churned", "--for", "reshuffle", "--alpha", "0.01", "--scale", "std")
    assert "loss logistic" in said
    assert "target='churned'" in code
    names = executed(code)
    told = json.loads(run("plan", str(table), "--target", "churned", "--json", "--alpha", "0.01", "--scale", "std")[0])
    best = rs.theory.measure(names["problem"]).f
    assert names["run"].f - best == pytest.approx(told["advice"]["gap"], rel=1e-6, abs=1e-12)


def test_of_several_classes_the_code_tells_the_largest_from_the_rest():
    code = run("plan", "digits", "--for", "reshuffle", "--tol", "0.1")[0]
    labels, counts = np.unique(rs.load("digits").y, return_counts=True)
    assert f"data.y == {labels[np.argmax(counts)]}" in code


def test_what_has_no_code_is_refused_before_any_work(table):
    assert (
        "there is no code for 'jax'; use one of torch, sklearn, reshuffle" in run("plan", str(table), "--for", "jax", status=2)[1]
    )
    assert "leave one out" in run("plan", str(table), "--for", "torch", "--json", status=2)[1]
    with pytest.raises(ValueError, match="has no code for scikit-learn's SGD yet; use one of logistic"):
        snippets._entry(snippets._IN_SKLEARN, "smoothed_hinge", "scikit-learn's SGD")


def test_one_row_at_a_time_must_have_been_of_use(table):
    _, plan = planned(table, "std")
    advice = plan.advice
    hopeless = [setting for setting in advice.settings if setting.batch_size > 1]
    object.__setattr__(advice, "settings", tuple(hopeless))
    with pytest.raises(ValueError, match="diverged here at every step"):
        snippets._one_row_at_a_time(advice)
    assert math.isfinite(advice.gap)
