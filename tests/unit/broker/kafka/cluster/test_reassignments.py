"""Reassignments: targets and cancellations, the replication factor, and the list of moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline_broker.kafka.cluster.reassignments import ReassignmentsCalls
from strandline_proto.ids import BrokerId
from strandline_proto.v1 import reassignment_pb2
from support.envelopes import applied, envelope, partition, topic
from support.kafka_answers import ask, kind
from support.kafka_controller import WrittenController

MOVING = reassignment_pb2.ListPartitionReassignmentsResponse(
    topics=[
        reassignment_pb2.OngoingTopicReassignment(
            name="a",
            partitions=[
                reassignment_pb2.OngoingPartitionReassignment(
                    partition_index=1,
                    replicas=[3, 4, 1, 2],
                    adding_replicas=[3, 4],
                    removing_replicas=[1, 2],
                    original_replicas=[1, 2],
                )
            ],
        ),
        reassignment_pb2.OngoingTopicReassignment(
            name="b",
            partitions=[
                reassignment_pb2.OngoingPartitionReassignment(
                    partition_index=0, replicas=[3, 1], adding_replicas=[3], original_replicas=[1]
                )
            ],
        ),
    ]
)


def controller(*results: tuple[str, int, int]) -> WrittenController:
    response = reassignment_pb2.AlterPartitionReassignmentsResponse(metadata_offset=0)
    for name, index, code in results:
        if not response.topics or response.topics[-1].name != name:
            response.topics.add(name=name)
        response.topics[-1].partitions.add(
            partition_index=index, error_code=code, error_message="why" if code else ""
        )
    made = WrittenController(
        AlterPartitionReassignments=response, ListPartitionReassignments=MOVING
    )
    moving = replace(partition(1), replicas=tuple(BrokerId(b) for b in (3, 4, 1, 2)))
    topics = (topic("a", 1, partition(0), moving), topic("b", 2, partition(0)))
    applied(made.metadata, envelope(0, full=True, topics=topics))
    return made


def asked(topics: dict[str, dict[int, list[int] | None]]) -> list[Any]:
    made = kind("AlterPartitionReassignments", "ReassignableTopic")
    return [
        made(
            name=name,
            partitions=[
                made.ReassignablePartition(partition_index=index, replicas=target)
                for index, target in partitions.items()
            ],
        )
        for name, partitions in topics.items()
    ]


def shown(answer: Any) -> list[tuple[str, list[tuple[int, int]]]]:
    return [
        (each.name, [(p.partition_index, p.error_code) for p in each.partitions])
        for each in answer.responses
    ]


@pytest.mark.parametrize("version", [0, 1])
async def test_reassignments_begin_and_are_cancelled_in_each_version(version: int) -> None:
    made = controller(("a", 0, 0), ("a", 1, 85), ("b", 0, 39))
    answer = await ask(
        ReassignmentsCalls(made.forward, made.metadata),
        "AlterPartitionReassignments",
        version,
        topics=asked({"a": {0: [2, 3, 4], 1: None}, "b": {0: []}}),
        timeout_ms=3_000,
    )
    [request] = made.requests
    assert request.timeout_ms == 3_000
    first, second = request.topics
    assert (first.name, second.name) == ("a", "b")
    assert list(first.partitions[0].target.replicas) == [2, 3, 4]
    assert not first.partitions[1].HasField("target")
    assert second.partitions[0].HasField("target")
    assert (answer.error_code, answer.error_message) == (0, None)
    assert shown(answer) == [("a", [(0, 0), (1, 85)]), ("b", [(0, 39)])]
    if version == 1:
        assert answer.allow_replication_factor_change is True


async def test_a_changed_replication_factor_can_be_refused() -> None:
    """A partition that moves has its number of replicas from before the move."""
    made = controller(("a", 1, 0), ("c", 0, 3))
    answer = await ask(
        ReassignmentsCalls(made.forward, made.metadata),
        "AlterPartitionReassignments",
        1,
        allow_replication_factor_change=False,
        topics=asked({"a": {0: [1, 2, 3], 1: [5, 6]}, "b": {0: [1, 2]}, "c": {0: [1]}}),
    )
    assert answer.allow_replication_factor_change is False
    assert shown(answer) == [("a", [(0, 38), (1, 0)]), ("b", [(0, 38)]), ("c", [(0, 3)])]
    assert "3 replicas instead of 2" in answer.responses[0].partitions[0].error_message
    assert [t.name for t in made.requests[-1].topics] == ["a", "c"]


async def test_a_partition_that_is_named_twice_is_refused() -> None:
    made = controller(("b", 0, 0))
    answer = await ask(
        ReassignmentsCalls(made.forward, made.metadata),
        "AlterPartitionReassignments",
        1,
        topics=[*asked({"a": {0: [1]}}), *asked({"a": {0: [2]}, "b": {0: [1]}})],
    )
    assert shown(answer) == [("a", [(0, 42)]), ("b", [(0, 0)])]


async def test_moves_are_listed() -> None:
    made = controller()
    part = ReassignmentsCalls(made.forward, made.metadata)
    everything = await ask(part, "ListPartitionReassignments", 0, topics=None)
    assert [
        (t.name, [(p.partition_index, p.replicas, p.adding_replicas, p.removing_replicas)])
        for t in everything.topics
        for p in t.partitions
    ] == [
        ("a", [(1, [3, 4, 1, 2], [3, 4], [1, 2])]),
        ("b", [(0, [3, 1], [3], [])]),
    ]
    topics = kind("ListPartitionReassignments", "ListPartitionReassignmentsTopics")

    async def named(**wanted: list[int]) -> list[str]:
        answer = await ask(
            part,
            "ListPartitionReassignments",
            0,
            topics=[topics(name=n, partition_indexes=i) for n, i in wanted.items()],
        )
        assert answer.error_code == 0
        return [each.name for each in answer.topics]

    assert await named(a=[0, 1]) == ["a"]
    assert await named(a=[0], unknown=[0]) == []
    assert await named(a=[]) == []
    assert await named() == []


async def test_an_unreachable_controller_is_the_error_of_the_request() -> None:
    made = WrittenController()
    part = ReassignmentsCalls(made.forward, made.metadata)
    listed = await ask(part, "ListPartitionReassignments", 0, topics=None)
    assert (listed.error_code, listed.topics) == (41, [])
    altered = await ask(
        part, "AlterPartitionReassignments", 1, topics=asked({"a": {0: [1], 1: None}})
    )
    assert shown(altered) == [("a", [(0, 41), (1, 41)])]
    kept = {"allow_replication_factor_change": False}
    altered = await ask(
        part, "AlterPartitionReassignments", 1, topics=asked({"a": {0: [1]}}), **kept
    )
    assert altered.error_code == 41
