"""Replicas of three brokers over real gRPC and files, with the test as their controller."""

from __future__ import annotations

import asyncio
import errno
import threading
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc.aio
import pytest

from strandline_broker.hosts.fetching.fetcher import Fetcher
from strandline_broker.hosts.fetching.stream import FetchStreams
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.storage.log.log import Log
from strandline_proto.batch import build_batch, crc_matches, read_header
from strandline_proto.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidTimestamp,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RecordTooLarge,
    RequestTimedOut,
    UnknownLeaderEpoch,
    UnknownTopicId,
)
from strandline_proto.ids import LeaderEpoch
from strandline_proto.v1 import fetch_pb2, produce_pb2, services_pb2_grpc
from strandline_runtime.milliseconds import monotonic_ms, wall_ms
from support.disk import HalfFailing
from support.replica_nodes import TOPIC_ID, Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.hosts.common.fetch_messages import Key, Position
    from strandline_proto.ids import BrokerId

ALL = -1


@asynccontextmanager
async def three(tmp_path: Path, **settings: str) -> AsyncIterator[tuple[Node, Node, Node]]:
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(run_node(tmp_path / str(i), i, **settings))
            for i in (1, 2, 3)
        ]
        yield nodes[0], nodes[1], nodes[2]


def batch(value: bytes, *, producer_id: int = -1, sequence: int = -1, count: int = 1) -> bytes:
    return build_batch(
        [(None, value)] * count,
        timestamp_ms=1,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=sequence,
    )


class Client:
    """A produce and a fetch stream to one broker, spoken by hand."""

    def __init__(self, node: Node) -> None:
        self._channel = grpc.aio.insecure_channel(node.target)
        self.stub = services_pb2_grpc.BrokerServiceStub(self._channel)
        self.produce_stream = self.stub.Produce()
        self.fetch_stream = self.stub.Fetch()
        self._requests = 0

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.produce_stream.cancel()
        self.fetch_stream.cancel()
        await self._channel.close()

    async def send(
        self, records: bytes, *, acks: int = ALL, epoch: int | None = None, timeout_ms: int = 5000
    ) -> None:
        request = produce_pb2.ProduceRequest(acks=acks, timeout_ms=timeout_ms)
        data = request.topics.add(topic_id=TOPIC_ID).partitions.add(index=0, records=records)
        if epoch is not None:
            data.current_leader_epoch = epoch
        await self.produce_stream.write(request)

    async def answer(self) -> produce_pb2.PartitionProduceResult:
        async with asyncio.timeout(60):
            response = await self.produce_stream.read()
        assert isinstance(response, produce_pb2.ProduceResponse)
        return response.topics[0].partitions[0]

    async def produce(
        self, records: bytes, *, acks: int = ALL, epoch: int | None = None, timeout_ms: int = 5000
    ) -> produce_pb2.PartitionProduceResult:
        await self.send(records, acks=acks, epoch=epoch, timeout_ms=timeout_ms)
        return await self.answer()

    async def ask(
        self, offset: int, *, epoch: int = 0, last_epoch: int = -1, wait_ms: int = 100
    ) -> None:
        request = fetch_pb2.FetchRequest(
            session_epoch=self._requests, max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 20
        )
        request.replica_state.replica_id = -1
        request.topics.add(topic_id=TOPIC_ID).partitions.add(
            partition=0,
            current_leader_epoch=epoch,
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            log_start_offset=-1,
            partition_max_bytes=1 << 20,
        )
        self._requests += 1
        await self.fetch_stream.write(request)

    async def fetched(self) -> fetch_pb2.FetchPartitionResult | None:
        async with asyncio.timeout(60):
            response = await self.fetch_stream.read()
        assert isinstance(response, fetch_pb2.FetchResponse)
        assert response.error_code == 0, response.error_message
        return response.topics[0].partitions[0] if response.topics else None


def log_of(node: Node) -> bytes:
    log = node.partition.log
    return log.read(0, max_bytes=1 << 20, limit=log.log_end_offset).records


