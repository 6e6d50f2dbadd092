"""The controller's steps: each applies a decision of the core to values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.controller.brokers.fencing import decide_fence
from strandline_broker.core.controller.brokers.registration import decide_registration
from strandline_broker.core.controller.brokers.sessions import Sessions
from strandline_broker.core.controller.brokers.shutdown import decide_shutdown
from strandline_broker.core.controller.brokers.unfencing import decide_unfence
from strandline_broker.core.controller.log.records import RECOVERED
from strandline_broker.core.controller.partitions.alter_partition import (
    Proposal,
    decide_alter_partition,
)
from strandline_broker.core.controller.partitions.departures import decide_departures
from strandline_broker.core.controller.partitions.log_ends import LogEnds
from strandline_broker.core.controller.partitions.recovery import decide_recoveries
from strandline_broker.core.push_answer import LogEnd
from strandline_broker.core.registration import Registration
from strandline_broker.core.replication.partition_state import IsrAnswer, IsrMember
from strandline_proof.model import machines
from strandline_proof.model.values import Violation
from strandline_proto.errors import WireError
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
)

if TYPE_CHECKING:
    from strandline_broker.core.controller.log.decision import Decision
    from strandline_broker.core.controller.log.state import ControllerState
    from strandline_proof.model.values import Decided, IsrRequest, Node


def alter_partition(
    decided: Decided, sender: int, request: IsrRequest
) -> tuple[Decided, IsrAnswer | type[WireError]]:
    state = machines.wake_controller(decided)
    proposal = Proposal(
        machines.TOPIC_ID,
        0,
        LeaderEpoch(request.leader_epoch),
        PartitionEpoch(request.partition_epoch),
        tuple((m.broker_id, m.broker_epoch) for m in request.isr),
        RECOVERED,
    )
    try:
        decision = decide_alter_partition(
            state, BrokerId(sender), BrokerEpoch(request.broker_epoch), [proposal]
        )
    except WireError as error:
        return decided, type(error)
    verdict = decision.answer[0]
    if verdict.error is not None:
        return decided, type(verdict.error)
    assert verdict.committed is not None
    after = _commit(decided, state, decision)
    _check_compare_and_set(decided, after, request)
    partition = verdict.committed.partition
    answer = IsrAnswer(
        leader=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=tuple(IsrMember(*member) for member in verdict.committed.isr_with_epochs),
        partition_epoch=partition.partition_epoch,
        eff_min_insync=verdict.committed.effective_min_isr,
        recovering=partition.leader_recovery_state != RECOVERED,
        elr=partition.elr,
    )
    return after, answer


def _check_compare_and_set(before: Decided, after: Decided, request: IsrRequest) -> None:
    if after == before:
        return
    asked = (request.leader_epoch, request.partition_epoch)
    if asked != (before.leader_epoch, before.partition_epoch):
        raise Violation(f"I-27: an ISR asked for at {asked} is committed upon {before}")
    if (after.leader_epoch, after.partition_epoch) != (asked[0], asked[1] + 1):
        raise Violation(f"I-27: an ISR change led from {before} to {after}")


def fence(decided: Decided, broker_id: int) -> Decided:
    state = machines.wake_controller(decided)
    broker = state.brokers[BrokerId(broker_id)]
    return _commit(decided, state, decide_fence(state, broker.broker_id, broker.epoch))


def unfence(decided: Decided, broker_id: int) -> Decided:
    """The broker has applied everything."""
    state = machines.wake_controller(decided)
    broker = state.brokers[BrokerId(broker_id)]
    return _commit(
        decided, state, decide_unfence(state, broker.broker_id, broker.epoch, machines.LATEST)
    )


def forget(decided: Decided, broker_id: int) -> Decided:
    """The leader has confirmed that it applied every decision."""
    state, applied = machines.wake_controller(decided), Applied()
    broker = state.brokers[BrokerId(broker_id)]
    applied.on_registered(broker.broker_id, broker.epoch)
    applied.on_answered(
        broker.broker_id, broker.epoch, machines.LATEST, failed=frozenset(), full=False
    )
    return _commit(decided, state, decide_departures(state, applied, limit=1))


def begin_shutdown(decided: Decided, broker_id: int) -> Decided:
    state = machines.wake_controller(decided)
    broker = state.brokers[BrokerId(broker_id)]
    return _commit(decided, state, decide_shutdown(state, broker.broker_id, broker.epoch))


def register(decided: Decided, broker_id: int, *, stopped_cleanly: bool) -> Decided:
    """A new process on the same disk."""
    state = machines.wake_controller(decided)
    old = state.brokers[BrokerId(broker_id)]
    request = Registration(
        broker_id=old.broker_id,
        cluster_id="",
        incarnation_id=f"{broker_id}.{old.epoch + 1}",
        directory_id=old.directory_id,
        flush_policy=old.flush_policy,
        pid=1,
        version="",
        store_id="",
        controller_epoch=ControllerEpoch(-1),
        metadata_offset=MetadataOffset(-1),
        listeners=(Endpoint("L", "h", 1),),
        inter_broker_listener="L",
        rack="",
        features=(),
        log_dirs=(),
        previous_broker_epoch=old.epoch if stopped_cleanly else BrokerEpoch(-1),
    )
    decision = decide_registration(
        state, Sessions(1), request, cluster_id="c", store_id="s", now_ms=machines.NOW_MS
    )
    return _commit(decided, state, decision)


def recover(decided: Decided, *nodes: Node) -> Decided:
    """Every running broker that has learned of the lost leader has reported where its log ends."""
    state = machines.wake_controller(decided)
    partition = state.topics[machines.TOPIC_ID].partitions[0]
    ends = LogEnds()
    for node in nodes:
        broker = state.brokers[BrokerId(node.broker_id)]
        known = node.known
        if not node.is_up or broker.epoch != node.broker_epoch or known is None:
            continue
        if known.leader_epoch == decided.leader_epoch:
            last_epoch = node.log.epochs[-1][0] if node.log.epochs else -1
            end = LogEnd(last_epoch, len(node.log.entries))
            ends.on_told(broker, partition, leader_epoch=partition.leader_epoch, end=end)
    return _commit(decided, state, decide_recoveries(state, ends))


def _commit(before: Decided, state: ControllerState, decision: Decision[Any]) -> Decided:
    for record in decision.records:
        state.replay(record, state.next_offset)
    after = machines.rest_controller(state, before=before)
    if after.leader_epoch < before.leader_epoch or after.partition_epoch < before.partition_epoch:
        raise Violation(f"I-30: an epoch fell from {before} to {after}")
    if after.leader_epoch > before.leader_epoch and after.partition_epoch == before.partition_epoch:
        raise Violation(f"I-30: a leader epoch rose alone, from {before} to {after}")
    if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
        raise Violation(f"I-30: the leader changed within an epoch, from {before} to {after}")
    return after
