"""A loss of power, or a disk that fails, at any step of retention or DeleteRecords (I-74).

What follows a start is a log that begins at the old start or at the new one, and holds every
durable record from there on.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.disk import FaultyDisk
from support.examples import every
from support.producer_log import ProducerLog, idempotent_batch
from support.storage import SMALL, Store

CALLS = ("open", "pwritev", "fdatasync", "replace", "unlink", "fsync_dir", "ftruncate")
VALUES = [b"%d" % i + b"x" * 250 for i in range(9)]


def filled(disk: FaultyDisk, *, flushed: bool) -> Store:
    """Three records a segment, an epoch every four, the watermark at the end."""
    store = Store(disk.root, SMALL, fs=disk)
    for i, value in enumerate(VALUES):
        store.append(value, epoch=i // 4)
    if flushed:
        store.flush()
    store.checkpoint(len(VALUES))
    return store


def broken_off(tmp_path: Path, to: int, *, flushed: bool) -> Iterator[tuple[FaultyDisk, Store]]:
    """The disk and the store after the run broke off at each operation in turn."""
    for call in CALLS:
        for survivors in range(0, 60, every(3)):
            root = tmp_path / f"{call}-{survivors}"
            root.mkdir()
            disk = FaultyDisk(root)
            store = filled(disk, flushed=flushed)
            disk.failing[call], disk.spared[call] = errno.EIO, survivors
            try:
                store.shorten(to)
            except OSError:
                yield disk, store
            else:
                break
        else:
            raise AssertionError(f"{call} never ended")


def check(store: Store, to: int, least_end: int) -> None:
    log = store.log
    assert log.log_start_offset in (0, to)
    assert log.log_end_offset >= max(least_end, log.log_start_offset)
    expected = VALUES[log.log_start_offset : log.log_end_offset]
    assert store.values() == expected
    for offset in range(log.log_start_offset, min(log.log_end_offset, len(VALUES))):
        assert log.leader_epochs.epoch_at(offset) == offset // 4, "I-76"
    assert not list(store.log_dir.glob("*.deleted"))


@pytest.mark.parametrize(
    ("to", "how"), [(1, "power"), (5, "power"), (8, "power"), (9, "power"), (5, "kill")]
)
def test_a_run_that_breaks_off_anywhere_leaves_the_old_start_or_the_new(
    tmp_path: Path, to: int, how: str
) -> None:
    broken = 0
    for disk, store in broken_off(tmp_path, to, flushed=True):
        broken += 1
        if how == "power":
            disk.crash()
        else:
            disk.kill()
        store.start()
        check(store, to, len(VALUES))
        assert not any("damaged" in r or "lost" in r for r in store.reports), store.reports
        found = store.log.log_start_offset
        store.shorten(to)
        disk.crash()
        store.start()
        check(store, to, len(VALUES))
        assert store.log.log_start_offset == to >= found, "the next round ends what was begun"
        left = [(s.base_offset, s.size, s.end_offset) for s in store.log.segments]
        assert all(end > to for _, _, end in left[:-1]), left
    assert broken > 5


@pytest.mark.parametrize("to", [5, 9])
def test_records_that_were_not_durable_take_nothing_with_them(tmp_path: Path, to: int) -> None:
    for disk, store in broken_off(tmp_path, to, flushed=False):
        disk.crash()
        store.start()
        check(store, to, 0)
        base = store.append(b"after", epoch=9)
        assert base == store.log.log_end_offset - 1
        assert store.values()[-1] == b"after"


@pytest.mark.parametrize("to", [3, 7, 9])
@pytest.mark.parametrize("how", ["clean", "power"])
def test_the_new_start_survives_every_kind_of_stop(tmp_path: Path, to: int, how: str) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = filled(disk, flushed=True)
    store.shorten(to)
    for _ in range(2):
        if how == "clean":
            store.stop()
        elif how == "kill":
            disk.kill()
        else:
            disk.crash()
        store.start()
        assert store.log.log_start_offset == to
        check(store, to, len(VALUES))
    assert store.reports == []
    assert store.append(b"on", epoch=9) == len(VALUES)


def test_a_lost_checkpoint_brings_nothing_back_as_the_epochs_begin_with_the_log(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "data", SMALL)
    for i, value in enumerate(VALUES):
        store.append(value, epoch=i // 4)
    store.shorten(7)
    store.kill()
    (tmp_path / "data" / "log-start-offset-checkpoint").write_bytes(b"?")
    store.start()
    assert store.log.log_start_offset == 7
    assert store.values() == VALUES[7:]


def test_a_lost_checkpoint_and_lost_epochs_bring_back_no_more_than_the_files_hold(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "data", SMALL)
    for i, value in enumerate(VALUES):
        store.append(value, epoch=i // 4)
    store.shorten(7)
    store.kill()
    (tmp_path / "data" / "log-start-offset-checkpoint").write_bytes(b"?")
    (store.log_dir / "leader-epoch-checkpoint").unlink()
    store.start()
    assert store.log.log_start_offset == 6
    assert store.values() == VALUES[6:]


def test_a_log_that_is_begun_anew_lower_stays_there(tmp_path: Path) -> None:
    """The log-start checkpoint still names the later start, of a log that was never flushed."""
    store = Store(tmp_path / "data", SMALL)
    for value in VALUES[:3]:
        store.append(value)
    store.shorten(2)
    store.log.truncate_fully_and_start_at(1)
    store.restart()
    assert (store.log.log_start_offset, store.log.log_end_offset) == (1, 1)


def test_producers_are_known_although_all_their_records_are_gone(tmp_path: Path) -> None:
    """I-58; a record that was sent twice is still found out."""
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    log = ProducerLog(Store(disk.root, SMALL, fs=disk))
    for sequence in range(9):
        log.append(idempotent_batch(7, sequence, b"x" * 250))
    before = log.entries
    log.store.shorten(9)
    assert log.log.segments[0].base_offset == 9
    disk.crash()
    log.store.start()
    log.load()
    assert log.entries == before
