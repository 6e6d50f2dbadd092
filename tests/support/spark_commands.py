"""Commands of `strandline-spark` one after the other in one process, with one JVM: each JVM
computes ten seconds until it has started and has compiled what a pipeline runs.

    python spark_commands.py PIPELINE COMMANDS    a list of command lines, each a list, as JSON

It ends with the status of the first command that fails. After the last it prints in one line what
`catalog_reader` says of the pipeline's tables.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

from strandline_spark.commands.main import main
from strandline_spark.pipeline import job
from strandline_spark.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def keep(ended: SparkSession) -> None:
    """The next command begins on the same JVM: `start_session` finds it."""


if __name__ == "__main__":
    catalog_reader: Any = importlib.import_module("catalog_reader")  # beside this program
    modules: tuple[Any, ...] = (session, job, catalog_reader)
    for module in modules:
        module.end_session = keep
    for command in json.loads(sys.argv[2]):
        try:
            main(command)
        except SystemExit as end:
            if end.code:
                raise
    catalog_reader.main(sys.argv[1], "duckdb", "spark")
