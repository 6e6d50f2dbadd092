"""The `strandline-spark` command: a pipeline or its parts (`run`, `ingest`, `gold`, `state`,
`latest`), and the care for tables (`verify`, `compact`, `vacuum`, `lag`, `replay`, `rebuild`,
`report`, `prepare`).

Exit status: 0 done, 1 an error or a table that is not sound, 2 wrong usage, 130 interrupted.
Progress goes to standard error, the result to standard output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Final, NoReturn

from strandline_proto.errors import WireError
from strandline_runtime.build_id import build_id
from strandline_runtime.command_parser import CommandParser
from strandline_runtime.extras import what_is_missing
from strandline_runtime.grpc_experiments import without_event_engine
from strandline_spark.cluster.find_cluster import add_cluster, chosen_cluster
from strandline_spark.commands.example import add_example
from strandline_spark.commands.forget import add_forget
from strandline_spark.commands.help_examples import add_examples
from strandline_spark.commands.lag import add_lag
from strandline_spark.commands.monitoring import add_metrics, listen_address, metrics_served
from strandline_spark.commands.pipeline import (
    add_gold,
    add_latest,
    add_run,
    add_silver,
    add_state,
)
from strandline_spark.commands.prepare import add_prepare
from strandline_spark.commands.rebuild import add_rebuild
from strandline_spark.commands.replay import add_replay
from strandline_spark.commands.report import add_report
from strandline_spark.commands.tables import add_compact, add_retention, add_vacuum
from strandline_spark.commands.verify import add_verify
from strandline_spark.errors import OptionError, StrandlineSparkError
from strandline_spark.spark.flags import add_spark
from strandline_spark.stores.paths import is_remote

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from strandline_spark.bronze.bronze import Totals
    from strandline_spark.bronze.micro_batch import BatchReport

INTERRUPTED: Final = 130


def main(argv: Sequence[str] | None = None) -> NoReturn:
    without_event_engine()
    arguments = _parser().parse_args(argv)
    if missing := what_is_missing("spark"):
        _note(f"error: {missing}")
        sys.exit(1)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        _check_spark()
        status = arguments.run(arguments)
    except KeyboardInterrupt:
        _note(f"interrupted; {arguments.interrupted}")
        status = INTERRUPTED
    except (StrandlineSparkError, WireError) as error:
        _note(f"error: {error}")
        status = 1
    except BrokenPipeError:
        # The reader of our output has closed it, so no error can be shown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _check_spark() -> None:
    from strandline_spark.spark_versions import check_stream_reads

    check_stream_reads("strandline-spark")


def _interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="strandline-spark",
        description="Write Strandline topics into Delta tables, with Spark.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"strandline {build_id()}",
        help="print the version",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    ingest = commands.add_parser("ingest", help="run an ingestion job")
    jobs = ingest.add_subparsers(required=True, metavar="JOB")
    _add_bronze(
        jobs.add_parser("bronze", help="write raw records into a Delta table, each offset once")
    )
    add_silver(jobs)
    add_run(commands)
    add_gold(commands)
    add_state(commands)
    add_latest(commands)
    add_verify(commands)
    add_example(commands)
    add_compact(commands)
    add_vacuum(commands)
    add_retention(commands)
    add_forget(commands)
    add_lag(commands)
    add_replay(commands)
    add_rebuild(commands)
    add_prepare(commands)
    add_report(commands)
    add_examples(parser)
    return parser


def _add_bronze(bronze: argparse.ArgumentParser) -> None:
    add_cluster(bronze)
    bronze.add_argument("--topics", required=True, help="topics, comma separated")
    bronze.add_argument(
        "--table", required=True, help="path of the Delta table, or s3://BUCKET/FOLDER"
    )
    bronze.add_argument("--checkpoint", required=True, help="path of Spark's checkpoint")
    when = bronze.add_mutually_exclusive_group()
    when.add_argument(
        "--once", action="store_true", help="read what is available and end (default)"
    )
    when.add_argument(
        "--every", metavar="10s", help="start a micro-batch at this interval, until interrupted"
    )
    bronze.add_argument(
        "--mode",
        choices=("direct", "dataframe"),
        default="direct",
        help="writer of the Parquet files: the reading tasks (direct, the default), or Spark",
    )
    bronze.add_argument(
        "--from",
        dest="start",
        choices=("earliest", "latest", "table"),
        default="table",
        help="where a new checkpoint starts (default: where the table ends)",
    )
    bronze.add_argument(
        "--on-loss",
        choices=("stop", "record"),
        default="stop",
        help="if retention removed records before they were read: stop (default), or continue at"
        " the first record left and count the lost ones in the table; a topic that was created"
        " again and a truncated log always stop the job",
    )
    bronze.add_argument("--max-offsets-per-trigger", metavar="N", help="limit of one micro-batch")
    bronze.add_argument(
        "--max-decompressed-bytes",
        metavar="BYTES",
        help="limit on the decompressed size of one batch of records (default: 32 MiB)",
    )
    add_metrics(bronze)
    add_spark(bronze)
    bronze.add_argument("--format", choices=("table", "json"), default="table")
    bronze.set_defaults(
        run=_run_bronze,
        interrupted="committed batches stay, and the next run continues from the checkpoint",
    )


def _run_bronze(arguments: argparse.Namespace) -> int:
    from strandline_spark.source.options import parse_options

    listen_address(arguments.metrics_listen)
    bootstrap = chosen_cluster(arguments, os.environ)
    if arguments.on_loss == "record" and arguments.mode == "dataframe":
        raise OptionError(
            "--on-loss record: in dataframe mode the job does not see which records are gone; use"
            " --mode direct"
        )
    given = {"bootstrap.servers": bootstrap, "subscribe": arguments.topics}
    if arguments.max_decompressed_bytes is not None:
        given["maxDecompressedBytes"] = arguments.max_decompressed_bytes
    if arguments.max_offsets_per_trigger is not None:
        given["maxOffsetsPerTrigger"] = arguments.max_offsets_per_trigger
    options = parse_options(given)
    from strandline_spark.bronze.bronze import BronzeJob, check_apart, checked_interval, run_bronze
    from strandline_spark.spark.session import checked_master, checked_memory

    table, checkpoint = _places(arguments)
    check_apart(table, checkpoint)
    job = BronzeJob(
        bootstrap=",".join(options.bootstrap),
        topics=options.topics,
        table=table,
        checkpoint=checkpoint,
        every=None if arguments.every is None else checked_interval(arguments.every),
        direct=arguments.mode == "direct",
        start=arguments.start,
        record_losses=arguments.on_loss == "record",
        max_offsets_per_trigger=options.max_offsets_per_trigger,
        max_decompressed_bytes=options.max_decompressed_bytes,
        master=checked_master(arguments.master),
        memory=checked_memory(arguments.memory),
        worker_python=arguments.worker_python,
    )
    began = time.monotonic()
    _note(f"starting Spark (its log: {job.log_file})")
    with metrics_served(arguments, table) as metrics:

        def noted(report: BatchReport) -> None:
            _progress(report)
            if metrics is not None:
                metrics.batch(report)

        totals = run_bronze(job, noted, _note, metrics)
    _print_totals(job.table, totals, time.monotonic() - began, arguments.format)
    return 0


def _places(arguments: argparse.Namespace) -> tuple[str, str]:
    """Returns the table's place and the checkpoint's."""
    from strandline_spark.source.option_values import local_path, table_path

    table = table_path("--table", arguments.table)
    if is_remote(table) and arguments.mode == "dataframe":
        raise OptionError(
            "--mode dataframe: Spark writes to folders alone, and --table is in an object store:"
            " use --mode direct"
        )
    return table, os.path.abspath(local_path("--checkpoint", arguments.checkpoint))


def _print_totals(table: str, totals: Totals, seconds: float, form: str) -> None:
    if form == "json":
        document = {
            "table": table,
            "version": totals.version,
            "batches": totals.batches,
            "rows": totals.rows,
            "lost": totals.lost,
            "files": totals.files,
            "size_bytes": totals.size,
            "elapsed_s": round(seconds, 3),
        }
        print(json.dumps(document))  # noqa: T201 - the command's result
    else:
        print(  # noqa: T201 - the command's result
            f"{totals.rows:,} rows{_lost(totals.lost)} in {totals.batches} batches and"
            f" {totals.files} files"
            f" ({totals.size / 1e6:.1f} MB); {table} is at version {totals.version}"
            f" ({seconds:.1f} s)"
        )


def _progress(report: BatchReport) -> None:
    if report.skipped:
        _note(f"batch {report.batch_id}: the table has it already (version {report.version})")
    else:
        _note(
            f"batch {report.batch_id}: {report.rows:,} rows{_lost(report.lost)},"
            f" {report.size / 1e6:.1f} MB,"
            f" table version {report.version}"
        )


def _lost(offsets: int) -> str:
    return f" ({offsets:,} offsets lost to retention)" if offsets > 0 else ""


def _note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress and errors


if __name__ == "__main__":
    main()
