"""Retention and DeleteRecords on the replicas of three brokers, over real gRPC and files."""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import grpc.aio
import pytest

from strandline_broker.hosts.disks.log_starts import LogStarts
from strandline_broker.hosts.replica.leading import check_leader
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_broker.storage.segment.damaged_ranges import DamagedRange
from strandline_proto.batch import build_batch, iter_headers
from strandline_proto.errors import (
    KafkaStorageError,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PolicyViolation,
    RequestTimedOut,
    UnknownTopicId,
)
from strandline_proto.v1 import delete_records_pb2, services_pb2_grpc
from strandline_runtime.milliseconds import wall_ms
from strandline_runtime.real import RealFileSystem
from support.replica_nodes import TOPIC_ID, Node, decide, eventually, run_node, state

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from strandline_broker.hosts.replica.purgatory import ProduceOutcome
    from strandline_broker.storage.log.log import Log

SETTINGS = {"log_segment_bytes": "200", "log_segment_delete_delay_ms": "0"}
NEVER = "2147483647"
OFTEN = "20"


@asynccontextmanager
async def three(tmp_path: Path, **settings: str) -> AsyncIterator[tuple[Node, Node, Node]]:
    chosen = {**SETTINGS, "log_retention_check_interval_ms": NEVER, **settings}
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(run_node(tmp_path / str(i), i, **chosen))
            for i in (1, 2, 3)
        ]
        yield nodes[0], nodes[1], nodes[2]


async def fill(leader: Node, count: int, *, timestamp_ms: int | None = None) -> None:
    """Committed records in batches of one, three of which fill a segment."""
    now_ms = wall_ms(leader.runtime.clock)
    done: list[ProduceOutcome] = []
    for i in range(count):
        check_leader(leader.partition, None).appends.append(
            build_batch(
                [(None, b"%d" % i)], timestamp_ms=now_ms if timestamp_ms is None else timestamp_ms
            ),
            acks=-1,
            on_done=done.append,
        )
    await eventually(lambda: len(done) == count, "acknowledged")
    assert all(outcome.error is None for outcome in done)


async def delete_records(
    node: Node, offset: int, *, timeout_ms: int = 5000, topic_id: bytes = TOPIC_ID, index: int = 0
) -> delete_records_pb2.DeleteRecordsPartitionResult:
    request = delete_records_pb2.DeleteRecordsRequest(timeout_ms=timeout_ms)
    request.topics.add(topic_id=topic_id).partitions.add(partition=index, offset=offset)
    async with grpc.aio.insecure_channel(node.target) as channel:
        stub = services_pb2_grpc.BrokerServiceStub(channel)
        response = await stub.DeleteRecords(request, timeout=20)
    assert isinstance(response, delete_records_pb2.DeleteRecordsResponse)
    return response.topics[0].partitions[0]


def segments(node: Node) -> list[int]:
    """Base offsets of the log files on disk."""
    path = node.partition.log.path
    names = node.runtime.fs.listdir(path)
    return sorted(int(name[:20]) for name in names if name.endswith(".log"))


def checkpointed(path: Path) -> int:
    """The log start of orders-0 as the checkpoint file has it."""
    lines = (path / "log-start-offset-checkpoint").read_text().splitlines()[2:]
    return int(lines[0].split(" ")[2])


async def test_deleted_records_are_gone_on_every_replica_when_the_call_returns(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 10)
        assert len(segments(a)) > 3
        result = await delete_records(a, 7)
        assert (result.error_code, result.low_watermark) == (0, 7), result.error_message
        for i, node in enumerate((a, b, c), 1):
            assert node.partition.log.log_start_offset == 7, "I-75"
            assert checkpointed(tmp_path / str(i)) == 7, "durable before it is reported"
            with pytest.raises(OffsetOutOfRange):
                node.partition.read_log(6, max_bytes=1, limit=10)
        for node in (a, b, c):
            await eventually(lambda node=node: segments(node)[0] > 4, "files go without a look")
            assert node.partition.log.leader_epochs.entries[0] == (0, 7), "I-5"
        await fill(a, 2)
    async with run_node(tmp_path / "2", 2) as node:
        log = node.partition.log
        assert (log.log_start_offset, log.log_end_offset) == (7, 12)


