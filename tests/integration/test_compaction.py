"""Compacted topics on replicas over real gRPC and files: the cleaner at work in running brokers."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import grpc.aio

from strandline_proto.batch import Compression, build_batch, read_header
from strandline_proto.errors import CorruptMessage, InvalidRecord
from strandline_proto.v1 import produce_pb2, services_pb2_grpc
from support.compaction import records_of, state_of
from support.replica_nodes import TOPIC_ID, Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

COMPACT = {
    "log_cleanup_policy": "compact",
    "log_segment_bytes": "2000",
    "log_cleaner_backoff_ms": "20",
    "log_cleaner_min_cleanable_ratio": "0.01",
    "log_cleaner_delete_retention_ms": "0",
    "log_flush_interval_ms": "10",
    "log_segment_delete_delay_ms": "0",
    "replica_high_watermark_checkpoint_interval_ms": "20",
}


@asynccontextmanager
async def nodes(tmp_path: Path, count: int = 3, **settings: str) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                run_node(tmp_path / str(i), i, **{**COMPACT, **settings})
            )
            for i in range(1, count + 1)
        ]


class Producer:
    """Keyed records, one batch at a time, and what a reader should have at the end."""

    def __init__(self, node: Node, producer_id: int = 9) -> None:
        self._channel = grpc.aio.insecure_channel(node.target)
        self._stream = services_pb2_grpc.BrokerServiceStub(self._channel).Produce()
        self._producer_id = producer_id
        self._rng = random.Random(producer_id)
        self._sequence = 0
        self.model: dict[bytes | None, bytes] = {}

    async def __aenter__(self) -> Producer:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stream.cancel()
        await self._channel.close()

    async def send(self, records: bytes, *, acks: int = -1) -> produce_pb2.PartitionProduceResult:
        request = produce_pb2.ProduceRequest(acks=acks, timeout_ms=5000)
        request.topics.add(topic_id=TOPIC_ID).partitions.add(index=0, records=records)
        return (await self.exchange(request)).topics[0].partitions[0]

    async def exchange(self, request: produce_pb2.ProduceRequest) -> produce_pb2.ProduceResponse:
        await self._stream.write(request)
        async with asyncio.timeout(60):
            response = await self._stream.read()
        assert isinstance(response, produce_pb2.ProduceResponse)
        return response

    async def some(self, batches: int, keys: int = 20) -> None:
        for _ in range(batches):
            content: list[tuple[bytes | None, bytes | None]] = []
            for _ in range(self._rng.randint(1, 8)):
                key = b"key-%d" % self._rng.randrange(keys)
                dead = self._rng.random() < 0.2
                content.append((key, None if dead else self._rng.randbytes(20)))
            sent = build_batch(
                content,
                timestamp_ms=1000,
                compression=self._rng.choice([Compression.NONE, Compression.LZ4]),
                producer_id=self._producer_id,
                producer_epoch=0,
                base_sequence=self._sequence,
            )
            answer = await self.send(sent)
            assert answer.error_code == 0, answer.error_message
            self._sequence += len(content)
            for name, last in content:
                if last is None:
                    self.model.pop(name, None)
                else:
                    self.model[name] = last


def is_compacted(node: Node, keys: int = 20) -> bool:
    """Below the active segment no key has two records, and only live ones are left of many."""
    log = node.partition.log
    below = log.segments[-1].base_offset
    cleaned = [r.key for r in records_of(log) if r.offset < log.cleaned_to]
    return log.cleaned_to == below > 0 and len(cleaned) == len(set(cleaned)) <= keys


async def test_every_replica_is_compacted_and_says_the_same(tmp_path: Path) -> None:
    async with nodes(tmp_path) as (a, b, c), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await producer.some(150)
        end = a.partition.log.log_end_offset
        for node in (a, b, c):
            await eventually(lambda: is_compacted(node), "compacted")  # noqa: B023 - at once
            assert node.partition.log.log_end_offset == end
            assert state_of(records_of(node.partition.log)) == producer.model


async def test_compaction_goes_on_while_records_come_and_leaders_change(tmp_path: Path) -> None:
    async with nodes(tmp_path) as (a, b, c):
        model: dict[bytes | None, bytes] = {}
        for epoch, leader in enumerate((a, b, c, a)):
            await decide(state(leader.broker_id, epoch=epoch, isr=(1, 2, 3)), a, b, c)
            async with Producer(leader, producer_id=epoch) as producer:
                producer.model = model
                await producer.some(60)
        for node in (a, b, c):
            await eventually(lambda: is_compacted(node), "compacted")  # noqa: B023 - at once
            assert state_of(records_of(node.partition.log)) == model


async def test_a_new_follower_copies_a_compacted_log_and_keeps_it_over_a_crash(
    tmp_path: Path,
) -> None:
    async with nodes(tmp_path, 2) as (a, b):
        await decide(state(1, epoch=0, isr=(1, 2)), a, b)
        async with Producer(a) as producer:
            await producer.some(150)
            await eventually(lambda: is_compacted(a), "compacted")
            # It never cleans or checkpoints itself, so what it has is what it copied.
            quiet = {
                **COMPACT,
                "log_cleaner_enable": "false",
                "log_flush_offset_checkpoint_interval_ms": "1000000",
                "replica_high_watermark_checkpoint_interval_ms": "1000000",
            }
            async with run_node(tmp_path / "3", 3, **quiet) as late:
                await decide(state(1, epoch=0, partition_epoch=1, isr=(1, 2)), a, b, late)
                end = a.partition.log.log_end_offset
                await eventually(lambda: late.partition.log.log_end_offset == end, "copied")
                copied = records_of(late.partition.log)
                assert state_of(copied) == producer.model
                assert len(copied) < 150
                (tmp_path / "3" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
            (tmp_path / "3" / ".kafka_cleanshutdown").unlink(missing_ok=True)
            (tmp_path / "3" / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
            async with run_node(tmp_path / "3", 3, **quiet) as again:
                assert records_of(again.partition.log) == copied


async def test_a_record_without_a_key_is_refused_with_the_remedy(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        keyless: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v"), (None, b"v")]
        for compression in (Compression.NONE, Compression.ZSTD):
            refused = await producer.send(
                build_batch(keyless, timestamp_ms=1, compression=compression)
            )
            assert refused.error_code == InvalidRecord.code
            assert "orders:0 is compacted" in refused.error_message
            assert "record 1 of the batch has none: give it a key" in refused.error_message
        assert a.partition.log.log_end_offset == 0
        large: list[tuple[bytes | None, bytes | None]] = [(b"k", b"v" * 100)] * 300
        refused = await producer.send(build_batch([*large, (None, b"v")], timestamp_ms=1))
        assert "record 300 of the batch has none" in refused.error_message
        for content in (keyless[:1], large):
            assert (await producer.send(build_batch(content, timestamp_ms=1))).error_code == 0
        assert a.partition.log.log_end_offset == 301


async def test_a_partition_named_twice_has_both_its_batches_looked_at(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        request = produce_pb2.ProduceRequest(acks=-1, timeout_ms=5000)
        partitions = request.topics.add(topic_id=TOPIC_ID).partitions
        for key in (None, b"k"):
            batch = build_batch([(key, b"v")], timestamp_ms=1, compression=Compression.GZIP)
            partitions.add(index=0, records=batch)
        response = await producer.exchange(request)
        first, second = response.topics[0].partitions
        assert (first.error_code, second.error_code) == (InvalidRecord.code, 0)
        assert [r.key for r in records_of(a.partition.log)] == [b"k"]


async def test_a_damaged_batch_is_refused_as_such_in_a_compacted_topic(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        for compression in (Compression.NONE, Compression.LZ4):
            batch = bytearray(build_batch([(b"k", b"v")], timestamp_ms=1, compression=compression))
            batch[-1] ^= 1
            refused = await producer.send(bytes(batch))
            assert refused.error_code == CorruptMessage.code
            assert "CRC-32C" in refused.error_message


async def test_a_producer_may_not_say_when_tombstones_go(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        from strandline_broker.storage.cleaner.rebuilt_batch import with_records
        from strandline_proto.batch import raw_records

        plain = build_batch([(b"k", None)], timestamp_ms=1)
        header = read_header(plain)
        _, marked = with_records(header, list(raw_records(plain, header)), delete_horizon_ms=1)
        refused = await producer.send(marked)
        assert (refused.error_code, a.partition.log.log_end_offset) == (InvalidRecord.code, 0)
        assert "delete horizon" in refused.error_message


async def test_a_log_that_cannot_be_cleaned_is_left_and_others_are_not(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        cleaner = a.replicas.upkeep.cleaner
        path = tmp_path / "1" / "orders-0" / "00000000000000000000.log"
        await producer.some(1)
        flipped = bytearray(path.read_bytes())
        flipped[70] ^= 1
        path.write_bytes(flipped)
        await producer.some(50)
        await eventually(lambda: a.partition in cleaner._uncleanable, "reported")
        await eventually(lambda: a.partition.log.damaged_ranges.entries, "marked as damaged")
        assert not list(path.parent.glob("*.cleaned")) + list(path.parent.glob("*.swap"))
        before = a.partition.log.log_end_offset
        await producer.some(10)
        assert a.partition.log.log_end_offset > before


SLOW = {"log_cleaner_io_max_bytes_per_second": "20000", "log_cleaner_io_buffer_size": "1000"}


async def test_a_cut_leaves_nothing_of_a_cleaning_that_is_under_way(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1, **SLOW) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        directory = tmp_path / "1" / "orders-0"
        await producer.some(100)
        await eventually(lambda: list(directory.glob("*.cleaned")), "a cleaning is under way")
        partition = a.partition
        # The cleaner rests between two steps for longer than the cut takes.
        a.replicas.config.alter({"log.cleaner.io.max.bytes.per.second": "1"})
        await asyncio.sleep(0.2)
        async with partition.gate:
            before = records_of(partition.log)
            await partition.truncate(before[-1].offset)
            assert not list(directory.glob("*.cleaned")) + list(directory.glob("*.swap"))
            kept = records_of(partition.log)
        assert kept
        assert kept == before[: len(kept)]
        assert partition.log.cleaned_to <= partition.log.log_end_offset


async def test_a_replica_that_goes_takes_its_cleaning_with_it(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1, **SLOW) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        directory = tmp_path / "1" / "orders-0"
        await producer.some(100)
        await eventually(lambda: list(directory.glob("*.cleaned")), "a cleaning is under way")
        partition = a.partition
        partition.stop_role("it goes")
        manager = a.replicas
        del manager.partitions[partition.key]
        await manager.logs.set_aside(partition)
        (aside,) = (tmp_path / "1").glob("orders-0.*-stray")
        assert not list(aside.glob("*.cleaned")) + list(aside.glob("*.swap"))
        assert not directory.exists()


async def test_the_cleaner_keeps_to_its_rate(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1, **SLOW, log_cleaner_enable="false") as (a,):
        cleaner, loop = a.replicas.upkeep.cleaner, asyncio.get_running_loop()
        begun = loop.time()
        for _ in range(3):
            await cleaner._pace(1000)
        assert loop.time() - begun >= 0.149


async def test_a_log_may_be_compacted_and_shortened_by_size(tmp_path: Path) -> None:
    both = {
        "log_cleanup_policy": "compact,delete",
        "log_retention_bytes": "4000",
        "log_retention_ms": "-1",
        "log_retention_check_interval_ms": "20",
    }
    async with nodes(tmp_path, 1, **both) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        # More keys than fit: what compaction keeps is too much for the size.
        await producer.some(300, keys=400)
        log = a.partition.log
        await eventually(lambda: log.log_start_offset > 0 and is_compacted(a, 400), "both")
        found = state_of(records_of(log))
        assert found
        assert all(producer.model.get(key) == value for key, value in found.items())


async def test_a_broker_with_its_cleaner_off_compacts_nothing(tmp_path: Path) -> None:
    async with nodes(tmp_path, 1, log_cleaner_enable="false") as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await producer.some(60)
        cleaner = a.replicas.upkeep.cleaner
        await cleaner.run()  # it ends at once
        assert a.partition.log.cleaned_to == 0
        log = a.partition.log
        await eventually(lambda: log.durable_offset == log.log_end_offset, "flushed")
        assert await cleaner.clean_next()
        assert is_compacted(a)


async def test_what_is_not_committed_is_not_compacted(tmp_path: Path) -> None:
    off = {"log_cleaner_enable": "false"}
    async with nodes(tmp_path, 2, **off) as (a, b), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), a, known=(b,))
        for i in range(60):
            sent = build_batch([(b"key", b"%d" % i * 30)], timestamp_ms=1000)
            assert (await producer.send(sent, acks=1)).error_code == 0
        log, cleaner = a.partition.log, a.replicas.upkeep.cleaner
        await eventually(lambda: log.durable_offset == log.log_end_offset, "flushed")
        assert a.partition.high_watermark == 0
        assert not await cleaner.clean_next()
        assert len(records_of(log)) == 60
        await decide(state(1, epoch=0, isr=(1, 2), replicas=(1, 2)), b, known=(a,))
        await eventually(lambda: a.partition.high_watermark == 60, "committed")
        assert await cleaner.clean_next()
        assert log.cleaned_to == log.segments[-1].base_offset


async def test_a_log_whose_times_cannot_be_read_is_left_and_the_broker_goes_on(
    tmp_path: Path,
) -> None:
    settings = {"log_cleaner_enable": "false", "log_cleaner_max_compaction_lag_ms": "1000000"}
    async with nodes(tmp_path, 1, **settings) as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await producer.some(60)
        log, cleaner = a.partition.log, a.replicas.upkeep.cleaner
        await eventually(lambda: log.durable_offset == log.log_end_offset, "flushed")
        log.open_segments.forget(log.segments[:-1])
        (tmp_path / "1" / "orders-0" / f"{0:020d}.log").write_bytes(b"")
        assert not await cleaner.clean_next()
        assert a.partition in cleaner._uncleanable
        await producer.some(1)


async def test_a_log_that_is_out_of_use_is_left_to_the_next_start(tmp_path: Path) -> None:
    """As after a compaction that a full disk has stopped half-way (I-73)."""
    async with nodes(tmp_path, 1, log_cleaner_enable="false") as (a,), Producer(a) as producer:
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await producer.some(60)
        log, cleaner = a.partition.log, a.replicas.upkeep.cleaner
        await eventually(lambda: log.durable_offset == log.log_end_offset, "flushed")
        log.state.unusable = "a compaction stopped half-way"
        assert not await cleaner.clean_next()
        log.state.unusable = None
        assert await cleaner.clean_next()
