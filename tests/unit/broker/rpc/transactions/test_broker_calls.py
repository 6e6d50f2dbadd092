"""The calls about transactions over real gRPC: between brokers, and of administrators."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.addresses import Endpoint
from strandline_broker.core.replication.append_origin import AppendOrigin
from strandline_broker.core.replication.end_marker import EndMarker
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.serving.producers.describe import ProducersService
from strandline_broker.hosts.serving.producers.markers import MarkersService
from strandline_broker.hosts.transactions.broker_calls import MarkerToWrite, PartitionsToAdd
from strandline_broker.rpc.broker_service import Service, add_broker_service, add_replica_service
from strandline_broker.rpc.transactions.broker_client import BrokerClient
from strandline_broker.rpc.transactions.markers import MarkersRpc
from strandline_broker.rpc.transactions.own_coordinator import OwnCoordinator
from strandline_broker.rpc.transactions.partition_producers import PartitionProducersRpc
from strandline_broker.telemetry import ServerMetrics
from strandline_proto import errors
from strandline_proto.ids import LeaderEpoch, ProducerEpoch, ProducerId
from strandline_proto.v1 import transactions_pb2
from strandline_proto.v1.services_pb2_grpc import BrokerServiceStub
from strandline_runtime.real import real_runtime
from support.replica_nodes import TOPIC_ID, decide, not_served, run_node, state
from support.scripted_verifier import transactional

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

OTHER = b"u" * 16
COMMIT = EndMarker(ProducerId(7), ProducerEpoch(1), True, LeaderEpoch(3), 2)


class Markers:
    """A server's service: keeps what it is asked, and refuses odd partitions."""

    def __init__(self) -> None:
        self.asked: list[MarkerToWrite] = []

    async def write(self, markers: list[MarkerToWrite]) -> Any:
        self.asked += markers
        return [
            [errors.NotLeaderOrFollower("moved") if i % 2 else None for _, i in each.partitions]
            for each in markers
        ]


class Coordinator:
    """Answers as it is told to."""

    def __init__(self) -> None:
        self.asked: list[transactions_pb2.AddPartitionsToTxnRequest] = []
        self.answer = transactions_pb2.AddPartitionsToTxnResponse()
        self.hangs = False

    async def AddPartitionsToTxn(self, request: Any, context: Any) -> Any:
        self.asked.append(request)
        if self.hangs:
            await asyncio.Event().wait()
        return self.answer