async def test_minus_one_deletes_up_to_the_high_watermark_and_the_log_goes_on(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 10)
        assert (await delete_records(a, -1)).low_watermark == 10
        for node in (a, b, c):
            await eventually(lambda node=node: segments(node) == [10], "a new segment is begun")
        await fill(a, 1)
        assert b.partition.log.log_end_offset == 11
    for i in (1, 3):
        async with run_node(tmp_path / str(i), i) as node:
            log = node.partition.log
            assert (log.log_start_offset, log.log_end_offset) == (10, 11)


async def test_an_offset_that_is_not_committed_is_refused(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 3)
        for offset in (4, -2, 1 << 40):
            result = await delete_records(a, offset)
            assert result.error_code == OffsetOutOfRange.code
            assert "high watermark 3" in result.error_message
        assert a.partition.log.log_start_offset == 0


async def test_only_the_leader_deletes_and_only_what_it_knows(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        refused = await delete_records(b, 0)
        assert refused.error_code == NotLeaderOrFollower.code
        assert refused.current_leader.leader_id == 1
        assert (await delete_records(a, 0, index=7)).error_code == UnknownTopicId.code


async def test_a_leader_that_does_not_know_what_is_committed_deletes_nothing(
    tmp_path: Path,
) -> None:
    """I-11."""
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 3)
        b.partition.learn_high_watermark(1)
        await decide(state(2, epoch=1, isr=(1, 2, 3)), b)
        assert (await delete_records(b, -1)).error_code == OffsetNotAvailable.code
        assert b.partition.log.log_start_offset == 0


async def test_a_topic_that_is_only_compacted_keeps_its_records(tmp_path: Path) -> None:
    async with three(tmp_path, log_cleanup_policy="compact") as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        result = await delete_records(a, 0)
        assert result.error_code == PolicyViolation.code
        assert "cleanup.policy" in result.error_message


async def test_a_silent_member_of_the_isr_is_waited_for_within_the_limit(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 6)
        # It follows nobody from here on, as a broker does that is partitioned away.
        c.replicas.fetchers.forget(c.partition.key)
        result = await delete_records(a, 4, timeout_ms=300)
        assert result.error_code == RequestTimedOut.code
        assert "deleted at the leader" in result.error_message
        assert a.partition.log.log_start_offset == 4
        waiting = asyncio.ensure_future(delete_records(a, 5))
        await eventually(lambda: b.partition.log.log_start_offset == 5, "the others follow")
        assert not waiting.done()
        await decide(state(1, epoch=0, isr=(1, 2), partition_epoch=1), a, b, known=(c,))
        assert (await waiting).low_watermark == 5, "who is not in the ISR is not waited for"


async def test_the_end_of_the_leadership_ends_the_wait(tmp_path: Path) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 6)
        c.replicas.fetchers.forget(c.partition.key)
        waiting = asyncio.ensure_future(delete_records(a, 4))
        await eventually(lambda: b.partition.log.log_start_offset == 4, "under way")
        await decide(state(2, epoch=1, isr=(1, 2, 3)), a, b, c)
        assert (await waiting).error_code == NotLeaderOrFollower.code


async def test_a_follower_that_was_away_learns_the_log_start_from_its_first_fetches(
    tmp_path: Path,
) -> None:
    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2)), a, b, known=(c,))
        await fill(a, 10)
        assert (await delete_records(a, 8)).low_watermark == 8
        await eventually(lambda: segments(a)[0] > 4, "deleted at the leader")
        await decide(state(1, epoch=0, isr=(1, 2)), c, known=(a, b))
        log = c.partition.log
        await eventually(lambda: log.log_end_offset == 10, "it begins where the leader does")
        assert log.log_start_offset == 8
        headers = [
            h for _, h in iter_headers(c.partition.read_log(8, max_bytes=999, limit=10).records)
        ]
        assert [h.base_offset for h in headers] == [8, 9]


async def test_old_segments_go_on_every_replica_and_the_active_one_with_them(
    tmp_path: Path,
) -> None:
    async with three(tmp_path, log_retention_check_interval_ms=OFTEN, log_retention_ms="60000") as (
        a,
        b,
        c,
    ):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        now_ms = wall_ms(a.runtime.clock)
        await fill(a, 7, timestamp_ms=now_ms - 120_000)
        for node in (a, b, c):
            await eventually(lambda node=node: segments(node) == [7], "all of it was too old")
            assert node.partition.log.log_start_offset == 7
        await fill(a, 7, timestamp_ms=now_ms)
        await asyncio.sleep(0.2)
        assert a.partition.log.log_start_offset == 7, "what is young stays"
        await eventually(lambda: checkpointed(tmp_path / "1") == 7, "durable")


