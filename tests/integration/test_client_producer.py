"""The producer against scripted brokers: order, retries, failover, honest errors, bounds."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from strandline import Producer, Record
from strandline._net.arguments import REQUEST_BYTES_MAX
from strandline._producer.accumulator import RECORD_OVERHEAD
from strandline.errors import (
    BufferFull,
    ClientClosed,
    ConfigurationError,
    DeliveryTimedOut,
    NoBrokerReachable,
    NotEnoughReplicas,
    OutcomeUnknown,
    RecordTooLarge,
    SendManyFailed,
    UnknownTopicOrPartition,
)
from strandline.producer import sender_of
from strandline_proto import errors
from strandline_proto.batch import raw_records, read_header
from strandline_proto.decompression import Bound
from strandline_proto.partitioner import partition_for
from strandline_runtime.real import client_runtime
from support.processes import REFUSED_CONNECTION
from support.promises import kept_within
from support.replica_nodes import eventually
from support.scripted_admin import add_partitions
from support.scripted_broker import ScriptedCluster, scripted_cluster
from support.scripted_log import Act

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from strandline._core.cluster_view import Changes


@pytest_asyncio.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    async with scripted_cluster(3) as scripted:
        yield scripted


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % i for i in range(count)]


async def test_an_awaited_record_is_acknowledged_where_it_is(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap) as producer:
        first = await producer.send_and_wait("orders", b"a", key=b"k", timestamp_ms=77)
        second = await producer.send_and_wait("orders", b"b", headers=(("h", b"x"), ("n", None)))
    assert (first.topic, first.partition, first.offset, first.timestamp) == ("orders", 0, 0, 77)
    assert second.offset == 1
    records = p.records()
    assert (records[0].key, records[0].value, records[0].timestamp) == (b"k", b"a", 77)
    assert records[1].headers == (("h", b"x"), ("n", None))


async def test_pipelined_records_keep_their_order_over_lost_answers_and_dropped_streams(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    p.acts.extend(
        [
            Act(append=True),
            Act(append=True, drop_stream=True),
            Act(append=False, drop_stream=True),
            Act(code=errors.NotLeaderOrFollower.code),
            Act(append=True, code=errors.RequestTimedOut.code),
        ]
    )
    values = numbered(2000)
    async with Producer(cluster.bootstrap, batch_size=1000) as producer:
        futures = [await producer.send("orders", value) for value in values]
        acknowledged = await asyncio.gather(*futures)
    assert p.values() == values
    assert [m.offset for m in acknowledged] == list(range(2000))


async def test_a_change_of_leader_costs_little_and_loses_nothing() -> None:
    async def change() -> float:
        async with scripted_cluster() as cluster:
            [p] = cluster.create("orders")
            async with Producer(cluster.bootstrap) as producer:
                await producer.send_and_wait("orders", b"0")
                await cluster.brokers[1].stop()
                loop = asyncio.get_running_loop()
                loop.call_later(0.1, cluster.move_leader, "orders", 0, 2)
                started = loop.time()
                moved = await producer.send_and_wait("orders", b"1")
                taken_s = loop.time() - started
            assert moved.leader_epoch == 1
            assert p.values() == [b"0", b"1"]
            return taken_s

    await kept_within(1.0, change)


async def test_a_paused_leader_does_not_hold_records_once_another_leads(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0")
        cluster.brokers[1].pause()
        under_way = await producer.send("orders", b"1")
        asyncio.get_running_loop().call_later(0.05, cluster.move_leader, "orders", 0, 3)
        async with asyncio.timeout(60):
            assert (await under_way).leader_epoch == 1
        cluster.brokers[1].resume()
    assert p.values() == [b"0", b"1"]


async def test_a_timeout_names_its_cause_and_that_nothing_was_written(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    refusal = Act(code=errors.NotEnoughReplicas.code, message="orders:0 has ISR {1}, needs 2")
    p.acts.extend([refusal] * 200)
    async with Producer(cluster.bootstrap, delivery_timeout_ms=2000) as producer:
        with pytest.raises(DeliveryTimedOut, match=r"ISR \{1\}, needs 2") as caught:
            await producer.send_and_wait("orders", b"x")
        assert isinstance(caught.value.cause, NotEnoughReplicas)
        assert not caught.value.may_have_been_written
        p.acts.clear()
        await producer.send_and_wait("orders", b"y")
    assert p.values() == [b"y"]


async def test_an_answer_that_never_comes_is_an_unknown_outcome_and_the_next_record_goes_on(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    p.acts.append(Act(append=True, answer=False))
    async with Producer(cluster.bootstrap, delivery_timeout_ms=2000) as producer:
        with pytest.raises(DeliveryTimedOut) as caught:
            await producer.send_and_wait("orders", b"x")
        assert caught.value.may_have_been_written
        await producer.send_and_wait("orders", b"y")
    assert p.values() == [b"x", b"y"]
    assert len(cluster.identity_requests) == 2, "the second is the bump (KIP-360)"


async def test_without_idempotence_a_lost_answer_is_never_sent_again(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    p.acts.append(Act(append=True, drop_stream=True))
    async with Producer(cluster.bootstrap, acks=1) as producer:
        with pytest.raises(OutcomeUnknown) as caught:
            await producer.send_and_wait("orders", b"x")
        assert caught.value.may_have_been_written
        assert (await producer.send_and_wait("orders", b"y")).offset == 1
    assert p.values() == [b"x", b"y"]
    assert cluster.identity_requests == []


async def test_acks_0_promises_nothing_and_says_so(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap, acks=0) as producer:
        sent = await producer.send_and_wait("orders", b"x")
        assert sent.offset == -1
        async with asyncio.timeout(60):
            await p.changed.wait() if not p.batches else None
    assert p.values() == [b"x"]


async def test_acks_0_finds_a_new_leader_although_no_answer_names_it(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap, acks=0) as producer:
        await producer.send_and_wait("orders", b"x")
        cluster.move_leader("orders", 0, 2)
        async with asyncio.timeout(60):
            while p.values()[-1:] != [b"y"]:
                with suppress(OutcomeUnknown):  # it was under way as the stream ended
                    await producer.send_and_wait("orders", b"y")


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_codec_arrives_whole(cluster: ScriptedCluster, codec: str) -> None:
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap, compression_type=codec) as producer:
        await producer.send_many("orders", [b"value " * 100] * 50)
    assert p.values() == [b"value " * 100] * 50
    assert sum(len(data) for _, data in p.batches) < 50 * 600


async def test_send_many_gives_one_answer_with_the_ranges(cluster: ScriptedCluster) -> None:
    partitions = cluster.create("orders", 3)
    values = numbered(20_000)
    async with Producer(cluster.bootstrap, batch_size=8192) as producer:
        result = await producer.send_many("orders", iter(values))
    assert (result.records, result.acknowledged, result.failed, result.unknown) == (
        20_000,
        20_000,
        0,
        0,
    )
    assert sum(r.count for r in result.ranges) == 20_000
    assert sorted(v for p in partitions for v in p.values() if v is not None) == values
    for r in result.ranges:
        assert r.end - r.start == r.count
        assert partitions[r.partition].end >= r.end


async def test_send_many_takes_pairs_and_whole_records_and_keeps_keys_together(
    cluster: ScriptedCluster,
) -> None:
    partitions = cluster.create("orders", 3)
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_many("orders", [(b"k%d" % (i % 10), b"%d" % i) for i in range(100)])
        await producer.send_many(
            "orders",
            [Record(value=b"r", key=None, headers=(("h", b"1"),), timestamp_ms=5, partition=2)],
        )
    homes: dict[bytes | None, set[int]] = {}
    for index, p in enumerate(partitions):
        for r in p.records():
            homes.setdefault(r.key, set()).add(index)
    assert all(len(home) == 1 for home in homes.values())
    last = partitions[2].records()[-1]
    assert (last.value, last.timestamp, last.headers) == (b"r", 5, (("h", b"1"),))


@pytest.mark.parametrize("kind", [errors.InvalidTimestamp, errors.InvalidRecord])
async def test_what_a_broker_finds_wrong_in_records_has_a_type(
    cluster: ScriptedCluster, kind: type[errors.WireError]
) -> None:
    [p] = cluster.create("orders")
    p.acts.append(Act(code=kind.code, message="record 3 of the batch has offset delta 7"))
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(kind, match="record 3 of the batch") as caught:
            await producer.send_and_wait("orders", b"v")
        assert not caught.value.retriable
        await producer.send_and_wait("orders", b"w")
    assert p.values() == [b"w"]


async def test_send_many_that_fails_in_part_says_how_many_and_which(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    p.acts.append(Act(code=errors.InvalidRecord.code, message="not like this"))
    async with Producer(cluster.bootstrap, batch_size=1000) as producer:
        with pytest.raises(SendManyFailed, match="were not written") as caught:
            await producer.send_many("orders", numbered(500))
    result = caught.value.result
    assert result.failed > 0
    assert result.unknown == 0
    assert result.acknowledged == 500 - result.failed == len(p.values())
    assert not caught.value.may_have_been_written
    assert p.values() == numbered(500)[result.failed :]


async def test_an_iterable_that_raises_leaves_its_first_records_accounted_for(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")

    def broken() -> Iterator[bytes]:
        yield from numbered(10)
        raise ValueError("no more")

    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(ValueError, match="no more") as caught:
            await producer.send_many("orders", broken())
        assert "10 records" in caught.value.__notes__[0]
        await producer.flush()
    assert p.values() == numbered(10)


async def test_a_full_buffer_makes_senders_wait_and_then_gives_up_honestly(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    p.acts.extend([Act(code=errors.NotEnoughReplicas.code)] * 500)
    async with Producer(cluster.bootstrap, buffer_memory=1000) as producer:
        held = await producer.send("orders", b"x" * 900)
        sender = sender_of(producer)[0]
        # The record that is held keeps its own deadline, which is later.
        sender.options = replace(sender.options, delivery_timeout_ms=200)
        with pytest.raises(BufferFull) as caught:
            await producer.send("orders", b"y" * 900)
        assert not caught.value.may_have_been_written
        p.acts.clear()
        await held
        await producer.send_and_wait("orders", b"z" * 900)
    assert p.values() == [b"x" * 900, b"z" * 900]


async def test_room_that_its_first_in_line_does_not_take_is_the_nexts(
    cluster: ScriptedCluster,
) -> None:
    """With nothing under way, no answer would come that has anybody look again."""
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap, buffer_memory=1000) as producer:
        await producer.send_and_wait("orders", b"0")
        cluster.brokers[p.leader].pause()
        held = await producer.send("orders", b"x" * 900)
        refused = asyncio.create_task(producer.send("orders", b"y" * 900, partition=7))
        behind = asyncio.create_task(producer.send_and_wait("orders", b"z" * 900))
        sender = sender_of(producer)[0]
        await eventually(lambda: len(sender._space) == 2, "both wait for room")
        cluster.brokers[p.leader].resume()
        with pytest.raises(UnknownTopicOrPartition):
            await refused
        await held
        assert (await asyncio.wait_for(behind, 60)).offset == 2


async def test_room_that_was_handed_out_is_nobody_elses(cluster: ScriptedCluster) -> None:
    """Whoever hears of the very answer that made room is there before who has waited for it."""
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap, buffer_memory=1000) as producer:
        sender, most = sender_of(producer)[0], 0
        await producer.send_and_wait("orders", b"0")
        cluster.brokers[p.leader].pause()

        async def send_twice() -> None:
            nonlocal most
            for _ in range(2):
                held = await producer.send("orders", b"x" * 900)
                most = max(most, sender.buffered)
                await held

        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(send_twice())
            await eventually(lambda: len(sender._space) == 2, "the others wait for room")
            cluster.brokers[p.leader].resume()
        assert most <= 1000
        assert sender.buffered == 0


async def test_those_that_waited_for_a_topic_wait_for_room_too(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap, buffer_memory=1000) as producer:
        waiting = [asyncio.create_task(producer.send("late", b"x" * 900)) for _ in range(5)]
        await asyncio.sleep(0.05)
        [p] = cluster.create("late")
        cluster.brokers[p.leader].pause()
        sender = sender_of(producer)[0]
        await eventually(lambda: sender.buffered > 0, "the topic is there")
        assert sender.buffered <= 1000
        cluster.brokers[p.leader].resume()
        for handed_over in asyncio.as_completed(waiting):
            await (await handed_over)
            assert sender.buffered <= 1000


async def test_a_record_above_the_limit_is_refused_before_it_is_sent(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("orders")
    async with Producer(cluster.bootstrap, max_request_size=1000) as producer:
        with pytest.raises(RecordTooLarge, match="above max_request_size"):
            await producer.send("orders", b"x" * 1000)
        with pytest.raises(RecordTooLarge):
            await producer.send_many("orders", [b"ok", b"x" * 1000])


async def test_what_is_compressed_stays_within_what_readers_unpack(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    options: dict[str, Any] = {"max_decompressed_bytes": 2000, "linger_ms": 50}
    async with Producer(cluster.bootstrap, compression_type="zstd", **options) as producer:
        with pytest.raises(RecordTooLarge, match=r"max_decompressed_bytes \(2000\); raise it here"):
            await producer.send("orders", bytes(2000))
        await producer.send_many("orders", [bytes(400)] * 20)
    unpacked = Bound(2000)
    for _, data in p.batches:
        list(raw_records(data, read_header(data), unpacked))
    async with Producer(cluster.bootstrap, **options) as producer:
        await producer.send_and_wait("orders", bytes(2000))


async def test_an_unknown_topic_is_a_clear_error_in_good_time(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.bootstrap) as producer, asyncio.timeout(60):
        with pytest.raises(UnknownTopicOrPartition, match="'nosuch' does not exist"):
            await producer.send("nosuch", b"x")
        cluster.create("orders")
        with pytest.raises(UnknownTopicOrPartition, match="there is no 5"):
            await producer.send("orders", b"x", partition=5)
        assert await producer.partitions_for("orders") == {0}


async def test_who_gives_up_a_topic_does_not_have_it_forgotten_for_who_still_waits(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("strandline._net.cluster.UNKNOWN_TOPIC_S", float("inf"))
    async with Producer(cluster.bootstrap) as producer:
        names = sender_of(producer)[0].cluster._names
        first = asyncio.create_task(producer.partitions_for("late"))
        await eventually(lambda: "late" in names, "the first asks for it")
        second = asyncio.create_task(producer.partitions_for("late"))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        await eventually(lambda: "late" in names, "the second asks for it again")
        cluster.create("late")
        assert await second == {0}


async def test_a_topic_is_forgotten_when_the_last_who_waits_gives_it_up(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Producer(cluster.bootstrap) as producer:
        names = sender_of(producer)[0].cluster._names
        monkeypatch.setattr("strandline._net.cluster.UNKNOWN_TOPIC_S", float("inf"))
        first, last = [asyncio.create_task(producer.partitions_for("never")) for _ in range(2)]
        await eventually(lambda: "never" in names, "the first asks for it")
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        await eventually(lambda: "never" in names, "the last asks for it again")
        monkeypatch.setattr("strandline._net.cluster.UNKNOWN_TOPIC_S", 0.0)
        with pytest.raises(UnknownTopicOrPartition):
            await last
        assert "never" not in names


async def test_partitions_that_are_added_get_their_share_of_the_keys(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("orders")
    keys = [b"key-%d" % n for n in range(40)]
    async with Producer(cluster.bootstrap, metadata_max_age_ms=20) as producer:
        assert (await producer.send_and_wait("orders", b"v", keys[0])).partition == 0
        add_partitions(cluster, "orders", 3)
        for _ in range(500):
            if len(await producer.partitions_for("orders")) == 3:
                break
            await asyncio.sleep(0.01)
        for key in keys:
            sent = await producer.send_and_wait("orders", b"v", key)
            assert sent.partition == partition_for(key, 3)


async def test_what_has_waited_for_room_goes_to_the_topic_as_it_is_then(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders", topic_id=b"1" * 16)
    async with Producer(cluster.bootstrap, buffer_memory=1000, batch_size=1000) as producer:
        await producer.send_and_wait("orders", b"0")
        p.acts.extend([Act(code=errors.NotEnoughReplicas.code)] * 500)
        many = asyncio.create_task(producer.send_many("orders", [b"x" * 600] * 3))
        sender = sender_of(producer)[0]
        await eventually(lambda: len(sender._space) > 0, "it waits for room")
        cluster.delete("orders")
        [new] = cluster.create("orders", topic_id=b"2" * 16)
        result = await asyncio.wait_for(many, 60)
        assert result.acknowledged == len(new.values()) == 3


async def test_flush_waits_for_records_of_a_topic_that_came_back(cluster: ScriptedCluster) -> None:
    [p] = cluster.create("orders")
    async with Producer(
        cluster.bootstrap, metadata_max_age_ms=50, enable_idempotence=False
    ) as producer:
        await producer.send_and_wait("orders", b"0")
        kept = cluster.topics["orders"]
        cluster.delete("orders")
        assert producer._sender is not None
        gone = asyncio.Event()

        def look(changes: Changes) -> None:
            if changes.gone:
                gone.set()

        producer._sender.cluster.watchers.append(look)
        async with asyncio.timeout(60):
            await gone.wait()
        cluster.topics["orders"] = kept
        cluster.metadata_offset += 1
        sent = await producer.send("orders", b"1")
        await producer.flush()
        assert sent.done()
    assert p.values() == [b"0", b"1"]


class CountedChance(random.Random):
    drawn = 0

    def random(self) -> float:
        CountedChance.drawn += 1
        return super().random()


async def test_a_record_that_succeeds_draws_no_random_number(cluster: ScriptedCluster) -> None:
    cluster.create("orders")
    runtime = replace(client_runtime(), rng=CountedChance(1))
    async with Producer(cluster.bootstrap, runtime=runtime) as producer:
        await producer.send_and_wait("orders", b"0")
        before = CountedChance.drawn
        for _ in range(20):
            await producer.send_and_wait("orders", b"1")
        assert CountedChance.drawn == before


async def test_no_broker_is_an_error_that_names_who_was_asked_and_leaves_no_task() -> None:
    producer = Producer(REFUSED_CONNECTION, connect_timeout_ms=300)
    with pytest.raises(NoBrokerReachable, match=f"asked {REFUSED_CONNECTION}"):
        await producer.start()
    assert not any(task.get_name().startswith("strandline") for task in asyncio.all_tasks())
    with pytest.raises(ClientClosed):
        await producer.send("orders", b"x")


async def test_records_for_a_dead_cluster_were_certainly_not_written(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("orders")
    async with Producer(cluster.bootstrap, delivery_timeout_ms=2000) as producer:
        await producer.partitions_for("orders")
        for broker in cluster.brokers.values():
            await broker.stop()
        with pytest.raises(DeliveryTimedOut) as caught:
            await producer.send_and_wait("orders", b"x")
    assert not caught.value.may_have_been_written
    assert "UNAVAILABLE" in str(caught.value)


async def test_a_cancelled_send_and_wait_is_delivered_and_flush_waits_for_it(
    cluster: ScriptedCluster,
) -> None:
    [p] = cluster.create("orders")
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"0")
        cluster.brokers[1].pause()
        sending = asyncio.create_task(producer.send_and_wait("orders", b"1"))
        await eventually(lambda: sender_of(producer)[0].buffered > 0, "it is handed over")
        sending.cancel()
        await asyncio.wait([sending])
        assert sending.cancelled()
        cluster.brokers[1].resume()
        await producer.flush()
        assert p.values() == [b"0", b"1"]


async def test_a_refused_identity_is_asked_for_again(cluster: ScriptedCluster) -> None:
    cluster.create("orders")
    cluster.refuse_identity = 3
    async with Producer(cluster.bootstrap) as producer:
        await producer.send_and_wait("orders", b"x")
    assert len(cluster.identity_requests) == 4


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"acks": 2}, "acks=2"),
        ({"acks": 1, "enable_idempotence": True}, "needs acks='all'"),
        ({"max_in_flight": 6}, "at most 5"),
        ({"compression_type": "brotli"}, "none, gzip, snappy, lz4, zstd"),
        ({"linger_ms": -1}, "linger_ms"),
        ({"bootstrap_servers": "localhost"}, "host:port"),
        ({"bootstrap_servers": ""}, "empty"),
    ],
)
def test_options_that_contradict_are_refused_by_name(options: dict[str, object], word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        Producer(**{"bootstrap_servers": "h:1", **options})  # type: ignore[arg-type]


async def test_text_is_refused_with_advice(cluster: ScriptedCluster) -> None:
    cluster.create("orders")
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(TypeError, match="encode it"):
            await producer.send("orders", "text")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="encode it"):
            await producer.send_many("orders", ["text"])  # type: ignore[list-item]


async def test_the_largest_record_that_the_options_admit_is_carried(
    cluster: ScriptedCluster,
) -> None:
    cluster.create("large")
    size = REQUEST_BYTES_MAX - RECORD_OVERHEAD
    async with Producer(
        cluster.bootstrap,
        max_request_size=REQUEST_BYTES_MAX,
        max_decompressed_bytes=REQUEST_BYTES_MAX,
        compression_type="snappy",  # it adds most to what does not compress
        delivery_timeout_ms=60_000,
    ) as producer:
        sent = await producer.send_and_wait("large", random.Random(1).randbytes(size))
        assert sent.offset == 0
        with pytest.raises(RecordTooLarge):
            await producer.send("large", bytes(size + 1))
