"""`rebuild silver`: silver and quarantine made again from bronze."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from strandline_spark.errors import OptionError
from strandline_spark.spark.flags import add_spark, local_session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from strandline_spark.pipeline.config import Pipeline


def add_rebuild(commands: Any) -> None:
    rebuild = commands.add_parser("rebuild", help="make tables again from bronze")
    tables = rebuild.add_subparsers(required=True, metavar="TABLE")
    silver = tables.add_parser(
        "silver",
        help="silver and quarantine of a pipeline, with its present rules",
        description="Makes silver and quarantine again from bronze, after a corrected rule or a"
        " lost table, and then gold and state. No cluster is needed. The old tables are moved"
        " aside. If the command breaks off, run it again: it continues.",
    )
    silver.add_argument("pipeline", metavar="PIPELINE", help="path of a pipeline.toml")
    silver.add_argument(
        "--quarantine-only",
        action="store_true",
        help="parse only the quarantined records, and keep the rows of silver",
    )
    silver.add_argument(
        "--table",
        metavar="NAME",
        help="name of one silver table, if the pipeline has several (default: all of them)",
    )
    add_spark(silver)
    silver.set_defaults(
        run=_run, interrupted="the old tables are unchanged; run the command again to continue"
    )


def _run(arguments: argparse.Namespace) -> int:
    from strandline_spark.bronze.columns import BronzeTable
    from strandline_spark.commands.pipeline import told
    from strandline_spark.pipeline.config import load_pipeline
    from strandline_spark.pipeline.failures import Failures
    from strandline_spark.pipeline.gold import GoldSteps
    from strandline_spark.pipeline.state import StateSteps
    from strandline_spark.silver.rebuild import Rebuild, running

    pipeline = load_pipeline(arguments.pipeline)
    parts = parts_of(pipeline, arguments.table)
    BronzeTable.open(pipeline.bronze).check_owner(pipeline.name)
    failures = Failures(_note)
    with (
        running(pipeline, alone=True),
        local_session(arguments, f"strandline rebuild {pipeline.name}") as spark,
    ):
        for part in parts:
            done = Rebuild(part, _note, quarantine_only=arguments.quarantine_only).run(spark)
            where = "" if part.part is None else f"{part.part}: "
            print(  # noqa: T201 - the command's result
                f"{where}{done.rows:,} records of bronze parsed again, {done.quarantined:,} of them"
                " to quarantine"
            )
            for path in done.aside:
                print(f"  as it was: {path}")  # noqa: T201 - the command's result
            GoldSteps(spark, part, _note, failures).run(spark)
            StateSteps(part, _note, failures).run()
    return told(failures.said())


def parts_of(pipeline: Pipeline, name: str | None) -> Sequence[Pipeline]:
    """Returns the pipeline, seen from the silver table of the name, or from each of them."""
    if name is None:
        return pipeline.parts
    found = [one for one in pipeline.parts if one.part == name]
    if not found:
        known = ", ".join(one.part for one in pipeline.parts if one.part is not None)
        raise OptionError(
            f"--table {name}: {pipeline.file} has no [[silver]] of that name;"
            f" {f'it has {known}' if known else 'leave --table out, it has one silver table'}"
        )
    return found


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress
