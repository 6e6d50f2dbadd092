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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strandline_broker.hosts.fetch_answer import Collected
from strandline_broker.hosts.fetch_messages import FetchResponse
from strandline_broker.hosts.leading import Leading
from strandline_broker.hosts.listener import Listener
from strandline_broker.hosts.long_poll import LongPoll
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

    from strandline_broker.core.metadata_cache import MetadataCache
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


@dataclass(slots=True)
class _Kept:
    """What a session keeps of one partition."""

    position: Position
    told: tuple[int, int] | None = None
    """High watermark and log start as the reader knows them."""
    noted: Leading | None = None
    """The leadership that knows of this position."""
    level_ms: int | None = None
    """When the follower was last heard before a look that found it to hold everything."""


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
        self._heard_ms = 0
        """When the reader has last sent a request."""
        self._kept: dict[Key, _Kept] = {}
        self._news: dict[Key, None] = {}
        self._quiet: dict[Key, None] = {}  # watermarks to mention in the next answer
        self._held: dict[Key, None] = {}
        """Copies for a reassignment that the throttle does not admit yet."""
        self._held_until_s = 0.0
        self._poll = LongPoll()

    # News, from partitions and from the stream's reader

    def on_news(self, partition: Partition) -> None:
        key = partition.key
        kept = self._kept.get(key)
        if kept is not None and kept.level_ms is not None:
            self._end_level(key, kept)
        self._news[key] = None
        self._poll.end()

    def on_watermark(self, partition: Partition) -> None:
        self._quiet[partition.key] = None

    def interrupt(self) -> None:
        """Answer the request under way with what there is: another one has come."""
        self._poll.end()

    def close(self) -> None:
        for key in list(self._kept):
            self._drop(key)
        self._poll.close()

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
            self._poll.begin()
            if self._held and loop.time() >= self._held_until_s:
                self._news.update(self._held)
                self._held = {}
            collected = Collected(min(request.max_bytes, RESPONSE_BYTES_MAX))
            await self._collect(collected)
            if collected.urgent or collected.size >= max(request.min_bytes, 1) or interrupted():
                break
            if loop.time() >= deadline:
                break
            until = min(deadline, self._held_until_s) if self._held else deadline
            await self._poll.ended(until)
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
            kept = self._kept.get(key)
            if kept is None:
                self._check_room()
            elif kept.level_ms is not None:
                self._end_level(key, kept)
            # What it was told it may have dropped, in an answer to an older request.
            self._kept[key] = _Kept(position)
            self._news[key] = None
        self._heard_ms = monotonic_ms(self._clock)

    def _check_room(self) -> None:
        if len(self._kept) >= SESSION_PARTITIONS_MAX:
            raise ThrottlingQuotaExceeded(
                f"a fetch session holds at most {SESSION_PARTITIONS_MAX} partitions"
            )

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None and kept.level_ms is not None:
            self._end_level(key, kept)
        self._news.pop(key, None)
        self._held.pop(key, None)
        partition = self._replicas.partitions.get(key)
        if partition is not None:
            partition.expecting.pop(self, None)
            if isinstance(partition.role, Leading):
                self._listeners(partition.role).pop(self, None)

    def _end_level(self, key: Key, kept: _Kept) -> None:
        """Up to its last request the follower held all of it, and the leader is told so: whether it
        does from here on is seen at the next look.
        """
        looked_ms, kept.level_ms = kept.level_ms, None
        assert looked_ms is not None
        if self._heard_ms <= looked_ms:
            return
        partition = self._replicas.partitions.get(key)
        leader = None if partition is None else partition.leader
        if leader is not None:
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

    async def _collect(self, collected: Collected) -> None:
        """Look at everything that has news, oldest first, until the answer is full."""
        news = self._news
        for key in list(news):
            if collected.room <= 0 and collected.size > 0:
                return
            kept = self._kept.get(key)
            news.pop(key, None)
            if kept is None:
                continue
            cold = self._look(key, kept, collected)
            if cold is not None:
                # Cold bytes are read on the disk pool first; the answer is then read again from the
                # page cache in one synchronous step, so role, epoch and watermark are those of one
                # moment (P-13).
                limit = collected.limit_for(kept.position.max_bytes)
                try:
                    await self._replicas.warm(cold, kept.position.fetch_offset, limit)
                except WireError as error:  # the disk has given back what was not written
                    if self._kept.get(key) is kept:
                        self._refuse(key, error, cold, collected)
                    continue
                if self._kept.get(key) is kept:
                    news.pop(key, None)
                    self._look(key, kept, collected, is_warm=True)

    def _look(
        self, key: Key, kept: _Kept, collected: Collected, *, is_warm: bool = False
    ) -> Partition | None:
        """Put into the answer what is new. The partition, if that is to be warmed first."""
        partition = None
        limit = collected.limit_for(kept.position.max_bytes)
        throttle = self._copies
        try:
            partition = self._replicas.find(*key)
            if partition is None:
                raise self._unknown(key)
            if self._is_ahead(kept.position, partition):
                partition.expecting[self] = None
                return None
            self._listen(partition)
            is_throttled = throttle.applies(partition, self._replica_id)
            if is_throttled:
                wait_s = throttle.wait_s()
                if wait_s > 0:
                    self._hold(key, wait_s)
                    return None
                limit = throttle.limit(limit)
            if not is_warm and self._is_cold(kept.position, partition):
                return partition
            found = self._read(partition, kept, limit)
        except WireError as error:
            self._refuse(key, error, partition, collected)
            return None
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
            kept.told = (result.high_watermark, result.log_start_offset)
        else:
            self._on_nothing_to_read(key, kept, partition, collected)
        return None

    def _is_ahead(self, position: Position, partition: Partition) -> bool:
        """Whether a follower has heard of a leader epoch whose push is still under way to us: we
        look again when our role begins, so it need not ask again and again until then.
        """
        return (
            self._replica_id >= 0
            and position.current_leader_epoch > partition.leader_epoch
            and partition.out_of_service is None
        )

    def _is_cold(self, position: Position, partition: Partition) -> bool:
        log, start = partition.log, position.fetch_offset
        return (
            partition.leader is not None
            and log.log_start_offset <= start < log.log_end_offset
            and not log.is_hot(start)
        )

    def _refuse(
        self, key: Key, error: WireError, partition: Partition | None, collected: Collected
    ) -> None:
        if self._replica_id < 0:
            self._news[key] = None  # until the reader forgets it or asks for something else
        # A follower that is refused forgets the partition or names it anew, once it has heard so.
        leader = self._metadata.view.current_leader(TopicId(key[0]), key[1])
        collected.refuse(key, error, leader, partition)

    def _on_nothing_to_read(
        self, key: Key, kept: _Kept, partition: Partition, collected: Collected
    ) -> None:
        self._quiet[key] = None
        if self._replica_id < 0:
            return
        log, position = partition.log, kept.position
        if position.fetch_offset == log.log_end_offset:
            kept.level_ms = self._heard_ms
        else:
            self._news[key] = None  # it lacks what cannot be read now
        # Whether it does not know yet that our log begins later: DeleteRecords waits.
        told = -1 if kept.told is None else kept.told[1]
        if max(position.log_start_offset, told) < log.log_start_offset:
            collected.urgent = True

    def _hold(self, key: Key, wait_s: float) -> None:
        if not self._held:
            self._held_until_s = asyncio.get_running_loop().time() + wait_s
        self._held[key] = None

    def _read(
        self, partition: Partition, kept: _Kept, max_bytes: int
    ) -> LogRead | Divergence | None:
        if self._replica_id < 0:
            return read_for_consumer(partition, kept.position, max_bytes=max_bytes)
        found = read_for_follower(
            partition,
            kept.position,
            broker_id=self._replica_id,
            broker_epoch=self._replica_epoch,
            max_bytes=max_bytes,
            noted=kept.noted,
        )
        if kept.noted is not partition.role and not isinstance(found, Divergence):
            kept.noted = partition.check_leader(None)
        return found

    def _unknown(self, key: Key) -> WireError:
        if self._metadata.view.topic(TopicId(key[0])) is not None:
            return UnknownTopicOrPartition(
                f"broker {self._replicas.me} holds no replica of partition {key[1]}"
            )
        return UnknownTopicId("no topic of this id; it may have been deleted or created anew")

    def _tell_watermarks(self, collected: Collected) -> None:
        """Watermarks ride along with any answer; for their sake alone none is sent (KAFKA-9952)."""
        quiet, self._quiet = self._quiet, {}
        for key in quiet:
            kept, partition = self._kept.get(key), self._replicas.partitions.get(key)
            if kept is None or partition is None or partition.leader is None:
                continue
            told = (partition.high_watermark, partition.log.log_start_offset)
            if told != kept.told and not collected.has(key):
                collected.result(key, partition)
                kept.told = told
