"""The tasks of a query: one for each partition, and more for long ranges.

`maxRecordsPerPartition` cuts each range into as few equal pieces as fit. `minPartitions` then cuts
long ranges in proportion to their length. Short ranges stay whole, because a task costs the same
whatever it reads. Records that retention removed stay with the first piece, which reads nothing
there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strandline_spark.cluster.offsets import TopicPartition


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """One task: the records of [start, stop) of one partition, for one topic id and a lowest leader
    epoch.
    """

    tp: TopicPartition
    topic_id: bytes
    start: int
    stop: int
    leader_epoch: int
    log_start: int = 0
    """Start of the partition's log when the range was planned."""
    high_watermark: int = -1
    """High watermark of the partition when the range was planned; -1 if unknown."""

    @property
    def size(self) -> int:
        """Number of offsets that there may be to read."""
        return self.stop - min(max(self.start, self.log_start), self.stop)


def split(
    ranges: list[PlannedRange], *, min_partitions: int | None, max_records: int | None
) -> list[PlannedRange]:
    """Returns the ranges in their order, long ones in pieces."""
    if max_records is not None:
        ranges = [piece for one in ranges for piece in _cut(one, -(-one.size // max_records))]
    if min_partitions is None or len(ranges) >= min_partitions:
        return ranges
    total = sum(one.size for one in ranges)
    # A range whose fair share is at most one task stays whole.
    long = [one for one in ranges if one.size * min_partitions > total]
    wanted = min_partitions - (len(ranges) - len(long))
    counts = _shares([one.size for one in long], wanted)
    pieces = dict(zip(map(id, long), counts, strict=True))
    return [piece for one in ranges for piece in _cut(one, pieces.get(id(one), 1))]


def _shares(sizes: list[int], wanted: int) -> list[int]:
    """Returns `wanted` pieces in proportion to the sizes: each further piece goes where pieces are
    longest.
    """
    counts = [1] * len(sizes)
    total = sum(sizes)
    for i, size in enumerate(sizes):
        counts[i] = max(1, min(size, wanted * size // total))
    while sum(counts) < wanted:
        longest = max(range(len(sizes)), key=lambda i: sizes[i] / counts[i], default=None)
        if longest is None or sizes[longest] <= counts[longest]:
            break
        counts[longest] += 1
    return counts


def _cut(one: PlannedRange, pieces: int) -> list[PlannedRange]:
    pieces = min(pieces, one.size)
    if pieces <= 1:
        return [one]
    first = one.stop - one.size
    edges = [first + one.size * n // pieces for n in range(1, pieces)]
    bounds = zip([one.start, *edges], [*edges, one.stop], strict=True)
    return [replace(one, start=start, stop=stop) for start, stop in bounds]
