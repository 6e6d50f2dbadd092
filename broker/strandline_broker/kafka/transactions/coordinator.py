"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn: the requests of a producer in a transaction.

AddPartitionsToTxn from version 4 on is a request between brokers, and ours have their own. So a
producer that adds partitions itself keeps the epoch at the end of its transactions. The version of
EndTxn says if the end raises the epoch (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from strandline_broker.core.transactions.transaction import WITH_BUMP, WITHOUT_BUMP, TxnPartition
from strandline_broker.hosts.serving.transactions import Addition
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.bounds import check_topics
from strandline_broker.kafka.transactions.errors import code_of
from strandline_proto.errors import NONE, WireError
from strandline_proto.ids import NO_PRODUCER_ID, ProducerEpoch, ProducerId

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from strandline_broker.hosts.serving.transactions import TransactionsService
    from strandline_broker.kafka.request import Request

RAISES_EPOCH_SINCE: Final = 5
"""First version of EndTxn whose answer has the producer's next epoch."""
_NO_EPOCH: Final = -1


class TransactionCoordinatorCalls:
    def __init__(self, transactions: TransactionsService) -> None:
        self._transactions = transactions
        self._added = answer_of("AddPartitionsToTxn")
        self._offsets_added = answer_of("AddOffsetsToTxn")
        self._ended = answer_of("EndTxn")

    # AddPartitionsToTxn

    async def AddPartitionsToTxn(self, request: Request, message: Any) -> Any:
        topics = message.v3_and_below_topics
        check_topics(topics, (topic.partitions for topic in topics))
        partitions = [
            TxnPartition(topic.name, index) for topic in topics for index in topic.partitions
        ]
        distinct = dict.fromkeys(partitions)
        addition = Addition(
            message.v3_and_below_transactional_id,
            ProducerId(message.v3_and_below_producer_id),
            ProducerEpoch(message.v3_and_below_producer_epoch),
            tuple(distinct),
            version=WITHOUT_BUMP,
            all_or_none=True,
            waits=True,
        )
        (result,) = await self._transactions.add_partitions([addition])
        results = [result] * len(distinct) if isinstance(result, WireError) else result
        errors = dict(zip(distinct, results, strict=True))
        codes = iter([code_of(errors[each], request.version) for each in partitions])
        request.errors += {code_of(each, request.version) for each in results} - {NONE}
        return self._added(results_by_topic_v3_and_below=list(self._results(topics, codes)))

    def _results(self, topics: Sequence[Any], codes: Iterator[int]) -> Iterator[Any]:
        # kafka-python has the elements of both fields under one name, those of version 4 on.
        new = self._added.AddPartitionsToTxnResult.AddPartitionsToTxnTopicResult
        for topic in topics:
            yield new(
                name=topic.name,
                results_by_partition=[
                    new.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=next(codes)
                    )
                    for index in topic.partitions
                ],
            )

    # AddOffsetsToTxn

    async def AddOffsetsToTxn(self, request: Request, message: Any) -> Any:
        code = NONE
        try:
            await self._transactions.add_offsets(
                message.transactional_id,
                ProducerId(message.producer_id),
                ProducerEpoch(message.producer_epoch),
                message.group_id,
            )
        except WireError as error:
            code = code_of(error, request.version)
        return self._offsets_added(error_code=code)

    # EndTxn

    async def EndTxn(self, request: Request, message: Any) -> Any:
        raises_epoch = request.version >= RAISES_EPOCH_SINCE
        try:
            producer = await self._transactions.end(
                message.transactional_id,
                ProducerId(message.producer_id),
                ProducerEpoch(message.producer_epoch),
                is_commit=message.committed,
                version=WITH_BUMP if raises_epoch else WITHOUT_BUMP,
            )
        except WireError as error:
            return self._ended(
                error_code=code_of(error, request.version),
                producer_id=NO_PRODUCER_ID,
                producer_epoch=_NO_EPOCH,
            )
        return self._ended(producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)
