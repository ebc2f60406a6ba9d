"""One small report for all tests, made by the command from a file that is full of HTML, and a browser to open it in."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import reshuffle as rs

COMMAND = Path(sys.executable).with_name("reshuffle")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
SETTINGS = {"eps": 0.02, "permutations": 3, "seed": 5}
NAME = "<img src=x onerror=alert(1)>.csv"
WIDE = "<b onclick=alert(2)>wide</b>"
LABELS = ("<script>alert(3)</script>", "zebra & co")


@dataclass(frozen=True)
class Made:
    """What the command wrote and printed, and the same report computed here."""

    page: Path
    printed: dict
    report: rs.Report


def write_table(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 4)) * [1.0, 1.0, 12.0, 1.0]
    y = np.where(X[:, 0] + rng.standard_normal(80) > 0, *LABELS)
    lines = [",".join(["</script><script>alert(4)</script>", "second", WIDE, "&lt;last&gt;", "label"])]
    lines += [",".join([*(f"{value:.6f}" for value in row), label]) for row, label in zip(X, y, strict=True)]
    path = folder / NAME
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Made:
    folder = tmp_path_factory.mktemp("report")
    table, page = write_table(folder), folder / "report.html"
    words = [
        COMMAND,
        "report",
        table,
        "--target",
        "label",
        "--alpha",
        "0.01",
        "--intercept",
        "--scale",
        "none",
        "--json",
        "-o",
        page,
    ]
    for name, value in SETTINGS.items():
        words += [f"--{name}", str(value)]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    data = rs.load(table)
    problem = rs.Problem(data.X, data.y, alpha=0.01, fit_intercept=True)
    source = [str(table), "--target", "label", "--scale", "none"]
    return Made(page, json.loads(done.stdout), rs.report(problem, data, **SETTINGS, source=source))


@pytest.fixture(scope="session")
def report(made) -> rs.Report:
    return made.report


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    binary, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or chromedriver is None:
        pytest.skip("chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)")
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in FLAGS.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('browser')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(chromedriver))
    yield driver
    driver.quit()
