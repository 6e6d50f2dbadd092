"""The consumer: reads assigned partitions, in order, committed records only.

Positions are kept by topic id with leader epochs: a log that was truncated or a topic that was
created anew is an error or a reset by policy, never read over (P-82, P-83). Groups are not there
yet: partitions are assigned by the caller.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline import _arguments as given
from strandline._connections import parse_bootstrap
from strandline._core.position import EARLIEST, LATEST, Phase, Position
from strandline._core.whole_topics import WholeTopics
from strandline._delivery import Delivery
from strandline._fetcher import Fetcher
from strandline._session import Session
from strandline.errors import (
    ClientClosed,
    ConfigurationError,
    OperationTimedOut,
    UnknownTopicOrPartition,
    UnsupportedFeature,
    describe,
)
from strandline.types import ConsumerRecord, OffsetAndTimestamp, TopicPartition
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import NoReturn, Self

    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline_runtime.runtime import Runtime

_POLICIES: Final[dict[str, int | None]] = {
    "earliest": EARLIEST,
    "latest": LATEST,
    "error": None,
    "none": None,
}
NO_GROUPS: Final = "consumer groups are not supported yet: assign partitions with assign([...])"


class Consumer:
    """Reads records. Use it as an asynchronous context manager, and iterate or call `getmany`.

    Topics given here are read whole, until `assign` is called: partitions that are added later are
    found within `metadata_max_age_ms` and read from their first record, whatever
    `auto_offset_reset` is, since all that is in them is newer than this consumer.
    """

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        auto_offset_reset: str = "latest",
        group_id: str | None = None,
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
        if group_id is not None:
            raise UnsupportedFeature(f"group_id={group_id!r}: {NO_GROUPS}")
        if not isinstance(auto_offset_reset, str) or auto_offset_reset not in _POLICIES:
            wrong = f"auto_offset_reset={auto_offset_reset!r}"
            raise ConfigurationError(f"{wrong} is not known; use earliest, latest or error")
        self._bootstrap = parse_bootstrap(bootstrap_servers)
        self._topics = tuple(given.several("topics", topics, str))
        self._policy = _POLICIES[auto_offset_reset]
        self._limits = {
            "max_wait_ms": fetch_max_wait_ms,
            "min_bytes": fetch_min_bytes,
            "max_bytes": fetch_max_bytes,
            "partition_max_bytes": max_partition_fetch_bytes,
            "buffer_bytes": prefetch_max_bytes,
        }
        given.whole("fetch_max_wait_ms", fetch_max_wait_ms, 0)
        given.whole("fetch_min_bytes", fetch_min_bytes, 1)
        most = given.REQUEST_BYTES_MAX
        given.whole("fetch_max_bytes", fetch_max_bytes, 1, most)
        given.whole("max_partition_fetch_bytes", max_partition_fetch_bytes, 1, most)
        given.whole("prefetch_max_bytes", prefetch_max_bytes, 1, given.INT64_MAX)
        if max_poll_records is not None:
            given.whole("max_poll_records", max_poll_records, 1)
        given.milliseconds("request_timeout_ms", request_timeout_ms)
        given.milliseconds("connect_timeout_ms", connect_timeout_ms)
        given.milliseconds("metadata_max_age_ms", metadata_max_age_ms)
        given.flag("check_crcs", check_crcs)
        self._max_age_s = metadata_max_age_ms / 1000
        self._max_poll_records = max_poll_records
        self._request_timeout_s = request_timeout_ms / 1000
        self._connect_timeout_s = connect_timeout_ms / 1000
        self._runtime = runtime
        self._fetcher: Fetcher | None = None
        self._session: Session | None = None
        self._keys: dict[TopicPartition, PartitionKey] = {}
        self._whole = WholeTopics()
        self._delivery = Delivery(
            check_crcs=check_crcs, max_decompressed_bytes=max_decompressed_bytes
        )

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
        """Connect, and assign the topics of the constructor. Leaves nothing behind if it fails."""
        if self._session is not None:
            self._session.require()
            raise ClientClosed("the consumer has been started already")
        session = Session("consumer", self._bootstrap, self._runtime)
        session.cluster.max_age_s = self._max_age_s
        await session.open(self._connect_timeout_s)
        self._session = session
        self._fetcher = self._delivery.source = Fetcher(
            session, request_timeout_s=self._request_timeout_s, **self._limits
        )
        session.tasks.start(self._fetcher.navigate(), "positions")
        try:
            wanted: list[tuple[str, int]] = []
            for topic in self._topics:
                wanted += [(topic, p) for p in sorted(await self.partitions_for_topic(topic))]
            await self.assign(wanted)
            self._whole.follow(self._fetcher.positions.values())
            session.cluster.watchers.append(self._on_metadata)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close the streams. Positions are not kept anywhere."""
        session = self._session
        if session is None or session.is_elsewhere:
            return
        session.require_own_loop()
        fetcher, self._fetcher = self._fetcher, None
        self._session = None
        if fetcher is not None:
            fetcher.arrived.set()  # whoever waits for records hears of the end
        await session.close()

    def _started(self) -> Fetcher:
        if self._session is None or self._fetcher is None:
            raise ClientClosed("the consumer is not started, or closed; use `async with`")
        self._session.require()
        return self._fetcher

    # Assignment.

    async def assign(self, partitions: Iterable[TopicPartition | tuple[str, int]]) -> None:
        """Read these partitions from now on; those that were assigned before keep their position.

        Raises UnknownTopicOrPartition if one does not exist.
        """
        fetcher = self._started()
        keys: dict[TopicPartition, PartitionKey] = {}
        positions: dict[PartitionKey, Position] = {}
        for tp in given.several_partitions("partitions", partitions):
            topic, number = tp
            view = await fetcher.cluster.topic(topic, self._request_timeout_s)
            if number not in view.partitions:
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has {len(view.partitions)} partitions; there is no {number}"
                )
            key = (view.topic_id, number)
            keys[tp] = key
            position = fetcher.positions.get(key)
            if position is None:
                position = Position(tp, view.topic_id, self._policy)
                position.reset(LATEST if self._policy is None else self._policy)
            positions[key] = position
        for key in fetcher.positions:
            if key not in positions:
                self._delivery.forget(key)
        self._whole.follow(())
        self._keys = keys
        fetcher.assign(positions)

    def _on_metadata(self, _: Changes) -> None:
        """Take up partitions that were added to topics that are read whole."""
        if (fetcher := self._fetcher) is None:
            return
        added = self._whole.added(fetcher.cluster.view, self._keys, self._policy)
        if added:
            self._keys |= {tp: position.key for tp, position in added.items()}
            fetcher.assign(fetcher.positions | {p.key: p for p in added.values()})

    def subscribe(self, *args: object, **kwargs: object) -> NoReturn:
        """Not there yet."""
        raise UnsupportedFeature(NO_GROUPS)

    async def commit(self, *args: object, **kwargs: object) -> NoReturn:
        """Not there yet."""
        raise UnsupportedFeature("commits need a consumer group; keep the positions yourself")

    def assignment(self) -> frozenset[TopicPartition]:
        return frozenset(self._keys)

    async def partitions_for_topic(self, topic: str) -> frozenset[int]:
        """The partitions of `topic`. Raises UnknownTopicOrPartition."""
        view = await self._started().cluster.topic(topic, self._request_timeout_s)
        return frozenset(view.partitions)

    def _position(self, tp: TopicPartition | tuple[str, int]) -> Position:
        key = self._keys.get(given.one_partition("partition", tp))
        if key is None:
            raise ConfigurationError(f"{tp[0]}/{tp[1]} is not assigned to this consumer")
        return self._started().positions[key]

    def _of(self, partitions: tuple[TopicPartition | tuple[str, int], ...]) -> list[Position]:
        return [self._position(tp) for tp in (partitions or tuple(self._keys))]

    # Positions.

    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int, leader_epoch: int = -1
    ) -> None:
        """Read from `offset` on.

        With the leader epoch of the record before it (a record's `leader_epoch`, or what was kept
        beside a saved offset), a log that has lost that record is detected.
        """
        given.whole("offset", offset, 0, given.INT64_MAX, hint="or use seek_to_beginning, _end")
        given.whole("leader_epoch", leader_epoch, -1)
        position = self._position(partition)
        fetcher = self._started()
        if leader_epoch >= 0:
            fetcher.cluster.view.require_epoch(*position.key, leader_epoch)
        position.seek(offset, leader_epoch)
        self._delivery.forget(position.key)
        fetcher.moved(position)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read from the first record that is there; of all assigned partitions if none is named."""
        await self._reset(partitions, EARLIEST)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read only what is committed from now on."""
        await self._reset(partitions, LATEST)

    async def _reset(self, partitions: tuple[TopicPartition, ...], to: int) -> None:
        fetcher = self._started()
        positions = self._of(partitions)
        for position in positions:
            position.reset(to)
            self._delivery.forget(position.key)
            fetcher.moved(position)
        for position in positions:
            await self._resolved(position)

    async def position(self, partition: TopicPartition | tuple[str, int]) -> int:
        """The offset of the next record that the caller gets."""
        return await self._resolved(self._position(partition))

    async def _resolved(self, position: Position) -> int:
        """Wait until an offset that is being looked up is known."""
        fetcher = self._started()
        deadline = asyncio.get_running_loop().time() + self._request_timeout_s
        while position.phase is Phase.RESETTING:
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
        """Leader epoch of the last record delivered, to be saved with the offset; -1 if none."""
        return self._position(partition).epoch

    def highwater(self, partition: TopicPartition | tuple[str, int]) -> int | None:
        """The high watermark that came with the last answer; None before the first."""
        mark = self._position(partition).high_watermark
        return None if mark < 0 else mark

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver nothing of these until `resume`."""
        for position in self._of(partitions):
            position.paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        fetcher = self._started()
        for position in self._of(partitions):
            position.paused = False
        fetcher.arrived.set()
        fetcher.plan()

    def paused(self) -> frozenset[TopicPartition]:
        return frozenset(p.partition for p in self._of(()) if p.paused)

    # Offsets.

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """The first offset that is there, of each partition."""
        return await self._ends(partitions, EARLIEST)

    async def end_offsets(
        self, partitions: Iterable[TopicPartition | tuple[str, int]]
    ) -> dict[TopicPartition, int]:
        """One past the last committed record, of each partition."""
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
        """The first record at or after each timestamp (ms); None where there is none."""
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
            view = await fetcher.cluster.topic(tp.topic, self._request_timeout_s)
            keys[view.topic_id, tp.partition] = tp
        found = await fetcher.offsets.listed(
            {key: wanted[tp] for key, tp in keys.items()}, self._request_timeout_s
        )
        return {
            tp: OffsetAndTimestamp(found[key].offset, found[key].timestamp, found[key].leader_epoch)
            for key, tp in keys.items()
        }

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

        Raises what stands in a partition's way (LogTruncated, OffsetOutOfRange, CorruptRecords,
        TopicRecreated …) once nothing before it is left to deliver.
        """
        fetcher = self._started()
        limit = max_records if max_records is not None else self._max_poll_records
        if limit is not None:
            given.whole("max_records", limit, 1)
        if timeout_ms is not None:
            given.milliseconds("timeout_ms", timeout_ms, least=0)
        try:
            async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                while True:
                    fetcher.arrived.clear()
                    awake = [p for p in self._of(partitions) if not p.paused]
                    found = self._delivery.collect(awake, limit)
                    if found or timeout_ms == 0:
                        return found
                    await fetcher.arrived.wait()
                    fetcher = self._started()
        except TimeoutError:
            return {}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        return await self.getone()
