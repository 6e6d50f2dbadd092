"""InitProducerId: an id and epoch for an idempotent producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.producer_ids import init_producer_id
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.transactions import Transactions
from strandline_proto.errors import (
    NONE,
    CoordinatorLoadInProgress,
    InvalidRequest,
    WireError,
)
from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from strandline_broker.kafka.request import Request
    from strandline_broker.kafka.services import Services

NO_EPOCH: Final = -1
NAMES_ITS_ID: Final = 3
"""First version with which a transactional producer has its epoch raised (KIP-360)."""


class ProducerIdsCalls:
    def __init__(self, services: Services) -> None:
        self._ids = services.producer_ids
        self._transactions = Transactions(services.runtime)

    async def InitProducerId(self, request: Request, message: Any) -> Any:
        answer = answer_of("InitProducerId")
        code, producer_id, epoch = await self._init(request, message)
        return answer(
            throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch
        )

    async def _init(self, request: Request, message: Any) -> tuple[int, int, int]:
        """Returns the error code, the id and the epoch.

        A producer without transactions gets a new id, whatever id it names: one client names the
        id 0 with epoch 0 in every program. Two producers with one id would share sequence numbers,
        and the records of the second would be dropped as duplicates.
        """
        own_id, own_epoch = NO_PRODUCER_ID, NO_EPOCH
        if request.version >= NAMES_ITS_ID:
            own_id, own_epoch = message.producer_id, message.producer_epoch
        try:
            if message.transactional_id is not None:
                raise self._transactions.refuse(request, message.transactional_id)
            if (own_id == NO_PRODUCER_ID) != (own_epoch == NO_EPOCH):
                raise InvalidRequest(
                    f"producer id {own_id} with epoch {own_epoch}: both are -1, or none is"
                )
            # The transaction timeout of the request means nothing without a transaction.
            producer_id, epoch = await init_producer_id(
                self._ids,
                ProducerId(NO_PRODUCER_ID),
                ProducerEpoch(NO_EPOCH),
                transactional_id=None,
                timeout_ms=0,
            )
        except WireError as error:
            # Java's producer ends at any other error that Kafka calls retriable.
            code = CoordinatorLoadInProgress.code if error.retriable else error.code
            return code, NO_PRODUCER_ID, NO_EPOCH
        return NONE, producer_id, epoch
