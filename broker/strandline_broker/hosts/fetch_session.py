"""One Fetch stream: the partitions it asked for, what of them has news, and the long poll.

A stream is a fetch session (KIP-227): the reader names a partition when its position changes, and
we keep the rest. A partition is looked at again only when it has news (an append for a follower, a
watermark for a consumer, a change of role), so a round costs what has changed, not what is
assigned. That a follower holds everything of a partition is noted once: each later request of its
session says it again for all of them, and its leader is told when it matters (P-56). A new request
ends the wait of the one before it: a reader that adds a partition does not wait a full poll for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.fetch_messages import FetchedPartition, FetchResponse
from strandline_broker.hosts.leading import Leading
from strandline_broker.hosts.listener import Listener
from strandline_broker.hosts.reads import Divergence, read_for_consumer, read_for_follower
from strandline_proto.errors import (
    FetchSessionIdNotFound,
    InconsistentClusterId,
    InvalidFetchSessionEpoch,
    StaleBrokerEpoch,
    ThrottlingQuotaExceeded,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, TopicId
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from typing import Protocol

    from strandline_broker.core.metadata_cache import CurrentLeader, MetadataCache
    from strandline_broker.hosts.copy_throttle import LeaderThrottle
    from strandline_broker.hosts.fetch_messages import FetchRequest, Key, Position
    from strandline_broker.hosts.partition import Partition
    from strandline_broker.hosts.replica_manager import ReplicaManager
    from strandline_broker.storage.log_reader import LogRead
    from strandline_runtime.runtime import Clock

    class Interrupted(Protocol):
        def __call__(self) -> bool: ...


SESSION_PARTITIONS_MAX: Final = 100_000
WAIT_MS_MAX: Final = 30_000
RESPONSE_BYTES_MAX: Final = 32 << 20


class FetchSession(Listener):
    def __init__(
        self,
        clock: Clock,
        metadata: MetadataCache,
        replicas: ReplicaManager,
        copies: LeaderThrottle,
        session_id: int,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._replicas = replicas
        self._copies = copies
        self._id = session_id
        self._epoch = 0
        self._replica_id = -1
        self._replica_epoch = -1
        self._positions: dict[Key, Position] = {}
        self._told: dict[
            Key, tuple[int, int]
        ] = {}  # high watermark, log start: what the reader knows
        self._news: dict[Key, None] = {}
        self._quiet: dict[Key, None] = {}  # watermarks to mention in the next answer
        self._held: dict[Key, None] = {}
        """Copies for a reassignment that the throttle does not admit yet."""
        self._held_until_s = 0.0
        self._wake = asyncio.Event()
        self._heard_ms = 0
        """When the follower has last sent a request."""
        self._level: dict[Key, int] = {}
        """What it held all of when it was looked at, and when it was last heard before that."""

    # News, from partitions and from the stream's reader

    def on_news(self, partition: Partition) -> None:
        if partition.key in self._level:
            self._end_level(partition.key)
        self._news[partition.key] = None
        self._wake.set()

    def on_watermark(self, partition: Partition) -> None:
        self._quiet[partition.key] = None

    def interrupt(self) -> None:
        """Answer the request under way with what there is: another one has come."""
        self._wake.set()

    def close(self) -> None:
        for key in list(self._positions):
            self._drop(key)

    # One request

    async def serve(self, request: FetchRequest, interrupted: Interrupted) -> FetchResponse:
        try:
            self._check(request)
            self._remember(request)
        except WireError as error:
            return FetchResponse(request.correlation_id, self._id, error)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(max(request.max_wait_ms, 0), WAIT_MS_MAX) / 1000
        while True:
            self._wake.clear()
            if self._held and loop.time() >= self._held_until_s:
                self._news.update(self._held)
                self._held = {}
            collected = _Collected(min(request.max_bytes, RESPONSE_BYTES_MAX))
            await self._collect(collected)
            if collected.urgent or collected.size >= max(request.min_bytes, 1) or interrupted():
                break
            if loop.time() >= deadline:
                break
            until = min(deadline, self._held_until_s) if self._held else deadline
            alarm = loop.call_at(until, self._wake.set)
            try:
                await self._wake.wait()
            finally:
                alarm.cancel()
        self._tell_watermarks(collected)
        return FetchResponse(request.correlation_id, self._id, partitions=collected.partitions)

    def _check(self, request: FetchRequest) -> None:
        cluster_id = self._metadata.cluster_id
        if request.cluster_id and request.cluster_id != cluster_id:
            raise InconsistentClusterId(
                f"this is cluster {cluster_id}, the request is for {request.cluster_id}"
            )
        if request.session_id not in (0, self._id):  # 0: sent before our first answer arrived
            raise FetchSessionIdNotFound(f"session {request.session_id} is not this stream's")
        if request.session_epoch != self._epoch:
            raise InvalidFetchSessionEpoch(
                f"request {request.session_epoch} came where {self._epoch} was due"
            )
        if request.isolation_level not in (0, 1):
            raise UnsupportedVersion(f"isolation level {request.isolation_level} is not known")
        self._epoch += 1
        if request.replica is not None:
            self._replica_id, self._replica_epoch = request.replica
            known = self._replicas.broker_epoch_of(BrokerId(self._replica_id))
            if known is not None and self._replica_epoch < known:
                raise StaleBrokerEpoch(
                    f"broker {self._replica_id} fetches with epoch {self._replica_epoch};"
                    f" its registration is of epoch {known}"
                )

    def _remember(self, request: FetchRequest) -> None:
        for key in request.forgotten:
            self._drop(key)
        for key, position in request.positions.items():
            if key not in self._positions:
                self._check_room()
            elif key in self._level:
                self._end_level(key)
            self._positions[key] = position
            self._news[key] = None
            # It may have dropped our last answer, which was to an older request.
            self._told.pop(key, None)
        self._heard_ms = monotonic_ms(self._clock)

    def _check_room(self) -> None:
        if len(self._positions) >= SESSION_PARTITIONS_MAX:
            raise ThrottlingQuotaExceeded(
                f"a fetch session holds at most {SESSION_PARTITIONS_MAX} partitions"
            )

    def _drop(self, key: Key) -> None:
        if key in self._level:
            self._end_level(key)
        self._positions.pop(key, None)
        self._told.pop(key, None)
        self._news.pop(key, None)
        self._held.pop(key, None)
        partition = self._replicas.partitions.get(key)
        if partition is not None and isinstance(partition.role, Leading):
            self._listeners(partition.role).pop(self, None)

    def _end_level(self, key: Key) -> None:
        """Up to its last request the follower held all of it, and the leader is told so: whether it
        does from here on is seen at the next look.
        """
        looked_ms = self._level.pop(key)
        partition = self._replicas.partitions.get(key)
        leader = None if partition is None else partition.leader
        if leader is not None and self._heard_ms > looked_ms:
            leader.on_still_level(
                BrokerId(self._replica_id),
                broker_epoch=BrokerEpoch(self._replica_epoch),
                at_ms=self._heard_ms,
            )

    def _listen(self, partition: Partition) -> None:
        """Nobody else has news: what another replica is asked for is refused, and looked at again
        with the next request.
        """
        if isinstance(partition.role, Leading):
            self._listeners(partition.role)[self] = None

    def _listeners(self, leading: Leading) -> dict[Listener, None]:
        if self._replica_id >= 0:
            return leading.replica_listeners
        return leading.consumer_listeners

    # Reading

    async def _collect(self, collected: _Collected) -> None:
        """Look at everything that has news, oldest first, until the answer is full."""
        news = self._news
        for key in list(news):
            if collected.room <= 0 and collected.size > 0:
                return
            position = self._positions.get(key)
            news.pop(key, None)
            if position is None:
                continue
            await self._look(key, position, collected)

    async def _look(self, key: Key, position: Position, collected: _Collected) -> None:
        partition = None
        limit = collected.limit_for(position.max_bytes)
        throttle = self._copies
        try:
            partition = self._replicas.find(*key)
            if partition is None:
                raise self._unknown(key)
            self._listen(partition)
            is_throttled = throttle.applies(partition, self._replica_id)
            if is_throttled:
                wait_s = throttle.wait_s()
                if wait_s > 0:
                    self._hold(key, wait_s)
                    return
                limit = throttle.limit(limit)
            found = await self._read(partition, position, limit)
        except WireError as error:
            self._news[key] = None  # until the reader forgets it or asks for something else
            leader = self._metadata.view.current_leader(TopicId(key[0]), key[1])
            collected.refuse(key, error, leader, partition)
            return
        if self._positions.get(key) is not position:
            self._news[key] = None
            return
        if isinstance(found, Divergence):
            self._news[key] = None
            result = collected.result(key, partition)
            result.diverging = (found.epoch, found.end_offset)
            collected.urgent = True
        elif found is not None and found.records:
            self._news[key] = None  # there may be more, and the reader may ask for the same again
            result = collected.result(key, partition)
            result.records = found.records
            if is_throttled:
                throttle.on_copied(len(found.records))
            collected.add(len(found.records))
            self._told[key] = (result.high_watermark, result.log_start_offset)
        else:
            self._on_nothing_to_read(key, position, partition, collected)

    def _on_nothing_to_read(
        self, key: Key, position: Position, partition: Partition, collected: _Collected
    ) -> None:
        self._quiet[key] = None
        if self._replica_id < 0:
            return
        if position.fetch_offset == partition.log.log_end_offset:
            self._level[key] = self._heard_ms
        else:
            self._news[key] = None  # it lacks what cannot be read now
        if self._is_behind_log_start(key, position, partition):
            collected.urgent = True

    def _hold(self, key: Key, wait_s: float) -> None:
        if not self._held:
            self._held_until_s = asyncio.get_running_loop().time() + wait_s
        self._held[key] = None

    def _is_behind_log_start(self, key: Key, position: Position, partition: Partition) -> bool:
        """Whether a follower does not know yet that our log begins later: DeleteRecords waits."""
        start = partition.log.log_start_offset
        told = self._told.get(key, (-1, -1))[1]
        return position.log_start_offset < start and told < start

    async def _read(
        self, partition: Partition, position: Position, max_bytes: int
    ) -> LogRead | Divergence | None:
        if partition.log.is_hot(position.fetch_offset) or partition.leader is None:
            return self._read_now(partition, position, max_bytes)
        # Cold bytes are read on the disk pool first; the answer is then read again from the page
        # cache in one synchronous step, so role, epoch and watermark are those of one moment
        # (P-13).
        await self._replicas.warm(partition, position.fetch_offset, max_bytes)
        return self._read_now(partition, position, max_bytes)

    def _read_now(
        self, partition: Partition, position: Position, max_bytes: int
    ) -> LogRead | Divergence | None:
        if self._replica_id >= 0:
            return read_for_follower(
                partition,
                position,
                broker_id=self._replica_id,
                broker_epoch=self._replica_epoch,
                max_bytes=max_bytes,
            )
        return read_for_consumer(partition, position, max_bytes=max_bytes)

    def _unknown(self, key: Key) -> WireError:
        if self._metadata.view.topic(TopicId(key[0])) is not None:
            return UnknownTopicOrPartition(
                f"broker {self._replicas.me} holds no replica of partition {key[1]}"
            )
        return UnknownTopicId("no topic of this id; it may have been deleted or created anew")

    def _tell_watermarks(self, collected: _Collected) -> None:
        """Watermarks ride along with any answer; for their sake alone none is sent (KAFKA-9952)."""
        quiet, self._quiet = self._quiet, {}
        for key in quiet:
            position, partition = self._positions.get(key), self._replicas.partitions.get(key)
            if position is None or partition is None or partition.leader is None:
                continue
            told = (partition.high_watermark, partition.log.log_start_offset)
            if told != self._told.get(key) and not collected.has(key):
                collected.result(key, partition)
                self._told[key] = told


class _Collected:
    """The answer as it grows."""

    def __init__(self, max_bytes: int) -> None:
        self.size = 0
        self.urgent = False
        self.partitions: dict[Key, FetchedPartition] = {}
        self._max_bytes = max_bytes

    @property
    def room(self) -> int:
        return self._max_bytes - self.size

    def limit_for(self, partition_max_bytes: int) -> int:
        return max(1, min(partition_max_bytes, self.room))

    def has(self, key: Key) -> bool:
        return key in self.partitions

    def add(self, size: int) -> None:
        self.size += size

    def result(self, key: Key, partition: Partition) -> FetchedPartition:
        result = self.partitions[key] = FetchedPartition(
            partition.high_watermark, partition.log.log_start_offset
        )
        return result

    def refuse(
        self,
        key: Key,
        error: WireError,
        leader: CurrentLeader | None,
        partition: Partition | None,
    ) -> None:
        # A reader that is out of range needs the range to decide what to do (I-45).
        if partition is None:
            result = self.partitions[key] = FetchedPartition(holds_replica=False)
        else:
            result = self.result(key, partition)
        result.error, result.leader = error, leader
        self.urgent = True
