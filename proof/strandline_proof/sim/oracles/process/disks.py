"""The state of a broker's disk after a crash, read by the offline verifier.

Nothing that was durable is wrong or gone: batches (I-7), epochs (I-5), checkpoints (I-8). A start
must leave it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.offline.findings import PartitionReport, Severity
from strandline_broker.offline.roots import expected_of, verify
from strandline_proof.sim.disk.disk import UNREAD
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.disk.parts import MISREAD
from strandline_proof.sim.oracles.violation import Violation
from strandline_proof.sim.topology.topology import DATA

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.offline.findings import Finding, RootReport
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.replica.log_view import Entry, LogView


class Reader(SimFs):
    """An unnoticed reader: no operation is counted, no fault strikes, and a disk's own changes are
    read as they were written.
    """

    def _begin(self, operation: str, path: str) -> None:
        pass

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self._inode(fd).as_written()[offset : offset + length])


class AsFound(Reader):
    """The disk as a start reads it, with the disk's own changes."""

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self._inode(fd).data[offset : offset + length])


def check_disk(node: Node, sometimes: Counter[str]) -> None:
    """Checks the disk right after a crash of `node`, whatever kind it was."""
    if getattr(node.process, "is_loaded", node.process is not None):
        node.disk.mended = node.failed_before
    # A recovery has not written lost pages again yet, so durable bytes may be gone there (P-24).
    unsure = node.disk.touched("fsync error", since=node.disk.mended)
    fs = Reader(node.disk)
    if not fs.isdir(DATA):
        return
    sometimes["disk verified after a crash"] += 1
    for report in verify(fs, DATA):
        for finding in report.findings:
            if finding.severity is Severity.CUT:
                sometimes["torn tail on a disk"] += 1
            if is_about(f"{report.path}/", unsure) or is_about(finding.path, unsure):
                continue
            if finding.severity is Severity.DAMAGE and not _is_half_made(finding, report):
                what = f"{finding.what} (offset {finding.offset}, byte {finding.position})"
                raise Violation(
                    finding.invariant, f"{node.name} after a crash: {finding.path}: {what}"
                )


def check_start(
    disk: SimDisk, view: LogView, damage: Entry | None, told: int, opened: int, where: str
) -> None:
    """I-7: a process has opened the log `view`, which ended there and at `told` for the one before
    it. Durable batches are no torn tail, although the disk has changed `damage`.
    """
    if opened >= min(told, view.end):
        return
    kept = min(told, kept_to(disk, view, damage))
    if opened < kept:
        raise Violation("I-7", f"{where}: a start cut it to {opened}, durable was all below {kept}")


def kept_to(disk: SimDisk, view: LogView, damage: Entry | None) -> int:
    """The recovery point, up to which a start leaves a log as it is. Without recovery points,
    damage before no sound batch looks like a torn tail.
    """
    point = expected_of(Reader(disk), view.path).recovery_point or 0
    is_lost = expected_of(AsFound(disk), view.path).recovery_point is None
    if is_lost and damage is not None and damage.end == view.end:
        point = min(point, damage.base)
    return min(point, view.end)


def has_torn_tail(disk: SimDisk) -> bool:
    """True if a start that trusts the recovery points would cut a log there."""
    reports = verify(Reader(disk), DATA)
    return any(each.severity is Severity.CUT for report in reports for each in report.findings)


def is_about(path: str, touched: set[str]) -> bool:
    """True if a touched file is of the replica whose directory the path lies in. Files of the data
    directory itself are of no replica.
    """
    directory = path.rpartition("/")[0]
    return path in touched or (
        directory != DATA and any(other.startswith(f"{directory}/") for other in touched)
    )


def unread_from(disk: SimDisk, path: str) -> int | None:
    """The base of the first segment of the log at `path` that the disk has misread; None if there
    is none.
    """
    unread = (file.rpartition("/") for file in disk.touched(*UNREAD) if file.endswith(MISREAD))
    return min((int(name[:20]) for of, _, name in unread if of == path), default=None)


def _is_half_made(finding: Finding, report: RootReport | PartitionReport) -> bool:
    """True for a directory whose creation was cut short: it has no identity yet, and no batch."""
    return (
        finding.invariant == "I-36" and isinstance(report, PartitionReport) and report.batches == 0
    )
