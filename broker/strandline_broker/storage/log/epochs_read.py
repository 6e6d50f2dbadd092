"""The leader epochs of a log whose checkpoint is lost, read from its batches (I-5).

Epochs never fall along a log (I-2), and no CRC covers a batch's epoch. If epochs fall, the disk has
changed some of them. The longest series of batches whose epochs rise is accepted. The other batches
count as damage, because their epoch differs from the log's.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from strandline_broker.storage.segment.damage_walk import walk_over_damage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from strandline_broker.storage.segment.segment import Segment


class _Rise(NamedTuple):
    """Runs of batches of rising epochs."""

    epoch: int
    """Epoch of the last run, which begins at offset `start`."""
    start: int
    batches: int
    """Number of batches in all runs."""
    before: _Rise | None


_epoch_of = attrgetter("epoch")


def read_epochs(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """(epoch, start offset) of each epoch, oldest first; the first one starts at the first batch.

    Only the last segment is left open.
    """
    rise, found = _longest_rise(_batches(segments)), []
    while rise is not None:
        found.append((rise.epoch, rise.start))
        rise = rise.before
    return found[::-1]


def _longest_rise(batches: Iterable[tuple[int, int]]) -> _Rise | None:
    """The longest rise. Among equals, the one with the lowest last epoch: the log can continue in
    the next epoch.
    """
    rises: list[_Rise] = []
    """The longest rise for each last epoch, unless a rise to a lower epoch is as long. Epochs and
    lengths therefore both increase along the list.
    """
    first = -1
    for epoch, offset in batches:
        if not rises:
            first = offset
        i = bisect_right(rises, epoch, key=_epoch_of)
        before = rises[i - 1] if i else None
        count = 1 if before is None else before.batches + 1
        behind = i
        while behind < len(rises) and rises[behind].batches <= count:
            behind += 1
        if before is not None and before.epoch == epoch:
            rises[i - 1 : behind] = [before._replace(batches=count)]
        else:
            start = first if before is None else offset
            rises[i:behind] = [_Rise(epoch, start, count, before)]
    return rises[-1] if rises else None


def _batches(segments: Sequence[Segment]) -> Iterator[tuple[int, int]]:
    """(epoch, base offset) of each batch whose header is plausible."""
    for segment in segments:
        for _, header in walk_over_damage(
            segment.view().file,
            0,
            segment.size,
            segment=segment.base_offset,
            offset=segment.base_offset,
            below=segment.end_offset,
            crc=False,
            found=lambda _: None,
        ):
            yield header.leader_epoch, max(header.base_offset, segment.base_offset)
        if segment is not segments[-1]:
            segment.release()
