"""The columns of the source: those of Spark's Kafka source, and the leader epoch of each record's
batch.

Spark compares the schema of an Arrow batch with its own field by field, nullability and time zone
included, so the two forms here are one decision written twice.
"""

from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

_COLUMNS: Final = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT, leaderEpoch INT"
)
_HEADERS: Final = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"

HEADER_TYPE: Final[Any] = pa.struct([("key", pa.string()), ("value", pa.binary())])
TIMESTAMP_TYPE: Final[Any] = pa.timestamp("us", tz="UTC")


def spark_schema(*, include_headers: bool) -> str:
    """The schema as Spark DDL."""
    return f"{_COLUMNS}, {_HEADERS}" if include_headers else _COLUMNS


def arrow_schema(*, include_headers: bool) -> Any:
    """The same schema as Arrow's."""
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", TIMESTAMP_TYPE),
        pa.field("timestampType", pa.int32()),
        pa.field("leaderEpoch", pa.int32()),
    ]
    if include_headers:
        fields.append(pa.field("headers", pa.list_(pa.field("element", HEADER_TYPE))))
    return pa.schema(fields)
