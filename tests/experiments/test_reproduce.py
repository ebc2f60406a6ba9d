"""The paper's tables and figures: what is made, what is said of what is missing, and that a killed job goes on."""

import csv
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reshuffle import experiments
from reshuffle.data.registry import locate
from reshuffle.experiments import paper, paper_figures
from reshuffle.experiments.measurements import Matrix, Task
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


def test_table_2_has_every_dataset_and_the_papers_value(small_data, tmp_path):
    outcome = experiments.reproduce("table2", data=small_data, out=tmp_path / "out", permutations=60)
    assert outcome.failures == []
    rows = rows_of(tmp_path / "out" / "table2.csv")
    assert list(rows) == list(paper.TABLE_2)
    assert rows["mnist"]["L/Lhat"] == "missing"
    assert "mnist is missing; get it with: reshuffle datasets fetch mnist" in outcome.said[0]
    ratio = float(rows["a1a"]["L/Lhat"])
    assert ratio == pytest.approx(5.50, rel=0.01)
    assert float(rows["a1a"]["log_n"]) == pytest.approx(np.log(ratio) / np.log(1605))
    assert float(rows["a1a"]["difference"]) == pytest.approx(ratio - 5.50)
    beyond = rows_of(tmp_path / "out" / "table2_beyond.csv")
    assert float(beyond["a1a"]["L/Lhat b=1"]) == ratio
    assert float(beyond["a1a"]["L/Ltil b=64"]) > float(beyond["a1a"]["L/Ltil b=8"]) > 1.3
    assert abs(float(beyond["a1a"]["error %"])) < 1
    for suffix in ("txt", "csv", "tex"):
        assert (tmp_path / "out" / f"table2.{suffix}").stat().st_size > 100


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
    assert rows["duke"]["L/Lhat"] == "failed"
    assert float(rows["sonar"]["L/Lhat"]) > 6


def test_figures_have_their_exponents_and_both_formats(tmp_path, monkeypatch):
    monkeypatch.setattr(paper_figures, "SIZES", [1, 50, 200, 400, 600, 800, 1000])
    monkeypatch.setattr(paper_figures, "GENERATED", 2)
    monkeypatch.setattr(paper_figures, "PERMUTATIONS", 10)
    totals, parts = [], []
    outcome = experiments.reproduce("figure1", out=tmp_path, start=totals.append, advance=parts.append)
    exponents = [float(text.split("^")[1].split()[0]) for text in outcome.said]
    np.testing.assert_allclose(exponents, [0.3, 0.6], atol=0.1)  # the paper says "around"
    assert sum(parts) == pytest.approx(totals[0])
    outcome = experiments.reproduce("figure2", out=tmp_path)
    exponents = [float(text.split("^")[1].split()[0]) for text in outcome.said]
    low, high = paper.FIGURE_2_EXPONENTS
    assert all(low - 0.01 <= exponent <= high + 0.01 for exponent in exponents)  # the paper's range has two digits
    for name in ("figure1", "figure2"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")


def test_figure_3_needs_a_dataset(tmp_path, small_data):
    outcome = experiments.reproduce("figure3", out=tmp_path / "out", data=small_data, permutations=40)
    assert (tmp_path / "out" / "figure3.png").stat().st_size > 5000
    empty = experiments.reproduce("figure3", out=tmp_path / "none", permutations=40)
    assert outcome.failures == []
    assert "no dataset of the paper is present" in empty.failures[0]


@pytest.mark.parametrize(
    ("dataset", "loss", "first"), [("breast_cancer", "logistic", "Theorem 1"), ("breast_cancer", "hinge", "Theorem 3")]
)
def test_table_1_puts_numbers_to_every_row(tmp_path, dataset, loss, first):
    alpha = 1e-3 if loss == "logistic" else 0.0
    outcome = experiments.reproduce("table1", out=tmp_path, dataset=dataset, loss=loss, alpha=alpha, permutations=5)
    assert outcome.failures == []
    with open(tmp_path / "table1.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["result"] == first
    assert any(row["result"].startswith("O(.)") for row in rows)
    for row in rows:
        assert float(row["eps=0.001"]) > float(row["eps=0.01"]) > float(row["eps=0.1"]) > 0


def test_mistakes_are_refused():
    with pytest.raises(ValueError, match="target='table3' is not known; use one of table1"):
        experiments.reproduce("table3")
    with pytest.raises(ValueError, match="is not a folder"):
        experiments.reproduce("table2", data="nowhere")


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


def test_tables_are_escaped_for_latex():
    table = Table("t", "100 % of a_b & c", ["x", "y"], [["q_1", 1.23456], ["r", None]])
    assert r"100 \% of a\_b \& c" in table.latex()
    assert r"q\_1 & 1.235 \\" in table.latex()
    assert table.csv() == "x,y\nq_1,1.23456\nr,\n"


def test_keys_tell_measurements_apart():
    assert Task(Matrix("a1a")).key != Task(Matrix("a1a"), 8).key != Task(Matrix("a1a"), order="ig").key
