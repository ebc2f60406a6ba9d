"""Results as data frames. pandas is loaded here and nowhere else: nothing but `to_frame` needs it."""

from typing import Any


def frame(columns: dict[str, Any], index: str | None = None) -> Any:
    """A pandas.DataFrame of these columns; `index` names the numbers of its rows."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame() needs pandas: pip install pandas") from None
    return pandas.DataFrame(columns).rename_axis(index)
