"""The controller's decision about one partition, as a broker receives it.

The broker holds the newest such value for each replica it hosts. I-34 orders two values: a higher
leader epoch is newer, or the same leader epoch and a higher partition epoch. The ISR names
incarnations, not just brokers (P-73).
"""

from dataclasses import dataclass

from strandline_proto.ids import (
    NO_LEADER,
    UNKNOWN_EPOCH,
    BrokerEpoch,
    BrokerId,
    LeaderEpoch,
    PartitionEpoch,
    TopicId,
)


@dataclass(frozen=True, slots=True, order=True)
class IsrMember:
    """One incarnation of a broker that counts as in sync."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch


@dataclass(frozen=True, slots=True)
class PartitionState:
    topic: str
    topic_id: TopicId
    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]
    partition_epoch: PartitionEpoch
    replicas: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...]
    eff_min_insync: int
    """min(min.insync.replicas, number of replicas), resolved by the controller (I-91)."""
    is_new: bool
    recovering: bool
    """True if the leader came from an unclean election and has not yet reported that it
    recovered.
    """
    unclean_epoch: LeaderEpoch = UNKNOWN_EPOCH
    """The leader epoch that the last unclean election began; -1 if there was none."""
    adding: tuple[BrokerId, ...] = ()
    """Replicas that a reassignment under way adds: their copies may be throttled."""

    @property
    def where(self) -> str:
        """The partition's name in messages."""
        return f"{self.topic}:{self.partition}"

    def problem(self, known: "PartitionState | None" = None) -> str | None:
        """The reason why no controller that keeps I-3 and I-22 could have decided this after
        `known`; None if it could.
        """
        isr = [m.broker_id for m in self.isr]
        if len(set(isr)) != len(isr) or len(set(self.replicas)) != len(self.replicas):
            return f"{self.where}: ISR {isr} or replicas {self.replicas} name a broker twice"
        if not set(isr) <= set(self.replicas) or not set(self.elr) <= set(self.replicas):
            return f"{self.where}: ISR {isr} or ELR {self.elr} is not within {self.replicas}"
        if set(isr) & set(self.elr):
            return f"{self.where}: ISR {isr} and ELR {self.elr} share a broker"
        if self.leader != NO_LEADER and self.leader not in isr:
            return f"{self.where}: leader {self.leader} is not in the ISR {isr}"
        if known is None or known.leader_epoch != self.leader_epoch:
            return None
        if known.leader != self.leader:
            return (
                f"{self.where}: leader epoch {self.leader_epoch} is given to {self.leader}, and"
                f" was {known.leader}'s"
            )
        return None

    def is_newer_than(self, other: "PartitionState") -> bool:
        """True if this decision is newer than `other`, about the same topic id and partition
        (I-34).
        """
        mine = (self.leader_epoch, self.partition_epoch)
        return mine > (other.leader_epoch, other.partition_epoch)


@dataclass(frozen=True, slots=True)
class IsrAnswer:
    """The controller's answer to an AlterPartition that it did not refuse."""

    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[IsrMember, ...]
    partition_epoch: PartitionEpoch
    eff_min_insync: int
    recovering: bool = False
    elr: tuple[BrokerId, ...] = ()
