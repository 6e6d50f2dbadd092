"""Requests about transactional ids: of producers, of partitions' leaders, of administrators.

Everything here is plain data, and each wire protocol translates it. A request for an id is answered
by the id's coordinator; another broker answers 16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.core.coordination.shard import ShardState
from strandline_broker.core.groups.consumer.regular_expressions import Re2Matcher
from strandline_broker.core.groups.group_ids import check_group_id
from strandline_broker.core.internal_topics import CONSUMER_OFFSETS
from strandline_broker.core.transactions.commands import (
    NO_PRODUCER_ID_LEFT,
    AddPartitions,
    Described,
    DescribeTransaction,
    EndTransaction,
    InitProducer,
    Listed,
    ListTransactions,
    PartitionsAdded,
    Producer,
    VerifyPartitions,
)
from strandline_broker.core.transactions.transaction import (
    AT_REST,
    NO_PRODUCER_EPOCH,
    WITHOUT_BUMP,
    TransactionState,
    TxnPartition,
)
from strandline_broker.hosts.serving.turns import ANSWERED_MAX, Turns, in_turns
from strandline_proto.errors import (
    CoordinatorNotAvailable,
    InvalidRequest,
    OperationNotAttempted,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import NO_PRODUCER_ID
from strandline_proto.java_hash import partition_for
from strandline_runtime.milliseconds import wall_ms

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.core.transactions.commands import Command, Reply
    from strandline_broker.core.transactions.transaction import Transaction
    from strandline_broker.hosts.coordination.registry import Shards
    from strandline_broker.hosts.coordination.waiting import Asked
    from strandline_broker.hosts.member.producer_ids import ProducerIds
    from strandline_broker.hosts.transactions.transaction_shard import TransactionShard
    from strandline_proto.ids import ProducerEpoch, ProducerId
    from strandline_runtime.runtime import Clock

PRODUCER_IDS_S: Final = 10.0
"""Longest wait for producer ids of the controller."""
TRIES: Final = 3
AT_ONCE: Final = 100
"""Ids between two turns of other calls."""
_NOT_ATTEMPTED: Final = OperationNotAttempted(
    "another partition of the request is refused, so this one was not added"
)
_TOO_MANY: Final = InvalidRequest(
    f"the ids before this one have more than {ANSWERED_MAX} partitions: ask for fewer at a time"
)


class Addition(NamedTuple):
    """Partitions to add to one transaction, or to verify. An error stands for itself."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    partitions: tuple[TxnPartition | WireError, ...]
    version: int = WITHOUT_BUMP
    """Version of the client's transactions: 2 if a partition's leader adds the partitions."""
    verify_only: bool = False
    all_or_none: bool = False
    """True: nothing is added if one partition is refused, as in requests of Kafka's clients."""
    waits: bool = False
    """True: the answer waits a short time while the transaction before is being completed."""


class ListedTransactions(NamedTuple):
    transactions: list[tuple[str, Transaction]]
    """Sorted by id."""
    unknown_states: list[str]
    """State filters that name no state."""
    error: WireError | None
    """The error of a shard that cannot be asked now; its ids are missing."""


