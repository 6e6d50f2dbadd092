"""InitProducerId with a transactional id, and EndTxn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.transactions.transaction import WITH_BUMP
from strandline_proto.errors import WireError
from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId
from strandline_proto.v1 import metadata_pb2, transactions_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.serving.transactions import TransactionsService


class TransactionProducersRpc:
    def __init__(self, transactions: TransactionsService) -> None:
        self._transactions = transactions

    async def InitProducerId(
        self, request: metadata_pb2.InitProducerIdRequest, context: Any
    ) -> metadata_pb2.InitProducerIdResponse:
        try:
            producer = await self._transactions.init_producer_id(
                request.transactional_id,
                request.timeout_ms,
                ProducerId(request.producer_id),
                ProducerEpoch(request.producer_epoch),
            )
        except WireError as error:
            return metadata_pb2.InitProducerIdResponse(
                error_code=error.code,
                error_message=str(error),
                producer_id=NO_PRODUCER_ID,
                producer_epoch=-1,
            )
        return metadata_pb2.InitProducerIdResponse(
            producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )

    async def EndTxn(
        self, request: transactions_pb2.EndTxnRequest, context: Any
    ) -> transactions_pb2.EndTxnResponse:
        try:
            producer = await self._transactions.end(
                request.transactional_id,
                ProducerId(request.producer_id),
                ProducerEpoch(request.producer_epoch),
                is_commit=request.committed,
                version=WITH_BUMP,
            )
        except WireError as error:
            return transactions_pb2.EndTxnResponse(
                error_code=error.code,
                error_message=str(error),
                producer_id=NO_PRODUCER_ID,
                producer_epoch=-1,
            )
        return transactions_pb2.EndTxnResponse(
            producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
        )
