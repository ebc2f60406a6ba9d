"""The page as text: one file, with colours that can be read and told apart from what lies behind them."""

import re

import pytest

from reshuffle.reporting.page import PALETTES


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_and_lines_stand_out_from_what_is_behind_them(theme):
    palette = PALETTES[theme]
    for behind in ("paper", "back"):
        for text in ("ink", "soft", "warn"):
            assert contrast(palette[text], palette[behind]) >= 4.5
        for line in ("rr", "so", "ig", "balanced"):
            assert contrast(palette[line], palette[behind]) >= 3.0


def test_plotly_and_everything_else_is_inside(report):
    page = report.html()
    assert page.count("plotly.js v") == 1
    own = page.replace(page[page.index("plotly.js v") : page.index("</script>", page.index("plotly.js v"))], "")
    assert re.findall(r"<(?:script|img|link|iframe)[^>]+(?:src|href)=\"(?!data:)", own) == []
    assert "http://" not in own
    assert "https://" not in own
    assert "default-src 'none'" in own


def test_every_figure_has_a_text_alternative(report):
    page = report.html()
    assert page.count('role="img" aria-label="') == 12
    assert page.count("<summary>The numbers of this figure</summary>") == 12


def test_names_from_the_data_never_become_elements(report):
    page = report.html()
    for name in ("<img src=x", "<script>alert", "<b onclick"):
        assert name not in page
