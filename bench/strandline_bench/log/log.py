"""The log alone, part by part."""

import importlib
import tempfile
from pathlib import Path

from strandline_bench.log.options import LogOptions
from strandline_bench.report import Report


def run(options: LogOptions, report: Report) -> None:
    for part in options.only:
        with tempfile.TemporaryDirectory(prefix="strandline-bench-", dir=options.directory) as path:
            module = importlib.import_module(f"strandline_bench.log.{part}")
            module.run(options, report, Path(path))