async def test_a_record_is_acknowledged_once_every_in_sync_replica_holds_it(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        result = await client.produce(batch(b"m"))
        assert (result.error_code, result.base_offset, result.leader_epoch) == (0, 0, 0)
        assert b.partition.log.log_end_offset == c.partition.log.log_end_offset == 1
        assert log_of(a) == log_of(b) == log_of(c)
        await eventually(lambda: b.partition.high_watermark == 1, "the watermark follows (I-13)")


async def test_batches_of_one_stream_are_appended_in_order_and_answered_as_they_commit(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        for i in range(50):
            await client.send(batch(b"%d" % i))
        assert [(await client.answer()).base_offset for _ in range(50)] == list(range(50))


async def test_a_silent_replica_withholds_the_acknowledgement(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, _c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b)
        result = await client.produce(batch(b"m"), timeout_ms=200)
        assert result.error_code == RequestTimedOut.code
        assert result.appended, "the outcome is unknown, and the answer says so (I-21)"
        assert a.partition.high_watermark == 0


async def test_a_write_below_min_insync_replicas_is_refused_before_the_append(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1,)), a, b, c)
        result = await client.produce(batch(b"m"))
        assert result.error_code == NotEnoughReplicas.code
        assert not result.appended
        assert a.partition.log.log_end_offset == 0


async def test_an_isr_that_shrinks_after_the_append_leaves_the_outcome_unknown(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (a, b, _c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b)
        await client.send(batch(b"m"), timeout_ms=400)
        await eventually(lambda: a.partition.log.log_end_offset == 1, "appended")
        await decide(state(1, epoch=0, isr=(1,), partition_epoch=1), a)
        result = await client.answer()
        assert result.error_code == NotEnoughReplicasAfterAppend.code
        assert result.appended


async def test_a_leader_that_was_paused_hears_its_followers_before_it_drops_one(
    tmp_path: Path,
) -> None:
    """I-96."""
    async with three(tmp_path) as (a, _b, _c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2)), a)
        await client.produce(batch(b"m"), acks=1)
        woken_ms = monotonic_ms(a.runtime.clock) + 60_000
        ticks = a.replicas.roles.ticks
        ticks.tick(woken_ms)
        assert a.proposals == [], "the first tick after a pause proves nothing"
        ticks.tick(woken_ms + 200)
        assert [m.broker_id for m in a.proposals[0].isr] == [1]


async def test_the_end_of_a_leadership_answers_its_waiters_as_unknown(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, _c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b)
        await client.send(batch(b"m"))
        await eventually(lambda: a.partition.log.log_end_offset == 1, "appended")
        await decide(state(2, epoch=1, isr=(1, 2, 3)), a, b)
        result = await client.answer()
        assert result.error_code == NotLeaderOrFollower.code
        assert result.appended, "P-25"


async def test_a_producer_is_told_who_leads_now(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(b) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        result = await client.produce(batch(b"m"))
        assert (result.error_code, result.appended) == (NotLeaderOrFollower.code, False)
        assert result.current_leader.leader_id == 1


@pytest.mark.parametrize(
    ("records", "epoch", "error"),
    [
        (batch(b"m")[:-1] + b"?", None, CorruptMessage),
        (batch(b"m")[:40], None, CorruptMessage),
        (batch(b"m" * 2000), None, RecordTooLarge),
        (batch(b"m"), 1, FencedLeaderEpoch),
        (batch(b"m"), 3, UnknownLeaderEpoch),
    ],
)
async def test_a_bad_produce_is_refused_and_leaves_no_trace(
    tmp_path: Path, records: bytes, epoch: int | None, error: type[Exception]
) -> None:
    async with three(tmp_path, message_max_bytes="1000") as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=2, isr=(1, 2, 3)), a, b, c)
        result = await client.produce(records, epoch=epoch)
        assert (result.error_code, result.appended) == (error.code, False)  # type: ignore[attr-defined]
        assert a.partition.log.log_end_offset == 0


