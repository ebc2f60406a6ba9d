"""A table that can be printed, read by a spreadsheet or pandas, and set by LaTeX."""

import csv
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from reshuffle.frames import frame
from reshuffle.records import write_file

_SYMBOLS = {"L": "$L$", "Lhat": r"$\hat L$", "Ltil": r"$\tilde L$", "G": "$G$", "Gbar": r"$\bar G$"}  # cells that name a constant


@dataclass
class Table:
    name: str  #: of its files, and its label in LaTeX: tab:name
    caption: str
    columns: dict[str, str]  #: the head of each column as text, and as LaTeX where that is mathematics, else ""
    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    latex_caption: str = ""  #: where the caption has mathematics

    def text(self) -> str:
        cells = [list(self.columns), *([_shown(cell) for cell in row] for row in self.rows)]
        widths = [max(len(row[k]) for row in cells) for k in range(len(self.columns))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        return "\n".join([self.caption, "", *lines, *(["", *self.notes] if self.notes else [])])

    def csv(self) -> str:
        out = StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([["" if cell is None else cell for cell in row] for row in self.rows])
        return out.getvalue()

    def latex(self) -> str:
        """For a document that loads booktabs."""
        lines = [
            r"\begin{table}",
            r"  \centering\small",
            rf"  \caption{{{self.latex_caption or latex_text(self.caption)}}}",
            rf"  \label{{tab:{self.name}}}",
            rf"  \begin{{tabular}}{{l{'r' * (len(self.columns) - 1)}}}",
            r"    \toprule",
            rf"    {' & '.join(latex or latex_text(text) for text, latex in self.columns.items())} \\",
            r"    \midrule",
            *(rf"    {' & '.join(_set(cell) for cell in row)} \\" for row in self.rows),
            r"    \bottomrule",
            r"  \end{tabular}",
            *(rf"  \par\smallskip{{\footnotesize {latex_text(note)}}}" for note in self.notes),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def to_frame(self) -> Any:
        """A pandas.DataFrame with the columns of the table; what it leaves open is missing there."""
        return frame({name: [row[k] for row in self.rows] for k, name in enumerate(self.columns)})

    def save(self, folder: Path) -> list[Path]:
        contents = {"txt": self.text() + "\n", "csv": self.csv(), "tex": self.latex()}
        files = {folder / f"{self.name}.{suffix}": content for suffix, content in contents.items()}
        for path, content in files.items():
            write_file(path, content)
        return list(files)


def _shown(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def _set(cell: Any) -> str:
    """A cell in LaTeX, with mathematics in math mode."""
    if not isinstance(cell, float):
        return "--" if cell is None else _SYMBOLS.get(cell) or latex_text(str(cell))
    digits, _, power = _shown(cell).partition("e")
    return rf"${digits} \cdot 10^{{{int(power)}}}$" if power else f"${digits}$"


def latex_text(text: str) -> str:
    """Text that means itself in LaTeX."""
    table = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(table.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)
