"""The conversion of Spark's Arrow batches into records: column by column, then row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa  # type: ignore[import-untyped]

from strandline_spark.errors import WriteFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from strandline.batches import Row
    from strandline.types import Headers

TIMESTAMP_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999, the same limit as in the client."""
_US_PER_MS: Final = 1000


class Rows:
    """The rows of one task, in order. The option `topic` overrides the column."""

    def __init__(self, topic: str | None) -> None:
        self._topic = topic
        self._count = 0

    def of(self, batch: Any, now_ms: int) -> Iterator[tuple[str, int | None, Row]]:
        """Yields (topic, partition or None, record) of each row; rows without a time get `now_ms`.

        Raises WriteFailed for a row that no record can hold.
        """
        columns = {name: batch.column(name) for name in batch.schema.names}
        size = batch.num_rows
        values = _bytes_of(columns["value"])
        keys = _bytes_of(columns["key"]) if "key" in columns else [None] * size
        topics = self._topics(columns, size)
        partitions = columns["partition"].to_pylist() if "partition" in columns else [None] * size
        headers = columns["headers"].to_pylist() if "headers" in columns else [None] * size
        times = _microseconds(columns["timestamp"]) if "timestamp" in columns else [None] * size
        for value, key, topic, partition, pairs, time_us in zip(
            values, keys, topics, partitions, headers, times, strict=True
        ):
            self._count += 1
            if topic is None:
                raise WriteFailed(
                    f"row {self._count} of the task has no topic: fill the column topic, or give"
                    " the option topic"
                )
            time_ms = now_ms if time_us is None else self._time_ms(time_us)
            row = (time_ms, key, value, self._headers(pairs) if pairs else ())
            yield topic, partition, row

    def _topics(self, columns: dict[str, Any], size: int) -> list[str | None]:
        if self._topic is not None:
            return [self._topic] * size
        found: list[str | None] = columns["topic"].to_pylist()
        return found

    def _time_ms(self, time_us: int) -> int:
        time_ms = time_us // _US_PER_MS
        if not 0 <= time_ms <= TIMESTAMP_MS_MAX:
            raise WriteFailed(
                f"row {self._count} of the task has the timestamp {time_ms} ms, and a record's is"
                f" one from 0 (1970) to {TIMESTAMP_MS_MAX} (9999): correct the column timestamp"
            )
        return time_ms

    def _headers(self, pairs: list[dict[str, Any] | None]) -> Headers:
        found = []
        for pair in pairs:
            if pair is None or pair["key"] is None:
                raise WriteFailed(
                    f"row {self._count} of the task has a header without a key: correct the column"
                    " headers"
                )
            found.append((pair["key"], pair["value"]))
        return tuple(found)


def _bytes_of(column: Any) -> list[bytes | None]:
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _microseconds(column: Any) -> list[int | None]:
    found: list[int | None] = column.cast(pa.int64()).to_pylist()
    return found
