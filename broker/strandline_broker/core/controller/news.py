"""The events of one decision for people: elections with their reasons, ISR changes, brokers,
reassignments and topics.

A record says what is new. The former value comes from the caller, and the reason of an election
from the other records of the same decision.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from strandline_broker.core.controller.log.records import (
    RECOVERING,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    ControllerEpochRecord,
    LossRecord,
    OfflineReplicasRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from strandline_proto.ids import NO_LEADER

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from strandline_broker.core.controller.log.records import AnyRecord
    from strandline_broker.core.controller.log.state import ControllerState, PartitionRegistration
    from strandline_proto.ids import BrokerId, TopicId


class ElectionReason(enum.Enum):
    BROKER_FENCED = enum.auto()
    CONTROLLED_SHUTDOWN = enum.auto()
    BROKER_UNFENCED = enum.auto()
    REPLICA_OFFLINE = enum.auto()
    REASSIGNMENT = enum.auto()
    PREFERRED = enum.auto()
    REQUESTED = enum.auto()
    CONFIGURATION = enum.auto()
    BROKER_REMOVED = enum.auto()
    BROKER_REGISTERED = enum.auto()
    CONTROLLER_START = enum.auto()
    TOPIC_CREATED = enum.auto()


class Election(NamedTuple):
    """A leader epoch has begun, with or without a leader."""

    topic: str
    former: PartitionRegistration | None
    now: PartitionRegistration
    reason: ElectionReason
    broker_id: int | None
    """The broker that the reason is about."""
    unclean: bool


class IsrChange(NamedTuple):
    """Another ISR or ELR was committed."""

    topic: str
    former: PartitionRegistration
    now: PartitionRegistration


class ReassignmentStep(enum.Enum):
    BEGUN = enum.auto()
    CHANGED = enum.auto()
    ENDED = enum.auto()


class Reassignment(NamedTuple):
    topic: str
    step: ReassignmentStep
    former: PartitionRegistration
    now: PartitionRegistration


class BrokerStep(enum.Enum):
    REGISTERED = enum.auto()
    FENCED = enum.auto()
    UNFENCED = enum.auto()
    CONTROLLED_SHUTDOWN = enum.auto()
    DECOMMISSIONING = enum.auto()
    STAYS = enum.auto()
    UNREGISTERED = enum.auto()
    OFFLINE_REPLICAS = enum.auto()


class BrokerNews(NamedTuple):
    broker_id: int
    step: BrokerStep
    broker_epoch: int
    why: str


class TopicNews(NamedTuple):
    topic: str
    topic_id: bytes
    deleted: bool


class LossNews(NamedTuple):
    topic: str
    record: LossRecord


class ControllerNews(NamedTuple):
    controller_epoch: int


News: TypeAlias = (
    Election | IsrChange | Reassignment | BrokerNews | TopicNews | LossNews | ControllerNews
)


class Former(NamedTuple):
    """The values before the decision."""

    names: Mapping[TopicId, str]
    partitions: Mapping[tuple[TopicId, int], PartitionRegistration]


def news_of(
    records: Sequence[AnyRecord],
    former: Former,
    state: ControllerState,
    fenced_for: Mapping[BrokerId, str],
) -> Iterator[News]:
    """The events of one decision, of which `state` is the result. `fenced_for` has the reasons of
    fences that are under way.
    """
    reason, broker_id = _reason_of(records)
    for record in records:
        match record:
            case PartitionRecord() | PartitionChangeRecord():
                topic = state.topics.get(record.topic_id)
                now = None if topic is None else topic.partitions.get(record.partition)
                if topic is not None and now is not None:
                    before = former.partitions.get((record.topic_id, record.partition))
                    yield from _of_partition(topic.name, record, before, now, reason, broker_id)
            case TopicRecord() | RemoveTopicRecord() | LossRecord() | ControllerEpochRecord():
                yield _of_cluster(record, former, state)
            case RegisterBrokerRecord():
                epoch = state.brokers[record.broker_id].epoch
                why = f"incarnation {record.incarnation_id}"
                yield BrokerNews(record.broker_id, BrokerStep.REGISTERED, epoch, why)
            case UnregisterBrokerRecord():
                step, epoch = BrokerStep.UNREGISTERED, record.broker_epoch
                yield BrokerNews(record.broker_id, step, epoch, "")
            case OfflineReplicasRecord():
                step, epoch = BrokerStep.OFFLINE_REPLICAS, record.broker_epoch
                why = f"{len(record.replicas)} replicas do not count like others"
                yield BrokerNews(record.broker_id, step, epoch, why)
            case BrokerRegistrationChangeRecord():
                yield from _of_marks(record, fenced_for.get(record.broker_id, ""))
            case _:
                pass


def _of_cluster(
    record: TopicRecord | RemoveTopicRecord | LossRecord | ControllerEpochRecord,
    former: Former,
    state: ControllerState,
) -> News:
    match record:
        case TopicRecord():
            return TopicNews(record.name, record.topic_id, deleted=False)
        case RemoveTopicRecord():
            name = former.names.get(record.topic_id, "")
            return TopicNews(name, record.topic_id, deleted=True)
        case LossRecord():
            known = state.topics.get(record.topic_id)
            return LossNews("" if known is None else known.name, record)
        case ControllerEpochRecord():
            return ControllerNews(record.epoch)


def _of_partition(
    topic: str,
    record: PartitionRecord | PartitionChangeRecord,
    before: PartitionRegistration | None,
    now: PartitionRegistration,
    reason: ElectionReason | None,
    broker_id: int | None,
) -> Iterator[News]:
    if before is None:
        yield Election(topic, None, now, ElectionReason.TOPIC_CREATED, None, unclean=False)
        return
    step = _step(before, now)
    if step is not None:
        yield Reassignment(topic, step, before, now)
    if record.leader is not None:
        unclean = record.leader_recovery_state == RECOVERING
        if reason is None:
            reason = _reason_by_itself(before, now)
        yield Election(topic, before, now, reason, broker_id, unclean)
    if before.isr != now.isr or before.elr != now.elr:
        yield IsrChange(topic, before, now)


def _step(before: PartitionRegistration, now: PartitionRegistration) -> ReassignmentStep | None:
    moved, moves = (before.adding, before.removing), (now.adding, now.removing)
    if moved == moves:
        return None
    if moved == ((), ()):
        return ReassignmentStep.BEGUN
    return ReassignmentStep.ENDED if moves == ((), ()) else ReassignmentStep.CHANGED


def _reason_by_itself(before: PartitionRegistration, now: PartitionRegistration) -> ElectionReason:
    if before.replicas != now.replicas or now.adding or now.removing:
        return ElectionReason.REASSIGNMENT
    if now.leader != NO_LEADER and now.leader == now.replicas[0]:
        return ElectionReason.PREFERRED
    return ElectionReason.REQUESTED


def _reason_of(records: Sequence[AnyRecord]) -> tuple[ElectionReason | None, int | None]:
    """The reason that the other records of a decision give; None: they give none."""
    for record in records:
        match record:
            case ControllerEpochRecord():
                return ElectionReason.CONTROLLER_START, None
            case RegisterBrokerRecord():
                return ElectionReason.BROKER_REGISTERED, record.broker_id
            case UnregisterBrokerRecord():
                return ElectionReason.BROKER_REMOVED, record.broker_id
            case OfflineReplicasRecord():
                return ElectionReason.REPLICA_OFFLINE, record.broker_id
            case BrokerRegistrationChangeRecord(fenced=True):
                return ElectionReason.BROKER_FENCED, record.broker_id
            case BrokerRegistrationChangeRecord(in_controlled_shutdown=True):
                return ElectionReason.CONTROLLED_SHUTDOWN, record.broker_id
            case BrokerRegistrationChangeRecord(fenced=False):
                return ElectionReason.BROKER_UNFENCED, record.broker_id
            case ConfigRecord() | BrokerConfigRecord():
                return ElectionReason.CONFIGURATION, None
            case _:
                pass
    return None, None


def _of_marks(record: BrokerRegistrationChangeRecord, why_fenced: str) -> Iterator[BrokerNews]:
    broker_id, epoch = record.broker_id, record.broker_epoch
    if record.in_controlled_shutdown:
        yield BrokerNews(broker_id, BrokerStep.CONTROLLED_SHUTDOWN, epoch, "")
    if record.fenced is not None:
        step = BrokerStep.FENCED if record.fenced else BrokerStep.UNFENCED
        yield BrokerNews(broker_id, step, epoch, why_fenced if record.fenced else "")
    if record.decommissioning is not None:
        step = BrokerStep.DECOMMISSIONING if record.decommissioning else BrokerStep.STAYS
        yield BrokerNews(broker_id, step, epoch, "")
