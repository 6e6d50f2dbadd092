"""Damage in a log: found, marked, not served, gone with a cut; and a missing segment told from a
gap that compaction left (I-7).
"""

import errno
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.storage.files.damage import BadBatch
from strandline_broker.storage.files.file import File
from strandline_broker.storage.log.segment_check import SegmentCheck, check_segment
from strandline_broker.storage.segment.damage_walk import sound_batch_behind
from strandline_broker.storage.segment.damaged_ranges import DamagedRange, DamagedRanges
from strandline_broker.storage.segment.segment import Segment
from strandline_proto.batch import iter_headers, read_header
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem
from support.disk import FaultyDisk, Hurried
from support.storage import (
    SMALL,
    Store,
    batch_of,
    damaged,
    values_around_damage,
    values_of,
    written_by_another,
)


def many_segments(path: Path) -> tuple[Store, list[int]]:
    """Sixty batches of two records, all flushed, and the base offsets of their segments."""
    store = Store(path, fs=Hurried())
    for i in range(60):
        store.append(b"%d" % i, b"x" * 40, epoch=i // 20)
    store.flush()
    store.checkpoint()
    return store, sorted(int(p.stem) for p in store.log_dir.glob("*.log"))


def log_file(store: Store, base: int) -> Path:
    return store.log_dir / f"{base:020d}.log"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x41
    path.write_bytes(data)


def all_values() -> list[bytes]:
    return [value for i in range(60) for value in (b"%d" % i, b"x" * 40)]


@pytest.mark.parametrize("stop", [Store.stop, Store.kill])
def test_a_missing_segment_below_the_recovery_point_is_damage(tmp_path: Path, stop: object) -> None:
    store, bases = many_segments(tmp_path / "data")
    values = values_of(store.log)
    assert callable(stop)
    stop(store)
    log_file(store, bases[2]).unlink()
    store.start()
    assert damaged(store.log) == [(bases[2], bases[3])]
    assert values_around_damage(store.log) == values[: bases[2]] + values[bases[3] :]
    assert len(store.reports) == 1
    assert damaged(store.restart(Store.stop)) == [(bases[2], bases[3])]


def test_a_missing_first_segment_is_damage_and_a_deleted_one_is_not(tmp_path: Path) -> None:
    store, bases = many_segments(tmp_path / "data")
    store.stop()
    log_file(store, 0).unlink()
    store.start()
    assert damaged(store.log) == [(0, bases[1])]
    assert store.log.log_start_offset == 0
    store.log.raise_log_start(bases[2])
    store.stop()
    log_file(store, bases[1]).unlink()
    assert damaged(store.start()) == []
    assert store.log.log_start_offset == bases[2]


def test_a_gap_is_lawful_where_compaction_may_have_left_it(tmp_path: Path) -> None:
    store, bases = many_segments(tmp_path / "data")
    values = values_of(store.log)
    store.kill()
    log_file(store, bases[2]).unlink()
    written_by_another(store.path / "cleaner-offset-checkpoint", f"0\n1\nt 0 {bases[3]}\n")
    assert damaged(store.start()) == []
    assert values_of(store.log) == values[: bases[2]] + values[bases[3] :]
    store.kill()
    written_by_another(store.path / "cleaner-offset-checkpoint", f"0\n1\nt 0 {bases[3] - 1}\n")
    assert damaged(store.start()) == [(bases[2], bases[3])]
    store.kill()
    (store.path / "cleaner-offset-checkpoint").unlink()
    (store.log_dir / "damaged-ranges").unlink()
    (store.log_dir / "compacted").touch()
    assert damaged(store.start()) == []


@pytest.mark.parametrize("stop", [Store.stop, Store.kill])
def test_a_gap_is_lawful_where_nobody_knows_any_more_how_far_compaction_has_come(
    tmp_path: Path, stop: Callable[[Store], None]
) -> None:
    """Of a log that Kafka has compacted only the cleaner's checkpoint says so."""
    store, bases = many_segments(tmp_path / "data")
    values = values_of(store.log)
    store.kill()
    log_file(store, bases[2]).unlink()
    cleaned = store.path / "cleaner-offset-checkpoint"
    written_by_another(cleaned, f"0\n1\nt 0 {bases[3]}\n")
    assert damaged(store.start()) == []
    store.directory.write_cleaned_offsets({})  # from now on it has a seal
    stop(store)
    flip(cleaned, len(cleaned.read_bytes()) - 2)
    store.start()
    for base in bases:
        check_segment(store.log, base)
    assert damaged(store.log) == []
    assert values_of(store.log) == values[: bases[2]] + values[bases[3] :]


def test_a_batch_that_vanished_within_a_segment_is_damage(tmp_path: Path) -> None:
    store, bases = many_segments(tmp_path / "data")
    store.kill()
    path = log_file(store, bases[-1])
    data = path.read_bytes()
    path.write_bytes(data[read_header(data).size :])
    store.start()
    # The batch behind the gap goes with it: it may as well be one whose base offset was changed.
    assert damaged(store.log) == [(bases[-1], bases[-1] + 4)]
    values = all_values()
    assert values_around_damage(store.log) == values[: bases[-1]] + values[bases[-1] + 4 :]


def test_a_cut_before_the_damage_heals(tmp_path: Path) -> None:
    store, bases = many_segments(tmp_path / "data")
    store.kill()
    first = log_file(store, bases[-1])
    flip(first, 16)
    store.start()
    (found,) = store.log.damaged_ranges.entries
    assert found.start == bases[-1]
    store.log.truncate_to(found.start)
    assert (damaged(store.log), store.log.log_end_offset) == ([], bases[-1])
    assert not (store.log_dir / "damaged-ranges").exists()
    store.append(b"again", epoch=5)
    assert values_of(store.restart(Store.stop)) == [*all_values()[: bases[-1]], b"again"]


@pytest.mark.parametrize("call", ["unlink", "replace", "ftruncate", "fsync_dir", "pwritev"])
def test_a_healing_that_breaks_off_anywhere_is_done_again(tmp_path: Path, call: str) -> None:
    for number in range(20):
        disk = FaultyDisk(tmp_path / f"{number}")
        store = Store(disk.root, fs=disk)
        for i in range(40):
            store.append(b"%d" % i, b"x" * 40, epoch=i // 20)
        store.flush()
        store.checkpoint()
        bases = sorted(int(p.stem) for p in store.log_dir.glob("*.log"))
        store.kill()
        flip(log_file(store, bases[2]), 16)
        store.start()
        check_segment(store.log, bases[2])
        store.log.damaged_ranges.save()
        start = store.log.damaged_ranges.entries[0].start
        disk.spared[call], disk.failing[call] = number, errno.EIO
        try:
            store.log.truncate_to(start)
        except OSError:
            pass
        else:
            break  # it has been broken off at every call
        disk.kill()
        store.start()
        assert damaged(store.log) in ([], [(start, start + 2)]), number
        assert values_around_damage(store.log)[:start] == all_values()[:start]
        if damaged(store.log):
            store.log.truncate_to(start)
        assert (damaged(store.log), store.log.log_end_offset) == ([], start)
        store.append(b"again", epoch=5)
        assert values_of(store.restart())[start:] == [b"again"]
    assert number > 0


def test_a_look_at_a_compacted_segment_finds_a_base_offset_that_was_changed(
    tmp_path: Path,
) -> None:
    store, bases = many_segments(tmp_path / "data")
    store.log.gaps.expect()
    path = log_file(store, bases[1])
    second = read_header(path.read_bytes()).size
    flip(path, second + 6)
    assert [(r.start, r.end) for r in check_segment(store.log, bases[1])] == [
        (bases[1] + 2, bases[1] + 4)
    ]
    flip(path, second + 6)
    assert check_segment(store.log, bases[1]) == ()
    assert damaged(store.log) == []


def test_a_segment_that_was_cut_before_the_look_at_it_is_not_damaged(tmp_path: Path) -> None:
    """The scrub goes through a list of segments, and the log is cut while it reads the first."""
    store, bases = many_segments(tmp_path / "data")
    segments = store.log.segments
    store.log.truncate_to(bases[1] + 2)
    check = SegmentCheck(store.log, segments[1])
    while check.step() > 0:
        pass
    assert check.settle() == ()
    assert damaged(store.log) == []


def test_a_segment_that_is_cut_as_the_look_at_it_begins_is_not_damaged(tmp_path: Path) -> None:
    """P-34: between what it takes of the log's state another thread may cut it."""
    store, bases = many_segments(tmp_path / "data")
    log, whole = store.log, store.log.state

    class Overtaken:
        """A cut comes right behind whatever is taken first, and lets it be."""

        def __getattr__(self, name: str) -> object:
            found = getattr(whole, name)
            if log.state is not whole:
                log.state = whole
                log.truncate_to(bases[1] + 2)
            return found

    segment = log.segments[1]
    log.state = Overtaken()  # type: ignore[assignment]
    check = SegmentCheck(log, segment)
    while check.step() > 0:
        pass
    assert check.settle() == ()
    assert damaged(log) == []


def test_two_damaged_places_of_a_segment_are_two_ranges(tmp_path: Path) -> None:
    store, bases = many_segments(tmp_path / "data")
    store.kill()
    path = log_file(store, bases[-1])
    size = read_header(path.read_bytes()).size
    flip(path, 70)
    flip(path, 2 * size + 16)
    base = bases[-1]
    store.start()
    expected = [(base, base + 2), (base + 4, base + 6)]
    values = all_values()
    rest = values[:base] + values[base + 2 : base + 4] + values[base + 6 :]
    for _ in range(2):
        assert damaged(store.log) == expected
        assert values_around_damage(store.log) == rest
        assert len(list(store.log.batch_headers(0))) == 58
        store.restart(Store.stop)


def test_what_looks_like_a_batch_within_a_record_is_not_taken_for_one(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", fs=Hurried())
    inner = bytearray(batch_of(b"inner"))
    inner[0:8] = (2).to_bytes(8, "big")
    store.append(b"outer", bytes(inner))
    store.append(b"after")
    store.flush()
    store.checkpoint()
    store.kill()
    flip(log_file(store, 0), 17)
    store.start()
    assert damaged(store.log) == [(0, 2)]
    assert values_around_damage(store.log) == [b"after"]


def test_ranges_are_kept_over_a_restart_and_an_unsound_file_says_nothing(tmp_path: Path) -> None:
    fs, reports = RealFileSystem(), list[str]()
    ranges = DamagedRanges(fs, str(tmp_path))
    found = [
        DamagedRange(3, 5, 0, 100, 200, "the batch does not match its CRC-32C"),
        DamagedRange(9, 20, 0, 400, -1, "one two"),
    ]
    ranges.set(found)
    ranges.save()
    again = DamagedRanges.load(fs, str(tmp_path), reports.append)
    assert list(again.entries) == found
    assert again.above(5) == (found[1],)
    again.drop_from(9)
    again.save()
    assert DamagedRanges.load(fs, str(tmp_path), reports.append).entries == (found[0],)
    assert reports == []
    for text in ("", "0\n1\n3 5\n", "0\n1\na b c d e f\n", "0\n2\n3 5 0 0 0 x\n"):
        (tmp_path / "damaged-ranges").write_text(text)
        assert DamagedRanges.load(fs, str(tmp_path), reports.append).entries == ()
    assert len(reports) == 4


def test_what_is_sound_behind_two_ranges_is_served_wherever_the_first_of_them_goes_on(
    tmp_path: Path,
) -> None:
    """A reader that meets damage does not know where sound bytes go on; whoever marked the next
    range does.
    """
    no_index = replace(SMALL, index_interval_bytes=1 << 20)
    store = Store(tmp_path / "data", no_index, fs=Hurried())
    for i in range(60):
        store.append(b"%d" % i, b"x" * 40)
    store.flush()
    store.checkpoint()
    store.kill()
    path = log_file(store, 0)
    first, second, third, *_ = [at for at, _ in iter_headers(path.read_bytes())]
    flip(path, second + 80)
    store.start()
    for base in [segment.base_offset for segment in store.log.segments]:
        check_segment(store.log, base)
    assert damaged(store.log) == [(2, 4)]
    flip(path, first + 9)
    with pytest.raises(KafkaStorageError, match="offsets 0 to 1"):
        store.log.read(0, max_bytes=1000, limit=120, checked=True)
    assert damaged(store.log) == [(0, 2), (2, 4)]
    read = store.log.read(4, max_bytes=10, limit=120, checked=True)
    assert (read.base_offset, read.records[:80]) == (4, path.read_bytes()[third : third + 80])


def test_what_readers_meet_does_not_overlap_what_is_known(tmp_path: Path) -> None:
    ranges = DamagedRanges(RealFileSystem(), str(tmp_path))
    ranges.add(DamagedRange(10, 20, 0, 100, -1, "a"))
    ranges.add(DamagedRange(12, 30, 0, 110, -1, "b"))
    ranges.add(DamagedRange(5, 30, 0, 50, -1, "c"))
    assert [(r.start, r.end) for r in ranges.entries] == [(5, 10), (10, 20)]
    for offset, refused in ((4, False), (5, True), (19, True), (20, False)):
        if refused:
            with pytest.raises(KafkaStorageError, match=r"t-0: offsets .* damaged"):
                ranges.check(offset, partition="t-0")
        else:
            ranges.check(offset, partition="t-0")


def test_a_segment_that_is_missing_in_what_always_had_made_durable_is_damage(
    tmp_path: Path,
) -> None:
    store, bases = many_segments(tmp_path / "data")
    store.directory.update_state(flush_policy="always")
    store.directory.write_recovery_points({("t", 0): 0})
    store.directory.write_high_watermarks({("t", 0): 120})
    values = values_of(store.log)
    store.kill()
    log_file(store, bases[2]).unlink()
    store.start()
    assert damaged(store.log) == [(bases[2], bases[3])]
    assert values_around_damage(store.log) == values[: bases[2]] + values[bases[3] :]


def test_a_truncation_that_cannot_read_what_should_stay_cuts_nothing_and_marks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, bases = many_segments(tmp_path / "data")
    values, end = values_of(store.log), store.log.log_end_offset

    def unreadable(self: Segment, position: int, end_offset: int, **_: int) -> None:
        raise BadBatch(self.path(), 0, self.base_offset, "message format 1 where 2 is expected")

    with monkeypatch.context() as patch:
        patch.setattr(Segment, "cut", unreadable)
        with pytest.raises(KafkaStorageError, match=f"offsets {bases[-2]} to"):
            store.log.truncate_to(bases[-2] + 2)
    assert store.log.log_end_offset == end
    assert [r.start for r in store.log.damaged_ranges.entries] == [bases[-2]]
    store.log.damaged_ranges.set(())
    assert values_of(store.log) == values
    store.log.truncate_to(bases[-2] + 2)
    assert store.log.log_end_offset == bases[-2] + 2


def test_a_cut_behind_a_batch_of_another_length_is_not_made(tmp_path: Path) -> None:
    """It would be made beside the batch's true end, and what is appended next stand there (I-1)."""
    config = replace(SMALL, index_interval_bytes=4096)
    store = Store(tmp_path / "data", config, fs=Hurried())
    for i in range(20):
        store.append(b"%d" % i, b"x" * 40)
    store.flush()
    path = log_file(store, 0)
    data = bytearray(path.read_bytes())
    data[read_header(data).size + 11] += 2
    path.write_bytes(data)
    with pytest.raises(KafkaStorageError, match="does not match its CRC"):
        store.log.truncate_to(4)
    found = store.log.damaged_ranges.entries[0]
    assert found.start == 2
    store.log.truncate_to(found.start)
    store.append(b"again", epoch=5)
    assert values_of(store.restart()) == [*all_values()[:2], b"again"]


@pytest.mark.parametrize("flips", [(2, 3), (1, 2, 3), (2,)])
def test_a_torn_tail_right_behind_damage_is_cut_there(
    tmp_path: Path, flips: tuple[int, ...]
) -> None:
    """What is appended next must not stand behind what was cut."""
    store = Store(tmp_path / "data", replace(SMALL, segment_bytes=1 << 20), fs=Hurried())
    for i in range(3):
        store.append(b"%d" % i, b"x" * 40)
    store.flush()
    store.checkpoint()
    for i in range(3, 5):
        store.append(b"%d" % i, b"x" * 40)
    store.kill()
    path = log_file(store, 0)
    data = path.read_bytes()
    at = [at for at, _ in iter_headers(data)]
    for number in flips:
        # Damage below the recovery point; above it a leader epoch, which no CRC covers.
        flip(path, at[number] + (15 if number == 3 else 70))
    store.start()
    (segment,), recent = store.log.state.tail
    end = 6 if 3 in flips else 10
    assert recent.end == (segment.size, segment.end_offset) == (path.stat().st_size, end)
    assert store.log.log_end_offset == end
    store.append(b"again", epoch=5)
    store.restart(Store.stop)
    assert values_around_damage(store.log)[-1] == b"again"
    assert store.log.log_end_offset == end + 1


def test_the_search_behind_damage_ends_where_the_file_was_cut_meanwhile(tmp_path: Path) -> None:
    class Counting(RealFileSystem):
        reads = 0

        def pread(self, fd: int, length: int, offset: int) -> bytes:
            self.reads += 1
            return super().pread(fd, length, offset)

    (tmp_path / "x.log").write_bytes(b"\2" * 100)
    fs = Counting()
    file = File(fs, str(tmp_path / "x.log"))
    assert sound_batch_behind(file, 0, 1 << 20, offset=0, below=10) is None
    assert fs.reads < 200
