"""CreateTopics, DeleteTopics, CreatePartitions: the controller's part and the client's answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from strandline_broker.config.loading import load_broker_config
from strandline_broker.hosts.serving.configs import ConfigsService
from strandline_broker.kafka.cluster.topics import TopicsCalls
from strandline_proto.v1 import common_pb2, metadata_pb2, partitions_pb2
from support.envelopes import applied, envelope
from support.kafka_answers import ask, kind
from support.kafka_controller import WrittenController

CONFIG = load_broker_config(
    None,
    {
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": "/nowhere",
        "controller.quorum.bootstrap.servers": "127.0.0.1:1",
    },
    {},
)
ID = bytes(range(16))


def calls(controller: WrittenController) -> TopicsCalls:
    return TopicsCalls(controller.forward, ConfigsService(CONFIG, controller.metadata))


def creating(*results: dict[str, Any], offset: int = 0, **whole: Any) -> WrittenController:
    controller = WrittenController(
        CreateTopics=metadata_pb2.CreateTopicsResponse(
            topics=[metadata_pb2.TopicResult(**result) for result in results],
            metadata_offset=offset,
            **whole,
        )
    )
    applied(controller.metadata, envelope(0, full=True))
    return controller


def new_topic(name: str = "orders", **fields: Any) -> Any:
    defaults = {"num_partitions": 3, "replication_factor": 2, "assignments": [], "configs": []}
    return kind("CreateTopics", "CreatableTopic")(name=name, **(defaults | fields))


def config(name: str, value: str | None) -> Any:
    return kind("CreateTopics", "CreatableTopic", "CreatableTopicConfig")(name=name, value=value)


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_created_in_each_version(version: int) -> None:
    controller = creating(
        {"name": "orders", "topic_id": ID, "partitions": 3, "replication_factor": 2}
    )
    answer = await ask(
        calls(controller),
        "CreateTopics",
        version,
        topics=[new_topic(configs=[config("retention.ms", "1000")])],
        timeout_ms=7_000,
        validate_only=False,
    )
    assert controller.requests == [
        metadata_pb2.CreateTopicsRequest(
            topics=[
                metadata_pb2.NewTopic(
                    name="orders",
                    partitions=3,
                    replication_factor=2,
                    configs=[common_pb2.ConfigEntry(name="retention.ms", value="1000")],
                )
            ],
            timeout_ms=7_000,
        )
    ]
    assert controller.limits_s == [7.0]
    [made] = answer.topics
    assert (made.name, made.error_code, made.error_message) == ("orders", 0, None)
    if version >= 5:
        assert (made.num_partitions, made.replication_factor) == (3, 2)
        configs = {each.name: (each.value, each.config_source) for each in made.configs}
        assert configs["retention.ms"] == ("1000", 1)
        assert configs["cleanup.policy"] == ("delete", 5)
    if version >= 7:
        assert made.topic_id.bytes == ID


@pytest.mark.parametrize("version", range(2, 8))
async def test_a_topic_is_checked_without_being_created(version: int) -> None:
    controller = creating({"name": "orders", "partitions": 1, "replication_factor": 3})
    assignment = kind("CreateTopics", "CreatableTopic", "CreatableReplicaAssignment")
    answer = await ask(
        calls(controller),
        "CreateTopics",
        version,
        topics=[
            new_topic(
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    assignment(partition_index=0, broker_ids=[3, 1]),
                    assignment(partition_index=1, broker_ids=[1, 2]),
                ],
            )
        ],
        validate_only=True,
    )
    [request] = controller.requests
    assert request.validate_only
    assert [(a.partition, list(a.broker_ids)) for a in request.topics[0].assignments] == [
        (0, [3, 1]),
        (1, [1, 2]),
    ]
    assert (request.topics[0].partitions, request.topics[0].replication_factor) == (-1, -1)
    assert answer.topics[0].error_code == 0
    if version >= 7:
        assert answer.topics[0].topic_id is None or answer.topics[0].topic_id.bytes == bytes(16)


async def test_each_topic_has_its_own_error() -> None:
    controller = creating(
        {"name": "taken", "error_code": 36, "error_message": "topic taken exists"},
        {"name": "fine", "topic_id": ID, "partitions": 1, "replication_factor": 3},
    )
    answer = await ask(
        calls(controller),
        "CreateTopics",
        7,
        topics=[
            new_topic("twice"),
            new_topic("taken"),
            new_topic("null", configs=[config("retention.ms", None)]),
            new_topic("twice"),
            new_topic("fine"),
        ],
    )
    assert [topic.name for topic in controller.requests[0].topics] == ["taken", "fine"]
    assert [(each.name, each.error_code) for each in answer.topics] == [
        ("twice", 42),
        ("taken", 36),
        ("null", 40),
        ("fine", 0),
    ]
    assert answer.topics[1].error_message == "topic taken exists"
    assert "twice" in answer.topics[0].error_message
    assert "retention.ms" in answer.topics[2].error_message


async def test_a_request_that_reaches_no_controller_is_refused_for_each_topic() -> None:
    controller = WrittenController()
    answer = await ask(
        calls(controller), "CreateTopics", 7, topics=[new_topic("a"), new_topic("b")]
    )
    assert [each.error_code for each in answer.topics] == [41, 41]
    whole = creating(error_code=89, error_message="too many requests wait")
    answer = await ask(calls(whole), "CreateTopics", 7, topics=[new_topic("a")])
    assert (answer.topics[0].error_code, answer.topics[0].error_message) == (
        89,
        "too many requests wait",
    )


async def test_the_answer_leaves_when_this_broker_has_applied_the_topic() -> None:
    controller = creating({"name": "orders", "topic_id": ID}, offset=4)
    asking = asyncio.create_task(
        ask(calls(controller), "CreateTopics", 7, topics=[new_topic()], timeout_ms=60_000)
    )
    for offset in (3, 4):
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asking.done()
        applied(controller.metadata, envelope(offset, full=True))
        controller.views.published()
    assert (await asking).topics[0].error_code == 0


async def test_a_durable_decision_is_no_failure_if_this_broker_is_late() -> None:
    controller = creating({"name": "orders", "topic_id": ID}, offset=4)
    answer = await ask(calls(controller), "CreateTopics", 7, topics=[new_topic()], timeout_ms=100)
    assert answer.topics[0].error_code == 0


def deleting(*results: dict[str, Any]) -> WrittenController:
    return WrittenController(
        DeleteTopics=metadata_pb2.DeleteTopicsResponse(
            topics=[metadata_pb2.TopicResult(**result) for result in results], metadata_offset=-1
        )
    )


@pytest.mark.parametrize("version", range(1, 7))
async def test_topics_are_deleted_by_name_in_each_version(version: int) -> None:
    controller = deleting(
        {"name": "orders", "topic_id": ID},
        {"name": "nothing", "error_code": 3, "error_message": "no topic is called 'nothing'"},
    )
    names = ["twice", "orders", "nothing", "twice"]
    state = kind("DeleteTopics", "DeleteTopicState")
    asked: dict[str, Any] = (
        {"topics": [state(name=name) for name in names]} if version >= 6 else {"topic_names": names}
    )
    answer = await ask(calls(controller), "DeleteTopics", version, timeout_ms=500, **asked)
    assert [(t.name, t.topic_id) for t in controller.requests[0].topics] == [
        ("orders", b""),
        ("nothing", b""),
    ]
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("twice", 42),
        ("orders", 0),
        ("nothing", 3),
    ]
    if version >= 5:
        messages = [each.error_message for each in answer.responses]
        assert messages[1:] == [None, "no topic is called 'nothing'"]
    if version >= 6:
        assert answer.responses[1].topic_id.bytes == ID


async def test_topics_are_deleted_by_id() -> None:
    controller = deleting({"name": "orders", "topic_id": ID}, {"error_code": 100})
    state = kind("DeleteTopics", "DeleteTopicState")
    unknown = bytes(15) + b"\x07"
    asked = [
        state(name=None, topic_id=ID.hex()),
        state(name=None, topic_id=unknown.hex()),
        state(name="both", topic_id=unknown.hex()),
        state(name=None),
    ]
    answer = await ask(calls(controller), "DeleteTopics", 6, topics=asked, timeout_ms=500)
    assert [(t.name, t.topic_id) for t in controller.requests[0].topics] == [
        ("", ID),
        ("", unknown),
    ]
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("orders", 0),
        (None, 100),
        ("both", 42),
        (None, 42),
    ]
    assert answer.responses[1].topic_id.bytes == unknown


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_in_each_version(version: int) -> None:
    controller = WrittenController(
        CreatePartitions=partitions_pb2.CreatePartitionsResponse(
            results=[
                partitions_pb2.CreatePartitionsResult(name="orders", partitions_before=3),
                partitions_pb2.CreatePartitionsResult(
                    name="small", error_code=37, error_message="it has 4 partitions"
                ),
            ],
            metadata_offset=-1,
        )
    )
    topic = kind("CreatePartitions", "CreatePartitionsTopic")
    assignment = kind("CreatePartitions", "CreatePartitionsTopic", "CreatePartitionsAssignment")
    answer = await ask(
        calls(controller),
        "CreatePartitions",
        version,
        topics=[
            topic(name="orders", count=5, assignments=[assignment(broker_ids=[2, 3])] * 2),
            topic(name="small", count=4, assignments=None),
            topic(name="twice", count=4, assignments=None),
            topic(name="twice", count=5, assignments=None),
        ],
        timeout_ms=9_000,
        validate_only=version % 2 == 0,
    )
    [request] = controller.requests
    assert request.validate_only == (version % 2 == 0)
    assert [(t.name, t.count) for t in request.topics] == [("orders", 5), ("small", 4)]
    assert [list(a.broker_ids) for a in request.topics[0].assignments] == [[2, 3], [2, 3]]
    assert [(r.name, r.error_code, r.error_message) for r in answer.results[:2]] == [
        ("orders", 0, None),
        ("small", 37, "it has 4 partitions"),
    ]
    assert answer.results[2].error_code == 42
    assert len(answer.results) == 3
