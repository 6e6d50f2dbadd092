"""A crash at each disk operation of a cleaning: old or new segments, no mixture, no gap (I-73)."""

import contextlib
import errno
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strandline_broker.storage.cleaner.cleaner import Cleaner, Replace
from strandline_broker.storage.cleaner.swap import Swap
from strandline_proto.batch import Record
from strandline_proto.errors import KafkaStorageError
from support.compaction import COMPACTED, clean, put, records_of, state_of, task_of
from support.disk import CHANGES, Ended, EndingDisk, FaultyDisk
from support.storage import Store


def killed(disk: FaultyDisk) -> None:
    disk.kill()


def power_lost(disk: FaultyDisk) -> None:
    disk.crash()


def power_lost_late(disk: FaultyDisk) -> None:
    """All bytes that were written are there, but only the names that were synced."""
    disk.crash(lambda _, written: written)


def write(root: Path, *, checkpointed: bool) -> None:
    """A log with a cleaned part, a dirty part, tombstones with and without a horizon."""
    store = Store(root, COMPACTED)
    for i in range(12):
        key = b"key-%d" % (i % 4)
        put(store, (key, b"value-%d" % i), (b"gone-%d" % (i % 3), None), timestamp_ms=100 * i)
    clean(store)
    for i in range(6):
        put(store, (b"key-%d" % (i % 2), b"again-%d" % i), timestamp_ms=5000 + i)
    store.flush()
    if checkpointed:
        store.checkpoint(store.log.log_end_offset)
    store.kill()


def opened(written: Path, root: Path) -> tuple[EndingDisk, Store]:
    """A copy of what was written, all of it durable."""
    shutil.copytree(written, root)
    disk = EndingDisk(root)
    disk.settle()
    return disk, Store(root, COMPACTED, fs=disk, found=True)


@dataclass
class Course:
    """What an undisturbed cleaning shows, one swap after the other."""

    shown: list[list[Record]] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    """The operations that change something, in their order."""


def cleaned(store: Store, course: Course | None = None) -> None:
    """As `Cleaner.clean`, noting what a reader sees after each swap."""
    log = store.log
    log.gaps.expect()
    steps = Cleaner(store.fs, buffer_bytes=300).steps(task_of(log, now_ms=6500))
    for step in steps:
        if isinstance(step, Replace):
            swap = Swap(store.fs, log, step.old, step.new)
            step.done = swap.show()
            swap.set_old_aside()
            swap.name()
            swap.settle(now_ms=0)
            if course is not None:
                course.shown.append(records_of(log))
    log.deleted_segments.purge(2**62)


def course_of(written: Path, root: Path) -> Course:
    disk, store = opened(written, root)
    course = Course([records_of(store.log)])
    disk.calls.clear()
    cleaned(store, course)
    course.changes = [call for call in disk.calls if call in CHANGES]
    return course


@pytest.mark.parametrize(
    ("end", "checkpointed"), [(killed, True), (power_lost, False), (power_lost_late, True)]
)
def test_a_crash_at_any_operation_leaves_old_or_new(
    tmp_path: Path, end: Callable[[FaultyDisk], None], checkpointed: bool
) -> None:
    written = tmp_path / "written"
    write(written, checkpointed=checkpointed)
    course = course_of(written, tmp_path / "undisturbed")
    assert len(course.shown) > 2
    assert len(course.changes) > 30
    seen = set()
    for operations, call in enumerate(course.changes):
        if end is not killed and "sync" not in call:
            continue  # a loss of power shows what was synced before, and that alone
        root = tmp_path / f"{operations}"
        disk, store = opened(written, root)
        log_end = store.log.log_end_offset
        disk.left = operations
        with contextlib.suppress(Ended):
            cleaned(store)
        disk.left = None
        end(disk)
        log = store.start()
        found = records_of(log)
        assert found in course.shown, f"after {operations} operations"
        seen.add(course.shown.index(found))
        assert log.log_end_offset == log_end
        assert not [p for p in store.log_dir.iterdir() if p.suffix not in KNOWN_ENDINGS]
        assert not any("ATTENTION" in report for report in store.reports)
        cleaned(store)
        assert state_of(records_of(store.log)) == state_of(found)
        shutil.rmtree(root)
    # Merging alone changes no record: then two stages show the same.
    stages = {course.shown.index(shown) for shown in course.shown}
    assert len(stages) > 2
    assert seen == stages, "each was met"


KNOWN_ENDINGS = {".log", ".index", ".timeindex", ".snapshot", ".metadata", ".seal", ""}


def test_old_names_are_gone_for_good_before_the_new_one_is_given(tmp_path: Path) -> None:
    """A file system may keep one of two renames that were never synced, and not the other."""
    write(tmp_path / "written", checkpointed=True)
    disk, store = opened(tmp_path / "written", tmp_path / "data")
    store.log.gaps.expect()
    for step in Cleaner(store.fs).steps(task_of(store.log, now_ms=6500)):
        if isinstance(step, Replace):
            swap = Swap(store.fs, store.log, step.old, step.new)
            step.done = swap.show()
            disk.calls.clear()
            swap.set_old_aside()
            assert disk.calls[-1] == "fsync_dir"
            swap.name()
            disk.calls.clear()
            swap.settle(now_ms=0)
            assert disk.calls == ["fsync_dir"]


def test_a_swap_that_a_full_disk_stops_is_finished_at_the_next_start(tmp_path: Path) -> None:
    """A cut before that would come to the new segment, and the old ones would be back behind it."""
    write(tmp_path / "written", checkpointed=True)
    disk, store = opened(tmp_path / "written", tmp_path / "data")
    log = store.log
    log.gaps.expect()
    steps = Cleaner(store.fs).steps(task_of(log, now_ms=6500))
    step = next(step for step in steps if isinstance(step, Replace))
    swap = Swap(store.fs, log, step.old, step.new)
    step.done = swap.show()
    shown = records_of(log)
    disk.failing["replace"] = errno.ENOSPC
    with pytest.raises(OSError, match="No space"):
        swap.set_old_aside()
    disk.failing.clear()
    for cut in (log.truncate_to, log.truncate_fully_and_start_at):
        with pytest.raises(KafkaStorageError, match="half-way"):
            cut(3)
    assert records_of(store.restart()) == shown
