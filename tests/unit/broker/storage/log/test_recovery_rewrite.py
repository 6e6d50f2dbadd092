"""A failed fsync leaves pages that look clean: the next process must not take them for durable."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from strandline_broker.storage.directory.directory import DataDirectory
from strandline_broker.storage.files.checkpoint_limits import CheckpointLimits
from strandline_broker.storage.files.failed_flush import has_failed_flush, note_failed_flush
from strandline_proof.sim.disk.disk import SimDisk
from strandline_proof.sim.disk.fs import SimFs
from strandline_runtime.runtime import Buffer
from support.storage import LARGE, SMALL, Store

RECORDS = [f"{number:03d}".encode() * 40 for number in range(30)]


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(random.Random(1), lambda: 0.0)


class Counting(SimFs):
    def __init__(self, disk: SimDisk) -> None:
        super().__init__(disk)
        self.written: list[int] = []

    def pwritev(self, fd: int, buffers: Sequence[Buffer], offset: int) -> int:
        self.written.append(sum(map(len, buffers)))
        return super().pwritev(fd, buffers, offset)


def store_on(disk: SimDisk, *, small: bool, found: bool = False) -> Store:
    return Store(Path("/data"), SMALL if small else LARGE, fs=SimFs(disk), found=found)


def fail(disk: SimDisk, store: Store, flush: Callable[[], object]) -> None:
    """A broker ends for what `flush` meets."""
    disk.faults.fsync_error = 1.0
    with pytest.raises(OSError, match="Input/output"):
        flush()
    disk.faults.fsync_error = 0.0
    store.kill()


@pytest.mark.parametrize("running", [True, False], ids=["flushed", "closed"])
@pytest.mark.parametrize("policy", ["always", "replicated"])
@pytest.mark.parametrize("small", [True, False], ids=["rolled", "one segment"])
@pytest.mark.parametrize("flushed", [0, 12])
def test_what_a_failed_fsync_gave_up_is_durable_after_the_next_start(
    disk: SimDisk, small: bool, flushed: int, policy: str, running: bool
) -> None:
    store = store_on(disk, small=small)
    store.directory.update_state(flush_policy=policy)
    for value in RECORDS[:flushed]:
        store.append(value)
    store.flush()
    store.checkpoint(flushed)
    for value in RECORDS[flushed:]:
        store.append(value)
    fail(disk, store, store.flush if running else store.log.close)

    store = store_on(disk, small=small, found=True)
    assert store.values() == RECORDS
    assert store.log.durable_offset == len(RECORDS)
    store.kill()
    disk.lose_power(survival=0.0)

    assert store_on(disk, small=small, found=True).values() == RECORDS


def test_what_a_cut_could_not_sync_is_durable_after_the_next_start(
    disk: SimDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CheckpointLimits, "prepare", lambda *_: None)  # whose sync came first
    store = store_on(disk, small=False)
    for value in RECORDS:
        store.append(value)
    fail(disk, store, partial(store.log.truncate_to, 20))

    store_on(disk, small=False, found=True).kill()
    disk.lose_power(survival=0.0)
    assert store_on(disk, small=False, found=True).values() == RECORDS[:20]


def test_only_what_lies_above_the_recovery_point_is_written_again(disk: SimDisk) -> None:
    store = store_on(disk, small=False)
    store.directory.update_state(flush_policy="always")
    for value in RECORDS:
        store.append(value)
    store.flush()
    store.checkpoint(len(RECORDS))
    store.kill()
    fs = Counting(disk)
    Store(Path("/data"), LARGE, fs=fs, found=True)
    assert all(size < len(RECORDS[0]) for size in fs.written), fs.written


def test_a_recovery_that_cannot_flush_is_noted_for_the_next(disk: SimDisk) -> None:
    store = store_on(disk, small=False)
    for value in RECORDS:
        store.append(value)
    store.kill()
    disk.faults.fsync_error, fs = 1.0, SimFs(disk)
    with pytest.raises(OSError, match="Input/output"):
        Store(Path("/data"), LARGE, fs=fs, found=True)
    disk.faults.fsync_error, fs.alive = 0.0, False
    store_on(disk, small=False, found=True).kill()
    disk.lose_power(survival=0.0)
    assert store_on(disk, small=False, found=True).values() == RECORDS


def test_the_note_goes_with_the_first_shutdown_that_has_flushed_all(disk: SimDisk) -> None:
    store = store_on(disk, small=False)
    fs = SimFs(disk)
    for _ in range(2):
        note_failed_flush(fs, "/data")
        assert has_failed_flush(fs, "/data")
    for _ in range(2):
        store.stop()
        assert not has_failed_flush(fs, "/data")
        store.start()


@pytest.mark.parametrize("known", [True, False], ids=["no log", "nobody's"])
def test_a_shutdown_flushes_nothing_of_what_did_not_open(disk: SimDisk, known: bool) -> None:
    store = store_on(disk, small=False)
    for value in RECORDS:
        store.append(value)
    fail(disk, store, store.flush)

    metadata, fs = "/data/t-0/partition.metadata", SimFs(disk)
    if not known:  # it is nobody's until its metadata is there again
        fs.replace(metadata, "/elsewhere")
    directory = DataDirectory.open(fs, "/data", node_id=1, cluster_id=None, new_id=store.new_id)
    disk.faults.fsync_error = 1.0
    for found in directory.partitions():
        with pytest.raises(OSError, match="Input/output"):
            directory.load_log(found, LARGE, store.reports.append)
    disk.faults.fsync_error = 0.0
    directory.write_clean_shutdown(7)
    directory.close()
    if not known:
        fs.replace("/elsewhere", metadata)

    store_on(disk, small=False, found=True).stop()
    disk.lose_power(survival=0.0)
    again = store_on(disk, small=False, found=True)
    assert not again.log.damaged_ranges.entries
    assert again.values() == RECORDS
