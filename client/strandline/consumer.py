"""The consumer: reads the committed records of partitions, in order.

A position has its topic's id and a leader epoch. A truncated log or a recreated topic therefore
raises an error or resets the position by policy; the consumer never reads across it (P-82, P-83).

With a `group_id`, the members of the group share the partitions of their topics and commit their
positions. Without one, the consumer reads its topics whole, or the partitions of `assign`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple

from strandline._consumer.assigned import Assigned
from strandline._consumer.delivery import Delivery
from strandline._consumer.deserializing import Deserializing, deserializer_options
from strandline._consumer.fetcher import Fetcher
from strandline._consumer.options import ConsumerOptions
from strandline._consumer.read_ahead import Lending
from strandline._core.membership import Subscription
from strandline._core.whole_topics import WholeTopics
from strandline._groups.group import Group
from strandline._net import arguments as given
from strandline._net.connections import parse_bootstrap
from strandline._net.coordinator import OFFSETS_TOPIC
from strandline._net.dotted_names import options_of
from strandline._net.option_names import named_options
from strandline._net.session import Session
from strandline._reading.assignments import Assignments
from strandline._reading.commits import Commits
from strandline._reading.dead_letters import DeadLetterSender, producer_of
from strandline._reading.intercepting import Intercepting
from strandline._reading.positions import Positions
from strandline._reading.reading import Partition, ToCommit
from strandline._reading.subscriptions import Subscriptions
from strandline.errors import ClientClosed, ConfigurationError
from strandline.serialization import DeadLetters
from strandline.types import Key, TopicPartition, Value
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from types import TracebackType
    from typing import Literal, Self

    from strandline._core.commit_state import CommitOffset
    from strandline._core.position import Position
    from strandline.interceptors import ConsumerInterceptor
    from strandline.serialization import Deserializer
    from strandline.types import ConsumerRecord, IsolationLevel
    from strandline_runtime.runtime import Runtime

    Collect = Callable[[list[Position]], dict[TopicPartition, list[ConsumerRecord[Any, Any]]]]

__all__ = ["Ahead", "Consumer", "Partition", "ToCommit", "ahead_of"]


class Consumer(Subscriptions, Assignments, Commits, Positions, Generic[Key, Value]):
    """Reads records. Use it as an asynchronous context manager, and iterate or call `getmany`.

    With `group_id`, the consumer subscribes to `topics`. Without, it reads them whole, until
    `assign` is called. It finds partitions that are added later within `metadata_max_age_ms`, and
    reads them from their first record, whatever `auto_offset_reset` is: all their records are newer
    than this consumer.
    """

    @named_options
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        auto_offset_reset: str = "latest",
        isolation_level: IsolationLevel = "read_uncommitted",
        require_stable: bool = True,
        group_id: str | None = None,
        group_instance_id: str | None = None,
        group_remote_assignor: str | None = None,
        max_poll_interval_ms: int = 300_000,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5_000,
        fetch_max_wait_ms: int = 500,
        fetch_min_bytes: int = 1,
        fetch_max_bytes: int = 16 << 20,
        max_partition_fetch_bytes: int = 1 << 20,
        prefetch_max_bytes: int = 64 << 20,
        max_decompressed_bytes: int = DECOMPRESSED_BYTES_MAX,
        max_poll_records: int | None = None,
        request_timeout_ms: float = 30_000,
        connect_timeout_ms: float = 10_000,
        metadata_max_age_ms: float = 300_000,
        check_crcs: bool = True,
        security_protocol: str = "PLAINTEXT",
        client_id: str | None = None,
        interceptors: Iterable[ConsumerInterceptor] = (),
        key_deserializer: Deserializer[Key] | None = None,
        value_deserializer: Deserializer[Value] | None = None,
        on_deserialization_error: Literal["raise", "skip"] | DeadLetters = "raise",
        deserialization_timeout_ms: float = 10_000,
        runtime: Runtime | None = None,
    ) -> None:
        options = ConsumerOptions(
            auto_offset_reset=auto_offset_reset,
            isolation_level=isolation_level,
            require_stable=require_stable,
            group_id=group_id,
            group_instance_id=group_instance_id,
            group_remote_assignor=group_remote_assignor,
            max_poll_interval_ms=max_poll_interval_ms,
            enable_auto_commit=enable_auto_commit,
            auto_commit_interval_ms=auto_commit_interval_ms,
            fetch_max_wait_ms=fetch_max_wait_ms,
            fetch_min_bytes=fetch_min_bytes,
            fetch_max_bytes=fetch_max_bytes,
            max_partition_fetch_bytes=max_partition_fetch_bytes,
            prefetch_max_bytes=prefetch_max_bytes,
            max_poll_records=max_poll_records,
            request_timeout_ms=request_timeout_ms,
            connect_timeout_ms=connect_timeout_ms,
            metadata_max_age_ms=metadata_max_age_ms,
            check_crcs=check_crcs,
            security_protocol=security_protocol,
            client_id=client_id,
        )
        self._options = options
        self._session: Session | None = None
        self._group: Group | None = None
        self._is_stopping = False
        self._delivery = Delivery(
            check_crcs=options.check_crcs, max_decompressed_bytes=max_decompressed_bytes
        )
        self._lending = Lending(self._delivery, self._on_step)
        self._assigned = Assigned(self._delivery, self._lending, options.policy)
        self._wanted: tuple[Subscription, object] | None = None
        """The subscription and listener given before the start."""
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        self._topics = tuple(given.several("topics", topics, str))
        if self._topics and group_id is not None:
            self._wanted = Subscription(tuple(sorted(set(self._topics)))), None
        self._runtime = runtime
        self._whole = WholeTopics()
        self._intercepting = Intercepting(interceptors) or None
        self._dead_letters: DeadLetterSender | None = None
        self._deserializing = self._deserializing_by(
            key_deserializer,
            value_deserializer,
            on_deserialization_error,
            deserialization_timeout_ms,
        )
        """None if keys and values stay bytes."""

    def _deserializing_by(
        self, key: object, value: object, on_error: object, timeout_ms: float
    ) -> Deserializing | None:
        chosen = deserializer_options(key, value, on_error, timeout_ms)
        if chosen.key is None and chosen.value is None:
            if chosen.on_error != "raise":
                raise ConfigurationError(
                    f"on_deserialization_error={on_error!r} means nothing without key_deserializer "
                    "or value_deserializer"
                )
            return None
        if isinstance(chosen.on_error, DeadLetters):
            topic = chosen.on_error.topic
            if topic in self._topics:
                raise ConfigurationError(
                    f"on_deserialization_error={on_error!r} sends to a topic that the consumer "
                    "reads: its dead letters would come back; name another topic"
                )
            self._dead_letters = DeadLetterSender(
                topic, partial(producer_of, self._options, self._bootstrap, self._runtime)
            )
        self._delivery.is_holding = True
        send = None if self._dead_letters is None else self._dead_letters.send
        return Deserializing(chosen, self._delivery, send)

    @classmethod
    def from_config(cls, config: Mapping[str, object], *topics: str) -> Self:
        """Makes a consumer from Kafka's dotted option names, such as `bootstrap.servers`.

        Names of this library, and of other libraries for the same option, work too. Text becomes
        the option's type: "true", "5".
        """
        return cls(*topics, **options_of("Consumer", Consumer.__init__, config))

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
        await self.stop()

    async def start(self) -> None:
        """Connects, and subscribes to the topics of the constructor, or assigns them.

        A failed start leaves no connection behind.
        """
        if self._session is not None:
            self._session.require()
            raise ClientClosed("the consumer has been started already")
        options = self._options
        session = Session("consumer", self._bootstrap, self._runtime, options.client_id)
        session.cluster.max_age_s = options.metadata_max_age_ms / 1000
        if options.group_id is not None:  # the first metadata answer then has these topics
            session.cluster.follow(OFFSETS_TOPIC)
            if self._wanted is not None:
                session.cluster.follow(*self._wanted[0].topics)
        await session.open(options.connect_timeout_ms / 1000, lambda: self._session)
        self._session = session
        self._is_stopping = False
        if self._intercepting is not None:
            self._intercepting.log = session.runtime.log
        fetcher = Fetcher(session, request_timeout_s=options.request_timeout_s, **options.limits)
        self._assigned.fetcher = self._delivery.source = fetcher
        session.tasks.start(fetcher.navigate(), "positions")
        try:
            if options.group_id is not None:
                await self._start_group(session)
            else:
                await self._read_whole(fetcher)
        except BaseException:
            await self.stop()
            raise

    async def _start_group(self, session: Session) -> None:
        self._group = Group(session, self._assigned, self._options)
        if self._intercepting is not None:
            self._group.commits.on_committed = self._intercepting.on_commit
        self._group.start()
        if self._wanted is not None:
            subscription, listener = self._wanted
            for topic in subscription.topics:
                if topic not in session.cluster.view.topics:
                    session.runtime.log.warning(
                        "a consumer subscribes to a topic that is not there yet", topic=topic
                    )
            self._group.subscribe(subscription, listener)

    async def _read_whole(self, fetcher: Fetcher) -> None:
        wanted: list[tuple[str, int]] = []
        for topic in self._topics:
            wanted += [(topic, p) for p in sorted(await self.partitions_for_topic(topic))]
        await self.assign(wanted)
        self._whole.follow(fetcher.positions.values())
        fetcher.cluster.watchers.append(self._on_metadata)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Leaves the group and closes the streams.

        With auto-commit, the consumer first commits the records delivered before the last poll.
        The listener's `on_partitions_revoked` runs. `stop` takes at most `timeout_ms` (None:
        `request_timeout_ms`), even if every broker is dead; the group then removes the member when
        its session ends.
        """
        if timeout_ms is not None:
            given.milliseconds("timeout_ms", timeout_ms, least=0)
        session = self._session
        if session is None or session.is_elsewhere:
            return
        session.require_own_loop()
        group = self._group
        if group is not None:
            group.listening.require_outside("stop")
        if self._is_stopping:
            return
        self._is_stopping = True
        self._assigned.call_for_poll()  # a call that waits for records ends
        try:
            if group is not None and not session.is_broken:
                await group.unsubscribe(
                    self._request_timeout_s if timeout_ms is None else timeout_ms / 1000
                )
        finally:
            if group is not None:
                group.commits.end()
            if self._assigned.fetcher is not None:
                self._assigned.replace({})  # else the next start delivers what is left
                self._assigned.fetcher.arrived.set()
            self._group = self._session = self._assigned.fetcher = None
            if self._deserializing is not None:
                self._deserializing.close()
            try:
                if self._dead_letters is not None:
                    await self._dead_letters.close(0)
            finally:
                await session.close()

    def metrics(self) -> dict[str, float]:
        """Returns the present values of the consumer's metrics, by name."""
        fetcher = self._started()
        positions = self._assigned.of(())
        deserializing = self._deserializing
        return {
            "records_delivered": self._delivery.delivered,
            "records_skipped": 0 if deserializing is None else deserializing.skipped,
            "dead_letters": 0 if deserializing is None else deserializing.dead_letters,
            "buffer_bytes": fetcher.buffered_bytes,
            "assigned_partitions": len(positions),
            "paused_partitions": sum(position.paused for position in positions),
            "lag_max": max((self._end_of(p) - p.offset for p in positions if p.is_read), default=0),
        }

    def _end_of(self, position: Position) -> int:
        """The end of what this consumer may read, as of the last fetch."""
        if self._options.is_read_committed:
            return position.last_stable_offset
        return position.high_watermark

    # Records.

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord[Key, Value]:
        """Polls until a record is available, and returns it."""
        while True:
            found = await self.getmany(*partitions, timeout_ms=None, max_records=1)
            for records in found.values():
                return records[0]

    async def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord[Key, Value]]]:
        """Returns available records by partition; waits `timeout_ms` at most (None: no limit).

        In a group, `getmany`, `getone` and each step of an iteration are polls. A poll marks the
        records delivered before it as processed. The rebalance listener runs in a poll, which waits
        for it beyond `timeout_ms`.

        Raises the error of a partition (LogTruncated, OffsetOutOfRange, CorruptRecords,
        TopicRecreated …) once all records before the error are delivered.
        """
        self._started()
        limit = max_records if max_records is not None else self._options.max_poll_records
        if limit is not None:
            given.whole("max_records", limit, 1)
        if timeout_ms is not None:
            given.milliseconds("timeout_ms", timeout_ms, least=0)
        found = await self._poll(
            partitions, timeout_ms, lambda awake: self._delivery.collect(awake, limit)
        )
        return found if self._intercepting is None else self._intercepting.on_consume(found)

    async def _poll(
        self,
        partitions: tuple[TopicPartition, ...],
        timeout_ms: float | None,
        collect: Collect,
    ) -> dict[TopicPartition, list[ConsumerRecord[Key, Value]]]:
        group = self._group
        if group is None:
            return await self._found(partitions, timeout_ms, collect, None)
        group.begin_poll()
        try:
            return await self._found(partitions, timeout_ms, collect, group)
        finally:
            group.end_poll()

    async def _found(
        self,
        partitions: tuple[TopicPartition, ...],
        timeout_ms: float | None,
        collect: Collect,
        group: Group | None,
    ) -> dict[TopicPartition, list[ConsumerRecord[Key, Value]]]:
        deadline: float | None = None
        if timeout_ms is not None:
            deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            fetcher = self._started()
            if self._is_stopping:
                raise ClientClosed("the consumer is being closed")
            fetcher.arrived.clear()
            if group is not None:
                await group.attend()
                self._started()
            awake = self._awake(partitions)
            if self._deserializing is not None:
                session = self._session
                assert session is not None
                moved = await self._deserializing.prepare(awake, session.runtime)
                self._started()
                awake = self._awake(partitions)  # another call may have changed it meanwhile
                if group is not None:
                    group.on_moved(p for p in awake if p in moved)
            found = collect(awake)
            if group is not None and found:
                group.on_moved(p for p in awake if p.partition in found)
            if found or timeout_ms == 0:
                return found
            try:
                async with asyncio.timeout_at(deadline):
                    await fetcher.arrived.wait()
            except TimeoutError:
                return {}

    def _awake(self, partitions: tuple[TopicPartition, ...]) -> list[Position]:
        return [p for p in self._assigned.of(partitions) if not (p.paused or p.withheld)]

    async def _lend(self) -> None:
        self._started()
        self._lending.take_back()
        await self._poll((), None, self._lending.lend)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord[Key, Value]:
        return await self.getone()

    def _on_step(self, position: Position, at: CommitOffset) -> None:
        if self._group is not None:
            self._group.on_step(position, at)


class Ahead(NamedTuple):
    """The parts of a consumer that a blocking iteration uses: records lent ahead, a poll for more,
    a function that takes them back, and the interceptors.

    `poll` and `take_back` run on the loop.
    """

    records: deque[ConsumerRecord[Any, Any]]
    poll: Callable[[], Coroutine[Any, Any, None]]
    take_back: Callable[[], None]
    intercepting: Intercepting | None


def ahead_of(consumer: Consumer[Any, Any]) -> Ahead:
    """Returns the records lent to the consumer's blocking twin."""
    return Ahead(
        consumer._lending.ahead, consumer._lend, consumer._lending.take_back, consumer._intercepting
    )
