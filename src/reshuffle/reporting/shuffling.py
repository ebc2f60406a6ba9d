"""How good the shuffle of a file is: some orders, buffers and blocks of all sizes for a page, and the least that will do."""

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from reshuffle import __version__
from reshuffle.assessment import Assessment, Assessments, Smallest
from reshuffle.assessment.study import EPS, FAMILIES, WITHIN, Study, check_family, check_within
from reshuffle.orders import SCHEMES
from reshuffle.problem import Problem
from reshuffle.records import finite, write_file
from reshuffle.reporting.dataset import Scaled, scaled

_PARTS = (10_000, 3000, 1000, 300, 100, 30, 10, 3, 1.5)  # of the rows: sizes of buffers and blocks on a page


@dataclass(frozen=True)
class Shuffling:
    """All numbers of the page. `html()` is the page, `save(path)` writes it."""

    name: str  #: of the data
    n: int
    d: int
    loss: str
    alpha: float
    scaling: Scaled
    table: Assessments
    sizes: dict[str, tuple[tuple[int, Assessment], ...]]  #: by family: rows in a buffer or block, rising, and what they are worth
    smallest: tuple[Smallest, ...]
    source: tuple[str, ...]  #: the words by which a command line names this data; none where it was made from Python
    settings: tuple[str, ...]  #: the words by which it asks for these numbers
    seconds: float
    version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """Every number, ready for JSON: what is not finite becomes None."""
        sizes = {family: [[size, a.to_dict()] for size, a in found] for family, found in self.sizes.items()}
        settings = {name: getattr(self, name) for name in ("name", "n", "d", "loss", "alpha", "seconds", "version")}
        numbers: dict[str, Any] = finite({**settings, **self.table.to_dict(), "sizes": sizes})
        return {**numbers, "scaling": asdict(self.scaling), "smallest": [found.to_dict() for found in self.smallest]}

    @property
    def again(self) -> str | None:
        """The command that makes the same page."""
        return shlex.join(["reshuffle", "order", *self.source, *self.settings, "-o", "page.html"]) if self.source else None

    def html(self) -> str:
        from reshuffle.reporting.shuffling_page import render

        return render(self)

    def save(self, path: Any) -> None:
        """Write the page. An earlier one stays as it is until the new one is complete."""
        write_file(path, self.html())

    def __str__(self) -> str:
        return "\n\n".join(map(str, (self.table, *self.smallest)))


def shuffling(
    problem: Problem,
    name: str,
    *,
    schemes: Sequence[str] = (),
    smallest: Sequence[str] = (),
    within: float = WITHIN,
    eps: float | None = None,
    sweep: bool = False,
    source: Sequence[str] = (),
    stage: Callable[[str], None] = lambda name: None,
    **settings: Any,
) -> Shuffling:
    """`schemes` beside random reshuffling, the `smallest` of these families, and sizes of all of them where there is a `sweep`.

    settings : those of `orders.assess`.
    """
    began = time.perf_counter()
    study = Study(problem, eps=EPS if eps is None else eps, **settings)
    named = list(dict.fromkeys(["rr", *(schemes or usual(problem.n))]))
    for scheme in named:
        study.order(scheme)
    for family in smallest:
        check_family(family)
        check_within(within)

    def told(scheme: str) -> Assessment:
        stage(scheme)
        return study.assess(scheme)

    table = Assessments(tuple(told(scheme) for scheme in named))
    families = list(FAMILIES) if sweep else []
    found = {}
    for family in dict.fromkeys((*smallest, *families)):
        stage(f"smallest {family}")
        found[family] = study.smallest(family, within, eps)
    sizes = {}
    for family in families:
        chosen = sorted({*(max(1, int(problem.n / part)) for part in _PARTS), found[family].parameter})
        sizes[family] = tuple((size, told(f"{family}:{size}")) for size in chosen)
    return Shuffling(
        name=name,
        n=problem.n,
        d=problem.d,
        loss=str(problem.loss),
        alpha=problem.alpha,
        scaling=scaled(problem),
        table=table,
        sizes=sizes,
        smallest=tuple(found.values()),
        source=tuple(source),
        settings=tuple(_words(study, named, eps, within)),
        seconds=time.perf_counter() - began,
    )


def _words(study: Study, schemes: Sequence[str], eps: float | None, within: float) -> Iterator[str]:
    """What a command line asks of the study."""
    problem = study.problem
    yield from ("--loss", str(problem.loss), "--alpha", repr(problem.alpha))
    yield "--intercept" if problem.fit_intercept else "--no-intercept"
    yield from ("--batch-size", str(study.batch_size), "--seed", str(study.seed), "--within", repr(within))
    if eps is not None:
        yield from ("--eps", repr(eps))
    if study.asked is not None:
        yield "--measure" if study.asked else "--no-measure"
    for scheme in schemes:
        yield from ("--scheme", scheme)


def usual(n: int) -> list[str]:
    """What people do with files of n rows."""
    buffers = [f"buffer:{size}" for size in dict.fromkeys((max(1, n // 10), max(1, n // 2)))]
    blocks = [f"blocks:{size}" for size in dict.fromkeys((max(1, n // 100), max(1, n // 1000)))]
    return ["file", *buffers, *blocks, *(["balanced"] if "balanced" in SCHEMES else [])]
