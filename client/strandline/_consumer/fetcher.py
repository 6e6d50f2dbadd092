"""Reads ahead of a consumer: routes positions to leaders, buffers records, validates offsets."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline._consumer.records import last_of_run
from strandline._consumer.stream import FetchLimits, FetchStream
from strandline._core.backoff import Backoff
from strandline._core.fetch_session import FetchTarget
from strandline._core.position import Phase
from strandline._net.offsets import READ_UNCOMMITTED, Offsets, why_gone
from strandline.errors import (
    BrokerError,
    CorruptRecords,
    KafkaStorageError,
    LeaderNotAvailable,
    StrandlineError,
    describe,
    from_code,
)
from strandline.types import Broker
from strandline_proto.errors import NONE, CorruptMessage, OffsetOutOfRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline._core.cluster_view import Changes, PartitionKey
    from strandline._core.position import Position
    from strandline._net.session import Session
    from strandline_proto.decompression import Buffer
    from strandline_proto.hot_messages import FetchResponse, FetchResult

LOOKUP_TIMEOUT_S: Final = 5.0
STORAGE_PATIENCE_MS: Final = 10_000
"""Time in which the controller would have moved the leader to another replica."""
READ_AHEAD: Final = 4
"""Multiple of max_partition_fetch_bytes up to which a partition is read ahead."""


class Wanted(NamedTuple):
    target: FetchTarget
    generation: int


class Chunk(NamedTuple):
    """Fetched batches that are not decoded yet."""

    generation: int
    data: Buffer
    aborted: Sequence[tuple[int, int]] = ()
    """(producer id, first offset) of the aborted transactions among them."""


class Fetcher:
    """All positions of one consumer, and the streams that fill their buffers."""

    def __init__(
        self,
        session: Session,
        *,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        partition_max_bytes: int,
        buffer_bytes: int,
        request_timeout_s: float,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> None:
        self.connections = session.connections
        self.cluster = session.cluster
        self.offsets = Offsets(session, isolation_level)
        self.request_timeout_s = request_timeout_s
        self._limits = FetchLimits(
            max_wait_ms, min_bytes, max_bytes, request_timeout_s, isolation_level
        )
        self._session = session
        self.positions: dict[PartitionKey, Position] = {}
        self.buffers: dict[PartitionKey, deque[Chunk]] = {}
        self.arrived = asyncio.Event()
        """Set when there are records, or an error for the user."""
        self.obstacle: StrandlineError | None = None
        """The last obstacle to fetching; the cause of a time-out."""
        self._runtime = session.runtime
        self._tasks = session.tasks
        self._partition_max_bytes = partition_max_bytes
        self._buffer_bytes = buffer_bytes
        self._buffered = 0
        self._buffered_of: dict[PartitionKey, int] = {}
        self._streams: dict[int, FetchStream] = {}
        self._backoffs: dict[PartitionKey, Backoff] = {}
        self._unserved: dict[PartitionKey, tuple[tuple[int, int], float]] = {}
        """(generation, offset) that a leader's disk does not serve, and the time of the failure."""
        self._navigate = asyncio.Event()
        self._retries: dict[PartitionKey, asyncio.TimerHandle] = {}
        """Timers of the next retry for partitions whose last fetch failed."""
        self.cluster.watchers.append(self._on_metadata)
        session.on_broken.append(lambda _: self.arrived.set())

    @property
    def buffered_bytes(self) -> int:
        return self._buffered

    def chance(self) -> float:
        return self._runtime.rng.random()

    def _now_ms(self) -> float:
        return self._runtime.clock.monotonic() * 1000

    # Assignment.

    def assign(self, positions: dict[PartitionKey, Position]) -> None:
        for key in list(self.positions):
            if key not in positions:
                self.drop(key)
                self._unserved.pop(key, None)
                self._backoffs.pop(key, None)
                if (retry := self._retries.pop(key, None)) is not None:
                    retry.cancel()
        self.positions = positions
        for key in positions:
            self.buffers.setdefault(key, deque())
        self.plan()

    def drop(self, key: PartitionKey) -> None:
        """Drops the read-ahead of a partition."""
        self._buffered -= self._buffered_of.pop(key, 0)
        self.buffers.pop(key, None)

    def moved(self, position: Position) -> None:
        """Drops the read-ahead of a moved position, and routes it again."""
        if self.positions.get(position.key) is position:
            self.drop(position.key)
            self.buffers[position.key] = deque()
        self.plan()

    def plan(self) -> None:
        """Wakes the streams and lookups that the present positions need."""
        streams: dict[int, None] = {}
        for key, position in self.positions.items():
            leader = self.cluster.view.leader(*key)
            if leader is None:
                self.cluster.request_refresh()
            else:
                position.on_leader(leader[1])
            if position.phase in (Phase.RESETTING, Phase.VALIDATING):
                self._navigate.set()
            elif position.phase is Phase.FETCHING and leader is not None:
                streams[leader[0]] = None
            elif position.phase is Phase.FAILED:
                self.arrived.set()
        for broker_id in streams:
            stream = self._streams.get(broker_id)
            if stream is None:
                stream = self._streams[broker_id] = FetchStream(
                    self._session, self, broker_id, self._limits
                )
                self._tasks.start(stream.run(), f"fetch from broker {broker_id}")
            stream.wake()

    def wanted(self, broker_id: int) -> tuple[dict[PartitionKey, Wanted], bool]:
        """The partitions to fetch from `broker_id` now; True if a full buffer excludes some."""
        wanted: dict[PartitionKey, Wanted] = {}
        crowded = False
        now_ms = self._now_ms()
        for key, position in self.positions.items():
            if position.phase is not Phase.FETCHING or position.paused:
                continue
            leader = self.cluster.view.leader(*key)
            if leader is None or leader[0] != broker_id or now_ms < position.retry_at_ms:
                continue
            if self._is_full(key):
                crowded = True
                continue
            target = FetchTarget(
                position.fetch_offset, leader[1], position.fetch_epoch, self._partition_max_bytes
            )
            wanted[key] = Wanted(target, position.generation)
        return wanted, crowded

    def _is_full(self, key: PartitionKey) -> bool:
        if self._buffered_of.get(key, 0) >= READ_AHEAD * self._partition_max_bytes:
            return True
        return self._buffered >= self._buffer_bytes and bool(self.buffers.get(key))

    def take(self, key: PartitionKey) -> Chunk | None:
        """Removes and returns the next chunk of a partition, which frees its room."""
        buffer = self.buffers.get(key)
        if not buffer:
            return None
        chunk = buffer.popleft()
        was_full = self._is_full(key) or self._buffered >= self._buffer_bytes
        self._buffered -= len(chunk.data)
        self._buffered_of[key] = self._buffered_of.get(key, 0) - len(chunk.data)
        if was_full:
            self.plan()
        return chunk

    # Metadata.

    def _on_metadata(self, changes: Changes) -> None:
        for topic_id in changes.gone:
            for key, position in self.positions.items():
                if key[0] == topic_id and not position.is_granted:
                    position.fail(why_gone(self.cluster, position.partition.topic))
        self.plan()

    def on_unreachable(self, broker_id: int, error: StrandlineError) -> None:
        self.obstacle = error
        self._runtime.log.info("cannot fetch from a broker for now", error=describe(error))
        self.cluster.request_refresh()

    # Answers.

    def on_response(self, wanted: dict[PartitionKey, Wanted], response: FetchResponse) -> None:
        view = self.cluster.view
        for node in response.node_endpoints:
            view.add_broker(Broker(node.node_id, node.host, node.port, node.rack))
        for result in response.partitions:
            key = (result.topic_id, result.partition)
            asked = wanted.get(key)
            position = self.positions.get(key)
            if asked is None or position is None:
                continue
            if not position.awaits(asked.generation, asked.target.offset):
                continue
            hint = result.current_leader
            if hint is not None and result.error_code != NONE:
                view.hint(*key, leader=hint.leader_id, leader_epoch=hint.leader_epoch)
            self._on_result(key, position, asked, result)

    def _on_result(
        self,
        key: PartitionKey,
        position: Position,
        asked: Wanted,
        result: FetchResult,
    ) -> None:
        if result.error_code != NONE:
            self._on_error(key, position, result)
            return
        self._backoffs.pop(key, None)
        if result.diverging_epoch is not None:
            parted = result.diverging_epoch
            if position.on_diverging(
                asked.generation, found_epoch=parted.epoch, end_offset=parted.end_offset
            ):
                self.moved(position)
            return
        position.high_watermark = result.high_watermark
        position.last_stable_offset = result.last_stable_offset
        position.log_start_offset = result.log_start_offset
        self.obstacle = None
        if result.records:
            self._keep(key, position, asked, result)

    def _keep(
        self, key: PartitionKey, position: Position, asked: Wanted, result: FetchResult
    ) -> None:
        """Buffers batches; they are checked and decoded when the user polls for them."""
        records = result.records
        try:
            last = last_of_run(records, asked.target.offset)
        except CorruptMessage as error:
            self._damaged(position, str(error))
            return
        if last is None:
            self._damaged(position, f"{len(records)} bytes hold no whole batch")
            return
        if not position.on_fetched(asked.generation, last.next_offset, last.leader_epoch):
            return
        self.buffers[key].append(Chunk(asked.generation, records, result.aborted_transactions))
        self._buffered += len(records)
        self._buffered_of[key] = self._buffered_of.get(key, 0) + len(records)
        self.arrived.set()

    def _damaged(self, position: Position, why: str) -> None:
        position.fail(
            CorruptRecords(
                f"{position.partition.topic}:{position.partition.partition} at offset "
                f"{position.fetch_offset}: {why}; seek past it to go on"
            )
        )
        self.arrived.set()

    def _on_error(self, key: PartitionKey, position: Position, result: FetchResult) -> None:
        if result.error_code == OffsetOutOfRange.code:
            if position.on_out_of_range(position.generation, result.log_start_offset):
                self.moved(position)
            return
        error = from_code(result.error_code, result.error_message)
        self.obstacle = error
        if not error.retriable:
            position.fail(error)
            self.arrived.set()
            return
        if isinstance(error, KafkaStorageError) and self._waited_long(key, position):
            position.fail(error)
            self.arrived.set()
            return
        # A stale leader, a lagging one, or a topic unknown there: refresh metadata, then retry.
        backoff = self._backoffs.setdefault(key, Backoff())
        wait_ms = backoff.next_ms(self.chance())
        position.retry_at_ms = self._now_ms() + wait_ms
        self.cluster.request_refresh()
        if key in self._retries:
            self._retries[key].cancel()
        loop = asyncio.get_running_loop()
        self._retries[key] = loop.call_later(wait_ms / 1000, self._try_again, position)

    def _try_again(self, position: Position) -> None:
        position.retry_at_ms = 0.0  # uvloop's timers may be early: there is no second one
        self.plan()

    def _waited_long(self, key: PartitionKey, position: Position) -> bool:
        """True if no replica has served this offset for STORAGE_PATIENCE_MS after a disk error.

        Another replica would have become the leader in that time.
        """
        place = position.generation, position.fetch_offset
        known, since_ms = self._unserved.get(key, (None, 0.0))
        if known != place:
            since_ms = self._now_ms()
            self._unserved[key] = place, since_ms
        return self._now_ms() - since_ms > STORAGE_PATIENCE_MS

    # Offsets to look up, positions to validate.

    async def navigate(self) -> None:
        """Resolves positions that are not ready to fetch, with back-off, until the end."""
        try:
            await self._navigate_on()
        finally:
            for retry in self._retries.values():
                retry.cancel()

    async def _navigate_on(self) -> None:
        backoff = Backoff()
        while True:
            await self._navigate.wait()
            self._navigate.clear()
            failed = await self._look_up()
            failed = await self._validate() or failed
            self.plan()
            if failed:
                self.cluster.request_refresh()
                await asyncio.sleep(backoff.next_ms(self.chance()) / 1000)
            else:
                backoff.reset()

    async def _look_up(self) -> bool:
        resetting = {
            key: position
            for key, position in self.positions.items()
            if position.phase is Phase.RESETTING
        }
        if not resetting:
            return False
        generations = {key: position.generation for key, position in resetting.items()}
        targets = {key: position.reset_to for key, position in resetting.items()}
        found, failures = await self.offsets.list_once(targets, LOOKUP_TIMEOUT_S)
        for key, listed in found.items():
            resetting[key].on_listed(generations[key], listed.offset, listed.leader_epoch)
        return self._note(failures, resetting, generations)

    async def _validate(self) -> bool:
        validating = {
            key: position
            for key, position in self.positions.items()
            if position.phase is Phase.VALIDATING
        }
        if not validating:
            return False
        generations = {key: position.generation for key, position in validating.items()}
        epochs = {key: position.fetch_epoch for key, position in validating.items()}
        found, failures = await self.offsets.epoch_ends(epochs, LOOKUP_TIMEOUT_S)
        for key, end in found.items():
            position = validating[key]
            if position.on_epoch_end(
                generations[key],
                leader_epoch=end.asked_in,
                found_epoch=end.epoch,
                end_offset=end.end_offset,
            ):
                self.moved(position)
        return self._note(failures, validating, generations)

    def _note(
        self,
        failures: dict[PartitionKey, StrandlineError],
        asked: dict[PartitionKey, Position],
        generations: dict[PartitionKey, int],
    ) -> bool:
        for key, error in failures.items():
            self.obstacle = error
            fatal = isinstance(error, BrokerError) and not error.retriable
            is_news = asked[key].generation == generations[key]
            if fatal and is_news and not isinstance(error, LeaderNotAvailable):
                asked[key].fail(error)
        return bool(failures)
