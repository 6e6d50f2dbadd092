"""ElectLeaders: the controller's part, and the results by topic."""

from __future__ import annotations

from typing import Any

import pytest

from strandline_broker.kafka.cluster.elections import ElectionsCalls
from strandline_proto.v1 import elections_pb2
from support.kafka_answers import ask, kind
from support.kafka_controller import WrittenController


def electing(*results: tuple[str, int, int]) -> WrittenController:
    return WrittenController(
        ElectLeaders=elections_pb2.ElectLeadersResponse(
            results=[
                elections_pb2.ElectLeadersResult(
                    topic=topic,
                    partition=index,
                    error_code=code,
                    error_message="why" if code else "",
                )
                for topic, index, code in results
            ],
            metadata_offset=-1,
        )
    )


def named(**topics: list[int]) -> list[Any]:
    made = kind("ElectLeaders", "TopicPartitions")
    return [made(topic=name, partitions=indices) for name, indices in topics.items()]


def shown(answer: Any) -> list[tuple[str, list[tuple[int, int, str | None]]]]:
    return [
        (
            each.topic,
            [(p.partition_id, p.error_code, p.error_message) for p in each.partition_result],
        )
        for each in answer.replica_election_results
    ]


@pytest.mark.parametrize("version", range(3))
async def test_named_partitions_are_elected_in_each_version(version: int) -> None:
    controller = electing(("a", 0, 0), ("a", 1, 84), ("b", 0, 80))
    fields = {"election_type": 1} if version >= 1 else {}
    answer = await ask(
        ElectionsCalls(controller.forward),
        "ElectLeaders",
        version,
        topic_partitions=named(a=[0, 1], b=[0], empty=[]),
        timeout_ms=4_000,
        **fields,
    )
    [request] = controller.requests
    assert (request.election_type, request.timeout_ms) == (1 if version >= 1 else 0, 4_000)
    assert [(t.name, [p.partition for p in t.partitions]) for t in request.topics] == [
        ("a", [0, 1]),
        ("b", [0]),
    ]
    assert shown(answer) == [("a", [(0, 0, None), (1, 84, "why")]), ("b", [(0, 80, "why")])]
    if version >= 1:
        assert answer.error_code == 0


@pytest.mark.parametrize("version", range(3))
async def test_null_means_every_partition_that_needs_it(version: int) -> None:
    controller = electing(("a", 0, 0), ("a", 1, 84), ("b", 0, 84))
    answer = await ask(
        ElectionsCalls(controller.forward), "ElectLeaders", version, topic_partitions=None
    )
    assert list(controller.requests[0].topics) == []
    assert shown(answer) == [("a", [(0, 0, None)])]


@pytest.mark.parametrize("topics", [[], {"a": []}])
async def test_no_partition_is_not_every_partition(topics: Any) -> None:
    controller = electing(("a", 0, 0))
    answer = await ask(
        ElectionsCalls(controller.forward),
        "ElectLeaders",
        2,
        topic_partitions=named(**topics) if topics else [],
    )
    assert (controller.requests, shown(answer), answer.error_code) == ([], [], 0)


@pytest.mark.parametrize("election_type", [2, 100, -1])
async def test_other_types_are_refused(election_type: int) -> None:
    """100 is our own type, which needs the leader that this request cannot name."""
    controller = electing()
    answer = await ask(
        ElectionsCalls(controller.forward),
        "ElectLeaders",
        2,
        election_type=election_type,
        topic_partitions=named(a=[0]),
    )
    assert (controller.requests, answer.error_code) == ([], 42)
    [(_, [(index, code, why)])] = shown(answer)
    assert (index, code) == (0, 42)
    assert why is not None
    assert str(election_type) in why


async def test_an_unreachable_controller_is_the_error_of_each_partition() -> None:
    part = ElectionsCalls(WrittenController().forward)
    for version in range(3):
        answer = await ask(part, "ElectLeaders", version, topic_partitions=named(a=[0, 1]))
        assert [[code for _, code, _ in each] for _, each in shown(answer)] == [[41, 41]]
        if version >= 1:
            assert answer.error_code == 41
