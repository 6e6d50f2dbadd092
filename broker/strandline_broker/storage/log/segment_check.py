"""A check of one whole segment, which reports what differs from what was written; blocking, for a
thread of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_broker.storage.log.batch_judge import BatchJudge
from strandline_broker.storage.segment.damage_walk import walk_over_damage
from strandline_broker.storage.segment.damaged_ranges import NOWHERE, DamagedRange

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.storage.log.log import Log
    from strandline_broker.storage.segment.segment import Segment
    from strandline_proto.batch import BatchHeader

STEP_BYTES: Final = 1 << 20


class SegmentCheck:
    """One check of a segment: call `step` until it returns 0, then `settle`."""

    def __init__(self, log: Log, segment: Segment) -> None:
        self._log = log
        self._segment = segment
        # Read before the segments: a cut in another thread in between then shows as a changed
        # generation.
        self._generation = log.state.generation
        segments, recent = log.state.tail
        is_last = segment is segments[-1]
        # A segment from a list that is older than a truncation proves nothing about the log.
        self._is_current = any(each is segment for each in segments)
        self._size, self._end_offset = recent.end if is_last else (segment.size, segment.end_offset)
        self._dense_from = log.gaps.below
        self._found: list[DamagedRange] = []
        self._offset = segment.base_offset
        self._at = 0
        self._walk = self._batches()

    def _batches(self) -> Iterator[tuple[int, BatchHeader]]:
        segment = self._segment
        file = segment.open_log()
        size = min(self._size, file.size())
        yield from walk_over_damage(
            file,
            0,
            size,
            segment=segment.base_offset,
            offset=segment.base_offset,
            below=self._end_offset,
            crc=True,
            found=self._found.append,
            judge=BatchJudge(
                self._log.leader_epochs,
                base_offset=segment.base_offset,
                size=self._size,
                end_offset=self._end_offset,
                gaps_below=self._dense_from,
            ),
        )

    def step(self, max_bytes: int = STEP_BYTES) -> int:
        """Read about `max_bytes` more; returns the number of bytes read, 0 at the end."""
        begun = self._at
        try:
            for at, header in self._walk:
                self._at, self._offset = at + header.size, header.next_offset
                if self._at - begun >= max_bytes:
                    break
        except OSError as error:
            # Bytes that the disk cannot read are lost, like bytes that it returns wrong.
            why = f"it cannot be read ({error.strerror or error})"
            self._found.append(
                DamagedRange(
                    self._offset,
                    self._end_offset,
                    self._segment.base_offset,
                    self._at,
                    NOWHERE,
                    why,
                )
            )
        return self._at - begun

    def settle(self) -> tuple[DamagedRange, ...]:
        """Record the damage found; nothing is recorded or returned if the segment was cut or
        replaced meanwhile.
        """
        log, segment = self._log, self._segment
        if self._generation != log.state.generation or log.deleted:
            return ()
        if not self._is_current:
            return ()
        end = max([self._offset, *(r.end for r in self._found)])
        if end < self._end_offset and self._end_offset > self._dense_from:
            why = f"the segment should end at offset {self._end_offset}"
            position = min(self._at, segment.size)
            self._found.append(
                DamagedRange(end, self._end_offset, segment.base_offset, position, NOWHERE, why)
            )
        log.damaged_ranges.replace(segment.base_offset, self._found)
        return tuple(self._found)


def check_segment(log: Log, base_offset: int) -> tuple[DamagedRange, ...]:
    """Check a whole segment at once; the result is empty if the log no longer holds it."""
    segment = next((s for s in log.segments if s.base_offset == base_offset), None)
    if segment is None:
        return ()
    check = SegmentCheck(log, segment)
    while check.step() > 0:
        pass
    return check.settle()
