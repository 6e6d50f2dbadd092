"""A check of the epoch checkpoint against the durable batches (I-5, I-7).

A file written by Kafka or by an earlier version has no seal (`sealed_file`). If the disk changed a
digit, it reads as another epoch or offset. Trusting it would mark sound batches as damaged, and
would treat durable batches after the recovery point as a torn tail.

A batch's CRC does not cover its epoch. One batch that contradicts the file therefore proves
nothing; two successive batches that agree with each other do. Batches above the recovery point are
not consulted: after a loss of power an older tail may be there, and the file exists to detect it
(P-23).
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.segment.batch_walk import walk
from strandline_broker.storage.segment.reader import first_batch_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strandline_broker.storage.log.leader_epochs import LeaderEpochs
    from strandline_broker.storage.segment.segment import Segment

WITNESSES: Final = 2
TAIL: Final = 64
"""Offsets at the end of a segment whose last batches are checked."""


def is_contradicted(epochs: LeaderEpochs, segments: Sequence[Segment], *, below: int) -> bool:
    """True if the batches below the recovery point `below` contradict `epochs`.

    The check reads batches where an epoch begins, and the first and last batches of each segment.
    """
    for i, segment in enumerate(segments):
        if segment.base_offset >= below:
            break
        end = segments[i + 1].base_offset if i + 1 < len(segments) else below
        begins = [start for _, start in epochs.entries if segment.base_offset < start < end]
        wrong = any(
            _wrong(epochs, islice(_batches(segment, place, below), WITNESSES))
            for place in (segment.base_offset, *begins)
        ) or _wrong(epochs, _last(segment, max(segment.base_offset, min(end, below) - TAIL), below))
        if i + 1 < len(segments):
            segment.release()
        if wrong:
            return True
    return False


def _last(segment: Segment, offset: int, below: int) -> Iterator[tuple[int, int]]:
    yield from deque(_batches(segment, offset, below), maxlen=WITNESSES)


def _wrong(epochs: LeaderEpochs, batches: Iterator[tuple[int, int]]) -> bool:
    first_epoch, first_start = epochs.entries[0]
    found = []
    try:
        for base_offset, epoch in batches:
            before_epochs = base_offset < first_start and epoch <= first_epoch
            if before_epochs or epoch == epochs.epoch_at(base_offset):
                return False
            found.append(epoch)
    except BadBatch:
        return False
    return len(found) == WITNESSES and len(set(found)) == 1


def _batches(segment: Segment, offset: int, below: int) -> Iterator[tuple[int, int]]:
    """(base offset, epoch) of the batches from `offset` on that end at or before `below`."""
    view = segment.view()
    first = first_batch_to(segment, view, offset, segment.size)
    if first is None:
        return
    for _, header in walk(view.file, first[0], segment.size, offset=first[1].base_offset, crc=True):
        if header.next_offset > below:
            return
        yield header.base_offset, header.leader_epoch
