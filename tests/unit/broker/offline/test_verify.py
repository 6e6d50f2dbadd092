"""The offline verification finds what is wrong on disk, says where, and what becomes of it."""

import shutil
import struct
from pathlib import Path

import pytest
from crc32c import crc32c

from strandline_broker.offline.checkpoints import damage_of
from strandline_broker.offline.findings import Expected, Finding, PartitionReport, Severity
from strandline_broker.offline.roots import verify
from strandline_broker.offline.verify import verify_partition
from strandline_broker.storage.log.log import LogConfig
from strandline_proto.batch import read_header
from strandline_proto.errors import KafkaStorageError
from strandline_runtime.real import RealFileSystem
from support.disk import Hurried
from support.storage import Store, written_by_another

FS = RealFileSystem()
CONFIG = LogConfig(segment_bytes=350, index_interval_bytes=60)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Twelve batches of two records in two epochs and several segments, cleanly stopped."""
    store = Store(tmp_path / "data", CONFIG, fs=Hurried())
    for i in range(12):
        store.append(b"%d" % i, b"v" * i, epoch=1 if i < 5 else 4, timestamp_ms=1000 + i)
    store.stop()
    return store


def report(store: Store, **options: bool) -> PartitionReport:
    """Of the store's one partition, as part of its data directory."""
    found = list(verify(FS, str(store.path), **options))
    (partition,) = (each for each in found if isinstance(each, PartitionReport))
    return partition


def wrong(store: Store, **options: bool) -> list[Finding]:
    return [f for f in report(store, **options).findings if f.severity is not Severity.NOTE]


def segments(store: Store) -> list[Path]:
    return sorted(store.log_dir.glob("*.log"))


def second_batch(store: Store) -> int:
    """Where the second batch of the first segment begins."""
    return read_header(segments(store)[0].read_bytes()).size


def change(path: Path, at: int, data: bytes) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:at] + data + content[at + len(data) :])


def starts(path: Path) -> list[int]:
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        found.append(at)
        at += read_header(data, at).size
    return found


def test_a_sound_log_has_no_findings_and_is_counted(store: Store) -> None:
    found = report(store)
    assert found.findings == []
    assert found.sound
    assert (found.log_start, found.log_end, found.batches, found.records) == (0, 24, 12, 24)
    assert found.segments == len(segments(store)) > 2
    assert found.size_bytes == sum(path.stat().st_size for path in segments(store))


def test_damage_names_file_byte_offset_and_what_cannot_be_read(store: Store) -> None:
    path = segments(store)[1]
    at = starts(path)[1]
    base = read_header(path.read_bytes(), at).base_offset
    change(path, at + 65, b"?")
    (finding,) = wrong(store)
    assert finding.severity is Severity.DAMAGE
    assert (finding.path, finding.position, finding.offset) == (str(path), at, base)
    assert finding.below_recovery_point
    assert finding.below_high_watermark
    assert "CRC" in finding.what
    assert f"offsets {base} to {base + 1} cannot be read" in finding.what


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(200)])
def test_a_torn_tail_above_the_recovery_point_will_be_cut(store: Store, content: bytes) -> None:
    last = segments(store)[-1]
    point = Expected(recovery_point=22, high_watermark=22)
    at = starts(last)[-1]
    last.write_bytes(last.read_bytes()[: at + 30] + content)
    (finding,) = verify_partition(FS, str(store.log_dir), point).findings
    assert finding.severity is Severity.CUT
    assert (finding.position, finding.offset) == (at, 22)
    assert finding.below_recovery_point is False
    assert "cut here at the next start" in finding.what


def test_a_bad_batch_above_the_recovery_point_takes_the_sound_ones_behind_it_along(
    store: Store,
) -> None:
    change(segments(store)[1], 70, b"?")
    found = verify_partition(FS, str(store.log_dir), Expected(recovery_point=0))
    (finding,) = found.findings
    assert finding.severity is Severity.CUT
    base = int(segments(store)[1].stem)
    assert found.log_end == base
    assert f"with {(24 - base) // 2 - 1} sound batches behind it" in finding.what


