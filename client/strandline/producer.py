"""The producer: sends records and returns acknowledgements.

`send` hands a record over and returns a future of its acknowledgement. `send_and_wait` waits for
the acknowledgement. `send_many` takes an iterable and returns one result.

The producer is idempotent by default: each record is in its partition's log once, in the order of
the calls, across retries and changes of leader (I-59).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic
from weakref import finalize

from strandline._core.transaction_state import TransactionState
from strandline._net.arguments import INT64_MAX, milliseconds, plaintext, text, whole
from strandline._net.arguments import client_id as named
from strandline._net.connections import parse_bootstrap
from strandline._net.coordinator import TRANSACTIONS_TOPIC
from strandline._net.dotted_names import options_of
from strandline._net.option_names import named_options
from strandline._net.session import Session
from strandline._net.time_limit import time_limit
from strandline._producer.accumulator import (
    END,
    NO_HEADERS,
    HandOver,
    as_bytes,
    as_record,
    header_pairs,
)
from strandline._producer.acknowledgement import Acknowledgement, Unheard
from strandline._producer.options import queue_options, record_limit
from strandline._producer.partitioners import partitioner_of
from strandline._producer.send_many import Collector
from strandline._producer.sender import UNDER_WAY, Sender
from strandline._producer.serializing import Serializing
from strandline._producer.transactional import TransactionCalls
from strandline._producer.transactions import Transactions
from strandline.errors import (
    ClientClosed,
    ConfigurationError,
    FlushFailed,
    OperationTimedOut,
    SendManyFailed,
    describe,
)
from strandline.types import Record, RecordMetadata, SendManyResult
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType
    from typing import Self

    from strandline.interceptors import ProducerInterceptor
    from strandline.serialization import Serializer
    from strandline.types import HeadersLike, OnDelivery
    from strandline_runtime.runtime import Runtime

Payload = bytes | bytearray | memoryview
Item = bytes | tuple[bytes | None, bytes | None] | Record
if TYPE_CHECKING:
    from typing_extensions import TypeVar  # typeshed has it, wherever types are checked

    Key = TypeVar("Key", default=Payload)
    Value = TypeVar("Value", default=Payload)
else:
    from typing import TypeVar

    Key, Value = TypeVar("Key"), TypeVar("Value")


class Producer(TransactionCalls, Generic[Key, Value]):
    """Sends records to topics. Use it as an asynchronous context manager.

    Keys and values are bytes, or what `key_serializer` and `value_serializer` take. With a
    `transactional_id`, all records are sent in transactions, which end whole or not at all.
    """

    @named_options
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        acks: int | str = "all",
        enable_idempotence: bool | None = None,
        compression_type: str | None = None,
        linger_ms: float = 0,
        batch_size: int = 256 << 10,
        max_in_flight: int = 5,
        delivery_timeout_ms: float = 120_000,
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = 10_000,
        metadata_max_age_ms: float = 300_000,
        max_request_size: int = 1 << 20,
        max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
        buffer_memory: int = 64 << 20,
        transactional_id: str | None = None,
        transaction_timeout_ms: int = 60_000,
        partitioner: Callable[[bytes, int], int] | str = "murmur2",
        security_protocol: str = "PLAINTEXT",
        client_id: str | None = None,
        interceptors: Iterable[ProducerInterceptor] = (),
        key_serializer: Serializer[Key] | None = None,
        value_serializer: Serializer[Value] | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        self._serializing = Serializing(key_serializer, value_serializer, interceptors) or None
        """None if keys and values are bytes already, and no interceptor sees them."""
        whole("batch_size", batch_size, 1)
        if compression_type is not None:
            text("compression_type", compression_type)
        self._limit = record_limit(
            compression_type, max_request_size, max_decompressed_bytes=max_decompressed_bytes
        )
        self._options = queue_options(
            acks=acks,
            enable_idempotence=enable_idempotence,
            compression_type=compression_type,
            linger_ms=linger_ms,
            batch_size=min(batch_size, self._limit.max_bytes),
            max_in_flight=max_in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            transactional_id=transactional_id,
        )
        self._transactional_id = transactional_id
        whole("transaction_timeout_ms", transaction_timeout_ms, 1)
        self._transaction_timeout_ms = transaction_timeout_ms
        self._transactions: Transactions | None = None
        milliseconds("request_timeout_ms", request_timeout_ms)
        milliseconds("connect_timeout_ms", connect_timeout_ms)
        milliseconds("metadata_max_age_ms", metadata_max_age_ms)
        whole("buffer_memory", buffer_memory, 1, INT64_MAX)
        plaintext(security_protocol)
        self._client_id = named(client_id)
        self._request_timeout_ms = request_timeout_ms
        self._connect_timeout_ms = connect_timeout_ms
        self._metadata_max_age_s = metadata_max_age_ms / 1000
        self._buffer_memory = buffer_memory
        self._partitioner = partitioner_of(partitioner)
        self._runtime = runtime
        self._sender: Sender | None = None
        self._hand_over: HandOver | None = None
        self._session: Session | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Makes a producer from Kafka's dotted option names, such as `bootstrap.servers`.

        Names of this library, and of other libraries for the same option, work too. Text becomes
        the option's type: "true", "5".
        """
        return cls(**options_of("Producer", Producer.__init__, config))

    # Life.

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            await self.stop()
        except FlushFailed:
            if error is None:  # what ended the block matters more; the log has both
                raise

    async def start(self) -> None:
        """Connects. Raises NoBrokerReachable, and leaves no connection behind then.

        With a `transactional_id`, it fences every earlier producer of the id, whose open
        transaction the coordinator aborts. Raises InvalidTransactionTimeout if
        `transaction_timeout_ms` is above the brokers' `transaction.max.timeout.ms`.
        """
        if self._session is not None:
            self._session.require()
            raise ClientClosed("the producer has been started already")
        session = Session("producer", self._bootstrap, self._runtime, self._client_id)
        session.cluster.max_age_s = self._metadata_max_age_s
        if self._transactional_id is not None:  # the first metadata answer then has the topic
            session.cluster.follow(TRANSACTIONS_TOPIC)
        await session.open(self._connect_timeout_ms / 1000, lambda: self._session)
        state = await self._begun(session)
        self._session = session
        if self._serializing is not None:
            self._serializing.log = session.runtime.log
        self._sender = Sender(
            session,
            options=self._options,
            request_timeout_ms=self._request_timeout_ms,
            buffer_memory=self._buffer_memory,
            transaction=state,
        )
        self._hand_over = HandOver(self._sender, partitioner=self._partitioner, limit=self._limit)
        session.on_broken.append(self._hand_over.end)
        # At the latest at the interpreter's exit; nothing that lives on holds the producer itself.
        self._watchdog = finalize(self, self._sender.on_dropped)
        session.tasks.start(self._sender.watch_deadlines(), "deadlines")
        session.tasks.start(self._sender.keep_identity(), "identity")

    async def _begun(self, session: Session) -> TransactionState | None:
        """The state of a transactional producer, once it has its producer id; else None."""
        if self._transactional_id is None:
            return None
        state = TransactionState(self._transactional_id)
        transactions = Transactions(session, state, self._transaction_timeout_ms)
        try:
            await transactions.open(self._request_timeout_ms / 1000)
            if self._session is not None:
                raise ClientClosed("the producer has been started already")
        except BaseException:
            await session.close()
            raise
        self._transactions = transactions
        return state

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Refuses new records, waits for those under way, then closes.

        `stop` waits at most `timeout_ms`, even if every broker is silent (None: until each record's
        own `delivery_timeout_ms`). Records that are not acknowledged by then fail. Raises
        FlushFailed at the end if a record failed and its failure was not reported yet. An open
        transaction is aborted.
        """
        if timeout_ms is not None:
            milliseconds("timeout_ms", timeout_ms, least=0)
        session, sender = self._session, self._sender
        if session is None or sender is None or session.is_elsewhere:
            return
        session.require_own_loop()
        closed = ClientClosed("the producer was closed")
        hand_over, self._hand_over = self._hand_over, None
        if hand_over is not None:  # a record sent during the flush would be lost after it
            hand_over.end(closed)
        try:
            if not session.is_broken:
                await self._abort_at_stop(timeout_ms)
                await sender.flush(timeout_ms)
        except OperationTimedOut as late:
            closed = ClientClosed(f"the producer was closed: {str(late).removesuffix(UNDER_WAY)}")
        finally:
            self._watchdog.detach()
            self._session = self._sender = self._transactions = None
            sender.fail_everything(closed)
            await session.close()
        if (failed := sender.take_unheard()) is not None:
            raise failed

    def _parts(self) -> tuple[Session, Sender]:
        if self._session is None or self._sender is None:
            raise ClientClosed("the producer is not started, or closed; use `async with`")
        self._session.require()
        return self._session, self._sender

    def _started(self) -> tuple[Sender, HandOver]:
        if self._session is None or self._sender is None or self._hand_over is None:
            raise ClientClosed("the producer is not started, or closed; use `async with`")
        self._session.require()
        return self._sender, self._hand_over

    # One record.

    async def send(
        self,
        topic: str,
        value: Value | None = None,
        key: Key | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = NO_HEADERS,
        on_delivery: OnDelivery | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Hands one record over and returns the future of its acknowledgement.

        The call waits only for room in the buffer, and for metadata of a new topic. A cancelled
        call has not handed the record over. `on_delivery(error, metadata)` is called once the
        outcome is known; one of the two is None. `flush` or `stop` raises a failure that neither
        the future nor `on_delivery` has reported.
        """
        hand_over = self._hand_over or self._started()[1]
        try:
            at_home = asyncio.get_running_loop() is hand_over.home
        except RuntimeError:
            at_home = False
        if not at_home:
            self._started()
            hand_over.require()
        serializing = self._serializing
        sent: Any = value
        by_key: Any = key
        if serializing is not None:
            ready = serializing.prepared(
                topic, Record(value, key, headers, timestamp_ms, partition)
            )
            sent, by_key, headers = ready.value, ready.key, ready.headers
            timestamp_ms, partition = ready.timestamp_ms, ready.partition
        else:
            if type(value) is not bytes and value is not None:
                sent = as_bytes("value", value)
            if type(key) is not bytes and key is not None:
                by_key = as_bytes("key", key)
        pairs = NO_HEADERS if headers is NO_HEADERS else header_pairs(headers)
        record = Acknowledgement(loop=hand_over.loop)
        if on_delivery is not None:
            record.on_delivery = on_delivery
        if serializing is not None:
            record.observer = serializing.observer(topic)
        if not hand_over.one(record, topic, sent, by_key, partition, timestamp_ms, pairs):
            await hand_over.late(record, topic, sent, by_key, partition, timestamp_ms, pairs)
        return record

    async def send_and_wait(
        self,
        topic: str,
        value: Value | None = None,
        key: Key | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = NO_HEADERS,
        timeout_ms: float | None = None,
    ) -> RecordMetadata:
        """Sends one record and waits for its acknowledgement.

        A call that is cancelled while it waits does not cancel the delivery: `flush` and `stop`
        wait for the record. So does a call that raises OperationTimedOut after `timeout_ms`.
        """

        def late() -> str:
            return (
                f"a record for {topic!r} was not acknowledged within {timeout_ms:g} ms; it may be "
                "under way still, and flush() waits for it"
            )

        async with time_limit(timeout_ms, late):
            future = await self.send(
                topic,
                value,
                key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            )
            return await future

    # Many records.

    async def send_many(
        self,
        topic: str,
        records: Iterable[Item | Value | tuple[Key | None, Value | None] | Record[Any, Value]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> SendManyResult:
        """Sends all `records` and returns one result for them.

        A record is its value, a (key, value) pair, or a `Record`. The iterable is read
        only as fast as the buffer has room. Raises SendManyFailed, which holds the result, unless
        every record was acknowledged. Raises OperationTimedOut after `timeout_ms`: `flush` and
        `stop` wait for the records that were handed over by then.
        """
        serializing = self._serializing
        collector = Collector(None if serializing is None else serializing.observe_batch)

        def late() -> str:
            return (
                f"{topic}: not every record was acknowledged within {timeout_ms:g} ms; "
                f"{collector.handed_over} were handed over, and flush() waits for them"
            )

        async with time_limit(timeout_ms, late):
            result = await self._send_many(topic, records, partition, timestamp_ms, collector)
        if result.acknowledged < result.records:
            raise SendManyFailed(
                f"{topic}: of {result.records} records {result.acknowledged} were acknowledged, "
                f"{result.failed} were not written, {result.unknown} may have been: "
                f"{describe(result.errors[0])}",
                result,
                result.errors[0],
            )
        return result

    async def _send_many(
        self,
        topic: str,
        records: Iterable[Any],
        partition: int | None,
        timestamp_ms: int | None,
        collector: Collector,
    ) -> SendManyResult:
        """Hands all records over, and waits for the outcome of each."""
        sender, hand_over = self._started()
        number = hand_over.number
        await hand_over.topic(topic)
        batch_size = min(self._options.batch_size, sender.buffer_memory)
        if isinstance(records, str | bytes | bytearray | memoryview):
            raise ConfigurationError("records is one value, not several; put it into a list")
        items: Iterator[Any] = iter(records)
        if self._serializing is not None:
            items = self._serializing.items(topic, partition, items)
        held: Any = next(items, END)
        try:
            while held is not END:
                if sender.buffered + batch_size > sender.buffer_memory:
                    await hand_over.room(batch_size)
                own = held.partition if isinstance(held, Record) else None
                view = await hand_over.topic(topic, partition if own is None else own)
                hand_over.require_same(number)
                if type(held) is bytes:
                    held = hand_over.fill(view, held, items, partition, timestamp_ms, collector)
                    await asyncio.sleep(0)  # let the batch go out before the next is filled
                else:
                    hand_over.add(view, as_record(held), partition, timestamp_ms, collector)
                    held = next(items, END)
            return await collector.result()
        except BaseException as error:
            collector.abandon(sender.unheard if sender.transaction is None else Unheard())
            error.add_note(
                f"{collector.handed_over} records of this send_many were handed over before this; "
                "flush() waits for them"
            )
            raise

    async def partitions_for(
        self, topic: str, *, timeout_ms: float | None = None
    ) -> frozenset[int]:
        """Returns the partitions of `topic`. Raises UnknownTopicOrPartition."""
        sender, _ = self._started()
        within_ms = sender.request_timeout_ms
        if timeout_ms is not None:
            within_ms = milliseconds("timeout_ms", timeout_ms)
        return frozenset((await sender.cluster.topic(topic, within_ms / 1000)).partitions)

    def metrics(self) -> dict[str, float]:
        """Returns the present values of the producer's metrics, by name."""
        sender, _ = self._started()
        return {
            "records_acknowledged": sender.acknowledged,
            "records_failed": sender.failed,
            "records_unknown": sender.unknown,
            "records_waiting": sender.waiting,
            "buffer_bytes": sender.buffered,
            "buffer_memory": sender.buffer_memory,
        }

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Waits until every earlier record is acknowledged or has failed.

        Raises FlushFailed if a record failed and its failure was not reported yet,
        OperationTimedOut if records are still under way after `timeout_ms`.
        """
        sender, _ = self._started()
        if timeout_ms is not None:
            milliseconds("timeout_ms", timeout_ms, least=0)
        await sender.flush(timeout_ms)
        if (failed := sender.take_unheard()) is not None:
            raise failed


def sender_of(producer: Producer[Any, Any]) -> tuple[Sender, HandOver]:
    """Returns the parts of a started producer, for a caller that builds batches itself."""
    return producer._started()


def serializing_of(producer: Producer[Any, Any]) -> Serializing | None:
    """Returns the serializers of a producer, for its blocking twin."""
    return producer._serializing


def hand_over_of(producer: Producer[Any, Any]) -> HandOver:
    """Returns the entry of a started producer, for its blocking twin."""
    return sender_of(producer)[1]
