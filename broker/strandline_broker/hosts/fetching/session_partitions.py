"""The partitions of one fetch session: those with news, and their part of an answer.

A partition is checked again only when it has news: an append for a follower, a watermark for a
consumer, a change of role. So a round costs the number of changes, not of assigned partitions. If a
follower holds all of a partition, that is noted once. Each later request of its session repeats it
for all such partitions, and its leader learns of it when it matters (P-56).

A check is one synchronous step. The first check reports the position to the leader. While that
leadership lasts, a second check only reads newer records.
"""

from __future__ import annotations

import asyncio
import enum
import math
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from strandline_broker.core.replication.isolation import Isolation
from strandline_broker.hosts.common.fetch_messages import Replica
from strandline_broker.hosts.fetching.answer import Collected, is_cold, offsets_of
from strandline_broker.hosts.replica.leading import Leading, check_leader
from strandline_broker.hosts.replica.observers import FetchListener
from strandline_broker.hosts.replica.reads import (
    EXPECTED,
    Divergence,
    read_for_consumer,
    read_for_follower,
)
from strandline_broker.storage.segment.txn_index import named
from strandline_proto.errors import (
    ThrottlingQuotaExceeded,
    UnknownTopicId,
    UnknownTopicOrPartition,
    WireError,
)
from strandline_proto.ids import BrokerEpoch, BrokerId, TopicId
from strandline_runtime.milliseconds import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import FetchRequest, Key, Offsets, Position
    from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.reader import LogRead
    from strandline_runtime.runtime import Clock

PARTITIONS_MAX: Final = 100_000
AT_ONCE: Final = 1_000
"""Partitions between two yields to other work of the broker."""
ANSWERED_MAX: Final = 2_500
"""Partitions in one answer; the next answer continues."""
_NO_REPLICA: Final = Replica(-1, -1)


@dataclass(slots=True)
class _Kept:
    """The session's state of one partition."""

    position: Position
    told: Offsets | None = None
    """The offsets of the leader's log that the reader knows."""
    noted: Leading | None = None
    """The leadership that knows of this position."""
    level_ms: int | None = None
    """Time of the follower's last request before a check that found it to hold everything."""


class Cold(NamedTuple):
    """Bytes to read from the disk before a check can continue."""

    key: Key
    kept: _Kept
    partition: Partition
    collected: Collected


class Turn(enum.Enum):
    """A pause: the check continues after other work of the broker."""

    OVER = enum.auto()


class ServedReplicas(Protocol):
    """The replicas of this broker, as a fetch session reads them."""

    me: BrokerId
    is_sure: Callable[[], bool]

    @property
    def partitions(self) -> Mapping[Key, Partition]: ...

    def find(self, topic_id: bytes, index: int) -> Partition | None:
        """The replica of that partition; raises KafkaStorageError for one out of service."""
        ...

    def broker_epoch_of(self, broker_id: BrokerId) -> BrokerEpoch | None:
        """The epoch of a registered broker."""
        ...

    async def warm(self, partition: Partition, offset: int, max_bytes: int) -> None:
        """Reads cold bytes beside the event loop, so that a read after it finds them."""
        ...


