"""Draws docs/figures/report.png: the first screen of a report, as chromium shows it.

python docs/figures/report.py path/to/a9a
"""

import sys
import tempfile
from pathlib import Path

from selenium import webdriver

import reshuffle as rs

WIDTH, HEIGHT = 1180, 980
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-background-networking")


def main(source: str) -> None:
    data = rs.load(source)
    problem = rs.Problem(data.X, data.y, loss="logistic", alpha=1e-4)
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        rs.report(problem, data, source=[Path(source).name]).save(page)
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
        metrics = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        driver.get(page.as_uri())
        driver.save_screenshot(str(Path(__file__).with_suffix(".png")))
        driver.quit()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "breast_cancer")
