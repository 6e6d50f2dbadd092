"""Elections of many partitions at once, where nobody in sync is left (I-53)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline_broker.core.controller.log_ends import LogEnd
from strandline_broker.hosts.controller.recoveries import PARTITIONS_PER_BATCH, Recoveries
from strandline_proto.ids import NO_LEADER
from support.controller_cluster import B1, B2, Cluster
from support.scripted_pipeline import ScriptedPipeline

MANY = 2 * PARTITIONS_PER_BATCH + 50


@pytest.mark.parametrize(
    ("room", "batches"),
    [(10, [PARTITIONS_PER_BATCH, PARTITIONS_PER_BATCH, 50]), (1, [PARTITIONS_PER_BATCH])],
)
def test_many_partitions_get_their_leaders_in_several_batches(
    room: int, batches: list[int]
) -> None:
    cluster = Cluster([B1, B2])
    topic = cluster.topic("t", *([(B1, B2)] * MANY))
    for broker in (B1, B2):
        cluster.fence(broker)
    for broker in (B1, B2):
        cluster.up(broker)
    pipeline = ScriptedPipeline(cluster, room)
    runtime = SimpleNamespace(log=SimpleNamespace(warning=lambda *_, **__: None))
    recoveries = Recoveries(cast("Any", runtime), cluster.state, submit=pipeline.submit)
    for partition in cluster.state.partitions():
        for broker in (B1, B2):
            recoveries.ends.on_told(
                cluster.state.brokers[broker],
                partition,
                leader_epoch=partition.leader_epoch,
                end=LogEnd(0, 7),
            )
    asyncio.run(recoveries.sweep())
    assert pipeline.sizes == batches
    led = [p for p in cluster.state.topics[topic].partitions.values() if p.leader != NO_LEADER]
    assert len(led) == sum(batches)
