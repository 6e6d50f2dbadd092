"""A consumer's position in one partition, and its validation.

A position is an offset and the leader epoch of the record before it, under a topic id (P-83). When
the partition gets a newer leader, OffsetsForLeaderEpoch validates the position before the next
fetch (KIP-320). A leader whose log ends below the position in that epoch has lost records that were
read. That is an error or a reset by policy, never ignored (P-82).

A seek starts a new generation; answers to questions of an earlier generation are dropped (I-42).
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

from strandline._core.read_epochs import ReadEpochs
from strandline.errors import LogTruncated, OffsetOutOfRange

if TYPE_CHECKING:
    from strandline._core.cluster_view import PartitionKey
    from strandline.types import TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
"""ListOffsets' timestamps for the ends of the log."""


class Phase(enum.Enum):
    """The phases of a position."""

    RESETTING = "resetting"
    """The offset must be looked up at the leader."""
    VALIDATING = "validating"
    """The leader must confirm that it has the record before the position."""
    FETCHING = "fetching"
    FAILED = "failed"
    """The user must decide; `error` has the reason."""


class Position:
    """State of one assigned partition."""

    def __init__(self, partition: TopicPartition, topic_id: bytes, policy: int | None) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.policy = policy
        """Reset policy without a usable offset: EARLIEST, LATEST, or None for an error."""
        self.phase = Phase.RESETTING
        self.reset_to = LATEST
        self.generation = 0
        self.paused = False
        self.withheld = False
        """True if nothing may be delivered.

        The group is about to revoke the partition, or its listener has not run yet.
        """
        self.is_granted = False
        """True if a group assigned the partition; the group then reports a deleted topic too."""
        self.error: Exception | None = None
        self.fetch_offset = -1
        self.fetch_epoch = -1
        """Leader epoch of the record before `fetch_offset`; -1 if unknown."""
        self.offset = -1
        """Offset of the next record for the user; -1 during a lookup."""
        self.epoch = -1
        self._read = ReadEpochs()
        self.validated_epoch = -1
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.retry_at_ms = 0.0

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition.partition

    @property
    def is_read(self) -> bool:
        """True once a fetch has told the end of the log, for an offset that is known."""
        return self.high_watermark >= 0 and self.offset >= 0

    # The user moves it.

    def seek(self, offset: int, epoch: int) -> None:
        """Moves to `offset`, with the epoch of the record before it, if known."""
        self.generation += 1
        self.error = None
        self.retry_at_ms = 0.0
        if epoch >= 0 and self.epoch_before(offset) == epoch:
            self._read.step_back(offset)
        else:
            self._read.begin(offset)
        self.fetch_offset = self.offset = offset
        self.fetch_epoch = self.epoch = epoch
        self.validated_epoch = -1
        self.phase = Phase.VALIDATING if epoch >= 0 else Phase.FETCHING

    def reset(self, to: int) -> None:
        """Moves to an end of the log (or a time), once the leader has looked it up."""
        self.generation += 1
        self.error = None
        self.retry_at_ms = 0.0
        self.fetch_offset = self.offset = -1
        self.fetch_epoch = self.epoch = -1
        self.validated_epoch = -1
        self.reset_to = to
        self.phase = Phase.RESETTING

    def fail(self, error: Exception) -> None:
        """Stops reading until the user seeks."""
        if self.phase is not Phase.FAILED:
            self.generation += 1
            self.phase = Phase.FAILED
            self.error = error

    # Leaders answer. An input that can move the position returns True if it has: only then the
    # read-ahead is void.

    def awaits(self, generation: int, fetch_offset: int) -> bool:
        """True if an answer to a fetch from `fetch_offset` is still current (I-42).

        It is stale after a seek, and after a new leader's answer has moved the position. A late
        answer of an old leader would move the epoch back, and the logs would seem to diverge.
        """
        return generation == self.generation and fetch_offset == self.fetch_offset

    def on_leader(self, leader_epoch: int) -> None:
        """Applies the newest known leader epoch of the partition."""
        if self.phase is not Phase.FETCHING or leader_epoch == self.validated_epoch:
            return
        if self.fetch_epoch >= 0:
            self.phase = Phase.VALIDATING
        else:
            self.validated_epoch = leader_epoch

    def on_listed(self, generation: int, offset: int, epoch: int) -> None:
        """Applies the offset that the leader has looked up for a reset."""
        if generation != self.generation or self.phase is not Phase.RESETTING:
            return
        self.fetch_offset = self.offset = offset
        self._read.begin(offset)
        # The leader's epoch belongs to the answer, not to the record before the offset.
        self.fetch_epoch = self.epoch = -1
        self.validated_epoch = epoch
        self.phase = Phase.FETCHING

    def on_epoch_end(
        self, generation: int, *, leader_epoch: int, found_epoch: int, end_offset: int
    ) -> bool:
        """Applies the end, in the leader's log, of the epoch of the record before the position."""
        if generation != self.generation or self.phase is not Phase.VALIDATING:
            return False
        if end_offset < 0 or found_epoch < 0:
            self._truncated(None)
        elif end_offset < self.fetch_offset or found_epoch < self.fetch_epoch:
            self._truncated((found_epoch, end_offset))
        else:
            self.validated_epoch = leader_epoch
            self.phase = Phase.FETCHING
            return False
        return True

    def on_diverging(self, generation: int, *, found_epoch: int, end_offset: int) -> bool:
        """Handles a fetch from a log that ends the position's epoch, or an older one, at
        `end_offset`.
        """
        if generation != self.generation or self.phase is not Phase.FETCHING:
            return False
        self._truncated((found_epoch, end_offset) if end_offset >= 0 else None)
        return True

    def _truncated(self, found: tuple[int, int] | None) -> None:
        """Handles a log that has lost records that were read.

        `found` is the leader's latest epoch that may have been read, and its end offset. By
        policy, the position moves to the point where the logs diverge, or fails.
        """
        if self._rewound():
            return
        divergent: int | None = None
        if found is not None:
            epoch, end_offset = found
            # The leader's records of that epoch may extend beyond the last one that was read.
            divergent = min(end_offset, self._read.end_of(epoch, (self.offset, self.epoch)))
        what = f"{self.partition.topic}:{self.partition.partition}"
        lost = f"the log of {what} was truncated below offset {self.fetch_offset}"
        if self.policy is None:
            common = "no common offset is known" if divergent is None else f"to {divergent}"
            self.fail(
                LogTruncated(
                    f"{lost} ({common}); seek to where reading shall go on",
                    self.partition,
                    divergent,
                )
            )
        elif divergent is None:
            self.reset(self.policy)
        else:
            self.seek(divergent, -1)

    def _rewound(self) -> bool:
        """Moves back to the user's position, if the fault is only in the read-ahead."""
        if self.offset < 0 or self.offset == self.fetch_offset:
            return False
        self.seek(self.offset, self.epoch)
        return True

    def on_out_of_range(self, generation: int, log_start_offset: int) -> bool:
        """Handles an offset that the leader does not have: deleted, or beyond the end."""
        if generation != self.generation or self.phase is not Phase.FETCHING:
            return False
        if self._rewound():
            return True
        if self.policy is None:
            self.fail(
                OffsetOutOfRange(
                    f"offset {self.fetch_offset} of {self.partition.topic}:"
                    f"{self.partition.partition} is not in the log (it starts at "
                    f"{log_start_offset}); seek to where reading shall go on"
                )
            )
        else:
            self.reset(self.policy)
        return True

    def on_fetched(self, generation: int, next_offset: int, epoch: int) -> bool:
        """Notes fetched records up to `next_offset`; False if the position has moved meanwhile."""
        if generation != self.generation or self.phase is not Phase.FETCHING:
            return False
        self.fetch_offset = max(self.fetch_offset, next_offset)
        self.fetch_epoch = epoch
        return True

    def on_delivered(self, next_offset: int, epoch: int) -> None:
        """Moves the user's position to `next_offset`, forward or back.

        `epoch` is the epoch of the record before it.
        """
        if next_offset < self.offset:
            self._read.step_back(next_offset)
        elif epoch != self.epoch:
            self._read.leave(self.offset, self.epoch)
        self.offset = next_offset
        self.epoch = epoch

    def epoch_before(self, offset: int) -> int:
        """Leader epoch of the record before `offset`; -1 if it was not delivered."""
        return self._read.before(offset, (self.offset, self.epoch))
