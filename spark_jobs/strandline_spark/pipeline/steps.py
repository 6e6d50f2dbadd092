"""The gold and state steps of pipeline.toml, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from strandline_spark.pipeline.keys import StateKeys


@dataclass(frozen=True, slots=True)
class GoldStep:
    """One gold step; times are microseconds."""

    name: str
    """Name of the step and of its table."""
    table: str
    """Folder of the table."""
    sql: str
    line: int
    """Line of the file where the statement begins."""
    watermark: int
    """How long the step waits for rows; the longest of `delays`, if there are any."""
    window: int | None = None
    """Length of tumbling and hopping windows; None for sessions."""
    slide: int | None = None
    """Interval between the starts of hopping windows; None for tumbling ones."""
    offset: int = 0
    """Time by which the starts of windows are moved."""
    zone: str | None = None
    """The zone whose clocks count the days of windows; None for UTC."""
    session: int | None = None
    """The gap that ends a session; None for windows of a fixed length."""
    session_key: tuple[str, ...] = ()
    """Columns of silver whose rows with the same values make a session."""
    delays: tuple[tuple[str, int], ...] = ()
    """How long the step waits for the rows of each topic; none if all topics have one watermark."""
    idle_after: int | None = None
    """How long a topic or partition without new rows holds the watermark; None for ever."""
    updates: bool = False
    """True if windows with late rows are computed again; False if these rows are left out."""


@dataclass(frozen=True, slots=True)
class StateStep:
    """One state step."""

    name: str
    """Name of the step and of its table."""
    table: str
    """Folder of the table."""
    key: tuple[str, ...]
    """Columns of silver; the table has one row for each combination of their values."""
    order: tuple[str, ...] = ()
    """Columns of silver by which the latest row is found; none for the offset."""
    delete_when: str | None = None
    """SQL condition over silver's columns: such a row deletes its key, as a tombstone does."""


def checked_state(step: StateKeys, table: str) -> StateStep:
    """Returns the state step of these keys. Raises OptionError. The columns are checked later,
    against silver.
    """
    where = f"[[state]] {step.name}"
    order = [step.order] if isinstance(step.order, str) else step.order
    for key, columns in (("key", step.key), ("order", order)):
        if not columns or len(set(columns)) < len(columns):
            raise OptionError(f"{where}, {key} = {columns}: name one or more columns, each once")
    if step.delete_when is not None and step.delete_when.strip() == "":
        raise OptionError(f"{where}, delete_when: it is empty; give a condition, as op = 'd'")
    return StateStep(
        name=step.name,
        table=table,
        key=tuple(step.key),
        order=() if order == ["offset"] else tuple(order),
        delete_when=step.delete_when,
    )
