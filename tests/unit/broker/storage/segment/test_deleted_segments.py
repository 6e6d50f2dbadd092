"""Segments that leave a log: out of memory in one step, renamed, removed later; readers go on."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from strandline_broker.storage.log.log import Log
from strandline_broker.storage.segment.segment import Segment
from strandline_proto.errors import KafkaStorageError, OffsetOutOfRange
from support.disk import FaultyDisk
from support.storage import SMALL, Store, values_of


def filled(path: Path, fs: FaultyDisk | None = None) -> Store:
    """Ten records of a segment each but the last."""
    store = Store(path, SMALL) if fs is None else Store(path, SMALL, fs=fs)
    for i in range(10):
        store.append(b"%d" % i * 500, b"second")
    assert len(store.log.segments) == 10
    return store


def drop(log: Log, count: int) -> tuple[Segment, ...]:
    dropped = log.segments[:count]
    log.raise_log_start(dropped[-1].end_offset)
    assert log.drop_segments(dropped)
    return dropped


def names(store: Store, ending: str) -> list[str]:
    return sorted(path.name for path in store.log_dir.iterdir() if path.name.endswith(ending))


def test_dropped_segments_are_renamed_at_once_and_removed_when_their_delay_is_over(
    tmp_path: Path,
) -> None:
    store = filled(tmp_path / "data")
    (store.log_dir / f"{2:020d}.snapshot").touch()
    log = store.log
    dropped = drop(log, 2)
    log.deleted_segments.add(dropped, now_ms=1000, delay_ms=50)
    assert names(store, ".deleted") == [
        f"{base:020d}.{suffix}.deleted"
        for base, suffixes in ((0, ("index", "log", "timeindex")),)
        for suffix in suffixes
    ] + [f"{2:020d}.{suffix}.deleted" for suffix in ("index", "log", "snapshot", "timeindex")]
    assert log.deleted_segments.next_ms == 1050
    log.deleted_segments.purge(1049)
    assert len(names(store, ".deleted")) == 7
    log.deleted_segments.purge(1050)
    assert names(store, ".deleted") == []
    assert log.deleted_segments.next_ms is None


def test_a_snapshot_may_be_kept(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    (store.log_dir / f"{0:020d}.snapshot").touch()
    store.log.deleted_segments.add(drop(store.log, 1), now_ms=0, delay_ms=0, snapshots=False)
    assert names(store, ".snapshot") == [f"{0:020d}.snapshot"]


def test_a_log_goes_on_after_its_first_segments(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    log, before = store.log, store.log.size_bytes
    dropped = drop(log, 3)
    assert log.size_bytes == before - sum(s.size for s in dropped)
    assert (log.log_start_offset, log.log_end_offset) == (6, 20)
    with pytest.raises(OffsetOutOfRange):
        log.read(5, max_bytes=1, limit=20)
    assert values_of(log)[0] == b"3" * 500
    log.deleted_segments.add(dropped, now_ms=0, delay_ms=0)
    assert len(values_of(store.restart())) == 14
    assert store.log.log_start_offset == 6


def test_what_was_renamed_is_gone_after_a_restart(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    store.log.deleted_segments.add(drop(store.log, 3), now_ms=0, delay_ms=60_000)
    store.restart()
    assert names(store, ".deleted") == []
    assert store.reports == []


def test_a_file_that_cannot_be_removed_is_left_to_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = filled(disk.root, disk)
    log = store.log
    log.deleted_segments.add(drop(log, 1), now_ms=0, delay_ms=0)
    disk.failing["unlink"] = errno.EACCES
    with pytest.raises(OSError, match="denied"):
        log.deleted_segments.purge(0)
    assert log.deleted_segments.next_ms is None
    disk.failing.clear()
    disk.kill()
    store.start()
    assert names(store, ".deleted") == []


def test_the_name_of_what_takes_their_place_is_durable_before_theirs_goes(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = filled(disk.root, disk)
    dropped = drop(store.log, 1)
    disk.calls.clear()
    store.log.deleted_segments.add(dropped, now_ms=0, delay_ms=0)
    assert disk.calls == ["fsync_dir", *["replace"] * 5, "fsync_dir"]


def test_segments_that_a_truncation_took_meanwhile_are_not_dropped(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    first = store.log.segments[:2]
    store.log.truncate_to(1)
    assert not store.log.drop_segments(first)
    assert len(store.log.segments) == 1


def test_the_active_segment_is_never_dropped(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    store.log.raise_log_start(20)
    assert not store.log.drop_segments(store.log.segments)
    assert not store.log.drop_segments(store.log.segments[-1:])


def test_the_log_start_never_falls(tmp_path: Path) -> None:
    log = filled(tmp_path / "data").log
    assert log.raise_log_start(5)
    assert not log.raise_log_start(5)
    assert not log.raise_log_start(4)
    assert log.log_start_offset == 5


def test_a_read_that_meets_a_renamed_file_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path / "data").log
    for segment in log.segments[:-1]:
        segment.release()
    opened = Segment._open

    def open_after_a_drop(segment: Segment) -> object:
        monkeypatch.setattr(Segment, "_open", opened)
        dropped = drop(log, 3)
        log.deleted_segments.add(dropped, now_ms=0, delay_ms=0)
        log.deleted_segments.purge(0)
        return opened(segment)

    monkeypatch.setattr(Segment, "_open", open_after_a_drop)
    with pytest.raises(OffsetOutOfRange, match="which holds 6 to 20"):
        log.read(2, max_bytes=100, limit=20)
    assert log.damaged is None
    monkeypatch.setattr(Segment, "_open", open_after_a_drop)
    assert log.read(16, max_bytes=100, limit=20).base_offset == 16


def swapped_files(log: Log, old: Segment, fs: Path) -> Callable[[], None]:
    """Puts another file in the place of the old segment's, as a compaction does."""

    def move() -> None:
        path = Path(old.path())
        path.replace(f"{path}.deleted")
        Path(f"{path}.swap").replace(path)

    return move


