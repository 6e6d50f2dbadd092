"""Blocks of producer ids: each id is assigned once in the life of the cluster. None of them is an
id that producers choose themselves (I-59).
"""

from typing import Final

from strandline_broker.core.controller.brokers.registration import check_broker_epoch
from strandline_broker.core.controller.log.decision import Decision
from strandline_broker.core.controller.log.records import ProducerIdsRecord
from strandline_broker.core.controller.log.state import ControllerState
from strandline_proto.errors import UnknownServerError
from strandline_proto.ids import CHOSEN_PRODUCER_IDS, BrokerEpoch, BrokerId, ProducerId

BLOCK_LEN: Final = 1000


def decide_producer_ids(
    state: ControllerState, broker_id: BrokerId, broker_epoch: BrokerEpoch
) -> Decision[ProducerId]:
    """Assign a block of BLOCK_LEN ids; the answer is the first. A block whose answer is lost is
    never assigned again.

    Raises UnknownServerError if the block would overlap the ids that producers choose.
    """
    check_broker_epoch(state, broker_id, broker_epoch)
    start = state.next_producer_id
    if start + BLOCK_LEN > CHOSEN_PRODUCER_IDS.start:
        raise UnknownServerError(
            f"no producer ids are left: the next block would begin at {start}, and those from"
            f" {CHOSEN_PRODUCER_IDS.start} on are not the controller's to give"
        )
    record = ProducerIdsRecord(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        next_producer_id=ProducerId(start + BLOCK_LEN),
    )
    return Decision((record,), answer=start)
