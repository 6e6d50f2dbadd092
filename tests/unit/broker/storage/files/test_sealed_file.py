"""Checkpoints in Kafka's form, each with a seal: what was changed is absent, what others wrote is
believed, and a crash anywhere leaves the old content or the new (I-8).
"""

import errno
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from strandline_broker.offline.roots import verify
from strandline_broker.storage.files.checkpoint_limits import CheckpointLimits
from strandline_broker.storage.files.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    read_checkpoint,
    write_checkpoint,
)
from strandline_broker.storage.files.sealed_file import NAMED_MAX, SealedFile
from strandline_broker.storage.log.leader_epochs import LeaderEpochs
from support.disk import Ended, EndingDisk, FaultyDisk, Hurried
from support.storage import SMALL, Store, damaged, written_by_another

FS = Hurried()


def read(path: Path) -> tuple[bytes | None, list[str]]:
    reports: list[str] = []
    return SealedFile(FS, str(path)).read(reports.append), reports


def changed(path: Path, position: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def test_any_changed_bit_makes_the_file_absent(tmp_path: Path) -> None:
    path = tmp_path / "file"
    SealedFile(FS, str(path)).replace(b"0\n1\nt 0 20\n")
    for position in range(len(path.read_bytes())):
        for bit in range(8):
            changed(path, position, bit)
            data, (report,) = read(path)
            assert data is None
            assert "is not what was written" in report
            changed(path, position, bit)
    assert read(path) == (b"0\n1\nt 0 20\n", [])


def test_a_seal_that_was_changed_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    SealedFile(FS, str(path)).replace(b"here")
    seal = path.with_name("file.seal")
    for position in range(len(seal.read_bytes())):
        changed(seal, position)
        data, (report,) = read(path)
        assert data == b"here"
        assert "believed without it" in report
        changed(seal, position)


def test_a_file_without_a_seal_is_believed_and_sealed_when_it_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"of Kafka")
    assert read(path) == (b"of Kafka", [])
    SealedFile(FS, str(path)).replace(b"ours")
    path.write_bytes(b"of Kafka")
    assert read(path)[0] is None


@pytest.mark.parametrize("end", [EndingDisk.kill, EndingDisk.crash])
@pytest.mark.parametrize("sealed", [True, False])
def test_a_crash_at_any_operation_leaves_the_old_content_or_the_new(
    tmp_path: Path, sealed: bool, end: Callable[[EndingDisk], None]
) -> None:
    seen = set()
    for operations in range(50):
        disk = EndingDisk(tmp_path / f"{operations}")
        disk.root.mkdir()
        path = disk.root / "file"
        if sealed:
            SealedFile(FS, str(path)).replace(b"old")
        else:
            path.write_bytes(b"old")
        disk.settle()
        file = SealedFile(disk, str(path))
        assert file.read(pytest.fail) == b"old"
        disk.left = operations
        try:
            file.replace(b"new")
        except Ended:
            disk.left = None
            end(disk)
            found, reports = read(path)
            assert reports == []
            assert found in (b"old", b"new")
            seen.add(found)
        else:
            break
    assert b"old" in seen


def test_after_a_failure_whichever_content_is_there_is_believed(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path / "disk")
    disk.root.mkdir(exist_ok=True)
    file = SealedFile(disk, str(disk.root / "file"))
    file.replace(b"old")
    for number in range(NAMED_MAX + 3):
        disk.spared["replace"], disk.failing["replace"] = 1, errno.EIO
        with pytest.raises(OSError, match=r"."):
            file.replace(b"%d" % number)
        disk.failing.clear()
        assert read(disk.root / "file") == (b"old", [])
    assert sorted(p.name for p in disk.root.iterdir()) == ["file", "file.seal"]
    file.replace(b"new")
    assert read(disk.root / "file") == (b"new", [])


def test_a_high_watermark_that_a_disk_has_changed_is_not_believed(tmp_path: Path) -> None:
    """Believed, records would be served that the next truncation may take (I-10, I-13)."""
    store = Store(tmp_path / "data", fs=FS)
    for number in range(30):
        store.append(b"%d" % number)
    store.flush()
    store.checkpoint(20)
    store.kill()
    path = store.path / HIGH_WATERMARKS
    assert path.read_bytes() == b"0\n1\nt 0 20\n"
    changed(path, path.read_bytes().index(b"0\n", 6), bit=1)
    assert path.read_bytes() == b"0\n1\nt 0 22\n"
    log = store.start()
    assert log.checkpointed_high_watermark == 0
    assert any(HIGH_WATERMARKS in finding for finding in store.directory.findings)
    assert log.log_end_offset == 30


@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS])
def test_a_stop_counts_as_unclean_without_what_it_vouches_for(tmp_path: Path, name: str) -> None:
    """The replica may begin or end elsewhere than it did: it must not count as in sync (I-51)."""
    store = Store(tmp_path / "data", fs=FS)
    store.append(b"a")
    store.stop()
    changed(store.path / name, 8)
    assert store.start().log_end_offset == 1
    assert not store.directory.clean
    assert store.directory.previous_broker_epoch == -1