class SessionPartitions(FetchListener):
    def __init__(
        self,
        clock: Clock,
        metadata: MetadataCache,
        replicas: ServedReplicas,
        copies: LeaderThrottle,
        on_news: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._replicas = replicas
        self._copies = copies
        self._wake = on_news
        self.replica = _NO_REPLICA
        """The reader; a consumer has no id."""
        self.is_waiting = False
        """True while a request of the session waits for records."""
        self.isolation = Isolation.READ_UNCOMMITTED
        """The isolation level of a consumer's last request."""
        self.held_until_s = math.inf
        """Time by the loop's clock at which to check the throttled partitions."""
        self._heard_ms = 0
        """Time of the reader's last request."""
        self._kept: dict[Key, _Kept] = {}
        self._news: dict[Key, None] = {}
        self._quiet: dict[Key, None] = {}  # watermarks to mention in the next answer
        self._again: dict[Key, None] = {}
        """The partitions to check with the next request."""
        self._held: dict[Key, None] = {}
        """Copies for a reassignment that the throttle does not admit yet."""

    # News, from partitions and from the reader

    def on_news(self, partition: Partition) -> None:
        key = partition.key
        kept = self._kept.get(key)
        if kept is not None and kept.level_ms is not None:
            self._end_level(key, kept)
        self._news[key] = None
        self._wake()

    def position(self, partition: Partition) -> int | None:
        kept = self._kept.get(partition.key)
        return None if kept is None else kept.position.fetch_offset

    def on_watermark(self, partition: Partition) -> None:
        self._quiet[partition.key] = None

    def on_set_back(self, partition: Partition, broker_id: int) -> None:
        """Check the partition again. A request that was delayed in an abandoned stream may arrive
        after newer ones of this stream. The next request of the live stream shows the replica's
        position again, as nothing else would if the replica has everything (P-56).
        """
        key, kept = partition.key, self._kept.get(partition.key)
        if kept is None or self.replica.broker_id != broker_id:
            return
        if kept.level_ms is not None:
            self._end_level(key, kept)
        kept.noted = None
        self._again[key] = None

    def remember(self, request: FetchRequest) -> Iterator[None] | None:
        """Keep the positions of the request. Returns the rest of a large request's work; each step
        of it is one turn.
        """
        if len(request.positions) + len(request.forgotten) > AT_ONCE:
            return self._remember_in_turns(request)
        for key in request.forgotten:
            self._drop(key)
        for key, position in request.positions.items():
            self._keep(key, position)
        self._have_heard()
        return None

    def _remember_in_turns(self, request: FetchRequest) -> Iterator[None]:
        for number, key in enumerate(request.forgotten, 1):
            self._drop(key)
            if number % AT_ONCE == 0:
                yield
        for number, (key, position) in enumerate(request.positions.items()):
            if number > 0 and number % AT_ONCE == 0:
                yield
            self._keep(key, position)
        self._have_heard()

    def _keep(self, key: Key, position: Position) -> None:
        kept = self._kept.get(key)
        if kept is None:
            self._check_room()
        elif kept.level_ms is not None:
            self._end_level(key, kept)
        # The reader may have dropped the last reported offsets, in an older answer.
        self._kept[key] = _Kept(position)
        self._news[key] = None

    def _have_heard(self) -> None:
        """Note the end of a request."""
        if self._again:
            self._news.update(self._again)
            self._again = {}
        self._heard_ms = monotonic_ms(self._clock)

    def _check_room(self) -> None:
        if len(self._kept) >= PARTITIONS_MAX:
            raise ThrottlingQuotaExceeded(
                f"a fetch session holds at most {PARTITIONS_MAX} partitions"
            )

    def close(self) -> None:
        for key in list(islice(self._kept, AT_ONCE)):
            self._drop(key)
        if self._kept:
            asyncio.get_running_loop().call_soon(self.close)

    def _drop(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None and kept.level_ms is not None:
            self._end_level(key, kept)
        self._news.pop(key, None)
        self._again.pop(key, None)
        self._held.pop(key, None)
        partition = self._replicas.partitions.get(key)
        if partition is not None:
            partition.expecting.pop(self, None)
            if isinstance(partition.role, Leading):
                partition.role.forget(self)

    def _end_level(self, key: Key, kept: _Kept) -> None:
        """Report to the leader that the follower held everything up to its last request. The next
        check shows whether it still does.
        """
        looked_ms, kept.level_ms = kept.level_ms, None
        assert looked_ms is not None
        if self._heard_ms <= looked_ms:
            return
        partition = self._replicas.partitions.get(key)
        leader = None if partition is None else partition.leader
        if leader is not None:
            leader.on_still_level(
                BrokerId(self.replica.broker_id),
                broker_epoch=BrokerEpoch(self.replica.broker_epoch),
                at_ms=self._heard_ms,
            )

    def _listeners(self, leading: Leading) -> dict[FetchListener, None]:
        if self.replica.broker_id >= 0:
            return leading.replica_listeners
        return leading.consumer_listeners

    # Reading

    def look(self, max_bytes: int, now_s: float) -> Collected:
        """Begin to check everything that has news, oldest first."""
        if now_s >= self.held_until_s:
            self._news.update(self._held)
            self._held = {}
            self.held_until_s = math.inf
        return Collected(max_bytes, list(self._news))

    def collect(self, collected: Collected) -> Cold | Turn | None:
        """Continue the check until the answer is full, cold bytes must be read, or one turn is
        over.
        """
        for number, key in enumerate(collected.left, 1):
            if collected.room <= 0 and collected.size > 0:
                break
            if len(collected.partitions) >= ANSWERED_MAX:
                collected.urgent = True  # the others have news still
                break
            kept = self._kept.get(key)
            self._news.pop(key, None)
            partition = None if kept is None else self._look(key, kept, collected)
            if partition is not None:
                assert kept is not None
                return Cold(key, kept, partition, collected)
            if number == AT_ONCE:
                return Turn.OVER
        return None

    async def warm(self, cold: Cold) -> None:
        """Read cold bytes on the disk pool first. The answer is then read again from the page cache
        in one synchronous step, so role, epoch and watermark are of one moment (P-13).
        """
        key, kept, partition, collected = cold
        limit = collected.limit_for(kept.position.max_bytes)
        try:
            await self._replicas.warm(partition, kept.position.fetch_offset, limit)
        except WireError as error:  # the disk returned other bytes than were written
            self._refuse(key, error, partition, collected)
        else:
            self._news.pop(key, None)
            self._look(key, kept, collected, is_warm=True)

    def _look(
        self, key: Key, kept: _Kept, collected: Collected, *, is_warm: bool = False
    ) -> Partition | None:
        """Put into the answer what is new. The partition, if that is to be warmed first."""
        partition, position, throttle = None, kept.position, self._copies
        replica_id, limit = self.replica.broker_id, collected.limit_for(position.max_bytes)
        try:
            partition = self._replicas.find(*key)
            if partition is None:
                raise self._unknown(key)
            if replica_id >= 0 and _is_ahead(position, partition):
                partition.expecting[self] = None
                return None
            role = partition.role
            if isinstance(role, Leading):
                # Only a leader has news: a request to another replica is refused, and checked again
                # with the next request.
                self._listeners(role)[self] = None
            is_throttled = throttle.applies(partition, replica_id)
            if is_throttled:
                wait_s = throttle.wait_s()
                if wait_s > 0:
                    self._hold(key, wait_s)
                    return None
                limit = throttle.limit(limit)
            if not is_warm and is_cold(position.fetch_offset, partition):
                return partition
            found = self._read(partition, kept, limit)
        except WireError as error:
            self._refuse(key, error, partition, collected)
            return None
        copied = self._put(key, kept, partition, found, collected)
        if is_throttled and copied > 0:
            throttle.on_copied(copied)
        return None

    def _put(
        self,
        key: Key,
        kept: _Kept,
        partition: Partition,
        found: LogRead | Divergence | None,
        collected: Collected,
    ) -> int:
        """Add the partition to the answer; returns the number of bytes of records."""
        if isinstance(found, Divergence):
            self._news[key] = None
            result = collected.result(key, partition)
            result.diverging = (found.epoch, found.end_offset)
            collected.urgent = True
        elif found is not None and found.records:
            self._news[key] = None  # there may be more, and the reader may ask for the same again
            result = collected.result(key, partition)
            result.records = found.records
            if found.aborted:
                result.aborted = named(found.aborted)
            collected.size += len(found.records)
            is_consumer = self.replica.broker_id < 0
            end = result.end_for(self.isolation) if is_consumer else partition.log.log_end_offset
            if found.next_offset < end:
                collected.urgent = True  # the segment ends here, and to wait brings nothing more
            kept.told = result.offsets
            if is_consumer:
                partition.counters.bytes_out += len(found.records)
            else:
                partition.counters.replication_bytes_out += len(found.records)
            return len(found.records)
        else:
            self._on_nothing_to_read(key, kept, partition, collected)
        return 0

    def _refuse(
        self, key: Key, error: WireError, partition: Partition | None, collected: Collected
    ) -> None:
        if self.replica.broker_id < 0:
            self._news[key] = None  # until the reader forgets it or asks for something else
        if partition is not None and not isinstance(error, EXPECTED):
            partition.counters.failed_fetch_requests += 1
        # A refused follower forgets the partition or names it again, once it has the answer.
        leader = self._metadata.view.current_leader(TopicId(key[0]), key[1])
        collected.refuse(key, error, leader, partition)

    def _on_nothing_to_read(
        self, key: Key, kept: _Kept, partition: Partition, collected: Collected
    ) -> None:
        self._quiet[key] = None
        if self.replica.broker_id < 0:
            return
        log, position = partition.log, kept.position
        if position.fetch_offset == log.log_end_offset:
            kept.level_ms = self._heard_ms
        else:
            self._news[key] = None  # it lacks what cannot be read now
        # True if the reader does not know our later log start yet: DeleteRecords waits.
        told = -1 if kept.told is None else kept.told.log_start
        if max(position.log_start_offset, told) < log.log_start_offset:
            collected.urgent = True

    def _hold(self, key: Key, wait_s: float) -> None:
        if not self._held:
            self.held_until_s = asyncio.get_running_loop().time() + wait_s
        self._held[key] = None

    def _read(
        self, partition: Partition, kept: _Kept, max_bytes: int
    ) -> LogRead | Divergence | None:
        if self.replica.broker_id < 0:
            is_sure = self._replicas.is_sure
            return read_for_consumer(
                partition,
                kept.position,
                max_bytes=max_bytes,
                isolation=self.isolation,
                is_sure=is_sure,
            )
        found = read_for_follower(
            partition,
            kept.position,
            broker_id=self.replica.broker_id,
            broker_epoch=self.replica.broker_epoch,
            max_bytes=max_bytes,
            noted=kept.noted,
        )
        if kept.noted is not partition.role and not isinstance(found, Divergence):
            kept.noted = check_leader(partition, None)
        return found

    def _unknown(self, key: Key) -> WireError:
        if self._metadata.view.topic(TopicId(key[0])) is not None:
            return UnknownTopicOrPartition(
                f"broker {self._replicas.me} holds no replica of partition {key[1]}"
            )
        return UnknownTopicId("no topic of this id; it may have been deleted or created again")

    def tell_watermarks(self, collected: Collected) -> None:
        """Add watermarks to an answer that is sent anyway; they alone cause none (KAFKA-9952)."""
        for key in list(islice(self._quiet, ANSWERED_MAX)):
            if len(collected.partitions) >= ANSWERED_MAX:
                break
            del self._quiet[key]
            kept, partition = self._kept.get(key), self._replicas.partitions.get(key)
            if kept is None or partition is None or partition.leader is None:
                continue
            if self.replica.broker_id >= 0 and kept.noted is not partition.role:
                continue  # where it stands now its history may part from ours (P-14)
            told = offsets_of(partition)
            if told != kept.told and not collected.has(key):
                collected.result(key, partition)
                kept.told = told


def _is_ahead(position: Position, partition: Partition) -> bool:
    """True if a follower knows of a leader epoch whose push is still under way to us. The partition
    is checked again when our role begins, so the follower need not repeat its request until then.
    """
    return (
        position.current_leader_epoch > partition.leader_epoch and partition.out_of_service is None
    )
