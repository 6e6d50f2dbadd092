"""A judge of batches that were read: each must be the right batch for its place, by everything but
its CRC.

The judge knows the offset that must follow, the end of the segment's offsets, and the epoch
checkpoint (I-5). Neither base offset nor leader epoch has a checksum, and a disk may return bytes
from another place. Every decision and every stored value that relies on a header is therefore
checked here first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.storage.segment.damage_walk import jumps

if TYPE_CHECKING:
    from strandline_broker.storage.files.file import File
    from strandline_broker.storage.log.leader_epochs import LeaderEpochs
    from strandline_proto.batch import BatchHeader


class BatchJudge:
    """A judge for the walks over one segment; `gaps_below` is that of `walk`."""

    def __init__(
        self,
        epochs: LeaderEpochs,
        *,
        base_offset: int,
        size: int,
        end_offset: int,
        gaps_below: int,
    ) -> None:
        self._epochs = epochs
        self._base_offset = base_offset
        self._size = size
        self._end_offset = end_offset
        self._gaps_below = gaps_below

    def __call__(self, file: File, at: int, header: BatchHeader, expected: int) -> str | None:
        """The reason why the batch is wrong, or None; `expected` is the offset that must follow."""
        if header.base_offset > max(expected, self._gaps_below):
            return f"base offset {header.base_offset} where {expected} must follow"
        base, size, below = self._base_offset, self._size, self._end_offset
        if header.next_offset > below:
            return f"offsets {header.base_offset} to {header.last_offset} are not of this segment"
        why = jumps(file, at, header, expected, base=base, end=size, below=below)
        if why is not None:
            return why
        named = self._epochs.epoch_at(max(header.base_offset, expected))
        # Epochs that begin below the log's start may be unknown.
        if named >= 0 and header.leader_epoch != named:
            return f"leader epoch {header.leader_epoch}, the epoch checkpoint says {named}"
        return None
