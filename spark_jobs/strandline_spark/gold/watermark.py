"""The rules of the watermark: when a window closes, which rows it consists of, and which rows came
too late for it.

The watermark is a time before which no further row counts. A gold commit records it together with
silver's end in each partition, and the two decide everything. A window consists of the rows that
silver held at the first commit whose watermark had passed the window's end. Rows carry their
offsets. So any later reader of silver, compacted or not, finds the same rows again, and no state is
kept between commits.

Times are microseconds since the epoch. Ends are exclusive, of windows and of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from strandline_spark.cluster.offsets import TopicPartition
    from strandline_spark.parsing.zones import Zone


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The state of one partition in silver."""

    event_time_max: int | None
    """The latest event time among its rows; None without a row."""
    backlog: bool
    """True if its newest range ended before the high watermark of that moment."""
    topic: str = ""
    is_idle: bool = False
    """True if no rows have come for so long that the step waits for it no longer."""


@dataclass(frozen=True, slots=True)
class GoldCommit:
    """The part of a gold commit that decides which rows its windows consist of."""

    watermark: int
    ends: Mapping[TopicPartition, int]
    """Silver's end in each partition."""

    def has(self, tp: TopicPartition, offset: int) -> bool:
        """True if silver held the row when the commit was made."""
        return offset < self.ends.get(tp, 0)


