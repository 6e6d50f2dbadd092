"""Fetch over Kafka's protocol: what each version means, the limits, the wait and the refusals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.kafka import codec
from strandline_broker.kafka.wire import MalformedRequest
from strandline_proto.batch import iter_headers
from strandline_proto.decompression import Compression
from strandline_proto.errors import (
    NONE,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    InconsistentClusterId,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from support.kafka_records import KafkaRecords, fetch, kafka_records, raw_request
from support.loop_turns import with_turns
from support.open_transaction import end, write
from support.replica_nodes import TOPIC, TOPIC_ID, decide, eventually, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

    from strandline_broker.kafka.request import Request

WAIT_S = 30.0
LONG_MS = 25_000
VERSIONS = range(4, 19)
UNSUPPORTED_COMPRESSION_TYPE = 76
CLUSTER_AUTHORIZATION_FAILED = 31
MISSING = (TOPIC, b"m" * 16)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[KafkaRecords]:
    async with kafka_records(tmp_path / "1") as found, asyncio.timeout(WAIT_S):
        yield found


async def partitions(broker: KafkaRecords, *args: Any, **options: Any) -> list[Any]:
    answer = await broker.send(fetch(*args, **options))
    (topic,) = answer.responses
    found: list[Any] = topic.partitions
    return found


def bases(records: bytes) -> list[int]:
    return [header.base_offset for _, header in iter_headers(records)]


async def until_it_waits(broker: KafkaRecords) -> None:
    listeners = check_leader(broker.node.partition, None).consumer_listeners
    await eventually(lambda: listeners, "the request waits for news")


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_answers_with_whole_batches_and_watermarks(
    broker: KafkaRecords, version: int
) -> None:
    broker.write(b"a", b"b")
    broker.write(b"c")
    broker.write(b"d", b"e", b"f")
    (found,) = await partitions(broker, version, 4)
    assert (found.partition_index, found.error_code) == (0, NONE)
    assert (found.high_watermark, found.last_stable_offset) == (6, 6)
    if version >= 5:
        assert found.log_start_offset == 0
    if version >= 11:
        assert found.preferred_read_replica == -1
    assert found.aborted_transactions is None
    assert found.records == broker.node.partition.read_log(4, max_bytes=1000, limit=6).records
    assert bases(found.records) == [3], "the whole batch around the offset, and none before it"


@pytest.mark.parametrize("version", VERSIONS)
async def test_readers_of_committed_records_get_a_list_of_aborted_transactions(
    broker: KafkaRecords, version: int
) -> None:
    broker.write(b"a")
    (found,) = await partitions(broker, version, 0, isolation_level=1)
    assert (found.error_code, found.aborted_transactions) == (NONE, [])
    write(broker.node.partition, 7)
    end(broker.node.partition, 7)
    write(broker.node.partition, 8)
    (found,) = await partitions(broker, version, 1, isolation_level=1)
    named = [(each.producer_id, each.first_offset) for each in found.aborted_transactions]
    assert (bases(found.records), named) == ([1, 3], [(7, 1)])
    assert (found.high_watermark, found.last_stable_offset) == (6, 4)
    (plain,) = await partitions(broker, version, 1, isolation_level=0)
    assert bases(plain.records) == [1, 3, 4]
    assert not plain.aborted_transactions


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 7])
async def test_there_is_no_session(broker: KafkaRecords, version: int) -> None:
    broker.write(b"a")
    for session_id, epoch in ((0, -1), (0, 0), (5, -1), (5, 0)):
        answer = await broker.send(fetch(version, 0, session_id=session_id, session_epoch=epoch))
        assert (answer.error_code, answer.session_id, len(answer.responses)) == (NONE, 0, 1)
    answer = await broker.send(fetch(version, 0, session_id=5, session_epoch=1))
    assert (answer.error_code, answer.session_id) == (FetchSessionIdNotFound.code, 0)
    assert answer.responses == []


async def test_forgotten_topics_are_ignored(broker: KafkaRecords) -> None:
    broker.write(b"a")
    forgotten = codec.load()["FetchRequest"].ForgottenTopic(
        topic=TOPIC, topic_id=TOPIC_ID.hex(), partitions=[0, 1]
    )
    for version in (7, 12, 13, 18):
        (found,) = await partitions(broker, version, 0, forgotten_topics_data=[forgotten])
        assert bases(found.records) == [0]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_that_is_not_known_is_refused_by_its_name_or_id(
    broker: KafkaRecords, version: int
) -> None:
    (found,) = await partitions(
        broker, version, 0, topic=("missing", MISSING[1]), max_wait_ms=LONG_MS
    )
    by_name = version < 13
    assert found.error_code == (UnknownTopicOrPartition if by_name else UnknownTopicId).code
    assert (found.high_watermark, found.last_stable_offset, found.records) == (-1, -1, b"")


async def test_every_partition_that_is_named_has_an_answer(broker: KafkaRecords) -> None:
    broker.write(b"a")
    found = await partitions(broker, 12, 0, 0, max_wait_ms=LONG_MS)
    assert [each.error_code for each in found] == [NONE, UnknownTopicOrPartition.code]
    assert [bool(each.records) for each in found] == [True, False]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("offset", [-1, 2, 1 << 60])
async def test_an_offset_outside_the_log_is_refused_at_once(
    broker: KafkaRecords, version: int, offset: int
) -> None:
    broker.write(b"a")
    (found,) = await partitions(broker, version, offset, max_wait_ms=LONG_MS)
    assert (found.error_code, found.records) == (OffsetOutOfRange.code, b"")


@pytest.mark.parametrize("version", VERSIONS)
async def test_zstd_needs_version_10(broker: KafkaRecords, version: int) -> None:
    plain, packed = b"a", b"z" * 1000
    broker.write(plain)
    broker.write(packed, compression=Compression.ZSTD)
    (found,) = await partitions(broker, version, 0)
    assert found.error_code == NONE
    assert bases(found.records) == ([0] if version < 10 else [0, 1])
    (found,) = await partitions(broker, version, 1)
    expected = UNSUPPORTED_COMPRESSION_TYPE if version < 10 else NONE
    assert (found.error_code, bool(found.records)) == (expected, version >= 10)


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 9])
async def test_leader_epochs_are_compared(tmp_path: Path, version: int) -> None:
    async with kafka_records(tmp_path / "1", led=False) as broker:
        await decide(state(1, epoch=3, isr=(1,), replicas=(1,), min_insync=1), broker.node)
        broker.write(b"a")
        codes = []
        for epoch in (2, 3, 4, -1):
            (found,) = await partitions(broker, version, 0, current_leader_epoch=epoch)
            codes.append(found.error_code)
        assert codes == [FencedLeaderEpoch.code, NONE, UnknownLeaderEpoch.code, NONE]


@pytest.mark.parametrize("version", [v for v in VERSIONS if v >= 12])
async def test_a_history_that_differs_is_told_its_end(tmp_path: Path, version: int) -> None:
    """KIP-595's tagged field, which consumers use for truncation detection."""
    async with kafka_records(tmp_path / "1", led=False) as broker:
        await decide(state(1, epoch=1, isr=(1,), replicas=(1,), min_insync=1), broker.node)
        broker.write(b"a", b"b")
        await decide(state(1, epoch=5, isr=(1,), replicas=(1,), min_insync=1), broker.node)
        broker.write(b"c", b"d")
        (found,) = await partitions(broker, version, 3, last_fetched_epoch=3, max_wait_ms=LONG_MS)
        assert (found.error_code, found.records, found.high_watermark) == (NONE, b"", 4)
        assert found.diverging_epoch is not None
        assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (1, 2)
        (found,) = await partitions(broker, version, 3, last_fetched_epoch=5)
        assert (found.diverging_epoch, bases(found.records)) == (None, [2])


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_current_leader_is_named_from_version_16_on(tmp_path: Path, version: int) -> None:
    """KIP-951."""
    async with kafka_records(tmp_path / "1") as broker:
        await decide(state(2, epoch=3, isr=(1, 2), replicas=(1, 2)), broker.node)
        answer = await broker.send(fetch(version, 0))
        (found,) = answer.responses[0].partitions
        assert found.error_code == NotLeaderOrFollower.code
        if version >= 16:
            leader = found.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (2, 3)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_replica_is_refused(broker: KafkaRecords, version: int) -> None:
    broker.write(b"a")
    options: dict[str, Any] = {"replica_id": 2}
    if version >= 15:
        replica = codec.load()["FetchRequest"].ReplicaState(replica_id=2, replica_epoch=9)
        options = {"replica_state": replica}
    answer = await broker.send(fetch(version, 0, **options))
    if version >= 7:
        assert (answer.error_code, answer.responses) == (CLUSTER_AUTHORIZATION_FAILED, [])
    else:
        (found,) = answer.responses[0].partitions
        assert (found.error_code, found.records) == (CLUSTER_AUTHORIZATION_FAILED, b"")


