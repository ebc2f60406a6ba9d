"""What all commands have in common: their help, how much they print and where, colours, completion."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = Path(sys.executable).with_name("reshuffle")
COMMANDS = ("constants", "plan", "report", "order", "run", "fit", "predict", "reproduce", "datasets fetch", "datasets add")
PLAIN = {**os.environ, "COLUMNS": "200", "TERM": "dumb", "NO_COLOR": "1"}


def run(*words, status=0, **environment):
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True, check=False, env={**PLAIN, **environment})
    assert done.returncode == status, done.stderr
    return done.stdout, done.stderr


def on_a_terminal(*words):
    """What a command writes to a terminal, with its colours."""
    import pty

    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color"}
    env.pop("NO_COLOR", None)
    with subprocess.Popen([COMMAND, *words], stdout=follower, stderr=subprocess.DEVNULL, env=env) as process:
        os.close(follower)
        text = b""
        while True:
            try:
                part = os.read(leader, 1 << 16)
            except OSError:  # how Linux says that the other end is closed
                part = b""
            if not part:
                break
            text += part
    os.close(leader)
    assert process.returncode == 0
    return text.decode().replace("\r\n", "\n")


def test_commands_are_grouped_by_what_a_person_wants():
    text = run("--help")[0]
    places = [text.index(word) for word in ("Know your data", " plan ", "Train", " fit ", "Reproduce the paper", " reproduce ")]
    assert places == sorted(places)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_with_options_that_it_has(command):
    text = run(*command.split(), "--help")[0]
    example = shlex.split(re.search(r"Example: (.*)", text)[1])
    assert " ".join(example).startswith(f"reshuffle {command}")
    options = [word for word in example if word.startswith("-")]
    assert all(re.search(rf"[\s,]{option}\b", text.replace(" ".join(example), "")) for option in options)


def test_quiet_prints_the_result_alone_and_still_its_errors():
    words = ("run", "breast_cancer", "--epochs", "2", "--no-bound")
    usual, quiet = run(*words), run(*words, "--quiet")
    assert "loss logistic" in usual[1]
    assert quiet[1] == ""
    assert quiet[0].splitlines()[0] == usual[0].splitlines()[0]
    assert "eps=-1.0 must be a positive number" in run("plan", "breast_cancer", "--eps", "-1", "-q", status=2)[1]


def test_verbose_says_what_took_how_long_and_where_an_error_was_raised():
    said = run("constants", "iris", "--permutations", "3", "--verbose")[1]
    assert re.search(r"permutations took \d+\.\d\d s", said)
    trace = run("plan", "breast_cancer", "--eps", "-1", "-v", status=2)[1]
    assert "Traceback" in trace
    assert trace.splitlines()[-1] == "reshuffle: eps=-1.0 must be a positive number"
    assert "leave one out" in run("constants", "iris", "-q", "-v", status=2)[1]


def test_a_terminal_gets_the_text_of_a_pipe_in_colours():
    words = ("constants", "iris", "--permutations", "3", "--seed", "5")
    plain, drawn = run(*words)[0], on_a_terminal(*words)
    assert "\x1b[1;36mbatch size\x1b[0m" in drawn
    bare = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert [line for line in bare.split("\n") if "accuracy" not in line] == [
        line for line in plain.split("\n") if "accuracy" not in line
    ]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("reshuffle pl", ["plan"]),
        ("reshuffle plan x --loss lo", ["logistic"]),
        ("reshuffle run x --order bal", ["balanced"]),
        ("reshuffle order x --scheme buf", ["buffer:"]),
        ("reshuffle datasets fetch a9", ["a9a"]),
        ("reshuffle reproduce figure", ["figure1", "figure2", "figure3"]),
    ],
)
def test_shells_complete_commands_and_names(line, offered):
    place = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    assert run(_RESHUFFLE_COMPLETE="complete_bash", **place)[0].split() == offered


@pytest.mark.parametrize("words", [["order", "--scheme"], ["run", "--order"], ["constants", "--order"]])
def test_the_name_of_an_order_is_refused_before_the_data_is_looked_for(words):
    command, option = words
    said = run(command, "nowhere.csv", option, "bufer:10", status=2)[1]
    assert "order='bufer:10' is not known" in said
    assert "nowhere.csv" not in said
