"""The segments of a log that retention removes: too old, too many bytes, or all below the log's
start (I-74, I-75).

Only whole segments are removed, from the front. None at or beyond the last stable offset is
removed: the leader of the next epoch may keep records that are not yet committed, and an open
transaction keeps all of its records (I-161). Age and size count only if
`cleanup.policy` contains `delete`. Segments below the log's start are removed from a compacted log
too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

NO_LIMIT = -1


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    end_offset: int
    """One past its last offset."""
    size_bytes: int
    timestamp_ms: int
    """The largest timestamp of its records; without any, the time of the last write."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    deletes: bool
    """True if `cleanup.policy` contains `delete`."""
    retention_ms: int
    retention_bytes: int

    def too_old(self, segment: SegmentFacts, now_ms: int) -> bool:
        return (
            self.deletes
            and self.retention_ms != NO_LIMIT
            and now_ms - segment.timestamp_ms > self.retention_ms
        )

    def too_much(self, segment: SegmentFacts, log_bytes: int) -> bool:
        """True if a log of `log_bytes` exceeds the size to keep even without its first segment."""
        return (
            self.deletes
            and self.retention_bytes != NO_LIMIT
            and log_bytes - segment.size_bytes >= self.retention_bytes
        )


def expired(
    segments: Sequence[SegmentFacts],
    limits: RetentionLimits,
    *,
    log_start_offset: int,
    last_stable_offset: int,
    now_ms: int,
) -> int:
    """Number of segments to remove, counted from the first.

    `segments` are all of the log, the active one last. If that one is to be removed too, it is
    rolled first, so that the log continues after it. An empty active segment is never removed.
    """
    log_bytes = sum(segment.size_bytes for segment in segments)
    count = 0
    for segment in segments:
        if segment.size_bytes == 0 or segment.end_offset > last_stable_offset:
            break
        if not (
            segment.end_offset <= log_start_offset
            or limits.too_old(segment, now_ms)
            or limits.too_much(segment, log_bytes)
        ):
            break
        log_bytes -= segment.size_bytes
        count += 1
    return count
