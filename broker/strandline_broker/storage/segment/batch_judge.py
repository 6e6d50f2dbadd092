"""Whether a batch that was read is the one that must stand there, by all that is known without its
CRC: the offset that must follow, where the segment's offsets end, and the epoch checkpoint (I-5).

Neither base offset nor leader epoch has a checksum, and a disk may give back what stands elsewhere:
what is decided or remembered on the strength of a header is held against these first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.storage.segment.damage_walk import jumps

if TYPE_CHECKING:
    from strandline_broker.storage.files.file import File
    from strandline_broker.storage.log.leader_epochs import LeaderEpochs
    from strandline_proto.batch import BatchHeader


class BatchJudge:
    """For the walks over one segment; `gaps_below` as of `walk`."""

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
        """Why not; `expected` is the offset that must follow."""
        if header.base_offset > max(expected, self._gaps_below):
            return f"base offset {header.base_offset} where {expected} must follow"
        base, size, below = self._base_offset, self._size, self._end_offset
        if header.next_offset > below:
            return f"offsets {header.base_offset} to {header.last_offset} are not of this segment"
        why = jumps(file, at, header, expected, base=base, end=size, below=below)
        if why is not None:
            return why
        named = self._epochs.epoch_at(max(header.base_offset, expected))
        # Epochs that begin below the log's start may have been forgotten.
        if named >= 0 and header.leader_epoch != named:
            return f"leader epoch {header.leader_epoch}, the epoch checkpoint says {named}"
        return None
