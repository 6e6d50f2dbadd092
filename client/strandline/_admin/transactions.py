"""Calls about transactions: part of both admins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, TypeVar

from strandline._admin.retrying import Retrying
from strandline._net.arguments import (
    identifier,
    milliseconds,
    one_partition,
    several,
    several_partitions,
    some_of,
    text,
    whole,
)
from strandline._net.coordinator import TRANSACTION
from strandline._net.leaders import Leaders, Question
from strandline.transaction_types import (
    TRANSACTION_STATES,
    ProducerDescription,
    TransactionDescription,
    TransactionListing,
)
from strandline.types import TopicPartition
from strandline_proto.v1 import metadata_pb2, transactions_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from strandline._core.cluster_view import PartitionKey

T = TypeVar("T")
ATTEMPT_S: Final = 2.0
FENCING_TIMEOUT_MS: Final = 60_000
"""Transaction timeout of a producer that only fences: it never has a transaction."""
INT64_MAX: Final = 2**63 - 1


class TransactionAdministration(Retrying):
    """The calls of `Admin` about transactions."""

    async def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: float | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Lists the transactional ids of all coordinators, filtered by what is given.

        `running_longer_than_ms` selects open transactions, `pattern` whole ids by a regular
        expression in RE2's syntax. Raises OperationTimedOut if a live broker does not answer: its
        transactions would be missing.
        """
        longer_ms = -1
        if running_longer_than_ms is not None:
            longer_ms = int(milliseconds("running_longer_than_ms", running_longer_than_ms, 0))
        request = transactions_pb2.ListTransactionsRequest(
            state_filters=some_of("states", states, TRANSACTION_STATES),
            producer_id_filters=[
                whole("producer_ids", each, 0, INT64_MAX)
                for each in several("producer_ids", producer_ids, int)
            ],
            duration_filter_ms=longer_ms,
            transactional_id_pattern="" if pattern is None else text("pattern", pattern),
        )
        answers = await self._ask_every_broker(
            lambda stub: stub.ListTransactions,
            request,
            transactions_pb2.ListTransactionsResponse,
            "not every broker said which transactions it coordinates",
        )
        found = {
            each.transactional_id: TransactionListing(
                each.transactional_id, each.state, each.producer_id, broker_id
            )
            for broker_id, answer in answers.items()
            for each in answer.transactions
        }
        return [found[transactional_id] for transactional_id in sorted(found)]

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Describes state, producer, timeout and partitions of transactional ids.

        Raises TransactionalIdNotFound for an unknown id.
        """
        names = several("transactional_ids", transactional_ids, str)
        return {name: await self._described_transaction(name) for name in names}

    async def _described_transaction(self, name: str) -> TransactionDescription:
        answer = await self._ask_coordinator(
            identifier("transactional_ids", name),
            lambda stub: stub.DescribeTransactions,
            transactions_pb2.DescribeTransactionsRequest(transactional_ids=[name]),
            transactions_pb2.DescribeTransactionsResponse,
            lambda answer: answer.transactions,
            TRANSACTION,
        )
        [found] = answer.transactions
        cluster = self._started().cluster
        await cluster.learn({topic.topic_id for topic in found.topics}, self._timeout_s)
        by_id = cluster.view.by_id
        return TransactionDescription(
            transactional_id=found.transactional_id,
            state=found.state,
            producer_id=found.producer_id,
            producer_epoch=found.producer_epoch,
            timeout_ms=found.timeout_ms,
            start_time_ms=None if found.start_time_ms < 0 else found.start_time_ms,
            partitions=frozenset(
                TopicPartition(
                    by_id[t.topic_id].name if t.topic_id in by_id else t.topic_id.hex(), p
                )
                for t in found.topics
                for p in t.partitions
            ),
            coordinator=found.coordinator_id,
        )

    async def describe_producers(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """Describes the producers that each partition remembers, with their open transactions."""
        keys = await self._keys(several_partitions("partitions", partitions))

        def request(epochs: Mapping[PartitionKey, int]) -> Any:
            request = transactions_pb2.DescribeProducersRequest()
            for topic_id, partition in epochs:
                request.topics.add(topic_id=topic_id, partitions=[partition])
            return request

        question = Question(
            lambda stub: stub.DescribeProducers,
            request,
            transactions_pb2.DescribeProducersResponse,
            lambda found, _: [_producer(each) for each in found.active_producers],
            min(ATTEMPT_S, self._timeout_s),
        )
        leaders = Leaders(self._started())
        found = await leaders.until_answered(
            dict.fromkeys(keys, 0),
            lambda missing, _: leaders.ask(missing, question),
            self._timeout_s,
            "the producers of {} were not described",
        )
        return {tp: found[key] for key, tp in keys.items()}

    async def _keys(self, partitions: list[TopicPartition]) -> dict[PartitionKey, TopicPartition]:
        keys: dict[PartitionKey, TopicPartition] = {}
        for tp in partitions:
            view = await self._started().cluster.topic(tp.topic, self._timeout_s, tp.partition)
            keys[view.topic_id, tp.partition] = tp
        return keys

    async def abort_transaction(
        self,
        partition: TopicPartition | tuple[str, int],
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None = None,
    ) -> None:
        """Ends a hanging transaction of one partition by an abort marker (KIP-664).

        The numbers are those of `describe_producers`. Use it only for a transaction that no
        coordinator knows: the records of an ongoing one would be lost for its readers.
        """
        tp = one_partition("partition", partition)
        [(topic_id, number)] = await self._keys([tp])
        request = transactions_pb2.AbortTransactionRequest(
            topic_id=topic_id,
            partition=number,
            producer_id=whole("producer_id", producer_id, 0, INT64_MAX),
            producer_epoch=whole("producer_epoch", producer_epoch, 0, 2**15 - 1),
            coordinator_epoch=0
            if coordinator_epoch is None
            else whole("coordinator_epoch", coordinator_epoch, 0),
        )
        await self._ask_leader(
            (topic_id, number),
            lambda stub: stub.AbortTransaction,
            request,
            transactions_pb2.AbortTransactionResponse,
            f"the transaction in {tp.topic}:{tp.partition} was not aborted",
        )

    async def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Fences the producers of these ids, and aborts their open transactions.

        Returns the new producer id and epoch of each. No producer uses them; the next one that
        starts with the id gets a newer epoch.
        """
        fenced = {}
        for name in several("transactional_ids", transactional_ids, str):
            request = metadata_pb2.InitProducerIdRequest(
                transactional_id=identifier("transactional_ids", name),
                timeout_ms=FENCING_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            )
            answer = await self._ask_coordinator(
                name,
                lambda stub: stub.InitProducerId,
                request,
                metadata_pb2.InitProducerIdResponse,
                lambda answer: [answer],
                TRANSACTION,
            )
            fenced[name] = answer.producer_id, answer.producer_epoch
        return fenced


