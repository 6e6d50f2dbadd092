"""The flags of every command that starts Spark, and a session for one that runs no job."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def add_spark(job: argparse.ArgumentParser) -> None:
    job.add_argument(
        "--master",
        default="local[2]",
        help="Spark's master: local[N], or spark://HOST:PORT of a standalone cluster (default:"
        " local[2]); a task may fail four times",
    )
    job.add_argument(
        "--worker-python",
        metavar="PYTHON",
        default=sys.executable,
        help="the interpreter of Spark's workers: a path, or a name on the PATH of each machine,"
        " this one included (default: the one that runs this command)",
    )
    job.add_argument("--memory", default="1g", help="the driver's JVM heap (default: 1g)")


@contextlib.contextmanager
def local_session(arguments: argparse.Namespace, name: str) -> Iterator[SparkSession]:
    """A session as the flags ask for; Spark's log lies among the temporary files while it lives."""
    from strandline_spark.session import checked_master, checked_memory, end_session, start_session

    master, memory = checked_master(arguments.master), checked_memory(arguments.memory)
    with tempfile.TemporaryDirectory() as folder:
        spark = start_session(
            name,
            master=master,
            memory=memory,
            log_path=os.path.join(folder, "spark.log"),
            direct=True,
            worker_python=arguments.worker_python,
        )
        try:
            yield spark
        finally:
            end_session(spark)
