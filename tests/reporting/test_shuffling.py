"""The command `order`, and its page in a real browser."""

import json
import shlex
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import reshuffle as rs
from reshuffle.assessment.results import Assessments
from reshuffle.reporting.figures import log_axis
from reshuffle.reporting.shuffling import shuffling, usual
from reshuffle.reporting.shuffling_page import _headline
from tests.reporting.conftest import COMMAND, NAME
from tests.reporting.test_browser import DRAWN

LOGISTIC = ("--loss", "logistic", "--alpha", 0.01, "--intercept", "--batch-size", 4, "--scale", "none")


def run(*words, status=0):
    loss = () if "--loss" in words else ("--loss", "logistic")  # else a line says which one the labels ask for
    done = subprocess.run([COMMAND, "order", *map(str, words), *loss], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file sorted by label, with HTML for a name."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    labels = np.where(X[:, 0] + rng.standard_normal(120) > 0, 1, 0)
    rows = sorted((str(y), ",".join(f"{value:.6f}" for value in row)) for row, y in zip(X, labels, strict=True))
    lines = ["a,b,c,label", *(f"{row},{label}" for label, row in rows)]
    path = tmp_path_factory.mktemp("order") / NAME
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def problem(table):
    data = rs.load(table)
    return rs.Problem(data.X, data.y, alpha=0.01, fit_intercept=True)


@pytest.fixture(scope="module")
def made(table):
    page = table.with_name("page.html")
    printed = json.loads(run(table, *LOGISTIC, "--json", "-o", page)[0])
    return page, printed


def test_it_prints_the_table_and_one_sentence_of_advice(table, problem):
    stdout, stderr = run(table, "--scheme", "file", "--scheme", "buffer:30", *LOGISTIC)
    want = rs.orders.assess(problem, ["rr", "file", "buffer:30"], batch_size=4)
    assert stdout == f"{want}\n"
    assert [line.split()[0] for line in stdout.splitlines()[2:5]] == ["rr", "ig", "buffer:30"]
    assert stdout.splitlines()[-1].startswith("Use ")
    assert stderr == ""


def test_it_finds_the_smallest_buffer_and_the_largest_block(table, problem):
    words = ["--smallest", "buffer", "--smallest", "blocks", "--within", 1.5, "--no-measure"]
    printed = json.loads(run(table, *words, *LOGISTIC, "--json")[0])
    for found in printed["smallest"]:
        want = rs.orders.smallest(problem, found["family"], within=1.5, batch_size=4, measure=False)
        assert found == want.to_dict()
    assert [found["family"] for found in printed["smallest"]] == ["buffer", "blocks"]
    assert printed["schemes"][0]["unmeasured"] == "measure=False"


def test_without_schemes_some_usual_ones_are_taken(made):
    _, printed = made
    names = [entry["scheme"] for entry in printed["schemes"]]
    assert names[:4] == ["rr", "ig", "buffer:12", "buffer:60"]
    assert len(usual(2)) == len(set(usual(2)))


def test_the_page_holds_the_numbers_that_are_printed(made, problem):
    page, printed = made
    text = page.read_text(encoding="utf-8")
    inside = json.loads(text.split('id="numbers">')[1].split("</script>")[0])
    assert inside == printed
    assert set(printed["sizes"]) == {"buffer", "blocks"}
    for family, found in printed["sizes"].items():
        assert [size for size, _ in found] == sorted({size for size, _ in found})
        size, entry = found[-1]
        assert entry == rs.orders.assess(problem, f"{family}:{size}", batch_size=4).to_dict()


def test_the_page_names_the_command_that_makes_the_same_numbers(problem, table):
    source = [str(table), "--target", "label", "--scale", "none"]
    asked = {"schemes": ["so"], "eps": 0.01, "within": 1.5, "measure": False, "batch_size": 4, "seed": 2}
    made = shuffling(problem, "by hand", **asked, smallest=["buffer"], source=source)
    name, order, *words, out, page = shlex.split(made.again)
    assert (name, order, out, page) == ("reshuffle", "order", "-o", "page.html")
    printed = json.loads(run(*words, "--smallest", "buffer", "--json")[0])
    assert printed["schemes"] == made.to_dict()["schemes"]
    assert printed["smallest"] == made.to_dict()["smallest"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--scheme", "bufer:3"], "order='bufer:3' is not known"),
        (["--scheme", "buffer:many"], "'many' is not a whole number"),
        (["--smallest", "windows"], "family='windows' is not known; use one of buffer, blocks"),
        (["--smallest", "buffer", "--within", "1"], "within=1.0 must be more than 1"),
        (["--batch-size", "120"], "batch_size=120 takes all rows in one step"),
        (["--eps", "0"], "eps=0.0 must be a positive number"),
        (["--loss", "hinge"], "loss='hinge' has kinks"),
        (["-o", "nowhere/page.html"], "nowhere"),
    ],
)
def test_mistakes_end_in_one_clear_line(table, words, complaint):
    stdout, stderr = run(table, *LOGISTIC, *words, status=2)
    assert stdout == ""
    assert complaint in stderr
    assert len(stderr.splitlines()) == 1


