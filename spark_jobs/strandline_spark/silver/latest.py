"""The latest-by-key view of silver, as in a compacted topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.gold.silver import Silver
from strandline_spark.silver.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_RANK: Final = "the rank"
"""A name that no column of a Delta table can have."""


def latest(spark: SparkSession, path: str) -> DataFrame:
    """Returns the row with the greatest offset for each key of each partition, unless that is a
    tombstone.

    The result has the columns of silver, and a row for each exploded element of the record. Rows
    without a key are left out. Raises TableError.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    silver = Silver.open(path)
    rows = silver.all_rows(spark, silver.files).where(F.col("key").isNotNull())
    if silver.is_exploded:
        keys = Window.partitionBy("topic", "partition", "key").orderBy(F.desc("offset"))
        ranked = rows.withColumn(_RANK, F.rank().over(keys)).where(F.col(_RANK) == 1)
        elements: DataFrame = ranked.drop(_RANK).where(~F.col("tombstone"))
        return elements
    newest = rows.groupBy("topic", "partition", "key").agg(
        F.max_by(F.struct(*map(quoted, rows.columns)), "offset").alias("row")
    )
    found: DataFrame = newest.select("row.*").where(~F.col("tombstone"))
    return found
