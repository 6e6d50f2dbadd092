"""A consumer's position in one partition: where it reads next, and whether that can be trusted.

A position is an offset and the leader epoch of the record before it, under a topic id (P-83). When
the partition gets a newer leader, the position is validated by OffsetsForLeaderEpoch before
anything is read on (KIP-320): a leader whose log ends below the position in that epoch has not got
what was read, and that is an error or a reset by policy, never silence (P-82). A seek starts a new
generation; answers to questions of an earlier generation are dropped (I-42).
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
    RESETTING = "resetting"
    """The offset is to be looked up at the leader."""
    VALIDATING = "validating"
    """The leader is to be asked whether it has the record before the position."""
    FETCHING = "fetching"
    FAILED = "failed"
    """The user has to decide; `error` says what about."""


class Position:
    """State of one assigned partition."""

    def __init__(self, partition: TopicPartition, topic_id: bytes, policy: int | None) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.policy = policy
        """What to do without a usable offset: EARLIEST, LATEST, or None for an error."""
        self.phase = Phase.RESETTING
        self.reset_to = LATEST
        self.generation = 0
        self.paused = False
        self.withheld = False
        """The group is about to take the partition away, or has not yet told the application that
        it has it: nothing is delivered.
        """
        self.is_granted = False
        """By a group, which says too when the topic is gone."""
        self.error: Exception | None = None
        self.fetch_offset = -1
        self.fetch_epoch = -1
        """Leader epoch of the record before `fetch_offset`; -1 if unknown."""
        self.offset = -1
        """What the user gets next; -1 while it is being looked up."""
        self.epoch = -1
        self._read = ReadEpochs()
        self.validated_epoch = -1
        self.high_watermark = -1
        self.log_start_offset = -1
        self.retry_at_ms = 0.0

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.partition.partition

    # The user moves it.

    def seek(self, offset: int, epoch: int) -> None:
        """Read from `offset` on; with the epoch of the record before it, if that is known."""
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
        """Read from an end of the log (or a time) on, once the leader has said where that is."""
        self.generation += 1
        self.error = None
        self.retry_at_ms = 0.0
        self.fetch_offset = self.offset = -1
        self.fetch_epoch = self.epoch = -1
        self.validated_epoch = -1
        self.reset_to = to
        self.phase = Phase.RESETTING

    def fail(self, error: Exception) -> None:
        """Nothing more is read until the user seeks."""
        if self.phase is not Phase.FAILED:
            self.generation += 1
            self.phase = Phase.FAILED
            self.error = error

    # Leaders answer. What can move the position says whether it has: then, and only then, what was
    # read ahead is void.

    def awaits(self, generation: int, fetch_offset: int) -> bool:
        """Whether an answer to a fetch from `fetch_offset` is still news (I-42).

        It is not after a seek, and not once a new leader's answer has moved the position on: what
        an old leader says late would take the epoch back, and histories would seem to part.
        """
        return generation == self.generation and fetch_offset == self.fetch_offset

    def on_leader(self, leader_epoch: int) -> None:
        """The partition's leader epoch, as far as it is known now."""
        if self.phase is not Phase.FETCHING or leader_epoch == self.validated_epoch:
            return
        if self.fetch_epoch >= 0:
            self.phase = Phase.VALIDATING
        else:
            self.validated_epoch = leader_epoch

    def on_listed(self, generation: int, offset: int, epoch: int) -> None:
        """The leader said where the end (or the time) is that the position is reset to."""
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
        """The leader said where the epoch of the record before the position ends in its log."""
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
        """A fetch met a log that has the position's epoch to `end_offset`, or an older one."""
        if generation != self.generation or self.phase is not Phase.FETCHING:
            return False
        self._truncated((found_epoch, end_offset) if end_offset >= 0 else None)
        return True

    def _truncated(self, found: tuple[int, int] | None) -> None:
        """The log does not hold what was read: of the leader's epochs, the latest that may have
        been read, and its end. By policy go on where histories part, or say so.
        """
        if self._rewound():
            return
        divergent: int | None = None
        if found is not None:
            epoch, end_offset = found
            # The leader's own records of that epoch may go on beyond where the reader left it.
            divergent = min(end_offset, self._read.end_of(epoch, (self.offset, self.epoch)))
        what = f"{self.partition.topic}/{self.partition.partition}"
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
        """Trouble ahead of what the user has seen is none yet: go back there and look again."""
        if self.offset < 0 or self.offset == self.fetch_offset:
            return False
        self.seek(self.offset, self.epoch)
        return True

    def on_out_of_range(self, generation: int, log_start_offset: int) -> bool:
        """The leader has no such offset: it was deleted, or the position is beyond the end."""
        if generation != self.generation or self.phase is not Phase.FETCHING:
            return False
        if self._rewound():
            return True
        if self.policy is None:
            self.fail(
                OffsetOutOfRange(
                    f"offset {self.fetch_offset} of {self.partition.topic}/"
                    f"{self.partition.partition} is not in the log (it starts at "
                    f"{log_start_offset}); seek to where reading shall go on"
                )
            )
        else:
            self.reset(self.policy)
        return True

    def on_fetched(self, generation: int, next_offset: int, epoch: int) -> bool:
        """Records up to `next_offset` have come; False if the position has moved meanwhile."""
        if generation != self.generation or self.phase is not Phase.FETCHING:
            return False
        self.fetch_offset = max(self.fetch_offset, next_offset)
        self.fetch_epoch = epoch
        return True

    def on_delivered(self, next_offset: int, epoch: int) -> None:
        """The user has everything below `next_offset`, or again only that: `epoch` is that of the
        record before it.
        """
        if next_offset < self.offset:
            self._read.step_back(next_offset)
        elif epoch != self.epoch:
            self._read.leave(self.offset, self.epoch)
        self.offset = next_offset
        self.epoch = epoch

    def epoch_before(self, offset: int) -> int:
        """Leader epoch of the record before `offset`; -1 if the user was not handed that."""
        return self._read.before(offset, (self.offset, self.epoch))
