"""Metadata, DescribeConfigs and forwarded calls as a broker answers them."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest

from strandline_broker.config.loading import load_broker_config
from strandline_broker.core.groups.settings import GroupSettings
from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.core.push_envelope import DynamicConfigs
from strandline_broker.core.topic_config import FIXED_TOPIC_VALUES, TOPIC_KEYS
from strandline_broker.hosts.serving.configs import BROKER, TOPIC, ConfigsService
from strandline_broker.rpc.broker_service import BROKER_SERVICE, Service
from strandline_broker.rpc.cluster.admin import AdminRpc
from strandline_broker.rpc.cluster.configs import ConfigsRpc
from strandline_broker.rpc.cluster.controller_link import ControllerLink
from strandline_broker.rpc.cluster.metadata import MetadataRpc
from strandline_broker.rpc.lazy_service import add_standard_services
from strandline_broker.telemetry import ServerMetrics
from strandline_proto.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    NotController,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from strandline_proto.v1 import metadata_pb2
from strandline_runtime.real import real_runtime
from support.envelopes import applied, envelope, live_broker, partition, topic, topic_id
from support.scripted_controller import WAIT_S, scripted_controller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

RAW_SERVICE = "test.Raw"


def cache() -> MetadataCache:
    known = MetadataCache(cluster_id="cluster")
    applied(
        known,
        envelope(
            12,
            full=True,
            topics=(
                topic("orders", 1, partition(0), partition(1, leader=-1, leader_epoch=3)),
                topic(
                    "__consumer_offsets",
                    2,
                    partition(0),
                    configs={"segment.bytes": "99", "segment.ms": "1", "preallocate": "false"},
                ),
            ),
            live_brokers=(live_broker(1), live_broker(2, fenced=True), live_broker(3)),
            dynamic_configs=DynamicConfigs(
                broker={"log.roll.ms": "11"},
                cluster={
                    "log.roll.ms": "22",
                    "message.max.bytes": "333",
                    "min.insync.replicas": "1",
                },
                controller={"min.insync.replicas": "2", "from.the.future": "1"},
            ),
        ),
    )
    return known


async def ask(
    request: metadata_pb2.MetadataRequest, listener: str = "PLAINTEXT"
) -> metadata_pb2.MetadataResponse:
    return await MetadataRpc(cache(), listener).Metadata(request, None)


async def test_all_topics_are_described_by_name_with_epochs_and_errors() -> None:
    answer = await ask(metadata_pb2.MetadataRequest())
    assert (answer.cluster_id, answer.controller_id, answer.metadata_offset) == ("cluster", 100, 12)
    assert [(t.name, t.is_internal) for t in answer.topics] == [
        ("__consumer_offsets", True),
        ("orders", False),
    ]
    first, leaderless = answer.topics[1].partitions
    assert (first.error_code, first.leader, list(first.isr)) == (0, 1, [1, 2])
    assert (leaderless.error_code, leaderless.leader) == (LeaderNotAvailable.code, -1)
    assert leaderless.leader_epoch == 3


async def test_live_brokers_have_an_address_for_ranges_if_a_listener_serves_them() -> None:
    """A client that may not reach them gets none."""
    request = metadata_pb2.MetadataRequest()
    assert not (await ask(request)).range_brokers
    answer = await MetadataRpc(cache(), "INTERNAL", "PLAINTEXT").Metadata(request, None)
    assert [(b.node_id, b.port) for b in answer.brokers] == [(1, 9101), (3, 9103)]
    assert [(b.node_id, b.host, b.port) for b in answer.range_brokers] == [
        (1, "client.example", 9001),
        (3, "client.example", 9003),
    ]


async def test_exactly_two_topics_are_internal_however_others_begin() -> None:
    names = ("__consumer_offsets", "__consumer_offsets.x", "__debezium-heartbeat.x")
    known = MetadataCache(cluster_id="cluster")
    topics = [
        topic(name, n, partition(0)) for n, name in enumerate((*names, "__transaction_state"))
    ]
    applied(known, envelope(1, full=True, topics=tuple(topics)))
    request = metadata_pb2.MetadataRequest()
    answer = await MetadataRpc(known, "PLAINTEXT").Metadata(request, None)
    assert [t.name for t in answer.topics if t.is_internal] == [
        "__consumer_offsets",
        "__transaction_state",
    ]


async def test_a_topic_is_described_as_it_is_now_however_often_it_was_asked_for() -> None:
    known = cache()
    rpc = MetadataRpc(known, "PLAINTEXT")
    every = metadata_pb2.MetadataRequest()
    before = await rpc.Metadata(every, None)
    assert await rpc.Metadata(every, None) == before
    applied(known, envelope(13, topics=(topic("orders", 1, partition(1, leader_epoch=4)),)))
    orders = (await rpc.Metadata(every, None)).topics[1]
    assert [(p.index, p.leader_epoch) for p in orders.partitions] == [(0, 0), (1, 4)]
    applied(known, envelope(14, deleted_topic_ids=(topic_id(1),)))
    applied(known, envelope(15, topics=(topic("orders", 7, partition(0)),)))
    internal, anew = (await rpc.Metadata(every, None)).topics
    assert internal == before.topics[0]
    assert (anew.topic_id, len(anew.partitions)) == (topic_id(7), 1)


async def test_brokers_are_named_by_their_address_on_the_listener_that_was_asked() -> None:
    outside = await ask(metadata_pb2.MetadataRequest())
    inside = await ask(metadata_pb2.MetadataRequest(), "INTERNAL")
    assert [(b.node_id, b.host, b.port) for b in outside.brokers] == [
        (1, "client.example", 9001),
        (3, "client.example", 9003),
    ]
    assert [(b.node_id, b.host, b.port) for b in inside.brokers] == [
        (1, "127.0.0.1", 9101),
        (3, "127.0.0.1", 9103),
    ]


async def test_named_topics_come_back_in_order_each_with_its_own_error() -> None:
    wanted = [
        metadata_pb2.TopicRef(name="orders"),
        metadata_pb2.TopicRef(topic_id=topic_id(2)),
        metadata_pb2.TopicRef(name="none"),
        metadata_pb2.TopicRef(topic_id=topic_id(9)),
        metadata_pb2.TopicRef(topic_id=b"short"),
    ]
    answer = await ask(metadata_pb2.MetadataRequest(only_named=True, topics=wanted))
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("orders", 0),
        ("__consumer_offsets", 0),
        ("none", UnknownTopicOrPartition.code),
        ("", UnknownTopicId.code),
        ("", InvalidRequest.code),
    ]
    assert list((await ask(metadata_pb2.MetadataRequest(only_named=True))).topics) == []


def config_rpc() -> ConfigsRpc:
    config = load_broker_config(
        None,
        {
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:1",
            "log.dirs": "/d",
            "controller.quorum.bootstrap.servers": "127.0.0.1:2",
            "message.max.bytes": "777",
            "log.retention.ms": "888",
            "log.cleanup.policy": "compact,delete",
        },
        {},
    )
    return ConfigsRpc(ConfigsService(config, cache()))


async def described(kind: int, name: str, *keys: str) -> metadata_pb2.ConfigResourceResult:
    request = metadata_pb2.DescribeConfigsRequest(
        resources=[metadata_pb2.ConfigResource(type=kind, name=name, keys=keys)]
    )
    return (await config_rpc().DescribeConfigs(request, None)).results[0]


async def test_a_topic_key_says_whether_it_is_its_own_the_brokers_or_the_default() -> None:
    result = await described(TOPIC, "__consumer_offsets")
    found = {c.name: (c.value, c.source) for c in result.configs}
    assert found.keys() == {*TOPIC_KEYS, *FIXED_TOPIC_VALUES}
    assert found["segment.bytes"] == ("99", 1)
    assert found["preallocate"] == ("false", 1)
    assert found["max.message.bytes"] == ("333", 3)
    assert found["retention.ms"] == ("888", 4)
    assert found["segment.index.bytes"] == ("10485760", 5)
    assert found["min.insync.replicas"] == ("1", 3)
    assert not any(c.read_only for c in result.configs)
    (roll,) = (await described(TOPIC, "orders", "segment.ms")).configs
    assert (roll.value, roll.source) == ("11", 2)


async def test_values_of_every_kind_are_written_as_they_are_set() -> None:
    found = {c.name: c.value for c in (await described(TOPIC, "orders")).configs}
    assert found["cleanup.policy"] == "compact,delete"
    assert found["min.cleanable.dirty.ratio"] == "0.5"
    own = {c.name: c.value for c in (await described(BROKER, "1")).configs}
    assert own["development.unsafe"] == "false"


async def test_every_source_of_a_value_is_listed_the_strongest_first() -> None:
    (roll,) = (await described(TOPIC, "__consumer_offsets", "segment.ms")).configs
    assert [(s.name, s.value, s.source) for s in roll.synonyms] == [
        ("segment.ms", "1", 1),
        ("log.roll.ms", "11", 2),
        ("log.roll.ms", "22", 3),
        ("log.roll.ms", "604800000", 5),
    ]
    (minimum,) = (await described(TOPIC, "orders", "min.insync.replicas")).configs
    assert [(s.value, s.source) for s in minimum.synonyms] == [("1", 3), ("2", 5)]


async def test_what_was_altered_for_all_brokers_is_described_by_any() -> None:
    result = await described(BROKER, "")
    assert [(c.name, c.value, c.source) for c in result.configs] == [
        ("log.roll.ms", "22", 3),
        ("message.max.bytes", "333", 3),
        ("min.insync.replicas", "1", 3),
    ]


async def test_a_broker_describes_itself_and_nobody_else() -> None:
    result = await described(
        BROKER, "1", "message.max.bytes", "flush.policy", "min.insync.replicas"
    )
    assert {c.name: (c.value, c.source) for c in result.configs} == {
        "message.max.bytes": ("333", 3),
        "flush.policy": ("replicated", 5),
        "min.insync.replicas": ("1", 3),
    }
    assert [(c.name, c.read_only) for c in result.configs] == [
        ("message.max.bytes", False),
        ("flush.policy", True),
        ("min.insync.replicas", False),
    ]
    assert (await described(BROKER, "2")).error_code == InvalidRequest.code
    assert (await described(TOPIC, "none")).error_code == UnknownTopicOrPartition.code
    assert (await described(99, "x")).error_code == InvalidRequest.code


async def test_what_is_the_controllers_is_passed_on_and_its_absence_is_said() -> None:
    runtime = real_runtime("test")
    request = metadata_pb2.CreateTopicsRequest(
        topics=[metadata_pb2.NewTopic(name="t")], timeout_ms=2000
    )
    alteration = metadata_pb2.IncrementalAlterConfigsRequest(
        resources=[metadata_pb2.AlterConfigResource(type=TOPIC, name="t")]
    )
    async with scripted_controller() as controller:
        link = ControllerLink(runtime, controller.target)
        rpc = AdminRpc(link, GroupSettings())
        created = await rpc.CreateTopics(request, None)
        assert [t.name for t in created.topics] == ["t"]
        altered = await rpc.IncrementalAlterConfigs(alteration, None)
        assert [(r.type, r.name) for r in altered.results] == [(TOPIC, "t")]
        cluster = await rpc.DescribeCluster(metadata_pb2.DescribeClusterRequest(), None)
        assert cluster.cluster_id == "cluster"
        target = controller.target
    for answer in (
        await rpc.CreateTopics(request, None),
        await rpc.DeleteTopics(metadata_pb2.DeleteTopicsRequest(), None),
        await rpc.IncrementalAlterConfigs(alteration, None),
        await rpc.DescribeCluster(metadata_pb2.DescribeClusterRequest(), None),
    ):
        assert answer.error_code == NotController.code
        assert f"no controller can be reached at {target}" in answer.error_message
    await link.close()


class Part:
    """A handler class whose methods fail as the test wishes."""

    def __init__(self, fail: Callable[[], None]) -> None:
        self._fail = fail

    async def Call(self, request: bytes, context: object) -> bytes:
        self._fail()
        return request


class Exited(Exception):
    pass


@asynccontextmanager
async def raw_service(part: Part, exits: list[str]) -> AsyncIterator[grpc.aio.Channel]:
    from dataclasses import replace
    from typing import NoReturn

    def leave(why: str) -> NoReturn:
        exits.append(why)
        raise Exited(why)

    runtime = replace(real_runtime("test"), exit=leave)
    service = Service(runtime, ServerMetrics(runtime.metrics, runtime.clock), part)
    server = runtime.network.server()
    call = service.Call  # type: ignore[attr-defined]
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(call)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(RAW_SERVICE, {"Call": handler}),)
    )
    guarded = partial(Service, runtime, service._metrics)
    add_standard_services(server, (BROKER_SERVICE,), lambda: True, guarded)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = runtime.network.channel(f"127.0.0.1:{port}")
    try:
        yield channel
    finally:
        await channel.close()
        await server.stop(None)


async def status(channel: grpc.aio.Channel) -> tuple[grpc.StatusCode, str]:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(
        f"/{RAW_SERVICE}/Call"
    )
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(b"x", timeout=WAIT_S)
    return caught.value.code(), caught.value.details() or ""


async def test_an_unforeseen_failure_tells_the_peer_no_more_than_its_kind() -> None:
    def fail() -> None:
        raise KeyError("a secret path")

    exits: list[str] = []
    async with raw_service(Part(fail), exits) as channel:
        code, details = await status(channel)
    assert code is grpc.StatusCode.INTERNAL
    assert "KeyError" in details
    assert "secret" not in details
    assert exits == []


async def test_a_broken_invariant_ends_the_process() -> None:
    def fail() -> None:
        raise ExceptionGroup("tasks", [AssertionError("offset 5 below 6")])

    exits: list[str] = []
    async with raw_service(Part(fail), exits) as channel:
        await status(channel)
    assert len(exits) == 1
    assert "a broken invariant in Call" in exits[0]


async def test_health_and_reflection_are_there_for_whoever_asks() -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]
    from grpc_reflection.v1alpha import (  # type: ignore[import-untyped]
        reflection_pb2,
        reflection_pb2_grpc,
    )

    async with raw_service(Part(lambda: None), []) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=WAIT_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await health.Check(health_pb2.HealthCheckRequest(service="no"), timeout=WAIT_S)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND
        call = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        listed = await call.read()
        await call.done_writing()
        names = [s.name for s in listed.list_services_response.service]
        assert BROKER_SERVICE in names
        call.cancel()


@pytest.mark.parametrize(
    ("service", "expected"),
    [("", "SERVING"), (BROKER_SERVICE, "SERVING"), ("no", "SERVICE_UNKNOWN")],
)
async def test_who_watches_a_service_that_is_not_here_hears_so(service: str, expected: str) -> None:
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    async with raw_service(Part(lambda: None), []) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        call = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=WAIT_S)
        first = await call.read()
        call.cancel()
    assert health_pb2.HealthCheckResponse.ServingStatus.Name(first.status) == expected


def test_no_call_is_served_by_two_parts() -> None:
    runtime = real_runtime("test")
    parts = Part(lambda: None), Part(lambda: None)
    with pytest.raises(TypeError, match="two parts serve Call"):
        Service(runtime, ServerMetrics(runtime.metrics, runtime.clock), *parts)
