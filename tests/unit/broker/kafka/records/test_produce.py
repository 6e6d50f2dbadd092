"""Produce over Kafka's protocol: what each version means, and what is refused."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from crc32c import crc32c

from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.kafka.request import CloseConnection
from strandline_broker.kafka.wire import MalformedRequest
from strandline_proto.batch import ATTRIBUTES_AT, CRC_AT, build_batch, read_header
from strandline_proto.decompression import Compression
from strandline_proto.errors import (
    NONE,
    CorruptMessage,
    InvalidRecord,
    InvalidRequiredAcks,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    RequestTimedOut,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from support.kafka_records import KafkaRecords, kafka_records, produce, raw_request
from support.replica_nodes import TOPIC, TOPIC_ID, decide, eventually, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

WAIT_S = 30.0
VERSIONS = range(3, 14)
UNSUPPORTED_COMPRESSION_TYPE = 76
MISSING = (TOPIC, b"m" * 16)


def batch(*values: bytes, **options: Any) -> bytes:
    return build_batch([(None, value) for value in values or (b"v",)], timestamp_ms=1, **options)


def with_attributes(plain: bytes, attributes: int) -> bytes:
    body = attributes.to_bytes(2, "big") + plain[ATTRIBUTES_AT + 2 :]
    return plain[:CRC_AT] + crc32c(body).to_bytes(4, "big") + body


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[KafkaRecords]:
    async with kafka_records(tmp_path / "1") as found, asyncio.timeout(WAIT_S):
        yield found


async def results(broker: KafkaRecords, *args: Any, **options: Any) -> list[Any]:
    (answer,) = await broker.append(produce(*args, **options))
    (topic,) = answer.responses
    found: list[Any] = topic.partition_responses
    return found


@pytest.mark.parametrize("version", VERSIONS)
async def test_each_version_says_where_the_records_are(broker: KafkaRecords, version: int) -> None:
    broker.write(b"before")
    (result,) = await results(broker, version, batch(b"a", b"b"))
    assert (result.index, result.error_code, result.base_offset) == (0, NONE, 1)
    assert result.log_append_time_ms == -1
    if version >= 5:
        assert result.log_start_offset == 0
    if version >= 8:
        assert (result.record_errors, result.error_message) == ([], None)
    read = broker.node.partition.read_log(1, max_bytes=1 << 20, limit=3).records
    assert read[61:] == batch(b"a", b"b")[61:]


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_time_of_the_append_is_told_if_the_topic_takes_it(
    tmp_path: Path, version: int
) -> None:
    stamped = "LogAppendTime"
    async with kafka_records(tmp_path / "1", log_message_timestamp_type=stamped) as broker:
        (result,) = await results(broker, version, batch(b"a"))
        records = broker.node.partition.read_log(0, max_bytes=1000, limit=1).records
        header = read_header(records)
        assert (result.error_code, result.base_offset) == (NONE, 0)
        assert result.log_append_time_ms == header.max_timestamp > 1


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_repeated_batch_is_appended_once(broker: KafkaRecords, version: int) -> None:
    """I-55."""
    first = batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    found = [(await results(broker, version, first))[0] for _ in range(2)]
    assert [(each.error_code, each.base_offset) for each in found] == [(NONE, 0)] * 2
    gap = batch(b"c", producer_id=7, producer_epoch=0, base_sequence=5)
    (result,) = await results(broker, version, gap)
    assert (result.error_code, result.base_offset) == (OutOfOrderSequenceNumber.code, -1)
    assert broker.node.partition.log.log_end_offset == 2


def numbered(sequence: int, *values: bytes, producer_id: int = 7) -> bytes:
    return batch(*values, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_forgotten_producer_continues_with_the_batch_that_it_repeats(
    broker: KafkaRecords, version: int
) -> None:
    """I-56: in Kafka it continues at once, and a new producer's second batch may be the first."""
    found = []
    for sequence in (50, 51, 50, 51, 52):
        found += await results(broker, version, numbered(sequence, b"v"))
    codes = [each.error_code for each in found]
    assert codes == [NotEnoughReplicas.code] * 2 + [NONE] * 3
    assert [each.base_offset for each in found] == [-1, -1, 0, 1, 2]
    if version >= 8:
        assert "producer 7 is not known here and sent sequence 50" in found[0].error_message
    (before,) = await results(broker, version, numbered(49, b"v"))
    assert before.error_code == OutOfOrderSequenceNumber.code, "P-80: it is in no log"
    assert broker.node.partition.log.log_end_offset == 3


async def test_only_the_same_connection_repeats_a_batch(broker: KafkaRecords) -> None:
    for _ in range(3):
        asked = produce(9, numbered(50, b"v"))
        asked.connection = object()
        (answer,) = await broker.append(asked)
        assert answer.responses[0].partition_responses[0].error_code == NotEnoughReplicas.code
    assert broker.node.partition.log.log_end_offset == 0


