"""The conditions under which a fenced broker may serve again (I-83, I-94).

The broker must have applied both its registration and the record that fenced it last, so that it
knows that it leads nothing. Both offsets are fixed, so a busy log cannot move the condition away
(P-65).
"""

from dataclasses import replace

from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import BrokerRegistrationChangeRecord
from strandline_broker.core.controller.log.state import Broker, ControllerState
from strandline_broker.core.controller.partitions.election import lead_again
from strandline_broker.core.controller.partitions.reassignment import completions
from strandline_proto.ids import BrokerEpoch, BrokerId, MetadataOffset


def may_unfence(broker: Broker, applied: MetadataOffset) -> bool:
    return (
        broker.fenced
        and not broker.in_controlled_shutdown
        and applied >= broker.epoch
        and applied >= broker.fencing_offset
    )


def decide_unfence(
    state: ControllerState,
    broker_id: BrokerId,
    broker_epoch: BrokerEpoch,
    applied: MetadataOffset,
) -> Decision[bool]:
    """Unfence the broker and elect leaders for the leaderless partitions that it can lead, in one
    batch.
    """
    broker = state.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch or not may_unfence(broker, applied):
        return Decision((), answer=False)
    brokers = {**state.brokers, broker_id: replace(broker, fenced=False)}
    mark = BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=broker_epoch, fenced=False
    )
    elections = lead_again(state, broker_id, brokers)
    return Decision((mark, *elections, *completions(state, elections, brokers)), answer=True)
