"""`strandline-spark compact` and `vacuum`: care of a table's files, beside a running job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from strandline_spark.errors import OptionError

if TYPE_CHECKING:
    import argparse


def add_compact(commands: Any) -> None:
    command = commands.add_parser(
        "compact",
        help="merge a table's many small files into few large ones",
        description="Merges the many small files of a bronze, silver, quarantine or gold table into"
        " few large ones; in silver, one for each day of event time. Jobs may run."
        " Readers keep their files: the old ones stay until vacuum removes them. Run one compact"
        " or vacuum of a table at a time; of two the later is refused.",
    )
    command.add_argument("table", metavar="TABLE", help="path of the Delta table")
    command.add_argument(
        "--target-bytes",
        metavar="BYTES",
        default=str(128 << 20),
        help="approximate size of new files; a file of this size or more stays (default: 128 MiB)",
    )
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(
        run=_run_compact,
        interrupted="committed merges stay, the other files are unchanged, and the next run"
        " continues from there",
    )


def add_vacuum(commands: Any) -> None:
    command = commands.add_parser(
        "vacuum",
        help="remove files that are no longer part of a table",
        description="Removes files that compact has replaced, and those of batches that were not"
        " committed. Jobs may run: a file that a job may still commit stays.",
    )
    command.add_argument("table", metavar="TABLE", help="path of the Delta table")
    command.add_argument(
        "--keep",
        metavar="7d",
        default="7d",
        help="how long a file stays after it left the table, for readers that still use it; hours"
        " or days (default: 7d; at least 1h)",
    )
    command.add_argument("--dry-run", action="store_true", help="name the files, and remove none")
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(
        run=_run_vacuum,
        interrupted="no row of the table is touched, and the next run removes the remaining files",
    )


def add_retention(commands: Any) -> None:
    command = commands.add_parser(
        "retention",
        help="remove the rows of a table that are older than a time",
        description="Removes the files of a bronze, silver, quarantine or gold table whose rows are"
        " all older: by timestamp in bronze and quarantine, by event time in silver, by the end of"
        " the window in gold. Jobs may run. An entry lets verify know that the rows are gone on"
        " purpose; vacuum removes the files from the disk.",
    )
    command.add_argument("table", metavar="TABLE", help="path of the Delta table")
    command.add_argument(
        "--older-than", metavar="30d", required=True, help="age of the rows, in hours or days"
    )
    command.add_argument("--dry-run", action="store_true", help="name the files, and remove none")
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(
        run=_run_retention, interrupted="run the command again; what was removed is removed"
    )


def _run_retention(arguments: argparse.Namespace) -> int:
    hours = _hours("--older-than", arguments.older_than)
    from strandline_spark.maintenance.retention import retain

    path = _table_path(arguments.table)
    done = retain(path, hours * 3600, dry_run=arguments.dry_run)
    if arguments.format == "json":
        document = {
            "table": path,
            "version": done.version,
            "dry_run": arguments.dry_run,
            "files": done.files,
            "rows": done.rows,
            "size_bytes": done.size,
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
        return 0
    if arguments.dry_run:
        for file in done.files:
            print(file)  # noqa: T201 - the command's result
    what = "would be removed" if arguments.dry_run else "removed"
    print(  # noqa: T201 - the command's result
        f"{done.rows:,} rows in {len(done.files)} files {what} ({done.size / 1e6:.1f} MB);"
        f" {path} is at version {done.version}"
    )
    return 0


def kept_hours(text: str) -> int:
    """`36h` or `7d` in hours. Raises OptionError for anything else, and below an hour."""
    return _hours("--keep", text, ", for a batch that is being committed needs its files")


def _hours(flag: str, text: str, why: str = "") -> int:
    from strandline_spark.cluster.offsets import decimal

    number, unit = decimal(text[:-1]), {"h": 1, "d": 24}.get(text[-1:])
    if number is None or unit is None or not 1 <= number * unit <= 1_000_000:
        raise OptionError(
            f"{flag} {text!r}: give a number of hours or days, for instance 36h or 7d, and at least"
            f" 1h{why}"
        )
    return number * unit


def _run_compact(arguments: argparse.Namespace) -> int:
    from strandline_spark.cluster.offsets import decimal
    from strandline_spark.maintenance.compaction import compact

    target = decimal(arguments.target_bytes)
    if target is None or target < 1:
        raise OptionError(
            f"--target-bytes {arguments.target_bytes!r}: give a whole number above 0, for instance"
            " 134217728"
        )
    path = _table_path(arguments.table)
    done = compact(path, target)
    if arguments.format == "json":
        document = {
            "table": path,
            "version": done.version,
            "files_before": done.files_before,
            "files_after": done.files_after,
            "rows": done.rows,
            "size_before_bytes": done.size_before,
            "size_after_bytes": done.size_after,
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
    elif done.files_before == 0:
        print(f"nothing to compact; {path} is at version {done.version}")  # noqa: T201 - the result
    else:
        print(  # noqa: T201 - the command's result
            f"{done.files_before} files became {done.files_after}, {done.rows:,} rows,"
            f" {done.size_before / 1e6:.1f} MB became {done.size_after / 1e6:.1f};"
            f" {path} is at version {done.version}"
        )
    return 0


def _run_vacuum(arguments: argparse.Namespace) -> int:
    hours = kept_hours(arguments.keep)
    from strandline_spark.bronze.vacuum import vacuum

    path = _table_path(arguments.table)
    done = vacuum(path, kept_hours=hours, dry_run=arguments.dry_run)
    if arguments.format == "json":
        document = {
            "table": path,
            "version": done.version,
            "dry_run": arguments.dry_run,
            "files": done.files,
            "size_bytes": done.size,
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
        return 0
    if arguments.dry_run:
        for file in done.files:
            print(file)  # noqa: T201 - the command's result
    what = "would be removed" if arguments.dry_run else "removed"
    print(  # noqa: T201 - the command's result
        f"{len(done.files)} files {what} ({done.size / 1e6:.1f} MB);"
        f" {path} is at version {done.version}"
    )
    return 0


def _table_path(text: str) -> str:
    from strandline_spark.source.option_values import table_path

    return table_path("TABLE", text)
