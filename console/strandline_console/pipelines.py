"""A pipeline in the recording: what its files say, without the watermarks of its topics.

Null means the same as in `messages.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(slots=True, kw_only=True)
class Planned:
    """One partition of a pipeline, or of the source of a batch."""

    topic: str
    partition: int
    planned: int | None
    """End offset that the last planned batch covers; null before the first."""


@dataclass(slots=True, kw_only=True)
class TableState:
    """One table of a pipeline."""

    name: str
    layer: Literal["bronze", "silver", "state", "gold", "quarantine"]
    path: str
    version: int | None
    """Version of the table; null if the table does not exist yet."""
    rows: int | None
    files: int | None
    batch: int | None
    """Last batch that is in the table."""
    written_ms: int | None
    """Time of the last commit of the table."""
    quarantined: int | None
    """Rows that the last known batches put aside; null for tables that put none aside."""
    error: str | None = None
    """Why the table cannot be read; null if it was read."""


@dataclass(slots=True, kw_only=True)
class Batch:
    """One batch of a table's stream."""

    table: str
    number: int
    state: Literal["planned", "committed"]
    at_ms: int | None
    sources: list[Planned]


@dataclass(slots=True, kw_only=True)
class Pipeline:
    """One pipeline. The key is its file."""

    name: str
    folder: str
    topics: list[Planned]
    tables: list[TableState]
    batches: list[Batch]
    """The last 20 of each table, newest first."""
    error: str | None = None
    """Why the pipeline's file or the checkpoint of its query cannot be read; null otherwise."""
    unread: str | None = None
    """Why the files did not answer, so that all of the above is the last answer; null otherwise."""
