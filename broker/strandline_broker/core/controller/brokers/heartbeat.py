"""The requests in a heartbeat: fencing, unfencing or a controlled shutdown.

A heartbeat renews the session on arrival, long before the decision here (P-62). Most heartbeats
request no change. They are answered from the committed state, without the pipeline.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strandline_broker.core.controller.brokers.fencing import decide_fence
from strandline_broker.core.controller.brokers.registration import (
    ENTRIES_MAX,
    TEXT_LENGTH_MAX,
    check_broker_epoch,
)
from strandline_broker.core.controller.brokers.shutdown import decide_shutdown, may_shut_down
from strandline_broker.core.controller.brokers.unfencing import decide_unfence, may_unfence
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import LossRecord, OfflineReplica
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.replication.replica_condition import RefusedTruncation
from strandline_proto.errors import InvalidRequest
from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset

TOLD_MAX: Final = 100_000
"""Limit on the replicas, losses and refused truncations in one heartbeat. They are stored, and sent
to every broker or on request.
"""
TOPIC_ID_LENGTH: Final = 16


@dataclass(frozen=True, slots=True)
class Heartbeat:
    broker_id: BrokerId
    broker_epoch: BrokerEpoch
    current_metadata_offset: MetadataOffset
    want_fence: bool
    want_shut_down: bool
    number: int = 0
    """Number of the heartbeat, rising over all heartbeat streams of an incarnation."""
    offline_replicas: frozenset[OfflineReplica] = frozenset()
    offline_log_dirs: tuple[str, ...] = ()
    losses: tuple[LossRecord, ...] = ()
    """Losses of records, since the last heartbeat that was answered."""
    stray_dirs: tuple[str, ...] = ()
    refused: tuple[RefusedTruncation, ...] = ()
    full_log_dirs: tuple[str, ...] = ()
    lacks_descriptors: bool = False
    applied_partitions: int = 0
    """Number of partitions applied, rising while the broker works on a push."""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


def check_told(heartbeat: Heartbeat) -> None:
    """Raise InvalidRequest for lists longer than any broker's, before any of their content is
    stored.
    """
    sender = f"a heartbeat of broker {heartbeat.broker_id}"
    named = (heartbeat.offline_replicas, heartbeat.losses, heartbeat.refused)
    told = sum(map(len, named))
    if told > TOLD_MAX:
        raise InvalidRequest(f"{sender} names {told} replicas, {TOLD_MAX} are possible")
    for topic_id in {each.topic_id for several in named for each in several}:
        if len(topic_id) != TOPIC_ID_LENGTH:
            raise InvalidRequest(
                f"{sender} names a topic by {len(topic_id)} bytes, an id has {TOPIC_ID_LENGTH}"
            )
    for paths in (heartbeat.offline_log_dirs, heartbeat.full_log_dirs, heartbeat.stray_dirs):
        if len(paths) > ENTRIES_MAX or any(len(path) > TEXT_LENGTH_MAX for path in paths):
            raise InvalidRequest(
                f"{sender} names {len(paths)} directories in one list; {ENTRIES_MAX} are possible,"
                f" each of at most {TEXT_LENGTH_MAX} characters"
            )


def asks_for_change(state: ControllerState, heartbeat: Heartbeat) -> bool:
    """True if the heartbeat requests a change. Raises if the sender is no current incarnation."""
    broker = check_broker_epoch(state, heartbeat.broker_id, heartbeat.broker_epoch)
    if heartbeat.want_shut_down:
        return broker.eligible
    if heartbeat.want_fence:
        return not broker.fenced
    return may_unfence(broker, heartbeat.current_metadata_offset)


def decide_heartbeat(state: ControllerState, heartbeat: Heartbeat) -> Decision[bool]:
    if not asks_for_change(state, heartbeat):
        return Decision((), answer=False)
    broker_id, epoch = heartbeat.broker_id, heartbeat.broker_epoch
    if heartbeat.want_shut_down:
        return decide_shutdown(state, broker_id, epoch)
    if heartbeat.want_fence:
        return decide_fence(state, broker_id, epoch)
    return decide_unfence(state, broker_id, epoch, heartbeat.current_metadata_offset)


def answer_heartbeat(
    state: ControllerState, heartbeat: Heartbeat, applied: Mapping[BrokerId, MetadataOffset]
) -> HeartbeatAnswer:
    """The answer by the committed state. Raises if the sender is no current incarnation."""
    broker = check_broker_epoch(state, heartbeat.broker_id, heartbeat.broker_epoch)
    return HeartbeatAnswer(
        is_caught_up=heartbeat.current_metadata_offset >= broker.epoch,
        is_fenced=broker.fenced,
        should_shut_down=(
            heartbeat.want_shut_down and may_shut_down(state, heartbeat.broker_id, applied)
        ),
    )