async def test_a_log_that_is_too_large_loses_its_oldest_segments(tmp_path: Path) -> None:
    async with three(
        tmp_path, log_retention_check_interval_ms=OFTEN, log_retention_bytes="400"
    ) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 30)
        for node in (a, b, c):
            log = node.partition.log
            await eventually(lambda log=log: log.size_bytes < 400 + 200, "bounded (I-74)")
            assert log.size_bytes >= 400
            await eventually(
                lambda node=node, log=log: segments(node)[0] == log.log_start_offset, "on disk too"
            )


async def test_what_is_not_committed_stays_whatever_its_age(tmp_path: Path) -> None:
    async with three(tmp_path, log_retention_check_interval_ms=OFTEN, log_retention_ms="1") as (
        a,
        b,
        _c,
    ):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b)  # 3 never fetches
        for _ in range(9):
            check_leader(a.partition, None).appends.append(
                build_batch([(None, b"old")], timestamp_ms=1),
                acks=1,
                on_done=lambda outcome: None,
            )
        await eventually(lambda: b.partition.log.log_end_offset == 9, "copied")
        await asyncio.sleep(0.2)
        assert (a.partition.log.log_start_offset, b.partition.log.log_start_offset) == (0, 0), (
            "I-74"
        )


async def test_a_renamed_file_stays_for_its_delay(tmp_path: Path) -> None:
    async with three(
        tmp_path,
        log_retention_check_interval_ms=OFTEN,
        log_retention_bytes="0",
        log_segment_delete_delay_ms="60000",
    ) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 6)
        await eventually(lambda: segments(a) == [6], "renamed")
        await asyncio.sleep(1.2)
        names = a.runtime.fs.listdir(a.partition.log.path)
        assert sum(name.endswith(".log.deleted") for name in names) >= 2


async def test_followers_hear_of_a_new_log_start_at_once(tmp_path: Path) -> None:
    async with three(tmp_path, replica_fetch_wait_max_ms="20000") as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 3)
        assert (await delete_records(a, 2, timeout_ms=5000)).low_watermark == 2


async def test_the_checkpoint_is_durable_before_a_file_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-74."""
    renamed: list[int] = []
    flushed: list[bool] = []

    def watched(fs: RealFileSystem, src: str, dst: str) -> None:
        if dst.endswith(".log.deleted"):
            renamed.append(checkpointed(tmp_path / "1"))
            flushed.append(active.flushed)
        os.replace(src, dst)

    async with three(tmp_path) as (a, _b, _c):
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await fill(a, 7)
        active = a.partition.log.segments[-1]
        monkeypatch.setattr(RealFileSystem, "replace", watched)
        assert (await delete_records(a, 7)).low_watermark == 7
        await eventually(lambda: segments(a) == [7], "deleted")
        assert set(renamed) == {7}
        assert all(flushed), "the producers' snapshot behind it was synced with it"


async def test_epochs_begin_no_later_than_the_log_start_that_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-5, I-74: it may rise again while retention waits for it."""
    durable, cut = LogStarts.durable, LeaderEpochs.truncate_from_start
    began: list[tuple[int, int]] = []

    async def raised_again(starts: LogStarts, log: Log) -> None:
        await durable(starts, log)
        if log is b.partition.log:
            b.partition.raise_log_start(6)

    def watched(epochs: LeaderEpochs, offset: int) -> None:
        if epochs is b.partition.log.leader_epochs:
            began.append((offset, checkpointed(tmp_path / "2")))
        cut(epochs, offset)

    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 7)
        monkeypatch.setattr(LogStarts, "durable", raised_again)
        monkeypatch.setattr(LeaderEpochs, "truncate_from_start", watched)
        assert (await delete_records(a, 4)).low_watermark == 4
        await eventually(lambda: bool(began), "retention went on")
        assert all(offset <= written for offset, written in began), began
        assert b.partition.log.log_start_offset == 6


