"""The description of a cluster fits into one message, whatever its brokers have named."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from strandline_broker.core.controller.brokers.heartbeat import TOLD_MAX, Heartbeat
from strandline_broker.core.controller.brokers.registration import ENTRIES_MAX, TEXT_LENGTH_MAX
from strandline_broker.core.replication.replica_condition import RefusedTruncation
from strandline_broker.rpc.controller.topics import NAMED_BYTES_MAX, ClusterRpc
from strandline_proto.ids import BrokerId, LeaderEpoch, MetadataOffset, Offset, TopicId
from strandline_proto.v1 import metadata_pb2
from support.controller_cluster import Cluster
from support.hostile_controller import hostile_run

BROKERS = 8
FAR = Offset((1 << 63) - 1)
REFUSAL = RefusedTruncation(TopicId(bytes(16)), 1, BrokerId(1), LeaderEpoch(1), FAR, FAR, FAR)


async def described(
    features: tuple[str, ...] = (), **named: Any
) -> metadata_pb2.DescribeClusterResponse:
    cluster = Cluster([BrokerId(number) for number in range(1, BROKERS + 1)])
    state = cluster.state
    for number, each in state.brokers.items():
        state.brokers[number] = replace(each, features=features)
    told = {
        broker.broker_id: Heartbeat(
            broker.broker_id,
            broker.epoch,
            MetadataOffset(1),
            want_fence=False,
            want_shut_down=False,
            **named,
        )
        for broker in state.brokers.values()
    }
    controller = SimpleNamespace(
        identity=SimpleNamespace(cluster_id="c", node_id=100, store_id="s"),
        state=state,
        sessions=SimpleNamespace(heard_ms=lambda _: 1),
        told=told,
        now_ms=lambda: 2,
    )
    rpc = ClusterRpc(cast("Any", controller), pid=1, host="h", port=1, build="1")
    return await rpc.DescribeCluster(metadata_pb2.DescribeClusterRequest(), None)


async def test_a_description_says_which_listeners_speak_kafkas_protocol() -> None:
    name = Cluster([BrokerId(1)]).state.brokers[BrokerId(1)].listeners[0].listener
    answer = await described(features=("protocol:0-1", f"kafka:{name}", "kafka:of-no-listener"))
    assert {tuple(broker.kafka_listeners) for broker in answer.brokers} == {(name,)}


@pytest.mark.parametrize("sign", ["d", "\N{GRINNING FACE}"])
async def test_a_description_fits_whatever_heartbeats_name(sign: str) -> None:
    names = (sign * TEXT_LENGTH_MAX,) * ENTRIES_MAX
    answer = await described(
        offline_log_dirs=names,
        full_log_dirs=names,
        stray_dirs=names,
        refused=(REFUSAL,) * TOLD_MAX,
    )
    assert NAMED_BYTES_MAX // 2 < answer.ByteSize() < NAMED_BYTES_MAX + (1 << 20)
    for broker in answer.brokers:
        assert 0 < len(broker.offline_log_dirs) < ENTRIES_MAX
        assert 0 < len(broker.refused_truncations) < TOLD_MAX


async def test_all_of_what_brokers_usually_name_is_described() -> None:
    names = tuple(f"/data/{number}" for number in range(20))
    answer = await described(
        offline_log_dirs=names,
        full_log_dirs=names,
        lacks_descriptors=True,
        stray_dirs=names,
        refused=(REFUSAL,) * 1000,
    )
    for broker in answer.brokers:
        assert broker.lacks_descriptors
        assert tuple(broker.offline_log_dirs) == names
        assert tuple(broker.full_log_dirs) == names
        assert tuple(broker.stray_dirs) == names
        assert len(broker.refused_truncations) == 1000


async def test_of_a_heartbeat_that_is_refused_nothing_is_described() -> None:
    async with hostile_run() as run:
        for directories in (["d"], ["d" * (TEXT_LENGTH_MAX + 1)]):
            heartbeat = run.heartbeat(1)
            heartbeat.stray_dirs.extend(directories)
            await run.call("BrokerHeartbeat", heartbeat)
        (answer,) = await run.call("DescribeCluster", metadata_pb2.DescribeClusterRequest())
    assert isinstance(answer, metadata_pb2.DescribeClusterResponse)
    assert [list(broker.stray_dirs) for broker in answer.brokers] == [["d"], [], []]