async def test_a_repeated_batch_gets_its_first_offset_again_after_a_failover(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        async with Client(a) as client:
            await client.produce(batch(b"x", producer_id=7, sequence=0, count=3))
        await decide(state(2, epoch=1, isr=(2, 3)), b, c)
        async with Client(b) as client:
            again = await client.produce(batch(b"x", producer_id=7, sequence=0, count=3))
            assert (again.error_code, again.base_offset) == (0, 0)
            following = await client.produce(batch(b"y", producer_id=7, sequence=3))
            assert (following.error_code, following.base_offset) == (0, 3)


async def test_a_silent_producer_is_forgotten_on_every_replica(tmp_path: Path) -> None:
    settings = {
        "producer_id_expiration_ms": "50",
        "producer_id_expiration_check_interval_ms": "20",
    }
    async with three(tmp_path, **settings) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        assert (await client.produce(batch(b"x", producer_id=7, sequence=0))).error_code == 0
        for node in (a, b, c):
            await eventually(lambda n=node: len(n.partition.producers) == 0, "I-60")


async def test_an_altered_expiration_counts_for_producers_that_are_known(tmp_path: Path) -> None:
    settings = {"producer_id_expiration_check_interval_ms": "20"}
    async with three(tmp_path, **settings) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        assert (await client.produce(batch(b"x", producer_id=7, sequence=0))).error_code == 0
        assert len(a.partition.producers) == 1
        a.replicas.config.alter({"producer.id.expiration.ms": "50"})
        await eventually(lambda: len(a.partition.producers) == 0, "I-60")
        assert len(b.partition.producers) == 1


async def test_a_follower_whose_history_parts_cuts_back_to_where_it_agrees(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        async with Client(a) as client:
            await client.produce(batch(b"common"))
            await decide(state(2, epoch=1, isr=(2, 3)), b, c)
            # A does not know yet: it appends what nobody will ever have.
            await client.send(batch(b"lost"), acks=1)
            assert (await client.answer()).appended
        async with Client(b) as client:
            await client.produce(batch(b"kept-1"))
            await client.produce(batch(b"kept-2"))
        await decide(state(2, epoch=1, isr=(2, 3), partition_epoch=2), a)
        await eventually(lambda: a.partition.log.log_end_offset == 3, "A follows")
        assert log_of(a) == log_of(b) == log_of(c)


async def test_a_cut_that_fails_is_tried_again_and_holds_up_no_other_partition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream that its answer came by goes on."""
    cut, failures, sessions = Log.truncate_to, 2, 0
    run = FetchStreams.run

    def truncate_to(log: Log, offset: int) -> None:
        nonlocal failures
        if failures > 0:
            failures -= 1
            raise KafkaStorageError("what should stay does not read")
        cut(log, offset)

    async def counted(streams: FetchStreams, fetcher: Fetcher, leader: BrokerId) -> None:
        nonlocal sessions
        sessions += streams._config.current.node_id == 1
        await run(streams, fetcher, leader)

    monkeypatch.setattr(Log, "truncate_to", truncate_to)
    monkeypatch.setattr(FetchStreams, "run", counted)
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        async with Client(a) as client:
            await decide(state(2, epoch=1, isr=(2, 3)), b, c)
            await client.send(batch(b"lost"), acks=1)
            assert (await client.answer()).appended
        async with Client(b) as client:
            await client.produce(batch(b"kept"))
        await decide(state(2, epoch=1, isr=(2, 3), partition_epoch=2), a)
        await eventually(lambda: log_of(a) == log_of(b), "A follows")
        assert (failures, sessions) == (0, 1)


async def test_a_follower_reconciles_over_several_epochs(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        async with Client(a) as client:
            await client.produce(batch(b"common"))
            await decide(state(1, epoch=2, isr=(1,), min_insync=1), a)
            await client.produce(batch(b"two"), acks=1)
        await decide(state(2, epoch=1, isr=(2,), min_insync=1), b)
        async with Client(b) as client:
            await client.produce(batch(b"one"), acks=1)
            await decide(state(2, epoch=3, isr=(2,), min_insync=1), b)
            await client.produce(batch(b"three"), acks=1)
        # A has committed "two" by itself: whoever lets B lead says that this was unclean.
        unclean = LeaderEpoch(3)
        await decide(
            state(2, epoch=3, isr=(2,), partition_epoch=4, min_insync=1, unclean_epoch=unclean),
            a,
            c,
        )
        await eventually(lambda: a.partition.log.log_end_offset == 3, "A follows (P-2)")
        await eventually(lambda: c.partition.log.log_end_offset == 3, "C follows")
        assert log_of(a) == log_of(b) == log_of(c)


async def test_consumers_read_below_the_high_watermark_only(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b)
        await client.send(batch(b"m"), acks=1)
        await client.answer()
        await client.ask(0)
        found = await client.fetched()
        assert found is None or not found.records, "I-12"
        await client.ask(1, last_epoch=0, wait_ms=5000)
        await decide(state(1, epoch=0, isr=(1, 2, 3)), c, known=(a, b))
        await eventually(lambda: a.partition.high_watermark == 1, "committed")
        await client.ask(0)
        await client.fetched()
        found = await client.fetched()
        assert found is not None
        assert read_header(found.records).base_offset == 0


async def test_a_long_poll_ends_when_something_is_committed(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client, Client(a) as other:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await client.ask(0, wait_ms=9000)
        await other.produce(batch(b"m"))
        found = await client.fetched()
        assert found is not None
        assert len(found.records) > 0


async def test_a_consumer_out_of_range_or_of_another_history_is_told_so(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=3, isr=(1, 2, 3)), a, b, c)
        await client.produce(batch(b"m"))
        await client.ask(9, epoch=3)
        found = await client.fetched()
        assert found is not None
        assert found.error_code == OffsetOutOfRange.code
        await client.ask(1, epoch=3, last_epoch=2)
        found = await client.fetched()
        assert found is not None
        assert found.HasField("diverging_epoch") or found.error_code == OffsetOutOfRange.code


async def test_an_unknown_topic_id_is_refused_in_every_call(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        offsets = fetch_pb2.ListOffsetsRequest(replica_id=-1)
        offsets.topics.add(topic_id=b"?" * 16).partitions.add(partition=0, timestamp=-1)
        listed = await client.stub.ListOffsets(offsets)
        assert listed.topics[0].partitions[0].error_code == UnknownTopicId.code


async def test_a_range_ends_at_its_stop_and_never_passes_the_watermark(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        for i in range(6):
            await client.produce(batch(b"%d" % i, count=2))
        request = fetch_pb2.FetchRangeRequest(
            topic_id=TOPIC_ID,
            partition=0,
            current_leader_epoch=0,
            start_offset=3,
            stop_offset=7,
            max_message_bytes=1,
        )
        messages = [m async for m in client.stub.FetchRange(request)]
        assert [(m.base_offset, m.next_offset) for m in messages] == [(2, 4), (4, 6), (6, 8)]
        request.stop_offset = 13
        refused = [m async for m in client.stub.FetchRange(request)]
        assert refused[-1].error_code != 0
        assert not refused[-1].records


async def test_under_always_an_acknowledgement_means_on_disk_everywhere(tmp_path: Path) -> None:
    async with three(tmp_path, flush_policy="always") as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        for i in range(5):
            assert (await client.produce(batch(b"%d" % i))).error_code == 0
            for node in (a, b, c):
                assert node.partition.log.durable_offset >= i + 1, "I-93"


async def test_what_waits_for_its_flush_is_asked_for_right_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-75, I-88: a stream broke between the append and its flush, as another disk failed. The
    leader may hold the request without it for longer than this test waits.
    """
    asked: list[int] = []
    next_request = Fetcher.next_request

    def noted(fetcher: Fetcher, number: int) -> tuple[list[Key], dict[Key, Position]]:
        forgotten, positions = next_request(fetcher, number)
        asked.append(len(positions))
        return forgotten, positions

    monkeypatch.setattr(Fetcher, "next_request", noted)
    monkeypatch.setattr("strandline_broker.hosts.fetching.session.WAIT_MS_MAX", 200_000)
    waits = {"replica_fetch_wait_max_ms": "200000", "replica_lag_time_max_ms": "300000"}
    settings = {"flush_policy": "always", **waits}
    fs, dirs = HalfFailing(tmp_path / "2a"), f"{tmp_path}/2a,{tmp_path}/2b"
    goes_on = threading.Event()
    async with (
        run_node(tmp_path / "1", 1, **settings) as a,
        run_node(tmp_path / "2", 2, fs, **settings, log_dirs=dirs) as b,
    ):
        for index in (0, 1):
            await decide(replace(state(1, epoch=0, isr=(1, 2)), partition=index), a, b)
        bad, good = sorted(b.replicas.partitions.values(), key=lambda each: each.log.path)
        leaders = [a.replicas.partitions[each.key] for each in (bad, good)]

        def append() -> None:
            for each in leaders:
                check_leader(each, None).appends.append(batch(b"m"), acks=1, on_done=lambda _: None)

        append()
        await eventually(lambda: {each.high_watermark for each in leaders} == {1}, "both follow")
        fs.error, fs.calls = errno.EIO, frozenset({"fdatasync"})
        b.replicas.dirs.lane(good.log).thread.submit(goes_on.wait)
        try:
            asked.clear()
            append()
            await eventually(lambda: asked, "another stream begins")
            assert (asked, good.log.log_end_offset) == ([0], 2), "it may not be named yet"
        finally:
            goes_on.set()
        with suppress(TimeoutError):
            await eventually(lambda: leaders[1].high_watermark == 2, "it is committed")
        assert leaders[1].high_watermark == 2, "it is not asked for"


async def test_a_restarted_replica_has_the_same_log_and_producers(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await client.produce(batch(b"m", producer_id=7, sequence=0))
        await eventually(lambda: b.partition.high_watermark == 1, "the watermark follows")
        before, states = log_of(a), a.partition.producers.snapshot()
    async with run_node(tmp_path / "2", 2) as again:
        assert log_of(again) == before
        assert again.partition.high_watermark == 1, "from its checkpoint"
        assert again.partition.producers.snapshot() == states, "I-58"


async def test_a_leader_stamps_batches_where_the_topic_wants_its_clock(tmp_path: Path) -> None:
    async with (
        three(tmp_path, log_message_timestamp_type="LogAppendTime") as (a, b, c),
        Client(a) as client,
    ):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        before_ms = wall_ms(a.runtime.clock)
        sent = batch(b"m", producer_id=7, sequence=0, count=3)
        result = await client.produce(sent)
        stamped_ms = result.log_append_time_ms
        assert before_ms <= stamped_ms <= wall_ms(a.runtime.clock)
        for node in (a, b, c):
            header = read_header(log_of(node))
            assert header.is_log_append_time
            assert header.max_timestamp == stamped_ms
            assert crc_matches(log_of(node), 0, header)
            assert node.partition.log.offset_for_timestamp(stamped_ms) == (stamped_ms, 0, 0)
        again = await client.produce(sent)
        assert (again.base_offset, again.log_append_time_ms) == (0, stamped_ms), "I-55"
        assert (await client.produce(log_of(a))).error_code == InvalidTimestamp.code


async def test_a_producers_timestamps_stay_where_the_topic_wants_its_clock(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        result = await client.produce(batch(b"m"))
        assert result.log_append_time_ms == -1
        assert not read_header(log_of(a)).is_log_append_time


def snapshots_at(root: Path, offset: int) -> list[bytes]:
    """Of every broker below `root`."""
    return [path.read_bytes() for path in root.glob(f"*/*/{offset:020d}.snapshot")]


async def test_a_producer_goes_on_after_every_broker_was_stopped(tmp_path: Path) -> None:
    batches = [batch(b"%d" % i, producer_id=7, sequence=2 * i, count=2) for i in range(6)]
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        for one in batches:
            assert (await client.produce(one)).error_code == 0
        await eventually(lambda: c.partition.log.log_end_offset == 12, "the copy")
    snapshots = snapshots_at(tmp_path, 12)
    assert len(snapshots) == 3
    assert len(set(snapshots)) == 1, "I-58"
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=1, isr=(1, 2, 3)), a, b, c)
        last = await client.produce(batches[5], epoch=1)
        assert (last.error_code, last.base_offset) == (0, 10)
        for older in batches[:5]:
            again = await client.produce(older, epoch=1)
            assert (again.error_code, again.base_offset) == (0, -1), "I-55, the second half"
        assert a.partition.log.log_end_offset == 12, "I-59"
        following = await client.produce(batch(b"6", producer_id=7, sequence=12), epoch=1)
        assert (following.error_code, following.base_offset) == (0, 12)


async def test_a_cut_follower_has_the_producers_of_what_is_left(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        async with Client(a) as client:
            await client.produce(batch(b"common", producer_id=7, sequence=0))
            await decide(state(2, epoch=1, isr=(2, 3)), b, c)
            await client.send(batch(b"lost", producer_id=8, sequence=0), acks=1)
            assert (await client.answer()).appended
        assert len(a.partition.producers) == 2
        async with Client(b) as client:
            done = await client.produce(batch(b"kept", producer_id=9, sequence=0), epoch=1)
            assert done.error_code == 0
        await decide(state(2, epoch=1, isr=(2, 3)), a)
        await eventually(lambda: a.partition.log.log_end_offset == 2, "the leader's history")
        await eventually(
            lambda: a.partition.producers.snapshot() == b.partition.producers.snapshot(), "I-58"
        )


async def test_who_asks_again_is_told_the_watermark_again(tmp_path: Path) -> None:
    """A reader drops the answer to an older request of its own: it must not stay without it."""
    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await client.produce(batch(b"m"))
        for _ in range(2):
            await client.ask(1, wait_ms=50)
            told = await client.fetched()
            assert told is not None
            assert told.high_watermark == 1


async def test_a_state_that_is_not_rebuilt_after_a_cut_is_kept_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail() -> None:
        raise KafkaStorageError("the disk is full")

    async with three(tmp_path) as (a, b, c), Client(a) as client:
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        for sequence in range(3):
            await client.produce(batch(b"x", producer_id=7, sequence=sequence))
        partition = a.partition
        with monkeypatch.context() as patch:
            patch.setattr(partition, "rebuild_producers", fail)
            async with partition.gate:
                with pytest.raises(KafkaStorageError):
                    await partition.truncate(2)
        assert partition.log.log_end_offset == 2
    assert snapshots_at(tmp_path, 2) == []
    async with run_node(tmp_path / "1", 1) as again:
        (producer,) = again.partition.producers.snapshot()
        assert producer.batches[-1].last_offset == 1, "I-58"
