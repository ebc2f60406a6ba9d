"""The command through its real entry point."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import reshuffle as rs

COMMAND = Path(sys.executable).with_name("reshuffle")


def run(*arguments, status=0, stdin=None):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, input=stdin)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


KEYS = (
    "n d nnz batch_size order permutations seed L lhat_mean lhat_std lhat_min lhat_max ltil_mean ltil_max l_over_lhat "
    "mean_l_over_lhat l_over_ltil full_gradient_constant predicted_lhat step_size_limit seconds"
)


def test_json_is_one_object_with_every_number_of_the_library():
    stdout, stderr = run("constants", "breast_cancer", "--permutations", 7, "--batch-size", 5, "--seed", 3, "--json")
    printed = json.loads(stdout)
    assert set(KEYS.split()) <= set(printed)
    assert stderr == ""
    want = rs.constants(rs.load("breast_cancer").X, permutations=7, batch_size=5, seed=3).to_dict()
    want["scaling"] = {"kind": "none", "reason": ""}
    assert {**printed, "seconds": 0} == {**want, "seconds": 0}


def test_a_lipschitz_loss_has_its_own_names(called):
    printed = json.loads(called("constants", "diabetes", "--loss", "absolute", "--permutations", 3, "--json")[0])
    assert {"G", "ghat_mean", "ghat_std", "ghat_min", "ghat_max", "gtil_mean", "gtil_max", "gbar"} <= set(printed)
    assert "L" not in printed


def test_the_plain_output_has_one_line_a_number(called):
    stdout, _ = called("constants", "breast_cancer", "--loss", "logistic", "--permutations", 3, "--jobs", 1)
    words = [line.split()[0] for line in stdout.splitlines()]
    assert words[:6] == ["n", "d", "nnz", "loss", "batch", "order"]
    assert {"L", "Lhat", "L/Lhat", "Ltil", "L/Ltil", "step"} <= set(words)
    assert "step size" in stdout


def test_tables_take_a_target(tmp_path, called):
    (tmp_path / "t.csv").write_text("label,a,b\nyes,1,2\nno,3,4\nyes,5,6\n")
    stdout, _ = called("constants", tmp_path / "t.csv", "--target", "label", "--loss", "logistic", "--order", "ig", "--json")
    printed = json.loads(stdout)
    assert (printed["n"], printed["d"], printed["L"], printed["permutations"]) == (3, 2, 61 / 4, 1)


def test_a_journal_is_resumed(tmp_path):
    arguments = ["constants", "digits", "--permutations", 4, "--out", tmp_path / "run.jsonl", "--json"]
    first, second = (json.loads(run(*arguments)[0]) for _ in range(2))
    assert {**first, "seconds": 0} == {**second, "seconds": 0}
    assert "seed is 0 there and 1 now" in run(*arguments, "--seed", 1, status=2)[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.svm"], "there is no file 'nowhere.svm'"),
        (["digits", "--batch-size", "5000"], "batch_size=5000 is larger than the 1797 rows"),
        (["digits", "--loss", "cubic"], "loss='cubic' is not known"),
        (["digits", "--order", "random"], "order='random' is not known"),
        (["digits", "--order", "blocks:2000"], "order='blocks:2000': rows=2000 is larger than the 1797 rows of the data"),
        (["digits", "--order", "distributed:4"], "order='distributed:4' does not visit each of the 1797 rows once an epoch"),
        (["digits", "--order", "balanced"], "order 'balanced' is made while a run goes on; constants belong to known orders"),
        (["digits", "--tol", "0"], "tol=0.0"),
        (["digits", "--permutations", "many"], "Invalid value for '--permutations'"),
    ],
)
def test_mistakes_end_in_one_clear_line(arguments, complaint, called):
    stdout, stderr = called("constants", *arguments, status=2)
    assert stdout == ""
    assert complaint in stderr
    assert "Traceback" not in stderr


def test_run_prints_an_epoch_a_line_and_the_bound_beside_the_gap():
    stdout, _ = run("run", "breast_cancer", "--batch-size", 8, "--epochs", 4, "--alpha", 0.1)
    lines = stdout.splitlines()
    assert [line.split()[:2] for line in lines[:4]] == [["epoch", str(k)] for k in (1, 2, 3, 4)]
    assert lines[4].startswith("f = ")
    assert [line.split()[0] for line in lines[5:]] == ["measured", "promised", "with", "before"]
    assert "on average over orders (Theorem 1" in stdout or "for certain (Theorem 6" in stdout


def test_run_as_json_holds_what_the_library_returns(called):
    arguments = ["run", "diabetes", "--loss", "squared", "--alpha", 0, "--order", "ig", "--batch-size", 5, "--epochs", 6, "--json"]
    printed = json.loads(called(*arguments, "--scale", "none")[0])
    data = rs.load("diabetes")
    problem = rs.Problem(data.X, data.y, loss="squared", fit_intercept=True)
    want = rs.minimize(problem, order="ig", batch_size=5, epochs=6)
    assert printed["x"] == want.x.tolist()
    assert [entry["f"] for entry in printed["history"]] == [entry.f for entry in want.history]
    assert printed["theorem"] == 6
    assert (printed["in_expectation"], printed["failure"]) == (False, 0.0)
    assert 0 <= printed["gap"] <= printed["bound"]
    assert printed["certified_gap"] is None


def test_run_takes_what_loaders_do_as_an_order_and_promises_nothing_where_no_theorem_speaks(called):
    stdout, _ = called(
        "run", "breast_cancer", "--order", "shards:8/open:2/buffer:50", "--batch-size", 8, "--epochs", 2, "--alpha", 0.1
    )
    assert "for certain (Theorem 6" in stdout
    words = ["--order", "distributed:8", "--epochs", 2, "--alpha", 0.1]  # of 569 rows
    stdout, _ = called("run", "breast_cancer", *words, "--step-size", 1e-9)
    assert "promised     nothing: theorems are about each sample once an epoch" in stdout
    assert "order='distributed:8': theorems are about orders" in called("run", "breast_cancer", *words, status=2)[1]


def test_run_takes_an_order_that_is_made_while_running(called):
    words = ["--alpha", 0.1, "--order", "balanced", "--batch-size", 4, "--epochs", 5, "--scale", "none", "--json"]
    printed = json.loads(called("run", "breast_cancer", *words)[0])
    data = rs.load("breast_cancer")
    want = rs.minimize(rs.Problem(data.X, data.y, alpha=0.1, fit_intercept=True), order="balanced", batch_size=4, epochs=5)
    assert printed["x"] == want.x.tolist()
    assert (printed["order"], printed["theorem"], printed["failure"]) == ("balanced", 6, 0.0)
    assert printed["gap"] <= printed["bound"]


def test_run_takes_a_step_and_goes_on_from_a_checkpoint(tmp_path):
    words = ["--alpha", 0, "--step-size", 1e-7, "--epochs", 3, "--no-bound", "--checkpoint", tmp_path / "run.npz"]
    arguments = ["run", "breast_cancer", *words]
    first, _ = run(*arguments)
    assert first.count("step 1e-07") == 3
    assert "no certificate" in first
    second, _ = run(*arguments)
    assert second == first.splitlines()[-1] + "\n"


@pytest.mark.parametrize(
    ("arguments", "complaint", "status"),
    [
        (["--step-size", "fast"], "--step-size='fast' is neither", 2),
        (["--step-size", "-1"], "step_size is -1.0 in epoch 1", 2),
        (["--loss", "unit"], "has constants but no values", 2),
        (["--loss", "hinge"], "no theorem covers", 2),
        (["--loss", "squared", "--step-size", "1e9", "--no-bound"], "not finite after epoch 1 with step size 1e+09", 1),
        (["--average", "mean"], "average='mean' is not known", 2),
    ],
)
def test_mistakes_of_a_run_end_in_one_clear_line(arguments, complaint, status, called):
    given = arguments if "--loss" in arguments else ["--loss", "logistic", *arguments]
    _, stderr = called("run", "breast_cancer", "--alpha", 0.1, "--epochs", 2, "--scale", "none", *given, status=status)
    assert complaint in stderr
    assert "Traceback" not in stderr
    assert len(stderr.splitlines()) == 1


def test_of_several_classes_the_largest_is_told_apart_from_the_rest(called):
    data = rs.load("iris")
    told = "reshuffle: of 3 classes this is the largest, 0, against the rest: 50 of 150 rows\n"
    printed, said = called("run", "iris", "--epochs", 2, "--no-bound", "--json")
    assert told in said
    problem = rs.Problem(data.X, np.where(data.y == 0, -1.0, 1.0), alpha=1e-4, fit_intercept=True)
    assert json.loads(printed)["x"] == rs.minimize(problem, epochs=2).x.tolist()
    printed, said = called("plan", "iris", "--tol", 0.1)
    assert told in said
    assert printed.splitlines()[1].startswith("do           ")


def untimed(plan):
    """Without the seconds that runs took, which are never the same."""
    for timed in (plan["advice"], *plan["advice"]["settings"]):
        assert timed.pop("seconds") >= 0.0
    return plan


def test_plan_prints_what_the_library_says(called):
    arguments = ["plan", "breast_cancer", "--alpha", 0.1, "--eps", 0.1]
    printed = json.loads(called(*arguments, "--json")[0])
    data = rs.load("breast_cancer")
    problem = rs.Problem(data.X, data.y, alpha=0.1, fit_intercept=True)
    scaling = rs.scale(problem)
    want = rs.plan(scaling.apply(problem), eps=0.1, feature_names=data.feature_names)
    told = {**want.to_dict(), "scaling": {"kind": "std", "reason": scaling.reason}}
    assert untimed(printed) == untimed(json.loads(json.dumps(told)))
    text, said = called(*arguments)
    expected = f"scale        std: every column centred and divided by its standard deviation\n{want}\n"
    assert [line for line in text.splitlines() if "s of training" not in line] == [
        line for line in expected.splitlines() if "s of training" not in line
    ]
    assert said.splitlines()[-1] == f"reshuffle: scale std: {scaling.reason}; --scale says otherwise"
    raw = called(*arguments[:-1], 0.3, "--scale", "none")[0]  # 0.1 takes ten seconds of racing on data as it is
    assert "worst area" in raw
    assert raw.startswith("scale        none: the data as it is\n")
    assert "eps=-1.0 must be a positive number" in called("plan", "breast_cancer", "--eps", -1, status=2)[1]


SVMLIGHT = "+1 1:1 2:0.5 3:1\n-1 1:-1 3:2\n+1 1:2\n-1 1:-2 2:1\n"


def test_fit_writes_a_model_that_predict_reads(tmp_path):
    train, test, model = tmp_path / "train.svm", tmp_path / "test.svm", tmp_path / "model.json"
    train.write_text(SVMLIGHT)
    stdout, stderr = run("fit", train, "--loss", "logistic", "--alpha", 1e-2, "--scale", "none", "--out", model, "--one-based")
    assert stdout.startswith(f"{model}: logistic on 4 x 3, ")
    assert "certified relative gap" in stdout
    assert len(stdout.splitlines()) == 1
    assert stderr == ""
    test.write_text("+1 1:1\n-1 1:-1\n+1 1:-3\n")  # the last features do not occur
    stdout, stderr = run("predict", model, test)
    assert stdout.split() == ["1", "-1", "-1"]
    assert stderr == "accuracy 0.6667 on 3 rows\n"
    header, *rows = run("predict", model, test, "--proba")[0].splitlines()
    assert header.split("\t") == ["-1", "1"]
    want = rs.models.load(model).predict_proba([[1, 0, 0], [-1, 0, 0], [-3, 0, 0]])
    assert [[float(p) for p in row.split("\t")] for row in rows] == want.tolist()
    test.write_text("+1 1:1 5:1\n")
    assert "test.svm has 5 features; the model was trained on 3" in run("predict", model, test, status=2)[1]


def test_fit_chooses_alpha_by_cross_validation(tmp_path, called):
    model = tmp_path / "model.json"
    asked = ("fit", "breast_cancer", "--loss", "logistic", "--out", model)
    chosen, written = called(*asked, "--alphas", "auto")[0].splitlines()
    assert re.fullmatch(r"alpha \S+, of 10 the best in 5 folds: accuracy 0\.9\d+", chosen)
    assert written.startswith(f"{model}: logistic on 569 x 30, ")
    called(*asked, "--alphas", "0.1,0.001")
    assert rs.models.load(model).alpha in (0.1, 0.001)
    assert rs.models.load(model).feature_names_in_[0] == "mean radius"
    assert "leave one out" in called(*asked, "--alphas", "auto", "--alpha", 0.1, status=2)[1]
    assert "--alphas 0.1;0.2 is not a list of numbers" in called(*asked, "--alphas", "0.1;0.2", status=2)[1]


def test_fit_takes_words_names_and_several_classes(tmp_path, called):
    table, model = tmp_path / "t.csv", tmp_path / "model.json"
    table.write_text("kind,a,b\nred,1,2\ngreen,3,4\nblue,-5,6\nred,1,3\ngreen,4,4\nblue,-5,5\n")
    called("fit", table, "--target", "kind", "--alpha", 1e-2, "--jobs", 2, "--out", model)
    content = json.loads(model.read_text())
    assert content["classes"] == ["blue", "green", "red"]
    assert content["feature_names"] == ["a", "b"]
    stdout, stderr = called("predict", model, table, "--target", "kind")
    assert stdout.split() == ["red", "green", "blue", "red", "green", "blue"]
    assert stderr == "accuracy 1.0000 on 6 rows\n"
    (tmp_path / "new.csv").write_text("a,b\n1,2\n-5,6\n")  # no labels
    assert called("predict", model, tmp_path / "new.csv") == ("red\nblue\n", "")
    (tmp_path / "new.csv").write_text("b,kind,a\n2,red,1\n6,blue,-5\n")  # columns go by their names
    assert called("predict", model, tmp_path / "new.csv") == ("red\nblue\n", "accuracy 1.0000 on 2 rows\n")
    (tmp_path / "new.csv").write_text("kind,a,b\nRed,1,2\nblue,-5,6\n")
    strange = "accuracy 0.5000 on 2 rows; 1 of them have labels that the model does not know (Red)\n"
    assert called("predict", model, tmp_path / "new.csv")[1] == strange
    (tmp_path / "new.csv").write_text("kind,a,b\n2,1,2\n0,-5,6\n")
    assert called("predict", model, tmp_path / "new.csv")[1] == "no score, as the labels are numbers and the predictions words\n"
    (tmp_path / "new.csv").write_text("kind,a,c\nred,1,2\n")
    _, stderr = called("predict", model, tmp_path / "new.csv", status=2)
    assert stderr.endswith("new.csv lacks columns that the model was trained on: b; new here: c\n")


def test_fit_is_a_regression_where_the_loss_asks_for_one(tmp_path, called):
    model = tmp_path / "model.json"
    stdout, _ = called(
        "fit", "diabetes", "--loss", "huber:10", "--alpha", 1e-3, "--tol", 1e-2, "--verbose", "--no-intercept", "--out", model
    )
    back = rs.models.load(model)
    assert len(stdout.splitlines()) == back.n_iter_ + 1
    assert back.intercept_ == 0.0
    stdout, stderr = called("predict", model, "diabetes")
    del back.feature_names_in_
    data = rs.load("diabetes")
    assert [float(line) for line in stdout.split()] == [float(value) for value in back.predict(data.X)]
    assert stderr.startswith("R² ")


MIXED = "size,city,day,id,price\n" + "".join(
    f"{'' if k == 5 else k % 6},{['rome', 'oslo'][k % 2]},2024-01-{k + 1:02d},user{k},{10 * (k % 2) + k % 6 + 0.5}\n"
    for k in range(24)
)


def test_a_table_as_people_have_it(tmp_path, called):
    """Words, dates, gaps and an identifier, with no option at all; every line on stderr is about one of them."""
    table, model = tmp_path / "t.csv", tmp_path / "model.json"
    table.write_text(MIXED)
    stdout, stderr = run("fit", table, "--out", model)
    assert stdout.startswith(f"{model}: squared on 24 x 5, ")
    said = stderr.splitlines()[-1]
    assert [line.removeprefix(f"reshuffle: {table}: ") for line in stderr.splitlines()] == [
        "dropped columns in which all words differ: id",
        "words become 2 columns of zeros and ones: city",
        "dates become days since the first: day",
        "missing numbers become the mean, and a column says where, (missing): size",
        "reshuffle: loss squared, as the labels are numbers, 0.5 to 15.5; --loss says otherwise",
        said,
    ]
    assert said.startswith("reshuffle: scale ")
    assert json.loads(model.read_text())["feature_names"] == ["size", "size=(missing)", "city=oslo", "city=rome", "day"]
    stdout, stderr = called("predict", model, table)
    assert len(stdout.split()) == 24
    assert float(stderr.split()[1]) > 0.99
    header, first, *_ = MIXED.splitlines()
    order = [4, 1, 0, 2, 3]
    mixed = "\n".join(",".join(line.split(",")[k] for k in order) for line in (header, first, "3,paris,2024-02-01,new,1.5"))
    piped, stderr = run("predict", model, "-", stdin=mixed)
    assert piped.splitlines()[0] == stdout.splitlines()[0]
    assert stderr.splitlines()[0].endswith("taken as none or as the mean: city (1 rows)")
    _, stderr = called("predict", model, "-", stdin="size,day,id,price\n1,2024-01-01,a,2\n", status=2)
    assert stderr == "reshuffle: standard input lacks columns that the model was trained on: city\n"
    for command in (["fit", table, "--out", model], ["predict", model, "-"], ["plan", table], ["constants", table], ["run", table]):
        _, stderr = called(*command, "--strict", status=2, stdin=mixed)
        assert "strict refuses that: change the table first" in stderr
        assert len(stderr.splitlines()) == 1


def test_every_command_takes_several_files_and_poses_the_same_problem(tmp_path, called):
    head, *rows = "a,b,t\n1,2,no\n3,1,yes\n-1,4,no\n2,-2,yes\n0,1,no\n1,1,yes\n".splitlines()
    for k in range(2):
        (tmp_path / f"part{k}.csv").write_text("\n".join([head, *rows[3 * k : 3 * k + 3]]))
    parts = [tmp_path / "part0.csv", tmp_path / "part1.csv"]
    data = rs.load(parts)
    problem = rs.Problem(data.X, data.y, alpha=1e-4, fit_intercept=True)
    scaling = rs.scale(problem)
    scaled = scaling.apply(problem)
    line = "reshuffle: loss logistic, as the labels are two classes, no and yes; --loss says otherwise\n"
    line += f"reshuffle: scale {scaling.kind}: {scaling.reason}; --scale says otherwise\n"
    printed, said = called("plan", *parts, "--json")
    want = {
        **rs.plan(scaled, feature_names=data.feature_names).to_dict(),
        "scaling": {"kind": scaling.kind, "reason": scaling.reason},
    }
    assert untimed(json.loads(printed)) == untimed(json.loads(json.dumps(want)))
    assert said == line
    printed, said = called("run", tmp_path, "--epochs", 3, "--no-bound", "--json")
    assert json.loads(printed)["x"] == scaling.point_in_units(rs.minimize(scaled, epochs=3).x).tolist()
    assert json.loads(printed)["feature_names"] == ["a", "b"]
    assert said == line
    _, said = called("fit", tmp_path / "part*.csv", "--out", tmp_path / "model.json")
    fitted = rs.models.load(tmp_path / "model.json")
    assert (fitted.alpha, fitted.fit_intercept, fitted.loss) == (1e-4, True, "logistic")
    assert (fitted.scaling_.kind, fitted.scaling_.reason) == (scaling.kind, scaling.reason)
    assert said == line


def test_a_loss_is_asked_for_where_labels_are_many_whole_numbers(tmp_path, called):
    for command in (["fit", "diabetes", "--out", tmp_path / "m.json"], ["plan", "diabetes"], ["run", "diabetes"]):
        _, stderr = called(*command, status=2)
        assert stderr == (
            "reshuffle: diabetes: the labels are 214 distinct whole numbers, which may be amounts or classes; "
            "say --loss squared to predict amounts, or --loss logistic for 214 classes\n"
        )
    assert not (tmp_path / "m.json").exists()


def test_the_data_is_never_overwritten(tmp_path, called):
    table = tmp_path / "t.csv"
    table.write_text("a,t\n1,0\n2,1\n")
    for words in (["fit", table, "--out", table], ["report", table, "-o", tmp_path / "." / "t.csv"]):
        assert "is the data that is to be read; name another file" in called(*words, status=2)[1]
    assert table.read_text() == "a,t\n1,0\n2,1\n"
    assert "is the data" in called("fit", tmp_path, "--out", table, status=2)[1]  # a folder, a pattern, the labels
    assert "is the data" in called("fit", tmp_path / "*.csv", "--out", table, status=2)[1]
    np.save(tmp_path / "X.npy", np.ones((2, 1)))
    np.save(tmp_path / "y.npy", np.arange(2))
    words = ["fit", tmp_path / "X.npy", "--target", "y.npy", "--out", tmp_path / "y.npy"]
    assert "is the data" in called(*words, status=2)[1]


def test_a_model_reads_svmlight_from_where_it_was_trained_to_count(tmp_path, called):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6))
    y = np.where(X @ [0, 3, -3, 2, -2, 1] > 0, 1, -1)

    def lines(rows, first, base):
        cells = [" ".join(f"{j + base}:{X[i, j]:.17g}" for j in range(first, 6)) for i in rows]
        return "".join(f"{y[i]} {text}\n" for i, text in zip(rows, cells, strict=True))

    train, test, model = (tmp_path / name for name in ("train", "test", "model.json"))
    test.write_text(lines(range(100, 200), 1, 0))  # which never uses feature 0
    train.write_text(lines(range(100), 0, 0))
    assert "count from" not in called("fit", train, "--loss", "logistic", "--out", model)[1]
    said = called("predict", model, test)[1]
    assert float(said.split()[1]) > 0.95
    assert "count from" not in said  # nothing is left to guess
    assert "trained on indices that count from 0" in called("predict", model, test, "--one-based", status=2)[1]
    train.write_text(lines(range(100), 1, 0))  # nor does the training file: a guess, said aloud, and the same one twice
    assert "taken to count from 1; zero_based=True (--zero-based)" in called("fit", train, "--loss", "logistic", "--out", model)[1]
    assert float(called("predict", model, test)[1].split()[1]) > 0.95
    test.write_text(lines(range(100, 200), 0, 0))
    assert "holds an index 0 and is to be read as counting from 1" in called("predict", model, test, status=2)[1]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fit", "digits", "--loss", "logistic", "--alpha", "0"], "--alpha 0 leaves no certificate"),
        (["fit", "digits", "--loss", "unit"], "loss='unit' is not for classification"),
        (["fit", "digits", "--out", "nowhere/model.json"], "--out 'nowhere/model.json': the folder 'nowhere' does not exist"),
        (["predict", "nowhere.json", "digits"], "nowhere.json"),
        (["predict", __file__, "digits"], "is not a model of reshuffle"),
    ],
)
def test_mistakes_of_models_end_in_one_clear_line(arguments, complaint, called):
    stdout, stderr = called(*arguments, status=2)
    assert stdout == ""
    assert complaint in stderr
    assert len(stderr.splitlines()) == 1


def test_probabilities_need_the_logistic_loss_and_few_passes_are_warned_of(tmp_path, called):
    model = tmp_path / "model.json"
    _, stderr = called("fit", "breast_cancer", "--loss", "hinge", "--alpha", 1e-8, "--max-iter", 1, "--out", model)
    assert stderr.startswith("reshuffle: warning: CertifiedClassifier stopped after 1 passes")
    assert "--proba: loss='hinge' gives no probabilities" in called("predict", model, "breast_cancer", "--proba", status=2)[1]


def test_help_and_version():
    assert run("--version")[0].strip() == rs.__version__
    assert "constants" in run("--help")[0]
    assert "--batch-size" in run("constants", "--help")[0]


@pytest.mark.parametrize("words", [("--l2", "0.1"), ("--l2=0.1",)])
def test_the_old_name_of_alpha_is_read_with_a_line_that_says_the_new_one(words, called):
    (new, _), (old, line) = (called("constants", "iris", *given, "--json") for given in (("--alpha", "0.1"), words))
    assert "--l2 is called --alpha now" in line
    assert json.loads(old)["L"] == json.loads(new)["L"]


def test_a_terminal_that_knows_ascii_alone_gets_every_line(monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    stdout, _ = run("constants", "breast_cancer", "--permutations", 2)
    assert "+-" in stdout
    assert "(estimate 4/pi^2 rule:" in stdout
    assert "?" not in stdout


def test_what_nobody_foresaw_is_called_a_bug_in_one_line(monkeypatch, called):
    def fail(*arguments, **options):
        raise KeyError("lost\nand found")

    monkeypatch.setattr(rs.data, "load", fail)
    out, err = called("constants", "breast_cancer", status=1)
    assert out == ""
    assert err.startswith("reshuffle: this is a bug of reshuffle: KeyError: 'lost\\nand found'; please report it in the issues")
    assert len(err.splitlines()) == 1
    traced = called("constants", "breast_cancer", "--verbose", status=1)[1]
    assert "Traceback" in traced
    assert traced.endswith(err)


@pytest.mark.parametrize(
    ("failure", "words"), [(MemoryError("17 GB"), "not enough memory for this: 17 GB"), (OSError("gone"), "gone")]
)
def test_every_failure_is_one_line(monkeypatch, called, failure, words):
    def fail(*arguments, **options):
        raise failure

    monkeypatch.setattr(rs.data, "load", fail)
    err = called("constants", "breast_cancer", status=1 if isinstance(failure, MemoryError) else 2)[1]
    assert words in err
    assert len(err.splitlines()) == 1


def test_a_reader_that_has_enough_is_no_failure():
    command = f"{COMMAND} datasets | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_an_interruption_while_importing_is_one_line():
    code = (
        "import sys, reshuffle.__main__\n"
        "class Stop:\n"
        "    def find_spec(self, *name): raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
        "reshuffle.__main__.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr == "reshuffle: interrupted before anything was finished\n"
    assert done.returncode == 130


@pytest.mark.parametrize("step", ["1e300", "1e200", "1e160"])
@pytest.mark.parametrize("words", [["breast_cancer"], ["diabetes", "--loss", "squared"], ["diabetes", "--loss", "huber"]])
def test_divergence_is_one_line_with_and_without_an_intercept(called, words, step):
    for intercept in ("--intercept", "--no-intercept"):
        options = ["--step-size", step, "--epochs", 3, "--no-bound", intercept]
        assert "not finite after epoch" in called("run", *words, *options, status=1)[1].splitlines()[-1]


def test_a_gap_that_no_number_can_promise_is_refused(called):
    for command in ("plan", "report"):
        said = called(command, "wine", "--loss", "squared", "--eps", "1e-300", status=2)[1]
        assert "eps=1e-300 is beyond what can be promised in numbers" in said
    assert rs.plan(rs.Problem(np.eye(4), np.arange(4.0), loss="squared", alpha=0.1), eps=1e-60, permutations=1)
