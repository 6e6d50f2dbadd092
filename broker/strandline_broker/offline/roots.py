"""The offline verification of a data directory: first the files that its partitions share, then
each partition.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from strandline_broker.offline.checkpoints import (
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    INT64_MAX,
    LOG_STARTS,
    MARKER,
    META,
    OFFSET_CHECKPOINTS,
    RECOVERY_POINTS,
    SEAL,
    STATE,
    check_meta,
    damage_of_seal,
    flushed_always,
    limit_of,
    offsets_of,
    was_clean,
)
from strandline_broker.offline.findings import Expected, RootReport, Severity
from strandline_broker.offline.layout import PARTITION, is_partition, partition_files, partitions_in
from strandline_broker.offline.transaction_check import Decisions
from strandline_broker.offline.verify import verify_partition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline_broker.offline.disk import Disk
    from strandline_broker.offline.findings import PartitionReport
    from strandline_broker.offline.layout import PartitionFiles

ROOT_EVIDENCE: Final = (META, STATE, *OFFSET_CHECKPOINTS)


@dataclass(slots=True)
class Root:
    """The content of a data directory's shared files."""

    path: str
    report: RootReport
    offsets: dict[str, dict[tuple[str, int], int]] = field(default_factory=dict)
    always: bool = False
    clean: bool = False
    lost: bool = False
    """True if the recovery points exist but cannot be trusted: any batch may have been durable."""

    def expected(self, disk: Disk, topic: str, partition: int, files: PartitionFiles) -> Expected:
        """The values of one partition. Without an entry no data is durable, so none is
        protected.
        """
        key = topic, partition
        # Some of the shared files do not include these cuts yet.
        limits = [limit_of(disk, path) for path in files.limits]
        lost = self.lost or any(offset is None for offset, _ in limits)
        lost |= self._of(RECOVERY_POINTS, key) == INT64_MAX  # as it was written for others since
        found = Expected(
            recovery_point=None if lost else self._of(RECOVERY_POINTS, key),
            high_watermark=self._of(HIGH_WATERMARKS, key),
            log_start=self.offsets[LOG_STARTS].get(key),
            cleaned_to=self.offsets[CLEANER_OFFSETS].get(key),
            always=self.always,
            clean=self.clean,
        )

        def lowest(name: str) -> int | None:
            return min((offset or 0 for offset, names in limits if name in names), default=None)

        point, mark = lowest(RECOVERY_POINTS), lowest(HIGH_WATERMARKS)
        if point is not None and not lost:
            found = replace(found, recovery_point=min(found.recovery_point or 0, point))
        if mark is not None:
            found = replace(found, high_watermark=min(found.high_watermark or 0, mark))
        if lowest(LOG_STARTS) is not None:
            found = replace(found, log_start=None)
        return found

    def _of(self, name: str, key: tuple[str, int]) -> int:
        return self.offsets[name].get(key, 0)


def read_root(disk: Disk, path: str) -> Root | None:
    """The shared files of the data directory at `path`; None if it is not one."""
    if not any(disk.exists(f"{path}/{name}") for name in ROOT_EVIDENCE):
        return None
    root = Root(path, RootReport(path))
    for name in OFFSET_CHECKPOINTS:
        root.offsets[name] = {}
        file = f"{path}/{name}"
        if not disk.exists(file):
            continue
        try:
            root.offsets[name] = offsets_of(disk, file)
        except ValueError as error:
            what = f"it does not read ({error}) and is treated as absent"
            root.report.add(Severity.REPAIR, "I-8", file, what)
            root.lost |= name == RECOVERY_POINTS
        damaged = damage_of_seal(disk, file)
        if damaged is not None:
            root.report.add(Severity.REPAIR, "I-8", file + SEAL, damaged)
    _check_others(disk, root)
    return root


def _check_others(disk: Disk, root: Root) -> None:
    meta, state, marker = (f"{root.path}/{name}" for name in (META, STATE, MARKER))
    try:
        if disk.exists(meta):
            check_meta(disk, meta)
    except ValueError as error:
        root.report.add(Severity.DAMAGE, "I-8", meta, f"it does not read: {error}")
    damaged = damage_of_seal(disk, meta)
    if damaged is not None:
        root.report.add(Severity.REPAIR, "I-8", meta + SEAL, damaged)
    try:
        always, is_cut = flushed_always(disk, state)
        root.always = always and not (is_cut and disk.exists(marker))
        if is_cut:
            what = "its last line is not whole: no answer followed it, unless it was closed"
            root.report.add(Severity.REPAIR, "I-8", state, what)
    except ValueError as error:
        what = f"it does not read ({error}); the last shutdown counts as unclean"
        root.report.add(Severity.REPAIR, "I-8", state, what)
    try:
        root.clean = was_clean(disk, marker) and not root.lost
    except ValueError as error:
        what = f"it does not read ({error}); the last shutdown counts as unclean"
        root.report.add(Severity.REPAIR, "I-52", marker, what)


def expected_of(disk: Disk, path: str) -> Expected:
    """The values of a partition in the data directory around it, if there is one."""
    parent, _, name = path.rpartition("/")
    match = PARTITION.fullmatch(name)
    root = read_root(disk, parent) if parent and match is not None else None
    if root is None or match is None:
        return Expected()
    return root.expected(disk, match[1], int(match[2]), partition_files(disk, path))


def verify(
    disk: Disk, path: str, *, compacted: bool = False
) -> Iterator[RootReport | PartitionReport]:
    """Verify a partition's directory, or a data directory with all of its partitions.

    A directory of neither kind gives no report. Raises OSError if a file cannot be read.
    """
    if is_partition(disk, path):
        yield verify_partition(disk, path, expected_of(disk, path), compacted=compacted)
        return
    root = read_root(disk, path)
    found, foreign = partitions_in(disk, path)
    found = [each for each in found if root is not None or is_partition(disk, each[2])]
    if root is None:
        if not found:
            return
        root = Root(path, RootReport(path), {name: {} for name in OFFSET_CHECKPOINTS})
        what = "no checkpoint of a data directory lies here: recovery points are not known"
        root.report.add(Severity.NOTE, "", path, what)
        known = False
    else:
        known = True
    for other in foreign:
        root.report.add(Severity.NOTE, "", other, "a foreign file: a broker leaves it alone")
    yield root.report
    decisions = Decisions()
    for topic, partition, directory in found:
        files = partition_files(disk, directory)
        expected = root.expected(disk, topic, partition, files) if known else Expected()
        yield verify_partition(disk, directory, expected, compacted=compacted, decisions=decisions)
