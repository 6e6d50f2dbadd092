"""A gold statement in Spark SQL: checked before anything is read, and run over closed windows.

The statement reads a view named `silver`: the rows of silver that belong to the windows which close
now, with `window_start` and `window_end`, a row once for each of its windows.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from strandline_spark.errors import OptionError, first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from strandline_spark.gold.watermark import GoldCommit, WindowKind

VIEW: Final = "silver"
WINDOW_COLUMNS: Final = ("window_start", "window_end")
_PLACE: Final = re.compile(r"line (\d+),? pos (\d+)")
_WHERE: Final = "[[gold]] {step}, key sql, line {line}"


def check_statement(
    spark: SparkSession, silver: StructType, statement: str, *, step: str, line: int
) -> StructType:
    """The columns that the statement gives over rows of silver's; nothing is read for it.

    `line` is where it begins in pipeline.toml. OptionError, with the step and the line, for one
    that does not compile or that leaves out the window's columns.
    """
    from pyspark.sql.types import StructField, StructType, TimestampType

    # `add` would change the caller's schema.
    added = [StructField(name, TimestampType()) for name in WINDOW_COLUMNS]
    columns = StructType([*silver.fields, *added])
    frame = _run(spark.createDataFrame([], columns), statement, step=step, line=line)
    missing = [name for name in WINDOW_COLUMNS if name not in frame.columns]
    if missing:
        raise OptionError(
            f"{_WHERE.format(step=step, line=line)}: the result has no {' and no '.join(missing)},"
            " so nobody could say which window a row is of; select both and group by them"
        )
    return frame.schema


def closed_windows(
    rows: DataFrame, kind: WindowKind, previous: int | None, commit: GoldCommit
) -> DataFrame:
    """The rows of silver that `commit` closes the windows of, once for each of those windows."""
    from pyspark.sql import functions as F

    held = rows.sparkSession.createDataFrame(
        [(tp.topic, tp.partition, end) for tp, end in sorted(commit.ends.items())],
        "topic string, partition int, held_end long",
    )
    time = F.unix_micros("event_time")
    last = time - F.pmod(time, F.lit(kind.slide))
    windows = -(-kind.size // kind.slide)
    back = F.explode(F.sequence(F.lit(0), F.lit(windows - 1))) if windows > 1 else F.lit(0)
    framed = (
        rows.join(F.broadcast(held), ["topic", "partition"])
        .where(F.col("offset") < F.col("held_end"))
        .withColumn("window_back", back)
        .withColumn("window_start", last - F.col("window_back") * F.lit(kind.slide))
        .withColumn("window_end", F.col("window_start") + F.lit(kind.size))
        .where((F.col("window_end") > time) & (F.col("window_end") <= F.lit(commit.watermark)))
    )
    if previous is not None:
        framed = framed.where(F.col("window_end") > F.lit(previous))
    for name in WINDOW_COLUMNS:
        framed = framed.withColumn(name, F.timestamp_micros(name))
    return framed.drop("held_end", "window_back")


def run_statement(windows: DataFrame, statement: str, *, step: str, line: int) -> DataFrame:
    """The statement over `closed_windows`."""
    return _run(windows, statement, step=step, line=line)


def _run(view: DataFrame, statement: str, *, step: str, line: int) -> DataFrame:
    """Spark resolves the view at once, so that the next step's may take its name."""
    from pyspark.errors import AnalysisException

    view.createOrReplaceTempView(VIEW)
    try:
        # In brackets only a query compiles: a command would be carried out here.
        return view.sparkSession.sql(f"SELECT * FROM (\n{statement}\n)")
    except AnalysisException as why:
        text = _PLACE.sub(
            lambda found: f"line {line + int(found[1]) - 2} pos {found[2]}", first_line(why)
        )
        raise OptionError(
            f"{_WHERE.format(step=step, line=line)}: the statement does not compile: {text}"
        ) from why