@dataclass(frozen=True, slots=True)
class Window:
    """The window [start, end) in event time."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class WindowKind:
    """Windows of `size`, one beginning every `slide`: tumbling if the two are equal, hopping if
    `slide` is less. One begins at `origin` after the beginning of 1970, by the clocks of `zone` or
    in UTC. Raises OptionError unless 0 < slide <= size.

    With a zone a length is one on its clocks: a day of 25 hours is one day. A window begins when
    the clocks first show its start, or at the end of the gap that leaves it out. `zones.py` has the
    rules, which are those of java.time.
    """

    size: int
    slide: int
    origin: int = 0
    zone: Zone | None = None

    def __post_init__(self) -> None:
        if not 0 < self.slide <= self.size:
            raise OptionError(
                f"slide is {self.slide} µs and window {self.size} µs: rows would fall between"
                " windows; give a slide above 0 that is no longer than the window"
            )

    def windows_of(self, event_time: int) -> list[Window]:
        """Returns the windows that hold the moment, earliest first."""
        first = self.local_end(event_time) + self.slide - self.size
        starts = range(first, self._local_start(event_time) + 1, self.slide)
        return [Window(self._utc(start), self._utc(start + self.size)) for start in starts]

    def final_end(self, event_time: int) -> int:
        """Returns the end of the latest window that holds the moment."""
        return self._utc(self._local_start(event_time) + self.size)

    def first_start(self, event_time: int) -> int:
        """Returns the start of the earliest window that holds the moment."""
        return self._utc(self.local_end(event_time) + self.slide - self.size)

    def first_end(self, event_time: int) -> int:
        """Returns the end of the earliest window that holds the moment."""
        return self._utc(self.local_end(event_time) + self.slide)

    def last_end(self, watermark: int) -> int:
        """Returns the end of the last window that this watermark has passed."""
        return self._utc(self.local_end(watermark))

    def local_end(self, watermark: int) -> int:
        """Returns `last_end` by the clocks of the zone."""
        return self._floor(watermark, self.origin + self.size)

    def _local_start(self, event_time: int) -> int:
        return self._floor(event_time, self.origin)

    def _floor(self, time: int, grid: int) -> int:
        """Returns the last of the local times `grid` + n slides that has come at `time`."""
        local = time if self.zone is None else self.zone.local(time)
        at = (local - grid) // self.slide * self.slide + grid
        if self._utc(at + self.slide) <= time:  # the clocks went back over it
            return at + self.slide
        return at if self._utc(at) <= time else at - self.slide

    def _utc(self, local: int) -> int:
        return local if self.zone is None else self.zone.utc_of(local)


def next_watermark(
    previous: int | None, partitions: Sequence[PartitionProgress], delay: int
) -> int | None:
    """Returns the watermark of the whole table; None while nothing is known of it.

    While a partition has a backlog, its older records are still to come, however far the others
    are. So the slowest of the partitions with a backlog holds the watermark, except those that are
    idle. Without any such backlog the latest row counts. The watermark never goes back.
    """
    return _not_before(previous, _reached(partitions, delay))


def next_of_topics(
    previous: int | None, partitions: Sequence[PartitionProgress], delays: Mapping[str, int]
) -> int | None:
    """Returns the watermark of a table whose topics have watermarks of their own, each with its
    delay. The earliest of them counts, of the topics that are not idle; a topic without any
    partition is not. If all topics are idle, the latest counts. The watermark never goes back.
    """
    topics = {topic: [one for one in partitions if one.topic == topic] for topic in delays}
    reached = {topic: _reached(own, delays[topic]) for topic, own in topics.items()}
    waited_for = [
        topic for topic, own in topics.items() if not own or not all(one.is_idle for one in own)
    ]
    times = [time for topic, time in reached.items() if time is not None and topic in waited_for]
    if waited_for:
        return _not_before(previous, min(times) if len(times) == len(waited_for) else None)
    known = [time for time in reached.values() if time is not None]
    return _not_before(previous, max(known, default=None))


def _reached(partitions: Sequence[PartitionProgress], delay: int) -> int | None:
    waited_for = [one for one in partitions if one.backlog and not one.is_idle]
    seen = [one.event_time_max for one in waited_for or partitions]
    times = [time for time in seen if time is not None]
    if not times or (waited_for and len(times) < len(seen)):
        return None
    return (min(times) if waited_for else max(times)) - delay


def _not_before(previous: int | None, reached: int | None) -> int | None:
    if previous is None or reached is None:
        return previous if reached is None else reached
    return max(previous, reached)


def final_watermark(
    previous: int | None, partitions: Sequence[PartitionProgress], kind: WindowKind
) -> int | None:
    """Returns the end of the last window that has a row, which closes all of them."""
    times = [one.event_time_max for one in partitions if one.event_time_max is not None]
    if not times:
        return previous
    end = kind.final_end(max(times))
    return end if previous is None else max(previous, end)


def closes(window: Window, previous: int | None, watermark: int) -> bool:
    """True if the step from one watermark to the next closes the window."""
    return window.end <= watermark and (previous is None or window.end > previous)


def event_times_to_read(
    kind: WindowKind, previous: int | None, watermark: int
) -> tuple[int | None, int] | None:
    """Returns [first, end) of the event times in the windows that close now; other files of silver
    are not opened.

    `first` is None if that is the beginning. The result is None if no window closes.
    """
    end = kind.last_end(watermark)
    if previous is None:
        return None, end
    return None if end == kind.last_end(previous) else (kind.first_start(previous), end)


def closed_by(history: Sequence[GoldCommit], window: Window) -> GoldCommit | None:
    """Returns the commit of the ordered `history` that closed the window; None while it is open."""
    return next((one for one in history if window.end <= one.watermark), None)


def in_window(
    history: Sequence[GoldCommit], window: Window, tp: TopicPartition, offset: int
) -> bool:
    """True if gold counts this row, whose event time lies in the window, as part of it."""
    commit = closed_by(history, window)
    return commit is not None and commit.has(tp, offset)


def is_late(
    history: Sequence[GoldCommit],
    kind: WindowKind,
    tp: TopicPartition,
    offset: int,
    event_time: int,
) -> bool:
    """True if at least one of the row's windows was closed before silver held the row."""
    commits = (closed_by(history, window) for window in kind.windows_of(event_time))
    return any(commit is not None and not commit.has(tp, offset) for commit in commits)


def time_text(us: int | None) -> str:
    """Returns a time in UTC, to the second; Python has no value for some event times."""
    return "-" if us is None else f"{np.datetime64(us // 1_000_000, 's')}Z"
