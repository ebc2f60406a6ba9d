"""The paper's tables and figures: what is made, what is said of what is missing, and that a killed job goes on."""

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import reshuffle as rs
from reshuffle import experiments, plots
from reshuffle.data.registry import locate
from reshuffle.experiments import paper, paper_figures
from reshuffle.experiments.measurements import ROOT, Task, gaussian
from reshuffle.experiments.typesetting import Table

COMMAND = Path(sys.executable).with_name("reshuffle")


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RESHUFFLE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("RESHUFFLE_DATA", raising=False)


@pytest.fixture
def small_data(tmp_path, real_file):
    """A folder with two small datasets of the paper."""
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("a1a", "sonar_scale"):
        (folder / name).write_bytes(real_file(name).read_bytes())
    return folder


def rows_of(path):
    with open(path, encoding="utf-8") as file:
        return {row["dataset"]: row for row in csv.DictReader(file)}


def test_table_2_has_the_datasets_that_are_present_and_the_papers_value(small_data, tmp_path):
    outcome = experiments.reproduce("table2", data=small_data, out=tmp_path / "out", permutations=60)
    assert outcome.failures == []
    rows = rows_of(tmp_path / "out" / "table2.csv")
    assert list(rows) == ["a1a", "sonar"]
    assert any(
        text.startswith("not present: a9a, BBBC005") and text.endswith("reshuffle datasets fetch NAME") for text in outcome.said
    )
    ratio = float(rows["a1a"]["L/Lhat"])
    assert ratio == pytest.approx(5.50, rel=0.01)
    assert float(rows["a1a"]["log_n"]) == pytest.approx(np.log(ratio) / np.log(1605))
    assert float(rows["a1a"]["log_min(n,d)"]) == pytest.approx(np.log(ratio) / np.log(123))
    assert float(rows["a1a"]["difference"]) == pytest.approx(ratio - 5.50)
    beyond = rows_of(tmp_path / "out" / "table2_beyond.csv")
    assert float(beyond["a1a"]["L/Lhat b=1"]) == ratio
    assert float(beyond["a1a"]["L/Ltil b=64"]) > float(beyond["a1a"]["L/Ltil b=8"]) > 1.3
    assert float(beyond["a1a"]["log_n L/Ltil b=√n"]) == pytest.approx(np.log(float(beyond["a1a"]["L/Ltil b=√n"])) / np.log(1605))
    assert abs(float(beyond["a1a"]["error %"])) < 1
    for suffix in ("txt", "csv", "tex"):
        assert (tmp_path / "out" / f"table2.{suffix}").stat().st_size > 100


