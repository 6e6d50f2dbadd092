"""A member's stop keeps its time limit, whatever does not answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline import Consumer, ConsumerRebalanceListener
from strandline_proto.batch import build_batch
from support.promises import kept_within
from support.scripted_broker import scripted_cluster

if TYPE_CHECKING:
    from strandline import TopicPartition


class Hanging(ConsumerRebalanceListener):
    async def on_partitions_revoked(self, revoked: frozenset[TopicPartition]) -> None:
        await asyncio.Event().wait()


async def test_stop_returns_in_time_with_every_broker_dead() -> None:
    async def stop() -> float:
        async with scripted_cluster(2) as cluster:
            [orders] = cluster.create("orders")
            orders.append(build_batch([(None, b"a"), (None, b"b")], timestamp_ms=1000))
            consumer = Consumer(
                "orders",
                bootstrap_servers=cluster.bootstrap,
                group_id="g",
                auto_offset_reset="earliest",
                fetch_max_wait_ms=50,
            )
            await consumer.start()
            await asyncio.wait_for(consumer.getone(), 60)
            await asyncio.wait_for(consumer.getone(), 60)
            for broker in cluster.brokers.values():
                await broker.stop()
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            await consumer.stop(timeout_ms=500)
            taken_s = loop.time() - began_s
            await consumer.stop()
            names = [task.get_name() for task in asyncio.all_tasks()]
            assert [name for name in names if name.startswith("strandline")] == []
            return taken_s

    await kept_within(1.5, stop)


@pytest.mark.parametrize("call", ["stop", "unsubscribe"])
async def test_stop_returns_in_time_with_a_listener_that_hangs(call: str) -> None:
    async def stop() -> float:
        async with scripted_cluster(2) as cluster:
            cluster.create("orders", 4)
            consumer = Consumer(bootstrap_servers=cluster.bootstrap, group_id="g")
            await consumer.start()
            consumer.subscribe(["orders"], listener=Hanging())
            await consumer.wait_assigned(60_000)
            loop = asyncio.get_running_loop()
            began_s = loop.time()
            await getattr(consumer, call)(timeout_ms=300)
            taken_s = loop.time() - began_s
            assert cluster.groups.group("g").members == {}, "the group hears of it all the same"
            await consumer.stop()
            return taken_s

    await kept_within(2, stop)
