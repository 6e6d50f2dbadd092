"""`strandline log diff`: the first difference between two replicas of a partition."""

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strandline_cli.errors import EXIT_FAILED, EXIT_OK
from strandline_cli.options import (
    DECOMPRESSED_BYTES_FLAG,
    Format,
    FormatOption,
    MaxDecompressedBytesOption,
)
from strandline_cli.records.offline_input import CannotRead, CompactedOption, not_in_use, readable
from strandline_cli.shown.output import emit_json, emit_table, write_line
from strandline_proto.decompression import DECOMPRESSED_BYTES_MAX, Bound

if TYPE_CHECKING:
    from strandline_broker.offline.diff import DiffReport


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="A partition's directory.")],
    b: Annotated[
        Path, typer.Argument(metavar="B", help="The same partition's directory on another broker.")
    ],
    compacted: CompactedOption = False,
    max_decompressed_bytes: MaxDecompressedBytesOption = DECOMPRESSED_BYTES_MAX,
    output: FormatOption = Format.TABLE,
) -> int:
    """Show the first offset at which two replicas differ.

    The output says whether it is committed.

    Exit status 0 if they are identical or one is a prefix of the other, 1 if they diverge, 2 if one
    cannot be read.

    Example: strandline log diff broker-1/orders-0 broker-2/orders-0
    """
    from strandline_broker.offline.diff import Agreement
    from strandline_broker.offline.diff import diff as compare
    from strandline_proto.errors import RecordTooLarge
    from strandline_runtime.real import RealFileSystem

    with readable(a) as one, readable(b) as two, not_in_use(one), not_in_use(two):
        for path in (one, two):
            if not os.path.isdir(path):
                raise CannotRead(f"{path} is no directory: give the directories of two replicas")
        try:
            bound = Bound(max_decompressed_bytes, DECOMPRESSED_BYTES_FLAG)
            report = compare(RealFileSystem(), one, two, bound, compacted=compacted)
        except (ValueError, RecordTooLarge) as error:
            raise CannotRead(str(error)) from error
    if output is Format.JSON:
        emit_json(dataclasses.asdict(report))
    else:
        _show(report)
    return EXIT_FAILED if report.outcome is Agreement.DIVERGED else EXIT_OK


def _show(report: "DiffReport") -> None:
    sides = (("A", report.a), ("B", report.b))
    columns = ("replica", "log_start", "log_end", "torn_bytes", "directory")
    emit_table(columns, [(name, s.log_start, s.log_end, s.torn_bytes, s.path) for name, s in sides])
    if report.compacted is not None:
        write_line(
            f"compacted ({report.compacted}): the records that both hold were compared; "
            f"{report.only_a} are in A alone, {report.only_b} in B alone, as after a cleaning"
        )
    write_line(_summary(report))
    if report.difference is not None:
        write_line(f"  A: {report.difference.a}")
        write_line(f"  B: {report.difference.b}")


def _summary(report: "DiffReport") -> str:
    mark = report.high_watermark
    found = report.difference
    if found is not None:
        where = "" if mark is None else f" (below the high watermark {mark}: committed records)"
        if mark is not None and not found.below_high_watermark:
            where = f" (not below the high watermark {mark})"
        unknown = " (the high watermark is not known)" if mark is None else ""
        return f"diverged at offset {found.offset}{where}{unknown}: {found.what}"
    compared = f"offsets {report.compared_from} to {report.compared_to} agree"
    if report.a.log_end == report.b.log_end:
        return f"identical: {compared}"
    shorter = "A" if report.a.log_end < report.b.log_end else "B"
    end, longer = sorted((report.a.log_end, report.b.log_end))
    short = ""
    if mark is not None and end < mark:
        short = f"; it lacks {mark - end} committed offsets up to the high watermark {mark}"
    return f"prefix: {compared}; {shorter} ends {longer - end} offsets before the other{short}"
