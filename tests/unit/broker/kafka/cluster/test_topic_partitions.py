"""DescribeTopicPartitions: pages, cursors, and the eligible leaders of each partition."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from strandline_broker.core.metadata_cache import MetadataCache
from strandline_broker.kafka.cluster.topic_partitions import TopicPartitionsCalls
from strandline_proto.ids import NO_LEADER, BrokerId
from support.envelopes import applied, envelope, live_broker, partition, topic, topic_id
from support.kafka_answers import ask, kind


def calls() -> TopicPartitionsCalls:
    cache = MetadataCache(cluster_id="cluster")
    lost = replace(
        partition(0, leader=NO_LEADER, leader_epoch=6),
        isr=(),
        elr=(BrokerId(1),),
        last_known_elr=(BrokerId(2),),
        offline_replicas=(BrokerId(1),),
    )
    topics = (
        topic("c", 3, lost),
        topic("a", 1, *(partition(index) for index in range(3))),
        topic("b", 2, *(partition(index, leader=2) for index in range(2))),
    )
    brokers = (live_broker(1), live_broker(2))
    applied(cache, envelope(5, full=True, live_brokers=brokers, topics=topics))
    return TopicPartitionsCalls(cache, "PLAINTEXT")


async def page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    start = None
    if cursor is not None:
        start = kind("DescribeTopicPartitions", "Cursor")(
            topic_name=cursor[0], partition_index=cursor[1]
        )
    return await ask(
        calls(),
        "DescribeTopicPartitions",
        0,
        topics=[kind("DescribeTopicPartitions", "TopicRequest")(name=name) for name in names],
        response_partition_limit=limit,
        cursor=start,
    )


def shown(answer: Any) -> tuple[list[tuple[str, list[int]]], tuple[str, int] | None]:
    following = answer.next_cursor
    return (
        [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics],
        None if following is None else (following.topic_name, following.partition_index),
    )


async def test_a_partition_is_described_with_its_eligible_leaders() -> None:
    [found] = (await page("c")).topics
    assert (found.error_code, found.topic_id.bytes, found.is_internal) == (0, topic_id(3), False)
    assert found.topic_authorized_operations == 3576
    [only] = found.partitions
    assert (only.error_code, only.leader_id, only.leader_epoch) == (5, -1, 6)
    assert (only.eligible_leader_replicas, only.last_known_elr) == ([1], [2])
    assert (only.replica_nodes, only.isr_nodes, only.offline_replicas) == ([1, 2], [], [1])


async def test_all_topics_are_described_by_name_if_none_is_named() -> None:
    assert shown(await page()) == ([("a", [0, 1, 2]), ("b", [0, 1]), ("c", [0])], None)


async def test_pages_follow_each_other_without_a_gap() -> None:
    assert shown(await page(limit=2)) == ([("a", [0, 1])], ("a", 2))
    assert shown(await page(limit=2, cursor=("a", 2))) == ([("a", [2]), ("b", [0])], ("b", 1))
    assert shown(await page(limit=2, cursor=("b", 1))) == ([("b", [1]), ("c", [0])], None)
    # A page that ends with a topic's last partition continues with the next topic.
    assert shown(await page(limit=3)) == ([("a", [0, 1, 2])], ("b", 0))
    assert shown(await page("c", "a", limit=3)) == ([("a", [0, 1, 2])], ("c", 0))
    assert shown(await page("c", "a", limit=3, cursor=("c", 0))) == ([("c", [0])], None)


async def test_a_page_has_at_least_one_partition() -> None:
    for limit in (0, -5):
        assert shown(await page("b", limit=limit)) == ([("b", [0])], ("b", 1))


async def test_a_cursor_of_a_deleted_topic_continues_behind_it() -> None:
    assert shown(await page(cursor=("aa", 1))) == ([("b", [0, 1]), ("c", [0])], None)
    assert shown(await page(cursor=("a", 7))) == ([("a", []), ("b", [0, 1]), ("c", [0])], None)


@pytest.mark.parametrize("cursor", [("a", 0), ("b", -1)])
async def test_a_cursor_outside_the_request_is_refused(cursor: tuple[str, int]) -> None:
    answer = await page("b", cursor=cursor)
    assert [(t.name, t.error_code) for t in answer.topics] == [("b", 42)]


async def test_unknown_topics_have_errors_of_their_own() -> None:
    answer = await page("nothing", "a b", "b", "b")
    assert [(t.name, t.error_code) for t in answer.topics] == [
        ("a b", 17),
        ("b", 0),
        ("nothing", 3),
    ]
