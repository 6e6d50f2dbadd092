"""Batches above a topic's limit through real brokers: cut, in order, each record once."""

from __future__ import annotations

import asyncio
import hashlib
import random
from typing import TYPE_CHECKING, Any, Final

import pytest

from strandline import Consumer, NewTopic, Producer, TopicPartition, sync
from strandline._core.delivery_terms import Identity
from strandline.batches import Batches
from strandline.errors import DeliveryTimedOut, RecordTooLarge, SendManyFailed
from support.command import strandline

if TYPE_CHECKING:
    from strandline_local.local_cluster import LocalCluster

WAIT_S: Final = 60.0
LIMIT: Final = 20_000


def create(cluster: LocalCluster, topic: str, limit: int | None = LIMIT) -> None:
    configs = {} if limit is None else {"max.message.bytes": str(limit)}
    with sync.Admin(cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, 1, 3, config=configs)])


async def stored(cluster: LocalCluster, topic: str, count: int) -> list[bytes | None]:
    """The values of a partition, of which there must be so many."""
    at = TopicPartition(topic, 0)
    async with Consumer(
        bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.assign([at])
        end = (await consumer.end_offsets([at]))[at]
        assert end == count
        found: list[bytes | None] = []
        async with asyncio.timeout(WAIT_S):
            while len(found) < end:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [record.value for record in records]
        return found


def values(count: int, size: int) -> list[bytes]:
    """Of which no compression makes less."""
    dice = random.Random(count)
    return [b"%06d" % i + dice.randbytes(size - 6) for i in range(count)]


def settings(options: dict[str, Any]) -> str:
    return hashlib.sha1(repr(sorted(options.items())).encode()).hexdigest()[:8]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_in_flight": 1},
        {"linger_ms": 50, "max_in_flight": 2},
        {"compression_type": "zstd"},
        {"enable_idempotence": False, "max_in_flight": 1},
        {"acks": 1, "max_in_flight": 1},
    ],
)
async def test_records_sent_one_by_one_are_there_once_and_in_order(
    cluster: LocalCluster, options: dict[str, Any]
) -> None:
    topic = f"split-{settings(options)}"
    create(cluster, topic)
    sent = values(400, 500)
    async with Producer(cluster.bootstrap, **options) as producer:
        futures = [await producer.send(topic, value) for value in sent]
        offsets = [(await future).offset for future in futures]
    assert offsets == list(range(400))
    assert await stored(cluster, topic, 400) == sent


async def test_only_the_record_that_is_too_large_alone_fails(cluster: LocalCluster) -> None:
    create(cluster, "one-large")
    sent = [b"%010d" % i for i in range(100)]
    sent.insert(50, bytes(25_000))
    async with Producer(cluster.bootstrap) as producer:
        futures = [await producer.send("one-large", value) for value in sent]
        results = await asyncio.gather(*futures, return_exceptions=True)
    failed = {i: error for i, error in enumerate(results) if isinstance(error, BaseException)}
    assert list(failed) == [50]
    error = failed[50]
    assert isinstance(error, RecordTooLarge)
    assert not error.may_have_been_written
    assert "one-large:0: a record of 25000 bytes" in str(error)
    assert f"max.message.bytes ({LIMIT})" in str(error)
    assert await stored(cluster, "one-large", 100) == [v for v in sent if len(v) == 10]


async def test_many_records_are_cut_and_the_next_batches_are_small(cluster: LocalCluster) -> None:
    create(cluster, "many")
    sent = values(2000, 500)
    async with Producer(cluster.bootstrap) as producer:
        result = await producer.send_many("many", sent)
        assert (result.acknowledged, [(r.start, r.end) for r in result.ranges]) == (
            2000,
            [(0, 2000)],
        )
        with pytest.raises(SendManyFailed, match="a record of 30000 bytes") as caught:
            await producer.send_many("many", [b"before", bytes(30_000), b"after"])
        assert (caught.value.result.acknowledged, caught.value.result.failed) == (2, 1)
    assert await stored(cluster, "many", 2002) == [*sent, b"before", b"after"]


async def test_a_batch_size_above_the_default_limit(cluster: LocalCluster) -> None:
    create(cluster, "large-batches", None)
    sent = values(6000, 1000)
    async with Producer(
        cluster.bootstrap, batch_size=4 << 20, max_request_size=8 << 20
    ) as producer:
        assert (await producer.send_many("large-batches", sent)).acknowledged == 6000
    assert await stored(cluster, "large-batches", 6000) == sent


async def test_what_unpacks_to_too_much_is_cut_too(cluster: LocalCluster) -> None:
    """The limit on what a batch unpacks to is refused with the same error."""
    with sync.Admin(cluster.bootstrap) as admin:
        configs = {"max.message.decompressed.bytes": "10000"}
        admin.create_topics([NewTopic("packed", 1, 3, config=configs)])
    sent = [b"%06d" % i + bytes(500) for i in range(200)]
    async with Producer(cluster.bootstrap, compression_type="gzip") as producer:
        assert (await producer.send_many("packed", sent)).acknowledged == 200
    assert await stored(cluster, "packed", 200) == sent


def test_the_command_line_sends_lines_in_parts(cluster: LocalCluster) -> None:
    create(cluster, "lines")
    lines = [f"{i:06d}" + "x" * 494 for i in range(400)]
    lines.insert(200, "y" * 25_000)
    at = ("--bootstrap", cluster.bootstrap)
    done = strandline("produce", "lines", *at, stdin="\n".join(lines))
    assert done.status == 1
    assert "a record of 25000 bytes" in done.error + done.out
    found = asyncio.run(stored(cluster, "lines", 400))
    assert found == [line.encode() for line in lines if line[0] != "y"]


async def test_a_task_that_chose_its_identity_writes_its_batch_once(cluster: LocalCluster) -> None:
    create(cluster, "chosen")
    sent = values(400, 500)
    rows = [(1000 + i, None, value, ()) for i, value in enumerate(sent)]
    for _ in range(2):
        async with Producer(cluster.bootstrap) as producer:
            out = Batches(producer)
            topic = await out.topic("chosen")
            for at in range(0, 400, 100):
                part = rows[at : at + 100]
                size = sum(out.size_of("chosen", value, None) for _, _, value, _ in part)
                await out.send(topic, 0, part, size, Identity((1 << 62) + 77, 0))
            assert await out.finish() == 400
    assert await stored(cluster, "chosen", 400) == sent


async def test_flush_waits_for_the_parts(cluster: LocalCluster) -> None:
    create(cluster, "flushed")
    async with Producer(cluster.bootstrap, linger_ms=1000) as producer:
        futures = [await producer.send("flushed", bytes(500)) for _ in range(300)]
        await producer.flush()
        assert all(future.done() for future in futures)


async def test_a_deadline_ends_the_parts_too(cluster: LocalCluster) -> None:
    """Parts have the deadline of the batch that they are of."""
    create(cluster, "late")
    async with Producer(cluster.bootstrap, delivery_timeout_ms=20_000) as producer:
        await producer.send_and_wait("late", b"first")
        sent = [await producer.send("late", bytes(500)) for _ in range(300)]
        results = await asyncio.gather(*sent, return_exceptions=True)
        assert not [r for r in results if isinstance(r, DeliveryTimedOut)]
