"""OffsetCommit, OffsetFetch and OffsetDelete over Kafka's protocol, in each version."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.groups.commands import FetchOffsets, OffsetsFetched
from strandline_broker.core.groups.records.offset_records import OffsetCommitKey, OffsetCommitValue
from strandline_broker.hosts.serving.groups import GroupsService
from strandline_broker.kafka.groups.offset_commits import OffsetCommitsCalls
from strandline_broker.kafka.groups.offset_fetch import OffsetFetchCalls
from strandline_proto.errors import (
    NONE,
    CoordinatorNotAvailable,
    FencedInstanceId,
    GroupIdNotFound,
    GroupSubscribedToTopic,
    IllegalGeneration,
    InvalidGroupId,
    NotCoordinator,
    OffsetMetadataTooLarge,
    StaleMemberEpoch,
    UnknownMemberId,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    WireError,
)
from support.group_broker import ORDERS, ORDERS_ID, answered, group_broker
from support.kafka_calls import KafkaCalls, kio_decoded, python_bytes

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from support.group_broker import GroupBroker

COMMITS = range(2, 11)
FETCHES = range(1, 11)
NOBODY = bytes(15) + b"\x07"
EPOCHS_SINCE = 6
FETCHED_EPOCHS_SINCE = 5


@asynccontextmanager
async def leading(path: Path, **settings: Any) -> AsyncIterator[tuple[GroupBroker, KafkaCalls]]:
    """A coordinator that is alone in the ISR, and the calls on it."""
    async with group_broker(path, **settings) as broker:
        await broker.lead(1, isr=(1,))
        yield broker, calls(broker)


def calls(broker: GroupBroker) -> KafkaCalls:
    groups = GroupsService(broker.shards)
    return KafkaCalls(OffsetCommitsCalls(groups), OffsetFetchCalls(groups))


def named(version: int, topic: str = ORDERS, topic_id: bytes = ORDERS_ID) -> dict[str, str]:
    return {"topic_id": topic_id.hex()} if version >= 10 else {"name": topic}


def name_of(topic: Any, version: int) -> str | bytes:
    found: str | bytes = topic.topic_id.bytes if version >= 10 else topic.name
    return found


def commits(version: int, *partitions: dict[str, Any], **topic: Any) -> dict[str, Any]:
    """The fields of a commit of these partitions."""
    full = [
        {"partition_index": 0, "committed_offset": 0, "committed_metadata": None} | each
        for each in partitions
    ]
    return {"topics": [named(version, **topic) | {"partitions": full}]}


def fetches(version: int, topics: list[dict[str, Any]] | None, **fields: Any) -> dict[str, Any]:
    """The fields of a fetch of group g, where the version has them."""
    if version < 8:
        return {"group_id": "g", "topics": topics, **fields}
    return {"groups": [{"group_id": "g", "topics": topics, **fields}]}


def wanted(version: int, *partitions: int, **topic: Any) -> dict[str, Any]:
    return named(version, **topic) | {"partition_indexes": list(partitions)}


def codes(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]


@pytest.mark.parametrize("version", COMMITS)
async def test_a_commit_without_a_group_is_stored(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (broker, call):
        answer = await call(
            "OffsetCommit",
            version,
            group_id="g",
            **commits(
                version,
                {"committed_offset": 7, "committed_leader_epoch": 5, "committed_metadata": "m"},
                {"partition_index": 1, "committed_offset": 8},
            ),
        )
        (batch,) = broker.batches()
    ((topic),) = answer.topics
    assert name_of(topic, version) == (ORDERS_ID if version >= 10 else ORDERS)
    assert [(each.partition_index, each.error_code) for each in topic.partitions] == [
        (0, NONE),
        (1, NONE),
    ]
    if version >= 3:
        assert answer.throttle_time_ms == 0
    (first, one), (_, two) = batch
    assert first == OffsetCommitKey("g", ORDERS, 0)
    assert isinstance(one, OffsetCommitValue)
    assert isinstance(two, OffsetCommitValue)
    epoch = 5 if version >= EPOCHS_SINCE else -1
    assert (one.offset, one.leader_epoch, one.metadata, one.topic_id) == (7, epoch, "m", ORDERS_ID)
    assert (two.offset, two.leader_epoch, two.metadata) == (8, -1, "")
    assert one.expire_timestamp_ms is None


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("retention_ms", "life_ms"),
    [(-1, None), (0, 0), (60_000, 60_000), (1 << 40, 1 << 40)],
)
async def test_an_early_version_says_how_long_its_offsets_live(
    tmp_path: Path, version: int, retention_ms: int, life_ms: int | None
) -> None:
    async with leading(tmp_path) as (broker, call):
        answer = await call(
            "OffsetCommit",
            version,
            group_id="g",
            retention_time_ms=retention_ms,
            **commits(version, {"committed_offset": 7}),
        )
        ((_, value),) = broker.batches()[0]
        fetched = await broker.fetch()
    assert codes(answer) == [NONE]
    assert isinstance(value, OffsetCommitValue)
    expiry = value.expire_timestamp_ms
    assert (None if expiry is None else expiry - value.commit_timestamp_ms) == life_ms
    assert fetched == 7


async def test_a_life_beyond_all_times_is_stored_as_the_last_one(tmp_path: Path) -> None:
    async with leading(tmp_path) as (broker, call):
        for retention_ms in ((1 << 63) - 1, -(1 << 63)):
            fields = commits(2, {"committed_offset": 7})
            body = python_bytes(
                "OffsetCommit", 2, group_id="g", retention_time_ms=retention_ms, **fields
            )
            answer = await call.bytes_of("OffsetCommit", 2, body)
            assert codes(kio_decoded("OffsetCommit", "Response", 2, answer)) == [NONE]
        found: list[Any] = [value for batch in broker.batches() for _, value in batch]
    assert [each.expire_timestamp_ms for each in found] == [(1 << 63) - 1, 0]


@pytest.mark.parametrize("version", COMMITS)
async def test_a_refused_partition_has_an_error_and_the_others_are_committed(
    tmp_path: Path, version: int
) -> None:
    async with leading(tmp_path, offset_metadata_max_bytes="4") as (broker, call):
        fields = commits(
            version,
            {"committed_offset": 3, "partition_index": 1},
            {"committed_offset": 4, "partition_index": 99},
            {"committed_offset": 5, "partition_index": 2, "committed_metadata": "12345"},
        )
        fields["topics"] += commits(version, {}, topic="nowhere", topic_id=NOBODY)["topics"]
        answer = await call("OffsetCommit", version, group_id="g", **fields)
        fetched = await broker.fetch(1)
    unknown = UnknownTopicId if version >= 10 else UnknownTopicOrPartition
    assert codes(answer) == [
        NONE,
        UnknownTopicOrPartition.code,
        OffsetMetadataTooLarge.code,
        unknown.code,
    ]
    assert fetched == 3


@pytest.mark.parametrize("version", COMMITS)
async def test_a_member_commits_by_its_epoch_from_version_9_on(
    tmp_path: Path, version: int
) -> None:
    async with leading(tmp_path) as (broker, call):
        await answered(broker.beat("m"))

        async def commit(epoch: int, member_id: str = "m") -> list[int]:
            answer = await call(
                "OffsetCommit",
                version,
                group_id="g",
                member_id=member_id,
                generation_id_or_member_epoch=epoch,
                **commits(version, {"committed_offset": 7}, {"partition_index": 1}),
            )
            return codes(answer)

        found = [await commit(1), await commit(2), await commit(1, "n")]
    if version < 9:
        assert found[:2] == [[UnsupportedVersion.code] * 2] * 2
    else:
        assert found[:2] == [[NONE] * 2, [StaleMemberEpoch.code] * 2]
    assert found[2] == [UnknownMemberId.code] * 2


@pytest.mark.parametrize("version", range(7, 11))
async def test_a_replaced_instance_commits_no_more(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (broker, call):
        await answered(broker.beat("m", instance_id="i"))
        answer = await call(
            "OffsetCommit",
            version,
            group_id="g",
            member_id="other",
            generation_id_or_member_epoch=1,
            group_instance_id="i",
            **commits(version, {"committed_offset": 7}),
        )
    assert codes(answer) == [FencedInstanceId.code]


@pytest.mark.parametrize("version", COMMITS)
async def test_a_generation_of_an_unknown_group_is_refused(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (_, call):
        answer = await call(
            "OffsetCommit",
            version,
            group_id="g",
            member_id="m",
            generation_id_or_member_epoch=3,
            **commits(version, {"committed_offset": 7}),
        )
    assert codes(answer) == [(GroupIdNotFound if version >= 9 else IllegalGeneration).code]


@pytest.mark.parametrize("version", COMMITS)
async def test_an_error_of_the_group_stands_at_each_partition(tmp_path: Path, version: int) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.follow(1)
        fields = commits(version, {}, {"partition_index": 1})
        answer = await calls(broker)("OffsetCommit", version, group_id="g", **fields)
        invalid = await calls(broker)("OffsetCommit", version, group_id="", **fields)
    assert codes(answer) == [NotCoordinator.code] * 2
    assert codes(invalid) == [InvalidGroupId.code] * 2


async def test_a_commit_that_takes_too_long_is_repeated_by_every_client(tmp_path: Path) -> None:
    async with group_broker(tmp_path, offsets_commit_timeout_ms="10") as broker:
        await broker.lead(1)  # and broker 2, which is in the ISR, reads nothing
        answer = await calls(broker)("OffsetCommit", 8, group_id="g", **commits(8, {}))
    assert codes(answer) == [CoordinatorNotAvailable.code]


@pytest.mark.parametrize("version", FETCHES)
async def test_offsets_are_fetched_in_the_order_of_the_request(
    tmp_path: Path, version: int
) -> None:
    async with leading(tmp_path) as (_, call):
        await call(
            "OffsetCommit",
            6,
            group_id="g",
            **commits(
                6,
                {
                    "partition_index": 1,
                    "committed_offset": 7,
                    "committed_leader_epoch": 5,
                    "committed_metadata": "m",
                },
            ),
        )
        answer = await call(
            "OffsetFetch",
            version,
            **fetches(
                version,
                [
                    wanted(version, 2, 1),
                    wanted(version, 0, topic="nowhere", topic_id=NOBODY),
                    wanted(version, 1),
                ],
            ),
        )
    (group,) = answer.groups if version >= 8 else [answer]
    has_ids = version >= 10
    assert [
        (
            name_of(topic, version),
            [(p.partition_index, p.committed_offset, p.metadata) for p in topic.partitions],
        )
        for topic in group.topics
    ] == [
        (ORDERS_ID if has_ids else ORDERS, [(2, -1, ""), (1, 7, "m")]),
        (NOBODY if has_ids else "nowhere", [(0, -1, "")]),
        (ORDERS_ID if has_ids else ORDERS, [(1, 7, "m")]),
    ]
    assert codes(group) == [NONE, NONE, UnknownTopicId.code if has_ids else NONE, NONE]
    if version >= FETCHED_EPOCHS_SINCE:
        assert [p.committed_leader_epoch for p in group.topics[0].partitions] == [-1, 5]
    if version >= 2:
        assert group.error_code == NONE
    if version >= 3:
        assert answer.throttle_time_ms == 0


@pytest.mark.parametrize("version", range(2, 11))
async def test_no_topics_at_all_means_every_offset_of_the_group(
    tmp_path: Path, version: int
) -> None:
    payments = b"p" * 16
    async with leading(tmp_path) as (broker, call):
        topics = {ORDERS_ID: (ORDERS, 4), payments: ("payments", 1)}
        await broker.set_topics(topics)  # type: ignore[arg-type] # bytes are topic ids
        for topic, topic_id in ((ORDERS, ORDERS_ID), ("payments", payments)):
            await call(
                "OffsetCommit",
                10,
                group_id="g",
                **commits(10, {"committed_offset": 7}, topic=topic, topic_id=topic_id),
            )
        every = await call("OffsetFetch", version, **fetches(version, None))
        none = await call("OffsetFetch", version, **fetches(version, []))
    (group,) = every.groups if version >= 8 else [every]
    assert [
        (name_of(topic, version), topic.partitions[0].committed_offset) for topic in group.topics
    ] == ([(ORDERS_ID, 7), (payments, 7)] if version >= 10 else [(ORDERS, 7), ("payments", 7)])
    (group,) = none.groups if version >= 8 else [none]
    assert (group.topics, group.error_code) == ([], NONE)


@pytest.mark.parametrize("version", FETCHES)
async def test_a_version_says_at_which_place_a_group_has_its_error(
    tmp_path: Path, version: int
) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.follow(1)
        fields = fetches(version, [wanted(version, 0, 1)])
        answer = await calls(broker)("OffsetFetch", version, **fields)
    (group,) = answer.groups if version >= 8 else [answer]
    if version == 1:
        assert codes(group) == [NotCoordinator.code] * 2
        assert [p.committed_offset for p in group.topics[0].partitions] == [-1, -1]
    else:
        assert (group.error_code, group.topics) == (NotCoordinator.code, [])


@pytest.mark.parametrize("version", FETCHES)
async def test_stable_offsets_are_asked_for_from_version_7_on(tmp_path: Path, version: int) -> None:
    asked: list[FetchOffsets | WireError] = []

    class Recorded(GroupsService):
        def fetch_offsets(
            self, commands: Sequence[FetchOffsets | WireError]
        ) -> AsyncIterator[OffsetsFetched | WireError]:
            asked.extend(commands)
            return super().fetch_offsets(commands)

    async with leading(tmp_path) as (broker, _):
        call = KafkaCalls(OffsetFetchCalls(Recorded(broker.shards)))
        for stable in [{}, {"require_stable": True}] if version >= 7 else [{}]:
            await call("OffsetFetch", version, **fetches(version, []), **stable)
    found = [each.require_stable for each in asked if isinstance(each, FetchOffsets)]
    assert found == ([False, True] if version >= 7 else [False])


@pytest.mark.parametrize("version", [8, 9, 10])
async def test_each_of_several_groups_is_answered_by_itself(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (_, call):
        await call("OffsetCommit", 8, group_id="h", **commits(8, {"committed_offset": 9}))
        answer = await call(
            "OffsetFetch",
            version,
            groups=[
                {"group_id": "g", "topics": [wanted(version, 0)]},
                {"group_id": "", "topics": [wanted(version, 0)]},
                {"group_id": "h", "topics": [wanted(version, 0)]},
            ],
        )
        nothing = await call("OffsetFetch", version, groups=[])
    assert [
        (
            group.group_id,
            group.error_code,
            [p.committed_offset for topic in group.topics for p in topic.partitions],
        )
        for group in answer.groups
    ] == [("g", NONE, [-1]), ("", InvalidGroupId.code, []), ("h", NONE, [9])]
    assert nothing.groups == []


@pytest.mark.parametrize("version", [9, 10])
async def test_a_member_fetches_by_its_epoch(tmp_path: Path, version: int) -> None:
    async with leading(tmp_path) as (broker, call):
        await answered(broker.beat("m"))
        found = [
            (await call("OffsetFetch", version, **fetches(version, [], **member))).groups[0]
            for member in (
                {"member_id": "m", "member_epoch": 1},
                {"member_id": "m", "member_epoch": 2},
                {"member_id": "n", "member_epoch": 1},
                {"member_id": None},
            )
        ]
    assert [group.error_code for group in found] == [
        NONE,
        StaleMemberEpoch.code,
        UnknownMemberId.code,
        NONE,
    ]


async def test_offsets_are_deleted_one_by_one(tmp_path: Path) -> None:
    async with leading(tmp_path) as (broker, call):
        await call("OffsetCommit", 8, group_id="g", **commits(8, {"committed_offset": 9}))
        answer = await call(
            "OffsetDelete",
            0,
            group_id="g",
            topics=[
                {"name": ORDERS, "partitions": [{"partition_index": 0}, {"partition_index": 3}]}
            ],
        )
        after = await broker.fetch()
        unknown = await call("OffsetDelete", 0, group_id="h", topics=[])
        await answered(broker.beat("m"))
        subscribed = await call(
            "OffsetDelete",
            0,
            group_id="g",
            topics=[{"name": ORDERS, "partitions": [{"partition_index": 0}]}],
        )
    assert (answer.error_code, answer.throttle_time_ms, codes(answer)) == (NONE, 0, [NONE, NONE])
    assert [(t.name, [p.partition_index for p in t.partitions]) for t in answer.topics] == [
        (ORDERS, [0, 3])
    ]
    assert after == -1
    assert (unknown.error_code, unknown.topics) == (GroupIdNotFound.code, [])
    assert (subscribed.error_code, codes(subscribed)) == (NONE, [GroupSubscribedToTopic.code])