class TransactionsService:
    def __init__(
        self,
        clock: Clock,
        shards: Shards[TransactionShard],
        metadata: MetadataCache,
        producer_ids: ProducerIds,
    ) -> None:
        self._clock = clock
        self._shards = shards
        self._metadata = metadata
        self._producer_ids = producer_ids

    # Producers

    async def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        producer_id: ProducerId = NO_PRODUCER_ID,
        producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    ) -> Producer:
        """Returns the producer's id and epoch from now on; those of the call are the ones that it
        has, or -1. Raises WireError.
        """
        if (producer_id == NO_PRODUCER_ID) != (producer_epoch == NO_PRODUCER_EPOCH):
            raise InvalidRequest(
                f"producer id {producer_id} with epoch {producer_epoch}: a new producer has -1 for"
                " both"
            )
        command = InitProducer(
            transactional_id=transactional_id,
            timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        reply = await self._decided(command, transactional_id)
        assert isinstance(reply, Producer), reply
        return reply

    async def end(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        *,
        is_commit: bool,
        version: int,
    ) -> Producer:
        """Ends the transaction; returns the producer's id and epoch for the next one. Raises
        WireError.
        """
        command = EndTransaction(transactional_id, producer_id, producer_epoch, is_commit, version)
        reply = await self._decided(command, transactional_id)
        assert isinstance(reply, Producer), reply
        return reply

    async def add_partitions(
        self, additions: Sequence[Addition]
    ) -> list[WireError | tuple[WireError | None, ...]]:
        """Returns for each addition the error of the whole transaction, or the result for each
        partition in its order. All are decided before the first answer is awaited.
        """
        asked: list[tuple[Asked[Reply] | WireError | None, list[WireError | None]]] = []
        async for addition in in_turns(additions, AT_ONCE):
            refused = [self._why_not(each) for each in addition.partitions]
            asked.append((self._add(addition, refused), refused))
        results: list[WireError | tuple[WireError | None, ...]] = []
        for answer, refused in asked:
            reply: Reply = answer if isinstance(answer, WireError) else None
            if answer is not None and not isinstance(answer, WireError):
                reply = await answer.answered()
            if isinstance(reply, WireError):
                results.append(reply)
                continue
            decided = iter(reply.errors) if isinstance(reply, PartitionsAdded) else iter(())
            results.append(tuple([each or next(decided, _NOT_ATTEMPTED) for each in refused]))
        return results

    async def add_offsets(
        self,
        transactional_id: str,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        group_id: str,
    ) -> None:
        """Adds the partition of a group's offsets, for a client of version 1. Raises WireError."""
        check_group_id(group_id)
        topic = self._metadata.view.topic_named(CONSUMER_OFFSETS)
        if topic is None:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS} is not made yet; try again soon")
        where = TxnPartition(CONSUMER_OFFSETS, partition_for(group_id, len(topic.partitions)))
        addition = Addition(transactional_id, producer_id, producer_epoch, (where,), waits=True)
        (result,) = await self.add_partitions([addition])
        for error in (result,) if isinstance(result, WireError) else result:
            if error is not None:
                raise error

    async def _decided(self, command: InitProducer | EndTransaction, name: str) -> Reply:
        """Returns the answer, after the broker has got more producer ids if it must."""
        for _ in range(TRIES):
            reply = await self._shards.of(name).ask(command).answered()
            if isinstance(reply, WireError):
                raise reply
            if reply is not NO_PRODUCER_ID_LEFT:
                return reply
            try:
                await self._producer_ids.until_some(PRODUCER_IDS_S)
            except WireError as error:
                raise CoordinatorNotAvailable(str(error)) from error
        raise CoordinatorNotAvailable("other producers have taken all new producer ids; try again")

    def _add(
        self, addition: Addition, refused: Sequence[WireError | None]
    ) -> Asked[Reply] | WireError | None:
        """Asks for the partitions that are not refused; None: there is none to ask for."""
        partitions = tuple(
            each
            for each, error in zip(addition.partitions, refused, strict=True)
            if error is None and isinstance(each, TxnPartition)
        )
        if not partitions or (addition.all_or_none and len(partitions) < len(refused)):
            return None
        producer = (addition.transactional_id, addition.producer_id, addition.producer_epoch)
        command: Command = (
            VerifyPartitions(*producer, partitions)
            if addition.verify_only
            else AddPartitions(*producer, partitions, addition.version, addition.waits)
        )
        try:
            return self._shards.of(addition.transactional_id).ask(command)
        except WireError as error:
            return error

    def _why_not(self, partition: TxnPartition | WireError) -> WireError | None:
        """The reason why the partition cannot take part; markers could not reach it."""
        if isinstance(partition, WireError):
            return partition
        topic = self._metadata.view.topic_named(partition.topic)
        if topic is not None and partition.partition in topic.partitions:
            return None
        return UnknownTopicOrPartition(
            f"partition {partition.topic}:{partition.partition} is not known to the coordinator"
        )

    # Administrators

    async def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        duration_ms: int = -1,
        pattern: str = "",
    ) -> ListedTransactions:
        """Returns the ids that match all filters; an empty filter matches all. Raises
        InvalidRegularExpression.
        """
        known = {state.text: state for state in TransactionState}
        wanted = list(states)
        in_states = {known[name] for name in wanted if name in known}
        unknown = [name for name in wanted if name not in known]
        of_producers = set(producer_ids)
        matcher = Re2Matcher()
        if pattern:
            matcher.check(pattern)
        now_ms = wall_ms(self._clock)
        found: list[tuple[str, Transaction]] = []
        error: WireError | None = None
        async for reply in self._listed():
            if isinstance(reply, WireError):
                error = reply
                continue
            assert isinstance(reply, Listed), reply
            async for name, each in in_turns(reply.transactions.items()):
                if (
                    (not wanted or each.state in in_states)
                    and (not of_producers or each.producer_id in of_producers)
                    and (duration_ms < 0 or _is_open_for(each, now_ms) > duration_ms)
                    and (not pattern or matcher.matching(pattern, (name,)))
                ):
                    found.append((name, each))
        found.sort(key=lambda listed: listed[0])
        return ListedTransactions(found, unknown, error)

    async def _listed(self) -> AsyncIterator[Reply]:
        """The ids of each shard that is not idle; all shards are asked before the first answer is
        awaited.
        """
        shards = self._shards.applications()
        present = [s for s in shards if s.machine.state is not ShardState.INACTIVE]
        asked = [shard.ask(ListTransactions()) async for shard in in_turns(present, every=1)]
        for answer in asked:
            yield await answer.answered()

    async def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> AsyncIterator[tuple[str, Transaction | WireError]]:
        """Yields each id's transaction, or the reason for its absence."""
        turns, room = Turns(AT_ONCE), ANSWERED_MAX
        for name in transactional_ids:
            await turns.took()
            try:
                reply = await self._shards.of(name).ask(DescribeTransaction(name)).answered()
            except WireError as error:
                reply = error
            if isinstance(reply, WireError):
                yield name, reply
                continue
            assert isinstance(reply, Described), reply
            room -= len(reply.transaction.partitions)
            yield name, reply.transaction if room >= 0 else _TOO_MANY


def open_since_ms(transaction: Transaction) -> int:
    """The wall-clock time at which the open transaction began; -1 if none is open."""
    return -1 if transaction.state in AT_REST else transaction.started_ms


def _is_open_for(transaction: Transaction, now_ms: int) -> int:
    """The age of the open transaction in milliseconds; -1 if none is open."""
    since_ms = open_since_ms(transaction)
    return -1 if since_ms < 0 else max(now_ms - since_ms, 0)
