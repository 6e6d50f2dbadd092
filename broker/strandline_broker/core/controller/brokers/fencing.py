"""Fencing one broker: out of its ISRs, elections and the mark in one atomic batch (I-82, P-63).

Fencing is always safe: the new leader epochs fence whatever the broker still believes (I-35). The
new partition epochs fence what is still on its way to bring it into an ISR.
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
    """Fence this incarnation. The answer says whether it was still there to be fenced."""
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
    """A new partition epoch wherever a leader may have asked for the broker to join (I-15, I-27).

    A leader that learns that the broker is fenced stops counting it, even where an attempt of its
    request went unanswered. Unfenced again in the same broker epoch it would be welcome to that
    attempt, if that was only late: it would be in the ISR, and lack what was committed without it.
    """
    changes = [join_ends(p, broker_id) for p in state.hosted_by(broker_id)]
    return [change for change in changes if change is not None]


def join_ends(
    partition: PartitionRegistration, broker_id: BrokerId
) -> PartitionChangeRecord | None:
    """No request from before it lets the replica in; None where there can be none."""
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
    """Fence an incarnation whose session has ended, unless it was heard while this waited."""
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
    """Fence a leader that has left its election unapplied for a session, unless it went on while
    this waited (I-94).
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
    """A broker could not apply what it was told of one partition: elect around it (P-79).

    `as_of` is the offset it was told about; if a leader epoch has begun since, the news is old and
    nothing is done: it will answer for that one. Any other change of the partition gives it no new
    role, so the news holds, and may be the last of a broker whose disk hangs (I-94). Nor is anybody
    of `unfit` elected, who have failed the same way: two eligible replicas would take turns for
    ever.
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
