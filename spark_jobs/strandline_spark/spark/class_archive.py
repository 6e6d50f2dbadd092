"""A JVM that starts in half the time. The JVM maps Spark's classes as one archive, in place of
reading, parsing and verifying ten thousand of them (class data sharing, JEP 350).

`strandline-spark prepare` writes the archive once; sessions use it if it exists. A JVM of another
version or with other jars runs without it by itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from strandline_spark.errors import EnvironmentProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


_WRITE_SECONDS_MAX: Final = 900.0
"""Limit of the time in which a JVM writes 200 MB of classes, on a processor that it shares."""


def archive_path() -> str:
    """Returns the path of the archive for this machine's Java and this Spark; it need not exist."""
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    real = os.path.realpath(java or "java")
    with contextlib.suppress(OSError):
        real += f" {os.stat(real).st_mtime_ns}"
    what = f"{real} {pyspark.__version__} {os.path.realpath(_find_spark_home())}"
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    name = f"spark-{hashlib.sha256(what.encode()).hexdigest()[:16]}.jsa"
    return os.path.join(cache, "strandline", name)


def java_options() -> list[str]:
    """Returns the options for a driver's JVM on this machine."""
    path = archive_path()
    usable = ":" not in path and os.path.isfile(path)
    return [f"-XX:SharedArchiveFile={path}"] if usable else []


def prepare() -> str:
    """Writes the archive and returns its path. Raises EnvironmentProblem if Spark or the disk does
    not allow it.
    """
    from strandline_spark.spark.session import end_session, start_session

    path = archive_path()
    if ":" in path:
        raise EnvironmentProblem(
            f"the archive {path} would not be found: Java takes ':' in its path for the end of one;"
            " set XDG_CACHE_HOME to a folder without it"
        )
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        scratch = tempfile.mkdtemp(dir=os.path.dirname(path))
    except OSError as why:
        raise EnvironmentProblem(
            f"the archive {path} cannot be written ({why}): set XDG_CACHE_HOME to a folder that can"
        ) from why
    made = os.path.join(scratch, "classes.jsa")
    try:
        session = start_session(
            "strandline prepare",
            master="local[2]",
            memory="1g",
            log_path=os.path.join(scratch, "spark.log"),
            direct=True,
            java_options=[f"-XX:ArchiveClassesAtExit={made}"],
        )
        try:
            _exercise(session, scratch)
        finally:
            end_session(session, seconds_max=_WRITE_SECONDS_MAX)  # the JVM writes as it ends
        try:
            os.replace(made, path)
        except FileNotFoundError:
            raise EnvironmentProblem(
                f"Java wrote no archive of its classes to {scratch}: is there room for 200 MB, and"
                " is it a JVM that has class data sharing (OpenJDK 17 and later do)?"
            ) from None
        return path
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _exercise(session: SparkSession, scratch: str) -> None:
    """Makes the JVM load the classes of our jobs.

    It runs a stream from a Python source, collects micro-batches, aggregates in SQL, and writes and
    reads Parquet files.
    """
    session.dataSource.register(OneRow)

    def each(frame: Any, batch_id: int) -> None:
        frame.collect()

    query = (
        session.readStream.format(OneRow.name())
        .load()
        .writeStream.foreachBatch(each)
        .option("checkpointLocation", f"file://{scratch}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    files = f"file://{scratch}/rows"
    session.range(1000).selectExpr("id", "id % 7 AS key").write.parquet(files)
    session.read.option("__globPaths__", "false").parquet(files).createOrReplaceTempView("numbers")
    grouped = "SELECT key, count(*), percentile(id, 0.5) FROM numbers GROUP BY key ORDER BY key"
    session.sql(grouped).collect()


class OneRow(DataSource):
    """A stream of one row."""

    @classmethod
    def name(cls) -> str:
        return "strandline_one_row"

    def schema(self) -> str:
        return "n BIGINT"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _OneRowReader()


class _OneRowReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"n": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override] # as Spark calls it
        return {"n": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(end["n"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([(int(partition.value),)])
