"""Conditions of a replica that is worse than its broker's other replicas, although the broker
lives.

Each heartbeat names every such replica with its condition. `partitions/offline_replicas.py` says
how the controller reacts. No such replica joins an ISR.
"""

import enum
from dataclasses import dataclass

from strandline_proto.ids import BrokerId, LeaderEpoch, Offset, TopicId


class ReplicaCondition(enum.StrEnum):
    OUT_OF_SERVICE = "out-of-service"
    """The replica serves nothing: its directory has failed, or its log could not be opened."""
    MISSING = "missing"
    """The broker hosted the replica and does not find it: the disk is empty or not mounted."""
    DAMAGED = "damaged"
    """The replica lacks a range of its log and serves the rest."""
    DAMAGED_IDENTITY = "damaged-identity"
    """The replica's identity was damaged and its directory set aside: it serves nothing."""
    TRUNCATION_REFUSED = "truncation-refused"
    """The replica refused to truncate records below its high watermark; it fetches no more."""
    DISK_FULL = "disk-full"
    """The replica's log is whole, but its directory has no room, or its broker has no file
    descriptors left.
    """

    @property
    def can_lead(self) -> bool:
        """True if it may lead where no better replica can."""
        return self is not ReplicaCondition.OUT_OF_SERVICE and not self.is_gone

    @property
    def is_gone(self) -> bool:
        """True if only an operator can restore it, or a copy from another replica."""
        return self in (ReplicaCondition.MISSING, ReplicaCondition.DAMAGED_IDENTITY)

    @property
    def is_sound(self) -> bool:
        """True if it leads as well as a replica without a condition."""
        return self is ReplicaCondition.TRUNCATION_REFUSED

    @property
    def has_lost(self) -> bool:
        """True if it may lack records that a member of an ISR or ELR holds."""
        return self is ReplicaCondition.DAMAGED or self.is_gone


@dataclass(frozen=True, slots=True)
class RefusedTruncation:
    """A truncation that a replica refused, because it knows the records to be committed (I-41)."""

    topic_id: TopicId
    partition: int
    leader: BrokerId
    """The leader whose history, in that epoch, diverged from the replica's."""
    leader_epoch: LeaderEpoch
    offset: Offset
    """Offset at which the log was to end."""
    high_watermark: Offset
    log_end_offset: Offset
