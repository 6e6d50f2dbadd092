"""Replicas of a few brokers in one process, over real gRPC and real files, with the test as their
controller: it decides who leads, and when each broker hears of it.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from strandline_broker.config.loading import load_broker_config
from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.core.push_envelope import (
    Envelope,
    LiveBroker,
    PartitionMetadata,
    TopicMetadata,
)
from strandline_broker.core.replication.partition_state import IsrMember, PartitionState
from strandline_broker.hosts.common.request_times import RequestTimes
from strandline_broker.hosts.fetching.copy_throttle import LeaderThrottle
from strandline_broker.hosts.member.replica_manager import ReplicaManager
from strandline_broker.hosts.replica.record_check import RecordChecks
from strandline_broker.hosts.serving.delete_records import DeleteRecordsService
from strandline_broker.hosts.serving.fetch_range import FetchRangeService
from strandline_broker.hosts.serving.offsets import OffsetsService
from strandline_broker.hosts.serving.produce import ProduceService
from strandline_broker.rpc.broker_service import Service, add_broker_service
from strandline_broker.rpc.cluster.replicas_info import ReplicasInfoRpc
from strandline_broker.rpc.cluster.truncations import TruncationsRpc
from strandline_broker.rpc.records.delete_records import DeleteRecordsRpc
from strandline_broker.rpc.records.fetch import FetchRpc
from strandline_broker.rpc.records.fetch_client import FetchClient
from strandline_broker.rpc.records.fetch_range import FetchRangeRpc
from strandline_broker.rpc.records.offsets import OffsetsRpc
from strandline_broker.rpc.records.produce import ProduceRpc
from strandline_broker.storage.directory.broker_directories import BrokerDirectories
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.ids import (
    UNKNOWN_EPOCH,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    MetadataOffset,
    PartitionEpoch,
    TopicId,
)
from strandline_proto.v1 import services_pb2
from strandline_runtime.real import real_runtime
from support.applied_envelopes import applied_to
from support.told_controller import ToldController

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from strandline_broker.core.push_answer import FailedPartition
    from strandline_broker.core.replication.leader import ProposeIsr
    from strandline_broker.hosts.member.envelopes import Envelopes
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_runtime.runtime import Clock, FileSystem, Runtime

TOPIC_ID = TopicId(b"t" * 16)
TOPIC = "orders"
WAIT_S = 60.0
NO_PORT = 1


@dataclass
class Node:
    """One broker's replicas and server."""

    runtime: Runtime
    broker_id: BrokerId
    replicas: ReplicaManager
    envelopes: Envelopes
    metadata: MetadataCache
    directory: BrokerDirectories
    port: int
    controller: ToldController

    @property
    def proposals(self) -> list[ProposeIsr]:
        return self.controller.proposals

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def partition(self) -> Partition:
        found = self.replicas.find(TOPIC_ID, 0)
        assert found is not None
        return found


@asynccontextmanager
async def run_node(
    path: Path,
    broker_id: int,
    fs: FileSystem | None = None,
    clock: Clock | None = None,
    /,
    **settings: str,
) -> AsyncIterator[Node]:
    """A broker's replicas, served on a free port until the block ends."""
    runtime = _runtime(broker_id, fs, clock)
    server = runtime.network.server()
    port = server.add_insecure_port("127.0.0.1:0")
    async with _running(runtime, path, broker_id, port, settings) as node:
        add_broker_service(server, _data_plane(runtime, node.metadata, node.replicas))
        await server.start()
        try:
            yield node
        finally:
            await server.stop(0)


@asynccontextmanager
async def run_node_without_server(
    path: Path, broker_id: int, /, **settings: str
) -> AsyncIterator[Node]:
    """The same behind no port."""
    async with _running(_runtime(broker_id), path, broker_id, NO_PORT, settings) as node:
        yield node


def _runtime(broker_id: int, fs: FileSystem | None = None, clock: Clock | None = None) -> Runtime:
    runtime = real_runtime(f"broker-{broker_id}")
    return replace(runtime, fs=fs or runtime.fs, clock=clock or runtime.clock)


