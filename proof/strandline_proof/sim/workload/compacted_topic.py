"""A topic that is compacted all the time while clients write and read it (I-68 to I-71).

It has few keys, values and tombstones, tiny segments, and a cleaner that hardly sleeps. Each pass
of the reader goes from the first offset to the head, and then has the last record of each key. Its
brokers' work is under the oracles, see `oracles/partition/compaction.py`.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from strandline import Admin, Consumer, NewTopic, Producer
from strandline.errors import StrandlineError, TopicAlreadyExists
from strandline.types import ConfigChange, TopicPartition
from strandline_proof.sim.oracles.partition.compacted_view import Record
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import COMPACTED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_proof.sim.oracles.partition.compacted import CompactedCommitted
    from strandline_proof.sim.oracles.watch import Oracles
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
DELIVERY_MS: Final = 3000
RETRY_S: Final = 0.2
SEND_S: Final = 0.4
AT_ONCE: Final = (1, 2, 4, 6)
"""Records that are sent together, and mostly are one batch."""
LINGER_MS: Final = 2
BURSTS: Final = (2, 10)
"""Bursts after which another producer goes on; brokers remember the one before."""
TOMBSTONES: Final = 0.3
SEGMENT_BYTES: Final = 300
POLL_MS: Final = 200
REST_S: Final = 1.5
FINAL_READ_S: Final = 20.0


class Order(NamedTuple):
    """The topic's configuration from now on; `off_s`: no compaction at all for so long before."""

    keys: int
    delete_retention_ms: int
    lag_ms: int
    off_s: float

    def config(self) -> dict[str, str]:
        return {
            "delete.retention.ms": str(self.delete_retention_ms),
            "min.compaction.lag.ms": str(self.lag_ms),
            "cleanup.policy": "compact",
        }


