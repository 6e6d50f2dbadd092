"""Events on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.controller.news import (
    BrokerNews,
    BrokerStep,
    ControllerNews,
    Election,
    ElectionReason,
    IsrChange,
    LossNews,
    Reassignment,
    ReassignmentStep,
    TopicNews,
)
from strandline_broker.hosts.common.cuts import Cut, CutReason
from strandline_broker.hosts.groups.changed_groups import Rebalance
from strandline_proto.ids import NO_LEADER
from strandline_proto.v1 import watch_pb2

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.state import PartitionRegistration
    from strandline_broker.hosts.common.events import Event

_CUTS: Final = {
    reason: watch_pb2.TruncationReason.Value(f"TRUNCATION_REASON_{reason.name}")
    for reason in CutReason
}
_ELECTIONS: Final = {
    reason: watch_pb2.ElectionReason.Value(f"ELECTION_REASON_{reason.name}")
    for reason in ElectionReason
}
_BROKERS: Final = {
    step: watch_pb2.BrokerEventKind.Value(f"BROKER_EVENT_KIND_{step.name}") for step in BrokerStep
}
_REASSIGNMENTS: Final = {
    step: watch_pb2.ReassignmentStep.Value(f"REASSIGNMENT_STEP_{step.name}")
    for step in ReassignmentStep
}


def event_to_wire(event: Event) -> watch_pb2.WatchEvent:
    wire = watch_pb2.WatchEvent(number=event.number, time_ms=event.time_ms)
    _fill(wire, event.what)
    return wire


def _fill(wire: watch_pb2.WatchEvent, what: Any) -> None:
    match what:
        case Cut():
            wire.truncation.CopyFrom(_cut(what))
        case LossNews():
            wire.loss.CopyFrom(_loss(what))
        case Election():
            wire.election.CopyFrom(_election(what))
        case IsrChange():
            wire.isr.CopyFrom(_isr(what))
        case Reassignment():
            wire.reassignment.CopyFrom(_reassignment(what))
        case BrokerNews():
            wire.broker.CopyFrom(
                watch_pb2.BrokerEvent(
                    broker_id=what.broker_id,
                    kind=_BROKERS[what.step],
                    broker_epoch=what.broker_epoch,
                    why=what.why,
                )
            )
        case TopicNews():
            wire.topic.CopyFrom(
                watch_pb2.TopicEvent(topic=what.topic, topic_id=what.topic_id, deleted=what.deleted)
            )
        case Rebalance():
            wire.rebalance.CopyFrom(
                watch_pb2.RebalanceEvent(
                    group_id=what.group_id, group_epoch=what.epoch, why=what.why
                )
            )
        case ControllerNews():
            wire.controller.CopyFrom(
                watch_pb2.ControllerEvent(controller_epoch=what.controller_epoch)
            )
        case _:
            raise AssertionError(f"no wire form of {what}")


def _cut(cut: Cut) -> watch_pb2.TruncationEvent:
    return watch_pb2.TruncationEvent(
        topic=cut.topic,
        topic_id=cut.topic_id,
        partition=cut.partition,
        from_offset=cut.start,
        to_offset=cut.to,
        reason=_CUTS[cut.reason],
        leader_epoch=None if cut.leader_epoch < 0 else cut.leader_epoch,
        high_watermark=cut.high_watermark,
        acknowledged=cut.acknowledged,
        dropped_epochs=[
            watch_pb2.EpochStart(epoch=epoch, start_offset=start) for epoch, start in cut.dropped
        ],
    )


def _loss(news: LossNews) -> watch_pb2.LossEvent:
    record = news.record
    return watch_pb2.LossEvent(
        broker_id=record.broker_id,
        topic=news.topic,
        topic_id=record.topic_id,
        partition=record.partition,
        leader_epoch=record.leader_epoch,
        start_offset=record.start,
        end_offset=record.end,
        committed_offset=record.committed,
    )


def _leader(partition: PartitionRegistration | None) -> int | None:
    return None if partition is None or partition.leader == NO_LEADER else partition.leader


def _election(election: Election) -> watch_pb2.ElectionEvent:
    now = election.now
    return watch_pb2.ElectionEvent(
        topic=election.topic,
        topic_id=now.topic_id,
        partition=now.index,
        former_leader=_leader(election.former),
        leader_id=_leader(now),
        leader_epoch=now.leader_epoch,
        reason=_ELECTIONS[election.reason],
        broker_id=election.broker_id,
        unclean=election.unclean,
    )


def _isr(change: IsrChange) -> watch_pb2.IsrEvent:
    former, now = change.former, change.now
    return watch_pb2.IsrEvent(
        topic=change.topic,
        topic_id=now.topic_id,
        partition=now.index,
        former_isr=former.isr,
        isr=now.isr,
        former_elr=former.elr,
        elr=now.elr,
        partition_epoch=now.partition_epoch,
    )


def _reassignment(change: Reassignment) -> watch_pb2.ReassignmentEvent:
    now = change.now
    return watch_pb2.ReassignmentEvent(
        topic=change.topic,
        topic_id=now.topic_id,
        partition=now.index,
        step=_REASSIGNMENTS[change.step],
        former_replicas=change.former.replicas,
        replicas=now.replicas,
        adding=now.adding,
        removing=now.removing,
    )
