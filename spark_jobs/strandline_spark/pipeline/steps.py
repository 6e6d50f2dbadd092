"""A gold step of pipeline.toml, checked."""

from __future__ import annotations

from dataclasses import dataclass


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
    """How long the step waits for rows."""
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
