"""Replicas that their broker cannot serve although it lives: a damaged range, a failed directory.

Each heartbeat names them all. A replica on the list leaves every ISR that has a better member, and
leadership goes to one of those; it is not elected and joins no ISR while it is listed. The last
member stays in the ISR (I-22): if only a range of it is damaged it goes on leading, as the rest of
what it holds is held by nobody else; if it serves nothing, the partition has no leader until it is
back. A list holds for one incarnation, and is known before that incarnation is unfenced.
"""

from collections.abc import Iterator
from dataclasses import replace

from strandline_broker.core.controller.decision import Decision
from strandline_broker.core.controller.election import (
    Brokers,
    elect,
    electable,
    is_sound,
    leave_isr,
)
from strandline_broker.core.controller.heartbeat import Heartbeat
from strandline_broker.core.controller.reassignment import completions
from strandline_broker.core.controller.records import (
    AnyRecord,
    OfflineReplicasRecord,
    PartitionChangeRecord,
)
from strandline_broker.core.controller.registration import check_broker_epoch
from strandline_broker.core.controller.state import ControllerState, Partition
from strandline_proto.ids import NO_LEADER, BrokerId


def tells_news(state: ControllerState, heartbeat: Heartbeat) -> bool:
    """Whether there is anything to decide; most lists are empty, or known. Raises if the sender is
    no current incarnation.
    """
    broker = check_broker_epoch(state, heartbeat.broker_id, heartbeat.broker_epoch)
    if broker.offline_replicas != heartbeat.offline_replicas:
        return True
    return next(_changes(state, heartbeat, state.brokers), None) is not None


def decide_offline_replicas(state: ControllerState, heartbeat: Heartbeat) -> Decision[bool]:
    """Keep the list, and change ISRs and leaders by it, in one batch."""
    broker = check_broker_epoch(state, heartbeat.broker_id, heartbeat.broker_epoch)
    told = heartbeat.offline_replicas
    brokers = {**state.brokers, broker.broker_id: replace(broker, offline_replicas=told)}
    changes = list(_changes(state, heartbeat, brokers))
    records: list[AnyRecord] = [*changes, *completions(state, changes, brokers)]
    if told != broker.offline_replicas:
        records.append(
            OfflineReplicasRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.epoch,
                replicas=tuple(sorted(told, key=lambda r: (r.topic_id, r.partition, r.damaged))),
            )
        )
    return Decision(records, answer=bool(records))


def _changes(
    state: ControllerState, heartbeat: Heartbeat, brokers: Brokers
) -> Iterator[PartitionChangeRecord]:
    """`brokers`: as they will be with the new list."""
    me = heartbeat.broker_id
    listed = {(r.topic_id, r.partition) for r in heartbeat.offline_replicas}
    known = {(r.topic_id, r.partition) for r in state.brokers[me].offline_replicas}
    for topic_id, index in sorted(listed | known):
        partition = state.partition(topic_id, index)
        if partition is None or me not in partition.isr:
            continue
        if (topic_id, index) in listed and _better_members(partition, me, brokers):
            yield leave_isr(partition, me, brokers, bump=False)
        elif partition.leader in (me, NO_LEADER):
            leader = elect(partition, partition.isr, brokers)
            if leader != partition.leader:
                yield PartitionChangeRecord(topic_id=topic_id, partition=index, leader=leader)


def _better_members(partition: Partition, me: BrokerId, brokers: Brokers) -> list[BrokerId]:
    """A damaged replica makes way for a sound one; one that serves nothing, for a damaged one."""
    serves = electable(partition, me, brokers)
    better = is_sound if serves else electable
    return [b for b in partition.isr if b != me and better(partition, b, brokers)]
