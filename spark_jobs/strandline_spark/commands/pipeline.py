"""The commands of a pipeline: `run`, and for each part `ingest silver`, `gold`, `state` and
`latest`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from strandline_spark.cluster.find_cluster import add_cluster, chosen_cluster
from strandline_spark.commands.monitoring import add_metrics, listen_address, metrics_served
from strandline_spark.errors import OptionError
from strandline_spark.spark.flags import add_spark, local_session
from strandline_spark.stores import files
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from strandline_spark.bronze.bronze import Totals
    from strandline_spark.bronze.micro_batch import BatchReport
    from strandline_spark.pipeline.config import Pipeline
    from strandline_spark.pipeline.steps import GoldStep, StateStep

_STAYS: Final = "committed batches stay, and the next run continues from the checkpoint"
_SHOWN: Final = 20


def add_run(commands: Any) -> None:
    command = commands.add_parser(
        "run",
        help="run a pipeline: topics to bronze, silver, gold and state",
        description="Runs the pipeline of a file. Raw records go into bronze, parsed ones into"
        " silver (or quarantine). Once the watermark has closed a window, its rows go into gold."
        " The latest row of each key goes into state."
        " docs/guide/spark/pipelines.md has a file with every key;"
        " `strandline-spark example access` prints an example.",
    )
    _add_job(command)
    command.add_argument(
        "--close", action="store_true", help="at the end, write open windows to gold too"
    )
    command.set_defaults(run=_run_pipeline, interrupted=_STAYS, gold=True)


def add_silver(jobs: Any) -> None:
    command = jobs.add_parser(
        "silver",
        help="run a pipeline up to silver and quarantine",
        description="Runs the pipeline of a file up to silver, with raw and parsed records and"
        " without its gold and state steps.",
    )
    _add_job(command)
    command.set_defaults(run=_run_pipeline, interrupted=_STAYS, gold=False, close=False)


def add_gold(commands: Any) -> None:
    command = commands.add_parser(
        "gold",
        help="run a pipeline's gold steps over the present silver",
        usage="%(prog)s PIPELINE [options]\n       %(prog)s reset STEP [PIPELINE]",
        description="Runs the gold steps of a pipeline once over the present silver. No cluster is"
        " needed. `gold reset STEP` starts one step again: its table is moved aside, and the next"
        " run computes it from all of silver.",
    )
    command.add_argument(
        "words",
        nargs="+",
        metavar="PIPELINE",
        help="path of a pipeline.toml; or reset, the name of a step, and the path (default:"
        " pipeline.toml)",
    )
    command.add_argument("--close", action="store_true", help="write open windows to gold too")
    add_spark(command)
    command.set_defaults(run=_run_gold, interrupted="committed windows stay in gold")


def add_state(commands: Any) -> None:
    command = commands.add_parser(
        "state",
        help="run a pipeline's state steps over the present silver",
        usage="%(prog)s PIPELINE\n       %(prog)s reset STEP [PIPELINE]",
        description="Runs the state steps of a pipeline once over the present silver. Neither a"
        " cluster nor Spark is needed. `state reset STEP` starts one step again: its table is moved"
        " aside, and the next run computes it from all of silver.",
    )
    command.add_argument(
        "words",
        nargs="+",
        metavar="PIPELINE",
        help="path of a pipeline.toml; or reset, the name of a step, and the path (default:"
        " pipeline.toml)",
    )
    command.set_defaults(run=_run_state, interrupted="committed changes stay in the tables")


def add_latest(commands: Any) -> None:
    command = commands.add_parser(
        "latest",
        help="show the latest row of each key in silver",
        description="Shows the row with the greatest offset for each key, as in a compacted topic."
        " A key whose last record is a tombstone has no row.",
    )
    command.add_argument("table", metavar="TABLE", help="path of a silver table")
    command.add_argument(
        "--output", metavar="FOLDER", help="write Parquet files there; the folder must not exist"
    )
    add_spark(command)
    command.add_argument("--format", choices=("table", "json"), default="table")
    command.set_defaults(run=_run_latest, interrupted="nothing was changed")


def _add_job(command: argparse.ArgumentParser) -> None:
    command.add_argument("pipeline", metavar="PIPELINE", help="path of a pipeline.toml")
    add_cluster(command)
    when = command.add_mutually_exclusive_group()
    when.add_argument(
        "--once", action="store_true", help="read what is available and end (default)"
    )
    when.add_argument(
        "--every", metavar="10s", help="start a micro-batch at this interval, until interrupted"
    )
    add_metrics(command)
    add_spark(command)
    command.add_argument("--format", choices=("table", "json"), default="table")


def _run_pipeline(arguments: argparse.Namespace) -> int:
    from strandline_spark.pipeline.config import load_pipeline

    pipeline = load_pipeline(arguments.pipeline)
    listen_address(arguments.metrics_listen)
    bootstrap = chosen_cluster(arguments, os.environ)
    from strandline_spark.source.options import parse_options

    given = {"bootstrap.servers": bootstrap, "subscribe": ",".join(pipeline.topics)}
    options = parse_options(given)
    from strandline_spark.bronze.bronze import checked_interval
    from strandline_spark.pipeline.job import PipelineRun, bronze_job, run_pipeline
    from strandline_spark.spark.session import checked_master, checked_memory

    run = PipelineRun(
        bootstrap=",".join(options.bootstrap),
        every=None if arguments.every is None else checked_interval(arguments.every),
        close=arguments.close,
        gold=arguments.gold,
        master=checked_master(arguments.master),
        memory=checked_memory(arguments.memory),
        worker_python=arguments.worker_python,
    )
    began = time.monotonic()
    _note(f"starting Spark (its log: {bronze_job(pipeline, run).log_file})")
    with metrics_served(arguments, pipeline.name) as metrics:
        run = replace(run, metrics=metrics)
        totals, failed = run_pipeline(pipeline, run, _progress, _note)
    elapsed_s = time.monotonic() - began
    _print_totals(pipeline, totals, failed, elapsed_s, arguments.format, gold=arguments.gold)
    return told(failed)


def told(failed: dict[str, str]) -> int:
    """Reports the failed steps and returns the run's exit status."""
    for step, said in failed.items():
        _note(f"error: {step} stands still: {said}")
    if failed:
        _note("start this again once that is repaired: what was left out is caught up on")
    return 1 if failed else 0


