"""`strandline bench`: one measure, its figures, and what one must know to judge them."""

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strandline_bench import baseline, group_options, log_options, spark_options
from strandline_bench.options import Options, parse
from strandline_bench.report import Report

if TYPE_CHECKING:
    from strandline_bench.group_options import GroupOptions
    from strandline_bench.log_options import LogOptions
    from strandline_bench.spark_options import SparkOptions


def run(argv: Sequence[str]) -> int:
    """Run one benchmark; the exit status."""
    options: Options | LogOptions | GroupOptions | SparkOptions
    if argv[:1] == ["log"]:
        options = log_options.parse(argv[1:])
    elif argv[:1] == ["group"]:
        options = group_options.parse(argv[1:])
    elif argv[:1] == ["spark"]:
        options = spark_options.parse(argv[1:])
    else:
        options = parse(argv)
    comparison = baseline.wanted(argv, as_json=options.as_json)
    if comparison is not None:
        baseline.run(comparison)
        return 0
    report = Report(as_json=options.as_json)
    report.environment(options)
    measure = importlib.import_module(f"strandline_bench.{options.measure}")
    status: int | None = measure.run(options, report)
    return status or 0


if __name__ == "__main__":
    from strandline_runtime.grpc_experiments import without_event_engine

    without_event_engine()
    sys.exit(run(sys.argv[1:]))
