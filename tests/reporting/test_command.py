"""`reshuffle report`: what it refuses before any work, and that a page is written whole or not at all."""

import re
import signal
import subprocess
import sys
import time

import pytest

import reshuffle as rs
from reshuffle.reporting import check_before_work, page
from tests.reporting.conftest import COMMAND


def run(*arguments, status=0):
    done = subprocess.run([COMMAND, "report", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def test_it_writes_one_file_under_six_megabytes_and_prints_its_path(tmp_path):
    out = tmp_path / "page.html"
    stdout, stderr = run("diabetes", "--loss", "squared", "--eps", 10, "--intercept", "--scale", "none", "-o", out)
    assert (stdout, stderr) == (f"{out}\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert 4_000_000 < out.stat().st_size < 6_000_000
    text = out.read_text(encoding="utf-8")
    assert text.count("plotly.js v") == 1
    assert (
        "The same page again: <code>reshuffle report diabetes --scale none --loss squared --alpha 0.0001 --intercept --eps 10.0 "
        "--permutations 3</code>" in text
    )


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"output": "nowhere/report.html"}, "the folder 'nowhere' does not exist; make it first"),
        ({"output": "."}, "output '.' is a folder; name a file in it"),
        ({"eps": 0.0}, "eps=0.0 must be a positive number"),
        ({"eps": float("nan")}, "eps=nan must be a positive number"),
        ({"tol": -1.0}, "tol=-1.0 must be a positive number"),
        ({"permutations": 0}, "permutations=0"),
        ({"seed": -1}, "seed=-1"),
        ({"loss": "unit"}, "loss='unit' has constants but no values"),
        ({"loss": "cubic"}, "loss='cubic' is not known"),
        ({"loss": "hinge", "alpha": 0.1}, "no theorem covers a loss with kinks and a regulariser"),
    ],
)
def test_mistakes_are_named_before_any_work(tmp_path, arguments, complaint):
    fine = {
        "output": tmp_path / "report.html",
        "loss": "logistic",
        "alpha": 0.0,
        "eps": 0.1,
        "tol": 0.1,
        "permutations": 1,
        "seed": 0,
    }
    check_before_work(**fine)
    with pytest.raises(ValueError, match=re.escape(complaint)):
        check_before_work(**{**fine, **arguments})


def test_a_mistake_ends_in_one_line_before_the_data_is_read():
    stdout, stderr = run("no-such-file", "-o", "nowhere/report.html", status=2)
    assert stdout == ""
    assert stderr == "reshuffle: output 'nowhere/report.html': the folder 'nowhere' does not exist; make it first\n"


def test_a_missing_library_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly", None)
    with pytest.raises(ImportError, match=r'pip install "reshuffle\[report\]"'):
        page.require()


def test_ctrl_c_leaves_an_earlier_page_as_it_was(tmp_path):
    out = tmp_path / "report.html"
    out.write_text("earlier")
    words = [COMMAND, "report", "breast_cancer", "--permutations", "100000", "-o", out]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            for _ in range(12):  # numba swallows a signal that falls into its compiler, and a user presses again
                time.sleep(5.0)
                if process.poll() is not None:
                    break
                process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130, stderr
    assert stdout == ""
    assert "Traceback" not in stderr
    assert out.read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_page_is_saved_from_python_too(report, tmp_path):
    report.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.html()
    assert rs.Report is type(report)
