"""Consume, transform, produce: each batch of records and its results in one transaction.

The offsets of the records are committed with the records produced from them. A reader of committed
transactions therefore gets each result once, whatever fails.

    async for batch in ConsumeTransformProduce(consumer, producer):
        async with batch as records:
            for record in records:
                await producer.send("bills", transform(record.value), key=record.key)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, Protocol

from strandline._core.transaction_state import BEGIN, Phase, code_of
from strandline._net.arguments import whole
from strandline.errors import (
    AbortableTransactionError,
    CommitFailed,
    ConfigurationError,
    FatalTransactionError,
    WrongTransactionState,
    describe,
)
from strandline.types import Key, Value
from strandline_proto import errors as wire

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from strandline._core.transaction_state import TransactionState
    from strandline._reading.positions import Taken
    from strandline.consumer import Consumer
    from strandline.producer import Producer
    from strandline.types import ConsumerRecord, TopicPartition

Found = dict["TopicPartition", list["ConsumerRecord[Any, Any]"]]

_MOVED_ON: Final = frozenset(
    {
        wire.UnknownMemberId.code,
        wire.IllegalGeneration.code,
        wire.RebalanceInProgress.code,
        wire.FencedMemberEpoch.code,
        wire.StaleMemberEpoch.code,
    }
)
"""Codes of a group that has given the partitions to others, or is about to."""


class Clients(Protocol):
    """The calls of a consumer and a producer of one loop; the blocking ones never wait."""

    @property
    def state(self) -> TransactionState: ...
    def note(self, text: str, error: str) -> None: ...
    async def poll(self, max_records: int | None) -> tuple[Found, Taken]: ...
    async def still_has(self, taken: Taken) -> bool: ...
    async def give_back(self, taken: Taken) -> None: ...
    async def begin(self) -> None: ...
    async def send_offsets(self, taken: Taken) -> None: ...
    async def commit(self) -> None: ...
    async def abort(self, error: BaseException | None) -> None: ...


class Steps:
    """The order of the calls, for both forms."""

    def __init__(self, clients: Clients, max_records: int | None) -> None:
        if max_records is not None:
            whole("max_records", max_records, 1)
        self.clients = clients
        self._max_records = max_records
        self._unfinished: Taken | None = None
        """Records of a batch whose block has not ended."""

    async def next(self) -> tuple[Found, Taken]:
        """Polls for the next batch, once the transaction of the last one is over."""
        clients = self.clients
        if self._unfinished is not None:
            raise WrongTransactionState(
                "the last batch was not worked on, or its block has not ended: enter each batch "
                "with `with`, and ask for the next one after its end"
            )
        if clients.state.phase is Phase.COMMIT_UNKNOWN:
            await clients.commit()
        elif clients.state.is_to_abort:
            await clients.abort(None)
        clients.state.require(BEGIN)
        found, taken = await clients.poll(self._max_records)
        self._unfinished = taken
        return found, taken

    async def begin(self) -> None:
        """Begins the transaction of a batch."""
        await self.clients.begin()

    async def end(self, taken: Taken, error: BaseException | None) -> bool:
        """Ends the transaction of a batch; True if it is committed, False if it is aborted.

        Raises the error of a transaction that failed for another reason than a rebalance.
        """
        self._unfinished = None
        if error is not None:
            await self._abort(taken, error)
            return False
        try:
            await self._send_offsets(taken)
            await self.clients.commit()
        except AbortableTransactionError as failed:
            await self._abort(taken, failed)
            if code_of(failed) not in _MOVED_ON and not isinstance(failed.cause, CommitFailed):
                raise
            self.clients.note(
                "a transaction was aborted, because its group has given the partitions to others",
                describe(failed),
            )
            return False
        except BaseException as failed:
            if self.clients.state.is_to_abort:  # the commit has not begun
                await self._abort(taken, failed)
            raise
        return True

    async def _send_offsets(self, taken: Taken) -> None:
        if not await self.clients.still_has(taken):
            self.clients.state.fail(CommitFailed("the consumer has lost the partitions meanwhile"))
        await self.clients.send_offsets(taken)

    async def _abort(self, taken: Taken, error: BaseException) -> None:
        if self.clients.state.is_to_abort:
            await self.clients.abort(error)
        if not isinstance(error, FatalTransactionError):
            await self.clients.give_back(taken)


class _AsyncClients:
    def __init__(self, consumer: Consumer[Any, Any], producer: Producer[Any, Any]) -> None:
        self._consumer = consumer
        self._producer = producer

    @property
    def state(self) -> TransactionState:
        return self._producer._transacting("ConsumeTransformProduce")[0].state

    def note(self, text: str, error: str) -> None:
        self._producer._parts()[0].runtime.log.info(text, error=error)

    async def poll(self, max_records: int | None) -> tuple[Found, Taken]:
        found = await self._consumer.getmany(timeout_ms=None, max_records=max_records)
        return found, self._consumer._taken(found)

    async def still_has(self, taken: Taken) -> bool:
        return self._consumer._still_has(taken)

    async def give_back(self, taken: Taken) -> None:
        await self._consumer._return(taken)

    async def begin(self) -> None:
        await self._producer.begin_transaction()

    async def send_offsets(self, taken: Taken) -> None:
        metadata = self._consumer.group_metadata()
        await self._producer.send_offsets_to_transaction(taken.offsets, metadata)

    async def commit(self) -> None:
        await self._producer._ending().commit()

    async def abort(self, error: BaseException | None) -> None:
        await self._producer._ending().abort(error)


def check_clients(consumer: Consumer[Any, Any], producer: Producer[Any, Any]) -> None:
    """Refuses options with which a record could count twice, or not at all."""
    options = consumer._options
    for is_wrong, what in (
        (options.group_id is None, "a consumer with a group_id"),
        (options.enable_auto_commit, "a consumer with enable_auto_commit=False"),
        (not options.is_read_committed, "a consumer with isolation_level='read_committed'"),
        (producer._transactional_id is None, "a producer with a transactional_id"),
    ):
        if is_wrong:
            raise ConfigurationError(f"ConsumeTransformProduce needs {what}")


class TransactionalBatch(Generic[Key, Value]):
    """Records of one poll, and the transaction of what is made of them.

    `async with batch as records` begins the transaction and returns the records. The end of the
    block sends the offsets and commits; an error in the block aborts. After an abort, the consumer
    returns to the committed offsets, and the records come again.
    """

    def __init__(self, steps: Steps, found: Found, taken: Taken) -> None:
        self._steps = steps
        self._taken = taken
        self.by_partition: Mapping[TopicPartition, list[ConsumerRecord[Key, Value]]] = found
        self.is_committed: bool | None = None
        """None until the block has ended; False after an abort, by a rebalance for example."""

    @property
    def records(self) -> list[ConsumerRecord[Key, Value]]:
        """All records, partition by partition."""
        return [record for records in self.by_partition.values() for record in records]

    async def __aenter__(self) -> list[ConsumerRecord[Key, Value]]:
        await self._steps.begin()
        return self.records

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_committed = await self._steps.end(self._taken, error)


class ConsumeTransformProduce(Generic[Key, Value]):
    """The batches of a consumer, each with a transaction of a producer; an asynchronous iterator.

    A rebalance ends the transaction before partitions move to others: it runs in the poll for the
    next batch. If the group has given the partitions to others already, the transaction is aborted,
    and the iteration goes on. A producer that another one has fenced ends the iteration with
    ProducerFenced. Any other failed transaction is aborted and raises its error; the iteration may
    go on after it.
    """

    def __init__(
        self,
        consumer: Consumer[Key, Value],
        producer: Producer[Any, Any],
        *,
        max_records: int | None = None,
    ) -> None:
        check_clients(consumer, producer)
        self._steps = Steps(_AsyncClients(consumer, producer), max_records)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TransactionalBatch[Key, Value]:
        return TransactionalBatch(self._steps, *await self._steps.next())
