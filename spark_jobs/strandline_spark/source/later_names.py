"""The names of PySpark that its earliest supported versions lack, and stand-ins for these.

The stand-ins let the modules load. `check_stream_reads` and `check_stream_writes` come before their
use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from strandline_spark.spark_versions import (
    STREAM_READS_FROM,
    STREAM_WRITES_FROM,
    installed,
    parsed,
)

HAS_STREAM_READS: Final = parsed(installed()) >= STREAM_READS_FROM
HAS_STREAM_WRITES: Final = parsed(installed()) >= STREAM_WRITES_FROM

if TYPE_CHECKING or HAS_STREAM_READS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """A stand-in."""

    class ReadAllAvailable(ReadLimit):
        """A stand-in."""

    class ReadMaxRows(ReadLimit):
        """A stand-in."""

    class ReadMinRows(ReadLimit):
        """A stand-in."""

    class SupportsTriggerAvailableNow:
        """A stand-in."""


if TYPE_CHECKING or HAS_STREAM_WRITES:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceStreamWriter as DataSourceStreamArrowWriter

__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
]
