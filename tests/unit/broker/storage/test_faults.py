"""Full disks, short writes, deaf fsync and loss of power."""

import contextlib
import errno
import random
from pathlib import Path
from typing import Any

import pytest

from strandline_broker.storage.files.atomic_file import replace_file, replacing_files
from strandline_broker.storage.files.steps import in_a_row
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from strandline_proto.errors import KafkaStorageError
from support.disk import FaultyDisk
from support.storage import LARGE, SMALL, Store, batch_of


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    (tmp_path / "data").mkdir()
    return FaultyDisk(tmp_path / "data")


def stored(disk: FaultyDisk, *, large: bool = True) -> Store:
    return Store(disk.root, LARGE if large else SMALL, fs=disk)


@pytest.mark.parametrize("room", [0, 1, 16, 17, 60, 100])
def test_an_append_that_fills_the_disk_leaves_nothing(disk: FaultyDisk, room: int) -> None:
    store = stored(disk)
    store.append(b"before")
    size = (store.log_dir / f"{0:020d}.log").stat().st_size
    disk.room = room
    with pytest.raises(OSError, match=r"No space left.*\.log") as raised:
        store.append(b"x" * 100)
    assert raised.value.errno == errno.ENOSPC
    assert (store.log_dir / f"{0:020d}.log").stat().st_size == size
    assert store.log.log_end_offset == 1
    disk.room = None
    store.append(b"after")
    assert store.values() == [b"before", b"after"]
    assert store.restart().log_end_offset == 2


