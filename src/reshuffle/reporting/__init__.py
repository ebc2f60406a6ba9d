"""A report worth opening: what to do with this data, and why, as one self-contained page.

numbers (what is measured) -> recommendation, sentences, figures (what is said of it) -> page (how it looks) -> files.
"""

from pathlib import Path

from reshuffle.records import check_output
from reshuffle.reporting import page
from reshuffle.reporting.numbers import Report, check_settings, report

__all__ = ["Report", "check_before_work", "report"]


def check_before_work(
    output: str | Path, *, loss: str, alpha: float, eps: float | None, tol: float, permutations: int, seed: int
) -> None:
    """Refuse what cannot end in a page before the data is even read."""
    page.require()
    check_output(output)
    check_settings(loss=loss, alpha=alpha, eps=eps, tol=tol, permutations=permutations, seed=seed)
