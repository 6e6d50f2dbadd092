"""Fetch requests without a session: each names all partitions, and its answer has them all.

The partitions are read once, in the order of the request. If that finds too little, the request
waits for news of them, and only those with news are read again. A read is one synchronous step at
the partition's leader, below its high watermark or last stable offset (I-12, P-13, P-33). The list
of aborted transactions is of that step too (P-122).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from strandline_broker.core.replication.isolation import isolation
from strandline_broker.hosts.common.fetch_messages import FetchedPartition
from strandline_broker.hosts.fetching.answer import is_cold, offsets_of
from strandline_broker.hosts.fetching.long_poll import LongPoll
from strandline_broker.hosts.fetching.session import RESPONSE_BYTES_MAX, WAIT_MS_MAX
from strandline_broker.hosts.replica.leading import Leading
from strandline_broker.hosts.replica.observers import FetchListener
from strandline_broker.hosts.replica.reads import EXPECTED, Divergence, read_for_consumer
from strandline_broker.hosts.serving.replicas import why_unknown
from strandline_broker.hosts.serving.turns import EVERY, Turns
from strandline_broker.storage.segment.txn_index import named
from strandline_proto.batch import HEADER_SIZE
from strandline_proto.errors import WireError
from strandline_proto.ids import TopicId

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from strandline_broker.core.metadata_cache import MetadataCache
    from strandline_broker.hosts.common.fetch_messages import Key, Position
    from strandline_broker.hosts.member.replica_manager import ReplicaManager
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.storage.log.reader import LogRead


TURN_BYTES: Final = 4 << 20
"""Bytes of records that are read between two yields to other calls."""
BYTES_OF_A_LOOK: Final = TURN_BYTES // EVERY
"""Bytes whose read takes as long as a look at a partition without new records."""


class Wanted(NamedTuple):
    """The positions of a consumer, and the limits for all of them together."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    positions: Sequence[tuple[Key, Position]]


