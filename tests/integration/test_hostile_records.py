"""Batches of a right CRC whose records are wrong, sent to running brokers: refused before the
append, whichever way they take; what lies in a log already is copied, loaded and read as it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.hosts.replica.record_check import ON_LOOP_BYTES_MAX, Looked
from strandline_proto.batch import HEADER_SIZE, Compression, build_batch, check_batch
from strandline_proto.errors import InvalidRecord, InvalidTimestamp
from strandline_runtime.milliseconds import wall_ms
from support.broker_client import Client, store
from support.hostile import batch_of
from support.record_bytes import Fields, record
from support.replica_nodes import Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ALONE = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
NOISE = batch_of(b"\x07\xf3 no records\x91\xff", Compression.NONE)
SHORT = batch_of(record(Fields()), Compression.NONE, records=3)
LONG_AGO_MS = 1


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Node]:
    async with run_node(tmp_path / "1", 1) as node:
        await decide(ALONE, node)
        yield node


def sound(*, timestamp_ms: int = LONG_AGO_MS, sequence: int = -1) -> bytes:
    return build_batch(
        [(None, b"v"), (b"k", b"v")],
        timestamp_ms=timestamp_ms,
        producer_id=-1 if sequence < 0 else 7,
        producer_epoch=-1 if sequence < 0 else 0,
        base_sequence=sequence,
    )


async def test_hostile_records_are_refused_and_the_stream_goes_on(broker: Node) -> None:
    many = build_batch([(None, bytes(100))] * (ON_LOOP_BYTES_MAX // 100), timestamp_ms=1)
    header = check_batch(many)
    large = many[HEADER_SIZE:-1] + b"\x02"  # the last record counts a header that is not there
    zipped = build_batch([(b"k", b"v")], timestamp_ms=1, compression=Compression.LZ4)[HEADER_SIZE:]
    refused = {
        NOISE: InvalidRecord,
        SHORT: InvalidRecord,
        batch_of(record(Fields(3)), Compression.NONE): InvalidRecord,
        batch_of(record(Fields()), Compression.NONE, latest_ms=1 << 62): InvalidTimestamp,
        batch_of(large, Compression.NONE, records=header.record_count): InvalidRecord,
        batch_of(zipped, Compression.LZ4, records=2): InvalidRecord,
        batch_of(zipped, Compression.LZ4, latest_ms=2): InvalidTimestamp,
    }
    async with Client(broker) as client:
        for batch, kind in refused.items():
            answer = await client.produce(batch)
            assert (answer.error_code, answer.base_offset) == (kind.code, -1), answer.error_message
            assert "orders:0: " in answer.error_message
            assert broker.partition.log.log_end_offset == 0
        for batch, end in ((sound(), 2), (many, 2 + header.record_count)):
            assert (await client.produce(batch)).error_code == 0
            assert broker.partition.log.log_end_offset == end


async def test_altered_bounds_of_time_count_from_the_next_batch(broker: Node) -> None:
    log = broker.partition.log
    async with Client(broker) as client:
        assert (await client.produce(sound())).error_code == 0
        log.config = replace(log.config, message_timestamp_before_max_ms=60_000)
        for batch in (
            sound(),
            build_batch([(b"k", b"v")], timestamp_ms=1, compression=Compression.LZ4),
        ):
            answer = await client.produce(batch)
            assert answer.error_code == InvalidTimestamp.code
            assert "message.timestamp.before.max.ms=60000" in answer.error_message
        now_ms = wall_ms(broker.runtime.clock)
        assert (await client.produce(sound(timestamp_ms=now_ms))).error_code == 0


async def test_a_repeated_batch_is_acknowledged_whatever_the_clock_says_now(broker: Node) -> None:
    log = broker.partition.log
    async with Client(broker) as client:
        first = await client.produce(sound(sequence=0))
        log.config = replace(log.config, message_timestamp_before_max_ms=60_000)
        again = await client.produce(sound(sequence=0))
        assert (first.base_offset, again.base_offset, again.error_code) == (0, 0, 0), "I-55"
        assert (await client.produce(sound(sequence=2))).error_code == InvalidTimestamp.code
        assert log.log_end_offset == 2


async def test_a_topic_that_changed_meanwhile_has_its_batch_looked_at_again(broker: Node) -> None:
    partition = broker.partition
    batch = sound()
    before = Looked(check_batch(batch), partition.log.config, None)
    partition.log.config = replace(partition.log.config, cleanup_policy=("compact",))
    with pytest.raises(InvalidRecord, match="needs a key in every record"):
        check_leader(partition, 0).appends.append(
            batch, acks=-1, on_done=lambda _: None, looked=before
        )
    assert partition.log.log_end_offset == 0, "I-72"


async def test_what_is_in_a_log_already_is_copied_loaded_and_read(tmp_path: Path) -> None:
    both = state(1, epoch=0, isr=(1,), replicas=(1, 2), min_insync=1)
    async with run_node(tmp_path / "1", 1) as a, run_node(tmp_path / "2", 2) as b:
        await decide(both, a, b)
        store(a, NOISE, SHORT)
        async with Client(a) as client:
            assert (await client.produce(sound())).error_code == 0
        await eventually(lambda: b.partition.log.log_end_offset == 6, "copied")
    async with run_node(tmp_path / "2", 2) as again:
        log = again.partition.log
        assert log.log_end_offset == 6
        found = log.read(0, max_bytes=1 << 20, limit=6)
        assert NOISE[16:] in found.records
        assert SHORT[16:] in found.records
