"""What a start after a crash syncs: what may not be on the disk, and nothing of a log at rest."""

import os
from pathlib import Path

import pytest

from strandline_broker.storage.log.log import LogConfig
from support.disk import FaultyDisk
from support.storage import SMALL, Store

SYNCS = ("fsync", "fdatasync", "fsync_dir")


def log_syncs(store: Store, disk: FaultyDisk) -> int:
    """Of opening the log; the directory's own come before."""
    store.kill()
    store.directory = store._open()
    (found,) = store.directory.partitions()
    disk.calls.clear()
    store.log = store.directory.load_log(found, store.config, store.reports.append)
    return sum(call in SYNCS for call in disk.calls)


def a_store(tmp_path: Path, config: LogConfig = SMALL) -> tuple[Store, FaultyDisk]:
    disk = FaultyDisk(tmp_path / "data")
    return Store(tmp_path / "data", config, fs=disk), disk


def test_an_empty_log_is_opened_without_a_sync(tmp_path: Path) -> None:
    store, disk = a_store(tmp_path)
    assert log_syncs(store, disk) == 0


@pytest.mark.parametrize("rolled", [False, True])
def test_what_the_recovery_point_covers_is_not_synced_again(tmp_path: Path, rolled: bool) -> None:
    store, disk = a_store(tmp_path)
    for i in range(3):
        store.append(b"%d" % i * 500)
    if rolled:
        store.log.roll()
    store.flush()
    store.checkpoint()
    assert log_syncs(store, disk) == 0
    assert (store.log.log_end_offset, store.log.durable_offset) == (3, 3)
    assert log_syncs(store, disk) == 0


def test_what_lies_above_it_is_durable_once_the_log_is_open(tmp_path: Path) -> None:
    store, disk = a_store(tmp_path)
    store.append(b"flushed")
    store.flush()
    store.checkpoint()
    store.append(b"not flushed")
    assert log_syncs(store, disk) > 0
    assert store.log.durable_offset == 2
    store.kill()
    disk.crash()
    assert store.start().log_end_offset == 2


def test_a_torn_tail_is_gone_once_the_log_is_open(tmp_path: Path) -> None:
    store, disk = a_store(tmp_path)
    store.append(b"flushed")
    store.flush()
    store.checkpoint()
    path = store.log.segments[-1].path()
    size = Path(path).stat().st_size
    file = disk.open(path, os.O_RDWR)
    disk.pwrite(file, b"torn", size)
    disk.fsync(file)
    disk.close(file)
    assert log_syncs(store, disk) > 0
    store.kill()
    disk.crash()
    assert Path(path).stat().st_size == size


def test_files_that_are_removed_stay_so(tmp_path: Path) -> None:
    """Renamed by a retention that was killed before it had synced that."""
    store, disk = a_store(tmp_path)
    (found,) = store.log_dir.glob("*.log")
    left = str(found.with_name("left.tmp"))
    disk.close(disk.open(left, os.O_WRONLY | os.O_CREAT))
    disk.fsync_dir(str(store.log_dir))
    assert log_syncs(store, disk) == 1
    store.kill()
    disk.crash()
    assert not Path(left).exists()


@pytest.mark.parametrize("flushed", [False, True])
def test_a_segment_whose_name_may_be_lost_is_named_with_its_first_flush(
    tmp_path: Path, flushed: bool
) -> None:
    """It was begun by a process that was killed before it had anything to flush there."""
    store, disk = a_store(tmp_path)
    store.append(b"first")
    store.flush()
    store.checkpoint()
    store.log.roll()
    assert log_syncs(store, disk) == 0
    store.append(b"second")
    if flushed:
        store.flush()
    assert store.log.durable_offset == (2 if flushed else 1)
    store.kill()
    disk.crash()
    store.start()
    assert store.values() == ([b"first", b"second"] if flushed else [b"first"])


def test_without_a_recovery_point_all_is_synced(tmp_path: Path) -> None:
    store, disk = a_store(tmp_path)
    store.append(b"one")
    store.flush()
    store.checkpoint()
    (tmp_path / "data" / "recovery-point-offset-checkpoint").write_text("not a checkpoint")
    assert log_syncs(store, disk) > 0
    assert store.values() == [b"one"]