def test_a_follower_on_a_full_disk_keeps_neither_records_nor_epochs(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    leader = Store(tmp_path / "leader", LARGE)
    for epoch in (1, 2, 5):
        leader.append(b"x" * 100, epoch=epoch)
    run = leader.log.read(0, max_bytes=10_000, limit=3).records
    store = stored(disk)
    disk.room = 150  # the epochs fit, the records do not
    with pytest.raises(OSError, match="No space"):
        store.log.append_as_follower(run, leader_epoch=5)
    assert (store.log.log_end_offset, store.log.leader_epochs.entries) == (0, ())
    with pytest.raises(OSError, match="No space"):
        store.log.append_as_follower(run, leader_epoch=5)
    disk.room = None
    assert len(store.log.append_as_follower(run, leader_epoch=5)) == 3
    assert store.restart().leader_epochs.entries == ((1, 0), (2, 1), (5, 2))


def test_epochs_that_outlive_a_failed_append_are_gone_before_the_next(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    leader = Store(tmp_path / "leader", LARGE)
    for epoch in (1, 1, 1, 2, 5):
        leader.append(b"x" * 100, epoch=epoch)
    store = stored(disk)
    run = leader.log.read(0, max_bytes=1, limit=5).records
    store.log.append_as_follower(run, leader_epoch=1)
    disk.room = 150
    with pytest.raises(OSError, match="No space"):
        store.log.append_as_follower(
            leader.log.read(1, max_bytes=10_000, limit=5).records, leader_epoch=5
        )
    disk.room = None
    for value in (b"a", b"b", b"c", b"d"):
        store.append(value, epoch=1)
    store.restart()
    assert store.values() == [b"x" * 100, b"a", b"b", b"c", b"d"]
    assert store.log.leader_epochs.entries == ((1, 0),)


@pytest.mark.parametrize("most", [1, 7, 61])
def test_short_writes_are_carried_on(disk: FaultyDisk, most: int) -> None:
    store = stored(disk, large=False)
    disk.write_max = most
    values = [b"%d" % i + b"x" * 50 for i in range(40)]
    for value in values:
        store.append(value)
    assert store.values() == values
    store.restart(Store.stop)
    assert store.values() == values


def test_an_append_that_cannot_be_undone_ends_the_use_of_the_log(disk: FaultyDisk) -> None:
    store = stored(disk)
    store.append(b"before")
    disk.room = 20
    disk.failing["ftruncate"] = errno.EIO
    with pytest.raises(OSError, match="No space"):
        store.append(b"x" * 100)
    disk.room = None
    disk.failing.clear()
    with pytest.raises(KafkaStorageError, match="could not be undone"):
        store.append(b"y")
    assert store.restart().log_end_offset == 1


def test_a_roll_that_fails_leaves_the_log_as_it_was(disk: FaultyDisk) -> None:
    store = stored(disk, large=False)
    while not any(p.name != f"{0:020d}.log" for p in store.log_dir.glob("*.log")):
        values = store.values()
        disk.failing["open"] = errno.EMFILE
        with contextlib.suppress(OSError):
            store.append(b"x" * 100)
            values.append(b"x" * 100)
        disk.failing.clear()
        assert store.log.log_end_offset == len(values)
        store.append(b"x" * 100)
    assert store.values() == [b"x" * 100] * store.log.log_end_offset


@pytest.mark.parametrize("call", ["fdatasync", "fsync_dir"])
def test_an_fsync_that_fails_is_told_and_nothing_counts_as_durable(
    disk: FaultyDisk, call: str
) -> None:
    store = stored(disk, large=False)
    for _ in range(40):
        store.append(b"x" * 100)
    ticket = store.log.flush_snapshot()
    disk.failing[call] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        ticket.run()
    assert disk.calls.count(call) >= 1
    assert store.log.durable_offset == 0
    before = disk.calls.count(call)
    with pytest.raises(OSError, match="Input/output"):
        store.log.close()
    assert disk.calls.count(call) > before


@pytest.mark.parametrize("call", ["open", "pwritev", "fdatasync", "replace", "fsync_dir"])
def test_a_small_file_is_old_or_new_whatever_fails(disk: FaultyDisk, call: str) -> None:
    path = disk.root / "file"
    replace_file(disk, str(path), b"old")
    disk.failing[call] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        replace_file(disk, str(path), b"new")
    disk.failing.clear()
    assert path.read_bytes() == (b"new" if call == "fsync_dir" else b"old")
    assert [p.name for p in disk.root.iterdir()] == ["file"]


def test_an_epoch_that_could_not_be_kept_is_not_known(disk: FaultyDisk) -> None:
    epochs = LeaderEpochs(disk, str(disk.root))
    epochs.assign(1, 0)
    disk.failing["replace"] = errno.EIO
    with pytest.raises(OSError, match="Input/output"):
        epochs.assign(2, 10)
    assert epochs.entries == ((1, 0),)


def test_an_epoch_that_the_file_may_say_all_the_same_is_gone_before_other_batches(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    """Its directory could not be synced, so it is not known; a follower goes on in an older one."""
    leader = Store(tmp_path / "leader", LARGE)
    for value in (b"a", b"b"):
        leader.append(value, epoch=1)
    store = stored(disk)
    store.log.append_as_follower(leader.log.read(0, max_bytes=1, limit=2).records, leader_epoch=1)
    disk.failing["fsync_dir"] = errno.EMFILE
    with pytest.raises(OSError, match="Too many open files"):
        store.log.assign_epoch(2)
    disk.failing.clear()
    assert store.log.leader_epochs.entries == ((1, 0),)
    store.log.append_as_follower(leader.log.read(1, max_bytes=1, limit=2).records, leader_epoch=3)
    store.restart()
    assert store.values() == [b"a", b"b"]
    assert store.log.leader_epochs.entries == ((1, 0),)


def test_an_epoch_that_the_file_may_have_lost_is_there_before_batches_of_it(
    disk: FaultyDisk, tmp_path: Path
) -> None:
    """The cut that was to drop it has failed, and its leader leads after all (I-47)."""
    leader = Store(tmp_path / "leader", LARGE)
    leader.append(b"a", epoch=1)
    leader.append(b"b", epoch=2)
    store = stored(disk)
    store.append(b"a", epoch=1)
    store.log.assign_epoch(2)
    disk.failing["fsync_dir"] = errno.EMFILE
    with pytest.raises(OSError, match="Too many open files"):
        store.log.truncate_to(1)
    disk.failing.clear()
    store.log.append_as_follower(leader.log.read(1, max_bytes=1, limit=2).records, leader_epoch=2)
    store.restart()
    assert store.values() == [b"a", b"b"]
    assert store.log.leader_epochs.entries == ((1, 0), (2, 1))


def test_what_was_flushed_survives_a_loss_of_power_and_the_rest_does_not(disk: FaultyDisk) -> None:
    store = stored(disk, large=False)
    values = [b"%d" % i + b"x" * 50 for i in range(60)]
    for i, value in enumerate(values):
        if i == 37:
            store.flush()
            store.checkpoint(37)
        store.append(value, epoch=i // 10)
    disk.crash()
    store.start()
    assert store.values() == values[:37]
    assert store.log.leader_epochs.latest() == 3
    store.append(b"on", epoch=8)
    store.flush()
    disk.crash()
    store.start()
    assert store.values() == [*values[:37], b"on"]


def test_what_a_start_has_found_is_durable(disk: FaultyDisk) -> None:
    store = stored(disk, large=False)
    values = [b"%d" % i + b"x" * 50 for i in range(60)]
    for value in values:
        store.append(value)
    disk.kill()
    assert store.start().durable_offset == 60
    disk.crash()
    store.start()
    assert store.values() == values


@pytest.mark.parametrize("seed", range(12))
def test_any_mixture_of_lost_pages_leaves_a_prefix(disk: FaultyDisk, seed: int) -> None:
    rng = random.Random(seed)
    store = stored(disk, large=seed % 2 == 0)
    values = [rng.randbytes(rng.randrange(90)) for _ in range(50)]
    durable = 0
    for i, value in enumerate(values):
        store.append(value, epoch=i // 15)
        if rng.random() < 0.1:
            store.flush()
            durable = i + 1
            if rng.random() < 0.5:
                store.checkpoint(durable)

    def pages(before: bytes, after: bytes) -> bytes:
        """Of what was written since the last fsync, some pages reached the disk."""
        found = bytearray(after[: rng.randrange(len(before), len(after) + 1)] if after else b"")
        for at in range(len(before), len(found), 16):
            if rng.random() < 0.2:
                found[at : at + 16] = b"\0" * len(found[at : at + 16])
        return bytes(before[: len(found)] + found[len(before) :])

    disk.crash(pages)
    store.start()
    found = store.values()
    assert found == values[: len(found)]
    assert len(found) >= durable


@pytest.mark.parametrize("target", [0, 10, 25])
def test_a_truncation_survives_a_loss_of_power_at_once(disk: FaultyDisk, target: int) -> None:
    store = stored(disk, large=False)
    for i in range(40):
        store.append(b"%d" % i + b"x" * 50, epoch=i // 10)
    store.flush()
    store.checkpoint(40)
    store.log.truncate_to(target)
    disk.crash()
    log = store.start()
    assert log.log_end_offset == target
    assert all(start < target for _, start in log.leader_epochs.entries)
    assert store.reports == []


@pytest.mark.parametrize("full", [False, True])
def test_a_truncation_that_has_no_room_to_begin_leaves_the_log_as_it_was(
    disk: FaultyDisk, full: bool
) -> None:
    store = stored(disk, large=False)
    values = [b"%d" % i + b"x" * 50 for i in range(40)]
    for value in values:
        store.append(value)
    store.flush()

    def cut() -> None:
        if full:
            store.log.truncate_fully_and_start_at(90)
        else:
            store.log.truncate_to(25)

    disk.failing["pwritev"] = errno.ENOSPC
    with pytest.raises(OSError, match="No space left"):
        cut()
    del disk.failing["pwritev"]
    assert store.log.damaged is None
    assert store.values() == values
    cut()
    assert store.log.log_end_offset == (90 if full else 25)


@pytest.mark.parametrize("target", [0, 5, 13])
def test_a_truncation_that_breaks_off_anywhere_leaves_a_prefix(tmp_path: Path, target: int) -> None:
    broken = 0
    for call in ("pwritev", "fdatasync", "replace", "unlink", "fsync_dir", "ftruncate", "open"):
        for survivors in range(40):
            root = tmp_path / f"{call}-{survivors}"
            root.mkdir()
            disk = FaultyDisk(root)
            store = stored(disk, large=False)
            values = [b"%d" % i + b"x" * 250 for i in range(15)]
            for value in values:
                store.append(value)
            store.flush()
            store.checkpoint(15)
            disk.failing[call], disk.spared[call] = errno.EIO, survivors
            try:
                store.log.truncate_to(target)
            except OSError:
                broken += 1
            else:
                break
            disk.crash()
            store.start()
            found = store.values()
            assert found == values[: len(found)]
            assert len(found) >= target
    assert broken > 10


def test_a_batch_is_not_copied_before_it_is_written(disk: FaultyDisk) -> None:
    store = stored(disk)
    batch = batch_of(b"x" * 1000)
    seen: list[object] = []
    inner = disk.pwritev

    def spy(fd: int, buffers: list[memoryview], offset: int) -> int:
        seen.append([(type(b), len(b)) for b in buffers])
        seen.append(buffers[-1].obj is batch)
        return inner(fd, buffers, offset)

    disk.pwritev = spy  # type: ignore[method-assign, assignment]
    from strandline_proto.batch import read_header

    store.log.append_as_leader(batch, read_header(batch), leader_epoch=-1)
    assert seen == [[(bytes, 16), (memoryview, len(batch) - 16)], True]


@pytest.mark.parametrize("call", ["pwritev", "fdatasync", "replace"])
def test_a_replacement_that_fails_leaves_nothing_open(disk: FaultyDisk, call: str) -> None:
    path = str(Path(disk.root) / "small")
    opened: list[int] = []
    closed: list[int] = []
    open_, close_ = disk.open, disk.close

    def noting_open(*args: Any) -> int:
        opened.append(open_(*args))
        return opened[-1]

    def noting_close(fd: int) -> None:
        closed.append(fd)
        close_(fd)

    disk.failing[call] = errno.ENOSPC
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(disk, "open", noting_open)
        patch.setattr(disk, "close", noting_close)
        # The error is held on to, and with it every frame that it has come through.
        with pytest.raises(OSError, match="No space") as one:
            replace_file(disk, path, b"new")
        with pytest.raises(OSError, match="No space") as more:
            in_a_row(replacing_files(disk, [(f"{path}.seal", b"seal"), (path, b"new")]))
        assert one.value.errno == more.value.errno == errno.ENOSPC
        assert opened
        assert sorted(closed) == sorted(opened)
