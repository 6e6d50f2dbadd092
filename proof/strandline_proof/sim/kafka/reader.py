"""A reader of a topic by Kafka's Fetch, with the interface of the workload's `Reader`.

It reads all partitions from their beginning, or those that are named. Partitions that are added are
read once Metadata names them.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from strandline_proof.sim.kafka.connection import (
    KafkaCluster,
    KafkaConnection,
    KafkaFailed,
    check,
    owned_tasks,
    request_of,
)
from strandline_proto.batch import Record, iter_headers, read_records

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from strandline_runtime.runtime import Runtime

VERSIONS: Final = (4, 5, 7, 9, 10, 11, 12, 13, 15, 16, 17)
BY_ID: Final = 13
"""First version of Fetch that names topics by their ids."""
ZSTD_FROM: Final = 10
"""First version of Fetch that returns batches of zstd (KIP-110)."""
EPOCHS_FROM: Final = 12
"""First version of Fetch that names the epoch of the last record (KIP-595)."""
BYTES_MAX: Final = 1 << 20
EARLIEST: Final = -2
LATEST: Final = -1
REFRESH_S: Final = 1.0
OUT_OF_RANGE: Final = 1
RETRIABLE: Final = frozenset((3, 5, 6, 9, 74, 75, 78, 100, 103))
"""Errors after which the reader asks who leads, and goes on: among them NotLeaderOrFollower, and
both of leader epochs that differ.
"""


class Diverged(KafkaFailed):
    """The log was truncated below the reader's position: it parts at `offset`."""

    def __init__(self, partition: int, offset: int) -> None:
        super().__init__(f"partition {partition} parts at offset {offset}")
        self.partition = partition
        self.offset = offset


class OutOfRange(KafkaFailed):
    """The log does not have the reader's position."""

    def __init__(self, partition: int) -> None:
        super().__init__(f"the position of partition {partition} is out of range")
        self.partition = partition


