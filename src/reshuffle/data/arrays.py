"""NumPy and SciPy files: .npy holds a dense X; .npz a sparse X as `scipy.sparse.save_npz` writes it, or arrays X and y."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp


def read_npy(path: Path) -> tuple[Any, None]:
    try:
        return np.load(path, mmap_mode="r", allow_pickle=False), None
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"{path} is not a NumPy array file: {error}") from None


def read_npz(path: Path) -> tuple[Any, Any]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = archive.files
            if "format" in names or "X" in names:
                X = sp.load_npz(path) if "format" in names else archive["X"]
                return X, archive["y"] if "y" in names else None
    except (ValueError, EOFError, OSError, AttributeError) as error:
        raise ValueError(f"{path} is not a NumPy or SciPy archive: {error}") from None
    held = ", ".join(names) or "nothing"
    raise ValueError(f"{path} holds {held}; save a sparse matrix with scipy.sparse.save_npz, or arrays X and y")
