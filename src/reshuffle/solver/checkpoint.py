"""A run on disk: everything that the next epoch depends on. Written beside and renamed, so that a file is always whole."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from reshuffle.epoch import Epoch


class Checkpoint:
    """The state of a run that `settings` describes. A file made with other settings is refused."""

    def __init__(self, path: str | Path, settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self._settings = json.dumps(settings, sort_keys=True)
        if not self.path.parent.is_dir():
            raise ValueError(f"checkpoint={str(path)!r}: the folder {self.path.parent} does not exist; make it first")

    def load(self) -> tuple[dict[str, Any], list[Epoch]] | None:
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            found, history = json.loads(str(arrays.pop("settings"))), json.loads(str(arrays.pop("history")))
        except (ValueError, OSError, EOFError, KeyError) as error:
            raise ValueError(f"checkpoint={str(self.path)!r} exists and is no checkpoint of reshuffle: {error}") from None
        wanted = json.loads(self._settings)
        for name in {**wanted, **found}:
            if wanted.get(name) != found.get(name):
                raise ValueError(
                    f"checkpoint={str(self.path)!r} was made with other settings: {name} is {found.get(name)!r} there and "
                    f"{wanted.get(name)!r} now; choose another file, or run with the same settings"
                )
        return arrays, [Epoch(**entry) for entry in history]

    def save(self, arrays: dict[str, Any], history: list[Epoch]) -> None:
        beside = self.path.with_name(self.path.name + ".part")
        with open(beside, "wb") as file:
            record = json.dumps([asdict(epoch) for epoch in history])
            np.savez(file, settings=np.array(self._settings), history=np.array(record), **arrays)
        os.replace(beside, self.path)
