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
            if "format" in names:
                return sp.load_npz(path), archive["y"] if "y" in names else None
            if "X" in names:
                return archive["X"], archive["y"] if "y" in names else None
    except (ValueError, EOFError, OSError, AttributeError) as error:
        raise ValueError(f"{path} is not a NumPy or SciPy archive: {error}") from None
    raise ValueError(
        f"{path} holds {', '.join(names) or 'nothing'}; save a sparse matrix with scipy.sparse.save_npz, or arrays X and y"
    )
