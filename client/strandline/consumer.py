"""The consumer: reads the committed records of partitions, in order.

A position has its topic's id and a leader epoch. A truncated log or a recreated topic therefore
raises an error or resets the position by policy; the consumer never reads across it (P-82, P-83).

With a `group_id`, the members of the group share the partitions of their topics and commit their
positions. Without one, the consumer reads its topics whole, or the partitions of `assign`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, overload

from strandline._consumer.assigned import Assigned
from strandline._consumer.delivery import Delivery
from strandline._consumer.fetcher import Fetcher
from strandline._consumer.options import ConsumerOptions
from strandline._consumer.read_ahead import Lending
from strandline._core.commit_state import CommitOffset
from strandline._core.membership import Subscription
from strandline._core.position import EARLIEST, LATEST, Phase, Position
from strandline._core.whole_topics import WholeTopics
from strandline._groups.group import Group, at_of
from strandline._groups.rebalance_listener import check_listener
from strandline._net import arguments as given
from strandline._net.connections import parse_bootstrap
from strandline._net.coordinator import OFFSETS_TOPIC
from strandline._net.option_names import named_options
from strandline._net.session import Session
from strandline.errors import ClientClosed, ConfigurationError, OperationTimedOut, describe
from strandline.group_types import ConsumerGroupMetadata, OffsetAndMetadata
from strandline.types import OffsetAndTimestamp, TopicPartition
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from types import TracebackType
    from typing import Any, Self

    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline.types import ConsumerRecord, TopicPartition
    from strandline_runtime.runtime import Runtime

    Collect = Callable[[list[Position]], dict[TopicPartition, list[ConsumerRecord]]]

Partition: TypeAlias = "TopicPartition | tuple[str, int]"
ToCommit: TypeAlias = "Mapping[Partition, int | tuple[int, str] | OffsetAndMetadata]"
PATTERN_BYTES_MAX: Final = 4096
NO_GROUP: Final = -1


class Consumer:
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
        runtime: Runtime | None = None,
    ) -> None:
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
        self._options = options
        self._request_timeout_s = options.request_timeout_s
        self._session: Session | None = None
        self._group: Group | None = None
        """The group of a running consumer with a group_id; else None."""
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
        session = Session("consumer", self._bootstrap, self._runtime)
        session.cluster.max_age_s = options.metadata_max_age_ms / 1000
        if options.group_id is not None:  # the first metadata answer then has these topics
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
            await session.close()

    # Assignment.

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Assigns these partitions in place of the earlier ones; common ones keep their position.

        With a `group_id`, new partitions begin at the group's committed offsets, and commits go to
        the group. The consumer is not a member: other consumers may read the same partitions.
        Raises UnknownTopicOrPartition if one does not exist.
        """
        fetcher = self._started()
        self._require_unsubscribed()
        wanted: dict[PartitionKey, TopicPartition] = {}
        for tp in given.several_partitions("partitions", partitions):
            topic, number = tp
            view = await fetcher.cluster.topic(topic, self._request_timeout_s, number)
            wanted[view.topic_id, number] = tp
        find = self._assigned.find  # another call may have changed the assignment meanwhile
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
        """Returns first positions for partitions that the caller assigns."""
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
        """Adds new partitions of topics that are read whole."""
        if (fetcher := self._assigned.fetcher) is None:
            return
        known, policy = self._assigned.keys, self._options.policy
        if added := self._whole.added(fetcher.cluster.view, known, policy):
            self._assigned.add(added.values())

    def assignment(self) -> frozenset[TopicPartition]:
        """Returns the assigned partitions."""
        return frozenset(self._assigned.keys)

    async def partitions_for_topic(self, topic: str) -> frozenset[int]:
        """Returns the partitions of `topic`. Raises UnknownTopicOrPartition."""
        view = await self._started().cluster.topic(topic, self._request_timeout_s)
        return frozenset(view.partitions)

    # Records.

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
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
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
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

    # The group: subscriptions and committed offsets.

    def _grouped(self, what: str) -> Group:
        if self._options.group_id is None:
            raise ConfigurationError(f"{what} needs a group: give the consumer a group_id")
        self._started()
        assert self._group is not None
        return self._group

    # Subscription.

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: object = None,
    ) -> None:
        """Subscribes to topics or to a pattern, in place of the earlier subscription.

        `pattern` is a regular expression in RE2's syntax; it selects every topic whose whole name
        matches, also topics created later. `listener` (a ConsumerRebalanceListener) is called when
        partitions are assigned, revoked or lost. A missing topic joins the subscription when it is
        created.
        """
        if self._options.group_id is None:
            raise ConfigurationError(
                "subscribe needs a group: give the consumer a group_id, or use assign([...])"
            )
        names = given.several("topics", topics, str)
        if (not names) == (pattern is None):
            raise ConfigurationError(
                "subscribe takes topics or a pattern, one of them; unsubscribe() leaves the group"
            )
        if "" in names:
            raise ConfigurationError("topics: '' is not the name of a topic")
        if pattern is not None:
            size = len(given.text("pattern", pattern).encode(errors="replace"))
            given.within("pattern's size in bytes", size, 1, PATTERN_BYTES_MAX)
        check_listener(listener)
        subscription = Subscription(tuple(sorted(set(names))), pattern)
        if self._session is None:
            self._wanted = subscription, listener
            return
        group = self._grouped("subscribe")
        if self._is_stopping:
            raise ClientClosed("the consumer is being closed")
        if self._assigned.keys and not group.is_subscribed:
            raise ConfigurationError(
                "partitions are assigned by assign([...]); call unsubscribe() before subscribe"
            )
        cluster = self._started().cluster
        cluster.follow(*subscription.topics)
        cluster.request_refresh()
        group.subscribe(subscription, listener)

    async def unsubscribe(self) -> None:
        """Gives up all partitions and leaves the group.

        With auto-commit, the consumer first commits the records delivered before the last poll.
        """
        self._wanted = None
        if self._session is None:
            return
        self._started()
        group = self._group
        if group is not None:
            await group.unsubscribe(self._request_timeout_s)
        if group is None or not group.is_subscribed:  # no new subscription meanwhile
            self._assigned.replace({})

    def subscription(self) -> frozenset[str]:
        """Returns the subscribed topics; for a pattern, the topics with an assigned partition."""
        if self._group is None:
            wanted = None if self._wanted is None else self._wanted[0]
        else:
            wanted = self._group.membership.subscription
        if wanted is not None and wanted.pattern is not None:
            return frozenset(tp.topic for tp in self._assigned.keys)
        return frozenset(() if wanted is None else wanted.topics)

    async def wait_assigned(self, timeout_ms: float | None = None) -> frozenset[TopicPartition]:
        """Polls until the group has assigned partitions to this member, and returns them.

        The rebalance listener runs in it. Raises OperationTimedOut, whose message names the
        obstacle.
        """
        group = self._grouped("wait_assigned")
        if timeout_ms is not None:
            given.milliseconds("timeout_ms", timeout_ms, least=0)
        group.begin_poll()
        try:
            await group.wait_assigned(None if timeout_ms is None else timeout_ms / 1000)
        finally:
            group.end_poll()
        return frozenset(self._assigned.keys)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Returns this consumer's identity in its group."""
        group = self._grouped("group_metadata")
        known = group.membership.is_member and group.membership.epoch > 0
        return ConsumerGroupMetadata(
            group.member.group_id,
            group.membership.epoch if known else NO_GROUP,
            group.member.member_id if known else "",
            group.member.instance_id,
        )

    # Offsets.

    async def commit(self, offsets: ToCommit | None = None) -> None:
        """Commits these offsets (of the records to read next), or the positions of all assigned
        partitions: every delivered record.

        Committed offsets survive the same failures as acknowledged records. Raises CommitFailed if
        the partitions were reassigned, and OperationTimedOut if the outcome is unknown after
        `request_timeout_ms`. Cancelling the call does not cancel the commit.
        """
        await self.commit_async(offsets)

    def commit_async(self, offsets: ToCommit | None = None) -> asyncio.Future[None]:
        """Starts a commit and returns the future of its outcome.

        Commits of one consumer run one after the other.
        """
        group = self._grouped("commit")
        if offsets is None:
            chosen = {p.key: at_of(p) for p in self._assigned.of(()) if p.offset >= 0}
        else:
            chosen = dict(
                self._to_commit(tp, at) for tp, at in given.mapping("offsets", offsets).items()
            )
        return group.commits.submit(chosen, self._request_timeout_s)

    def _to_commit(
        self, partition: Partition, at: int | tuple[int, str] | OffsetAndMetadata
    ) -> tuple[PartitionKey, CommitOffset]:
        position = self._assigned.position(partition)
        match at:
            case int(offset) if not isinstance(at, bool):
                found = OffsetAndMetadata(offset)
            case (offset, str(metadata)):
                found = OffsetAndMetadata(offset, metadata)
            case OffsetAndMetadata():
                found = at
            case _:
                raise ConfigurationError(
                    f"offsets: {at!r} is neither an offset nor an OffsetAndMetadata"
                )
        name = f"offsets: that of {partition[0]}/{partition[1]}"
        given.whole(name, found.offset, 0, given.INT64_MAX)
        given.whole(f"{name}, leader_epoch", found.leader_epoch, -1)
        given.text(f"{name}, metadata", found.metadata)
        epoch = found.leader_epoch
        if epoch < 0:
            # Without an epoch, the next owner would trust a deposed leader (P-82).
            epoch = position.epoch_before(found.offset)
        return position.key, CommitOffset(found.offset, epoch, found.metadata)

    @overload
    async def committed(self, partition: Partition) -> int | None: ...
    @overload
    async def committed(
        self, partition: Partition, *, metadata: Literal[True]
    ) -> OffsetAndMetadata | None: ...
    @overload
    async def committed(
        self, partition: Partition, *, metadata: bool
    ) -> int | OffsetAndMetadata | None: ...

    async def committed(
        self, partition: Partition, *, metadata: bool = False
    ) -> int | OffsetAndMetadata | None:
        """Returns the group's committed offset of a partition, from any member; None if none.

        `metadata=True` returns text and leader epoch too.
        """
        group = self._grouped("committed")
        tp = given.one_partition("partition", partition)
        cluster = self._started().cluster
        view = await cluster.topic(tp.topic, self._request_timeout_s, tp.partition)
        key = (view.topic_id, tp.partition)
        found = (await group.commits.fetched([key], self._request_timeout_s))[key]
        if found.offset < 0:
            return None
        if not metadata:
            return found.offset
        return OffsetAndMetadata(found.offset, found.metadata, found.leader_epoch)

    # Positions in what is assigned.

    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int, leader_epoch: int = -1
    ) -> None:
        """Moves the position of a partition to `offset`.

        `leader_epoch` is the epoch of the record before `offset`, from the record itself or saved
        with the offset. With it, the consumer detects a log that has lost that record.
        """
        given.whole("offset", offset, 0, given.INT64_MAX, hint="or use seek_to_beginning, _end")
        given.whole("leader_epoch", leader_epoch, -1)
        position = self._assigned.position(partition)
        fetcher = self._started()
        if leader_epoch >= 0:
            fetcher.cluster.view.require_epoch(*position.key, leader_epoch)
        position.seek(offset, leader_epoch)
        self._moved(position)

    def _moved(self, position: Position) -> None:
        self._delivery.forget(position.key)
        self._started().moved(position)
        if self._group is not None:
            self._group.on_sought(position)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Moves these partitions (all assigned ones by default) to their first record."""
        await self._reset(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Moves these partitions (all assigned ones by default) past the last committed record."""
        await self._reset(partitions, LATEST)

    async def _reset(self, partitions: tuple[TopicPartition, ...], to: int) -> None:
        self._started()
        positions = self._assigned.of(partitions)
        for position in positions:
            position.reset(to)
            self._moved(position)
        for position in positions:
            await self._resolved(position.partition)

    async def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Returns the offset of the next record that the caller gets."""
        return await self._resolved(partition)

    async def _resolved(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Waits until the lookup of an offset ends, while the partition is assigned.

        The lookup of a partition that is no longer assigned never ends.
        """
        fetcher = self._started()
        deadline = asyncio.get_running_loop().time() + self._request_timeout_s
        while (position := self._assigned.position(partition)).phase is Phase.RESETTING:
            if asyncio.get_running_loop().time() >= deadline:
                cause = fetcher.obstacle
                why = "" if cause is None else f": {describe(cause)}"
                raise OperationTimedOut(
                    f"the offset of {position.partition.topic}/{position.partition.partition} "
                    f"was not found within {self._request_timeout_s * 1000:.0f} ms{why}",
                    cause,
                )
            await asyncio.sleep(0.002)
            self._started()
        if position.error is not None:
            raise position.error
        return position.offset

    def position_epoch(self, partition: TopicPartition | tuple[str, int]) -> int:
        """Returns the leader epoch of the last delivered record, to be saved with the offset.

        It is -1 if there is none.
        """
        return self._assigned.position(partition).epoch

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """Returns the high watermark of the last fetch; None before the first one."""
        mark = self._assigned.position(partition).high_watermark
        return None if mark < 0 else mark

    def pause(self, *partitions: TopicPartition) -> None:
        """Stops delivery from these partitions until `resume`."""
        for position in self._assigned.of(partitions):
            position.paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Resumes delivery from these paused partitions."""
        fetcher = self._started()
        for position in self._assigned.of(partitions):
            position.paused = False
        fetcher.arrived.set()
        fetcher.plan()

    def paused(self) -> frozenset[TopicPartition]:
        """Returns the paused partitions."""
        return frozenset(p.partition for p in self._assigned.of(()) if p.paused)

    # Offsets of any partitions.

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Returns the first available offset of each partition."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """Returns the offset after the last committed record of each partition."""
        return await self._ends(partitions, LATEST)

    async def _ends(
        self, partitions: Iterable[TopicPartition | tuple[str, int]], end: int
    ) -> dict[TopicPartition, int]:
        several = given.several_partitions("partitions", partitions)
        found = await self._list(dict.fromkeys(several, end))
        return {tp: listed.offset for tp, listed in found.items()}

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Returns the first record at or after each timestamp (ms); None if there is none."""
        for time_ms in timestamps.values():
            given.whole("timestamps", time_ms, 0, given.INT64_MAX)
        found = await self._list(dict(timestamps))
        return {tp: None if at.offset < 0 else at for tp, at in found.items()}

    async def _list(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        fetcher = self._started()
        keys: dict[PartitionKey, TopicPartition] = {}
        for tp in wanted:
            timeout_s = self._request_timeout_s
            view = await fetcher.cluster.topic(tp.topic, timeout_s, tp.partition)
            keys[view.topic_id, tp.partition] = tp
        found = await fetcher.offsets.listed(
            {key: wanted[tp] for key, tp in keys.items()}, self._request_timeout_s
        )
        return {
            tp: OffsetAndTimestamp(found[key].offset, found[key].timestamp, found[key].leader_epoch)
            for key, tp in keys.items()
        }

    # Helpers.

    def _on_step(self, position: Position, at: CommitOffset) -> None:
        if self._group is not None:
            self._group.on_step(position, at)

    def _started(self) -> Fetcher:
        fetcher = self._assigned.fetcher
        if self._session is None or fetcher is None:
            raise ClientClosed("the consumer is not started, or closed; use `async with`")
        self._session.require()
        return fetcher


class Ahead(NamedTuple):
    """The parts of a consumer that a blocking iteration uses: records lent ahead, a poll for more,
    and a function that takes them back.

    `poll` and `take_back` run on the loop.
    """

    records: deque[ConsumerRecord]
    poll: Callable[[], Coroutine[Any, Any, None]]
    take_back: Callable[[], None]


def ahead_of(consumer: Consumer) -> Ahead:
    """Returns the records lent to the consumer's blocking twin."""
    return Ahead(consumer._lending.ahead, consumer._lend, consumer._lending.take_back)
