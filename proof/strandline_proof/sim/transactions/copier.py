"""A loop that consumes, transforms and produces: each record of one topic becomes one of another,
in one transaction with the group's offsets.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from strandline import Consumer, ConsumeTransformProduce
from strandline.errors import StrandlineError
from strandline_proof.sim.topology.transactions import COPIERS, COPIES, LEDGER
from strandline_proof.sim.transactions.ledger import ABORTED, UNKNOWN
from strandline_proof.sim.transactions.teller import REQUEST_MS, RETRY_S, identity_of, noted, opened

if TYPE_CHECKING:
    from strandline import Producer as Sender
    from strandline.exactly_once import TransactionalBatch
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.cluster.world import World
    from strandline_runtime.runtime import Runtime

FETCH_WAIT_MS: Final = 300
RECORDS_MAX: Final = 20
WORK_S: Final = (0.0, 0.0, 0.05, 0.2)
RAISES: Final = 0.05
"""Probability that the application's own code fails within a batch."""


class OwnFailure(Exception):
    """The application's own code fails."""


class Copier:
    def __init__(self, world: World, name: str, runtime: Runtime) -> None:
        self._world = world
        self._ledger = world.ledger
        self._name = name
        self._runtime = runtime

    async def run(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as group:
            copying = group.create_task(self._go_on())
            await stop.wait()
            copying.cancel()

    async def _go_on(self) -> None:
        while True:
            try:
                await self._copy()
            except (StrandlineError, OwnFailure) as error:
                self._ledger.sometimes[f"copier began again: {type(error).__name__}"] += 1
                await asyncio.sleep(RETRY_S)

    async def _copy(self) -> None:
        consumer = Consumer(
            LEDGER,
            bootstrap_servers=self._world.topology.bootstrap,
            group_id=COPIERS,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            request_timeout_ms=REQUEST_MS,
            connect_timeout_ms=REQUEST_MS,
            fetch_max_wait_ms=FETCH_WAIT_MS,
            max_partition_fetch_bytes=self._world.topology.fetch_bytes,
            runtime=self._runtime,
        )
        async with (
            consumer,
            opened(self._world, self._name, self._runtime) as sender,
        ):
            self._ledger.opened(identity_of(sender))
            async for batch in ConsumeTransformProduce(consumer, sender, max_records=RECORDS_MAX):
                await self._batch(sender, batch)

    async def _batch(self, sender: Sender, batch: TransactionalBatch[bytes, bytes]) -> None:
        attempt = self._ledger.begin(self._name, identity_of(sender))
        rng = self._runtime.rng
        try:
            async with batch as records:
                for record in records:
                    of = f"{record.partition} {record.offset}"
                    value = self._ledger.value(attempt, COPIES, record.partition, of)
                    done = await sender.send(COPIES, value, partition=record.partition)
                    done.add_done_callback(partial(noted, attempt, value))
                await asyncio.sleep(rng.choice(WORK_S))
                if rng.random() < RAISES:
                    raise OwnFailure("the application's own code fails")
        except OwnFailure:
            self._ledger.ended(attempt, ABORTED)
            raise
        except BaseException:
            self._ledger.ended(attempt, UNKNOWN)
            raise
        if batch.is_committed:
            self._ledger.committed(attempt)
            self._ledger.sometimes["records copied in a transaction"] += len(records)
        else:
            self._ledger.ended(attempt, ABORTED)
            self._ledger.sometimes["batch aborted by a rebalance"] += 1


async def run_copier(world: World, node: Node, runtime: Runtime, stop: asyncio.Event) -> None:
    node.process = copier = Copier(world, node.name, runtime)
    await copier.run(stop)