async def test_another_cluster_and_another_isolation_level_are_refused(
    broker: KafkaRecords,
) -> None:
    broker.write(b"a")
    for options, code in (
        ({"cluster_id": "other"}, InconsistentClusterId.code),
        ({"cluster_id": "c"}, NONE),
        ({"isolation_level": 2}, UnsupportedVersion.code),
    ):
        assert (await broker.send(fetch(13, 0, **options))).error_code == code


# Limits (KIP-74)


async def test_an_answer_has_at_least_one_batch_and_keeps_to_its_limits(
    broker: KafkaRecords,
) -> None:
    sizes = [len(broker.write(b"x" * 100)) for _ in range(5)]
    size = sizes[0]
    for limit, batches in ((0, 1), (1, 1), (size, 1), (2 * size, 2), (3 * size - 1, 2)):
        (found,) = await partitions(broker, 12, 0, partition_max_bytes=limit)
        assert len(found.records) == batches * size, limit
        (found,) = await partitions(broker, 12, 0, max_bytes=limit)
        assert len(found.records) == batches * size, limit


async def test_a_later_partition_has_no_batch_that_does_not_fit(broker: KafkaRecords) -> None:
    """The same partition twice: the second has what is left of the limit."""
    size = len(broker.write(b"x" * 100))
    broker.write(b"x" * 100)
    new = codec.load()["FetchRequest"].FetchTopic
    for limit, expected in (
        (1, [1, 0]),
        (2 * size, [2, 0]),
        (3 * size, [2, 1]),
        (4 * size, [2, 2]),
    ):
        parts = [
            new.FetchPartition(
                partition=0,
                fetch_offset=0,
                current_leader_epoch=-1,
                last_fetched_epoch=-1,
                log_start_offset=-1,
                partition_max_bytes=1 << 20,
            )
            for _ in range(2)
        ]
        topics = [new(topic=TOPIC, topic_id=TOPIC_ID.hex(), partitions=parts)]
        found = await partitions(
            broker, 13, topics=topics, max_bytes=limit, max_wait_ms=LONG_MS, min_bytes=1 << 20
        )
        assert [len(each.records) // size for each in found] == expected, limit
        assert [each.high_watermark for each in found] == [2, 2]


# The wait


async def ended(task: asyncio.Task[Any]) -> Any:
    async with asyncio.timeout(WAIT_S):
        return await task


async def waiting(broker: KafkaRecords, asked: Request) -> asyncio.Task[Any]:
    task = asyncio.create_task(broker.send(asked))
    await until_it_waits(broker)
    assert not task.done()
    return task


async def test_a_new_record_ends_the_wait(broker: KafkaRecords) -> None:
    task = await waiting(broker, fetch(12, 0, max_wait_ms=LONG_MS))
    broker.write(b"a")
    (found,) = (await ended(task)).responses[0].partitions
    assert (bases(found.records), found.high_watermark) == ([0], 1)
    assert not check_leader(broker.node.partition, None).consumer_listeners


async def test_too_few_bytes_do_not_end_the_wait(broker: KafkaRecords) -> None:
    size = len(broker.write(b"a"))
    task = await waiting(broker, fetch(12, 0, max_wait_ms=LONG_MS, min_bytes=2 * size + 1))
    broker.write(b"b")
    for _ in range(20):
        await asyncio.sleep(0)
    assert not task.done()
    broker.write(b"c")
    (found,) = (await ended(task)).responses[0].partitions
    assert bases(found.records) == [0, 1, 2]


async def test_the_end_of_the_wait_answers_with_what_there_is(broker: KafkaRecords) -> None:
    broker.write(b"a")
    found = await partitions(broker, 12, 0, max_wait_ms=20, min_bytes=1 << 20)
    assert bases(found[0].records) == [0]
    found = await partitions(broker, 12, 1, max_wait_ms=20)
    assert (found[0].records, found[0].high_watermark, found[0].error_code) == (b"", 1, NONE)


async def test_a_further_request_ends_the_wait(broker: KafkaRecords) -> None:
    broker.write(b"a")
    asked = fetch(12, 0, max_wait_ms=LONG_MS, min_bytes=1 << 20)
    task = await waiting(broker, asked)
    asked.hurry()
    (found,) = (await ended(task)).responses[0].partitions
    assert bases(found.records) == [0]
    hurried = fetch(12, 1, max_wait_ms=LONG_MS)
    hurried.hurry()
    assert (await ended(asyncio.create_task(broker.send(hurried)))).error_code == NONE


async def test_the_end_of_the_leadership_ends_the_wait(broker: KafkaRecords) -> None:
    task = await waiting(broker, fetch(16, 0, max_wait_ms=LONG_MS))
    await decide(state(2, epoch=1, isr=(1, 2), replicas=(1, 2)), broker.node)
    (found,) = (await ended(task)).responses[0].partitions
    assert found.error_code == NotLeaderOrFollower.code
    leader = found.current_leader  # None before the view of the cluster is published
    assert leader is None or (leader.leader_id, leader.leader_epoch) == (2, 1)


async def test_the_end_of_the_connection_leaves_no_listener(broker: KafkaRecords) -> None:
    task = await waiting(broker, fetch(12, 0, max_wait_ms=LONG_MS))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not check_leader(broker.node.partition, None).consumer_listeners


async def test_a_request_that_names_no_partition_is_answered_at_once(
    broker: KafkaRecords,
) -> None:
    """Java's consumer sends it when it closes."""
    answer = await broker.send(fetch(13, session_id=3, max_wait_ms=LONG_MS))
    assert (answer.error_code, answer.session_id, answer.responses) == (NONE, 0, [])


async def test_uncommitted_records_are_not_read(tmp_path: Path) -> None:
    """I-12: no consumer reads above the high watermark."""
    async with kafka_records(tmp_path / "1", led=False) as broker, asyncio.timeout(WAIT_S):
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), broker.node)
        broker.write(b"a")
        assert broker.node.partition.log.log_end_offset == 1
        for level in (0, 1):
            (found,) = await partitions(broker, 12, 0, isolation_level=level)
            assert (found.error_code, found.records, found.high_watermark) == (NONE, b"", 0)


