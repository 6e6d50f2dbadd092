"""InitProducerId: an id and epoch for an idempotent or a transactional producer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.producer_ids import init_producer_id
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.transactions.errors import code_of
from strandline_proto.errors import (
    NONE,
    ConcurrentTransactions,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidRequest,
    NotCoordinator,
    WireError,
)
from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from strandline_broker.hosts.member.producer_ids import ProducerIds
    from strandline_broker.hosts.serving.transactions import TransactionsService
    from strandline_broker.kafka.request import Request

NO_EPOCH: Final = -1
NAMES_ITS_ID: Final = 3
"""First version with which a transactional producer has its epoch raised (KIP-360)."""
FENCED_SINCE: Final = 4
"""First version that knows ProducerFenced (KIP-588)."""
_REPEATED: Final = frozenset(
    error.code
    for error in (
        ConcurrentTransactions,
        CoordinatorLoadInProgress,
        CoordinatorNotAvailable,
        NotCoordinator,
    )
)
"""The errors after which Java's transactional producer tries again."""


class ProducerIdsCalls:
    def __init__(self, ids: ProducerIds, transactions: TransactionsService) -> None:
        self._ids = ids
        self._transactions = transactions

    async def InitProducerId(self, request: Request, message: Any) -> Any:
        answer = answer_of("InitProducerId")
        code, producer_id, epoch = await self._init(request, message)
        return answer(
            throttle_time_ms=0, error_code=code, producer_id=producer_id, producer_epoch=epoch
        )

    async def _init(self, request: Request, message: Any) -> tuple[int, int, int]:
        """Returns the error code, the id and the epoch."""
        own_id, own_epoch = NO_PRODUCER_ID, NO_EPOCH
        if request.version >= NAMES_ITS_ID:
            own_id, own_epoch = message.producer_id, message.producer_epoch
        try:
            if (own_id == NO_PRODUCER_ID) != (own_epoch == NO_EPOCH):
                raise InvalidRequest(
                    f"producer id {own_id} with epoch {own_epoch}: both are -1, or none is"
                )
            if message.transactional_id is None:
                return await self._plain()
            producer = await self._transactions.init_producer_id(
                message.transactional_id,
                message.transaction_timeout_ms,
                ProducerId(own_id),
                ProducerEpoch(own_epoch),
            )
        except WireError as error:
            return _code_of(error, request.version, message), NO_PRODUCER_ID, NO_EPOCH
        return NONE, producer.producer_id, producer.producer_epoch

    async def _plain(self) -> tuple[int, int, int]:
        """A producer without transactions gets a new id, whatever id it names: one client names the
        id 0 with epoch 0 in every program. Two producers with one id would share sequence numbers,
        and the records of the second would be dropped as duplicates.

        The transaction timeout of the request means nothing without a transaction.
        """
        producer_id, epoch = await init_producer_id(
            self._ids,
            ProducerId(NO_PRODUCER_ID),
            ProducerEpoch(NO_EPOCH),
            timeout_ms=0,
        )
        return NONE, producer_id, epoch


def _code_of(error: WireError, version: int, message: Any) -> int:
    """Java's producer ends at any other error that Kafka calls retriable."""
    code = code_of(error, version, FENCED_SINCE)
    is_repeated = message.transactional_id is not None and code in _REPEATED
    return CoordinatorLoadInProgress.code if error.retriable and not is_repeated else code
