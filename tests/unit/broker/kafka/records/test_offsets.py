"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords and InitProducerId over Kafka's protocol."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.serving.delete_records import DeleteRecordsService
from strandline_broker.kafka import codec
from strandline_broker.kafka.wire import MalformedRequest
from strandline_proto.errors import (
    NONE,
    CoordinatorLoadInProgress,
    FencedLeaderEpoch,
    InvalidRequest,
    InvalidTopic,
    LeaderNotAvailable,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from support.group_broker import OFFSETS_ID, group_broker
from support.kafka_records import KafkaRecords, kafka_records, raw_request, request
from support.loop_turns import with_turns
from support.open_transaction import end, write
from support.replica_nodes import TOPIC, decide, state
from support.scripted_controller import scripted_controller

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

WAIT_S = 30.0
LIST_OFFSETS = range(1, 11)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING = -1, -2, -3, -4, -5, -6
CLUSTER_AUTHORIZATION_FAILED = 31


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[KafkaRecords]:
    """Leads orders-0 in epoch 3, after two records of epoch 1."""
    async with kafka_records(tmp_path / "1", led=False) as found, asyncio.timeout(WAIT_S):
        for epoch, values in ((1, (b"a", b"b")), (3, (b"c",))):
            await decide(state(1, epoch=epoch, isr=(1,), replicas=(1,), min_insync=1), found.node)
            found.write(*values)
        yield found


async def list_offsets(
    broker: KafkaRecords,
    version: int,
    *timestamps: int,
    topic: str = TOPIC,
    partitions: tuple[int, ...] | None = None,
    epoch: int = -1,
    **options: Any,
) -> list[Any]:
    new = codec.load()["ListOffsetsRequest"].ListOffsetsTopic
    places = partitions or (0,) * len(timestamps)
    parts = [
        new.ListOffsetsPartition(
            partition_index=place, timestamp=timestamp, current_leader_epoch=epoch
        )
        for place, timestamp in zip(places, timestamps, strict=True)
    ]
    fields = {"replica_id": -1, "isolation_level": 0, "timeout_ms": 1000}
    answer = await broker.call(
        "ListOffsets", version, **{**fields, **options}, topics=[new(name=topic, partitions=parts)]
    )
    (answered,) = answer.topics
    found: list[Any] = answered.partitions
    return found


@pytest.mark.parametrize("version", LIST_OFFSETS)
@pytest.mark.parametrize(
    ("timestamp", "first", "offset", "time"),
    [
        (LATEST, 1, 3, -1),
        (EARLIEST, 1, 0, -1),
        (0, 1, 0, 1),
        (1, 1, 0, 1),
        (2, 1, -1, -1),
        (MAX_TIMESTAMP, 7, 0, 1),
        (EARLIEST_LOCAL, 8, 0, -1),
        (LATEST_TIERED, 9, -1, -1),
        (PENDING, 11, -1, -1),
        (-7, 99, -1, -1),
    ],
)
async def test_each_timestamp_has_its_meaning_from_its_version_on(
    broker: KafkaRecords, version: int, timestamp: int, first: int, offset: int, time: int
) -> None:
    (found,) = await list_offsets(broker, version, timestamp)
    if version < first:
        assert (found.error_code, found.offset) == (UnsupportedVersion.code, -1)
        return
    assert (found.error_code, found.offset, found.timestamp) == (NONE, offset, time)
    if version >= 4 and timestamp == LATEST:
        assert found.leader_epoch == 3
    if version >= 4 and offset < 0:
        assert found.leader_epoch == -1


@pytest.mark.parametrize("version", LIST_OFFSETS)
async def test_offsets_of_unknown_and_repeated_partitions_are_refused(
    broker: KafkaRecords, version: int
) -> None:
    (found,) = await list_offsets(broker, version, LATEST, topic="missing")
    assert found.error_code == UnknownTopicOrPartition.code
    found = await list_offsets(broker, version, LATEST, LATEST, partitions=(0, 9))
    assert [each.error_code for each in found] == [NONE, UnknownTopicOrPartition.code]
    found = await list_offsets(broker, version, LATEST, EARLIEST)
    assert [each.error_code for each in found] == [InvalidRequest.code] * 2


@pytest.mark.parametrize("version", [4, 10])
async def test_offsets_are_told_in_the_expected_leader_epoch(
    broker: KafkaRecords, version: int
) -> None:
    codes = [
        (await list_offsets(broker, version, LATEST, epoch=epoch))[0].error_code
        for epoch in (2, 3, 4)
    ]
    assert codes == [FencedLeaderEpoch.code, NONE, UnknownLeaderEpoch.code]


@pytest.mark.parametrize("version", [2, 10])
async def test_offsets_have_an_isolation_level_and_are_for_clients(
    broker: KafkaRecords, version: int
) -> None:
    for level, code in ((0, NONE), (1, NONE), (2, UnsupportedVersion.code)):
        (found,) = await list_offsets(broker, version, LATEST, isolation_level=level)
        assert (found.error_code, found.offset) == (code, 3 if code == NONE else -1)
    for replica, code in ((-2, NONE), (0, CLUSTER_AUTHORIZATION_FAILED)):
        (found,) = await list_offsets(broker, version, LATEST, replica_id=replica)
        assert found.error_code == code


@pytest.mark.parametrize("version", [v for v in LIST_OFFSETS if v >= 2])
async def test_the_end_of_committed_records_is_the_last_stable_offset(
    broker: KafkaRecords, version: int
) -> None:
    """I-152."""
    write(broker.node.partition, 7)
    for level, expected in ((0, 5), (1, 3)):
        (found,) = await list_offsets(broker, version, LATEST, isolation_level=level)
        assert (found.error_code, found.offset) == (NONE, expected)
    end(broker.node.partition, 7)
    (found,) = await list_offsets(broker, version, LATEST, isolation_level=1)
    assert found.offset == 6


@pytest.mark.parametrize("version", LIST_OFFSETS)
async def test_an_end_that_is_not_known_yet_has_the_error_of_the_version(
    broker: KafkaRecords, version: int
) -> None:
    """I-11. Clients before version 5 do not know OffsetNotAvailable."""
    broker.write(b"d")
    await decide(state(1, epoch=4, isr=(1, 2), replicas=(1, 2)), broker.node)
    broker.write(b"e")
    leading = broker.node.partition.leader
    assert leading is not None
    codes = {(await list_offsets(broker, version, LATEST))[0].error_code}
    expected = OffsetNotAvailable if version >= 5 else LeaderNotAvailable
    assert codes == ({NONE} if leading.end_offset_known else {expected.code})


@pytest.mark.parametrize("version", LIST_OFFSETS)
async def test_another_leader_is_reported(broker: KafkaRecords, version: int) -> None:
    await decide(state(2, epoch=4, isr=(1, 2), replicas=(1, 2)), broker.node)
    (found,) = await list_offsets(broker, version, LATEST)
    assert found.error_code == NotLeaderOrFollower.code


async def test_many_offsets_are_looked_up_in_turns(broker: KafkaRecords) -> None:
    count = 10_000
    asked = list_offsets(broker, 10, *[LATEST] * count, partitions=tuple(range(count)))
    found, turns = await with_turns(asked)
    assert [each.error_code for each in found[:2]] == [NONE, UnknownTopicOrPartition.code]
    assert turns > count // 1000


# OffsetForLeaderEpoch


async def end_of_epoch(
    broker: KafkaRecords, version: int, epoch: int, *, current: int = -1, topic: str = TOPIC
) -> tuple[int, int, int]:
    new = codec.load()["OffsetForLeaderEpochRequest"].OffsetForLeaderTopic
    part = new.OffsetForLeaderPartition(
        partition=0, current_leader_epoch=current, leader_epoch=epoch
    )
    answer = await broker.call(
        "OffsetForLeaderEpoch",
        version,
        replica_id=-1,
        topics=[new(topic=topic, partitions=[part])],
    )
    (found,) = answer.topics[0].partitions
    assert found.partition == 0
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", range(2, 5))
async def test_the_end_of_an_epoch_is_told(broker: KafkaRecords, version: int) -> None:
    assert await end_of_epoch(broker, version, 1) == (NONE, 1, 2)
    assert await end_of_epoch(broker, version, 2) == (NONE, 1, 2)
    assert await end_of_epoch(broker, version, 3, current=3) == (NONE, 3, 3)
    assert await end_of_epoch(broker, version, 4) == (NONE, -1, -1)
    assert await end_of_epoch(broker, version, 1, current=2) == (FencedLeaderEpoch.code, -1, -1)
    assert await end_of_epoch(broker, version, 1, current=9) == (UnknownLeaderEpoch.code, -1, -1)
    unknown = UnknownTopicOrPartition.code
    assert await end_of_epoch(broker, version, 1, topic="missing") == (unknown, -1, -1)


# DeleteRecords


async def delete_before(
    broker: KafkaRecords, version: int, offset: int, *, topic: str = TOPIC, timeout_ms: int = 9000
) -> tuple[int, int]:
    new = codec.load()["DeleteRecordsRequest"].DeleteRecordsTopic
    part = new.DeleteRecordsPartition(partition_index=0, offset=offset)
    answer = await broker.call(
        "DeleteRecords",
        version,
        topics=[new(name=topic, partitions=[part])],
        timeout_ms=timeout_ms,
    )
    (found,) = answer.topics[0].partitions
    assert (answer.topics[0].name, found.partition_index) == (topic, 0)
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", range(3))
async def test_records_are_deleted_up_to_the_high_watermark(
    broker: KafkaRecords, version: int
) -> None:
    assert await delete_before(broker, version, 1) == (NONE, 1)
    assert await delete_before(broker, version, 99) == (OffsetOutOfRange.code, -1)
    assert await delete_before(broker, version, -1) == (NONE, 3)
    unknown = UnknownTopicOrPartition.code
    assert await delete_before(broker, version, 0, topic="missing") == (unknown, -1)
    assert broker.node.partition.log.log_start_offset == 3


async def test_records_of_internal_topics_are_not_deleted(tmp_path: Path) -> None:
    async with group_broker(tmp_path) as broker:
        await broker.lead(1)
        with pytest.raises(InvalidTopic, match="__consumer_offsets is internal"):
            await DeleteRecordsService(broker.replicas).delete_before((OFFSETS_ID, 0), 0, 1000)


# InitProducerId


async def init(broker: KafkaRecords, version: int, **fields: Any) -> tuple[int, int, int]:
    own: dict[str, Any] = {"producer_id": -1, "producer_epoch": -1, "transactional_id": None}
    answer = await broker.call(
        "InitProducerId", version, **{"transaction_timeout_ms": 60_000, **own, **fields}
    )
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", range(6))
async def test_producers_get_ids_and_epochs(tmp_path: Path, version: int) -> None:
    async with (
        scripted_controller() as controller,
        kafka_records(tmp_path / "1", controller=controller.target) as broker,
        asyncio.timeout(WAIT_S),
    ):
        assert await init(broker, version) == (NONE, 0, 0)
        assert await init(broker, version, transaction_timeout_ms=-1) == (NONE, 1, 0)
        for new in (2, 3):  # one client names the id 0 with epoch 0 in every program
            assert await init(broker, version, producer_id=0, producer_epoch=0) == (NONE, new, 0)
        if version >= 3:
            for half in ({"producer_id": 7}, {"producer_epoch": 4}):
                assert await init(broker, version, **half) == (InvalidRequest.code, -1, -1)


async def test_a_producer_tries_again_while_no_controller_answers(tmp_path: Path) -> None:
    """Java's producer ends at any other error that may pass."""
    async with kafka_records(tmp_path / "1") as broker, asyncio.timeout(WAIT_S):
        assert await init(broker, 4) == (CoordinatorLoadInProgress.code, -1, -1)


async def test_requests_with_bytes_behind_their_end_are_refused(broker: KafkaRecords) -> None:
    for api, version in (("ListOffsets", 10), ("DeleteRecords", 2), ("OffsetForLeaderEpoch", 4)):
        body = bytes(request(api, version).body)
        with pytest.raises(MalformedRequest):
            await broker.send(raw_request(api, version, body + b"\0"))
