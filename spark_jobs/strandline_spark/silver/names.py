"""Which names the columns of silver may have that values are parsed into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
"""Of each silver table, beside the parsed ones."""
WINDOW_COLUMNS: Final = ("window_start", "window_end")
"""That the view of a gold step has beside silver's."""
NOT_IN_NAMES: Final = frozenset(" ,;{}()\n\t=")
"""Delta tables have no column with one of these in its name."""


def objection(name: str, columns: Iterable[str]) -> str | None:
    """Why silver cannot have a column of this name beside the parsed `columns`."""
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
    """The name of one column, whatever is in it, as SQL and Spark's functions take it."""
    doubled = name.replace("`", "``")
    return f"`{doubled}`"
