"""Requests above their bounds are not parsed, and the refusal names field, number and limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from google.protobuf.message_factory import GetMessageClass

from strandline_bench.large_requests import Repeated, repeated_fields, request
from strandline_broker.rpc import request_bounds
from strandline_broker.rpc.request_bounds import (
    BYTES_MAX,
    COUNTED_MAX,
    ELEMENTS_MAX,
    FIELDS_MAX,
    PUSHED_MAX,
    RequestTooLarge,
    bounded,
    refusal,
)
from strandline_proto.v1 import (
    controller_pb2,
    fetch_pb2,
    groups_pb2,
    metadata_pb2,
    reassignment_pb2,
    services_pb2,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from google.protobuf.descriptor import MethodDescriptor
    from google.protobuf.message import Message

FIELDS = {f"{field.method.name}.{field.name}": field for field in repeated_fields()}
LIMITS = {
    "Fetch.topics": 100_000,
    "Fetch.topics.partitions": 100_000,
    "Fetch.forgotten": 100_000,
    "Fetch.forgotten.partitions": 100_000,
    "Produce.topics": 5_000,
    "Produce.topics.partitions": 5_000,
    "DescribeConfigs.resources": 1_000,
    "ConsumerGroupHeartbeat.topic_partitions.topic_partitions.partitions": 100_000,
    "GroupSession.heartbeat.topic_partitions.topic_partitions.partitions": 100_000,
    "BrokerHeartbeat.offline_replicas": 100_000,
    "BrokerHeartbeat.losses": 100_000,
    "BrokerHeartbeat.refused_truncations": 100_000,
}
OPAQUE = (
    "LeaderAndIsr.leader_and_isr.partitions.",
    "LeaderAndIsr.update_metadata.topics.partitions.",
)


PUSHED_IN_FULL = (
    "LeaderAndIsr.leader_and_isr.partitions",
    "LeaderAndIsr.leader_and_isr.partitions.replicas",
    "LeaderAndIsr.stop_replica.partitions",
    "LeaderAndIsr.update_metadata.deleted_topic_ids",
)
"""Fields of a push with as many elements as it may have: one of each kind."""
PUSHED_HERE = 20_000
"""The limit of the 25 others, which are read by the same code."""


@pytest.fixture
def limit_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], int]]:
    """The limit of the field with this name."""

    def limit(name: str) -> int:
        if not name.startswith("LeaderAndIsr."):
            return LIMITS.get(name, ELEMENTS_MAX)
        if name in PUSHED_IN_FULL:
            return PUSHED_MAX
        monkeypatch.setattr(request_bounds, "PUSHED_MAX", PUSHED_HERE)
        request_bounds._fields_of.cache_clear()
        return PUSHED_HERE

    yield limit
    monkeypatch.undo()
    request_bounds._fields_of.cache_clear()


def read(field: Repeated, data: bytes) -> Message:
    parse = GetMessageClass(field.method.input_type).FromString
    message: Message = bounded(field.method, parse)(data)
    return message


def why_not(field: Repeated, data: bytes) -> str:
    with pytest.raises(RequestTooLarge) as caught:
        read(field, data)
    assert caught.value.method is field.method
    return str(caught.value)


def method_named(name: str) -> MethodDescriptor:
    services = services_pb2.DESCRIPTOR.services_by_name.values()
    return next(s.methods_by_name[name] for s in services if name in s.methods_by_name)


@pytest.mark.parametrize("name", FIELDS)
def test_each_repeated_field_has_a_limit_that_its_refusal_names(
    name: str, limit_of: Callable[[str], int]
) -> None:
    field, most = FIELDS[name], limit_of(name)
    at_limit = request(field, most)
    assert read(field, at_limit).SerializeToString() == at_limit
    assert why_not(field, request(field, most + 1)) == (
        f"{field.name} has {most + 1} elements, and at most {most} are possible in one request:"
        " send several"
    )


def test_elements_are_summed_over_all_that_hold_them() -> None:
    message = groups_pb2.ConsumerGroupHeartbeatRequest()
    for _ in range(3):
        message.topic_partitions.topic_partitions.add(partitions=range(40_000))
    field = FIELDS["ConsumerGroupHeartbeat.topic_partitions.topic_partitions.partitions"]
    assert "topic_partitions.topic_partitions.partitions has 120000 elements" in why_not(
        field, message.SerializeToString()
    )


def test_a_message_of_millions_is_not_walked_through_to_its_end() -> None:
    field = FIELDS["FindCoordinator.coordinator_keys"]
    assert f"has at least {ELEMENTS_MAX + 1 + COUNTED_MAX} elements" in why_not(
        field, b"\x12\x00" * 2_000_000
    )


@pytest.mark.parametrize("data", [b"\xf8\x07\x01", b"\x08\x01", b"\xfa\x07\x00", b"\xfd\x07abcd"])
def test_fields_that_are_not_known_or_come_again_count_too(data: bytes) -> None:
    field = FIELDS["FindCoordinator.coordinator_keys"]
    assert f"more than {FIELDS_MAX} fields" in why_not(field, data * (FIELDS_MAX + 1))
    read(field, data * 10_000)


LONG = b"\xff" * 9


@pytest.mark.parametrize(
    "data", [b"\xf8\x07" + LONG + b"\x01", b"\xfa\x07" + b"\x80" * 4 + b"\x00"]
)
def test_a_long_number_counts_as_several_fields(data: bytes) -> None:
    field = FIELDS["FindCoordinator.coordinator_keys"]
    assert f"more than {FIELDS_MAX} fields" in why_not(field, data * (FIELDS_MAX // 2 + 1))
    read(field, data * 10_000)


def test_a_group_hides_nothing() -> None:
    field = FIELDS["FindCoordinator.coordinator_keys"]
    assert "a group among its fields" in why_not(field, b"\x1b\x1c" + b"\x12\x00" * 20_000)


def test_bytes_that_are_no_message_are_left_to_protobuf() -> None:
    field = FIELDS["FindCoordinator.coordinator_keys"]
    with pytest.raises(Exception, match="parsing"):
        read(field, b"\x12\x00" * 5_001 + b"\x12\xff")
    with pytest.raises(Exception, match="parsing"):
        read(field, b"\x12\x00" * 5_001 + b"\xff" * 12)


@pytest.mark.parametrize("name", ["FindCoordinator", "Fetch", "BrokerRegistration"])
def test_a_request_of_too_many_bytes_is_not_looked_into(name: str) -> None:
    with pytest.raises(RequestTooLarge, match=r": send several") as caught:
        bounded(method_named(name), bytes)(bytes(BYTES_MAX + 1))
    assert str(caught.value) == (
        f"it has {BYTES_MAX + 1} bytes, and at most {BYTES_MAX} are possible: send several"
    )


def test_records_and_pushes_may_be_as_large_as_the_transport_lets_them_be() -> None:
    for name in ("Produce", "LeaderAndIsr"):
        data = b"\xfa\x07" + b"\x80\x80\x80\x10" + bytes(32 << 20)  # one field of 32 MiB
        assert bounded(method_named(name), len)(data) == len(data)


def test_an_answer_that_can_hold_the_error_is_the_refusal() -> None:
    for name, kind in (
        ("CreateTopics", metadata_pb2.CreateTopicsResponse),
        ("ConsumerGroupHeartbeat", groups_pb2.ConsumerGroupHeartbeatResponse),
        ("AlterPartition", controller_pb2.AlterPartitionResponse),
        (
            "AlterPartitionReassignments",
            reassignment_pb2.AlterPartitionReassignmentsResponse,
        ),
    ):
        refused = RequestTooLarge(method_named(name), "too many")
        assert refusal(refused) == kind(error_code=42, error_message="too many")
    for name in ("FindCoordinator", "ListOffsets", "Metadata", "FetchRange", "BrokerHeartbeat"):
        assert refusal(RequestTooLarge(method_named(name), "too many")) is None


def test_a_large_request_below_the_limits_is_what_protobuf_reads() -> None:
    message = fetch_pb2.FetchRequest(correlation_id=7, cluster_id="c" * 20_000)
    for topic in range(100):
        added = message.topics.add(topic_id=topic.to_bytes(16, "big"))
        for partition in range(100):
            added.partitions.add(partition=partition, fetch_offset=-1)
    assert read(FIELDS["Fetch.topics"], message.SerializeToString()) == message