def test_without_checkpoints_a_bad_middle_is_damage_and_a_bad_end_is_a_torn_tail(
    store: Store, tmp_path: Path
) -> None:
    alone = tmp_path / "t-0"
    shutil.copytree(store.log_dir, alone)
    log = sorted(alone.glob("*.log"))
    change(log[0], 80, b"?")
    change(log[-1], log[-1].stat().st_size - 1, b"?")
    found = verify_partition(FS, str(alone), Expected()).findings
    assert [f.severity for f in found] == [Severity.DAMAGE, Severity.CUT]
    assert [f.below_recovery_point for f in found] == [None, None]


def test_a_log_shorter_than_its_recovery_point_is_damage(store: Store) -> None:
    segments(store)[-1].write_bytes(b"")
    found = wrong(store)
    assert Severity.DAMAGE in {f.severity for f in found}
    assert any("was durable up to 24" in f.what for f in found)


def test_a_missing_segment_is_a_gap_unless_the_log_is_compacted(store: Store) -> None:
    gone, after = segments(store)[1], segments(store)[2]
    for path in store.log_dir.glob(f"{gone.stem}.*"):
        path.unlink()
    (finding,) = wrong(store)
    assert (finding.severity, finding.invariant) == (Severity.DAMAGE, "I-1")
    assert f"offsets {int(gone.stem)} to {int(after.stem) - 1} are missing" in finding.what
    assert wrong(store, compacted=True) == []


def test_gaps_are_lawful_as_far_as_the_cleaner_has_come(store: Store) -> None:
    checkpoint = store.path / "cleaner-offset-checkpoint"
    gone, after = segments(store)[1], segments(store)[2]
    for path in store.log_dir.glob(f"{gone.stem}.*"):
        path.unlink()
    written_by_another(checkpoint, f"0\n1\nt 0 {int(after.stem)}\n")
    assert wrong(store) == []
    assert report(store).compacted == f"the cleaner has come to offset {int(after.stem)}"
    written_by_another(checkpoint, f"0\n1\nt 0 {int(after.stem) - 1}\n")
    assert [f.severity for f in wrong(store)] == [Severity.DAMAGE]
    (store.log_dir / "compacted").touch()
    assert wrong(store) == []


def test_a_gap_is_suspect_where_a_batch_was_cleaned(store: Store) -> None:
    gone, last = segments(store)[1], segments(store)[-1]
    for path in store.log_dir.glob(f"{gone.stem}.*"):
        path.unlink()
    data = bytearray(last.read_bytes())
    data[22] |= 0x40  # a delete horizon
    data[17:21] = struct.pack(">I", crc32c(data[21 : read_header(data).size]))
    last.write_bytes(data)
    (finding,) = wrong(store)
    assert finding.severity is Severity.SUSPECT
    assert f"the batch at offset {int(last.stem)} was cleaned" in finding.what


def test_a_base_offset_that_was_changed_is_found_by_continuity(store: Store) -> None:
    path = segments(store)[1]
    at = starts(path)[1]
    base = read_header(path.read_bytes(), at).base_offset
    for changed in (base + 2**40, base + 1, base - 1, 0):
        change(path, at, struct.pack(">q", changed))
        (finding,) = wrong(store)
        assert (finding.severity, finding.invariant) == (Severity.DAMAGE, "I-1"), changed
        assert (finding.position, finding.offset) == (at, base)


def test_in_a_compacted_log_a_base_offset_that_the_next_contradicts_is_found(store: Store) -> None:
    path = segments(store)[1]
    at = starts(path)[1]
    base = read_header(path.read_bytes(), at).base_offset
    change(path, at, struct.pack(">q", base + 1))
    (finding,) = wrong(store, compacted=True)
    assert (finding.invariant, finding.position, finding.offset) == ("I-1", at, base)
    assert f"base offset {base + 1}, and offset {base + 2} behind it" in finding.what


