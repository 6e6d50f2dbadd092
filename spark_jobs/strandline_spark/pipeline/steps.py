"""What pipeline.toml says of a gold step, checked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GoldStep:
    """Times are microseconds."""

    name: str
    """Of its table too."""
    table: str
    """Its folder."""
    sql: str
    line: int
    """Where the statement begins in the file."""
    watermark: int
    """How long rows are waited for."""
    window: int | None = None
    """Of tumbling and hopping windows; None for sessions."""
    slide: int | None = None
    """Of hopping windows; None for tumbling ones."""
    session: int | None = None
    """The gap that ends a session; None for windows of a fixed length."""
    session_key: tuple[str, ...] = ()
    """Columns of silver whose rows with the same values are a session."""
