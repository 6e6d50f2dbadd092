"""`strandline bench`: one measure, its figures, and the facts needed to judge them."""

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from strandline_bench import baseline
from strandline_bench.console import options as console_options
from strandline_bench.group import options as group_options
from strandline_bench.kafka import options as kafka_options
from strandline_bench.log import options as log_options
from strandline_bench.options import Options, parse
from strandline_bench.report import Report
from strandline_bench.spark import options as spark_options
from strandline_bench.transactions import options as transactions_options

if TYPE_CHECKING:
    from strandline_bench.console.options import ConsoleOptions
    from strandline_bench.group.options import GroupOptions
    from strandline_bench.kafka.options import KafkaOptions
    from strandline_bench.log.options import LogOptions
    from strandline_bench.spark.options import SparkOptions
    from strandline_bench.transactions.options import TransactionsOptions

    AnyOptions = (
        Options
        | ConsoleOptions
        | LogOptions
        | GroupOptions
        | KafkaOptions
        | SparkOptions
        | TransactionsOptions
    )

ROOMS: Final = ("console", "group", "kafka", "log", "spark", "testing", "transactions")
"""Measures with a separate folder."""


def run(argv: Sequence[str]) -> int:
    """Run one benchmark; returns the exit status."""
    options = _parsed(argv)
    comparison = baseline.wanted(argv, as_json=options.as_json)
    if comparison is not None:
        baseline.run(comparison)
        return 0
    report = Report(as_json=options.as_json)
    report.environment(options)
    measure = importlib.import_module(f"strandline_bench.{module_of(options.measure)}")
    status: int | None = measure.run(options, report)
    return status or 0


def module_of(measure: str) -> str:
    """The module that runs a measure: `spark_age` is `age` in the folder of `spark`."""
    room, _, part = measure.partition("_")
    return f"{room}.{part or room}" if room in ROOMS else measure


def _parsed(argv: Sequence[str]) -> "AnyOptions":
    match argv[:1]:
        case ["log"]:
            return log_options.parse(argv[1:])
        case ["console"]:
            return console_options.parse(argv[1:])
        case ["group"]:
            return group_options.parse(argv[1:])
        case ["kafka"]:
            return kafka_options.parse(argv[1:])
        case ["spark"]:
            return spark_options.parse(argv[1:])
        case ["transactions"]:
            return transactions_options.parse(argv[1:])
        case _:
            return parse(argv)


if __name__ == "__main__":
    from strandline_runtime.grpc_experiments import without_event_engine

    without_event_engine()
    sys.exit(run(sys.argv[1:]))
