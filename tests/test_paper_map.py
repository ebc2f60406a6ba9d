"""The map of the paper names functions and tests that exist."""

import re
from operator import attrgetter
from pathlib import Path

import pytest

import reshuffle as rs
from reshuffle import complexity, experiments
from reshuffle.experiments import chain, claims

ROOT = Path(__file__).parents[1]
STARTS = {
    "experiments.chain.": chain,
    "experiments.claims.": claims,
    "experiments.": experiments,
    "theory.": rs.theory,
    "rs.complexity.": complexity,
    "rs.": rs,
}
NAMES = re.findall(r"`([^`]+)`", (ROOT / "docs" / "paper_map.md").read_text().partition("\n## ")[2])


def names_of(*starts):
    return sorted({name for name in NAMES if name.startswith(starts)})


@pytest.mark.parametrize("name", names_of("tests/"))
def test_a_test_on_the_map_exists(name):
    file, _, function = name.partition("::")
    text = (ROOT / file).read_text()
    assert re.search(rf"^def {function}\(" if function else r"^def test_", text, re.MULTILINE)


@pytest.mark.parametrize("name", names_of(*STARTS))
def test_a_function_on_the_map_exists(name):
    start = next(start for start in STARTS if name.startswith(start))
    assert attrgetter(name.removeprefix(start))(STARTS[start]) is not None


def test_every_target_of_the_command_is_on_the_map_or_a_relaxation():
    assert {f"reshuffle reproduce {target}" for target in experiments.TARGETS} - set(NAMES) == {"reshuffle reproduce chain"}
