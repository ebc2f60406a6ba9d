"""The page in a real browser: it loads alone, its controls work, it fits, and text from the data stays text."""

import base64
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from reshuffle.reporting.page import PALETTES
from reshuffle.reporting.recommendation import cards
from tests.reporting.conftest import LABELS, NAME, WIDE

ARTIFACTS = Path(__file__).parents[2] / "test-artifacts"
DRAWN = """const look = () => [...document.querySelectorAll('.plot')].every((e) => e.querySelector('.main-svg'))
    ? arguments[0]() : setTimeout(look, 20); look()"""
SIZES = "return [...document.querySelectorAll('.plot')].map((e) => e.querySelector('.main-svg').getBoundingClientRect())"
TICK = "return getComputedStyle(document.querySelector('.plot .xtick text')).fill"
KEYS = {"tab": "\ue004", "right": "\ue014", "left": "\ue012", "enter": "\ue007"}


@pytest.fixture
def page(driver, made):
    """Opens the page at a width and in a theme, and waits until every figure is drawn."""

    def open_at(width=1280, height=800, theme="light"):
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get_log("browser"), driver.get_log("performance")
        driver.get(made.page.as_uri())
        driver.execute_async_script(DRAWN)
        return driver

    return open_at


def text(driver, selector):
    return driver.execute_script("return document.querySelector(arguments[0]).textContent", selector)


def press(driver, key):
    driver.switch_to.active_element.send_keys(KEYS[key])


def focus(driver, name):
    """Go to an element as a person without a mouse does."""
    for _ in range(60):
        if driver.switch_to.active_element.get_attribute("id") == name:
            return
        press(driver, "tab")
    pytest.fail(f"{name} cannot be reached by the tab key")


def shown(driver):
    return driver.execute_script(
        "return Object.fromEntries([...document.querySelectorAll('[data-show]')].map((e) => [e.dataset.show, e.textContent]))"
    )


def untimed(card):
    """Without the seconds that runs took, which are never the same."""
    return {name: re.sub(r", in [0-9.e-]+ s", "", value) for name, value in card.items()}


def test_it_loads_without_errors_and_asks_the_network_for_nothing(page, made):
    driver = page()
    assert driver.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = {event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"}
    assert {url for url in asked if not url.startswith(("data:", "blob:"))} == {made.page.as_uri()}


@pytest.mark.parametrize("width", [360, 390, 1280])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_figure_has_size_and_the_page_does_not_scroll_sideways(page, width, theme):
    driver = page(width, 844 if width < 600 else 800, theme)
    sizes = driver.execute_script(SIZES)
    assert len(sizes) == 12
    assert all(size["width"] > 200 and size["height"] > 150 for size in sizes)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script("return document.body.scrollWidth") <= width
    ARTIFACTS.mkdir(exist_ok=True)
    height = driver.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
    (ARTIFACTS / f"report-{width}-{theme}.png").write_bytes(base64.b64decode(shot["data"]))


def test_the_first_screen_says_what_to_do(page, made):
    driver = page()
    headline = driver.execute_script("return document.querySelector('h1').getBoundingClientRect().bottom")
    practical = driver.execute_script("return [...document.querySelectorAll('.lede')].at(-1).getBoundingClientRect().bottom")
    assert 0 < headline < practical < 800
    best = made.report.accuracies[made.report.selected].advised
    want = cards(made.report)[made.report.selected][best]
    assert text(driver, "#eps-value") == want.pop("eps")
    assert untimed(shown(driver)) == untimed(want)
    assert text(driver, "h1") == want["headline"]


def test_the_sliders_show_what_python_computed_for_every_eps_and_batch_size(page, made):
    driver = page()
    want = cards(made.report)
    focus(driver, "eps")
    press(driver, "left")
    eps = made.report.selected - 1
    batch = made.report.accuracies[eps].advised
    for name, value in untimed(shown(driver)).items():
        assert value == untimed(want[eps][batch])[name]
    assert text(driver, "#eps-value") == want[eps][batch]["eps"]
    press(driver, "tab")
    move = "left" if batch > 0 else "right"
    press(driver, move)
    batch += -1 if move == "left" else 1
    for name, value in untimed(shown(driver)).items():
        assert value == untimed(want[eps][batch])[name]
    assert text(driver, "#batch-value") == want[eps][batch]["batch"]
    assert " is advised" in shown(driver)["against"]
    focus(driver, "reset")
    press(driver, "enter")
    assert shown(driver)["headline"] == want[eps][made.report.accuracies[eps].advised]["headline"]


def test_controls_have_labels_and_a_visible_focus(page):
    driver = page()
    for name in ("eps", "batch"):
        focus(driver, name)
        assert driver.execute_script("return document.activeElement.labels[0].textContent.trim().length") > 5
        assert driver.execute_script("return document.activeElement.getAttribute('aria-valuetext')")
        assert driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle") == "solid"
    headings = driver.execute_script("return [...document.querySelectorAll('h1, h2, h3')].map((e) => +e.tagName[1])")
    assert headings.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    assert driver.execute_script("return document.documentElement.lang") == "en"


def test_dark_and_light_follow_the_reader_and_the_figures_with_them(page):
    driver = page(theme="dark")
    back = "return getComputedStyle(document.body).backgroundColor"
    assert driver.execute_script(TICK) == rgb(PALETTES["dark"]["ink"])
    assert driver.execute_script(back) == rgb(PALETTES["dark"]["back"])
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "light"}]})
    driver.execute_async_script("setTimeout(arguments[0], 300)")
    assert driver.execute_script(TICK) == rgb(PALETTES["light"]["ink"])
    assert driver.execute_script(back) == rgb(PALETTES["light"]["back"])


def test_html_in_names_and_labels_is_shown_as_text(page):
    driver = page()
    assert driver.execute_script("return document.querySelectorAll('img, b').length") == 0
    assert text(driver, ".kicker strong") == NAME
    labels = driver.execute_script("return [...document.querySelectorAll('.facts dt')].map((e) => e.textContent)")
    assert {f"Label {label}" for label in LABELS} <= set(labels)
    assert WIDE in text(driver, "#says-features")
    assert WIDE in text(driver, ".warnings")
    driver.execute_script("document.querySelector('.warnings li').click()")
    with pytest.raises(Exception, match="no such alert"):
        _ = driver.switch_to.alert.text


def test_it_prints_in_light_colours_within_the_paper(page):
    driver = page(theme="dark")
    pdf = driver.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "paperWidth": 8.27, "paperHeight": 11.69})
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / "report.pdf").write_bytes(base64.b64decode(pdf["data"]))
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert max(size["width"] for size in driver.execute_script(SIZES)) <= 640
    assert driver.execute_script(TICK) == rgb(PALETTES["light"]["ink"])
    driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert max(size["width"] for size in driver.execute_script(SIZES)) > 800


def rgb(colour):
    return f"rgb({int(colour[1:3], 16)}, {int(colour[3:5], 16)}, {int(colour[5:7], 16)})"
