"""A disk that misreads batches while the index of aborted transactions is rebuilt (I-153)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from strandline_broker.storage.log.aborted_recovery import READS, AbortedRecovery
from support.aborted_scan import indexed, scan
from support.disk import Hurried
from support.producer_log import ProducerLog, end_marker, transactional_batch
from support.storage import LARGE, Store

if TYPE_CHECKING:
    from pathlib import Path

A, B = 2, 3


class Misreading(Hurried):
    """Some reads of `.log` files, counted since `arm`, have a wrong byte."""

    def __init__(self) -> None:
        self.is_armed = False
        self.reads = 0
        self.struck: range = range(0)
        self.byte = 0
        self.logs: set[int] = set()

    def arm(self) -> None:
        self.reads, self.is_armed = 0, True

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:  # type: ignore[override]
        fd = super().open(path, flags, mode)
        self.logs.discard(fd)
        if path.endswith(".log"):
            self.logs.add(fd)
        return fd

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        data = super().pread(fd, length, offset)
        if not self.is_armed or fd not in self.logs:
            return data
        self.reads += 1
        if self.reads not in self.struck or not data:
            return data
        changed = bytearray(data)
        changed[self.byte % len(data)] ^= 0x12
        return bytes(changed)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Misreading:
    """It misreads only what is read to rebuild the index: a scan would cut the log there."""
    disk = Misreading()
    run = AbortedRecovery.run

    def armed(self: AbortedRecovery, *args: Any, **kwargs: Any) -> bool:
        disk.arm()
        try:
            return run(self, *args, **kwargs)
        finally:
            disk.is_armed = False

    monkeypatch.setattr(AbortedRecovery, "run", armed)
    return disk


def filled(path: Path, disk: Misreading) -> ProducerLog:
    """A commits at 1, aborts nothing at 4 and aborts at 6, in a later segment; B aborts at 3."""
    p = ProducerLog(Store(path, LARGE, fs=disk))
    p.append(transactional_batch(A, b"committed"))
    p.append(end_marker(A, producer_epoch=1))
    p.append(transactional_batch(B, b"aborted"))
    p.append(end_marker(B, producer_epoch=1, commit=False))
    p.append(end_marker(A, producer_epoch=2, commit=False))
    p.log.roll()
    p.append(transactional_batch(A, b"aborted", producer_epoch=2))
    p.append(end_marker(A, producer_epoch=3, commit=False))
    return p


ENTRIES = [(B, 2, 3, 4), (A, 5, 6, 7)]


def test_one_misread_changes_nothing(tmp_path: Path, disk: Misreading) -> None:
    """An end marker that was passed over left its transaction open for the next abort."""
    p = filled(tmp_path, disk)
    assert indexed(p.log) == ENTRIES == scan(p.log)
    p.kill()
    assert indexed(p.log) == ENTRIES
    count = disk.reads
    assert count > 4, "two segments, and four markers once more"
    for read in range(1, count + 1):
        disk.struck = range(read, read + 1)
        for byte in range(0, p.log.segments[0].size, 19):
            disk.byte = byte
            p.kill()
            assert indexed(p.log) == ENTRIES, (read, byte)
    assert p.store.reports == []


def test_a_disk_that_misreads_for_ever_is_told(tmp_path: Path, disk: Misreading) -> None:
    p = filled(tmp_path, disk)
    disk.struck, disk.byte = range(1, 1000), 80
    p.kill()
    assert any("may name too much behind" in report for report in p.store.reports)
    few = disk.reads
    disk.struck = range(0)
    p.kill()
    assert indexed(p.log) == ENTRIES
    assert disk.reads < few * READS


def test_known_damage_is_read_once(tmp_path: Path, disk: Misreading) -> None:
    """It lasts, and the log is cut before it."""
    p = filled(tmp_path, disk)
    p.store.flush()
    p.store.checkpoint()
    path = p.store.log_dir / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[20] ^= 1  # the first batch's CRC
    path.write_bytes(data)
    (p.store.log_dir / f"{5:020d}.snapshot").unlink()
    p.kill()
    assert any("offset 0 (" in report for report in p.store.reports)
    reads = disk.reads
    p.log.damaged_ranges.save()
    p.store.reports.clear()
    p.kill()
    assert p.store.reports == []
    assert 0 < disk.reads <= reads / READS
