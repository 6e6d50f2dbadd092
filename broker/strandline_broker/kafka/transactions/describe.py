"""ListTransactions, DescribeTransactions and DescribeProducers (KIP-664)."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from strandline_broker.hosts.serving.transactions import open_since_ms
from strandline_broker.hosts.serving.turns import Turns, in_turns
from strandline_broker.kafka.codec import answer_of
from strandline_broker.kafka.groups.bounds import LISTED_MAX, check_count, check_topics
from strandline_broker.kafka.groups.errors import code_of, text_of
from strandline_proto.errors import NONE, UnknownTopicOrPartition, WireError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.transactions.transaction import Transaction
    from strandline_broker.hosts.serving.producers.describe import ProducersService
    from strandline_broker.hosts.serving.transactions import TransactionsService
    from strandline_broker.kafka.request import Request

DURATION_SINCE: Final = 1
PATTERN_SINCE: Final = 2
_ANY_DURATION: Final = -1


class TransactionsInfoCalls:
    def __init__(self, transactions: TransactionsService) -> None:
        self._transactions = transactions
        self._listed = answer_of("ListTransactions")
        self._described = answer_of("DescribeTransactions")

    async def ListTransactions(self, request: Request, message: Any) -> Any:
        check_count(len(message.producer_id_filters), "producer ids", LISTED_MAX)
        try:
            found = await self._transactions.list_transactions(
                message.state_filters,
                message.producer_id_filters,
                duration_ms=(
                    message.duration_filter if request.version >= DURATION_SINCE else _ANY_DURATION
                ),
                pattern=(
                    message.transactional_id_pattern or ""
                    if request.version >= PATTERN_SINCE
                    else ""
                ),
            )
        except WireError as error:
            return self._listed(
                error_code=code_of(error), unknown_state_filters=[], transaction_states=[]
            )
        return self._listed(
            error_code=code_of(found.error),
            unknown_state_filters=found.unknown_states,
            transaction_states=[
                self._listed.TransactionState(
                    transactional_id=name,
                    producer_id=transaction.producer_id,
                    transaction_state=transaction.state.text,
                )
                async for name, transaction in in_turns(found.transactions)
            ],
        )

    async def DescribeTransactions(self, request: Request, message: Any) -> Any:
        names = message.transactional_ids
        check_count(len(names), "transactional ids", LISTED_MAX)
        states = []
        async for name, found in self._transactions.describe_transactions(names):
            if isinstance(found, WireError):
                request.errors.append(code_of(found))
                states.append(self._refused(name, found))
            else:
                states.append(self._state(name, found))
        return self._described(transaction_states=states)

    def _refused(self, name: str, error: WireError) -> Any:
        return self._described.TransactionState(
            error_code=code_of(error),
            transactional_id=name,
            transaction_state="",
            transaction_timeout_ms=0,
            transaction_start_time_ms=0,
            producer_id=-1,
            producer_epoch=-1,
            topics=[],
        )

    def _state(self, name: str, transaction: Transaction) -> Any:
        new = self._described.TransactionState
        return new(
            error_code=NONE,
            transactional_id=name,
            transaction_state=transaction.state.text,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=open_since_ms(transaction),
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[
                new.TopicData(topic=topic, partitions=[each.partition for each in partitions])
                for topic, partitions in groupby(transaction.partitions, lambda each: each.topic)
            ],
        )


class DescribeProducersCalls:
    def __init__(self, producers: ProducersService, metadata: MetadataCache) -> None:
        self._producers = producers
        self._metadata = metadata
        self._answer = answer_of("DescribeProducers")

    async def DescribeProducers(self, request: Request, message: Any) -> Any:
        check_topics(message.topics, (topic.partition_indexes for topic in message.topics))
        view, turns, new = self._metadata.view, Turns(), self._answer.TopicResponse
        topics = []
        for topic in message.topics:
            topic_id = view.ids_by_name.get(topic.name)
            partitions = []
            for index in topic.partition_indexes:
                try:
                    if topic_id is None:
                        raise UnknownTopicOrPartition(f"there is no topic {topic.name!r}")
                    producers = await self._producers.describe((topic_id, index), turns)
                except WireError as error:
                    request.errors.append(code_of(error))
                    partitions.append(
                        new.PartitionResponse(
                            partition_index=index,
                            error_code=code_of(error),
                            error_message=text_of(error),
                            active_producers=[],
                        )
                    )
                    continue
                states = [state async for state in in_turns(self._states(producers))]
                partitions.append(
                    new.PartitionResponse(
                        partition_index=index,
                        error_code=NONE,
                        error_message=None,
                        active_producers=states,
                    )
                )
            topics.append(new(name=topic.name, partitions=partitions))
        return self._answer(topics=topics)

    def _states(self, producers: list[Any]) -> Iterator[Any]:
        new = self._answer.TopicResponse.PartitionResponse.ProducerState
        for each in producers:
            yield new(
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                last_sequence=each.last_sequence,
                last_timestamp=each.last_timestamp,
                coordinator_epoch=each.coordinator_epoch,
                current_txn_start_offset=each.txn_start_offset,
            )
