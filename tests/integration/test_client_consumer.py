"""The consumer against scripted brokers: order, positions, leaders, truncation, bounds."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from strandline import Consumer, Producer, TopicPartition
from strandline.errors import (
    ClientClosed,
    ConfigurationError,
    CorruptRecords,
    LogTruncated,
    OffsetOutOfRange,
    TopicRecreated,
    UnknownTopicOrPartition,
)
from strandline_proto.batch import Compression, build_batch
from support.scripted_admin import add_partitions
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from strandline.types import ConsumerRecord
    from support.scripted_log import Partition

T0 = TopicPartition("orders", 0)


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(2) as scripted:
        yield scripted


def write(partition: Partition, *values: bytes, timestamp_ms: int = 1000) -> None:
    """One batch, acknowledged and committed."""
    batch = build_batch([(None, v) for v in values], timestamp_ms=timestamp_ms)
    code, _ = partition.append(batch)
    assert code == 0


def reader(cluster: ScriptedCluster, *topics: str, **options: object) -> Consumer:
    chosen: dict[str, object] = {"auto_offset_reset": "earliest", **options}
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap, **chosen)  # type: ignore[arg-type]


async def read(consumer: Consumer, count: int) -> list[ConsumerRecord]:
    async with asyncio.timeout(60):
        return [await consumer.getone() for _ in range(count)]


async def test_records_come_in_order_with_all_they_carry(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    write(p, b"a", b"b")
    write(p, b"c", timestamp_ms=2000)
    async with reader(cluster, "orders") as consumer:
        records = await read(consumer, 3)
        assert [(r.offset, r.value, r.timestamp) for r in records] == [
            (0, b"a", 1000),
            (1, b"b", 1000),
            (2, b"c", 2000),
        ]
        assert await consumer.position(T0) == 3
        assert consumer.position_epoch(T0) == 0
        assert consumer.highwater(T0) == 3
        write(p, b"d")
        async with asyncio.timeout(60):
            async for record in consumer:
                assert record.value == b"d"
                break


async def test_partitions_that_are_added_to_a_whole_topic_are_read_from_their_beginning(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, b"old")
    options = {"auto_offset_reset": "latest", "metadata_max_age_ms": 50}
    async with reader(cluster, "orders", **options) as consumer:
        assert await consumer.position(T0) == 1
        add_partitions(cluster, "orders", 3)
        added = cluster.topics["orders"][1][1:]
        for number, partition in enumerate(added, start=1):
            write(partition, b"%d" % number)
        records = await read(consumer, 2)
        assert sorted((r.partition, r.value) for r in records) == [(1, b"1"), (2, b"2")]
        assert consumer.assignment() == {TopicPartition("orders", n) for n in range(3)}
        assert await consumer.position(T0) == 1, "what was read keeps its position"


async def test_partitions_are_not_added_to_what_the_caller_has_assigned(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("orders")
    async with reader(cluster, "orders", metadata_max_age_ms=20) as consumer:
        await consumer.assign([T0])
        add_partitions(cluster, "orders", 2)
        write(cluster.partition("orders", 1), b"unread")
        for _ in range(500):
            if len(await consumer.partitions_for_topic("orders")) == 2:
                break
            await asyncio.sleep(0.01)
        assert consumer.assignment() == {T0}


async def test_by_default_only_new_records_are_read(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    write(p, b"old")
    async with reader(cluster, "orders", auto_offset_reset="latest") as consumer:
        assert await consumer.position(T0) == 1
        assert await consumer.getmany(timeout_ms=50) == {}
        write(p, b"new")
        assert [r.value for r in await read(consumer, 1)] == [b"new"]


async def test_max_records_cuts_a_batch_and_the_position_follows(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    write(p, *[b"%d" % i for i in range(10)])
    async with reader(cluster, "orders") as consumer:
        found = await consumer.getmany(timeout_ms=5000, max_records=4)
        assert [r.offset for r in found[T0]] == [0, 1, 2, 3]
        assert await consumer.position(T0) == 4
        found = await consumer.getmany(timeout_ms=5000)
        assert [r.offset for r in found[T0]] == [4, 5, 6, 7, 8, 9]


async def test_a_seek_into_a_batch_starts_there_even_during_a_long_poll(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, *[b"%d" % i for i in range(10)])
    async with reader(cluster, "orders", fetch_max_wait_ms=30_000) as consumer:
        await read(consumer, 10)
        consumer.seek(T0, 6)
        assert [r.offset for r in await read(consumer, 2)] == [6, 7]
        await consumer.seek_to_beginning(T0)
        assert [r.offset for r in await read(consumer, 1)] == [0]
        await consumer.seek_to_end()
        assert await consumer.position(T0) == 10


async def test_a_paused_partition_delivers_nothing_until_it_is_resumed(
    cluster: ScriptedCluster,
) -> None:
    first, second = cluster.create("orders", 2)
    write(first, b"a")
    write(second, b"b")
    async with reader(cluster, "orders", fetch_max_wait_ms=30_000) as consumer:
        consumer.pause(T0)
        assert consumer.paused() == {T0}
        assert [r.value for r in await read(consumer, 1)] == [b"b"]
        assert await consumer.getmany(timeout_ms=50) == {}
        consumer.resume(T0)
        found = await consumer.getmany(timeout_ms=5000)
        assert [r.value for r in found.get(T0, ())] == [b"a"]


async def test_a_change_of_leader_is_followed_after_the_position_is_validated(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    async with reader(cluster, "orders") as consumer:
        await read(consumer, 1)
        cluster.move_leader("orders", 0, 2)
        write(p, b"b")
        [record] = await read(consumer, 1)
        assert (record.value, record.leader_epoch) == (b"b", 1)
        assert "OffsetsForLeaderEpoch" in cluster.brokers[2].calls


async def test_a_dead_leader_is_left_for_the_next_one(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    async with reader(cluster, "orders") as consumer:
        await read(consumer, 1)
        await cluster.brokers[1].stop()
        cluster.move_leader("orders", 0, 2)
        write(p, b"b")
        assert [r.value for r in await read(consumer, 1)] == [b"b"]


async def test_dropped_streams_lose_and_repeat_nothing(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    values = [b"%d" % i for i in range(60)]
    seen: list[bytes | None] = []
    async with reader(cluster, "orders") as consumer:
        for index, value in enumerate(values):
            write(p, value)
            if index % 7 == 0:
                cluster.brokers[1].drop_streams()
            seen += [r.value for r in await read(consumer, 1)]
    assert seen == values


async def test_a_truncated_log_is_an_error_that_says_where_histories_part(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    write(p, b"b")
    async with reader(cluster, "orders", auto_offset_reset="error") as consumer:
        consumer.seek(T0, 0)
        await read(consumer, 2)
        p.truncate(1)
        cluster.move_leader("orders", 0, 2)
        write(p, b"other")
        with pytest.raises(LogTruncated, match="truncated below offset 2") as caught:
            await read(consumer, 1)
        assert caught.value.divergent_offset == 1
        with pytest.raises(LogTruncated):
            await consumer.getmany(timeout_ms=1000)
        consumer.seek(T0, 1)
        assert [r.value for r in await read(consumer, 1)] == [b"other"]


async def test_with_a_reset_policy_a_truncated_log_is_read_on_where_histories_part(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    write(p, b"b")
    async with reader(cluster, "orders") as consumer:
        await read(consumer, 2)
        p.truncate(1)
        cluster.move_leader("orders", 0, 2)
        write(p, b"other")
        [record] = await read(consumer, 1)
        assert (record.offset, record.value) == (1, b"other")


async def test_a_saved_position_with_its_epoch_is_not_read_over_by_a_deposed_leader(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    async with reader(cluster) as consumer:
        await consumer.assign([T0])
        consumer.seek(T0, 1, leader_epoch=1)
        assert await consumer.getmany(timeout_ms=100) == {}
        cluster.move_leader("orders", 0, 2)
        write(p, b"b")
        assert [r.value for r in await read(consumer, 1)] == [b"b"]


async def test_an_offset_out_of_range_is_an_error_or_a_reset(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    async with reader(cluster, "orders", auto_offset_reset="error") as consumer:
        consumer.seek(T0, 77)
        with pytest.raises(OffsetOutOfRange, match="offset 77 of orders:0"):
            await read(consumer, 1)
    async with reader(cluster, "orders") as consumer:
        consumer.seek(T0, 77)
        assert [r.offset for r in await read(consumer, 1)] == [0]


async def test_a_topic_created_anew_is_a_clear_error(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders", topic_id=b"1" * 16)
    write(p, b"a")
    async with reader(cluster, "orders") as consumer:
        await read(consumer, 1)
        cluster.delete("orders")
        [p] = cluster.create("orders", topic_id=b"2" * 16)
        write(p, b"new")
        with pytest.raises(TopicRecreated, match="created again"):
            await read(consumer, 1)
        await consumer.assign([T0])
        assert [r.value for r in await read(consumer, 1)] == [b"new"]


async def test_damaged_bytes_are_an_error_after_all_that_came_before(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    write(p, b"bb")
    write(p, b"c")
    base, data = p.batches[1]
    p.batches[1] = (base, data[:-2] + b"!!")
    async with reader(cluster, "orders") as consumer:
        found = await consumer.getmany(timeout_ms=5000)
        assert [r.value for r in found[T0]] == [b"a"]
        with pytest.raises(CorruptRecords, match="seek to 2 to skip it"):
            await read(consumer, 1)
        consumer.seek(T0, 2)
        assert [r.value for r in await read(consumer, 1)] == [b"c"]


async def test_a_batch_beyond_the_bound_is_read_by_a_consumer_with_a_higher_one(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    write(p, b"a")
    large = build_batch([(None, bytes(5000))], timestamp_ms=1, compression=Compression.ZSTD)
    assert p.append(large)[0] == 0
    write(p, b"c")
    async with reader(cluster, "orders", max_decompressed_bytes=5000) as consumer:
        assert [r.value for r in await read(consumer, 1)] == [b"a"]
        with pytest.raises(CorruptRecords, match=r"raise .*max_decompressed_bytes, or seek to 2"):
            await read(consumer, 1)
        consumer.seek(T0, 2)
        assert [r.value for r in await read(consumer, 1)] == [b"c"]
    async with reader(cluster, "orders", max_decompressed_bytes=5100) as consumer:
        assert [r.offset for r in await read(consumer, 3)] == [0, 1, 2]


@pytest.mark.parametrize("value", [0, -1, (1 << 30) + 1])
def test_a_bound_that_bounds_nothing_is_refused(value: int) -> None:
    for kind in (Consumer, Producer):
        with pytest.raises(ConfigurationError, match=f"max_decompressed_bytes={value} is"):
            kind(bootstrap_servers="127.0.0.1:1", max_decompressed_bytes=value)


async def test_what_is_read_ahead_is_bounded(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    for _ in range(200):
        write(p, b"x" * 1000)
    async with reader(
        cluster, "orders", max_partition_fetch_bytes=5000, prefetch_max_bytes=20_000
    ) as consumer:
        await read(consumer, 1)
        asked = 0
        while asked != len(cluster.brokers[1].fetches):
            asked = len(cluster.brokers[1].fetches)
            await asyncio.sleep(0.05)
        highest = max(
            wanted.fetch_offset
            for request in cluster.brokers[1].fetches
            for topic in request.topics
            for wanted in topic.partitions
        )
        assert highest < 40
        assert len(await read(consumer, 199)) == 199


async def test_offsets_and_times_are_looked_up(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    write(p, b"a", timestamp_ms=1000)
    write(p, b"b", timestamp_ms=2000)
    async with reader(cluster) as consumer:
        assert await consumer.beginning_offsets([T0]) == {T0: 0}
        assert await consumer.end_offsets([T0]) == {T0: 2}
        found = await consumer.offsets_for_times({T0: 1500})
        at = found[T0]
        assert at is not None
        assert (at.offset, at.timestamp) == (1, 2000)
        assert await consumer.offsets_for_times({T0: 3000}) == {T0: None}


async def test_what_is_not_there_is_refused_by_name(cluster: ScriptedCluster) -> None:
    cluster.create("orders")
    with pytest.raises(ConfigurationError, match="earliest, latest or error"):
        Consumer(bootstrap_servers="h:1", auto_offset_reset="begin")
    async with reader(cluster) as consumer:
        with pytest.raises(UnknownTopicOrPartition, match="there is no 3"):
            await consumer.assign([("orders", 3)])
        with pytest.raises(ConfigurationError, match="not assigned"):
            consumer.seek(T0, 1)
    with pytest.raises(ClientClosed):
        await consumer.getmany()


async def test_a_failed_start_leaves_no_task(cluster: ScriptedCluster) -> None:
    with pytest.raises(UnknownTopicOrPartition):
        await reader(cluster, "nosuch").start()
    names = [task.get_name() for task in asyncio.all_tasks()]
    assert [name for name in names if name.startswith("strandline")] == []


async def test_a_consumer_that_is_started_again_knows_nothing_of_what_it_read_before(
    cluster: ScriptedCluster,
) -> None:
    [partition] = cluster.create("orders")
    partition.append(build_batch([(None, b"%d" % n) for n in range(5)], timestamp_ms=1000))
    consumer = reader(cluster, "orders", auto_offset_reset="earliest")
    for _ in range(2):
        async with consumer:
            found = [(await consumer.getone()).offset for _ in range(3)]
            assert found == [0, 1, 2]


@pytest.mark.parametrize("group_id", ["g", None])
async def test_a_consumer_that_is_started_again_has_nothing_assigned(
    cluster: ScriptedCluster, group_id: str | None
) -> None:
    cluster.create("orders")
    consumer = reader(cluster, group_id=group_id)
    async with consumer:
        await consumer.assign([("orders", 0)])
    async with consumer:
        assert consumer.assignment() == frozenset()
        assert await consumer.getmany() == {}
