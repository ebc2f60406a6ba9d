"""What the commands take where the user says nothing, the same in all of them: one file is one problem."""

from typing import Any

#: Stands for the loss that the target asks for, and for the scaling that trains best.
AUTO = "auto"

#: Small, but above 0: without it the logistic loss has no minimiser on data that can be separated, and nothing can be certified.
ALPHA = 1e-4

INTERCEPT = True

#: The gap that plans are for, relative to what there is to gain, f of the best constant prediction - min f.
TOL = 1e-3

#: Of the data, by the commands that train on it or plan to.
SCALE = AUTO

#: Whole numbers with more distinct values than this may be amounts as well as classes.
MOST_CLASSES = 20
_REST = "the rest"
#: Nobody trains one classifier for each of more words by accident.
MOST_WORDS = 100


def loss_for(y: Any, name: str) -> tuple[str, str]:
    """The loss that labels ask for, and why, in words. `name` is that of the data."""
    import numpy as np

    if y is None:
        raise ValueError(f"{name} has no labels to choose a loss by; name the column or file of the labels with --target")
    distinct = np.unique(y)
    count = distinct.size
    if count == 1:
        raise ValueError(f"{name}: all labels are {distinct.tolist()[0]!r}; there is nothing to learn from one value")
    numbers = y.dtype.kind in "iuf"
    if numbers and not np.array_equal(distinct, np.rint(distinct)):
        return "squared", f"the labels are numbers, {distinct[0]:g} to {distinct[-1]:g}"
    if count == 2:
        low, high = distinct.tolist()
        return "logistic", f"the labels are two classes, {_short(low)} and {_short(high)}"
    if numbers and count > min(MOST_CLASSES, y.size / 2):
        raise ValueError(
            f"{name}: the labels are {count} distinct whole numbers, which may be amounts or classes; "
            f"say --loss squared to predict amounts, or --loss logistic for {count} classes"
        )
    if not numbers and count > MOST_WORDS:
        raise ValueError(
            f"{name}: the labels are {count} distinct words; "
            f"say --loss logistic for that many classes, or name another column with --target"
        )
    return "logistic", f"the labels are {count} classes"


def largest_against_rest(y: Any) -> tuple[Any, Any, str]:
    """Labels of the largest of several classes against the rest, that class, and in words which it is. All classes share the data,
    and so the constants; one of them is enough to choose a batch size and a step by.
    """
    import numpy as np

    labels, counts = np.unique(y, return_counts=True)
    largest = int(np.argmax(counts))
    label = labels.tolist()[largest]
    name = _short(label)
    told = f"of {labels.size} classes this is the largest, {name}, against the rest: {counts[largest]} of {y.size} rows"
    return np.where(y == labels[largest], name, _REST), label, told


def _short(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)
