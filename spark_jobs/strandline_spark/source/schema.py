"""The columns of the source: those of Spark's Kafka source and the leader epoch of each record's
batch. On demand there are also the record's headers, and the producer's fields of the batch.

Spark compares the schema of an Arrow batch with its own field by field, nullability and time zone
included. So the two forms here must agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.types import StructType

HEADER_TYPE: Final[Any] = pa.struct([("key", pa.string()), ("value", pa.binary())])
TIMESTAMP_TYPE: Final[Any] = pa.timestamp("us", tz="UTC")
_ARROW: Final[dict[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP_TYPE,
    "timestampType": pa.int32(),
    "leaderEpoch": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER_TYPE)),
    "producerId": pa.int64(),
    "producerEpoch": pa.int32(),
    "baseSequence": pa.int32(),
}
HEADERS: Final = ("headers",)
BATCH_META: Final = ("producerId", "producerEpoch", "baseSequence")
PLAIN: Final = tuple(name for name in _ARROW if name not in HEADERS + BATCH_META)
"""The columns, unless the options ask for more or fewer."""


def column_names(*, include_headers: bool, include_batch_meta: bool) -> tuple[str, ...]:
    """Returns the columns in their one order."""
    return PLAIN + (HEADERS if include_headers else ()) + (BATCH_META if include_batch_meta else ())


def spark_schema(columns: Iterable[str]) -> StructType:
    """Returns the schema in Spark's form."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructType,
        TimestampType,
    )

    header = StructType().add("key", StringType()).add("value", BinaryType())
    kinds = {
        pa.binary(): BinaryType(),
        pa.string(): StringType(),
        pa.int32(): IntegerType(),
        pa.int64(): LongType(),
        TIMESTAMP_TYPE: TimestampType(),
        _ARROW["headers"]: ArrayType(header),
    }
    schema = StructType()
    for name in columns:
        schema = schema.add(name, kinds[_ARROW[name]])
    return schema


def arrow_schema(columns: Iterable[str]) -> Any:
    """Returns the same schema in Arrow's form."""
    return pa.schema([pa.field(name, _ARROW[name]) for name in columns])