@asynccontextmanager
async def served(*parts: object) -> AsyncIterator[tuple[BrokerClient, Endpoint]]:
    runtime = real_runtime("broker-1")
    server = runtime.network.server()
    everything = (*parts, not_served(*parts, service="ReplicaService"))
    add_replica_service(
        server, Service(runtime, ServerMetrics(runtime.metrics, runtime.clock), *everything)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    client = BrokerClient(runtime)
    try:
        yield client, Endpoint("INTERNAL", "127.0.0.1", port)
    finally:
        await client.close()
        await server.stop(None)


async def test_markers_and_their_results_cross_the_wire() -> None:
    service = Markers()
    async with served(MarkersRpc(service)) as (client, broker):  # type: ignore[arg-type] # it stands in
        abort = EndMarker(ProducerId(8), ProducerEpoch(4), False, LeaderEpoch(0), 0)
        asked = [
            MarkerToWrite(COMMIT, [(TOPIC_ID, 0), (OTHER, 1), (TOPIC_ID, 3)]),
            MarkerToWrite(abort, [(OTHER, 2)]),
        ]
        results = await client.write_markers(broker, asked, timeout_s=30)
    assert [each.marker for each in service.asked] == [COMMIT, abort]
    assert service.asked[0].partitions == [(TOPIC_ID, 0), (TOPIC_ID, 3), (OTHER, 1)], "by topic"
    (first, second, third), (last,) = results
    assert (first, last) == (None, None)
    for refused in (second, third):
        assert isinstance(refused, errors.NotLeaderOrFollower)
        assert str(refused) == "moved"


async def test_partitions_and_their_results_cross_the_wire() -> None:
    coordinator = Coordinator()
    asked = [
        PartitionsToAdd("a", 7, 2, False, [(TOPIC_ID, 0), (OTHER, 1)]),
        PartitionsToAdd("b", 8, 3, True, [(TOPIC_ID, 0), (TOPIC_ID, 1)]),
    ]
    added = coordinator.answer.results.add(transactional_id="a").topics
    added.add(topic_id=OTHER).partitions.add(partition=1, error_code=51, error_message="busy")
    added.add(topic_id=TOPIC_ID).partitions.add(partition=0)
    coordinator.answer.results.add(transactional_id="b", error_code=16, error_message="elsewhere")
    async with served(coordinator) as (client, broker):
        first, second = await client.add_partitions(broker, asked, timeout_s=30)
    assert first[0] is None
    assert isinstance(first[1], errors.ConcurrentTransactions)
    assert [type(each) for each in second] == [errors.NotCoordinator] * 2
    (sent,) = coordinator.asked
    assert [(each.transactional_id, each.verify_only) for each in sent.transactions] == [
        ("a", False),
        ("b", True),
    ]
    assert (sent.transactions[0].producer_id, sent.transactions[0].producer_epoch) == (7, 2)


async def test_the_brokers_own_coordinator_is_asked_without_a_network() -> None:
    coordinator = Coordinator()
    coordinator.answer.results.add(transactional_id="a", error_code=51)
    asked = [PartitionsToAdd("a", 7, 2, False, [(TOPIC_ID, 0)])]
    ((result,),) = await OwnCoordinator(coordinator)(asked)
    assert isinstance(result, errors.ConcurrentTransactions)
    assert coordinator.asked[0].transactions[0].topics[0].partitions == [0]


async def test_an_answer_that_lacks_something_counts_as_lost() -> None:
    coordinator = Coordinator()
    asked = [PartitionsToAdd("a", 7, 2, False, [(TOPIC_ID, 0)])]
    async with served(coordinator) as (client, broker):
        with pytest.raises(errors.NetworkException, match="0 results for 1 elements"):
            await client.add_partitions(broker, asked, timeout_s=30)
        coordinator.answer.results.add(transactional_id="a")
        ((result,),) = await client.add_partitions(broker, asked, timeout_s=30)
        assert isinstance(result, errors.NetworkException)


async def test_a_call_without_an_answer_is_a_network_error() -> None:
    coordinator = Coordinator()
    coordinator.hangs = True
    asked = [PartitionsToAdd("a", 7, 2, False, [(TOPIC_ID, 0)])]
    async with served(coordinator) as (client, broker):
        with pytest.raises(errors.NetworkException):
            await client.add_partitions(broker, asked, timeout_s=0.1)
        nobody = Endpoint("INTERNAL", "127.0.0.1", 1)
        with pytest.raises(errors.NetworkException, match=r"127\.0\.0\.1:1"):
            await client.write_markers(nobody, [], timeout_s=30)


async def test_an_administrator_sees_and_ends_a_hanging_transaction(tmp_path: Path) -> None:
    """KIP-664."""
    async with run_node(tmp_path, 1) as node:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), node)
        check_leader(node.partition, None).appends.append(
            transactional(0, b"a", b"b"),
            acks=1,
            on_done=lambda _: None,
            origin=AppendOrigin.COORDINATOR,
        )
        runtime = node.runtime
        part = PartitionProducersRpc(
            ProducersService(node.replicas, node.metadata),
            MarkersService(node.replicas, node.metadata),
        )
        server = runtime.network.server()
        metrics = ServerMetrics(real_runtime("other").metrics, runtime.clock)
        add_broker_service(server, Service(runtime, metrics, part, not_served(part)))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with runtime.network.channel(f"127.0.0.1:{port}") as channel:
            stub: Any = BrokerServiceStub(channel)
            topics = [transactions_pb2.TxnTopic(topic_id=TOPIC_ID, partitions=[0, 9])]
            ask = transactions_pb2.DescribeProducersRequest(topics=topics)
            ((led, unknown),) = [
                topic.partitions for topic in (await stub.DescribeProducers(ask)).topics
            ]
            (found,) = led.active_producers
            assert (found.producer_id, found.last_sequence) == (7, 1)
            assert (found.current_txn_start_offset, found.coordinator_epoch) == (0, -1)
            assert (unknown.partition, unknown.error_code) == (9, 3)
            abort = transactions_pb2.AbortTransactionRequest(
                topic_id=TOPIC_ID,
                partition=0,
                producer_id=found.producer_id,
                producer_epoch=found.producer_epoch,
                coordinator_epoch=found.coordinator_epoch,
            )
            codes = [(await stub.AbortTransaction(abort)).error_code for _ in range(2)]
            assert codes == [0, errors.InvalidTxnState.code]
            ((led, _),) = [topic.partitions for topic in (await stub.DescribeProducers(ask)).topics]
            assert led.active_producers[0].current_txn_start_offset == -1
        await server.stop(None)
