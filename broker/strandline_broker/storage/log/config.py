"""The resolved topic keys of one log; core.topic_config describes each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from crc32c import crc32c

from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX, Bound

INT64_MAX: Final = 2**63 - 1
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class LogConfig:
    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096
    segment_index_bytes: int = 10 << 20
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    cleanup_policy: tuple[str, ...] = ("delete",)
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    flush_messages: int = INT64_MAX
    flush_ms: int = 5_000
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_type: str = "CreateTime"
    max_message_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX

    @property
    def bound(self) -> Bound:
        """The bound on the unpacked size of a batch, for code that reads its records."""
        return Bound(self.max_message_decompressed_bytes)

    def segment_ms_of(self, topic: str, partition: int, base_offset: int) -> int:
        """`segment_ms` minus this segment's share of the jitter.

        The share is derived from the segment's name. It is the same at every call, and differs
        between segments. A segment of a compacted log is closed within `max_compaction_lag_ms`, so
        that its records can be cleaned in time.
        """
        segment_ms = self.segment_ms
        if "compact" in self.cleanup_policy:
            segment_ms = min(segment_ms, self.max_compaction_lag_ms)
        most = min(self.segment_jitter_ms, segment_ms)
        if most == 0:
            return segment_ms
        name = f"{topic}-{partition}-{base_offset}".encode()
        return segment_ms - crc32c(name) % (most + 1)


class Appended(NamedTuple):
    base_offset: int
    next_offset: int
    position: int
    """Byte of the active segment at which the batch begins."""
    rolled: bool
    """A new segment was begun, so the previous one must be flushed."""
