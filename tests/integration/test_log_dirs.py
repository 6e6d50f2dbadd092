"""A broker with two data directories of which one fails: the other goes on (KIP-112)."""

from __future__ import annotations

import asyncio
import errno
import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

from strandline_broker.core.push_envelope import Envelope, LiveBroker
from strandline_broker.core.replication.replica_condition import ReplicaCondition
from strandline_broker.hosts.disks.full_dirs import ROOM_BYTES
from strandline_broker.hosts.replica.leading import check_leader
from strandline_proto.batch import build_batch
from strandline_proto.errors import KafkaStorageError, WireError
from strandline_proto.ids import (
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    MetadataOffset,
)
from support.disk import HalfFailing
from support.replica_nodes import TOPIC_ID, Node, eventually, run_node, state

if TYPE_CHECKING:
    from strandline_broker.core.replication.partition_state import PartitionState
    from strandline_broker.hosts.replica.partition import Partition
    from strandline_broker.hosts.replica.purgatory import ProduceOutcome

PARTITIONS = 4


def led(index: int, *, epoch: int = 0, is_new: bool = True) -> PartitionState:
    decided = state(1, epoch=epoch, isr=(1,), replicas=(1,), min_insync=1)
    return replace(decided, partition=index, is_new=is_new)


async def push(node: Node, *states: PartitionState, full: bool = False) -> list[WireError]:
    offset = MetadataOffset(node.metadata.applied_offset + 1)
    envelope = Envelope(
        cluster_id="c",
        controller_id=BrokerId(0),
        store_id="s",
        controller_epoch=ControllerEpoch(1),
        broker_epoch=BrokerEpoch(1),
        metadata_offset=offset,
        prev_metadata_offset=MetadataOffset(offset - 1),
        full=full,
        leader_and_isr=states,
        live_brokers=(LiveBroker(BrokerId(1), BrokerEpoch(1), ()),),
    )
    view = node.metadata.prepare(envelope)
    errors = await node.envelopes.apply(envelope)
    node.metadata.publish(view, store_id="s")
    return [error for _, _, error in errors]


def partitions(node: Node) -> list[Partition]:
    return [p for _, p in sorted(node.replicas.partitions.items())]


def below(node: Node, path: Path) -> list[Partition]:
    return [p for p in partitions(node) if p.log.path.startswith(str(path))]


def append(partition: Partition) -> list[ProduceOutcome]:
    done: list[ProduceOutcome] = []
    batch = build_batch([(None, b"v")], timestamp_ms=1)
    check_leader(partition, None).appends.append(batch, acks=1, on_done=done.append)
    return done


def both(tmp_path: Path) -> dict[str, str]:
    return {"log_dirs": f"{tmp_path}/a,{tmp_path}/b"}


async def test_replicas_are_spread_over_the_directories(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1, **both(tmp_path)) as node:
        assert await push(node, *map(led, range(PARTITIONS))) == []
        assert [len(below(node, tmp_path / d)) for d in "ab"] == [2, 2]
        for each in partitions(node):
            append(each)
    async with run_node(tmp_path, 1, **both(tmp_path)) as node:
        assert [p.log.log_end_offset for p in partitions(node)] == [1] * PARTITIONS
        assert await push(node, *(led(i, epoch=1, is_new=False) for i in range(PARTITIONS))) == []


@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "replace"])
async def test_a_directory_that_fails_takes_its_replicas_and_no_others(
    tmp_path: Path, call: str
) -> None:
    fs = HalfFailing(tmp_path / "b")
    settings = {
        "log_flush_interval_ms": "20",
        "replica_high_watermark_checkpoint_interval_ms": "20",
        **both(tmp_path),
    }
    async with run_node(tmp_path, 1, fs, **settings) as node:
        await push(node, *map(led, range(PARTITIONS)))
        good, bad = below(node, tmp_path / "a"), below(node, tmp_path / "b")
        fs.error, fs.calls = errno.EIO, frozenset({call})
        if call == "pwritev":
            with pytest.raises(KafkaStorageError, match="Input/output error"):
                append(bad[0])
        elif call == "fdatasync":
            append(bad[0])
        offline = {p.key: ReplicaCondition.OUT_OF_SERVICE for p in bad}
        await eventually(lambda: node.replicas.offline_replicas() == offline, "reported")
        for each in bad:
            with pytest.raises(KafkaStorageError, match=r"b is out of service"):
                append(each)
        for each in good:
            assert append(each)[0].appended
            await node.replicas.dirs.flushed(each.log)
        assert list(node.directory.failed) == [str(tmp_path / "b")]
        told = await push(node, *(led(i, epoch=1, is_new=False) for i in range(PARTITIONS)))
        assert [type(e) for e in told] == [KafkaStorageError] * len(bad)
        assert await push(node, led(9)) == [], "a new one finds room in the other"
        lost = await push(node, led(8, is_new=False))
        assert "may be in" in str(lost[0]), "it may lie in the failed one (P-20)"
    assert (tmp_path / "a" / "replication-offset-checkpoint").exists()


async def test_with_the_last_directory_the_process_stops(tmp_path: Path) -> None:
    fs = HalfFailing(tmp_path / "a")
    told: list[str] = []

    class Stopped(BaseException):
        pass

    def leave(why: str) -> NoReturn:
        told.append(why)
        raise Stopped

    async with run_node(tmp_path / "a", 1, fs) as node:
        node.replicas.dirs._runtime = replace(node.replicas.dirs._runtime, exit=leave)
        await push(node, led(0))
        fs.error, fs.calls = errno.EIO, frozenset({"pwritev"})
        with pytest.raises(Stopped):
            append(partitions(node)[0])
        fs.error = None
    assert "the last data directory in service" in told[0]


async def test_a_full_disk_refuses_writes_and_stays_in_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I-99: it is named while there is no room, with a margin."""
    monkeypatch.setattr("strandline_broker.hosts.disks.full_dirs.LOOK_S", 0.01)
    monkeypatch.setattr("strandline_broker.hosts.disks.full_dirs.HOLD_S_MIN", 0.0)
    free = [0]
    monkeypatch.setattr(HalfFailing, "free_space", lambda *_: free[0], raising=False)
    fs = HalfFailing(tmp_path / "b")
    async with run_node(tmp_path, 1, fs, **both(tmp_path)) as node:
        await push(node, *map(led, range(PARTITIONS)))
        bad = below(node, tmp_path / "b")
        fs.error, fs.calls = errno.ENOSPC, frozenset({"pwritev"})
        with pytest.raises(KafkaStorageError, match="nothing was written: free disk space"):
            append(bad[0])
        assert node.directory.failed == {}
        full = dict.fromkeys((p.key for p in bad), ReplicaCondition.DISK_FULL)
        assert node.replicas.offline_replicas() == full
        assert node.directory.full == {str(tmp_path / "b")}
        fs.error, free[0] = None, ROOM_BYTES - 1
        assert append(bad[0])[0].base_offset == 0
        await asyncio.sleep(0.1)
        assert node.replicas.offline_replicas() == full, "not before there is room to spare"
        free[0] = ROOM_BYTES
        await eventually(lambda: node.replicas.offline_replicas() == {}, "it counts again")


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("by", ["read", "write"])
async def test_without_descriptors_no_replica_takes_more_until_there_are_some_to_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, error: int
) -> None:
    """I-99: it is no fault of the disk, and of no disk alone."""
    monkeypatch.setattr("strandline_broker.hosts.disks.descriptors.LOOK_S", 0.01)
    monkeypatch.setattr("strandline_broker.hosts.disks.full_dirs.HOLD_S_MIN", 0.0)
    fs = HalfFailing(tmp_path)
    async with run_node(tmp_path, 1, fs, log_segment_bytes="100", **both(tmp_path)) as node:
        await push(node, *map(led, range(PARTITIONS)))
        bad = below(node, tmp_path / "b")[0]
        for _ in range(4):
            append(bad)
        for segment in bad.log.segments[:-1]:
            await node.replicas.dirs.flushed(bad.log)
            segment.release()
        fs.error, fs.calls = error, frozenset({"open"})
        if by == "read":
            with pytest.raises(KafkaStorageError, match=r"Too many open files.*try again"):
                bad.read_log(0, max_bytes=100, limit=4)
        else:
            with pytest.raises(KafkaStorageError, match=r"Too many open files.*was written"):
                append(bad)
        full = dict.fromkeys(node.replicas.partitions, ReplicaCondition.DISK_FULL)
        assert len(full) == PARTITIONS
        await eventually(lambda: node.replicas.offline_replicas() == full, "all are named")
        assert node.directory.lacks_descriptors
        assert (node.directory.failed, node.directory.full) == ({}, set())
        await asyncio.sleep(0.1)
        assert node.replicas.offline_replicas() == full, "not before there are some to spare"
        fs.error = None
        await eventually(lambda: node.replicas.offline_replicas() == {}, "they count again")
        assert not node.directory.lacks_descriptors
        assert bad.read_log(0, max_bytes=100, limit=4).base_offset == 0
        assert append(bad)[0].base_offset == 4


async def test_a_replica_in_a_directory_that_is_out_at_the_start_is_not_made_anew(
    tmp_path: Path,
) -> None:
    async with run_node(tmp_path, 1, **both(tmp_path)) as node:
        await push(node, *map(led, range(PARTITIONS)))
        bad = [p.key[1] for p in below(node, tmp_path / "b")]
    fs = HalfFailing(tmp_path / "b")
    fs.error = errno.EACCES
    async with run_node(tmp_path, 1, fs, **both(tmp_path)) as node:
        assert list(node.directory.failed) == [str(tmp_path / "b")]
        states = [led(i, epoch=1, is_new=False) for i in range(PARTITIONS)]
        errors = await push(node, *states, full=True)
        assert ["out of service" in str(e) for e in errors] == [True] * len(bad)
        assert node.replicas.offline_replicas() == {
            (TOPIC_ID, i): ReplicaCondition.OUT_OF_SERVICE for i in bad
        }
        elsewhere = replace(
            state(2, epoch=1, isr=(2,), replicas=(1, 2), partition_epoch=2, min_insync=1),
            partition=bad[0],
        )
        assert len(await push(node, elsewhere)) == 1, "the disk may come back"
    async with run_node(tmp_path / "a", 1) as node:
        missing = {(TOPIC_ID, i): ReplicaCondition.MISSING for i in bad}
        assert node.replicas.offline_replicas() == missing, "named before anything is pushed"
        errors = await push(node, *states, full=True)
        assert all("has held orders:" in str(e) for e in errors), errors
        assert len(errors) == len(bad), "taken out of log.dirs: known from the other directory"
        assert node.replicas.offline_replicas() == missing
        told: list[bool] = []
        node.controller.on_offline = lambda: told.append(True)
        assert await push(node, elsewhere) == [], "out of the ISR: made anew"
        assert (told, list(node.replicas.offline_replicas())) == ([True], [(TOPIC_ID, bad[1])])


async def test_of_two_directories_that_may_be_one_replica_neither_is_taken(tmp_path: Path) -> None:
    """I-36: which of them is older nobody knows."""
    async with run_node(tmp_path, 1, **both(tmp_path)) as node:
        await push(node, led(0))
        (one,) = partitions(node)
        path = Path(one.log.path)
    metadata = path / "partition.metadata"
    metadata.with_name("partition.metadata.seal").unlink()
    metadata.write_bytes(metadata.read_bytes()[:-1])
    other = tmp_path / ("a" if path.parent.name == "b" else "b") / path.name
    shutil.copytree(path, other)
    async with run_node(tmp_path, 1, **both(tmp_path)) as node:
        assert len(await push(node, led(0, epoch=1, is_new=False), full=True)) == 1
        assert node.replicas.offline_replicas() == {
            (TOPIC_ID, 0): ReplicaCondition.DAMAGED_IDENTITY
        }
        assert len(node.replicas.strays()) == 2


async def test_one_disk_that_hangs_does_not_hold_up_the_other(tmp_path: Path) -> None:
    async with run_node(tmp_path, 1, **both(tmp_path)) as node:
        await push(node, *map(led, range(PARTITIONS)))
        good, bad = below(node, tmp_path / "a")[0], below(node, tmp_path / "b")[0]
        hangs = threading.Event()
        stuck = asyncio.ensure_future(node.replicas.dirs.in_disk_pool(bad.log, hangs.wait))
        append(good)
        async with asyncio.timeout(60):
            await node.replicas.dirs.flushed(good.log)
        hangs.set()
        await stuck


async def test_a_log_that_is_opened_while_its_directory_fails_serves_nothing(
    tmp_path: Path,
) -> None:
    """P-24: what a full disk kept from being opened is opened late, and takes its time."""
    async with run_node(tmp_path, 1, **both(tmp_path)) as node:
        await push(node, *map(led, range(PARTITIONS)))
        bad = below(node, tmp_path / "b")[0]
        node.replicas.drop(bad, "as if it had not been opened yet")
        node.replicas.dirs.fail(node.replicas.dirs.of(bad.log), "a flush failed")
        late = node.replicas.adopt(bad.log, 0)
        assert "a flush failed" in (late.out_of_service or "")
        assert node.replicas.offline_replicas()[late.key] is ReplicaCondition.OUT_OF_SERVICE
        index = late.log.partition
        (refused,) = await push(node, led(index, epoch=1, is_new=False))
        assert isinstance(refused, KafkaStorageError)
        assert late.leader is None
