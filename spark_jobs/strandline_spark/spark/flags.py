"""The flags of every command that starts Spark, and a session for one that runs no job."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


_DEFAULTS: Final = {"master": "local[2]", "worker_python": sys.executable, "memory": "1g"}


def add_spark(job: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    job.add_argument(
        "--master",
        default=_DEFAULTS["master"],
        help="Spark's master: local[N], or spark://HOST:PORT of a standalone cluster (default:"
        " local[2]); a task may fail four times",
    )
    job.add_argument(
        "--worker-python",
        metavar="PYTHON",
        default=_DEFAULTS["worker_python"],
        help="the interpreter of Spark's workers: a path, or a name on the PATH of each machine,"
        " this one included (default: the one that runs this command)",
    )
    job.add_argument(
        "--memory", default=_DEFAULTS["memory"], help="the driver's JVM heap (default: 1g)"
    )


def add_spark_if_used(command: argparse.ArgumentParser, when: str) -> None:
    """Adds the flags to a command that starts Spark only for some arguments; see
    `spark_flags_given` and `with_spark_flags`.
    """
    add_spark(command.add_argument_group(when))
    command.set_defaults(**dict.fromkeys(_DEFAULTS))


def spark_flags_given(arguments: argparse.Namespace) -> list[str]:
    """Returns the given flags of a command with `add_spark_if_used`."""
    return [
        f"--{name.replace('_', '-')}" for name in _DEFAULTS if getattr(arguments, name) is not None
    ]


def with_spark_flags(arguments: argparse.Namespace) -> argparse.Namespace:
    """Returns the arguments, with `add_spark`'s defaults for flags that were not given."""
    given = {name: getattr(arguments, name) for name in _DEFAULTS}
    filled = {name: value for name, value in given.items() if value is not None}
    return argparse.Namespace(**{**vars(arguments), **_DEFAULTS, **filled})


@contextlib.contextmanager
def local_session(arguments: argparse.Namespace, name: str) -> Iterator[SparkSession]:
    """Yields a session with these flags; Spark's log is a temporary file while it lives."""
    from strandline_spark.spark.session import (
        checked_master,
        checked_memory,
        end_session,
        start_session,
    )

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