async def test_a_new_producers_batches_wait_for_the_first(broker: KafkaRecords) -> None:
    """I-59: the first batch was refused; the second one may not be appended before it."""
    first, second = numbered(0, b"a"), numbered(1, b"b")
    few = state(1, epoch=1, isr=(1,), replicas=(1, 2), min_insync=2)
    await decide(few, broker.node)
    for sent, acks in ((first, -1), (second, 1)) * 2:  # the first one lacks replicas
        (result,) = await results(broker, 9, sent, acks=acks)
        assert result.error_code == NotEnoughReplicas.code
    assert broker.node.partition.log.log_end_offset == 0
    found = [(await results(broker, 9, sent, acks=1))[0] for sent in (first, second)]
    assert [each.base_offset for each in found] == [0, 1]


async def test_another_leadership_has_seen_no_batch(broker: KafkaRecords) -> None:
    for epoch in (1, 2):
        await decide(state(1, epoch=epoch, isr=(1,), replicas=(1,), min_insync=1), broker.node)
        (result,) = await results(broker, 9, numbered(1, b"b"))
        assert result.error_code == NotEnoughReplicas.code


@pytest.mark.parametrize("version", range(3))
async def test_versions_before_magic_2_close_the_connection(
    broker: KafkaRecords, version: int
) -> None:
    with pytest.raises(CloseConnection, match=f"Produce {version} is not served"):
        await broker.append(raw_request("Produce", version, b""))


async def test_a_request_without_acks_has_no_answer(broker: KafkaRecords) -> None:
    assert await broker.append(produce(9, batch(), acks=0)) == [None]
    assert broker.node.partition.log.log_end_offset == 1


@pytest.mark.parametrize("topic", [MISSING, (TOPIC, TOPIC_ID)])
async def test_an_error_without_acks_closes_the_connection(
    broker: KafkaRecords, topic: tuple[str, bytes]
) -> None:
    bad = batch()[:-1] + b"?"
    with pytest.raises(CloseConnection, match="acks=0"):
        await broker.append(produce(13, bad, acks=0, topic=topic))


@pytest.mark.parametrize("acks", [2, -2, 32767])
async def test_other_acks_are_refused(broker: KafkaRecords, acks: int) -> None:
    (result,) = await results(broker, 9, batch(), acks=acks)
    assert result.error_code == InvalidRequiredAcks.code
    assert (result.base_offset, result.log_append_time_ms, result.log_start_offset) == (-1, -1, -1)
    assert broker.node.partition.log.log_end_offset == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_topic_that_is_not_known_is_refused_by_its_name_or_id(
    broker: KafkaRecords, version: int
) -> None:
    (result,) = await results(broker, version, batch(), topic=("missing", MISSING[1]))
    by_name = version < 13
    assert result.error_code == (UnknownTopicOrPartition if by_name else UnknownTopicId).code
    if version >= 8:
        assert result.error_message


async def test_a_partition_that_is_not_known_has_its_own_error(broker: KafkaRecords) -> None:
    found = await results(broker, 9, batch(b"a"), batch(b"b"))
    assert [each.error_code for each in found] == [NONE, UnknownTopicOrPartition.code]
    assert [each.base_offset for each in found] == [0, -1]


@pytest.mark.parametrize("version", VERSIONS)
async def test_zstd_needs_version_7(broker: KafkaRecords, version: int) -> None:
    packed = batch(b"z" * 1000, compression=Compression.ZSTD)
    (result,) = await results(broker, version, packed)
    is_known = version >= 7
    assert result.error_code == (NONE if is_known else UNSUPPORTED_COMPRESSION_TYPE)
    assert broker.node.partition.log.log_end_offset == (1 if is_known else 0)


OLD_MESSAGE = bytes(8) + (22).to_bytes(4, "big") + bytes(4) + b"%c" + bytes(17)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (None, InvalidRecord),
        (b"", InvalidRecord),
        (batch()[:16], InvalidRecord),
        (batch()[:-1], InvalidRecord),
        (batch() * 2, InvalidRecord),
        (batch() + b"\0", InvalidRecord),
        (OLD_MESSAGE.replace(b"%c", b"\0"), InvalidRecord),
        (OLD_MESSAGE.replace(b"%c", b"\1"), InvalidRecord),
        (batch()[:16] + b"\3" + batch()[17:], InvalidRecord),
        (bytes(8) + (5).to_bytes(4, "big") + batch()[12:], CorruptMessage),
        (batch()[:-1] + b"?", CorruptMessage),
    ],
    ids=[
        "null",
        "empty",
        "short",
        "cut",
        "two",
        "surplus",
        "magic-0",
        "magic-1",
        "magic-3",
        "length",
        "crc",
    ],
)
async def test_records_that_are_no_single_batch_are_refused_and_others_are_appended(
    broker: KafkaRecords, records: bytes | None, code: type[Exception]
) -> None:
    (result,) = await results(broker, 9, records)
    assert result.error_code == code.code  # type: ignore[attr-defined]
    assert result.error_message
    assert broker.node.partition.log.log_end_offset == 0
    (result,) = await results(broker, 9, batch())
    assert (result.error_code, result.base_offset) == (NONE, 0)


