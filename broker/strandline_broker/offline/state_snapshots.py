"""The controller's snapshots beside its log, parsed without the controller's code (I-8)."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from strandline_broker.offline.batches import Stretch, scan
from strandline_broker.offline.disk import OpenFile
from strandline_broker.offline.findings import Severity
from strandline_broker.offline.records import records_of
from strandline_proto.decompression import DEFAULT_BOUND
from strandline_proto.errors import CorruptMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from strandline_broker.offline.disk import Disk
    from strandline_broker.offline.findings import PartitionReport

STATE_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


def check_state_snapshots(disk: Disk, paths: Sequence[str], report: PartitionReport) -> None:
    """Check each file, and that the log continues from one of them; call after the log was read."""
    ends = []
    for path in paths:
        match = STATE_SNAPSHOT.fullmatch(path.rpartition("/")[2])
        assert match is not None, path
        end_offset = int(match[1])
        why = _why_bad(disk, path, end_offset, int(match[2]))
        if why is not None:
            what = f"{why}; the controller begins from an older one, if the log reaches back to it"
            report.add(Severity.DAMAGE, "I-8", path, what)
        else:
            ends.append(end_offset)
        if end_offset > report.log_end:
            what = f"a snapshot of offset {end_offset}, but the log ends at {report.log_end}"
            report.add(Severity.DAMAGE, "I-7", path, what, offset=report.log_end)
    if paths and report.log_start > max(ends, default=0):
        what = f"the log begins at {report.log_start}, and no snapshot covers what was before"
        report.add(Severity.DAMAGE, "I-7", report.path, what)


def _why_bad(disk: Disk, path: str, end_offset: int, epoch: int) -> str | None:
    values: list[bytes] = []
    with OpenFile(disk, path) as file:
        for batch in scan(file):
            if isinstance(batch, Stretch) or not batch.valid:
                return f"bytes from {batch.position} on are no sound batch"
            if (batch.base_offset, batch.leader_epoch) != (len(values), epoch):
                return f"the batch at byte {batch.position} does not belong there"
            if batch.compression != "none":
                return f"the batch at byte {batch.position} is compressed, as none of them is"
            try:
                records = records_of(file, batch, DEFAULT_BOUND)
                values += [record.value or b"" for record in records]
            except CorruptMessage as error:
                return f"the records of the batch at byte {batch.position} do not parse ({error})"
    try:
        header, footer = json.loads(values[0]), json.loads(values[-1])
    except (IndexError, RecursionError, ValueError):
        return "it has no header or no footer"
    if not isinstance(header, dict):
        return f"its header is {header!r}"
    if (header.get("type"), header.get("end_offset")) != ("SnapshotHeader", end_offset):
        return f"its header says {header}"
    if footer != {"type": "SnapshotFooter", "records": len(values) - 2}:
        return "it ends without the footer that counts its records"
    return None