def _producer(state: transactions_pb2.ProducerState) -> ProducerDescription:
    start, coordinator_epoch = state.current_txn_start_offset, state.coordinator_epoch
    return ProducerDescription(
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        last_sequence=state.last_sequence,
        last_timestamp_ms=state.last_timestamp,
        coordinator_epoch=None if coordinator_epoch < 0 else coordinator_epoch,
        transaction_start_offset=None if start < 0 else start,
    )


class BlockingTransactionAdministration(ABC):
    """The blocking forms of the calls of `Admin` about transactions."""

    @abstractmethod
    def _call(self, coroutine_of: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Runs the coroutine on the loop of the blocking admin."""

    def list_transactions(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: float | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """Lists the transactional ids of all coordinators, filtered by what is given.

        `running_longer_than_ms` selects open transactions, `pattern` whole ids by a regular
        expression in RE2's syntax.
        """
        return self._call(
            lambda twin: twin.list_transactions(
                states=states,
                producer_ids=producer_ids,
                running_longer_than_ms=running_longer_than_ms,
                pattern=pattern,
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionDescription]:
        """Describes state, producer, timeout and partitions of transactional ids.

        Raises TransactionalIdNotFound for an unknown id.
        """
        return self._call(lambda twin: twin.describe_transactions(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, list[ProducerDescription]]:
        """Describes the producers that each partition remembers, with their open transactions."""
        return self._call(lambda twin: twin.describe_producers(partitions))

    def abort_transaction(
        self,
        partition: TopicPartition | tuple[str, int],
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int | None = None,
    ) -> None:
        """Ends a hanging transaction of one partition by an abort marker (KIP-664).

        Use it only for a transaction that no coordinator knows.
        """
        self._call(
            lambda twin: twin.abort_transaction(
                partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        )

    def fence_producers(self, transactional_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Fences the producers of these ids, and aborts their open transactions.

        Returns the new producer id and epoch of each.
        """
        return self._call(lambda twin: twin.fence_producers(transactional_ids))
