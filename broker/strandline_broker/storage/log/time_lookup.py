"""Offsets by timestamp: first the segment that can hold the first record at or after a time, then
that record.

Producers set the timestamps, so they may fall from one segment to the next. The running maximum
over the segments does not. The first segment whose maximum reaches a time holds the first such
record, so a bisection finds it. The maxima are kept until segments are added or removed.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.steps import HEADERS_A_STEP, paced
from strandline_broker.storage.segment.reader import first_record_at, latest_timestamp_from

if TYPE_CHECKING:
    from strandline_broker.storage.files.steps import Steps
    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.recent_batches import RecentBatches
    from strandline_broker.storage.segment.segment import Segment

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch)."""

_base_of: Final = attrgetter("base_offset")


class TimeLookup:
    """The lookups of one log; its reader ensures that the segments do not change (`LogReader`)."""

    __slots__ = ("_log", "_maxima")

    def __init__(self, log: Log) -> None:
        self._log = log
        self._maxima: tuple[tuple[Segment, ...], int, array[int]] = ((), 0, array("q"))
        """(segments, first of them, running maxima of the sealed ones from there)."""

    def first_at(self, timestamp: int) -> Steps[Found | None]:
        """The first record of the log at or after `timestamp`."""
        segments, recent = self._log.state.tail
        begin = self._first_live(segments)
        if self._holds_log_start_within(segments[begin]):
            # The segment's largest timestamp may belong to a record below the log's start.
            found = yield from self._in_segment(segments, begin, timestamp, recent)
            if found is not None:
                return found
            begin += 1
        behind = begin + bisect_left(self._running_maxima(segments, begin), timestamp)
        for i in range(behind, len(segments)):
            found = yield from self._in_segment(segments, i, timestamp, recent)
            if found is not None:
                return found
        return None

    def latest(self) -> Steps[Found | None]:
        """The first record with the largest timestamp of the log."""
        segments, recent = self._log.state.tail
        begin = self._first_live(segments)
        largest = -1
        if self._holds_log_start_within(segments[begin]):
            segment = segments[begin]
            end = recent.end[0] if begin == len(segments) - 1 else segment.size
            largest = yield from latest_timestamp_from(
                segment,
                self._log.log_start_offset,
                end=end,
                gaps_below=self._log.gaps.below,
                bound=self._log.config.bound,
            )
            begin += 1
        if begin < len(segments):
            maxima = self._running_maxima(segments, begin)
            largest = max(largest, segments[-1].latest()[0], maxima[-1] if maxima else -1)
        found = (yield from self.first_at(largest)) if largest >= 0 else None
        if found is None and largest >= 0:
            # Compaction keeps a producer's last batch, with its timestamp, when its records are
            # removed.
            exact = -1
            for h in paced(self._log.batch_headers(self._log.log_start_offset), HEADERS_A_STEP):
                if h is None:
                    yield
                elif h.record_count > 0:
                    exact = max(exact, h.max_timestamp)
            found = (yield from self.first_at(exact)) if exact >= 0 else None
        return found

    def _first_live(self, segments: tuple[Segment, ...]) -> int:
        """Number of the segment that holds the log's start; earlier ones wait for their
        deletion.
        """
        return max(bisect_right(segments, self._log.log_start_offset, key=_base_of) - 1, 0)

    def _holds_log_start_within(self, segment: Segment) -> bool:
        return segment.base_offset < self._log.log_start_offset

    def _running_maxima(self, segments: tuple[Segment, ...], begin: int) -> array[int]:
        known = self._maxima
        if known[0] is segments and known[1] == begin:
            return known[2]
        latest = (segment.latest()[0] for segment in segments[begin:-1])
        maxima = array("q", accumulate(latest, max))
        self._maxima = segments, begin, maxima
        return maxima

    def _in_segment(
        self, segments: tuple[Segment, ...], i: int, timestamp: int, recent: RecentBatches
    ) -> Steps[Found | None]:
        segment, is_last = segments[i], i == len(segments) - 1
        if segment.latest()[0] < timestamp:
            return None
        if not is_last:
            self._log.open_segments.touch(segment)
        end = recent.end[0] if is_last else segment.size
        found = yield from first_record_at(
            segment,
            timestamp,
            end=end,
            log_start=self._log.log_start_offset,
            gaps_below=self._log.gaps.below,
            bound=self._log.config.bound,
        )
        return found
