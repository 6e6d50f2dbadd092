"""The figures of a micro-batch in Spark's own progress of the query.

`StreamingQueryProgress.observedMetrics["strandline"]` has the figures of the batch, beside the
durations and the lag that Spark reports. The sums are over the manifests of the batch's tasks, so
they cost no pass over records. A Python source cannot report metrics in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.parsing.faults import Reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAME: Final = "strandline"
_PARSED: Final = (
    "from_json(silver, 'silver STRUCT<rows: BIGINT>, quarantine STRUCT<rows: BIGINT>,"
    " reasons MAP<STRING, BIGINT>')"
)


def observed(manifests: DataFrame, *, with_silver: bool) -> DataFrame:
    """Returns the streaming frame of manifests with the observation."""
    from pyspark.sql import functions as sql

    sums = {"rows": "rows", "bytes": "size", "lostOffsets": "lost"}
    if with_silver:
        sums |= {
            "silverRows": f"{_PARSED}.silver.rows",
            "quarantinedRows": f"{_PARSED}.quarantine.rows",
        }
    columns = [sql.expr(f"{_sum(one)} AS {name}") for name, one in sums.items()]
    if with_silver:
        pairs = ", ".join(f"'{one}', {_sum(f'{_PARSED}.reasons[{one.value!r}]')}" for one in Reason)
        columns.append(
            sql.expr(f"map_filter(map({pairs}), (reason, n) -> n > 0) AS quarantinedByReason")
        )
    return manifests.observe(NAME, *columns)


def _sum(expression: str) -> str:
    return f"coalesce(sum({expression}), 0)"
