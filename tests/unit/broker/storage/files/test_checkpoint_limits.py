"""Up to where the shared checkpoints are believed, while they are written (P-16, I-75)."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_broker.storage.files.checkpoints import LOG_STARTS, RECOVERY_POINTS
from strandline_broker.storage.log.log import Log
from strandline_broker.storage.log.producer_snapshot import ProducerSnapshots
from support.disk import FaultyDisk, Hurried
from support.storage import LARGE, Store, damaged

KEY = ("t", 0)


class Interrupted(Hurried):
    """`between` happens once, right after the checkpoint of log starts was replaced."""

    between: Callable[[], object] | None = None

    def replace(self, source: str, target: str) -> None:  # type: ignore[override]
        super().replace(source, target)
        if target.endswith("log-start-offset-checkpoint") and self.between is not None:
            between, self.between = self.between, None
            between()

    before_unlink: Callable[[], object] | None = None

    def unlink(self, path: str) -> None:  # type: ignore[override]
        if "checkpoint-limit" in path and self.before_unlink is not None:
            before, self.before_unlink = self.before_unlink, None
            before()
        super().unlink(path)


def begun_anew(path: Path) -> tuple[Store, Interrupted]:
    """A follower's log that begins where its leader's does; a limit waits for the checkpoints."""
    disk = Interrupted()
    store = Store(path, LARGE, fs=disk)
    store.append(b"x")
    store.flush()
    store.checkpoint()
    store.log.truncate_fully_and_start_at(1000)
    return store, disk


def test_a_log_may_be_removed_while_its_start_is_written(tmp_path: Path) -> None:
    store, disk = begun_anew(tmp_path / "data")
    disk.between = lambda: store.directory.delete_log(store.log)
    store.directory.write_log_starts({KEY: 1000})
    assert disk.between is None


def test_a_limit_of_a_removed_log_does_not_land_in_the_next_of_its_name(tmp_path: Path) -> None:
    store, disk = begun_anew(tmp_path / "data")
    following = bytes(16)

    def between() -> None:
        store.directory.delete_log(store.log)
        store.create(following)

    disk.between = between
    store.directory.write_log_starts({KEY: 1000})
    log = store.restart()
    assert (log.topic_id, log.log_start_offset, log.log_end_offset) == (following, 0, 0)


def test_a_removal_that_stalls_takes_no_limit_of_the_next_log_of_its_name(tmp_path: Path) -> None:
    """The path is of the log that is there by then (P-51)."""
    store, disk = begun_anew(tmp_path / "data")

    def between() -> None:
        store.directory.delete_log(store.log)
        store.log = store.create(bytes(16))

    store.directory.write_high_watermarks({KEY: 1000})
    store.directory.write_log_starts({KEY: 1000})
    store.directory.write_cleaned_offsets({KEY: 1000})
    disk.before_unlink = between
    store.directory.write_recovery_points({KEY: 1000})
    assert disk.before_unlink is None
    store.append(b"x")
    log = store.restart()
    assert (log.log_start_offset, damaged(log), store.values()) == (0, [], [b"x"])


def test_an_empty_log_that_begins_anew_is_not_said_to_begin_before_that(tmp_path: Path) -> None:
    """No checkpoint of it promises anything but that it begins at 0 (I-75, I-7)."""
    store = Store(tmp_path / "data", LARGE, fs=Hurried())
    store.checkpoint(0)
    store.log.truncate_fully_and_start_at(28)
    store.append(b"x")
    store.flush()
    store.directory.write_recovery_points({KEY: 29})  # right before the log starts, in one go
    log = store.restart()
    assert (log.log_start_offset, damaged(log), store.values()) == (28, [], [b"x"])


@pytest.mark.parametrize("compacted", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_log_start_counts_that_rises_over_the_limit_after_it_was_written_below(
    tmp_path: Path, compacted: bool, restarted: bool
) -> None:
    """It was told as durable, and what it hides must not come back (I-75)."""
    store = Store(tmp_path / "data", LARGE, fs=Hurried())
    for i in range(20):
        store.append(b"%d" % i)
    store.flush()
    store.checkpoint()
    if compacted:
        store.log.gaps.expect()  # then the epochs do not tell where it begins
    store.log.truncate_to(10)
    store.log.raise_log_start(5)
    store.directory.write_log_starts({KEY: 5})
    if restarted:
        store.restart()
    for i in range(10):
        store.append(b"%d" % i)
    store.flush()
    store.log.raise_log_start(15)
    store.directory.write_log_starts({KEY: 15})
    assert store.restart().log_start_offset == 15
    assert [limit.offset for limit in store.log.limits.current()] == [10]
    assert store.log.limits.lowest(RECOVERY_POINTS) == 10
    assert store.log.limits.lowest(LOG_STARTS) is None


@pytest.mark.parametrize("cut", [Log.truncate_to, Log.truncate_fully_and_start_at])
def test_what_is_written_before_a_cut_shows_does_not_count_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: Callable[[Log, int], None]
) -> None:
    """It may be of the log as it was, whose end would be called damaged (I-7)."""
    store = Store(tmp_path / "data", LARGE, fs=Hurried())
    for i in range(20):
        store.append(b"%d" % i)
    store.flush()
    with monkeypatch.context() as patch:
        # The last step before the log shows its new end.
        patch.setattr(ProducerSnapshots, "remove_above", lambda *_: store.checkpoint(20))
        cut(store.log, 10)
    log = store.restart()
    assert (log.log_end_offset, damaged(log)) == (10, [])


def test_a_high_watermark_above_what_is_durable_does_not_come_back_over_other_records(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "data", LARGE, fs=Hurried())
    for i in range(20):
        store.append(b"%d" % i)
    store.directory.write_high_watermarks({KEY: 18})
    assert store.log.durable_offset == 0
    store.log.truncate_to(10)
    for i in range(10):
        store.append(b"another %d" % i)
    assert store.restart().log_end_offset == 20
    assert store.log.checkpointed_high_watermark <= 10


def test_a_flush_that_is_noted_within_a_cut_does_not_count_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop notes it, and its recovery point may be written, while the disk pool is about
    to cut what was not durable when that began (I-7).
    """
    store = Store(tmp_path / "data", LARGE, fs=Hurried())
    for i in range(20):
        store.append(b"%d" % i)
    ticket = store.log.flush_snapshot()
    ticket.run()

    def between(*_: object) -> None:
        store.log.flushed(ticket)
        store.checkpoint()

    with monkeypatch.context() as patch:
        patch.setattr(ProducerSnapshots, "remove_above", between)
        store.log.truncate_to(10)
    log = store.restart()
    assert (log.log_end_offset, damaged(log)) == (10, [])


