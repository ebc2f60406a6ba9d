"""Matplotlib as this project uses it: one style, readable at the width of a column, in the type that LaTeX sets mathematics in
(matplotlib brings it: no LaTeX is needed), colours that colour-blind readers can tell apart. Draw inside `with plots.style():`,
which leaves the user's own settings alone.
"""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reshuffle.records import write_file

# Okabe and Ito (2008)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
COLUMN = 3.4  #: inches

_STYLE = {
    "font.family": "serif",
    "font.serif": ["STIXGeneral"],  # the Computer Modern of matplotlib has an accent in the place of _
    "mathtext.fontset": "cm",
    "axes.formatter.use_mathtext": True,
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
}


@contextmanager
def style() -> Iterator[None]:
    try:
        import matplotlib
    except ImportError:
        raise ImportError('figures need matplotlib: pip install "reshuffle[plots]"') from None
    matplotlib.use("Agg")
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # it finds the dates inside Computer Modern odd, font by font
    with matplotlib.rc_context(_STYLE):
        yield


def subplots(rows: int, columns: int, *, height: float = 2.5, width: float = COLUMN, **options: Any) -> tuple[Any, Any]:
    """A figure of panels, each `width` x `height` inches; axes always come as a two-dimensional array."""
    import matplotlib.pyplot as plt

    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained", **options)
    return figure, axes


def save(figure: Any, folder: Path, name: str) -> list[Path]:
    """As PDF for papers and PNG for screens; the same figure is the same file, so the PDF has no date."""
    import matplotlib.pyplot as plt

    paths = {folder / f"{name}.pdf": {"CreationDate": None}, folder / f"{name}.png": {}}
    for path, metadata in paths.items():
        drawn = io.BytesIO()
        figure.savefig(drawn, format=path.suffix[1:], dpi=200, metadata=metadata)
        write_file(path, drawn.getvalue())
    plt.close(figure)
    return list(paths)
