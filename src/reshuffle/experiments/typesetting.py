"""A table that can be printed, read by a spreadsheet, and set by LaTeX."""

import csv
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from reshuffle.records import write_file


@dataclass
class Table:
    name: str
    caption: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        cells = [self.columns, *([_shown(cell) for cell in row] for row in self.rows)]
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
        body = "\n".join("    " + " & ".join(_escaped(_shown(cell)) for cell in row) + r" \\" for row in self.rows)
        head = " & ".join(_escaped(column) for column in self.columns)
        layout = "l" + "r" * (len(self.columns) - 1)
        lines = [
            r"\begin{table}",
            r"  \caption{" + _escaped(self.caption) + "}",
            r"  \begin{tabular}{" + layout + "}",
            r"    \toprule",
            f"    {head} " + r"\\",
            r"    \midrule",
            body,
            r"    \bottomrule",
            r"  \end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

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


def _escaped(text: str) -> str:
    table = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    return "".join(table.get(c, "\\" + c if c in "&%$#_{}" else c) for c in text)