@pytest.mark.parametrize(("attributes", "code"), [(0x10, 42), (0x20, 87), (0x30, 87)])
async def test_transactional_batches_without_an_id_and_control_batches_are_refused(
    broker: KafkaRecords, attributes: int, code: int
) -> None:
    (result,) = await results(broker, 9, with_attributes(batch(producer_id=1), attributes))
    assert result.error_code == code
    assert result.error_message
    assert broker.node.partition.log.log_end_offset == 0


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_transactional_id_is_refused_without_coordinators(
    broker: KafkaRecords, version: int
) -> None:
    (result,) = await results(broker, version, batch(), transactional_id="pay")
    assert result.error_code == UnsupportedVersion.code
    if version >= 8:
        assert "unset transactional.id" in result.error_message


@pytest.mark.parametrize("version", [7, 8, 11])
async def test_the_place_of_a_bad_record_is_named(tmp_path: Path, version: int) -> None:
    """KIP-467."""
    async with kafka_records(tmp_path / "1", log_message_timestamp_before_max_ms="1000") as broker:
        (result,) = await results(broker, version, batch(b"a"))
        assert result.error_code == 32
        if version >= 8:
            (bad,) = result.record_errors
            assert bad.batch_index == 0
            assert "message.timestamp.before.max.ms" in bad.batch_index_error_message


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_current_leader_is_named_from_version_10_on(tmp_path: Path, version: int) -> None:
    """KIP-951."""
    async with kafka_records(tmp_path / "1") as broker:
        node = broker.node
        await decide(state(2, epoch=3, isr=(1, 2), replicas=(1, 2)), node)
        (answer,) = await broker.append(produce(version, batch()))
        (result,) = answer.responses[0].partition_responses
        assert result.error_code == NotLeaderOrFollower.code
        if version >= 10:
            leader = result.current_leader
            assert (leader.leader_id, leader.leader_epoch) == (2, 3)
            assert answer.node_endpoints == []  # broker 2 has no address yet
        await decide(state(1, epoch=4, isr=(1, 2), replicas=(1, 2)), node)


async def test_an_answer_waits_for_its_acks_no_longer_than_it_says(tmp_path: Path) -> None:
    async with kafka_records(tmp_path / "1", led=False) as broker, asyncio.timeout(WAIT_S):
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), broker.node)
        answers = await broker.append(produce(9, batch(), timeout_ms=50))
        later = await broker.append(produce(9, batch(), timeout_ms=300_000))
        assert (answers, later) == ([], [])
        await eventually(lambda: answers, "the limit ends the wait")
        (result,) = answers[0].responses[0].partition_responses
        assert result.error_code == RequestTimedOut.code
        assert later == []


async def test_an_ended_connection_leaves_no_waiter(tmp_path: Path) -> None:
    async with kafka_records(tmp_path / "1", led=False) as broker:
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), broker.node)
        asked = produce(9, batch(), timeout_ms=300_000)
        answers = await broker.append(asked)
        appends = check_leader(broker.node.partition, 0).appends
        assert len(appends.waiting()) == 1
        assert len(asked.body) == 0, "the frame is not kept"
        assert asked.on_end is not None
        asked.on_end()
        assert (appends.waiting(), answers) == ([], [])


async def test_a_request_with_bytes_behind_its_end_has_no_effect(broker: KafkaRecords) -> None:
    body = bytes(produce(9, batch()).body)
    for bad in (body + b"\0", body[:-1]):
        with pytest.raises(MalformedRequest):
            await broker.append(raw_request("Produce", 9, bad))
    assert broker.node.partition.log.log_end_offset == 0


async def test_unknown_tagged_fields_are_skipped(broker: KafkaRecords) -> None:
    """KIP-482."""
    body = bytes(produce(9, batch()).body)
    tagged = body[:-1] + b"\1\x63\x02hi"
    (answer,) = await broker.append(raw_request("Produce", 9, tagged))
    assert answer.responses[0].partition_responses[0].error_code == NONE


async def test_requests_that_name_too_many_partitions_are_refused(broker: KafkaRecords) -> None:
    with pytest.raises(MalformedRequest, match="at most 20000 partitions"):
        await broker.append(produce(9, *[None] * 20_001))
