"""Elections of many partitions at once, where nobody in sync is left (I-53)."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline_broker.core.controller.brokers.applied_offsets import Applied
from strandline_broker.core.push_answer import LogEnd
from strandline_broker.hosts.controller.recoveries import PARTITIONS_PER_BATCH, Recoveries
from strandline_proto.ids import NO_LEADER
from support.controller_cluster import B1, B2, Cluster
from support.scripted_pipeline import ScriptedPipeline

MANY = 2 * PARTITIONS_PER_BATCH + 50
_RUNTIME = SimpleNamespace(log=SimpleNamespace(warning=lambda *_, **__: None))


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
    recoveries = Recoveries(cast("Any", _RUNTIME), cluster.state, Applied(), submit=pipeline.submit)
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


def test_who_has_left_is_forgotten_in_several_batches_when_their_leaders_have_applied_it() -> None:
    cluster = Cluster([B1, B2], min_insync=1)
    cluster.topic("t", *([(B1, B2)] * MANY))
    cluster.fence(B2)
    applied, broker = Applied(), cluster.state.brokers[B1]
    applied.on_registered(B1, broker.epoch)
    pipeline = ScriptedPipeline(cluster, 10)
    recoveries = Recoveries(cast("Any", _RUNTIME), cluster.state, applied, submit=pipeline.submit)
    asyncio.run(recoveries.sweep())
    assert pipeline.sizes == []
    assert all(p.last_known_elr == (B2,) for p in cluster.state.partitions())
    applied.on_answered(B1, broker.epoch, cluster.state.last_offset, failed=frozenset(), full=False)
    asyncio.run(recoveries.sweep())
    assert pipeline.sizes == [PARTITIONS_PER_BATCH, PARTITIONS_PER_BATCH, 50]
    assert all(p.last_known_elr == () for p in cluster.state.partitions())
