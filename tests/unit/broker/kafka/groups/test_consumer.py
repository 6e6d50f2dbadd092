"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over Kafka's protocol, in each version."""

from __future__ import annotations

import importlib
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from kio.static.primitive import i32, i32Timedelta

from strandline_broker.hosts.serving.groups import GroupsService
from strandline_broker.kafka.groups.consumer import ConsumerGroupCalls
from strandline_broker.kafka.wire import MalformedRequest
from strandline_proto.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    InvalidRequest,
    NotCoordinator,
    UnknownMemberId,
)
from strandline_runtime.real import real_runtime
from support.group_broker import ORDERS, ORDERS_ID, answered, group_broker
from support.group_members import Member, served
from support.kafka_calls import KafkaCalls, request_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from support.group_broker import GroupBroker

VERSIONS = [0, 1]
HEARTBEAT = "ConsumerGroupHeartbeat"
DESCRIBE = "ConsumerGroupDescribe"
ALL_PARTITIONS: dict[bytes, tuple[int, ...]] = {ORDERS_ID: (0, 1, 2, 3)}
UNCHANGED = i32Timedelta.parse(timedelta(milliseconds=-1))
A_MINUTE = i32Timedelta.parse(timedelta(minutes=1))


@asynccontextmanager
async def leading(path: Path) -> AsyncIterator[tuple[GroupBroker, KafkaCalls]]:
    """A coordinator that is alone in the ISR, and the calls on it."""
    async with group_broker(path) as broker:
        await broker.lead(1, isr=(1,))
        yield broker, calls(broker)


def calls(broker: GroupBroker) -> KafkaCalls:
    groups = GroupsService(broker.shards)
    return KafkaCalls(ConsumerGroupCalls(groups, broker.metadata, real_runtime("broker-1")))


def heartbeat(version: int, epoch: int, member_id: str = "m", **given: Any) -> dict[str, Any]:
    """The fields of a heartbeat. One that joins has all of them."""
    joins = epoch == 0
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": i32(epoch),
        "rebalance_timeout": A_MINUTE if joins else UNCHANGED,
        "subscribed_topic_names": (ORDERS,) if joins else None,
        "topic_partitions": () if joins else None,
    }
    return fields | given


def describe(*group_ids: str, operations: bool = False) -> dict[str, Any]:
    return {"group_ids": group_ids, "include_authorized_operations": operations}


async def described(
    call: KafkaCalls, version: int, *group_ids: str, operations: bool = False
) -> Any:
    return await call(DESCRIBE, version, **describe(*group_ids, operations=operations))


def partitions(kind: str, version: int, sets: Mapping[bytes, tuple[int, ...]]) -> Any:
    module = importlib.import_module(f"kio.schema.consumer_group_heartbeat.v{version}.{kind}")
    return tuple(
        module.TopicPartitions(topic_id=UUID(bytes=topic_id), partitions=tuple(map(i32, each)))
        for topic_id, each in sets.items()
    )


def assigned(answer: Any) -> dict[bytes, tuple[int, ...]] | None:
    if answer.assignment is None:
        return None
    return {
        each.topic_id.bytes: tuple(each.partitions) for each in answer.assignment.topic_partitions
    }


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_member_joins_and_learns_only_of_what_has_changed(
    tmp_path: Path, version: int
) -> None:
    async with leading(tmp_path) as (_, call):
        joined = await call(HEARTBEAT, version, **heartbeat(version, 0))
        owned = partitions("request", version, ALL_PARTITIONS)
        same = await call(HEARTBEAT, version, **heartbeat(version, 1, topic_partitions=owned))
        left = await call(HEARTBEAT, version, **heartbeat(version, -1))
    assert (joined.error_code, joined.error_message, joined.member_id) == (0, None, "m")
    assert (joined.member_epoch, assigned(joined)) == (1, ALL_PARTITIONS)
    assert joined.heartbeat_interval == timedelta(seconds=5)
    assert joined.throttle_time == timedelta(0)
    assert (same.error_code, same.member_epoch, assigned(same)) == (0, 1, None)
    assert (left.error_code, left.member_epoch, assigned(left)) == (0, -1, None)