class KafkaReader:
    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        *,
        keys: Sequence[int] | None,
        partition_bytes: int,
        compression: str,
        on_record: Callable[[Record], None],
        on_event: Callable[[str], None],
    ) -> None:
        """`keys`: the partitions; None: all; empty: those of `assign`. `on_record` is called with
        each record that is handed over, `on_event` with each rare event, in words.
        """
        self._on_event = on_event
        self._cluster = cluster
        self._topic = topic
        self._keys = keys
        self._partition_bytes = partition_bytes
        self._on_record = on_record
        first = ZSTD_FROM if compression == "zstd" else VERSIONS[0]
        self._version = cluster.runtime.rng.choice([v for v in VERSIONS if v >= first])
        self._next: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        """The leader epoch of the last batch that was read."""
        self._refreshed_s = -REFRESH_S

    async def start(self) -> None:
        """Learns the partitions. Raises KafkaFailed."""
        await self._look_for_partitions()

    def assign(self, positions: dict[int, int]) -> None:
        """Reads these partitions from these offsets on, and no others."""
        self._next, self._epochs = dict(positions), {}

    def position(self, partition: int) -> int:
        return self._next[partition]

    async def beginning_of(self, partition: int) -> int:
        """Returns the first offset of the partition. Raises KafkaFailed."""
        return (await self._offsets([partition], EARLIEST))[partition]

    async def poll(self, timeout_s: float) -> dict[int, list[tuple[int, bytes | None]]]:
        """Raises KafkaFailed, such as for an offset that is out of range."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        if self._keys != () and loop.time() >= self._refreshed_s + REFRESH_S:
            await self._look_for_partitions()
        by_leader: dict[KafkaConnection, list[int]] = {}
        for partition in sorted(self._next):
            leader = await self._cluster.leader(self._topic, partition)
            by_leader.setdefault(leader, []).append(partition)
        found = await self._fetched(by_leader, 0)
        left_ms = int((deadline_s - loop.time()) * 1000)
        if not found and by_leader and left_ms > 0:
            found = await self._fetched(by_leader, left_ms // len(by_leader))
        return found

    async def _fetched(
        self, by_leader: dict[KafkaConnection, list[int]], wait_ms: int
    ) -> dict[int, list[tuple[int, bytes | None]]]:
        """Asks each leader, one after the other."""
        found: dict[int, list[tuple[int, bytes | None]]] = {}
        for leader, partitions in by_leader.items():
            try:
                found.update(await self._fetch(leader, partitions, wait_ms))
            except KafkaFailed:
                if not found:
                    raise
                break  # the positions are behind these records: hand them over first
        return found

    async def _look_for_partitions(self) -> None:
        await self._cluster.refresh(self._topic)
        self._refreshed_s = asyncio.get_running_loop().time()
        known = range(self._cluster.partitions[self._topic]) if self._keys is None else self._keys
        new = [partition for partition in known if partition not in self._next]
        if new:
            self._next.update(await self._offsets(new, EARLIEST))

    async def _fetch(
        self, leader: KafkaConnection, partitions: list[int], wait_ms: int
    ) -> dict[int, list[tuple[int, bytes | None]]]:
        try:
            told = await leader.call("Fetch", self._version, **self._request(partitions, wait_ms))
        except KafkaFailed:
            self._cluster.forget_leaders(self._topic)
            raise
        check(told.error_code, "Fetch")
        found: dict[int, list[tuple[int, bytes | None]]] = {}
        for topic in told.responses:
            for each in topic.partitions:
                try:
                    records = self._records_of(each)
                except KafkaFailed:
                    if not found:
                        raise
                    return found  # as in `_fetched`: the next Fetch tells the error again
                if records:
                    found[each.partition_index] = records
        return found

    def _records_of(self, told: Any) -> list[tuple[int, bytes | None]]:
        """The records of one partition of an answer, which its position is behind then. Raises
        KafkaFailed.
        """
        if told.error_code in RETRIABLE:
            self._on_event("Kafka's reader was refused and asked who leads")
            self._cluster.forget_leaders(self._topic)
            return []
        if told.error_code == OUT_OF_RANGE:
            raise OutOfRange(told.partition_index)
        check(told.error_code, f"Fetch of {self._topic}:{told.partition_index}")
        if told.diverging_epoch is not None and told.diverging_epoch.epoch >= 0:
            raise Diverged(told.partition_index, told.diverging_epoch.end_offset)
        return self._taken(told.partition_index, bytes(told.records or b""))

    def _request(self, partitions: list[int], wait_ms: int) -> dict[str, Any]:
        kind = request_of("Fetch")
        asked = [
            kind.FetchTopic.FetchPartition(
                partition=partition,
                current_leader_epoch=-1,
                fetch_offset=self._next[partition],
                last_fetched_epoch=self._epochs.get(partition, -1),
                log_start_offset=-1,
                partition_max_bytes=self._partition_bytes,
            )
            for partition in partitions
        ]
        by_id = {"topic_id": self._cluster.topic_ids[self._topic]}
        named = by_id if self._version >= BY_ID else {"topic": self._topic}
        return {
            "replica_id": -1,
            "max_wait_ms": wait_ms,
            "min_bytes": 1,
            "max_bytes": BYTES_MAX,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [kind.FetchTopic(**named, partitions=asked)],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    def _taken(self, partition: int, data: bytes) -> list[tuple[int, bytes | None]]:
        """The records from the position on: the first batch may begin below it."""
        taken: list[tuple[int, bytes | None]] = []
        for at, header in iter_headers(data):
            if not header.is_control:
                for record in read_records(data, at, header):
                    if record.offset >= self._next[partition]:
                        self._on_record(record)
                        taken.append((record.offset, record.value))
            self._next[partition] = max(self._next[partition], header.next_offset)
            self._epochs[partition] = header.leader_epoch
        return taken

    async def beginning_offsets(self) -> dict[int, int]:
        return await self._offsets(sorted(self._next), EARLIEST)

    async def end_offsets(self) -> dict[int, int]:
        return await self._offsets(sorted(self._next), LATEST)

    async def _offsets(self, partitions: Sequence[int], timestamp: int) -> dict[int, int]:
        kind = request_of("ListOffsets")
        found = {}
        for partition in partitions:
            leader = await self._cluster.leader(self._topic, partition)
            # A deposed leader that knows of no other refuses the newer epoch (I-11).
            asked = kind.ListOffsetsTopic.ListOffsetsPartition(
                partition_index=partition,
                current_leader_epoch=self._cluster.epochs.get((self._topic, partition), -1),
                timestamp=timestamp,
            )
            told = await leader.call(
                "ListOffsets",
                7,
                replica_id=-1,
                isolation_level=0,
                topics=[kind.ListOffsetsTopic(name=self._topic, partitions=[asked])],
            )
            (each,) = told.topics[0].partitions
            if each.error_code in RETRIABLE:
                self._cluster.forget_leaders(self._topic)
            check(each.error_code, f"ListOffsets of {self._topic}:{partition}")
            found[partition] = each.offset
        return found


@asynccontextmanager
async def kafka_reader(
    runtime: Runtime,
    bootstrap: tuple[tuple[str, int], ...],
    topic: str,
    *,
    keys: Sequence[int] | None,
    partition_bytes: int,
    compression: str,
    on_record: Callable[[Record], None],
    on_event: Callable[[str], None],
) -> AsyncIterator[KafkaReader]:
    async with owned_tasks() as tasks:
        cluster = KafkaCluster(runtime, bootstrap, tasks)
        reader = KafkaReader(
            cluster,
            topic,
            keys=keys,
            partition_bytes=partition_bytes,
            compression=compression,
            on_record=on_record,
            on_event=on_event,
        )
        try:
            await reader.start()
            yield reader
        finally:
            cluster.close()