async def test_a_deletion_answers_no_more_than_what_is_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-75: another one may raise the log start while the first waits; a crash would bring back
    what the first had called gone.
    """
    durable = LogStarts.durable

    async def raised_again(starts: LogStarts, log: Log) -> None:
        await durable(starts, log)
        a.partition.raise_log_start(6)

    async with three(tmp_path) as (a, _b, _c):
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await fill(a, 7)
        with monkeypatch.context() as patched:
            patched.setattr(LogStarts, "durable", raised_again)
            result = await delete_records(a, 4)
        assert (result.error_code, result.low_watermark) == (0, 4)
        assert a.partition.log.log_start_offset == 6


async def test_without_a_checkpoint_nothing_is_answered_and_no_file_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:

    def full(fs: RealFileSystem, src: str, dst: str) -> None:
        if dst.endswith("log-start-offset-checkpoint"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.replace(src, dst)

    async with three(tmp_path) as (a, _b, _c):
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await fill(a, 7)
        with monkeypatch.context() as patched:
            patched.setattr(RealFileSystem, "replace", full)
            refused = await delete_records(a, 6)
            assert refused.error_code == KafkaStorageError.code
            assert "No space left" in refused.error_message
            await asyncio.sleep(0.1)
            assert segments(a)[0] == 0
        assert (await delete_records(a, 6)).low_watermark == 6
        await eventually(lambda: segments(a)[0] == 6, "the next call makes up for it")
        assert checkpointed(tmp_path / "1") == 6


async def test_a_log_is_flushed_after_so_many_records(tmp_path: Path) -> None:
    chosen = {"log_flush_interval_messages": "5", "log_segment_bytes": "100000"}
    async with three(tmp_path, **chosen) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 4)
        await asyncio.sleep(0.1)
        assert [n.partition.log.durable_offset for n in (a, b, c)] == [0, 0, 0]
        await fill(a, 1)
        for node in (a, b, c):
            log = node.partition.log
            await eventually(lambda log=log: log.durable_offset == 5, "flush.messages")


async def test_a_log_is_flushed_after_its_own_time(tmp_path: Path) -> None:
    chosen = {"log_flush_interval_ms": "3600000", "log_segment_bytes": "100000"}
    async with three(tmp_path, **chosen) as (a, _b, _c):
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await fill(a, 4)
        log = a.partition.log
        await asyncio.sleep(0.6)
        assert log.durable_offset == 0
        a.partition.configure({"flush.ms": "50"})
        await eventually(lambda: log.durable_offset == 4, "flush.ms of the topic")


async def test_a_follower_reports_a_log_start_once_it_is_durable_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fs: RealFileSystem, src: str, dst: str) -> None:
        if dst == f"{tmp_path}/2/log-start-offset-checkpoint":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.replace(src, dst)

    async with three(tmp_path) as (a, b, c):
        await decide(state(1, epoch=0, isr=(1, 2, 3)), a, b, c)
        await fill(a, 3)
        with monkeypatch.context() as patched:
            patched.setattr(RealFileSystem, "replace", full)
            refused = await delete_records(a, 2, timeout_ms=700)
            assert refused.error_code == RequestTimedOut.code
            assert b.partition.log.log_start_offset == 2
        assert (await delete_records(a, 2)).low_watermark == 2, "it tries again by itself"


async def test_damage_that_was_deleted_is_forgotten(tmp_path: Path) -> None:
    """Nothing has to be healed, and nothing keeps the log from being cleaned, for its sake."""
    async with three(tmp_path) as (a, _b, _c):
        await decide(state(1, epoch=0, isr=(1,), replicas=(1,), min_insync=1), a)
        await fill(a, 7)
        ranges = a.partition.log.damaged_ranges
        ranges.set(
            DamagedRange(start, start + 1, start // 2 * 2, 69, -1, "flipped") for start in (1, 3, 5)
        )
        ranges.save()
        assert (await delete_records(a, 4)).low_watermark == 4
        await eventually(lambda: [r.start for r in ranges.entries] == [5], "above the start")
        await eventually(lambda: segments(a)[0] == 4, "deleted")
        text = (tmp_path / "1" / "orders-0" / "damaged-ranges").read_text()
        assert len([line for line in text.splitlines() if "flipped" in line]) == 1
