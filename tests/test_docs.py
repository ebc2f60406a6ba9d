"""The documentation is honest: its code runs, its links lead somewhere, and the API reference leaves nothing out."""

import inspect
import re
from pathlib import Path

import pytest

import reshuffle as rs
from reshuffle import orders, theory
from reshuffle.losses import LOSSES
from reshuffle.orders.schemes import SAME

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
API = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.rst")))


def documented(name):
    return re.search(rf"^\.\. (auto\w+|py:data):: ([\w.]*\.)?{re.escape(name)}$", API, re.MULTILINE) is not None


def public_functions(module):
    return [
        name
        for name, value in inspect.getmembers(module, inspect.isfunction)
        if f"{value.__module__}.".startswith(f"{module.__name__}.") and name[0] != "_"
    ]


@pytest.mark.parametrize("name", sorted(set(rs.__all__) - {"__version__"}))
def test_the_api_reference_has_every_public_name(name):
    assert documented(name)


@pytest.mark.parametrize("module", [theory, orders], ids=lambda module: module.__name__)
def test_the_api_reference_has_every_function_of_the_modules(module):
    assert [name for name in public_functions(module) if not documented(name)] == []


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_is_in_the_api_reference_and_in_the_table_of_the_guide(name):
    assert documented(LOSSES[name].__name__)
    rows = [line for line in (ROOT / "docs" / "data.md").read_text().splitlines() if re.match(rf"\| `{name}[`:]", line)]
    assert len(rows) == 1
    *_, smoothness, lipschitz, _ = (cell.strip() for cell in rows[0].split("|"))
    loss = LOSSES[name]()
    assert bool(smoothness) == (loss.smoothness is not None)
    assert bool(lipschitz) == (loss.lipschitz is not None)


def test_every_order_is_in_the_table_of_the_guide_with_names_that_are_read():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "orders.md").read_text().partition("## What loaders do")[2], re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"`([^`]*)`", row)]
    assert {name.partition(":")[0] for name in names} == {*orders.SCHEMES, *SAME}
    for name in names:
        orders.make_order(re.sub(r":[A-Z]", ":2", name), 12, 0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}  # as in a script; numba looks the module of a function up
    for code in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL):
        exec(compile(code.replace("path/to/a9a", "breast_cancer"), str(page), "exec"), names)


def source(page, file):
    """What a link leads to; the pages of the gallery are made from the examples."""
    if file.startswith("gallery/"):
        name = file.removeprefix("gallery/")
        return ROOT / "examples" / ("README.rst" if name == "index" else f"{name}.py")
    return page.parent / file if file else page


def anchors(path):
    headings = re.findall(r"^#+ (.*)$|^\((.*)\)=$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", "".join(heading)).lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_links_lead_to_files_and_sections_that_exist(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" not in link:
            file, _, section = link.partition("#")
            assert source(page, file).exists(), link
            assert not section or section in anchors(source(page, file)), link