@asynccontextmanager
async def _running(
    runtime: Runtime, path: Path, broker_id: int, port: int, settings: Mapping[str, str]
) -> AsyncIterator[Node]:
    overrides = {
        "node.id": str(broker_id),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(path),  # `log_dirs` of the settings names several
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        "replica.fetch.wait.max.ms": "100",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    config = load_broker_config(None, overrides, {})
    directory = BrokerDirectories.open(
        runtime.fs,
        config.log_dirs,
        node_id=broker_id,
        cluster_id="c",
        new_id=runtime.random_id,
    )
    metadata = MetadataCache(cluster_id="c")
    controller = ToldController(broker_id)
    replicas = ReplicaManager(
        runtime,
        config,
        directory,
        metadata,
        controller,
        open_fetch=FetchClient(runtime.network),
    )
    controller.known_at = lambda key: 0 if key in replicas.offline_replicas() else None
    await replicas.load()
    me = BrokerId(broker_id)
    envelopes = applied_to(replicas, runtime, metadata, controller, session_s=lambda: 9.0)
    node = Node(runtime, me, replicas, envelopes, metadata, directory, port, controller)
    runner = asyncio.get_running_loop().create_task(replicas.run())
    try:
        async with envelopes.late.owned():
            yield node
    finally:
        runner.cancel()
        await asyncio.gather(runner, return_exceptions=True)
        await replicas.close()
        directory.close()


async def _refuse(self: object, request: object, context: object) -> None:
    raise AssertionError(f"not served here: {request}")


def not_served(*parts: object, service: str = "BrokerService") -> object:
    """The calls that these tests do not make, of a class of their own: all that no part serves."""
    calls = services_pb2.DESCRIPTOR.services_by_name[service].methods_by_name
    names = [name for name in calls if not any(hasattr(part, name) for part in parts)]
    return type("NotServed", (), dict.fromkeys(names, _refuse))()


def _data_plane(runtime: Runtime, metadata: MetadataCache, replicas: ReplicaManager) -> Service:
    clock, thread = runtime.clock, runtime.serial_executor("record-checks")
    parts = (
        ProduceRpc(
            ProduceService(replicas, metadata, RecordChecks(clock, replicas.partitions, thread)),
            metadata,
            "PLAINTEXT",
            RequestTimes(clock),
        ),
        FetchRpc(
            clock, metadata, replicas, LeaderThrottle(clock, replicas.config), RequestTimes(clock)
        ),
        FetchRangeRpc(FetchRangeService(replicas, metadata)),
        OffsetsRpc(OffsetsService(replicas), metadata),
        DeleteRecordsRpc(DeleteRecordsService(replicas), metadata),
        ReplicasInfoRpc(clock, replicas, metadata),
        TruncationsRpc(replicas),
    )
    return Service(
        runtime, ServerMetrics(runtime.metrics, runtime.clock), *parts, not_served(*parts)
    )


def state(
    leader: int,
    *,
    epoch: int,
    isr: tuple[int, ...],
    replicas: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int | None = None,
    min_insync: int = 2,
    unclean_epoch: LeaderEpoch = UNKNOWN_EPOCH,
) -> PartitionState:
    """A decision about orders-0; each broker's epoch is its id."""
    return PartitionState(
        topic=TOPIC,
        topic_id=TOPIC_ID,
        partition=0,
        leader=BrokerId(leader),
        leader_epoch=LeaderEpoch(epoch),
        isr=tuple(IsrMember(BrokerId(b), BrokerEpoch(b)) for b in isr),
        partition_epoch=PartitionEpoch(epoch if partition_epoch is None else partition_epoch),
        replicas=tuple(BrokerId(b) for b in replicas),
        elr=(),
        eff_min_insync=min_insync,
        is_new=epoch == 0,
        recovering=False,
        unclean_epoch=unclean_epoch,
    )


async def decide(
    decided: PartitionState,
    *nodes: Node,
    known: tuple[Node, ...] = (),
    offline: tuple[int, ...] = (),
    refused: bool = False,
) -> list[FailedPartition]:
    """Push one decision to these nodes; `known` adds brokers to whose addresses it points,
    `offline` names brokers whose replica is. What they could not apply, which only `refused`
    expects.
    """
    refusals: list[FailedPartition] = []
    brokers = tuple(
        LiveBroker(
            n.broker_id,
            BrokerEpoch(n.broker_id),
            (Endpoint("PLAINTEXT", "127.0.0.1", n.port),),
        )
        for n in {n.broker_id: n for n in (*nodes, *known)}.values()
    )
    metadata = PartitionMetadata(
        partition=0,
        leader=decided.leader,
        leader_epoch=decided.leader_epoch,
        partition_epoch=decided.partition_epoch,
        replicas=decided.replicas,
        isr=tuple(m.broker_id for m in decided.isr),
        offline_replicas=tuple(BrokerId(b) for b in offline),
    )
    for node in nodes:
        offset = MetadataOffset(node.metadata.applied_offset + 1)
        envelope = Envelope(
            cluster_id="c",
            controller_id=BrokerId(0),
            store_id="s",
            controller_epoch=ControllerEpoch(1),
            broker_epoch=BrokerEpoch(node.broker_id),
            metadata_offset=offset,
            prev_metadata_offset=MetadataOffset(offset - 1),
            full=False,
            leader_and_isr=(decided,),
            topics=(TopicMetadata(TOPIC, TOPIC_ID, (metadata,), {}),),
            live_brokers=brokers,
        )
        view = node.metadata.prepare(envelope)
        errors = await node.envelopes.apply(envelope)
        assert refused or errors == [], errors
        refusals += errors
        node.metadata.publish(view, store_id="s")
    return refusals


async def eventually(condition: object, what: str) -> None:
    """Wait until the callable holds; real sockets and disks give no other sign."""
    assert callable(condition)
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - replicas give no event for what is asked
            await asyncio.sleep(0.005)
    assert condition(), what


__all__ = [
    "TOPIC",
    "TOPIC_ID",
    "Node",
    "decide",
    "eventually",
    "not_served",
    "run_node",
    "state",
]
