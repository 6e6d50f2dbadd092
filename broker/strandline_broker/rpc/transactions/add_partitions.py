"""AddPartitionsToTxn: partitions' leaders add or verify partitions, those of many producers at
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline_broker.core.transactions.transaction import WITH_BUMP, TxnPartition
from strandline_broker.hosts.serving.transactions import Addition
from strandline_proto.errors import UnknownTopicId, WireError
from strandline_proto.ids import ProducerEpoch, ProducerId, TopicId, topic_id_text
from strandline_proto.v1 import transactions_pb2

if TYPE_CHECKING:
    from strandline_broker.core.metadata_cache import MetadataCache, MetadataView
    from strandline_broker.hosts.serving.transactions import TransactionsService


class AddPartitionsRpc:
    def __init__(self, transactions: TransactionsService, metadata: MetadataCache) -> None:
        self._transactions = transactions
        self._metadata = metadata

    async def AddPartitionsToTxn(
        self, request: transactions_pb2.AddPartitionsToTxnRequest, context: Any
    ) -> transactions_pb2.AddPartitionsToTxnResponse:
        view = self._metadata.view
        additions = [_addition(view, each) for each in request.transactions]
        results = await self._transactions.add_partitions(additions)
        response = transactions_pb2.AddPartitionsToTxnResponse()
        for asked, result in zip(request.transactions, results, strict=True):
            told = response.results.add(transactional_id=asked.transactional_id)
            if isinstance(result, WireError):
                told.error_code, told.error_message = result.code, str(result)
                continue
            errors = iter(result)
            for topic in asked.topics:
                topic_result = told.topics.add(topic_id=topic.topic_id)
                for partition in topic.partitions:
                    added = topic_result.partitions.add(partition=partition)
                    if (error := next(errors)) is not None:
                        added.error_code, added.error_message = error.code, str(error)
        return response


def _addition(
    view: MetadataView, asked: transactions_pb2.AddPartitionsToTxnTransaction
) -> Addition:
    partitions: list[TxnPartition | WireError] = []
    for topic in asked.topics:
        known = view.topic(TopicId(topic.topic_id))
        partitions += [
            TxnPartition(known.name, partition)
            if known is not None
            else UnknownTopicId(
                f"no topic with id {topic_id_text(topic.topic_id)} is known to the coordinator"
            )
            for partition in topic.partitions
        ]
    return Addition(
        asked.transactional_id,
        ProducerId(asked.producer_id),
        ProducerEpoch(asked.producer_epoch),
        tuple(partitions),
        version=WITH_BUMP,
        verify_only=asked.verify_only,
    )
