"""One Fetch stream: the partitions it asked for, what of them has news, and the long poll.

A stream is a fetch session (KIP-227): the reader names a partition when its position changes, and
we keep the rest. A partition is looked at again only when it has news (an append for a follower, a
watermark for a consumer, a change of role), so a round costs what has changed, not what is
assigned. A new request ends the wait of the one before it: a reader that adds a partition does not
wait a full poll for it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.partition import Listener, Partition
from strandline_broker.hosts.reads import (
    Divergence,
    Position,
    read_for_consumer,
    read_for_follower,
)
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
from strandline_proto.ids import BrokerId, TopicId
from strandline_proto.v1 import common_pb2, fetch_pb2

if TYPE_CHECKING:
    from strandline_broker.hosts.replica_manager import ReplicaManager
    from strandline_broker.storage.log_reader import LogRead

SESSION_PARTITIONS_MAX: Final = 100_000
WAIT_MS_MAX: Final = 30_000
RESPONSE_BYTES_MAX: Final = 32 << 20
SWEEP_MS: Final = 500
"""How often a follower that has everything is counted as having been here (P-57)."""

Key = tuple[bytes, int]


class FetchSession(Listener):
    def __init__(self, replicas: ReplicaManager, session_id: int) -> None:
        self._replicas = replicas
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
        self._swept_ms = 0

    # News, from partitions and from the stream's reader

    def on_news(self, partition: Partition) -> None:
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

    async def serve(
        self, request: fetch_pb2.FetchRequest, interrupted: Interrupted
    ) -> fetch_pb2.FetchResponse:
        response = fetch_pb2.FetchResponse(
            correlation_id=request.correlation_id, session_id=self._id
        )
        try:
            self._check(request)
            self._remember(request)
        except WireError as error:
            response.error_code, response.error_message = error.code, str(error)
            return response
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(max(request.max_wait_ms, 0), WAIT_MS_MAX) / 1000
        while True:
            self._wake.clear()
            response.ClearField("topics")
            if self._held and loop.time() >= self._held_until_s:
                self._news.update(self._held)
                self._held = {}
            collected = _Collected(response, min(request.max_bytes, RESPONSE_BYTES_MAX))
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
        return response

    def _check(self, request: fetch_pb2.FetchRequest) -> None:
        cluster_id = self._replicas.cluster_id
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
        replica = request.replica_state
        if request.HasField("replica_state") and replica.replica_id >= 0:
            self._replica_id, self._replica_epoch = replica.replica_id, replica.replica_epoch
            known = self._replicas.broker_epoch_of(BrokerId(self._replica_id))
            if known is not None and self._replica_epoch < known:
                raise StaleBrokerEpoch(
                    f"broker {self._replica_id} fetches with epoch {self._replica_epoch};"
                    f" its registration is of epoch {known}"
                )

    def _remember(self, request: fetch_pb2.FetchRequest) -> None:
        for forgotten in request.forgotten:
            for index in forgotten.partitions:
                self._drop((forgotten.topic_id, index))
        for topic in request.topics:
            for p in topic.partitions:
                key = (topic.topic_id, p.partition)
                if key not in self._positions:
                    self._check_room()
                self._positions[key] = Position(
                    p.current_leader_epoch,
                    p.fetch_offset,
                    p.last_fetched_epoch,
                    p.log_start_offset,
                    p.partition_max_bytes,
                )
                self._news[key] = None
                # It may have dropped our last answer, which was to an older request.
                self._told.pop(key, None)
        now_ms = self._replicas.context.now_ms()
        if self._replica_id >= 0 and now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._news.update(dict.fromkeys(self._positions))

    def _check_room(self) -> None:
        if len(self._positions) >= SESSION_PARTITIONS_MAX:
            raise ThrottlingQuotaExceeded(
                f"a fetch session holds at most {SESSION_PARTITIONS_MAX} partitions"
            )

    def _drop(self, key: Key) -> None:
        self._positions.pop(key, None)
        self._told.pop(key, None)
        self._news.pop(key, None)
        self._held.pop(key, None)
        partition = self._replicas.partitions.get(key)
        if partition is not None:
            self._listeners(partition).pop(self, None)

    def _listeners(self, partition: Partition) -> dict[Listener, None]:
        if self._replica_id >= 0:
            return partition.replica_listeners
        return partition.consumer_listeners

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
        throttle = self._replicas.context.copies_out
        try:
            partition = self._replicas.find(*key)
            if partition is None:
                raise self._unknown(key)
            self._listeners(partition)[self] = None
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
            collected.refuse(key, error, self._replicas.leader_hint(key), partition)
            return
        if self._positions.get(key) is not position:
            self._news[key] = None
            return
        if isinstance(found, Divergence):
            self._news[key] = None
            result = collected.result(key, partition)
            result.diverging_epoch.epoch = found.epoch
            result.diverging_epoch.end_offset = found.end_offset
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
            self._quiet[key] = None
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
        return self._replica_id >= 0 and position.log_start_offset < start and told < start

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
        if self._replicas.context.metadata.view.topic(TopicId(key[0])) is not None:
            return UnknownTopicOrPartition(
                f"broker {self._replicas.context.me} holds no replica of partition {key[1]}"
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

    def __init__(self, response: fetch_pb2.FetchResponse, max_bytes: int) -> None:
        self.size = 0
        self.urgent = False
        self._response = response
        self._max_bytes = max_bytes
        self._topics: dict[bytes, fetch_pb2.FetchTopicResult] = {}
        self._results: dict[Key, fetch_pb2.FetchPartitionResult] = {}

    @property
    def room(self) -> int:
        return self._max_bytes - self.size

    def limit_for(self, partition_max_bytes: int) -> int:
        return max(1, min(partition_max_bytes, self.room))

    def has(self, key: Key) -> bool:
        return key in self._results

    def add(self, size: int) -> None:
        self.size += size

    def _new(self, key: Key) -> fetch_pb2.FetchPartitionResult:
        found = self._results.get(key)
        if found is not None:
            found.Clear()
            found.partition_index = key[1]
            return found
        topic = self._topics.get(key[0])
        if topic is None:
            topic = self._topics[key[0]] = self._response.topics.add(topic_id=key[0])
        result = self._results[key] = topic.partitions.add(partition_index=key[1])
        return result

    def result(self, key: Key, partition: Partition) -> fetch_pb2.FetchPartitionResult:
        result = self._new(key)
        result.high_watermark = partition.high_watermark
        result.last_stable_offset = partition.high_watermark
        result.log_start_offset = partition.log.log_start_offset
        result.preferred_read_replica = -1
        return result

    def refuse(
        self,
        key: Key,
        error: WireError,
        leader: common_pb2.CurrentLeader | None,
        partition: Partition | None,
    ) -> None:
        # A reader that is out of range needs the range to decide what to do (I-45).
        result = self._new(key) if partition is None else self.result(key, partition)
        result.error_code, result.error_message = error.code, str(error)
        if leader is not None:
            result.current_leader.CopyFrom(leader)
        self.urgent = True


if TYPE_CHECKING:
    from typing import Protocol

    class Interrupted(Protocol):
        def __call__(self) -> bool: ...