def test_files_of_ones_own_make_the_rows_of_table_2_and_figure_3(tmp_path, real_file):
    """The paper's value stands beside a file of the paper's name and size; others have a dash."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "mine.npy", rng.standard_normal((40, 6)))
    np.save(tmp_path / "duke.npy", rng.standard_normal((12, 3)))  # the name, but not the data, of a dataset of the paper
    sources = [tmp_path / "mine.npy", str(real_file("sonar_scale")), "iris", tmp_path / "duke.npy"]
    outcome = experiments.reproduce("table2", sources, out=tmp_path / "out", permutations=20)
    assert outcome.failures == []
    assert not any("not present" in text for text in outcome.said)
    frame = outcome.tables["table2"].to_frame().set_index("dataset")
    assert list(frame.index) == ["mine", "sonar", "iris", "duke"]
    assert frame["n"].tolist() == [40, 208, 150, 12]
    assert frame["paper"].fillna(0.0).tolist() == [0.0, 6.26, 0.0, 0.0]
    explicit = rs.constants(np.load(tmp_path / "mine.npy"), permutations=20)
    assert frame.loc["mine", "L/Lhat"] == explicit.l_over_lhat
    assert outcome.tables["table2"].text().splitlines()[4].split()[-3:] == ["-", "-", "-"]
    histograms = experiments.reproduce("figure3", sources, out=tmp_path / "out", permutations=20)
    assert histograms.said == ["figure3: 4 datasets; the dashed line is L over the mean of Lhat"]


def test_datasets_that_cannot_be_told_apart_or_found_are_refused_before_work(tmp_path):
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        np.save(tmp_path / folder / "same.npy", np.eye(3))
    out = tmp_path / "out"
    with pytest.raises(ValueError, match=r"2 of the datasets are called 'same'; .* rename a file"):
        experiments.reproduce("table2", [tmp_path / "one" / "same.npy", tmp_path / "two" / "same.npy"], out=out)
    with pytest.raises(FileNotFoundError, match=r"no dataset 'nowhere.svm'; name a file, or one of breast_cancer"):
        experiments.reproduce("table2", "nowhere.svm", out=out)
    with pytest.raises(FileNotFoundError, match="no dataset 'mnist'; get it with: reshuffle datasets fetch mnist"):
        experiments.reproduce("figure3", ["mnist"], out=out)
    with pytest.raises(ValueError, match="figure1 is about Gaussian data and takes no datasets, not iris"):
        experiments.reproduce("figure1", ["iris"], out=out)
    assert not out.exists()


def test_the_columns_for_lipschitz_losses_are_those_of_the_absolute_loss(tmp_path):
    """With all G_i = 1: against the full subgradient method G^2 for Gbar, against SGD n Gbar for G^2."""
    X = np.random.default_rng(3).standard_normal((30, 4)) * np.linspace(0.2, 2.0, 30)[:, None]
    np.save(tmp_path / "mine.npy", X)
    outcome = experiments.reproduce("table2", [tmp_path / "mine.npy"], out=tmp_path, permutations=25)
    row = outcome.tables["table2_lipschitz"].to_frame().loc[0]
    problem = rs.Problem(X, np.zeros(30), loss="absolute")
    for name, b in (("b=1", 1), ("b=8", 8), ("b=64", 30), ("b=√n", 5)):
        c = rs.constants(problem, batch_size=b, permutations=25)
        assert row[f"G^2/Gbar {name}"] == pytest.approx(c.G**2 / c.gbar)
        if b == 1:
            assert row["G^2/Ghat"] == pytest.approx(c.g_squared_over_ghat)
            assert row["n Gbar/G^2"] == pytest.approx(30 * c.gbar / c.G**2)
            assert 1 <= row["n Gbar/G^2"] <= 30


def test_a_value_that_differs_from_the_papers_is_pointed_out(small_data, tmp_path):
    text = (small_data / "a1a").read_text()
    (small_data / "a1a").write_text(text.replace("3:1 ", "3:3 ", 1))  # one heavier row: L grows, Lhat hardly
    outcome = experiments.reproduce("table2", data=small_data, out=tmp_path / "out", permutations=40)
    assert "a1a differs from the paper by more than three standard errors and 1 %" in outcome.said[0]
    assert "sonar differs" not in outcome.said[0]


def test_the_same_seed_gives_the_same_numbers_on_one_and_two_threads(small_data, tmp_path):
    tables = []
    for jobs in (1, 2):
        experiments.reproduce("table2", data=small_data, out=tmp_path / str(jobs), permutations=30, jobs=jobs)
        tables.append({name: row["L/Lhat"] for name, row in rows_of(tmp_path / str(jobs) / "table2.csv").items()})
    assert tables[0] == tables[1]


def test_journals_are_shared_resumed_and_never_mixed(small_data, tmp_path):
    out = tmp_path / "out"
    experiments.reproduce("table2", data=small_data, out=out, permutations=30)
    journal = out / "journals" / "a1a-b1-rr.jsonl"
    before = journal.read_bytes()
    experiments.reproduce("figure3", data=small_data, out=out, permutations=30)
    assert journal.read_bytes() == before
    other = experiments.reproduce("table2", data=small_data, out=out, permutations=30, seed=1)
    assert any("other settings: seed" in failure for failure in other.failures)
    assert journal.read_bytes() == before


def test_a_dataset_that_fails_does_not_stop_the_others(small_data, tmp_path):
    (small_data / "duke").write_text("1 1:1\n1 nonsense\n")
    outcome = experiments.reproduce("table2", data=small_data, out=tmp_path / "out", permutations=20)
    assert any("duke" in failure and "nonsense" in failure for failure in outcome.failures)
    rows = rows_of(tmp_path / "out" / "table2.csv")
    assert "duke" not in rows
    assert float(rows["sonar"]["L/Lhat"]) > 6


def test_figures_have_their_exponents_and_both_formats(tmp_path, monkeypatch):
    monkeypatch.setattr(paper_figures, "SIZES", [1, 50, 200, 400, 600, 800, 1000])
    monkeypatch.setattr(paper_figures, "GENERATED", 2)
    monkeypatch.setattr(paper_figures, "PERMUTATIONS", 4)
    totals, parts = [], []
    outcome = experiments.reproduce("figure1", out=tmp_path, start=totals.append, advance=parts.append)
    exponents = [float(text.split("^")[1].split()[0]) for text in outcome.said]
    np.testing.assert_allclose(exponents, [0.3, 0.6], atol=0.1)  # the paper says "around"
    assert sum(parts) == pytest.approx(totals[0])
    outcome = experiments.reproduce("figure2", out=tmp_path)
    exponents = [float(text.split("^")[1].split()[0]) for text in outcome.said]
    low, high = paper.FIGURE_2_EXPONENTS
    assert all(low - 0.02 <= exponent <= high + 0.02 for exponent in exponents)  # how the paper fitted is not said
    at_root = [float(text.split("n^")[1].split()[0]) for text in outcome.said]
    np.testing.assert_allclose(at_root, 0.465, atol=0.015)  # the paper: "can be O(n^0.4)"
    for name in ("figure1", "figure2"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_figure_3_needs_a_dataset(tmp_path, small_data):
    outcome = experiments.reproduce("figure3", out=tmp_path / "out", data=small_data, permutations=40)
    assert (tmp_path / "out" / "figure3.png").stat().st_size > 5000
    empty = experiments.reproduce("figure3", out=tmp_path / "none", permutations=40)
    assert outcome.failures == []
    assert "no dataset of the paper is present; name files of your own" in empty.failures[0]


@pytest.mark.parametrize(
    ("dataset", "loss", "first"), [("breast_cancer", "logistic", "Theorem 1"), ("breast_cancer", "hinge", "Theorem 3")]
)
def test_table_1_puts_numbers_to_every_row(tmp_path, dataset, loss, first):
    alpha = 1e-3 if loss == "logistic" else 0.0
    outcome = experiments.reproduce("table1", [dataset], out=tmp_path, loss=loss, alpha=alpha, permutations=5)
    assert outcome.failures == []
    with open(tmp_path / "table1.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["result"] == first
    # Shamir's result for Lipschitz losses asks for more rows than there are
    assert any(row["result"].startswith("O(.)") for row in rows) is (loss == "logistic")
    for row in rows:
        assert float(row["eps=0.001"]) >= float(row["eps=0.01"]) >= float(row["eps=0.1"]) > 0


def test_table_1_takes_any_batch_size_and_several_datasets(tmp_path):
    options = {"alpha": 1e-2, "permutations": 4, "batch_size": 8}
    outcome = experiments.reproduce("table1", ["breast_cancer", "digits"], out=tmp_path, loss="squared", **options)
    assert list(outcome.tables) == ["table1_breast_cancer", "table1_digits"]
    data = rs.load("breast_cancer")
    problem = rs.Problem(data.X, data.y, loss="squared", alpha=1e-2)
    optimum = rs.theory.measure(problem)
    rows = outcome.tables["table1_breast_cancer"].to_frame().set_index("result")
    for name, order, theorem in (("Theorem 1", "rr", rs.theory.THEOREM_1), ("Theorem 2", "ig", rs.theory.THEOREM_2)):
        c = rs.constants(problem, batch_size=8, order=order, permutations=4)
        facts = rs.theory.Facts.of(c, optimum, rs.orders.make_order(order, problem.n, 0))
        assert rows.loc[name, "eps=0.01"] == pytest.approx(theorem.evaluations(facts, 0.01), rel=1e-6)
    smoothness = problem.squared_norms() + 1e-2
    general = rs.constants(smoothness=smoothness, batch_size=8)
    order = rs.orders.make_order("rr", problem.n, 0)
    facts = rs.theory.Facts.of(general, optimum, order)
    assert rows.loc["Theorem 4 (general)", "eps=0.01"] == pytest.approx(rs.theory.THEOREM_4.evaluations(facts, 0.01), rel=1e-6)
    assert "b = 8, n = 569" in outcome.tables["table1_breast_cancer"].caption


def test_mistakes_are_refused():
    with pytest.raises(ValueError, match="target='table3' is not known; use one of table1"):
        experiments.reproduce("table3")
    with pytest.raises(ValueError, match="is not a folder"):
        experiments.reproduce("table2", data="nowhere")


def test_a_figure_is_the_same_file_each_time_and_whole_or_not_there(tmp_path, monkeypatch):
    def draw(height):
        with plots.style():
            figure, axes = plots.subplots(1, 1)
            axes[0, 0].plot([0.0, height])
            return {path.suffix: path.read_bytes() for path in plots.save(figure, tmp_path, "figure")}

    earlier = draw(1.0)
    assert draw(1.0) == earlier
    assert b"Date" not in earlier[".pdf"]
    assert draw(2.0) != earlier
    with monkeypatch.context() as broken:
        broken.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(KeyboardInterrupt))
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(KeyboardInterrupt):
            draw(3.0)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_killed_job_goes_on(small_data, tmp_path):
    out = tmp_path / "out"
    arguments = [COMMAND, "reproduce", "figure3", "--data", small_data, "--out", out, "--permutations", "4000"]
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = out / "journals" / "a1a-b1-rr.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (journal.exists() and journal.read_bytes().count(b"\n") > 5):
        time.sleep(0.005)
    process.kill()
    process.wait()
    done = journal.read_bytes().count(b"\n") - 1
    assert 4 <= done < 4000
    fewer = str(done + 20)
    subprocess.run([*arguments[:-1], fewer], check=True, capture_output=True)
    lines = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert sorted(line["permutation"] for line in lines)[: done + 20] == list(range(done + 20))


def test_the_command_says_what_it_made_and_fails_when_something_did(small_data, tmp_path):
    arguments = [COMMAND, "reproduce", "table2", "--data", small_data, "--out", tmp_path / "out", "--permutations", "20"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "made  " in done.stdout
    summary = done.stdout[done.stdout.index("Summary") :]
    assert [line.split()[0] for line in summary.splitlines()[4:]] == ["measuring", "table2"]
    assert "made (csv, tex, txt)" in summary
    assert "a1a" in done.stdout
    (small_data / "duke").write_text("nonsense")
    done = subprocess.run([*arguments[:-1], "21"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "failed: duke" in done.stderr


def test_the_command_lists_and_adds_datasets(small_data, tmp_path):
    listed = subprocess.run([COMMAND, "datasets", "--data", small_data], capture_output=True, text=True, check=True).stdout
    assert f"present  {small_data / 'a1a'}" in listed
    assert "missing  reshuffle datasets fetch mnist" in listed
    subprocess.run([COMMAND, "datasets", "add", "sonar", small_data / "sonar_scale"], check=True, capture_output=True)
    assert locate("sonar") == small_data / "sonar_scale"
    refused = subprocess.run([COMMAND, "datasets", "add", "a9a", small_data / "a1a"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "a9a is 32561 x 123" in refused.stderr


def test_tables_are_set_for_latex():
    table = Table("t", "100 % of a_b & c", {"x": "", "y": r"$\hat y$"}, [["q_1", 1.23456], ["r", None], ["s", -1.5e-9]], ["a_note"])
    latex = table.latex()
    assert r"\caption{100 \% of a\_b \& c}" in latex
    assert r"\label{tab:t}" in latex
    assert r"x & $\hat y$ \\" in latex
    assert r"q\_1 & $1.235$ \\" in latex
    assert r"r & -- \\" in latex
    assert r"s & $-1.5 \cdot 10^{-9}$ \\" in latex
    assert r"{\footnotesize a\_note}" in latex
    assert [latex.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    assert table.csv() == "x,y\nq_1,1.23456\nr,\ns,-1.5e-09\n"


def test_keys_tell_measurements_apart():
    matrix = gaussian(3, 2, 0)
    tasks = [Task(matrix), Task(matrix, 8), Task(matrix, ROOT), Task(matrix, order="ig"), Task(gaussian(3, 2, 1))]
    assert len({task.key for task in tasks}) == 5
    assert [Task(matrix, b).batch_size_of(50) for b in (8, 64, ROOT)] == [8, 50, 7]
