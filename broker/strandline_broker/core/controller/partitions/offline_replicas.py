"""Replicas that do not count like their broker's others, although the broker lives: one with a
damaged range, a failed directory or a full one.

Each heartbeat names all of them. A listed replica joins no ISR. An earlier request of its leader,
which may arrive when the replica is no longer listed, does not add it either: its leader has
stopped waiting for it (P-58). A list is valid for one incarnation, and is known before that
incarnation is unfenced. The conditions differ:

- A replica that serves nothing leaves every ISR, and leads nothing.
- A replica that lacks a damaged range leaves an ISR if the ISR or its ELR has a better member,
  which then leads. It lacks records, so it is not in the ELR afterwards. Nor does it stay in an ELR
  beside a sound leader, because it will truncate and copy from that leader to heal. If it is the
  best replica it continues to lead, as only it holds the rest of its records.
- A missing replica serves nothing either, but may be on a disk that is only not mounted. It leaves
  an ISR like any that serves nothing. It counts as lost, so that an empty one may replace it, only
  if another replica leads. The same holds for a replica that was set aside because its identity is
  lost: an operator may know it.
- A replica whose directory is full holds all its records. It leaves the ISR beside another sound
  member, which then leads. Without one it continues to lead, and refuses writes for which it has no
  room.
- A replica that has refused to truncate records that it knows to be committed leaves the ISR and
  stays eligible: it may be their only holder.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from strandline_broker.core.controller.brokers.fencing import join_ends
from strandline_broker.core.controller.brokers.heartbeat import Heartbeat
from strandline_broker.core.controller.brokers.registration import check_broker_epoch
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    AnyRecord,
    OfflineReplicasRecord,
    PartitionChangeRecord,
)
from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
from strandline_broker.core.controller.partitions.election import (
    Brokers,
    elect_again,
    electable,
    is_sound,
    leave,
)
from strandline_broker.core.controller.partitions.reassignment import completions
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_proto.ids import NO_LEADER, BrokerId


def tells_news(state: ControllerState, heartbeat: Heartbeat) -> bool:
    """True if the lists contain news; most are empty, or known. Raises if the sender is no current
    incarnation.
    """
    broker = check_broker_epoch(state, heartbeat.broker_id, heartbeat.broker_epoch)
    if broker.offline_replicas != heartbeat.offline_replicas:
        return True
    return next(_changes(state, heartbeat, state.brokers), None) is not None


def decide_offline_replicas(state: ControllerState, heartbeat: Heartbeat) -> Decision[bool]:
    """Store the list, and change ISRs and leaders by it, in one batch."""
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
                replicas=tuple(sorted(told, key=lambda r: (r.topic_id, r.partition, r.condition))),
            )
        )
    return Decision(records, answer=bool(records))


def _changes(
    state: ControllerState, heartbeat: Heartbeat, brokers: Brokers
) -> Iterator[PartitionChangeRecord]:
    """The changes that follow; `brokers` are as they will be with the new list."""
    me = heartbeat.broker_id
    listed = {(r.topic_id, r.partition) for r in heartbeat.offline_replicas}
    known = {(r.topic_id, r.partition) for r in state.brokers[me].offline_replicas}
    for topic_id, index in sorted(listed | known):
        partition = state.partition(topic_id, index)
        if partition is None:
            continue
        if me in partition.isr:
            change = _makes_way(state, partition, me, brokers)
        elif me not in partition.elr:
            change = None
        elif partition.leader == NO_LEADER:
            change = elect_again(state, partition, brokers)
        else:
            change = _leaves_elr(state, partition, me, brokers)
        if change is None and (topic_id, index) in listed - known:
            change = join_ends(partition, me)
        if change is not None:
            yield change


def _makes_way(
    state: ControllerState, partition: PartitionRegistration, me: BrokerId, brokers: Brokers
) -> PartitionChangeRecord | None:
    condition = brokers[me].condition_of(partition.topic_id, partition.index)
    another_leads = partition.leader not in (me, NO_LEADER)
    others = [b for b in partition.isr if b != me]
    match condition:
        case ReplicaCondition.MISSING | ReplicaCondition.DAMAGED_IDENTITY if another_leads:
            return leave(state, partition, me, brokers, lost=True)
        case ReplicaCondition.TRUNCATION_REFUSED if another_leads:
            return leave(state, partition, me, brokers, lost=False)
        case ReplicaCondition.DAMAGED if _any_sound(partition, others or partition.elr, brokers):
            return leave(state, partition, me, brokers, lost=True)
        case ReplicaCondition.DISK_FULL if _any_sound(partition, others, brokers):
            return leave(state, partition, me, brokers, lost=False)
    if not electable(partition, me, brokers):
        change = leave(state, partition, me, brokers, lost=False)
        if condition is not None and condition.is_gone and change.leader != NO_LEADER:
            # Another replica leads from now on, so this one is no more eligible than beside any
            # leader.
            change = leave(state, partition, me, brokers, lost=True)
        return change
    return None


def _any_sound(
    partition: PartitionRegistration, among: Iterable[BrokerId], brokers: Brokers
) -> bool:
    return any(is_sound(partition, b, brokers) for b in among)


def _leaves_elr(
    state: ControllerState, partition: PartitionRegistration, me: BrokerId, brokers: Brokers
) -> PartitionChangeRecord | None:
    """Remove from the ELR a replica that will heal: it truncates its log, and would otherwise be
    elected cleanly without committed records (I-15). The same holds for a missing one, which an
    empty log may replace.

    Beside a leader that lacks a range too, the replica keeps its records, and with them its place
    in the ELR.
    """
    match brokers[me].condition_of(partition.topic_id, partition.index):
        case ReplicaCondition.DAMAGED if is_sound(partition, partition.leader, brokers):
            return leave(state, partition, me, brokers, lost=True)
        case ReplicaCondition.MISSING | ReplicaCondition.DAMAGED_IDENTITY:
            return leave(state, partition, me, brokers, lost=True)
    return None
