"""The readers of transactional topics: of committed records, and of all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Literal

from strandline import Consumer
from strandline.errors import StrandlineError
from strandline.types import TopicPartition
from strandline_proof.sim.topology.transactions import COPIES, LEDGER
from strandline_proof.sim.workload.clients import until_created

if TYPE_CHECKING:
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_runtime.runtime import Runtime

REQUEST_MS: Final = 1000
RETRY_S: Final = 0.2
POLL_MS: Final = 300
LIFE_S: Final = (1.0, 6.0)
"""Time after which a reader starts again at the first offset."""
LEVELS: Final[tuple[Literal["read_committed", "read_uncommitted"], ...]] = (
    "read_committed",
    "read_uncommitted",
)


class Readers:
    def __init__(self, world: World, runtime: Runtime) -> None:
        assert world.topology.transactions is not None
        self._partitions = world.topology.transactions.partitions
        self._world = world
        self._runtime = runtime

    async def run(self, stop: asyncio.Event) -> None:
        for topic in (LEDGER, COPIES):
            await until_created(self._world, self._runtime, stop, topic, self._partitions)
        async with asyncio.TaskGroup() as group:
            for level in LEVELS:
                group.create_task(self._read(stop, level))

    async def _read(
        self, stop: asyncio.Event, level: Literal["read_committed", "read_uncommitted"]
    ) -> None:
        while not stop.is_set():
            try:
                await self._life(stop, level)
            except StrandlineError as error:
                name = f"reader of transactions began again: {type(error).__name__}"
                self._world.ledger.sometimes[name] += 1
                await asyncio.sleep(RETRY_S)

    async def _life(
        self, stop: asyncio.Event, level: Literal["read_committed", "read_uncommitted"]
    ) -> None:
        ledger, loop = self._world.ledger, self._world.loop
        life = ledger.begin_life(is_committed=level == LEVELS[0])
        until_s = loop.now + self._runtime.rng.uniform(*LIFE_S)
        all_of_it = [
            TopicPartition(t, p) for t in (LEDGER, COPIES) for p in range(self._partitions)
        ]
        async with Consumer(
            bootstrap_servers=self._world.topology.bootstrap,
            auto_offset_reset="earliest",
            isolation_level=level,
            request_timeout_ms=REQUEST_MS,
            connect_timeout_ms=REQUEST_MS,
            fetch_max_wait_ms=200,
            max_partition_fetch_bytes=self._world.topology.fetch_bytes,
            runtime=self._runtime,
        ) as consumer:
            await consumer.assign(all_of_it)
            while not stop.is_set():
                final = ledger.finish
                if not final and loop.now > until_s:
                    return
                ends = await consumer.end_offsets(all_of_it) if final else {}
                found = await consumer.getmany(timeout_ms=POLL_MS)
                for tp, records in found.items():
                    ledger.given(life, tp.topic, tp.partition, records)
                if final:
                    at = {tp: await consumer.position(tp) for tp in all_of_it}
                    life.is_whole = all(at[tp] >= ends[tp] for tp in all_of_it)
                if life.is_whole:
                    await stop.wait()


async def run_readers(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    node.process = readers = Readers(world, runtime)
    await readers.run(stop)
