"""What an application hears of partitions that were lost before it polled."""

from __future__ import annotations

import asyncio

from strandline import Consumer, ConsumerRebalanceListener, TopicPartition
from strandline_proto.batch import build_batch
from support.replica_nodes import eventually
from support.scripted_broker import scripted_cluster

T0 = TopicPartition("orders", 0)


class Heard(ConsumerRebalanceListener):
    def __init__(self) -> None:
        self.log: list[tuple[str, frozenset[TopicPartition]]] = []

    async def on_partitions_assigned(self, assigned: frozenset[TopicPartition]) -> None:
        self.log.append(("assigned", assigned))

    async def on_partitions_lost(self, lost: frozenset[TopicPartition]) -> None:
        self.log.append(("lost", lost))


async def test_an_assignment_that_was_lost_by_then_is_told_to_nobody() -> None:
    """Another may have the partitions, and the member knows (I-132)."""
    heard = Heard()
    async with scripted_cluster(1) as cluster:
        cluster.create("orders", 1)
        cluster.partition("orders", 0).append(build_batch([(None, b"a")], timestamp_ms=1000))
        async with Consumer(
            bootstrap_servers=cluster.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        ) as consumer:
            consumer.subscribe(["orders"], listener=heard)
            await eventually(lambda: consumer.assignment() == {T0}, "it has a partition")
            known = consumer.group_metadata()
            cluster.groups.expire("g", known.member_id)
            await eventually(
                lambda: consumer.group_metadata().generation_id > known.generation_id,
                "it has joined anew",
            )
            assert heard.log == []
            assert (await asyncio.wait_for(consumer.getone(), 10)).value == b"a"
            assert heard.log == [("assigned", frozenset({T0}))]