def copy_of(log: Log, segment: Segment) -> Segment:
    """A sealed segment of the same offsets, whose file still has another name."""
    path = Path(segment.path())
    Path(f"{path}.swap").write_bytes(path.read_bytes())
    return Segment(
        log._fs,
        log.path,
        segment.base_offset,
        size=segment.size,
        end_offset=segment.end_offset,
        index_interval=1,
    )


def test_new_segments_stand_where_the_old_stood(tmp_path: Path) -> None:
    log = filled(tmp_path / "data").log
    before = values_of(log)
    old = log.segments[3]
    new = copy_of(log, old)
    assert log.replace_segments([old], [new], move_files=swapped_files(log, old, tmp_path))
    assert log.segments[3] is new
    assert len(log.segments) == 10
    assert values_of(log) == before
    assert log.state.replacements == 1


def test_a_replacement_that_fails_half_way_takes_the_log_out_of_use(tmp_path: Path) -> None:
    log = filled(tmp_path / "data").log
    old = log.segments[3]

    def fail() -> None:
        assert log.state.is_replacing
        raise OSError(errno.EIO, "no rename")

    with pytest.raises(OSError, match="no rename"):
        log.replace_segments([old], [copy_of(log, old)], move_files=fail)
    assert not log.state.is_replacing
    with pytest.raises(KafkaStorageError, match="half-way"):
        log.read(0, max_bytes=1, limit=20)


def test_a_truncation_below_the_log_start_begins_a_new_log_there(tmp_path: Path) -> None:
    store = filled(tmp_path / "data")
    store.log.raise_log_start(7)
    store.log.truncate_to(6)
    assert (store.log.log_start_offset, store.log.log_end_offset) == (6, 6)


def test_a_truncation_into_the_batch_that_holds_the_log_start_begins_anew_at_the_start(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "data", SMALL)
    for i in range(3):
        store.append(b"%d" % i, b"b", b"c", b"d")
    store.log.raise_log_start(5)
    store.log.truncate_to(7)
    assert (store.log.log_start_offset, store.log.log_end_offset) == (5, 5)
    store.append(b"new")
    assert store.values() == [b"new"]


def test_what_an_error_left_behind_goes_before_anything_else(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = filled(disk.root, disk)
    log, deleted = store.log, store.log.deleted_segments
    disk.failing["replace"], disk.spared["replace"] = errno.EIO, 2
    with pytest.raises(OSError, match="error"):
        deleted.add(drop(log, 3), now_ms=0, delay_ms=0)
    assert deleted.is_behind
    with pytest.raises(OSError, match="error"):
        deleted.add(drop(log, 2), now_ms=0, delay_ms=0)
    assert f"{6:020d}.log" in names(store, ".log"), "behind what is left of the first round"
    disk.failing.clear()
    deleted.add((), now_ms=0, delay_ms=0)
    assert not deleted.is_behind
    assert names(store, ".log") == [f"{base:020d}.log" for base in range(10, 20, 2)]
    deleted.purge(0)
    assert names(store, ".deleted") == []


def test_a_log_begun_anew_is_not_taken_for_what_was_left_behind(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    disk = FaultyDisk(tmp_path / "data")
    store = filled(disk.root, disk)
    log, deleted = store.log, store.log.deleted_segments
    disk.failing["replace"], disk.spared["replace"] = errno.EIO, 0
    with pytest.raises(OSError, match="error"):
        deleted.add(drop(log, 3), now_ms=0, delay_ms=0)
    disk.failing.clear()
    log.truncate_fully_and_start_at(2)
    store.append(b"anew")
    deleted.add((), now_ms=0, delay_ms=0)
    deleted.purge(0)
    assert names(store, ".log") == [f"{2:020d}.log"], "0 and 4 are of the log before"
    assert values_of(store.restart()) == [b"anew"]