def test_a_limit_of_a_creation_that_broke_off_counts_no_longer_than_it_has_to(
    tmp_path: Path,
) -> None:
    """It bears another number than the one that the next process begins with. Left there, it would
    have what was deleted come back at some later start (I-75).
    """
    disk = FaultyDisk(tmp_path / "data")
    store = Store(tmp_path / "data", LARGE, fs=disk)
    store.checkpoint(0)
    store.log.truncate_fully_and_start_at(28)
    store.checkpoint(28)
    store.directory.delete_log(store.log)
    disk.failing["replace"], disk.spared["replace"] = errno.ENOSPC, 1
    with pytest.raises(OSError, match="No space"):
        store.create(bytes(16))
    store.kill()
    disk.kill()
    store.directory = store._open()
    store.log = store.create(bytes(16))
    for i in range(20):
        store.append(b"%d" % i)
    store.flush()
    store.log.raise_log_start(15)
    store.checkpoint(20)
    assert store.log.limits.lowest(LOG_STARTS) is None
    assert store.restart().log_start_offset == 15


@pytest.mark.parametrize("again", [False, True])
def test_a_limit_of_a_cut_that_did_not_begin_does_not_count_at_the_next_start(
    tmp_path: Path, again: bool
) -> None:
    """A process without descriptors cannot sync the directory in which it stands by then: the cut
    is refused, and is made later or by no means (I-7, I-75).
    """
    disk = FaultyDisk(tmp_path / "data")
    store = Store(tmp_path / "data", LARGE, fs=disk)
    for i in range(20):
        store.append(b"%d" % i)
    store.flush()
    store.checkpoint()
    store.log.gaps.expect()  # then the epochs do not tell where it begins
    disk.failing["fsync_dir"] = errno.EMFILE
    with pytest.raises(OSError, match="Too many open files"):
        store.log.truncate_to(5)
    assert (store.log.log_end_offset, store.log.damaged) == (20, None)
    disk.failing.clear()
    if again:
        store.log.truncate_to(10)
        for i in range(10, 20):
            store.append(b"%d" % i)
        store.flush()
    store.log.raise_log_start(15)
    store.checkpoint(20)
    log = store.restart()
    assert (log.log_start_offset, log.checkpointed_high_watermark) == (15, 20)