class Compaction:
    def __init__(self, world: World, oracles: Oracles) -> None:
        self._world = world
        self._oracles = oracles
        self.orders: list[Order] = []
        self._keys = 1
        self._rng = random.Random(f"compaction {world.seed}")
        self._values = itertools.count()
        self._finish = False

    def finish(self) -> None:
        """Ends the commands: reads all of it, compares, and ends."""
        self._finish = True

    async def main(self, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._administer(runtime))
            group.create_task(self._write(runtime))
            group.create_task(self._read(runtime))
        await self._read_back(runtime)

    # The administrator

    async def _administer(self, runtime: Runtime) -> None:
        first = self.orders.pop(0)
        self._keys = first.keys
        await self._until_done(runtime, lambda admin: self._create(admin, first))
        while self.orders or not self._finish:
            if not self.orders:
                await asyncio.sleep(RETRY_S)
                continue
            order = self.orders.pop(0)
            self._keys = order.keys
            if order.off_s > 0:
                await self._alter(runtime, {"cleanup.policy": "delete"})
                await asyncio.sleep(0 if self._finish else order.off_s)
            await self._alter(runtime, order.config())

    async def _create(self, admin: Any, order: Order) -> None:
        topology = self._world.topology
        topic = NewTopic(
            COMPACTED,
            num_partitions=1,
            replication_factor=min(3, topology.brokers),
            config={
                "min.insync.replicas": str(topology.min_insync_replicas),
                "min.cleanable.dirty.ratio": "0.01",
                "segment.bytes": str(SEGMENT_BYTES),
                "file.delete.delay.ms": "300",
                "retention.ms": "-1",  # clocks jump
                **order.config(),
            },
        )
        try:
            await admin.create_topics([topic])
        except TopicAlreadyExists:
            return

    async def _alter(self, runtime: Runtime, config: dict[str, str]) -> None:
        changes = [ConfigChange(name, value) for name, value in config.items()]

        async def alter(admin: Any) -> None:
            await admin.incremental_alter_configs({("topic", COMPACTED): changes})

        await self._until_done(runtime, alter)
        self._oracles.sometimes["compaction altered"] += 1

    async def _until_done(
        self, runtime: Runtime, act: Callable[[Admin], Awaitable[object]]
    ) -> None:
        while True:
            try:
                async with Admin(
                    self._world.topology.bootstrap,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as admin:
                    await act(admin)
                return
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    # The load

    async def _write(self, runtime: Runtime) -> None:
        while not self._finish:
            try:
                async with Producer(
                    self._world.topology.bootstrap,
                    acks="all",
                    linger_ms=LINGER_MS,
                    delivery_timeout_ms=DELIVERY_MS,
                    request_timeout_ms=REQUEST_MS,
                    connect_timeout_ms=REQUEST_MS,
                    runtime=runtime,
                ) as producer:
                    for _ in range(self._rng.randint(*BURSTS)):
                        if not self._finish:
                            await self._send(producer)
                            await asyncio.sleep(SEND_S)
            except StrandlineError:
                await asyncio.sleep(RETRY_S)

    async def _send(self, producer: Producer) -> None:
        """Sends some records, which need not be acknowledged before the next are sent."""
        rng = self._rng
        for _ in range(rng.choice(AT_ONCE)):
            key = f"k{rng.randrange(self._keys)}".encode()
            number = next(self._values)
            value = None if rng.random() < TOMBSTONES else f"v{number:06d}".encode()
            sent = await producer.send(COMPACTED, value, key, partition=0)
            sent.add_done_callback(partial(self._on_sent, key, value))

    def _on_sent(self, key: bytes, value: bytes | None, sent: asyncio.Future[Any]) -> None:
        if sent.cancelled() or sent.exception() is not None:
            return
        try:
            self._oracles.compaction.check_acknowledged(sent.result().offset, key, value)
        except Violation as violation:
            self._world.loop.fail(violation)

    async def _read(self, runtime: Runtime) -> None:
        while not self._finish:
            if await self._pass(runtime, lambda: self._finish):
                await asyncio.sleep(REST_S)

    async def _pass(self, runtime: Runtime, is_over: Callable[[], bool]) -> bool:
        """Reads from the first offset to the head, and compares. Returns False if the head was not
        reached.
        """
        ghost = self._oracles.compaction.ghost()
        if ghost is None:
            await asyncio.sleep(RETRY_S)
            return False
        partition, reading = TopicPartition(COMPACTED, 0), _Reading(ghost)
        try:
            async with Consumer(
                bootstrap_servers=self._world.topology.bootstrap,
                auto_offset_reset="earliest",
                request_timeout_ms=REQUEST_MS,
                connect_timeout_ms=REQUEST_MS,
                fetch_max_wait_ms=300,
                max_partition_fetch_bytes=self._world.topology.fetch_bytes,
                runtime=runtime,
            ) as consumer:
                await consumer.assign([partition])
                while not is_over():
                    found = await consumer.getmany(timeout_ms=POLL_MS)
                    for records in found.values():
                        reading.add(records)
                    if await consumer.position(partition) >= ghost.end:
                        reading.check()
                        self._oracles.sometimes["compacted log read to its head"] += 1
                        return True
        except StrandlineError:
            await asyncio.sleep(RETRY_S)
        except Violation as violation:
            self._world.loop.fail(violation)
        return False

    # The end

    async def _read_back(self, runtime: Runtime) -> None:
        loop = self._world.loop
        deadline_s = loop.now + FINAL_READ_S
        while not await self._pass(runtime, lambda: loop.now > deadline_s):
            ghost = self._oracles.compaction.ghost()
            if loop.now > deadline_s:
                if ghost is None or ghost.excused is None:
                    loop.fail(Violation("I-88", "the compacted log is not read to its head"))
                return


class _Reading:
    """The records of one pass: offsets rise (I-68), each record is the committed one at
    its offset.
    """

    def __init__(self, ghost: CompactedCommitted) -> None:
        self._ghost = ghost
        self._last = -1
        self._newest: dict[bytes | None, int] = {}

    def add(self, records: Any) -> None:
        for record in records:
            if self._ghost.excused is not None:
                return
            if record.offset <= self._last:
                raise Violation(
                    "I-68", f"compacted: offset {record.offset} is read after {self._last}"
                )
            self._last = record.offset
            self._ghost.check_told(
                "I-12", Record(record.offset, record.timestamp, record.key, record.value)
            )
            self._newest[record.key] = record.offset

    def check(self) -> None:
        """Checks at the head that the newest record of every key was read (I-70, I-71)."""
        self._ghost.check_state(self._newest, "a reader")
