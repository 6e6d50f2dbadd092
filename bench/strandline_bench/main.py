"""`strandline bench`: one measure, its figures, and what one must know to judge them."""

import importlib
import sys
from collections.abc import Sequence

from strandline_bench import log_options
from strandline_bench.options import parse
from strandline_bench.report import Report


def run(argv: Sequence[str]) -> int:
    """Run one benchmark; the exit status."""
    options = log_options.parse(argv[1:]) if argv[:1] == ["log"] else parse(argv)
    report = Report(as_json=options.as_json)
    report.environment(options)
    importlib.import_module(f"strandline_bench.{options.measure}").run(options, report)
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
