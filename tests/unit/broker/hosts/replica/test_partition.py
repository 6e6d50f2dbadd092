"""A replica whose fetch is cancelled while its disk is at work (I-6, I-58), or whose disk misreads
what its producers have appended (I-60).
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.core.replication.follower import TruncateTo
from strandline_broker.hosts.disks.blocking_work import to_the_end
from strandline_broker.hosts.replica.following import Following
from strandline_broker.storage.directory.directory import DataDirectory
from strandline_broker.storage.files.checkpoints import HIGH_WATERMARKS
from strandline_proto.batch import build_batch, prefix
from strandline_proto.errors import KafkaStorageError
from strandline_proto.ids import NO_LEADER, LeaderEpoch, Offset
from strandline_runtime.real import RealFileSystem
from support.replica_nodes import TOPIC, TOPIC_ID, decide, run_node, state
from support.storage import SMALL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from strandline_broker.hosts.replica.partition import Partition

WAIT_S = 10.0
OVERHEAD, PREFIX_SIZE = 12, 16
COUNT = 3


class Held:
    """Work that waits on its thread until it may go on."""

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.begun.set()
        assert self.go_on.wait(WAIT_S)
        return self._work(*arguments, **named)


def from_leader(offset: int, *, epoch: int) -> bytes:
    batch = build_batch(
        [(None, b"v")] * COUNT,
        timestamp_ms=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=offset,
    )
    return prefix(offset, len(batch) - OVERHEAD, epoch) + batch[PREFIX_SIZE:]


async def cancelled_at(held: Held, work: Coroutine[Any, Any, None], *, times: int = 1) -> None:
    task = asyncio.create_task(work)
    assert await asyncio.to_thread(held.begun.wait, WAIT_S)
    for _ in range(times):
        task.cancel()
        done, _pending = await asyncio.wait([task], timeout=0.01)
        assert not done, "what the thread does is waited for"
    held.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, WAIT_S)


def following(partition: Partition) -> Following:
    assert isinstance(partition.role, Following)
    return partition.role


async def append(partition: Partition, offset: int, *, epoch: int) -> None:
    async with partition.gate:
        await following(partition).append(from_leader(offset, epoch=epoch), leader_high_watermark=0)


async def test_an_append_that_is_cancelled_is_known_of_its_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_node(tmp_path, 2) as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        partition = node.partition
        held = Held(partition.log.append_as_follower)
        monkeypatch.setattr(partition.log, "append_as_follower", held)
        await cancelled_at(held, append(partition, 0, epoch=1))
        assert partition.log.log_end_offset == COUNT
        (producer,) = partition.producers.snapshot()
        assert [batch.base_offset for batch in producer.batches] == [0]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_what_a_disk_refuses_is_known_although_its_caller_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    disks = f"{tmp_path}/a,{tmp_path}/b"
    async with run_node(tmp_path, 2, log_dirs=disks) as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        partition, held = node.partition, Held(fails)
        monkeypatch.setattr(partition.log, "append_as_follower", held)
        await cancelled_at(held, append(partition, 0, epoch=1))
        refusing = {os.path.dirname(partition.log.path)}
        assert node.directory.full == (refusing if code == errno.ENOSPC else set())
        assert set(node.directory.failed) == (refusing if code == errno.EIO else set())


@pytest.mark.parametrize(("cut", "to"), [("truncate_to", 3), ("truncate_fully_and_start_at", 9)])
async def test_a_cut_that_is_cancelled_lowers_the_high_watermark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: str, to: int
) -> None:
    """And what was cut is not known any more as soon as the log grows again (I-58)."""
    async with run_node(tmp_path, 2) as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        partition = node.partition
        for offset in (0, 3):
            await append(partition, offset, epoch=1)
        following(partition).on_high_watermark(6)
        assert partition.high_watermark == 6
        held = Held(getattr(partition.log, cut))
        monkeypatch.setattr(partition.log, cut, held)

        async def carry_out() -> None:
            async with partition.gate:
                await (partition.truncate if cut == "truncate_to" else partition.restart_at)(to)

        await cancelled_at(held, carry_out())
        assert partition.log.log_end_offset == partition.high_watermark == to
        await append(partition, to, epoch=1)
        assert known(partition) == ([0, to] if to == COUNT else [to])


@pytest.mark.parametrize("leader", [1, 2])
async def test_who_goes_out_of_service_on_the_way_to_a_role_takes_none(
    tmp_path: Path, leader: int
) -> None:
    """I-99, P-24: it would lead, or go on to copy to a disk that has failed."""
    disks = f"{tmp_path}/a,{tmp_path}/b"
    async with run_node(tmp_path, 2, log_dirs=disks) as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        partition, dirs = node.partition, node.replicas.dirs
        async with partition.gate:
            decision = state(leader, epoch=2, isr=(1, 2))
            deciding = asyncio.create_task(decide(decision, node, refused=True))
            for _ in range(20):
                await asyncio.sleep(0)
            assert partition.role is None, "it waits for the gate"
            dirs.fail(dirs.of(partition.log), "EIO")
        (failed,) = await deciding
        assert isinstance(failed.error, KafkaStorageError)
        assert partition.role is None


async def heal(partition: Partition, offset: int) -> None:
    async with partition.gate:
        await partition.heal_from(offset)


async def test_who_heals_is_not_sound_before_it_has_all_that_its_leader_may_believe(
    tmp_path: Path,
) -> None:
    """I-9, I-15: a fetch from before the cut may be on its way, in a stream that was given up."""
    async with run_node(tmp_path, 2) as node:
        await decide(state(1, epoch=1, isr=(1,)), node)
        partition = node.partition
        for offset in (0, 3, 6):
            await append(partition, offset, epoch=1)
            following(partition).on_high_watermark(0)
        await heal(partition, 3)
        await append(partition, 3, epoch=1)
        following(partition).on_high_watermark(6)
        assert partition.healing, "its leader may have heard of 9, and commit that with it"
        await heal(partition, 3)
        for offset in (3, 6):
            await append(partition, offset, epoch=1)
        following(partition).on_high_watermark(6)
        assert not partition.healing


@pytest.mark.parametrize("is_cut", [False, True])
async def test_who_heals_waits_for_what_its_leader_may_believe_by_its_first_answer(
    tmp_path: Path, is_cut: bool
) -> None:
    """No later answer has said so, as the records found no room, or a cut was first."""
    async with run_node(tmp_path, 2) as node:
        await decide(state(1, epoch=1, isr=(1,)), node)
        partition = node.partition
        for offset in (0, 3, 6):
            await append(partition, offset, epoch=1)
        await decide(state(1, epoch=2, isr=(1,)), node)
        if is_cut:
            async with partition.gate:
                await following(partition).cut(TruncateTo(Offset(6)))
        else:
            partition.log.state.unusable = "it has no room"
            with pytest.raises(KafkaStorageError):
                await append(partition, 9, epoch=1)
            partition.log.state.unusable = None
        end = partition.log.log_end_offset
        await heal(partition, 3)
        following(partition).on_high_watermark(0)
        assert partition.healing
        for offset in range(3, end, COUNT):
            await append(partition, offset, epoch=1)
        following(partition).on_high_watermark(0)
        assert not partition.healing


async def test_who_heals_waits_for_nothing_that_its_leader_may_never_have(tmp_path: Path) -> None:
    async with run_node(tmp_path, 2) as node:
        await decide(state(1, epoch=1, isr=(1,)), node)
        partition = node.partition
        for offset in (0, 3):
            await append(partition, offset, epoch=1)
            following(partition).on_high_watermark(0)
        await decide(state(1, epoch=2, isr=(1,)), node)
        await heal(partition, 3)
        following(partition).on_high_watermark(4)
        assert partition.healing, "it lacks what is committed"
        following(partition).on_high_watermark(3)
        assert not partition.healing


def flip(file: Path, number: int) -> None:
    """A bit in that one of two batches of a size."""
    data = bytearray(file.read_bytes())
    data[number * len(data) // 2 + PREFIX_SIZE] ^= 0x41
    file.write_bytes(data)


@asynccontextmanager
async def misread(path: Path, number: int = 0) -> AsyncIterator[Partition]:
    """A follower with two batches of one producer, one of which its disk misreads by now."""
    async with run_node(path, 2) as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        partition = node.partition
        for offset in (0, 3):
            await append(partition, offset, epoch=1)
        flip(Path(partition.log.segments[0].path()), number)
        async with partition.gate:
            yield partition


def known(partition: Partition) -> list[int]:
    """Where the producer's batches begin, as far as the replica knows them."""
    assert partition.log.producers is not None, "nobody knows until the next role"
    return [batch.base_offset for p in partition.producers.snapshot() for batch in p.batches]


