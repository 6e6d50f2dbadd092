"""Who leads: clean elections from the ISR, and the one way for a broker to leave ISRs (P-28).

Rules (I-22, I-23, I-48, P-27): a leader is an ISR member, unfenced, not stopping, on the disk it
was in sync on, whose replica serves; the first such in assignment order, one that lacks a damaged
range only where no other can. Without eligible leader replicas the last member
never leaves the ISR: it stays listed, the partition has no leader, and it leads again when it is
unfenced on that disk.
"""

from collections.abc import Mapping, Sequence

from strandline_broker.core.controller.records import PartitionChangeRecord
from strandline_broker.core.controller.state import Broker, ControllerState, Partition
from strandline_proto.ids import NO_LEADER, BrokerId

Brokers = Mapping[BrokerId, Broker]
"""Brokers as they will be once the batch under decision is committed."""


def electable(partition: Partition, broker_id: BrokerId, brokers: Brokers) -> bool:
    broker = brokers.get(broker_id)
    return (
        broker is not None
        and broker.eligible
        and broker.directory_id == partition.directory_of(broker_id)
        and not broker.is_out_of_service(partition.topic_id, partition.index)
    )


def is_sound(partition: Partition, broker_id: BrokerId, brokers: Brokers) -> bool:
    """Whether the broker could lead, and hold all that a member of the ISR holds."""
    return electable(partition, broker_id, brokers) and not brokers[broker_id].is_damaged(
        partition.topic_id, partition.index
    )


def elect(partition: Partition, isr: Sequence[BrokerId], brokers: Brokers) -> BrokerId:
    """The leader that `isr` gives, or NO_LEADER."""
    for can_lead in (is_sound, electable):
        for broker_id in partition.replicas:
            if broker_id in isr and can_lead(partition, broker_id, brokers):
                return broker_id
    return NO_LEADER


def leave_isr(
    partition: Partition, broker_id: BrokerId, brokers: Brokers, *, bump: bool
) -> PartitionChangeRecord:
    """`broker_id`, a member, leaves the ISR, or stays as its last member without leading.

    `bump`: raise the leader epoch even if the leader stays, because the leaver may have lost
    records that a leader without this news would go on counting (P-73).
    """
    assert broker_id in partition.isr, (partition, broker_id)
    rest = tuple(b for b in partition.isr if b != broker_id)
    if not rest:
        return PartitionChangeRecord(
            topic_id=partition.topic_id, partition=partition.index, leader=NO_LEADER
        )
    leader: BrokerId | None = None
    if partition.leader == broker_id:
        leader = elect(partition, rest, brokers)
    elif bump:
        leader = partition.leader
    return PartitionChangeRecord(
        topic_id=partition.topic_id, partition=partition.index, isr=rest, leader=leader
    )


def leave_all_isrs(
    state: ControllerState, broker_id: BrokerId, brokers: Brokers, *, bump: bool
) -> list[PartitionChangeRecord]:
    return [
        leave_isr(p, broker_id, brokers, bump=bump)
        for p in state.partitions()
        if broker_id in p.isr
    ]


def lead_again(
    state: ControllerState, broker_id: BrokerId, brokers: Brokers
) -> list[PartitionChangeRecord]:
    """Elections of leaderless partitions that a broker makes possible by being unfenced (3.6)."""
    changes = []
    for partition in state.partitions():
        if partition.leader == NO_LEADER and broker_id in partition.isr:
            leader = elect(partition, partition.isr, brokers)
            if leader != NO_LEADER:
                changes.append(
                    PartitionChangeRecord(
                        topic_id=partition.topic_id, partition=partition.index, leader=leader
                    )
                )
    return changes
