"""`strandline bench`: one measure, its figures, and what one must know to judge them."""

import importlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from strandline_bench import group_options, log_options
from strandline_bench.options import Options, parse
from strandline_bench.report import Report

if TYPE_CHECKING:
    from strandline_bench.group_options import GroupOptions
    from strandline_bench.log_options import LogOptions


def run(argv: Sequence[str]) -> int:
    """Run one benchmark; the exit status."""
    options: Options | LogOptions | GroupOptions
    if argv[:1] == ["log"]:
        options = log_options.parse(argv[1:])
    elif argv[:1] == ["group"]:
        options = group_options.parse(argv[1:])
    else:
        options = parse(argv)
    report = Report(as_json=options.as_json)
    report.environment(options)
    importlib.import_module(f"strandline_bench.{options.measure}").run(options, report)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
