"""Leader elections: clean elections, and the one way for a broker to leave ISRs and ELRs (P-28).

A leader is a member of the ISR or, if that is empty, of the eligible leader replicas. It is
unfenced, not stopping, on the disk on which it was in sync, and its replica serves (I-22, I-23,
I-48, P-27). The first such replica in assignment order leads. A replica that lacks a damaged range,
or has no room, leads only if no other can. A partition without such a replica has an empty ISR and
no leader.
"""

from collections.abc import Mapping, Sequence

from strandline_broker.core.controller.log.records import PartitionChangeRecord
from strandline_broker.core.controller.log.state import (
    Broker,
    ControllerState,
    PartitionRegistration,
)
from strandline_broker.core.controller.partitions.isr import elr_after, isr_change
from strandline_proto.ids import NO_LEADER, BrokerId

Brokers = Mapping[BrokerId, Broker]
"""Brokers as they will be after the batch under decision."""


def electable(partition: PartitionRegistration, broker_id: BrokerId, brokers: Brokers) -> bool:
    broker = brokers.get(broker_id)
    if broker is None or not broker.eligible:
        return False
    if broker.directory_id != partition.directory_of(broker_id):
        return False
    condition = broker.condition_of(partition.topic_id, partition.index)
    return condition is None or condition.can_lead


def is_sound(partition: PartitionRegistration, broker_id: BrokerId, brokers: Brokers) -> bool:
    """True if the broker could lead and holds everything that an ISR member holds."""
    if not electable(partition, broker_id, brokers):
        return False
    condition = brokers[broker_id].condition_of(partition.topic_id, partition.index)
    return condition is None or condition.is_sound


def elect(
    partition: PartitionRegistration,
    isr: Sequence[BrokerId],
    brokers: Brokers,
    *,
    elr: Sequence[BrokerId] = (),
) -> BrokerId:
    """The leader from `isr` or, if that is empty, from `elr`; or NO_LEADER (I-48)."""
    among = isr or elr
    for can_lead in (is_sound, electable):
        for broker_id in partition.replicas:
            if broker_id in among and can_lead(partition, broker_id, brokers):
                return broker_id
    return NO_LEADER


def leave(
    state: ControllerState,
    partition: PartitionRegistration,
    broker_id: BrokerId,
    brokers: Brokers,
    *,
    lost: bool,
    bump: bool = False,
) -> PartitionChangeRecord:
    """Remove `broker_id` from the ISR. If it led, or the partition had no leader, a leader is
    elected if possible.

    With `lost` it may lack records that it held, and leaves the ELR too. With `bump` the leader
    epoch rises even if the leader stays, because a leader without this news would continue to count
    it (I-51, P-73).
    """
    rest = tuple(b for b in partition.isr if b != broker_id)
    leavers = (broker_id,) if lost else ()
    min_isr = state.effective_min_isr(state.topics[partition.topic_id], partition)
    elr, _ = elr_after(partition, rest, min_isr=min_isr, lost=leavers)
    leader: BrokerId | None = partition.leader
    if partition.leader in (broker_id, NO_LEADER):
        leader = elect(partition, rest, brokers)
        if leader == NO_LEADER:
            leader = elect(partition, (), brokers, elr=elr)
        if leader not in rest:  # remaining members that cannot lead now stay eligible
            rest = () if leader == NO_LEADER else (leader,)
    if leader == partition.leader and not bump:
        leader = None
    return isr_change(state, partition, rest, lost=leavers, leader=leader)


def leave_all(
    state: ControllerState, broker_id: BrokerId, brokers: Brokers, *, lost: bool
) -> list[PartitionChangeRecord]:
    return [
        leave(state, p, broker_id, brokers, lost=lost, bump=lost)
        for p in state.hosted_by(broker_id)
        if broker_id in p.isr or (lost and broker_id in p.elr)
    ]


def elect_again(
    state: ControllerState, partition: PartitionRegistration, brokers: Brokers
) -> PartitionChangeRecord | None:
    """The clean election of a partition without a leader; None if no replica can be elected."""
    leader = elect(partition, partition.isr, brokers, elr=partition.elr)
    if leader == NO_LEADER:
        return None
    return isr_change(state, partition, partition.isr or (leader,), leader=leader)


def lead_again(
    state: ControllerState, broker_id: BrokerId, brokers: Brokers
) -> list[PartitionChangeRecord]:
    """Elections of leaderless partitions that the unfencing of a broker makes possible."""
    changes = [
        elect_again(state, p, brokers)
        for p in state.those(state.index.leaderless)
        if broker_id in (*p.isr, *p.elr)
    ]
    return [change for change in changes if change is not None]
