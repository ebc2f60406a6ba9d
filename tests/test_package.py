"""Importing stays cheap, and works where nothing can be cached."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import reshuffle as rs


def test_heavy_libraries_load_on_first_use():
    heavy = ("numba", "scipy", "sklearn", "matplotlib")
    code = f"import sys, reshuffle, reshuffle.cli; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_every_public_name_exists():
    for name in rs.__all__:
        assert getattr(rs, name) is not None
    assert set(rs.__all__) <= set(dir(rs))


def test_it_runs_where_no_cache_folder_can_be_written(tmp_path):
    package = Path(rs.__file__).parent
    shutil.copytree(package, tmp_path / "reshuffle", ignore=shutil.ignore_patterns("__pycache__"))
    blocker = tmp_path / "no_folder"
    blocker.write_text("a file where a cache folder would go")
    code = (
        "import numba.core.caching as c\n"
        "for name in [name for name in dir(c) if 'Locator' in name]:\n"
        "    getattr(c, name).from_function = classmethod(lambda *a: None)\n"
        "import reshuffle as rs, numpy as np\n"
        "print(rs.constants(np.eye(3), order='ig').L, rs.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "1.0"
    assert str(tmp_path) in done.stdout
