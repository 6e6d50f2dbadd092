"""`strandline-spark report`: tables and their audits as one HTML page."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from strandline_spark.errors import OptionError, TableError

if TYPE_CHECKING:
    import argparse

    from strandline_spark.report.sections import Findings


def add_report(commands: Any) -> None:
    command = commands.add_parser(
        "report",
        help="write one HTML page about tables and their audits",
        description="Writes one HTML page, which loads nothing. It shows throughput, lag, batch"
        " times, files and the audit of each table, and the reasons of a quarantine table. A"
        " quarantine table beside a silver one is included. Only the page is written.",
    )
    command.add_argument("tables", metavar="TABLE", nargs="+", help="paths of the Delta tables")
    command.add_argument(
        "--output",
        metavar="FILE",
        default="report.html",
        help="path of the page; an existing file is replaced (default: report.html)",
    )
    command.set_defaults(run=_run, interrupted="no page was written")


def _run(arguments: argparse.Namespace) -> int:
    from strandline_spark.report.page import render
    from strandline_spark.source.option_values import local_path, table_path

    paths = [table_path("TABLE", text) for text in arguments.tables]
    output = os.path.abspath(local_path("--output", arguments.output))
    _check_place(output)
    found = _read(paths)
    _write(output, render(found, now_ms=time.time_ns() // 1_000_000))
    rows = sum(one.table.rows for one in found)
    tables = "1 table" if len(found) == 1 else f"{len(found)} tables"
    print(f"{output}: {tables}, {rows:,} rows")  # noqa: T201 - the command's result
    return 0


def _check_place(output: str) -> None:
    """Raises OptionError before a table is read, if the page cannot be written there."""
    folder = os.path.dirname(output)
    if os.path.isdir(output):
        raise OptionError(f"--output {output}: this is a folder; name a file in it")
    if not os.path.isdir(folder):
        raise OptionError(f"--output {output}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise OptionError(f"--output {output}: {folder} is not writable; name another file")


def _read(paths: list[str]) -> list[Findings]:
    """Reads each table once, and after a silver one the quarantine table beside it."""
    from strandline_spark.report.accounts import Kind, is_table, read_table
    from strandline_spark.report.quarantine import read_reasons
    from strandline_spark.report.sections import Findings

    found: dict[str, Findings] = {}
    for path in paths:
        if path in found:
            continue
        found[path] = Findings(read_table(path))
        folder, name = os.path.split(path)
        # The quarantine of silver_orders is quarantine_orders.
        suffix = name.removeprefix("silver") if name.startswith("silver_") else ""
        beside = os.path.join(folder, f"quarantine{suffix}")
        if found[path].table.kind is Kind.SILVER and beside not in found and is_table(beside):
            found[beside] = Findings(read_table(beside))
    if all(one.table.is_empty for one in found.values()):
        names = ", ".join(found)
        raise TableError(f"{names}: nothing is committed yet; run the job first, then the report")
    for path, one in found.items():
        if one.table.kind is Kind.QUARANTINE and not one.table.is_empty:
            one.reasons = read_reasons(one.table.handle, path)
    return list(found.values())


def _write(output: str, page: str) -> None:
    """Replaces an earlier page by the whole new one, or leaves it."""
    part = f"{output}.part-{os.getpid()}"
    try:
        try:
            with open(part, "w", encoding="utf-8") as file:
                file.write(page)
            os.replace(part, output)
        finally:
            if os.path.exists(part):
                os.unlink(part)
    except OSError as why:
        raise OptionError(f"--output {output}: {why.strerror}; name another file") from why
