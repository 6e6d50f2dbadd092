"""The blocking producer; any number of threads may send records."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from strandline._blocking.background import Blocking, BlockingLoop
from strandline._blocking.send_queue import Acknowledgement, Outbox
from strandline._blocking.send_queue import Item as Queued
from strandline._net.arguments import milliseconds
from strandline._net.dotted_names import options_of
from strandline._net.option_names import named_options
from strandline._producer.accumulator import NO_HEADERS, as_bytes, header_pairs
from strandline.errors import ClientClosed
from strandline.producer import Key, Value, hand_over_of, serializing_of
from strandline.producer import Producer as AsyncProducer
from strandline.types import Record
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
    from concurrent.futures import Future
    from typing import Self

    from strandline.consumer import ToCommit
    from strandline.group_types import ConsumerGroupMetadata
    from strandline.interceptors import ProducerInterceptor
    from strandline.producer import Item
    from strandline.serialization import Serializer
    from strandline.types import HeadersLike, OnDelivery, RecordMetadata, SendManyResult
    from strandline_runtime.runtime import Runtime

T = TypeVar("T")


class Producer(Blocking[AsyncProducer[Key, Value]], Generic[Key, Value]):
    """The blocking form of `strandline.Producer`, with the same options."""

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
        twin = AsyncProducer(
            bootstrap_servers,
            acks=acks,
            enable_idempotence=enable_idempotence,
            compression_type=compression_type,
            linger_ms=linger_ms,
            batch_size=batch_size,
            max_in_flight=max_in_flight,
            delivery_timeout_ms=delivery_timeout_ms,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            max_request_size=max_request_size,
            max_decompressed_bytes=max_decompressed_bytes,
            buffer_memory=buffer_memory,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            partitioner=partitioner,
            security_protocol=security_protocol,
            client_id=client_id,
            interceptors=interceptors,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            runtime=runtime,
        )
        super().__init__("producer", twin)
        self._serializing = serializing_of(twin)
        self._outbox: Outbox | None = None
        self._stop_timeout_ms: float | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Self:
        """Makes a producer from Kafka's dotted option names, such as `bootstrap.servers`.

        Names of this library, and of other libraries for the same option, work too. Text becomes
        the option's type: "true", "5".
        """
        return cls(**options_of("Producer", Producer.__init__, config))

    def start(self) -> None:
        """Connects. A failed start leaves no thread or connection behind."""
        super().start()
        loop, twin = self._running()
        self._outbox = Outbox(loop, loop.run(lambda: hand_over_of(twin)))

    def stop(self, timeout_ms: float | None = None) -> None:
        """Refuses new records, waits for those under way, then closes the producer.

        `stop` waits at most `timeout_ms`, even if every broker is silent (None: until each record's
        own `delivery_timeout_ms`). Raises FlushFailed as the asynchronous producer does. A delivery
        callback may send records until every earlier record has its outcome.
        """
        if timeout_ms is not None:
            milliseconds("timeout_ms", timeout_ms, least=0)
        self._stop_timeout_ms = timeout_ms
        self.close()

    def _finish(self, loop: BlockingLoop, twin: AsyncProducer[Key, Value]) -> None:
        outbox, timeout_ms = self._outbox, self._stop_timeout_ms

        async def finish() -> None:
            left_ms = timeout_ms if outbox is None else await outbox.close(timeout_ms)
            await twin.stop(left_ms)

        try:
            loop.call(finish())
        finally:
            self._stop_timeout_ms = None

    def _open(self) -> tuple[BlockingLoop, Outbox]:
        loop, _ = self._running()
        if self._outbox is None:
            raise ClientClosed("the producer is not started yet")
        return loop, self._outbox

    def _call(
        self, coroutine_of: Callable[[AsyncProducer[Key, Value]], Coroutine[Any, Any, T]]
    ) -> T:
        """Runs the coroutine once the records of earlier `send` calls have left the queue."""
        loop, outbox = self._open()

        async def behind() -> T:
            await outbox.drained()
            return await coroutine_of(self._twin)

        return loop.call(behind())

    def _item(
        self,
        record: Acknowledgement,
        topic: str,
        value: Any,
        key: Any,
        partition: int | None,
        timestamp_ms: int | None,
        headers: HeadersLike,
    ) -> Queued:
        """The record as the queue takes it: of bytes."""
        if self._serializing is not None:
            ready = self._serializing.prepared(
                topic, Record(value, key, headers, timestamp_ms, partition)
            )
            value, key, headers = ready.value, ready.key, ready.headers
            timestamp_ms, partition = ready.timestamp_ms, ready.partition
            record.observer = self._serializing.observer(topic)
        if type(value) is not bytes and value is not None:
            value = as_bytes("value", value)
        if type(key) is not bytes and key is not None:
            key = as_bytes("key", key)
        pairs = NO_HEADERS if headers is NO_HEADERS else header_pairs(headers)
        return record, topic, value, key, partition, timestamp_ms, pairs

    def send(
        self,
        topic: str,
        value: Value | None = None,
        key: Key | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeadersLike = NO_HEADERS,
        on_delivery: OnDelivery | None = None,
    ) -> Future[RecordMetadata]:
        """Hands one record over; `result()` of the returned future waits for its acknowledgement.

        The call waits only for room in the buffer, and for metadata of a new topic. The future
        and `on_delivery` report every failure, also an invalid record or a buffer that stays full.
        `on_delivery` runs on the producer's own thread, and may call `send` too: the call does not
        wait there. An interrupted call has not handed the record over.
        """
        loop, outbox = self._loop, self._outbox
        if loop is None or outbox is None:
            raise ClientClosed("the producer is not started, or closed; use `with`")
        by_callback = loop.is_own_thread()
        record = Acknowledgement(loop)
        if on_delivery is not None:
            record.on_delivery = on_delivery
        try:
            is_plain = type(value) is bytes and (key is None or type(key) is bytes)
            if is_plain and headers is NO_HEADERS and self._serializing is None:
                item: Any = (record, topic, value, key, partition, timestamp_ms, NO_HEADERS)
            else:
                item = self._item(record, topic, value, key, partition, timestamp_ms, headers)
            if by_callback:
                outbox.put_by_callback(item)
            elif not outbox.put(item):
                loop.call(outbox.wait(item))
        except ClientClosed:
            raise
        except Exception as error:  # noqa: BLE001 - the future has it
            refusal = error
            if by_callback:
                outbox.refuse(record, refusal)
            else:
                loop.run(lambda: outbox.refuse(record, refusal))
        return record

    def send_and_wait(
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

        Raises OperationTimedOut after `timeout_ms`; `flush` waits for the record all the same.
        """
        return self._call(
            lambda twin: twin.send_and_wait(
                topic,
                value,
                key,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
                timeout_ms=timeout_ms,
            )
        )

    def send_many(
        self,
        topic: str,
        records: Iterable[Item | Value | tuple[Key | None, Value | None] | Record[Any, Value]],
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        timeout_ms: float | None = None,
    ) -> SendManyResult:
        """Sends all `records` (read on the loop's thread) and returns one result for them.

        Raises OperationTimedOut after `timeout_ms`; `flush` waits for what was handed over.
        """
        return self._call(
            lambda twin: twin.send_many(
                topic,
                records,
                partition=partition,
                timestamp_ms=timestamp_ms,
                timeout_ms=timeout_ms,
            )
        )

    # Transactions.

    def begin_transaction(self) -> None:
        """Begins a transaction, to which all records sent until its end belong.

        The coordinator aborts the transaction `transaction_timeout_ms` after its first record.
        """
        self._call(lambda twin: twin.begin_transaction())

    def commit_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Waits for the acknowledgement of all records, then commits them and the offsets.

        Raises as the asynchronous producer does. Call it again after CommitOutcomeUnknown, and
        after an interrupt.
        """
        self._call(lambda twin: twin.commit_transaction(timeout_ms=timeout_ms))

    def abort_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Gives up all records of the transaction, and aborts it.

        Their futures raise TransactionAborted, unless they were acknowledged.
        """
        self._call(lambda twin: twin.abort_transaction(timeout_ms=timeout_ms))

    def send_offsets_to_transaction(
        self,
        offsets: ToCommit,
        group_metadata: ConsumerGroupMetadata,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commits offsets of a consumer group with the transaction.

        An offset is that of the record to read next. `group_metadata` is
        `consumer.group_metadata()`. Raises AbortableTransactionError if the member has lost its
        partitions, or if the outcome is not known.
        """
        self._call(
            lambda twin: twin.send_offsets_to_transaction(
                offsets, group_metadata, timeout_ms=timeout_ms
            )
        )

    @contextmanager
    def transaction(self, *, timeout_ms: float | None = None) -> Iterator[None]:
        """Returns a context manager that begins a transaction and ends it with the block.

        It commits, or aborts if the block raises. If no answer to the commit comes, it repeats the
        commit for `timeout_ms` (None: `transaction_timeout_ms`), then raises CommitOutcomeUnknown.
        """
        block = self._run(lambda twin: twin.transaction(timeout_ms=timeout_ms))
        self._call(lambda _: block.__aenter__())
        try:
            yield
        except BaseException as error:
            failure = error
            self._call(lambda _: block.end(failure))
            raise
        self._call(lambda _: block.end(None))

    def flush(self, timeout_ms: float | None = None) -> None:
        """Waits until every earlier record is acknowledged or has failed.

        Raises FlushFailed and OperationTimedOut as the asynchronous producer does.
        """
        loop, outbox = self._open()
        if timeout_ms is not None:
            milliseconds("timeout_ms", timeout_ms, least=0)

        async def flush() -> None:
            await self._twin.flush(await outbox.flush(timeout_ms))

        loop.call(flush())

    def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Returns the partitions of `topic`. Raises UnknownTopicOrPartition."""
        return self._call(lambda twin: twin.partitions_for(topic, timeout_ms=timeout_ms))

    def metrics(self) -> dict[str, float]:
        """Returns the present values of the producer's metrics, by name."""
        return self._run(lambda twin: twin.metrics())