def _progress(report: BatchReport) -> None:
    if report.skipped:
        _note(f"batch {report.batch_id}: the tables have it already (version {report.version})")
        return
    lost = f" ({report.lost:,} offsets lost to retention)" if report.lost else ""
    bad = f", {report.quarantined:,} of them to quarantine" if report.quarantined else ""
    _note(
        f"batch {report.batch_id}: {report.rows:,} records{bad}{lost}, {report.size / 1e6:.1f} MB"
    )


def _print_totals(
    pipeline: Pipeline,
    totals: Totals,
    failed: dict[str, str],
    seconds: float,
    form: str,
    *,
    gold: bool,
) -> None:
    tables = pipeline.tables if gold else pipeline.parsed_tables
    if form == "json":
        document = {
            "pipeline": pipeline.name,
            "batches": totals.batches,
            "rows": totals.rows,
            "quarantined": totals.quarantined,
            "duplicates": totals.duplicates,
            "lost": totals.lost,
            "size_bytes": totals.size,
            "elapsed_s": round(seconds, 3),
            "tables": dict(tables),
            "failed": failed,
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
        return
    some = [
        f"{count:,} {what}"
        for count, what in (
            (totals.quarantined, "did not parse"),
            (totals.duplicates, "are duplicates"),
        )
        if count
    ]
    bad = f" ({', '.join(some)})" if some else ""
    print(  # noqa: T201 - the command's result
        f"{totals.rows:,} records{bad} in {totals.batches} batches ({seconds:.1f} s)"
    )
    for key, path in tables:
        print(f"  {key}: {path}")  # noqa: T201 - the command's result


def _run_gold(arguments: argparse.Namespace) -> int:
    from strandline_spark.pipeline.config import load_pipeline

    words = arguments.words
    if words[0] == "reset":
        return _reset(words[1:])
    if len(words) > 1:
        raise OptionError(
            f"gold {' '.join(words)}: give one path of a pipeline.toml, or `gold reset STEP"
            " PIPELINE`"
        )
    pipeline = load_pipeline(words[0])
    if not pipeline.every_gold:
        raise OptionError(f"{pipeline.file} has no [[gold]] step; add one")
    from strandline_spark.pipeline.failures import Failures
    from strandline_spark.pipeline.gold import GoldSteps
    from strandline_spark.silver.tables import SilverTable

    parts = [part for part in pipeline.parts if part.gold]
    for part in parts:
        SilverTable.open(part.silver).check_owner(pipeline.name)
    failures = Failures(_note)
    with local_session(arguments, f"strandline gold {pipeline.name}") as spark:
        for steps in [GoldSteps(spark, part, _note, failures) for part in parts]:
            steps.run(spark, close=arguments.close)
    return told(failures.said())


def _reset(words: list[str]) -> int:
    from strandline_spark.gold.table import GoldTable

    pipeline, step = _step_to_reset("gold", words)
    return _moved(pipeline, step, lambda: GoldTable.open(step, pipeline.name).set_aside())


def _run_state(arguments: argparse.Namespace) -> int:
    from strandline_spark.pipeline.config import load_pipeline

    words = arguments.words
    if words[0] == "reset":
        return _reset_state(words[1:])
    if len(words) > 1:
        raise OptionError(
            f"state {' '.join(words)}: give one path of a pipeline.toml, or `state reset STEP"
            " PIPELINE`"
        )
    pipeline = load_pipeline(words[0])
    if not pipeline.every_state:
        raise OptionError(f"{pipeline.file} has no [[state]] step; add one")
    from strandline_spark.pipeline.failures import Failures
    from strandline_spark.pipeline.state import StateSteps
    from strandline_spark.silver.tables import SilverTable

    parts = [part for part in pipeline.parts if part.state]
    for part in parts:
        SilverTable.open(part.silver).check_owner(pipeline.name)
    failures = Failures(_note)
    for steps in [StateSteps(part, _note, failures) for part in parts]:
        steps.run()
    return told(failures.said())


def _reset_state(words: list[str]) -> int:
    from strandline_spark.state.table import StateTable

    pipeline, step = _step_to_reset("state", words)
    return _moved(pipeline, step, lambda: StateTable.open(step, pipeline.name).set_aside())


def _step_to_reset(section: str, words: list[str]) -> tuple[Pipeline, Any]:
    from strandline_spark.pipeline.config import load_pipeline

    if not 1 <= len(words) <= 2:
        raise OptionError(f"{section} reset: name one step, and the path of its pipeline.toml")
    # No name of a step has a dot or a slash, so either order is unambiguous.
    name, path = words if len(words) == 2 else (words[0], "pipeline.toml")
    if name.endswith(".toml") and not path.endswith(".toml"):
        name, path = path, name
    pipeline = load_pipeline(path)
    steps = pipeline.every_gold if section == "gold" else pipeline.every_state
    step = next((one for one in steps if one.name == name), None)
    if step is None:
        names = ", ".join(one.name for one in steps) or "none"
        raise OptionError(
            f"{section} reset {name}: {path} has no step of that name; it has {names}"
        )
    return pipeline, step


def _moved(pipeline: Pipeline, step: GoldStep | StateStep, set_aside: Callable[[], str]) -> int:
    from strandline_spark.delta_log.aside import end_removal
    from strandline_spark.silver.rebuild import running

    # A folder is moved at once. The objects of a table are not, so no job may run.
    with running(pipeline, alone=True) if is_remote(step.table) else contextlib.nullcontext():
        aside = end_removal(step.table)
        if aside is None and not files.is_folder(step.table):
            print(  # noqa: T201 - the command's result
                f"{step.name}: it has no table; the next run computes it from all of silver"
            )
            return 0
        place = set_aside() if aside is None else aside
    print(  # noqa: T201 - the command's result
        f"{step.name}: the next run computes it from all of silver. The table as it was: {place}"
    )
    return 0


def _run_latest(arguments: argparse.Namespace) -> int:
    from strandline_spark.bronze.fenced_table import POSITION_KEY
    from strandline_spark.silver.latest import latest
    from strandline_spark.silver.names import quoted
    from strandline_spark.silver.tables import SilverTable
    from strandline_spark.source.option_values import local_path, table_path

    path = table_path("TABLE", arguments.table)
    position = SilverTable.open(path).setting(POSITION_KEY)
    order = ["topic", "partition", "offset", *([] if position is None else [quoted(position)])]
    output = arguments.output
    if output is not None:
        output = os.path.abspath(local_path("--output", output))
        if os.path.exists(output):
            raise OptionError(f"--output {output} exists; name a folder that does not")
    with local_session(arguments, "strandline latest") as spark:
        frame = latest(spark, path).orderBy(*order)
        if output is not None:
            print(f"{output}: {_written(spark, frame, output):,} rows")  # noqa: T201 - the result
        elif arguments.format == "json":
            for line in frame.toJSON().toLocalIterator():
                print(line)  # noqa: T201 - the command's result
        else:
            frame.show(_SHOWN, truncate=40)
            rows = frame.count()
            print(f"{rows:,} rows")  # noqa: T201 - the command's result
            if rows == 0:
                _note("rows without a key are no part of it")
    return 0


def _written(spark: SparkSession, frame: DataFrame, folder: str) -> int:
    """Returns the number of rows, counted in the files."""
    frame.write.parquet(f"file://{folder}")
    # A folder's name may have characters that are wildcards in a pattern.
    reader = spark.read.option("__globPaths__", "false")
    return int(reader.parquet(f"file://{folder}").count())


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress
