"""The names of orders. A scheme has a word, such as "rr". A family of schemes has whole numbers in its names: the first after a
colon, others after a slash and their own word, as in "blocks:256/window:16". Every number may have its word, with commas and equals
signs in place of slashes and colons: "blocks:rows=256,window=16".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reshuffle.validation import whole_number


@dataclass(frozen=True)
class Scheme:
    """A way to make orders, and what can be said of them."""

    label: str  #: in plain words
    draw: Callable[[int, int, int], NDArray[np.int64]]  #: n, seed and epoch (from 0) to the rows of the epoch, in order
    fixed: bool = False  #: all epochs have the rows of the first
    uniform: bool = False  #: each epoch's permutation is uniformly distributed, as Theorem 1 asks
    permutes: bool = True  #: an epoch visits each of the n rows once; if not, theorems and constants do not apply
    adaptive: bool = False  #: only the first epoch's is drawn; each epoch of a run makes that of the next


@dataclass(frozen=True)
class Parameter:
    """A whole number in the names of a family."""

    meaning: str
    default: int | None = None  #: None for one that must be given
    smallest: int = 1
    at_most: str | int | None = None  #: what it must not exceed: "rows" for n, another parameter of the family, or a number


@dataclass(frozen=True)
class Family:
    """Schemes that differ in whole numbers."""

    label: str  #: in plain words, with {parameter} for its value
    parameters: Mapping[str, Parameter]  #: the first has its value right after the name of the family
    make: Callable[..., Scheme]  #: (label, n, value, ...) to the scheme for n rows, values in the order of the parameters

    def form(self, name: str) -> str:
        """How its names look: N for a number, optional parts in brackets."""
        _, *others = self.parameters.items()
        return f"{name}:N" + "".join(f"/{key}:N" if each.default is None else f"[/{key}:N]" for key, each in others)


Known = Mapping[str, Scheme | Family]


def read(text: str, known: Known, same: Mapping[str, str]) -> tuple[str, Scheme | Family, dict[str, int]]:
    """The name that a text stands for, its entry in `known`, and the values in it; `same` has other words for some of the names."""
    word = re.split("[:/,=]", text)[0]
    name = same.get(word, word)
    if name not in known:
        others = {of: f"{of} (or {other})" for other, of in same.items()}
        forms = [f"{each}:N" if isinstance(entry, Family) else others.get(each, each) for each, entry in known.items()]
        raise ValueError(f"order={text!r} is not known; use one of {', '.join(forms)}, a permutation array or a list of them")
    entry = known[name]
    if isinstance(entry, Scheme):
        if text != word:
            raise ValueError(f"order={text!r}: {word!r} takes no numbers; use {word!r}")
        return name, entry, {}
    given: dict[str, str] = {}
    for place, part in enumerate(re.split("[/,]", text[len(word) + 1 :])):
        if place == 0 and not part:
            continue
        whole = place == 0 and not re.search("[:=]", part)  # a number without its word
        key, value = (next(iter(entry.parameters)), part) if whole else [*re.split("[:=]", part, maxsplit=1), ""][:2]
        if key not in entry.parameters:
            raise ValueError(f"order={text!r}: {key!r} is not known; use {entry.form(name)!r}")
        if key in given:
            raise ValueError(f"order={text!r}: {key!r} is there twice; leave one out")
        given[key] = value
    values = {}
    for key, parameter in entry.parameters.items():
        if key in given:
            number = int(given[key]) if re.fullmatch("-?[0-9]+", given[key]) else given[key]
            values[key] = whole_number(f"order={text!r}: {key}", number, parameter.smallest)
        elif parameter.default is None:
            raise ValueError(f"order={text!r}: {key} ({parameter.meaning}) is missing; use {entry.form(name)!r}")
        else:
            values[key] = parameter.default
    shown = [f"{name}:{values[next(iter(values))]}"]
    shown += [f"{key}:{value}" for key, value in list(values.items())[1:] if value != entry.parameters[key].default]
    return "/".join(shown), entry, values


def words(entry: Scheme | Family, values: Mapping[str, int]) -> str:
    """What it is, in plain words, with the values that are not the usual ones."""
    if isinstance(entry, Scheme):
        return entry.label
    others = [
        f"{key} {value}"
        for key, value in values.items()
        if value != entry.parameters[key].default and f"{{{key}}}" not in entry.label
    ]
    return ", ".join([entry.label.format(**values), *others])


def scheme_for(text: str, entry: Scheme | Family, values: Mapping[str, int], n: int) -> Scheme:
    """The scheme for n rows, once all values are found to fit."""
    if isinstance(entry, Scheme):
        return entry
    for key, value in values.items():
        parameter = entry.parameters[key]
        if parameter.at_most is not None and value != parameter.default:
            limit = parameter.at_most
            most = limit if isinstance(limit, int) else n if limit == "rows" else values[limit]
            what = "allowed" if isinstance(limit, int) else "rows of the data" if limit == "rows" else f"of {limit}"
            whole_number(f"order={text!r}: {key}", value, parameter.smallest, most, what)
    return entry.make(words(entry, values), n, *values.values())
