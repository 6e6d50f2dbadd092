"""One broker without a controller: real gRPC, a real data directory, real replicas. The test pushes
what a controller would.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest

from strandline_broker.config.loading import load_broker_config
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.member.push import PushReceiver
from strandline_broker.hosts.member.push_streams import PushStreams
from strandline_broker.hosts.member.replica_manager import ReplicaManager
from strandline_broker.rpc.broker_service import Service, add_replica_service
from strandline_broker.rpc.cluster.identify import IdentifyRpc
from strandline_broker.rpc.cluster.push import PushRpc
from strandline_broker.rpc.records.fetch_client import FetchClient
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import common_pb2, push_pb2
from strandline_proto.v1.services_pb2_grpc import ReplicaServiceStub
from strandline_runtime.real import real_runtime
from support.applied_envelopes import applied_to
from support.replica_nodes import not_served
from support.scripted_controller import WAIT_S, running
from support.told_controller import ToldController

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from strandline_broker.config.keys import BrokerConfig
    from strandline_broker.hosts.replica.observers import RoleObserver
    from strandline_proto.v1.services_pb2_grpc import ReplicaServiceAsyncStub
    from strandline_runtime.runtime import FileSystem, Runtime

    Call = grpc.aio.StreamStreamCall[push_pb2.LeaderAndIsrRequest, push_pb2.LeaderAndIsrResponse]

TOPIC_ID = b"t" * 16
MY_EPOCH = 7


@dataclass
class Subject:
    stub: ReplicaServiceAsyncStub
    receiver: PushReceiver
    replicas: ReplicaManager
    metadata: MetadataCache
    directory: BrokerDirectories
    controller: ToldController


def _config(path: Path) -> BrokerConfig:
    return load_broker_config(
        None,
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(path),
            "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        },
        {},
    )


def _served(runtime: Runtime, *parts: object) -> Service:
    metrics = ServerMetrics(runtime.metrics, runtime.clock)
    return Service(runtime, metrics, *parts, not_served(*parts, service="ReplicaService"))


@asynccontextmanager
async def broker(
    path: Path,
    *,
    fs: FileSystem | None = None,
    observers: Sequence[RoleObserver] = (),
    session_s: float = 9.0,
) -> AsyncIterator[Subject]:
    """A broker that is loaded and registered; `receiver.run` is up to the test."""
    runtime = real_runtime("broker-1")
    if fs is not None:
        runtime = replace(runtime, fs=fs)
    config = _config(path)
    directory = BrokerDirectories.open(
        runtime.fs, [str(path)], node_id=1, cluster_id=None, new_id=runtime.random_id
    )
    metadata = MetadataCache(cluster_id="cluster", store_id=directory.state.store_id or "")

    streams = PushStreams(runtime)
    controller = ToldController(MY_EPOCH, on_asked=streams.ask_for_all)
    replicas = ReplicaManager(
        runtime,
        config,
        directory,
        metadata,
        controller,
        open_fetch=FetchClient(runtime.network),
        observers=observers,
    )
    receiver = PushReceiver(
        runtime,
        metadata,
        replicas,
        applied_to(replicas, runtime, metadata, controller, session_s=lambda: session_s),
        streams,
        broker_epoch=controller.broker_epoch,
        on_applied=lambda: None,
    )
    server = runtime.network.server()
    identify = IdentifyRpc(BrokerId(1), "incarnation", metadata)
    pushes = PushRpc(receiver, runtime.serial_executor("push-decoding"))
    add_replica_service(server, _served(runtime, pushes, identify))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await replicas.load()
    channel = runtime.network.channel(f"127.0.0.1:{port}")
    try:
        async with running(replicas.run()):
            yield Subject(
                ReplicaServiceStub(channel), receiver, replicas, metadata, directory, controller
            )
    finally:
        await channel.close()
        await server.stop(None)
        await replicas.close()
        directory.close()


def push(
    offset: int,
    prev: int,
    *,
    full: bool = False,
    controller_epoch: int = 1,
    broker_epoch: int = MY_EPOCH,
) -> push_pb2.LeaderAndIsrRequest:
    return push_pb2.LeaderAndIsrRequest(
        controller_id=100,
        cluster_id="cluster",
        store_id="store",
        controller_epoch=controller_epoch,
        broker_epoch=broker_epoch,
        metadata_offset=offset,
        prev_metadata_offset=prev,
        full=full,
    )


def with_topic(
    request: push_pb2.LeaderAndIsrRequest, *, leader_epoch: int = 0, partitions: int = 1
) -> push_pb2.LeaderAndIsrRequest:
    """The same push, electing broker 1 leader of all its partitions."""
    topic = request.leader_and_isr.add(topic_name="orders", topic_id=TOPIC_ID)
    topic.configs.add(name="max.message.bytes", value="5000")
    known = request.update_metadata.topics.add(topic_name="orders", topic_id=TOPIC_ID)
    for index in range(partitions):
        topic.partitions.add(
            partition_index=index,
            leader=1,
            leader_epoch=leader_epoch,
            partition_epoch=leader_epoch,
            isr_with_epochs=[common_pb2.BrokerAndEpoch(broker_id=1, broker_epoch=MY_EPOCH)],
            replicas=[1],
            eff_min_insync_replicas=1,
            is_new=True,
        )
        known.partitions.add(
            index=index,
            leader=1,
            leader_epoch=leader_epoch,
            isr=[1],
            replicas=[1],
            partition_epoch=0,
        )
    request.update_metadata.live_brokers.add(broker_id=1, broker_epoch=MY_EPOCH)
    return request


async def ask(call: Call, request: push_pb2.LeaderAndIsrRequest) -> push_pb2.LeaderAndIsrResponse:
    try:
        async with asyncio.timeout(WAIT_S):
            await call.write(request)
            answer = await call.read()
    except TimeoutError:
        raise AssertionError(f"the push has no answer after {WAIT_S} s") from None
    assert isinstance(answer, push_pb2.LeaderAndIsrResponse), answer
    return answer


async def given_up(call: Call) -> None:
    """The broker ends the stream, and so asks for another, which begins with everything."""
    reading = asyncio.create_task(call.read())
    _, waits = await asyncio.wait([reading], timeout=WAIT_S)
    for each in waits:
        each.cancel()
    assert not waits, "the stream goes on"
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await reading
    assert caught.value.code() is grpc.StatusCode.ABORTED
