"""One replica's log as a comparison reads it: its batches from an offset on, up to the first bad
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from strandline_broker.offline.batches import Batch, scan
from strandline_broker.offline.compacted import (
    after_swaps,
    cleaned_batch,
    lawful_gaps,
)
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.layout import partition_files
from strandline_broker.offline.records import records_of
from strandline_broker.offline.roots import expected_of
from strandline_proto.errors import CorruptMessage, UnsupportedVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.offline.disk import Disk
    from strandline_broker.offline.layout import SegmentFiles
    from strandline_proto.batch import Record
    from strandline_proto.decompression import Bound


@dataclass(frozen=True, slots=True)
class Broken:
    """Unreadable bytes in the middle of a log, with sound batches after them."""

    path: str
    position: int
    why: str


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch, and its open file."""

    file: OpenFile
    batch: Batch
    bound: Bound

    def same_bytes(self, other: Placed) -> bool:
        one, two = self.batch, other.batch
        if one.size != two.size:
            return False
        pairs = zip(
            self.file.pieces(one.position, one.size),
            other.file.pieces(two.position, two.size),
            strict=True,
        )
        return all(a == b for a, b in pairs)

    def records(self) -> list[Record] | None:
        """The records of the batch; None if they do not parse. Raises RecordTooLarge."""
        try:
            return records_of(self.file, self.batch, self.bound)
        except (CorruptMessage, UnsupportedVersion):
            return None


class Replica:
    """The replica in a partition's directory. Raises OSError if it cannot be read."""

    def __init__(self, disk: Disk, path: str, bound: Bound, *, compacted: bool) -> None:
        self.path = path
        self._disk = disk
        self._files = after_swaps(disk, partition_files(disk, path))
        self._expected = expected_of(disk, path)
        segments = self._files.segments
        first = segments[0].base_offset if segments else 0
        self.log_start = max(first, self._expected.log_start or 0)
        self.torn_bytes = 0
        """Bytes after the last sound batch, known once all was read."""
        self._told_compacted = compacted
        self._bound = bound

    @property
    def has_segments(self) -> bool:
        return len(self._files.segments) > 0

    @property
    def high_watermark(self) -> int | None:
        return self._expected.high_watermark

    def why_compacted(self) -> str | None:
        _, said = lawful_gaps(self._files, self._expected, told=self._told_compacted)
        return said or cleaned_batch(self._disk, self._files)

    def log_end(self) -> int:
        """One past the last offset of the last sound batch."""
        for segment in reversed(self._files.segments):
            with OpenFile(self._disk, segment.log) as file:
                sound = max(
                    (b.last_offset for b in scan(file) if isinstance(b, Batch) and b.valid),
                    default=None,
                )
            if sound is not None:
                return sound + 1
        segments = self._files.segments
        return segments[-1].base_offset if segments else 0

    def batches(self, start: int) -> Iterator[Placed | Broken]:
        """Each sound batch that ends at or after `start`; a torn tail is omitted and counted."""
        segments = self._files.segments
        after = [s.base_offset for s in segments[1:]]
        first = sum(base <= start for base in after)
        broken: Broken | None = None
        for segment in segments[first:]:
            for found in self._of(segment):
                if isinstance(found, Broken):
                    broken = broken or found
                elif found.batch.last_offset >= start:
                    if broken is not None:
                        yield broken
                        return
                    yield found

    def _of(self, segment: SegmentFiles) -> Iterator[Placed | Broken]:
        with OpenFile(self._disk, segment.log) as file:
            for found in scan(file):
                if isinstance(found, Batch) and found.valid:
                    yield Placed(file, found, self._bound)
                    continue
                why = "the batch does not match its CRC-32C"
                self.torn_bytes += found.size
                yield Broken(
                    file.path, found.position, why if isinstance(found, Batch) else found.why
                )
