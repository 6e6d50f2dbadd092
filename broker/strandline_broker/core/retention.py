"""Which segments of a log go: too old, too many bytes, or all below the log's start (I-74, I-75).

Whole segments from the front only, and nothing at or beyond the high watermark: what is not yet
committed may still be what the leader's next epoch keeps. Age and size count only where
`cleanup.policy` holds `delete`; what lies below the log's start goes from a compacted log too.
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
    """The largest of its records, or where they have none the time of the last write."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    deletes: bool
    """`cleanup.policy` holds `delete`."""
    retention_ms: int
    retention_bytes: int

    def too_old(self, segment: SegmentFacts, now_ms: int) -> bool:
        return (
            self.deletes
            and self.retention_ms != NO_LIMIT
            and now_ms - segment.timestamp_ms > self.retention_ms
        )

    def too_much(self, segment: SegmentFacts, log_bytes: int) -> bool:
        """Whether a log of `log_bytes` still has what is to be kept, without its first segment."""
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
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many segments go, counted from the first.

    `segments` are all of the log, the active one last. If that one goes too, it is rolled before,
    so that the log goes on behind it; an empty one never goes.
    """
    log_bytes = sum(segment.size_bytes for segment in segments)
    count = 0
    for segment in segments:
        if segment.size_bytes == 0 or segment.end_offset > high_watermark:
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
