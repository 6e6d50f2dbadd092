"""What a crash leaves on a broker's disk, read by the offline verifier: nothing that was durable is
wrong or gone: batches (I-7), epochs (I-5), checkpoints (I-8). And what a start must leave there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from strandline_broker.offline.findings import PartitionReport, Severity
from strandline_broker.offline.roots import expected_of, verify
from strandline_proof.sim.cluster.topology import DATA
from strandline_proof.sim.disk.disk import UNREAD
from strandline_proof.sim.disk.fs import SimFs
from strandline_proof.sim.disk.parts import MISREAD
from strandline_proof.sim.oracles.violation import Violation

if TYPE_CHECKING:
    from collections import Counter

    from strandline_broker.offline.findings import Finding, RootReport
    from strandline_proof.sim.cluster.node import Node
    from strandline_proof.sim.disk.disk import SimDisk
    from strandline_proof.sim.oracles.replica.log_view import Entry, LogView


class Reader(SimFs):
    """Reads without being noticed: no operation is counted, no fault strikes, and what a disk has
    changed by itself is read as it was written.
    """

    def _begin(self, operation: str, path: str) -> None:
        pass

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self._inode(fd).as_written()[offset : offset + length])


class AsFound(Reader):
    """As a start reads it, with what the disk has changed."""

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return bytes(self._inode(fd).data[offset : offset + length])


def check_disk(node: Node, sometimes: Counter[str]) -> None:
    """Right after a crash of `node`, whatever kind it was."""
    if getattr(node.process, "is_loaded", node.process is not None):
        node.disk.mended = node.failed_before
    # What it called durable may be gone there, until a recovery has written it again (P-24).
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
    it. What was durable is no torn tail, although the disk has changed `damage`.
    """
    if opened >= min(told, view.end):
        return
    kept = min(told, kept_to(disk, view, damage))
    if opened < kept:
        raise Violation("I-7", f"{where}: a start cut it to {opened}, durable was all below {kept}")


def kept_to(disk: SimDisk, view: LogView, damage: Entry | None) -> int:
    """Up to where a start leaves a log as it is: its recovery point. Without recovery points nobody
    can tell damage that nothing sound stands behind from a torn tail.
    """
    point = expected_of(Reader(disk), view.path).recovery_point or 0
    is_lost = expected_of(AsFound(disk), view.path).recovery_point is None
    if is_lost and damage is not None and damage.end == view.end:
        point = min(point, damage.base)
    return min(point, view.end)


def has_torn_tail(disk: SimDisk) -> bool:
    """Whether a start that believes the recovery points would cut a log there."""
    reports = verify(Reader(disk), DATA)
    return any(each.severity is Severity.CUT for report in reports for each in report.findings)


def is_about(path: str, touched: set[str]) -> bool:
    """Whether something was touched of the replica in whose directory the path lies. What lies in
    the data directory itself is of no replica.
    """
    directory = path.rpartition("/")[0]
    return path in touched or (
        directory != DATA and any(other.startswith(f"{directory}/") for other in touched)
    )


def unread_from(disk: SimDisk, path: str) -> int | None:
    """The base of the first segment of the log at `path` of which the disk has not given what was
    written; None: it has given all.
    """
    unread = (file.rpartition("/") for file in disk.touched(*UNREAD) if file.endswith(MISREAD))
    return min((int(name[:20]) for of, _, name in unread if of == path), default=None)


def _is_half_made(finding: Finding, report: RootReport | PartitionReport) -> bool:
    """A directory whose creation was cut short has no identity yet, and no batch either."""
    return (
        finding.invariant == "I-36" and isinstance(report, PartitionReport) and report.batches == 0
    )
