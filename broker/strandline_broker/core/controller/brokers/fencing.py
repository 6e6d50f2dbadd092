"""Fencing of one broker: the fence mark, its removal from ISRs and the elections are one atomic
batch (I-82, P-63).

Fencing is always safe. The new leader epochs fence the broker, whatever it still assumes (I-35).
The new partition epochs fence requests under way that would add it to an ISR.
"""

from collections.abc import Collection
from dataclasses import replace

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
from strandline_broker.core.controller.partitions.election import leave, leave_all
from strandline_broker.core.controller.partitions.reassignment import completions
from strandline_proto.ids import NO_LEADER, BrokerEpoch, BrokerId, MetadataOffset, TopicId


def decide_fence(
    state: ControllerState, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> Decision[bool]:
    """Fence this incarnation; the answer is True if it was still there."""
    broker = state.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or broker.fenced:
        return Decision((), answer=False)
    brokers = {**state.brokers, broker_id: replace(broker, fenced=True)}
    changes = leave_all(state, broker_id, brokers, lost=False)
    mark = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, fenced=True
    )
    changes += completions(state, changes, brokers)
    return Decision((*changes, *_joins_end(state, broker_id), mark), answer=True)


def _joins_end(state: ControllerState, broker_id: BrokerId) -> list[PartitionChangeRecord]:
    """New partition epochs for each partition whose leader may have proposed the broker (I-15,
    I-27).

    A leader that learns of the fencing stops counting the broker, even if an attempt of its request
    got no answer. If the broker were unfenced in the same broker epoch, a late attempt could add
    it. It would then be in the ISR without records that were committed meanwhile.
    """
    changes = [join_ends(p, broker_id) for p in state.hosted_by(broker_id)]
    return [change for change in changes if change is not None]


def join_ends(
    partition: PartitionRegistration, broker_id: BrokerId
) -> PartitionChangeRecord | None:
    """The change that makes earlier requests to add the replica fail; None if there can be none."""
    if partition.leader == NO_LEADER or broker_id in partition.isr:
        return None
    return PartitionChangeRecord(topic_id=partition.topic_id, partition=partition.index)


def decide_expire(
    state: ControllerState,
    sessions: Sessions,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    *,
    now_ms: int,
) -> Decision[bool]:
    """Fence an incarnation whose session has ended, unless it sent a heartbeat while this decision
    waited.
    """
    if not sessions.is_expired(broker_id, broker_epoch, now_ms):
        return Decision((), answer=False)
    sessions.forget(broker_id, broker_epoch)
    return decide_fence(state, broker_id, broker_epoch)


def decide_overdue(
    state: ControllerState,
    sessions: Sessions,
    applied: Applied,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    *,
    now_ms: int,
) -> Decision[bool]:
    """Fence a leader that has left its election unapplied for a session, unless it made progress
    while this decision waited (I-94).
    """
    if not applied.is_overdue(broker_id, now_ms, sessions.session_ms):
        return Decision((), answer=False)
    return decide_fence(state, broker_id, broker_epoch)


def decide_replica_failed(
    state: ControllerState,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    *,
    topic_id: TopicId,
    partition: int,
    as_of: MetadataOffset,
    unfit: Collection[BrokerId] = (),
) -> Decision[bool]:
    """Elect around a broker that could not apply a change of one partition (P-79).

    `as_of` is the offset of that change. If a leader epoch has begun since, the report is outdated
    and nothing is done: the broker will report on the new epoch. Any other change gives the broker
    no new role, so the report holds; it may be the last one of a broker whose disk hangs (I-94).
    The members of `unfit` have failed in the same way and are not elected: two eligible replicas
    would otherwise alternate for ever.
    """
    broker = state.brokers.get(broker_id)
    told = state.partition(topic_id, partition)
    if broker is None or broker.epoch != broker_epoch or told is None or told.elected_at > as_of:
        return Decision((), answer=False)
    if broker_id not in told.isr:
        return Decision((), answer=False)
    out = (broker_id, *unfit)
    brokers = {
        b: replace(known, fenced=True) if b in out else known for b, known in state.brokers.items()
    }
    change = leave(state, told, broker_id, brokers, lost=False)
    return Decision((change, *completions(state, [change], brokers)), answer=True)
