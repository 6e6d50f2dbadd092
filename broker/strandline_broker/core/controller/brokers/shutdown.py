"""Controlled shutdown: leaderships move away before the broker stops (I-84)."""

from collections.abc import Mapping
from dataclasses import replace

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import BrokerRegistrationChangeRecord
from strandline_broker.core.controller.log.state import ControllerState
from strandline_broker.core.controller.partitions.election import leave_all
from strandline_broker.core.controller.partitions.reassignment import completions
from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset


def decide_shutdown(
    state: ControllerState, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> Decision[bool]:
    """Begin the controlled shutdown of this incarnation; a repetition changes nothing (P-65).

    A fenced broker leads nothing already, so it may stop without records.
    """
    broker = state.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or not broker.eligible:
        return Decision((), answer=False)
    brokers = {**state.brokers, broker_id: replace(broker, in_controlled_shutdown=True)}
    changes = leave_all(state, broker_id, brokers, lost=False)
    changes += completions(state, changes, brokers)
    # This record is the last of the batch, so its offset, which other brokers must reach, covers
    # the elections.
    mark = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, in_controlled_shutdown=True
    )
    return Decision((*changes, mark), answer=True)


def may_shut_down(
    state: ControllerState,
    broker_id: BrokerId,
    applied: Mapping[BrokerId, MetadataOffset],
) -> bool:
    """True if the broker leads nothing and every live broker knows it.

    `applied` is the offset of the controller's log that each broker has reported as applied.
    """
    broker = state.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return True
    if broker.shutdown_offset is None:
        return False
    # The decision that set the offset moved every leadership, and a stopping broker is never
    # elected.
    assert all(p.leader != broker_id for p in state.hosted_by(broker_id)), (broker, "I-84")
    return all(
        applied.get(b.broker_id, -1) >= broker.shutdown_offset
        for b in state.brokers.values()
        if not b.fenced
    )
