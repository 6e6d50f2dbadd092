"""Batches that unpack to more than they should, in logs and in requests of running brokers: what is
answered, and what goes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from aiokafka.codec import snappy_encode

from strandline_proto.batch import Compression, build_batch, read_header
from strandline_proto.errors import CorruptMessage, InvalidRecord, RecordTooLarge
from support.broker_client import Client, store
from support.hostile import batch_of, varint, zstd_bomb
from support.replica_nodes import Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ALONE = state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1)
NAMED = "raise the topic's max.message.decompressed.bytes"
BOMB = batch_of(zstd_bomb(2_100_000_000), Compression.ZSTD)
COMPACT = {
    "log_cleanup_policy": "compact",
    "log_segment_bytes": "2000",
    "log_cleaner_backoff_ms": "20",
    "log_cleaner_min_cleanable_ratio": "0.01",
    "log_flush_interval_ms": "10",
}


def keyed(value: bytes, *, timestamp_ms: int = 1, zipped: bool = False) -> bytes:
    codec = Compression.ZSTD if zipped else Compression.NONE
    return build_batch([(b"k", value)], timestamp_ms=timestamp_ms, compression=codec)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Node]:
    async with run_node(tmp_path / "1", 1) as node:
        await decide(ALONE, node)
        yield node


async def test_a_stored_batch_beyond_the_bound_is_named_when_a_time_is_looked_up(
    broker: Node,
) -> None:
    within = keyed(b"v", timestamp_ms=0)
    store(broker, within, BOMB, keyed(b"v", timestamp_ms=5))
    async with Client(broker) as client:
        refused = await client.offset_at(1)
        assert refused.error_code == RecordTooLarge.code
        assert "the batch at offset 1: " in refused.error_message
        assert NAMED in refused.error_message
        for timestamp, offset in ((0, 0), (2, 2), (-3, 2)):
            found = await client.offset_at(timestamp)
            assert (found.error_code, found.offset) == (0, offset), found.error_message


async def test_a_raised_bound_is_what_the_next_lookup_goes_by(broker: Node) -> None:
    log = broker.partition.log
    bound = log.config.max_message_decompressed_bytes
    log.config = replace(log.config, max_message_decompressed_bytes=1000)
    store(broker, keyed(b"v" * 2000, timestamp_ms=3, zipped=True))
    async with Client(broker) as client:
        assert (await client.offset_at(3)).error_code == RecordTooLarge.code
        log.config = replace(log.config, max_message_decompressed_bytes=bound)
        assert (await client.offset_at(3)).offset == 0


@pytest.mark.parametrize(
    ("batch", "codes"),
    [
        pytest.param(BOMB, {RecordTooLarge.code}, id="bomb"),
        pytest.param(
            batch_of(
                varint(30) + b"\0" + varint(0) * 2 + varint(2**63 - 8) + bytes(20),
                Compression.NONE,
            ),
            {CorruptMessage.code, InvalidRecord.code},
            id="a key of 2^63 - 8 bytes",
        ),
        pytest.param(
            batch_of(snappy_encode(bytes(100)) + b"\0\0", Compression.SNAPPY),
            {CorruptMessage.code, InvalidRecord.code},
            id="half a snappy block",
        ),
    ],
)
async def test_a_hostile_batch_does_not_end_the_stream_of_a_compacted_topic(
    tmp_path: Path, batch: bytes, codes: set[int]
) -> None:
    async with run_node(tmp_path / "1", 1, **COMPACT) as node, Client(node) as client:
        await decide(ALONE, node)
        refused = await client.produce(batch)
        assert refused.error_code in codes, refused.error_message
        assert (NAMED in refused.error_message) == (codes == {RecordTooLarge.code})
        assert (await client.produce(keyed(b"v"))).error_code == 0
        assert node.partition.log.log_end_offset == 1


async def test_the_cleaner_leaves_a_log_alone_until_the_bound_is_raised(tmp_path: Path) -> None:
    async with run_node(
        tmp_path / "1", 1, **COMPACT, message_max_decompressed_bytes="5000"
    ) as node:
        await decide(ALONE, node)
        partition, log = node.partition, node.partition.log
        store(node, keyed(b"first"), keyed(b"v" * 6000, zipped=True))
        store(node, *[keyed(b"%d" % i * 200) for i in range(30)])
        cleaner = node.replicas.upkeep.cleaner
        await eventually(lambda: partition in cleaner._uncleanable, "given up")
        first = log.read(0, max_bytes=1, limit=1).records
        assert (log.cleaned_to, read_header(first).record_count) == (0, 1)
        log.config = replace(log.config, max_message_decompressed_bytes=7000)
        await eventually(lambda: log.cleaned_to > 2, "cleaned")
