"""`strandline-spark verify`: the check of a bronze table and a topic, or of a whole pipeline."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.cluster.find_cluster import add_cluster, chosen_cluster_if_any
from strandline_spark.errors import OptionError
from strandline_spark.spark.flags import (
    add_spark_if_used,
    local_session,
    spark_flags_given,
    with_spark_flags,
)
from strandline_spark.stores import files

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from strandline_spark.bronze.verify import PartitionFindings
    from strandline_spark.gold.verify import GoldFindings
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.state.verify import StateFindings

_VERIFY_COLUMNS: Final = (
    "partition",
    "rows",
    "first_offset",
    "end_offset",
    "gaps",
    "doubles",
    "skipped",
    "lost",
    "removed",
    "unchecked",
    "differing",
    "high_watermark",
    "lag",
)
_PARSED_COLUMNS: Final = (
    *("topic", "partition", "bronze", "silver", "quarantine", "duplicates", "removed", "differing"),
)
_GOLD_COLUMNS: Final = ("step", "commits", "noted", "rows", "watermark", "late", "unchecked")
_STATE_COLUMNS: Final = ("step", "keys", "silver", "noted", "left_out", "behind")


def add_verify(commands: Any) -> None:
    verify = commands.add_parser(
        "verify",
        help="prove that tables hold each offset once",
        description="Proves that a bronze table holds each offset of a topic once. For a pipeline"
        " it also proves that silver and quarantine together hold the offsets of bronze, and that"
        " gold is the result of its statements over silver, and state the latest row of each key."
        " If a cluster is named (by a flag, STRANDLINE_CONTEXT, STRANDLINE_BOOTSTRAP,"
        " STRANDLINE_DIR, ./.strandline or the context in use), bronze is compared"
        " with its topic ids and high watermarks too.",
    )
    verify.add_argument(
        "table", metavar="TABLE", help="path of the bronze table, or of a pipeline.toml"
    )
    verify.add_argument(
        "topic",
        metavar="TOPIC",
        nargs="?",
        help="topic of the bronze table; leave it out for a pipeline",
    )
    add_cluster(verify)
    verify.add_argument(
        "--complete", action="store_true", help="fail if the topic has more than the table"
    )
    verify.add_argument(
        "--values",
        action="store_true",
        help="read the topic again and compare key, value, headers and timestamp of each row; for"
        " a pipeline, also parse bronze again and compare each row of silver and quarantine",
    )
    verify.add_argument(
        "--allow-lost",
        action="store_true",
        help="accept offsets that retention removed before they were read",
    )
    verify.add_argument(
        "--full",
        action="store_true",
        help="read all files and compute all windows; without it, only what no earlier verify has"
        " found sound",
    )
    verify.add_argument("--format", choices=("table", "json"), default="table")
    add_spark_if_used(verify, "for the gold steps of a pipeline, refused otherwise")
    verify.set_defaults(run=_run, interrupted="nothing is proven, and nothing was changed")


def _run(arguments: argparse.Namespace) -> int:
    is_pipeline = arguments.table.endswith(".toml") or os.path.isfile(arguments.table)
    if is_pipeline and arguments.topic is not None:
        raise OptionError(
            f"{arguments.topic}: a pipeline is verified with all its topics; leave the topic out"
        )
    if not is_pipeline and arguments.topic is None:
        raise OptionError(
            f"{arguments.table}: of a bronze table name the topic too; a pipeline's file ends in"
            " .toml"
        )
    if not is_pipeline:
        _refuse_spark_flags(arguments, "a table is read")
    return _run_pipeline(arguments) if is_pipeline else _run_table(arguments)


def _refuse_spark_flags(arguments: argparse.Namespace, why: str) -> None:
    given = spark_flags_given(arguments)
    if given:
        raise OptionError(
            f"{', '.join(given)}: {why} without Spark, which is for a pipeline's gold steps alone;"
            f" leave {'it' if len(given) == 1 else 'them'} out"
        )


def _run_pipeline(arguments: argparse.Namespace) -> int:
    from strandline_spark.pipeline.config import load_pipeline
    from strandline_spark.pipeline.verify import verify_parsed, verify_raw
    from strandline_spark.verification.readings import Readings

    pipeline = load_pipeline(arguments.table)
    if not pipeline.every_gold:
        _refuse_spark_flags(
            arguments, f"{arguments.table} has no gold step, and its tables are read"
        )
    servers = _servers(arguments, ",".join(pipeline.topics), asking=("complete",))
    flags = ("complete", "allow_lost", "values", "full")
    asked = {name: getattr(arguments, name) for name in flags}
    readings = Readings(full=arguments.full)
    raw = verify_raw(pipeline, servers, readings=readings, **asked)
    values, full = arguments.values, arguments.full
    parsed = verify_parsed(pipeline, values=values, full=full, readings=readings)
    gold = _verify_gold(arguments, pipeline)
    state = _verify_state(pipeline, full=arguments.full)
    every: list[Any] = [*raw, *parsed, *gold, *state]
    sound = all(one.sound for one in every)
    if arguments.format == "json":
        from dataclasses import asdict

        from strandline_spark.bronze.verify import as_json

        document = {
            "pipeline": pipeline.name,
            "sound": sound,
            "bronze": [as_json(one) for one in raw],
            "silver": [asdict(one) | {"sound": one.sound} for one in parsed],
            "gold": [asdict(one) | {"sound": one.sound} for one in gold],
            "state": [asdict(one) | {"sound": one.sound} for one in state],
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
        return 0 if sound else 1
    _print_table(("topic", *_VERIFY_COLUMNS), raw)
    _print_table(_PARSED_COLUMNS, parsed)
    if gold:
        _print_table(_GOLD_COLUMNS, gold)
    if state:
        _print_table(_STATE_COLUMNS, state)
    _print_late(pipeline, gold)
    for key, table in pipeline.tables[len(pipeline.parsed_tables) :]:
        if not files.is_folder(table):
            name = key.partition(" ")[2]
            print(f"{name}: it has no table yet; the next run makes it")  # noqa: T201
    print(_verdict(pipeline, gold) if sound else "NOT sound")  # noqa: T201
    return 0 if sound else 1


def _print_late(pipeline: Pipeline, gold: Sequence[GoldFindings]) -> None:
    updates = {step.name for step in pipeline.every_gold if step.updates}
    for one in gold:
        if one.late:
            where = "changed it" if one.step in updates else "are not in it"
            print(  # noqa: T201 - the command's result
                f"{one.step}: {one.late:,} rows of silver came after their window was closed and"
                f" {where}"
            )


def _verdict(pipeline: Pipeline, gold: list[GoldFindings]) -> str:
    made = {
        name: [files.is_folder(step.table) for step in steps]
        for name, steps in (("gold", pipeline.every_gold), ("state", pipeline.every_state))
        if steps
    }
    names = ["bronze", "silver", *(name for name, there in made.items() if any(there))]
    absent = [name for name, there in made.items() if not any(there)]
    late = sum(one.late for one in gold)
    return (
        f"sound: {', '.join(names[:-1])} and {names[-1]}"
        + (f"; there is no {' and no '.join(absent)} yet" if absent else "")
        + (f", without {late:,} late rows" if late else "")
        + (
            ", as far as it is there"
            if any(not all(there) and any(there) for there in made.values())
            else ""
        )
    )


def _verify_state(pipeline: Pipeline, *, full: bool) -> list[StateFindings]:
    from strandline_spark.state.verify import StateFindings, verify_step

    return [
        verify_step(step, part.silver, pipeline=pipeline.name, full=full)
        if files.is_folder(step.table)
        else StateFindings(step.name)
        for part in pipeline.parts
        for step in part.state
    ]


def _verify_gold(arguments: argparse.Namespace, pipeline: Pipeline) -> list[GoldFindings]:
    steps = [(step, part.silver) for part in pipeline.parts for step in part.gold]
    if not steps:
        return []
    from strandline_spark.gold.verify import GoldFindings, verify_step

    found = {step.name: GoldFindings(step.name) for step, _ in steps}
    made = [(step, silver) for step, silver in steps if files.is_folder(step.table)]
    if made:
        name = pipeline.name
        with local_session(with_spark_flags(arguments), f"strandline verify {name}") as spark:
            for step, silver in made:
                found[step.name] = verify_step(
                    spark, step, silver, pipeline=name, full=arguments.full
                )
    return list(found.values())


def _servers(
    arguments: argparse.Namespace, topics: str, *, asking: Sequence[str] = ("complete", "values")
) -> str | None:
    """Returns the cluster to compare with, if one is named. The flags `asking` need one."""
    from strandline_spark.source.options import parse_options

    servers = chosen_cluster_if_any(arguments, os.environ)
    asked = [f"--{name}" for name in asking if getattr(arguments, name)]
    if servers is None and asked:
        raise OptionError(
            f"{asked[0]} compares with a cluster: say where it is with --bootstrap HOST:PORT,"
            " STRANDLINE_BOOTSTRAP, --dir, STRANDLINE_DIR or --context"
        )
    if servers is None:
        _note("no cluster is named, so nothing is compared with topics")
        return None
    given = {"bootstrap.servers": servers, "subscribe": topics}
    return ",".join(parse_options(given).bootstrap)


def _run_table(arguments: argparse.Namespace) -> int:
    from strandline_spark.bronze.verify import as_json, verify
    from strandline_spark.source.option_values import table_path

    servers = _servers(arguments, arguments.topic)
    table = table_path("TABLE", arguments.table)
    found = verify(
        table,
        arguments.topic,
        servers,
        complete=arguments.complete,
        allow_lost=arguments.allow_lost,
        values=arguments.values,
        full=arguments.full,
    )
    sound = all(one.sound for one in found)
    if arguments.format == "json":
        document = {
            "table": table,
            "topic": arguments.topic,
            "sound": sound,
            "rows": sum(one.rows for one in found),
            "gaps": sum(one.gaps for one in found),
            "doubles": sum(one.doubles for one in found),
            "lost": sum(one.lost for one in found),
            "partitions": [as_json(one) for one in found],
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
    else:
        _print_findings(found, sound)
    return 0 if sound else 1


def _print_findings(found: list[PartitionFindings], sound: bool) -> None:
    _print_table(_VERIFY_COLUMNS, found)
    lost = any(one.lost for one in found)
    print(  # noqa: T201 - the command's result
        ("sound: every offset once" + (", but the lost ones" if lost else ""))
        if sound
        else "NOT sound"
    )


def _print_table(columns: tuple[str, ...], found: Sequence[Any]) -> None:
    """Prints a line for each finding, and the problems below."""
    rows: list[tuple[Any, ...]] = [columns]
    for one in found:
        rows.append(tuple(_shown(getattr(one, name)) for name in columns))
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(columns))]
    for row in rows:
        cells = (str(cell).rjust(width) for cell, width in zip(row, widths, strict=True))
        print("  ".join(cells))  # noqa: T201 - the command's result
    for one in found:
        where = one.step if hasattr(one, "step") else f"{one.topic}:{_shown(one.partition)}"
        for problem in one.problems:
            print(f"{where}: {problem}")  # noqa: T201 - the command's result


def _shown(value: Any) -> Any:
    return "-" if value == -1 else value


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress
