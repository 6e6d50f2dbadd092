"""The controller's store: each decision whole and durable, or not there."""

import errno
import os
from pathlib import Path

import pytest

from strandline_broker.storage.controller.metadata_log import MetadataLog, NoRoom, check_identity
from strandline_broker.storage.directory.directory import DataDirectory, DirectoryError
from strandline_broker.storage.files.damage import DamagedLog
from strandline_proto.batch import read_header
from strandline_proto.errors import KafkaStorageError
from support.disk import FaultyDisk

DECISIONS = [[b"epoch"], [b"topic", b"partition", b""], [b"x" * 300]]


def opened(disk: FaultyDisk) -> tuple[DataDirectory, MetadataLog, list[str]]:
    reports: list[str] = []
    directory = DataDirectory.open(
        disk, str(disk.root), node_id=100, cluster_id="c", new_id=lambda: bytes(range(16))
    )
    return directory, MetadataLog.open(disk, directory, reports.append), reports


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    (tmp_path / "data").mkdir()
    return FaultyDisk(tmp_path / "data")


def written(disk: FaultyDisk) -> Path:
    _, log, _ = opened(disk)
    ends = [log.append(values, controller_epoch=1, now_ms=5) for values in DECISIONS]
    assert ends == [(0, 0), (1, 3), (4, 4)]
    assert log.end_offset == 5
    return disk.root / "__cluster_metadata-0" / f"{0:020d}.log"


def test_decisions_come_back_in_order_after_a_loss_of_power(disk: FaultyDisk) -> None:
    written(disk)
    disk.crash()
    _, log, reports = opened(disk)
    assert list(log.batches()) == [
        (0, 0, DECISIONS[0]),
        (1, 3, DECISIONS[1]),
        (4, 4, DECISIONS[2]),
    ]
    assert reports == []
    assert log.append([b"next"], controller_epoch=2, now_ms=6) == (5, 5)


def test_a_torn_last_decision_was_never_made(disk: FaultyDisk) -> None:
    path = written(disk)
    disk.kill()
    os.truncate(path, path.stat().st_size - 1)
    _, log, reports = opened(disk)
    assert [values for _, _, values in log.batches()] == DECISIONS[:2]
    assert len(reports) == 1


def test_a_bad_decision_with_a_sound_one_behind_it_is_damage(disk: FaultyDisk) -> None:
    path = written(disk)
    disk.kill()
    data = path.read_bytes()
    last = read_header(data).size
    last += read_header(data, last).size
    for at in range(last):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        with pytest.raises(DamagedLog, match=r"sound batch stands behind it.*from a copy"):
            opened(disk)
        disk.kill()


def test_a_decision_that_is_not_what_was_written_is_not_believed(disk: FaultyDisk) -> None:
    path = written(disk)
    disk.kill()
    _, log, _ = opened(disk)
    data = bytearray(path.read_bytes())
    data[read_header(data).size - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(KafkaStorageError, match=r"offset 0 does not match its CRC-32C.*a copy"):
        list(log.batches())


def test_a_metadata_log_that_vanished_is_not_begun_anew(disk: FaultyDisk) -> None:
    path = written(disk)
    disk.kill()
    for child in path.parent.iterdir():
        child.unlink()
    path.parent.rmdir()
    with pytest.raises(DirectoryError, match="put the directory back from a copy"):
        opened(disk)


@pytest.mark.parametrize("seal", ["sealed", "not sealed"])
@pytest.mark.parametrize("at", [None, 3, 30])
def test_the_store_is_known_by_its_name(disk: FaultyDisk, at: int | None, seal: str) -> None:
    """I-36: whatever has become of what says whose the directory is."""
    metadata = written(disk).parent / "partition.metadata"
    was = metadata.read_bytes()
    disk.kill()
    if seal == "not sealed":
        metadata.with_name("partition.metadata.seal").unlink()
    if at is None:
        metadata.unlink()
    else:
        metadata.write_bytes(was[:at] + bytes((was[at] ^ 4,)) + was[at + 1 :])
    directory, log, _ = opened(disk)
    assert [values for _, _, values in log.batches()] == DECISIONS
    assert metadata.read_bytes() == was
    assert directory.strays() == []


def test_a_store_that_nothing_says_whose_it_is_begins_no_new_cluster(disk: FaultyDisk) -> None:
    """A controller of another cluster ends every broker that asks it."""
    check_identity(disk, str(disk.root))
    written(disk)
    check_identity(disk, str(disk.root))
    (disk.root / "meta.properties").unlink()
    with pytest.raises(DirectoryError, match=r"is gone: put it back.*--discard-store"):
        check_identity(disk, str(disk.root))


@pytest.mark.parametrize("call", ["fdatasync", "pwritev"])
def test_a_failed_append_is_final(disk: FaultyDisk, call: str) -> None:
    _, log, _ = opened(disk)
    log.append([b"a"], controller_epoch=1, now_ms=1)
    disk.failing[call] = errno.EIO
    with pytest.raises(OSError, match=r"\.log"):
        log.append([b"b"], controller_epoch=1, now_ms=1)
    disk.failing.clear()
    with pytest.raises(AssertionError, match="must have ended"):
        log.append([b"c"], controller_epoch=1, now_ms=1)


@pytest.mark.parametrize("room", [0, 7, 61, 90])
def test_a_decision_without_room_has_not_happened_and_the_next_one_may(
    disk: FaultyDisk, room: int
) -> None:
    """P-24: nothing of it was appended, so nothing is unknown."""
    _, log, _ = opened(disk)
    log.append([b"a"], controller_epoch=1, now_ms=1)
    for _ in range(2):
        disk.room = room
        with pytest.raises(NoRoom, match=r"No space left.*nothing was decided; free disk space"):
            log.append([b"b" * 100], controller_epoch=1, now_ms=1)
        assert log.end_offset == 1
    disk.room = None
    assert log.append([b"c"], controller_epoch=1, now_ms=1) == (1, 1)
    disk.crash()
    _, log, reports = opened(disk)
    assert [values for _, _, values in log.batches()] == [[b"a"], [b"c"]]
    assert reports == []


@pytest.mark.parametrize("also", ["fdatasync", "ftruncate"])
def test_a_full_disk_that_leaves_a_decision_unknown_is_final(disk: FaultyDisk, also: str) -> None:
    """P-24: it may be on the disk, if only in part."""
    _, log, _ = opened(disk)
    log.append([b"a"], controller_epoch=1, now_ms=1)
    disk.failing[also] = errno.ENOSPC if also == "fdatasync" else errno.EIO
    disk.room = 0 if also == "ftruncate" else None
    with pytest.raises((OSError, KafkaStorageError)) as failed:
        log.append([b"b"], controller_epoch=1, now_ms=1)
    assert not isinstance(failed.value, NoRoom)
    disk.failing.clear()
    disk.room = None
    with pytest.raises(AssertionError, match="must have ended"):
        log.append([b"c"], controller_epoch=1, now_ms=1)
