"""`strandline-spark forget`: the deletion of records from all tables of a pipeline."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse


def add_forget(commands: Any) -> None:
    command = commands.add_parser(
        "forget",
        help="delete records from all tables of a pipeline",
        description="Deletes the records for which a condition about silver's columns is true from"
        " bronze, silver and quarantine, and the gold and state tables, which the next run computes"
        " from the rows that are left. The pipeline must not run meanwhile. An entry with the"
        " offsets lets verify and rebuild know that the records are gone on purpose.",
    )
    command.add_argument("pipeline", metavar="PIPELINE", help="path of a pipeline.toml")
    command.add_argument(
        "--where",
        metavar="SQL",
        required=True,
        help="condition about the columns of silver, as \"user_id = 'u-17'\"",
    )
    command.add_argument(
        "--table",
        metavar="NAME",
        help="name of one silver table, if the pipeline has several (default: all of them)",
    )
    command.add_argument(
        "--drop-older",
        action="store_true",
        help="compute gold and state again although retention has removed older rows of silver",
    )
    command.add_argument("--dry-run", action="store_true", help="count the rows, and delete none")
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(run=_run, interrupted="run it again; it goes on with what is left")


def _run(arguments: argparse.Namespace) -> int:
    from strandline_spark.commands.rebuild import parts_of
    from strandline_spark.errors import OptionError
    from strandline_spark.maintenance.forget import forget
    from strandline_spark.pipeline.config import load_pipeline
    from strandline_spark.silver.rebuild import check_places, running

    pipeline = load_pipeline(arguments.pipeline)
    found = []
    refused: list[OptionError] = []
    parts = parts_of(pipeline, arguments.table)
    with running(pipeline, alone=True):
        for part in parts:
            check_places(part)
            try:
                done = forget(
                    part,
                    arguments.where,
                    dry_run=arguments.dry_run,
                    drop_older=arguments.drop_older,
                )
            except OptionError as why:  # another part may have the column, or the record
                refused.append(why)
            else:
                found.append((part, done))
    if not found:
        raise refused[0]
    if arguments.format == "json":
        document = {
            "pipeline": pipeline.name,
            "dry_run": arguments.dry_run,
            "tables": [{"silver": part.silver, **asdict(done)} for part, done in found],
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
        return 0
    for _, done in found:
        rows = ", ".join(f"{number:,} rows of {name}" for name, number in done.rows.items())
        what = "would be deleted" if arguments.dry_run else "deleted"
        print(f"{done.records:,} records: {rows} {what}")  # noqa: T201 - the command's result
        if done.begun_again:
            names = ", ".join(done.begun_again)
            print(f"  the next run computes again: {names}")  # noqa: T201 - the result
        for folder in done.aside:
            print(f"  a copy that may have them, yours to delete: {folder}")  # noqa: T201
    return 0