class SessionlessFetch(FetchListener):
    """One fetch request of a consumer."""

    def __init__(
        self, metadata: MetadataCache, replicas: ReplicaManager, wanted: Wanted, *, is_hurried: bool
    ) -> None:
        """`is_hurried`: the answer is due at once, however small it is. Raises
        UnsupportedVersion for an isolation level that is not known.
        """
        self._metadata = metadata
        self._replicas = replicas
        self._positions = wanted.positions
        self._isolation = isolation(wanted.isolation_level)
        self._max_bytes = min(max(wanted.max_bytes, 0), RESPONSE_BYTES_MAX)
        self._min_bytes = min(wanted.min_bytes, self._max_bytes)
        self._wait_s = min(wanted.max_wait_ms, WAIT_MS_MAX) / 1000
        self._is_due = is_hurried or not wanted.positions
        self._found: list[FetchedPartition] = []
        """The results in the order of the request."""
        self._sizes: dict[int, int] = {}
        """Bytes of records by the place in the request."""
        self._size = 0
        self._let_gone: dict[int, None] = {}
        """The places whose records are read again before the answer."""
        self._places: dict[Key, int] = {}
        """The place of each partition in the request, while the request waits."""
        self._news: dict[Key, None] = {}
        self._watched: list[Leading] = []
        self._poll: LongPoll | None = None
        self.is_waiting = False
        self.waits_since_s: float | None = None
        """The loop's time at which the request began to wait for records."""

    async def answer(self) -> Sequence[FetchedPartition]:
        """Returns the results in the order of the request, once they are due."""
        turns = Turns(TURN_BYTES)
        for place in range(len(self._positions)):
            self._found.append(FetchedPartition())
            if self._look(place):
                await self._warm(place)
            await turns.took(len(self._found[place].records) + BYTES_OF_A_LOOK)
        if not self._has_enough and self._wait_s > 0:
            await self._wait()
        self._count()
        return self._found

    def _count(self) -> None:
        for place, size in self._sizes.items():
            partition = self._replicas.partitions.get(self._positions[place][0])
            if partition is not None:
                partition.counters.bytes_out += size

    def hurry(self) -> None:
        """Ends the wait."""
        self._is_due = True
        self._end_wait()

    @property
    def _has_enough(self) -> bool:
        return self._is_due or self._size >= self._min_bytes

    # Waiting

    def on_news(self, partition: Partition) -> None:
        self._news[partition.key] = None
        self._end_wait()

    def position(self, partition: Partition) -> int | None:
        place = self._places.get(partition.key)
        return None if place is None else self._positions[place][1].fetch_offset

    def on_watermark(self, partition: Partition) -> None:
        """Does nothing: a consumer's news is the watermark."""

    def on_set_back(self, partition: Partition, broker_id: int) -> None:
        """Does nothing: no replica reads here."""

    def _end_wait(self) -> None:
        if self._poll is not None:
            self._poll.end()

    async def _wait(self) -> None:
        loop = asyncio.get_running_loop()
        self.waits_since_s = loop.time()
        until_s = self.waits_since_s + self._wait_s
        self._poll = poll = LongPoll()
        self.is_waiting = True
        try:
            await self._listen()
            while True:
                news, self._news = self._news, {}
                await self._look_again(news)
                if self._has_enough or loop.time() >= until_s:
                    break
                self._let_go()
                if not self._news:
                    poll.until(until_s)
                    await poll.ended()
                    poll.begin()
        finally:
            self.is_waiting = False
            poll.close()
            for leading in self._watched:
                leading.forget(self)
        await self._look_again_at(list(self._let_gone))
        await self._refresh_offsets()

    def _let_go(self) -> None:
        """Drops the records that are too few for an answer: a waiting request holds no memory."""
        for place, size in self._sizes.items():
            if size > 0:
                self._found[place].records = b""
                self._found[place].aborted = ()
                self._let_gone[place] = None

    async def _listen(self) -> None:
        """Begins to listen to the partitions; what changed since the first look is news."""
        for place, (key, _) in enumerate(self._positions):
            if place > 0 and place % EVERY == 0:
                await asyncio.sleep(0)
            self._places[key] = place
            partition = self._replicas.partitions.get(key)
            role = None if partition is None else partition.role
            if partition is None or not isinstance(role, Leading):
                self._news[key] = None
                continue
            role.consumer_listeners[self] = None
            self._watched.append(role)
            if partition.high_watermark != self._found[place].high_watermark:
                self._news[key] = None

    async def _look_again(self, news: Iterable[Key]) -> None:
        await self._look_again_at([self._places[key] for key in news])

    async def _look_again_at(self, places: Sequence[int]) -> None:
        turns = Turns(TURN_BYTES)
        for place in places:
            self._let_gone.pop(place, None)
            self._size -= self._sizes.pop(place, 0)
            if self._look(place):
                await self._warm(place)
            await turns.took(len(self._found[place].records) + BYTES_OF_A_LOOK)

    async def _refresh_offsets(self) -> None:
        """Reports the offsets of the moment of the answer."""
        turns = Turns()
        for (key, _), found in zip(self._positions, self._found, strict=True):
            await turns.took()
            partition = self._replicas.partitions.get(key)
            if found.error is None and partition is not None and partition.leader is not None:
                found.offsets = offsets_of(partition)

    # Reading

    def _look(self, place: int, *, is_warm: bool = False) -> bool:
        """Reads the partition. True if its bytes are on the disk, and have to be warmed first."""
        key, position = self._positions[place]
        has_room = self._size == 0 or self._max_bytes - self._size >= HEADER_SIZE
        limit = self._limit_for(position)
        try:
            partition = self._replicas.find(*key)
            if partition is None:
                raise why_unknown(self._replicas, self._metadata, *key)
            if has_room and not is_warm and is_cold(position.fetch_offset, partition):
                return True
            read = read_for_consumer(
                partition,
                position,
                max_bytes=limit if has_room else 0,
                isolation=self._isolation,
                is_sure=self._replicas.is_sure,
            )
        except WireError as error:
            self._refuse(place, error)
            return False
        found = self._found[place] = FetchedPartition(offsets_of(partition))
        if isinstance(read, Divergence):
            found.diverging = (read.epoch, read.end_offset)
            self._is_due = True
        elif read is not None and has_room:
            self._keep(place, read, limit)
        else:
            self._is_due |= not has_room
        return False

    def _limit_for(self, position: Position) -> int:
        return max(1, min(position.max_bytes, self._max_bytes - self._size))

    def _keep(self, place: int, read: LogRead, limit: int) -> None:
        """Takes the records if they fit. The first batch of the answer need not fit (KIP-74)."""
        found, size = self._found[place], len(read.records)
        if size > limit and self._size > 0:
            self._is_due = True
            return
        found.records = read.records
        if read.aborted:
            found.aborted = named(read.aborted)
        self._sizes[place] = size
        self._size += size
        if size > 0 and read.next_offset < found.end_for(self._isolation):
            self._is_due = True  # the segment ends here, and to wait brings nothing more

    async def _warm(self, place: int) -> None:
        """Reads cold bytes on the disk pool, then again in one synchronous step (P-13)."""
        key, position = self._positions[place]
        partition = self._replicas.partitions.get(key)
        try:
            if partition is not None:
                limit = self._limit_for(position)
                await self._replicas.warm(partition, position.fetch_offset, limit)
        except WireError as error:  # the disk returned other bytes than were written
            self._refuse(place, error)
        else:
            self._look(place, is_warm=True)

    def _refuse(self, place: int, error: WireError) -> None:
        key = self._positions[place][0]
        leader = self._metadata.view.current_leader(TopicId(key[0]), key[1])
        if leader is not None and leader.broker_id == self._replicas.me:
            leader = None  # the view of the cluster is older than the role
        self._found[place] = FetchedPartition(error=error, leader=leader, holds_replica=False)
        self._is_due = True
        partition = self._replicas.partitions.get(key)
        if partition is not None and not isinstance(error, EXPECTED):
            partition.counters.failed_fetch_requests += 1
