"""Columns that say themselves what they hold: data frames, parquet and feather, all by way of Arrow."""

from typing import Any

import numpy as np

from reshuffle.tables.table import Column, Table, Words


def arrow(what: str) -> Any:
    """pyarrow, for what needs it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(f'{what} needs pyarrow: pip install "reshuffle[parquet]"') from None
    return pyarrow


def is_frame(X: Any) -> bool:
    """Whether X is a table of pandas, polars, Arrow or another library that hands its columns on."""
    return hasattr(X, "__dataframe__")


def table_of_frame(X: Any, name: str) -> Table:
    pa = arrow(f"{name}: a data frame with words, dates or missing values")
    try:
        # an index is no column; what pandas alone has, a frame of pandas has
        table = pa.Table.from_pandas(X, preserve_index=False) if hasattr(X, "iloc") else pa.table(X)
    except pa.ArrowException as error:
        raise ValueError(f"{name} cannot be read as a table: {str(error).splitlines()[0]}") from None
    return table_of_arrow(table, name)


def table_of_arrow(table: Any, name: str, notes: list[str] | None = None) -> Table:
    columns = [_column(f"{name}: column {field.name!r}", table.column(k)) for k, field in enumerate(table.schema)]
    return Table(name, [str(column) for column in table.column_names], columns, notes=notes or [])


def _column(where: str, values: Any) -> Column:
    pa = arrow(where)
    kind, types = values.type, pa.types
    if types.is_boolean(kind) and not values.null_count:
        return np.asarray(values.to_numpy(), dtype=bool)
    if types.is_boolean(kind) or types.is_null(kind) or types.is_decimal(kind):
        values = values.cast(pa.int8()) if types.is_boolean(kind) else values  # there is no way straight to float64
        return np.asarray(values.cast(pa.float64()).to_numpy())
    if types.is_integer(kind) or types.is_floating(kind):
        return np.asarray(values.to_numpy())
    if types.is_date(kind) or types.is_timestamp(kind):
        return np.asarray(values.cast(pa.timestamp("us"), safe=False).to_numpy())
    texts = types.is_string(kind) or types.is_large_string(kind) or getattr(types, "is_string_view", lambda _: False)(kind)
    if texts or types.is_dictionary(kind):
        encoded = values if types.is_dictionary(kind) else values.dictionary_encode()
        whole = encoded.unify_dictionaries().combine_chunks()
        codes = whole.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
        return Words.of(codes, [None if word is None else str(word) for word in whole.dictionary.to_pylist()])
    raise ValueError(f"{where} holds {kind}, which is neither numbers nor words nor dates; drop or convert it first")