async def test_cold_records_are_read_beside_the_loop(
    broker: KafkaRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.write(b"a")
    warmed = []
    warm = broker.node.replicas.warm

    async def noted(*args: Any) -> None:
        warmed.append(args[1])
        await warm(*args)

    monkeypatch.setattr(broker.node.replicas, "warm", noted)
    monkeypatch.setattr(type(broker.node.partition.log), "is_hot", lambda *_: False)
    (found,) = await partitions(broker, 12, 0)
    assert (bases(found.records), warmed) == ([0], [0])


async def test_many_partitions_are_answered_in_turns(broker: KafkaRecords) -> None:
    count = 10_000
    answer, turns = await with_turns(broker.send(fetch(12, *[0] * count)))
    assert len(answer.responses[0].partitions) == count
    assert turns > 25, "parsed, read and encoded with a pause after each thousand"


async def test_much_data_is_read_in_turns(broker: KafkaRecords) -> None:
    broker.write(b"x" * 900_000)
    broker.write(b"x" * 900_000)
    new = codec.load()["FetchRequest"].FetchTopic
    part = new.FetchPartition(
        partition=0,
        fetch_offset=0,
        current_leader_epoch=-1,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=1 << 20,
    )
    topics = [new(topic=TOPIC, topic_id=TOPIC_ID.hex(), partitions=[part] * 20)]
    answer, turns = await with_turns(broker.send(fetch(12, topics=topics, max_bytes=1 << 30)))
    size = sum(len(each.records) for each in answer.responses[0].partitions)
    assert size > 17_000_000
    assert turns > size // (4 << 20)


async def test_a_request_with_bytes_behind_its_end_is_refused(broker: KafkaRecords) -> None:
    for version in VERSIONS:
        body = bytes(fetch(version, 0).body)
        for bad in (body + b"\0", body[:-1]):
            with pytest.raises(MalformedRequest):
                await broker.send(raw_request("Fetch", version, bad))
