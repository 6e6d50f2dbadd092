"""The Spark session of our jobs: local unless asked otherwise, modest, and quiet.

The JVM is started before this process opens a gRPC channel: Spark starts it by a fork, which does
not go together with gRPC's threads. What the JVM and Spark's workers print goes to a log file, so
that a job's own output is what its user sees.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import EnvironmentProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

JAVA_VERSION_MIN: Final = 17
_LOG_CONFIGURATION: Final = os.path.join(os.path.dirname(__file__), "log4j2.properties")
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_JAVA_REMEDY: Final = (
    "install a Java 17 runtime (for instance: apt-get install default-jre-headless)"
    " or set JAVA_HOME to one"
)
# Large buffers are kept by the allocator: decoding a kilobyte record costs half of what it does
# when each buffer is mapped afresh.
_MALLOC: Final = {
    "MALLOC_MMAP_THRESHOLD_": "67108864",
    "MALLOC_TRIM_THRESHOLD_": "268435456",
}


def check_java() -> None:
    """Raises EnvironmentProblem, with the remedy, unless a fitting Java is there."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        where = f"in JAVA_HOME ({home})" if home else "on the PATH"
        raise EnvironmentProblem(f"Spark needs Java, and there is none {where}; {_JAVA_REMEDY}")
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as why:
        raise EnvironmentProblem(f"{java} does not run ({why}); {_JAVA_REMEDY}") from why
    found = _VERSION.search(answer.stderr + answer.stdout)
    if found is not None and int(found[1]) < JAVA_VERSION_MIN:
        raise EnvironmentProblem(f"{java} is Java {found[1]}, Spark needs 17; {_JAVA_REMEDY}")


def set_worker_environment() -> None:
    """Spark's workers must run this interpreter: with another they do not find the source."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    for name, value in _MALLOC.items():
        os.environ.setdefault(name, value)


@contextlib.contextmanager
def _output_to(path: str) -> Iterator[None]:
    """Standard output and error of processes started meanwhile go to the file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(fd, os.dup(fd)) for fd in (1, 2)]
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        for fd, _ in kept:
            os.dup2(log, fd)
        yield
    finally:
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(log)


def start_session(app_name: str, *, master: str, memory: str, log_path: str) -> SparkSession:
    """A session. Raises EnvironmentProblem if Java or Spark cannot be started."""
    check_java()
    set_worker_environment()
    os.makedirs(os.path.dirname(os.path.abspath(log_path)), exist_ok=True)
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app_name).master(master)
    for key, value in _configuration(master, memory).items():
        builder = builder.config(key, value)
    try:
        with _output_to(log_path):
            return builder.getOrCreate()
    except PySparkRuntimeError as why:
        raise EnvironmentProblem(f"Spark did not start; {log_path} says why ({why})") from why


def _configuration(master: str, memory: str) -> dict[str, str]:
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_LOG_CONFIGURATION}",
        "spark.pyspark.python": sys.executable,
        "spark.pyspark.driver.python": sys.executable,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.maxConcurrentOutputFileWriters": "64",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return settings
