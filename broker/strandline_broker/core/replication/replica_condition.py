"""Why a replica does not count as its broker's other replicas do, although the broker lives.

Each heartbeat names every such replica with its condition. `partitions/offline_replicas.py` says
what the controller does about it. None of them joins an ISR.
"""

import enum
from dataclasses import dataclass

from strandline_proto.ids import BrokerId, LeaderEpoch, Offset, TopicId


class ReplicaCondition(enum.StrEnum):
    OUT_OF_SERVICE = "out-of-service"
    """It serves nothing: its directory has failed, or its log could not be opened."""
    MISSING = "missing"
    """Its broker has hosted it and does not find it: an empty disk, or one that is not mounted."""
    DAMAGED = "damaged"
    """It lacks a range of what it should hold, and serves the rest."""
    DAMAGED_IDENTITY = "damaged-identity"
    """What says which replica it is was damaged, and it was set aside: it serves nothing."""
    TRUNCATION_REFUSED = "truncation-refused"
    """It was to cut records below its high watermark and has not; it fetches no more."""
    DISK_FULL = "disk-full"
    """It holds all that it held, and its directory takes no more, or its broker has no file
    descriptors left.
    """

    @property
    def can_lead(self) -> bool:
        """Whether it may lead where nobody better can."""
        return self is not ReplicaCondition.OUT_OF_SERVICE and not self.is_gone

    @property
    def is_gone(self) -> bool:
        """Whether only an operator can bring it back, or another replica fill it anew."""
        return self in (ReplicaCondition.MISSING, ReplicaCondition.DAMAGED_IDENTITY)

    @property
    def is_sound(self) -> bool:
        """Whether it leads as well as a replica that is not named."""
        return self is ReplicaCondition.TRUNCATION_REFUSED

    @property
    def has_lost(self) -> bool:
        """Whether it may lack records that a member of an ISR or ELR holds."""
        return self is ReplicaCondition.DAMAGED or self.is_gone


@dataclass(frozen=True, slots=True)
class RefusedTruncation:
    """What a replica was to cut, although it knows it to be committed, and has not (I-41)."""

    topic_id: TopicId
    partition: int
    leader: BrokerId
    """Whose history has parted from the replica's, in that epoch."""
    leader_epoch: LeaderEpoch
    offset: Offset
    """Where the log was to end."""
    high_watermark: Offset
    log_end_offset: Offset