@pytest.mark.parametrize("version", VERSIONS)
async def test_partitions_move_by_the_heartbeats_of_those_concerned(
    tmp_path: Path, version: int
) -> None:
    async with leading(tmp_path) as (_, call):
        await call(HEARTBEAT, version, **heartbeat(version, 0, "a"))
        second = await call(HEARTBEAT, version, **heartbeat(version, 0, "b"))
        asked = await call(
            HEARTBEAT,
            version,
            **heartbeat(
                version, 1, "a", topic_partitions=partitions("request", version, ALL_PARTITIONS)
            ),
        )
        kept = assigned(asked)
        assert kept is not None
        given_up = await call(
            HEARTBEAT,
            version,
            **heartbeat(version, 1, "a", topic_partitions=partitions("request", version, kept)),
        )
        granted = await call(HEARTBEAT, version, **heartbeat(version, 2, "b"))
    assert (second.member_epoch, assigned(second)) == (2, {})
    assert (asked.member_epoch, len(kept[ORDERS_ID])) == (1, 2)
    assert given_up.member_epoch == 2
    found = assigned(granted)
    assert found is not None
    assert sorted((*kept[ORDERS_ID], *found[ORDERS_ID])) == [0, 1, 2, 3]


@pytest.mark.parametrize("version", VERSIONS)
async def test_an_empty_list_of_owned_partitions_is_not_a_missing_one(
    tmp_path: Path, version: int
) -> None:
    """A missing list says that nothing has changed; an empty one, that all is given up (I-134)."""
    async with leading(tmp_path) as (_, call):
        await call(HEARTBEAT, version, **heartbeat(version, 0))
        owned = partitions("request", version, ALL_PARTITIONS)
        asked, missing, empty = [
            await call(HEARTBEAT, version, **heartbeat(version, 1, **fields))
            for fields in (
                {"topic_partitions": owned, "subscribed_topic_names": ("nowhere",)},
                {"topic_partitions": None},
                {"topic_partitions": ()},
            )
        ]
    assert (asked.member_epoch, assigned(asked)) == (1, {})
    assert missing.member_epoch == 1
    assert empty.member_epoch == 2


async def test_the_coordinator_makes_a_members_id_in_version_0_alone(tmp_path: Path) -> None:
    async with leading(tmp_path) as (_, call):
        joined = await call(HEARTBEAT, 0, **heartbeat(0, 0, ""))
        again = await call(HEARTBEAT, 0, **heartbeat(0, 0, ""))
        refused = await call(HEARTBEAT, 1, **heartbeat(1, 0, ""))
        later = await call(HEARTBEAT, 0, **heartbeat(0, 1, ""))
        (group,) = (await described(call, 0, "g")).groups
    assert joined.error_code == 0
    assert len(joined.member_id) == 22
    assert {member.member_id for member in group.members} == {joined.member_id, again.member_id}
    assert len(group.members) == 2
    for each in (refused, later):
        assert each.error_code.value == InvalidRequest.code
        assert "member_id is empty" in each.error_message