@pytest.mark.parametrize("lost", [RECOVERY_POINTS, "t-0/checkpoint-limit-0"])
@pytest.mark.parametrize("segment_bytes", [SMALL.segment_bytes, 1 << 20])
def test_without_recovery_points_only_bytes_with_nothing_sound_behind_are_a_torn_tail(
    tmp_path: Path, segment_bytes: int, lost: str
) -> None:
    """What was durable is damage, to be marked and never cut, whoever knows how far it went."""
    config = replace(SMALL, segment_bytes=segment_bytes)
    store = Store(tmp_path / "data", config, fs=FS)
    values = [b"%d" % number * 20 for number in range(30)]
    for value in values:
        store.append(value)
    store.flush()
    store.checkpoint(20)
    store.kill()
    CheckpointLimits(FS, str(store.log_dir)).add(30)
    changed(store.path / lost, 8)
    first, *_, last = sorted(store.log_dir.glob("*.log")) * 2
    changed(first, 200)
    os.truncate(last, last.stat().st_size - 5)
    told = [f for each in verify(FS, str(store.path)) for f in each.findings]
    assert {f.severity.value for f in told if f.path == str(first)} >= {"damage"}
    log = store.start()
    assert log.log_end_offset == 29
    (wrong,) = log.damaged_ranges.entries
    assert (wrong.start, wrong.end) == (2, 3)
    served = log.read(3, max_bytes=1 << 20, limit=29)
    assert served.records
    store.restart()
    assert (store.log.log_end_offset, store.log.damaged_ranges.entries) == (29, (wrong,))


def test_recovery_points_that_are_written_for_other_logs_stay_lost_for_the_rest(
    tmp_path: Path,
) -> None:
    """A log that waits to be opened, for room as it may be, has an entry in no file by then."""
    store = Store(tmp_path / "data", fs=FS)
    for number in range(30):
        store.append(b"%d" % number * 20)
    store.flush()
    store.checkpoint(20)
    store.directory.create_log("other", bytes(16), 0, SMALL)
    store.kill()
    changed(store.path / RECOVERY_POINTS, 8)
    other = store.path / "other-0"
    directory = store._open()
    (found,) = [each for each in directory.partitions() if each.path == str(other)]
    directory.load_log(found, SMALL, pytest.fail)
    directory.write_recovery_points({("other", 0): 0})
    directory.close()
    shutil.rmtree(other)
    changed(min(store.log_dir.glob("*.log")), 200)
    told = [f for each in verify(FS, str(store.path)) for f in each.findings]
    assert "damage" in {f.severity.value for f in told}
    for _ in range(2):
        log = store.start()
        assert (log.log_end_offset, damaged(log)) == (30, [(2, 3)])
        store.checkpoint()
        store.kill()


def test_a_segment_that_is_missing_without_recovery_points_is_damage(tmp_path: Path) -> None:
    store = Store(tmp_path / "data", fs=FS)
    for number in range(60):
        store.append(b"%d" % number * 20)
    store.flush()
    store.checkpoint(20)
    store.kill()
    changed(store.path / RECOVERY_POINTS, 8)
    _, second, third, *_ = sorted(store.log_dir.glob("*.log"))
    second.unlink()
    log = store.start()
    assert log.log_end_offset == 60
    found = [(r.start, r.end) for r in log.damaged_ranges.entries]
    assert found == [(int(second.stem), int(third.stem))]


def test_an_epoch_that_a_disk_has_changed_is_read_from_the_batches(tmp_path: Path) -> None:
    """Above the recovery point too, where the batches alone prove nothing (I-5, I-7)."""
    store = Store(tmp_path / "data", fs=FS)
    for epoch in (1, 1, 4, 4):
        store.append(b"%d" % epoch, epoch=epoch)
    store.kill()
    path = store.log_dir / "leader-epoch-checkpoint"
    assert path.read_bytes() == b"0\n2\n1 0\n4 2\n"
    changed(path, 8, bit=1)
    assert path.read_bytes() == b"0\n2\n1 0\n6 2\n"
    assert store.start().log_end_offset == 4
    assert store.log.leader_epochs.entries == ((1, 0), (4, 2))
    assert store.restart().leader_epochs.entries == ((1, 0), (4, 2))


def test_epochs_of_a_log_begun_by_kafka_are_sealed_with_the_next(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    written_by_another(path, "0\n1\n1 0\n")
    epochs = LeaderEpochs.load(FS, str(tmp_path), pytest.fail)
    assert epochs is not None
    epochs.assign(2, 5)
    changed(path, 8)
    assert LeaderEpochs.load(FS, str(tmp_path), lambda _: None) is None


def test_a_file_of_ours_carries_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint-limit-0"
    write_checkpoint(FS, str(path), ["120"])
    for position in range(len(path.read_bytes())):
        for bit in range(8):
            changed(path, position, bit)
            assert read_checkpoint(FS, str(path), lambda _: None) is None
            changed(path, position, bit)
    assert read_checkpoint(FS, str(path), pytest.fail) == [("120",)]
    path.write_text("0\n1\n120\n")  # of an earlier version
    assert read_checkpoint(FS, str(path), pytest.fail) == [("120",)]


def test_a_verification_tells_what_does_not_match_its_seal_and_a_seal_that_does_not_read(
    tmp_path: Path,
) -> None:
    store = Store(tmp_path / "data", fs=FS)
    store.append(b"a")
    store.stop()
    root, epochs = store.path / HIGH_WATERMARKS, store.log_dir / "leader-epoch-checkpoint"
    for path in (root, root.with_name(f"{root.name}.seal")):
        changed(path, 3)
    for path in (root, epochs, epochs.with_name(f"{epochs.name}.seal")):
        changed(path, 0)
        told = [f for each in verify(FS, str(store.path)) for f in each.findings]
        assert str(path) in {f.path for f in told}
        assert {f.invariant for f in told} == {"I-8"}
        changed(path, 0)
