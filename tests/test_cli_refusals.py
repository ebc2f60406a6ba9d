"""What is wrong with the arguments of a command is said before it reads or prints anything: here, no data is there to read."""

import inspect
from typing import Annotated, get_args, get_origin

import pytest

from reshuffle.cli.application import app

COMMANDS = {each.name or each.callback.__name__: each.callback for each in app.registered_commands}
ON_DATA = {name: body for name, body in COMMANDS.items() if "path" in inspect.signature(body).parameters}


@pytest.fixture
def refused(called, monkeypatch, tmp_path):
    """The one line that a command ends with."""
    monkeypatch.chdir(tmp_path)

    def line(*words):
        printed = called(*words, status=2)
        assert not printed.out
        assert printed.err.count("\n") == 1
        assert not list(tmp_path.iterdir())
        return printed.err

    return line


def numbers():
    """Every option that is a number, of every command on data."""
    for command, body in ON_DATA.items():
        for name, parameter in inspect.signature(body).parameters.items():
            kind = get_args(parameter.annotation)[0] if get_origin(parameter.annotation) is Annotated else parameter.annotation
            if {int, float} & {kind, *get_args(kind)}:
                yield command, "--" + name.replace("_", "-")


def test_all_numbers_are_found():
    assert {"constants", "plan", "report", "order", "run", "fit", "predict"} == set(ON_DATA)
    assert {("fit", "--alpha"), ("plan", "--eps"), ("run", "--tol"), ("constants", "--jobs")} < set(numbers())
    assert len(list(numbers())) >= 35


@pytest.mark.parametrize(("command", "option"), [each for each in numbers() if each != ("fit", "--jobs")])
def test_a_number_that_cannot_be_is_refused_before_the_data_is_read(refused, command, option):
    for value in ("-7", "nan") if option in ("--alpha", "--tol", "--eps", "--within") else ("-7",):
        said = refused(command, "missing.csv", option, value)
        assert "no file" not in said
        assert value in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("fit --alpha -1", "alpha=-1.0 must be zero or a positive number"),
        ("fit --alpha 0", "--alpha 0 leaves no certificate to stop by; use --alpha 1e-8, say, or `reshuffle run --alpha 0`"),
        ("fit --jobs 0", "reshuffle: jobs=0 is not a number of threads; use 1 or more, or -1 for all cores"),
        ("fit --alphas 1,-1", "alphas=[1.0, -1.0] must be positive numbers"),
        ("fit --alphas 1,x", "--alphas 1,x is not a list of numbers"),
        ("fit --loss nope", "loss='nope' is not known; use one of"),
        ("fit --scale nope", "--scale='nope' is not known; use one of"),
        ("plan --loss huber:-1", "delta=-1.0 does not fit the huber loss; use a positive number"),
        ("plan --device nope", "device='nope'"),
        ("plan --for nope", "there is no code for 'nope'; use one of"),
        ("constants --order nope", "order='nope' is not known; use one of"),
        ("constants --failure-probability 1", "failure_probability=1.0 must lie strictly between 0 and 1"),
        ("constants --tol 1e-13", "tol=1e-13 must be at least 1e-12 and less than 1"),
        ("order --scheme file --scheme buffer:0", "order='buffer:0': "),
        ("order --smallest nope", "family='nope' is not known; use one of buffer, blocks"),
        ("order --within 1", "within=1.0 must be more than 1"),
        ("run --order nope", "order='nope' is not known; use one of"),
        ("run --step-size x", "--step-size='x' is neither theory nor budget nor a number"),
        ("run --step-size 0", "step_size is 0.0 in epoch 1; use positive numbers"),
        ("run --average nope", "average='nope' is not known; use one of epoch, weighted, last, suffix"),
        ("run --average weighted", "average='weighted' needs strong convexity"),
        ("run --tol 0.1 --alpha 0", "tol=0.1 needs a certificate, which alpha=0 leaves out"),
        ("report --loss unit", "loss='unit' has constants but no values"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_before_the_data_is_read(refused, words, said):
    command, *options = words.split()
    assert said in refused(command, "missing.csv", *options)


@pytest.mark.parametrize("command", ["constants", "order", "run"])
def test_a_batch_larger_than_the_data_is_refused_before_anything_is_said_of_it(refused, command):
    assert "batch_size=570 is larger than the 569 rows of the data; use 1..569" in refused(
        command, "breast_cancer", "--batch-size", "570"
    )


@pytest.mark.parametrize("words", ["table2 --permutations 0", "table1 --alpha -1", "table1 --loss nope", "table1 --batch-size 0"])
def test_the_paper_is_not_begun_with_wrong_arguments(refused, words):
    refused("reproduce", *words.split())
