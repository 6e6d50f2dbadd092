"""Which logs a broker holds: what a full disk keeps out, what a deleted topic leaves, strays."""

from __future__ import annotations

import asyncio
import errno
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from strandline_broker.core.push_envelope import TOPIC_DELETED
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.disks.log_loading import LogLoader
from strandline_broker.hosts.member.replica_logs import Refusal
from strandline_broker.storage.directory.strandline_state import ALWAYS, write_state
from strandline_proto.batch import read_header
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem
from support.disk import HalfFailing
from support.pushed_broker import TOPIC_ID, ask, broker, push, with_topic
from support.replica_nodes import decide, eventually, run_node, state
from support.scripted_controller import WAIT_S, running
from support.storage import batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from strandline_broker.hosts.disks.log_loading import Loaded
    from strandline_broker.storage.directory.directory import DataDirectory
    from strandline_broker.storage.directory.partition_dirs import PartitionDir
    from strandline_proto.v1 import push_pb2
    from strandline_runtime.runtime import Buffer
    from support.pushed_broker import Subject

OTHER_ID = b"u" * 16


class Disk(RealFileSystem):
    """A disk that may be full."""

    full = False
    refusals = 0
    stuck = False
    """No directory gets another name."""

    def replace(self, source: str, target: str) -> None:  # type: ignore[override]
        if self.stuck and source.endswith("orders-0"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().replace(source, target)

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:  # type: ignore[override]
        if self.full:
            self.refusals += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwritev(fd, buffers, offset)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strandline_broker.hosts.member.replica_manager.FULL_DISK_RETRY_S", 0.1)


def names(path: Path, pattern: str) -> list[str]:
    return [found.name for found in path.glob(pattern)]


def deleted(request: push_pb2.LeaderAndIsrRequest) -> push_pb2.LeaderAndIsrRequest:
    """The same push, with the deletion of the topic."""
    stop = request.stop_replica.add(topic_id=TOPIC_ID)
    stop.partitions.add(partition_index=0, leader_epoch=TOPIC_DELETED, delete_partition=True)
    request.update_metadata.deleted_topic_ids.append(TOPIC_ID)
    return request


def created_anew(request: push_pb2.LeaderAndIsrRequest) -> push_pb2.LeaderAndIsrRequest:
    """The same push, with another topic of the same name."""
    with_topic(request)
    request.leader_and_isr[0].topic_id = OTHER_ID
    request.update_metadata.topics[0].topic_id = OTHER_ID
    return request


async def filled(path: Path) -> None:
    """A data directory with a record in `orders-0`, that nobody closed cleanly."""
    async with broker(path) as b, running(b.receiver.run()):
        await ask(b.stub.LeaderAndIsr(), with_topic(push(9, 4, full=True)))
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        batch = batch_of(b"x")
        partition.log.append_as_leader(batch, read_header(batch), leader_epoch=0)
    # As after a crash under flush.policy=always: what is above the recovery point is written again.
    (path / "recovery-point-offset-checkpoint").unlink()
    write_state(Disk(), str(path), replace(b.directory.state, flush_policy=ALWAYS))


def refused(b: Subject) -> bool:
    try:
        b.replicas.find(TOPIC_ID, 0)
    except KafkaStorageError:
        return True
    return False


async def test_what_a_full_disk_kept_from_being_loaded_is_loaded_when_there_is_room(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    disk = Disk()
    disk.full = True
    async with broker(tmp_path, fs=disk) as b, running(b.receiver.run()):
        assert b.replicas.offline_replicas() == {(TOPIC_ID, 0): ReplicaCondition.OUT_OF_SERVICE}
        call = b.stub.LeaderAndIsr()
        answer = await ask(call, with_topic(push(9, 4, full=True), leader_epoch=1))
        assert answer.topics[0].partitions[0].error_code == KafkaStorageError.code
        told = 0

        def report_offline() -> None:
            nonlocal told
            told += 1

        b.controller.on_offline = report_offline
        tries = disk.refusals
        await eventually(lambda: disk.refusals > tries + 1, "it is tried again")
        assert refused(b)
        assert told == 0
        disk.full = False
        await eventually(lambda: not refused(b), "it is loaded")
        assert (told, b.replicas.offline_replicas()) == (1, {})
        with pytest.raises(Exception, match="given up"):
            async with asyncio.timeout(WAIT_S):
                await call.read()
        await ask(b.stub.LeaderAndIsr(), with_topic(push(9, 4, full=True), leader_epoch=1))
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        assert partition.leader is not None
        assert partition.log.log_end_offset == 1


async def test_a_damaged_log_is_not_opened_again_and_again(tmp_path: Path) -> None:
    await filled(tmp_path)
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").unlink()
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").mkdir()
    async with broker(tmp_path) as b:
        assert refused(b)
        assert not b.replicas.logs.waits_for_room((TOPIC_ID, 0))


@pytest.mark.parametrize("while_full", [False, True])
async def test_a_deleted_topic_leaves_its_name_although_its_log_was_never_opened(
    tmp_path: Path, while_full: bool
) -> None:
    """P-19: the topic that takes the name next gets a log of its own."""
    await filled(tmp_path)
    disk = Disk()
    disk.full = True
    async with broker(tmp_path, fs=disk) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        disk.full = while_full
        await ask(call, deleted(push(10, 9)))
        await eventually(lambda: names(tmp_path, "orders-0*") == [], "the files are gone")
        assert (TOPIC_ID, 0) not in b.directory.hosted
        disk.full = False
        answer = await ask(call, created_anew(push(11, 10)))
        assert list(answer.topics) == []
        partition = b.replicas.find(OTHER_ID, 0)
        assert partition is not None
        assert partition.log.log_end_offset == 0


async def test_a_log_that_was_never_opened_is_set_aside_if_nobody_assigns_it(
    tmp_path: Path,
) -> None:
    """I-87."""
    await filled(tmp_path)
    disk = Disk()
    disk.full = True
    async with broker(tmp_path, fs=disk) as b, running(b.receiver.run()):
        answer = await ask(b.stub.LeaderAndIsr(), created_anew(push(10, 9, full=True)))
        assert answer.topics[0].partitions[0].error_code == KafkaStorageError.code
        (stray,) = names(tmp_path, "orders-0.*-stray")
        assert "partition.metadata" in names(tmp_path / stray, "*")
        assert b.replicas.strays() == (f"{tmp_path}/{stray}",)
        disk.full = False
        assert not refused(b)
        assert not b.replicas.logs.waits_for_room((TOPIC_ID, 0)), "a stray is never used again"
        assert b.replicas.find(TOPIC_ID, 0) is None


@pytest.mark.parametrize("by", ["deletion", "snapshot"])
async def test_a_log_that_is_opened_before_its_turn_is_given_up_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """P-19, I-87: the disk has room again while the replica is given up, which waits for that."""
    await filled(tmp_path)
    opening, go_on = asyncio.Event(), asyncio.Event()
    load_one = LogLoader.load_one

    async def slowly(loader: LogLoader, directory: DataDirectory, found: PartitionDir) -> Loaded:
        opening.set()
        await go_on.wait()
        return await load_one(loader, directory, found)

    disk = Disk()
    disk.full = True
    async with broker(tmp_path, fs=disk) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        monkeypatch.setattr(LogLoader, "load_one", slowly)
        disk.full = False
        async with asyncio.timeout(WAIT_S):
            await opening.wait()
        request = deleted(push(10, 9)) if by == "deletion" else push(10, 9, full=True)
        asyncio.get_running_loop().call_later(0.1, go_on.set)
        await ask(call, request)
        assert b.replicas.find(TOPIC_ID, 0) is None
        assert (TOPIC_ID, 0) not in b.directory.hosted
        strays = names(tmp_path, "orders-0.*-stray")
        assert len(strays) == (0 if by == "deletion" else 1)
        assert names(tmp_path, "orders-0") == []


async def test_a_topic_is_deleted_from_a_full_disk_and_makes_room(tmp_path: Path) -> None:
    disk = Disk()
    async with broker(tmp_path, fs=disk) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        disk.full = True
        await ask(call, deleted(push(10, 9)))
        await eventually(lambda: names(tmp_path, "orders-0*") == [], "the files are gone")
        disk.full = False
        await ask(call, push(11, 10))
        assert b.directory.online[0].state.hosted == frozenset()
    async with broker(tmp_path) as again:
        assert again.directory.hosted == frozenset(), "what waited for room was written"


@pytest.mark.parametrize("again", [created_anew, with_topic], ids=["new topic", "same replica"])
async def test_a_replica_that_the_disk_did_not_let_go_makes_way_when_it_does(
    tmp_path: Path,
    again: Callable[[push_pb2.LeaderAndIsrRequest], push_pb2.LeaderAndIsrRequest],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever takes the name next is neither refused for good nor given the old files."""
    monkeypatch.setattr("strandline_broker.hosts.member.push_streams.FULL_DISK_RETRY_S", 0.1)
    disk = Disk()
    async with broker(tmp_path, fs=disk) as b, running(b.receiver.run()):
        call = b.stub.LeaderAndIsr()
        await ask(call, with_topic(push(9, 4, full=True)))
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        batch = batch_of(b"x")
        partition.log.append_as_leader(batch, read_header(batch), leader_epoch=0)
        disk.stuck = True
        await ask(call, deleted(push(10, 9)))
        answer = await ask(call, again(push(11, 10)))
        assert answer.topics[0].partitions[0].error_code == KafkaStorageError.code
        with pytest.raises(Exception, match="given up"):
            async with asyncio.timeout(WAIT_S):
                await call.read()
        disk.stuck = False
        answer = await ask(b.stub.LeaderAndIsr(), again(push(11, 10, full=True)))
        assert list(answer.topics) == []
        (partition,) = b.replicas.partitions.values()
        assert partition.leader is not None
        assert partition.log.log_end_offset == 0
        assert b.directory.hosted == {partition.key}


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
async def test_a_directory_is_not_blamed_for_one_beside_it_that_forgets_no_replica(
    tmp_path: Path, error: int
) -> None:
    """Each remembers all replicas; the one that does not take it goes out of service, unless the
    error passes. The replica then makes way as soon as it is asked to (P-51).
    """
    a, b = str(tmp_path / "a"), str(tmp_path / "b")
    disk = HalfFailing(tmp_path / "b")
    async with run_node(tmp_path, 2, disk, log_dirs=f"{a},{b}") as node:
        await decide(state(1, epoch=1, isr=(1, 2)), node)
        partition, logs = node.partition, node.replicas.logs
        assert os.path.dirname(partition.log.path) == a
        node.replicas.drop(partition, "the replica has been removed")
        disk.error = error
        await logs.delete(partition)
        failed, disk.error = set(node.directory.failed), None
        assert failed == ({b} if error == errno.EIO else set())
        assert names(tmp_path / "a", "orders-0*") == ["orders-0"]
        await logs.prepare(state(1, epoch=2, isr=(1, 2)), lambda _: None)
        assert a not in node.directory.failed
        assert names(tmp_path / "a", "orders-0") == []
        assert node.directory.hosted == set()


@pytest.mark.parametrize("error", [errno.EIO, errno.EMFILE])
async def test_a_missing_replica_that_a_directory_does_not_forget_ends_no_broker(
    tmp_path: Path, error: int
) -> None:
    """The topic is deleted: the directory goes out of service, unless the error passes."""
    a, b = tmp_path / "a", tmp_path / "b"
    disk, key = HalfFailing(b), (TOPIC_ID, 0)
    async with run_node(tmp_path, 2, disk, log_dirs=f"{a},{b}") as node:
        for each in node.directory.online:
            each.update_state(hosts={key})
        node.directory.hosted.add(key)
        node.replicas.logs.refused[key] = Refusal("its directory is gone")
        disk.error, raised = error, None
        try:
            await node.replicas.logs.forget(key, delete=True)
        except OSError as told:
            raised = told
        disk.error = None
        assert raised is None
        assert node.directory.failed.keys() == ({str(b)} if error == errno.EIO else set())
        assert node.directory.hosted == (set() if error == errno.EIO else {key})


async def test_what_a_crash_left_of_a_deletion_is_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    (tmp_path / "orders-0").rename(tmp_path / f"orders-0.{'0' * 32}-delete")
    (tmp_path / "orders-1").mkdir()
    (tmp_path / "orders-1").rename(tmp_path / f"orders-1.{'0' * 32}-stray")
    async with broker(tmp_path):
        await eventually(lambda: names(tmp_path, "*-delete") == [], "the files are gone")
        assert len(names(tmp_path, "*-stray")) == 1


def struck(path: Path) -> None:
    """A bit has flipped in what says whose `orders-0` is, and no seal tells what was there."""
    metadata = path / "orders-0" / "partition.metadata"
    metadata.with_name("partition.metadata.seal").unlink()
    metadata.write_bytes(metadata.read_bytes().replace(b"version", b"wersion"))


def elected_again(leader_epoch: int = 1) -> push_pb2.LeaderAndIsrRequest:
    request = with_topic(push(9, 4, full=True), leader_epoch=leader_epoch)
    request.leader_and_isr[0].partitions[0].is_new = False
    return request


async def test_a_nameless_directory_is_the_replica_that_the_controller_names(
    tmp_path: Path,
) -> None:
    """I-36: its records may exist nowhere else."""
    await filled(tmp_path)
    struck(tmp_path)
    async with broker(tmp_path) as b, running(b.receiver.run()):
        waits = {(TOPIC_ID, 0): ReplicaCondition.OUT_OF_SERVICE}
        assert b.replicas.offline_replicas() == waits, "not called missing: it may be that one"
        await ask(b.stub.LeaderAndIsr(), elected_again())
        partition = b.replicas.find(TOPIC_ID, 0)
        assert partition is not None
        assert partition.leader is not None
        assert (partition.log.log_end_offset, b.replicas.offline_replicas()) == (1, {})
        assert names(tmp_path, "*-stray") == []


async def test_a_nameless_directory_that_nothing_proves_is_set_aside_and_the_replica_refused(
    tmp_path: Path,
) -> None:
    await filled(tmp_path)
    struck(tmp_path)
    (tmp_path / "strandline-state").unlink()
    damaged = {(TOPIC_ID, 0): ReplicaCondition.DAMAGED_IDENTITY}
    async with broker(tmp_path) as b, running(b.receiver.run()):
        answer = await ask(b.stub.LeaderAndIsr(), elected_again())
        assert answer.topics[0].partitions[0].error_code == KafkaStorageError.code
        assert b.replicas.offline_replicas() == damaged
        (stray,) = names(tmp_path, "orders-0.*-stray")
        assert names(tmp_path / stray, "*.log") == [f"{0:020d}.log"]
    async with broker(tmp_path) as b, running(b.receiver.run()):
        await ask(b.stub.LeaderAndIsr(), elected_again(2))
        assert refused(b), "a restart does not make it one that never was here"
        request = elected_again(3)
        of_another = request.leader_and_isr[0].partitions[0]
        of_another.leader = 2
        of_another.replicas.append(2)
        del of_another.isr_with_epochs[:]
        of_another.isr_with_epochs.add(broker_id=2, broker_epoch=1)
        request.metadata_offset, request.full = 10, True
        await ask(b.stub.LeaderAndIsr(), request)
        assert not refused(b), "another leads: it is filled from there"
        assert b.replicas.offline_replicas() == {}


async def test_what_lies_in_the_way_of_a_new_topic_is_set_aside(tmp_path: Path) -> None:
    await filled(tmp_path)
    metadata = tmp_path / "orders-0" / "partition.metadata"
    metadata.write_bytes(metadata.read_bytes().replace(b"version", b"wersion"))
    (tmp_path / "strandline-state").unlink()
    async with broker(tmp_path) as b, running(b.receiver.run()):
        await ask(b.stub.LeaderAndIsr(), created_anew(push(9, 4, full=True)))
        assert b.replicas.find(OTHER_ID, 0) is not None
        assert len(names(tmp_path, "orders-0.*-stray")) == 1
        assert b.replicas.offline_replicas() == {}
