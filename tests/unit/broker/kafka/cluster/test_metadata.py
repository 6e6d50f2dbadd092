"""Metadata: each version's meaning, and the topics, leaders and brokers of one listener."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.hosts.serving import applied_views
from strandline_broker.hosts.serving.applied_views import AppliedViews
from strandline_broker.hosts.serving.auto_creation import UNDER_WAY_MAX
from strandline_broker.kafka import codec
from strandline_broker.kafka.cluster import metadata as metadata_module
from strandline_broker.kafka.cluster.metadata import CREATED_MAX, MetadataCalls
from strandline_broker.kafka.request import CloseConnection
from strandline_broker.kafka.wire import MalformedRequest
from strandline_proto.errors import InvalidReplicationFactor, PolicyViolation
from strandline_proto.ids import NO_LEADER, BrokerId
from support.creating_controller import CreatingController
from support.envelopes import applied, envelope, live_broker, partition, topic, topic_id
from support.kafka_answers import answer_bytes, ask, kind, raw_request, request_of
from support.loop_turns import with_turns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from strandline_broker.core.push_envelope import LiveBroker
    from strandline_broker.hosts.serving.auto_creation import AutoCreation

ALL = range(14)
ORDERS, OFFSETS = 1, 2
ON_TOPIC, ON_CLUSTER, NOT_ASKED = 3576, 8096, -(2**31)


def cache_of(brokers: Iterable[LiveBroker], *topics: Any) -> MetadataCache:
    cache = MetadataCache(cluster_id="cluster")
    applied(cache, envelope(5, full=True, live_brokers=tuple(brokers), topics=topics))
    return cache


def usual() -> MetadataCache:
    return cache_of(
        [replace(live_broker(1), rack="r1"), live_broker(2), live_broker(3, fenced=True)],
        topic("orders", ORDERS, partition(0, leader_epoch=4), partition(1, leader=2)),
        topic("__consumer_offsets", OFFSETS, partition(0)),
    )


def calls(
    cache: MetadataCache, *, listener: str = "PLAINTEXT", creation: AutoCreation | None = None
) -> MetadataCalls:
    return MetadataCalls(cache, AppliedViews(cache), creation, me=BrokerId(2), listener=listener)


def bits(part: Any) -> int:
    """The authorized operations, which kafka-python holds as a set."""
    operations = part.authorized_operations
    return sum(1 << each for each in operations) if operations is not None else NOT_ASKED


def named(*names: str) -> list[Any]:
    return [kind("Metadata", "MetadataRequestTopic")(name=name) for name in names]


def with_id(number: int, name: str | None = None) -> Any:
    fields = {"topic_id": topic_id(number).hex(), "name": name}
    return kind("Metadata", "MetadataRequestTopic")(**fields)


@pytest.mark.parametrize("version", ALL)
async def test_a_topic_is_described_in_each_version(version: int) -> None:
    answer = await ask(calls(usual()), "Metadata", version, topics=named("orders"))
    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [
        (1, "client.example", 9001),
        (2, "client.example", 9002),
    ]
    [found] = answer.topics
    assert (found.error_code, found.name) == (0, "orders")
    first, second = found.partitions
    assert (first.partition_index, first.leader_id, second.leader_id) == (0, 1, 2)
    assert (first.replica_nodes, first.isr_nodes, first.error_code) == ([1, 2], [1, 2], 0)
    if version >= 1:
        assert (answer.controller_id, found.is_internal) == (2, False)
        assert [b.rack for b in answer.brokers] == ["r1", None]
    if version >= 2:
        assert answer.cluster_id == "cluster"
    if version >= 5:
        assert first.offline_replicas == []
    if version >= 7:
        assert (first.leader_epoch, second.leader_epoch) == (4, 0)
    if version >= 8:
        assert bits(found) == NOT_ASKED
    if 8 <= version <= 10:
        assert bits(answer) == NOT_ASKED
    if version >= 10:
        assert found.topic_id.bytes == topic_id(ORDERS)
    if version >= 13:
        assert answer.error_code == 0


@pytest.mark.parametrize("version", ALL)
async def test_all_topics_are_asked_for_by_an_empty_array_or_by_null(version: int) -> None:
    part = calls(usual())
    everything = await ask(part, "Metadata", version, topics=[] if version == 0 else None)
    assert [each.name for each in everything.topics] == ["__consumer_offsets", "orders"]
    if version >= 1:
        assert [each.is_internal for each in everything.topics] == [True, False]
        nothing = await ask(part, "Metadata", version, topics=[])
        assert nothing.topics == []


async def test_null_in_version_0_is_malformed() -> None:
    with pytest.raises(MalformedRequest, match="topics is null"):
        await answer_bytes(calls(usual()), raw_request("Metadata", 0, b"\xff" * 4))


@pytest.mark.parametrize("version", ALL)
async def test_an_unknown_name_is_told_from_one_that_no_topic_can_have(version: int) -> None:
    asked = named("nothing", "a b", "", "..", "__consumer_offsets", "__transaction_state")
    answer = await ask(calls(usual()), "Metadata", version, topics=asked)
    codes = [each.error_code for each in answer.topics]
    assert codes == [3, 17, 17, 17, 0, 3]
    assert [each.name for each in answer.topics] == [each.name for each in asked]
    if version >= 1:
        assert answer.topics[5].is_internal


async def test_a_name_that_is_repeated_is_answered_once() -> None:
    answer = await ask(calls(usual()), "Metadata", 9, topics=named("orders", "x", "orders", "x"))
    assert [each.name for each in answer.topics] == ["orders", "x"]


@pytest.mark.parametrize("version", [12, 13])
async def test_topics_are_found_by_their_ids(version: int) -> None:
    asked = [with_id(ORDERS), with_id(77), with_id(OFFSETS, "ignored")]
    answer = await ask(calls(usual()), "Metadata", version, topics=asked)
    assert [(t.error_code, t.name) for t in answer.topics] == [
        (0, "orders"),
        (100, None),
        (0, "__consumer_offsets"),
    ]
    assert answer.topics[1].topic_id.bytes == topic_id(77)


@pytest.mark.parametrize("version", [10, 11, 12, 13])
async def test_a_topic_without_a_name_and_an_id_too_early_are_refused(version: int) -> None:
    nameless = kind("Metadata", "MetadataRequestTopic")(name=None)
    for wrong in [nameless] if version >= 12 else [nameless, with_id(ORDERS, "orders")]:
        answer = await ask(calls(usual()), "Metadata", version, topics=[wrong, *named("orders")])
        assert [each.error_code for each in answer.topics] == [42, 42]
        if version == 13:
            assert answer.error_code == 42


@pytest.mark.parametrize("version", range(8, 14))
async def test_authorized_operations_are_all_that_apply_if_asked_for(version: int) -> None:
    answer = await ask(
        calls(usual()),
        "Metadata",
        version,
        topics=[*named("orders", "unknown"), *([with_id(77)] if version >= 12 else [])],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=version <= 10,
    )
    operations = [bits(each) for each in answer.topics]
    assert operations[:2] == [ON_TOPIC, ON_TOPIC]
    assert operations[2:] == ([NOT_ASKED] if version >= 12 else [])
    if version <= 10:
        assert bits(answer) == ON_CLUSTER


@pytest.mark.parametrize("version", ALL)
async def test_a_partition_without_a_leader_says_so(version: int) -> None:
    lost = replace(partition(0, leader=NO_LEADER), offline_replicas=(BrokerId(1),))
    cache = cache_of([live_broker(1), live_broker(2)], topic("orders", ORDERS, lost))
    [found] = (await ask(calls(cache), "Metadata", version, topics=named("orders"))).topics
    [only] = found.partitions
    assert (found.error_code, only.error_code, only.leader_id) == (0, 5, -1)
    if version >= 5:
        assert only.offline_replicas == [1]


@pytest.mark.parametrize("version", ALL)
async def test_a_leader_without_the_listener_is_not_named(version: int) -> None:
    only_internal = replace(live_broker(1), endpoints=live_broker(1).endpoints[1:])
    cache = cache_of([only_internal, live_broker(2)], topic("orders", ORDERS, partition(0)))
    answer = await ask(calls(cache), "Metadata", version, topics=named("orders"))
    assert [b.node_id for b in answer.brokers] == [2]
    [only] = answer.topics[0].partitions
    assert (only.leader_id, only.error_code) == (-1, 72 if version >= 6 else 5)
    if version >= 5:
        assert (only.replica_nodes, only.offline_replicas) == ([1, 2], [1])


async def test_version_0_names_live_replicas_alone() -> None:
    cache = cache_of(
        [live_broker(1), live_broker(2, fenced=True)], topic("orders", ORDERS, partition(0))
    )
    answers = [
        (await ask(calls(cache), "Metadata", version, topics=named("orders"))).topics[0]
        for version in (0, 1)
    ]
    [first], [second] = (each.partitions for each in answers)
    assert (first.error_code, first.replica_nodes, first.isr_nodes) == (9, [1], [1])
    assert (second.error_code, second.replica_nodes, second.isr_nodes) == (0, [1, 2], [1, 2])


async def test_the_controller_is_a_broker_that_clients_reach() -> None:
    async def controller(*brokers: LiveBroker) -> int:
        answer = await ask(calls(cache_of(brokers)), "Metadata", 1, topics=[])
        return int(answer.controller_id)

    assert await controller(live_broker(1), live_broker(2)) == 2
    assert await controller(live_broker(1), live_broker(2, fenced=True)) == 1
    assert await controller(live_broker(2, fenced=True)) == -1


async def test_the_brokers_are_those_of_the_listener() -> None:
    part = calls(usual(), listener="INTERNAL")
    answer = await ask(part, "Metadata", 12, topics=[])
    assert [(b.host, b.port) for b in answer.brokers] == [("127.0.0.1", 9101), ("127.0.0.1", 9102)]


async def test_an_answer_follows_the_view() -> None:
    cache = usual()
    part = calls(cache)

    async def leaders(version: int = 9) -> list[tuple[str, list[int]]]:
        answer = await ask(part, "Metadata", version, topics=None)
        return [(t.name, [p.leader_id for p in t.partitions]) for t in answer.topics]

    before = [("__consumer_offsets", [1]), ("orders", [1, 2])]
    assert await leaders() == await leaders(7) == before
    moved = topic("orders", ORDERS, partition(0, leader=2, leader_epoch=5))
    applied(cache, envelope(6, topics=(moved,)))
    assert await leaders() == await leaders(7) == [("__consumer_offsets", [1]), ("orders", [2, 2])]
    applied(cache, envelope(7, deleted_topic_ids=(topic_id(ORDERS),)))
    assert await leaders() == [("__consumer_offsets", [1])]
    applied(cache, envelope(8, live_brokers=(live_broker(1, fenced=True),)))
    assert await leaders() == [("__consumer_offsets", [-1])]
    assert len((await ask(part, "Metadata", 9, topics=[])).brokers) == 1


async def test_encoded_topics_are_kept_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = usual()
    part = calls(cache)
    await ask(part, "Metadata", 9, topics=None)
    first = part._encoded._kept
    await ask(part, "Metadata", 9, topics=None)
    assert len(first) == 2
    monkeypatch.setattr(metadata_module, "KEPT_BYTES_MAX", 200)
    for version in ALL:
        await ask(part, "Metadata", version, topics=[] if version == 0 else None)
        assert sum(len(made[1]) for made in part._encoded._kept.values()) == part._encoded._bytes
        assert part._encoded._bytes <= 200


async def test_versions_that_differ_do_not_share_bytes() -> None:
    """A topic that was encoded for one version is not sent in another."""
    only_internal = replace(live_broker(1), endpoints=live_broker(1).endpoints[1:])
    cache = cache_of([only_internal, live_broker(2)], topic("orders", ORDERS, partition(0)))
    part = calls(cache)
    for version in [*ALL, *reversed(ALL)]:
        fresh = await answer_bytes(
            calls(cache), request_of("Metadata", version, topics=named("orders"))
        )
        kept = await answer_bytes(part, request_of("Metadata", version, topics=named("orders")))
        assert kept == fresh


@pytest.mark.parametrize("version", [11, 12, 13])
async def test_the_null_array_of_librdkafka_is_read(version: int) -> None:
    """librdkafka 2.16 leaves four bytes where a compact null array has one."""
    body = b"\x00" * 4 + b"\x01\x00\x00"
    answered = await answer_bytes(calls(usual()), raw_request("Metadata", version, body))
    asked = request_of("Metadata", version, topics=None, allow_auto_topic_creation=True)
    assert answered == await answer_bytes(calls(usual()), asked)
    for wrong in (b"\x00" * 5 + b"\x01\x00\x00", b"\x00\x00\x01\x00\x01\x00\x00"):
        with pytest.raises(MalformedRequest):
            await answer_bytes(calls(usual()), raw_request("Metadata", version, wrong))


@pytest.mark.parametrize("version", ALL)
async def test_a_request_that_does_not_end_with_its_last_field_is_malformed(version: int) -> None:
    body = bytes(request_of("Metadata", version, topics=named("orders")).body)
    part = calls(usual())
    for wrong in [body + b"\x00", *(body[:end] for end in range(len(body)))]:
        with pytest.raises(MalformedRequest):
            await answer_bytes(part, raw_request("Metadata", version, wrong))


async def test_a_broker_that_knows_nothing_yet_sends_the_client_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(applied_views, "FIRST_S", 0.0)
    part = calls(MetadataCache(cluster_id="cluster"))
    for version in range(13):
        with pytest.raises(CloseConnection, match="not heard from the controller"):
            await ask(part, "Metadata", version, topics=[])
    answer = await ask(part, "Metadata", 13, topics=None)
    assert (answer.error_code, answer.brokers, answer.topics) == (129, [], [])
    assert (answer.cluster_id, answer.controller_id) == (None, -1)


async def test_a_request_waits_for_the_first_view() -> None:
    cache = MetadataCache(cluster_id="cluster")
    views = AppliedViews(cache)
    part = MetadataCalls(cache, views, None, me=BrokerId(2), listener="PLAINTEXT")
    asking = asyncio.create_task(ask(part, "Metadata", 9, topics=[]))
    await asyncio.sleep(0)
    applied(cache, envelope(5, full=True, live_brokers=(live_broker(2),)))
    views.published()
    assert [each.node_id for each in (await asking).brokers] == [2]


@pytest.fixture
async def creating() -> CreatingController:
    made = CreatingController()
    made.publish("orders")
    return made


def creates(controller: CreatingController) -> MetadataCalls:
    return calls(controller.metadata, creation=controller.creation)


@pytest.mark.parametrize("version", ALL)
async def test_a_request_that_allows_it_creates_topics(
    creating: CreatingController, version: int
) -> None:
    asked = named("orders", "new", "a b", "__transaction_state", "new")
    answer = await ask(creates(creating), "Metadata", version, topics=asked)
    assert [(t.name, t.error_code, len(t.partitions)) for t in answer.topics] == [
        ("orders", 0, 1),
        ("new", 0, 1),
        ("a b", 17, 0),
        ("__transaction_state", 3, 0),
    ]
    assert [[wish.name for wish in wishes] for wishes in creating.asked] == [["new"]]


@pytest.mark.parametrize("version", range(4, 14))
async def test_a_request_may_create_no_topics(creating: CreatingController, version: int) -> None:
    fields = {"topics": named("new"), "allow_auto_topic_creation": False}
    answer = await ask(creates(creating), "Metadata", version, **fields)
    assert [(t.name, t.error_code) for t in answer.topics] == [("new", 3)]
    assert creating.asked == []


async def test_a_topic_that_is_named_by_its_id_is_not_created(
    creating: CreatingController,
) -> None:
    answer = await ask(creates(creating), "Metadata", 12, topics=[with_id(77)])
    assert [each.error_code for each in answer.topics] == [100]
    assert creating.asked == []


async def test_a_topic_that_was_not_created_has_the_reason(creating: CreatingController) -> None:
    creating.refusals = {"new": PolicyViolation("no"), "few": InvalidReplicationFactor("few")}
    answer = await ask(creates(creating), "Metadata", 12, topics=named("new", "few"))
    assert [(t.error_code, t.partitions) for t in answer.topics] == [(44, []), (5, [])]


async def test_topics_that_are_gone_are_not_kept() -> None:
    cache = usual()
    part = calls(cache)
    await ask(part, "Metadata", 9, topics=None)
    applied(cache, envelope(6, deleted_topic_ids=(topic_id(ORDERS),)))
    await ask(part, "Metadata", 9, topics=None)
    assert {key[0] for key in part._encoded._kept} == {topic_id(OFFSETS)}


async def test_other_tasks_have_turns_while_many_names_are_looked_up(
    creating: CreatingController,
) -> None:
    asked = named(*(f"t{number}" for number in range(20_000)), *(["orders"] * 20_000))
    request = request_of("Metadata", 9, topics=asked)
    answer, turns = await with_turns(answer_bytes(creates(creating), request))
    assert turns >= 100
    assert len(creating.asked[0]) == UNDER_WAY_MAX
    codes = [
        t.error_code for t in codec.load()["MetadataResponse"].decode(answer, version=9).topics
    ]
    assert (codes.count(0), codes.count(5), codes.count(3)) == (
        UNDER_WAY_MAX + 1,
        CREATED_MAX - UNDER_WAY_MAX,
        20_000 - CREATED_MAX,
    )
