"""DescribeProducers and AbortTransaction: an administrator's calls to the leaders of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.hosts.serving.turns import ANSWERED_MAX, Turns
from strandline_proto.errors import WireError
from strandline_proto.v1 import transactions_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.common.fetch_messages import Key
    from strandline_broker.hosts.serving.producers.describe import ProducersService
    from strandline_broker.hosts.serving.producers.markers import MarkersService


class PartitionProducersRpc:
    def __init__(self, producers: ProducersService, markers: MarkersService) -> None:
        self._producers = producers
        self._markers = markers

    async def DescribeProducers(
        self, request: transactions_pb2.DescribeProducersRequest, context: Any
    ) -> transactions_pb2.DescribeProducersResponse:
        response, turns = transactions_pb2.DescribeProducersResponse(), Turns()
        left = ANSWERED_MAX
        for topic in request.topics:
            results = response.topics.add(topic_id=topic.topic_id)
            for index in topic.partitions:
                result = results.partitions.add(partition=index)
                await self._describe((topic.topic_id, index), result, turns, left)
                left -= len(result.active_producers)
        return response

    async def _describe(
        self,
        key: Key,
        result: transactions_pb2.DescribeProducersPartition,
        turns: Turns,
        at_most: int,
    ) -> None:
        try:
            await turns.took()
            described = await self._producers.describe(key, turns, at_most)
        except WireError as error:
            result.error_code, result.error_message = error.code, str(error)
            return
        for each in described:
            await turns.took()
            result.active_producers.add(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.txn_start_offset,
            )

    async def AbortTransaction(
        self, request: transactions_pb2.AbortTransactionRequest, context: Any
    ) -> transactions_pb2.AbortTransactionResponse:
        try:
            await self._markers.abort(
                (request.topic_id, request.partition),
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                coordinator_epoch=request.coordinator_epoch,
            )
        except WireError as error:
            return transactions_pb2.AbortTransactionResponse(
                error_code=error.code, error_message=str(error)
            )
        return transactions_pb2.AbortTransactionResponse()