def test_behind_a_length_that_lies_the_next_sound_batch_is_found(store: Store) -> None:
    path = segments(store)[1]
    length = read_header(path.read_bytes()).batch_length
    change(path, 8, struct.pack(">i", length + 5))
    found = report(store)
    assert found.batches == 11
    (finding,) = found.findings
    assert finding.position == 0


@pytest.mark.parametrize("epoch", [0, 3, 9])
def test_a_leader_epoch_that_was_changed_is_found_by_the_epoch_checkpoint(
    store: Store, epoch: int
) -> None:
    path = segments(store)[-1]
    change(path, 12, struct.pack(">i", epoch))
    (finding,) = wrong(store)
    assert (finding.severity, finding.invariant, finding.position) == (Severity.DAMAGE, "I-5", 0)
    assert f"leader epoch {epoch}, the epoch checkpoint says 4" in finding.what


def test_without_the_epoch_checkpoint_an_epoch_that_falls_is_found(store: Store) -> None:
    (store.log_dir / "leader-epoch-checkpoint").unlink()
    assert [f.severity for f in wrong(store)] == [Severity.REPAIR]
    change(segments(store)[-1], 12, struct.pack(">i", 3))
    assert {f.invariant for f in wrong(store)} == {"I-2", "I-5"}


def test_an_epoch_that_begins_elsewhere_than_its_checkpoint_says_is_told_once(store: Store) -> None:
    checkpoint = store.log_dir / "leader-epoch-checkpoint"
    written_by_another(checkpoint, "0\n2\n1 0\n4 16\n")
    (finding,) = wrong(store)
    assert (finding.invariant, finding.offset) == ("I-5", 10)
    written_by_another(checkpoint, "0\n3\n1 0\n4 10\n5 25\n")
    (finding,) = wrong(store)
    assert finding.severity is Severity.REPAIR
    assert "epoch 5 begins at offset 25, the log ends at 24" in finding.what


@pytest.mark.parametrize("to", [3, 10, 11, 17])
def test_a_log_that_was_shortened_within_a_segment_is_sound(store: Store, to: int) -> None:
    store.start()
    store.shorten(to)
    store.stop()
    assert wrong(store) == []
    assert report(store).log_start == to
    alone = verify_partition(FS, str(store.log_dir), Expected())
    assert [f for f in alone.findings if f.severity is not Severity.NOTE] == []


@pytest.mark.parametrize("epoch", [0, 2])
def test_below_the_log_start_an_epoch_above_the_first_or_one_that_falls_is_found(
    store: Store, epoch: int
) -> None:
    store.start()
    store.shorten(3)
    store.stop()
    change(segments(store)[0], 12, struct.pack(">i", 2 if epoch else 1))
    if not epoch:
        change(segments(store)[0], second_batch(store) + 12, struct.pack(">i", 0))
    (found,) = wrong(store)
    assert found.severity is Severity.DAMAGE
    assert "leader epoch" in found.what


def test_an_epoch_checkpoint_that_begins_behind_the_log_start_is_found(store: Store) -> None:
    checkpoint = store.log_dir / "leader-epoch-checkpoint"
    written_by_another(checkpoint, "0\n2\n1 2\n4 10\n")
    (found,) = wrong(store)
    assert "the epoch checkpoint says -1" in found.what


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_every_entry_of_an_index_is_checked(store: Store, kind: str) -> None:
    path = segments(store)[1].with_suffix(f".{kind}")
    data = path.read_bytes()
    assert len(data) >= 16
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x80]) + data[at + 1 :])
        (finding,) = wrong(store)
        assert (finding.severity, finding.invariant) == (Severity.REPAIR, "I-78"), at
        assert finding.path == str(path)
    path.write_bytes(data + data[-4:])
    assert len(wrong(store)) == 1
    path.unlink()
    assert "missing" in wrong(store)[0].what