@pytest.mark.parametrize("regex", [None, "ord.*"])
async def test_version_1_subscribes_by_a_regular_expression(
    tmp_path: Path, regex: str | None
) -> None:
    async with leading(tmp_path) as (_, call):
        fields = heartbeat(1, 0, subscribed_topic_names=None, subscribed_topic_regex=regex)
        joined = await call(HEARTBEAT, 1, **fields)
    if regex is None:
        assert joined.error_code.value == InvalidRequest.code
    else:
        assert (joined.error_code, assigned(joined)) == (0, ALL_PARTITIONS)


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_field_of_a_heartbeat_is_heeded(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (_, call):
        fields = heartbeat(
            version,
            0,
            instance_id="i",
            rack_id="r",
            server_assignor="range",
            subscribed_topic_names=(ORDERS, "nowhere", ORDERS),
        )
        joined = await call(HEARTBEAT, version, **fields)
        assert joined.error_code == 0
        (group,) = (await described(call, version, "g")).groups
    (member,) = group.members
    assert group.assignor_name == "range"
    assert (member.instance_id, member.rack_id, member.subscribed_topic_regex) == ("i", "r", None)
    assert tuple(member.subscribed_topic_names) == ("nowhere", ORDERS)
    assert (member.client_id, member.client_host) == ("client", "/::1")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_refusal_says_why(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (broker, call):
        await call(HEARTBEAT, version, **heartbeat(version, 0))
        answers = [
            await call(HEARTBEAT, version, **heartbeat(version, 7)),
            await call(HEARTBEAT, version, **heartbeat(version, 1, "n")),
            await call(HEARTBEAT, version, **heartbeat(version, 1, group_id="other")),
        ]
        await broker.follow(2)
        answers.append(await call(HEARTBEAT, version, **heartbeat(version, 1)))
    assert [answer.error_code.value for answer in answers] == [
        FencedMemberEpoch.code,
        UnknownMemberId.code,
        GroupIdNotFound.code,
        NotCoordinator.code,
    ]
    for answer in answers:
        assert answer.error_message
        assert (answer.member_id, answer.assignment) == (None, None)


async def test_a_long_description_has_every_group_in_order(tmp_path: Path) -> None:
    group_ids = [f"group-{number}" for number in range(5_000)]
    async with leading(tmp_path) as (_, call):
        answer = await described(call, 1, *group_ids)
    assert [group.group_id for group in answer.groups] == group_ids
    assert {group.error_code.value for group in answer.groups} == {GroupIdNotFound.code}


async def test_a_long_heartbeat_is_decoded_beside_the_event_loop(tmp_path: Path) -> None:
    names = tuple(f"topic-{number}" for number in range(5_000))
    async with leading(tmp_path) as (_, call):
        fields = heartbeat(1, 0, subscribed_topic_names=(ORDERS, *names))
        assert len(request_bytes(HEARTBEAT, 1, **fields)) > 32 << 10
        joined = await call(HEARTBEAT, 1, **fields)
    assert (joined.error_code, assigned(joined)) == (0, ALL_PARTITIONS)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", [HEARTBEAT, DESCRIBE])
async def test_bytes_that_are_no_request_have_no_effect(
    tmp_path: Path, version: int, name: str
) -> None:
    fields = heartbeat(version, 0) if name == HEARTBEAT else describe("g")
    sound = request_bytes(name, version, **fields)
    async with leading(tmp_path) as (broker, call):
        for broken in (sound + b"\x00", *(sound[:end] for end in range(len(sound)))):
            with pytest.raises(MalformedRequest):
                await call.bytes_of(name, version, broken)
        assert broker.partition.log.log_end_offset == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_is_described_with_what_its_members_have_and_shall_have(
    tmp_path: Path, version: int
) -> None:
    async with leading(tmp_path) as (_, call):
        await call(HEARTBEAT, version, **heartbeat(version, 0, "a"))
        await call(HEARTBEAT, version, **heartbeat(version, 0, "b"))
        answer = await described(call, version, "g", "none")
        asked = await described(call, version, "g", operations=True)
    group, none = answer.groups
    assert (group.error_code, group.error_message, group.group_id) == (0, None, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 2, 2)
    assert group.assignor_name == "uniform"
    assert [member.member_epoch for member in group.members] == [1, 2]
    one, two = group.members
    (held,) = one.assignment.topic_partitions
    (shall,) = two.target_assignment.topic_partitions
    assert (held.topic_id.bytes, held.topic_name, tuple(held.partitions)) == (
        ORDERS_ID,
        ORDERS,
        (0, 1, 2, 3),
    )
    assert (shall.topic_name, len(shall.partitions)) == (ORDERS, 2)
    if version >= 1:
        assert [member.member_type for member in group.members] == [1, 1]
    assert group.authorized_operations == -(1 << 31)
    # Read, delete, describe, describe and alter configs: bits 3, 6, 8, 10 and 11.
    assert asked.groups[0].authorized_operations == 0b1101_0100_1000
    assert (none.error_code.value, none.group_id) == (GroupIdNotFound.code, "none")
    assert "there is no group 'none'" in none.error_message
    assert (none.group_state, none.members) == ("", ())


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_group_of_the_other_protocol_is_not_found(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (broker, call):
        await answered(broker.commit(5))
        (group,) = (await described(call, version, "g")).groups
    assert group.error_code.value == GroupIdNotFound.code
    assert "group 'g' is of type Classic" in group.error_message


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_deleted_topic_has_no_name_and_is_left_out(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (broker, call):
        await call(HEARTBEAT, version, **heartbeat(version, 0))
        await broker.set_topics({})
        (group,) = (await described(call, version, "g")).groups
    assert group.members[0].assignment.topic_partitions == ()


async def test_a_heartbeat_ends_the_members_stream(tmp_path: Path) -> None:
    async with leading(tmp_path) as (broker, call), served(broker) as stub:
        member = Member(stub, "m")
        await member.beat(0, full=True)
        await member.hears()
        owned = partitions("request", 1, ALL_PARTITIONS)
        answer = await call(HEARTBEAT, 1, **heartbeat(1, 1, topic_partitions=owned))
        assert answer.error_code == 0
        await member.ends()