def open_at(driver, page, width, theme="light"):
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    driver.get_log("browser"), driver.get_log("performance")
    driver.get(page.as_uri())
    driver.execute_async_script(DRAWN)


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_the_page_loads_alone_draws_every_figure_and_fits(driver, made, width, theme):
    page, printed = made
    open_at(driver, page, width, theme)
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {page.as_uri()}
    assert driver.execute_script("return document.querySelectorAll('.plot .main-svg').length") >= 3
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script("return document.querySelector('.kicker strong').textContent") == NAME
    assert driver.execute_script("return document.querySelector('.lede').textContent") == printed["advice"]
    assert driver.execute_script("return document.querySelectorAll('img').length") == 0


def test_the_figures_show_the_numbers(driver, made):
    page, printed = made
    open_at(driver, page, 1280)
    drawn = driver.execute_script("return [...document.querySelectorAll('[data-figure]')].map((e) => [e.dataset.figure, e.data])")
    figures = {key: {trace["name"]: trace for trace in data} for key, data in drawn}
    assert set(figures) == {"discrepancy", "gaps", "epochs"}
    buffers = printed["sizes"]["buffer"]
    line = figures["discrepancy"]["shuffle buffer"]
    assert line["x"] == [size for size, _ in buffers]
    assert line["y"] == pytest.approx([entry["discrepancy"] for _, entry in buffers])
    assert figures["gaps"]["shuffle buffer"]["y"] == pytest.approx([entry["measured"]["gap"] for _, entry in buffers])
    random = printed["schemes"][0]
    assert figures["epochs"][random["label"]]["y"] == pytest.approx(random["measured"]["gaps"])
    assert figures["discrepancy"]["smallest buffer that will do"]["x"] == [printed["smallest"][0]["parameter"]]


def test_a_page_can_be_made_without_runs_and_without_the_file(problem):
    made = shuffling(problem, "by hand", schemes=["so"], sweep=True, measure=False, batch_size=4)
    page = made.html()
    assert "Nothing was measured: measure=False" in page
    assert "The same again" not in page
    assert "How these orders compare with random reshuffling" in page


@pytest.mark.parametrize(("ratio", "said"), [(1.6, "as closely as a few runs can tell"), (0.6, "as closely as"), (4.0, "4 times")])
def test_a_headline_does_not_tell_apart_what_a_few_runs_cannot(problem, ratio, said):
    found = shuffling(problem, "t", schemes=["file"], batch_size=4, epochs=4)
    random, file = found.table
    file = replace(file, measured=replace(file.measured, gap_over_rr=ratio, slowdown=ratio))
    assert said in _headline(replace(found, table=Assessments((random, file))))


def test_an_axis_of_less_than_half_a_decade_has_numbers_on_it():
    assert log_axis("gap", [1.1e-3, 1.8e-3])["type"] == "linear"
    assert log_axis("gap", [1e-3, 5e-3])["type"] == "log"
