"""Requests about groups that name too many elements: they have no effect, and say how many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from kio.static.primitive import i32

from strandline_broker.kafka.groups.bounds import IN_ONE_STEP_MAX, LISTED_MAX
from strandline_broker.kafka.groups.parts import group_parts
from strandline_broker.kafka.wire import MalformedRequest
from strandline_runtime.real import real_runtime
from support.group_broker import ORDERS, group_broker
from support.kafka_calls import KafkaCalls, kio_encoded, python_bytes

if TYPE_CHECKING:
    from pathlib import Path

    from support.group_broker import GroupBroker

STEP, LIST = IN_ONE_STEP_MAX, LISTED_MAX


def calls(broker: GroupBroker) -> KafkaCalls:
    services = SimpleNamespace(
        shards=broker.shards, metadata=broker.metadata, runtime=real_runtime("broker-1")
    )
    return KafkaCalls(*group_parts(cast("Any", services), "PLAINTEXT"))


def in_topics(count: int, partition: Any, field: str = "partitions") -> list[dict[str, Any]]:
    """So many partitions, in two topics."""
    half = count // 2
    return [
        {"name": ORDERS, field: [partition] * half},
        {"name": ORDERS, field: [partition] * (count - half)},
    ]


def commit(count: int) -> bytes:
    partition = {"partition_index": 0, "committed_offset": 7, "committed_metadata": ""}
    topics = in_topics(count, partition)
    return python_bytes("OffsetCommit", 8, group_id="g", topics=topics)


def fetch(count: int) -> bytes:
    topics = in_topics(count, 0, "partition_indexes")
    return python_bytes("OffsetFetch", 8, groups=[{"group_id": "g", "topics": topics}])


def fetch_of_groups(count: int) -> bytes:
    return python_bytes("OffsetFetch", 8, groups=[{"group_id": "g", "topics": []}] * count)


def delete_offsets(count: int) -> bytes:
    topics = in_topics(count, {"partition_index": 0})
    return python_bytes("OffsetDelete", 0, group_id="g", topics=topics)


def commit_of_topics(count: int) -> bytes:
    topics = [{"name": "t", "partitions": []}] * count
    return python_bytes("OffsetCommit", 8, group_id="g", topics=topics)


def find(count: int) -> bytes:
    return python_bytes("FindCoordinator", 4, coordinator_keys=["g"] * count)


def describe(count: int) -> bytes:
    return python_bytes("DescribeGroups", 5, groups=["g"] * count)


def delete(count: int) -> bytes:
    return python_bytes("DeleteGroups", 2, groups_names=["g"] * count)


def join(count: int) -> bytes:
    fields = {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}] * count,
    }
    return python_bytes("JoinGroup", 9, **fields)


def sync(count: int) -> bytes:
    assignments = [{"member_id": "m", "assignment": b""}] * count
    return python_bytes(
        "SyncGroup", 3, group_id="g", generation_id=1, member_id="m", assignments=assignments
    )


def leave(count: int) -> bytes:
    return python_bytes("LeaveGroup", 4, group_id="g", members=[{"member_id": "m"}] * count)


def heartbeat(**fields: Any) -> bytes:
    return kio_encoded(
        "ConsumerGroupHeartbeat",
        "Request",
        1,
        **{"group_id": "g", "member_id": "m", "member_epoch": i32(1), "topic_partitions": None}
        | fields,
    )


def subscribe(count: int) -> bytes:
    return heartbeat(subscribed_topic_names=("t",) * count)


def own(count: int) -> bytes:
    """A heartbeat whose member owns so many partitions: written by hand, kio is slow with them."""
    empty = heartbeat(topic_partitions=())
    assert empty.endswith(b"\x01\x00")
    topic = bytes(16) + _uvarint(count + 1) + bytes(4 * count) + b"\x00"
    return empty[:-2] + b"\x02" + topic + b"\x00"


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def describe_consumers(count: int) -> bytes:
    fields = {"group_ids": ("g",) * count, "include_authorized_operations": False}
    return kio_encoded("ConsumerGroupDescribe", "Request", 1, **fields)


CASES: list[tuple[str, int, Any, int, str]] = [
    ("OffsetCommit", 8, commit, STEP, "partitions"),
    ("OffsetCommit", 8, commit_of_topics, STEP, "topics"),
    ("OffsetFetch", 8, fetch, STEP, "partitions"),
    ("OffsetFetch", 8, fetch_of_groups, LIST, "groups"),
    ("OffsetDelete", 0, delete_offsets, STEP, "partitions"),
    ("FindCoordinator", 4, find, LIST, "keys"),
    ("DescribeGroups", 5, describe, LIST, "groups"),
    ("DeleteGroups", 2, delete, LIST, "groups"),
    ("JoinGroup", 9, join, STEP, "protocols"),
    ("SyncGroup", 3, sync, LIST, "assignments"),
    ("LeaveGroup", 4, leave, STEP, "members"),
    ("ConsumerGroupHeartbeat", 1, subscribe, STEP, "topics"),
    ("ConsumerGroupHeartbeat", 1, own, LIST, "partitions"),
    ("ConsumerGroupDescribe", 1, describe_consumers, LIST, "groups"),
]


@pytest.mark.parametrize(
    ("name", "version", "body", "most", "noun"), CASES, ids=[each[2].__name__ for each in CASES]
)
async def test_a_request_with_too_many_elements_is_refused_before_it_has_an_effect(
    tmp_path: Path, name: str, version: int, body: Any, most: int, noun: str
) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1, isr=(1,))
        why = f"names {most + 1} {noun}; at most {most} are allowed"
        with pytest.raises(MalformedRequest, match=why):
            await calls(broker).bytes_of(name, version, body(most + 1))
        assert broker.partition.log.log_end_offset == 0


async def test_the_largest_commit_is_carried_out(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1, isr=(1,))
        await calls(broker).bytes_of("OffsetCommit", 8, commit(STEP))
        assert await broker.fetch() == 7
