"""Tables with named columns, and how they become a matrix: files and data frames of every kind are one `Table` first."""

from reshuffle.tables.columns import Columns
from reshuffle.tables.frames import is_frame, table_of_frame
from reshuffle.tables.table import Column, Table, Words

__all__ = ["Column", "Columns", "Table", "Words", "is_frame", "table_of_frame"]
