"""The leader epochs as the batches of a log tell them, for one that has lost its checkpoint (I-5).

Epochs never fall along a log (I-2), and no CRC covers a batch's epoch. Where they do fall a disk
has changed some: believed are the most batches whose epochs rise together. The others read as
damage, as they are of another epoch than the log says.
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
    """Of the last run, which begins at offset `start`."""
    start: int
    batches: int
    """In all its runs."""
    before: _Rise | None


_epoch_of = attrgetter("epoch")


def read_epochs(segments: Sequence[Segment]) -> list[tuple[int, int]]:
    """(epoch, start offset) of each epoch, oldest first, the first from the first batch on. Of the
    segments only the last stays open.
    """
    rise, found = _longest_rise(_batches(segments)), []
    while rise is not None:
        found.append((rise.epoch, rise.start))
        rise = rise.before
    return found[::-1]


def _longest_rise(batches: Iterable[tuple[int, int]]) -> _Rise | None:
    """Among equals the one that ends with the lowest epoch: nothing hinders the log from going on
    in the next.
    """
    rises: list[_Rise] = []
    """The longest one to each epoch, if none to a lower epoch is as long; so both rise."""
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
    """(epoch, base offset) of each batch that has the form of one."""
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
