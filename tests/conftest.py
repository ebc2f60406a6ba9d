"""Shared fixtures. Real files are looked for in $RESHUFFLE_DATA, else in shared/data beside the checkout."""

import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Kernels compile on first use, which no deadline should see.
settings.register_profile("default", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

DATA = Path(os.environ.get("RESHUFFLE_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture
def called(monkeypatch, capsys):
    """The command with these words, as a shell calls it but in this process, which spares the start of another: what it printed."""
    from reshuffle import cli

    def call(*words, status=0, stdin=""):
        monkeypatch.setattr(sys, "argv", ["reshuffle", *map(str, words)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        with pytest.raises(SystemExit) as end:
            cli.main()
        printed = capsys.readouterr()
        assert end.value.code == status, printed.err
        return printed

    return call


@pytest.fixture
def real_file():
    def find(name: str) -> Path:
        for path in (DATA / name, DATA / f"{name}.bz2"):
            if path.exists():
                return path
        return pytest.skip(f"the dataset {name} is not in {DATA}; set RESHUFFLE_DATA to a folder that has it")

    return find