async def test_at_its_end_a_log_is_not_read_again(tmp_path: Path) -> None:
    """Such a cut drops an epoch without records."""
    async with misread(tmp_path) as partition:
        await partition.truncate(2 * COUNT)
        assert known(partition) == [0, COUNT]


async def test_a_cut_that_is_refused_leaves_what_is_known(tmp_path: Path) -> None:
    async with misread(tmp_path) as partition:
        with pytest.raises(KafkaStorageError):
            await partition.truncate(COUNT)
        assert partition.log.log_end_offset == 2 * COUNT
        assert known(partition) == [0, COUNT]


@pytest.mark.parametrize("number", [0, 1])
async def test_what_a_replay_passes_over_stays_known(tmp_path: Path, number: int) -> None:
    async with misread(tmp_path, number) as partition:
        await partition.rebuild_producers()
        assert partition.log.replay_lacks
        assert known(partition)[-1] == COUNT


async def test_a_log_that_begins_anew_knows_nobody(tmp_path: Path) -> None:
    async with misread(tmp_path) as partition:
        await partition.restart_at(COUNT)
        assert known(partition) == []


async def test_work_on_a_thread_ends_before_whoever_is_cancelled_twice() -> None:
    held = Held(list)
    with ThreadPoolExecutor(1) as thread:
        await cancelled_at(held, to_the_end(thread, held), times=3)


@pytest.mark.parametrize(("leader", "believed_to"), [(1, COUNT), (2, COUNT), (NO_LEADER, None)])
async def test_what_was_known_of_a_lost_tail_counts_for_no_other_records(
    tmp_path: Path, leader: int, believed_to: int | None
) -> None:
    """I-13: they stand at its offsets, and the next process may begin before the watermark of this
    one has been written. While nobody leads, what is lost may have to be told (I-53).
    """
    fs = RealFileSystem()
    before = DataDirectory.open(
        fs, str(tmp_path), node_id=2, cluster_id="c", new_id=lambda: TOPIC_ID
    )
    log = before.create_log(TOPIC, TOPIC_ID, 0, SMALL)
    for offset in (0, COUNT):
        log.append_as_follower(from_leader(offset, epoch=1), leader_epoch=1)
    before.write_high_watermarks({(TOPIC, 0): 2 * COUNT})
    before.close()
    os.truncate(log.segments[0].path(), log.size_bytes // 2)
    async with run_node(tmp_path, 2) as node:
        partition = node.partition
        assert partition.high_watermark == COUNT
        await decide(state(leader, epoch=2, isr=(1, 2), unclean_epoch=LeaderEpoch(2)), node)
        assert partition.log.limits.lowest(HIGH_WATERMARKS) == believed_to
        assert partition.checkpointed_high_watermark == 2 * COUNT
