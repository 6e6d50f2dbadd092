"""The rules for names of silver's parsed columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.parsing.settings import NOT_IN_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterable

OWN_COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "event_time",
    "key",
    "tombstone",
    "batch_id",
    "ingest_date",
)
"""Columns of each silver table that are not parsed from values."""
WINDOW_COLUMNS: Final = ("window_start", "window_end")
"""Columns that the view of a gold step adds to silver's."""


def objection(name: str, columns: Iterable[str]) -> str | None:
    """Returns why silver cannot have a column of this name beside the parsed `columns`; None if it
    can.
    """
    lower = name.lower()
    for taken in (*OWN_COLUMNS, *columns):
        if taken.lower() == lower:
            return f"the table has a column {taken} already (names are the same in capitals too)"
    if lower in WINDOW_COLUMNS:
        return f"gold steps add a column {lower}"
    if not name or not name.isprintable() or NOT_IN_NAMES & set(name):
        return f"a table cannot have a column named {name!r}"
    return None


def quoted(name: str) -> str:
    """Returns the name of one column, with any characters, quoted for SQL and Spark's functions."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
