"""The kinds of windows that the watermark closes: windows of a fixed length, or sessions
(`session_windows.py`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from strandline_spark.gold.query import closed_windows, first_end, micros
from strandline_spark.gold.watermark import WindowKind, event_times_to_read

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import Column, DataFrame

    from strandline_spark.gold.account import Closed
    from strandline_spark.gold.watermark import GoldCommit


@dataclass(frozen=True, slots=True)
class Framed:
    """The windows that a commit closes."""

    windows: DataFrame
    """The rows, with window_start and window_end."""
    open_from: int | None = None
    """The earliest event time, below the watermark, of a row that is in no closed session yet."""


class Framing(Protocol):
    """The assignment of rows to windows. Times are microseconds; `before` is None for a first
    commit.
    """

    def final(self, latest: int) -> int:
        """Returns the watermark that closes all windows of rows up to `latest`."""

    def closing(self, before: Closed | None, watermark: int) -> tuple[int | None, int] | None:
        """Returns [first, end) of the event times of rows whose windows may close now.

        `first` is None if that is the beginning. The result is None if no window can close.
        """

    def to_read(self, closing: tuple[int | None, int], watermark: int) -> tuple[int | None, int]:
        """Returns [first, end) of the event times of rows that decide which of `closing` closes."""

    def is_late(self, event_time: int, watermark: int) -> bool:
        """True if a row of that time is late when it comes after a commit of this watermark. All
        earlier rows are late too.
        """

    def late(self, event_time: Column, watermark: int) -> Column:
        """Returns `is_late` for a column of event times in microseconds."""

    def missed(self, before: Closed | None) -> Sequence[GoldCommit]:
        """Returns the commits whose late rows are left out first.

        Fixed windows have none, because other windows of a late row may still be open.
        """

    def frame(
        self, rows: DataFrame, before: Closed | None, watermark: int
    ) -> AbstractContextManager[Framed | None]:
        """Yields what the watermark closes of these rows, for the length of the block.

        Yields None if that is nothing, as far as it is known without running the statement.
        """


@dataclass(frozen=True, slots=True)
class FixedWindows:
    """Tumbling and hopping windows."""

    kind: WindowKind

    def final(self, latest: int) -> int:
        return self.kind.final_end(latest)

    def closing(self, before: Closed | None, watermark: int) -> tuple[int | None, int] | None:
        previous = None if before is None else before.commit.watermark
        return event_times_to_read(self.kind, previous, watermark)

    def to_read(self, closing: tuple[int | None, int], watermark: int) -> tuple[int | None, int]:
        return closing

    def is_late(self, event_time: int, watermark: int) -> bool:
        return self.kind.first_end(event_time) <= watermark

    def late(self, event_time: Column, watermark: int) -> Column:
        return first_end(event_time, self.kind) <= micros(watermark)

    def missed(self, before: Closed | None) -> Sequence[GoldCommit]:
        return ()

    @contextlib.contextmanager
    def frame(
        self, rows: DataFrame, before: Closed | None, watermark: int
    ) -> Iterator[Framed | None]:
        previous = None if before is None else before.commit.watermark
        yield Framed(closed_windows(rows, self.kind, previous, watermark))
