"""`strandline log verify`: a check of files on disk by a reader that shares no code with the
broker.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK
from strandline_cli.options import Format, FormatOption
from strandline_cli.records.offline_input import CannotRead, CompactedOption, not_in_use, readable
from strandline_cli.shown.live_table import LiveTable
from strandline_cli.shown.output import emit_json, write_line

COLUMNS: Final = (
    *("partition", "log_start", "log_end", "recovery", "hw"),
    *("segments", "batches", "bytes", "verdict"),
)

if TYPE_CHECKING:
    from strandline_broker.offline.findings import Finding, PartitionReport, RootReport


def verify(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A partition's directory, or a whole data directory."),
    ],
    compacted: CompactedOption = False,
    output: FormatOption = Format.TABLE,
) -> int:
    """Check the logs of a stopped broker.

    Offsets, leader epochs, CRCs, indexes and checkpoints are read.

    Exit status 0 if all is sound, 1 if a fault was found, 2 if a file cannot be read.

    Example: strandline log verify .strandline/broker-1
    """
    from strandline_broker.offline.findings import PartitionReport
    from strandline_broker.offline.roots import verify as verified
    from strandline_runtime.real import RealFileSystem

    partitions: list[PartitionReport] = []
    roots: list[RootReport] = []
    with readable(directory) as path, not_in_use(path):
        try:
            for report in verified(RealFileSystem(), path, compacted=compacted):
                if isinstance(report, PartitionReport):
                    partitions.append(report)
                else:
                    roots.append(report)
        except NotADirectoryError as error:
            raise CannotRead(f"{path} is no directory: `log dump` reads single files") from error
    if not partitions and not roots:
        raise CannotRead(f"{path} holds neither segments nor partitions' directories")
    reports: list[RootReport | PartitionReport] = [*roots, *partitions]
    sound = all(each.sound for each in reports)
    if output is Format.JSON:
        emit_json(_document(path, sound, roots, partitions))
    else:
        _show(sound, reports, partitions)
    return EXIT_OK if sound else EXIT_FAILED


def _document(
    path: str, sound: bool, roots: "list[RootReport]", partitions: "list[PartitionReport]"
) -> dict[str, Any]:
    findings = [f for each in roots for f in each.findings]
    findings += [f for each in partitions for f in each.findings]
    return {
        "path": path,
        "sound": sound,
        "counts": _counts(findings),
        "findings": [_finding(f) for root in roots for f in root.findings],
        "partitions": [
            {
                "path": each.path,
                "sound": each.sound,
                "log_start": each.log_start,
                "log_end": each.log_end,
                "recovery_point": each.expected.recovery_point,
                "high_watermark": each.expected.high_watermark,
                "compacted": each.compacted,
                "segments": each.segments,
                "batches": each.batches,
                "records": each.records,
                "bytes": each.size_bytes,
                "findings": [_finding(f) for f in each.findings],
                "findings_unlisted": each.unlisted,
            }
            for each in partitions
        ],
    }


def _finding(finding: "Finding") -> dict[str, Any]:
    document = dataclasses.asdict(finding)
    document["file"] = document.pop("path")
    return document


def _counts(findings: "list[Finding]") -> dict[str, int]:
    from strandline_broker.offline.findings import Severity

    return {s.value: sum(f.severity is s for f in findings) for s in Severity}


def _show(
    sound: bool,
    reports: "list[RootReport | PartitionReport]",
    partitions: "list[PartitionReport]",
) -> None:
    table = LiveTable(COLUMNS, words=("partition", "verdict"))
    for part in partitions:
        known = (part.expected.recovery_point, part.expected.high_watermark)
        table.row(
            (
                part.path.rpartition("/")[2],
                part.log_start,
                part.log_end,
                *("?" if offset is None else offset for offset in known),
                part.segments,
                part.batches,
                part.size_bytes,
                "sound" if part.sound else _counted(_wrong(part)),
            ),
            alarm=not part.sound,
        )
    table.flush()
    for each in reports:
        for finding in each.findings:
            write_line(f"{finding.severity.value}: {_line(finding)}")
        if each.unlisted:
            write_line(f"{each.path}: {each.unlisted} more findings are not listed")
    wrong = sum(_wrong(each) for each in reports)
    held = f"{sum(p.batches for p in partitions)} batches in {len(partitions)} partitions"
    write_line(f"sound: {held}" if sound else f"NOT sound: {_counted(wrong)}; {held} read")


def _wrong(report: "RootReport | PartitionReport") -> int:
    from strandline_broker.offline.findings import Severity

    return sum(f.severity is not Severity.NOTE for f in report.findings) + report.unlisted


def _counted(findings: int) -> str:
    return "1 finding" if findings == 1 else f"{findings} findings"


def _line(finding: "Finding") -> str:
    where = finding.path
    if finding.position is not None:
        where += f" at byte {finding.position}"
    if finding.offset is not None:
        where += f" (offset {finding.offset}{_below(finding)})"
    tag = f" [{finding.invariant}]" if finding.invariant else ""
    return f"{where}: {finding.what}{tag}"


def _below(finding: "Finding") -> str:
    if finding.below_recovery_point:
        return ", below the recovery point"
    if finding.below_high_watermark:
        return ", below the high watermark"
    return ""
