"""Arguments that would break a client or wait for its deadline are refused where they are given."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Admin, Consumer, NewTopic, Producer, Record, TopicPartition
from strandline.errors import ConfigurationError, CorruptRecords, UnknownTopicOrPartition
from strandline_proto.batch import build_batch
from support.scripted_broker import ScriptedCluster, scripted_cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(1) as scripted:
        scripted.create("orders", 3)
        yield scripted


def refused(name: str) -> Any:
    return pytest.raises(ConfigurationError, match=rf"^{name}\b")


async def test_an_error_of_one_partition_is_not_starved_by_the_others(
    cluster: ScriptedCluster,
) -> None:
    bad, *good = [cluster.partition("orders", p) for p in range(3)]
    batch = bytearray(build_batch([(None, b"bad")], timestamp_ms=1))
    batch[-1] ^= 1
    bad.append(build_batch([(None, b"first")], timestamp_ms=1))
    bad.batches.append((1, bytes(7) + b"\1" + bytes(batch[8:])))
    bad.end = 2
    for _ in range(300):
        for partition in good:
            partition.append(build_batch([(None, b"v")], timestamp_ms=1))
    async with Consumer(
        "orders", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        read = errors = 0
        others = [TopicPartition("orders", 1), TopicPartition("orders", 2)]
        async with asyncio.timeout(60):
            while read < 300:
                try:
                    found = await consumer.getmany(timeout_ms=None, max_records=1)
                except CorruptRecords:
                    errors += 1
                    found = await consumer.getmany(*others, timeout_ms=None, max_records=1)
                read += sum(map(len, found.values()))
        assert errors > 50, "it comes when it is its turn, and keeps coming until somebody seeks"
        await consumer.seek_to_end(("orders", 0))  # type: ignore[arg-type]


async def test_a_seek_beyond_any_offset_breaks_nothing(cluster: ScriptedCluster) -> None:
    cluster.partition("orders", 0).append(build_batch([(None, b"v")], timestamp_ms=1))
    async with Consumer(bootstrap_servers=cluster.bootstrap) as consumer:
        await consumer.assign([("orders", 0)])
        at: Any
        for at in (1 << 70, 1 << 63, -1, "0", 1.5, None, True):
            with refused("offset"):
                consumer.seek(("orders", 0), at)
        for epoch in (1 << 31, -2):
            with refused("leader_epoch"):
                consumer.seek(("orders", 0), 0, epoch)
        for time_ms in (-5, 1 << 63):
            with refused("timestamps"):
                await consumer.offsets_for_times({TopicPartition("orders", 0): time_ms})
        for timeout in (-1, float("nan"), "1"):
            with refused("timeout_ms"):
                await consumer.getmany(timeout_ms=timeout)  # type: ignore[arg-type]
        with refused("max_records"):
            await consumer.getmany(max_records=0)
        consumer.seek(("orders", 0), 0)
        assert (await consumer.getone()).value == b"v"


@pytest.mark.parametrize("chosen", [99, -1, "0", None, True, 3])
async def test_a_partitioner_names_a_partition(cluster: ScriptedCluster, chosen: Any) -> None:
    async with Producer(cluster.bootstrap, partitioner=lambda key, count: chosen) as producer:
        with pytest.raises(ConfigurationError, match="partitioner returned"):
            await producer.send("orders", b"v", key=b"k")
        with pytest.raises(ConfigurationError, match="partitioner returned"):
            await producer.send_many("orders", [(b"k", b"v")])
        assert (await producer.send_and_wait("orders", b"v")).offset == 0


async def test_a_record_is_refused_by_the_name_of_what_is_wrong(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap) as producer:
        wrong: Any
        for wrong in (-5, (1 << 63) - 1, 1 << 70, "now", 1.5):
            with refused("timestamp_ms"):
                await producer.send("orders", b"v", timestamp_ms=wrong)
            with refused("timestamp_ms"):
                await producer.send_many("orders", [b"v"], timestamp_ms=wrong)
            with refused("timestamp_ms"):
                await producer.send_many("orders", [Record(b"v", timestamp_ms=wrong)])
        for wrong in ("0", True, 1.0):
            with refused("partition"):
                await producer.send("orders", b"v", partition=wrong)
        with pytest.raises(UnknownTopicOrPartition):
            await producer.send("orders", b"v", partition=9)
        for wrong in ({"a": "1"}, [("a", "1")], [("a",)], [(b"a", b"1")], iter(["a", b"1"])):
            with refused("headers"):
                await producer.send("orders", b"v", headers=wrong)
        for wrong in (b"orders", 5, None):
            with refused("topic"):
                await producer.send(wrong, b"v")
            with refused("topic"):
                await producer.partitions_for(wrong)
        with pytest.raises(TypeError, match="value is bytes"):
            await producer.send_many("orders", [Record("text")])  # type: ignore[list-item]
        for wrong in (-1, "1"):
            with refused("timeout_ms"):
                await producer.flush(wrong)
        await producer.send_and_wait("orders", b"v", timestamp_ms=0, headers=[("a", None)])


ONE_AS_SEVERAL: list[Any] = ["abc", b"abc", 5]


async def test_a_bare_string_is_never_taken_for_several(cluster: ScriptedCluster) -> None:
    for name in "abc":
        cluster.create(name)
    wrong: Any
    async with (
        Admin(cluster.bootstrap) as admin,
        Producer(cluster.bootstrap) as producer,
        Consumer(bootstrap_servers=cluster.bootstrap) as consumer,
    ):
        for wrong in ONE_AS_SEVERAL:
            for call, name in (
                (admin.create_topics, "topics"),
                (admin.delete_topics, "topics"),
                (admin.describe_topics, "topics"),
                (admin.describe_replicas, "topics"),
                (lambda given: admin.elect_leaders(partitions=given), "partitions"),
                (admin.list_partition_reassignments, "partitions"),
                (admin.describe_configs, "resources"),
                (admin.create_partitions, "wanted"),
                (admin.delete_records, "before"),
                (admin.move_leaders, "leaders"),
                (admin.alter_partition_reassignments, "targets"),
                (lambda given: admin.alter_partition_reassignments({("a", 0): given}), "targets"),
                (admin.incremental_alter_configs, "changes"),
                (lambda given: admin.incremental_alter_configs({("topic", "a"): given}), "changes"),
                (consumer.assign, "partitions"),
                (consumer.end_offsets, "partitions"),
                (consumer.beginning_offsets, "partitions"),
                (consumer.seek_to_beginning, "partition"),
                (consumer.seek_to_end, "partition"),
                (consumer.getone, "partition"),
                (consumer.getmany, "partition"),
            ):
                with refused(name):
                    await call(wrong)
            for method in (consumer.pause, consumer.resume):
                with refused("partition"):
                    method(wrong)
        for single in (("ab", 0), TopicPartition("a", 0)):
            for call in (consumer.assign, consumer.end_offsets, admin.list_partition_reassignments):
                with refused("partitions"):
                    await call(single)  # type: ignore[arg-type]
        for wrong in ("abc", b"abc"):
            with refused("records"):
                await producer.send_many("orders", wrong)
        with refused("topics"):
            await admin.create_topics(NewTopic("x"))  # type: ignore[arg-type]
        assert await admin.list_topics() == ["a", "b", "c", "orders"]
