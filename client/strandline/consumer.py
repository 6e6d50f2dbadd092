"""The consumer: reads partitions in order, committed records only.

Positions are kept by topic id with leader epochs: a log that was truncated or a topic that was
created anew is an error or a reset by policy, never read over (P-82, P-83). With a `group_id` the
partitions of the topics are shared with the other members of the group, and positions are committed
to it; without one, the consumer reads all of its topics, or what `assign` names.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from strandline._consumer.fetcher import Fetcher
from strandline._consumer.offset_queries import OffsetQueries
from strandline._consumer.options import ConsumerOptions, refuse_classic
from strandline._consumer.position_calls import PositionCalls
from strandline._core.membership import Subscription
from strandline._core.position import LATEST, Position
from strandline._core.whole_topics import WholeTopics
from strandline._groups.calls import GroupCalls
from strandline._groups.coordinator import OFFSETS_TOPIC
from strandline._groups.group import Group
from strandline._net import arguments as given
from strandline._net.connections import parse_bootstrap
from strandline._net.session import Session
from strandline.errors import (
    ClientClosed,
    ConfigurationError,
)
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine, Iterable
    from types import TracebackType
    from typing import Any, Self

    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline.types import ConsumerRecord, TopicPartition
    from strandline_runtime.runtime import Runtime

    Collect = Callable[[list[Position]], dict[TopicPartition, list[ConsumerRecord]]]


class Consumer(GroupCalls, PositionCalls, OffsetQueries):
    """Reads records. Use it as an asynchronous context manager, and iterate or call `getmany`.

    With `group_id`, topics given here are subscribed to. Without, they are read whole, until
    `assign` is called: partitions that are added later are found within `metadata_max_age_ms` and
    read from their first record, whatever `auto_offset_reset` is, since all that is in them is
    newer than this consumer.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        auto_offset_reset: str = "latest",
        group_id: str | None = None,
        group_instance_id: str | None = None,
        group_remote_assignor: str | None = None,
        max_poll_interval_ms: int = 300_000,
        enable_auto_commit: bool = True,
        auto_commit_interval_ms: float = 5_000,
        session_timeout_ms: None = None,
        heartbeat_interval_ms: None = None,
        partition_assignment_strategy: None = None,
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
        runtime: Runtime | None = None,
    ) -> None:
        refuse_classic(
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=heartbeat_interval_ms,
            partition_assignment_strategy=partition_assignment_strategy,
        )
        options = ConsumerOptions(
            auto_offset_reset=auto_offset_reset,
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
        )
        super().__init__(options, max_decompressed_bytes)
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        self._topics = tuple(given.several("topics", topics, str))
        if self._topics and group_id is not None:
            self._wanted = Subscription(tuple(sorted(set(self._topics)))), None
        self._runtime = runtime
        self._whole = WholeTopics()

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
        """Connect, and subscribe to the topics of the constructor, or assign them. Leaves nothing
        behind if it fails.
        """
        if self._session is not None:
            self._session.require()
            raise ClientClosed("the consumer has been started already")
        options = self._options
        session = Session("consumer", self._bootstrap, self._runtime)
        session.cluster.max_age_s = options.metadata_max_age_ms / 1000
        if options.group_id is not None:  # known at once, so that the first answer tells of them
            session.cluster.follow(OFFSETS_TOPIC)
            if self._wanted is not None:
                session.cluster.follow(*self._wanted[0].topics)
        await session.open(options.connect_timeout_ms / 1000, lambda: self._session)
        self._session = session
        self._is_stopping = False
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
        """Leave the group and close the streams.

        With auto-commit, what was handed over before the last poll is committed first; listeners
        hear that their partitions are revoked. All of it takes at most `timeout_ms` (None:
        `request_timeout_ms`), whatever has become of the brokers; the group notices the rest when
        the member's session ends.
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
        self._assigned.call_for_poll()  # whoever waits for records hears of the end
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
            await session.close()

    # Assignment.

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions from now on; those that were assigned before keep their position.

        With a `group_id` the others begin at what the group has committed, and commits are the
        group's; but the consumer is not a member, and nobody keeps others from the same partitions.
        Raises UnknownTopicOrPartition if one does not exist.
        """
        fetcher = self._started()
        self._require_unsubscribed()
        wanted: dict[PartitionKey, TopicPartition] = {}
        for tp in given.several_partitions("partitions", partitions):
            topic, number = tp
            view = await fetcher.cluster.topic(topic, self._request_timeout_s, number)
            wanted[view.topic_id, number] = tp
        find = self._assigned.find  # what others have assigned or dropped while this call asked
        begun: dict[PartitionKey, Position] = {}
        while new := {k: tp for k, tp in wanted.items() if k not in begun and find(k) is None}:
            begun |= {position.key: position for position in await self._begin(new)}
        self._require_unsubscribed()
        self._whole.follow(())
        self._assigned.replace({key: find(key) or begun[key] for key in wanted})

    def _require_unsubscribed(self) -> None:
        if self._group is not None and self._group.is_subscribed:
            raise ConfigurationError(
                "the group assigns partitions to this consumer; call unsubscribe() before assign"
            )

    async def _begin(self, new: dict[PartitionKey, TopicPartition]) -> list[Position]:
        """Where to begin in partitions that the caller assigns."""
        if self._group is not None and new:
            found = await self._group.commits.fetched(list(new), self._request_timeout_s)
            positions = [self._assigned.position_at(tp, k[0], found[k]) for k, tp in new.items()]
            self._group.on_moved(positions)
            return positions
        positions = [Position(tp, key[0], self._options.policy) for key, tp in new.items()]
        for position in positions:
            position.reset(LATEST if position.policy is None else position.policy)
        return positions

    def _on_metadata(self, _: Changes) -> None:
        """Take up partitions that were added to topics that are read whole."""
        if (fetcher := self._assigned.fetcher) is None:
            return
        known, policy = self._assigned.keys, self._options.policy
        if added := self._whole.added(fetcher.cluster.view, known, policy):
            self._assigned.add(added.values())

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._assigned.keys)

    async def partitions_for_topic(self, topic: str) -> frozenset[int]:
        """The partitions of `topic`. Raises UnknownTopicOrPartition."""
        view = await self._started().cluster.topic(topic, self._request_timeout_s)
        return frozenset(view.partitions)

    # Records.

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """The next record, when there is one."""
        while True:
            found = await self.getmany(*partitions, timeout_ms=None, max_records=1)
            for records in found.values():
                return records[0]

    async def getmany(
        self,
        *partitions: TopicPartition,
        timeout_ms: float | None = 0,
        max_records: int | None = None,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """What has arrived, by partition; waits up to `timeout_ms` (None: for ever) for the first.

        In a group this is a poll, and so are `getone` and each step of an iteration: what was
        handed over before it counts as processed, and the rebalance listener runs in it, for which
        it waits beyond `timeout_ms`.

        Raises what stands in a partition's way (LogTruncated, OffsetOutOfRange, CorruptRecords,
        TopicRecreated …) once nothing before it is left to deliver.
        """
        self._started()
        limit = max_records if max_records is not None else self._options.max_poll_records
        if limit is not None:
            given.whole("max_records", limit, 1)
        if timeout_ms is not None:
            given.milliseconds("timeout_ms", timeout_ms, least=0)
        return await self._poll(
            partitions, timeout_ms, lambda awake: self._delivery.collect(awake, limit)
        )

    async def _poll(
        self,
        partitions: tuple[TopicPartition, ...],
        timeout_ms: float | None,
        collect: Collect,
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
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
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
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
            awake = [p for p in self._assigned.of(partitions) if not (p.paused or p.withheld)]
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

    async def _lend(self) -> None:
        self._started()
        self._lending.take_back()
        await self._poll((), None, self._lending.lend)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        return await self.getone()


class Ahead(NamedTuple):
    """What a blocking consumer's iteration works with: records, and on the loop a poll for more and
    how they are taken back.
    """

    records: deque[ConsumerRecord]
    poll: Callable[[], Coroutine[Any, Any, None]]
    take_back: Callable[[], None]


def ahead_of(consumer: Consumer) -> Ahead:
    """The records that are lent to the consumer's blocking twin."""
    return Ahead(consumer._lending.ahead, consumer._lend, consumer._lending.take_back)