def test_a_time_index_names_the_first_batch_that_reaches_its_time(tmp_path: Path) -> None:
    store = Store(tmp_path / "even", CONFIG, fs=Hurried())
    for i in range(12):
        store.append(b"%d" % i, b"v" * i, epoch=1, timestamp_ms=1000)
    store.stop()
    assert wrong(store) == []
    path = segments(store)[0].with_suffix(".timeindex")
    path.write_bytes(struct.pack(">qi", 1000, 3))
    (finding,) = wrong(store)
    assert "an earlier record than offset 3 is at 1000 already" in finding.what


def test_zeros_behind_an_index_are_what_a_killed_kafka_leaves(store: Store) -> None:
    for path in store.log_dir.glob("*index"):
        size = 12 if path.suffix == ".timeindex" else 8
        path.write_bytes(path.read_bytes() + bytes(size * 100))
    assert wrong(store) == []


def test_a_foreign_file_is_a_note_and_no_finding(store: Store) -> None:
    (store.log_dir / "notes.txt").write_text("mine")
    (store.path / "lost+found").mkdir()
    notes = [f for each in verify(FS, str(store.path)) for f in each.findings]
    assert [f.severity for f in notes] == [Severity.NOTE] * 2
    assert all(each.sound for each in verify(FS, str(store.path)))


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "strandline-state"],
)
def test_a_shared_file_that_does_not_read_is_found(store: Store, name: str) -> None:
    path = store.path / name
    path.write_bytes(path.read_bytes()[:-3])
    (root,) = (each for each in verify(FS, str(store.path)) if not hasattr(each, "batches"))
    assert [f.path for f in root.findings] == [str(path)]


def test_nothing_on_disk_changes_by_a_verification(store: Store) -> None:
    before = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()}
    report(store)
    assert {p: p.read_bytes() for p in store.path.rglob("*") if p.is_file()} == before


def test_a_cleaning_that_was_cut_off_is_read_as_the_next_start_leaves_it(store: Store) -> None:
    first, second, third = segments(store)[:3]
    first.with_suffix(".log.swap").write_bytes(first.read_bytes() + second.read_bytes())
    for path in (
        *store.log_dir.glob(f"{first.stem}.*index"),
        *store.log_dir.glob(f"{second.stem}.*"),
    ):
        path.unlink()
    found = report(store)
    assert [f.severity for f in found.findings] == [Severity.NOTE, *[Severity.REPAIR] * 2]
    assert (found.log_end, found.batches) == (24, 12)
    # One that is not whole goes, and the old segments are all there.
    third.with_suffix(".log.swap").write_bytes(b"half a batch")
    assert report(store).batches == 12


def test_damage_that_the_broker_knows_of_is_noted(store: Store) -> None:
    change(segments(store)[0], 70, b"?")
    store.start()
    with pytest.raises(KafkaStorageError):
        store.log.read(0, max_bytes=100, limit=24, checked=True)
    store.log.damaged_ranges.save()
    store.kill()
    noted = [f for f in report(store).findings if f.severity is Severity.NOTE]
    assert [f.path for f in noted] == [str(store.log_dir / "damaged-ranges")]
    (known, *_) = damage_of(FS, noted[0].path)
    assert (known.start_offset, known.segment, known.position) == (0, 0, 0)
    assert "CRC" in known.why


def test_a_log_start_beyond_the_end_is_what_a_loss_of_power_may_leave(store: Store) -> None:
    """Retention let go of records behind which everything was lost: the log begins anew there."""
    written_by_another(store.path / "log-start-offset-checkpoint", "0\n1\nt 0 30\n")
    (finding,) = [f for f in wrong(store) if f.invariant == "I-6"]
    assert finding.severity is Severity.DAMAGE
    (store.path / ".kafka_cleanshutdown").unlink()
    (finding,) = [f for f in wrong(store) if f.invariant == "I-6"]
    assert finding.severity is Severity.SUSPECT
    assert "starts again" in finding.what


def test_a_creation_that_broke_off_is_no_log(store: Store) -> None:
    """The checkpoints still name the log of that name before it."""
    store.checkpoint(24)
    shutil.rmtree(store.log_dir)
    store.log_dir.mkdir()
    assert wrong(store) == []
    (note,) = report(store).findings
    assert "broke off" in note.what
